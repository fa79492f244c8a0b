/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Trigger cells and contexts: the cells of a context that ends, and the time that many contexts
 * take together.
 */
#include "connection.h"
#include "support.h"
#include "triggers.h"

static void dies_armed(void *arg)
{
	struct cells c;
	struct node n;

	node_open(&n, (struct options){.tx = 1024});
	cells_open(&c, n.fd, 512);
	for (int i = 0; i < 500; i++)
		need(post(&n, once(nop(i), &c, i, 1)) == 1);
	for (int i = 0; i < 500; i += 2)
		cell_write(&c, i, 1);
	raise_to(arg, 1);
	pause();
}

static long users(void)
{
	return number_in("/sys/module/treadle/refcnt", NULL);
}

/* Waits until the module has @n references. An open file has several. */
static bool users_become(long n)
{
	__u64 end = now_ns() + PATIENCE_NS;

	while (users() != n && now_ns() < end)
		usleep(1000);
	return users() == n;
}

TEST(cells_go_with_their_file_or_process)
{
	int *ready = shared(sizeof(*ready));
	struct treadle_cqe cqe = {};
	__u64 end;
	long ours;
	struct cells c;
	struct node n;
	pid_t pid;

	/*
	 * A worker of an earlier program would count as a reference of ours, and ends only when
	 * idle.
	 */
	until_unused();
	node_open(&n, (struct options){});
	ours = users();
	cells_open(&c, n.fd, 8);
	ASSERT_EQ(1, post(&n, once(nop(1), &c, 0, 1)));
	pid = spawn(dies_armed, ready);
	await(ready, 1);
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(pid));
	/* The other process had our cells mapped as well; they still work here. */
	cell_write(&c, 0, 1);
	EXPECT_EQ(1, cq_next(&n.cq).context);
	EXPECT_TRUE(users_become(ours));
	ASSERT_EQ(1, post(&n, once(nop(2), &c, 0, 2)));
	ASSERT_EQ(1, post(&n, once(nop(3), &c, 0, 3)));
	/* The file is open as long as it is mapped. */
	close(n.fd);
	EXPECT_TRUE(users_become(ours));
	cell_write(&c, 0, 2);
	end = now_ns() + PATIENCE_NS;
	while (!cq_poll(&n.cq, &cqe) && now_ns() < end)
		usleep(1000);
	EXPECT_EQ(2, cqe.context);
	node_unmap(&n);
	munmap((void *)c.done, c.ro.length);
	EXPECT_TRUE(users_become(ours));
	munmap(c.cell, c.rw.length);
	EXPECT_TRUE(users_become(0));
}

/* How often timers have polled the cells of this context. */
static __u32 timers_of(int fd)
{
	char path[64], line[256];
	FILE *file;
	__u32 n;
	int armed;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	need(file);
	do
		need(fgets(line, sizeof(line), file));
	while (sscanf(line, "treadle-context: armed %d timers %u", &armed, &n) != 2);
	fclose(file);
	return n;
}

static int lines_of(int fd, const char *key)
{
	char path[64], line[256];
	FILE *file;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	need(file);
	while (fgets(line, sizeof(line), file))
		n += strncmp(line, key, strlen(key)) == 0;
	fclose(file);
	return n;
}

/* Diagnostics report that entries were left out, and only then. */
TEST(only_entries_left_out_are_reported)
{
	int fd = device();
	struct cntr c;

	for (int i = 0; i < 256; i++)
		cntr_open(&c, fd);
	EXPECT_EQ(256, lines_of(fd, "treadle-cntr:"));
	EXPECT_EQ(0, lines_of(fd, "treadle-more:"));
	cntr_open(&c, fd);
	EXPECT_EQ(256, lines_of(fd, "treadle-cntr:"));
	EXPECT_EQ(1, lines_of(fd, "treadle-more:"));
	close(fd);
}

/*
 * All contexts of a user together get as much time in interrupts as four for each processor,
 * however many there are.
 */
TEST(many_contexts_are_polled_less_often)
{
	enum { CONTEXTS = 256, SHARE = 4, OFTEN = 1000 /* in a second */ };
	const long most = (long)SHARE * OFTEN * sysconf(_SC_NPROCESSORS_ONLN);
	static struct {
		struct node n;
		struct cells c;
		struct cntr done;
	} all[CONTEXTS];
	__u64 took = 0, since;
	long rate;
	int i;

	for (i = 0; i < CONTEXTS; i++) {
		node_open(&all[i].n, (struct options){});
		cells_open(&all[i].c, all[i].n.fd, 1);
		cntr_open(&all[i].done, all[i].n.fd);
		ASSERT_EQ(1, post(&all[i].n, once(count_of(TREADLE_OP_CNTR_ADD, &all[i].done, 1, 0),
						  &all[i].c, 0, 1)));
	}
	usleep(500000); /* from here on the poll interval has reached its maximum */
	since = now_ns();
	for (i = 0; i < CONTEXTS; i++)
		took -= timers_of(all[i].n.fd);
	sleep(1);
	for (i = 0; i < CONTEXTS; i++)
		took += timers_of(all[i].n.fd);
	rate = took * 1000000000 / (now_ns() - since);
	note("timers in a second: %ld with %d contexts", rate, CONTEXTS);
	EXPECT_LT(0, rate);
	EXPECT_LT(rate, 2 * most);
	for (i = 0; i < CONTEXTS; i++)
		cell_write(&all[i].c, 0, 1);
	for (i = 0; i < CONTEXTS; i++) {
		EXPECT_TRUE(cntr_becomes(&all[i].done, 1, 0));
		close(all[i].n.fd);
	}
}

TEST_HARNESS_MAIN
