// SPDX-License-Identifier: GPL-2.0
/* treadle: what tracepoints say of commands */
#include "exec/traced.h"

/**
 * treadle_cmd_id() - the number of a command that is traced
 * @cmd: the command; the caller's own. Gets a number if it has none
 *
 * Context: any.
 * Return: the number.
 */
u32 treadle_cmd_id(struct treadle_cmd *cmd)
{
	if (!cmd->traced) {
		cmd->d.reserved1 = treadle_trace_id();
		cmd->traced = true;
	}
	return cmd->d.reserved1;
}

/**
 * treadle_trace_cmd() - name a command; its target is not known
 * @m:   set
 * @cmd: the command
 *
 * Context: any.
 */
void treadle_trace_cmd(struct treadle_trace_msg *m, struct treadle_cmd *cmd)
{
	m->msg = treadle_cmd_id(cmd);
	treadle_trace_from(m, cmd->ep);
	treadle_trace_to(m, NULL);
	if (!cmd->ep && cmd->tx) /* an operation on a counter */
		m->ctx = READ_ONCE(cmd->tx->obj.ctx->number);
}

/* The source that an accepted command goes to, or 0. */
static u32 destination(const struct treadle_cmd *cmd)
{
	const struct treadle_desc *d = &cmd->d;

	if (!treadle_opdefs[array_index_nospec(d->opcode, TREADLE_OP_LAST)].routed || cmd->route)
		return 0;
	return treadle_dest_source(cmd->dest);
}

/**
 * treadle_trace_post() - treadle_post
 * @cmd:   the command, with its descriptor as the process has written it
 * @error: 0: it was accepted; or why not
 *
 * Context: any.
 */
void treadle_trace_post(struct treadle_cmd *cmd, int error)
{
	struct treadle_trace_msg m;

	treadle_trace_cmd(&m, cmd);
	trace_treadle_post(&m, &cmd->d, error ? 0 : destination(cmd), error);
}

/**
 * treadle_trace_arm() - treadle_arm
 * @cmd: the command, bound to its condition
 *
 * Context: any.
 */
void treadle_trace_arm(struct treadle_cmd *cmd)
{
	struct treadle_trace_msg m;

	treadle_trace_cmd(&m, cmd);
	trace_treadle_arm(&m, &cmd->d, cmd->cond->id, 0);
}

/**
 * treadle_trace_fire() - treadle_fire
 * @cmd:   the command
 * @cond:  id of its condition
 * @error: 0, or why it is not executed
 *
 * Context: any.
 */
void treadle_trace_fire(struct treadle_cmd *cmd, u32 cond, int error)
{
	struct treadle_trace_msg m;

	treadle_trace_cmd(&m, cmd);
	trace_treadle_fire(&m, &cmd->d, cond, error);
}

/**
 * treadle_trace_complete() - treadle_complete
 * @cmd:   the command, which is no posted receive
 * @error: 0, or why it has failed
 *
 * Context: any.
 */
void treadle_trace_complete(struct treadle_cmd *cmd, int error)
{
	struct treadle_trace_msg m;

	treadle_trace_cmd(&m, cmd);
	trace_treadle_complete(&m, cmd->d.opcode, cmd->d.len, cmd->d.context, error);
}

/**
 * treadle_trace_copy_begin() - treadle_copy_begin, of RMA and atomics
 * @cmd:    the command
 * @to:     its target
 * @done:   bytes that are done
 * @worker: a worker goes on with it
 *
 * Context: any.
 */
void treadle_trace_copy_begin(struct treadle_cmd *cmd, const struct treadle_ep *to, u64 done,
			      bool worker)
{
	struct treadle_trace_msg m;

	treadle_trace_cmd(&m, cmd);
	treadle_trace_to(&m, to);
	trace_treadle_copy_begin(&m, cmd->d.opcode, cmd->d.len, done, worker);
}

/**
 * treadle_trace_copy_end() - treadle_copy_end, of RMA and atomics
 * @cmd:   the command
 * @to:    its target
 * @error: 0, or what treadle_copy_end has
 *
 * Context: any.
 */
void treadle_trace_copy_end(struct treadle_cmd *cmd, const struct treadle_ep *to, int error)
{
	struct treadle_trace_msg m;

	treadle_trace_cmd(&m, cmd);
	treadle_trace_to(&m, to);
	trace_treadle_copy_end(&m, cmd->d.opcode, cmd->d.len, error);
}
