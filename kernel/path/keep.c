// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: messages that nobody has posted a receive for
 *
 * A small one is copied, as far as the receiver has room, and is sent then; any other waits as a reference to the
 * sender's command.
 */
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "mm/own.h"
#include "path/path.h"

#define FILL_TRIES 32 /* of who has others to do */

/*
 * Copy the sender's bytes behind the message. -EAGAIN: they have to be waited for, which nobody does with room of the
 * receiver's in his hands: else others would have none as long as the sender's page likes (userfaultfd). -EINPROGRESS:
 * its worker has to go on.
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
		/* so that his messages stay in order */
	} while ((ret == -EINPROGRESS || (ret == -EAGAIN && !msg->charge)) &&
		 treadle_run_insists(run, cmd->ep->obj.ctx));
	run->holds = false;
	return ret;
}

/*
 * Wait for the sender's bytes from @done on. He who rings does so as long as it takes, so that his messages stay in order;
 * a worker only where what comes behind waits, too. -EAGAIN: it is left to others.
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
 * What @m holds up, which nobody has received, and which goes with its sender's endpoint. If it could have been copied,
 * what comes behind it is not, so that nothing is missing before it if the endpoint ends. What is long, or to be
 * confirmed, waits for its receiver in any case.
 */
static enum treadle_track msg_track(const struct treadle_msg *m)
{
	return m->len <= TREADLE_EAGER && !(m->flags & TREADLE_F_DELIVERY_COMPLETE) ?
		       TREADLE_CROWDED :
		       TREADLE_FENCED;
}

/*
 * Allocate what is needed to keep @m. Without memory for a copy, or if it is @slow, the message
 * waits with its command, unless it has to be copied, or is lossy (NULL).
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
		/* beyond the target's means: the sender pays */
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

/* In the sender's worker, whose pages a datagram waits for, as does what comes after it. */
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

/* *cmd becomes the one that is allocated. False: no memory. */
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

/*
 * Make @m fit to wait, off its caller's stack. NULL: nothing was to be kept
 * (failed, completed), or the sender's worker goes on with it. Who rings begins anew as often as his pages are taken
 * away, until he is killed; others FILL_TRIES times at most.
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
	/* only a copy that is whole and needs no confirmation lets the sender go */
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
			ret = 0; /* it is dropped */
			goto fail;
		}
		/* or it waits uncopied, in its place: what comes after it does not overtake it */
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

/* Put @msg into the matcher; under rx->lock, which closing takes after it has set dead. */
int treadle_msg_keep(struct treadle_rx *rx, struct treadle_msg *msg)
{
	int ret = 0;

	if (READ_ONCE(msg->to->dead)) /* of a connection, as when it hangs up */
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
