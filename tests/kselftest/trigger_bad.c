/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Armed commands in trouble: objects that they name are gone when they fire, they never fire, they
 * fire each other in a circle, values wrap, and the writer of a cell dies.
 */
#include "trigger.h"

/* The key is valid when the command is armed. It is validated when the command fires. */
// conformance: ioctl.h: EKEYREJECTED: the region was closed
// conformance: triggers.rst: bad input: a region is closed
TEST_F(trigger, a_region_closes_under_an_armed_write)
{
	struct treadle_cqe e;
	__u64 key = 0;
	__u32 id;

	ASSERT_EQ(0, mr(self->b.fd, self->dst, 4096,
			TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE,
			TREADLE_MR_KERNEL_KEY, &key, &id));
	fill(self->src, 64, 1);
	for (int i = 1; i <= 2; i++)
		ASSERT_EQ(1, post(&self->a, then(when(write_of(self->src, 64, self->to, 0, key, i),
						      &self->c, i),
						 &self->d)));
	ASSERT_EQ(1, post(&self->a,
			  then(when(read_of(self->src, 64, self->to, 0, key, 3), &self->c, 2),
			       &self->d)));
	need(add(&self->a, &self->c, 1) == 1);
	EXPECT_TRUE(cntr_becomes(&self->d, 1, 0));
	EXPECT_TRUE(same(self->dst, 64, 1));
	ASSERT_EQ(0, destroy(self->b.fd, id));
	memset(self->dst, 0, 64);
	need(add(&self->a, &self->c, 1) == 1);
	EXPECT_TRUE(cntr_becomes(&self->d, 1, 2));
	for (int i = 1; i <= 3; i++) {
		e = cq_next(&self->a.cq);
		EXPECT_EQ(i, e.context);
		EXPECT_EQ(i == 1 ? 0 : EKEYREJECTED, e.error);
	}
	EXPECT_TRUE(all_are(self->dst, 64, 0));
}

struct victim {
	struct treadle_addr addr;
	int ready;
};

static void lives_until_killed(void *arg)
{
	struct victim *v = arg;
	struct node n;

	node_open(&n, (struct options){});
	v->addr = n.addr;
	raise_to(&v->ready, 1);
	pause();
}

// conformance: triggers.rst: bad input: a peer is killed
TEST_F(trigger, the_peer_is_killed_under_armed_sends)
{
	struct victim *v = shared(sizeof(*v));
	pid_t pid = spawn(lives_until_killed, v);
	__u64 to, failed = 0;

	await(&v->ready, 1);
	to = peer(&self->a, v->addr);
	for (int i = 0; i < 100; i++)
		ASSERT_EQ(1, post(&self->a, then(when(send_of(self->src, i % 2 ? 8 : 65536, to, i),
						      &self->c, 1 + i),
						 &self->d)));
	/* Half of the messages are under way, or wait at the receiver, when it dies. */
	need(add(&self->a, &self->c, 50) == 1);
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(pid));
	need(add(&self->a, &self->c, 50) == 1);
	for (__u64 end = now_ns() + PATIENCE_NS;
	     cntr_value(&self->d) + cntr_errors(&self->d) < 100 && now_ns() < end;)
		sched_yield();
	EXPECT_EQ(100, cntr_value(&self->d) + cntr_errors(&self->d));
	EXPECT_LE(75, cntr_errors(&self->d)); /* the large messages, and all that fired too late */
	for (int i = 0; i < 100; i++) {
		struct treadle_cqe e = cq_next(&self->a.cq);

		failed += e.error == ECONNRESET || e.error == ECONNREFUSED;
		EXPECT_TRUE(e.error == 0 || e.error == ECONNRESET || e.error == ECONNREFUSED);
	}
	EXPECT_EQ(cntr_errors(&self->d), failed);
	/* All commands have ended, and the counters are free. */
	EXPECT_EQ(0, destroy(self->a.fd, self->c.id));
}

struct owner {
	struct treadle_addr addr, to;
	char *buf;
};

static void arms_and_ends(void *arg)
{
	struct owner *o = arg;
	struct cntr c;
	struct node n;
	__u64 to;

	node_open(&n, (struct options){.tx = 256});
	cntr_open(&c, n.fd);
	to = peer(&n, o->to);
	for (int i = 0; i < 100; i++) {
		need(post(&n, when(send_of(o->buf, 8, to, i), &c, 1 + i)) == 1);
		need(post(&n, when(recv_of(o->buf, 8, ANY, i), &c, ~0ULL)) == 1);
		need(post(&n, when(count_of(TREADLE_OP_CNTR_ADD, &c, 1, i), &c, ~0ULL)) == 1);
	}
	o->addr = n.addr;
}

/* A command that never fires goes with its file. */
// conformance: fi_trigger(3): the application cancels work if its condition is not met
// conformance: triggers.rst: bad input: thresholds that never come
TEST_F(trigger, a_process_ends_with_armed_commands)
{
	struct owner *o = shared(sizeof(*o));

	o->to = self->b.addr;
	o->buf = self->src;
	EXPECT_EQ(0, reap(spawn(arms_and_ends, o)));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	EXPECT_FALSE(ring_needs_doorbell(&self->b.rx));
	ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, peer(&self->a, o->addr), 7)));
	EXPECT_EQ(ECONNREFUSED, cq_next(&self->a.cq).error);
}

/* Each command fires the next, and the last one the first: one round, as each fires once. */
// conformance: triggers.rst: bad input: a command that fires itself, a chain, a circle
TEST_F(trigger, a_circle_ends)
{
	struct cntr ring[7];
	const int n = ARRAY_SIZE(ring);

	for (int i = 0; i < n; i++)
		cntr_open(&ring[i], self->a.fd);
	for (int i = 0; i < n; i++)
		ASSERT_EQ(1, post(&self->a,
				  when(count_of(TREADLE_OP_CNTR_ADD, &ring[(i + 1) % n], 1, i),
				       &ring[i], 1)));
	need(add(&self->a, &ring[0], 1) == 1);
	for (int i = 0; i < n; i++) {
		EXPECT_TRUE(cntr_becomes(&ring[i], i ? 1 : 2, 0));
		EXPECT_EQ(0, destroy(self->a.fd, ring[i].id));
	}
}

/* The value decides which command fires, modulo 2^64, not the step to it. */
// conformance: triggers.rst: bad input: values wrap at 2^64
TEST_F(trigger, a_counter_wraps)
{
	const __u64 top = ~0ULL;
	struct treadle_desc error = count_of(TREADLE_OP_CNTR_ADD, &self->c, 2, 0);

	ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_SET, &self->c, top - 1, 0)));
	ASSERT_EQ(1, post(&self->a, when(nop(1), &self->c, top)));
	EXPECT_TRUE(cq_empty(&self->a.cq));
	/* The value wraps from below the threshold to 0: the threshold is not reached. */
	need(add(&self->a, &self->c, 2) == 1);
	EXPECT_EQ(0, cntr_value(&self->c));
	EXPECT_TRUE(cq_empty(&self->a.cq));
	ASSERT_EQ(1, post(&self->a, when(nop(2), &self->c, 1)));
	EXPECT_TRUE(cq_empty(&self->a.cq));
	need(add(&self->a, &self->c, 1) == 1);
	EXPECT_EQ(2, cq_next(&self->a.cq).context);
	EXPECT_TRUE(cq_empty(&self->a.cq));
	need(add(&self->a, &self->c, top - 1) == 1);
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
	/* Successes and errors have 64 bits each. Their sum wraps, too. */
	ASSERT_EQ(1, post(&self->a, when(nop(3), &self->c, 2)));
	EXPECT_EQ(3, cq_next(&self->a.cq).context);
	error.flags |= TREADLE_F_CNTR_ERROR;
	ASSERT_EQ(1, post(&self->a, error));
	EXPECT_EQ(2, cntr_errors(&self->c));
	ASSERT_EQ(1, post(&self->a, when(nop(4), &self->c, 2)));
	EXPECT_TRUE(cq_empty(&self->a.cq));
	need(add(&self->a, &self->c, 1) == 1);
	EXPECT_EQ(4, cq_next(&self->a.cq).context);
}

struct writer {
	struct cells *cells;
	int *wrote;
	bool writes;
};

static void writes_and_hangs(void *arg)
{
	struct writer *w = arg;

	if (w->writes)
		cell_write(w->cells, 0, 1);
	raise_to(w->wrote, 1);
	pause();
}

/* A process that is killed before its store has not written; after it, it has, once. */
// conformance: triggers.rst: bad input: the process that writes a cell dies
TEST_F(trigger, the_writer_of_a_cell_is_killed)
{
	struct cells cells;

	cells_open(&cells, self->a.fd, 8);
	for (int writes = 0; writes < 2; writes++) {
		struct writer w = {&cells, shared(sizeof(int)), writes};
		__u64 count = 0;
		pid_t pid;

		cell_write(&cells, 0, 0);
		ASSERT_EQ(1, post(&self->a, once(nop(5), &cells, 0, 1)));
		pid = spawn(writes_and_hangs, &w);
		await(w.wrote, 1);
		kill(pid, SIGKILL);
		EXPECT_EQ(-SIGKILL, reap(pid));
		if (writes) {
			EXPECT_EQ(5, cq_next(&self->a.cq).context);
			EXPECT_EQ(1, cell_done(&cells, 0));
		} else {
			EXPECT_TRUE(cq_empty(&self->a.cq));
			EXPECT_EQ(0,
				  cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 5, 0, &count));
			EXPECT_EQ(ECANCELED, cq_next(&self->a.cq).error);
		}
	}
	EXPECT_EQ(0, destroy(self->a.fd, cells.id));
}

TEST_HARNESS_MAIN
