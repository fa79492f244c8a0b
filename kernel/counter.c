// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: counters, and what is armed on them
 *
 * fi_cntr(3), fi_trigger(3). Commands wait in a tree by (threshold, submission).
 * When the value reaches the first one, whoever changed it makes the counter
 * active and puts its job into his run queue; there is one runner at a time,
 * who takes commands off the tree one by one and issues them, so they start in
 * order even if the counter jumps or several processors add to it. What has
 * been taken off runs; what is in the tree can be canceled; nothing is in
 * between.
 */
#include <linux/slab.h>

#include "treadle.h"

#define FIRE_BATCH 16
#define CULL_BATCH 64
#define CULL_LOOK  1024 /* commands looked at under one hold of the lock */

static struct treadle_cmd *armed_cmd(struct treadle_armed *a)
{
	return container_of(a, struct treadle_cmd, armed);
}

static u64 cntr_sum(const struct treadle_cntr *cntr)
{
	return cntr->page->success + cntr->page->error;
}

/* Under cntr->lock: is there something to fire that nobody fires yet? */
static bool cntr_activate(struct treadle_cntr *cntr)
{
	struct rb_node *first = rb_first_cached(&cntr->armed);

	if (likely(!first) || cntr->active ||
	    treadle_armed_entry(first)->threshold > cntr_sum(cntr))
		return false;
	cntr->active = true;
	kref_get(&cntr->obj.ref); /* of the job */
	return true;
}

/* After a change: start the job, wake waiters. */
static void cntr_changed(struct treadle_cntr *cntr, bool activated, struct treadle_run *run)
{
	if (activated)
		treadle_run_add(run, &cntr->job);
	treadle_wake(&cntr->waitq);
}

void treadle_cntr_add(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run)
{
	u64 *word = error ? &cntr->page->error : &cntr->page->success;
	bool activated;

	spin_lock(&cntr->lock);
	WRITE_ONCE(*word, *word + value);
	if (unlikely(error && !cntr->why))
		cntr->why = error;
	activated = cntr_activate(cntr);
	spin_unlock(&cntr->lock);
	cntr_changed(cntr, activated, run);
}

void treadle_cntr_set(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run)
{
	u64 *word = error ? &cntr->page->error : &cntr->page->success;
	bool activated;

	spin_lock(&cntr->lock);
	WRITE_ONCE(*word, value);
	if (unlikely(error))
		cntr->why = value ? error : 0;
	activated = cntr_activate(cntr);
	spin_unlock(&cntr->lock);
	cntr_changed(cntr, activated, run);
}

/* The job: there is one at a time (cntr->active), so commands start in order. */
static void cntr_fire(struct treadle_job *job, struct treadle_run *run)
{
	struct treadle_cntr *cntr = container_of(job, struct treadle_cntr, job);
	struct treadle_armed *a;
	int i;

	for (i = 0; i < FIRE_BATCH && run->budget > 0; i++, run->budget--) {
		struct treadle_cmd *cmd;
		int why;

		spin_lock(&cntr->lock);
		a = treadle_armed_pop(&cntr->armed, cntr_sum(cntr));
		if (!a)
			cntr->active = false;
		why = cntr->why;
		spin_unlock(&cntr->lock);
		if (!a) {
			treadle_obj_put(&cntr->obj);
			return;
		}
		cmd = armed_cmd(a);
		atomic_dec(&cntr->obj.ctx->armed);
		cmd->cond = NULL;
		treadle_obj_unbind(&cntr->obj);
		if (unlikely(why && (cmd->d.flags & TREADLE_F_STRICT)))
			treadle_cmd_fail(cmd, why, run);
		else
			treadle_opdefs[cmd->d.opcode].issue(cmd, run);
	}
	treadle_run_add(run, &cntr->job);
}

/* Arm a command, which is bound to @cntr already; it fires at once if it is time. */
void treadle_cntr_arm(struct treadle_cntr *cntr, struct treadle_cmd *cmd, struct treadle_run *run)
{
	bool activated;

	spin_lock(&cntr->lock);
	cmd->armed.threshold = cmd->d.threshold;
	cmd->armed.seq = cntr->seq++;
	treadle_armed_insert(&cntr->armed, &cmd->armed);
	activated = cntr_activate(cntr);
	spin_unlock(&cntr->lock);
	if (activated)
		treadle_run_add(run, &cntr->job);
}

/* The end of a graph has to be the last of it: it fails if what is before it is canceled. */
static bool is_end(const struct treadle_cmd *cmd)
{
	return cmd->d.opcode == TREADLE_OP_NOP && (cmd->d.flags & TREADLE_F_COLLECTIVE);
}

static bool culled(const struct treadle_cmd *cmd, const struct treadle_cull *cull)
{
	return (!cull->ep || cmd->ep == cull->ep) && !(cull->error && is_end(cmd)) &&
	       (!cull->work || (cmd->d.flags & (TREADLE_F_WORK | TREADLE_F_STRICT))) &&
	       (!cull->lax || !(cmd->d.flags & TREADLE_F_STRICT)) &&
	       (!cull->exact || cmd->d.context == cull->context);
}

/* Take matching commands off the counter, a batch under each hold of its lock. */
u64 treadle_cntr_cull(struct treadle_cntr *cntr, const struct treadle_cull *cull,
		      struct treadle_run *run)
{
	u64 threshold = cull->at ? cull->threshold : 0, seq = 0, total = 0;
	struct treadle_cmd *found[CULL_BATCH];
	struct treadle_armed *a;
	unsigned int i, n, looked;

	do {
		n = 0;
		looked = 0;
		spin_lock(&cntr->lock);
		a = treadle_armed_from(&cntr->armed, threshold, seq);
		while (a && n < CULL_BATCH && looked++ < CULL_LOOK && total + n < cull->max &&
		       !(cull->at && a->threshold != cull->threshold)) {
			struct treadle_armed *next = treadle_armed_next(a);

			/* where to go on after the lock was dropped */
			threshold = a->threshold;
			seq = a->seq + 1;
			if (culled(armed_cmd(a), cull)) {
				rb_erase_cached(&a->node, &cntr->armed);
				found[n++] = armed_cmd(a);
			}
			a = next;
		}
		if (cull->at && a && a->threshold != cull->threshold)
			a = NULL;
		spin_unlock(&cntr->lock);
		for (i = 0; i < n; i++) {
			atomic_dec(&cntr->obj.ctx->armed);
			found[i]->cond = NULL;
			treadle_obj_unbind(&cntr->obj);
			if (cull->error)
				treadle_cmd_fail(found[i], cull->error, run);
			else
				treadle_cmd_free(found[i]);
		}
		total += n;
		cond_resched();
	} while (a && total < cull->max);
	return total;
}

int treadle_ioc_cntr_create(struct treadle_ucmd *u)
{
	struct treadle_cntr_create *arg = u->arg;
	struct treadle_cntr *cntr;
	int ret;

	if (arg->flags || arg->reserved)
		return -EINVAL;
	cntr = kzalloc(sizeof(*cntr), TREADLE_GFP);
	if (!cntr)
		return -ENOMEM;
	ret = treadle_obj_init(u->ctx, &cntr->obj, TREADLE_CNTR);
	if (ret) {
		kfree(cntr);
		return ret;
	}
	spin_lock_init(&cntr->lock);
	cntr->armed = RB_ROOT_CACHED;
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
