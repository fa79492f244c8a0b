/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Peers that are removed from an address vector while something is on its way to them, or armed,
 * and their index gets another peer. An index is looked up when its command is submitted, and not
 * again.
 */
#include "triggers.h"

#define LARGE 300000

FIXTURE(removed)
{
	struct node a, b, c; /* @b is removed from the addresses of @a, and @c takes its place */
	__u64 to;
	struct cntr go;
	char *src, *dst;
};

FIXTURE_SETUP(removed)
{
	node_open(&self->a, (struct options){.flags = TREADLE_EP_SOURCE});
	node_open(&self->b, (struct options){.buffered = 16384});
	node_open(&self->c, (struct options){});
	self->to = peer(&self->a, self->b.addr);
	cntr_open(&self->go, self->a.fd);
	self->src = pages(LARGE);
	self->dst = pages(LARGE);
	fill(self->src, LARGE, 1);
}

FIXTURE_TEARDOWN(removed)
{
	EXPECT_TRUE(nothing_is_left(&self->a, &self->b));
	EXPECT_TRUE(cq_empty(&self->c.rcq));
	EXPECT_FALSE(ring_needs_doorbell(&self->c.rx));
}

typedef FIXTURE_DATA(removed) removed;

static void replace(struct __test_metadata *_metadata, removed *self)
{
	ASSERT_EQ(0, av_remove(self->a.fd, self->a.av, &self->to, 1));
	ASSERT_EQ(-EDESTADDRREQ, post(&self->a, send_of(self->src, 8, self->to, 99)));
	ASSERT_EQ(self->to, peer(&self->a, self->c.addr));
}

static void go(removed *self)
{
	need(post(&self->a, count_of(TREADLE_OP_CNTR_ADD, &self->go, 1, 0)) == 1);
}

/*
 * Large messages wait at the receiver. Behind them wait an injected message and one with a fence.
 */
// conformance: ioctl.h: EDESTADDRREQ: no such entry in the address vector
TEST_F(removed, a_waiting_message_is_still_for_its_peer)
{
	struct treadle_desc d;

	for (int i = 0; i < 2; i++)
		ASSERT_EQ(1, post(&self->a, send_of(self->src, LARGE, self->to, i)));
	d = send_of(self->src, 64, self->to, 2);
	d.flags |= TREADLE_F_INJECT;
	ASSERT_EQ(1, post(&self->a, d));
	d = send_of(self->src, 64, self->to, 3);
	d.flags |= TREADLE_F_FENCE;
	ASSERT_EQ(1, post(&self->a, d));
	replace(_metadata, self);
	for (int i = 0; i < 4; i++) {
		struct treadle_cqe e;

		memset(self->dst, 0, LARGE);
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, LARGE, ANY, i)));
		e = cq_next(&self->b.rcq);
		EXPECT_EQ(0, e.error);
		EXPECT_EQ(i, e.context);
		EXPECT_EQ(i < 2 ? LARGE : 64, e.len);
		EXPECT_TRUE(same(self->dst, e.len, 1));
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	/* A command that is submitted from now on goes to the new peer. */
	ASSERT_EQ(0, post_recv(&self->c, recv_of(self->dst, 8, ANY, 7)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, self->to, 8)));
	EXPECT_EQ(7, cq_next(&self->c.rcq).context);
	EXPECT_EQ(8, cq_next(&self->a.cq).context);
}

/*
 * If the index is not used again, a message to the removed peer can be canceled, and ends with the
 * peer.
 */
TEST_F(removed, a_waiting_message_ends_with_its_peer)
{
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(1, post(&self->a, send_of(self->src, LARGE, self->to, i)));
	ASSERT_EQ(0, av_remove(self->a.fd, self->a.av, &self->to, 1));
	EXPECT_EQ(0, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 0, 0, NULL));
	EXPECT_EQ(ECANCELED, cq_next(&self->a.cq).error);
	ASSERT_EQ(0, destroy(self->b.fd, self->b.ep));
	EXPECT_EQ(ECONNRESET, cq_next(&self->a.cq).error);
}

TEST_F(removed, an_armed_command_goes_to_its_first_peer)
{
	struct treadle_desc d = send_of(self->src, 64, self->to, 3);
	__u64 key = 0;
	__u32 id;

	ASSERT_EQ(0, mr(self->b.fd, self->dst + 4096, 4096, TREADLE_ACCESS_REMOTE_WRITE,
			TREADLE_MR_KERNEL_KEY, &key, &id));
	ASSERT_EQ(1, post(&self->a, when(send_of(self->src, 64, self->to, 1), &self->go, 1)));
	ASSERT_EQ(1,
		  post(&self->a, when(write_of(self->src, 64, self->to, 0, key, 2), &self->go, 1)));
	d = when(d, &self->go, 2);
	d.flags |= TREADLE_F_WORK | TREADLE_F_REPEAT;
	d.flags &= ~TREADLE_F_COMPLETION;
	d.value = 1;
	ASSERT_EQ(1, post(&self->a, d));
	replace(_metadata, self);
	for (int i = 1; i <= 4; i++) {
		memset(self->dst, 0, 64);
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 64, ANY, i)));
		go(self);
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
		EXPECT_TRUE(same(self->dst, 64, 1));
	}
	EXPECT_TRUE(same(self->dst + 4096, 64, 1));
	for (int i = 1; i <= 2; i++) {
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	EXPECT_EQ(0, cancel(self->a.fd, TREADLE_FLUSH_WORK, self->go.id, 0, 0, NULL));
}

/*
 * A directed receive keeps the source that its index meant when it was posted: one taken off the
 * ring, and armed ones.
 */
TEST_F(removed, receives_keep_their_source)
{
	__u64 from_b = peer(&self->b, self->a.addr), from_c = peer(&self->c, self->a.addr);
	struct treadle_desc d = trecv_of(self->dst, 8, self->to, 5, 0, 3);

	ASSERT_EQ(0, post_recv(&self->a, recv_of(self->dst, 8, self->to, 1)));
	ASSERT_EQ(0, ring_doorbell(&self->a.rx));
	ASSERT_EQ(1, post(&self->a, when(recv_of(self->dst, 8, self->to, 2), &self->go, 1)));
	d.flags |= TREADLE_F_COLLECTIVE;
	ASSERT_EQ(1, post(&self->a, when(d, &self->go, 1)));
	replace(_metadata, self);
	go(self);
	/* It does not take the new peer's messages. */
	ASSERT_EQ(1, post(&self->c, send_of(self->src, 8, from_c, 10)));
	d = tsend_of(self->src, 8, from_c, 5, 11);
	d.flags |= TREADLE_F_COLLECTIVE;
	ASSERT_EQ(1, post(&self->c, d));
	for (int i = 10; i <= 11; i++) {
		EXPECT_EQ(i, cq_next(&self->c.cq).context);
	}
	EXPECT_TRUE(cq_empty(&self->a.rcq));
	for (int i = 1; i <= 3; i++) {
		struct treadle_cqe e;

		d = i < 3 ? send_of(self->src, 8, from_b, i) : tsend_of(self->src, 8, from_b, 5, i);
		d.flags |= i < 3 ? 0 : TREADLE_F_COLLECTIVE;
		ASSERT_EQ(1, post(&self->b, d));
		ASSERT_EQ(0, cq_wait(&self->a.rcq, PATIENCE_NS / 10));
		e = cq_next(&self->a.rcq);
		EXPECT_EQ(i, e.context);
		EXPECT_EQ(0, e.error);
		EXPECT_EQ(ANY, e.src); /* the source has no entry any more */
		EXPECT_EQ(i, cq_next(&self->b.cq).context);
	}
	/* A receive that is posted now is for the new peer. */
	ASSERT_EQ(0, post_recv(&self->a, recv_of(self->dst, 8, self->to, 4)));
	ASSERT_EQ(0, ring_doorbell(&self->a.rx));
	EXPECT_EQ(4, cq_next(&self->a.rcq).context);
}

TEST_HARNESS_MAIN
