/* SPDX-License-Identifier: GPL-2.0 */
/* Scalable endpoints: bad arguments, access, and lifetimes of address and contexts. */
#include "scalable.h"

#define LARGE (1UL << 16)

static char in[LARGE], out[LARGE];

// conformance: ioctl.h: EBUSY: a receive context with this index
TEST(bad_arguments_make_no_context)
{
	static const struct treadle_ep_create bad[] = {
		{.flags = TREADLE_EP_TX_CONTEXT | TREADLE_EP_RX_CONTEXT},
		{.flags = TREADLE_EP_SCALABLE | TREADLE_EP_TX_CONTEXT},
		{.flags = TREADLE_EP_TX_CONTEXT, .type = TREADLE_EP_RDM},
		{.flags = TREADLE_EP_TX_CONTEXT, .index = 1},
		{.flags = TREADLE_EP_TX_CONTEXT, .request = 1},
		{.flags = TREADLE_EP_TX_CONTEXT, .addr = {.family = AF_INET}},
		{.flags = TREADLE_EP_RX_CONTEXT,
		 .auth_key = (unsigned long)"key",
		 .auth_key_size = 3},
		{.type = TREADLE_EP_RDM, .addr = {.family = AF_INET}, .index = 1},
		{.type = TREADLE_EP_RDM, .addr = {.family = AF_INET}}, /* with a parent */
	};
	int fd = device();
	struct treadle_ep_create sep = sep_create(fd, 0, NULL), c;
	struct treadle_addr addr = loopback(0);
	__u32 plain, context, id;

	for (int i = 0; i < ARRAY_SIZE(bad); i++) {
		c = bad[i];
		c.parent = sep.id;
		about("%d", i);
		EXPECT_EQ(-EINVAL, ep_of_kind(fd, &c));
	}
	ASSERT_EQ(0, ep_create(fd, &addr, NULL, &plain));
	ASSERT_EQ(0, context_create(fd, sep.id, TREADLE_EP_RX_CONTEXT, 0, &context));
	for (__u32 flags = TREADLE_EP_TX_CONTEXT; flags <= TREADLE_EP_RX_CONTEXT; flags <<= 1) {
		EXPECT_EQ(-EINVAL, context_create(fd, plain, flags, 0, &id));
		EXPECT_EQ(-EINVAL, context_create(fd, context, flags, 0, &id));
		EXPECT_EQ(-ENOENT, context_create(fd, 0, flags, 0, &id));
		EXPECT_EQ(-ENOENT, context_create(device(), sep.id, flags, 0, &id));
	}
	EXPECT_EQ(-EBUSY, context_create(fd, sep.id, TREADLE_EP_RX_CONTEXT, 0, &id));
	for (__u32 type = TREADLE_EP_MSG; type <= TREADLE_EP_PASSIVE; type++) {
		c = (struct treadle_ep_create){
			.type = type, .flags = TREADLE_EP_SCALABLE, .addr = loopback(0)};
		EXPECT_EQ(type == TREADLE_EP_DGRAM ? 0 : -EOPNOTSUPP, ep_of_kind(fd, &c));
	}
	/* None of the refused calls has left anything. */
	ASSERT_EQ(0, destroy(fd, context));
	ASSERT_EQ(0, destroy(fd, plain));
	EXPECT_EQ(0, destroy(fd, sep.id));
}

TEST(a_context_has_one_direction_and_the_address_none)
{
	int fd = device();
	struct treadle_ep_create sep = sep_create(fd, 0, NULL);
	struct treadle_ep_enable e = {.size = sizeof(e)};
	struct ring tx, rx;
	__u32 id;

	tx_open(&tx, fd, 8);
	rx_open(&rx, fd, 8, 0);
	e.ep = sep.id;
	EXPECT_EQ(-EOPNOTSUPP, call(fd, TREADLE_IOC_EP_ENABLE, &e));
	ASSERT_EQ(0, context_create(fd, sep.id, TREADLE_EP_TX_CONTEXT, 0, &id));
	e.ep = id;
	e.rx = rx.id;
	EXPECT_EQ(-EINVAL, call(fd, TREADLE_IOC_EP_ENABLE, &e));
	ASSERT_EQ(0, context_create(fd, sep.id, TREADLE_EP_RX_CONTEXT, 0, &id));
	e.ep = id;
	e.rx = 0;
	e.tx = tx.id;
	EXPECT_EQ(-EINVAL, call(fd, TREADLE_IOC_EP_ENABLE, &e));
	e.tx = 0;
	e.rx = rx.id;
	EXPECT_EQ(0, call(fd, TREADLE_IOC_EP_ENABLE, &e));
	EXPECT_EQ(-EISCONN, call(fd, TREADLE_IOC_EP_ENABLE, &e));
}

// conformance: fi_endpoint(3): a scalable endpoint has a single transport level address
TEST(one_address)
{
	int fd = device();
	struct treadle_ep_create sep = sep_create(fd, 0, NULL), c;
	struct treadle_addr addr = sep.addr;
	__u32 id;

	for (int i = 0; i < 2; i++) {
		c = (struct treadle_ep_create){.flags = i ? TREADLE_EP_RX_CONTEXT :
							    TREADLE_EP_TX_CONTEXT,
					       .parent = sep.id};
		ASSERT_EQ(0, ep_of_kind(fd, &c));
		EXPECT_EQ(0, memcmp(&c.addr, &addr, sizeof(addr)));
		EXPECT_EQ(-EADDRINUSE, ep_create(fd, &addr, NULL, &id));
		ASSERT_EQ(0, destroy(fd, c.id));
	}
	ASSERT_EQ(0, destroy(fd, sep.id));
	EXPECT_EQ(0, ep_create(fd, &addr, NULL, &id));
}

// conformance: fi_endpoint(3): -FI_EBUSY if contexts are open when the scalable endpoint is closed
TEST(the_address_outlives_its_contexts)
{
	struct sep s;

	sep_open(&s, 0, NULL);
	for (int i = 0; i < CONTEXTS; i++) {
		EXPECT_EQ(-EBUSY, destroy(s.fd, s.ep.id));
		EXPECT_EQ(0, destroy(s.fd, s.tx[i].ep));
		EXPECT_EQ(-EBUSY, destroy(s.fd, s.ep.id));
		EXPECT_EQ(0, destroy(s.fd, s.rx[i].ep));
	}
	EXPECT_EQ(0, destroy(s.fd, s.ep.id));
	EXPECT_EQ(-ENOENT, destroy(s.fd, s.ep.id));
}

TEST(a_context_that_closes_fails_waiting_messages)
{
	struct node *tx;
	struct sep a, b;
	__u64 to;

	sep_open(&a, 0, NULL);
	sep_open(&b, 0, NULL);
	tx = &a.tx[0];
	to = peer(tx, b.ep.addr);
	ASSERT_EQ(1, post(tx, send_of(out, LARGE, at(to, 1), 1)));
	ASSERT_EQ(1, post(tx, send_of(out, LARGE, at(to, 2), 2)));
	ASSERT_EQ(0, destroy(b.fd, b.rx[1].ep));
	EXPECT_EQ(ECONNRESET, cq_next(&tx->cq).error);
	EXPECT_EQ(ECONNREFUSED, sent(tx, send_of(out, 8, at(to, 1), 1)));
	/* The other contexts are not affected, nor is a new one in its place. */
	ASSERT_EQ(0, post_recv(&b.rx[2], recv_of(in, LARGE, ANY, 1)));
	EXPECT_EQ(0, cq_next(&b.rx[2].rcq).error);
	EXPECT_EQ(0, cq_next(&tx->cq).error);
	context_open(&b.rx[1], b.fd, &b.ep, b.av, TREADLE_EP_RX_CONTEXT, 1);
	ASSERT_EQ(0, post_recv(&b.rx[1], recv_of(in, 8, ANY, 1)));
	EXPECT_EQ(0, sent(tx, send_of(out, 8, at(to, 1), 1)));
	EXPECT_EQ(0, cq_next(&b.rx[1].rcq).error);
	/* A sender that goes takes its waiting message along. */
	ASSERT_EQ(1, post(tx, send_of(out, LARGE, at(to, 0), 1)));
	ASSERT_EQ(0, destroy(a.fd, tx->ep));
	ASSERT_EQ(0, post_recv(&b.rx[0], recv_of(in, 8, ANY, 1)));
	EXPECT_EQ(0, sent(&a.tx[1], send_of(out, 8, at(to, 0), 1)));
	EXPECT_EQ(8, cq_next(&b.rx[0].rcq).len);
	EXPECT_TRUE(cq_empty(&tx->cq));
}

TEST(a_context_that_is_not_enabled_is_not_reached)
{
	int fd = device();
	struct treadle_ep_create sep = sep_create(fd, 0, NULL);
	struct node n;
	__u32 id;

	node_open(&n, (struct options){});
	ASSERT_EQ(0, context_create(fd, sep.id, TREADLE_EP_RX_CONTEXT, 0, &id));
	EXPECT_EQ(ECONNREFUSED, sent(&n, send_of(out, 8, peer(&n, sep.addr), 1)));
}

/* --- other processes --------------------------------------------------------------------- */

struct victim {
	struct treadle_addr addr;
	int ready;
};

static void waits(void *arg)
{
	struct victim *v = arg;
	struct sep s;

	sep_open(&s, 0, NULL);
	need(post_recv(&s.rx[2], recv_of(in, 8, ANY, 1)) == 0);
	v->addr = s.ep.addr;
	raise_to(&v->ready, 1);
	for (;;)
		pause();
}

TEST(a_process_dies_with_its_contexts)
{
	struct victim *v = shared(sizeof(*v));
	pid_t pid = spawn(waits, v);
	struct sep s;
	__u32 id;
	__u64 to;

	sep_open(&s, 0, NULL);
	await(&v->ready, 1);
	to = peer(&s.tx[0], v->addr);
	for (int i = 0; i < CONTEXTS; i++)
		ASSERT_EQ(1, post(&s.tx[i], send_of(out, LARGE, at(to, i), 1)));
	/* which finds a receive, though too short a one */
	EXPECT_EQ(0, cq_next(&s.tx[2].cq).error);
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(pid));
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(ECONNRESET, cq_next(&s.tx[i].cq).error);
	for (int i = 0; i < CONTEXTS; i++)
		EXPECT_EQ(ECONNREFUSED, sent(&s.tx[i], send_of(out, 8, at(to, i), 1)));
	EXPECT_EQ(0, ep_create(s.fd, &v->addr, NULL, &id)); /* its port is free */
}

TEST(nothing_is_left)
{
	until_unused();
}

struct attempt {
	struct treadle_addr addr;
	const char *key;
	int error;
};

static void sends_as_another_user(void *arg)
{
	struct attempt *a = arg;
	struct sep s;
	__u64 to;

	need(setresuid(1000, 1000, 1000) == 0);
	sep_open(&s, 0, a->key);
	to = peer(&s.tx[0], a->addr);
	for (int i = 0; i < CONTEXTS; i++)
		need(sent(&s.tx[i], send_of(out, 8, at(to, i), 1)) == a->error);
}

TEST(contexts_have_the_access_rights_of_the_address)
{
	static const char *const keys[] = {NULL, "kez", "key"};
	struct sep s;

	sep_open(&s, 0, "key");
	for (int k = 0; k < ARRAY_SIZE(keys); k++) {
		struct attempt a = {s.ep.addr, keys[k], k == 2 ? 0 : EACCES};

		about("key %d", k);
		EXPECT_EQ(0, reap(spawn(sends_as_another_user, &a)));
		for (int i = 0; i < CONTEXTS; i++)
			EXPECT_EQ(k == 2, ring_needs_doorbell(&s.rx[i].rx));
	}
}

/* --- all at once ----------------------------------------------------------------------------- */

struct race {
	struct sep a, b;
	__u64 to;
	int stop, refused;
};

static void *senders(void *arg)
{
	struct race *r = arg;
	struct node *tx = &r->a.tx[0];

	for (int i = 0; !__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE); i++) {
		int error = sent(tx, send_of(out, i % 8 ? 8 : LARGE, at(r->to, 1), 1));

		need(error == 0 || error == ECONNREFUSED || error == ECONNRESET);
		if (error)
			raise_to(&r->refused, 1);
	}
	return NULL;
}

/* A thread sends to a context that is created and closed again, until it has met a closed one. */
TEST(contexts_come_and_go_under_their_peers)
{
	struct race *r = calloc(1, sizeof(*r));
	__u64 end = now_ns() + PATIENCE_NS;
	struct treadle_ep_enable e;
	pthread_t t;

	sep_open(&r->a, 0, NULL);
	sep_open(&r->b, 0, NULL);
	r->to = peer(&r->a.tx[0], r->b.ep.addr);
	t = thread(senders, r);
	for (int i = 0; i < 300 || !__atomic_load_n(&r->refused, __ATOMIC_ACQUIRE); i++) {
		struct node *rx = &r->b.rx[1];
		struct treadle_cqe c;

		need(now_ns() < end);
		EXPECT_EQ(-EBUSY, destroy(r->b.fd, r->b.ep.id));
		if (i % 3)
			need(post_recv(rx, recv_of(in, LARGE, ANY, i)) == 0);
		sched_yield();
		ASSERT_EQ(0, destroy(r->b.fd, rx->ep));
		while (cq_poll(&rx->rcq, &c))
			need(c.error == 0);
		ASSERT_EQ(0,
			  context_create(r->b.fd, r->b.ep.id, TREADLE_EP_RX_CONTEXT, 1, &rx->ep));
		e = context_bindings(rx);
		ASSERT_EQ(0, call(r->b.fd, TREADLE_IOC_EP_ENABLE, &e));
	}
	raise_to(&r->stop, 1);
	ASSERT_EQ(0, destroy(r->b.fd, r->b.rx[1].ep)); /* a message may still wait there */
	pthread_join(t, NULL);
	for (int i = 0; i < CONTEXTS; i++) {
		EXPECT_EQ(0, destroy(r->b.fd, r->b.tx[i].ep));
		if (i != 1)
			EXPECT_EQ(0, destroy(r->b.fd, r->b.rx[i].ep));
	}
	EXPECT_EQ(0, destroy(r->b.fd, r->b.ep.id));
}

TEST_HARNESS_MAIN
