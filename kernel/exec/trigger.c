// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: armed commands, and how they are taken off
 *
 * An armed command is in the tree of one trigger: its counter's, or that of its context's poller.
 * Only what is in a tree can be canceled. A command that was taken off is issued or dropped; there
 * is no state in between.
 */
#include <linux/sched/signal.h>

#include "exec/traced.h"

#define CULL_BATCH 64
#define CULL_LOOK  1024 /* commands looked at under one hold of the lock */

static struct treadle_cmd *armed_cmd(struct treadle_armed *a)
{
	return container_of(a, struct treadle_cmd, armed);
}

/* Where commands are armed on @cond: a counter, or cells. */
static struct treadle_trigger *trigger_of(struct treadle_obj *cond)
{
	return cond->type == TREADLE_CNTR ? &container_of(cond, struct treadle_cntr, obj)->trigger :
					    &cond->ctx->poller.trigger;
}

/**
 * treadle_arm() - insert a command into a trigger's tree
 * @t:   the trigger
 * @cmd: the command, bound to its condition
 * @key: its place: a counter's threshold, or the id of its endpoint
 *
 * Context: t->lock is held.
 */
void treadle_arm(struct treadle_trigger *t, struct treadle_cmd *cmd, u64 key)
{
	lockdep_assert_held(&t->lock);
	cmd->armed.threshold = key;
	cmd->armed.seq = t->seq++;
	treadle_armed_insert(&t->armed, &cmd->armed);
	treadle_stat_add(treadle_cmd_stats(cmd, cmd->cond->ctx), TREADLE_STAT_ARMED, 1);
	if (trace_treadle_arm_enabled())
		treadle_trace_arm(cmd);
}

/**
 * treadle_cond_unbind() - unbind a command's conditions, but keep the references
 * @cmd: the command, not armed any more
 *
 * A process that finds nothing armed may destroy the condition. treadle_cond_put() follows.
 *
 * Context: the same hold of the trigger's lock in which the command was taken off.
 */
void treadle_cond_unbind(struct treadle_cmd *cmd)
{
	atomic_dec(&cmd->cond->ctx->armed);
	atomic_dec(&cmd->cond->users);
	if (unlikely(cmd->rest))
		atomic_dec(&cmd->rest->users);
}

/**
 * treadle_cond_put() - put the references on a command's conditions
 * @cmd: the command, see treadle_cond_unbind()
 *
 * Context: no spinlock held; may put the last reference, which may sleep.
 */
void treadle_cond_put(struct treadle_cmd *cmd)
{
	treadle_obj_put(cmd->cond);
	cmd->cond = NULL;
	if (unlikely(cmd->rest))
		treadle_obj_put(cmd->rest);
}

/**
 * treadle_cond_drop() - unbind and put the conditions of a command
 * @cmd: the command, not armed
 *
 * Context: the last reference may sleep; under the trigger's lock another one is held.
 */
void treadle_cond_drop(struct treadle_cmd *cmd)
{
	treadle_cond_unbind(cmd);
	treadle_cond_put(cmd);
}

/*
 * The NOP that ends a graph. It is never canceled with an error: it fails if a command before it is
 * canceled.
 */
static bool is_end(const struct treadle_cmd *cmd)
{
	return cmd->d.opcode == TREADLE_OP_NOP && (cmd->d.flags & TREADLE_F_COLLECTIVE);
}

/*
 * Does it end with the connection of its endpoint? Deferred work belongs to the context, graphs go
 * on, and a receive of a shared receive context was not posted to the endpoint.
 */
static bool ends_with_connection(const struct treadle_cmd *cmd)
{
	return !(cmd->d.flags & (TREADLE_F_WORK | TREADLE_F_STRICT | TREADLE_F_REPEAT)) &&
	       !is_end(cmd) && !(treadle_opdefs[cmd->d.opcode].receives && cmd->ep->rx_shared);
}

/**
 * treadle_arm_error() - may a command be armed?
 * @cmd: the command, bound to its condition; unbound on failure
 *
 * Closing an endpoint, ending its connection or ending the context first sets its flag, then takes
 * off what is armed, under the trigger's lock. So either the flag is seen here, or the command is
 * found there.
 *
 * Context: the trigger's lock is held.
 * Return: 0, or an error for treadle_arm_refuse(): -ECANCELED, which is reported; -ESHUTDOWN, which
 * is not.
 */
int treadle_arm_error(struct treadle_cmd *cmd)
{
	const struct treadle_ep *ep = cmd->ep;
	int error = 0;

	lockdep_assert_held(&trigger_of(cmd->cond)->lock);
	if (READ_ONCE(cmd->cond->ctx->dead) || (ep && READ_ONCE(ep->dead)))
		error = -ESHUTDOWN;
	else if (ep && unlikely(READ_ONCE(ep->severed)) && ends_with_connection(cmd))
		error = -ECANCELED;
	if (unlikely(error))
		treadle_cond_unbind(cmd);
	return error;
}

/**
 * treadle_arm_refuse() - end a command that treadle_arm_error() has refused
 * @cmd:   the command; failed, or dropped without a completion
 * @error: what treadle_arm_error() has returned
 * @run:   of the caller
 *
 * Context: may sleep; no spinlock is held.
 */
void treadle_arm_refuse(struct treadle_cmd *cmd, int error, struct treadle_run *run)
{
	treadle_cond_put(cmd);
	if (error == -ECANCELED)
		treadle_cmd_fail(cmd, error, run);
	else
		treadle_cmd_free(cmd);
}

/* What CANCEL names a command by: deferred work on a counter by @value, if set; else @context. */
static u64 name_of(const struct treadle_desc *d)
{
	const u32 kind = TREADLE_F_COND_CNTR | TREADLE_F_REPEAT;

	return (d->flags & kind) == TREADLE_F_COND_CNTR && d->value ? d->value : d->context;
}

static bool is_of_side(const struct treadle_cmd *cmd, u32 sides)
{
	return !sides || sides & (treadle_opdefs[cmd->d.opcode].receives ? TREADLE_CANCEL_RX :
									   TREADLE_CANCEL_TX);
}

/*
 * Is it deferred work? By name (@exact) also a command without an endpoint that would report it;
 * otherwise also any command of a graph.
 */
static bool is_work(const struct treadle_cmd *cmd, bool exact)
{
	return cmd->d.flags & TREADLE_F_WORK ||
	       (exact ? !cmd->ep : cmd->d.flags & TREADLE_F_STRICT);
}

static bool culled(const struct treadle_cmd *cmd, const struct treadle_cull *cull)
{
	return is_of_side(cmd, cull->sides) && (!cull->ep || cmd->ep == cull->ep) &&
	       (!cull->cond || cmd->cond == cull->cond) && !(cull->error && is_end(cmd)) &&
	       !(cull->error && cull->exact && (cmd->d.flags & TREADLE_F_REPEAT)) &&
	       (!cull->work || is_work(cmd, cull->exact)) &&
	       (!cull->lax || !(cmd->d.flags & (TREADLE_F_STRICT | TREADLE_F_REPEAT))) &&
	       (!cull->over || ends_with_connection(cmd)) &&
	       (!cull->exact ||
		(cull->work ? name_of(&cmd->d) : cmd->d.context) == cull->context) &&
	       (!cull->at || cmd->d.threshold == cull->threshold);
}

/*
 * Take @cmd off. The lock keeps the values that cells show in the order in which commands leave.
 * What was added to a cell before is still added to the counter that follows it.
 */
static void take_off(struct treadle_trigger *t, struct treadle_cmd *cmd, struct treadle_run *run)
{
	lockdep_assert_held(&t->lock);
	if (treadle_cmd_follows(cmd))
		treadle_cell_follow(cmd, run);
	rb_erase_cached(&cmd->armed.node, &t->armed);
	treadle_cond_unbind(cmd);
	if (cmd->cond->type == TREADLE_CELL)
		treadle_cell_disarmed(cmd->cond, &cmd->d);
}

/*
 * Take off and end all commands that match, in batches. Takes t->lock; may sleep. Returns how many.
 */
static u64 trigger_cull(struct treadle_trigger *t, const struct treadle_cull *cull,
			struct treadle_run *run)
{
	const bool ranged = cull->at && !cull->cond; /* then the tree's key is the threshold */
	u64 key = ranged ? cull->threshold : 0, seq = 0, total = 0;
	struct treadle_cmd *found[CULL_BATCH];
	struct treadle_armed *a;
	unsigned int i, n, looked;

	do {
		n = 0;
		looked = 0;
		spin_lock(&t->lock);
		a = treadle_armed_from(&t->armed, key, seq);
		while (a && n < CULL_BATCH && looked++ < CULL_LOOK && total + n < cull->max &&
		       !(ranged && a->threshold != cull->threshold)) {
			struct treadle_armed *next = treadle_armed_next(a);

			/* where to go on after the lock was dropped */
			key = a->threshold;
			seq = a->seq + 1;
			if (culled(armed_cmd(a), cull)) {
				take_off(t, armed_cmd(a), run);
				found[n++] = armed_cmd(a);
			}
			a = next;
		}
		if (ranged && a && a->threshold != cull->threshold)
			a = NULL;
		spin_unlock(&t->lock);
		for (i = 0; i < n; i++) {
			treadle_cond_put(found[i]);
			if (cull->error)
				treadle_cmd_fail(found[i], cull->error, run);
			else
				treadle_cmd_free(found[i]);
		}
		total += n;
		cond_resched();
	} while (a && total < cull->max && !(cull->killable && fatal_signal_pending(current)));
	return total;
}

/**
 * treadle_cull() - end the commands that are armed on one object
 * @cond: a counter, or an object of cells
 * @cull: which, and how
 * @run:  of the caller
 *
 * Context: takes the trigger's lock; may sleep.
 * Return: how many were ended.
 */
u64 treadle_cull(struct treadle_obj *cond, const struct treadle_cull *cull, struct treadle_run *run)
{
	struct treadle_cull cells = *cull;

	if (cond->type == TREADLE_CNTR)
		return trigger_cull(&container_of(cond, struct treadle_cntr, obj)->trigger, cull,
				    run);
	cells.cond = cond;
	return trigger_cull(&cond->ctx->poller.trigger, &cells, run);
}

/**
 * treadle_cull_all() - end the commands that are armed on any counter or cell of a context
 * @ctx:  the context
 * @cull: which, and how
 * @run:  of the caller
 *
 * Context: takes the triggers' locks, one after the other; may sleep.
 * Return: how many were ended.
 */
u64 treadle_cull_all(struct treadle_ctx *ctx, const struct treadle_cull *cull,
		     struct treadle_run *run)
{
	u64 n = trigger_cull(&ctx->poller.trigger, cull, run);
	struct treadle_cull rest = *cull;
	struct treadle_obj *obj;
	unsigned long id;

	/* only counters: each endpoint that closes gets here, and other objects may be thousands */
	xa_for_each_marked(&ctx->objs, id, obj, TREADLE_CNTRS) {
		if (n >= cull->max || (cull->killable && fatal_signal_pending(current)))
			break;
		obj = treadle_obj_get(ctx, id, TREADLE_CNTR);
		if (IS_ERR(obj))
			continue;
		rest.max = cull->max - n;
		n += treadle_cull(obj, &rest, run);
		treadle_obj_put(obj);
	}
	return n;
}
