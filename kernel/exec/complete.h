/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: the usual end of a command, without a call (complete.c) */
#ifndef TREADLE_COMPLETE_H
#define TREADLE_COMPLETE_H

#include <linux/nospec.h>

#include "exec/traced.h"

/*
 * Flags that ask for a completion at most when a command ends. With these alone a command binds no
 * counter, is armed on none, and is no collective.
 */
#define TREADLE_F_USUAL                                                                       \
	(TREADLE_F_EXT | TREADLE_F_COMPLETION | TREADLE_F_INJECT | TREADLE_F_REMOTE_CQ_DATA | \
	 TREADLE_F_DELIVERY_COMPLETE | TREADLE_F_FENCE | TREADLE_F_MORE)

extern const u32 treadle_cq_flags[TREADLE_OP_LAST];

/* The flags of completions of @opcode, which is below TREADLE_OP_LAST. */
static __always_inline u32 treadle_cq_flags_of(u8 opcode)
{
	return treadle_cq_flags[array_index_nospec(opcode, TREADLE_OP_LAST)];
}

/* Write the completion of a command. */
static __always_inline void treadle_cmd_cqe(struct treadle_cqe *cqe, const struct treadle_cmd *cmd,
					    u32 op_flags, int error)
{
	cqe->context = cmd->d.context;
	cqe->len = 0;
	cqe->data = 0;
	cqe->tag = unlikely(cmd->d.opcode == TREADLE_OP_TRECV) ? cmd->d.tag : 0;
	cqe->buf = 0;
	cqe->src = TREADLE_ADDR_ANY;
	cqe->flags = op_flags;
	cqe->error = -error;
	cqe->olen = 0;
}

/**
 * treadle_cmd_succeed() - end a send, RMA or atomic command that has succeeded
 * @cmd:  the command; consumed
 * @cntr: the endpoint's counter of such operations, or NULL
 * @run:  of the caller
 *
 * The same as treadle_cmd_complete(), which is called where more than a completion is due.
 *
 * Context: see treadle_cmd_complete().
 */
static __always_inline void treadle_cmd_succeed(struct treadle_cmd *cmd,
						const struct treadle_cntr *cntr,
						struct treadle_run *run)
{
	u32 flags = cmd->d.flags;
	struct treadle_ep *ep = cmd->ep;
	struct treadle_cqe *cqe;
	struct treadle_cq *cq;

	/* on the stack a command is not tracked, and holds at most the bytes that it injects */
	if (likely(!(flags & ~TREADLE_F_USUAL) && !cmd->heap && !cmd->own && !cntr) &&
	    !trace_treadle_complete_enabled()) {
		cq = ep->tx_cq;
		if (!(flags & TREADLE_F_COMPLETION) || unlikely(!cq))
			return;
		spin_lock(&cq->lock);
		cqe = treadle_cq_place(cq, &ep->dead);
		if (likely(cqe))
			treadle_cmd_cqe(cqe, cmd, treadle_cq_flags_of(cmd->d.opcode), 0);
		if (likely(treadle_cq_placed(cq, cqe)))
			return;
	}
	treadle_cmd_complete(cmd, 0, run);
}

#endif
