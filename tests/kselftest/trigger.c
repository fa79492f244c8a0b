/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands armed on counters: what fires, when, and in which order; each either runs or is
 * canceled. million.c has millions of them.
 */
// conformance: fi_trigger(3): FI_TRIGGER_THRESHOLD: deferred until the counter crosses the ...

#include "trigger.h"

/*
 * A counter that goes back and comes up again has changed, and so has one that is set to its own
 * value.
 */
TEST_F(trigger, changes_are_counted)
{
	struct treadle_wait_fd w = {.size = sizeof(w), .id = self->c.id};
	struct node *a = &self->a;
	struct pollfd p = {.events = POLLIN};
	__u64 sum, changes;

	ASSERT_EQ(1, add(a, &self->c, 5));
	changes = __atomic_load_n(&self->c.page->changes, __ATOMIC_ACQUIRE);
	ASSERT_EQ(0, call(a->fd, TREADLE_IOC_WAIT_FD, &w));
	p.fd = w.fd;
	EXPECT_EQ(0, poll(&p, 1, 0));
	ASSERT_EQ(1, set(a, &self->c, 0));
	ASSERT_EQ(1, add(a, &self->c, 5));
	EXPECT_EQ(changes + 2, __atomic_load_n(&self->c.page->changes, __ATOMIC_ACQUIRE));
	EXPECT_EQ(1, poll(&p, 1, 0));
	EXPECT_EQ(8, read(w.fd, &sum, sizeof(sum)));
	EXPECT_EQ(5, sum);
	EXPECT_EQ(0, poll(&p, 1, 0));
	ASSERT_EQ(1, set(a, &self->c, 5));
	EXPECT_EQ(1, poll(&p, 1, 0));
	close(w.fd);
}

/* --- each operation -------------------------------------------------------------- */

TEST_F(trigger, counters_count)
{
	struct treadle_desc error = count_of(TREADLE_OP_CNTR_ADD, &self->c, 3, 0);

	error.flags |= TREADLE_F_CNTR_ERROR;
	ASSERT_EQ(1, add(&self->a, &self->c, 5));
	EXPECT_EQ(5, cntr_value(&self->c));
	ASSERT_EQ(1, set(&self->a, &self->c, 1ULL << 63));
	EXPECT_EQ(1ULL << 63, cntr_value(&self->c));
	ASSERT_EQ(1, post(&self->a, error));
	EXPECT_EQ(3, cntr_errors(&self->c));
	error.opcode = TREADLE_OP_CNTR_SET;
	error.data = 9;
	ASSERT_EQ(1, post(&self->a, error));
	EXPECT_EQ(9, cntr_errors(&self->c));
	EXPECT_EQ(1ULL << 63, cntr_value(&self->c));
	EXPECT_EQ(0, cntr_value(&self->a.sent));
}

TEST_F(trigger, sends)
{
	for (int tagged = 0; tagged < 2; tagged++) {
		struct treadle_desc d = tagged ? tsend_of(self->src, 100, self->to, 5, 1) :
						 send_of(self->src, 100, self->to, 1);

		ASSERT_EQ(1, post(&self->a, when(d, &self->c, tagged + 1)));
		ASSERT_EQ(0, post_recv(&self->b, tagged ? trecv_of(self->dst, 100, ANY, 5, 0, 2) :
							  recv_of(self->dst, 100, ANY, 2)));
		EXPECT_EQ(-ETIMEDOUT, cq_wait(&self->b.rcq, 10000000));
		EXPECT_TRUE(cntr_becomes(&self->a.sent, tagged, 0));
		/* The buffer is read when it fires. */
		fill(self->src, 100, 10 + tagged);
		ASSERT_EQ(1, add(&self->a, &self->c, 1));
		EXPECT_EQ(2, cq_next(&self->b.rcq).context);
		EXPECT_EQ(1, cq_next(&self->a.cq).context);
		EXPECT_TRUE(same(self->dst, 100, 10 + tagged));
	}
}

TEST_F(trigger, sends_of_vectors_and_injected_ones)
{
	struct treadle_iov iov[2] = {{(unsigned long)self->src, 10},
				     {(unsigned long)self->src + 100, 20}};
	struct treadle_desc d = vector(send_of(NULL, 0, self->to, 1), iov, 2);

	fill(self->src, 10, 1);
	fill(self->src + 100, 20, 2);
	d = when(d, &self->c, 1);
	ring_put_vector(&self->a.tx, &d, iov);
	ASSERT_EQ(1, ring_doorbell(&self->a.tx));
	fill(self->src + 200, 30, 3);
	d = when(send_of(self->src + 200, 30, self->to, 2), &self->c, 2);
	d.flags |= TREADLE_F_INJECT;
	ASSERT_EQ(1, post(&self->a, d));
	/*
	 * An injected send has a copy of its buffer; an armed command has left the ring in any
	 * case.
	 */
	memset(self->src + 200, 0, 30);
	memset(self->a.tx.slots, 0xff, self->a.tx.entries * TREADLE_SLOT_SIZE);
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 30, ANY, 1)));
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst + 100, 30, ANY, 2)));
	ASSERT_EQ(1, add(&self->a, &self->c, 2));
	for (int i = 1; i <= 2; i++) {
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
		EXPECT_EQ(i, cq_next(&self->a.cq).context);
	}
	EXPECT_TRUE(same(self->dst, 10, 1));
	EXPECT_TRUE(same(self->dst + 10, 20, 2));
	EXPECT_TRUE(same(self->dst + 100, 30, 3));
}

/* An armed receive is posted when it fires: it comes behind receives that were posted before. */
TEST_F(trigger, receives)
{
	struct node *a = &self->a, *b = &self->b;

	for (int tagged = 0; tagged < 2; tagged++) {
		struct treadle_desc late = tagged ? trecv_of(self->dst, 8, ANY, 7, 0, 1) :
						    recv_of(self->dst, 8, ANY, 1);
		struct treadle_desc early = late, send = send_of(self->src, 8, self->back, 3);

		early.addr += 8;
		early.context = 2;
		ASSERT_EQ(1, post(a, when(late, &self->c, tagged + 1)));
		if (tagged) {
			send.opcode = TREADLE_OP_TSEND;
			send.tag = 7;
		}
		fill(self->src, 8, 20);
		ASSERT_EQ(1, post(b, send));
		EXPECT_TRUE(cq_empty(&a->rcq));
		ASSERT_EQ(0, post_recv(a, early));
		EXPECT_EQ(2, cq_next(&a->rcq).context);
		EXPECT_TRUE(same(self->dst + 8, 8, 20));
		ASSERT_EQ(1, add(a, &self->c, 1));
		EXPECT_TRUE(cq_empty(&a->rcq));
		fill(self->src, 8, 21);
		ASSERT_EQ(1, post(b, send));
		EXPECT_EQ(1, cq_next(&a->rcq).context);
		EXPECT_TRUE(same(self->dst, 8, 21));
		EXPECT_EQ(0, cq_next(&b->cq).error);
		EXPECT_EQ(0, cq_next(&b->cq).error);
	}
}

TEST_F(trigger, counter_operations)
{
	struct node *a = &self->a;

	ASSERT_EQ(1, post(a, when(count_of(TREADLE_OP_CNTR_ADD, &self->d, 7, 0), &self->c, 1)));
	ASSERT_EQ(1, post(a, when(count_of(TREADLE_OP_CNTR_SET, &self->d, 100, 0), &self->c, 2)));
	ASSERT_EQ(1, post(a, when(count_of(TREADLE_OP_CNTR_ADD, &self->c, 1, 0), &self->d, 7)));
	EXPECT_EQ(0, cntr_value(&self->d));
	ASSERT_EQ(1, add(a, &self->c, 1));
	/* 1 fires +7, which fires +1, which fires =100. */
	ASSERT_EQ(0, cntr_wait(&self->d, 100, 0, PATIENCE_NS));
	EXPECT_EQ(100, cntr_value(&self->d));
	EXPECT_EQ(2, cntr_value(&self->c));
}

/*
 * Posted before the message comes or after, alone or among others: the vector is scattered
 * correctly.
 */
TEST_F(trigger, receives_into_vectors)
{
	struct node *a = &self->a, *b = &self->b;

	for (int i = 0; i < 8; i++) {
		bool armed = i & 1, masked = i & 2, waits = i & 4;
		char *to = self->dst, *other = self->dst + 4096;
		struct treadle_iov iov[3] = {{(unsigned long)to, 100},
					     {(unsigned long)to + 1000, 0},
					     {(unsigned long)to + 2000, 200}};
		__u64 tag = masked ? 0x1200 : 0x1234, ignore = masked ? 0xff : 0;
		struct treadle_desc d = vector(trecv_of(NULL, 0, ANY, tag, ignore, i), iov, 3);
		struct treadle_desc send = tsend_of(self->src, 300, self->back, 0x1234, 9);

		about("%d", i);
		memset(to, 0, 8192);
		fill(self->src, 300, i);
		if (waits)
			ASSERT_EQ(1, post(b, send));
		if (armed)
			d = when(d, &self->c, 1 + i);
		ring_put_vector(&a->tx, &d, iov);
		ASSERT_EQ(1, ring_doorbell(&a->tx));
		if (armed)
			ASSERT_EQ(1, set(a, &self->c, 1 + i));
		ASSERT_EQ(1, post(a, trecv_of(other, 300, ANY, tag, ignore, 100)));
		for (int n = waits; n < 2; n++)
			ASSERT_EQ(1, post(b, send));
		for (int n = 0; n < 2; n++) {
			struct treadle_cqe c = cq_next(&a->rcq);

			EXPECT_EQ(n ? 100 : i, c.context);
			EXPECT_EQ(0, c.error);
			EXPECT_EQ(300, c.len);
			EXPECT_EQ(0, cq_next(&b->cq).error);
		}
		EXPECT_TRUE(same(other, 300, i));
		EXPECT_EQ(0, memcmp(to, self->src, 100));
		EXPECT_EQ(0, memcmp(to + 2000, self->src + 100, 200));
		EXPECT_EQ(0, to[100]);
		EXPECT_EQ(0, to[2200]);
	}
}

/* --- conditions ------------------------------------------------------------------ */

// conformance: fi_trigger(3): deferred work: if its condition is met already, it may start at once
TEST_F(trigger, a_condition_that_is_met_already_fires_at_once)
{
	ASSERT_EQ(1, post(&self->a, when(nop(0), &self->c, 0)));
	EXPECT_EQ(0, cq_next(&self->a.cq).context);
	ASSERT_EQ(1, add(&self->a, &self->c, 5));
	for (int i = 1; i <= 5; i++) {
		ASSERT_EQ(1, post(&self->a, when(nop(i), &self->c, i)));
		EXPECT_EQ(i, cq_next(&self->a.cq).context);
	}
	ASSERT_EQ(1, post(&self->a, when(nop(6), &self->c, 6)));
	EXPECT_TRUE(cq_empty(&self->a.cq));
	ASSERT_EQ(1, add(&self->a, &self->c, 1));
	EXPECT_EQ(6, cq_next(&self->a.cq).context);
}

TEST_F(trigger, errors_count_as_well)
{
	struct treadle_desc error = count_of(TREADLE_OP_CNTR_ADD, &self->c, 1, 0);

	error.flags |= TREADLE_F_CNTR_ERROR;
	ASSERT_EQ(1, post(&self->a, when(nop(1), &self->c, 3)));
	ASSERT_EQ(1, add(&self->a, &self->c, 1));
	ASSERT_EQ(1, post(&self->a, error));
	EXPECT_TRUE(cq_empty(&self->a.cq));
	ASSERT_EQ(1, post(&self->a, error));
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
}

// conformance: fi_trigger(3): deferred work stays until success plus error has reached the ...
TEST_F(trigger, thresholds_are_unsigned_and_of_64_bits)
{
	ASSERT_EQ(1, post(&self->a, when(nop(1), &self->c, ~0ULL)));
	ASSERT_EQ(1, post(&self->a, when(nop(2), &self->c, 1ULL << 63)));
	ASSERT_EQ(1, post(&self->a, when(nop(3), &self->c, 1ULL << 32)));
	ASSERT_EQ(1, set(&self->a, &self->c, (1ULL << 32) - 1));
	EXPECT_TRUE(cq_empty(&self->a.cq));
	ASSERT_EQ(1, add(&self->a, &self->c, 1));
	EXPECT_EQ(3, cq_next(&self->a.cq).context);
	ASSERT_EQ(1, set(&self->a, &self->c, ~0ULL - 1));
	EXPECT_EQ(2, cq_next(&self->a.cq).context);
	EXPECT_TRUE(cq_empty(&self->a.cq));
	ASSERT_EQ(1, add(&self->a, &self->c, 1));
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
}

TEST_F(trigger, a_counter_that_goes_back_fires_nothing)
{
	ASSERT_EQ(1, add(&self->a, &self->c, 10));
	ASSERT_EQ(1, set(&self->a, &self->c, 2));
	ASSERT_EQ(1, post(&self->a, when(nop(1), &self->c, 5)));
	ASSERT_EQ(1, set(&self->a, &self->c, 0));
	ASSERT_EQ(1, set(&self->a, &self->c, 4));
	EXPECT_TRUE(cq_empty(&self->a.cq));
	ASSERT_EQ(1, set(&self->a, &self->c, 5));
	EXPECT_EQ(1, cq_next(&self->a.cq).context);
}

/* By threshold, then by submission, also when the counter jumps. */
TEST_F(trigger, the_order_is_that_of_thresholds)
{
	struct cq *q = &self->a.cq;
	__u64 state = 1, last = 0;
	const int count = 900;

	for (int i = 0; i < count; i++) {
		__u64 threshold = 1 + lottery(&state) % 40;

		ASSERT_EQ(1, post(&self->a, when(nop(threshold << 32 | i), &self->c, threshold)));
	}
	EXPECT_TRUE(cq_empty(q));
	for (__u64 value = 10; value <= 40; value += 10) {
		struct treadle_cqe c;

		ASSERT_EQ(1, add(&self->a, &self->c, 10));
		ASSERT_EQ(1, post(&self->a, when(nop(value << 32 | 0xfffffff), &self->c, value)));
		do {
			c = cq_next(q);
			ASSERT_LT(last, c.context);
			ASSERT_GE(value, c.context >> 32);
			last = c.context;
		} while ((__u32)last != 0xfffffff);
		EXPECT_TRUE(cq_empty(q));
	}
	EXPECT_EQ(count + 4, q->cons);
}

/* --- notification ------------------------------------------------------------------ */

// conformance: fi_trigger(3): on completion the completion counter is incremented by one
TEST_F(trigger, success_and_failure_are_counted_apart)
{
	struct node *a = &self->a;
	struct treadle_addr unreachable = loopback(1);
	struct treadle_desc good = send_of(self->src, 8, self->to, 1);
	struct treadle_desc bad = send_of(self->src, 8, peer(a, unreachable), 2);

	ASSERT_EQ(1, post(a, then(when(good, &self->c, 1), &self->d)));
	ASSERT_EQ(1, post(a, then(when(bad, &self->c, 2), &self->d)));
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, 1)));
	ASSERT_EQ(1, add(a, &self->c, 2));
	/* Sends to different peers complete in any order. */
	for (int i = 0; i < 2; i++) {
		struct treadle_cqe c = cq_next(&a->cq);

		EXPECT_EQ(c.context == 1 ? 0 : ECONNREFUSED, c.error);
	}
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_TRUE(cntr_becomes(&self->d, 1, 1));
	EXPECT_TRUE(cntr_becomes(&a->sent, 1, 1));
}

// conformance: fi_trigger(3): deferred work: no completions at the endpoint by default, nor its
//   counters; a counter of the endpoint that is the completion_cntr counts once
TEST_F(trigger, deferred_work_is_silent)
{
	struct node *a = &self->a;
	struct treadle_addr unreachable = loopback(1);
	struct treadle_desc good = send_of(self->src, 8, self->to, 1);
	struct treadle_desc bad = send_of(self->src, 8, peer(a, unreachable), 2);

	good.flags = bad.flags = TREADLE_F_WORK;
	ASSERT_EQ(1, post(a, then(when(good, &self->c, 1), &self->d)));
	ASSERT_EQ(1, post(a, then(when(bad, &self->c, 1), &self->d)));
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, 1)));
	ASSERT_EQ(1, add(a, &self->c, 1));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_TRUE(cntr_becomes(&self->d, 1, 1));
	EXPECT_TRUE(cntr_becomes(&a->sent, 0, 0));
}

/* An arriving message fires a send while no thread of the receiver runs. */
struct relay {
	struct treadle_addr addr, home;
	int ready, go;
	int rounds;
};

static void relays(void *arg)
{
	struct relay *r = arg;
	char *buf = pages(PAGE);
	struct node n;
	__u64 home;

	node_open(&n, (struct options){.tx = 4096, .rx = 4096, .cq = 4096, .rcq = 4096});
	home = peer(&n, r->home);
	for (int i = 0; i < r->rounds; i++) {
		struct treadle_desc d = send_of(buf + i % 64 * 8, 8, home, i);

		need(post_recv(&n, recv_of(buf + i % 64 * 8, 8, ANY, i)) == 0);
		need(post(&n, when(d, &n.rcvd, i + 1)) == 1);
	}
	r->addr = n.addr;
	raise_to(&r->ready, 1);
	pause();
}

// conformance: fi_domain(3): FI_PROGRESS_AUTO, control and data: progress without intervention
TEST_F(trigger, a_stopped_process_forwards)
{
	struct relay *r = shared(sizeof(*r));
	pid_t pid;
	int status;
	__u64 to;

	r->home = self->a.addr;
	r->rounds = 1000;
	pid = spawn(relays, r);
	await(&r->ready, 1);
	kill(pid, SIGSTOP);
	ASSERT_EQ(pid, waitpid(pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	to = peer(&self->a, r->addr);
	for (int i = 0; i < r->rounds; i++) {
		*(int *)self->src = i;
		ASSERT_EQ(0, post_recv(&self->a, recv_of(self->dst, 8, ANY, i)));
		ASSERT_EQ(1, post(&self->a, send_of(self->src, 8, to, i)));
		ASSERT_EQ(i, cq_next(&self->a.rcq).context);
		ASSERT_EQ(i, *(int *)self->dst);
		ASSERT_EQ(0, cq_next(&self->a.cq).error);
	}
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(pid));
}

TEST_HARNESS_MAIN
