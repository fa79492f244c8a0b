/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Messages: every byte arrives, once, where it belongs, with its completions. A message meets a
 * posted receive, or waits for one.
 */
#include "treadle.h"

#define BIGGEST (16UL << 20)
#define GUARD	64

FIXTURE(msg)
{
	struct node a, other;
	struct node *b; /* the receiver */
	__u64 to, from; /* index of b at a, and of a at b */
	struct treadle_query q;
	char *src, *dst;
	__u64 seed;
};

FIXTURE_VARIANT(msg)
{
	bool same_context, same_endpoint;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(msg, two_contexts) { };
FIXTURE_VARIANT_ADD(msg, one_context) { .same_context = true };
FIXTURE_VARIANT_ADD(msg, oneself) { .same_endpoint = true };
/* clang-format on */

FIXTURE_SETUP(msg)
{
	node_open(&self->a, (struct options){.flags = TREADLE_EP_SOURCE});
	self->b = &self->a;
	if (!variant->same_endpoint) {
		self->b = &self->other;
		node_open(self->b, (struct options){
					   .flags = TREADLE_EP_SOURCE,
					   .context = variant->same_context ? self->a.fd : 0,
				   });
	}
	self->q = query(self->a.fd);
	self->to = peer(&self->a, self->b->addr);
	self->from = variant->same_endpoint ? self->to : peer(self->b, self->a.addr);
	self->src = pages(BIGGEST + 4096);
	self->dst = pages(BIGGEST + 4096);
}

FIXTURE_TEARDOWN(msg)
{
	/* No completion may come that the test did not expect. */
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->a.rcq));
	EXPECT_TRUE(cq_empty(&self->b->cq));
	EXPECT_TRUE(cq_empty(&self->b->rcq));
}

typedef FIXTURE_DATA(msg) pair;

static void expect_sent(struct __test_metadata *_metadata, pair *self, __u64 context, __u32 kind)
{
	struct treadle_cqe c = cq_next(&self->a.cq);

	EXPECT_EQ(context, c.context);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(TREADLE_CQ_SEND | kind, c.flags);
	EXPECT_EQ(0, c.len);
}

/* One message from a to b between guards; @late: the receive is posted after the send. */
static void transfer(struct __test_metadata *_metadata, pair *self, size_t len, int src_off,
		     int dst_off, bool late)
{
	char *src = self->src + src_off, *dst = self->dst + GUARD + dst_off;
	__u64 seed = ++self->seed;
	struct treadle_desc recv = recv_of(dst, len, ANY, seed),
			    send = send_of(src, len, self->to, ~seed);
	struct treadle_cqe c;

	fill(src, len, seed);
	memset(dst - GUARD, 0xee, len + 2 * GUARD);
	if (!late)
		ASSERT_EQ(0, post_recv(self->b, recv));
	ASSERT_EQ(1, post(&self->a, send));
	if (late)
		ASSERT_EQ(0, post_recv(self->b, recv));
	c = cq_next(&self->b->rcq);
	EXPECT_EQ(seed, c.context);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(len, c.len);
	EXPECT_EQ(0, c.olen);
	EXPECT_EQ(self->from, c.src);
	EXPECT_EQ(TREADLE_CQ_RECV | TREADLE_CQ_MSG, c.flags);
	if (len)
		EXPECT_EQ((unsigned long)dst, c.buf);
	expect_sent(_metadata, self, ~seed, TREADLE_CQ_MSG);
	about("length %zu, offsets %d and %d, late %d", len, src_off, dst_off, late);
	EXPECT_EQ(len, differs(dst, len, seed));
	EXPECT_TRUE(all_are(dst - GUARD, GUARD, 0xee));
	EXPECT_TRUE(all_are(dst + len, GUARD, 0xee));
	EXPECT_TRUE(same(src, len, seed));
	EXPECT_TRUE(cntr_becomes(&self->a.sent, seed, 0));
	EXPECT_TRUE(cntr_becomes(&self->b->rcvd, seed, 0));
}

TEST_F(msg, every_size_and_alignment)
{
	static const size_t sizes[] = {0,
				       1,
				       2,
				       7,
				       8,
				       63,
				       64,
				       65,
				       4095,
				       4096,
				       4097,
				       8191,
				       8193,
				       65535,
				       65536,
				       65537,
				       (1 << 20) - 1,
				       1 << 20,
				       (1 << 20) + 1};
	static const int offsets[][2] = {{0, 0}, {1, 0}, {0, 3}, {7, 4}, {4095, 4093}};

	for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (int j = 0; j < ARRAY_SIZE(offsets) && (sizes[i] < 1 << 19 || j < 2); j++) {
			transfer(_metadata, self, sizes[i], offsets[j][0], offsets[j][1] % 2048,
				 false);
			transfer(_metadata, self, sizes[i], offsets[j][0], offsets[j][1] % 2048,
				 true);
		}
	}
}

TEST_F(msg, large_ones)
{
	transfer(_metadata, self, BIGGEST, 0, 0, false);
	transfer(_metadata, self, BIGGEST - 5, 3, 1, true);
}

/* The address of an empty buffer is ignored. */
TEST_F(msg, one_buffer_of_no_length)
{
	struct treadle_desc send = send_of(NULL, 0, self->to, 1), recv = recv_of(NULL, 0, ANY, 2);
	struct treadle_cqe c;

	send.iov_count = recv.iov_count = 1;
	send.addr = (unsigned long)self->src;
	recv.addr = (unsigned long)self->dst;
	ASSERT_EQ(0, post_recv(self->b, recv));
	ASSERT_EQ(1, post(&self->a, send));
	c = cq_next(&self->b->rcq);
	EXPECT_EQ(2, c.context);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(0, c.len);
	expect_sent(_metadata, self, 1, TREADLE_CQ_MSG);
}

/* Cuts @len bytes at @base into pieces with holes between them. Some pieces are empty. */
static void cut(struct treadle_iov *iov, int count, char *base, size_t len, __u64 *state)
{
	for (int i = 0; i < count; i++) {
		size_t piece = len;

		if (i < count - 1)
			piece = lottery(state) % 5 ? lottery(state) % (len + 1) : 0;
		iov[i] = (struct treadle_iov){(unsigned long)base, piece};
		base += piece + lottery(state) % 5000;
		len -= piece;
	}
}

TEST_F(msg, scattered_buffers)
{
	static const size_t sizes[] = {0, 10, 4096, 50000, 200000};
	struct treadle_iov src[TREADLE_MAX_IOV], dst[TREADLE_MAX_IOV];
	char *flat = pages(200000);
	__u64 state = 1;

	for (int round = 0; round < 4 * 49; round++) {
		int out = 2 + round % 7, in = 2 + round / 7 % 7;
		size_t len = sizes[round % ARRAY_SIZE(sizes)];
		struct treadle_desc send, recv;
		struct treadle_cqe c;
		size_t at = 0;

		cut(src, out, self->src, len, &state);
		cut(dst, in, self->dst, len, &state);
		fill(flat, len, round);
		for (int i = 0; i < out; at += src[i++].len)
			memcpy((void *)src[i].addr, flat + at, src[i].len);
		send = vector(send_of(NULL, 0, self->to, round), src, out);
		recv = vector(recv_of(NULL, 0, ANY, round), dst, in);
		memset(self->dst, 0xee, len + 50000);
		if (round % 2) {
			ring_put_vector(&self->b->rx, &recv, dst);
			ASSERT_EQ(0, ring_doorbell(&self->b->rx));
		}
		ring_put_vector(&self->a.tx, &send, src);
		ASSERT_EQ(1, ring_doorbell(&self->a.tx));
		if (round % 2 == 0) {
			ring_put_vector(&self->b->rx, &recv, dst);
			ASSERT_EQ(0, ring_doorbell(&self->b->rx));
		}
		c = cq_next(&self->b->rcq);
		ASSERT_EQ(0, c.error);
		ASSERT_EQ(round, c.context);
		ASSERT_EQ(len, c.len);
		expect_sent(_metadata, self, round, TREADLE_CQ_MSG);
		at = 0;
		for (int i = 0; i < in; at += dst[i++].len) {
			char *end = (char *)dst[i].addr + dst[i].len;

			memcpy(flat + at, (void *)dst[i].addr, dst[i].len);
			/* The hole behind the piece. */
			if (i < in - 1)
				ASSERT_TRUE(
					all_are(end, dst[i + 1].addr - (unsigned long)end, 0xee));
		}
		about("%d pieces to %d, length %zu", out, in, len);
		ASSERT_EQ(len, differs(flat, len, round));
		ASSERT_TRUE(all_are(self->dst + (dst[in - 1].addr + dst[in - 1].len - dst[0].addr),
				    64, 0xee));
	}
}

TEST_F(msg, buffers_larger_than_the_message)
{
	static const size_t sizes[] = {0, 1, 100, 5000, 100000};

	for (int i = 0; i < 2 * ARRAY_SIZE(sizes); i++) {
		size_t len = sizes[i / 2];
		struct treadle_desc recv = recv_of(self->dst, len + 3000, ANY, i);
		struct treadle_cqe c;

		fill(self->src, len, i);
		memset(self->dst, 0xee, len + 3000);
		if (i % 2)
			ASSERT_EQ(0, post_recv(self->b, recv));
		ASSERT_EQ(1, post(&self->a, send_of(self->src, len, self->to, i)));
		if (i % 2 == 0)
			ASSERT_EQ(0, post_recv(self->b, recv));
		c = cq_next(&self->b->rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(len, c.len);
		EXPECT_TRUE(same(self->dst, len, i));
		EXPECT_TRUE(all_are(self->dst + len, 3000, 0xee));
		expect_sent(_metadata, self, i, TREADLE_CQ_MSG);
	}
}

// conformance: ioctl.h: ETRUNC: longer than the receive buffer
TEST_F(msg, too_small_a_buffer_truncates)
{
	static const size_t sizes[][2] = {{1, 0},	 {100, 10},   {4096, 4095},
					  {10000, 5000}, {100000, 1}, {1 << 20, 100000}};

	for (int i = 0; i < 2 * ARRAY_SIZE(sizes); i++) {
		size_t len = sizes[i / 2][0], room = sizes[i / 2][1];
		struct treadle_desc recv = recv_of(self->dst, room, ANY, i);
		struct treadle_cqe c;

		fill(self->src, len, i);
		memset(self->dst, 0xee, len);
		if (i % 2)
			ASSERT_EQ(0, post_recv(self->b, recv));
		ASSERT_EQ(1, post(&self->a, send_of(self->src, len, self->to, i)));
		if (i % 2 == 0)
			ASSERT_EQ(0, post_recv(self->b, recv));
		c = cq_next(&self->b->rcq);
		EXPECT_EQ(i, c.context);
		EXPECT_EQ(TREADLE_ETRUNC, c.error);
		EXPECT_EQ(len - room, c.olen);
		EXPECT_EQ(room, c.len);
		EXPECT_EQ(TREADLE_CQ_RECV | TREADLE_CQ_MSG, c.flags);
		EXPECT_TRUE(same(self->dst, room & ~7UL, i));
		about("%zu into %zu", len, room);
		EXPECT_TRUE(all_are(self->dst + room, len - room, 0xee));
		/* The send succeeds all the same. */
		expect_sent(_metadata, self, i, TREADLE_CQ_MSG);
	}
	EXPECT_TRUE(cntr_becomes(&self->b->rcvd, 0, 2 * ARRAY_SIZE(sizes)));
	EXPECT_TRUE(cntr_becomes(&self->a.sent, 2 * ARRAY_SIZE(sizes), 0));
}

TEST_F(msg, inject_frees_the_buffer_at_once)
{
	const size_t sizes[] = {0, 1, 64, self->q.inject_size};

	for (int i = 0; i < 2 * ARRAY_SIZE(sizes); i++) {
		size_t len = sizes[i / 2];
		/* The pages have never been touched, so the delivery may take a while. */
		char *dst = pages(len + 1);
		struct treadle_desc send = send_of(self->src, len, self->to, i);
		struct treadle_desc recv = recv_of(dst, len, ANY, i);

		send.flags |= TREADLE_F_INJECT;
		fill(self->src, len, i);
		if (i % 2)
			ASSERT_EQ(0, post_recv(self->b, recv));
		ASSERT_EQ(1, post(&self->a, send));
		memset(self->src, 0, len);
		if (i % 2 == 0)
			ASSERT_EQ(0, post_recv(self->b, recv));
		EXPECT_EQ(len, cq_next(&self->b->rcq).len);
		EXPECT_TRUE(same(dst, len, i));
		expect_sent(_metadata, self, i, TREADLE_CQ_MSG);
	}
}

/* Only the length of a message is limited; a buffer may be longer. */
TEST_F(msg, a_buffer_may_be_longer_than_any_message)
{
	const __u64 half = self->q.max_msg_size, len = 2 * half;
	char *dst = mmap(NULL, len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct treadle_desc one = recv_of(dst, len, ANY, 5), many = one, vec;
	struct treadle_iov iov[2] = {{(unsigned long)dst, 100},
				     {(unsigned long)dst + 100, len - 100}};
	struct node *a = &self->a, *b = self->b;

	ASSERT_NE(MAP_FAILED, dst);
	many.flags |= TREADLE_F_MULTI_RECV;
	vec = vector(recv_of(NULL, 0, ANY, 5), iov, 2);
	vec.len = len;
	fill(self->src, 1000, 7);
	for (int i = 0; i < 4; i++) {
		about("%d", i);
		memset(dst, 0, 1000);
		if (i == 0) {
			ASSERT_EQ(0, post_recv(b, one));
		} else if (i == 1) {
			ring_put_vector(&b->rx, &vec, iov);
			ring_publish(&b->rx);
		} else if (i == 2) {
			ASSERT_EQ(1, post(b, one));
		} else {
			ASSERT_EQ(0, post_recv(b, many));
		}
		ASSERT_EQ(1, post(a, send_of(self->src, 1000, self->to, i)));
		EXPECT_EQ(1000, cq_next(&b->rcq).len);
		EXPECT_TRUE(same(dst, 1000, 7));
		EXPECT_EQ(0, cq_next(&a->cq).error);
	}
	munmap(dst, len);
}

// conformance: ioctl.h: EMSGSIZE: longer than inject_size with inject
TEST_F(msg, inject_is_small)
{
	struct treadle_desc send = send_of(self->src, self->q.inject_size + 1, self->to, 1);

	send.flags |= TREADLE_F_INJECT;
	EXPECT_EQ(-EMSGSIZE, post(&self->a, send));
	EXPECT_EQ(0, cntr_value(&self->a.sent));
	transfer(_metadata, self, 100, 0, 0, false);
}

TEST_F(msg, data_for_the_completion)
{
	for (int i = 0; i < 8; i++) {
		size_t len = i < 4 ? i * 10 : 100000;
		struct treadle_desc send = tsend_of(self->src, len, self->to, 7, i);
		struct treadle_desc recv = trecv_of(self->dst, len, ANY, 7, 0, i);
		struct treadle_cqe c;

		/* Without the flag the field must be 0. */
		if (i & 1) {
			send.flags |= TREADLE_F_REMOTE_CQ_DATA;
			send.data = pattern(3, i);
		}
		if (i & 2)
			ASSERT_EQ(0, post_recv(self->b, recv));
		ASSERT_EQ(1, post(&self->a, send));
		if (!(i & 2))
			ASSERT_EQ(0, post_recv(self->b, recv));
		c = cq_next(&self->b->rcq);
		EXPECT_EQ(TREADLE_CQ_RECV | TREADLE_CQ_TAGGED |
				  (i & 1 ? TREADLE_CQ_REMOTE_CQ_DATA : 0),
			  c.flags);
		EXPECT_EQ(i & 1 ? pattern(3, i) : 0, c.data);
		EXPECT_EQ(7, c.tag);
		expect_sent(_metadata, self, i, TREADLE_CQ_TAGGED);
	}
}

TEST_F(msg, completions_only_for_those_that_ask)
{
	struct treadle_desc send = send_of(self->src, 10, self->to, 1);
	struct treadle_desc recv = recv_of(self->dst, 10, ANY, 1);

	send.flags = 0;
	for (int i = 0; i < 4; i++) {
		recv.flags = i & 1 ? TREADLE_F_COMPLETION : 0;
		ASSERT_EQ(0, post_recv(self->b, recv));
		ASSERT_EQ(1, post(&self->a, send));
		EXPECT_TRUE(cntr_becomes(&self->a.sent, i + 1, 0));
		EXPECT_TRUE(cntr_becomes(&self->b->rcvd, i + 1, 0));
		EXPECT_TRUE(cq_empty(&self->a.cq));
		if (i & 1)
			EXPECT_EQ(10, cq_next(&self->b->rcq).len);
		EXPECT_TRUE(cq_empty(&self->b->rcq));
	}
	/* An error is always reported. */
	recv.flags = 0;
	recv.len = 9;
	ASSERT_EQ(0, post_recv(self->b, recv));
	ASSERT_EQ(1, post(&self->a, send));
	EXPECT_EQ(TREADLE_ETRUNC, cq_next(&self->b->rcq).error);
}

TEST_F(msg, delivery_complete_waits_for_the_receiver)
{
	struct treadle_desc send = send_of(self->src, 10, self->to, 1);

	fill(self->src, 10, 1);
	send.flags |= TREADLE_F_DELIVERY_COMPLETE;
	ASSERT_EQ(1, post(&self->a, send));
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_EQ(0, cntr_value(&self->a.sent));
	ASSERT_EQ(0, post_recv(self->b, recv_of(self->dst, 10, ANY, 2)));
	EXPECT_EQ(2, cq_next(&self->b->rcq).context);
	expect_sent(_metadata, self, 1, TREADLE_CQ_MSG);
	EXPECT_TRUE(same(self->dst, 10, 1));
	EXPECT_TRUE(cntr_becomes(&self->a.sent, 1, 0));
}

TEST_F(msg, notification_alone)
{
	struct treadle_desc nop = {
		.opcode = TREADLE_OP_NOP, .flags = TREADLE_F_COMPLETION, .context = 9};
	struct treadle_cqe c;
	struct cntr seen;

	cntr_open(&seen, self->a.fd);
	ASSERT_EQ(1, post(&self->a, nop));
	c = cq_next(&self->a.cq);
	EXPECT_EQ(9, c.context);
	EXPECT_EQ(0, c.error);
	nop.flags = TREADLE_F_WORK;
	ASSERT_EQ(1, post(&self->a, then(nop, &seen)));
	EXPECT_TRUE(cntr_becomes(&seen, 1, 0));
	EXPECT_TRUE(cq_empty(&self->a.cq));
}

/* The same 128 MiB eight times on both sides, to fit into a small machine. */
TEST(a_gigabyte)
{
	const size_t part = 128UL << 20;
	char *from = pages(part), *to = pages(part);
	struct treadle_iov src[8], dst[8];
	struct treadle_desc send, recv;
	struct treadle_cqe c;
	struct node a, b;

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	fill(from, part, 1);
	for (int i = 0; i < 8; i++) {
		src[i] = (struct treadle_iov){(unsigned long)from, part};
		dst[i] = (struct treadle_iov){(unsigned long)to, part};
	}
	send = vector(send_of(NULL, 0, peer(&a, b.addr), 1), src, 8);
	recv = vector(recv_of(NULL, 0, ANY, 2), dst, 8);
	ring_put_vector(&b.rx, &recv, dst);
	ring_put_vector(&a.tx, &send, src);
	ASSERT_EQ(1, ring_doorbell(&a.tx));
	/* a kernel that checks memory takes minutes for this, by way of a session */
	for (int i = 0; i < 4 && cq_empty(&b.rcq); i++)
		cq_wait(&b.rcq, PATIENCE_NS);
	c = cq_next(&b.rcq);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(8 * part, c.len);
	EXPECT_TRUE(same(to, part, 1));
	EXPECT_EQ(1, cq_next(&a.cq).context);
}

TEST_HARNESS_MAIN
