/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Unexpected messages: they are kept at the target, or wait at their sender, and are received later
 * in the order in which they were sent.
 */
#include "slow.h"
#include "treadle.h"

FIXTURE(kept)
{
	struct node a, b;
	__u64 to;
	char *src, *dst;
	size_t size;
};

FIXTURE_SETUP(kept)
{
	node_open(&self->a, (struct options){.tx = 256, .cq = 1024});
	node_open(&self->b, (struct options){.rx = 256, .rcq = 1024, .buffered = 16384});
	self->to = peer(&self->a, self->b.addr);
	self->size = 64UL << 20;
	self->src = pages(self->size);
	self->dst = pages(self->size);
}

FIXTURE_TEARDOWN(kept)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
}

/* Sends until commands no longer complete: from then on they wait for room at the target. */
// conformance: fi_domain(3): resource management: target EP without an Rx buffer: the message is
//   copied within the budget, else it is parked, and those behind it wait
TEST_F(kept, a_full_buffer_parks_senders)
{
	const int count = 200, len = 500;
	struct treadle_cqe c;
	int completed = 0;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < count; i++) {
			fill(self->src + i * len, len, round * count + i);
			ASSERT_EQ(1,
				  post(&self->a, send_of(self->src + i * len, len, self->to, i)));
		}
		/* A message without room is not complete, and its slot not free. */
		for (completed = 0; cq_poll(&self->a.cq, &c); completed++) {
			ASSERT_EQ(completed, c.context);
		}
		EXPECT_LT(0, completed);
		EXPECT_GE(16384 / len, completed);
		EXPECT_EQ(round * count + completed, ring_released(&self->a.tx));
		for (int i = 0; i < count; i++) {
			ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, len, ANY, i)));
			c = cq_next(&self->b.rcq);
			ASSERT_EQ(i, c.context);
			ASSERT_EQ(0, c.error);
			about("message %d", i);
			ASSERT_TRUE(same(self->dst, len, round * count + i));
		}
		for (; completed < count; completed++) {
			c = cq_next(&self->a.cq);
			ASSERT_EQ(0, c.error);
		}
		ring_wait(&self->a.tx, 256);
	}
}

/* Not even a small message overtakes one that waits. */
// conformance: fi_domain(3): resource management: target EP without an Rx buffer: the message ...
TEST_F(kept, nothing_overtakes_a_parked_message)
{
	static const size_t sizes[] = {100000, 8, 5000, 0, 3000, 1 << 20, 1, 100, 70000, 16};

	for (int late = 0; late < 2; late++) {
		for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
			fill(self->src + (i << 20), sizes[i], i + late * 100);
			ASSERT_EQ(1, post(&self->a,
					  send_of(self->src + (i << 20), sizes[i], self->to, i)));
		}
		for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
			ASSERT_EQ(0, post_recv(&self->b,
					       recv_of(self->dst + (i << 20), 1 << 20, ANY, i)));
		}
		for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct treadle_cqe c = cq_next(&self->b.rcq);

			EXPECT_EQ(0, c.error);
			about("receive %llu", c.context);
			EXPECT_EQ(sizes[c.context], c.len);
			EXPECT_EQ(0, cq_next(&self->a.cq).error);
		}
		for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
			about("%d", i);
			EXPECT_TRUE(same(self->dst + (i << 20), sizes[i], i + late * 100));
		}
	}
}

/* The kernel reads the buffer of a large message when it is received, not before. */
TEST_F(kept, a_large_message_stays_with_its_sender)
{
	fill(self->src, self->size, 1);
	ASSERT_EQ(1, post(&self->a, send_of(self->src, self->size, self->to, 1)));
	EXPECT_EQ(-ETIMEDOUT, cq_wait(&self->a.cq, 50000000));
	EXPECT_EQ(0, cntr_value(&self->a.sent));
	EXPECT_EQ(0, ring_released(&self->a.tx));
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, self->size, ANY, 2)));
	EXPECT_EQ(self->size, cq_next(&self->b.rcq).len);
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	EXPECT_EQ(self->size, differs(self->dst, self->size, 1));
	ring_wait(&self->a.tx, 256); /* after the completion */
	EXPECT_EQ(1, ring_released(&self->a.tx));
}

TEST_F(kept, injected_ones_are_kept_though_the_buffer_is_full)
{
	const int count = 100, len = 1000;

	for (int i = 0; i < count; i++) {
		struct treadle_desc d = send_of(self->src, len, self->to, i);

		d.flags |= TREADLE_F_INJECT;
		fill(self->src, len, i);
		ASSERT_EQ(1, post(&self->a, d));
		memset(self->src, 0, len);
	}
	for (int i = 0; i < count; i++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, len, ANY, i)));
		ASSERT_EQ(i, cq_next(&self->b.rcq).context);
		about("message %d", i);
		ASSERT_TRUE(same(self->dst, len, i));
		ASSERT_EQ(0, cq_next(&self->a.cq).error);
	}
}

/*
 * The flag that makes receives need a doorbell is set exactly while there are unmatched messages.
 */
TEST_F(kept, the_ring_says_when_a_doorbell_is_needed)
{
	EXPECT_FALSE(ring_needs_doorbell(&self->b.rx));
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(1, post(&self->a, send_of(self->src, 10, self->to, i)));
		EXPECT_TRUE(ring_needs_doorbell(&self->b.rx));
	}
	for (int i = 0; i < 3; i++) {
		EXPECT_TRUE(ring_needs_doorbell(&self->b.rx));
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 10, ANY, i)));
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
		EXPECT_EQ(i, cq_next(&self->a.cq).context);
	}
	EXPECT_FALSE(ring_needs_doorbell(&self->b.rx));
	/* Posted receives need no doorbell: the next sender takes them off the ring. */
	for (int i = 0; i < 3; i++) {
		struct treadle_desc d = recv_of(self->dst, 10, ANY, i);

		ring_put(&self->b.rx, &d);
		ring_publish(&self->b.rx);
		EXPECT_FALSE(ring_needs_doorbell(&self->b.rx));
	}
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(1, post(&self->a, send_of(self->src, 10, self->to, i)));
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
		EXPECT_EQ(i, cq_next(&self->a.cq).context);
	}
}

/* An injected send without a completion has no context of its own: fi_endpoint(3), fi_cancel. */
// conformance: fi_endpoint(3): fi_cancel: one operation, by its context; operations without a ...
TEST_F(kept, an_injected_send_without_completion_is_not_found_by_context)
{
	const int count = 250, named = 240; /* then they wait at the target */
	struct treadle_cqe c;

	for (int i = 0; i < count; i++) {
		struct treadle_desc send = send_of(self->src, 64, self->to, 7);

		send.flags |= TREADLE_F_INJECT | TREADLE_F_DELIVERY_COMPLETE;
		if (i != named)
			send.flags &= ~TREADLE_F_COMPLETION;
		ASSERT_EQ(1, post(&self->a, send));
	}
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_EQ(0, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 7, 0, NULL));
	c = cq_next(&self->a.cq);
	EXPECT_EQ(7, c.context);
	EXPECT_EQ(ECANCELED, c.error);
	EXPECT_EQ(-ENOENT, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 7, 0, NULL));
	for (int i = 0; i < count - 1; i++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 64, ANY, i)));
		c = cq_next(&self->b.rcq);
		EXPECT_EQ(i, c.context);
		EXPECT_EQ(0, c.error);
	}
}

TEST_HARNESS_MAIN
