// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: where commands run when not in the caller
 *
 * Jobs go round in the run queue of whoever caused them until its budget is used
 * up; the rest goes to the workers of the contexts that they belong to. One work
 * item per context: a context whose memory is slow holds up only itself.
 */
#include <linux/sched/signal.h>

#include "treadle.h"

#define WORKER_BUDGET 1024

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

void treadle_queue_work(struct work_struct *work)
{
	queue_work(treadle_wq, work);
}

/* Give a job, which is on no list, to its context's worker. */
void treadle_queue_job(struct treadle_job *job)
{
	struct treadle_ctx *ctx = job->ctx;

	/* the work holds the context from here until it returns */
	kref_get(&ctx->ref);
	spin_lock(&ctx->jobs_lock);
	list_add_tail(&job->link, &ctx->jobs);
	spin_unlock(&ctx->jobs_lock);
	if (!queue_work(treadle_wq, &ctx->work))
		treadle_ctx_put(ctx);
}

void treadle_run_handoff(struct treadle_run *run)
{
	struct treadle_job *job, *next;

	list_for_each_entry_safe(job, next, &run->jobs, link) {
		list_del_init(&job->link);
		treadle_queue_job(job);
	}
}

/* Until nothing is left, or the budget is used up, or the caller is killed. */
void treadle_run_jobs(struct treadle_run *run)
{
	while (!list_empty(&run->jobs)) {
		struct treadle_job *job;

		if (run->budget <= 0 || fatal_signal_pending(current)) {
			treadle_run_handoff(run);
			return;
		}
		job = list_first_entry(&run->jobs, struct treadle_job, link);
		list_del_init(&job->link);
		job->fn(job, run);
		run->budget--;
		cond_resched();
	}
}

void treadle_ctx_worker(struct work_struct *work)
{
	struct treadle_ctx *ctx = container_of(work, struct treadle_ctx, work);
	TREADLE_RUN(run, ctx);

	run.budget = WORKER_BUDGET;
	run.worker = true;
	spin_lock(&ctx->jobs_lock);
	list_splice_tail_init(&ctx->jobs, &run.jobs);
	spin_unlock(&ctx->jobs_lock);
	treadle_run_jobs(&run);
	treadle_ctx_put(ctx);
}
