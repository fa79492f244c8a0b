// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: receives that take several messages
 *
 * fi_msg(3), FI_MULTI_RECV. Each message gets the next bytes of the buffer as a
 * part, which is a receive of its own, so that several can be copied at once. The
 * rest stays posted until less than the minimum is left, or it is canceled, or
 * nobody reads its completions: what they need is not to be had without end.
 *
 * The buffer is released after all of its parts have been told of. A part that is
 * the only one left says so itself (FI_MULTI_RECV); if the last ones finish side
 * by side, a completion of its own says so behind them.
 */
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "match/receive.h"

/* Cut off what @msg gets. False: that was the end of it. */
bool treadle_multi_cut(struct treadle_recv *multi, struct treadle_msg *msg)
{
	const struct treadle_cq *cq = msg->to->rx_cq;
	u64 len = min(msg->len, multi->one.len);
	u32 kept;

	msg->part.addr = multi->one.addr;
	msg->part.len = len;
	multi->one.addr += len;
	multi->one.len -= len;
	multi->parts++;
	kept = cq ? READ_ONCE(cq->kept) : 0;
	multi->over = multi->one.len < max_t(u64, multi->min, 1) ||
		      (kept && (kept > cq->mask || READ_ONCE(multi->rx->poor)));
	return !multi->over;
}

/*
 * What was cut off for @msg, at the expense of its receiver, or NULL: no memory. If it was had only beyond the limit, and
 * completions are kept, each buffer takes one more message, and that is all of them.
 */
struct treadle_recv *treadle_multi_part(struct treadle_msg *msg, const struct treadle_run *run)
{
	struct treadle_ctx *ctx = msg->to->obj.ctx;
	struct mem_cgroup *old = set_active_memcg(ctx->memcg);
	struct treadle_recv *multi = msg->recv, *part;
	struct treadle_rx *rx = multi->rx;

	part = kzalloc(sizeof(*part),
		       treadle_run_is_for(run, ctx) ? TREADLE_GFP : TREADLE_GFP_OTHER);
	if (unlikely(!part !=
		     rx->poor)) /* races are harmless: it is asked again with each message */
		WRITE_ONCE(rx->poor, !part);
	if (unlikely(!part))
		part = kzalloc(sizeof(*part), TREADLE_GFP_BEYOND) ?:
			       kzalloc(sizeof(*part), TREADLE_GFP);
	set_active_memcg(old);
	if (unlikely(!part))
		return NULL;
	part->rx = rx;
	part->context = multi->context;
	part->one = msg->part;
	part->flags = multi->flags & ~TREADLE_F_MULTI_RECV;
	part->iov_count = 1;
	part->space = multi->space;
	part->kind = TREADLE_RECV_PART;
	part->multi = multi;
	return part;
}

/* Nobody is in it any more, and nobody will be. */
static void multi_end(struct treadle_recv *multi, struct treadle_ep *ep, struct treadle_run *run)
{
	if (!multi->error) {
		/* the end is no message: it is told of at any rate, and not counted */
		if (multi->told)
			multi->flags &= ~TREADLE_F_COMPLETION;
		else if (!(multi->flags & TREADLE_F_WORK))
			multi->flags |= TREADLE_F_COMPLETION;
		multi->flags |= TREADLE_F_WORK;
	}
	treadle_rx_tell(multi, ep, multi->error, run);
}

static void multi_put(struct treadle_recv *multi, struct treadle_ep *ep, struct treadle_run *run)
{
	bool ended;

	spin_lock(&multi->rx->lock);
	ended = !--multi->parts && multi->over;
	spin_unlock(&multi->rx->lock);
	if (ended)
		multi_end(multi, ep, run);
}

/* The counter of the command gets the bytes as they come. At the end it gets none, or the error. */
static void count_part(const struct treadle_recv *multi, u64 len, struct treadle_run *run)
{
	struct treadle_cntr *notify = multi->cmd ? multi->cmd->notify : NULL;

	if (unlikely(notify && notify->bytes))
		treadle_cntr_count(notify, len, 0, run);
}

/* A message has been placed in its part, or could not be. False: its endpoint has closed, nobody has received it. */
bool treadle_multi_finish(struct treadle_msg *msg, int error, struct treadle_run *run)
{
	struct treadle_recv *part = msg->recv, *multi = part->multi;

	spin_lock(&multi->rx->lock);
	/* without a queue nobody would hear of it here: then the end is told where there is one */
	if (multi->over && multi->parts == 1 && !multi->error && !multi->told && msg->to->rx_cq &&
	    !READ_ONCE(msg->to->dead)) {
		multi->told = true;
		part->flags |= TREADLE_F_MULTI_RECV;
		if (!(part->flags & TREADLE_F_WORK))
			part->flags |= TREADLE_F_COMPLETION;
	}
	spin_unlock(&multi->rx->lock);
	if (treadle_recv_tell(part, msg->to, msg, error, run)) {
		if (!error)
			count_part(multi, msg->len, run);
		multi_put(multi, msg->to, run);
		return true;
	}
	/* others tell of the end, before which nobody looks, and which waits for this part */
	if (part->flags & TREADLE_F_MULTI_RECV)
		multi->told = false;
	treadle_multi_put_back(msg, run);
	return false;
}

/* What was cut off @multi for @msg is given back if it is still what comes next. */
void treadle_multi_uncut(struct treadle_msg *msg, struct treadle_recv *multi,
			 struct treadle_run *run)
{
	spin_lock(&multi->rx->lock);
	if (!multi->over && multi->one.addr == msg->part.addr + msg->part.len) {
		multi->one.addr -= msg->part.len;
		multi->one.len += msg->part.len;
	}
	spin_unlock(&multi->rx->lock);
	multi_put(multi, msg->to, run);
}

/* The message was not to be had. */
void treadle_multi_put_back(struct treadle_msg *msg, struct treadle_run *run)
{
	struct treadle_recv *part = msg->recv, *multi = part->multi;

	treadle_recv_free(part);
	treadle_multi_uncut(msg, multi, run);
}

/* Taken out of the matcher for good, with an error or silently. True: nobody is in it. */
bool treadle_multi_cancel(struct treadle_recv *multi, int error)
{
	multi->over = true;
	multi->error = error;
	multi->told = !error;
	return !multi->parts;
}

/* Nobody has heard of that. Under rx->lock. */
void treadle_multi_uncancel(struct treadle_recv *multi)
{
	multi->over = multi->told = false;
	multi->error = 0;
}
