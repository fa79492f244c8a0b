/* SPDX-License-Identifier: GPL-2.0 */
/* Atomics of many processes, and of the processor, on the same words; and the end of a peer. */
#include "atomic_ops.h"

/*
 * --- atomicity -----------------------------------------------------------------------------------
 */

struct crowd {
	struct treadle_addr addr;
	int ready, go, stop;
	char *there; /* shared by all */
};

#define ROUNDS 2000

/* Operations that add one, for every type of number. */
static const struct {
	__u8 type;
	__u16 at;
} sums[] = {
	{TREADLE_UINT16, 2},
	{TREADLE_UINT32, 4},
	{TREADLE_UINT64, 8},
	{TREADLE_UINT128, 16},
	{TREADLE_FLOAT, 32},
	{TREADLE_DOUBLE, 40},
	{TREADLE_LONG_DOUBLE, 48},
	{TREADLE_FLOAT_COMPLEX, 68},
	{TREADLE_DOUBLE_COMPLEX, 88},
	{TREADLE_DOUBLE_COMPLEX, 112},
	{TREADLE_LONG_DOUBLE_COMPLEX, 128},
	{TREADLE_DOUBLE_COMPLEX, PAGE - 8},
};

static void one_of(__u8 type, char buf[32])
{
	memset(buf, 0, 32);
	switch (type) {
	case TREADLE_FLOAT:
	case TREADLE_FLOAT_COMPLEX:
		*(float *)buf = 1;
		break;
	case TREADLE_DOUBLE:
	case TREADLE_DOUBLE_COMPLEX:
		*(double *)buf = 1;
		break;
	case TREADLE_LONG_DOUBLE:
	case TREADLE_LONG_DOUBLE_COMPLEX:
		*(long double *)buf = 1;
		break;
	default:
		buf[0] = 1;
	}
}

static __u64 sum_at(const char *at, __u8 type)
{
	float f;
	double d;
	long double l;
	__u64 u = 0;

	switch (type) {
	case TREADLE_FLOAT:
	case TREADLE_FLOAT_COMPLEX:
		memcpy(&f, at, sizeof(f));
		return f;
	case TREADLE_DOUBLE:
	case TREADLE_DOUBLE_COMPLEX:
		memcpy(&d, at, sizeof(d));
		return d;
	case TREADLE_LONG_DOUBLE:
	case TREADLE_LONG_DOUBLE_COMPLEX:
		memcpy(&l, at, sizeof(l));
		return l;
	default:
		memcpy(&u, at, treadle_type_size(type) < 8 ? treadle_type_size(type) : 8);
		return u;
	}
}

static void adds(void *arg)
{
	struct crowd *c = arg;
	_Alignas(16) char one[32];
	atomic self = {.key = 1};

	node_open(&self.a, (struct options){});
	self.to = peer(&self.a, c->addr);
	await(&c->go, 1);
	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < ARRAY_SIZE(sums); k++) {
			struct treadle_desc d;

			one_of(sums[k].type, one);
			d = atomic_of(&self, TREADLE_ATOMIC_SUM, sums[k].type, one,
				      treadle_type_size(sums[k].type), sums[k].at);
			d.flags &= ~TREADLE_F_COMPLETION;
			d.flags |= TREADLE_F_INJECT;
			need(post(&self.a, d) == 1);
		}
	}
	/* The last operation completes, behind all others. */
	need(outcome(&self.a,
		     fetch_of(&self, TREADLE_ATOMIC_READ, TREADLE_UINT64, NULL, one, 8, 0)) == 0);
	need(cq_empty(&self.a.cq));
}

// conformance: fi_atomic(3): correct for one actor, a domain or the CPUs: both at once, for words
TEST(no_update_is_lost)
{
	struct crowd *c = shared(sizeof(*c));
	__u64 key = 1;
	struct node n;
	pid_t pid[3];
	__u32 id;

	node_open(&n, (struct options){});
	c->there = shared(2 * PAGE);
	ASSERT_EQ(0, mr(n.fd, c->there, 2 * PAGE, BOTH, 0, &key, &id));
	c->addr = n.addr;
	for (int i = 0; i < 3; i++)
		pid[i] = spawn(adds, c);
	raise_to(&c->go, 1);
	/* And the processor does the same, to what it can. */
	for (int i = 0; i < ROUNDS; i++) {
		__atomic_fetch_add((__u16 *)(c->there + 2), 1, __ATOMIC_RELAXED);
		__atomic_fetch_add((__u32 *)(c->there + 4), 1, __ATOMIC_RELAXED);
		__atomic_fetch_add((__u64 *)(c->there + 8), 1, __ATOMIC_RELAXED);
		if (i % 8 == 0)
			sched_yield();
	}
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, reap(pid[i]));
	}
	for (int k = 0; k < ARRAY_SIZE(sums); k++) {
		about("type %d at %d", sums[k].type, sums[k].at);
		EXPECT_EQ(ROUNDS * (k < 3 ? 4 : 3), sum_at(c->there + sums[k].at, sums[k].type));
	}
	close(n.fd);
}

/* The peers use the word as a lock: never two of them hold it. */
static void locks(void *arg)
{
	struct crowd *c = arg;
	__u64 mine = getpid(), zero = 0, was;
	atomic self = {.key = 1};

	node_open(&self.a, (struct options){});
	self.to = peer(&self.a, c->addr);
	for (int i = 0; i < 300; i++) {
		do {
			need(outcome(&self.a,
				     compare_of(&self, TREADLE_ATOMIC_CSWAP, TREADLE_UINT64, &mine,
						&zero, &was, 8, 0)) == 0);
		} while (was);
		*(volatile __u64 *)(c->there + 64) += 1;
		need(outcome(&self.a, fetch_of(&self, TREADLE_ATOMIC_WRITE, TREADLE_UINT64, &zero,
					       &was, 8, 0)) == 0);
		need(was == mine);
	}
}

TEST(a_lock_of_compare_and_swap)
{
	struct crowd *c = shared(sizeof(*c));
	__u64 key = 1;
	struct node n;
	pid_t pid[3];
	__u32 id;

	node_open(&n, (struct options){});
	c->there = shared(PAGE);
	ASSERT_EQ(0, mr(n.fd, c->there, PAGE, BOTH, 0, &key, &id));
	c->addr = n.addr;
	for (int i = 0; i < 3; i++)
		pid[i] = spawn(locks, c);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, reap(pid[i]));
	}
	EXPECT_EQ(900, *(__u64 *)(c->there + 64));
	close(n.fd);
}

static void offers(void *arg)
{
	struct crowd *c = arg;
	__u64 key = 1;
	struct node n;
	__u32 id;

	node_open(&n, (struct options){});
	need(mr(n.fd, pages(LEN), LEN, BOTH, 0, &key, &id) == 0);
	c->addr = n.addr;
	raise_to(&c->ready, 1);
	pause();
}

TEST(a_peer_that_is_killed)
{
	for (int round = 0; round < 4; round++) {
		struct crowd *c = shared(sizeof(*c));
		atomic self = {.key = 1};
		__u64 one = 1, got;
		int killed = 0, error;
		pid_t pid = spawn(offers, c);

		await(&c->ready, 1);
		node_open(&self.a, (struct options){});
		self.to = peer(&self.a, c->addr);
		for (int i = 0;; i++) {
			error = outcome(&self.a, fetch_of(&self, TREADLE_ATOMIC_SUM, TREADLE_UINT64,
							  &one, &got, 8, i % 64 * PAGE));
			if (i == 20 * round && !killed++)
				kill(pid, SIGKILL);
			if (error)
				break;
			EXPECT_EQ(i / 64, got);
		}
		about("error %d", error);
		EXPECT_TRUE(error == ECONNREFUSED || error == ECONNRESET);
		EXPECT_EQ(-SIGKILL, reap(pid));
		close(self.a.fd);
	}
}

TEST_HARNESS_MAIN
