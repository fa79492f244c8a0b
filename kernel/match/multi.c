// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: receives that take several messages
 *
 * fi_msg(3), FI_MULTI_RECV. Each message gets the next bytes of the buffer as a part. A part is a
 * receive of its own, so that several can be copied at once. The rest stays posted until less than
 * the minimum is left, or until it is canceled. It also ends early when the process reads no
 * completions: parts and kept completions would need memory without end.
 *
 * The buffer is released after all of its parts were reported. If a part is the only one left, its
 * own completion releases the buffer (FI_MULTI_RECV). If the last parts finish at the same time, a
 * completion of the multi-receive follows and releases it.
 */
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "match/receive.h"

/**
 * treadle_multi_cut - cut the part for a message off a multi-receive
 * @multi:	the multi-receive, taken out of the matcher by its match
 * @msg:	the message; msg->part becomes the part
 *
 * Context: rx->lock of @multi held.
 * Return: true if the rest has to be posted again, false if it takes no more messages.
 */
bool treadle_multi_cut(struct treadle_recv *multi, struct treadle_msg *msg)
{
	const struct treadle_cq *cq = msg->to->rx_cq;
	u64 len = min(msg->len, multi->one.len);
	u32 kept;

	lockdep_assert_held(&multi->rx->lock);
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

/**
 * treadle_multi_part - allocate the part of a multi-receive that was cut for a message
 * @msg:	the message; msg->recv is the multi-receive
 * @run:	of the caller
 *
 * The context that receives is charged, beyond its limit if necessary. rx->poor notes that. While
 * completions are kept, too, each multi-receive takes one more message then, and ends:
 * treadle_multi_cut().
 *
 * Context: May sleep.
 * Return: the part, or NULL: no memory.
 */
struct treadle_recv *treadle_multi_part(struct treadle_msg *msg, const struct treadle_run *run)
{
	struct treadle_ctx *ctx = msg->to->obj.ctx;
	struct mem_cgroup *old = set_active_memcg(ctx->memcg);
	struct treadle_recv *multi = msg->recv, *part;
	struct treadle_rx *rx = multi->rx;

	part = kzalloc(sizeof(*part),
		       treadle_run_is_for(run, ctx) ? TREADLE_GFP : TREADLE_GFP_OTHER);
	/* races are harmless: each message sets it anew */
	if (unlikely(!part != rx->poor))
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

/* Report the end of @multi: no part is left, and none will be cut. */
static void multi_end(struct treadle_recv *multi, struct treadle_ep *ep, struct treadle_run *run)
{
	if (!multi->error) {
		/*
		 * The end is no message: it is always reported, unless a part did so, and not
		 * counted.
		 */
		if (multi->end_reported)
			multi->flags &= ~TREADLE_F_COMPLETION;
		else if (!(multi->flags & TREADLE_F_WORK))
			multi->flags |= TREADLE_F_COMPLETION;
		multi->flags |= TREADLE_F_WORK;
	}
	treadle_rx_notify(multi, ep, multi->error, run);
}

/*
 * A part has finished, or was never received. Whichever is the last ends @multi, which may be gone
 * afterwards. No spinlock held; takes rx->lock.
 */
static void multi_put(struct treadle_recv *multi, struct treadle_ep *ep, struct treadle_run *run)
{
	bool ended;

	spin_lock(&multi->rx->lock);
	ended = !--multi->parts && multi->over;
	spin_unlock(&multi->rx->lock);
	if (ended)
		multi_end(multi, ep, run);
}

/* Count the bytes of a part on the counter of the command. The end counts only an error. */
static void count_part(const struct treadle_recv *multi, u64 len, struct treadle_run *run)
{
	struct treadle_cntr *notify = multi->cmd ? multi->cmd->notify : NULL;

	if (unlikely(notify && notify->bytes))
		treadle_cntr_count(notify, len, 0, run);
}

/**
 * treadle_multi_finish - a message was copied into its part, or the copy has failed
 * @msg:	the message; msg->recv is the part
 * @error:	0, or why it has failed
 * @run:	takes what the completion fires
 *
 * Context: No spinlock held. Takes rx->lock, cq->lock.
 * Return: false if the endpoint of the message has closed: the message was not received, and the
 * part is gone.
 */
bool treadle_multi_finish(struct treadle_msg *msg, int error, struct treadle_run *run)
{
	struct treadle_recv *part = msg->recv, *multi = part->multi;

	spin_lock(&multi->rx->lock);
	/*
	 * An endpoint without a completion queue can't report the end: multi_end() finds one that
	 * can.
	 */
	if (multi->over && multi->parts == 1 && !multi->error && !multi->end_reported &&
	    msg->to->rx_cq && !READ_ONCE(msg->to->dead)) {
		multi->end_reported = true;
		part->flags |= TREADLE_F_MULTI_RECV;
		if (!(part->flags & TREADLE_F_WORK))
			part->flags |= TREADLE_F_COMPLETION;
	}
	spin_unlock(&multi->rx->lock);
	if (treadle_recv_notify(part, msg->to, msg, error, run)) {
		if (!error)
			count_part(multi, msg->len, run);
		multi_put(multi, msg->to, run);
		return true;
	}
	/* the end is still to be reported: multi_end() reads this once the part is put */
	if (part->flags & TREADLE_F_MULTI_RECV)
		multi->end_reported = false;
	treadle_multi_put_back(msg, run);
	return false;
}

/**
 * treadle_multi_uncut - undo treadle_multi_cut() for a message that was not received
 * @msg:	the message
 * @multi:	the multi-receive; may be gone afterwards
 * @run:	takes what the end of @multi fires
 *
 * Its bytes are free again if no other part was cut since; else they are lost.
 *
 * Context: No spinlock held. Takes rx->lock.
 */
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

/**
 * treadle_multi_put_back - free the part of a message that was not received
 * @msg:	the message; msg->recv is the part, and dangles afterwards
 * @run:	takes what the end of the multi-receive fires
 *
 * Context: No spinlock held. Takes rx->lock.
 */
void treadle_multi_put_back(struct treadle_msg *msg, struct treadle_run *run)
{
	struct treadle_recv *part = msg->recv, *multi = part->multi;

	treadle_recv_free(part);
	treadle_multi_uncut(msg, multi, run);
}

/**
 * treadle_multi_cancel - end a multi-receive that was taken out of the matcher
 * @multi:	the multi-receive
 * @error:	with which it completes; 0: without a completion
 *
 * Context: rx->lock of @multi held.
 * Return: true if no part is left, and the caller has to complete or free @multi; false if its
 * last part ends it.
 */
bool treadle_multi_cancel(struct treadle_recv *multi, int error)
{
	lockdep_assert_held(&multi->rx->lock);
	multi->over = true;
	multi->error = error;
	multi->end_reported = !error;
	return !multi->parts;
}

/**
 * treadle_multi_uncancel - undo treadle_multi_cancel(), which was not reported
 * @multi:	the multi-receive
 *
 * Context: rx->lock of @multi held.
 */
void treadle_multi_uncancel(struct treadle_recv *multi)
{
	lockdep_assert_held(&multi->rx->lock);
	multi->over = multi->end_reported = false;
	multi->error = 0;
}
