/* SPDX-License-Identifier: GPL-2.0 */
/* Repeating commands: how often they run, what they wait for, and how they end. */
// conformance: triggers.rst: a command that repeats runs once for each step, and is freed once

#include <treadle/atomic.h>

#include "connection.h"
#include "trigger.h"

#define REPEATS (TREADLE_F_REPEAT | TREADLE_F_WORK)

/* At @first, and every @step after it. */
static struct treadle_desc every(struct treadle_desc d, const struct cntr *c, __u64 first,
				 __u64 step)
{
	d = when(d, c, first);
	d.flags &= ~TREADLE_F_COMPLETION;
	d.flags |= REPEATS;
	d.value = step;
	return d;
}

/* The command also rests until @c reaches @threshold, and so on. */
static struct treadle_desc rested(struct treadle_desc d, const struct cntr *c, __u64 threshold)
{
	d.rest = c->id;
	d.rest_threshold = threshold;
	return d;
}

static const struct treadle_desc nothing = {.opcode = TREADLE_OP_NOP};

/* Once for each threshold that the counter has passed, even in one step. */
TEST_F(trigger, as_often_as_the_counter_says)
{
	struct node *a = &self->a;
	struct treadle_desc d = count_of(TREADLE_OP_CNTR_ADD, &self->e, 10, 1);

	ASSERT_EQ(1, post(a, then(every(nothing, &self->c, 3, 2), &self->d)));
	ASSERT_EQ(1, post(a, every(d, &self->c, 5, 5)));
	ASSERT_EQ(1, add(a, &self->c, 2));
	EXPECT_EQ(0, cntr_value(&self->d));
	ASSERT_EQ(1, add(a, &self->c, 1));
	EXPECT_TRUE(cntr_becomes(&self->d, 1, 0));
	ASSERT_EQ(1, add(a, &self->c, 1));
	EXPECT_EQ(1, cntr_value(&self->d));
	ASSERT_EQ(1, add(a, &self->c, 1000)); /* 1004: 3, 5, ... 1003 */
	EXPECT_TRUE(cntr_becomes(&self->d, 501, 0));
	EXPECT_TRUE(cntr_becomes(&self->e, 2000, 0));
	EXPECT_EQ(-EBUSY, destroy(a->fd, self->c.id));
	EXPECT_EQ(-EBUSY, destroy(a->fd, self->d.id));
	EXPECT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, self->c.id, 0, 0, NULL));
	EXPECT_EQ(0, destroy(a->fd, self->c.id));
	EXPECT_EQ(0, destroy(a->fd, self->d.id));
	EXPECT_EQ(0, destroy(a->fd, self->e.id));
}

TEST_F(trigger, sends_the_current_contents)
{
	struct node *a = &self->a, *b = &self->b;

	ASSERT_EQ(1, post(a, then(every(tsend_of(self->src, 5000, self->to, 9, 1), &self->c, 1, 1),
				  &self->d)));
	for (int i = 0; i < 50; i++) {
		const bool late = i % 3 == 2; /* the message waits, with its command or without */
		const size_t len = 5000;

		fill(self->src, len, i);
		if (!late)
			ASSERT_EQ(0, post_recv(b, trecv_of(self->dst, len, ANY, 9, 0, i)));
		ASSERT_EQ(1, add(a, &self->c, 1));
		if (late) {
			ASSERT_EQ(0, post_recv(b, trecv_of(self->dst, len, ANY, 9, 0, i)));
			if (ring_needs_doorbell(&b->rx))
				ring_doorbell(&b->rx);
		}
		ASSERT_EQ(i, cq_next(&b->rcq).context);
		ASSERT_TRUE(same(self->dst, len, i));
		ASSERT_TRUE(cntr_becomes(&self->d, i + 1, 0));
	}
	EXPECT_EQ(0, cntr_value(&a->sent));
}

TEST_F(trigger, receives_are_posted_again)
{
	struct node *a = &self->a, *b = &self->b;

	/* Fired by its own counter: one receive after the other, as messages come. */
	ASSERT_EQ(1, add(a, &self->d, 1));
	ASSERT_EQ(1,
		  post(a, then(every(recv_of(self->dst, 64, ANY, 1), &self->d, 1, 1), &self->d)));
	for (int i = 0; i < 100; i++) {
		fill(self->src, 64, i);
		ASSERT_EQ(1, post(b, send_of(self->src, i % 10 == 9 ? 100 : 64, self->back, i)));
		/* A truncated message is an error, and does not stop the repetition. */
		ASSERT_TRUE(cntr_becomes(&self->d, 1 + i + 1 - (i + 1) / 10, (i + 1) / 10));
		ASSERT_TRUE(same(self->dst, 64, i));
		ASSERT_EQ(i, cq_next(&b->cq).context);
	}
	EXPECT_EQ(0, cntr_value(&a->rcvd));
	EXPECT_EQ(0, cancel(a->fd, TREADLE_CANCEL_OP, a->ep, 1, 0, NULL));
	EXPECT_TRUE(cntr_becomes(&self->d, 91, 11));
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_OP, a->ep, 1, 0, NULL));
	EXPECT_EQ(0, destroy(a->fd, self->d.id));
}

TEST_F(trigger, atomics_take_their_operands_again)
{
	struct node *a = &self->a;
	__u64 *operand = (__u64 *)self->src, *target = (__u64 *)self->dst, *before = target + 1;
	struct treadle_desc d = {
		.opcode = TREADLE_OP_FETCH,
		.iov_count = 1,
		.addr = (unsigned long)operand,
		.len = 8,
		.remote_addr = (unsigned long)target,
		.flags = TREADLE_F_EXT | TREADLE_F_LOCAL,
		.atomic_op = TREADLE_ATOMIC_SUM,
		.datatype = TREADLE_UINT64,
		.result = (unsigned long)before,
	};

	ASSERT_EQ(1, post(a, then(every(d, &self->c, 1, 1), &self->d)));
	for (__u64 i = 1, sum = 0; i <= 30; sum += i++) {
		*operand = i;
		/* Sometimes the page has to be swapped in first. */
		if (i % 5 == 0)
			madvise(self->src, PAGE, MADV_PAGEOUT);
		ASSERT_EQ(1, add(a, &self->c, 1));
		ASSERT_TRUE(cntr_becomes(&self->d, i, 0));
		ASSERT_EQ(sum + i, *target);
		ASSERT_EQ(sum, *before);
	}
}

/* Both counters are needed: c for the next round, d for the end of the last one. */
TEST_F(trigger, rests_until_another_counter_says)
{
	struct node *a = &self->a;
	struct treadle_desc d = rested(every(nothing, &self->c, 1, 1), &self->d, 1);

	ASSERT_EQ(1, post(a, then(d, &self->e)));
	ASSERT_EQ(1, add(a, &self->c, 3));
	EXPECT_TRUE(cntr_becomes(&self->e, 1, 0));
	ASSERT_EQ(1, add(a, &self->d, 1));
	EXPECT_TRUE(cntr_becomes(&self->e, 2, 0));
	ASSERT_EQ(1, add(a, &self->d, 5));
	EXPECT_TRUE(cntr_becomes(&self->e, 3, 0));
	ASSERT_EQ(1, add(a, &self->c, 1));
	EXPECT_TRUE(cntr_becomes(&self->e, 4, 0));
	ASSERT_EQ(1, add(a, &self->c, 100));
	EXPECT_TRUE(cntr_becomes(&self->e, 7, 0)); /* d is 6 */
	EXPECT_EQ(-EBUSY, destroy(a->fd, self->d.id));
	EXPECT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, self->d.id, 0, 0, NULL));
	EXPECT_EQ(0, destroy(a->fd, self->c.id));
	EXPECT_EQ(0, destroy(a->fd, self->d.id));
}

/* A ring of two commands that fire each other, counted by a third. */
// conformance: triggers.rst: bad input: commands that repeat: a circle without end, taken off and
//   killed
TEST_F(trigger, chains_go_round_until_they_are_flushed)
{
	struct node *a = &self->a;

	ASSERT_EQ(1, post(a, then(every(nothing, &self->c, 1, 1), &self->d)));
	ASSERT_EQ(1, post(a, then(every(nothing, &self->d, 1, 1), &self->c)));
	ASSERT_EQ(1, add(a, &self->c, 1));
	ASSERT_EQ(0, cntr_wait(&self->c, 100000, 0, -1));
	/* Other commands go on meanwhile. */
	ASSERT_EQ(0, post_recv(&self->b, recv_of(self->dst, 8, ANY, 1)));
	ASSERT_EQ(1, post(a, send_of(self->src, 8, self->to, 2)));
	EXPECT_EQ(1, cq_next(&self->b.rcq).context);
	EXPECT_EQ(2, cq_next(&a->cq).context);
	/* A command under way is armed again, but then waits for the other one, which is gone. */
	while (destroy(a->fd, self->c.id) == -EBUSY) {
		ASSERT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, self->c.id, 0, 0, NULL));
		ASSERT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, self->d.id, 0, 0, NULL));
	}
	EXPECT_EQ(0, destroy(a->fd, self->d.id));
}

/* Beyond 2^64 the next threshold is below the value: the command runs until it is flushed. */
TEST_F(trigger, thresholds_wrap)
{
	struct node *a = &self->a;

	ASSERT_EQ(1, post(a, then(every(nothing, &self->c, -2, 1ULL << 62), &self->d)));
	ASSERT_EQ(1, post(a, count_of(TREADLE_OP_CNTR_SET, &self->c, -2, 0)));
	ASSERT_EQ(0, cntr_wait(&self->d, 100000, 0, -1));
	while (destroy(a->fd, self->c.id) == -EBUSY)
		ASSERT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, self->c.id, 0, 0, NULL));
	EXPECT_EQ(0, destroy(a->fd, self->d.id));
}

static void goes_round(void *arg)
{
	struct node n;
	struct cntr c;

	node_open(&n, (struct options){});
	cntr_open(&c, n.fd);
	need(post(&n, then(every(nothing, &c, 1, 1), &c)) == 1);
	need(add(&n, &c, 1) == 1);
	need(cntr_wait(&c, 1000, 0, -1) == 0);
	raise_to(arg, 1);
	pause();
}

// conformance: triggers.rst: bad input: commands that repeat: a circle without end, taken off ...
TEST(a_process_that_goes_round_is_killed)
{
	int *ready = shared(sizeof(*ready));
	pid_t pid = spawn(goes_round, ready);

	await(ready, 1);
	kill(pid, SIGKILL);
	EXPECT_EQ(-SIGKILL, reap(pid));
	until_unused();
}

/* While its last message is under way, and after that. */
TEST_F(trigger, goes_with_its_endpoint)
{
	struct node *a = &self->a;

	for (int waits = 0; waits < 2; waits++) {
		struct node n;
		struct cntr c, d;

		node_open(&n, (struct options){.context = a->fd});
		peer(&n, self->b.addr);
		cntr_open(&c, a->fd);
		cntr_open(&d, a->fd);
		ASSERT_EQ(1, post(&n, then(every(send_of(self->src, 8192, 0, 1), &c, 1, 1), &d)));
		ASSERT_EQ(1, post(&n, then(every(recv_of(self->dst, 64, ANY, 2), &c, 1, 1), &d)));
		if (waits)
			ASSERT_EQ(1, add(a, &c, 1));
		EXPECT_EQ(0, destroy(a->fd, n.ep));
		EXPECT_EQ(0, cntr_value(&d));
		EXPECT_EQ(0, destroy(a->fd, c.id));
		EXPECT_EQ(0, destroy(a->fd, d.id));
		EXPECT_EQ(0, destroy(a->fd, n.tx.id));
		EXPECT_EQ(0, destroy(a->fd, n.rx.id));
	}
}

/* Each round would fail once the connection is over. */
TEST_F(trigger, goes_with_its_connection)
{
	struct pair p;
	struct cntr c, d;

	for (int which = 0; which < 2; which++) {
		struct node *n;

		pair_open(&p);
		n = which ? &p.server : &p.client;
		cntr_open(&c, n->fd);
		cntr_open(&d, n->fd);
		ASSERT_EQ(1, post(n, then(every(send_of(self->src, 8, 0, 1), &c, 1, 1), &d)));
		ASSERT_EQ(1, add(n, &c, 2));
		EXPECT_TRUE(cntr_becomes(&d, 2, 0));
		EXPECT_EQ(-EBUSY, destroy(n->fd, c.id));
		ASSERT_EQ(0, hang_up(p.client.fd, p.client.ep));
		ASSERT_EQ(1, add(n, &c, 2)); /* and not once more */
		EXPECT_TRUE(cntr_becomes(&d, 2, 1));
		EXPECT_EQ(0, destroy(n->fd, c.id));
		EXPECT_EQ(0, destroy(n->fd, d.id));
		node_close(&p.client);
		node_close(&p.server);
		listener_close(&p.l);
	}
}

struct crowd {
	const struct cntr *c;
	int fd;
};

#define ADDS 2000

static void *adds(void *arg)
{
	struct crowd *crowd = arg;
	struct node n = {.fd = crowd->fd};

	tx_open(&n.tx, crowd->fd, 64);
	for (int i = 0; i < ADDS; i++)
		need(add(&n, crowd->c, 1) == 1);
	return NULL;
}

/* Exactly once for each addition, from any process. */
TEST_F(trigger, in_a_crowd)
{
	struct crowd crowd = {.c = &self->c, .fd = self->a.fd};
	pthread_t threads[4];

	for (int i = 0; i < 3; i++)
		ASSERT_EQ(1, post(&self->a, then(every(nothing, &self->c, 1, i + 1), &self->d)));
	for (int i = 0; i < 4; i++)
		threads[i] = thread(adds, &crowd);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	EXPECT_TRUE(cntr_becomes(&self->d, 4 * ADDS + 2 * ADDS + (4 * ADDS + 2) / 3, 0));
}

struct storm {
	struct node n;
	struct cntr c, d;
	char *buf;
	bool over;
};

static void *flushes(void *arg)
{
	struct storm *s = arg;
	__u64 luck = 1;

	while (!__atomic_load_n(&s->over, __ATOMIC_RELAXED)) {
		const __u32 kind = lottery(&luck) % 3;

		if (kind == TREADLE_CANCEL_OP)
			cancel(s->n.fd, kind, s->n.ep, lottery(&luck) % 4, 0, NULL);
		else
			cancel(s->n.fd, TREADLE_FLUSH_WORK, kind == 1 ? s->c.id : s->d.id, 0, 0,
			       NULL);
		sched_yield();
	}
	return NULL;
}

static void *posts(void *arg)
{
	struct storm *s = arg;
	struct node n = {.fd = s->n.fd};
	__u64 luck = 2;

	tx_open(&n.tx, n.fd, 256);
	while (!__atomic_load_n(&s->over, __ATOMIC_RELAXED)) {
		const __u32 context = lottery(&luck) % 4;
		struct treadle_desc d[] = {nothing, send_of(s->buf, 8 << context, 0, context),
					   recv_of(s->buf + 4096, 100000, ANY, context),
					   count_of(TREADLE_OP_CNTR_ADD, &s->d, 1, context)};
		struct treadle_desc it =
			every(d[lottery(&luck) % 4], &s->c, cntr_value(&s->c) + lottery(&luck) % 8,
			      1 + lottery(&luck) % 4);

		if (it.opcode == TREADLE_OP_SEND || it.opcode == TREADLE_OP_RECV)
			it.ep = s->n.ep;
		if (it.opcode != TREADLE_OP_CNTR_ADD)
			it = then(it, lottery(&luck) % 2 ? &s->c : &s->d);
		if (lottery(&luck) % 4 == 0)
			it = rested(it, &s->d, cntr_value(&s->d) + 1);
		post(&n, it);
	}
	return NULL;
}

/*
 * Repeating commands feed each other and are flushed at the same time; one sends to itself what it
 * receives. At the end nothing holds the counters.
 */
// conformance: triggers.rst: bad input: commands that repeat: a circle without end, taken off ...
TEST_F(trigger, in_a_storm)
{
	struct storm s = {.buf = self->src};
	const __u64 end = now_ns() + 2000000000;
	pthread_t threads[2];

	node_open(&s.n, (struct options){.tx = 256});
	peer(&s.n, s.n.addr);
	cntr_open(&s.c, s.n.fd);
	cntr_open(&s.d, s.n.fd);
	threads[0] = thread(flushes, &s);
	threads[1] = thread(posts, &s);
	while (now_ns() < end)
		need(add(&s.n, &s.c, 1) == 1);
	__atomic_store_n(&s.over, true, __ATOMIC_RELAXED);
	pthread_join(threads[1], NULL);
	pthread_join(threads[0], NULL);
	EXPECT_EQ(0, destroy(s.n.fd, s.n.ep));
	for (const struct cntr *c = &s.c; c; c = c == &s.c ? &s.d : NULL) {
		while (destroy(s.n.fd, c->id) == -EBUSY) {
			cancel(s.n.fd, TREADLE_FLUSH_WORK, s.c.id, 0, 0, NULL);
			cancel(s.n.fd, TREADLE_FLUSH_WORK, s.d.id, 0, 0, NULL);
		}
	}
}

// conformance: ioctl.h: EINVAL: a malformed descriptor
TEST_F(trigger, invalid_combinations)
{
	struct node *a = &self->a;
	const struct treadle_desc good = every(send_of(self->src, 8, self->to, 1), &self->c, 1, 1);
	struct treadle_desc d;
	__u64 count;

	for (int i = 0; i < 8; i++) {
		d = good;
		switch (i) {
		case 0:
			d.flags &= ~TREADLE_F_WORK;
			break;
		case 1:
			d.flags |= TREADLE_F_COMPLETION;
			break;
		case 2:
			d.flags |= TREADLE_F_INJECT;
			break;
		case 3:
			d.value = 0;
			break;
		case 4:
			d.rest_threshold = 1;
			break;
		case 5:
			d.reserved1 = 1;
			break;
		case 6:
			d = tsend_of(self->src, 8, self->to, 1, 1);
			d = every(d, &self->c, 1, 1);
			d.flags |= TREADLE_F_COLLECTIVE;
			break;
		case 7:
			d.flags &= ~(TREADLE_F_REPEAT | TREADLE_F_WORK);
			break; /* then the value has no meaning */
		}
		EXPECT_EQ(-EINVAL, post(a, d));
	}
	d = every(recv_of(self->dst, 64, ANY, 2), &self->c, 1, 1);
	d.flags |= TREADLE_F_MULTI_RECV;
	EXPECT_EQ(-EINVAL, post(a, d));
	d = every(trecv_of(self->dst, 64, ANY, 1, 0, 2), &self->c, 1, 1);
	d.flags |= TREADLE_F_CLAIM;
	EXPECT_EQ(-EINVAL, post(a, d));
	d = good;
	d.flags &= ~TREADLE_F_COND_CNTR;
	d.cond = d.threshold = 0;
	EXPECT_EQ(-EINVAL, post(a, d));
	d = good;
	d.rest = 0x7fffffff;
	EXPECT_EQ(-ENOENT, post(a, d));
	d.rest = a->ep;
	EXPECT_EQ(-EBADF, post(a, d));
	EXPECT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, 0, 0, 0, &count));
	EXPECT_EQ(0, count);
	EXPECT_EQ(0, destroy(a->fd, self->c.id));
}

TEST_HARNESS_MAIN
