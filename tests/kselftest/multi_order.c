/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A buffer for several messages is posted while messages wait: its last message is reported before
 * the first one of the next buffer, even if another message comes just then. Nothing promises that
 * (FI_ORDER_NONE), but programs count messages.
 */
// conformance: fi_cq(3): completion flag FI_MULTI_RECV: with the last message, or alone if no ...

#include "slow.h"
#include "treadle.h"

#define SIZE 1024
#define EACH 64

static struct treadle_desc buffer_of(char *buf, int which)
{
	struct treadle_desc d = recv_of(buf + which * EACH * SIZE, EACH * SIZE, ANY, which);

	d.flags |= TREADLE_F_MULTI_RECV;
	d.data = SIZE;
	return d;
}

/* Posts a buffer without a doorbell, which is needed, as messages wait. */
static void put_buffer(struct node *n, struct treadle_desc d)
{
	ring_put(&n->rx, &d);
	ring_publish(&n->rx);
	need(ring_needs_doorbell(&n->rx));
}

static void come(struct node *from, __u64 to, char *src, int count)
{
	while (count--) {
		need(post(from, send_of(src, SIZE, to, 1)) == 1);
		need(!cq_next(&from->cq).error);
	}
}

TEST(one_buffer_ends_before_the_next_is_reported)
{
	char *src = pages(SIZE), *dst = pages(2 * EACH * SIZE);
	struct node a, b;
	__u64 to;

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	to = peer(&a, b.addr);
	memset(dst, 1, 2 * EACH * SIZE);
	for (int round = 0; round < 50; round++) {
		about("round %d", round);
		come(&a, to, src, 2 * EACH - 1);
		put_buffer(&b, buffer_of(dst, 0));
		come(&a, to, src, 1);
		EXPECT_EQ(0, ring_doorbell(&b.rx));
		put_buffer(&b, buffer_of(dst, 1));
		EXPECT_EQ(0, ring_doorbell(&b.rx));
		for (int i = 0; i < 2 * EACH; i++) {
			struct treadle_cqe c = cq_next(&b.rcq);

			ASSERT_EQ(0, c.error);
			ASSERT_EQ(i / EACH, c.context);
			ASSERT_EQ(i % EACH == EACH - 1, !!(c.flags & TREADLE_CQ_MULTI_RECV));
		}
	}
	close(a.fd);
	close(b.fd);
}

TEST_HARNESS_MAIN
