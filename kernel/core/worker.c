// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: run queues, and the workers of contexts
 *
 * The thread that causes jobs runs them, in its run queue, until its budget is used up. What is
 * left goes to the workers of the contexts that the jobs belong to. Each context has one worker, so
 * a context with slow memory holds up only itself. The workers' threads are those of pool.c.
 *
 * Works that never wait have a workqueue that all contexts share.
 */
#include <linux/sched/signal.h>

#include "core/object.h"

#define WORKER_BUDGET (1024 * TREADLE_CHARGE)

static struct workqueue_struct *treadle_wq;

/**
 * treadle_worker_init() - create the workqueue of treadle_queue_end() and treadle_queue_later()
 *
 * Context: module load; may sleep.
 * Return: 0 or -ENOMEM.
 */
int treadle_worker_init(void)
{
	treadle_wq = alloc_workqueue("treadle", WQ_UNBOUND, 0);
	return treadle_wq ? 0 : -ENOMEM;
}

/**
 * treadle_worker_exit() - undo treadle_worker_init()
 *
 * Context: module unload, after the last context; may sleep.
 */
void treadle_worker_exit(void)
{
	destroy_workqueue(treadle_wq);
}

/**
 * treadle_queue_end() - queue a work that never waits
 * @work: shuts a context down (dev/file.c), or hands over unclaimed offers (offer.c)
 *
 * Context: any, also interrupts.
 */
void treadle_queue_end(struct work_struct *work)
{
	queue_work(treadle_wq, work);
}

/**
 * treadle_queue_later() - queue a work that never waits, after a delay
 * @work:  the work
 * @delay: in jiffies
 *
 * Context: any.
 */
void treadle_queue_later(struct delayed_work *work, unsigned long delay)
{
	queue_delayed_work(treadle_wq, work, delay);
}

/* Let the worker of @ctx run its jobs. It takes over the caller's reference of @ctx. */
static void queue_ctx(struct treadle_ctx *ctx)
{
	if (!treadle_queue_work(&ctx->work))
		treadle_ctx_put(ctx);
}

/**
 * treadle_queue_job() - give a job to its context's worker
 * @job: on no list; held by its object, which may be gone on return
 *
 * Context: process context; never sleeps. Takes ctx->jobs_lock of the job's context.
 */
void treadle_queue_job(struct treadle_job *job)
{
	struct treadle_ctx *ctx = job->ctx;

	kref_get(&ctx->ref); /* once listed, the job may be done, and its reference dropped */
	spin_lock(&ctx->jobs_lock);
	list_add_tail(&job->link, &ctx->jobs);
	spin_unlock(&ctx->jobs_lock);
	queue_ctx(ctx);
}

/**
 * treadle_run_handoff() - give all jobs of a run to workers
 * @run: of the caller
 *
 * Jobs that a worker has taken are older than those queued since, so they go back to the front.
 *
 * Context: process context; never sleeps. Takes ctx->jobs_lock, and as treadle_run_let_go().
 */
void treadle_run_handoff(struct treadle_run *run)
{
	struct treadle_ctx *ctx = run->ctx;

	treadle_run_let_go(run);
	if (list_empty(&run->jobs))
		return;
	kref_get(&ctx->ref);
	spin_lock(&ctx->jobs_lock);
	if (run->worker)
		list_splice_init(&run->jobs, &ctx->jobs);
	else
		list_splice_tail_init(&run->jobs, &ctx->jobs);
	spin_unlock(&ctx->jobs_lock);
	queue_ctx(ctx);
}

/**
 * treadle_run_pause() - reschedule in the middle of work that no budget ends
 * @run: of the caller
 *
 * Context: may sleep; no spinlock held.
 */
void treadle_run_pause(struct treadle_run *run)
{
	treadle_run_let_go(run);
	cond_resched();
}

/*
 * Take the next job off its list. Jobs of other contexts come first, as they don't wait in this
 * run; but in a worker its own jobs have every other turn. NULL: the offered jobs were taken away.
 */
static struct treadle_job *next_job(struct treadle_run *run)
{
	bool mine = llist_empty(&run->others) || (run->mine && !list_empty(&run->jobs));
	struct treadle_job *job;

	run->mine = run->worker && !mine;
	if (!mine)
		return treadle_run_claim(run);
	job = list_first_entry_or_null(&run->jobs, struct treadle_job, link);
	if (job)
		list_del_init(&job->link);
	return job;
}

/**
 * treadle_run_jobs() - run the jobs of a run
 * @run: of the caller
 *
 * Ends when no job is left, the budget is used up, or the caller is killed. The jobs that are left
 * go to workers; a worker keeps its own in run->jobs. The budget of a worker is also used up when
 * another thread needs the processor after a job: then its context waits behind the other contexts
 * of its pool.
 *
 * Context: process context; may sleep; no spinlock held.
 */
void treadle_run_jobs(struct treadle_run *run)
{
	/*
	 * Jobs may be of other endpoints, which may close meanwhile, and treadle_ep_quiesce() does
	 * not wait for this run.
	 */
	run->own = NULL;
	while (!list_empty(&run->jobs) || !llist_empty(&run->others)) {
		struct treadle_job *job;

		if (run->budget <= 0 || fatal_signal_pending(current)) {
			if (!run->worker)
				treadle_run_handoff(run);
			return;
		}
		job = next_job(run);
		if (unlikely(!job))
			continue;
		/* a job of @ctx may sleep, for memory of @ctx */
		if (job->ctx == run->ctx && !llist_empty(&run->others))
			treadle_run_let_go(run);
		job->fn(job, run);
		treadle_run_charge(run, TREADLE_CHARGE);
		if (need_resched()) {
			treadle_run_let_go(run);
			if (run->worker)
				run->budget = 0;
		}
		cond_resched();
	}
	treadle_run_let_go(run);
}

/**
 * treadle_ctx_worker() - run the jobs of a context; the function of ctx->work
 * @work: of the context, with a reference of it from queue_ctx(), which is dropped
 * @pool: of the calling thread
 *
 * Context: a thread of @pool; may sleep.
 */
void treadle_ctx_worker(struct treadle_work *work, struct treadle_pool *pool)
{
	struct treadle_ctx *ctx = work->ctx;
	u64 began = ktime_get_ns();
	TREADLE_RUN(run, ctx);

	run.budget = WORKER_BUDGET;
	run.worker = true;
	run.pool = pool;
	spin_lock(&ctx->jobs_lock);
	list_splice_tail_init(&ctx->jobs, &run.jobs);
	spin_unlock(&ctx->jobs_lock);
	treadle_run_jobs(&run);
	treadle_run_handoff(&run); /* what is left */
	treadle_stat_add(&ctx->sums.stats, TREADLE_STAT_WORKER_NS, ktime_get_ns() - began);
	treadle_ctx_put(ctx);
}
