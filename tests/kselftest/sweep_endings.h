/* SPDX-License-Identifier: GPL-2.0 */
/* The sweep of sweep.h through calls that cancel, or end, waiting operations. */
#ifndef TREADLE_KSELFTEST_SWEEP_ENDINGS_H
#define TREADLE_KSELFTEST_SWEEP_ENDINGS_H

#include "sweep_commands.h"

/* --- operations that wait ------------------------------------------------------------ */

static void posts_receive(struct couple *l)
{
	need(post_recv(&l->b, trecv_of(l->in, ROOM, ANY, 5, 0, 9)) == 0);
}

static void arms_receive(struct couple *l)
{
	struct cntr c;

	cntr_open(&c, l->b.fd);
	need(post(&l->b, when(trecv_of(l->in, ROOM, ANY, 5, 0, 9), &c, 3)) == 1);
	munmap((void *)c.page, PAGE);
}

/* A send that waits at the target. */
static void sends(struct couple *l)
{
	struct treadle_desc d = tsend_of(l->out, LONG, l->to, 6, 7);

	d.flags |= TREADLE_F_DELIVERY_COMPLETE;
	need(post(&l->a, d) == 1);
}

/* A send that waits behind one that does not complete. */
static void sends_fenced(struct couple *l)
{
	struct treadle_desc d = message(l, 8);

	put_before(l);
	d.flags |= TREADLE_F_FENCE;
	need(post(&l->a, d) == 1);
}

static void sends_armed(struct couple *l)
{
	need(post(&l->a, when(message(l, LONG), &l->c, 3)) == 1);
}

static void sends_stored(struct couple *l)
{
	need(post(&l->a, stored(l, LONG)) == 1);
}

static void works(struct couple *l)
{
	struct treadle_desc d = when(message(l, 8), &l->c, 3);

	d.flags |= TREADLE_F_WORK;
	need(post(&l->a, d) == 1);
}

static void works_repeatedly(struct couple *l)
{
	struct treadle_desc d = repeating(l, 8);

	d.threshold = 3;
	need(post(&l->a, d) == 1);
}

static void sends_and_posts(struct couple *l)
{
	sends(l);
	posts_receive(l);
}

/* A write through the region, so that the pagemap knows its pages. */
static void has_written(struct couple *l)
{
	need(post(&l->a, writes(l, 8)) == 1 && cq_next(&l->a.cq).error == 0);
}

/* Commands that waited for a counter, and for a store, and have run. */
static void has_fired(struct couple *l)
{
	struct treadle_desc add = count_of(TREADLE_OP_CNTR_ADD, &l->c, 1, 0);

	need(post(&l->a, when(nop(7), &l->c, 1)) == 1);
	need(post(&l->a, once(nop(7), &l->cells, 0, 1)) == 1);
	need(post(&l->a, add) == 1);
	cell_write(&l->cells, 0, 1);
	need(cq_next(&l->a.cq).error == 0 && cq_next(&l->a.cq).error == 0);
}

static void follows_cell(struct couple *l)
{
	need(post(&l->a, follow(&l->c, &l->cells, 2, 0)) == 1);
	need(post(&l->a, when(count_of(TREADLE_OP_CNTR_ADD, &l->a.sent, 1, 0), &l->c, 1)) == 1);
	cell_write(&l->cells, 2, 1);
}

static void has_a_copy(struct couple *l)
{
	need(copy_to(&l->c, &l->cells, 4) == 0);
}

/* --- calls that end them ------------------------------------------------------------- */

static int cancel_receive(struct couple *l)
{
	return cancel(l->b.fd, TREADLE_CANCEL_OP, l->b.ep, 9, 0, NULL);
}

static int cancel_send(struct couple *l)
{
	return cancel(l->a.fd, TREADLE_CANCEL_OP, l->a.ep, 7, 0, NULL);
}

static int cancel_work(struct couple *l)
{
	return cancel(l->a.fd, TREADLE_CANCEL_WORK, l->c.id, 7, 3, NULL);
}

static int cancel_following(struct couple *l)
{
	return unfollow(&l->cells, 2);
}

static int end_copy(struct couple *l)
{
	return copy_to(&l->c, NULL, 0);
}

static int flush(struct couple *l)
{
	return cancel(l->a.fd, TREADLE_FLUSH_WORK, l->c.id, 0, 0, NULL);
}

static int flush_all(struct couple *l)
{
	return cancel(l->a.fd, TREADLE_FLUSH_WORK, 0, 0, 0, NULL);
}

static int sender_hangs_up(struct couple *l)
{
	return hang_up(l->a.fd, l->a.ep);
}

static int receiver_hangs_up(struct couple *l)
{
	return hang_up(l->b.fd, l->b.ep);
}

static int sender_closes(struct couple *l)
{
	return destroy(l->a.fd, l->a.ep);
}

static int receiver_closes(struct couple *l)
{
	return destroy(l->b.fd, l->b.ep);
}

static int close_counter(struct couple *l)
{
	return destroy(l->a.fd, l->c.id);
}

static int close_cells(struct couple *l)
{
	return destroy(l->a.fd, l->cells.id);
}

static int close_region(struct couple *l)
{
	return destroy(l->b.fd, l->region);
}

/* clang-format off */
static const struct ending {
	const char *name;
	void (*begin)(struct couple *l);
	int (*end)(struct couple *l);
	/* the result if the first call had ended it, and failed nevertheless */
	int again;
	__u32 sender, receiver;	/* errors of the completions; 0: no completion */
	bool stays;		/* both ends are usable afterwards */
	enum ends ends;
} endings[] = {
	{"cancel of a receive", posts_receive,	cancel_receive,	-ENOENT, 0, ECANCELED, true},
	{"cancel of an armed receive", arms_receive, cancel_receive, -ENOENT, 0, ECANCELED, true},
	{"cancel of a send", sends,		cancel_send,	-ENOENT, ECANCELED, 0, true},
	{"cancel of a fenced send",	sends_fenced,	cancel_send,	-ENOENT, ECANCELED, 0},
	{"cancel of an armed send", sends_armed, cancel_send, -ENOENT, ECANCELED, 0, true},
	{"cancel of a send after a store", sends_stored, cancel_send, -ENOENT, ECANCELED, 0, true},
	{"cancel of work",		works,		cancel_work,	-ENOENT, 0, 0, true},
	{"cancel of work that repeats",	works_repeatedly, cancel_work,	-ENOENT, 0, 0, true},
	{"cancel of work that follows",	follows_cell,	cancel_following, -ENOENT, 0, 0, true},
	{"end of a copy",		has_a_copy,	end_copy,	-ENOENT, 0, 0, true},
	{"closed counter with a copy",	has_a_copy,	close_counter,	0, 0, 0, true},
	{"flush of a counter",		works_repeatedly, flush,	0, 0, 0, true},
	{"flush of all",		works,		flush_all,	0, 0, 0, true},
	{"closed sender",		sends_and_posts, sender_closes, 0, 0, 0},
	{"closed sender, armed",	sends_armed,	sender_closes,	0, 0, 0},
	{"closed sender, fenced",	sends_fenced,	sender_closes,	0, 0, 0},
	{"closed receiver",		sends_and_posts, receiver_closes, 0, ECONNRESET, 0},
	{"closed receiver, fenced",	sends_fenced,	receiver_closes, 0, ECONNREFUSED, 0},
	{"closed counter",		has_fired,	close_counter,	0, 0, 0, true},
	{"closed cells",		has_fired,	close_cells,	0, 0, 0, true},
	{"closed region",		has_written,	close_region,	0, 0, 0, true},

	{"cancel of a send of a pair",	sends,		cancel_send,	-ENOENT, ECANCELED, 0, true,
		MSG},
	{"sender hangs up",		sends_and_posts, sender_hangs_up, -ENOTCONN, ECANCELED,
		ECANCELED, .ends = MSG},
	{"sender hangs up, armed",	sends_armed,	sender_hangs_up, -ENOTCONN, ECANCELED, 0,
		.ends = MSG},
	{"sender hangs up, fenced",	sends_fenced,	sender_hangs_up, -ENOTCONN, ECANCELED, 0,
		.ends = MSG},
	{"receiver hangs up",		sends_and_posts, receiver_hangs_up, -ENOTCONN, ECONNRESET,
		ECANCELED, .ends = MSG},
	{"receiver hangs up, armed",	arms_receive,	receiver_hangs_up, -ENOTCONN, 0, ECANCELED,
		.ends = MSG},
	{"sender of a pair closes",	sends_and_posts, sender_closes, 0, 0, ECANCELED,
		.ends = MSG},
	{"receiver of a pair closes",	sends_and_posts, receiver_closes, 0, ECONNRESET, 0,
		.ends = MSG},
	{"sender to a shared ring hangs up", sends_and_posts, sender_hangs_up, -ENOTCONN, ECANCELED,
		0, .ends = SHARED},
	{"receiver of a shared ring closes", sends_and_posts, receiver_closes, 0, ECONNRESET, 0,
		.ends = SHARED},
};
/* clang-format on */

/*
 * The ends are on two nodes: a cancel asks the other one, which may fail, and the operation with
 * it.
 */
static bool far;

/*
 * The operation has completed with @error, or not at all if that is 0. @failed: on two nodes it may
 * have been the operation.
 */
static bool ended(struct cq *q, __u64 context, __u32 error, bool failed)
{
	struct treadle_cqe c;

	if (!error)
		return cq_empty(q);
	do
		c = cq_next(q);
	while (c.context != context);
	return (c.error == error || (far && failed && is_clean_completion(-(int)c.error))) &&
	       cq_empty(q);
}

/* A message gets from end to end. */
static bool goes_on(struct couple *l, int seed)
{
	fill(l->out, 4000, seed);
	post_receive(l, &kinds[0]);
	need(post(&l->a, message(l, 4000)) == 1);
	return cq_next(&l->a.cq).error == 0 && cq_next(&l->b.rcq).error == 0 &&
	       same(l->in, 4000, seed);
}

static void sweep_ending(struct __test_metadata *_metadata, FIXTURE_DATA(commands) * self,
			 const struct ending *e)
{
	bool failed = true;
	int n = 0;

	while (failed) {
		struct couple l;
		int result;

		couple_open(&l, e->ends, false);
		e->begin(&l);
		about("%s, failing at %d", e->name, ++n);
		fail_nth(n);
		result = e->end(&l);
		if (e->sender && !result)
			until_completed(&l.a.cq, 1, false);
		if (e->receiver && !result)
			until_completed(&l.b.rcq, 1, false);
		failed = has_failed();
		EXPECT_TRUE(!result || (failed && is_clean(result)))
		{
			TH_LOG("result %d", result);
		}
		if (result) {
			self->failures++;
			result = e->end(&l);
			EXPECT_TRUE(!result || result == e->again)
			{
				TH_LOG("result %d of the next", result);
			}
		}
		EXPECT_TRUE(ended(&l.a.cq, 7, e->sender, failed));
		EXPECT_TRUE(ended(&l.b.rcq, 9, e->receiver, failed));
		EXPECT_TRUE(!e->stays || goes_on(&l, n));
		ASSERT_GT(1000, n);
		couple_close(&l);
	}
	EXPECT_LT(1, n);
	self->points += n - 1;
}

TEST_F(commands, each_that_waits_ends_cleanly_wherever_that_fails)
{
	long long had = live();

	for (int i = 0; i < ARRAY_SIZE(endings); i++) {
		sweep_ending(_metadata, self, &endings[i]);
		EXPECT_TRUE(all_given_back(had))
		{
			TH_LOG("%lld more", live() - had);
		}
	}
	note("%d kinds: %d points of failure, of which %d were noticed", (int)ARRAY_SIZE(endings),
	     self->points, self->failures);
}

#endif
