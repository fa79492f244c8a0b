// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: fire commands that are armed on counters, fi_trigger(3)
 *
 * Commands wait in a tree by (threshold, submission). One runner at a time takes those that are due
 * off the tree one by one and issues them. So they start in order even if the counter jumps or
 * several processors add to it.
 */
#include "exec/traced.h"

#define FIRE_BATCH 16

static void cntr_fire(struct treadle_job *job, struct treadle_run *run);

/**
 * treadle_cntr_arm() - arm a command on its counter
 * @cmd: the command, on the heap and bound to cmd->cond; consumed
 * @run: of the caller; gets the counter's job if the command is due
 *
 * Once armed, the command may fire or be canceled at any time. If its endpoint or context has
 * ended, it is not armed but failed or dropped.
 *
 * Context: takes the counter's trigger.lock; may sleep if the command is refused.
 */
void treadle_cntr_arm(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_cntr *cntr = container_of(cmd->cond, struct treadle_cntr, obj);
	int error;

	spin_lock(&cntr->trigger.lock);
	error = treadle_arm_error(cmd);
	if (!error) {
		treadle_arm(&cntr->trigger, cmd, cmd->d.threshold);
		cntr->job.fn = cntr_fire;
		treadle_cntr_activate(cntr, run);
	}
	spin_unlock(&cntr->trigger.lock);
	if (error)
		treadle_arm_refuse(cmd, error, run);
}

/* Swap @cond with @rest, and their thresholds. */
static void cntr_turn(struct treadle_cmd *cmd)
{
	u64 threshold = cmd->d.threshold;

	swap(cmd->cond, cmd->rest);
	cmd->d.threshold = cmd->d.rest_threshold;
	cmd->d.rest_threshold = threshold;
	cmd->resting = !cmd->resting;
}

/**
 * treadle_cntr_again() - arm a command that repeats for its next round
 * @cmd: the command; its last round has ended, or it has rested
 * @run: of the caller
 *
 * Context: see treadle_cntr_arm().
 */
void treadle_cntr_again(struct treadle_cmd *cmd, struct treadle_run *run)
{
	cmd->d.threshold += cmd->d.value;
	if (cmd->rest)
		cntr_turn(cmd);
	treadle_cntr_arm(cmd, run);
}

/*
 * True if issuing the first command may scan what its owner has posted, which is unbounded
 * (->is_long). Then the owner's worker fires, and not a peer's thread. The command holds its
 * endpoint.
 */
static bool owner_is_to_fire(const struct treadle_cntr *cntr)
{
	struct rb_node *first = rb_first_cached(&cntr->trigger.armed);
	const struct treadle_cmd *cmd;

	lockdep_assert_held(&cntr->trigger.lock);
	if (!first)
		return false;
	cmd = container_of(treadle_armed_entry(first), struct treadle_cmd, armed);
	return treadle_opdefs[cmd->d.opcode].is_long && treadle_opdefs[cmd->d.opcode].is_long(cmd);
}

/*
 * Why the command is skipped, or 0: @why, the first error of its counter, if it has F_STRICT. The
 * receive of a collective is never skipped: the other member sends in any case, and waits. Its
 * buffer is free, as the commands before it have ended, and the command after both reports the
 * error.
 */
static int why_not(const struct treadle_cmd *cmd, int why)
{
	const u32 flags = cmd->d.flags & (TREADLE_F_STRICT | TREADLE_F_COLLECTIVE);

	if (!(flags & TREADLE_F_STRICT) ||
	    (flags & TREADLE_F_COLLECTIVE && cmd->d.opcode == TREADLE_OP_TRECV))
		return 0;
	return why;
}

/* The counter's job. Only one is queued or runs (cntr->active), so commands start in order. */
static void cntr_fire(struct treadle_job *job, struct treadle_run *run)
{
	struct treadle_cntr *cntr = container_of(job, struct treadle_cntr, job);
	struct treadle_armed *a;
	int i;

	for (i = 0; i < FIRE_BATCH && run->budget > 0;
	     i++, treadle_run_charge(run, TREADLE_CHARGE)) {
		struct treadle_cmd *cmd;
		bool repeats;
		int why;

		spin_lock(&cntr->trigger.lock);
		if (unlikely(run->ctx != cntr->obj.ctx) && owner_is_to_fire(cntr)) {
			treadle_queue_job(&cntr->job);
			spin_unlock(&cntr->trigger.lock);
			return;
		}
		a = treadle_armed_pop(&cntr->trigger.armed, treadle_cntr_sum(cntr));
		if (!a) {
			cntr->active = false;
			spin_unlock(&cntr->trigger.lock);
			treadle_obj_put(&cntr->obj);
			return;
		}
		cmd = container_of(a, struct treadle_cmd, armed);
		why = why_not(cmd, cntr->why);
		repeats = unlikely(cmd->d.flags & TREADLE_F_REPEAT);
		/*
		 * under the lock: a process that finds the command no longer armed may destroy the
		 * counter; the job holds a reference
		 */
		if (!repeats)
			treadle_cond_drop(cmd);
		spin_unlock(&cntr->trigger.lock);
		if (repeats) {
			if (cmd->resting) {
				treadle_cntr_again(cmd, run);
				continue;
			}
			cmd->skipped = why != 0;
		}
		/*
		 * A guest does not wait for pages or receives of its own context: later commands of
		 * the counter would wait, too.
		 */
		run->guest = run->ctx != cntr->obj.ctx;
		treadle_stat_add(treadle_cmd_stats(cmd, cntr->obj.ctx), TREADLE_STAT_FIRED, 1);
		if (trace_treadle_fire_enabled())
			treadle_trace_fire(cmd, cntr->obj.id, why);
		if (unlikely(why))
			treadle_cmd_fail(cmd, why, run);
		else
			treadle_cmd_issue(cmd, run);
		if (unlikely(run->guest)) {
			run->guest = false;
			if (need_resched()) { /* nor for a processor */
				treadle_queue_job(&cntr->job);
				return;
			}
		}
	}
	treadle_run_add(run, &cntr->job);
}
