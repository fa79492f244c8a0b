/* SPDX-License-Identifier: GPL-2.0 */
/* Threads of real-time priority: one of low priority holds up none of high priority. */
#include "rma.h"

#define ROUNDS 40
#define LENGTH (512UL << 10) /* a doorbell copies this much itself */

/*
 * An unmap takes the spinning thread this much time of its own processor only if that thread is in
 * the way.
 */
#define ENOUGH_NS 10000000000ULL

/*
 * @phase: odd: the middle thread must spin
 * @spins: the last phase in which it began to spin
 * @stuck: a phase that did not end
 */
struct ranks {
	struct node n;
	struct treadle_addr addr;
	__u64 key;
	int phase, spins, stuck, ready;
};

/* Real-time priority @rank on processor @cpu. */
static void rank_on(int cpu, int rank)
{
	const struct sched_param p = {.sched_priority = rank};
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	need(sched_setaffinity(0, sizeof(set), &set) == 0);
	need(sched_setscheduler(0, SCHED_FIFO, &p) == 0);
}

static int phase(struct ranks *r)
{
	return __atomic_load_n(&r->phase, __ATOMIC_ACQUIRE);
}

/* The lowest priority: holds the peer's pagemap most of the time. */
static void *writes_always(void *arg)
{
	char *from = pages(LENGTH);
	struct ranks *r = arg;
	const __u64 to = peer(&r->n, r->addr);

	fill(from, LENGTH, 1);
	rank_on(0, 1);
	while (phase(r) < 2 * ROUNDS) {
		need(outcome(&r->n, write_of(from, LENGTH, to, 0, r->key, 0)) == 0);
		raise_to(&r->ready, 1);
	}
	return NULL;
}

/* The middle priority: preempts the lowest thread, wherever that runs. */
static void *spins(void *arg)
{
	struct ranks *r = arg;

	rank_on(0, 10);
	for (int now; (now = phase(r)) < 2 * ROUNDS;) {
		const __u64 end = own_ns() + ENOUGH_NS;

		if (now == r->spins || !(now & 1)) {
			usleep(100);
			continue;
		}
		raise_to(&r->spins, now);
		while (phase(r) == now && own_ns() < end)
			;
		if (phase(r) == now)
			raise_to(&r->stuck, now);
	}
	return NULL;
}

/*
 * In another process than the thread of highest priority, so that only that thread's pagemap is
 * shared.
 */
static void sends(void *arg)
{
	struct ranks *r = arg;
	pthread_t lowest, middle;

	node_open(&r->n, (struct options){});
	lowest = thread(writes_always, r);
	middle = thread(spins, r);
	pthread_join(lowest, NULL);
	pthread_join(middle, NULL);
}

static void one_page(void)
{
	char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(at != MAP_FAILED);
	*at = 1;
	need(munmap(at, PAGE) == 0);
}

/*
 * munmap() waits for copies into its process. Without priority inheritance it would also wait for
 * threads that preempt them.
 */
TEST(a_preempted_sender_delays_no_munmap)
{
	struct ranks *r = shared(sizeof(*r));
	char *there = pages(LENGTH);
	struct node n;
	__u64 state = 1;
	__u32 id;
	pid_t pid;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "this machine has one processor");
	node_open(&n, (struct options){});
	r->key = 7;
	ASSERT_EQ(0, mr(n.fd, there, LENGTH, BOTH, 0, &r->key, &id));
	r->addr = n.addr;
	pid = spawn(sends, r);
	await(&r->ready, 1);
	rank_on(1, 50);
	for (int i = 1; i < 2 * ROUNDS && !__atomic_load_n(&r->stuck, __ATOMIC_RELAXED); i += 2) {
		usleep(lottery(&state) % 2000);
		raise_to(&r->phase, i);
		while (__atomic_load_n(&r->spins, __ATOMIC_ACQUIRE) < i)
			;
		one_page();
		raise_to(&r->phase, i + 1);
	}
	raise_to(&r->phase, 2 * ROUNDS);
	EXPECT_EQ(0, reap(pid));
	EXPECT_EQ(0, r->stuck);
	close(n.fd);
}

TEST_HARNESS_MAIN
