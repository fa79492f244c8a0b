// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the opcode table
 *
 * An opcode without an issue function is known, but not supported yet.
 */
#include "path/path.h"

#define ARMED                                                                                  \
	(TREADLE_F_EXT | TREADLE_F_MORE | TREADLE_F_COND | TREADLE_F_WORK | TREADLE_F_STRICT | \
	 TREADLE_F_REPEAT)
#define NOTIFY (ARMED | TREADLE_F_COMPLETION | TREADLE_F_NOTIFY)
#define RMA    (NOTIFY | TREADLE_F_DELIVERY_COMPLETE | TREADLE_F_FENCE)
#define SEND   (RMA | TREADLE_F_INJECT | TREADLE_F_REMOTE_CQ_DATA)

const struct treadle_opdef treadle_opdefs[TREADLE_OP_LAST] = {
	[TREADLE_OP_NOP] = {
		/* with F_COMPLETION or F_COLLECTIVE it needs an endpoint */
		.flags = NOTIFY | TREADLE_F_COLLECTIVE,
		.prep = treadle_nop_prep,
		.issue = treadle_nop_issue,
	},
	[TREADLE_OP_SEND ... TREADLE_OP_TSEND] = {
		.flags = SEND | TREADLE_F_COLLECTIVE,
		.data = true,
		.needs_ep = true,
		.prep = treadle_send_prep,
		.issue = treadle_send_issue,
	},
	[TREADLE_OP_RECV] = {
		.flags = NOTIFY | TREADLE_F_MULTI_RECV,
		.data = true,
		.needs_ep = true,
		.receives = true,
		.prep = treadle_recv_prep,
		.issue = treadle_recv_issue,
		.is_long = treadle_recv_is_long,
	},
	[TREADLE_OP_TRECV] = {
		.flags = NOTIFY | TREADLE_F_PEEK | TREADLE_F_CLAIM | TREADLE_F_DISCARD |
			 TREADLE_F_COLLECTIVE,
		.data = true,
		.needs_ep = true,
		.receives = true,
		.prep = treadle_recv_prep,
		.issue = treadle_recv_issue,
		.is_long = treadle_recv_is_long,
	},
	[TREADLE_OP_READ] = {
		.flags = RMA,
		.data = true,
		.needs_ep = true,
		.remote = true,
		.prep = treadle_rma_prep,
		.issue = treadle_rma_issue,
	},
	[TREADLE_OP_WRITE] = {
		.flags = SEND,
		.data = true,
		.needs_ep = true,
		.remote = true,
		.prep = treadle_rma_prep,
		.issue = treadle_rma_issue,
	},
	[TREADLE_OP_ATOMIC ... TREADLE_OP_COMPARE] = {
		.flags = RMA | TREADLE_F_INJECT | TREADLE_F_LOCAL,
		.data = true,
		.needs_ep = true,
		.remote = true,
		.atomic = true,
		.prep = treadle_atomic_prep,
		.issue = treadle_atomic_issue,
	},
	[TREADLE_OP_CNTR_SET ... TREADLE_OP_CNTR_ADD] = {
		.flags = ARMED | TREADLE_F_NOTIFY | TREADLE_F_CNTR_ERROR,
		.prep = treadle_cntr_prep,
		.issue = treadle_cntr_issue,
	},
};

/**
 * treadle_opcodes - the opcodes that are supported
 *
 * Context: any.
 * Return: a bit for each.
 */
u64 treadle_opcodes(void)
{
	u64 ops = 0;
	int i;

	for (i = 0; i < TREADLE_OP_LAST; i++)
		if (treadle_opdefs[i].issue)
			ops |= BIT_ULL(i);
	return ops;
}

/**
 * treadle_op_flags - the flags of descriptors that some opcode takes
 *
 * Context: any.
 * Return: TREADLE_F_* bits.
 */
u64 treadle_op_flags(void)
{
	u64 flags = 0;
	int i;

	for (i = 0; i < TREADLE_OP_LAST; i++)
		flags |= treadle_opdefs[i].flags;
	return flags;
}
