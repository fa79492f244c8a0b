// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: operations without data: set and add to a counter, and NOP
 *
 * fi_cntr(3); fi_trigger(3): "deferred counter operations do not update the
 * completion counter".
 */
#include "exec/command.h"

/* Are the fields zero that such a descriptor does not use? */
static bool cntr_unused(const struct treadle_desc *d)
{
	return !d->tag && !d->ignore;
}

/**
 * treadle_nop_validate() - check a NOP
 * @cmd: the command. With F_COLLECTIVE it has an endpoint, and reports the end of a graph there
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int treadle_nop_validate(struct treadle_cmd *cmd)
{
	return cntr_unused(&cmd->d) && !cmd->d.peer && !cmd->d.data ? 0 : -EINVAL;
}

/**
 * treadle_nop_issue() - complete a NOP
 * @cmd: the command; consumed
 * @run: of the caller
 *
 * Context: see treadle_cmd_complete().
 */
void treadle_nop_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	treadle_cmd_complete(cmd, 0, run);
}

/**
 * treadle_cntr_validate() - check a counter operation
 * @cmd: the command
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int treadle_cntr_validate(struct treadle_cmd *cmd)
{
	return cntr_unused(&cmd->d) && cmd->d.peer <= U32_MAX ? 0 : -EINVAL;
}

/**
 * treadle_cntr_bind() - bind the counter that an operation changes
 * @cmd: the command; its descriptor names the counter in @peer
 *
 * Context: any.
 * Return: 0, or why the counter can't be bound.
 */
int treadle_cntr_bind(struct treadle_cmd *cmd)
{
	struct treadle_obj *obj = treadle_obj_bind(cmd->tx->obj.ctx, cmd->d.peer, TREADLE_CNTR);

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	cmd->target = container_of(obj, struct treadle_cntr, obj);
	return 0;
}

/**
 * treadle_cntr_issue() - set a counter, or add to it
 * @cmd: the command; consumed
 * @run: of the caller; gets what the new value fires
 *
 * Context: takes the target's trigger.lock; see treadle_cmd_complete().
 */
void treadle_cntr_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	int error = cmd->d.flags & TREADLE_F_CNTR_ERROR ? -ECANCELED : 0;
	bool last = !(cmd->d.flags & TREADLE_F_REPEAT);
	struct treadle_cntr *target = cmd->target;

	if (last) { /* unbind first: a process that sees the new value may destroy the counter */
		atomic_dec(&target->obj.users);
		cmd->target = NULL;
	}
	if (cmd->d.opcode == TREADLE_OP_CNTR_SET)
		treadle_cntr_set(target, cmd->d.data, error, run);
	else
		treadle_cntr_add(target, cmd->d.data, error, run);
	treadle_cmd_complete(cmd, 0, run);
	if (last)
		treadle_obj_put(&target->obj);
}
