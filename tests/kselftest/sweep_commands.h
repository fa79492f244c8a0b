/* SPDX-License-Identifier: GPL-2.0 */
/* The sweep of sweep.h through commands, each from one endpoint of a couple to the other. */
#ifndef TREADLE_KSELFTEST_SWEEP_COMMANDS_H
#define TREADLE_KSELFTEST_SWEEP_COMMANDS_H

#include "sweep_couple.h"

#include <treadle/atomic.h>

/*
 * A command with a failing point is refused by the doorbell, or taken. If taken it completes, with
 * success or with a clean error: it is neither lost nor duplicated.
 */
#define RECEIVED (1U << 0) /* a receive takes it */
#define LATE	 (1U << 1) /* the receive is posted when the message waits */
#define BY_TAG	 (1U << 2) /* the receive has a tag */
#define OF_GROUP (1U << 3) /* and is collective */
#define VECTOR	 (1U << 4) /* from two buffers */
/* with data for a completion of the target, without a receive if it is a write */
#define DATA	(1U << 5)
#define BEHIND	(1U << 6)  /* has to wait for a message that waits at the target */
#define CROWDED (1U << 7)  /* the queues of both ends are full */
#define STORED	(1U << 8)  /* waits for a store into a cell */
#define TELLS	(1U << 9)  /* with a counter of its own */
#define REPEATS (1U << 10) /* without a completion */
#define FETCHED (1U << 11) /* its result is in this process's memory */

struct command_kind {
	const char *name;
	struct treadle_desc (*make)(struct couple *l, size_t len);
	__u32 traits, flags; /* and flags of the descriptor */
	size_t least, most;
	enum ends ends;
};

static struct treadle_desc message(struct couple *l, size_t len)
{
	return send_of(l->out, len, l->to, 7);
}

static struct treadle_desc tagged(struct couple *l, size_t len)
{
	return tsend_of(l->out, len, l->to, 5, 7);
}

static struct treadle_desc writes(struct couple *l, size_t len)
{
	return write_of(l->out, len, l->to, 0, l->key, 7);
}

static struct treadle_desc reads(struct couple *l, size_t len)
{
	return read_of(l->out, len, l->to, 0, l->key, 7);
}

static struct treadle_desc changes(struct couple *l, size_t len)
{
	struct treadle_desc d = writes(l, len);

	d.opcode = TREADLE_OP_ATOMIC;
	d.flags |= TREADLE_F_EXT;
	d.atomic_op = TREADLE_ATOMIC_WRITE;
	d.datatype = TREADLE_UINT8;
	return d;
}

static struct treadle_desc fetches(struct couple *l, size_t len)
{
	struct treadle_desc d = changes(l, len);

	d.opcode = TREADLE_OP_FETCH;
	d.result = (unsigned long)l->zero + ROOM / 2;
	return d;
}

static struct treadle_desc compares(struct couple *l, size_t len)
{
	struct treadle_desc d = fetches(l, len);

	d.opcode = TREADLE_OP_COMPARE;
	d.atomic_op = TREADLE_ATOMIC_CSWAP;
	d.compare = (unsigned long)l->zero;
	return d;
}

/* The same on this process's own memory. */
static struct treadle_desc at_home(struct couple *l, struct treadle_desc d)
{
	d.flags |= TREADLE_F_LOCAL;
	d.peer = d.remote_key = 0;
	d.remote_addr = (unsigned long)l->in;
	return d;
}

static struct treadle_desc changes_own(struct couple *l, size_t len)
{
	return at_home(l, changes(l, len));
}

static struct treadle_desc fetches_own(struct couple *l, size_t len)
{
	return at_home(l, fetches(l, len));
}

static struct treadle_desc compares_own(struct couple *l, size_t len)
{
	return at_home(l, compares(l, len));
}

static struct treadle_desc armed(struct couple *l, size_t len)
{
	return when(message(l, len), &l->c, 0);
}

static struct treadle_desc armed_write(struct couple *l, size_t len)
{
	return when(writes(l, len), &l->c, 0);
}

static struct treadle_desc armed_fetch(struct couple *l, size_t len)
{
	return when(fetches(l, len), &l->c, 0);
}

static struct treadle_desc stored(struct couple *l, size_t len)
{
	return once(message(l, len), &l->cells, 0, 1);
}

static struct treadle_desc stored_write(struct couple *l, size_t len)
{
	return once(writes(l, len), &l->cells, 0, 1);
}

static struct treadle_desc stored_compare(struct couple *l, size_t len)
{
	return once(compares(l, len), &l->cells, 0, 1);
}

static struct treadle_desc telling(struct couple *l, size_t len)
{
	return then(message(l, len), &l->told);
}

/* Repeats whenever the counter grows by one. */
static struct treadle_desc repeating(struct couple *l, size_t len)
{
	struct treadle_desc d = when(telling(l, len), &l->c, 1);

	d.flags &= ~TREADLE_F_COMPLETION;
	d.flags |= TREADLE_F_REPEAT | TREADLE_F_WORK;
	d.value = 1;
	return d;
}

#define SHORT	   TREADLE_MAX_ATOMIC
#define LONG	   300000
#define ANY_LENGTH (ROOM / 2 + ROOM / 4) /* the longest is left to a worker */

/* clang-format off */
static const size_t lengths[] = {0, 8, 4000, 300000, 1100000};

static const struct command_kind kinds[] = {
	{"send",		message,	RECEIVED, .most = ANY_LENGTH},
	{"waiting send",	message,	RECEIVED | LATE, .most = LONG},
	{"injected send",	message,	RECEIVED | LATE, TREADLE_F_INJECT, 1, SHORT},
	{"tagged send",		tagged,		RECEIVED | BY_TAG, .most = LONG},
	{"send of two buffers",	message,	RECEIVED | VECTOR, .least = 1, .most = ANY_LENGTH},
	{"send with data",	message,	RECEIVED | DATA, TREADLE_F_REMOTE_CQ_DATA,
		.most = LONG},
	{"write",		writes,		.most = ANY_LENGTH},
	{"injected write",	writes,		0, TREADLE_F_INJECT, 1, SHORT},
	{"write with data",	writes,		DATA, TREADLE_F_REMOTE_CQ_DATA, .most = ANY_LENGTH},
	{"read",		reads,		FETCHED, .most = ANY_LENGTH},
	{"atomic",		changes,	.least = 1, .most = SHORT},
	{"injected atomic",	changes,	0, TREADLE_F_INJECT, 1, SHORT},
	{"fetch",		fetches,	.least = 1, .most = SHORT},
	{"compare",		compares,	.least = 1, .most = SHORT},
	{"local atomic",	changes_own,	.least = 1, .most = SHORT},
	{"local fetch",		fetches_own,	.least = 1, .most = SHORT},
	{"local compare",	compares_own,	.least = 1, .most = SHORT},
	{"armed send",		armed,		RECEIVED, .most = LONG},
	{"armed write",		armed_write,	.most = LONG},
	{"armed injected write", armed_write,	0, TREADLE_F_INJECT, 1, SHORT},
	{"armed fetch",		armed_fetch,	.least = 1, .most = SHORT},
	{"collective send",	tagged,		RECEIVED | BY_TAG | OF_GROUP, TREADLE_F_COLLECTIVE,
		.most = LONG},
	{"send after a store",	stored,		RECEIVED | STORED, .most = LONG},
	{"write after a store",	stored_write,	STORED, .most = LONG},
	{"compare after a store", stored_compare, STORED, .least = 1, .most = SHORT},
	{"send that is counted", telling,	RECEIVED | TELLS, .most = LONG},
	{"send that repeats",	repeating,	RECEIVED | REPEATS, .most = ANY_LENGTH},
	{"fenced send",		message,	RECEIVED | BEHIND, TREADLE_F_FENCE, .most = LONG},
	{"fenced injected send", message,	RECEIVED | BEHIND,
		TREADLE_F_FENCE | TREADLE_F_INJECT, 1, SHORT},
	{"fenced send of two buffers", message,	RECEIVED | BEHIND | VECTOR, TREADLE_F_FENCE, 1,
		LONG},
	{"fenced write",	writes,		BEHIND, TREADLE_F_FENCE, .most = LONG},
	{"fenced fetch",	fetches,	BEHIND, TREADLE_F_FENCE, 1, SHORT},
	{"send, queues full",	message,	RECEIVED | CROWDED, .most = LONG},
	{"waiting send, queues full", message,	RECEIVED | LATE | CROWDED, .most = SHORT},
	{"write with data, queues full", writes, DATA | CROWDED, TREADLE_F_REMOTE_CQ_DATA,
		.most = LONG},
	{"fetch, queues full",	fetches,	CROWDED, .least = 1, .most = SHORT},

	{"datagram",		message,	RECEIVED, .most = SHORT, .ends = DGRAM},
	{"waiting datagram",	message,	RECEIVED | LATE, .most = SHORT, .ends = DGRAM},
	{"injected datagram",	message,	RECEIVED | LATE, TREADLE_F_INJECT, 1, SHORT, DGRAM},
	{"tagged datagram",	tagged,		RECEIVED | BY_TAG, .most = SHORT, .ends = DGRAM},

	{"send of a pair",	message,	RECEIVED, .most = ANY_LENGTH, .ends = MSG},
	{"waiting send of a pair", message,	RECEIVED | LATE, .most = LONG, .ends = MSG},
	{"tagged send of a pair", tagged,	RECEIVED | BY_TAG, .most = LONG, .ends = MSG},
	{"send with data of a pair", message,	RECEIVED | DATA, TREADLE_F_REMOTE_CQ_DATA,
		.most = LONG, .ends = MSG},
	{"fenced send of a pair", message,	RECEIVED | BEHIND, TREADLE_F_FENCE, .most = LONG,
		.ends = MSG},
	{"write of a pair",	writes,		.most = LONG, .ends = MSG},
	{"write with data of a pair", writes,	DATA, TREADLE_F_REMOTE_CQ_DATA, .most = LONG,
		.ends = MSG},
	{"fetch of a pair",	fetches,	.least = 1, .most = SHORT, .ends = MSG},

	{"send to a shared ring", message,	RECEIVED, .most = ANY_LENGTH, .ends = SHARED},
	{"waiting send to a shared ring", message, RECEIVED | LATE, .most = LONG, .ends = SHARED},
	{"tagged send to a shared ring", tagged, RECEIVED | BY_TAG, .most = LONG, .ends = SHARED},
	{"send to a shared ring, queues full", message, RECEIVED | CROWDED, .most = LONG,
		.ends = SHARED},
};
/* clang-format on */

static struct treadle_desc command(struct couple *l, const struct command_kind *k, size_t len)
{
	struct treadle_desc d = k->make(l, len);

	d.flags |= k->flags;
	d.data = k->traits & DATA ? 77 : 0;
	return d;
}

/* The way to ring the doorbell. A vector has the same bytes as one buffer. */
static int (*rings)(const struct ring *r) = ring_doorbell;

static int put(struct couple *l, const struct command_kind *k, struct treadle_desc d)
{
	struct treadle_iov iov[] = {{d.addr, d.len / 2}, {d.addr + d.len / 2, d.len - d.len / 2}};

	if (k->traits & VECTOR) {
		d = vector(d, iov, 2);
		ring_put_vector(&l->a.tx, &d, iov);
	} else {
		ring_wait(&l->a.tx, 1);
		ring_put(&l->a.tx, &d);
		ring_publish(&l->a.tx);
	}
	return rings(&l->a.tx);
}

static void post_receive(struct couple *l, const struct command_kind *k)
{
	struct treadle_desc r = recv_of(l->in, ROOM, ANY, 9);

	if (k->traits & BY_TAG)
		r = trecv_of(l->in, ROOM, is_connected(l) ? ANY : l->back, 5, 0, 9);
	if (k->traits & OF_GROUP) { /* posted to the transmit ring */
		r.flags |= TREADLE_F_COLLECTIVE;
		need(post(&l->b, r) == 1);
	} else {
		need(post_recv(&l->b, r) == 0);
	}
}

/* --- a message before the command ------------------------------------------------------- */

/* Sends a message that waits until let_go() posts its receive, and waits until it has arrived. */
static void put_before(struct couple *l)
{
	struct treadle_desc d = tsend_of(l->zero, 8, l->to, 6, 6);
	__u64 end = now_ns() + PATIENCE_NS;

	d.flags |= TREADLE_F_DELIVERY_COMPLETE;
	need(post(&l->a, d) == 1);
	while (!ring_needs_doorbell(&l->b.rx))
		need(now_ns() < end);
}

static void let_go(struct couple *l)
{
	struct treadle_desc r = trecv_of(l->zero + ROOM / 4, 8, ANY, 6, 0, 8);
	int result = post_recv(&l->b, r);

	if (result) {
		need(is_clean(result));
		need(post_recv(&l->b, r) == 0);
	}
}

/* --- results of a command --------------------------------------------------------------- */

/*
 * The command's completion. The message before it completes first, unless there was no memory to
 * keep it waiting.
 */
static struct treadle_cqe completion(struct couple *l, bool behind)
{
	struct treadle_cqe c[2] = {next_of(&l->a.cq)};

	if (!behind)
		return c[0];
	c[1] = next_of(&l->a.cq);
	if (c[0].context == 7) {
		need(c[0].error);
		return c[0];
	}
	need(c[0].context == 6 && (!c[0].error || is_clean_completion(-(int)c[0].error)));
	return c[1];
}

/* The target's next completion, except for that of the message before. */
static struct treadle_cqe peer_completion(struct couple *l)
{
	struct treadle_cqe c;

	do
		c = next_of(&l->b.rcq);
	while (c.context == 8);
	return c;
}

/* Was the datagram dropped? It would be visible by now, unless a worker has to match it. */
static bool is_dropped(struct couple *l)
{
	__u64 end = now_ns() + 100000000;

	while (!ring_needs_doorbell(&l->b.rx) && !completed(&l->b.rcq))
		if (now_ns() > end)
			return true;
	return false;
}

/* Repeats a command that had no effect. Its receive may have failed with it. */
static void once_more(struct couple *l, const struct command_kind *k, struct treadle_desc d)
{
	struct treadle_cqe c;

	if (k->traits & RECEIVED)
		post_receive(l, k);
	need(put(l, k, d) == 1);
	cell_write(&l->cells, 0, 1);
	c = next_of(&l->a.cq);
	need(c.context == 7 && c.error == 0);
}

static void is_received(struct couple *l, const struct command_kind *k, size_t len,
			struct treadle_cqe c)
{
	need(c.error == 0 && c.len == len);
	need(c.context == (k->traits & RECEIVED ? 9 : 0));
	if (k->traits & DATA)
		need((c.flags & TREADLE_CQ_REMOTE_CQ_DATA) && c.data == 77);
}

/*
 * Returns 0, or the errno of the doorbell or of the completion. In both cases the command must work
 * when it is posted once more.
 */
static int outcome(struct couple *l, const struct command_kind *k, size_t len, int n, bool *failed)
{
	bool receive = k->traits & RECEIVED, late = k->traits & LATE, behind = k->traits & BEHIND;
	bool crowded = k->traits & CROWDED, lossy = l->ends == DGRAM, lost = false;
	struct treadle_desc d = command(l, k, len);
	struct treadle_cqe c;
	int result;

	if (crowded)
		crowd_queues(l);
	if (behind)
		put_before(l);
	if (receive && !late)
		post_receive(l, k);
	fail_nth(n);
	result = put(l, k, d);
	if (result == 1 && (k->traits & STORED))
		cell_write(&l->cells, 0, 1);
	if (result == 1 && behind)
		let_go(l);
	if (result == 1 && (!late || lossy))
		until_completed(&l->a.cq, 1 + behind, crowded);
	*failed = has_failed();
	if (result != 1 && behind) {
		let_go(l);
		need(next_of(&l->a.cq).context == 6);
	}
	if (lossy && *failed && result == 1)
		lost = is_dropped(l);
	if (late)
		post_receive(l, k);
	if (result == 1) {
		c = completion(l, behind);
		need(c.context == 7);
		result = -(int)c.error;
		if (k->traits & TELLS)
			need(cntr_becomes(&l->told, !result, !!result));
	}
	if (result || lost)
		once_more(l, k, d);
	if (receive || (k->traits & DATA)) {
		c = peer_completion(l);
		if (c.error) { /* the sender of a datagram gets no error */
			need(*failed && (result || lossy) && is_clean_completion(-(int)c.error));
			if (!result && !lost)
				once_more(l, k, d);
			c = peer_completion(l);
		}
		is_received(l, k, len, c);
	}
	if (behind && completed(&l->b.rcq))
		need(next_of(&l->b.rcq).context == 8);
	while (crowded && completed(&l->b.rcq)) /* the target's fillers */
		need(cq_next(&l->b.rcq).context == FILLER);
	need(cq_empty(&l->a.cq) && cq_empty(&l->b.rcq));
	return result;
}

/*
 * Posts until the doorbell takes it, as several tries in a row may fail. Returns the first result.
 */
static int put_until_taken(struct couple *l, const struct command_kind *k, struct treadle_desc d)
{
	int first = put(l, k, d), result = first;

	for (int tries = 0; result != 1; tries++) {
		need(is_clean(result) && tries < 4);
		result = put(l, k, d);
	}
	return first;
}

/* Adds one to the counter that fires the command. Returns 0, or -EIO if an error was counted. */
static int goes_once(struct couple *l, const struct command_kind *k, __u64 times)
{
	struct treadle_desc add = count_of(TREADLE_OP_CNTR_ADD, &l->c, 1, 0);
	__u64 end = now_ns() + PATIENCE_NS, errors = cntr_errors(&l->told);

	put_until_taken(l, k, add);
	while (cntr_value(&l->told) + cntr_errors(&l->told) < times && now_ns() < end)
		sched_yield();
	need(cntr_value(&l->told) + cntr_errors(&l->told) == times);
	return cntr_errors(&l->told) > errors ? -EIO : 0;
}

/* The command fires twice, and may fail the first time. Afterwards it is still armed, once. */
static int outcome_of_repeating(struct couple *l, const struct command_kind *k, size_t len, int n,
				bool *failed)
{
	struct treadle_desc d = command(l, k, len);
	struct treadle_cqe c;
	__u64 count;
	int result, went;

	post_receive(l, k);
	fail_nth(n);
	result = put_until_taken(l, k, d);
	went = goes_once(l, k, 1);
	*failed = has_failed();
	result = result == 1 ? went : result;
	if (!went)
		is_received(l, k, len, peer_completion(l));
	post_receive(l, k);
	need(goes_once(l, k, 2) == 0);
	c = peer_completion(l);
	if (c.error) {
		need(went && is_clean_completion(-(int)c.error));
		c = peer_completion(l);
	}
	is_received(l, k, len, c);
	need(cancel(l->a.fd, TREADLE_CANCEL_WORK, l->c.id, 7, 3, &count) == 0 && count == 1);
	need(cq_empty(&l->a.cq) && cq_empty(&l->b.rcq));
	return result;
}

FIXTURE(commands)
{
	int points, failures;
};

FIXTURE_SETUP(commands)
{
	rings = ring_doorbell;
}

FIXTURE_TEARDOWN(commands) {}

/* A kind of command with a length, each point failing in turn. */
static void sweep_command(struct __test_metadata *_metadata, FIXTURE_DATA(commands) * self,
			  const struct command_kind *k, size_t len)
{
	bool failed = true;
	int n = 0;

	while (failed) {
		struct couple l;
		int result;

		couple_open(&l, k->ends, k->traits & CROWDED);
		fill(k->traits & FETCHED ? l.in : l.out, len, n);
		about("%s, %zu bytes, failing at %d", k->name, len, ++n);
		result = (k->traits & REPEATS ? outcome_of_repeating : outcome)(&l, k, len, n,
										&failed);
		self->failures += !!result;
		EXPECT_TRUE(!result || is_clean_completion(result))
		{
			TH_LOG("result %d", result);
		}
		EXPECT_TRUE(same(k->traits & FETCHED ? l.out : l.in, len, n - 1));
		ASSERT_GT(1000, n);
		couple_close(&l);
	}
	self->points += n - 1;
}

static void sweep_commands(struct __test_metadata *_metadata, FIXTURE_DATA(commands) * self,
			   size_t longest)
{
	long long had = live();

	for (int kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
		const struct command_kind *k = &kinds[kind];
		int before = self->points;

		for (int i = 0; i < ARRAY_SIZE(lengths); i++)
			if (lengths[i] >= k->least && lengths[i] <= k->most &&
			    lengths[i] <= longest)
				sweep_command(_metadata, self, k, lengths[i]);
		about("%s", k->name);
		EXPECT_LT(before, self->points);
		EXPECT_TRUE(all_given_back(had))
		{
			TH_LOG("%lld more", live() - had);
		}
	}
	note("%d kinds: %d points of failure, of which %d were noticed", (int)ARRAY_SIZE(kinds),
	     self->points, self->failures);
	EXPECT_LT(0, self->failures);
}

// conformance: ioctl.h: ENOMEM: no memory
TEST_F(commands, each_fails_cleanly_wherever_it_fails)
{
	sweep_commands(_metadata, self, ANY_LENGTH);
}

#endif
