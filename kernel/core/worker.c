// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: where commands run when not in the caller
 *
 * Jobs go round in the run queue of the thread that caused them until its budget is used up; the
 * rest goes to the workers of the contexts that they belong to. One work per context: a context
 * whose memory is slow holds up only itself. The threads are pool.c's.
 *
 * What ends a context waits for nothing, and has a workqueue that is common to all.
 */
#include <linux/sched/signal.h>

#include "core/object.h"

#define WORKER_BUDGET (1024 * TREADLE_CHARGE)

static struct workqueue_struct *treadle_wq;

int treadle_worker_init(void)
{
	treadle_wq = alloc_workqueue("treadle", WQ_UNBOUND, 0);
	return treadle_wq ? 0 : -ENOMEM;
}

void treadle_worker_exit(void)
{
	destroy_workqueue(treadle_wq);
}

/* What never waits. */
void treadle_queue_end(struct work_struct *work)
{
	queue_work(treadle_wq, work);
}

/* The same, after @delay jiffies. */
void treadle_queue_later(struct delayed_work *work, unsigned long delay)
{
	queue_delayed_work(treadle_wq, work, delay);
}

/* There are jobs of @ctx. The caller's reference is held by the work now, until it returns. */
static void queue_ctx(struct treadle_ctx *ctx)
{
	if (!treadle_queue_work(&ctx->work))
		treadle_ctx_put(ctx);
}

/* Give a job, which is on no list, to its context's worker. Under any lock but ctx->jobs_lock; never sleeps. */
void treadle_queue_job(struct treadle_job *job)
{
	struct treadle_ctx *ctx = job->ctx;

	kref_get(&ctx->ref); /* the job may be done as soon as it can be seen */
	spin_lock(&ctx->jobs_lock);
	list_add_tail(&job->link, &ctx->jobs);
	spin_unlock(&ctx->jobs_lock);
	queue_ctx(ctx);
}

/* All of them. A worker had those of its own context before what has come since: they stay before it. */
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

/* In the middle of what no budget ends. */
void treadle_run_pause(struct treadle_run *run)
{
	treadle_run_let_go(run);
	cond_resched();
}

/*
 * Take the next job off its list: one of another context first, as it waits for nobody. But a worker's own ones have
 * every other turn. NULL: what was offered has been taken away.
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

/*
 * Until nothing is left, or the budget is used up, or the caller is killed; a worker's is used up when another thread is to
 * have the processor after a job. Its context then waits behind the others of its pool.
 */
void treadle_run_jobs(struct treadle_run *run)
{
	/* of other endpoints, too, which may close meanwhile: treadle_ep_quiesce() does not wait for this run */
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
		/* which may sleep, for memory of its own */
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

void treadle_ctx_worker(struct treadle_work *work, struct treadle_pool *pool)
{
	struct treadle_ctx *ctx = work->ctx;
	TREADLE_RUN(run, ctx);

	run.budget = WORKER_BUDGET;
	run.worker = true;
	run.pool = pool;
	spin_lock(&ctx->jobs_lock);
	list_splice_tail_init(&ctx->jobs, &run.jobs);
	spin_unlock(&ctx->jobs_lock);
	treadle_run_jobs(&run);
	treadle_run_handoff(&run); /* there is more to do */
	treadle_ctx_put(ctx);
}
