// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: what is armed, and taking it off
 *
 * A command that is armed is in the tree of one trigger: of its counter, or of its
 * context's poller. What has been taken off runs or is dropped; what is in there can
 * be canceled; nothing is in between.
 */
#include <linux/sched/signal.h>

#include "exec/command.h"

#define CULL_BATCH 64
#define CULL_LOOK  1024 /* commands looked at under one hold of the lock */

static struct treadle_cmd *armed_cmd(struct treadle_armed *a)
{
	return container_of(a, struct treadle_cmd, armed);
}

/* Under t->lock; the command is bound to its condition already. */
void treadle_arm(struct treadle_trigger *t, struct treadle_cmd *cmd, u64 key)
{
	cmd->armed.threshold = key;
	cmd->armed.seq = t->seq++;
	treadle_armed_insert(&t->armed, &cmd->armed);
}

/*
 * What it was to wait for is let go of: first, under the lock of the trigger, so that who finds nothing armed may
 * destroy it; then its references, of which one may be the last.
 */
void treadle_cond_unbind(struct treadle_cmd *cmd)
{
	atomic_dec(&cmd->cond->ctx->armed);
	atomic_dec(&cmd->cond->users);
	if (unlikely(cmd->rest))
		atomic_dec(&cmd->rest->users);
}

void treadle_cond_put(struct treadle_cmd *cmd)
{
	treadle_obj_put(cmd->cond);
	cmd->cond = NULL;
	if (unlikely(cmd->rest))
		treadle_obj_put(cmd->rest);
}

/* Of a command that is not armed. */
void treadle_cond_drop(struct treadle_cmd *cmd)
{
	treadle_cond_unbind(cmd);
	treadle_cond_put(cmd);
}

/* The end of a graph has to be the last of it: it fails if what is before it is canceled. */
static bool is_end(const struct treadle_cmd *cmd)
{
	return cmd->d.opcode == TREADLE_OP_NOP && (cmd->d.flags & TREADLE_F_COLLECTIVE);
}

/* It ends with the connection of its endpoint: it was posted there, and is not the context's, nor a graph's. */
static bool ends_with_connection(const struct treadle_cmd *cmd)
{
	return !(cmd->d.flags & (TREADLE_F_WORK | TREADLE_F_STRICT | TREADLE_F_REPEAT)) &&
	       !is_end(cmd) && !(treadle_opdefs[cmd->d.opcode].receives && cmd->ep->rx_shared);
}

/*
 * Why it is not armed, for treadle_arm_refuse(), or 0. Under the lock of the trigger: who closes an endpoint, ends its
 * connection or ends all says so and then takes off what is armed, under this lock: either it is seen here, or he finds
 * the command. -ECANCELED: that is to be told; else it is dropped.
 */
int treadle_arm_error(struct treadle_cmd *cmd)
{
	const struct treadle_ep *ep = cmd->ep;
	int error = 0;

	if (READ_ONCE(cmd->cond->ctx->dead) || (ep && READ_ONCE(ep->dead)))
		error = -ESHUTDOWN;
	else if (ep && unlikely(READ_ONCE(ep->severed)) && ends_with_connection(cmd))
		error = -ECANCELED;
	if (unlikely(error))
		treadle_cond_unbind(cmd);
	return error;
}

void treadle_arm_refuse(struct treadle_cmd *cmd, int error, struct treadle_run *run)
{
	treadle_cond_put(cmd);
	if (error == -ECANCELED)
		treadle_cmd_fail(cmd, error, run);
	else
		treadle_cmd_free(cmd);
}

/* What work is canceled by. */
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

/* Deferred work; by name also what has no endpoint to tell of it, without it all of a graph. */
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

/* Under t->lock, so that a cell tells of who has left it last. */
static void take_off(struct treadle_trigger *t, struct treadle_cmd *cmd)
{
	rb_erase_cached(&cmd->armed.node, &t->armed);
	treadle_cond_unbind(cmd);
	if (cmd->cond->type == TREADLE_CELL)
		treadle_cell_disarmed(cmd->cond, &cmd->d);
}

/* Take matching commands off, a batch under each hold of the lock. */
static u64 trigger_cull(struct treadle_trigger *t, const struct treadle_cull *cull,
			struct treadle_run *run)
{
	const bool ranged = cull->at && !cull->cond; /* then the key is the threshold */
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
				take_off(t, armed_cmd(a));
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

/* Of one counter, or of one object of cells. */
u64 treadle_cull(struct treadle_obj *cond, const struct treadle_cull *cull, struct treadle_run *run)
{
	struct treadle_cull cells = *cull;

	if (cond->type == TREADLE_CNTR)
		return trigger_cull(&container_of(cond, struct treadle_cntr, obj)->trigger, cull,
				    run);
	cells.cond = cond;
	return trigger_cull(&cond->ctx->poller.trigger, &cells, run);
}

/* Of all counters and cells of the context: a command is armed on one of them. */
u64 treadle_cull_all(struct treadle_ctx *ctx, const struct treadle_cull *cull,
		     struct treadle_run *run)
{
	u64 n = trigger_cull(&ctx->poller.trigger, cull, run);
	struct treadle_cull rest = *cull;
	struct treadle_obj *obj;
	unsigned long id;

	/* there may be thousands of other objects, and each endpoint that closes comes here */
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
