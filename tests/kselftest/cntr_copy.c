/* SPDX-License-Identifier: GPL-2.0 */
/* Copies of counters in cells: what a device needs to wait for a counter. */
#include "cntr_cells.h"

// conformance: ioctl.h: EINVAL: value out of its documented range
// conformance: ioctl.h: EBUSY: another object is bound to it
TEST_F(cntr_cells, places_and_objects_of_copies)
{
	struct treadle_cntr_copy c = {.size = sizeof(c), .cntr = self->d.id, .cells = self->c.id};
	const __u64 size = self->c.rw.length;
	static const __u64 wrong[] = {1, 8, 24, 1ULL << 40, ~15ULL};

	for (int i = 0; i < ARRAY_SIZE(wrong); i++) {
		c.offset = wrong[i];
		EXPECT_EQ(-EINVAL, call(self->a.fd, TREADLE_IOC_CNTR_COPY, &c));
	}
	c.offset = size;
	EXPECT_EQ(-EINVAL, call(self->a.fd, TREADLE_IOC_CNTR_COPY, &c));
	c.offset = 16;
	c.flags = 1;
	EXPECT_EQ(-EINVAL, call(self->a.fd, TREADLE_IOC_CNTR_COPY, &c));
	c.flags = 0;
	c.cells = 0;
	EXPECT_EQ(-EINVAL, call(self->a.fd, TREADLE_IOC_CNTR_COPY, &c));
	EXPECT_EQ(-ENOENT, copy_to(&self->d, NULL, 0));
	c.cells = self->d.id;
	EXPECT_EQ(-EBADF, call(self->a.fd, TREADLE_IOC_CNTR_COPY, &c));
	c.cells = self->c.id;
	c.cntr = self->c.id;
	EXPECT_EQ(-EBADF, call(self->a.fd, TREADLE_IOC_CNTR_COPY, &c));
	c.cntr = 1 << 20;
	EXPECT_EQ(-ENOENT, call(self->a.fd, TREADLE_IOC_CNTR_COPY, &c));
	/* A refused call binds nothing. */
	ASSERT_EQ(0, copy_to(&self->d, &self->c, size / 8 - 2));
	EXPECT_EQ(-EBUSY, copy_to(&self->d, &self->c, 0));
	EXPECT_EQ(-EBUSY, destroy(self->a.fd, self->c.id));
	EXPECT_EQ(0, copy_to(&self->d, NULL, 0));
	EXPECT_EQ(-ENOENT, copy_to(&self->d, NULL, 0));
	ASSERT_EQ(0, copy_to(&self->d, &self->c, 0));
	ASSERT_EQ(0, copy_to(&self->e, &self->c, 2));
	/* It ends with its counter, for which it is no use. */
	EXPECT_EQ(0, destroy(self->a.fd, self->d.id));
	EXPECT_EQ(-EBUSY, destroy(self->a.fd, self->c.id));
	EXPECT_EQ(0, destroy(self->a.fd, self->e.id));
	EXPECT_EQ(0, destroy(self->a.fd, self->c.id));
}

TEST_F(cntr_cells, a_copy_has_each_change)
{
	struct treadle_desc d = count_of(TREADLE_OP_CNTR_ADD, &self->d, 5, 0);

	ASSERT_EQ(1, post(&self->a, d));
	cell_write(&self->c, 6, 77);
	ASSERT_EQ(0, copy_to(&self->d, &self->c, 6));
	/* from the start on; and a change is there when the call that makes it returns */
	EXPECT_EQ(5, cell_read(&self->c, 6));
	EXPECT_EQ(0, cell_read(&self->c, 7));
	for (int i = 6; i < 200; i++) {
		d.data = 1;
		ASSERT_EQ(1, post(&self->a, d));
		ASSERT_EQ(i, cell_read(&self->c, 6));
	}
	d.flags |= TREADLE_F_CNTR_ERROR;
	d.data = 3;
	ASSERT_EQ(1, post(&self->a, d));
	EXPECT_EQ(3, cell_read(&self->c, 7));
	d.opcode = TREADLE_OP_CNTR_SET;
	d.data = 0;
	ASSERT_EQ(1, post(&self->a, d));
	EXPECT_EQ(0, cell_read(&self->c, 7));
	ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_SET, &self->d, 1, 0)));
	EXPECT_EQ(1, cell_read(&self->c, 6));
	/* What others store there stays until the next change, and does nothing. */
	cell_write(&self->c, 6, 1ULL << 50);
	cell_write(&self->c, 7, 1ULL << 50);
	EXPECT_EQ(1, cntr_value(&self->d));
	ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_ADD, &self->d, 1, 0)));
	EXPECT_EQ(2, cell_read(&self->c, 6));
	EXPECT_EQ(0, cell_read(&self->c, 7));
	/* It ends. */
	ASSERT_EQ(0, copy_to(&self->d, NULL, 0));
	ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_ADD, &self->d, 1, 0)));
	EXPECT_EQ(2, cell_read(&self->c, 6));
	EXPECT_EQ(3, cntr_value(&self->d));
}

struct counting {
	struct node n;
	struct cntr d;
	int times;
};

static void *adds(void *arg)
{
	struct counting *a = arg;

	for (int i = 0; i < a->times; i++)
		need(post(&a->n, count_of(TREADLE_OP_CNTR_ADD, &a->d, 1, 0)) == 1);
	return NULL;
}

/* A reader never sees the copy go back, nor a value that the counter had not reached. */
TEST_F(cntr_cells, a_copy_never_goes_back_and_ends_exact)
{
	enum { THREADS = 4, TIMES = 5000 };
	static struct counting a[THREADS];
	pthread_t t[THREADS];
	__u64 seen = 0, looks = 0;

	ASSERT_EQ(0, copy_to(&self->d, &self->c, 0));
	for (int i = 0; i < THREADS; i++) {
		a[i].times = TIMES;
		a[i].d = self->d;
		node_open(&a[i].n, (struct options){.context = self->a.fd});
		t[i] = thread(adds, &a[i]);
	}
	while (seen < THREADS * TIMES && looks < 1ULL << 40) {
		__u64 now = cell_read(&self->c, 0);

		ASSERT_LE(seen, now);
		ASSERT_LE(now, cntr_value(&self->d));
		seen = now;
		looks++;
		if (looks % 1000 == 0)
			sched_yield();
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	EXPECT_EQ(THREADS * TIMES, cell_read(&self->c, 0));
	EXPECT_EQ(THREADS * TIMES, cntr_value(&self->d));
}

/* A reader of a copy finds the data of what was counted. */
TEST_F(cntr_cells, data_is_there_before_the_copy)
{
	struct cells there;
	__u64 key = 9;
	__u32 region;

	cells_open(&there, self->b.fd, 16);
	ASSERT_EQ(0,
		  mr(self->b.fd, self->dst, 4096, TREADLE_ACCESS_REMOTE_WRITE, 0, &key, &region));
	ASSERT_EQ(0, copy_to(&self->b.rcvd, &there, 0));
	for (int i = 1; i <= 1000; i++) {
		((__u64 *)self->src)[0] = i;
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, i)));
		ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, self->to, i)));
		ASSERT_TRUE(becomes(&there, 0, i));
		ASSERT_EQ(i, ((__u64 *)self->dst)[0]);
		cq_next(&self->a.cq);
		cq_next(&self->b.rcq);
	}
}

/* Threads wait for a counter with a copy as for any other. */
TEST_F(cntr_cells, others_wait_for_a_counter_with_a_copy)
{
	struct treadle_wait_fd f = {.size = sizeof(f), .id = self->d.id};
	struct pollfd p = {.events = POLLIN};
	__u64 value;

	ASSERT_EQ(0, copy_to(&self->d, &self->c, 0));
	ASSERT_EQ(0, call(self->a.fd, TREADLE_IOC_WAIT_FD, &f));
	p.fd = f.fd;
	EXPECT_EQ(0, poll(&p, 1, 10));
	ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 8, 0)));
	cell_write(&self->c, 8, 2);
	EXPECT_EQ(0, cntr_wait(&self->d, 2, 0, -1));
	EXPECT_EQ(2, cell_read(&self->c, 0));
	EXPECT_EQ(1, poll(&p, 1, -1));
	EXPECT_EQ(sizeof(value), read(f.fd, &value, sizeof(value)));
	EXPECT_EQ(2, value);
	EXPECT_EQ(-ETIMEDOUT, cntr_wait(&self->d, 3, 0, 1000000));
	close(f.fd);
}

static void *copies_and_ends(void *arg)
{
	struct teller *t = arg;
	struct cntr d = {.fd = t->c->fd, .id = t->told};

	while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED)) {
		int made = copy_to(&d, t->c, 4), ended = copy_to(&d, NULL, 0);

		need(made == 0 || made == -EBUSY);
		need(ended == 0 || ended == -ENOENT);
	}
	return NULL;
}

TEST_F(cntr_cells, copies_come_and_go_while_it_counts)
{
	struct teller t = {.c = &self->c, .told = self->d.id};
	pthread_t p[2];

	for (int i = 0; i < 2; i++)
		p[i] = thread(copies_and_ends, &t);
	for (int i = 1; i <= 20000; i++)
		ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_ADD, &self->d, 1, 0)));
	__atomic_store_n(&t.stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 2; i++)
		pthread_join(p[i], NULL);
	EXPECT_EQ(20000, cntr_value(&self->d));
	EXPECT_GE(20000, cell_read(&self->c, 4));
	EXPECT_EQ(0, destroy(self->a.fd, self->c.id));
	EXPECT_EQ(0, destroy(self->a.fd, self->d.id));
}

TEST_HARNESS_MAIN
