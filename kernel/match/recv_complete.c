// SPDX-License-Identifier: GPL-2.0
/* treadle: completions and counters of receives */
#include <linux/slab.h>

#include "match/recv_complete.h"

/* A kept completion lies in its receive: it holds the ring, which owns that memory. */
static void recv_node_keep(struct treadle_cq_node *node)
{
	kref_get(&container_of(node, struct treadle_recv, node)->rx->obj.ref);
}

static void recv_node_free(struct treadle_cq_node *node)
{
	struct treadle_recv *recv = container_of(node, struct treadle_recv, node);
	struct treadle_rx *rx = recv->rx;

	treadle_recv_free(recv);
	treadle_obj_put(&rx->obj);
}

static const struct treadle_cq_memory recv_memory = { .keep = recv_node_keep,
						      .free = recv_node_free };

/**
 * treadle_unknown_source - report a source that is not in the address vector
 * @cqe:	the completion; fields that have no other meaning then get the address
 * @ep:		endpoint of the target
 * @source:	the initiator
 *
 * Context: any.
 */
void treadle_unknown_source(struct treadle_cqe *cqe, const struct treadle_ep *ep, u32 source)
{
	struct treadle_addr addr = ep->addr; /* if it is gone: any address of this machine */
	__u64 words[3];

	treadle_source_address(ep->obj.ctx, source, &addr);
	BUILD_BUG_ON(sizeof(words) != sizeof(addr));
	memcpy(words, &addr, sizeof(words));
	cqe->error = EADDRNOTAVAIL;
	cqe->src = words[0];
	cqe->olen = words[1];
	*(cqe->flags & TREADLE_CQ_TAGGED ? &cqe->buf : &cqe->tag) = words[2];
}

/**
 * treadle_cq_post - write a completion for which the target has no receive or command
 * @ep:	endpoint of the target
 * @source:	the initiator that has written, with data
 * @cqe:	the completion; its source is set here
 *
 * Context: May sleep. Takes cq->lock.
 * Return: 0, or -ENOMEM: the queue is full, and the completion could not be kept.
 */
int treadle_cq_post(struct treadle_ep *ep, u32 source, struct treadle_cqe *cqe)
{
	treadle_report_source(cqe, ep, source);
	return treadle_cq_keep(ep->rx_cq, &ep->dead, cqe, NULL, NULL) == TREADLE_CQ_NOMEM ?
		       -ENOMEM :
		       0;
}

/* Bytes that a receive counts. A peek or a discard receives nothing. */
static __always_inline u64 received(const struct treadle_msg *msg, u32 flags)
{
	return msg && !(flags & (TREADLE_F_PEEK | TREADLE_F_DISCARD)) ? msg->len : 0;
}

/* Count a receive. Not inline: most have no counter, and this saves registers. */
static noinline void count_recv(struct treadle_cntr *cntr, struct treadle_cntr *notify, u64 len,
				int error, struct treadle_run *run)
{
	treadle_count(cntr, len, error, run);
	treadle_count_last(notify, len, error, run);
}

/**
 * treadle_recv_notify - report a receive that has finished
 * @recv:	the receive; freed, kept by the completion queue, or armed again
 * @ep:	the endpoint that reports it, held by the caller
 * @msg:	the message, or NULL: canceled, a bad descriptor, the end of a multi-receive
 * @error:	0, or why the receive has failed (ETRUNC: it has, but got some bytes)
 * @run:	takes what the counters fire
 *
 * Whether @ep has closed is certain only under cq->lock, which closing takes after it has set
 * dead.
 *
 * Context: No spinlock held. Takes cq->lock; rx->lock, when it frees the receive.
 * Return: false if @ep is closed: nothing was done, and @recv is still the caller's.
 */
bool treadle_recv_notify(struct treadle_recv *recv, struct treadle_ep *ep,
			 const struct treadle_msg *msg, int error, struct treadle_run *run)
{
	u32 flags = recv->flags;
	struct treadle_cntr *notify = NULL, *cntr = NULL;
	struct treadle_cq *cq = NULL;
	enum treadle_cq_fate fate = TREADLE_CQ_DONE;

	if (unlikely(error)) {
		if (READ_ONCE(ep->dead))
			return false;
		treadle_stat_error(&ep->obj.stats, error);
	}
	if (trace_treadle_complete_enabled())
		treadle_trace_received(recv, ep, msg, error);
	if (recv->cmd && treadle_cmd_repeats(recv->cmd, flags)) {
		recv->cmd->recv = recv;
		treadle_cmd_again(recv->cmd, received(msg, flags), error, run);
		return true;
	}
	if (recv->cmd) {
		notify = recv->cmd->notify;
		recv->cmd->notify = NULL;
	}
	if ((flags & TREADLE_F_COMPLETION) ||
	    (!(flags & TREADLE_F_WORK) && (error || ep->flags & TREADLE_EP_RECV_COMPLETION)))
		cq = ep->rx_cq;
	if (cq) {
		struct treadle_cqe late TREADLE_UNSET, *cqe;

		spin_lock(&cq->lock);
		cqe = treadle_cq_place(cq, &ep->dead);
		treadle_recv_cqe(cqe ?: &late, recv, ep, msg, error);
		if (!treadle_cq_placed(cq, cqe))
			fate = treadle_cq_keep(cq, &ep->dead, &late, &recv->node, &recv_memory);
		if (unlikely(fate == TREADLE_CQ_CLOSED)) {
			if (recv->cmd)
				recv->cmd->notify = notify;
			return false;
		}
	}
	/* a peek or a discard receives nothing */
	if (!(flags & (TREADLE_F_WORK | TREADLE_F_PEEK | TREADLE_F_DISCARD)))
		cntr = ep->cntr_recv;
	if (unlikely(cntr || notify))
		count_recv(cntr, notify, received(msg, flags), error, run);
	if (fate != TREADLE_CQ_KEPT)
		treadle_recv_free(recv);
	return true;
}

/**
 * treadle_recv_complete - report a receive, or free it if its endpoint is closed
 * @recv:	the receive; consumed
 * @ep:	the endpoint that it belongs to, held by the caller
 * @msg:	as for treadle_recv_notify()
 * @error:	as for treadle_recv_notify()
 * @run:	takes what the counters fire
 *
 * Context: No spinlock held. Takes cq->lock, rx->lock.
 */
void treadle_recv_complete(struct treadle_recv *recv, struct treadle_ep *ep,
			   const struct treadle_msg *msg, int error, struct treadle_run *run)
{
	if (!treadle_recv_notify(recv, ep, msg, error, run))
		treadle_recv_free(recv);
}
