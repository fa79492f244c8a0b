/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: completions of receives: what each message needs, inline (recv_complete.c) */
#ifndef TREADLE_RECV_COMPLETE_H
#define TREADLE_RECV_COMPLETE_H

#include "match/traced.h"
#include "notify/counter.h"

void treadle_unknown_source(struct treadle_cqe *cqe, const struct treadle_ep *ep, u32 source);

/*
 * Set the source of a message or write: its name, or what FI_SOURCE_ERR asks for. cqe->flags is
 * set.
 */
static __always_inline void treadle_report_source(struct treadle_cqe *cqe,
						  const struct treadle_ep *ep, u32 source)
{
	if (!(ep->flags & TREADLE_EP_SOURCE) || !ep->av)
		return;
	if (!treadle_av_peer(ep->av, source, &cqe->src) && (ep->flags & TREADLE_EP_SOURCE_ERR) &&
	    !cqe->error)
		treadle_unknown_source(cqe, ep, source);
}

/* Write the completion of a receive. The arguments are those of treadle_recv_notify(). */
static __always_inline void treadle_recv_cqe(struct treadle_cqe *cqe,
					     const struct treadle_recv *recv,
					     const struct treadle_ep *ep,
					     const struct treadle_msg *msg, int error)
{
	static const u32 kinds[TREADLE_MATCHES] = {
		[TREADLE_PLAIN] = TREADLE_CQ_RECV | TREADLE_CQ_MSG,
		[TREADLE_TAGGED] = TREADLE_CQ_RECV | TREADLE_CQ_TAGGED,
		[TREADLE_COLLECTIVE] = TREADLE_CQ_RECV | TREADLE_CQ_COLLECTIVE,
	};
	u32 flags = kinds[recv->space];

	cqe->context = recv->context;
	cqe->buf = recv->iov_count == 1 ? recv->one.addr : 0;
	cqe->src = TREADLE_ADDR_ANY;
	cqe->error = -error;
	if (likely(msg)) {
		u64 len = min(msg->len, recv->one.len);

		cqe->len = error && error != -TREADLE_ETRUNC ? 0 : len;
		cqe->olen = msg->len - len;
		cqe->tag = msg->m.tag;
		cqe->data = msg->data;
		if (msg->flags & TREADLE_F_REMOTE_CQ_DATA)
			flags |= TREADLE_CQ_REMOTE_CQ_DATA;
	} else {
		cqe->len = cqe->olen = cqe->tag = cqe->data = 0;
		/* the end of a multi-receive is no message: no buffer, and no other flags */
		if (recv->kind == TREADLE_RECV_MULTI && !error)
			flags = cqe->buf = 0;
	}
	if (unlikely(recv->flags & TREADLE_F_MULTI_RECV))
		flags |= TREADLE_CQ_MULTI_RECV;
	cqe->flags = flags;
	if (likely(msg))
		treadle_report_source(cqe, ep, msg->source);
}

/*
 * The usual case of treadle_recv_notify(), without an error: a receive of the ring, and room for
 * its completion. False: nothing was done.
 */
static __always_inline bool treadle_recv_succeed(struct treadle_recv *recv, struct treadle_ep *ep,
						 const struct treadle_msg *msg,
						 struct treadle_run *run)
{
	struct treadle_cq *cq = ep->rx_cq;
	struct treadle_cqe *cqe;

	if (unlikely(recv->cmd || recv->kind != TREADLE_RECV_ONE || !cq ||
		     trace_treadle_complete_enabled()) ||
	    !(recv->flags & TREADLE_F_COMPLETION || ep->flags & TREADLE_EP_RECV_COMPLETION))
		return false;
	spin_lock(&cq->lock);
	cqe = treadle_cq_place(cq, &ep->dead);
	if (likely(cqe))
		treadle_recv_cqe(cqe, recv, ep, msg, 0);
	if (unlikely(!treadle_cq_placed(cq, cqe)))
		return false;
	treadle_count(ep->cntr_recv, msg->len, 0, run);
	treadle_recv_release(recv);
	return true;
}

#endif
