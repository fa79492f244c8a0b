/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters that follow cells: what a device needs to add to a counter, and to start all that waits
 * for it by one store.
 */
#include "cntr_cells.h"

/* The value may go down, too. */
static bool is_then(const struct cntr *c, __u64 value)
{
	__u64 end = now_ns() + PATIENCE_NS;

	while (cntr_value(c) != value && now_ns() < end)
		usleep(100);
	return cntr_value(c) == value;
}

/* --- a counter follows a cell ----------------------------------------------------------------- */

#define MANY 200

TEST_F(cntr_cells, one_store_starts_all_that_waits)
{
	memset(self->dst, 0, 8 * MANY); /* where a page is missing, a later send may end first */
	ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 0, 0)));
	for (int i = MANY; i--;) {
		((__u64 *)self->src)[i] = i;
		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst + 8 * i, 8, ANY, i)));
		ASSERT_EQ(1, post(&self->a, when(send_of(self->src + 8 * i, 8, self->to, i),
						 &self->d, 1 + i)));
	}
	usleep(A_WHILE_US);
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_EQ(0, cntr_value(&self->d));
	cell_write(&self->c, 0, MANY);
	/* in the order of their thresholds */
	for (int i = 0; i < MANY; i++) {
		ASSERT_EQ(0, cq_next(&self->b.rcq).error);
		ASSERT_EQ(i, cq_next(&self->a.cq).context);
	}
	EXPECT_EQ(MANY, cntr_value(&self->d));
	EXPECT_TRUE(cntr_becomes(&self->d, MANY, 0));
}

// conformance: triggers.rst: bad input: a cell that a counter follows has any value
TEST_F(cntr_cells, the_difference_is_added_modulo_2_to_the_64)
{
	static const __u64 totals[] = {3, 10, 10, 12, 5, 0, -1ULL, 7, 1ULL << 63, 12345};

	/* 2 was counted before, and 7 is there already */
	cell_write(&self->c, 8, 7);
	ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 8, 2)));
	EXPECT_TRUE(cntr_becomes(&self->d, 5, 0));
	EXPECT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_SET, &self->d, 7, 0)));
	for (int i = 0; i < ARRAY_SIZE(totals); i++) {
		cell_write(&self->c, 8, totals[i]);
		EXPECT_TRUE(is_then(&self->d, totals[i]));
		for (int k = 0; k < 1000 && cell_done(&self->c, 8) != totals[i]; k++)
			usleep(1000); /* it is shown after it was counted */
		EXPECT_EQ(totals[i], cell_done(&self->c, 8));
	}
	/* What the process sets or adds changes no total. */
	EXPECT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_SET, &self->d, 100, 0)));
	usleep(A_WHILE_US);
	EXPECT_EQ(100, cntr_value(&self->d));
	cell_write(&self->c, 8, 12347);
	EXPECT_TRUE(cntr_becomes(&self->d, 102, 0));
}

TEST_F(cntr_cells, errors_can_be_counted_and_several_counters_follow)
{
	struct treadle_desc d = follow(&self->d, &self->c, 1, 0);

	d.flags |= TREADLE_F_CNTR_ERROR;
	ASSERT_EQ(1, post(&self->a, d));
	ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 2, 0)));
	ASSERT_EQ(1, post(&self->a, follow(&self->e, &self->c, 2, 0)));
	cell_write(&self->c, 2, 4);
	EXPECT_TRUE(cntr_becomes(&self->d, 4, 0));
	EXPECT_TRUE(cntr_becomes(&self->e, 4, 0));
	cell_write(&self->c, 1, 2);
	EXPECT_TRUE(cntr_becomes(&self->d, 4, 2));
	/* F_STRICT: the error of a word is ECANCELED */
	d = when(nop(9), &self->d, 1);
	d.flags |= TREADLE_F_STRICT;
	ASSERT_EQ(1, post(&self->a, d));
	EXPECT_EQ(ECANCELED, cq_next(&self->a.cq).error);
}

/* A transfer that waits finds the data that was stored before the word. */
TEST_F(cntr_cells, data_that_was_stored_before_is_sent)
{
	ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 0, 0)));
	for (int i = 1; i <= 500; i++) {
		struct treadle_desc d = when(send_of(self->src, 64, self->to, i), &self->d, i);

		ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 64, ANY, i)));
		ASSERT_EQ(1, post(&self->a, d));
		fill(self->src, 64, i);
		cell_write(&self->c, 0, i);
		ASSERT_EQ(i, cq_next(&self->b.rcq).context);
		ASSERT_EQ(i, cq_next(&self->a.cq).context);
		ASSERT_TRUE(same(self->dst, 64, i));
	}
}

/* The word of a counter that fires what adds to the counter of another word. */
TEST_F(cntr_cells, words_and_commands_make_chains)
{
	for (int i = 1; i <= 1000; i++)
		ASSERT_EQ(1, post(&self->a, when(count_of(TREADLE_OP_CNTR_ADD, &self->e, 1, 0),
						 &self->d, i)));
	ASSERT_EQ(1, post(&self->a, when(nop(5), &self->e, 1000)));
	ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 3, 0)));
	cell_write(&self->c, 3, 1000);
	EXPECT_EQ(5, cq_next(&self->a.cq).context);
	EXPECT_EQ(1000, cntr_value(&self->e));
}

/* --- the writers ------------------------------------------------------------------------------ */

static void *tells_on(void *arg)
{
	struct teller *t = arg;

	while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED))
		cell_write(t->c, 0, ++t->told);
	return NULL;
}

/* A word that is stored without a pause hides no other one, and no cell. */
TEST_F(cntr_cells, a_word_that_never_rests_holds_up_nothing)
{
	struct teller t = {.c = &self->c};
	pthread_t p;

	ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 0, 0)));
	ASSERT_EQ(1, post(&self->a, follow(&self->e, &self->c, 1, 0)));
	p = thread(tells_on, &t);
	for (int i = 1; i <= 50; i++) {
		ASSERT_EQ(1, post(&self->a, once(nop(i), &self->c, 5, i)));
		cell_write(&self->c, 1, i);
		cell_write(&self->c, 5, i);
		EXPECT_EQ(i, cq_next(&self->a.cq).context);
		EXPECT_TRUE(cntr_becomes(&self->e, i, 0));
	}
	__atomic_store_n(&t.stop, 1, __ATOMIC_RELAXED);
	pthread_join(p, NULL);
	EXPECT_TRUE(cntr_becomes(&self->d, t.told, 0));
	EXPECT_LT(0, t.told);
}

static void child_tells(void *arg)
{
	for (int i = 1; i <= 1000; i++)
		cell_write(arg, 0, i);
}

// conformance: triggers.rst: bad input: the process that writes a cell dies
TEST_F(cntr_cells, a_child_adds_and_dies)
{
	ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 0, 0)));
	EXPECT_EQ(0, reap(spawn(child_tells, &self->c)));
	EXPECT_TRUE(cntr_becomes(&self->d, 1000, 0));
}

/* Another process adds by a word, and waits by a copy; it can do nothing else with the file. */
// conformance: ioctl.h: EPERM: not the process that opened the context, and maps no cells
TEST_F(cntr_cells, a_process_that_was_passed_the_file_adds_and_waits)
{
	struct foreign {
		struct treadle_map cells;
		struct treadle_cntr_copy copy;
	} *f = shared(sizeof(*f));
	int pair[2];
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	if (pid == 0) {
		int fd = receive_file(pair[1]);
		struct cells c = {.cell = map(fd, f->cells, PROT_READ | PROT_WRITE)};

		need(call(fd, TREADLE_IOC_CNTR_COPY, &f->copy) == -EPERM);
		for (int i = 1; i <= 200; i++) {
			cell_write(&c, 0, i);
			need(becomes(&c, 8, i));
		}
		_exit(0);
	}
	/* Made after the fork: nothing of it was inherited. */
	node_open(&self->a, (struct options){});
	cells_open(&self->c, self->a.fd, 16);
	cntr_open(&self->d, self->a.fd);
	*f = (struct foreign){self->c.rw,
			      {.size = sizeof(f->copy), .cntr = self->d.id, .cells = self->c.id}};
	ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 0, 0)));
	ASSERT_EQ(0, copy_to(&self->d, &self->c, 8));
	pass_file(pair[0], self->a.fd);
	EXPECT_EQ(0, reap(pid));
	EXPECT_EQ(200, cntr_value(&self->d));
}

/* --- the end of it ---------------------------------------------------------------------------- */

// conformance: ioctl.h: EBUSY: in use by an armed command
TEST_F(cntr_cells, a_counter_and_its_cells_are_busy)
{
	__u64 count;

	ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 2, 0)));
	EXPECT_EQ(-EBUSY, destroy(self->a.fd, self->d.id));
	EXPECT_EQ(-EBUSY, destroy(self->a.fd, self->c.id));
	/* like a command that repeats, it is not flushed with the work of the context */
	EXPECT_EQ(0, cancel(self->a.fd, TREADLE_FLUSH_WORK, 0, 0, 0, &count));
	EXPECT_EQ(0, count);
	EXPECT_EQ(-ENOENT, cancel(self->a.fd, TREADLE_CANCEL_WORK, self->c.id, 3, 16, NULL));
	EXPECT_EQ(-ENOENT, cancel(self->a.fd, TREADLE_CANCEL_WORK, self->c.id, 2, 8, NULL));
	EXPECT_EQ(0, unfollow(&self->c, 2));
	EXPECT_EQ(-ENOENT, unfollow(&self->c, 2));
	ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 2, 0)));
	ASSERT_EQ(1, post(&self->a, follow(&self->e, &self->c, 3, 0)));
	EXPECT_EQ(0, cancel(self->a.fd, TREADLE_FLUSH_WORK, self->c.id, 0, 0, &count));
	EXPECT_EQ(2, count);
	EXPECT_EQ(0, destroy(self->a.fd, self->d.id));
	EXPECT_EQ(0, destroy(self->a.fd, self->c.id));
	/* The map stays, without effect. */
	cell_write(&self->c, 2, 2);
	cell_write(&self->c, 3, 3);
	usleep(A_WHILE_US);
	EXPECT_EQ(0, cntr_value(&self->e));
	EXPECT_EQ(-ENOENT, post(&self->a, follow(&self->d, &self->c, 2, 0)));
}

/* What was stored before the command is removed is counted, and nothing is counted later. */
TEST_F(cntr_cells, removing_it_counts_what_was_stored)
{
	__u64 total = 0;

	for (int i = 0; i < 2000; i++) {
		ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 0, total)));
		if (i % 3)
			cell_write(&self->c, 0, ++total);
		if (i % 16 == 0)
			usleep(100);
		cell_write(&self->c, 0, total += i % 5);
		ASSERT_EQ(0, unfollow(&self->c, 0));
		ASSERT_EQ(total, cntr_value(&self->d));
		ASSERT_EQ(total, cell_done(&self->c, 0));
		cell_write(&self->c, 0, total + 1000);
		cell_write(&self->c, 0, total);
	}
}

/* Counted exactly once, by the poller or by the call that removes the command. */
TEST_F(cntr_cells, totals_are_counted_once_however_it_is_removed)
{
	struct teller t = {.c = &self->c};
	pthread_t p = thread(tells_on, &t);
	__u64 total = 0;

	for (int i = 0; i < 2000; i++) {
		ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 0, total)));
		if (i % 8 == 0)
			usleep(50);
		ASSERT_EQ(0, unfollow(&self->c, 0));
		total = cell_done(&self->c, 0);
		ASSERT_EQ(total, cntr_value(&self->d));
	}
	__atomic_store_n(&t.stop, 1, __ATOMIC_RELAXED);
	pthread_join(p, NULL);
	EXPECT_LT(0, total);
}

// conformance: triggers.rst: bad input: an endpoint is closed
TEST_F(cntr_cells, it_outlives_every_endpoint)
{
	ASSERT_EQ(1, post(&self->a, follow(&self->d, &self->c, 0, 0)));
	EXPECT_EQ(0, destroy(self->a.fd, self->a.ep));
	cell_write(&self->c, 0, 3);
	EXPECT_TRUE(cntr_becomes(&self->d, 3, 0));
	EXPECT_EQ(0, unfollow(&self->c, 0));
}

static void dies_with_words(void *arg)
{
	struct cells c;
	struct cntr d[100];
	struct node n;

	node_open(&n, (struct options){.tx = 1024});
	cells_open(&c, n.fd, 512);
	for (int i = 0; i < 100; i++)
		cntr_open(&d[i], n.fd);
	for (int i = 0; i < 100; i++) {
		need(post(&n, follow(&d[i], &c, i, 0)) == 1);
		need(copy_to(&d[i], &c, 200 + 2 * i) == 0);
		for (int k = 1; k < 10; k++)
			need(post(&n, when(count_of(TREADLE_OP_CNTR_ADD, &d[(i + 1) % 100], 1, 0),
					   &d[i], k)) == 1);
	}
	raise_to(arg, 1);
	for (__u64 k = 1;; k++)
		for (int i = 0; i < 100; i++)
			cell_write(&c, i, k);
}

TEST(a_process_dies_with_words_and_copies)
{
	int *ready = shared(sizeof(*ready)), fd = device();

	ASSERT_TRUE(query(fd).features & TREADLE_FEATURE_CNTR_CELL);
	close(fd);
	for (int i = 0; i < 3; i++) {
		pid_t pid;

		*ready = 0;
		pid = spawn(dies_with_words, ready);
		await(ready, 1);
		usleep(20000 * i);
		kill(pid, SIGKILL);
		EXPECT_EQ(-SIGKILL, reap(pid));
	}
	until_unused();
}

/* --- bad input -------------------------------------------------------------------------------- */

// conformance: ioctl.h: EINVAL: a malformed descriptor
TEST_F(cntr_cells, a_command_that_follows_has_no_other_form)
{
	const struct treadle_desc good = follow(&self->d, &self->c, 0, 0);
	static const __u32 wrong[] = {TREADLE_F_NOTIFY,	   TREADLE_F_STRICT, TREADLE_F_COMPLETION,
				      TREADLE_F_COND_CNTR, TREADLE_F_INJECT, TREADLE_F_COLLECTIVE,
				      TREADLE_F_LOCAL};
	struct treadle_desc d;

	EXPECT_TRUE(query(self->a.fd).features & TREADLE_FEATURE_CNTR_CELL);
	for (int i = 0; i < ARRAY_SIZE(wrong); i++) {
		about("flag 0x%x", wrong[i]);
		d = good;
		d.flags |= wrong[i];
		d.notify = wrong[i] == TREADLE_F_NOTIFY ? self->e.id : 0;
		EXPECT_EQ(-EINVAL, post(&self->a, d));
	}
	about("%s", "");
	d = good;
	d.flags &= ~TREADLE_F_WORK;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d = good;
	d.opcode = TREADLE_OP_CNTR_SET;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d = once(send_of(self->src, 8, self->to, 1), &self->c, 0, 1);
	d.flags |= TREADLE_F_WORK | TREADLE_F_REPEAT;
	d.flags &= ~TREADLE_F_COMPLETION;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d = good;
	d.data = 1;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d = good;
	d.rest = self->e.id;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d = good;
	d.rest_threshold = 1;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d = good;
	d.threshold = 4;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d.threshold = self->c.rw.length;
	EXPECT_EQ(-EINVAL, post(&self->a, d));
	d = good;
	d.cond = self->d.id;
	EXPECT_EQ(-EBADF, post(&self->a, d));
	d = good;
	d.peer = self->c.id;
	EXPECT_EQ(-EBADF, post(&self->a, d));
	d.peer = 1 << 20;
	EXPECT_EQ(-ENOENT, post(&self->a, d));
	/* A refused command takes no reference. */
	EXPECT_EQ(0, destroy(self->a.fd, self->c.id));
	EXPECT_EQ(0, destroy(self->a.fd, self->d.id));
}

TEST_HARNESS_MAIN
