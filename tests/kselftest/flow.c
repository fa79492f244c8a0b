/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The flow of commands through rings: credits, wrapping, batches, cancel, and rings that several
 * endpoints share.
 */
#include "treadle.h"

FIXTURE(flow)
{
	struct node a, b;
	__u64 to;
	char *src, *dst;
};

FIXTURE_SETUP(flow)
{
	node_open(&self->a, (struct options){.tx = 32, .cq = 64});
	node_open(&self->b, (struct options){.rx = 32, .rcq = 64});
	self->to = peer(&self->a, self->b.addr);
	self->src = pages(4 << 20);
	self->dst = pages(4 << 20);
}

FIXTURE_TEARDOWN(flow)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
}

typedef FIXTURE_DATA(flow) flow;

/* Commands of one and of two slots in turn, so that vectors wrap at every place. */
TEST_F(flow, rings_wrap_many_times)
{
	struct ring *tx = &self->a.tx, *rx = &self->b.rx;
	const int rounds = 3000;
	__u32 slots = 0;

	for (int i = 0; i < rounds; i++) {
		struct treadle_iov out[3] = {
			{(unsigned long)self->src, 5},
			{(unsigned long)self->src + 5, 0},
			{(unsigned long)self->src + 5, 20},
		};
		struct treadle_iov in[2] = {
			{(unsigned long)self->dst, 13},
			{(unsigned long)self->dst + 13, 12},
		};
		struct treadle_desc send = send_of(self->src, 25, self->to, i),
				    recv = recv_of(self->dst, 25, ANY, i);

		fill(self->src, 25, i);
		memset(self->dst, 0, 25);
		if (i % 3) {
			recv = vector(recv, in, 2);
			ring_put_vector(rx, &recv, in);
		} else {
			ring_wait(rx, 1);
			ring_put(rx, &recv);
			ring_publish(rx);
		}
		if (i % 5) {
			send = vector(send, out, 3);
			ring_put_vector(tx, &send, out);
		} else {
			ring_wait(tx, 1);
			ring_put(tx, &send);
			ring_publish(tx);
		}
		slots += i % 5 ? 2 : 1;
		ASSERT_EQ(1, ring_doorbell(tx));
		ASSERT_EQ(i, cq_next(&self->b.rcq).context);
		ASSERT_EQ(i, cq_next(&self->a.cq).context);
		ASSERT_TRUE(same(self->dst, 25, i));
		ASSERT_EQ(slots, ring_released(tx));
	}
	EXPECT_TRUE(cntr_becomes(&self->b.rcvd, rounds, 0));
}

/* 32 commands, one doorbell: all but the last have F_MORE. */
TEST_F(flow, one_doorbell_for_many)
{
	for (int i = 0; i < 32; i++) {
		struct treadle_desc send = send_of(self->src + i * 64, 64, self->to, i);
		struct treadle_desc recv = recv_of(self->dst + i * 64, 64, ANY, i);

		fill(self->src + i * 64, 64, i);
		send.flags |= i < 31 ? TREADLE_F_MORE : 0;
		ring_put(&self->a.tx, &send);
		ring_put(&self->b.rx, &recv);
	}
	ring_publish(&self->b.rx);
	ring_publish(&self->a.tx);
	EXPECT_EQ(0, ring_released(&self->a.tx));
	EXPECT_EQ(32, ring_doorbell(&self->a.tx));
	EXPECT_EQ(32, ring_released(&self->a.tx));
	EXPECT_EQ(32, ring_released(&self->b.rx));
	for (int i = 0; i < 32; i++) {
		EXPECT_EQ(i, cq_next(&self->a.cq).context);
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
		EXPECT_TRUE(same(self->dst + i * 64, 64, i));
	}
	EXPECT_EQ(0, ring_doorbell(&self->a.tx));
}

TEST_F(flow, a_refused_command_in_a_batch_completes_with_its_error)
{
	for (int i = 0; i < 6; i++) {
		struct treadle_desc send = send_of(self->src, 8, self->to, i);

		send.flags |= TREADLE_F_MORE;
		if (i == 2)
			send.reserved0 = 1;
		if (i == 3)
			send.peer = 99;
		ring_put(&self->a.tx, &send);
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst + i * 8, 8, ANY, i)));
	}
	ring_publish(&self->a.tx);
	EXPECT_EQ(6, ring_doorbell(&self->a.tx));
	for (int i = 0; i < 6; i++) {
		struct treadle_cqe c = cq_next(&self->a.cq);

		EXPECT_EQ(i, c.context);
		EXPECT_EQ(i == 2 ? EINVAL : i == 3 ? EDESTADDRREQ : 0, c.error);
		if (c.error)
			EXPECT_EQ(0, c.len);
	}
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
	}
	EXPECT_TRUE(cntr_becomes(&self->a.sent, 4, 2));
	EXPECT_EQ(6, ring_released(&self->a.tx));
}

/*
 * The doorbell counts the commands before the refused one, drops that one, and leaves the rest for
 * the next doorbell.
 */
TEST_F(flow, a_refused_command_stops_the_doorbell)
{
	for (int i = 0; i < 5; i++) {
		struct treadle_desc send = send_of(self->src, 8, self->to, i);

		if (i == 2)
			send.opcode = 200;
		ring_put(&self->a.tx, &send);
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, i)));
	}
	ring_publish(&self->a.tx);
	EXPECT_EQ(2, ring_doorbell(&self->a.tx));
	EXPECT_TRUE(cntr_becomes(&self->a.sent, 2, 0));
	EXPECT_EQ(-EOPNOTSUPP, ring_doorbell(&self->a.tx));
	EXPECT_TRUE(cntr_becomes(&self->a.sent, 2, 0));
	EXPECT_EQ(2, ring_doorbell(&self->a.tx));
	EXPECT_EQ(0, ring_doorbell(&self->a.tx));
	EXPECT_TRUE(cntr_becomes(&self->a.sent, 4, 0));
	EXPECT_EQ(5, ring_released(&self->a.tx));
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(i < 2 ? i : i + 1, cq_next(&self->a.cq).context);
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
	}
}

/* Slots come back when commands finish, not when they are read. */
TEST_F(flow, credits_follow_completions)
{
	const size_t large = 1 << 20;
	int posted = 0;

	while (ring_room(&self->a.tx)) {
		ASSERT_EQ(1, post(&self->a, send_of(self->src, large, self->to, posted)));
		posted++;
		ASSERT_GE(32, posted);
	}
	EXPECT_EQ(self->a.tx.entries, posted);
	EXPECT_EQ(0, ring_released(&self->a.tx));
	for (int i = 0; i < posted; i++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, large, ANY, i)));
		ASSERT_EQ(i, cq_next(&self->b.rcq).context);
		ASSERT_EQ(i, cq_next(&self->a.cq).context);
		while (ring_released(&self->a.tx) != i + 1)
			sched_yield();
	}
	/* A receive, too, holds its slot until a message has come. */
	for (int i = 0; i < self->b.rx.entries; i++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, i)));
	}
	EXPECT_EQ(0, ring_room(&self->b.rx));
	for (int i = 0; i < self->b.rx.entries; i++) {
		ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, self->to, i)));
		ASSERT_EQ(i, cq_next(&self->b.rcq).context);
		ASSERT_EQ(i, cq_next(&self->a.cq).context);
		ASSERT_EQ(i + 1, ring_room(&self->b.rx));
	}
}

/* An armed command has left the ring. */
TEST_F(flow, armed_commands_need_no_slots)
{
	struct cntr c;

	cntr_open(&c, self->a.fd);
	for (int i = 0; i < 1000; i++) {
		ASSERT_EQ(1, post(&self->a, when(send_of(self->src, 8, self->to, i), &c, 5)));
		ASSERT_EQ(self->a.tx.entries, ring_room(&self->a.tx));
	}
}

/* --- cancel ---------------------------------------------------------------- */

static void expect_canceled(struct __test_metadata *_metadata, struct cq *q, __u64 context,
			    __u32 flags)
{
	struct treadle_cqe c = cq_next(q);

	EXPECT_EQ(context, c.context);
	EXPECT_EQ(ECANCELED, c.error);
	EXPECT_EQ(flags, c.flags);
	EXPECT_EQ(0, c.len);
}

static int cancel_op(struct node *n, __u64 context, __u64 *count)
{
	return cancel(n->fd, TREADLE_CANCEL_OP, n->ep, context, 0, count);
}

// conformance: ioctl.h: ENOENT: nothing to cancel
// conformance: ioctl.h: ECANCELED: (completion) a command that was canceled
TEST_F(flow, posted_receives_can_be_canceled)
{
	__u64 count;

	EXPECT_EQ(-ENOENT, cancel_op(&self->b, 1, &count));
	for (int i = 0; i < 4; i++) {
		ASSERT_EQ(0,
			  post_recv(&self->b, i & 1 ? trecv_of(self->dst + i * 8, 8, ANY, 1, 0, i) :
						      recv_of(self->dst + i * 8, 8, ANY, i)));
	}
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(0, cancel_op(&self->b, i, &count));
		EXPECT_EQ(1, count);
		expect_canceled(_metadata, &self->b.rcq, i,
				TREADLE_CQ_RECV | (i & 1 ? TREADLE_CQ_TAGGED : TREADLE_CQ_MSG));
		EXPECT_EQ(-ENOENT, cancel_op(&self->b, i, &count));
	}
	EXPECT_TRUE(cntr_becomes(&self->b.rcvd, 0, 2));
	/* Messages go to the remaining receives. */
	fill(self->src, 8, 1);
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, self->to, 10)));
	EXPECT_EQ(2, cq_next(&self->b.rcq).context);
	EXPECT_TRUE(same(self->dst + 16, 8, 1));
	ASSERT_EQ(1, post(&self->a, tsend_of(self->src, 8, self->to, 1, 11)));
	EXPECT_EQ(3, cq_next(&self->b.rcq).context);
	EXPECT_TRUE(all_are(self->dst, 16, 0));
	EXPECT_EQ(10, cq_next(&self->a.cq).context);
	EXPECT_EQ(11, cq_next(&self->a.cq).context);
	EXPECT_EQ(-ENOENT, cancel_op(&self->b, 2, &count));
	EXPECT_TRUE(cntr_becomes(&self->b.rcvd, 2, 2));
}

TEST_F(flow, one_at_a_time_the_oldest_first)
{
	struct treadle_cqe c;

	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst + i * 8, 8, ANY, 7)));
	}
	EXPECT_EQ(0, cancel_op(&self->b, 7, NULL));
	c = cq_next(&self->b.rcq);
	EXPECT_EQ(ECANCELED, c.error);
	EXPECT_EQ((unsigned long)self->dst, c.buf);
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, self->to, 1)));
	c = cq_next(&self->b.rcq);
	EXPECT_EQ(0, c.error);
	EXPECT_EQ((unsigned long)self->dst + 8, c.buf);
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
}

// conformance: ioctl.h: ENOENT: nothing to cancel
// conformance: ioctl.h: ECANCELED: (completion) a command that was canceled
TEST_F(flow, parked_sends_can_be_canceled)
{
	fill(self->src, 1 << 20, 1);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(1, post(&self->a, send_of(self->src, (1 << 20) - i, self->to, i)));
	}
	EXPECT_EQ(0, cancel_op(&self->a, 1, NULL));
	expect_canceled(_metadata, &self->a.cq, 1, TREADLE_CQ_SEND | TREADLE_CQ_MSG);
	EXPECT_EQ(-ENOENT, cancel_op(&self->a, 1, NULL));
	EXPECT_TRUE(cntr_becomes(&self->a.sent, 0, 1));
	EXPECT_EQ(1, ring_released(&self->a.tx));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 1 << 20, ANY, i)));
		EXPECT_EQ((1 << 20) - 2 * i, cq_next(&self->b.rcq).len);
		EXPECT_EQ(2 * i, cq_next(&self->a.cq).context);
	}
	/* The canceled message is gone. */
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 1 << 20, ANY, 9)));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	EXPECT_EQ(0, cancel_op(&self->b, 9, NULL));
	expect_canceled(_metadata, &self->b.rcq, 9, TREADLE_CQ_RECV | TREADLE_CQ_MSG);
}

// conformance: ioctl.h: ECANCELED: (completion) a command that was canceled
TEST_F(flow, armed_sends_can_be_canceled)
{
	struct cntr c;

	cntr_open(&c, self->a.fd);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(1, post(&self->a, when(send_of(self->src, 8, self->to, i), &c, 1)));
	}
	EXPECT_EQ(0, cancel_op(&self->a, 1, NULL));
	expect_canceled(_metadata, &self->a.cq, 1, TREADLE_CQ_SEND | TREADLE_CQ_MSG);
	ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_ADD, &c, 1, 0)));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, i)));
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
		EXPECT_EQ(2 * i, cq_next(&self->a.cq).context);
	}
}

static int cancel_side(struct node *n, __u32 side, __u64 context)
{
	return cancel_of(n->fd, side, TREADLE_CANCEL_OP, n->ep, context, 0, NULL);
}

/* A receive, a waiting send, and one of each that is armed, all with the same context. */
// conformance: fi_endpoint(3): fi_cancel: one operation, by its context; operations without a ...
// conformance: ioctl.h: ENOENT: nothing to cancel
TEST_F(flow, one_side_can_be_canceled)
{
	const __u32 recvs = TREADLE_CQ_RECV | TREADLE_CQ_MSG,
		    sends = TREADLE_CQ_SEND | TREADLE_CQ_MSG;
	struct node *a = &self->a;
	struct cntr c;

	cntr_open(&c, a->fd);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, post_recv(a, recv_of(self->dst, 8, ANY, 7)));
		ASSERT_EQ(1, post(a, when(recv_of(self->dst, 8, ANY, 7), &c, 1)));
		ASSERT_EQ(1, post(a, send_of(self->src, 1 << 20, self->to, 7)));
		ASSERT_EQ(1, post(a, when(send_of(self->src, 8, self->to, 7), &c, 1)));
		for (int n = 0; n < 2; n++) {
			ASSERT_EQ(0, cancel_side(a, i ? TREADLE_CANCEL_RX : TREADLE_CANCEL_TX, 7));
			expect_canceled(_metadata, i ? &a->rcq : &a->cq, 7, i ? recvs : sends);
		}
		EXPECT_EQ(-ENOENT, cancel_side(a, i ? TREADLE_CANCEL_RX : TREADLE_CANCEL_TX, 7));
		EXPECT_TRUE(cq_empty(&a->cq));
		EXPECT_TRUE(cq_empty(&a->rcq));
		for (int n = 0; n < 2; n++) {
			ASSERT_EQ(0, cancel_side(a, TREADLE_CANCEL_TX | TREADLE_CANCEL_RX, 7));
			expect_canceled(_metadata, i ? &a->cq : &a->rcq, 7, i ? sends : recvs);
		}
		EXPECT_EQ(-ENOENT, cancel_side(a, 0, 7));
	}
	EXPECT_EQ(-EINVAL, cancel_side(a, 4, 7));
	EXPECT_EQ(-EINVAL,
		  cancel_of(a->fd, TREADLE_CANCEL_TX, TREADLE_CANCEL_WORK, c.id, 7, 1, NULL));
	EXPECT_EQ(-EINVAL,
		  cancel_of(a->fd, TREADLE_CANCEL_RX, TREADLE_FLUSH_WORK, c.id, 0, 0, NULL));
}

struct canceler {
	flow *flow;
	int *stop;
	__u64 context; /* of the receive that is posted */
	int canceled;
};

static void *cancels(void *arg)
{
	struct canceler *c = arg;
	while (!__atomic_load_n(c->stop, __ATOMIC_ACQUIRE)) {
		__u64 context = __atomic_load_n(&c->context, __ATOMIC_RELAXED);

		if (cancel_op(&c->flow->b, context, NULL) == 0)
			c->canceled++;
	}
	return NULL;
}

static void next_receive(struct canceler *c, __u64 context)
{
	char *at = c->flow->dst + context % 8 * 64;

	need(post_recv(&c->flow->b, recv_of(at, 8, ANY, context)) == 0);
	__atomic_store_n(&c->context, context, __ATOMIC_RELAXED);
}

/*
 * Each receive ends once, with its message or canceled, and no message is lost to a canceled one.
 */
TEST_F(flow, cancel_races_with_delivery)
{
	struct canceler c = {.flow = self};
	int stop = 0, got = 0, canceled = 0;
	__u64 next = 0, state = 1;
	const int count = 5000;
	pthread_t t;

	c.stop = &stop;
	t = thread(cancels, &c);
	/* more rounds on a machine on which the two have not met yet */
	for (int i = 0; i < count || (!canceled && i < 20 * count); i++) {
		struct treadle_cqe e;

		next_receive(&c, next++);
		for (volatile int pause = lottery(&state) % 4000; pause > 0; pause--)
			;
		*(int *)self->src = i;
		ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, self->to, i)));
		while ((e = cq_next(&self->b.rcq)).error) {
			ASSERT_EQ(ECANCELED, e.error);
			canceled++;
			next_receive(&c, next++);
		}
		ASSERT_EQ(next - 1, e.context);
		ASSERT_EQ(i, *(int *)(self->dst + e.context % 8 * 64));
		got++;
		ASSERT_EQ(i, cq_next(&self->a.cq).context);
	}
	raise_to(&stop, 1);
	pthread_join(t, NULL);
	EXPECT_LT(0, canceled);
	EXPECT_EQ(c.canceled, canceled);
	EXPECT_EQ(next, got + canceled);
	EXPECT_TRUE(cntr_becomes(&self->b.rcvd, got, canceled));
	note("%d delivered, %d canceled", got, canceled);
}

/* --- shared rings ---------------------------------------------------------- */

TEST(endpoints_share_a_transmit_ring)
{
	struct treadle_desc d;
	struct node a, a2, b;
	struct ring tx;
	char got[8];

	node_open(&b, (struct options){.flags = TREADLE_EP_SOURCE});
	node_create(&a, (struct options){});
	node_create(&a2, (struct options){.context = a.fd});
	ring_open(&tx, a.fd, TREADLE_IOC_TX_CREATE, TREADLE_TX_SHARED, 64, 0);
	a.tx = a2.tx = tx;
	for (int i = 0; i < 2; i++) {
		struct treadle_ep_enable e = node_bindings(i ? &a2 : &a);

		ASSERT_EQ(0, call(a.fd, TREADLE_IOC_EP_ENABLE, &e));
		EXPECT_EQ(i, peer(&b, i ? a2.addr : a.addr));
		EXPECT_EQ(0, peer(i ? &a2 : &a, b.addr));
	}
	for (int i = 0; i < 6; i++) {
		ASSERT_EQ(0, post_recv(&b, recv_of(got, 8, ANY, i)));
		d = send_of("abcdefg", 8, 0, i);
		d.flags |= TREADLE_F_EXT;
		d.ep = i & 1 ? a2.ep : a.ep;
		ring_put(&tx, &d);
		ring_publish(&tx);
		ASSERT_EQ(1, ring_doorbell(&tx));
		EXPECT_EQ(i & 1, cq_next(&b.rcq).src);
		EXPECT_EQ(i, cq_next(i & 1 ? &a2.cq : &a.cq).context);
	}
	EXPECT_EQ(-EBUSY, destroy(a.fd, tx.id));
	/* One endpoint goes, the other stays. */
	ASSERT_EQ(0, destroy(a.fd, a.ep));
	EXPECT_EQ(-EBUSY, destroy(a.fd, tx.id));
	d.ep = a.ep;
	ring_put(&tx, &d);
	ring_publish(&tx);
	EXPECT_EQ(-ENOENT, ring_doorbell(&tx));
	d.ep = a2.ep;
	ring_put(&tx, &d);
	ring_publish(&tx);
	EXPECT_EQ(1, ring_doorbell(&tx));
	ASSERT_EQ(0, destroy(a.fd, a2.ep));
	EXPECT_EQ(0, destroy(a.fd, tx.id));
}

// conformance: fi_domain(3): max_ep_stx_ctx, max_ep_srx_ctx: as many as endpoints
TEST(endpoints_share_a_receive_ring)
{
	struct node a, b, b2;
	__u64 to[2];
	char got[8];

	node_open(&a, (struct options){});
	node_create(&b, (struct options){});
	node_create(&b2, (struct options){.context = b.fd});
	b2.rx = b.rx;
	for (int i = 0; i < 2; i++) {
		struct treadle_ep_enable e = node_bindings(i ? &b2 : &b);

		ASSERT_EQ(0, call(b.fd, TREADLE_IOC_EP_ENABLE, &e));
		to[i] = peer(&a, i ? b2.addr : b.addr);
	}
	/* The completion goes to the queue of the endpoint that the message was for. */
	for (int i = 0; i < 6; i++) {
		ASSERT_EQ(0, post_recv(&b, recv_of(got, 8, ANY, i)));
		ASSERT_EQ(1, post(&a, send_of("abcdefg", 8, to[i & 1], i)));
		EXPECT_EQ(i, cq_next(i & 1 ? &b2.rcq : &b.rcq).context);
		EXPECT_EQ(i, cq_next(&a.cq).context);
	}
	EXPECT_TRUE(cntr_becomes(&b.rcvd, 3, 0));
	EXPECT_TRUE(cntr_becomes(&b2.rcvd, 3, 0));
	/*
	 * A receive posted to a transmit ring is reported to the ring's endpoint, whichever
	 * endpoint cancels it.
	 */
	ASSERT_EQ(1, post(&b2, recv_of(got, 8, ANY, 77)));
	EXPECT_EQ(0, cancel_op(&b, 77, NULL));
	EXPECT_EQ(ECANCELED, cq_next(&b2.rcq).error);
	EXPECT_TRUE(cntr_becomes(&b2.rcvd, 3, 1));
	EXPECT_TRUE(cntr_becomes(&b.rcvd, 3, 0));
	/*
	 * The endpoint that was there first goes: messages that wait for it end, the other endpoint
	 * stays.
	 */
	for (int i = 0; i < 1500; i++) {
		ASSERT_EQ(1, post(&a, send_of("abcdefg", 8, to[1], i)));
		ASSERT_EQ(i, cq_next(&a.cq).context);
	}
	ASSERT_EQ(1, post(&a, send_of(pages(1 << 20), 1 << 20, to[0], 7)));
	ASSERT_EQ(0, destroy(b.fd, b.ep));
	EXPECT_EQ(ECONNRESET, cq_next(&a.cq).error);
	for (int i = 0; i < 1500; i++) {
		ASSERT_EQ(0, post_recv(&b, recv_of(got, 8, ANY, i)));
		ASSERT_EQ(0, ring_doorbell(&b.rx));
		ASSERT_EQ(i, cq_next(&b2.rcq).context);
	}
	ASSERT_EQ(0, post_recv(&b, recv_of(got, 8, ANY, 9)));
	ASSERT_EQ(1, post(&a, send_of("abcdefg", 8, to[1], 9)));
	EXPECT_EQ(9, cq_next(&b2.rcq).context);
	ASSERT_EQ(1, post(&a, send_of("abcdefg", 8, to[0], 9)));
	EXPECT_EQ(9, cq_next(&a.cq).context);
	EXPECT_EQ(ECONNREFUSED, cq_next(&a.cq).error);
}

TEST_HARNESS_MAIN
