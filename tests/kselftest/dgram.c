/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Datagrams: fi_domain(3), "Resource Management", DGRAM EP. A datagram is dropped if there is
 * neither a receive nor room to wait for one, or no endpoint that may have it. Its send still
 * succeeds.
 */
// conformance: fi_arch(7): endpoint types: FI_EP_DGRAM

#include "slow.h"
#include "treadle.h"

#define DGRAM                            \
	(struct options)                 \
	{                                \
		.type = TREADLE_EP_DGRAM \
	}

static char in[TREADLE_MAX_DGRAM], out[TREADLE_MAX_DGRAM];

static int sent(struct node *n)
{
	return cq_next(&n->cq).error;
}

// conformance: ioctl.h: EMSGSIZE: longer than TREADLE_MAX_DGRAM
TEST(a_datagram_comes_if_a_receive_is_posted)
{
	static const size_t lengths[] = {0, 1, 64, 4096, 4097, TREADLE_MAX_DGRAM};
	struct node a, b;
	struct treadle_cqe c;
	__u64 to;

	node_open(&a, DGRAM);
	node_open(&b, DGRAM);
	to = peer(&a, b.addr);
	for (int i = 0; i < ARRAY_SIZE(lengths); i++) {
		fill(out, lengths[i], i);
		ASSERT_EQ(0, post_recv(&b, recv_of(in, lengths[i], ANY, i)));
		ASSERT_EQ(1, post(&a, send_of(out, lengths[i], to, i)));
		EXPECT_EQ(0, sent(&a));
		c = cq_next(&b.rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(lengths[i], c.len);
		EXPECT_TRUE(same(in, lengths[i], i));
	}
	/* The same tagged. A datagram that matches no receive waits. */
	ASSERT_EQ(0, post_recv(&b, trecv_of(in, 8, ANY, 5, 0, 1)));
	ASSERT_EQ(1, post(&a, tsend_of(out, 8, to, 6, 1)));
	EXPECT_EQ(0, sent(&a));
	ASSERT_EQ(1, post(&a, tsend_of(out, 8, to, 5, 1)));
	EXPECT_EQ(0, sent(&a));
	EXPECT_EQ(0, cq_next(&b.rcq).error);
	EXPECT_TRUE(ring_needs_doorbell(&b.rx));
	ASSERT_EQ(0, post_recv(&b, trecv_of(in, 8, ANY, 6, 0, 1)));
	EXPECT_EQ(0, cq_next(&b.rcq).error);
	EXPECT_FALSE(ring_needs_doorbell(&b.rx));
	EXPECT_EQ(-EMSGSIZE, post(&a, send_of(out, TREADLE_MAX_DGRAM + 1, to, 1)));
}

/* The room for waiting messages is the bytes that were asked for, with the kernel's headers. */
// conformance: fi_domain(3): resource management: DGRAM, no Rx buffer at the target EP: the message
//   waits while the receiver's budget has room, and is dropped beyond it
TEST(a_datagram_without_room_is_dropped)
{
	const __u32 room = 4 * TREADLE_MAX_DGRAM;
	struct treadle_desc d;
	struct treadle_cqe c;
	struct node a, b;
	__u64 to, kept = 0;

	node_open(&a, DGRAM);
	node_open(&b, (struct options){.type = TREADLE_EP_DGRAM, .buffered = room});
	to = peer(&a, b.addr);
	for (int i = 0; i < 100; i++) {
		fill(out, TREADLE_MAX_DGRAM, i);
		d = send_of(out, i % 2 ? 64 : TREADLE_MAX_DGRAM, to, i);
		if (i % 4 == 1)
			d.flags |= TREADLE_F_INJECT;
		ASSERT_EQ(1, post(&a, d));
		EXPECT_EQ(0, sent(&a));
	}
	EXPECT_TRUE(cntr_becomes(&a.sent, 100, 0));
	/* The datagrams that had room come whole and in order, without a gap at the start. */
	for (int i = 0;; i++) {
		ASSERT_EQ(0, post_recv(&b, recv_of(in, sizeof(in), ANY, i)));
		if (cq_wait(&b.rcq, 0) == -EAGAIN)
			break;
		c = cq_next(&b.rcq);
		EXPECT_EQ(0, c.error);
		if (i < 6) {
			EXPECT_EQ(i % 2 ? 64 : TREADLE_MAX_DGRAM, c.len);
			EXPECT_TRUE(same(in, c.len, i));
		}
		kept += c.len;
	}
	EXPECT_LE(3 * TREADLE_MAX_DGRAM, kept);
	EXPECT_GE(room, kept);
	fill(out, 64, 7);
	ASSERT_EQ(1, post(&a, send_of(out, 64, to, 1)));
	EXPECT_EQ(0, cq_next(&b.rcq).error);
	EXPECT_TRUE(same(in, 64, 7));
}

// conformance: fi_domain(3): resource management: DGRAM, no Rx buffer at the target EP: the ...
TEST(a_datagram_without_a_target_is_dropped)
{
	struct treadle_addr foreign = loopback(7);
	struct node a, rdm, dead;
	__u64 to[4];

	memcpy(foreign.addr, "\xc0\x00\x02\x01", 4);
	node_open(&a, DGRAM);
	node_open(&rdm, (struct options){0});
	node_open(&dead, DGRAM);
	to[0] = peer(&a, loopback(1));
	to[1] = peer(&a, foreign);
	to[2] = peer(&a, rdm.addr); /* an endpoint of another type */
	to[3] = peer(&a, dead.addr);
	ASSERT_EQ(0, destroy(dead.fd, dead.ep));
	ASSERT_EQ(0, post_recv(&rdm, recv_of(in, 8, ANY, 1)));
	for (int i = 0; i < 4; i++) {
		about("peer %d", i);
		ASSERT_EQ(1, post(&a, send_of(out, 8, to[i], 1)));
		EXPECT_EQ(0, sent(&a));
	}
	EXPECT_EQ(-EAGAIN, cq_wait(&rdm.rcq, 0));
	EXPECT_EQ(-EDESTADDRREQ, post(&a, send_of(out, 8, 99, 1)));
	/* A reliable endpoint gets an error, as no endpoint of its type is there. */
	ASSERT_EQ(1, post(&rdm, send_of(out, 8, peer(&rdm, a.addr), 1)));
	EXPECT_EQ(ECONNREFUSED, sent(&rdm));
}

// conformance: ioctl.h: EOPNOTSUPP: not for endpoints of this type
TEST(the_sender_gets_its_own_errors_only)
{
	struct treadle_desc d;
	struct treadle_cqe c;
	struct node a, b;
	__u64 to;

	node_open(&a, DGRAM);
	node_open(&b, DGRAM);
	to = peer(&a, b.addr);
	/* Errors of the receiver: a buffer that is too short, and a bad one. */
	ASSERT_EQ(0, post_recv(&b, recv_of(in, 8, ANY, 1)));
	ASSERT_EQ(1, post(&a, send_of(out, 64, to, 1)));
	EXPECT_EQ(0, sent(&a));
	c = cq_next(&b.rcq);
	EXPECT_EQ(TREADLE_ETRUNC, c.error);
	EXPECT_EQ(56, c.olen);
	ASSERT_EQ(0, post_recv(&b, recv_of((void *)PAGE, 64, ANY, 1)));
	ASSERT_EQ(1, post(&a, send_of(out, 64, to, 1)));
	EXPECT_EQ(0, sent(&a));
	EXPECT_EQ(EFAULT, cq_next(&b.rcq).error);
	/* Errors of the sender. */
	ASSERT_EQ(0, post_recv(&b, recv_of(in, 64, ANY, 1)));
	ASSERT_EQ(1, post(&a, send_of((void *)PAGE, 64, to, 1)));
	EXPECT_EQ(EFAULT, sent(&a));
	d = send_of(out, 8, to, 1);
	d.flags |= TREADLE_F_DELIVERY_COMPLETE;
	EXPECT_EQ(-EOPNOTSUPP, post(&a, d));
}

static void another_user(void *arg)
{
	struct node n;

	need(setresuid(1000, 1000, 1000) == 0);
	node_open(&n, DGRAM);
	need(post(&n, send_of(out, 8, peer(&n, *(struct treadle_addr *)arg), 1)) == 1);
	need(sent(&n) == 0);
}

TEST(a_datagram_without_permission_is_dropped)
{
	struct node n;

	node_open(&n, DGRAM);
	ASSERT_EQ(0, post_recv(&n, recv_of(in, 8, ANY, 1)));
	EXPECT_EQ(0, reap(spawn(another_user, &n.addr)));
	EXPECT_EQ(-EAGAIN, cq_wait(&n.rcq, 0));
}

/*
 * A send that another context fires keeps its place while its page is missing: fi_endpoint(3),
 * FI_ORDER_SAS.
 */
TEST(a_fired_send_with_a_slow_page_is_not_overtaken)
{
	char *slow = pages(PAGE);
	int fd = slow_pages(slow, PAGE);
	struct treadle_cqe c;
	struct node a, b;
	__u64 to;

	node_open(&a, DGRAM);
	node_open(&b, DGRAM);
	to = peer(&a, b.addr);
	fill(out, 64, 2);
	ASSERT_EQ(1, post(&a, when(send_of(slow, 64, to, 1), &a.rcvd, 1)));
	ASSERT_EQ(1, post(&a, when(send_of(out, 64, to, 2), &a.rcvd, 1)));
	ASSERT_EQ(1, post(&a, when(send_of(out, 32, to, 5), &a.rcvd, 1)));
	ASSERT_EQ(0, post_recv(&a, recv_of(in, 8, ANY, 3)));
	ASSERT_EQ(1, post(&b, send_of(out, 8, peer(&b, a.addr), 4)));
	EXPECT_EQ(0, sent(&b));
	EXPECT_EQ(3, cq_next(&a.rcq).context);
	EXPECT_EQ((unsigned long)slow, page_asked_for(fd));
	ASSERT_EQ(0, post_recv(&b, recv_of(in, 64, ANY, 6)));
	put_page_at(fd, (unsigned long)slow, 1);
	for (int i = 0; i < 3; i++) {
		c = cq_next(&b.rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(i == 2 ? 32 : 64, c.len);
		EXPECT_TRUE(same(in, c.len, i ? 2 : 1));
		EXPECT_EQ(0, sent(&a));
		ASSERT_EQ(0, post_recv(&b, recv_of(in, 64, ANY, 6)));
	}
	close(fd);
	munmap(slow, PAGE);
}

TEST_HARNESS_MAIN
