/* SPDX-License-Identifier: GPL-2.0 */
/* The sweep of sweep.h through receives, peeks and claims. */
#ifndef TREADLE_KSELFTEST_SWEEP_RECEIVES_H
#define TREADLE_KSELFTEST_SWEEP_RECEIVES_H

#include "sweep_commands.h"

/*
 * A receive for a message that waits already. A failure is reported by a completion or by the
 * doorbell, and the receive posted once more. If the message failed, the receive waits for the next
 * one; if the receive failed, the next one works.
 */
enum { TAKES, TAKES_MANY, TAKES_BY_COMMAND, LOOKS, CLAIMS };

static const struct {
	const char *name;
	int kind;
	enum ends ends;
} receives[] = {
	{"receive", TAKES},
	{"receive of several", TAKES_MANY},
	{"receive by a command", TAKES_BY_COMMAND},
	{"look", LOOKS},
	{"claim", CLAIMS},
	{"receive of a datagram", TAKES, DGRAM},
	{"receive of several datagrams", TAKES_MANY, DGRAM},
	{"receive of a pair", TAKES, MSG},
	{"receive by a command of a pair", TAKES_BY_COMMAND, MSG},
	{"receive of several of a pair", TAKES_MANY, MSG},
	{"receive of a shared ring", TAKES, SHARED},
	{"receive of several of a shared ring", TAKES_MANY, SHARED},
};

/* The result of a receive, or of a peek, and of its message. */
struct meeting {
	int rung, receive, message; /* 0 or an errno */
	bool waits;		    /* the receive still waits, for another message */
	bool failed;		    /* the failing point was reached */
	char *at;
};

static void send_one(struct couple *l, int kind, size_t len, bool copied)
{
	struct treadle_desc d =
		kind < LOOKS ? send_of(l->out, len, l->to, 7) : tsend_of(l->out, len, l->to, 5, 7);

	d.flags |= copied ? 0 : TREADLE_F_DELIVERY_COMPLETE;
	need(post(&l->a, d) == 1);
	if (copied)
		need(cq_next(&l->a.cq).error == 0);
}

static struct treadle_desc look_for(struct couple *l, int kind)
{
	struct treadle_desc r = trecv_of(NULL, 0, ANY, 5, 0, 9);

	r.flags |= TREADLE_F_PEEK | (kind == CLAIMS ? TREADLE_F_CLAIM : 0);
	return r;
}

static struct treadle_desc take(struct couple *l, int kind)
{
	static const __u32 flags[] = {
		[TAKES_MANY] = TREADLE_F_MULTI_RECV,
		[TAKES_BY_COMMAND] = TREADLE_F_EXT,
		[CLAIMS] = TREADLE_F_CLAIM,
	};
	struct treadle_desc r =
		kind < LOOKS ? recv_of(l->in, ROOM, ANY, 9) : trecv_of(l->in, ROOM, ANY, 5, 0, 9);

	r.flags |= flags[kind];
	return r;
}

static bool has_error(const struct cq *q)
{
	return __atomic_load_n(&q->ro->prod, __ATOMIC_ACQUIRE) != q->cons &&
	       q->cqes[q->cons & (q->entries - 1)].error;
}

/* Peeks, claims and commands are posted to the transmit ring. */
static int post_receive_of(struct couple *l, struct treadle_desc r)
{
	int result;

	if (!(r.flags & (TREADLE_F_PEEK | TREADLE_F_CLAIM | TREADLE_F_EXT)))
		return post_recv(&l->b, r);
	result = post(&l->b, r);
	return result == 1 ? 0 : result;
}

/* Was there no memory to post a receive by a command? Then its completion names no buffer. */
static bool is_unposted(struct couple *l)
{
	const struct cq *q = &l->b.rcq;
	const struct treadle_cqe *c = &q->cqes[q->cons & (q->entries - 1)];

	return has_error(q) && c->error == ENOMEM && !c->buf;
}

/*
 * Posts @r with its @n-th point failing. Until that is over no other call is made, as it could fail
 * instead.
 */
static struct meeting meet(struct couple *l, const struct treadle_desc *r, bool told, int n)
{
	/* a peek or a claim has a result in any case, which may come after the sender's */
	bool ends = told || (r && r->flags & (TREADLE_F_PEEK | TREADLE_F_CLAIM));
	__u64 end = now_ns() + PATIENCE_NS;
	struct meeting m = {.waits = true};
	struct treadle_cqe c;

	fail_nth(n);
	m.rung = r ? post_receive_of(l, *r) : 0;
	if (m.rung < 0) {
		m.failed = has_failed();
		need(post_receive_of(l, *r) == 0);
	}
	while (cq_empty(&l->b.rcq) && (ends || !has_error(&l->a.cq)) && now_ns() < end)
		sched_yield();
	if (m.rung == 0)
		m.failed = has_failed();
	if (r && r->flags & (TREADLE_F_EXT | TREADLE_F_CLAIM) && !(r->flags & TREADLE_F_PEEK) &&
	    is_unposted(l)) {
		need(m.failed && cq_next(&l->b.rcq).context == 9);
		m.rung = -ENOMEM;
		need(post_receive_of(l, *r) == 0);
		while (cq_empty(&l->b.rcq) && now_ns() < end)
			sched_yield();
	}
	if (!told)
		m.message = -(int)cq_next(&l->a.cq).error;
	if (cq_poll(&l->b.rcq, &c)) {
		need(c.context == 9);
		m.receive = -(int)c.error;
		m.waits = r && (r->flags & TREADLE_F_MULTI_RECV) &&
			  !(c.flags & TREADLE_CQ_MULTI_RECV);
		m.at = (char *)c.buf;
	}
	need(!m.waits || m.receive || m.message || m.at);
	return m;
}

static bool is_well(struct meeting m)
{
	return !m.rung && !m.receive && !m.message && m.at;
}

/*
 * Sends, peeks, receives, with the @n-th point of the peek or of the receive failing; returns its
 * result.
 */
static struct meeting received(struct couple *l, int kind, size_t len, bool copied, int n)
{
	struct treadle_desc look = look_for(l, kind), r = take(l, kind);
	struct meeting m;

	send_one(l, kind, len, copied);
	if (kind == LOOKS) {
		m = meet(l, &look, true, n);
		need(!m.waits);
		m.at = meet(l, &r, copied, 0).at;
		return m;
	}
	if (kind == CLAIMS)
		need(meet(l, &look, true, 0).receive == 0);
	return meet(l, &r, copied, n);
}

static void sweep_receives(struct __test_metadata *_metadata, FIXTURE_DATA(commands) * self)
{
	static const size_t sizes[] = {8, 4000, 300000};
	long long had = live();

	for (int row = 0; row < ARRAY_SIZE(receives) * ARRAY_SIZE(sizes) * 2; row++) {
		int which = row / 2 / ARRAY_SIZE(sizes), kind = receives[which].kind, n = 0;
		size_t len = sizes[row / 2 % ARRAY_SIZE(sizes)];
		bool failed = true, copied = row % 2 && len < BUFFERED;

		if (receives[which].ends == DGRAM && !copied)
			continue;
		while (failed) {
			struct meeting m;
			struct couple l;

			couple_open(&l, receives[which].ends, false);
			fill(l.out, len, n);
			about("%s, %zu bytes, %s, failing at %d", receives[which].name, len,
			      copied ? "copied" : "parked", ++n);
			m = received(&l, kind, len, copied, n);
			failed = m.failed;
			EXPECT_TRUE(!m.rung || is_clean(m.rung));
			EXPECT_TRUE(!m.receive || is_clean_completion(m.receive));
			EXPECT_TRUE(!m.message || is_clean_completion(m.message));
			if (m.receive || m.message) {
				self->failures++;
				if (m.waits) {
					send_one(&l, kind, len, copied);
					m = meet(&l, NULL, copied, 0);
				} else {
					m = received(&l, kind, len, copied, 0);
				}
				EXPECT_TRUE(is_well(m));
			}
			ASSERT_NE(NULL, m.at);
			EXPECT_TRUE(same(m.at, len, n - 1));
			EXPECT_TRUE(cq_empty(&l.a.cq) && cq_empty(&l.b.rcq));
			ASSERT_GT(1000, n);
			couple_close(&l);
		}
		self->points += n - 1;
	}
	EXPECT_TRUE(all_given_back(had))
	{
		TH_LOG("%lld more", live() - had);
	}
	note("%d points of failure, of which %d were noticed", self->points, self->failures);
	/* A worker repeats most of them, or all. */
	EXPECT_LT(0, self->points);
}

TEST_F(commands, each_receive_fails_cleanly_wherever_it_fails)
{
	sweep_receives(_metadata, self);
}

/* --- repeating receives ---------------------------------------------------------------------- */

/* Posted whenever the counter grows by one, and reported only by another counter. */
static struct treadle_desc takes_again(struct couple *l)
{
	struct treadle_desc d = when(then(recv_of(l->in, ROOM, ANY, 9), &l->told), &l->c, 1);

	d.flags &= ~TREADLE_F_COMPLETION;
	d.flags |= TREADLE_F_REPEAT | TREADLE_F_WORK;
	d.value = 1;
	return d;
}

static void send_back(struct couple *l, size_t len)
{
	struct treadle_desc d = send_of(l->out, len, l->back, 7);

	d.flags |= TREADLE_F_DELIVERY_COMPLETE;
	need(post(&l->b, d) == 1);
}

static __u64 reported(const struct couple *l)
{
	return cntr_value(&l->told) + cntr_errors(&l->told);
}

/* Posts once more if the doorbell refused: nothing has changed then. */
static void post_or_once_more(struct couple *l, struct treadle_desc d)
{
	int result = post(&l->a, d);

	if (result == 1)
		return;
	need(is_clean(result));
	need(post(&l->a, d) == 1);
}

/*
 * Posts the receive for the @times-th time; a message waits for it. Returns the message's result, 0
 * or -errno. Until both sides are told no other call is made, as it could fail instead.
 */
static int is_taken(struct couple *l, __u64 times)
{
	__u64 end = now_ns() + PATIENCE_NS;

	post_or_once_more(l, count_of(TREADLE_OP_CNTR_ADD, &l->c, 1, 0));
	while ((!completed(&l->b.cq) || (reported(l) < times && !has_error(&l->b.cq))) &&
	       now_ns() < end)
		sched_yield();
	return -(int)cq_next(&l->b.cq).error;
}

/* The receive is posted twice, and may fail the first time. Afterwards it is still armed, once. */
static int outcome_of_taking_again(struct couple *l, size_t len, int n, bool *failed)
{
	__u64 count, errors, end = now_ns() + PATIENCE_NS;
	int message;

	send_back(l, len);
	fail_nth(n);
	post_or_once_more(l, takes_again(l));
	message = is_taken(l, 1);
	*failed = has_failed();
	need(!message || (*failed && is_clean_completion(message)));
	if (reported(l) == 0) { /* the message failed: the receive waits for the next one */
		need(message);
		send_back(l, len);
		need(cq_next(&l->b.cq).error == 0);
	}
	while (reported(l) < 1)
		need(now_ns() < end);
	errors = cntr_errors(&l->told);
	need(!errors || *failed);
	send_back(l, len);
	need(is_taken(l, 2) == 0 && cntr_becomes(&l->told, 2 - errors, errors));
	need(cancel(l->a.fd, TREADLE_CANCEL_WORK, l->c.id, 9, 3, &count) == 0 && count == 1);
	need(cq_empty(&l->b.cq) && cq_empty(&l->a.rcq) && cq_empty(&l->a.cq));
	return message || errors;
}

TEST_F(commands, a_receive_that_repeats_fails_cleanly_wherever_it_fails)
{
	static const size_t sizes[] = {8, 4000, 300000};
	static const enum ends ends[] = {RDM, MSG};
	long long had = live();

	for (int row = 0; row < ARRAY_SIZE(sizes) * ARRAY_SIZE(ends); row++) {
		size_t len = sizes[row / ARRAY_SIZE(ends)];
		bool failed = true;
		int n = 0;

		while (failed) {
			struct couple l;

			couple_open(&l, ends[row % ARRAY_SIZE(ends)], false);
			fill(l.out, len, n);
			about("%zu bytes, failing at %d", len, ++n);
			self->failures += outcome_of_taking_again(&l, len, n, &failed);
			EXPECT_TRUE(same(l.in, len, n - 1));
			ASSERT_GT(1000, n);
			couple_close(&l);
		}
		EXPECT_LT(1, n);
		self->points += n - 1;
	}
	EXPECT_TRUE(all_given_back(had))
	{
		TH_LOG("%lld more", live() - had);
	}
	note("%d points of failure, of which %d were noticed", self->points, self->failures);
}

#endif
