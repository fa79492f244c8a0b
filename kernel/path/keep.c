// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: unexpected messages, which find no posted receive
 *
 * A small message is copied, as long as the receiver's limit has room for it, and its send
 * completes then. Any other message waits as a reference to the sender's command.
 */
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "mm/own.h"
#include "path/path.h"

#define FILL_TRIES 32 /* of a run that has other jobs */

/*
 * Copy the sender's bytes behind the message. -EAGAIN: a page has to be waited for. Not while
 * holding a charge on rx->buffered: a sender's userfaultfd could keep that for as long as it
 * likes. -EINPROGRESS: the sender's worker has to go on.
 */
static int fill_payload(struct treadle_msg *msg, struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_span src, dst;
	enum treadle_side side = TREADLE_NONE;
	int ret;

	if (likely(cmd->ep->obj.ctx == run->own && !cmd->vec && !cmd->inject) &&
	    likely(treadle_own_read(msg->payload, cmd->d.addr, msg->len)))
		return 0;
	run->holds = msg->charge;
	do {
		treadle_cmd_span(cmd, &src, msg->done);
		treadle_span_kernel(&dst, msg->payload, msg->done);
		ret = treadle_copy(&dst, &src, &msg->done, msg->len, run, &side);
		/* tried again here, so that the sender's messages stay in order */
	} while ((ret == -EINPROGRESS || (ret == -EAGAIN && !msg->charge)) &&
		 treadle_run_insists(run, cmd->ep->obj.ctx));
	run->holds = false;
	return ret;
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

	if (!insists && (tries > FILL_TRIES || cmd->tracked != TREADLE_AWAITED))
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
 * its command. NULL: no memory, and it is lossy or has to be copied.
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
	} else if (inject && !slow) {
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
 * Continues a datagram in the sender's worker, which waits for the sender's pages. The commands
 * behind it wait, too.
 */
struct slow_send {
	struct treadle_job job;
	struct treadle_cmd *cmd;
};

static void send_go_on(struct treadle_job *job, struct treadle_run *run)
{
	struct slow_send *slow = container_of(job, struct slow_send, job);
	struct treadle_cmd *cmd = slow->cmd;

	kfree(slow);
	treadle_send_issue(cmd, run);
}

/* Let the worker send. *cmd becomes the command on the heap. False: no memory. */
static bool send_later(struct treadle_cmd **cmd, struct treadle_run *run)
{
	struct slow_send *slow = treadle_cmd_alloc(*cmd, sizeof(*slow), TREADLE_GFP, run);
	struct treadle_cmd *heap = slow ? treadle_cmd_persist(*cmd, TREADLE_GFP, run) : NULL;

	if (heap)
		*cmd = heap;
	if (!heap || !treadle_flow_track(heap, TREADLE_AWAITED, run)) {
		kfree(slow);
		return false;
	}
	slow->cmd = heap;
	heap->admitted = true;
	INIT_LIST_HEAD(&slow->job.link);
	slow->job.ctx = heap->ep->obj.ctx;
	slow->job.fn = send_go_on;
	treadle_queue_job(&slow->job);
	return true;
}

/**
 * treadle_msg_keepable - make a message fit to wait
 * @m:	the message, on the stack of the caller
 * @run:	of the caller
 *
 * The sender's doorbell begins anew as often as its pages are taken away, until it is killed;
 * other runs at most FILL_TRIES times.
 *
 * Context: May sleep. Takes rx->lock of the target, for the charge.
 * Return: the allocated message, with a copy or with its command on the heap. NULL: nothing is to
 * be kept, as the command has failed, was completed, or is left to the sender's worker.
 */
struct treadle_msg *treadle_msg_keepable(struct treadle_msg *m, struct treadle_run *run)
{
	struct treadle_cmd *cmd = m->cmd, *heap;
	bool slow = false;
	struct treadle_msg *msg;
	int ret, tries = 0;
	u64 done;

again:
	ret = treadle_msg_is_lossy(m) ? 0 : -ENOMEM;
	msg = msg_alloc(m, slow, run);
	if (!msg)
		goto fail;
	/*
	 * Only a send with a complete copy, and without DELIVERY_COMPLETE, completes before its
	 * match.
	 */
	if (!msg->payload || (cmd->d.flags & TREADLE_F_DELIVERY_COMPLETE)) {
		heap = treadle_cmd_persist(cmd, TREADLE_GFP, run);
		if (!heap)
			goto fail;
		msg->cmd = m->cmd = cmd = heap;
		if (!treadle_flow_track(heap, msg_track(msg), run))
			goto fail;
	}
	ret = msg->payload ? fill_payload(msg, cmd, run) : 0;
	if (!ret) {
		msg->done = 0; /* from here on: bytes delivered */
		return msg;
	}
	if (ret == -EAGAIN || ret == -EINPROGRESS) {
		done = msg->done;
		treadle_msg_put(msg);
		msg = NULL;
		ret = ret == -EAGAIN ? await_payload(cmd, done, ++tries, run) : -EAGAIN;
		slow = ret == -EAGAIN;
		if (slow && treadle_msg_is_lossy(m)) {
			if (send_later(&cmd, run))
				return NULL;
			ret = 0; /* the datagram is dropped */
			goto fail;
		}
		/* again; if @slow, it waits uncopied, so that no later message overtakes it */
		if (!ret || slow)
			goto again;
	}
fail:
	if (msg)
		treadle_msg_put(msg);
	if (ret == -ENOMEM && (cmd->d.flags & TREADLE_F_FAILURE)) {
		treadle_cmd_fail_later(cmd, run);
		return NULL;
	}
	treadle_cmd_fail(cmd, ret == -ESHUTDOWN ? treadle_ep_error(cmd->ep) : ret, run);
	return NULL;
}

/**
 * treadle_msg_keep - put an unexpected message into the matcher
 * @rx:	the ring of its target
 * @msg:	the message, made by treadle_msg_keepable()
 *
 * ->dead is read under rx->lock: closing sets it before it takes that, and then fails what waits.
 *
 * Context: rx->lock held. Takes the ep->lock of the sender.
 * Return: 0, or the error with which its command completes.
 */
int treadle_msg_keep(struct treadle_rx *rx, struct treadle_msg *msg)
{
	int ret = 0;

	lockdep_assert_held(&rx->lock);
	if (READ_ONCE(msg->to->dead)) /* of a connection: the same error as after a hang-up */
		return msg->to->type == TREADLE_EP_MSG ? -ECONNRESET : -ECONNREFUSED;
	if (READ_ONCE(msg->to->severed))
		return -ECONNRESET;
	if (msg->cmd)
		ret = treadle_msg_park(msg);
	if (ret)
		return ret;
	treadle_match_keep(&rx->match[msg->space], &msg->m);
	msg->queued = true;
	return 0;
}
