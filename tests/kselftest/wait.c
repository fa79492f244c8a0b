/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Several waiters for one queue, with a reader that takes completions meanwhile; wait files; and
 * wake-ups, none of which may be lost.
 */
#include "connection.h"
#include "triggers.h"

#include <sys/epoll.h>

FIXTURE(wait)
{
	struct node n;
};

FIXTURE_SETUP(wait)
{
	node_open(&self->n, (struct options){});
}

FIXTURE_TEARDOWN(wait)
{
	close(self->n.fd);
}

struct waiter {
	struct node n;
	int stop, canceled, other;
};

static void *waits(void *arg)
{
	struct waiter *w = arg;

	while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE)) {
		int result = cq_wait(&w->n.rcq, -1);

		if (result == -ECANCELED)
			__atomic_add_fetch(&w->canceled, 1, __ATOMIC_RELAXED);
		else if (result)
			w->other = result;
	}
	return NULL;
}

/* A waiter that is woken for a completion that another thread has read is not canceled. */
TEST(only_a_signal_cancels_a_wait)
{
	__u64 end = now_ns() + 5000000000ULL;
	static struct waiter w;
	struct treadle_cqe c;
	pthread_t t;
	__u64 self;
	char in[4];
	int n;

	node_open(&w.n, (struct options){});
	self = peer(&w.n, w.n.addr);
	t = thread(waits, &w);
	for (n = 0; now_ns() < end; n++) {
		need(post_recv(&w.n, recv_of(in, 4, ANY, n)) == 0);
		need(post(&w.n, send_of("abc", 4, self, n)) == 1);
		need(cq_poll(&w.n.cq, &c));
		for (volatile int i = n % 512; i > 0; i--)
			;
		need(cq_poll(&w.n.rcq, &c));
		for (volatile int i = n % 1021; i > 0; i--)
			;
	}
	note("%d messages, %d canceled", n, w.canceled);
	EXPECT_EQ(0, w.canceled);
	EXPECT_EQ(0, w.other);
	raise_to(&w.stop, 1);
	do {
		need(doorbell(w.n.fd, w.n.rcq.id) == 0);
		need(call(w.n.fd, TREADLE_IOC_SIGNAL, (void *)(unsigned long)w.n.rcq.id) == 0);
		usleep(10000);
	} while (pthread_tryjoin_np(t, NULL));
}

static void run_on_first_cpu(int policy, int priority)
{
	const struct sched_param p = {.sched_priority = priority};
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	need(sched_setaffinity(0, sizeof(set), &set) == 0);
	need(sched_setscheduler(0, policy, &p) == 0);
}

static void *waits_in_the_background(void *arg)
{
	struct waiter *w = arg;

	run_on_first_cpu(SCHED_OTHER, 0);
	w->other = cq_wait(&w->n.rcq, PATIENCE_NS);
	return NULL;
}

/*
 * Kept completions move into the ring with a wait, and their memory is freed. Here that belongs to
 * a receive ring that was destroyed, and freeing it sleeps. The waiter has been woken, but can't
 * run meanwhile.
 */
TEST(kept_completions_come_with_a_wait)
{
	static struct waiter w = {.other = 1};
	struct treadle_cqe c;
	struct node from;
	pthread_t t;
	char in[4];
	__u64 to;

	node_open(&from, (struct options){});
	node_open(&w.n, (struct options){.rcq = 32});
	to = peer(&from, w.n.addr);
	t = thread(waits_in_the_background, &w);
	usleep(200000);
	run_on_first_cpu(SCHED_FIFO, 1);
	for (int i = 0; i < 40; i++) {
		ASSERT_EQ(0, post_recv(&w.n, recv_of(in, 4, ANY, i)));
		ASSERT_EQ(1, post(&from, send_of("abc", 4, to, i)));
	}
	EXPECT_TRUE(cq_overflows(&w.n.rcq));
	ASSERT_EQ(0, destroy(w.n.fd, w.n.ep));
	ASSERT_EQ(0, destroy(w.n.fd, w.n.rx.id));
	for (int i = 0; i < 32; i++) {
		ASSERT_TRUE(cq_poll(&w.n.rcq, &c));
		EXPECT_EQ(i, c.context);
	}
	EXPECT_FALSE(cq_poll(&w.n.rcq, &c));
	EXPECT_EQ(1, w.other);
	pthread_join(t, NULL);
	EXPECT_EQ(0, w.other);
	for (int i = 32; i < 40; i++) {
		ASSERT_TRUE(cq_poll(&w.n.rcq, &c));
		EXPECT_EQ(i, c.context);
	}
	EXPECT_TRUE(cq_empty(&w.n.rcq));
}

/* One of each kind: a queue, a counter, an event queue. */
static void waitables(int fd, __u32 *ids)
{
	struct cntr c;
	struct cq q;

	cq_open(&q, fd, 8);
	cntr_open(&c, fd);
	ids[0] = q.id;
	ids[1] = c.id;
	ids[2] = eq_create(fd);
}

static void reads_nothing(void *arg)
{
	const struct pollfd *files = arg;
	struct treadle_event buf;

	for (int i = 0; i < 3; i++)
		if (read(files[i].fd, &buf, sizeof(buf)) != -1 || errno != EPERM)
			_exit(1 + i);
}

/* Parent and child share the file: news that the child read would be lost to the parent. */
TEST(a_child_reads_nothing_from_its_parents_files)
{
	struct pollfd files[3];
	struct treadle_event buf;
	int fd = device();
	__u32 ids[3];

	waitables(fd, ids);
	for (int i = 0; i < 3; i++) {
		files[i] = (struct pollfd){.fd = wait_fd(fd, ids[i]), .events = POLLIN};
		ASSERT_EQ(0, call(fd, TREADLE_IOC_SIGNAL, (void *)(unsigned long)ids[i]));
	}
	EXPECT_EQ(3, poll(files, 3, 0));
	EXPECT_EQ(0, reap(spawn(reads_nothing, files)));
	EXPECT_EQ(3, poll(files, 3, 0));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(i == 1 ? 8 : -1, read(files[i].fd, &buf, sizeof(buf)));
	EXPECT_EQ(0, poll(files, 3, 0));
}

/* A read that fails takes no news. */
TEST(a_read_that_fails_takes_no_signal)
{
	int fd = device();
	struct pollfd file;
	__u32 ids[3];
	__u64 sum;

	waitables(fd, ids);
	file = (struct pollfd){.fd = wait_fd(fd, ids[1]), .events = POLLIN};
	ASSERT_EQ(0, call(fd, TREADLE_IOC_SIGNAL, (void *)(unsigned long)ids[1]));
	EXPECT_EQ(-1, read(file.fd, &sum, 4));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(1, poll(&file, 1, 0));
	EXPECT_EQ(-1, read(file.fd, pages(PAGE) + PAGE, 8));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(1, poll(&file, 1, 0));
	EXPECT_EQ(8, read(file.fd, &sum, 8));
	EXPECT_EQ(0, poll(&file, 1, 0));
}

struct lasting {
	int fd, ready, result;
	__u32 id;
};

static void *waits_for_ever(void *arg)
{
	struct lasting *l = arg;
	struct treadle_wait w = {
		.size = sizeof(w), .id = l->id, .timeout_ns = -1, .threshold = l->result};

	raise_to(&l->ready, 1);
	l->result = call(l->fd, TREADLE_IOC_WAIT, &w);
	return NULL;
}

// conformance: ioctl.h: ECANCELED: a wait was ended by DESTROY
TEST(waits_end_with_what_they_are_for)
{
	int fd = device();

	for (int round = 0; round < 60; round++) {
		struct lasting l[3][2];
		pthread_t t[3][2];
		struct pollfd file;
		__u32 ids[3];

		waitables(fd, ids);
		for (int i = 0; i < 3; i++) {
			file = (struct pollfd){.fd = wait_fd(fd, ids[i]), .events = POLLIN};
			for (int n = 0; n < 2; n++) {
				l[i][n] =
					(struct lasting){.fd = fd, .id = ids[i], .result = i == 1};
				t[i][n] = thread(waits_for_ever, &l[i][n]);
				await(&l[i][n].ready, 1);
			}
			if (round % 3)
				usleep(round % 3 * 1000);
			EXPECT_EQ(0, poll(&file, 1, 0));
			ASSERT_EQ(0, destroy(fd, ids[i]));
			EXPECT_EQ(1, poll(&file, 1, 0));
			for (int n = 0; n < 2; n++) {
				int result;

				pthread_join(t[i][n], NULL);
				result = l[i][n].result;
				/* or the wait began when the object was gone */
				EXPECT_TRUE(result == -ENOENT ||
					    result == (i == 2 ? 0 : -ECANCELED));
			}
			close(file.fd);
		}
	}
	close(fd);
}

/* --- files to poll --------------------------------------------------------------- */

static bool readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	need(poll(&p, 1, timeout_ms) >= 0);
	return p.revents & POLLIN;
}

TEST_F(wait, a_file_is_readable_while_the_queue_is_not_empty)
{
	struct epoll_event e = {.events = EPOLLIN}, got;
	int fd = wait_fd(self->n.fd, self->n.cq.id), set = epoll_create1(0);

	ASSERT_EQ(0, epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	for (int round = 0; round < 3; round++) {
		EXPECT_FALSE(readable(fd, 0));
		EXPECT_EQ(0, epoll_wait(set, &got, 1, 0));
		ASSERT_EQ(1, post(&self->n, nop(1)));
		ASSERT_EQ(1, post(&self->n, nop(2)));
		EXPECT_TRUE(readable(fd, 0));
		EXPECT_EQ(1, epoll_wait(set, &got, 1, 0));
		EXPECT_EQ(1, cq_next(&self->n.cq).context);
		EXPECT_TRUE(readable(fd, 0));
		EXPECT_EQ(1, epoll_wait(set, &got, 1, 0));
		EXPECT_EQ(2, cq_next(&self->n.cq).context);
	}
	EXPECT_FALSE(readable(fd, 0));
	EXPECT_EQ(0, epoll_wait(set, &got, 1, 0));
}

TEST_F(wait, a_file_of_a_counter_reports_changes)
{
	int fd = wait_fd(self->n.fd, self->n.sent.id);
	__u64 word;

	for (int round = 0; round < 3; round++) {
		EXPECT_FALSE(readable(fd, 0));
		ASSERT_EQ(1, post(&self->n, count_of(TREADLE_OP_CNTR_ADD, &self->n.sent, 1, 0)));
		EXPECT_TRUE(readable(fd, 0));
		EXPECT_TRUE(readable(fd, 0));
		EXPECT_EQ(8, read(fd, &word, 8));
	}
	EXPECT_FALSE(readable(fd, 0));
}

TEST_F(wait, a_file_outlives_its_queue)
{
	struct cq q;
	int fd;

	cq_open(&q, self->n.fd, 8);
	fd = wait_fd(self->n.fd, q.id);
	EXPECT_EQ(0, destroy(self->n.fd, q.id));
	EXPECT_TRUE(readable(fd, 0));
	EXPECT_EQ(0, close(fd));
}

static void *waits_by_poll(void *file)
{
	return (void *)(long)readable(*(int *)file, PATIENCE_NS / 1000000);
}

/* The file outlives its context as well. The end of the context wakes its waiters. */
TEST_F(wait, a_file_outlives_its_context)
{
	struct cntr c;
	pthread_t t[2];
	int other = device(), file[2];
	struct cq q;
	void *woken;

	cq_open(&q, other, 8);
	cntr_open(&c, other);
	file[0] = wait_fd(other, q.id);
	file[1] = wait_fd(other, c.id);
	munmap(q.rw, q.rw_map.length);
	munmap((void *)q.ro, q.ro_map.length);
	munmap((void *)c.page, PAGE);
	for (int i = 0; i < 2; i++) {
		EXPECT_FALSE(readable(file[i], 0));
		t[i] = thread(waits_by_poll, &file[i]);
	}
	usleep(10000);
	close(other);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], &woken);
		EXPECT_TRUE(woken);
		EXPECT_TRUE(readable(file[i], 0));
		EXPECT_EQ(0, close(file[i]));
	}
}

/* --- lost wake-ups ------------------------------------------------------------------ */

struct tandem {
	struct treadle_addr addr[2];
	int ready[2];
	int rounds;
};

/* Two processes wake each other in turn. Each sleeps in another way. */
static void bounce(struct tandem *t, int me)
{
	struct node n;
	__u64 to, word;
	char buf[64];
	int fd, cntr_fd;

	node_open(&n, (struct options){});
	fd = wait_fd(n.fd, n.rcq.id);
	cntr_fd = wait_fd(n.fd, n.rcvd.id);
	t->addr[me] = n.addr;
	raise_to(&t->ready[me], 1);
	await(&t->ready[!me], 1);
	to = peer(&n, t->addr[!me]);
	need(post_recv(&n, recv_of(buf, 8, ANY, 0)) == 0);
	if (me == 0)
		need(post(&n, send_of(buf, 8, to, 0)) == 1);
	for (int i = 0; i < t->rounds; i++) {
		switch (i / 4 % 3) {
		case 0:
			need(cq_wait(&n.rcq, PATIENCE_NS) == 0);
			break;
		case 1:
			need(readable(fd, PATIENCE_NS / 1000000));
			break;
		case 2:
			/*
			 * Re-arm before the look at the value, so that a change in between counts.
			 */
			while (cntr_value(&n.rcvd) <= i) {
				need(readable(cntr_fd, PATIENCE_NS / 1000000));
				need(read(cntr_fd, &word, 8) == 8);
			}
			break;
		}
		need(cq_next(&n.rcq).context == i);
		need(post_recv(&n, recv_of(buf, 8, ANY, i + 1)) == 0);
		if (me == 1 || i < t->rounds - 1)
			need(post(&n, send_of(buf, 8, to, i)) == 1 && cq_next(&n.cq).error == 0);
	}
}

static void bounces(void *arg)
{
	bounce(arg, 1);
}

TEST(no_wake_up_is_lost)
{
	struct tandem *t = shared(sizeof(*t));
	pid_t pid;

	t->rounds = 2500;
	pid = spawn(bounces, t);
	bounce(t, 0);
	EXPECT_EQ(0, reap(pid));
}

TEST_HARNESS_MAIN
