/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: statistics of objects (stats.c)
 *
 * Words for each CPU, so that counting needs no lock. Each type of objects counts a range of enum
 * treadle_stat. Each context has all of them: for what belongs to no object, and for the sums of
 * objects that have ended.
 */
#ifndef TREADLE_STATS_H
#define TREADLE_STATS_H

#include <linux/atomic.h>
#include <linux/percpu.h>
#include <linux/types.h>

#include <treadle/ring.h>

#define TREADLE_STAT_OPS    TREADLE_OP_LAST
#define TREADLE_STAT_SPACES 3  /* kinds of messages: plain, tagged, collective */
#define TREADLE_STAT_RMA    5  /* opcodes from READ on */
#define TREADLE_STAT_ERRNOS 26 /* the last one: all others */

/* Collective sends count at the place of an opcode that has no endpoint. */
#define TREADLE_STAT_COLLECTIVE TREADLE_OP_CNTR_SET

enum treadle_stat {
	/*
	 * endpoints. OUT: by opcode, what the endpoint has begun. SENT: by space, more of the same.
	 * IN: by space, what it received
	 */
	TREADLE_STAT_OUT,
	TREADLE_STAT_OUT_BYTES = TREADLE_STAT_OUT + TREADLE_STAT_OPS,
	TREADLE_STAT_SENT = TREADLE_STAT_OUT_BYTES + TREADLE_STAT_OPS,
	TREADLE_STAT_SENT_BYTES = TREADLE_STAT_SENT + TREADLE_STAT_SPACES,
	TREADLE_STAT_IN = TREADLE_STAT_SENT_BYTES + TREADLE_STAT_SPACES,
	TREADLE_STAT_IN_BYTES = TREADLE_STAT_IN + TREADLE_STAT_SPACES,
	TREADLE_STAT_UNEXPECTED = TREADLE_STAT_IN_BYTES + TREADLE_STAT_SPACES,
	TREADLE_STAT_KEPT,
	TREADLE_STAT_PARKED,
	TREADLE_STAT_ARMED,
	TREADLE_STAT_FIRED,
	TREADLE_STAT_CANCELED,
	TREADLE_STAT_LATE,
	TREADLE_STAT_WORKER,
	TREADLE_STAT_REMOTE,
	TREADLE_STAT_REMOTE_RMA, /* also in REMOTE */
	TREADLE_STAT_ERRORS,
	TREADLE_STAT_EP_END = TREADLE_STAT_ERRORS + TREADLE_STAT_ERRNOS,
	/* regions: by opcode, what peers have done there */
	TREADLE_STAT_MR = TREADLE_STAT_EP_END,
	TREADLE_STAT_MR_BYTES = TREADLE_STAT_MR + TREADLE_STAT_RMA,
	TREADLE_STAT_MR_END = TREADLE_STAT_MR_BYTES + TREADLE_STAT_RMA,
	/* transmit rings */
	TREADLE_STAT_DOORBELLS = TREADLE_STAT_MR_END,
	TREADLE_STAT_COMMANDS,
	TREADLE_STAT_RETRIED,
	TREADLE_STAT_TX_END,
	/* contexts only */
	TREADLE_STAT_WORKER_NS = TREADLE_STAT_TX_END,
	TREADLE_STATS
};

/*
 * struct treadle_stats - the statistics of an object or a context
 * @n:		words from @first to @end - 1, for each CPU, or NULL
 * @own:	instead: the same words, written under a lock of the object; or NULL
 * @folded:	what the sums of its context have of them already; private to treadle_stats_fold()
 */
struct treadle_stats {
	u64 __percpu *n;
	u64 *own;
	u64 *folded;
	u16 first, end;
};

/*
 * struct treadle_sums - statistics of a context, with what has ended in it
 * @begun, @done:	number of objects that have begun to move from the table to the sums, and of
 *			those that have moved: see treadle_sums_settled()
 */
struct treadle_sums {
	struct treadle_stats stats;
	atomic_t begun, done;
};

struct net;
struct treadle_ctx;
struct treadle_obj;

/* What follows moves from the table to the sums. Pairs with treadle_sums_settled(). */
static inline void treadle_sums_begin(struct treadle_sums *sums)
{
	atomic_inc(&sums->begun);
	smp_mb__after_atomic();
}

static inline void treadle_sums_end(struct treadle_sums *sums)
{
	smp_mb__before_atomic();
	atomic_inc(&sums->done);
}

/* A walk begins. */
static inline int treadle_sums_read(const struct treadle_sums *sums)
{
	int done = atomic_read(&sums->done);

	smp_rmb(); /* pairs with treadle_sums_end() */
	return done;
}

/* Has nothing moved since treadle_sums_read() has returned @done? */
static inline bool treadle_sums_settled(const struct treadle_sums *sums, int done)
{
	smp_rmb(); /* pairs with treadle_sums_begin() */
	return atomic_read(&sums->begun) == done;
}

/* Count @n, if @s counts that. Any context. */
static inline void treadle_stat_add(const struct treadle_stats *s, u32 stat, u64 n)
{
	if (s->n && stat >= s->first && stat < s->end)
		this_cpu_add(s->n[stat - s->first], n);
}

int treadle_stats_init(struct treadle_stats *s, u32 first, u32 end, u64 *own);
void treadle_stats_free(struct treadle_stats *s);
void treadle_stats_fold(struct treadle_stats *s, const struct treadle_stats *sums);
void treadle_stats_sum(const struct treadle_stats *s, u64 *sum);
void treadle_stat_error(const struct treadle_stats *s, int error);
int treadle_stat_errno(unsigned int i);

/* census.c */
int treadle_census_init(void);
void treadle_census_exit(void);
int treadle_census_add(struct treadle_ctx *ctx);
void treadle_census_remove(struct treadle_ctx *ctx);
struct treadle_ctx *treadle_census_next(struct net *net, u32 id);
void treadle_ctx_sum(struct treadle_ctx *ctx, u64 *sum);
u32 treadle_net_sum(struct net *net, bool all,
		    bool (*sees)(const void *reader, struct treadle_ctx *), const void *reader,
		    u64 *sum);

#endif
