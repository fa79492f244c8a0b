// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: jobs of other contexts in a runner's queue
 *
 * A runner that makes another context's counter reach a threshold runs the counter's job itself,
 * which is faster than waking a worker. But the runner may lose its processor at any point, for as
 * long as the scheduler likes. So the job is only offered: it is in run->others, and the run is in
 * the list of its context, where a look finds it and may take the job. The runner claims one job at
 * a time.
 *
 * While anything is offered, a timer fires every LOOK_NS to look. A run that has claimed nothing
 * between two looks does not run: its offers go to the workers of the contexts that they belong to.
 * As long as runs of the context claim jobs, most looks end in the timer's interrupt.
 *
 * A claimed job can't be taken away, as its commands start in order. So a thread that the scheduler
 * puts behind ordinary ones claims nothing.
 */
#include <linux/hrtimer.h>
#include <linux/sched.h>
#include <linux/sched/prio.h>

#include "core/object.h"
#include "mm/compat.h"

#define LOOK_NS	    (4 * NSEC_PER_MSEC) /* longer than an ordinary slice of the scheduler */
#define LOOK_RUNS   64			/* runs handled by one look, under the lock */
#define LOOK_LEAST  8			/* one of so many looks is never skipped */
#define CLAIM_STEPS 64			/* a runner with more jobs of others is too slow for them */

/* Can ordinary threads starve the current one? */
static bool is_background(void)
{
	return READ_ONCE(current->policy) == SCHED_IDLE || READ_ONCE(current->prio) > DEFAULT_PRIO;
}

/* Give what @run offers to workers, the oldest first. */
static void give(struct treadle_run *run)
{
	struct llist_node *offers = llist_reverse_order(llist_del_all(&run->others));
	struct treadle_job *job, *next;

	lockdep_assert_held(&run->ctx->watch.lock);
	llist_for_each_entry_safe(job, next, offers, offer)
		treadle_queue_job(job);
}

static void look_start(struct treadle_watch *watch)
{
	lockdep_assert_held(&watch->lock);
	watch->on = true;
	hrtimer_start(&watch->timer, ns_to_ktime(LOOK_NS), HRTIMER_MODE_REL_HARD);
}

/* Add @run to its context's list, so that a look finds it. */
static noinline void run_enlist(struct treadle_run *run)
{
	struct treadle_watch *watch = &run->ctx->watch;

	run->look = 0;
	spin_lock(&watch->lock);
	list_add_tail(&run->node, &watch->runs);
	if (!watch->on)
		look_start(watch);
	spin_unlock(&watch->lock);
	run->listed = true;
}

/**
 * treadle_run_offer() - put a job of another context into a run's queue
 * @run: of the caller
 * @job: on no list
 *
 * The caller holds the lock of the object that @job works on, until the job is offered: other
 * threads must not find the object busy while a preempted caller has the job and no list does. A
 * runner that queues the job that it has just run needs no lock.
 *
 * Context: process context; never sleeps. Takes watch->lock, and ctx->jobs_lock inside it.
 */
void treadle_run_offer(struct treadle_run *run, struct treadle_job *job)
{
	if (unlikely(!run->listed))
		run_enlist(run);
	llist_add(&job->offer, &run->others);
	if (unlikely(is_background()))
		treadle_run_give(run);
}

/**
 * treadle_run_claim() - take the oldest job of another context
 * @run: of the caller
 *
 * All jobs are taken off, and the younger ones put back. Preemption is off in between, as a look
 * would not find them.
 *
 * Context: process context; never sleeps. Takes watch->lock, and ctx->jobs_lock inside it.
 * Return: the job; or NULL: a look has given all jobs to workers, or there were too many and they
 * are given to workers now.
 */
struct treadle_job *treadle_run_claim(struct treadle_run *run)
{
	struct llist_node *newest, *oldest, *before = NULL;
	int n = 0;

	preempt_disable();
	newest = oldest = llist_del_all(&run->others);
	WRITE_ONCE(run->look, 0);
	data_race(run->ctx->watch.claims++); /* a lost increment causes one more look */
	for (; oldest && oldest->next && n < CLAIM_STEPS; n++) {
		before = oldest;
		oldest = oldest->next;
	}
	if (unlikely(n == CLAIM_STEPS)) {
		while (oldest->next)
			oldest = oldest->next;
		before = oldest;
	}
	if (before)
		llist_add_batch(newest, before, &run->others);
	preempt_enable();
	if (unlikely(n == CLAIM_STEPS)) {
		treadle_run_give(run);
		return NULL;
	}
	return oldest ? llist_entry(oldest, struct treadle_job, offer) : NULL;
}

/**
 * treadle_run_give() - give all jobs of other contexts to their workers, and unlist the run
 * @run: of the caller, listed
 *
 * Callers use treadle_run_let_go(), which costs nothing if the run is not listed.
 *
 * Context: process context; never sleeps. Takes watch->lock, and ctx->jobs_lock inside it.
 */
void treadle_run_give(struct treadle_run *run)
{
	struct treadle_watch *watch = &run->ctx->watch;

	spin_lock(&watch->lock);
	list_del(&run->node);
	give(run);
	spin_unlock(&watch->lock);
	run->listed = false;
}

/* A run that was listed at the last look, and has claimed nothing since, gives its jobs away. */
static void look_work(struct work_struct *work)
{
	struct treadle_watch *watch = container_of(work, struct treadle_watch, work);
	struct treadle_ctx *ctx = container_of(watch, struct treadle_ctx, watch);
	struct treadle_run *run;
	int n;

	spin_lock(&watch->lock);
	if (!++watch->look) /* in run->look, 0 means: not seen */
		watch->look = 1;
	for (n = 0; n < LOOK_RUNS && !list_empty(&watch->runs); n++) {
		run = list_first_entry(&watch->runs, struct treadle_run, node);
		if (READ_ONCE(run->look) == watch->look)
			break;
		if (READ_ONCE(run->look))
			give(run);
		WRITE_ONCE(run->look, watch->look);
		list_move_tail(&run->node, &watch->runs);
	}
	watch->on = false;
	if (!list_empty(&watch->runs))
		look_start(watch);
	spin_unlock(&watch->lock);
	treadle_ctx_put(ctx);
}

/*
 * Runs in a hard interrupt, also on PREEMPT_RT, where a softirq is a thread that would have to wait
 * for the processor like the runner. Takes no lock. The queued work holds the context.
 */
static enum hrtimer_restart look_timer(struct hrtimer *timer)
{
	struct treadle_watch *watch = container_of(timer, struct treadle_watch, timer);
	struct treadle_ctx *ctx = container_of(watch, struct treadle_ctx, watch);

	if (READ_ONCE(watch->claims) != watch->seen && ++watch->skipped < LOOK_LEAST) {
		watch->seen = READ_ONCE(watch->claims);
		hrtimer_forward_now(timer, ns_to_ktime(LOOK_NS));
		return HRTIMER_RESTART;
	}
	watch->skipped = 0;
	if (kref_get_unless_zero(&ctx->ref))
		treadle_queue_end(&watch->work);
	return HRTIMER_NORESTART;
}

/**
 * treadle_watch_init() - initialize the watch of a new context
 * @watch: zeroed
 *
 * Context: any.
 */
void treadle_watch_init(struct treadle_watch *watch)
{
	spin_lock_init(&watch->lock);
	INIT_LIST_HEAD(&watch->runs);
	INIT_WORK(&watch->work, look_work);
	treadle_timer_setup(&watch->timer, look_timer, HRTIMER_MODE_REL_HARD);
}

/**
 * treadle_watch_end() - stop the watch of a context that has no runs and no references any more
 * @watch: of the context
 *
 * Context: any but the timer's interrupt, for which it spins; never sleeps.
 */
void treadle_watch_end(struct treadle_watch *watch)
{
	hrtimer_cancel(&watch->timer);
}
