// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: jobs of other contexts in a runner's queue
 *
 * A runner that makes another context's counter reach a threshold runs the counter's job itself,
 * which is faster than waking a worker. But the runner may lose its processor at any point, for as
 * long as the scheduler likes. So such a job is only offered: it is on run->others, and the run is
 * on the list of the runner's context, under watch->lock. The runner claims one job at a time.
 *
 * While anything is offered, a timer looks every LOOK_NS. A run that has claimed nothing between
 * two looks does not run: what it offers goes to the workers of the contexts it belongs to.
 *
 * A claimed job can't be taken away, as its commands start in order. So a thread that the
 * scheduler puts behind ordinary ones claims nothing.
 */
#include <linux/hrtimer.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>

#include "compat.h"
#include "treadle.h"

#define LOOK_NS	  (4 * NSEC_PER_MSEC) /* longer than an ordinary slice of the scheduler */
#define LOOK_RUNS 64		      /* under one hold of the lock */

/* May ordinary threads keep this one from its processor for as long as they run? */
static bool is_background(void)
{
	return READ_ONCE(current->policy) == SCHED_IDLE || READ_ONCE(current->prio) > DEFAULT_PRIO;
}

/* Take @run off the list, and leave its jobs to workers. The run may be gone after the unlock. */
static void give(struct treadle_run *run)
{
	struct treadle_job *job, *next;

	lockdep_assert_held(&run->ctx->watch.lock);
	list_del(&run->node);
	run->look = 0;
	list_for_each_entry_safe(job, next, &run->others, link) {
		list_del_init(&job->link);
		treadle_queue_job(job);
	}
}

static void look_start(struct treadle_watch *watch)
{
	watch->on = true;
	hrtimer_start(&watch->timer, ns_to_ktime(LOOK_NS), HRTIMER_MODE_REL_HARD);
}

/**
 * treadle_run_offer - put a job of another context into a run's queue
 * @run: of the caller
 * @job: on no list
 *
 * Called under the lock of what @job works on, before that shows that a runner has been found:
 * otherwise the caller could be preempted with the job in its hands. Takes watch->lock, and
 * ctx->jobs_lock in that. Never sleeps.
 */
void treadle_run_offer(struct treadle_run *run, struct treadle_job *job)
{
	struct treadle_watch *watch = &run->ctx->watch;

	spin_lock(&watch->lock);
	if (list_empty(&run->others))
		list_add_tail(&run->node, &watch->runs);
	list_add_tail(&job->link, &run->others);
	if (unlikely(is_background())) {
		give(run);
	} else {
		run->offers = true;
		if (unlikely(!watch->on))
			look_start(watch);
	}
	spin_unlock(&watch->lock);
}

/**
 * treadle_run_claim - take the next job of another context
 * @run: of the caller
 *
 * Return: the job, or NULL if a look has given all of them to workers.
 */
struct treadle_job *treadle_run_claim(struct treadle_run *run)
{
	struct treadle_watch *watch = &run->ctx->watch;
	struct treadle_job *job;

	spin_lock(&watch->lock);
	job = list_first_entry_or_null(&run->others, struct treadle_job, link);
	if (likely(job)) {
		list_del_init(&job->link);
		if (list_empty(&run->others))
			list_del(&run->node);
		run->look = 0;
	}
	run->offers = !list_empty(&run->others);
	spin_unlock(&watch->lock);
	return job;
}

/**
 * treadle_run_give - leave all jobs of other contexts to their workers
 * @run: of the caller
 *
 * Never sleeps. See treadle_run_let_go(), which costs nothing when there are none.
 */
void treadle_run_give(struct treadle_run *run)
{
	struct treadle_watch *watch = &run->ctx->watch;

	spin_lock(&watch->lock);
	if (!list_empty(&run->others))
		give(run);
	spin_unlock(&watch->lock);
	run->offers = false;
}

/* Runs that were there at the last look, and have claimed nothing since, don't run. */
static void look_work(struct work_struct *work)
{
	struct treadle_watch *watch = container_of(work, struct treadle_watch, work);
	struct treadle_ctx *ctx = container_of(watch, struct treadle_ctx, watch);
	struct treadle_run *run;
	int n;

	spin_lock(&watch->lock);
	if (!++watch->look) /* 0: a run that has not been seen */
		watch->look = 1;
	for (n = 0; n < LOOK_RUNS && !list_empty(&watch->runs); n++) {
		run = list_first_entry(&watch->runs, struct treadle_run, node);
		if (run->look == watch->look)
			break;
		if (run->look) {
			give(run);
		} else {
			run->look = watch->look;
			list_move_tail(&run->node, &watch->runs);
		}
	}
	watch->on = false;
	if (!list_empty(&watch->runs))
		look_start(watch);
	spin_unlock(&watch->lock);
	treadle_ctx_put(ctx);
}

/*
 * In a hard interrupt, also on PREEMPT_RT: its softirqs are threads, which have to wait for the
 * processor like the runner. The context is held by the work.
 */
static enum hrtimer_restart look_timer(struct hrtimer *timer)
{
	struct treadle_watch *watch = container_of(timer, struct treadle_watch, timer);
	struct treadle_ctx *ctx = container_of(watch, struct treadle_ctx, watch);

	if (kref_get_unless_zero(&ctx->ref))
		treadle_queue_end(&watch->work);
	return HRTIMER_NORESTART;
}

/**
 * treadle_watch_init - of a new context
 * @watch: zeroed
 */
void treadle_watch_init(struct treadle_watch *watch)
{
	spin_lock_init(&watch->lock);
	INIT_LIST_HEAD(&watch->runs);
	INIT_WORK(&watch->work, look_work);
	treadle_timer_setup(&watch->timer, look_timer, HRTIMER_MODE_REL_HARD);
}

/**
 * treadle_watch_end - the context has no runs and no references any more
 * @watch: of it
 *
 * Never sleeps, but waits for the timer's interrupt.
 */
void treadle_watch_end(struct treadle_watch *watch)
{
	hrtimer_cancel(&watch->timer);
}
