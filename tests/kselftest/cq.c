/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Completion queues and waiting: nothing is lost, whether the ring is full, the reader sleeps, or a
 * signal comes in between.
 */
// conformance: fi_arch(7): completion queues

#include "triggers.h"

FIXTURE(cq)
{
	struct node n; /* sends to itself */
	__u64 to;
	char *buf;
};

FIXTURE_SETUP(cq)
{
	node_open(&self->n, (struct options){.tx = 256, .rx = 256, .cq = 32, .rcq = 1024});
	self->to = peer(&self->n, self->n.addr);
	self->buf = pages(1 << 20);
}

FIXTURE_TEARDOWN(cq)
{
	close(self->n.fd);
}

/* --- overflow ---------------------------------------------------------------- */

TEST_F(cq, overflowing_completions_are_kept_in_order)
{
	struct cq *q = &self->n.cq;
	struct treadle_cqe c;
	__u32 entries = q->entries, kept = entries / 2;

	for (int round = 0; round < 3; round++) {
		for (__u32 i = 0; i < entries; i++) {
			ASSERT_EQ(1, post(&self->n, nop(i)));
		}
		EXPECT_FALSE(cq_overflows(q));
		for (__u32 i = 0; i < kept; i++) {
			ASSERT_EQ(1, post(&self->n, nop(entries + i)));
			EXPECT_TRUE(cq_overflows(q));
		}
		/* The ring holds as many as it can. Beyond that nothing was written. */
		EXPECT_EQ(q->cons + entries, q->ro->prod);
		for (__u32 i = 0; i < entries; i++) {
			ASSERT_TRUE(cq_poll(q, &c));
			ASSERT_EQ(i, c.context);
		}
		EXPECT_FALSE(cq_poll(q, &c));
		EXPECT_TRUE(cq_overflows(q));
		ASSERT_EQ(0, doorbell(q->fd, q->id));
		EXPECT_FALSE(cq_overflows(q));
		for (__u32 i = 0; i < kept; i++) {
			ASSERT_TRUE(cq_poll(q, &c));
			ASSERT_EQ(entries + i, c.context);
		}
		EXPECT_TRUE(cq_empty(q));
	}
}

TEST_F(cq, the_next_completion_flushes_kept_ones)
{
	struct cq *q = &self->n.cq;
	__u32 entries = q->entries;
	struct treadle_cqe c;

	for (__u32 i = 0; i < entries + 3; i++) {
		ASSERT_EQ(1, post(&self->n, nop(i)));
	}
	for (__u32 i = 0; i < 10; i++) {
		ASSERT_TRUE(cq_poll(q, &c));
		ASSERT_EQ(i, c.context);
	}
	ASSERT_EQ(1, post(&self->n, nop(entries + 3)));
	EXPECT_FALSE(cq_overflows(q));
	for (__u32 i = 10; i < entries + 4; i++) {
		ASSERT_TRUE(cq_poll(q, &c));
		ASSERT_EQ(i, c.context);
	}
	EXPECT_TRUE(cq_empty(q));
}

/* A wait returns at once if completions are kept, although the ring is empty. */
TEST_F(cq, a_wait_finds_kept_completions)
{
	struct cq *q = &self->n.cq;
	__u32 entries = q->entries;
	struct treadle_cqe c;

	for (__u32 i = 0; i < entries + 5; i++) {
		ASSERT_EQ(1, post(&self->n, nop(i)));
	}
	for (__u32 i = 0; i < entries; i++) {
		ASSERT_TRUE(cq_poll(q, &c));
	}
	for (__u32 i = 0; i < 5; i++) {
		ASSERT_EQ(0, cq_wait(q, PATIENCE_NS));
		if (!cq_poll(q, &c)) {
			ASSERT_EQ(0, doorbell(q->fd, q->id));
			ASSERT_TRUE(cq_poll(q, &c));
		}
		ASSERT_EQ(entries + i, c.context);
	}
	EXPECT_EQ(-EAGAIN, cq_wait(q, 0));
}

// conformance: fi_domain(3): resource management: Tx CQ full: EAGAIN; completions that do not fit
//   are kept
// conformance: ioctl.h: EAGAIN: the caller's completion queue overflows
TEST_F(cq, a_queue_that_is_not_read_refuses_more)
{
	struct cq *q = &self->n.cq;
	struct treadle_cqe c;
	int taken = 0, result;

	while ((result = post(&self->n, nop(taken))) == 1) {
		taken++;
		ASSERT_GT(10 * q->entries, taken);
	}
	EXPECT_EQ(-EAGAIN, result);
	/* The ring's entries, and about as many kept ones. */
	EXPECT_LE(2 * q->entries, taken);
	EXPECT_GE(2 * q->entries + 2, taken);
	/* A command that is refused changes nothing, however often it is tried. */
	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(-EAGAIN, post(&self->n, nop(1000 + i)));
	}
	/* A send is refused before it reaches the peer. */
	EXPECT_EQ(-EAGAIN, post(&self->n, send_of(self->buf, 8, self->to, 2000)));
	EXPECT_TRUE(cq_empty(&self->n.rcq));
	for (int i = 0; i < taken; i++) {
		ASSERT_EQ(i, cq_next(q).context);
	}
	EXPECT_FALSE(cq_poll(q, &c));
	EXPECT_TRUE(cq_empty(q));
	EXPECT_EQ(1, post(&self->n, nop(7)));
	EXPECT_EQ(7, cq_next(q).context);
}

/*
 * Commands behind F_MORE stay in their ring, bad ones too, until their completions fit. Kept memory
 * is bounded.
 */
// conformance: fi_domain(3): resource management: errors of selective completion need no ...
TEST_F(cq, promised_commands_are_not_lost)
{
	struct cq *q = &self->n.cq;
	struct ring *tx = &self->n.tx;

	for (int bad = 0; bad < 2; bad++) {
		int posted = 0, result = 1;

		while (result == 1) {
			struct treadle_desc d = nop(posted++);

			d.flags |= TREADLE_F_MORE;
			d.reserved0 = bad;
			ring_put(tx, &d);
			ring_publish(tx);
			result = ring_doorbell(tx);
			ASSERT_GT(4 * (q->entries + tx->entries), posted);
		}
		EXPECT_EQ(-EAGAIN, result);
		EXPECT_EQ(-EAGAIN, ring_doorbell(tx));
		EXPECT_EQ(tx->entries - 1, ring_room(tx));
		for (int i = 0; i < posted - 1; i++) {
			struct treadle_cqe c = cq_next(q);

			ASSERT_EQ(i, c.context);
			ASSERT_EQ(bad ? EINVAL : 0, c.error);
		}
		EXPECT_TRUE(cq_empty(q));
		EXPECT_EQ(1, ring_doorbell(tx));
		EXPECT_EQ(posted - 1, cq_next(q).context);
	}
}

/* Completions of the receiver that a sender causes are kept, too, and do not hold the sender. */
// conformance: fi_domain(3): resource management: Rx CQ full: completions are kept, never lost
TEST_F(cq, a_receivers_queue_overflows_without_loss)
{
	struct node b;
	const int count = 100;
	__u64 to;

	node_open(&b, (struct options){.rx = 128, .rcq = 32});
	to = peer(&self->n, b.addr);
	for (int i = 0; i < count; i++) {
		ASSERT_EQ(0, post_recv(&b, recv_of(self->buf + i * 8, 8, ANY, i)));
	}
	/* As many as fit, and as many kept; the next one when there is room. */
	for (int i = 0; i < 2 * b.rcq.entries; i++) {
		ASSERT_EQ(1, post(&self->n, send_of(self->buf + 4096, 8, to, i)));
		ASSERT_EQ(i, cq_next(&self->n.cq).context);
	}
	for (int i = 0; i < 2 * b.rcq.entries; i++) {
		ASSERT_EQ(i, cq_next(&b.rcq).context);
	}
	EXPECT_TRUE(cq_empty(&b.rcq));
	ASSERT_EQ(1, post(&self->n, send_of(self->buf + 4096, 8, to, 0)));
	EXPECT_EQ(2 * b.rcq.entries, cq_next(&b.rcq).context);
}

/* A process that writes nonsense into its index harms only itself. */
TEST_F(cq, a_wild_consumer_index_is_harmless)
{
	static const __u32 wild[] = {1, 31, 32, 33, 0x80000000, 0x7fffffff, 0xffffffff, 12345};
	struct cq *q = &self->n.cq;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < ARRAY_SIZE(wild); i++) {
			int result;

			q->rw->cons = q->ro->prod + wild[i];
			result = post(&self->n, nop(i));
			ASSERT_TRUE(result == 1 || result == -EAGAIN);
			doorbell(q->fd, q->id);
			cq_wait(q, 0);
		}
	}
	/* The queue still works once the index is right. */
	do {
		q->cons = q->ro->prod;
		q->rw->cons = q->cons;
		ASSERT_EQ(0, doorbell(q->fd, q->id));
	} while (q->ro->prod != q->cons || cq_overflows(q));
	ASSERT_EQ(1, post(&self->n, nop(99)));
	EXPECT_EQ(99, cq_next(q).context);
}

/* --- waiting ------------------------------------------------------------------- */

// conformance: ioctl.h: EAGAIN: nothing to report
TEST_F(cq, looking_without_waiting)
{
	struct node *n = &self->n;

	EXPECT_EQ(-EAGAIN, cq_wait(&n->cq, 0));
	EXPECT_EQ(-EAGAIN, cntr_wait(&n->sent, 1, 0, 0));
	EXPECT_EQ(0, cntr_wait(&n->sent, 0, 0, 0));
	EXPECT_EQ(0, cntr_wait(&n->sent, 5, 1, 0));
	ASSERT_EQ(0, post_recv(n, recv_of(self->buf, 8, ANY, 1)));
	ASSERT_EQ(1, post(n, send_of(self->buf + 64, 8, self->to, 2)));
	EXPECT_EQ(0, cq_wait(&n->cq, 0));
	EXPECT_EQ(0, cq_wait(&n->cq, -1));
	EXPECT_EQ(0, cntr_wait(&n->sent, 1, 0, 0));
	EXPECT_EQ(0, cntr_wait(&n->sent, 1, 0, -1));
	EXPECT_EQ(-EAGAIN, cntr_wait(&n->sent, 2, 0, 0));
}

// conformance: ioctl.h: ETIMEDOUT: a wait timed out
TEST_F(cq, waits_time_out)
{
	__u64 start = now_ns();

	EXPECT_EQ(-ETIMEDOUT, cq_wait(&self->n.cq, 20000000));
	EXPECT_LE(20000000, now_ns() - start);
	start = now_ns();
	EXPECT_EQ(-ETIMEDOUT, cntr_wait(&self->n.sent, 1, 0, 20000000));
	EXPECT_LE(20000000, now_ns() - start);
	EXPECT_EQ(-ETIMEDOUT, cq_wait(&self->n.cq, 1));
	/* A timeout of years. */
	ASSERT_EQ(1, post(&self->n, nop(1)));
	EXPECT_EQ(0, cq_wait(&self->n.cq, 0x7fffffffffffffffLL));
}

struct waiter {
	const struct cq *q;
	const struct cntr *c;
	__s64 timeout;
	int result, tid;
};

static void *waits(void *arg)
{
	struct waiter *w = arg;

	raise_to(&w->tid, gettid());
	w->result = w->q ? cq_wait(w->q, w->timeout) : cntr_wait(w->c, 1, 0, w->timeout);
	return NULL;
}

/* Waits until the thread sleeps, so that a waiter is there for the next step. */
static void until_asleep(const struct waiter *w)
{
	char path[64], state = 0;

	await(&w->tid, 1);
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", w->tid);
	while (state != 'S') {
		FILE *file = fopen(path, "re");

		need(file && fscanf(file, "%*d %*[^)]) %c", &state) == 1);
		fclose(file);
		sched_yield();
	}
}

static void nothing(int sig) {}

// conformance: ioctl.h: EINTR: a wait was interrupted by a signal
TEST_F(cq, signals_interrupt_a_wait)
{
	struct sigaction action = {.sa_handler = nothing};
	struct waiter w[2] = {{.q = &self->n.cq}, {.c = &self->n.sent}};

	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 4; i++) {
		struct waiter *one = &w[i & 1];
		pthread_t t;

		one->timeout = i & 2 ? -1 : PATIENCE_NS;
		one->tid = 0;
		t = thread(waits, one);
		until_asleep(one);
		pthread_kill(t, SIGUSR1);
		pthread_join(t, NULL);
		EXPECT_EQ(-EINTR, one->result);
	}
}

// conformance: fi_cq(3): fi_cq_signal: unblocks any thread in fi_cq_sread
// conformance: ioctl.h: ECANCELED: a wait was ended by SIGNAL
TEST_F(cq, signal_ends_every_wait)
{
	struct waiter w[4] = {
		{.q = &self->n.cq}, {.c = &self->n.sent}, {.q = &self->n.cq}, {.c = &self->n.sent}};
	pthread_t t[4];

	for (int i = 0; i < 4; i++) {
		w[i].timeout = -1;
		t[i] = thread(waits, &w[i]);
		until_asleep(&w[i]);
	}
	EXPECT_EQ(0, call(self->n.fd, TREADLE_IOC_SIGNAL, (void *)(unsigned long)self->n.cq.id));
	EXPECT_EQ(0, call(self->n.fd, TREADLE_IOC_SIGNAL, (void *)(unsigned long)self->n.sent.id));
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		EXPECT_EQ(-ECANCELED, w[i].result);
	}
	/* A later wait is not affected. */
	EXPECT_EQ(-ETIMEDOUT, cq_wait(&self->n.cq, 1000000));
}

/*
 * A wait that names the signals that its caller has seen ends at once if there was another since,
 * even if another wait has seen it.
 */
// conformance: fi_cq(3): fi_cq_signal: unblocks any thread in fi_cq_sread
TEST_F(cq, a_signal_between_two_waits_is_seen_by_each)
{
	struct treadle_wait w = {.size = sizeof(w),
				 .id = self->n.cq.id,
				 .flags = TREADLE_WAIT_SIGNALS,
				 .timeout_ns = 1000000,
				 .signals = __atomic_load_n(&self->n.cq.ro->signals,
							    __ATOMIC_ACQUIRE)};

	EXPECT_EQ(-ETIMEDOUT, call(self->n.fd, TREADLE_IOC_WAIT, &w));
	EXPECT_EQ(0, call(self->n.fd, TREADLE_IOC_SIGNAL, (void *)(unsigned long)self->n.cq.id));
	EXPECT_EQ(w.signals + 1, self->n.cq.ro->signals);
	EXPECT_EQ(-ECANCELED, cq_wait(&self->n.cq, -1));
	EXPECT_EQ(-ETIMEDOUT, cq_wait(&self->n.cq, 1000000));
	EXPECT_EQ(-ECANCELED, call(self->n.fd, TREADLE_IOC_WAIT, &w));
	w.timeout_ns = 0;
	EXPECT_EQ(-ECANCELED, call(self->n.fd, TREADLE_IOC_WAIT, &w));
	w.signals++;
	EXPECT_EQ(-EAGAIN, call(self->n.fd, TREADLE_IOC_WAIT, &w));
	w.flags = 0;
	EXPECT_EQ(-EINVAL, call(self->n.fd, TREADLE_IOC_WAIT, &w));
	w.flags = TREADLE_WAIT_SIGNALS;
	w.id = self->n.sent.id;
	EXPECT_EQ(-EINVAL, call(self->n.fd, TREADLE_IOC_WAIT, &w));
}

static void stay_on_this_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	need(sched_setaffinity(0, sizeof(set), &set) == 0);
}

/*
 * The waiter runs on the CPU of the thread that changes the counter, so it runs when the error is
 * gone again.
 */
// conformance: fi_cntr(3): fi_cntr_wait: until the threshold, or a change of the error value, ...
TEST_F(cq, an_error_that_comes_and_goes_ends_a_wait)
{
	struct waiter w = {.c = &self->n.sent, .timeout = PATIENCE_NS};
	struct treadle_desc d = count_of(TREADLE_OP_CNTR_SET, &self->n.sent, 1, 0);
	pthread_t t;

	stay_on_this_cpu();
	t = thread(waits, &w);
	until_asleep(&w);
	d.flags |= TREADLE_F_CNTR_ERROR;
	ring_put(&self->n.tx, &d);
	d.data = 0;
	ring_put(&self->n.tx, &d);
	ring_publish(&self->n.tx);
	EXPECT_EQ(2, ring_doorbell(&self->n.tx));
	pthread_join(t, NULL);
	EXPECT_EQ(0, w.result);
	EXPECT_EQ(0, cntr_errors(&self->n.sent));
}

TEST_F(cq, a_counter_ends_waits_by_value_and_by_error)
{
	struct waiter w = {.c = &self->n.sent, .timeout = -1};
	struct treadle_desc add = count_of(TREADLE_OP_CNTR_ADD, &self->n.sent, 1, 0);
	pthread_t t;

	for (int i = 0; i < 2; i++) {
		w.tid = 0;
		t = thread(waits, &w);
		until_asleep(&w);
		if (i)
			add.flags |= TREADLE_F_CNTR_ERROR;
		ASSERT_EQ(1, post(&self->n, add));
		pthread_join(t, NULL);
		EXPECT_EQ(0, w.result);
		ASSERT_EQ(1, post(&self->n, count_of(TREADLE_OP_CNTR_SET, &self->n.sent, 0, 0)));
	}
}

TEST_HARNESS_MAIN
