/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A thread that fires commands of other contexts is preempted, and does not run again. Commands
 * that it has not started yet fire nevertheless. A thread that ordinary threads may preempt starts
 * none of them.
 */
#include "treadle.h"

#include <glob.h>
#include <sys/mount.h>
#include <sys/utsname.h>

#define WRITES 14
/* the runner copies all of it, which takes long enough to be preempted */
#define LENGTH	(256UL << 10)
#define TRIALS	20
#define PREEMPT "/sys/kernel/debug/sched/preempt"
#define SERVER	"/sys/kernel/debug/sched/fair_server/cpu0/runtime"

/*
 * The runner's counter makes it send to both other contexts. A command that the first has armed on
 * its message takes a while; one that the second has armed waits for that.
 */
FIXTURE(preempted)
{
	struct node runner, first, second;
	struct cntr both, wrote, later;
	char *from, *to, *in;
	__u64 key, to_first, to_second, to_region;
	char preempt[64];
};

FIXTURE_VARIANT(preempted)
{
	int policy, nice;
	bool all; /* also commands that the first one has armed */
};

/* clang-format off */
FIXTURE_VARIANT_ADD(preempted, ordinary) { .policy = SCHED_OTHER };
FIXTURE_VARIANT_ADD(preempted, idle) { .policy = SCHED_IDLE, .all = true };
FIXTURE_VARIANT_ADD(preempted, nice) { .policy = SCHED_OTHER, .nice = 19, .all = true };
/* clang-format on */

static void on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	need(sched_setaffinity(0, sizeof(set), &set) == 0);
}

/* Writes a setting, if the kernel has it, and keeps the old value in @was. */
static bool set_if_there(const char *path, const char *value, char was[64])
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = was ? read(fd, was, 63) : 0;
	if (n >= 0 && was)
		was[n] = 0;
	need(write(fd, value, strlen(value)) == strlen(value));
	close(fd);
	return true;
}

/*
 * Lets a real-time thread have a whole processor: from 6.12 on a server keeps a part of it for
 * other threads.
 */
static void no_time_for_others(bool yes)
{
	if (!set_if_there(SERVER, yes ? "0" : "50000000", NULL))
		write_to("/proc/sys/kernel/sched_rt_runtime_us", yes ? "-1" : "950000");
}

static bool file_has(const char *path, const char *what)
{
	char text[4096];
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	text[n] = 0;
	return strstr(text, what);
}

FIXTURE_SETUP(preempted)
{
	__u32 id;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two processors");
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	/* changing it patches code that other processors run, which QEMU does not do well */
	if (!file_has(PREEMPT, "(full)"))
		set_if_there(PREEMPT, "full", self->preempt);
	no_time_for_others(true);
	on_cpu(1);
	node_open(&self->runner, (struct options){});
	node_open(&self->first, (struct options){});
	node_open(&self->second, (struct options){});
	cntr_open(&self->both, self->runner.fd);
	cntr_open(&self->wrote, self->first.fd);
	cntr_open(&self->later, self->second.fd);
	self->to_first = peer(&self->runner, self->first.addr);
	self->to_second = peer(&self->runner, self->second.addr);
	self->to_region = peer(&self->first, self->second.addr);
	self->from = pages(LENGTH);
	self->to = pages(LENGTH);
	self->in = pages(4096);
	self->key = 7;
	need(mr(self->second.fd, self->to, LENGTH, TREADLE_ACCESS_REMOTE_WRITE, 0, &self->key,
		&id) == 0);
}

FIXTURE_TEARDOWN(preempted)
{
	char *end, *start = strchr(self->preempt, '(');

	/* "none (voluntary) full" */
	if (start && (end = strchr(start, ')'))) {
		*end = 0;
		set_if_there(PREEMPT, start + 1, NULL);
	}
	no_time_for_others(false);
}

struct runs {
	struct node *n;
	struct treadle_desc d;
	int policy, nice;
};

static void *runs(void *arg)
{
	struct runs *r = arg;

	on_cpu(0);
	need(sched_setscheduler(0, r->policy, &(struct sched_param){}) == 0);
	need(setpriority(PRIO_PROCESS, gettid(), r->nice) == 0);
	need(post(r->n, r->d) == 1);
	return NULL;
}

struct hog {
	int pipe[2], ready, stop;
};

/*
 * Takes processor 0 for itself once told to. Only threads of the same priority get some: on
 * PREEMPT_RT, the timers of all processors may wait for a lock that such a kernel thread holds.
 */
static void *hogs(void *arg)
{
	struct hog *h = arg;
	char byte;

	on_cpu(0);
	need(sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}) == 0);
	raise_to(&h->ready, 1);
	need(read(h->pipe[0], &byte, 1) == 1);
	while (!__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE))
		sched_yield();
	return NULL;
}

/*
 * PREEMPT_RT only: does a worker wait for a spinlock? There the runner may be preempted with one. A
 * thread that wants the lock lends the runner its own priority, and the hog's is above that. So the
 * lock is free only after the hog.
 */
static bool worker_waits_for_lock(void)
{
	struct utsname kernel;
	bool found = false;
	glob_t all;

	need(uname(&kernel) == 0);
	if (!strstr(kernel.version, "PREEMPT_RT"))
		return false;
	need(glob("/proc/[0-9]*", 0, NULL, &all) == 0);
	for (size_t i = 0; i < all.gl_pathc && !found; i++) {
		char status[64], stack[64];

		snprintf(status, sizeof(status), "%s/status", all.gl_pathv[i]);
		snprintf(stack, sizeof(stack), "%s/stack", all.gl_pathv[i]);
		found = file_has(status, "State:\tD") && file_has(stack, "[treadle]");
	}
	globfree(&all);
	return found;
}

/*
 * A time of this processor, which runs: on a busy host it only becomes longer. Sets @locked, and
 * returns, if a worker waits for a lock.
 */
static bool comes_to(const struct cntr *c, __u64 value, bool *locked)
{
	for (int i = 1; i <= 15000 && cntr_value(c) < value && !*locked; i++) {
		usleep(1000);
		if (i % 200 == 0)
			*locked = worker_waits_for_lock();
	}
	return cntr_value(c) >= value;
}

TEST_F(preempted, others_fire_without_the_runner)
{
	struct treadle_desc put = write_of(self->from, LENGTH, self->to_region, 0, self->key, 0);
	int interrupted = 0, with_lock = 0;

	put.flags = TREADLE_F_WORK;
	/* all pages are there, and in the pagemap */
	self->from[0] = TRIALS + 1;
	ASSERT_EQ(1, post(&self->first, then(put, &self->wrote)));
	ASSERT_TRUE(cntr_becomes(&self->wrote, 1, 0));
	for (int i = 1; i <= TRIALS; i++) {
		struct runs r = {.n = &self->runner,
				 .d = count_of(TREADLE_OP_CNTR_ADD, &self->both, 1, 0),
				 .policy = variant->policy,
				 .nice = variant->nice};
		struct hog h = {.ready = 0};
		pthread_t runner, hog;
		bool fired, written, locked = false;

		need(pipe(h.pipe) == 0);
		ASSERT_EQ(0, post_recv(&self->first, recv_of(self->in, 8, ANY, i)));
		ASSERT_EQ(0, post_recv(&self->second, recv_of(self->in + 64, 8, ANY, i)));
		for (int k = 0; k < WRITES; k++)
			ASSERT_EQ(1, post(&self->first,
					  when(then(put, &self->wrote), &self->first.rcvd, i)));
		ASSERT_EQ(1, post(&self->second,
				  when(count_of(TREADLE_OP_CNTR_ADD, &self->later, 1, 0),
				       &self->second.rcvd, i)));
		ASSERT_EQ(1, post(&self->runner, when(send_of(self->in + 128, 8, self->to_first, i),
						      &self->both, i)));
		ASSERT_EQ(1,
			  post(&self->runner, when(send_of(self->in + 128, 8, self->to_second, i),
						   &self->both, i)));
		self->from[0] = i;
		hog = thread(hogs, &h);
		await(&h.ready, 1);
		runner = thread(runs, &r);
		/* it has sent both messages, which are its own commands */
		while (__atomic_load_n(self->to, __ATOMIC_ACQUIRE) != i ||
		       cntr_value(&self->second.rcvd) < i)
			sched_yield();
		need(write(h.pipe[1], "", 1) == 1);
		fired = comes_to(&self->later, i, &locked);
		interrupted += cntr_value(&self->wrote) < 1 + i * WRITES;
		written = !variant->all || comes_to(&self->wrote, 1 + i * WRITES, &locked);
		with_lock += locked;
		raise_to(&h.stop, 1);
		pthread_join(hog, NULL);
		pthread_join(runner, NULL);
		close(h.pipe[0]);
		close(h.pipe[1]);
		EXPECT_TRUE(fired || locked);
		EXPECT_TRUE(written || locked);
		ASSERT_TRUE(cntr_becomes(&self->wrote, 1 + i * WRITES, 0));
		ASSERT_TRUE(cntr_becomes(&self->later, i, 0));
		for (int k = 0; k < 2; k++)
			ASSERT_EQ(0, cq_next(&self->runner.cq).error);
		ASSERT_EQ(0, cq_next(&self->first.rcq).error);
		ASSERT_EQ(0, cq_next(&self->second.rcq).error);
	}
	EXPECT_LT(with_lock, TRIALS);
	note("%d of %d times it was in the midst of it, %d times with a lock", interrupted, TRIALS,
	     with_lock);
}

TEST_HARNESS_MAIN
