/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The work of workers is charged to the control group of their process, and limited by it. They go
 * on while the process is stopped, or its group frozen. They follow it to another group, and leave
 * a group that is to be removed.
 */
#include "treadle.h"

#include <sys/wait.h>

#define LARGE	(2UL << 20) /* more than a doorbell copies */
#define SOME_US 50000LL	    /* more than a process that sleeps takes by itself */

struct worked {
	char dir[64];
	struct treadle_addr addr;
	int ready;
};

static long long usage_us(const char *dir)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/cpu.stat", dir);
	return number_in(path, "usage_usec ");
}

static void set_in(const char *dir, const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	write_to(path, value);
}

/* Does the group's processor time grow? */
static bool works(const char *dir)
{
	const long long before = usage_us(dir);
	const __u64 end = now_ns() + PATIENCE_NS;

	while (usage_us(dir) < before + SOME_US && now_ns() < end)
		usleep(1000);
	return usage_us(dir) >= before + SOME_US;
}

static bool state_is(pid_t pid, char wanted)
{
	char path[64], line[256] = {0}, state = 0, *at;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	need(file && fgets(line, sizeof(line), file) && (at = strrchr(line, ')')));
	state = at[2];
	fclose(file);
	return state == wanted;
}

static bool becomes(pid_t pid, char state)
{
	const __u64 end = now_ns() + PATIENCE_NS;

	while (!state_is(pid, state) && now_ns() < end)
		usleep(1000);
	return state_is(pid, state);
}

/* A process that sleeps, with a command that starts itself again for ever. It also receives. */
static void goes_round(void *arg)
{
	struct worked *w = arg;
	struct treadle_desc d = {
		.opcode = TREADLE_OP_NOP, .flags = TREADLE_F_REPEAT | TREADLE_F_WORK, .value = 1};
	char *in = pages(LARGE);
	struct cntr c;
	struct node n;

	cgroup_enter(w->dir);
	memset(in, 0, LARGE);
	node_open(&n, (struct options){});
	need(post_recv(&n, recv_of(in, LARGE, ANY, 0)) == 0);
	w->addr = n.addr;
	cntr_open(&c, n.fd);
	need(post(&n, then(when(d, &c, 1), &c)) == 1);
	need(post(&n, count_of(TREADLE_OP_CNTR_ADD, &c, 1, 0)) == 1);
	raise_to(&w->ready, 1);
	for (;;)
		pause();
}

FIXTURE(group)
{
	struct worked *w;
	pid_t pid;
};

FIXTURE_SETUP(group)
{
	self->w = shared(sizeof(*self->w));
	self->pid = spawn(goes_round, self->w);
	await(&self->w->ready, 1);
	ASSERT_TRUE(becomes(self->pid, 'S'));
}

FIXTURE_TEARDOWN(group)
{
	kill(self->pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(self->pid));
	EXPECT_TRUE(cgroup_removed(self->w->dir));
	until_unused();
}

TEST_F(group, is_charged_for_workers)
{
	EXPECT_TRUE(works(self->w->dir));
}

TEST_F(group, limits_workers)
{
	__u64 wall = now_ns();
	long long used;

	write_to("/sys/fs/cgroup/cgroup.subtree_control", "+cpu");
	if (access("/sys/fs/cgroup/cgroup.procs", R_OK) != 0)
		SKIP(return, "no control groups");
	ASSERT_TRUE(works(self->w->dir)); /* the workers are in the group */
	set_in(self->w->dir, "cpu.max", "5000 100000");
	usleep(200000);
	used = usage_us(self->w->dir);
	wall = now_ns();
	usleep(1500000);
	used = usage_us(self->w->dir) - used;
	wall = (now_ns() - wall) / 1000;
	note("a group that may have 5 %%: %lld us of %llu", used, wall);
	EXPECT_LE(used, (long long)wall / 4);
	set_in(self->w->dir, "cpu.max", "max");
}

static void sends_large(void *arg)
{
	struct worked *w = arg;
	struct node n;

	node_open(&n, (struct options){});
	need(post(&n, send_of(pages(LARGE), LARGE, peer(&n, w->addr), 1)) == 1);
	need(cq_next(&n.cq).error == 0);
}

TEST_F(group, workers_go_on_while_the_process_is_stopped)
{
	ASSERT_EQ(0, kill(self->pid, SIGSTOP));
	ASSERT_TRUE(becomes(self->pid, 'T'));
	EXPECT_EQ(0, reap(spawn(sends_large, self->w)));
	EXPECT_TRUE(works(self->w->dir));
	EXPECT_TRUE(state_is(self->pid, 'T'));
}

TEST_F(group, workers_go_on_while_the_group_is_frozen)
{
	set_in(self->w->dir, "cgroup.freeze", "1");
	usleep(10000);
	EXPECT_EQ(0, reap(spawn(sends_large, self->w)));
	EXPECT_TRUE(works(self->w->dir));
	set_in(self->w->dir, "cgroup.freeze", "0");
}

/* Workers don't keep the group that the process left. */
TEST_F(group, workers_follow_the_process)
{
	char next[sizeof(self->w->dir)], path[128], text[16];

	snprintf(next, sizeof(next), "/sys/fs/cgroup/treadle-next-%d", self->pid);
	ASSERT_EQ(0, mkdir(next, 0755));
	ASSERT_TRUE(works(self->w->dir));
	snprintf(path, sizeof(path), "%s/cgroup.procs", next);
	snprintf(text, sizeof(text), "%d", self->pid);
	write_to(path, text);
	EXPECT_TRUE(works(next));
	EXPECT_TRUE(cgroup_removed(self->w->dir));
	memcpy(self->w->dir, next, sizeof(next));
}

static void has_nothing_to_do(void *arg)
{
	struct worked *w = arg;
	char *in = pages(LARGE);
	struct node n;

	cgroup_enter(w->dir);
	memset(in, 0, LARGE);
	node_open(&n, (struct options){});
	need(post_recv(&n, recv_of(in, LARGE, ANY, 0)) == 0);
	w->addr = n.addr;
	raise_to(&w->ready, 1);
	for (;;)
		pause();
}

/* A group in which only idle workers are left can be frozen, as these end. */
TEST(idle_workers_leave)
{
	struct worked *w = shared(sizeof(*w));
	pid_t pid = spawn(has_nothing_to_do, w);
	const __u64 end = now_ns() + PATIENCE_NS;
	char path[128];

	await(&w->ready, 1);
	EXPECT_EQ(0, reap(spawn(sends_large, w)));
	snprintf(path, sizeof(path), "%s/pids.current", w->dir);
	write_to("/sys/fs/cgroup/cgroup.subtree_control", "+pids");
	note("%lld in the group", number_in(path, NULL));
	while (number_in(path, NULL) != 1 && now_ns() < end)
		usleep(1000);
	EXPECT_EQ(1, number_in(path, NULL));
	set_in(w->dir, "cgroup.freeze", "1");
	snprintf(path, sizeof(path), "%s/cgroup.events", w->dir);
	while (number_in(path, "frozen ") != 1 && now_ns() < end)
		usleep(1000);
	EXPECT_EQ(1, number_in(path, "frozen "));
	set_in(w->dir, "cgroup.freeze", "0");
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(pid));
	EXPECT_TRUE(cgroup_removed(w->dir));
	until_unused();
}

TEST_HARNESS_MAIN
