/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Receives that take several messages: fi_msg(3), FI_MULTI_RECV.
 */
#include "slow.h"
#include "treadle.h"

#define ROOM 4096

FIXTURE(multi)
{
	struct node a, b;
	__u64 to;
	char *src, *dst;
};

FIXTURE_VARIANT(multi)
{
	bool late;   /* the buffer is posted after the messages came */
	bool parked; /* and these wait at their sender */
	bool armed;  /* a counter posts it */
};

/* clang-format off */
FIXTURE_VARIANT_ADD(multi, posted) { };
FIXTURE_VARIANT_ADD(multi, unexpected) { .late = true };
FIXTURE_VARIANT_ADD(multi, parked) { .late = true, .parked = true };
FIXTURE_VARIANT_ADD(multi, armed) { .armed = true };
FIXTURE_VARIANT_ADD(multi, armed_unexpected) { .late = true, .armed = true };
/* clang-format on */

FIXTURE_SETUP(multi)
{
	node_open(&self->a, (struct options){.tx = 256, .cq = 512});
	node_open(&self->b, (struct options){.rcq = 512, .flags = TREADLE_EP_SOURCE});
	self->to = peer(&self->a, self->b.addr);
	peer(&self->b, self->a.addr);
	self->src = pages(64 * ROOM);
	self->dst = pages(64 * ROOM);
}

FIXTURE_TEARDOWN(multi)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
}

static struct treadle_desc multi_of(void *buf, __u64 len, __u64 least, __u64 context)
{
	struct treadle_desc d = recv_of(buf, len, ANY, context);

	d.flags |= TREADLE_F_MULTI_RECV;
	d.data = least;
	return d;
}

static void post_multi(struct __test_metadata *_metadata, FIXTURE_DATA(multi) * self,
		       const FIXTURE_VARIANT(multi) * variant, struct treadle_desc d)
{
	if (variant->armed) {
		struct cntr go;

		cntr_open(&go, self->b.fd);
		ASSERT_EQ(1, post(&self->b, when(d, &go, 1)));
		ASSERT_EQ(1, post(&self->b, count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0)));
	} else {
		ASSERT_EQ(0, post_recv(&self->b, d));
	}
}

static void send_one(struct __test_metadata *_metadata, FIXTURE_DATA(multi) * self,
		     const FIXTURE_VARIANT(multi) * variant, int i, __u64 len)
{
	struct treadle_desc d = send_of(self->src + i * ROOM, len, self->to, i);

	fill(self->src + i * ROOM, len, i);
	if (variant->parked)
		d.flags |= TREADLE_F_DELIVERY_COMPLETE;
	ASSERT_EQ(1, post(&self->a, d));
}

static void all_sent(struct __test_metadata *_metadata, FIXTURE_DATA(multi) * self, int n)
{
	while (n--)
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
}

/*
 * Messages lie one behind the other, without gaps. Each completion has the address, and the last
 * one the flag.
 */
// conformance: fi_msg(3): FI_MULTI_RECV: messages are packed into the buffer until it has been ...
TEST_F(multi, packed_until_less_than_the_minimum_is_left)
{
	const __u64 len[] = {100, 1, 0, 300, 7, 500};
	__u64 at = 0, sum = 100 + 1 + 0 + 300 + 7 + 500;

	for (int turn = 0; turn < 2; turn++) {
		if (turn == variant->late)
			post_multi(_metadata, self, variant,
				   multi_of(self->dst, sum + 99, 100, 42));
		for (int i = 0; turn != variant->late && i < 6; i++)
			send_one(_metadata, self, variant, i, len[i]);
	}
	for (int i = 0; i < 6; i++) {
		struct treadle_cqe c = cq_next(&self->b.rcq);

		EXPECT_EQ(0, c.error);
		EXPECT_EQ(42, c.context);
		EXPECT_EQ(len[i], c.len);
		EXPECT_EQ((unsigned long)self->dst + at, c.buf);
		EXPECT_EQ(TREADLE_CQ_RECV | TREADLE_CQ_MSG | (i == 5 ? TREADLE_CQ_MULTI_RECV : 0),
			  c.flags);
		EXPECT_EQ(0, c.src);
		EXPECT_TRUE(same(self->dst + at, len[i], i));
		at += len[i];
	}
	all_sent(_metadata, self, 6);
	EXPECT_EQ(6, cntr_value(&self->b.rcvd));
	if (!variant->armed)
		EXPECT_EQ(self->b.rx.entries, ring_room(&self->b.rx));
}

/* Buffers follow one another in the order in which they were posted; so do plain receives. */
TEST_F(multi, the_next_buffer_goes_on)
{
	static const int gets[] = {1, 1, 1, 2, 3, 3, 3};

	for (int turn = 0; turn < 2; turn++) {
		if (turn == variant->late) {
			post_multi(_metadata, self, variant, multi_of(self->dst, 300, 1, 1));
			if (variant->armed)
				post_multi(_metadata, self, variant,
					   recv_of(self->dst + ROOM, 100, ANY, 2));
			else
				ASSERT_EQ(0, post_recv(&self->b,
						       recv_of(self->dst + ROOM, 100, ANY, 2)));
			post_multi(_metadata, self, variant,
				   multi_of(self->dst + 2 * ROOM, 300, 1, 3));
		}
		for (int i = 0; turn != variant->late && i < 7; i++)
			send_one(_metadata, self, variant, i, 100);
	}
	for (int i = 0; i < 7; i++) {
		struct treadle_cqe c = cq_next(&self->b.rcq);

		EXPECT_EQ(0, c.error);
		EXPECT_EQ(gets[i], c.context);
		EXPECT_EQ(i == 2 || i == 6, !!(c.flags & TREADLE_CQ_MULTI_RECV));
		EXPECT_TRUE(same((void *)(unsigned long)c.buf, 100, i));
	}
	all_sent(_metadata, self, 7);
}

/* A message longer than the rest of the buffer is truncated, and ends the buffer. */
TEST_F(multi, a_message_that_does_not_fit_is_truncated)
{
	struct treadle_cqe c;

	for (int turn = 0; turn < 2; turn++) {
		if (turn == variant->late)
			post_multi(_metadata, self, variant, multi_of(self->dst, 250, 10, 1));
		for (int i = 0; turn != variant->late && i < 3; i++)
			send_one(_metadata, self, variant, i, 100);
	}
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	c = cq_next(&self->b.rcq);
	EXPECT_EQ(TREADLE_ETRUNC, c.error);
	EXPECT_EQ(50, c.len);
	EXPECT_EQ(50, c.olen);
	EXPECT_TRUE(c.flags & TREADLE_CQ_MULTI_RECV);
	EXPECT_TRUE(same(self->dst + 200, 50, 2));
	all_sent(_metadata, self, 3);
}

/* More messages wait than are matched under one hold of the lock. */
TEST_F(multi, many_that_wait)
{
	const int count = 200;

	for (int turn = 0; turn < 2; turn++) {
		if (turn == variant->late)
			post_multi(_metadata, self, variant, multi_of(self->dst, count * 8, 8, 1));
		for (int i = 0; turn != variant->late && i < count; i++) {
			struct treadle_desc d = send_of(self->src + i * 8, 8, self->to, i);

			fill(self->src + i * 8, 8, i);
			if (variant->parked)
				d.flags |= TREADLE_F_DELIVERY_COMPLETE;
			ASSERT_EQ(1, post(&self->a, d));
		}
	}
	for (int i = 0; i < count; i++) {
		struct treadle_cqe c = cq_next(&self->b.rcq);

		ASSERT_EQ(0, c.error);
		ASSERT_EQ((unsigned long)self->dst + i * 8, c.buf);
		ASSERT_TRUE(same(self->dst + i * 8, 8, i));
		ASSERT_EQ(i == count - 1, !!(c.flags & TREADLE_CQ_MULTI_RECV));
	}
	all_sent(_metadata, self, count);
}

/* The end of a buffer is reported although its messages are not. */
// conformance: fi_msg(3): FI_MULTI_RECV: an entry is always generated when the buffer has been ...
TEST_F(multi, the_end_is_always_reported)
{
	struct treadle_desc d = multi_of(self->dst, 300, 100, 1);
	struct treadle_cqe c;

	d.flags &= ~TREADLE_F_COMPLETION;
	for (int turn = 0; turn < 2; turn++) {
		if (turn == variant->late)
			post_multi(_metadata, self, variant, d);
		for (int i = 0; turn != variant->late && i < 3; i++)
			send_one(_metadata, self, variant, i, 100);
	}
	c = cq_next(&self->b.rcq);
	EXPECT_EQ(0, c.error);
	EXPECT_TRUE(c.flags & TREADLE_CQ_MULTI_RECV);
	EXPECT_EQ((unsigned long)self->dst + 200, c.buf);
	EXPECT_TRUE(cntr_becomes(&self->b.rcvd, 3, 0));
	all_sent(_metadata, self, 3);
}

FIXTURE(multi_end)
{
	struct node a, b;
	__u64 to;
	char *src, *dst;
};

FIXTURE_SETUP(multi_end)
{
	node_open(&self->a, (struct options){.tx = 256, .cq = 512});
	node_open(&self->b, (struct options){.rcq = 32});
	self->to = peer(&self->a, self->b.addr);
	self->src = pages(1 << 20);
	self->dst = pages(1 << 20);
}

FIXTURE_TEARDOWN(multi_end) {}

TEST_F(multi_end, cancel_releases_what_is_left)
{
	struct treadle_cqe c;
	__u64 n;

	ASSERT_EQ(0, post_recv(&self->b, multi_of(self->dst, 1000, 1, 7)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 100, self->to, 0)));
	EXPECT_EQ(100, cq_next(&self->b.rcq).len);
	EXPECT_EQ(0, cancel(self->b.fd, TREADLE_CANCEL_OP, self->b.ep, 7, 0, &n));
	c = cq_next(&self->b.rcq);
	EXPECT_EQ(ECANCELED, c.error);
	EXPECT_EQ(7, c.context);
	EXPECT_EQ(TREADLE_CQ_RECV | TREADLE_CQ_MSG | TREADLE_CQ_MULTI_RECV, c.flags);
	EXPECT_EQ(self->b.rx.entries, ring_room(&self->b.rx));
	EXPECT_EQ(-ENOENT, cancel(self->b.fd, TREADLE_CANCEL_OP, self->b.ep, 7, 0, &n));
	EXPECT_EQ(1, cntr_value(&self->b.rcvd));
	EXPECT_EQ(1, cntr_errors(&self->b.rcvd));
}

/* Cancel of a buffer that waits to be posted reports that the buffer is free. */
TEST_F(multi_end, cancel_before_it_is_posted)
{
	struct treadle_cqe c;
	struct cntr go;
	__u64 n;

	cntr_open(&go, self->b.fd);
	ASSERT_EQ(1, post(&self->b, when(multi_of(self->dst, 1000, 1, 7), &go, 1)));
	EXPECT_EQ(0, cancel(self->b.fd, TREADLE_CANCEL_OP, self->b.ep, 7, 0, &n));
	c = cq_next(&self->b.rcq);
	EXPECT_EQ(ECANCELED, c.error);
	EXPECT_EQ(7, c.context);
	EXPECT_EQ(TREADLE_CQ_RECV | TREADLE_CQ_MSG | TREADLE_CQ_MULTI_RECV, c.flags);
}

/* Messages under way are reported before their buffer is released. */
TEST_F(multi_end, cancel_waits_for_messages_under_way)
{
	const __u64 large = 4 << 20;
	char *src = pages(large), *dst = pages(3 * large);
	struct treadle_cqe c;
	struct node other;
	__u64 n;

	node_open(&other, (struct options){});
	fill(src, large, 5);
	ASSERT_EQ(0, post_recv(&self->b, multi_of(dst, 3 * large, 1, 7)));
	ASSERT_EQ(1, post(&self->a, send_of(src, large, self->to, 0)));
	ASSERT_EQ(1, post(&other, send_of(src, large, peer(&other, self->b.addr), 1)));
	EXPECT_EQ(0, cancel(self->b.fd, TREADLE_CANCEL_OP, self->b.ep, 7, 0, &n));
	for (int i = 0; i < 2; i++) {
		c = cq_next(&self->b.rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(large, c.len);
		EXPECT_EQ(TREADLE_CQ_RECV | TREADLE_CQ_MSG, c.flags);
		EXPECT_TRUE(same((void *)(unsigned long)c.buf, large, 5));
	}
	c = cq_next(&self->b.rcq);
	EXPECT_EQ(ECANCELED, c.error);
	EXPECT_TRUE(c.flags & TREADLE_CQ_MULTI_RECV);
	EXPECT_EQ(self->b.rx.entries, ring_room(&self->b.rx));
}

/*
 * A message that a worker copies is not overtaken by later ones of the same sender, so a buffer's
 * completions come before those of the next one. Other senders do not wait for it.
 */
// conformance: fi_cq(3): completion flag FI_MULTI_RECV: with the last message, or alone if no ...
TEST_F(multi_end, one_buffer_after_the_other)
{
	char *slow = pages(ROOM);
	int fd = slow_pages(slow, ROOM);
	struct treadle_cqe c;
	struct node other;

	node_open(&other, (struct options){});
	ASSERT_EQ(0, post_recv(&self->b, multi_of(slow, ROOM, 1, 7)));
	ASSERT_EQ(0, post_recv(&self->b, multi_of(self->dst, 3 * ROOM, 1, 8)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, ROOM, self->to, 0)));
	for (int i = 1; i <= 20; i++)
		ASSERT_EQ(1, post(&self->a, send_of(self->src, i, self->to, i)));
	ASSERT_EQ(1, post(&other, send_of(self->src, 100, peer(&other, self->b.addr), 1)));
	c = cq_next(&self->b.rcq);
	EXPECT_EQ(8, c.context);
	EXPECT_EQ(100, c.len);
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	give_page(fd, 0);
	c = cq_next(&self->b.rcq);
	EXPECT_EQ(7, c.context);
	EXPECT_EQ(ROOM, c.len);
	EXPECT_TRUE(c.flags & TREADLE_CQ_MULTI_RECV);
	for (int i = 1; i <= 20; i++) {
		c = cq_next(&self->b.rcq);
		EXPECT_EQ(8, c.context);
		EXPECT_EQ(i, c.len);
	}
	for (int i = 0; i <= 20; i++)
		EXPECT_EQ(i, cq_next(&self->a.cq).context);
}

/*
 * An endpoint of a shared ring closes while the last message is on its way to it; with @queue, so
 * does its queue.
 */
static void another_endpoint_reports(struct __test_metadata *_metadata,
				     FIXTURE_DATA(multi_end) * self, bool queue)
{
	char *slow = pages(ROOM);
	int fd = slow_pages(slow, ROOM);
	struct node one, other;
	struct treadle_cqe c;
	struct ring rx;

	ring_open(&rx, self->b.fd, TREADLE_IOC_RX_CREATE, TREADLE_RX_SHARED, 64, 0);
	node_open(&one, (struct options){.context = self->b.fd, .shared_rx = &rx});
	node_open(&other, (struct options){.context = self->b.fd, .shared_rx = &rx});
	ASSERT_EQ(0, post_recv(&one, multi_of(slow, ROOM, 1, 7)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, ROOM, peer(&self->a, one.addr), 0)));
	page_asked_for(fd);
	ASSERT_EQ(0, destroy(self->b.fd, one.ep));
	if (queue)
		ASSERT_EQ(0, destroy(self->b.fd, one.rcq.id));
	take_pages_away(fd, slow, ROOM);
	c = cq_next(&other.rcq);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(7, c.context);
	EXPECT_EQ(0, c.len);
	EXPECT_EQ(TREADLE_CQ_MULTI_RECV, c.flags);
	EXPECT_EQ(0, c.buf);
	EXPECT_TRUE(cq_empty(&one.rcq));
	ring_wait(&one.rx, rx.entries); /* the slot is released after that */
	EXPECT_NE(0, cq_next(&self->a.cq).error);
}

TEST_F(multi_end, another_endpoint_reports_the_end)
{
	another_endpoint_reports(_metadata, self, false);
}

TEST_F(multi_end, another_endpoint_with_a_queue_reports_the_end)
{
	another_endpoint_reports(_metadata, self, true);
}

/* An endpoint closes, and its ring goes on with another one. */
TEST_F(multi_end, the_ring_keeps_its_buffers)
{
	struct treadle_ep_enable e = node_bindings(&self->b);
	struct treadle_addr addr = loopback(0);
	struct treadle_cqe c;
	__u64 to;

	ASSERT_EQ(0, post_recv(&self->b, multi_of(self->dst, 300, 1, 7)));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 100, self->to, 0)));
	EXPECT_EQ(100, cq_next(&self->b.rcq).len);
	ASSERT_EQ(0, destroy(self->b.fd, self->b.ep));
	ASSERT_EQ(0, ep_create(self->b.fd, &addr, NULL, &e.ep));
	e.tx = 0;
	ASSERT_EQ(0, call(self->b.fd, TREADLE_IOC_EP_ENABLE, &e));
	to = peer(&self->a, addr);
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 200, to, 0)));
	c = cq_next(&self->b.rcq);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ((unsigned long)self->dst + 100, c.buf);
	EXPECT_TRUE(c.flags & TREADLE_CQ_MULTI_RECV);
}

/* A message that could not be read is not received. The next message takes its place. */
TEST_F(multi_end, a_bad_message_takes_no_room)
{
	char *hole = pages(PAGE);

	need(munmap(hole, PAGE) == 0);
	ASSERT_EQ(0, post_recv(&self->b, multi_of(self->dst, 300, 1, 7)));
	for (int i = 0; i < 3; i++) {
		fill(self->src + i * 100, 100, i);
		ASSERT_EQ(1, post(&self->a, send_of(self->src + i * 100, 100, self->to, i)));
		ASSERT_EQ(1, post(&self->a, send_of(hole, 50, self->to, 99)));
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
		if (i < 2)
			EXPECT_EQ(EFAULT, cq_next(&self->a.cq).error);
	}
	for (int i = 0; i < 3; i++) {
		struct treadle_cqe c = cq_next(&self->b.rcq);

		EXPECT_EQ(0, c.error);
		EXPECT_EQ((unsigned long)self->dst + i * 100, c.buf);
		EXPECT_TRUE(same(self->dst + i * 100, 100, i));
		EXPECT_EQ(i == 2, !!(c.flags & TREADLE_CQ_MULTI_RECV));
	}
	EXPECT_EQ(EFAULT, cq_next(&self->a.cq).error);
}

/* If the bad message was the last one, the end has a completion of its own. */
// conformance: fi_cq(3): completion flag FI_MULTI_RECV: with the last message, or alone if no ...
TEST_F(multi_end, a_bad_message_may_end_it)
{
	char *hole = pages(PAGE);
	struct treadle_cqe c;

	need(munmap(hole, PAGE) == 0);
	ASSERT_EQ(0, post_recv(&self->b, multi_of(self->dst, 200, 150, 7)));
	ASSERT_EQ(1, post(&self->a, send_of(hole, 100, self->to, 99)));
	EXPECT_EQ(EFAULT, cq_next(&self->a.cq).error);
	c = cq_next(&self->b.rcq);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(TREADLE_CQ_MULTI_RECV, c.flags);
	EXPECT_EQ(0, c.buf);
	EXPECT_EQ(7, c.context);
	EXPECT_EQ(0, cntr_value(&self->b.rcvd));
}

/* The completions that the kernel keeps for a buffer are limited. */
TEST_F(multi_end, completions_are_not_read)
{
	const int count = 200;
	struct treadle_cqe c;
	int got = 0, ends = 0;

	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, post_recv(&self->b, multi_of(self->dst + i * 4096, 4096, 1, i)));
	for (int i = 0; i < count; i++) {
		fill(self->src + i * 8, 8, i);
		ASSERT_EQ(1, post(&self->a, send_of(self->src + i * 8, 8, self->to, i)));
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	/* the ring's entries, as many kept ones, and one for each buffer */
	do {
		c = cq_next(&self->b.rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_TRUE(same((void *)(unsigned long)c.buf, 8, got));
		ends += !!(c.flags & TREADLE_CQ_MULTI_RECV);
		got++;
	} while (ends < 4);
	EXPECT_GE(2 * 32 + 4, got);
	EXPECT_LE(2 * 32, got);
	EXPECT_TRUE(cq_empty(&self->b.rcq));
}

TEST_F(multi_end, descriptors_are_validated)
{
	struct treadle_iov iov[2] = {{(unsigned long)self->dst, 10},
				     {(unsigned long)self->dst + 10, 10}};
	struct treadle_desc d = multi_of(self->dst, 100, 10, 5);

	d.opcode = TREADLE_OP_TRECV;
	ASSERT_EQ(0, post_recv(&self->b, d));
	d = multi_of(self->dst, 100, 10, 5);
	d.iov_count = 0;
	d.addr = d.len = 0;
	ASSERT_EQ(0, post_recv(&self->b, d));
	d = recv_of(self->dst, 100, ANY, 5);
	d.data = 1;
	ASSERT_EQ(0, post_recv(&self->b, d));
	d = multi_of(self->dst, 100, 10, 5);
	d = vector(d, iov, 2);
	ring_put_vector(&self->b.rx, &d, iov);
	ring_publish(&self->b.rx);
	EXPECT_EQ(0, ring_doorbell(&self->b.rx));
	for (int i = 0; i < 4; i++) {
		struct treadle_cqe c = cq_next(&self->b.rcq);

		EXPECT_EQ(EINVAL, c.error);
		EXPECT_EQ(5, c.context);
	}
	EXPECT_EQ(self->b.rx.entries, ring_room(&self->b.rx));
}

/* --- several senders at once -------------------------------------------------------- */

#define SENDERS 4
#define EACH	300
#define LENGTH	2000

struct crowd {
	struct node node;
	__u64 to;
	int sender;
	char *src;
};

static void *crowd_send(void *arg)
{
	struct crowd *c = arg;

	for (int i = 0; i < EACH; i++) {
		char *at = c->src + i % 16 * LENGTH;
		__u64 seed = c->sender * EACH + i;

		fill(at, LENGTH, seed);
		memcpy(at, &seed, sizeof(seed));
		need(post(&c->node, send_of(at, LENGTH, c->to, i)) == 1);
		need(cq_next(&c->node.cq).error == 0);
	}
	return NULL;
}

/* Messages are copied concurrently. A buffer is released only after all of them are reported. */
// conformance: fi_cq(3): completion flag FI_MULTI_RECV: with the last message, or alone if no
//   message belongs to it
TEST_F(multi_end, parts_of_many_senders)
{
	const __u64 half = 7 * LENGTH + 13;
	int got = 0, inside[2] = {};
	bool seen[SENDERS * EACH] = {};
	pthread_t t[SENDERS];
	struct crowd *c;

	c = calloc(SENDERS, sizeof(*c));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, post_recv(&self->b, multi_of(self->dst + i * half, half, LENGTH, i)));
	for (int i = 0; i < SENDERS; i++) {
		node_open(&c[i].node, (struct options){});
		c[i].to = peer(&c[i].node, self->b.addr);
		c[i].sender = i;
		c[i].src = pages(16 * LENGTH);
		t[i] = thread(crowd_send, &c[i]);
	}
	while (got < SENDERS * EACH) {
		struct treadle_cqe e = cq_next(&self->b.rcq);
		char *at = (char *)(unsigned long)e.buf;
		__u64 seed;

		ASSERT_EQ(0, e.error);
		if (e.flags & TREADLE_CQ_RECV) {
			ASSERT_EQ(LENGTH, e.len);
			ASSERT_LE(self->dst + e.context * half, at);
			memcpy(&seed, at, sizeof(seed));
			ASSERT_GT(SENDERS * EACH, seed);
			ASSERT_FALSE(seen[seed]);
			seen[seed] = true;
			memcpy(at, &(__u64){pattern(seed, 0)}, sizeof(seed));
			ASSERT_TRUE(same(at, LENGTH, seed));
			memset(at, 0, LENGTH);
			inside[e.context]++;
			got++;
		}
		if (e.flags & TREADLE_CQ_MULTI_RECV) {
			/* the last completion of the buffer: no message comes after it */
			ASSERT_EQ(7, inside[e.context]);
			inside[e.context] = 0;
			ASSERT_EQ(0, post_recv(&self->b, multi_of(self->dst + e.context * half,
								  half, LENGTH, e.context)));
		}
	}
	for (int i = 0; i < SENDERS; i++)
		pthread_join(t[i], NULL);
	free(c);
}

TEST_HARNESS_MAIN
