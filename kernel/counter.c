// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: counters, and what is armed on them
 *
 * fi_cntr(3), fi_trigger(3). Commands wait in a tree by (threshold, submission).
 * When the value reaches the first one, the change makes the counter active and puts
 * its job into the run queue of the thread that made it. One runner at a time
 * takes commands off the tree one by one and issues them, so they start in
 * order even if the counter jumps or several processors add to it.
 */
#include <linux/slab.h>

#include "treadle.h"

#define FIRE_BATCH 16

static u64 cntr_sum(const struct treadle_cntr *cntr)
{
	return cntr->page->success + cntr->page->error;
}

/*
 * If a command is due and no job fires yet, start one. It is in the queue before trigger.lock is
 * dropped: a thread that is preempted in between would be the only one to know of it.
 */
static void cntr_activate(struct treadle_cntr *cntr, struct treadle_run *run)
{
	struct rb_node *first = rb_first_cached(&cntr->trigger.armed);

	lockdep_assert_held(&cntr->trigger.lock);
	if (likely(!first) || cntr->active ||
	    treadle_armed_entry(first)->threshold > cntr_sum(cntr))
		return;
	cntr->active = true;
	kref_get(&cntr->obj.ref); /* of the job */
	treadle_run_add(run, &cntr->job);
}

/* A new value. Under trigger.lock; who sees that there was a change sees it, too. */
static void cntr_write(struct treadle_cntr *cntr, u64 *word, u64 value)
{
	struct treadle_cntr_page *page = cntr->page;

	if (word == &page->error && *word != value) /* before the wake-up: F */
		WRITE_ONCE(cntr->errors, cntr->errors + 1);
	/* After all that was moved, some of it without a lock; pairs with the reader's acquiring load. */
	smp_store_release(word, value);
	smp_store_release(&page->changes, page->changes + 1);
}

/* After a change: let go of trigger.lock, start the job, wake waiters. */
static void cntr_changed(struct treadle_cntr *cntr, struct treadle_run *run)
	__releases(&cntr->trigger.lock)
{
	bool awaited = treadle_awaited(&cntr->waitq);

	cntr_activate(cntr, run);
	spin_unlock(&cntr->trigger.lock);
	treadle_wake(&cntr->waitq, awaited);
}

void treadle_cntr_add(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run)
{
	u64 *word = error ? &cntr->page->error : &cntr->page->success;

	spin_lock(&cntr->trigger.lock);
	cntr_write(cntr, word, *word + value);
	if (unlikely(error && value && !cntr->why)) /* of none there is no first */
		cntr->why = error;
	cntr_changed(cntr, run);
}

void treadle_cntr_set(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run)
{
	u64 *word = error ? &cntr->page->error : &cntr->page->success;

	spin_lock(&cntr->trigger.lock);
	cntr_write(cntr, word, value);
	if (unlikely(error))
		cntr->why = value ? cntr->why ?: error : 0;
	cntr_changed(cntr, run);
}

/* Arm a command on its counter; it fires at once if it is time. */
void treadle_cntr_arm(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_cntr *cntr = container_of(cmd->cond, struct treadle_cntr, obj);
	int error;

	spin_lock(&cntr->trigger.lock);
	error = treadle_arm_error(cmd);
	if (!error) {
		treadle_arm(&cntr->trigger, cmd, cmd->d.threshold);
		cntr_activate(cntr, run);
	}
	spin_unlock(&cntr->trigger.lock);
	if (error)
		treadle_arm_refuse(cmd, error, run);
}

/* The condition and that for its rest take turns. */
static void cntr_turn(struct treadle_cmd *cmd)
{
	u64 threshold = cmd->d.threshold;

	swap(cmd->cond, cmd->rest);
	cmd->d.threshold = cmd->d.rest_threshold;
	cmd->d.rest_threshold = threshold;
	cmd->resting = !cmd->resting;
}

/* A command that repeats has ended, or has rested. */
void treadle_cntr_again(struct treadle_cmd *cmd, struct treadle_run *run)
{
	cmd->d.threshold += cmd->d.value;
	if (cmd->rest)
		cntr_turn(cmd);
	treadle_cntr_arm(cmd, run);
}

/*
 * Is the first one a receive that others are to come before which its owner has posted, perhaps very many, or a look at
 * messages, of which there may be as many? Then his worker goes on, not the peer who runs here. Under the lock; the
 * command holds its endpoint.
 */
static bool owner_is_to_fire(const struct treadle_cntr *cntr)
{
	struct rb_node *first = rb_first_cached(&cntr->trigger.armed);
	const struct treadle_cmd *cmd;

	if (!first)
		return false;
	cmd = container_of(treadle_armed_entry(first), struct treadle_cmd, armed);
	return treadle_opdefs[cmd->d.opcode].receives && !(cmd->d.flags & TREADLE_F_COLLECTIVE) &&
	       (cmd->d.flags & TREADLE_F_PEEK || treadle_rx_behind(cmd->ep->rx));
}

/*
 * Is it skipped, as what came before it failed (F_STRICT)? Not the receive of a collective: a member sends what is for it
 * at any rate, and waits. Its buffer is free, as what came before has ended; the error is told by what comes after both.
 */
static int why_not(const struct treadle_cmd *cmd, int why)
{
	const u32 flags = cmd->d.flags & (TREADLE_F_STRICT | TREADLE_F_COLLECTIVE);

	if (!(flags & TREADLE_F_STRICT) ||
	    (flags & TREADLE_F_COLLECTIVE && cmd->d.opcode == TREADLE_OP_TRECV))
		return 0;
	return why;
}

/* The job: there is one at a time (cntr->active), so commands start in order. */
static void cntr_fire(struct treadle_job *job, struct treadle_run *run)
{
	struct treadle_cntr *cntr = container_of(job, struct treadle_cntr, job);
	struct treadle_armed *a;
	int i;

	for (i = 0; i < FIRE_BATCH && run->budget > 0; i++, run->budget--) {
		struct treadle_cmd *cmd;
		bool repeats;
		int why;

		spin_lock(&cntr->trigger.lock);
		if (unlikely(run->ctx != cntr->obj.ctx) && owner_is_to_fire(cntr)) {
			treadle_queue_job(&cntr->job);
			spin_unlock(&cntr->trigger.lock);
			return;
		}
		a = treadle_armed_pop(&cntr->trigger.armed, cntr_sum(cntr));
		if (!a) {
			cntr->active = false;
			spin_unlock(&cntr->trigger.lock);
			treadle_obj_put(&cntr->obj);
			return;
		}
		cmd = container_of(a, struct treadle_cmd, armed);
		why = why_not(cmd, cntr->why);
		repeats = unlikely(cmd->d.flags & TREADLE_F_REPEAT);
		if (!repeats) /* here: who finds it armed no more may close the counter, which the job holds */
			treadle_cond_drop(cmd);
		spin_unlock(&cntr->trigger.lock);
		if (repeats) {
			if (cmd->resting) {
				treadle_cntr_again(cmd, run);
				continue;
			}
			cmd->skipped = why;
		}
		/* what comes behind it waits for nobody's memory but that of the counter's owner */
		run->guest = run->ctx != cntr->obj.ctx;
		if (unlikely(why))
			treadle_cmd_fail(cmd, why, run);
		else
			treadle_opdefs[cmd->d.opcode].issue(cmd, run);
		if (unlikely(run->guest)) {
			run->guest = false;
			if (need_resched()) { /* nor for our processor */
				treadle_queue_job(&cntr->job);
				return;
			}
		}
	}
	treadle_run_add(run, &cntr->job);
}

int treadle_ioc_cntr_create(struct treadle_ucmd *u)
{
	struct treadle_cntr_create *arg = u->arg;
	struct treadle_cntr *cntr;
	int ret;

	if (arg->flags & ~TREADLE_CNTR_BYTES || arg->reserved)
		return -EINVAL;
	cntr = kzalloc(sizeof(*cntr), TREADLE_GFP);
	if (!cntr)
		return -ENOMEM;
	ret = treadle_obj_init(u->ctx, &cntr->obj, TREADLE_CNTR);
	if (ret) {
		kfree(cntr);
		return ret;
	}
	treadle_trigger_init(&cntr->trigger);
	cntr->bytes = arg->flags & TREADLE_CNTR_BYTES;
	cntr->job.ctx = u->ctx;
	cntr->job.fn = cntr_fire;
	treadle_waitq_init(&cntr->waitq);
	ret = treadle_area_alloc(&cntr->ro, PAGE_SIZE);
	if (ret) {
		treadle_obj_put(&cntr->obj);
		return ret;
	}
	cntr->page = cntr->ro.addr;
	arg->id = cntr->obj.id;
	treadle_map_cookie(&cntr->obj, &cntr->ro, TREADLE_RO, &arg->ro);
	u->new = &cntr->obj;
	return 0;
}

/* Nothing is armed any more: what is armed holds the counter. */
void treadle_cntr_free(struct treadle_obj *obj)
{
	treadle_area_free(&container_of(obj, struct treadle_cntr, obj)->ro);
}
