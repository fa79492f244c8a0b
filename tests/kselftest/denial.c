/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What one user can do to others by what he does not do, or does too much: a receiver that never posts, one that never
 * reads its completions, three hundred whose page faults nobody answers, one that is frozen, a sender that floods, one who
 * creates until he gets no more, commands that start themselves for ever, copies in many contexts, a buffer whose many messages nobody reads. Told
 * is what two strangers get done meanwhile: in wall time, and in their own processor time, which is what the attacker's
 * threads leave them. Judged is that they get on at all, that everybody can be killed, the attacker and who has to do with
 * him, and that all he takes is his own group's.
 *
 * Each has a control group, first without the controller of processors, then with it. With it, strangers run nine tenths
 * of the time, without it a quarter, be it only measured for long enough. How much they get done in that is told, but not judged: where
 * processors are emulated it is what the host has left for a second one.
 *
 * DENIAL_SECONDS=0.4, for each of them; 5: also judged
 *
 * test-timeout: 600
 */
#include "denial.h"

#define LIMIT (64LL << 20) /* of the attacker's group */
/*
 * What has no way back is charged beyond it, a page each (security.rst): the completions that two queues of 256 keep. Who leaves a
 * buffer for many messages comes to half of that: his sends fail for want of memory, and nobody reads the errors.
 */
#define BEYOND (2 * 256 * 4096LL)
#define SLACK  (48LL << 20) /* what a machine needs besides, for whatever it does */

/* --- bystanders ------------------------------------------------------------------------------ */

#define ENOUGH_NS 2500000000ULL /* to judge by */
#define KEPT	  0.9		/* of the time, where processors are controlled */
#define FAIR	  0.25		/* where they are not */
#define TRIES	  3

struct figures {
	char dir[64];
	double small, small_cpu; /* messages a second, of time and of their own processor time */
	double large;
};

static double seconds_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static __u64 phase_ns(void)
{
	const char *text = getenv("DENIAL_SECONDS");

	return (text ? atof(text) : 0.4) * 500000000;
}

/* Both ends in one thread: nobody waits for a processor but this one. */
static void exchange(struct node *a, struct node *b, __u64 to, char *out, char *in, size_t len,
		     int i)
{
	need(post_recv(b, recv_of(in, len, ANY, i)) == 0);
	need(post(a, send_of(out, len, to, i)) == 1);
	need(cq_next(&b->rcq).error == 0 && cq_next(&a->cq).error == 0);
}

static void strangers(void *arg)
{
	struct figures *f = arg;
	char *out = pages(LARGE), *in = pages(LARGE);
	double wall, cpu;
	struct node a, b;
	__u64 end, to;
	int n;

	cgroup_enter(f->dir);
	become(STRANGER);
	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	to = peer(&a, b.addr);
	fill(out, LARGE, 1);
	exchange(&a, &b, to, out, in, LARGE, 0);
	wall = seconds_of(CLOCK_MONOTONIC);
	cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
	end = now_ns() + phase_ns();
	for (n = 0; now_ns() < end; n++)
		exchange(&a, &b, to, out, in, 64, n);
	f->small = n / (seconds_of(CLOCK_MONOTONIC) - wall);
	f->small_cpu = n / (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	wall = seconds_of(CLOCK_MONOTONIC);
	end = now_ns() + phase_ns();
	for (n = 0; n < 2 || now_ns() < end; n++)
		exchange(&a, &b, to, out, in, LARGE, n);
	f->large = n / (seconds_of(CLOCK_MONOTONIC) - wall);
	need(same(in, LARGE, 1));
}

/* One who has to do with the attacker, of his own will: he waits, and can be killed. */
static void victim(void *arg)
{
	struct attack *a = arg;
	char *buf = pages(LARGE);
	struct node n;
	__u64 to;

	become(ATTACKER);
	node_open(&n, (struct options){});
	to = peer(&n, a->target);
	for (int i = 0; i < 20; i++)
		if (ring_room(&n.tx) > 1)
			post(&n, send_of(buf, i & 1 ? LARGE : 64, to, i));
	for (;;)
		cq_wait(&n.rcq, -1);
}

/* It ends soon after it is killed. */
static bool dies(pid_t pid)
{
	__u64 end = now_ns() + PATIENCE_NS;

	need(kill(pid, SIGKILL) == 0);
	while (now_ns() < end) {
		int status;

		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFSIGNALED(status);
		usleep(1000);
	}
	return false;
}

static bool becomes_empty(const char *dir)
{
	__u64 end = now_ns() + PATIENCE_NS;
	char path[128];

	snprintf(path, sizeof(path), "%s/cgroup.kill", dir);
	write_to(path, "1");
	snprintf(path, sizeof(path), "%s/cgroup.events", dir);
	while (number_in(path, "populated ") && now_ns() < end) {
		waitpid(-1, NULL, WNOHANG);
		usleep(1000);
	}
	return number_in(path, "populated ") == 0;
}

static void attacks(void *arg)
{
	struct attack *a = arg;
	char path[128], limit[32];

	cgroup_enter(a->dir);
	snprintf(path, sizeof(path), "%s/memory.max", a->dir);
	snprintf(limit, sizeof(limit), "%lld", LIMIT);
	write_to(path, limit);
	a->fn(a);
}

static long long available(void)
{
	return number_in("/proc/meminfo", "MemAvailable:") << 10;
}

static double processor_seconds(const struct attack *a)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/cpu.stat", a->dir);
	return number_in(path, "usage_usec ") / 1e6;
}

/* Is there a controller of processors? */
static bool controls_processors(bool on)
{
	int fd = open("/sys/fs/cgroup/cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
	bool done = write(fd, on ? "+cpu" : "-cpu", 4) == 4;

	close(fd);
	return done;
}

/*
 * @kept: of the time, at least, strangers run where processors are controlled: the attacker's group bounds what its threads
 * do, and workers for them. Elsewhere it is FAIR: an attacker has two threads, and as many workers run as there are processors.
 */
static const struct kind {
	const char *name;
	void (*fn)(struct attack *a);
	double kept;
} kinds[] = {
	{"nobody", nothing},
	{"a receiver that never posts", never_posts, KEPT},
	{"one that never reads its completions", never_reads, KEPT},
	{"300 that stop in a page fault", stops_in_the_midst, KEPT},
	{"one that is frozen", is_frozen, KEPT},
	{"two threads that only compute", computes},
	{"a sender that floods, with two threads", floods, KEPT},
	{"one who creates until the limit", creates, KEPT},
	{"256 commands that go round", goes_round, KEPT},
	{"100 contexts with short copies", copies_shortly, KEPT},
	{"a buffer for many messages that nobody reads", leaves_small_messages, KEPT},
};

/* A kernel that finds mistakes keeps freed memory for a while (KASAN: a 32nd of all), and a record of each allocation. */
static long long slack(void)
{
	const long long all = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);

	return is_slow() ? SLACK + all / 32 : SLACK;
}

static struct figures get_on_beside(struct __test_metadata *_metadata, const struct kind *kind,
				    const struct figures *alone)
{
	struct figures *f = shared(sizeof(*f));
	struct attack *a = shared(sizeof(*a));
	long long before = available(), taken, charged;
	double used, wall;
	char path[128];
	pid_t pid, other = 0;

	a->fn = kind->fn;
	pid = spawn(attacks, a);
	while (__atomic_load_n(&a->ready, __ATOMIC_ACQUIRE) != 1) {
		need(waitpid(pid, NULL, WNOHANG) == 0);
		usleep(1000);
	}
	if (a->target.port)
		other = spawn(victim, a);
	used = processor_seconds(a);
	wall = seconds_of(CLOCK_MONOTONIC);
	EXPECT_EQ(0, reap(spawn(strangers, f)));
	used = (processor_seconds(a) - used) / (seconds_of(CLOCK_MONOTONIC) - wall);
	if (!alone)
		alone = f;
	snprintf(path, sizeof(path), "%s/memory.current", a->dir);
	charged = number_in(path, NULL);
	taken = before - available();
	note("beside %s: 64 B %.0f/s (%.0f %%), %.0f per processor second (%.0f %%), 2 MiB %.0f/s (%.0f %%); the attacker: %.2f processors, %lld MiB charged, %lld taken",
	     kind->name, f->small, 100 * f->small / alone->small, f->small_cpu,
	     100 * f->small_cpu / alone->small_cpu, f->large, 100 * f->large / alone->large, used,
	     charged >> 20, taken >> 20);
	EXPECT_GE(LIMIT + BEYOND, charged);
	EXPECT_GE(LIMIT + slack(), taken);
	EXPECT_TRUE(!other || dies(other));
	EXPECT_TRUE(becomes_empty(a->dir));
	if (a->frozen[0])
		EXPECT_EQ(0, rmdir(a->frozen));
	EXPECT_EQ(0, rmdir(a->dir));
	EXPECT_EQ(0, rmdir(f->dir));
	until_unused();
	return *f;
}

static void get_on_beside_all(struct __test_metadata *_metadata, bool controlled)
{
	struct figures alone = get_on_beside(_metadata, &kinds[0], NULL);

	for (const struct kind *kind = kinds + 1; kind < kinds + ARRAY_SIZE(kinds); kind++) {
		const double kept = controlled ? kind->kept : FAIR;
		bool well = false;

		about("%s", kind->name);
		/* what the scheduler does once, of two processors that another machine may have, is chance */
		for (int tries = 0; tries < TRIES && !well; tries++) {
			struct figures f = get_on_beside(_metadata, kind, &alone);

			well = phase_ns() < ENOUGH_NS || f.small >= kept * f.small_cpu;
		}
		EXPECT_TRUE(well);
	}
}

TEST(others_get_on_and_nobody_is_stuck)
{
	controls_processors(false);
	get_on_beside_all(_metadata, false);
}

/* And keep their processors; but that takes DENIAL_SECONDS to be seen. */
TEST(others_get_on_where_processors_are_controlled)
{
	if (!controls_processors(true))
		SKIP(return, "this kernel has no controller of processors");
	if (phase_ns() < ENOUGH_NS)
		note("too short to judge what they have of the processors");
	get_on_beside_all(_metadata, true);
	controls_processors(false);
}

TEST_HARNESS_MAIN
