/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Armed commands by the million: their order, their memory, chains of them, and the race between
 * firing and canceling.
 */
#include "treadle.h"

static __u32 million = 1000000;

/* A kernel with debugging checks takes a hundred times as long for each command. */
__attribute__((constructor)) static void fewer_with_patience(void)
{
	const char *patience = getenv("TEST_PATIENCE"); /* set by tests/run-programs */

	if (patience && atoi(patience) > 1)
		million = 50000;
}

FIXTURE(million)
{
	struct node n;
	struct cntr c, d;
};

FIXTURE_SETUP(million)
{
	node_open(&self->n, (struct options){.tx = 32768, .cq = 1 << 20});
	cntr_open(&self->c, self->n.fd);
	cntr_open(&self->d, self->n.fd);
}

FIXTURE_TEARDOWN(million)
{
	EXPECT_EQ(0, self->n.cq.ro->flags);
}

static void finish(struct node *n)
{
	int pending = n->tx.prod - n->tx.rw->prod;

	ring_publish(&n->tx);
	need(ring_doorbell(&n->tx) == pending);
}

/* Puts a command into the ring; rings the doorbell only when the ring is full. */
static void batch(struct node *n, struct treadle_desc d)
{
	ring_put(&n->tx, &d);
	if (n->tx.prod - n->tx.rw->prod == n->tx.entries)
		finish(n);
}

static void kick(struct node *n, const struct cntr *c, __u64 value)
{
	struct treadle_desc d = count_of(TREADLE_OP_CNTR_ADD, c, value, 0);

	ring_put(&n->tx, &d);
	ring_publish(&n->tx);
	need(ring_doorbell(&n->tx) == 1);
}

// conformance: fi_trigger(3): triggered in the order of thresholds, even if the counter jumps
// conformance: triggers.rst: a command ran by threshold, then submission, not before
TEST_F(million, fire_in_order_of_thresholds)
{
	__u64 state = 1, last = 0, start, armed;
	static __u32 below[1001];
	struct cq *q = &self->n.cq;
	/* What debugging options of the kernel add to each object. */
	long long debugging = number_in("/sys/kernel/slab/treadle_cmd/slab_size", NULL) -
			      number_in("/sys/kernel/slab/treadle_cmd/object_size", NULL);
	long long bytes;
	char group[64];

	/* Memory of commands that are armed from here on is charged to this group. */
	cgroup_enter(group);
	bytes = cgroup_kernel(group);
	start = now_ns();
	for (__u32 i = 0; i < million; i++) {
		__u32 threshold = 1 + lottery(&state) % 1000;
		struct treadle_desc d = {
			.opcode = TREADLE_OP_NOP,
			.flags = TREADLE_F_COMPLETION,
			.context = (__u64)threshold << 32 | i,
		};

		batch(&self->n, when(d, &self->c, threshold));
		below[threshold]++;
	}
	finish(&self->n);
	armed = now_ns();
	bytes = (cgroup_kernel(group) - bytes) / million;
	EXPECT_EQ(0, q->ro->prod);
	EXPECT_LE(bytes - debugging, 256);
	EXPECT_LT(0, bytes);

	/* The counter steps, then jumps. */
	for (int value = 1; value <= 1000; value++)
		below[value] += below[value - 1];
	for (int value = 100; value <= 1000; value += value < 500 ? 100 : 500) {
		kick(&self->n, &self->c, value - cntr_value(&self->c));
		while (q->cons < below[value]) {
			struct treadle_cqe e = cq_next(q);

			ASSERT_LT(last, e.context);
			ASSERT_GE(value, e.context >> 32);
			ASSERT_EQ(0, e.error);
			last = e.context;
		}
		EXPECT_TRUE(cq_empty(q));
	}
	EXPECT_EQ(million, q->cons);
	note("of %u commands each: %lld bytes, armed in %llu ns, fired and read in %llu ns",
	     million, bytes, (armed - start) / million, (now_ns() - armed) / million);
}

/* Receives take no more memory than other commands, whether armed or fired. */
TEST_F(million, receives_wait_and_are_posted)
{
	const __u32 count = million / 10, some = 1000;
	long long debugging = number_in("/sys/kernel/slab/treadle_cmd/slab_size", NULL) -
			      number_in("/sys/kernel/slab/treadle_cmd/object_size", NULL);
	long long start, armed, posted;
	struct cq *q = &self->n.cq;
	__u64 state = 1, own = peer(&self->n, self->n.addr);
	static __u32 from[1000], to[1000];
	char group[64];

	cgroup_enter(group);
	start = cgroup_kernel(group);
	for (__u32 i = 0; i < count; i++) {
		struct treadle_desc d =
			trecv_of(i < some ? &to[i] : NULL, i < some ? sizeof(to[i]) : 0,
				 TREADLE_ADDR_ANY, i, 0, i);

		batch(&self->n, when(d, &self->c, 1 + lottery(&state) % 1000));
	}
	/* completes when all have fired */
	batch(&self->n,
	      when((struct treadle_desc){.opcode = TREADLE_OP_NOP, .flags = TREADLE_F_COMPLETION},
		   &self->c, 1000));
	finish(&self->n);
	armed = cgroup_kernel(group);
	kick(&self->n, &self->c, 1000);
	EXPECT_EQ(0, cq_next(q).error);
	posted = cgroup_kernel(group);
	EXPECT_LE((armed - start) / count - debugging, 256);
	EXPECT_LT(0, armed - start);
	/*
	 * the matcher's table grows with its entries: a bucket for each, and room for half as many
	 * more
	 */
	EXPECT_LE((posted - armed) / count, 2 * (long long)sizeof(void *));

	for (__u32 i = 0; i < some; i++) {
		from[i] = i + 1;
		batch(&self->n, tsend_of(&from[i], sizeof(from[i]), own, i, some + i));
	}
	finish(&self->n);
	for (__u32 i = 0; i < some; i++) {
		struct treadle_cqe e = cq_next(&self->n.rcq);

		ASSERT_EQ(0, e.error);
		ASSERT_EQ(i, e.context);
		ASSERT_EQ(i, e.tag);
		ASSERT_EQ(i + 1, to[i]);
		e = cq_next(q);
		ASSERT_EQ(0, e.error);
		ASSERT_EQ(some + i, e.context);
	}
	EXPECT_TRUE(cq_empty(&self->n.rcq));
	EXPECT_TRUE(cq_empty(q));
	note("of %u receives each: %lld bytes armed, %lld more posted", count,
	     (armed - start) / count, (posted - armed) / count);
}

/* Adds to one counter and to the other in turn. Each command is fired by the one before. */
static void arm_chain(struct node *n, struct cntr *c, struct cntr *d, __u32 length)
{
	for (__u32 i = 1; i <= length / 2; i++) {
		batch(n, when(count_of(TREADLE_OP_CNTR_ADD, d, 1, 0), c, i));
		batch(n, when(count_of(TREADLE_OP_CNTR_ADD, c, 1, 0), d, i));
	}
	finish(n);
}

// conformance: triggers.rst: bad input: a command that fires itself, a chain, a circle
TEST_F(million, a_chain_of_triggers)
{
	__u64 start;

	arm_chain(&self->n, &self->c, &self->d, million);
	EXPECT_EQ(0, cntr_value(&self->c) + cntr_value(&self->d));
	start = now_ns();
	kick(&self->n, &self->c, 1);
	ASSERT_EQ(0, cntr_wait(&self->c, million / 2 + 1, 0, 4 * PATIENCE_NS));
	EXPECT_EQ(million / 2 + 1, cntr_value(&self->c));
	EXPECT_EQ(million / 2, cntr_value(&self->d));
	note("a link of the chain: %llu ns", (now_ns() - start) / million);
}

/* Each command fires the next one on the same counter. */
// conformance: triggers.rst: bad input: a command that fires itself, a chain, a circle
TEST_F(million, a_counter_that_drives_itself)
{
	for (__u32 i = 1; i <= million / 4; i++)
		batch(&self->n, when(count_of(TREADLE_OP_CNTR_ADD, &self->c, 1, 0), &self->c, i));
	finish(&self->n);
	kick(&self->n, &self->c, 1);
	ASSERT_EQ(0, cntr_wait(&self->c, million / 4 + 1, 0, 4 * PATIENCE_NS));
	EXPECT_EQ(million / 4 + 1, cntr_value(&self->c));
}

/* While a chain runs, other processes make progress with their messages. */
// conformance: triggers.rst: bad input: a long chain is fair, and can be killed
TEST_F(million, a_chain_is_fair)
{
	struct node a, b;
	int messages = 0;
	char buf[16];
	__u64 to;

	node_open(&a, (struct options){});
	node_open(&b, (struct options){});
	to = peer(&a, b.addr);
	arm_chain(&self->n, &self->c, &self->d, million / 4);
	kick(&self->n, &self->c, 1);
	while (cntr_value(&self->c) <= million / 8) {
		ASSERT_EQ(0, post_recv(&b, recv_of(buf + 8, 8, ANY, messages)));
		ASSERT_EQ(1, post(&a, send_of(buf, 8, to, messages)));
		ASSERT_EQ(messages, cq_next(&b.rcq).context);
		ASSERT_EQ(messages, cq_next(&a.cq).context);
		messages++;
	}
	EXPECT_LT(10, messages);
	note("%d messages during the chain", messages);
}

// conformance: fi_trigger(3): FI_FLUSH_WORK: of the domain, or of one counter (arg is the ...
TEST_F(million, flush_takes_all)
{
	__u64 count, start;

	for (__u32 i = 0; i < million / 4; i++)
		batch(&self->n,
		      when(count_of(TREADLE_OP_CNTR_ADD, &self->d, 1, 0), &self->c, 1 + i % 7));
	finish(&self->n);
	EXPECT_EQ(-EBUSY, destroy(self->n.fd, self->c.id));
	start = now_ns();
	EXPECT_EQ(0, cancel(self->n.fd, TREADLE_FLUSH_WORK, self->c.id, 0, 0, &count));
	note("canceled in %llu ns each", (now_ns() - start) / count);
	EXPECT_EQ(million / 4, count);
	kick(&self->n, &self->c, 100);
	EXPECT_EQ(0, cntr_value(&self->d));
	EXPECT_EQ(0, destroy(self->n.fd, self->c.id));
	EXPECT_EQ(0, destroy(self->n.fd, self->d.id));
}

/* --- tests without a context of their own, so that none is left at their end ------- */

struct runner {
	int armed;
	bool chain;
};

static void runs_a_chain(void *arg)
{
	struct runner *r = arg;
	struct cntr c, d;
	struct node n;

	node_open(&n, (struct options){.tx = 32768});
	cntr_open(&c, n.fd);
	cntr_open(&d, n.fd);
	arm_chain(&n, &c, &d, million / 4);
	raise_to(&r->armed, 1);
	if (r->chain)
		kick(&n, &c, 1);
	pause();
}

/* Killed at any time: before the chain runs, at its start, in the middle. */
FIXTURE(killed){};

FIXTURE_SETUP(killed) {}

FIXTURE_TEARDOWN(killed) {}

// conformance: triggers.rst: bad input: a long chain is fair, and can be killed
// conformance: triggers.rst: bad input: thresholds that never come
// conformance: triggers.rst: nothing of a killed process runs later
TEST_F(killed, a_chain_ends_with_its_process)
{
	static const int delays_us[] = {0, 1000, 50000, 300000};
	struct runner *r = shared(sizeof(*r));

	for (int i = -1; i < (int)ARRAY_SIZE(delays_us); i++) {
		pid_t pid;

		r->armed = 0;
		r->chain = i >= 0;
		pid = spawn(runs_a_chain, r);
		await(&r->armed, 1);
		usleep(i < 0 ? 0 : delays_us[i]);
		kill(pid, SIGKILL);
		EXPECT_EQ(-SIGKILL, reap(pid));
	}
	until_unused();
}

/* --- exactness --------------------------------------------------------------------- */

#define RACERS 20000

struct race {
	struct node n;
	struct cntr c, d;
	int go;
	__u64 canceled, lonely;
};

static void *cancels_one_by_one(void *arg)
{
	struct race *r = arg;
	__u64 state = 1;

	await(&r->go, 1);
	for (int i = 0; i < RACERS / 4; i++) {
		__u64 threshold = 1 + lottery(&state) % RACERS, count = 0;
		int result =
			cancel(r->n.fd, TREADLE_CANCEL_WORK, r->c.id, threshold, threshold, &count);

		need(result == 0 || result == -ENOENT);
		need(result == 0 ? count == 1 : count == 0);
		r->lonely += count;
	}
	return NULL;
}

static void *flushes(void *arg)
{
	struct race *r = arg;
	__u64 count;

	await(&r->go, 1);
	/* At half of the way. */
	while (cntr_value(&r->c) < RACERS / 2)
		sched_yield();
	need(cancel(r->n.fd, TREADLE_FLUSH_WORK, r->c.id, 0, 0, &count) == 0);
	r->canceled += count;
	return NULL;
}

// conformance: fi_trigger(3): FI_CANCEL_WORK: exact, by the struct fi_deferred_work
// conformance: triggers.rst: a command ran once, or was canceled once
TEST(work_has_either_run_or_was_canceled)
{
	static struct race r;
	__u64 ran = 0, flushed = 0, canceled = 0;
	pthread_t t[2];

	node_open(&r.n, (struct options){.tx = 32768});
	/* more rounds on a machine on which one of the three was always too late */
	for (int round = 0; round < 6 || (!(ran && flushed && canceled) && round < 120); round++) {
		__u64 rest;

		cntr_open(&r.c, r.n.fd);
		cntr_open(&r.d, r.n.fd);
		r.go = 0;
		r.canceled = r.lonely = 0;
		for (__u32 i = 1; i <= RACERS; i++)
			batch(&r.n, when(count_of(TREADLE_OP_CNTR_ADD, &r.d, 1, i), &r.c, i));
		finish(&r.n);
		t[0] = thread(cancels_one_by_one, &r);
		t[1] = thread(flushes, &r);
		raise_to(&r.go, 1);
		for (int i = 0; i < RACERS; i += 20)
			kick(&r.n, &r.c, 20);
		pthread_join(t[0], NULL);
		pthread_join(t[1], NULL);
		EXPECT_EQ(0, cancel(r.n.fd, TREADLE_FLUSH_WORK, r.c.id, 0, 0, &rest));
		/* The remaining commands run to their end. */
		while (destroy(r.n.fd, r.c.id) == -EBUSY)
			sched_yield();
		EXPECT_EQ(RACERS, cntr_value(&r.d) + r.canceled + r.lonely + rest);
		note("%llu ran, %llu flushed, %llu canceled", cntr_value(&r.d), r.canceled,
		     r.lonely);
		ran += cntr_value(&r.d);
		flushed += r.canceled;
		canceled += r.lonely;
	}
	EXPECT_TRUE(ran && flushed && canceled);
}

TEST_HARNESS_MAIN
