/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What one user can do to others by what he does not do, or does too much: a receiver that never posts, one that never
 * reads its completions, three hundred whose page faults nobody answers, one that is frozen, a sender that floods, one who
 * creates until he gets no more. Told is what two strangers get done meanwhile: in wall time, and in their own
 * processor time, which is what the attacker's threads leave them. Judged is that they get on at all, that everybody
 * can be killed, the attacker and who has to do with him, and that all he takes is his own group's.
 *
 * DENIAL_SECONDS=0.4, for each of them
 */
#include "treadle.h"

#include <linux/userfaultfd.h>
#include <sys/syscall.h>

#define LIMIT	 (64LL << 20) /* of the attacker's group */
#define SLACK	 (48LL << 20) /* what a machine needs besides, for whatever it does */
#define LARGE	 (2UL << 20)  /* more than is copied within a doorbell */
#define CONTEXTS 300	      /* more than a workqueue runs at a time */

enum { STRANGER = 1001, ATTACKER = 1002 };

struct attack {
	const char *name;
	void (*fn)(struct attack *a);
	char dir[64], frozen[80];
	struct treadle_addr target; /* where others can have to do with it */
	int ready;
};

static void become(int uid)
{
	need(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0);
}

/* Effective from here on, for as long as it lives. */
static void in_effect(struct attack *a)
{
	raise_to(&a->ready, 1);
}

/* --- attacks --------------------------------------------------------------------------- */

static void nothing(struct attack *a)
{
	in_effect(a);
	pause();
}

/* As much as anybody may leave with one who does not want it, and then on trying. */
static void sends_in_vain(struct attack *a, struct treadle_addr to)
{
	static struct node n[64];
	char *buf = pages(LARGE);
	bool enough = false;
	struct treadle_cqe c;

	for (int i = 0; i < ARRAY_SIZE(n) && !enough; i++) {
		__u64 there;

		node_open(&n[i], (struct options){.tx = 512, .cq = 8});
		there = peer(&n[i], to);
		while (ring_room(&n[i].tx) && !enough) {
			struct treadle_desc d = send_of(buf, 4000, there, 0);

			d.flags = i & 1 ? TREADLE_F_INJECT : 0;
			ring_put(&n[i].tx, &d);
			ring_publish(&n[i].tx);
			enough = ring_doorbell(&n[i].tx) < 0;
			while (cq_poll(&n[i].cq, &c))
				enough = enough || c.error == ENOMEM;
		}
	}
	in_effect(a);
	for (int i = 0;; i = (i + 1) % ARRAY_SIZE(n))
		if (n[i].fd)
			ring_doorbell(&n[i].tx);
}

static void never_posts(struct attack *a)
{
	static struct node n;

	become(ATTACKER);
	node_open(&n, (struct options){.buffered = 16 << 20});
	a->target = n.addr;
	sends_in_vain(a, n.addr);
}

static void never_reads(struct attack *a)
{
	char byte = 0, in[4096];
	struct node n;
	__u64 self;

	become(ATTACKER);
	node_open(&n, (struct options){.cq = 8, .rcq = 8});
	self = peer(&n, n.addr);
	a->target = n.addr;
	in_effect(a);
	for (;;) {
		struct treadle_desc r = recv_of(in, sizeof(in), ANY, 0);
		struct treadle_desc d = send_of(&byte, 1, self, 0);

		if (ring_room(&n.rx)) {
			ring_put(&n.rx, &r);
			ring_publish(&n.rx);
			ring_doorbell(&n.rx);
		}
		if (ring_room(&n.tx)) {
			ring_put(&n.tx, &d);
			ring_publish(&n.tx);
		}
		ring_doorbell(&n.tx);
	}
}

/* Memory whose page faults somebody ought to answer, and does not. */
static void *unanswered(size_t len)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	void *at = pages(len);

	need(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
	reg.range.start = (unsigned long)at;
	reg.range.len = len;
	need(ioctl(fd, UFFDIO_REGISTER, &reg) == 0);
	return at;
}

static void stops_in_the_midst(struct attack *a)
{
	static struct node n, b[CONTEXTS];
	char *from, *to = unanswered(LARGE);

	become(ATTACKER);
	from = pages(LARGE);
	node_open(&n, (struct options){.tx = 512, .cq = 512});
	for (int i = 0; i < CONTEXTS; i++) {
		node_open(&b[i], (struct options){.tx = 1, .rx = 4, .cq = 8, .rcq = 8});
		need(post_recv(&b[i], recv_of(to, LARGE, ANY, 0)) == 0);
		need(post(&n, send_of(from, LARGE, peer(&n, b[i].addr), i)) == 1);
	}
	/* One more to be met in the midst. */
	need(post_recv(&b[0], recv_of(to, LARGE, ANY, 0)) == 0);
	a->target = b[0].addr;
	need(cq_empty(&n.cq));
	in_effect(a);
	pause();
}

static void receives_and_freezes(void *arg)
{
	struct attack *a = arg;
	char path[128], *buf;
	struct node n;

	snprintf(path, sizeof(path), "%s/cgroup.procs", a->frozen);
	write_to(path, "0");
	become(ATTACKER);
	buf = pages(LARGE);
	node_open(&n, (struct options){.buffered = 1 << 20});
	for (int i = 0; i < 8; i++)
		need(post_recv(&n, recv_of(buf, LARGE, ANY, i)) == 0);
	a->target = n.addr;
	raise_to(&a->ready, -1);
	for (;;)
		cq_wait(&n.rcq, -1);
}

static void is_frozen(struct attack *a)
{
	char path[128];

	snprintf(a->frozen, sizeof(a->frozen), "%s/frozen", a->dir);
	need(mkdir(a->frozen, 0755) == 0);
	spawn(receives_and_freezes, a);
	while (__atomic_load_n(&a->ready, __ATOMIC_ACQUIRE) != -1)
		usleep(1000);
	snprintf(path, sizeof(path), "%s/cgroup.freeze", a->frozen);
	write_to(path, "1");
	become(ATTACKER);
	sends_in_vain(a, a->target);
}

static void *floods_itself(void *arg)
{
	struct attack *a = arg;
	char byte = 0, in[64];
	struct treadle_cqe c;
	struct node n;
	__u64 self;

	node_open(&n, (struct options){});
	self = peer(&n, n.addr);
	a->target = n.addr;
	in_effect(a);
	for (;;) {
		for (int i = 0; i < 16; i++) {
			need(post_recv(&n, recv_of(in, sizeof(in), ANY, 0)) == 0);
			ring_put(&n.tx, &(struct treadle_desc){.opcode = TREADLE_OP_SEND,
							       .iov_count = 1,
							       .addr = (unsigned long)&byte,
							       .len = 1,
							       .peer = self});
		}
		ring_publish(&n.tx);
		ring_doorbell(&n.tx);
		while (cq_poll(&n.rcq, &c))
			;
	}
}

static void *only_computes(void *arg)
{
	volatile __u64 n = 0;

	in_effect(arg);
	do
		n++;
	while (n);
	return NULL;
}

/* What that many threads cost others anyhow: no attack, but what one is to be compared with. */
static void computes(struct attack *a)
{
	become(ATTACKER);
	thread(only_computes, a);
	only_computes(a);
}

static void floods(struct attack *a)
{
	become(ATTACKER);
	thread(floods_itself, a);
	floods_itself(a);
}

static void creates(struct attack *a)
{
	struct treadle_cq_create cq = {.size = sizeof(cq)};
	struct treadle_cntr_create cntr = {.size = sizeof(cntr)};
	int result;
	struct node n;

	become(ATTACKER);
	node_open(&n, (struct options){});
	a->target = n.addr;
	/* Contexts first: at the limit of its group the kernel's own open() kills. Then queues, from the largest on. */
	for (int i = 0; i < CONTEXTS; i++)
		device();
	for (__u32 entries = 1 << 20; entries; entries >>= 4)
		do {
			cq.entries = entries;
			result = call(n.fd, TREADLE_IOC_CQ_CREATE, &cq);
		} while (result == 0);
	need(result == -ENOMEM || result == -ENOSPC);
	do
		result = call(n.fd, TREADLE_IOC_CNTR_CREATE, &cntr);
	while (result == 0);
	need(result == -ENOMEM || result == -ENOSPC);
	in_effect(a);
	for (;;)
		call(n.fd, TREADLE_IOC_CQ_CREATE, &cq);
}

/* --- bystanders ------------------------------------------------------------------------------ */

struct figures {
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

static const struct {
	const char *name;
	void (*fn)(struct attack *a);
} kinds[] = {
	{"nobody", nothing},
	{"a receiver that never posts", never_posts},
	{"one that never reads its completions", never_reads},
	{"300 that stop in a page fault", stops_in_the_midst},
	{"one that is frozen", is_frozen},
	{"two threads that only compute", computes},
	{"a sender that floods, with two threads", floods},
	{"one who creates until the limit", creates},
};

TEST(others_get_on_and_nobody_is_stuck)
{
	struct figures *f = shared(sizeof(*f)), alone = {};

	for (int i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct attack *a = shared(sizeof(*a));
		long long before = available(), taken, charged;
		double used, wall;
		char path[128];
		pid_t pid, other = 0;

		about("%s", kinds[i].name);
		a->fn = kinds[i].fn;
		pid = spawn(attacks, a);
		while (__atomic_load_n(&a->ready, __ATOMIC_ACQUIRE) != 1) {
			ASSERT_EQ(0, waitpid(pid, NULL, WNOHANG));
			usleep(1000);
		}
		if (a->target.port)
			other = spawn(victim, a);
		used = processor_seconds(a);
		wall = seconds_of(CLOCK_MONOTONIC);
		EXPECT_EQ(0, reap(spawn(strangers, f)));
		used = (processor_seconds(a) - used) / (seconds_of(CLOCK_MONOTONIC) - wall);
		if (i == 0)
			alone = *f;
		snprintf(path, sizeof(path), "%s/memory.current", a->dir);
		charged = number_in(path, NULL);
		taken = before - available();
		note("beside %s: 64 B %.0f/s (%.0f %%), %.0f per processor second (%.0f %%), 2 MiB %.0f/s (%.0f %%); the attacker: %.2f processors, %lld MiB charged, %lld taken",
		     kinds[i].name, f->small, 100 * f->small / alone.small, f->small_cpu,
		     100 * f->small_cpu / alone.small_cpu, f->large, 100 * f->large / alone.large,
		     used, charged >> 20, taken >> 20);
		EXPECT_GE(LIMIT, charged);
		EXPECT_GE(LIMIT + SLACK, taken);
		EXPECT_TRUE(!other || dies(other));
		EXPECT_TRUE(becomes_empty(a->dir));
		if (a->frozen[0])
			EXPECT_EQ(0, rmdir(a->frozen));
		EXPECT_EQ(0, rmdir(a->dir));
		until_unused();
	}
}

TEST_HARNESS_MAIN
