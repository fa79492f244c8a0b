/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Matching: which message meets which receive, in which order, and what
 * becomes of messages that nobody waits for.
 */
#include "treadle.h"

#define ROOM 4096 /* of a message's or a receive's buffer */

FIXTURE(match)
{
	struct node a, a2, b; /* two senders, one receiver, each with a context of its own */
	__u64 to, to2;
	__u64 from, from2;
	char *src, *dst; /* ROOM bytes for each context number */
};

FIXTURE_VARIANT(match)
{
	__u8 send, recv;
	bool late; /* receives are posted after the messages came */
};

/* clang-format off */
FIXTURE_VARIANT_ADD(match, plain) { TREADLE_OP_SEND, TREADLE_OP_RECV };
FIXTURE_VARIANT_ADD(match, plain_unexpected) { TREADLE_OP_SEND, TREADLE_OP_RECV, true };
FIXTURE_VARIANT_ADD(match, tagged) { TREADLE_OP_TSEND, TREADLE_OP_TRECV };
FIXTURE_VARIANT_ADD(match, tagged_unexpected) { TREADLE_OP_TSEND, TREADLE_OP_TRECV, true };
/* clang-format on */

FIXTURE_SETUP(match)
{
	node_open(&self->a, (struct options){});
	node_open(&self->a2, (struct options){});
	node_open(&self->b, (struct options){.flags = TREADLE_EP_SOURCE});
	self->to = peer(&self->a, self->b.addr);
	self->to2 = peer(&self->a2, self->b.addr);
	self->from = peer(&self->b, self->a.addr);
	self->from2 = peer(&self->b, self->a2.addr);
	self->src = pages(64 * ROOM);
	self->dst = pages(64 * ROOM);
}

FIXTURE_TEARDOWN(match)
{
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	EXPECT_TRUE(cq_empty(&self->b.cq));
	EXPECT_TRUE(cq_empty(&self->a.rcq));
}

/* A play: messages that are sent and receives that are posted, each in this order. */
struct message {
	bool second; /* by a2 */
	__u64 tag;
};

struct receive {
	bool directed, second;
	__u64 tag, ignore;
	int gets; /* which message */
};

static void play(struct __test_metadata *_metadata, FIXTURE_DATA(match) * self,
		 const FIXTURE_VARIANT(match) * variant, const struct message *m, int messages,
		 const struct receive *r, int receives)
{
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; turn == variant->late && i < receives; i++) {
			struct treadle_desc d = recv_of(self->dst + i * ROOM, ROOM, ANY, 100 + i);

			d.opcode = variant->recv;
			if (r[i].directed)
				d.peer = r[i].second ? self->from2 : self->from;
			if (variant->recv == TREADLE_OP_TRECV) {
				d.tag = r[i].tag;
				d.ignore = r[i].ignore;
			}
			ASSERT_EQ(0, post_recv(&self->b, d));
		}
		for (int i = 0; turn != variant->late && i < messages; i++) {
			struct node *from = m[i].second ? &self->a2 : &self->a;
			struct treadle_desc d =
				send_of(self->src + i * ROOM, 1 + i * 60, 0, 200 + i);

			d.opcode = variant->send;
			d.peer = m[i].second ? self->to2 : self->to;
			if (variant->send == TREADLE_OP_TSEND)
				d.tag = m[i].tag;
			fill(self->src + i * ROOM, 1 + i * 60, i);
			ASSERT_EQ(1, post(from, d));
		}
	}
	for (int i = 0; i < receives; i++) {
		struct treadle_cqe c = cq_next(&self->b.rcq);
		int n = c.context - 100, got = r[n].gets;

		ASSERT_LE(0, n);
		ASSERT_GT(receives, n);
		EXPECT_EQ(0, c.error);
		about("receive %d got another message than %d", n, got);
		EXPECT_EQ(1 + got * 60, c.len);
		EXPECT_TRUE(same(self->dst + n * ROOM, 1 + got * 60, got));
		EXPECT_EQ(m[got].second ? self->from2 : self->from, c.src);
		if (variant->send == TREADLE_OP_TSEND)
			EXPECT_EQ(m[got].tag, c.tag);
	}
	for (int i = 0; i < messages; i++) {
		EXPECT_EQ(0, cq_next(m[i].second ? &self->a2.cq : &self->a.cq).error);
	}
}

#define PLAY(m, r) play(_metadata, self, variant, m, ARRAY_SIZE(m), r, ARRAY_SIZE(r))

TEST_F(match, first_come_first_served)
{
	static const struct message m[] = {{}, {}, {true}, {}, {true}, {}};
	static const struct receive r[] = {{.gets = 0}, {.gets = 1}, {.gets = 2},
					   {.gets = 3}, {.gets = 4}, {.gets = 5}};

	PLAY(m, r);
}

TEST_F(match, receives_from_a_named_source)
{
	static const struct message m[] = {{}, {true}, {}, {true}, {true}};
	static const struct receive r[] = {{.directed = true, .second = true, .gets = 1},
					   {.directed = true, .gets = 0},
					   {.gets = 2},
					   {.directed = true, .second = true, .gets = 3},
					   {.gets = 4}};

	PLAY(m, r);
}

TEST_F(match, receives_from_anybody_come_in_turn)
{
	/* The one from anybody is older, so it takes what the directed one could have had. */
	static const struct message m[] = {{true}, {true}, {}};
	static const struct receive r[] = {{.gets = 0},
					   {.directed = true, .second = true, .gets = 1},
					   {.directed = true, .gets = 2}};

	PLAY(m, r);
}

TEST_F(match, tags_choose)
{
	static const struct message m[] = {{.tag = 5}, {.tag = 1ULL << 63},
					   {.tag = 6}, {.tag = 5},
					   {.tag = 0}, {.second = true, .tag = 5}};
	static const struct receive r[] = {{.tag = 6, .gets = 2},
					   {.tag = 5, .directed = true, .second = true, .gets = 5},
					   {.tag = 0, .gets = 4},
					   {.tag = 5, .gets = 0},
					   {.tag = 1ULL << 63, .gets = 1},
					   {.tag = 5, .directed = true, .gets = 3}};

	if (variant->send == TREADLE_OP_TSEND)
		PLAY(m, r);
}

TEST_F(match, ignored_bits_do_not_count)
{
	static const struct message m[] = {
		{.tag = 0x15}, {.tag = 0x26}, {.tag = 0x35}, {.tag = ~0ULL}, {.tag = 0x45}};
	static const struct receive r[] = {{.tag = 0x25, .ignore = 0x30, .gets = 0},
					   {.tag = 0xf5, .ignore = 0xf0, .gets = 2},
					   {.tag = 0, .ignore = ~0ULL, .gets = 1},
					   {.tag = ~0xfULL, .ignore = 0xf, .gets = 3},
					   {.tag = 0x05, .ignore = ~0xfULL, .gets = 4}};

	if (variant->send == TREADLE_OP_TSEND)
		PLAY(m, r);
}

TEST_F(match, wildcards_and_exact_ones_in_order_of_posting)
{
	static const struct message m[] = {
		{.tag = 1}, {.tag = 1}, {.tag = 2}, {.tag = 1}, {.second = true, .tag = 1},
		{.tag = 3}};
	static const struct receive r[] = {{.tag = 1, .gets = 0},
					   {.tag = 0, .ignore = ~0ULL, .gets = 1},
					   {.tag = 2, .gets = 2},
					   {.tag = 1, .directed = true, .gets = 3},
					   {.tag = 1, .ignore = 2, .gets = 4},
					   {.tag = 1, .ignore = 2, .directed = true, .gets = 5}};

	if (variant->send == TREADLE_OP_TSEND)
		PLAY(m, r);
}

/* What was sent by opcode SEND is not for a tagged receive, nor the other way round. */
TEST_F(match, plain_and_tagged_are_strangers)
{
	bool tagged = variant->send == TREADLE_OP_TSEND;
	struct treadle_desc recv = recv_of(self->dst, ROOM, ANY, 1),
			    send = send_of(self->src, 8, self->to, 2);
	struct treadle_desc other_recv = trecv_of(self->dst + ROOM, ROOM, ANY, 0, ~0ULL, 3);
	struct treadle_desc other_send = tsend_of(self->src, 16, self->to, 0, 4);

	ASSERT_EQ(0, post_recv(&self->b, tagged ? recv : other_recv));
	ASSERT_EQ(1, post(&self->a, tagged ? other_send : send));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	ASSERT_EQ(0, post_recv(&self->b, tagged ? other_recv : recv));
	EXPECT_EQ(tagged ? 3 : 1, cq_next(&self->b.rcq).context);
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	ASSERT_EQ(1, post(&self->a, tagged ? send : other_send));
	EXPECT_EQ(tagged ? 1 : 3, cq_next(&self->b.rcq).context);
}

/* A large field of tags, received backwards, then forwards. */
TEST_F(match, many_tags)
{
	const int count = 500;
	struct treadle_cqe c;

	if (variant->send != TREADLE_OP_TSEND)
		return;
	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < count; i++) {
			*(__u64 *)self->src = i * 7919;
			ASSERT_EQ(1, post(&self->a, tsend_of(self->src, 8, self->to, i * 7919, i)));
			ASSERT_EQ(0, cq_next(&self->a.cq).error);
		}
		for (int n = 0; n < count; n++) {
			int i = round & 1 ? n : count - 1 - n;

			ASSERT_EQ(0,
				  post_recv(&self->b, trecv_of(self->dst, 8, ANY, i * 7919, 0, i)));
			c = cq_next(&self->b.rcq);
			ASSERT_EQ(i, c.context);
			ASSERT_EQ(i * 7919, c.tag);
			ASSERT_EQ(i * 7919, *(__u64 *)self->dst);
		}
	}
}

/* --- without variants: what is kept for later ------------------------------ */

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

/* Sends until commands no longer complete: then they wait at the target, in order. */
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
		/* What did not fit is not done, and its slot not free. */
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

/* Behind a message that is parked even small ones must not overtake. */
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

/* The kernel reads the buffer of a large message when it is taken, not before. */
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

/* The flag that makes receives need a doorbell is up exactly while there is something unmatched. */
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
	/* Receives that wait need none: the next sender takes them off the ring. */
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

TEST_HARNESS_MAIN
