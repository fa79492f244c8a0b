/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands armed on trigger cells: which processes may write the cells, the order in which commands
 * start, and that each command either starts or is canceled.
 */
// conformance: fi_trigger(3): FI_TRIGGER_XPU: deferred until the user writes provider specified ...

#include "triggers.h"

#include <treadle/atomic.h>

FIXTURE(cells)
{
	struct node a, b; /* in separate contexts */
	__u64 to, back;
	struct cells c; /* of a */
	struct cntr d;	/* of a */
	char *src, *dst;
};

FIXTURE_SETUP(cells)
{
	node_open(&self->a, (struct options){.tx = 1024, .cq = 4096});
	node_open(&self->b, (struct options){.rx = 4096, .rcq = 4096});
	self->to = peer(&self->a, self->b.addr);
	self->back = peer(&self->b, self->a.addr);
	cells_open(&self->c, self->a.fd, 1024);
	cntr_open(&self->d, self->a.fd);
	self->src = pages(1 << 20);
	self->dst = pages(1 << 20);
}

FIXTURE_TEARDOWN(cells)
{
	EXPECT_TRUE(nothing_is_left(&self->a, &self->b));
}

/* Waits longer than a poller would need to start the command. */
static bool nothing_comes(struct cq *q)
{
	return cq_wait(q, 30000000) == -ETIMEDOUT;
}

/* --- each operation, each writer --------------------------------------------------- */

TEST_F(cells, a_store_starts_a_send)
{
	for (int tagged = 0; tagged < 2; tagged++) {
		struct treadle_desc d = tagged ? tsend_of(self->src, 100, self->to, 5, 1) :
						 send_of(self->src, 100, self->to, 1);

		ASSERT_EQ(1, post(&self->a, once(d, &self->c, tagged, 7)));
		ASSERT_EQ(0, post_recv(&self->b, tagged ? trecv_of(self->dst, 100, ANY, 5, 0, 2) :
							  recv_of(self->dst, 100, ANY, 2)));
		EXPECT_TRUE(nothing_comes(&self->b.rcq));
		EXPECT_EQ(0, cell_done(&self->c, tagged));
		/* The buffer is read when it starts. */
		fill(self->src, 100, 10 + tagged);
		cell_write(&self->c, tagged, 7);
		EXPECT_EQ(2, cq_next(&self->b.rcq).context);
		EXPECT_EQ(1, cq_next(&self->a.cq).context);
		EXPECT_TRUE(same(self->dst, 100, 10 + tagged));
		EXPECT_EQ(7, cell_done(&self->c, tagged));
	}
}

TEST_F(cells, every_operation_can_wait)
{
	struct node *a = &self->a, *b = &self->b;
	const __u32 access = TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE;
	__u64 key = 9, *there = (__u64 *)self->dst, here[3] = {5, 6, 7}, got[3] = {};
	struct treadle_desc d[8];
	__u32 region;
	int n = 0;

	ASSERT_EQ(0, mr(b->fd, there, 4096, access, 0, &key, &region));
	there[0] = 1;
	there[1] = 2;
	d[n++] = nop(0);
	d[n++] = write_of(here, 8, self->to, 16, key, 1);
	d[n++] = read_of(got, 8, self->to, 0, key, 2);
	d[n++] = write_of(here + 1, 8, self->to, 0, key, 3);
	d[n - 1].opcode = TREADLE_OP_ATOMIC;
	d[n - 1].atomic_op = TREADLE_ATOMIC_SUM;
	d[n - 1].datatype = TREADLE_UINT64;
	d[n++] = write_of(here + 2, 8, self->to, 8, key, 4);
	d[n - 1].opcode = TREADLE_OP_FETCH;
	d[n - 1].atomic_op = TREADLE_ATOMIC_WRITE;
	d[n - 1].datatype = TREADLE_UINT64;
	d[n - 1].result = (unsigned long)(got + 1);
	d[n++] = recv_of(got + 2, 8, ANY, 5);
	for (int i = 0; i < n; i++)
		ASSERT_EQ(1, post(a, once(d[i], &self->c, i, 100 + i)));
	ASSERT_EQ(1, post(a, once(count_of(TREADLE_OP_CNTR_ADD, &self->d, 3, 0), &self->c, n,
				  100 + n)));
	EXPECT_TRUE(nothing_comes(&a->cq));
	for (int i = 0; i <= n; i++) {
		cell_write(&self->c, i, 100 + i);
		if (i < 5) {
			struct treadle_cqe c = cq_next(&a->cq);

			EXPECT_EQ(i, c.context);
			EXPECT_EQ(0, c.error);
		}
	}
	EXPECT_EQ(5, there[2]);
	EXPECT_EQ(1, got[0]);
	EXPECT_EQ(7, there[0]);
	EXPECT_EQ(2, got[1]);
	EXPECT_EQ(7, there[1]);
	EXPECT_TRUE(cntr_becomes(&self->d, 3, 0));
	ASSERT_EQ(1, post(b, send_of(here, 8, self->back, 6)));
	EXPECT_EQ(5, cq_next(&a->rcq).context);
	EXPECT_EQ(6, cq_next(&b->cq).context);
	EXPECT_EQ(5, got[2]);
}

TEST_F(cells, injected_and_met_already)
{
	struct treadle_desc d = send_of(self->src, 30, self->to, 1);

	d.flags |= TREADLE_F_INJECT;
	fill(self->src, 30, 3);
	ASSERT_EQ(1, post(&self->a, once(d, &self->c, 0, 5)));
	memset(self->src, 0, 30);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 30, ANY, 1)));
	cell_write(&self->c, 0, 5);
	EXPECT_EQ(1, cq_next(&self->b.rcq).context);
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	EXPECT_TRUE(same(self->dst, 30, 3));
	/* The value is there before the command is armed: 0 from the start, 5 from before. */
	ASSERT_EQ(1, post(&self->a, once(nop(2), &self->c, 0, 5)));
	EXPECT_EQ(2, cq_next(&self->a.cq).context);
	ASSERT_EQ(1, post(&self->a, once(nop(3), &self->c, 1, 0)));
	EXPECT_EQ(3, cq_next(&self->a.cq).context);
}

static void *writes_one(void *arg)
{
	cell_write(arg, 0, 1);
	return NULL;
}

static void child_writes_one(void *arg)
{
	cell_write(arg, 0, 2);
}

// conformance: triggers.rst: bad input: the process that writes a cell dies
TEST_F(cells, any_thread_or_child_may_write)
{
	ASSERT_EQ(1, post(&self->a, once(nop(1), &self->c, 0, 1)));
	pthread_join(thread(writes_one, &self->c), NULL);
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	/* The child dies right after the write. */
	ASSERT_EQ(1, post(&self->a, once(nop(2), &self->c, 0, 2)));
	EXPECT_EQ(0, reap(spawn(child_writes_one, &self->c)));
	EXPECT_EQ(2, cq_next(&self->a.cq).context);
}

// conformance: fi_trigger(3): requesting and triggering may occur on separate computational ...
// conformance: ioctl.h: EPERM: not the process that opened the context, and maps no cells
TEST_F(cells, a_process_that_was_passed_the_file_may_write)
{
	struct foreign {
		struct treadle_map cells, done, ring;
	} *f = shared(sizeof(*f));
	int pair[2];
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	if (pid == 0) {
		int fd = receive_file(pair[1]);
		__u64 *cell = map(fd, f->cells, PROT_READ | PROT_WRITE);

		map(fd, f->done, PROT_READ);
		need(mmap(NULL, f->done.length, PROT_WRITE, MAP_SHARED, fd, f->done.offset) ==
			     MAP_FAILED &&
		     errno == EACCES);
		need(mmap(NULL, f->ring.length, PROT_READ, MAP_SHARED, fd, f->ring.offset) ==
			     MAP_FAILED &&
		     errno == EPERM);
		need(destroy(fd, 1) == -EPERM);
		__atomic_store_n(&cell[5], 77, __ATOMIC_RELEASE);
		_exit(0);
	}
	/* Made after the fork: nothing of it was inherited. */
	node_open(&self->a, (struct options){});
	cells_open(&self->c, self->a.fd, 8);
	*f = (struct foreign){self->c.rw, self->c.ro, self->a.tx.rw_map};
	ASSERT_EQ(1, post(&self->a, once(nop(1), &self->c, 5, 77)));
	pass_file(pair[0], self->a.fd);
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	EXPECT_EQ(0, reap(pid));
}

/* --- wrong values ------------------------------------------------------------------ */

// conformance: triggers.rst: bad input: a cell is written twice, or a wrong value
TEST_F(cells, only_the_right_value_starts_it)
{
	ASSERT_EQ(1, post(&self->a, once(nop(1), &self->c, 3, 1ULL << 40 | 5)));
	for (int i = 0; i < 64; i++)
		cell_write(&self->c, 3, 1ULL << i);
	cell_write(&self->c, 3, 5);
	cell_write(&self->c, 2, 1ULL << 40 | 5);
	EXPECT_TRUE(nothing_comes(&self->a.cq));
	cell_write(&self->c, 3, 1ULL << 40 | 5);
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
}

// conformance: triggers.rst: bad input: a cell is written twice, or a wrong value
TEST_F(cells, written_twice_it_starts_once)
{
	ASSERT_EQ(1, post(&self->a, once(nop(1), &self->c, 0, 5)));
	cell_write(&self->c, 0, 5);
	cell_write(&self->c, 0, 5);
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	cell_write(&self->c, 0, 5);
	EXPECT_TRUE(nothing_comes(&self->a.cq));
	/* A late write does not start the command that has the cell now. */
	ASSERT_EQ(1, post(&self->a, once(nop(2), &self->c, 0, 6)));
	cell_write(&self->c, 0, 5);
	EXPECT_TRUE(nothing_comes(&self->a.cq));
	cell_write(&self->c, 0, 6);
	EXPECT_EQ(2, cq_next(&self->a.cq).context);
}

/* --- order ------------------------------------------------------------------------- */

TEST_F(cells, several_commands_may_share_a_cell)
{
	for (int i = 0; i < 10; i++)
		ASSERT_EQ(1, post(&self->a, once(nop(i), &self->c, 0, 1 + i / 5)));
	for (int i = 0; i < 10; i++) {
		if (i % 5 == 0)
			cell_write(&self->c, 0, 1 + i / 5);
		EXPECT_EQ(i, cq_next(&self->a.cq).context);
	}
}

#define MANY 600

struct writer {
	struct cells c[3];
	__u64 round;
	int ready;
	bool pauses;
};

static int place(int i)
{
	return i * 7 % 1000;
}

static void *writes_all(void *arg)
{
	struct writer *w = arg;
	__u64 state = 1;

	await(&w->ready, 1);
	for (int i = 0; i < MANY; i++) {
		cell_write(&w->c[i % 3], place(i), w->round);
		if (w->pauses && lottery(&state) % 40 == 0)
			usleep(lottery(&state) % 2000);
	}
	return NULL;
}

/*
 * Commands start in the order of writes, across pages of cells, across endpoints, and wherever the
 * poller is.
 */
// conformance: fi_trigger(3): users trigger in the order in which they have queued; operations ...
TEST_F(cells, they_start_in_the_order_in_which_they_are_written)
{
	static struct writer w;
	struct node other;
	__u64 to;

	node_open(&other, (struct options){.context = self->a.fd, .tx = 1024, .cq = 4096});
	to = peer(&other, self->b.addr);
	for (int i = 0; i < 3; i++)
		cells_open(&w.c[i], self->a.fd, 1024);
	for (w.round = 1; w.round <= 6; w.round++) {
		int last[2] = {-1, -1};
		pthread_t t;

		w.ready = 0;
		w.pauses = w.round & 1;
		t = thread(writes_all, &w);
		for (int i = 0; i < MANY; i++)
			ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst + 8 * i, 8, ANY, i)));
		for (int i = 0; i < MANY; i++) {
			struct node *n = i % 5 ? &self->a : &other;
			struct treadle_desc d =
				send_of(self->src + 8 * i, 8, n == &other ? to : self->to, i);

			((__u64 *)self->src)[i] = i;
			ASSERT_EQ(1, post(n, once(d, &w.c[i % 3], place(i), w.round)));
		}
		raise_to(&w.ready, 1);
		for (int i = 0; i < MANY; i++)
			ASSERT_EQ(0, cq_next(&self->b.rcq).error);
		/*
		 * Receives are matched in order. They may complete in another order where a page is
		 * missing.
		 */
		for (int i = 0; i < MANY; i++) {
			int sent = ((__u64 *)self->dst)[i], which = sent % 5 == 0;

			EXPECT_LT(last[which], sent);
			last[which] = sent;
			ASSERT_EQ(0, cq_next(which ? &other.cq : &self->a.cq).error);
		}
		pthread_join(t, NULL);
	}
}

TEST_F(cells, written_the_other_way_round_all_start)
{
	for (int i = 0; i < MANY; i++)
		ASSERT_EQ(1, post(&self->a, once(count_of(TREADLE_OP_CNTR_ADD, &self->d, 1, 0),
						 &self->c, i, 1)));
	for (int i = MANY; i--;)
		cell_write(&self->c, i, 1);
	EXPECT_TRUE(cntr_becomes(&self->d, MANY, 0));
}

/* More than one round of the poller looks at. */
TEST_F(cells, thousands_of_idle_ones_hide_none)
{
	const int count = 20000;

	for (int i = 0; i < count; i++)
		ASSERT_EQ(1, post(&self->a, once(count_of(TREADLE_OP_CNTR_ADD, &self->d, 1, 0),
						 &self->c, i % 1000, i / 1000 + 1)));
	for (int i = 0; i < 20; i++) {
		cell_write(&self->c, 999, i + 1);
		EXPECT_TRUE(cntr_becomes(&self->d, i + 1, 0));
	}
}

TEST_F(cells, a_cell_drives_a_chain)
{
	struct treadle_desc end = count_of(TREADLE_OP_CNTR_SET, &self->a.sent, 50, 0);

	for (int i = 1; i <= 1000; i++)
		ASSERT_EQ(1, post(&self->a, when(count_of(TREADLE_OP_CNTR_ADD, &self->d, 1, 0),
						 &self->d, i)));
	ASSERT_EQ(1, post(&self->a, when(end, &self->d, 1001)));
	ASSERT_EQ(1, post(&self->a,
			  once(count_of(TREADLE_OP_CNTR_ADD, &self->d, 1, 0), &self->c, 0, 1)));
	cell_write(&self->c, 0, 1);
	EXPECT_TRUE(cntr_becomes(&self->a.sent, 50, 0));
	EXPECT_EQ(1001, cntr_value(&self->d));
}

/* --- canceling --------------------------------------------------------------------- */

TEST_F(cells, an_armed_command_can_be_canceled)
{
	struct node *a = &self->a;
	struct treadle_desc work = count_of(TREADLE_OP_CNTR_ADD, &self->d, 1, 8);
	struct cells other;
	struct treadle_cqe c;
	__u64 count;

	cells_open(&other, a->fd, 1);
	ASSERT_EQ(1, post(a, once(nop(1), &self->c, 0, 1)));
	ASSERT_EQ(1, post(a, once(work, &self->c, 1, 1)));
	ASSERT_EQ(1, post(a, once(work, &self->c, 2, 1)));
	ASSERT_EQ(1, post(a, once(work, &other, 2, 1)));
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_OP, a->ep, 2, 0, &count));
	EXPECT_EQ(0, cancel(a->fd, TREADLE_CANCEL_OP, a->ep, 1, 0, &count));
	c = cq_next(&a->cq);
	EXPECT_EQ(1, c.context);
	EXPECT_EQ(ECANCELED, c.error);
	EXPECT_EQ(1, cell_done(&self->c, 0));

	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 8, 24, &count));
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 7, 16, &count));
	EXPECT_EQ(0, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 8, 16, &count));
	EXPECT_EQ(1, count);
	EXPECT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, self->c.id, 0, 0, &count));
	EXPECT_EQ(1, count);
	EXPECT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, 0, 0, 0, &count));
	EXPECT_EQ(1, count);
	for (int i = 0; i < 3; i++) {
		cell_write(&self->c, i, 1);
		cell_write(&other, i, 1);
	}
	EXPECT_TRUE(nothing_comes(&a->cq));
	EXPECT_EQ(0, cntr_value(&self->d));
	EXPECT_EQ(-EBADF, cancel(a->fd, TREADLE_FLUSH_WORK, a->ep, 0, 0, &count));
	EXPECT_EQ(-EBADF, cancel(a->fd, TREADLE_CANCEL_OP, self->c.id, 0, 0, &count));
}

TEST_F(cells, each_either_starts_or_is_canceled)
{
	static struct writer w;
	int started = 0, canceled = 0, ended = 0;

	for (int i = 0; i < 3; i++)
		cells_open(&w.c[i], self->a.fd, 1024);
	/* longer on a machine on which one of the two always was first */
	for (w.round = 1; w.round <= 8 || ((!started || !ended) && w.round <= 160); w.round++) {
		pthread_t t;

		w.ready = 0;
		t = thread(writes_all, &w);
		for (int i = 0; i < MANY; i++)
			ASSERT_EQ(1, post(&self->a, once(nop(i), &w.c[i % 3], place(i), w.round)));
		raise_to(&w.ready, 1);
		for (int i = MANY; i--;) {
			int result = cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, i, 0, NULL);

			ASSERT_TRUE(result == 0 || result == -ENOENT);
			canceled += result == 0;
		}
		pthread_join(t, NULL);
		for (int i = 0; i < MANY; i++) {
			struct treadle_cqe c = cq_next(&self->a.cq);

			ASSERT_TRUE(c.error == 0 || c.error == ECANCELED);
			started += c.error == 0;
			ended += c.error == ECANCELED;
		}
		ASSERT_TRUE(cq_empty(&self->a.cq));
	}
	EXPECT_EQ(ended, canceled);
	EXPECT_LT(0, started);
	EXPECT_LT(0, canceled);
	note("%d started, %d were canceled", started, canceled);
}

/* --- closing ----------------------------------------------------------------------- */

// conformance: ioctl.h: EBUSY: in use by an armed command
TEST_F(cells, cells_are_busy_while_something_is_armed)
{
	struct cells other;

	cells_open(&other, self->a.fd, 1);
	ASSERT_EQ(1, post(&self->a, once(nop(1), &self->c, 0, 1)));
	EXPECT_EQ(-EBUSY, destroy(self->a.fd, self->c.id));
	EXPECT_EQ(0, destroy(self->a.fd, other.id));
	cell_write(&self->c, 0, 1);
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	EXPECT_EQ(0, destroy(self->a.fd, self->c.id));
	/* The map stays, without effect. */
	cell_write(&self->c, 0, 2);
	EXPECT_EQ(1, cell_done(&self->c, 0));
	EXPECT_EQ(-ENOENT, post(&self->a, once(nop(2), &self->c, 0, 2)));
}

// conformance: triggers.rst: bad input: an endpoint is closed
TEST_F(cells, an_endpoint_closes_under_armed_commands)
{
	struct node n;

	node_open(&n, (struct options){.context = self->a.fd});
	ASSERT_EQ(1, post(&self->a, once(nop(1), &self->c, 0, 1)));
	for (int i = 1; i < 50; i++)
		ASSERT_EQ(1, post(&n, once(nop(i), &self->c, i, 1)));
	EXPECT_EQ(0, destroy(self->a.fd, n.ep));
	for (int i = 0; i < 50; i++)
		cell_write(&self->c, i, 1);
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	EXPECT_TRUE(nothing_comes(&n.cq));
	EXPECT_EQ(0, destroy(self->a.fd, self->c.id));
}

TEST_F(cells, the_target_closes)
{
	ASSERT_EQ(1, post(&self->a, once(send_of(self->src, 8, self->to, 1), &self->c, 0, 1)));
	EXPECT_EQ(0, destroy(self->b.fd, self->b.ep));
	cell_write(&self->c, 0, 1);
	EXPECT_EQ(ECONNREFUSED, cq_next(&self->a.cq).error);
}

/* --- bounds ------------------------------------------------------------------------ */

// conformance: ioctl.h: EINVAL: value out of its documented range
TEST_F(cells, sizes_and_places)
{
	static const __u32 good[] = {1, 512, 513, TREADLE_MAX_CELLS};
	struct treadle_cell_create c = {.size = sizeof(c)};
	struct treadle_desc d;

	EXPECT_TRUE(query(self->a.fd).features & TREADLE_FEATURE_CELL);
	EXPECT_EQ(-EINVAL, call(self->a.fd, TREADLE_IOC_CELL_CREATE, &c));
	c.count = TREADLE_MAX_CELLS + 1;
	EXPECT_EQ(-EINVAL, call(self->a.fd, TREADLE_IOC_CELL_CREATE, &c));
	c.count = 1;
	c.flags = 1;
	EXPECT_EQ(-EINVAL, call(self->a.fd, TREADLE_IOC_CELL_CREATE, &c));
	for (int i = 0; i < ARRAY_SIZE(good); i++) {
		c = (struct treadle_cell_create){.size = sizeof(c), .count = good[i]};
		ASSERT_EQ(0, call(self->a.fd, TREADLE_IOC_CELL_CREATE, &c));
		EXPECT_LE(good[i], c.count);
		EXPECT_EQ(c.count * 8, c.rw.length);
		EXPECT_EQ(c.count * 8, c.ro.length);
		map(self->a.fd, c.rw, PROT_READ | PROT_WRITE);
	}
	d = once(nop(1), &self->c, self->c.count, 1);
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d.threshold = 4;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d.threshold = ~7ULL;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d.threshold = 0;
	d.cond = self->d.id;
	EXPECT_EQ(-EBADF, post(&self->a, d));
	d.cond = self->c.id;
	d.flags |= TREADLE_F_COND_CNTR;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d.flags &= ~TREADLE_F_COND_CELL;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d.value = 0;
	EXPECT_EQ(-EBADF, post(&self->a, d));
	/* A refused command takes no reference. */
	EXPECT_EQ(0, destroy(self->a.fd, self->c.id));
}

/*
 * Pages of cells can be pinned long-term and written from outside, as a driver of a device would.
 */
TEST_F(cells, the_pages_can_be_pinned)
{
	const __u32 access = TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE;
	__u64 key = 5, value = 99;
	__u32 region;

	ASSERT_EQ(0, mr(self->a.fd, self->c.cell, self->c.rw.length, access, TREADLE_MR_PINNED,
			&key, &region));
	ASSERT_EQ(1, post(&self->a, once(nop(1), &self->c, 20, value)));
	ASSERT_EQ(1, post(&self->b, write_of(&value, 8, self->back, 20 * 8, key, 2)));
	EXPECT_EQ(0, cq_next(&self->b.cq).error);
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	EXPECT_EQ(0, destroy(self->a.fd, region));
}

TEST_HARNESS_MAIN
