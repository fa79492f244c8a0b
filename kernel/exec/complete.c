// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: a command has ended: write its completion, count it, free it
 */
#include <linux/memcontrol.h>
#include <linux/nospec.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "exec/complete.h"

static void cmd_node_free(struct treadle_cq_node *node)
{
	treadle_cmd_free(container_of(node, struct treadle_cmd, kept));
}

static const struct treadle_cq_memory cmd_memory = { .free = cmd_node_free };

static void reserve_free(struct treadle_cq_node *node)
{
	kmem_cache_free(treadle_cmd_cache, container_of(node, struct treadle_cmd, kept));
}

static const struct treadle_cq_memory reserve_memory = { .free = reserve_free };

/*
 * Keep the completion @cqe, which does not fit into @cq. If the command is on a doorbell's stack,
 * and there is no memory, its ring's reserve keeps it.
 *
 * True: the completion lies in @cmd, which the reader of the queue frees: the caller must not use
 * it any more.
 */
static noinline bool cmd_keep(struct treadle_cq *cq, struct treadle_cmd *cmd,
			      const struct treadle_cqe *cqe)
{
	struct treadle_cmd *reserve;
	enum treadle_cq_fate fate;

	if (cmd->heap)
		return treadle_cq_keep(cq, &cmd->ep->dead, cqe, &cmd->kept, &cmd_memory) ==
		       TREADLE_CQ_KEPT;
	fate = treadle_cq_keep(cq, &cmd->ep->dead, cqe, NULL, NULL);
	if (likely(fate != TREADLE_CQ_NOMEM))
		return false;
	reserve = treadle_cmd_take_reserve(cmd);
	if (treadle_cq_keep(cq, &cmd->ep->dead, cqe, &reserve->kept, &reserve_memory) !=
	    TREADLE_CQ_KEPT)
		cmd->tx->reserve = reserve;
	return false;
}

const u32 treadle_cq_flags[TREADLE_OP_LAST] = {
	[TREADLE_OP_SEND] = TREADLE_CQ_SEND | TREADLE_CQ_MSG,
	[TREADLE_OP_TSEND] = TREADLE_CQ_SEND | TREADLE_CQ_TAGGED,
	[TREADLE_OP_RECV] = TREADLE_CQ_RECV | TREADLE_CQ_MSG,
	[TREADLE_OP_TRECV] = TREADLE_CQ_RECV | TREADLE_CQ_TAGGED,
	[TREADLE_OP_READ] = TREADLE_CQ_READ | TREADLE_CQ_RMA,
	[TREADLE_OP_WRITE] = TREADLE_CQ_WRITE | TREADLE_CQ_RMA,
	[TREADLE_OP_ATOMIC] = TREADLE_CQ_WRITE | TREADLE_CQ_ATOMIC,
	[TREADLE_OP_FETCH] = TREADLE_CQ_READ | TREADLE_CQ_ATOMIC,
	[TREADLE_OP_COMPARE] = TREADLE_CQ_READ | TREADLE_CQ_ATOMIC,
};

/* The endpoint's counter for such operations, or NULL. */
static struct treadle_cntr *ep_cntr(const struct treadle_ep *ep, u32 op_flags)
{
	if (op_flags & TREADLE_CQ_RECV)
		return ep->cntr_recv;
	if (op_flags & TREADLE_CQ_READ)
		return ep->cntr_read;
	return op_flags & TREADLE_CQ_WRITE ? ep->cntr_write : ep->cntr_send;
}

/**
 * treadle_cmd_again() - end one round of a command that repeats
 * @cmd:   the command (treadle_cmd_repeats()); armed again, or freed
 * @len:   bytes transferred
 * @error: 0, or why it has failed
 * @run:   of the caller
 *
 * Order: arm again, then count. So a process that sees all of its commands counted finds all of
 * them armed.
 *
 * Context: takes the trigger's lock and ep->lock; no spinlock is held. May sleep.
 */
void treadle_cmd_again(struct treadle_cmd *cmd, u64 len, int error, struct treadle_run *run)
{
	struct treadle_cntr *notify = cmd->notify;
	struct treadle_ep *ep = cmd->ep;
	enum treadle_track tracked = cmd->tracked;
	u64 dest = cmd->dest;

	/* hold them: once armed, @cmd may fire and be dropped at any time */
	if (notify)
		kref_get(&notify->obj.ref);
	if (tracked)
		treadle_ep_get(ep);
	cmd->tracked = TREADLE_UNTRACKED;
	cmd->admitted = false;
	cmd->traced = false;
	if (!treadle_opdefs[cmd->d.opcode].receives) { /* the next round takes its bytes again */
		kfree(cmd->inject);
		cmd->inject = NULL;
	}
	/* drop it if it was canceled, or its memory is gone, or its connection over */
	if ((error == -ECANCELED && !cmd->skipped) || (error && ep && READ_ONCE(ep->severed)))
		treadle_cmd_free(cmd);
	else
		treadle_cntr_again(cmd, run);
	treadle_count(notify, len, error, run);
	if (notify)
		treadle_obj_put(&notify->obj);
	if (tracked) {
		treadle_flow_done(ep, dest, tracked, run);
		treadle_ep_put(ep);
	}
}

static __always_inline u32 cmd_flags(const struct treadle_cmd *cmd)
{
	u8 op = cmd->d.opcode;
	u32 flags = op < TREADLE_OP_LAST ? treadle_cq_flags_of(op) : 0;

	if (unlikely(cmd->d.flags & TREADLE_F_COLLECTIVE))
		flags = (flags & ~TREADLE_CQ_TAGGED) | TREADLE_CQ_COLLECTIVE;
	return flags;
}

/* PEEK and DISCARD receive nothing; deferred work (F_WORK) is not counted for the endpoint. */
static __always_inline bool counts(u32 flags, u32 op_flags)
{
	return op_flags && !(flags & TREADLE_F_WORK) &&
	       !(op_flags & TREADLE_CQ_RECV && flags & (TREADLE_F_PEEK | TREADLE_F_DISCARD));
}

/**
 * treadle_cmd_heard() - would the endpoint report the failure of a command?
 * @cmd: the command; it may not have been accepted
 *
 * Context: any.
 * Return: true if a completion queue or a counter of its endpoint would.
 */
bool treadle_cmd_heard(const struct treadle_cmd *cmd)
{
	u32 flags = cmd->d.flags, op_flags = cmd_flags(cmd);
	const struct treadle_ep *ep = cmd->ep;

	if (!ep || !smp_load_acquire(&ep->enabled))
		return false;
	if (counts(flags, op_flags) && ep_cntr(ep, op_flags))
		return true;
	return (flags & TREADLE_F_COMPLETION || !(flags & TREADLE_F_WORK)) &&
	       (op_flags & TREADLE_CQ_RECV ? ep->rx_cq : ep->tx_cq);
}

/**
 * treadle_cmd_complete() - end a command of the transmit side, or a receive that was not posted
 * @cmd:   the command; freed, or kept by the completion queue. On the stack: only what it holds is
 *         freed
 * @error: 0, or why it has failed
 * @run:   of the caller; gets what the counters fire
 *
 * The caller has counted the success of an operation of an endpoint: treadle_cmd_count().
 *
 * If its endpoint is closed and @error is set, the command is dropped without a completion:
 * fi_endpoint(3), fi_close.
 *
 * Order: the completion before the counters, so that a process that waits for a counter finds the
 * completion. Credits last, so that a process that may post again finds both.
 *
 * Context: takes cq->lock, the counters' locks and ep->lock; no spinlock is held. May sleep. For a
 * command on the stack, cmd->tx->lock is held.
 */
TREADLE_HOT void treadle_cmd_complete(struct treadle_cmd *cmd, int error, struct treadle_run *run)
{
	u32 flags = cmd->d.flags, op_flags = cmd_flags(cmd);
	bool recv = op_flags & TREADLE_CQ_RECV, kept = false, held = true;
	struct treadle_ep *ep = cmd->ep;
	struct treadle_cntr *notify = cmd->notify, *cntr = NULL;
	enum treadle_track tracked = cmd->tracked;
	struct treadle_cq *cq = NULL;
	u64 len TREADLE_UNSET;
	u64 dest = cmd->dest;

	if (unlikely(error) && ep) {
		if (READ_ONCE(ep->dead)) {
			treadle_cmd_free(cmd);
			return;
		}
		treadle_stat_error(&ep->obj.stats, error);
	}
	if (trace_treadle_complete_enabled())
		treadle_trace_complete(cmd, error);
	if (unlikely(flags & (TREADLE_F_REPEAT | TREADLE_F_PROXY))) {
		if (flags & TREADLE_F_PROXY) {
			treadle_paths[cmd->path]->complete(cmd, error, run);
			return;
		}
		if (treadle_cmd_repeats(cmd, flags)) {
			treadle_cmd_again(cmd, cmd->d.len, error, run);
			return;
		}
	}
	if (unlikely(tracked)) {
		treadle_ep_get(ep);
		cmd->tracked = TREADLE_UNTRACKED;
		/* before the completion is visible: later sends may be buffered again */
		if (tracked == TREADLE_CROWDED)
			tracked = treadle_flow_relax(ep, dest);
	}
	if (ep && ((flags & TREADLE_F_COMPLETION) || (error && !(flags & TREADLE_F_WORK))))
		cq = recv ? ep->rx_cq : ep->tx_cq;
	if (counts(flags, op_flags))
		cntr = ep_cntr(ep, op_flags);
	if (unlikely(recv && flags & TREADLE_F_MULTI_RECV)) /* its buffer is released */
		op_flags |= TREADLE_CQ_MULTI_RECV;
	/* the command, and with it the endpoint, may be freed as soon as the queue keeps it */
	if (cntr && cmd->heap)
		kref_get(&cntr->obj.ref);
	else
		held = false;
	cmd->notify = NULL;
	if (cq) {
		struct treadle_cqe late TREADLE_UNSET, *cqe;

		spin_lock(&cq->lock);
		cqe = treadle_cq_place(cq, &ep->dead);
		treadle_cmd_cqe(cqe ?: &late, cmd, op_flags, error);
		if (!treadle_cq_placed(cq, cqe)) {
			len = cmd->d.len; /* a kept completion overwrites it */
			kept = cmd_keep(cq, cmd, &late);
		}
	}
	treadle_count(cntr, kept ? len : cmd->d.len, error, run);
	treadle_count_last(notify, kept ? len : cmd->d.len, error, run);
	if (held)
		treadle_obj_put(&cntr->obj);
	/* a command on a doorbell's stack mostly holds nothing any more */
	if (!kept && unlikely(cmd->heap || cmd->own || cmd->cond || cmd->target))
		treadle_cmd_free(cmd);
	if (unlikely(tracked)) { /* start what waited for this */
		treadle_flow_done(ep, dest, tracked, run);
		treadle_ep_put(ep);
	}
}
