// SPDX-License-Identifier: GPL-2.0
/* treadle: what was counted: collected from objects, and put into netlink attributes */
#include <linux/sched/signal.h>
#include <net/netlink.h>

#include <treadle/netlink.h>

#include "dev/counters.h"
#include "exec/command.h"

/**
 * treadle_count_endpoint() - what an endpoint has counted, and its transmit ring if it has its own
 * @ep:		held
 * @counted:	set
 *
 * Context: any.
 */
void treadle_count_endpoint(struct treadle_ep *ep, struct treadle_counted *counted)
{
	memset(counted, 0, sizeof(*counted));
	treadle_stats_sum(&ep->obj.stats, counted->n);
	counted->parked_now = READ_ONCE(ep->nr_parked);
	counted->parked_most = READ_ONCE(ep->most_parked);
	if (smp_load_acquire(&ep->enabled) && ep->tx &&
	    !ep->tx->shared) /* pairs with ep_enable() */
		treadle_stats_sum(&ep->tx->obj.stats, counted->n);
}

/**
 * treadle_count_region() - what peers have done to a region
 * @mr:		held
 * @counted:	set
 *
 * Context: any.
 */
void treadle_count_region(struct treadle_obj *mr, struct treadle_counted *counted)
{
	memset(counted, 0, sizeof(*counted));
	treadle_stats_sum(&mr->stats, counted->n);
}

/* Add what waits in a context now, and its endpoints. May sleep. */
static void count_now(struct treadle_ctx *ctx, struct treadle_counted *counted)
{
	struct treadle_obj *obj;
	unsigned long id;

	counted->armed_now += atomic_read(&ctx->armed);
	xa_for_each(&ctx->objs, id, obj) {
		const struct treadle_ep *ep;

		obj = treadle_obj_get(ctx, id, TREADLE_EP);
		if (IS_ERR(obj))
			continue;
		ep = container_of(obj, struct treadle_ep, obj);
		counted->parked_now += READ_ONCE(ep->nr_parked);
		counted->parked_most = max_t(u64, counted->parked_most, READ_ONCE(ep->most_parked));
		counted->endpoints++;
		treadle_obj_put(obj);
		cond_resched();
	}
}

/**
 * treadle_count_context() - what a context has counted, with its objects that have ended
 * @ctx:	held
 * @counted:	set
 *
 * Context: may sleep.
 */
void treadle_count_context(struct treadle_ctx *ctx, struct treadle_counted *counted)
{
	memset(counted, 0, sizeof(*counted));
	treadle_ctx_sum(ctx, counted->n);
	count_now(ctx, counted);
}

/**
 * treadle_count_net() - what the contexts of a network namespace have counted, and what waits now
 * @net:	the namespace
 * @all:	with those that have ended
 * @sees:	which contexts count
 * @reader:	for @sees
 * @counted:	set
 *
 * Context: may sleep.
 * Return: the number of contexts.
 */
u32 treadle_count_net(struct net *net, bool all,
		      bool (*sees)(const void *reader, struct treadle_ctx *ctx), const void *reader,
		      struct treadle_counted *counted)
{
	struct treadle_ctx *ctx;
	u32 id, n;

	memset(counted, 0, sizeof(*counted));
	n = treadle_net_sum(net, all, sees, reader, counted->n);
	for (id = 0; (ctx = treadle_census_next(net, id)); treadle_ctx_put(ctx)) {
		id = ctx->number + 1;
		if (!fatal_signal_pending(current) && !READ_ONCE(ctx->dead) && sees(reader, ctx))
			count_now(ctx, counted);
	}
	return n;
}

/* --- attributes ----------------------------------------------------------------------------- */

static int put(struct sk_buff *skb, int attr, u64 n)
{
	return n ? nla_put_u64_64bit(skb, attr, n, TREADLE_A_COUNTERS_PAD) : 0;
}

static int put_traffic(struct sk_buff *skb, enum treadle_kind kind,
		       enum treadle_direction direction, u64 messages, u64 bytes)
{
	struct nlattr *nest;

	if (!messages)
		return 0;
	nest = nla_nest_start(skb, TREADLE_A_COUNTERS_TRAFFIC);
	if (!nest || nla_put_u32(skb, TREADLE_A_TRAFFIC_KIND, kind) ||
	    nla_put_u32(skb, TREADLE_A_TRAFFIC_DIRECTION, direction) ||
	    nla_put_u64_64bit(skb, TREADLE_A_TRAFFIC_MESSAGES, messages, TREADLE_A_TRAFFIC_PAD) ||
	    nla_put_u64_64bit(skb, TREADLE_A_TRAFFIC_BYTES, bytes, TREADLE_A_TRAFFIC_PAD))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

/*
 * A row: messages are the sum of @count words from @stat on, and the word @more (0: none); bytes
 * likewise.
 */
static const struct traffic {
	u8 kind, direction, stat, bytes, count, more, more_bytes;
} traffic[] = {
#define OUT(op)	    TREADLE_STAT_OUT + (op), TREADLE_STAT_OUT_BYTES + (op)
#define SENT(space) TREADLE_STAT_SENT + (space), TREADLE_STAT_SENT_BYTES + (space)
#define IN(space)   TREADLE_STAT_IN + (space), TREADLE_STAT_IN_BYTES + (space)
#define MR(op)	    TREADLE_STAT_MR + MR_OP(op), TREADLE_STAT_MR_BYTES + MR_OP(op)
#define MR_OP(op)   ((op)-TREADLE_OP_READ)
	{ TREADLE_KIND_MESSAGE, TREADLE_DIRECTION_OUT, OUT(TREADLE_OP_SEND), 1, SENT(0) },
	{ TREADLE_KIND_TAGGED, TREADLE_DIRECTION_OUT, OUT(TREADLE_OP_TSEND), 1, SENT(1) },
	{ TREADLE_KIND_COLLECTIVE, TREADLE_DIRECTION_OUT, OUT(TREADLE_STAT_COLLECTIVE), 1,
	  SENT(2) },
	{ TREADLE_KIND_READ, TREADLE_DIRECTION_OUT, OUT(TREADLE_OP_READ), 1 },
	{ TREADLE_KIND_WRITE, TREADLE_DIRECTION_OUT, OUT(TREADLE_OP_WRITE), 1 },
	{ TREADLE_KIND_ATOMIC, TREADLE_DIRECTION_OUT, OUT(TREADLE_OP_ATOMIC), 3 },
	{ TREADLE_KIND_MESSAGE, TREADLE_DIRECTION_IN, IN(0), 1 },
	{ TREADLE_KIND_TAGGED, TREADLE_DIRECTION_IN, IN(1), 1 },
	{ TREADLE_KIND_COLLECTIVE, TREADLE_DIRECTION_IN, IN(2), 1 },
	{ TREADLE_KIND_READ, TREADLE_DIRECTION_IN, MR(TREADLE_OP_READ), 1 },
	{ TREADLE_KIND_WRITE, TREADLE_DIRECTION_IN, MR(TREADLE_OP_WRITE), 1 },
	{ TREADLE_KIND_ATOMIC, TREADLE_DIRECTION_IN, MR(TREADLE_OP_ATOMIC), 3 },
};

static u64 sum(const u64 *n, unsigned int count)
{
	u64 all = 0;

	while (count--)
		all += n[count];
	return all;
}

static int put_failures(struct sk_buff *skb, const u64 *n)
{
	unsigned int i;

	for (i = 0; i < TREADLE_STAT_ERRNOS; i++) {
		struct nlattr *nest;

		if (!n[i])
			continue;
		nest = nla_nest_start(skb, TREADLE_A_COUNTERS_FAILURE);
		if (!nest || nla_put_u32(skb, TREADLE_A_FAILURE_ERRNO, treadle_stat_errno(i)) ||
		    nla_put_u64_64bit(skb, TREADLE_A_FAILURE_COUNT, n[i], TREADLE_A_FAILURE_PAD))
			return -EMSGSIZE;
		nla_nest_end(skb, nest);
	}
	return 0;
}

/* Words that are attributes as they are. */
static const struct plain {
	u8 attr, stat;
} plain[] = {
	{ TREADLE_A_COUNTERS_DOORBELLS, TREADLE_STAT_DOORBELLS },
	{ TREADLE_A_COUNTERS_COMMANDS, TREADLE_STAT_COMMANDS },
	{ TREADLE_A_COUNTERS_UNEXPECTED, TREADLE_STAT_UNEXPECTED },
	{ TREADLE_A_COUNTERS_KEPT, TREADLE_STAT_KEPT },
	{ TREADLE_A_COUNTERS_PARKED, TREADLE_STAT_PARKED },
	{ TREADLE_A_COUNTERS_RETRIED, TREADLE_STAT_RETRIED },
	{ TREADLE_A_COUNTERS_ARMED, TREADLE_STAT_ARMED },
	{ TREADLE_A_COUNTERS_FIRED, TREADLE_STAT_FIRED },
	{ TREADLE_A_COUNTERS_CANCELED, TREADLE_STAT_CANCELED },
	{ TREADLE_A_COUNTERS_LATE_PAGES, TREADLE_STAT_LATE },
	{ TREADLE_A_COUNTERS_COPIES_WORKER, TREADLE_STAT_WORKER },
	{ TREADLE_A_COUNTERS_REMOTE, TREADLE_STAT_REMOTE },
	{ TREADLE_A_COUNTERS_WORKER_NS, TREADLE_STAT_WORKER_NS },
};

/* Counters that follow from others, so that no word is counted for each message. */
static int put_rest(struct sk_buff *skb, const struct treadle_counted *counted)
{
	const u64 *n = counted->n;
	u64 rma = sum(&n[TREADLE_STAT_OUT + TREADLE_OP_READ], TREADLE_STAT_RMA);
	u64 out = rma + sum(&n[TREADLE_STAT_SENT], TREADLE_STAT_SPACES) +
		  n[TREADLE_STAT_OUT + TREADLE_OP_SEND] + n[TREADLE_STAT_OUT + TREADLE_OP_TSEND] +
		  n[TREADLE_STAT_OUT + TREADLE_STAT_COLLECTIVE];
	u64 copies = rma + sum(&n[TREADLE_STAT_IN], TREADLE_STAT_SPACES);
	u64 others = n[TREADLE_STAT_WORKER] + n[TREADLE_STAT_REMOTE_RMA];

	/* the words are read one after the other: a difference may be negative */
	return put(skb, TREADLE_A_COUNTERS_LOCAL, out - min(out, n[TREADLE_STAT_REMOTE]))	?:
		       put(skb, TREADLE_A_COUNTERS_COPIES_CALLER, copies - min(copies, others)) ?:
		       put(skb, TREADLE_A_COUNTERS_PARKED_NOW, counted->parked_now)		?:
		       put(skb, TREADLE_A_COUNTERS_PARKED_MOST, counted->parked_most)		?:
		       put(skb, TREADLE_A_COUNTERS_ARMED_NOW, counted->armed_now);
}

/**
 * treadle_put_counters() - put counters into a message
 * @skb:	the message
 * @attr:	the attribute, a nest of TREADLE_A_COUNTERS_*
 * @counted:	what to put; zeroes are left out
 *
 * Context: any.
 * Return: 0, or -EMSGSIZE: no room; the caller takes the whole message back.
 */
int treadle_put_counters(struct sk_buff *skb, int attr, const struct treadle_counted *counted)
{
	struct nlattr *nest = nla_nest_start(skb, attr);
	const u64 *n = counted->n;
	int ret = nest ? 0 : -EMSGSIZE;
	int i;

	for (i = 0; i < ARRAY_SIZE(traffic) && !ret; i++) {
		const struct traffic *t = &traffic[i];

		ret = put_traffic(skb, t->kind, t->direction,
				  sum(&n[t->stat], t->count) + (t->more ? n[t->more] : 0),
				  sum(&n[t->bytes], t->count) + (t->more ? n[t->more_bytes] : 0));
	}
	ret = ret ?: put_failures(skb, &n[TREADLE_STAT_ERRORS]);
	for (i = 0; i < ARRAY_SIZE(plain) && !ret; i++)
		ret = put(skb, plain[i].attr, n[plain[i].stat]);
	ret = ret ?: put_rest(skb, counted);
	if (!ret)
		nla_nest_end(skb, nest);
	return ret;
}
