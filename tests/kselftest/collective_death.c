/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A receive of a collective message ends with an error if its source vanishes, or was never there.
 */
#include "collective.h"

TEST_F(collective, a_source_that_vanishes_is_reported)
{
	struct node third;
	__u64 its;

	node_open(&third, (struct options){});
	its = peer(&self->a, third.addr);
	for (int i = 0; i < 100; i++)
		ASSERT_EQ(1, post(&self->a,
				  then(when(crecv(self->dst, 8, i & 1 ? its : self->to, TAG + i, i),
					    &self->c, 0),
				       &self->d)));
	ASSERT_EQ(0, destroy(third.fd, third.ep));
	for (int i = 1; i < 100; i += 2) {
		struct treadle_cqe cqe = cq_next(&self->a.rcq);

		EXPECT_EQ(ECONNRESET, cqe.error);
		EXPECT_EQ(1, cqe.context & 1);
	}
	EXPECT_TRUE(cntr_becomes(&self->d, 0, 50));
	EXPECT_TRUE(cq_empty(&self->a.rcq));
	/* Nor does it wait for an endpoint that is gone already, or was never there. */
	ASSERT_EQ(1, post(&self->a, crecv(self->dst, 8, its, TAG, 1)));
	EXPECT_EQ(ECONNREFUSED, cq_next(&self->a.rcq).error);
	third.addr.addr[0] = 192;
	its = peer(&self->a, third.addr);
	ASSERT_EQ(1, post(&self->a, crecv(self->dst, 8, its, TAG, 1)));
	EXPECT_EQ(EHOSTUNREACH, cq_next(&self->a.rcq).error);
}

static void vanish_with(const char *key, struct treadle_addr *where)
{
	struct node n;

	node_open(&n, (struct options){.auth_key = key});
	where[1] = n.addr;
	__atomic_store_n(&where->family, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static void vanish(void *where)
{
	vanish_with(NULL, where);
}

/* Starts a process that runs @fn, a vanish(), and returns the address of its endpoint. */
static struct treadle_addr elsewhere(void (*fn)(void *), pid_t *pid)
{
	struct treadle_addr *where = shared(2 * sizeof(*where));

	*pid = spawn(fn, where);
	while (!__atomic_load_n(&where->family, __ATOMIC_ACQUIRE))
		sched_yield();
	return where[1];
}

TEST_F(collective, messages_outlive_their_sender)
{
	struct node third;
	__u64 its, there;

	node_open(&third, (struct options){});
	its = peer(&self->a, third.addr);
	there = peer(&third, self->a.addr);
	ASSERT_EQ(1, post(&third, csend(self->src, 8, there, TAG, 1)));
	EXPECT_EQ(1, cq_next(&third.cq).context);
	close(third.fd);
	ASSERT_EQ(1, post(&self->a, crecv(self->dst, 8, its, TAG, 2)));
	EXPECT_EQ(0, cq_next(&self->a.rcq).error);
}

TEST_F(collective, a_process_that_is_killed_is_reported)
{
	pid_t pid;
	__u64 its = peer(&self->a, elsewhere(vanish, &pid));

	ASSERT_EQ(1, post(&self->a, crecv(self->dst, 8, its, TAG, 1)));
	EXPECT_TRUE(cq_empty(&self->a.rcq));
	kill(pid, SIGKILL);
	reap(pid);
	EXPECT_EQ(ECONNRESET, cq_next(&self->a.rcq).error);
}

#define MANY 200

static void vanish_with_many(void *arg)
{
	struct treadle_addr *where = arg;
	int fd = device();
	__u32 id;

	for (int i = 1; i <= MANY; i++) {
		where[i] = loopback(0);
		need(ep_create(fd, &where[i], NULL, &id) == 0);
	}
	__atomic_store_n(&where->family, 1, __ATOMIC_RELEASE);
	pause();
}

/* Each receive gets one error, on rings of the endpoints' own and on a shared one. */
TEST_F(collective, a_process_with_many_endpoints_is_reported_once)
{
	struct treadle_addr *where = shared((MANY + 1) * sizeof(*where));
	struct options o = {.context = device(), .rcq = 1024};
	struct node n[3];
	struct ring rx;
	pid_t pid;

	rx_open(&rx, o.context, 64, 0);
	node_open(&n[0], (struct options){.rcq = 1024});
	o.shared_rx = &rx;
	node_open(&n[1], o);
	node_open(&n[2], o);
	where->family = 0;
	pid = spawn(vanish_with_many, where);
	while (!__atomic_load_n(&where->family, __ATOMIC_ACQUIRE))
		sched_yield();
	for (int i = 0; i < 3; i++)
		for (int k = 1; k <= MANY; k++)
			ASSERT_EQ(1, post(&n[i], when(crecv(self->dst, 8, peer(&n[i], where[k]),
							    TAG + k, k),
						      &n[i].sent, 0)));
	kill(pid, SIGKILL);
	reap(pid);
	for (int i = 0; i < 3; i++) {
		__u64 told = 0;

		for (int k = 0; k < MANY; k++) {
			struct treadle_cqe cqe = cq_next(&n[i].rcq);

			EXPECT_EQ(ECONNRESET, cqe.error);
			told += cqe.context;
		}
		EXPECT_EQ(MANY * (MANY + 1ULL) / 2, told);
		EXPECT_TRUE(cq_empty(&n[i].rcq));
	}
}

static void vanish_as_another_user(void *where)
{
	need(setresuid(1001, 1001, 1001) == 0);
	vanish(where);
}

TEST_F(collective, a_source_that_denies_access_is_not_awaited)
{
	pid_t pid;
	__u64 its = peer(&self->a, elsewhere(vanish_as_another_user, &pid));

	ASSERT_EQ(1, post(&self->a, crecv(self->dst, 8, its, TAG, 1)));
	EXPECT_EQ(EACCES, cq_next(&self->a.rcq).error);
	kill(pid, SIGKILL);
	reap(pid);
	EXPECT_TRUE(cq_empty(&self->a.rcq));
}

/* More receives than one hold of the lock looks at, most of them for another source. */
TEST_F(collective, of_many_receives_those_of_the_lost_source_end)
{
	const int many = 5000;
	struct node third;
	__u64 its, told = 0;

	node_open(&third, (struct options){});
	its = peer(&self->a, third.addr);
	/* Armed receives do not keep their slots of the ring. */
	for (int i = 0; i < many; i++)
		ASSERT_EQ(1, post(&self->a,
				  when(crecv(self->dst, 8, i % 10 ? self->to : its, TAG + i, i),
				       &self->c, 0)));
	ASSERT_EQ(0, destroy(third.fd, third.ep));
	for (int i = 0; i < many / 10; i++) {
		struct treadle_cqe cqe = cq_next(&self->a.rcq);

		EXPECT_EQ(ECONNRESET, cqe.error);
		told += cqe.context;
	}
	EXPECT_EQ(10ULL * (many / 10) * (many / 10 - 1) / 2, told);
	EXPECT_TRUE(cq_empty(&self->a.rcq));
	/* The receives of the other source stay, and each is found by its context. */
	EXPECT_EQ(0, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, many - 1, 0, NULL));
	EXPECT_EQ(many - 1, cq_next(&self->a.rcq).context);
	EXPECT_EQ(-ENOENT, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 10, 0, NULL));
}

static void vanish_as_another_user_with_a_key(void *where)
{
	need(setresuid(1001, 1001, 1001) == 0);
	vanish_with("key", where);
}

/*
 * Two endpoints share a ring. The source admits one of them, and only the other's receive is
 * refused.
 */
TEST_F(collective, access_is_checked_for_each_endpoint_of_a_shared_ring)
{
	struct options o = {.context = device(), .auth_key = "key"};
	struct treadle_addr its;
	struct node let_in, other;
	struct ring rx;
	pid_t pid;

	rx_open(&rx, o.context, 64, 0);
	o.shared_rx = &rx;
	node_open(&let_in, o);
	o.auth_key = NULL;
	node_open(&other, o);
	its = elsewhere(vanish_as_another_user_with_a_key, &pid);
	ASSERT_EQ(1, post(&let_in, crecv(self->dst, 8, peer(&let_in, its), TAG, 1)));
	ASSERT_EQ(1, post(&other, crecv(self->dst, 8, peer(&other, its), TAG, 2)));
	EXPECT_EQ(EACCES, cq_next(&other.rcq).error);
	EXPECT_TRUE(cq_empty(&let_in.rcq));
	kill(pid, SIGKILL);
	reap(pid);
	EXPECT_EQ(ECONNRESET, cq_next(&let_in.rcq).error);
	EXPECT_TRUE(cq_empty(&other.rcq));
}

struct failing {
	struct treadle_ep_create *where; /* it can be read, but not written */
	int fd, stop;
	__u64 times;
};

static void *creates_and_fails(void *arg)
{
	struct failing *s = arg;

	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		int result = call(s->fd, TREADLE_IOC_EP_CREATE, s->where);

		/* a receive that has just found the endpoint may still hold it, and its port */
		need(result == -EFAULT || result == -EADDRINUSE);
		__atomic_fetch_add(&s->times, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/*
 * The endpoint has its port for a moment. Then its id can't be written back, and it is destroyed.
 */
TEST_F(collective, an_endpoint_that_fails_creation_is_not_awaited)
{
	struct failing s = {.where = (void *)pages(PAGE), .fd = device()};
	struct treadle_addr its = loopback(17471);
	pthread_t creator;
	__u64 to = peer(&self->a, its);

	*s.where = (struct treadle_ep_create){
		.size = sizeof(*s.where), .type = TREADLE_EP_RDM, .addr = its};
	ASSERT_EQ(0, mprotect(s.where, PAGE, PROT_READ));
	ASSERT_EQ(0, pthread_create(&creator, NULL, creates_and_fails, &s));
	for (int i = 0, waited = 0; i < 3000 || waited < 10; i++) {
		struct treadle_cqe c;

		ASSERT_EQ(1, post(&self->a, crecv(self->dst, 8, to, TAG, i)));
		c = cq_next(&self->a.rcq);
		ASSERT_EQ(i, c.context);
		ASSERT_TRUE(c.error == ECONNREFUSED || c.error == ECONNRESET);
		waited += c.error == ECONNRESET;
	}
	__atomic_store_n(&s.stop, 1, __ATOMIC_RELAXED);
	pthread_join(creator, NULL);
	EXPECT_LT(0, s.times);
}

TEST_HARNESS_MAIN
