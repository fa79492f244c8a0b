// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the tables of opcodes and of paths
 *
 * A row says what a descriptor may contain; a path (local.c) how the command is executed.
 */
#include "path/remote.h"

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
		.validate = treadle_nop_validate,
	},
	[TREADLE_OP_SEND ... TREADLE_OP_TSEND] = {
		.flags = SEND | TREADLE_F_COLLECTIVE,
		.data = true,
		.needs_ep = true,
		.routed = true,
		.validate = treadle_send_validate,
	},
	[TREADLE_OP_RECV] = {
		.flags = NOTIFY | TREADLE_F_MULTI_RECV,
		.data = true,
		.needs_ep = true,
		.receives = true,
		.validate = treadle_recv_validate,
		.bind = treadle_recv_bind,
		.is_long = treadle_recv_is_long,
	},
	[TREADLE_OP_TRECV] = {
		.flags = NOTIFY | TREADLE_F_PEEK | TREADLE_F_CLAIM | TREADLE_F_DISCARD |
			 TREADLE_F_COLLECTIVE,
		.data = true,
		.needs_ep = true,
		.receives = true,
		.validate = treadle_recv_validate,
		.bind = treadle_recv_bind,
		.is_long = treadle_recv_is_long,
	},
	[TREADLE_OP_READ] = {
		.flags = RMA,
		.data = true,
		.needs_ep = true,
		.routed = true,
		.remote = true,
		.validate = treadle_rma_validate,
	},
	[TREADLE_OP_WRITE] = {
		.flags = SEND,
		.data = true,
		.needs_ep = true,
		.routed = true,
		.remote = true,
		.validate = treadle_rma_validate,
		.bind = treadle_write_bind,
	},
	[TREADLE_OP_ATOMIC ... TREADLE_OP_COMPARE] = {
		.flags = RMA | TREADLE_F_INJECT | TREADLE_F_LOCAL,
		.data = true,
		.needs_ep = true,
		.routed = true,
		.remote = true,
		.atomic = true,
		.validate = treadle_atomic_validate,
	},
	[TREADLE_OP_CNTR_SET ... TREADLE_OP_CNTR_ADD] = {
		.flags = ARMED | TREADLE_F_NOTIFY | TREADLE_F_CNTR_ERROR,
		.validate = treadle_cntr_validate,
		.bind = treadle_cntr_bind,
	},
};

const struct treadle_path_ops *const treadle_paths[TREADLE_PATHS] = {
	[TREADLE_PATH_LOCAL] = &treadle_local_path,
	[TREADLE_PATH_REMOTE] = &treadle_remote_path,
	[TREADLE_PATH_PROXY] = &treadle_proxy_path,
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
		if (treadle_opdefs[i].validate)
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
