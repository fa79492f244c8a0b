/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scalable endpoints: several rings at one address, fi_endpoint(3). How addresses name contexts;
 * scalable_life.c has their lifetimes.
 */
// conformance: fi_endpoint(3): FI_NAMED_RX_CTX, fi_rx_addr, rx_ctx_bits: an initiator targets a ...

#include "scalable.h"

#define LARGE (1UL << 16)

static char in[LARGE], out[LARGE];

FIXTURE(scalable)
{
	struct sep a, b;
	__u64 to; /* b's index at a */
};

FIXTURE_SETUP(scalable)
{
	sep_open(&self->a, 0, NULL);
	sep_open(&self->b, 0, NULL);
	self->to = peer(&self->a.tx[0], self->b.ep.addr);
}

FIXTURE_TEARDOWN(scalable)
{
	close(self->a.fd);
	close(self->b.fd);
}

TEST_F(scalable, each_context_gets_messages_with_its_index)
{
	static const size_t lengths[] = {0, 8, 4096, LARGE};
	struct treadle_cqe c;

	for (int i = 0; i < CONTEXTS * 2 * ARRAY_SIZE(lengths); i++) {
		struct node *from = &self->a.tx[(i + 1) % CONTEXTS];
		struct node *to = &self->b.rx[i % CONTEXTS];
		size_t len = lengths[i / CONTEXTS / 2];
		bool early = i / CONTEXTS % 2;
		__u64 dest = at(self->to, i % CONTEXTS);

		about("context %d, %zu bytes, %s", i % CONTEXTS, len, early ? "early" : "late");
		fill(out, len, i);
		if (early)
			ASSERT_EQ(0, post_recv(to, trecv_of(in, len, ANY, 5, 0, i)));
		ASSERT_EQ(1, post(from, tsend_of(out, len, dest, 5, 100 + i)));
		if (!early)
			ASSERT_EQ(0, post_recv(to, trecv_of(in, len, ANY, 5, 0, i)));
		c = cq_next(&to->rcq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(i, c.context);
		EXPECT_EQ(len, c.len);
		EXPECT_TRUE(same(in, len, i));
		c = cq_next(&from->cq);
		EXPECT_EQ(0, c.error);
		EXPECT_EQ(100 + i, c.context);
		EXPECT_TRUE(only(&self->b, i % CONTEXTS));
	}
	for (int i = 0; i < CONTEXTS; i++) {
		EXPECT_TRUE(cntr_becomes(&self->a.tx[i].sent, 2 * ARRAY_SIZE(lengths), 0));
		EXPECT_TRUE(cntr_becomes(&self->b.rx[i].rcvd, 2 * ARRAY_SIZE(lengths), 0));
	}
}

/* A message that waits in one context holds up no other context. */
// conformance: fi_endpoint(3): each context has its own completion queue and counters; none ...
TEST_F(scalable, a_context_does_not_wait_for_another)
{
	struct treadle_desc d;

	fill(out, LARGE, 1);
	ASSERT_EQ(1, post(&self->a.tx[0], send_of(out, LARGE, at(self->to, 1), 1)));
	d = send_of(out, 8, at(self->to, 2), 2);
	d.flags |= TREADLE_F_FENCE;
	ASSERT_EQ(0, post_recv(&self->b.rx[2], recv_of(in, 8, ANY, 3)));
	EXPECT_EQ(0, sent(&self->a.tx[0], d)); /* a fence is for one receiver */
	EXPECT_EQ(3, cq_next(&self->b.rx[2].rcq).context);
	EXPECT_TRUE(cq_empty(&self->b.rx[0].rcq));
	ASSERT_EQ(0, post_recv(&self->b.rx[1], recv_of(in, LARGE, ANY, 4)));
	EXPECT_EQ(4, cq_next(&self->b.rx[1].rcq).context);
	EXPECT_EQ(1, cq_next(&self->a.tx[0].cq).context);
	EXPECT_TRUE(same(in, LARGE, 1));
}

TEST_F(scalable, no_context_names_the_first)
{
	struct node plain;

	node_open(&plain, (struct options){});
	ASSERT_EQ(0, post_recv(&self->b.rx[0], recv_of(in, 8, ANY, 1)));
	EXPECT_EQ(0, sent(&plain, send_of(out, 8, peer(&plain, self->b.ep.addr), 1)));
	EXPECT_EQ(1, cq_next(&self->b.rx[0].rcq).context);
	/* The other way round: an endpoint that is not scalable has index 0 only. */
	ASSERT_EQ(0, post_recv(&plain, recv_of(in, 8, ANY, 2)));
	self->to = peer(&self->a.tx[0], plain.addr);
	EXPECT_EQ(0, sent(&self->a.tx[1], send_of(out, 8, at(self->to, 0), 1)));
	EXPECT_EQ(2, cq_next(&plain.rcq).context);
	EXPECT_EQ(ECONNREFUSED, sent(&self->a.tx[1], send_of(out, 8, at(self->to, 1), 1)));
	EXPECT_TRUE(cq_empty(&plain.rcq));
}

// conformance: ioctl.h: ECONNREFUSED: no such receive context
TEST_F(scalable, an_index_that_is_not_there)
{
	struct node *tx = &self->a.tx[0], none;

	EXPECT_EQ(ECONNREFUSED, sent(tx, send_of(out, 8, at(self->to, CONTEXTS), 1)));
	EXPECT_EQ(ECONNREFUSED, sent(tx, send_of(out, LARGE, at(self->to, CONTEXTS), 1)));
	EXPECT_EQ(ECONNREFUSED, sent(tx, write_of(out, 8, at(self->to, CONTEXTS), 0, 1, 1)));
	EXPECT_TRUE(cntr_becomes(&tx->sent, 0, 2));
	EXPECT_EQ(-EDESTADDRREQ, sent(tx, send_of(out, 8, at(self->to + 1, 1), 1)));
	EXPECT_EQ(-EDESTADDRREQ, sent(tx, send_of(out, 8, ANY, 1)));
	/* In a vector without bits for contexts they are part of the index. */
	node_open(&none, (struct options){});
	self->to = peer(&none, self->b.ep.addr);
	EXPECT_EQ(-EDESTADDRREQ, sent(&none, send_of(out, 8, at(self->to, 1), 1)));
	EXPECT_TRUE(only(&self->b, -1));
}

TEST_F(scalable, all_contexts_of_a_peer_are_one_source)
{
	struct node *rx = &self->b.rx[1];
	__u64 from = peer(rx, self->a.ep.addr), other = peer(rx, loopback(1));
	struct treadle_cqe c;

	for (int i = 0; i < CONTEXTS; i++) {
		/* The receive names a context of the source, which has no meaning. */
		ASSERT_EQ(0, post_recv(rx, recv_of(in, 8, at(other, i), 1)));
		ASSERT_EQ(0, post_recv(rx, recv_of(in, 8, at(from, i), 2)));
		EXPECT_EQ(0, sent(&self->a.tx[i], send_of(out, 8, at(self->to, 1), 1)));
		c = cq_next(&rx->rcq);
		EXPECT_EQ(2, c.context);
		EXPECT_EQ(from, c.src);
	}
	ASSERT_EQ(0, post_recv(rx, recv_of(in, 8, at(99, 1), 1)));
	EXPECT_EQ(0, ring_doorbell(&rx->rx));
	EXPECT_EQ(EDESTADDRREQ, cq_next(&rx->rcq).error);
}

TEST_F(scalable, remote_memory_is_reached_by_a_context)
{
	struct cntr events;
	struct treadle_ep_enable e;
	struct treadle_mr_bind bind = {.size = sizeof(bind)};
	struct treadle_desc d;
	struct treadle_cqe c;
	__u64 key[2] = {1, 2};
	__u32 region[2];
	struct node *tx = &self->a.tx[2], *rx = &self->b.rx[1];
	static char memory[8];

	/* The second context again, with a counter. */
	ASSERT_EQ(0, destroy(self->b.fd, rx->ep));
	cntr_open(&events, self->b.fd);
	ASSERT_EQ(0, context_create(self->b.fd, self->b.ep.id, TREADLE_EP_RX_CONTEXT, 1, &rx->ep));
	e = context_bindings(rx);
	e.cntr_remote_write = events.id;
	ASSERT_EQ(0, call(self->b.fd, TREADLE_IOC_EP_ENABLE, &e));
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, mr(self->b.fd, memory, 8,
				TREADLE_ACCESS_REMOTE_WRITE | TREADLE_ACCESS_REMOTE_READ, 0,
				&key[i], &region[i]));
	fill(out, 8, 5);
	d = write_of(out, 8, at(self->to, 1), 0, key[0], 7);
	d.flags |= TREADLE_F_REMOTE_CQ_DATA;
	d.data = 42;
	EXPECT_EQ(0, sent(tx, d));
	EXPECT_TRUE(same(memory, 8, 5));
	c = cq_next(&rx->rcq);
	EXPECT_EQ(42, c.data);
	EXPECT_TRUE(only(&self->b, 1));
	EXPECT_TRUE(cntr_becomes(&events, 1, 0));
	EXPECT_EQ(0, sent(tx, read_of(in, 8, at(self->to, 2), 0, key[0], 7)));
	EXPECT_TRUE(same(in, 8, 5));

	/* A region may be for one context, or for all of them. */
	bind.mr = region[0];
	bind.ep = rx->ep;
	ASSERT_EQ(0, call(self->b.fd, TREADLE_IOC_MR_BIND, &bind));
	bind.mr = region[1];
	bind.ep = self->b.ep.id;
	ASSERT_EQ(0, call(self->b.fd, TREADLE_IOC_MR_BIND, &bind));
	for (int i = 0; i < CONTEXTS; i++) {
		EXPECT_EQ(i == 1 ? 0 : EKEYREJECTED,
			  sent(tx, read_of(in, 8, at(self->to, i), 0, key[0], 1)));
		EXPECT_EQ(0, sent(tx, read_of(in, 8, at(self->to, i), 0, key[1], 1)));
	}
}

TEST_F(scalable, armed_commands_go_through_a_context)
{
	struct node *tx = &self->a.tx[1], *rx = &self->b.rx[2];
	struct treadle_desc d;
	struct cntr go, done;

	cntr_open(&go, self->a.fd);
	cntr_open(&done, self->a.fd);
	fill(out, 8, 9);
	d = then(when(send_of(out, 8, at(self->to, 2), 1), &go, 1), &done);
	ASSERT_EQ(1, post(tx, d));
	ASSERT_EQ(0, post_recv(rx, recv_of(in, 8, ANY, 2)));
	d = count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0);
	ASSERT_EQ(1, post(tx, d));
	EXPECT_EQ(2, cq_next(&rx->rcq).context);
	EXPECT_EQ(1, cq_next(&tx->cq).context);
	EXPECT_TRUE(cntr_becomes(&done, 1, 0));
	/* An armed receive is posted through another context's ring, and names its own context. */
	cntr_open(&go, self->b.fd);
	d = when(recv_of(in, 8, ANY, 3), &go, 1);
	d.ep = rx->ep;
	ASSERT_EQ(1, post(&self->b.tx[0], d));
	ASSERT_EQ(1, post(&self->b.tx[0], count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0)));
	EXPECT_EQ(0, sent(&self->a.tx[0], send_of(out, 8, at(self->to, 2), 1)));
	EXPECT_EQ(3, cq_next(&rx->rcq).context);
}

TEST_F(scalable, each_context_cancels_its_own)
{
	struct node *rx = self->b.rx;

	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, post_recv(&rx[i], recv_of(in, 8, ANY, 7)));
	ASSERT_EQ(1, post(&self->a.tx[0], send_of(out, LARGE, at(self->to, 2), 7)));
	EXPECT_EQ(-ENOENT, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.tx[1].ep, 7, 0, NULL));
	EXPECT_EQ(-ENOENT, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep.id, 7, 0, NULL));
	EXPECT_EQ(0, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.tx[0].ep, 7, 0, NULL));
	EXPECT_EQ(ECANCELED, cq_next(&self->a.tx[0].cq).error);
	EXPECT_EQ(0, cancel(self->b.fd, TREADLE_CANCEL_OP, rx[1].ep, 7, 0, NULL));
	EXPECT_EQ(ECANCELED, cq_next(&rx[1].rcq).error);
	EXPECT_TRUE(cq_empty(&rx[0].rcq));
	EXPECT_EQ(-ENOENT, cancel(self->b.fd, TREADLE_CANCEL_OP, rx[1].ep, 7, 0, NULL));
}

/* --- datagrams, names ------------------------------------------------------------------ */

TEST(datagrams)
{
	struct sep a, b;
	__u64 to;

	sep_open(&a, TREADLE_EP_DGRAM, NULL);
	sep_open(&b, TREADLE_EP_DGRAM, NULL);
	to = peer(&a.tx[0], b.ep.addr);
	for (int i = 0; i < CONTEXTS; i++)
		ASSERT_EQ(0, post_recv(&b.rx[i], recv_of(in, 8, ANY, i)));
	EXPECT_EQ(0, sent(&a.tx[1], send_of(out, 8, at(to, 1), 1)));
	EXPECT_EQ(1, cq_next(&b.rx[1].rcq).context);
	EXPECT_TRUE(only(&b, 1));
	EXPECT_EQ(0, sent(&a.tx[1], send_of(out, 8, at(to, CONTEXTS), 1))); /* dropped */
	EXPECT_TRUE(only(&b, -1));
	EXPECT_EQ(0, sent(&a.tx[1], send_of(out, 8, at(to, 1), 1))); /* waits there */
	ASSERT_EQ(0, post_recv(&b.rx[1], recv_of(in, 8, ANY, 5)));
	EXPECT_EQ(5, cq_next(&b.rx[1].rcq).context);
	EXPECT_TRUE(only(&b, -1));
}

// conformance: ioctl.h: EINVAL: value out of its documented range
TEST(bits_of_an_address_vector)
{
	int fd = device();
	struct treadle_av_create c = {.size = sizeof(c), .rx_ctx_bits = TREADLE_RX_CTX_BITS};

	EXPECT_EQ(0, call(fd, TREADLE_IOC_AV_CREATE, &c));
	c.rx_ctx_bits++;
	EXPECT_EQ(-EINVAL, call(fd, TREADLE_IOC_AV_CREATE, &c));
	c.rx_ctx_bits = 64;
	EXPECT_EQ(-EINVAL, call(fd, TREADLE_IOC_AV_CREATE, &c));
	/* All that open a shared vector must give the same number. */
	c.rx_ctx_bits = 3;
	c.name = (unsigned long)"bits";
	c.name_size = 4;
	EXPECT_EQ(0, call(fd, TREADLE_IOC_AV_CREATE, &c));
	EXPECT_EQ(0, call(fd, TREADLE_IOC_AV_CREATE, &c));
	c.flags = TREADLE_AV_READ;
	EXPECT_EQ(0, call(fd, TREADLE_IOC_AV_CREATE, &c));
	c.rx_ctx_bits = 2;
	EXPECT_EQ(-EINVAL, call(fd, TREADLE_IOC_AV_CREATE, &c));
	c.flags = c.rx_ctx_bits = 0;
	EXPECT_EQ(-EINVAL, call(fd, TREADLE_IOC_AV_CREATE, &c));
}

/* As many bits as possible: the largest index. */
TEST(the_last_context)
{
	struct treadle_av_create v = {.size = sizeof(v), .rx_ctx_bits = TREADLE_RX_CTX_BITS};
	int fd = device();
	struct treadle_ep_create sep = sep_create(fd, 0, NULL);
	struct node tx, rx;
	__u64 to;
	__u32 id;

	ASSERT_EQ(0, call(fd, TREADLE_IOC_AV_CREATE, &v));
	context_open(&tx, fd, &sep, v.id, TREADLE_EP_TX_CONTEXT, 0);
	context_open(&rx, fd, &sep, v.id, TREADLE_EP_RX_CONTEXT, TREADLE_MAX_CONTEXTS - 1);
	to = peer(&tx, sep.addr);
	ASSERT_EQ(0, post_recv(&rx, recv_of(in, 8, ANY, 1)));
	EXPECT_EQ(ECONNREFUSED, sent(&tx, send_of(out, 8, to, 1)));
	EXPECT_EQ(0, sent(&tx, send_of(out, 8, to | 0xffffULL << 48, 1)));
	EXPECT_EQ(0, cq_next(&rx.rcq).error);
	EXPECT_EQ(-EINVAL,
		  context_create(fd, sep.id, TREADLE_EP_RX_CONTEXT, TREADLE_MAX_CONTEXTS, &id));
}

TEST_HARNESS_MAIN
