// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: unexpected messages, which find no posted receive
 *
 * A small message is copied, as long as the receiver's limit has room for it, and its send
 * completes then. Any other message waits as a reference to the sender's command: large messages,
 * those with DELIVERY_COMPLETE, those for which the limit has no room, and those behind such a one.
 * All wait in one queue, so messages of one sender match in the order of sending.
 */
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "match/take.h"
#include "path/path.h"

#define COPY_TRIES 32 /* of a run that has other jobs */
#define LOOKS	   16 /* of find_or_ask(), before the worker gets the ring */

/* Is a send complete once its message waits? Not if it waits with its command, for its receiver. */
static bool is_sent(const struct treadle_msg *msg)
{
	return msg->payload && !(msg->flags & TREADLE_F_DELIVERY_COMPLETE);
}

/*
 * Wait for the sender's bytes from @done on. The sender's doorbell waits as long as it takes, so
 * that its messages stay in order. A worker waits only if the commands behind this one wait, too.
 * Returns 0: try again; -EAGAIN: don't wait here.
 */
static int await_payload(struct treadle_cmd *cmd, u64 done, int tries, struct treadle_run *run)
{
	bool insists = treadle_run_insists(run, cmd->ep->obj.ctx);
	struct treadle_span src;
	int ret;

	if (!insists && (tries > COPY_TRIES || cmd->tracked != TREADLE_AWAITED))
		return -EAGAIN;
	treadle_cmd_span(cmd, &src, done);
	ret = treadle_span_fill(&src, cmd->d.len - done, false, run);
	return ret == -EAGAIN && insists ? 0 : ret;
}

/*
 * How the command of an unexpected message holds up the commands behind it. If the message was
 * small enough to be copied, but was not, messages behind it are not copied, either: else there
 * would be a gap if the sender's endpoint ends. A long message, or one with DELIVERY_COMPLETE,
 * waits for its receiver in any case.
 */
static enum treadle_track msg_track(const struct treadle_msg *m)
{
	return m->len <= TREADLE_EAGER && !(m->flags & TREADLE_F_DELIVERY_COMPLETE) ?
		       TREADLE_CROWDED :
		       TREADLE_FENCED;
}

/*
 * Allocate what is needed to keep @m. Without memory for a copy, or if it is @slow, it waits with
 * its command. Returns a message with one reference, which holds its target. NULL: no memory; of a
 * datagram also: the receiver has no room.
 */
static struct treadle_msg *msg_alloc(const struct treadle_msg *m, bool slow,
				     struct treadle_run *run)
{
	struct treadle_cmd *cmd = m->cmd;
	struct treadle_rx *rx = m->to->rx;
	bool inject = cmd->d.flags & TREADLE_F_INJECT;
	bool unconfirmed = inject || !(cmd->d.flags & TREADLE_F_DELIVERY_COMPLETE);
	bool copy = treadle_msg_is_lossy(m) ||
		    (m->len <= TREADLE_EAGER && unconfirmed && !slow && !treadle_flow_crowded(cmd));
	u32 charge = sizeof(*m) + m->len;
	struct treadle_msg *msg = NULL;
	struct mem_cgroup *old;

	if (copy && treadle_rx_charge(rx, charge)) {
		old = set_active_memcg(m->to->obj.ctx->memcg);
		msg = kmalloc(charge, TREADLE_GFP_OTHER);
		set_active_memcg(old);
		if (!msg)
			treadle_rx_uncharge(rx, charge);
	}
	if (msg) {
		*msg = *m;
		msg->charge = charge;
		msg->payload = (u8 *)(msg + 1);
	} else if (treadle_msg_is_lossy(m)) {
		return NULL;
	} else if (inject && !slow && !(cmd->d.flags & TREADLE_F_PROXY)) {
		/* the target's limit is used up: the sender is charged */
		msg = treadle_cmd_alloc(cmd, charge, TREADLE_GFP, run);
		if (!msg)
			return NULL;
		*msg = *m;
		msg->payload = (u8 *)(msg + 1);
	} else {
		msg = treadle_cmd_alloc(cmd, sizeof(*msg), TREADLE_GFP, run);
		if (!msg)
			return NULL;
		*msg = *m;
	}
	kref_init(&msg->ref);
	INIT_LIST_HEAD(&msg->job.link);
	msg->job.fn = treadle_deliver_job;
	msg->heap = true;
	msg->claimed = msg->lent = false;
	msg->done = 0;
	treadle_ep_get(msg->to);
	return msg;
}

/*
 * Allocate a message that can wait, like @m on the stack: with a copy of its bytes, or with its
 * command on the heap. Without a copy if @slow. Returns an error as treadle_copy() does, after
 * *done bytes, or as treadle_cmd_leave().
 */
static int copy_msg(struct treadle_msg *m, bool slow, struct treadle_msg **copy, u64 *done,
		    struct treadle_run *run)
{
	struct treadle_msg *msg = msg_alloc(m, slow, run);
	int ret = 0;

	if (!msg)
		return -ENOMEM;
	if (!is_sent(msg))
		ret = treadle_cmd_leave(&m->cmd, msg_track(msg), run);
	msg->cmd = m->cmd;
	/* a page is not waited for while holding a charge, which a userfaultfd could make last */
	if (!ret && msg->payload)
		ret = treadle_cmd_read(msg->cmd, msg->payload, 0, &msg->done, msg->len, msg->charge,
				       run);
	*done = msg->done;
	if (ret) {
		treadle_msg_put(msg);
		return ret;
	}
	msg->done = 0; /* from here on: bytes delivered */
	*copy = msg;
	return 0;
}

/*
 * The same, as often as pages of the sender are missing. The sender's doorbell begins anew until
 * it is killed; other runs at most COPY_TRIES times. Then the message waits uncopied, so that no
 * later message overtakes it. A datagram, which cannot, is left to the sender's worker.
 *
 * Returns TREADLE_GO_ON, with the message in *msg; TREADLE_KEPT; or an error.
 */
static int make_keepable(struct treadle_msg *m, struct treadle_msg **msg, struct treadle_run *run)
{
	bool slow = false;
	int ret, tries = 0;
	u64 done;

	for (;;) {
		ret = copy_msg(m, slow, msg, &done, run);
		if (ret != -EAGAIN && ret != -EINPROGRESS)
			return ret;
		if (ret == -EAGAIN)
			ret = await_payload(m->cmd, done, ++tries, run);
		slow = ret == -EAGAIN || ret == -EINPROGRESS;
		if (ret && !slow)
			return ret;
		if (slow && treadle_msg_is_lossy(m))
			return treadle_cmd_issue_later(&m->cmd, run);
	}
}

/*
 * End @cmd: its message could not be prepared for waiting. Consumes it; may sleep. A failure
 * message that found no memory is tried again later, as its peer waits for it.
 */
static void fail(struct treadle_cmd *cmd, int why, struct treadle_run *run)
{
	if (why == -ENOMEM &&
	    (cmd->d.flags & (TREADLE_F_FAILURE | TREADLE_F_PROXY)) == TREADLE_F_FAILURE)
		treadle_cmd_fail_later(cmd, run);
	else if (why == -ENOMEM && cmd->ep->type == TREADLE_EP_DGRAM) /* it is dropped */
		treadle_cmd_fail(cmd, 0, run);
	else
		treadle_cmd_fail(cmd, why == -ESHUTDOWN ? treadle_ep_error(cmd->ep) : why, run);
}

/*
 * Find a receive, or ask for one. Once DOORBELL is set, later receives ring, and the last look sees
 * earlier ones (C). Another message may have set it, and its sender may not have seen the end of
 * the ring yet: so look until the ring is empty, or the worker has it. After LOOKS the worker gets
 * it, as a process may post without ringing.
 */
static void find_or_ask(struct treadle_rx *rx, struct treadle_msg *msg, struct treadle_run *run)
{
	int looks = 0;

	lockdep_assert_held(&rx->lock);
	while (!treadle_rx_find(rx, msg, run)) {
		if (!(rx->ring.kern->flags & TREADLE_RING_DOORBELL))
			treadle_ring_want_doorbell(&rx->ring);
		else if (rx->handed || treadle_ring_empty(&rx->ring))
			break;
		if (++looks >= LOOKS)
			treadle_rx_hand_over(rx);
	}
}

/*
 * Queue an unexpected message. ->dead is read under rx->lock: closing sets it before it takes that,
 * and then fails what waits. Returns TREADLE_KEPT, or the error with which its command completes.
 */
static int queue(struct treadle_rx *rx, struct treadle_msg *msg)
{
	int ret = 0;

	lockdep_assert_held(&rx->lock);
	if (READ_ONCE(msg->to->dead)) /* of a connection: the same error as after a hang-up */
		return msg->to->type == TREADLE_EP_MSG ? -ECONNRESET : -ECONNREFUSED;
	if (READ_ONCE(msg->to->severed))
		return -ECONNRESET;
	if (msg->cmd)
		ret = msg->ops->park(msg);
	if (ret)
		return ret;
	treadle_match_keep(&rx->match[msg->space], &msg->m);
	msg->queued = true;
	treadle_stat_add(&msg->to->obj.stats, TREADLE_STAT_UNEXPECTED, 1);
	if (!msg->cmd)
		treadle_stat_add(&msg->to->obj.stats, TREADLE_STAT_KEPT, 1);
	if (trace_treadle_keep_enabled() || trace_treadle_park_enabled())
		treadle_trace_unexpected(msg);
	return TREADLE_KEPT;
}

/* @msg has matched, and its send is complete: it may have to be given back to its place. */
static void lend(struct treadle_rx *rx, struct treadle_msg *msg)
{
	lockdep_assert_held(&rx->lock);
	msg->lent = treadle_rx_lends(msg->recv, msg);
	if (msg->lent) {
		treadle_match_keep(&rx->match[msg->space], &msg->m);
		treadle_match_lend_msg(&rx->match[msg->space], &msg->m);
	}
}

/* The command of a message completes. Its number stays with the message, if it is traced. */
static void let_go(struct treadle_msg *msg)
{
	const struct treadle_ep *from = msg->cmd->ep;

	if (trace_treadle_match_enabled() || trace_treadle_keep_enabled() ||
	    trace_treadle_complete_enabled() || treadle_trace_copies())
		treadle_cmd_id(msg->cmd);
	msg->from.id = treadle_cmd_traced(msg->cmd);
	msg->from.ctx = from->far ? 0 : READ_ONCE(from->obj.ctx->number);
	msg->from.ep = from->far ? 0 : from->obj.id;
	msg->cmd = NULL;
}

/*
 * Find a receive for a message that can wait, or let it wait. Consumes the caller's reference, and
 * completes the command if its send ends here. Takes rx->lock; may sleep.
 */
static void offer(struct treadle_msg *msg, struct treadle_run *run)
{
	struct treadle_cmd *sent = is_sent(msg) ? msg->cmd : NULL;
	struct treadle_rx *rx = msg->to->rx;
	int verdict = TREADLE_GO_ON;
	u8 space = msg->space;

	spin_lock(&rx->lock);
	find_or_ask(rx, msg, run);
	/*
	 * The sender has closed: take the message back if it has no receive, or would be out of
	 * order. The command stays with the message then, and ->park or treadle_deliver() fails it
	 * here: it may be on the stack, so no worker may get it.
	 */
	if (sent && unlikely(READ_ONCE(sent->ep->closed)) &&
	    (!msg->recv || treadle_msg_is_late(msg, sent->ep)))
		sent = NULL;
	if (sent)
		let_go(msg);
	if (!msg->recv)
		verdict = queue(rx, msg);
	else if (sent)
		lend(rx, msg);
	spin_unlock(&rx->lock);
	if (verdict == TREADLE_GO_ON) {
		if (trace_treadle_match_enabled())
			treadle_trace_match(msg, false);
		treadle_deliver(msg, run);
	} else if (verdict == TREADLE_KEPT) { /* @msg may be freed already */
		treadle_rx_grow(rx, space, run);
	} else {
		verdict = treadle_msg_is_lossy(msg) ? 0 : verdict;
		if (!verdict)
			treadle_cmd_count(sent ?: msg->cmd);
		treadle_cmd_complete(sent ?: msg->cmd, verdict, run);
		treadle_msg_put(msg);
		return;
	}
	if (sent) { /* whatever becomes of the delivery */
		treadle_cmd_count(sent);
		treadle_cmd_complete(sent, 0, run);
	}
}

/**
 * treadle_msg_keep - let a message wait that has found no receive, or deliver it after all
 * @m:	the message, on the stack of the caller; consumed
 * @run:	of the caller
 *
 * Context: May sleep. Takes rx->lock of the target, ep->lock of the sender.
 */
void treadle_msg_keep(struct treadle_msg *m, struct treadle_run *run)
{
	struct treadle_msg *msg;
	int verdict;

	if (unlikely(treadle_msg_is_lossy(m) && m->cmd->d.flags & TREADLE_F_PULL)) {
		treadle_cmd_count(m->cmd);
		treadle_cmd_complete(m->cmd, 0, run); /* its bytes are elsewhere: it is dropped */
		return;
	}
	verdict = make_keepable(m, &msg, run);
	if (verdict == TREADLE_GO_ON)
		offer(msg, run);
	else if (verdict != TREADLE_KEPT)
		fail(m->cmd, verdict, run);
}
