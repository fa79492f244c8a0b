/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What one user can do to others by neglect or excess: a receiver that never posts, one that never
 * reads completions, three hundred contexts with unanswered page faults, a frozen process, a sender
 * that floods, a process that creates objects up to its limit, commands that start themselves for
 * ever, copies in many contexts, a buffer for many messages with unread completions. The output
 * says how much two bystanders get done meanwhile: in wall time, and in their own processor time,
 * which is what the attacker's threads leave them. The test fails if they make no progress, if the
 * attacker or a process that waits for it can't be killed, or if the attacker's memory is not
 * charged to its own group.
 *
 * Each process has a control group, first without the controller of processors, then with it. With
 * it the bystanders must run nine tenths of the time, without it a quarter, if the run is long
 * enough. The rate in that time is reported only: where processors are emulated it depends on the
 * host.
 *
 * DENIAL_SECONDS=0.4, for each of them; 5: rates are checked, too
 *
 * test-timeout: 600
 */
#include "denial.h"

#define LIMIT (64LL << 20) /* of the attacker's group */
/*
 * Charged beyond the limit, as completions can't be refused, is a page for each completion that two
 * queues of 256 keep (security.rst). A buffer for many messages comes to half of that: its sends
 * fail for want of memory, and the errors are not read.
 */
#define BEYOND (2 * 256 * 4096LL)
#define SLACK  (48LL << 20) /* what a machine needs besides */

/* --- bystanders ------------------------------------------------------------------------------ */

#define ENOUGH_NS 2500000000ULL /* a shorter run is not checked */
#define KEPT	  0.9		/* of the time, with the controller of processors */
#define FAIR	  0.25		/* without it */
#define TRIES	  3

struct figures {
	char dir[64];
	double small, small_cpu; /* messages a second, of wall time and of processor time */
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

/* Both ends run in one thread, so there is no wait for another processor. */
static void exchange(struct node *a, struct node *b, __u64 to, char *out, char *in, size_t len,
		     int i)
{
	need(post_recv(b, recv_of(in, len, ANY, i)) == 0);
	need(post(a, send_of(out, len, to, i)) == 1);
	need(cq_next(&b->rcq).error == 0 && cq_next(&a->cq).error == 0);
}

static void bystanders(void *arg)
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

/* Sends to the attacker: this process waits, and can be killed. */
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

/* Whether the controller of processors could be switched. */
static bool controls_processors(bool on)
{
	int fd = open("/sys/fs/cgroup/cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
	bool done = write(fd, on ? "+cpu" : "-cpu", 4) == 4;

	close(fd);
	return done;
}

/*
 * @kept: the share of time that bystanders must run, with a controller of processors: it bounds the
 * attacker's threads and the workers for them. Without it the share is FAIR: an attacker has two
 * threads, and as many workers run as there are processors.
 */
static const struct kind {
	const char *name;
	void (*fn)(struct attack *a);
	double kept;
} kinds[] = {
	{"no attacker", nothing},
	{"a receiver that never posts", never_posts, KEPT},
	{"one that never reads its completions", never_reads, KEPT},
	{"300 that stop in a page fault", stops_in_the_midst, KEPT},
	{"one that is frozen", is_frozen, KEPT},
	{"two threads that only compute", computes},
	{"a sender that floods, with two threads", floods, KEPT},
	{"one that creates up to its limit", creates, KEPT},
	{"256 commands that go round", goes_round, KEPT},
	{"100 contexts with short copies", copies_shortly, KEPT},
	{"a buffer for many messages without a reader", leaves_small_messages, KEPT},
};

/*
 * A kernel with KASAN keeps freed memory for a while (a 32nd of all), and a record of each
 * allocation.
 */
static long long slack(void)
{
	const long long all = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);

	return is_slow() ? SLACK + all / 32 : SLACK;
}

static struct figures run_beside(struct __test_metadata *_metadata, const struct kind *kind,
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
	EXPECT_EQ(0, reap(spawn(bystanders, f)));
	used = (processor_seconds(a) - used) / (seconds_of(CLOCK_MONOTONIC) - wall);
	if (!alone)
		alone = f;
	snprintf(path, sizeof(path), "%s/memory.current", a->dir);
	charged = number_in(path, NULL);
	taken = before - available();
	note("beside %s: 64 B %.0f/s (%.0f %%), %.0f per processor second (%.0f %%), 2 MiB %.0f/s "
	     "(%.0f %%); the attacker: %.2f processors, %lld MiB charged, %lld taken",
	     kind->name, f->small, 100 * f->small / alone->small, f->small_cpu,
	     100 * f->small_cpu / alone->small_cpu, f->large, 100 * f->large / alone->large, used,
	     charged >> 20, taken >> 20);
	EXPECT_GE(LIMIT + BEYOND, charged);
	EXPECT_GE(LIMIT + slack(), taken);
	EXPECT_TRUE(!other || dies(other));
	EXPECT_TRUE(becomes_empty(a->dir));
	if (a->frozen[0])
		EXPECT_TRUE(cgroup_removed(a->frozen));
	EXPECT_TRUE(cgroup_removed(a->dir));
	EXPECT_TRUE(cgroup_removed(f->dir));
	until_unused();
	return *f;
}

static void run_beside_all(struct __test_metadata *_metadata, bool controlled)
{
	struct figures alone = run_beside(_metadata, &kinds[0], NULL);

	for (const struct kind *kind = kinds + 1; kind < kinds + ARRAY_SIZE(kinds); kind++) {
		const double kept = controlled ? kind->kept : FAIR;
		bool well = false;

		about("%s", kind->name);
		/*
		 * a single run may be unlucky in the scheduler, or share the processors with
		 * another machine
		 */
		for (int tries = 0; tries < TRIES && !well; tries++) {
			struct figures f = run_beside(_metadata, kind, &alone);

			well = phase_ns() < ENOUGH_NS || f.small >= kept * f.small_cpu;
		}
		EXPECT_TRUE(well);
	}
}

TEST(others_make_progress_and_can_be_killed)
{
	controls_processors(false);
	run_beside_all(_metadata, false);
}

/* Takes DENIAL_SECONDS=5 to check rates. */
TEST(others_make_progress_under_a_processor_controller)
{
	if (!controls_processors(true))
		SKIP(return, "this kernel has no controller of processors");
	if (phase_ns() < ENOUGH_NS)
		note("too short to check their share of the processors");
	run_beside_all(_metadata, true);
	controls_processors(false);
}

TEST_HARNESS_MAIN
