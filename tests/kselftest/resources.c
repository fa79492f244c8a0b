/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fi_domain(3), "Resource Management", of connected endpoints and of datagrams (of others: flow.c,
 * kept.c, cq.c): the result for a message if a ring or a queue is full, no receive is posted, or
 * the buffer is too short.
 */
#include "connection.h"

#define SMALL 64
/* not copied at a receiver with BUFFERED bytes; a datagram has at most 64 KiB */
#define LARGE	 60000
#define BUFFERED 16384

FIXTURE(resources)
{
	struct node a, b;
	__u64 to;
	char *src, *dst;
};

FIXTURE_VARIANT(resources)
{
	__u32 type;
};

/* clang-format off */
FIXTURE_VARIANT_ADD(resources, connected) { .type = TREADLE_EP_MSG };
FIXTURE_VARIANT_ADD(resources, datagrams) { .type = TREADLE_EP_DGRAM };
/* clang-format on */

FIXTURE_SETUP(resources)
{
	struct options few = {.type = variant->type,
			      .tx = 16,
			      .rx = 16,
			      .cq = 16,
			      .rcq = 16,
			      .buffered = BUFFERED};
	struct listener l;

	self->src = pages(64 * LARGE);
	self->dst = pages(64 * LARGE);
	if (variant->type == TREADLE_EP_DGRAM) {
		node_open(&self->a, few);
		node_open(&self->b, few);
		self->to = peer(&self->a, self->b.addr);
		return;
	}
	listener_open(&l);
	msg_open(&self->a, few, l.eq, CLIENT);
	need(connect_to(self->a.fd, self->a.ep, l.addr, NULL, 0) == 0);
	few.request = event_is(l.eq, TREADLE_EVENT_CONNREQ, PEP).request;
	msg_open(&self->b, few, l.eq, SERVER);
	need(accept_with(self->b.fd, self->b.ep, NULL, 0) == 0);
	self->to = 0;
}

FIXTURE_TEARDOWN(resources)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
}

typedef FIXTURE_DATA(resources) ends;

static int send_nth(ends *e, size_t len, int i)
{
	char *at = e->src + i % 64 * LARGE;

	fill(at, len, i);
	return post(&e->a, send_of(at, len, e->to, i));
}

static void receive_nth(ends *e, size_t len, int i)
{
	need(post_recv(&e->b, recv_of(e->dst + i % 64 * LARGE, len, ANY, i)) == 0);
}

/* The next message received must be message @n, by receive @i. */
static void expect_received(struct __test_metadata *_metadata, ends *e, size_t len, int i, int n)
{
	struct treadle_cqe c = cq_next(&e->b.rcq);

	EXPECT_EQ(i, c.context);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ(len, c.len);
	EXPECT_TRUE(same(e->dst + i % 64 * LARGE, len, n));
}

static void expect_sent(struct __test_metadata *_metadata, ends *e, int i)
{
	struct treadle_cqe c = cq_next(&e->a.cq);

	EXPECT_EQ(i, c.context);
	EXPECT_EQ(0, c.error);
}

/* --- the sender's ring --------------------------------------------------------------------- */

/* Before the doorbell the ring stays full; it has room once its commands are done. */
// conformance: fi_domain(3): resource management: Tx Ctx or Rx Ctx full: EAGAIN
TEST_F(resources, a_transmit_ring_is_full_until_its_doorbell)
{
	struct ring *tx = &self->a.tx;

	for (int i = 0; i < tx->entries; i++) {
		struct treadle_desc d = send_of(self->src, SMALL, self->to, i);

		receive_nth(self, SMALL, i);
		d.flags |= TREADLE_F_MORE;
		ring_put(tx, &d);
	}
	fill(self->src, SMALL, 1);
	EXPECT_EQ(0, ring_room(tx));
	ring_publish(tx);
	EXPECT_EQ(0, ring_room(tx));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	EXPECT_EQ(tx->entries, ring_doorbell(tx));
	EXPECT_EQ(tx->entries, ring_room(tx));
	for (int i = 0; i < tx->entries; i++) {
		expect_received(_metadata, self, SMALL, i, 1);
		expect_sent(_metadata, self, i);
	}
}

/*
 * Messages that are not received stay in a connection's own ring until that is full; datagrams are
 * dropped.
 */
// conformance: fi_domain(3): resource management: target EP without an Rx buffer: the message ...
TEST_F(resources, unreceived_messages_are_parked_or_dropped)
{
	struct ring *tx = &self->a.tx;
	const int count = tx->entries;

	if (variant->type == TREADLE_EP_DGRAM) {
		for (int i = 0; i < 4 * count; i++) {
			ASSERT_EQ(1, send_nth(self, LARGE, i));
			ASSERT_EQ(count, ring_room(tx));
			expect_sent(_metadata, self, i);
		}
		receive_nth(self, LARGE, 1);
		EXPECT_EQ(-EAGAIN, cq_wait(&self->b.rcq, 0));
		ASSERT_EQ(1, send_nth(self, LARGE, 2));
		expect_sent(_metadata, self, 2);
		expect_received(_metadata, self, LARGE, 1, 2);
		return;
	}
	for (int i = 0; i < count; i++) {
		ASSERT_EQ(1, send_nth(self, LARGE, i));
		ASSERT_EQ(count - 1 - i, ring_room(tx));
	}
	EXPECT_TRUE(cq_empty(&self->a.cq));
	for (int i = 0; i < count; i++) {
		receive_nth(self, LARGE, i);
		expect_received(_metadata, self, LARGE, i, i);
		expect_sent(_metadata, self, i);
		ring_wait(tx, i + 1);
	}
}

/*
 * Small messages are copied while there is room. After that they, too, wait in the ring or are
 * dropped.
 */
// conformance: fi_domain(3): resource management: target EP without an Rx buffer: the message ...
TEST_F(resources, buffered_messages_are_limited)
{
	const int count = 2 * self->a.tx.entries;
	int posted = 0, sent = 0, got = 0;
	struct treadle_cqe c;

	while (posted < count && ring_room(&self->a.tx)) {
		ASSERT_EQ(1, send_nth(self, 4000, posted++));
		while (cq_poll(&self->a.cq, &c))
			ASSERT_EQ(sent++, c.context);
	}
	if (variant->type == TREADLE_EP_DGRAM) {
		EXPECT_EQ(count, sent);
	} else {
		EXPECT_EQ(sent + self->a.tx.entries, posted);
		EXPECT_GE(BUFFERED / 4000, sent);
	}
	EXPECT_LT(1, sent);
	for (;; got++) {
		receive_nth(self, 4000, got);
		if (cq_wait(&self->b.rcq,
			    variant->type == TREADLE_EP_DGRAM || got == posted ? 0 : PATIENCE_NS) ==
		    -EAGAIN)
			break;
		/* None is missing in between, as all have the same length. */
		expect_received(_metadata, self, 4000, got, got);
	}
	for (; sent < posted; sent++)
		expect_sent(_metadata, self, sent);
	if (variant->type == TREADLE_EP_DGRAM) {
		EXPECT_LT(1, got);
		EXPECT_GE(BUFFERED / 4000, got);
	} else {
		EXPECT_EQ(posted, got);
	}
	ASSERT_EQ(1, send_nth(self, 4000, 99));
	expect_sent(_metadata, self, 99);
	expect_received(_metadata, self, 4000, got, 99);
}

/* --- the receiver's ring --------------------------------------------------------------------- */

// conformance: fi_domain(3): resource management: Tx Ctx or Rx Ctx full: EAGAIN
TEST_F(resources, a_receive_ring_is_full_until_messages_come)
{
	struct ring *rx = &self->b.rx;

	for (int i = 0; i < rx->entries; i++) {
		ASSERT_EQ(rx->entries - i, ring_room(rx));
		receive_nth(self, SMALL, i);
	}
	EXPECT_EQ(0, ring_room(rx));
	EXPECT_EQ(0, ring_doorbell(rx));
	EXPECT_EQ(0, ring_room(rx));
	for (int i = 0; i < 3 * rx->entries; i++) {
		ASSERT_EQ(1, send_nth(self, SMALL, i));
		expect_sent(_metadata, self, i);
		expect_received(_metadata, self, SMALL, i, i);
		ASSERT_EQ(1, ring_room(rx));
		receive_nth(self, SMALL, i + rx->entries);
		ASSERT_EQ(0, ring_room(rx));
	}
}

/* --- queues ----------------------------------------------------------------------------------- */

/*
 * As many completions as the ring has entries are kept besides. More commands are refused before
 * they have any effect.
 */
// conformance: fi_domain(3): resource management: Tx CQ full: EAGAIN; completions that do not ...
// conformance: ioctl.h: EAGAIN: the caller's completion queue overflows
TEST_F(resources, a_full_queue_of_the_sender_refuses_more)
{
	struct cq *q = &self->a.cq;
	int taken = 0, result;

	for (;;) {
		receive_nth(self, SMALL, taken);
		result = send_nth(self, SMALL, taken);
		if (result != 1)
			break;
		expect_received(_metadata, self, SMALL, taken, taken);
		taken++;
		ASSERT_GT(4 * q->entries, taken);
	}
	EXPECT_EQ(-EAGAIN, result);
	EXPECT_LE(2 * q->entries, taken);
	EXPECT_GE(2 * q->entries + 2, taken);
	for (int i = 0; i < 10; i++)
		EXPECT_EQ(-EAGAIN, send_nth(self, SMALL, 1000));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	EXPECT_EQ(self->a.tx.entries, ring_room(&self->a.tx));
	EXPECT_TRUE(cntr_becomes(&self->a.sent, taken, 0));
	for (int i = 0; i < taken; i++)
		expect_sent(_metadata, self, i);
	EXPECT_TRUE(cq_empty(q));
	/* The receive is still there for the next message. */
	ASSERT_EQ(1, send_nth(self, SMALL, 7));
	expect_sent(_metadata, self, 7);
	expect_received(_metadata, self, SMALL, taken, 7);
}

/*
 * A completion that does not fit keeps the slot of its receive, so no more receives can be posted;
 * nothing is lost, and no sender is held up.
 */
// conformance: fi_domain(3): resource management: Rx CQ full: completions are kept, never lost
TEST_F(resources, a_full_queue_of_the_receiver_loses_nothing)
{
	struct cq *q = &self->b.rcq;
	const int count = q->entries + self->b.rx.entries;

	for (int i = 0; i < count; i++) {
		ASSERT_LT(0, ring_room(&self->b.rx));
		receive_nth(self, SMALL, i);
		ASSERT_EQ(1, send_nth(self, SMALL, i));
		expect_sent(_metadata, self, i);
	}
	EXPECT_TRUE(cq_overflows(q));
	EXPECT_EQ(0, ring_room(&self->b.rx));
	/* The next message finds no receive, and waits as a copy. */
	ASSERT_EQ(1, send_nth(self, SMALL, count));
	expect_sent(_metadata, self, count);
	for (int i = 0; i < count; i++)
		expect_received(_metadata, self, SMALL, i, i);
	EXPECT_TRUE(cq_empty(q));
	EXPECT_EQ(self->b.rx.entries, ring_room(&self->b.rx));
	receive_nth(self, SMALL, count);
	expect_received(_metadata, self, SMALL, count, count);
	EXPECT_TRUE(cntr_becomes(&self->b.rcvd, count + 1, 0));
}

/* --- buffers ---------------------------------------------------------------------------------- */

/* The receiver gets the bytes that fit, and the number that did not; the send succeeds. */
// conformance: fi_domain(3): resource management: Rx buffer overrun: truncated, FI_ETRUNC at ...
// conformance: ioctl.h: ETRUNC: longer than the receive buffer
TEST_F(resources, too_short_a_buffer_truncates)
{
	static const size_t sizes[][2] = {
		{1, 0}, {100, 10}, {4096, 4095}, {5000, 1}, {LARGE, 40000}};

	for (int i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t len = sizes[i][0], room = sizes[i][1];
		struct treadle_cqe c;

		about("%zu into %zu", len, room);
		memset(self->dst + i * LARGE, 0xee, len);
		receive_nth(self, room, i);
		ASSERT_EQ(1, send_nth(self, len, i));
		expect_sent(_metadata, self, i);
		c = cq_next(&self->b.rcq);
		EXPECT_EQ(i, c.context);
		EXPECT_EQ(TREADLE_ETRUNC, c.error);
		EXPECT_EQ(room, c.len);
		EXPECT_EQ(len - room, c.olen);
		EXPECT_EQ(0, memcmp(self->dst + i * LARGE, self->src + i * LARGE, room));
		EXPECT_TRUE(all_are(self->dst + i * LARGE + room, len - room, 0xee));
	}
	EXPECT_TRUE(cntr_becomes(&self->b.rcvd, 0, ARRAY_SIZE(sizes)));
	EXPECT_TRUE(cntr_becomes(&self->a.sent, ARRAY_SIZE(sizes), 0));
}

/*
 * Selective completion: success is not reported. An error is reported, even if the queue is full.
 */
// conformance: fi_domain(3): resource management: errors of selective completion need no reserved
//   room: they are kept like all completions
TEST(errors_of_silent_commands_are_not_lost)
{
	struct node n;
	__u64 unreachable;
	int count;

	node_open(&n, (struct options){.cq = 16});
	unreachable = peer(&n, loopback(1));
	count = n.cq.entries + 5;
	for (int i = 0; i < count; i++) {
		struct treadle_desc d = send_of("x", 1, unreachable, i);

		d.flags = 0;
		ASSERT_EQ(1, post(&n, d));
	}
	for (int i = 0; i < count; i++) {
		struct treadle_cqe c = cq_next(&n.cq);

		ASSERT_EQ(i, c.context);
		ASSERT_EQ(ECONNREFUSED, c.error);
	}
	EXPECT_TRUE(cq_empty(&n.cq));
	close(n.fd);
}

TEST_HARNESS_MAIN
