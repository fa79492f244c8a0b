/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: jobs, which go on with what cannot be done at once, and run queues (worker.c) */
#ifndef TREADLE_JOB_H
#define TREADLE_JOB_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/sched/signal.h>
#include <linux/wait_bit.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>

#include "core/pool.h"

/*
 * Wait until @condition holds; wake_up_var(@var) follows each change of it. May sleep. Not
 * killable, so only for bounded waits, or where an early return is impossible. Counts neither as
 * load nor as a hung task.
 */
#define treadle_wait_var(var, condition)                                                \
	do {                                                                            \
		if (!(condition))                                                       \
			___wait_var_event(var, condition, TASK_IDLE, 0, 0, schedule()); \
	} while (0)

struct treadle_ctx;
struct treadle_run;

/*
 * struct treadle_job - work that can go on: a message to copy, a counter with commands to fire
 * @link:	in run->jobs (private to a runner of @ctx), or in ctx->jobs (under ctx->jobs_lock)
 * @offer:	instead of @link, in run->others of a runner of another context (lock-free)
 * @ctx:	its worker runs the job if no other runner does; held by the object with the job
 * @fn:		runs the job
 *
 * A job is on one list at most.
 */
struct treadle_job {
	union {
		struct list_head link;
		struct llist_node offer;
	};
	struct treadle_ctx *ctx;
	void (*fn)(struct treadle_job *job, struct treadle_run *run);
};

/*
 * struct treadle_run - run queue of one caller (the runner)
 * @jobs:	jobs of @ctx, private
 * @ctx:	the runner may fault in pages for buffers of this context only
 * @budget:	work left, in bytes that are copied, see treadle_run_charge()
 * @look:	number of the last look that has seen this run since a claim, or 0
 * @others:	jobs of other contexts, offered, the newest first (offer.c)
 * @node:	in watch->runs (watch->lock of @ctx)
 * @own:	context of a doorbell, rung by its own process; else NULL
 * @pool:	pool of the running thread; NULL: the thread is a process's
 * @listed:	@node is in watch->runs; written by the runner only
 * @guest:	starts what waits in another context, and therefore waits for no page and no
 *		receive of @ctx
 * @holds:	holds a charge on the receiver's room for messages, and therefore waits for no page
 * @worker:	the runner is the worker of @ctx, which may copy much
 * @polls:	the runner takes commands of polled rings of @ctx, on its stack
 * @mine:	worker: the next job is one of @jobs
 *
 * Completion -> counter -> trigger -> completion goes round through @jobs and @others instead of
 * recursion. A counter in @others fires nothing until its job runs. So a runner calls
 * treadle_run_let_go() before it waits, or is busy, without a bound. If the runner is preempted, a
 * look gives these jobs to workers.
 */
struct treadle_run {
	struct list_head jobs;
	struct treadle_ctx *ctx;
	int budget;
	u32 look;
	struct llist_head others;
	struct list_head node;
	struct treadle_ctx *own;
	struct treadle_pool *pool;
	bool listed;
	bool guest;
	bool holds;
	bool worker;
	bool polls;
	bool mine;
};

/*
 * struct treadle_watch - runs of a context that have jobs of other contexts (offer.c)
 * @lock:  protects all of this. Taken before ctx->jobs_lock of any context
 * @runs:  runs that have offered something, and not called treadle_run_let_go() since
 * @look:  number of the last look; never 0 after it
 * @on:	   @timer is started, or @work is queued or runs
 * @claims: number of jobs that these runs have claimed; inexact, as it is counted without a lock
 * @seen, @skipped: private to the timer: @claims when it fired, and how often since the last look
 */
struct treadle_watch {
	spinlock_t lock;
	struct list_head runs;
	u32 look;
	bool on;
	u32 claims, seen, skipped;
	struct work_struct work;
	struct hrtimer timer;
};

#define TREADLE_CHARGE	      (16 << 10) /* cost of a command, in bytes that are copied */
#define TREADLE_CHARGE_FILL   (4 << 10)	 /* cost of a page that is asked for */
#define TREADLE_CALLER_BUDGET (256 * TREADLE_CHARGE)

/*
 * Start a run of a caller in @ctx. Each doorbell does it: so fields are set one by one, as
 * compilers clear a structure of this size in a loop. @node is not set.
 */
static __always_inline void treadle_run_init(struct treadle_run *run, struct treadle_ctx *ctx)
{
	INIT_LIST_HEAD(&run->jobs);
	run->ctx = ctx;
	run->budget = TREADLE_CALLER_BUDGET;
	run->look = 0;
	init_llist_head(&run->others);
	run->own = NULL;
	run->pool = NULL;
	run->listed = run->guest = run->holds = run->worker = run->polls = run->mine = false;
}

/* Declare a run, and start it: the last declaration. */
#define TREADLE_RUN(name, ctx)                 \
	struct treadle_run name TREADLE_UNSET; \
                                               \
	treadle_run_init(&name, ctx)

void treadle_run_jobs(struct treadle_run *run);
void treadle_run_handoff(struct treadle_run *run);
void treadle_queue_job(struct treadle_job *job);
void treadle_ctx_worker(struct treadle_work *work, struct treadle_pool *pool);
void treadle_queue_end(struct work_struct *work);
void treadle_queue_later(struct delayed_work *work, unsigned long delay);
int treadle_worker_init(void);
void treadle_worker_exit(void);

/* May the runner wait for memory of @ctx? Only if @ctx is its own, and it is no guest. */
static inline bool treadle_run_is_for(const struct treadle_run *run, const struct treadle_ctx *ctx)
{
	return run->ctx == ctx && !run->guest;
}

void treadle_run_pause(struct treadle_run *run);

/* offer.c */
void treadle_run_offer(struct treadle_run *run, struct treadle_job *job);
struct treadle_job *treadle_run_claim(struct treadle_run *run);
void treadle_run_give(struct treadle_run *run);
void treadle_watch_init(struct treadle_watch *watch);
void treadle_watch_end(struct treadle_watch *watch);

/*
 * Leave the jobs of other contexts to workers, so that they don't wait for what the runner does
 * next. Each run ends with this, too. Takes watch->lock, and ctx->jobs_lock of other contexts.
 */
static inline void treadle_run_let_go(struct treadle_run *run)
{
	if (run->listed) /* also if nothing is offered: a look may be at work on the run */
		treadle_run_give(run);
}

/*
 * Does the runner try again at once what did not succeed? True for a doorbell of @ctx, unless its
 * process is killed. A worker does its other jobs first, and comes again. May sleep.
 */
static inline bool treadle_run_insists(struct treadle_run *run, const struct treadle_ctx *ctx)
{
	if (run->ctx != ctx || !current->mm || fatal_signal_pending(current))
		return false;
	if (need_resched())
		treadle_run_let_go(run);
	cond_resched();
	return true;
}

/* Charge @bytes that were worked on (about TREADLE_CHUNK at most) to the budget of @run. */
static __always_inline void treadle_run_charge(struct treadle_run *run, u32 bytes)
{
	run->budget -= bytes;
}

static inline bool treadle_run_empty(const struct treadle_run *run)
{
	return list_empty(&run->jobs) && !run->listed;
}

/* Queue @job, which is on no list. For the caller's lock see treadle_run_offer(). */
static inline void treadle_run_add(struct treadle_run *run, struct treadle_job *job)
{
	if (job->ctx == run->ctx)
		list_add_tail(&job->link, &run->jobs);
	else
		treadle_run_offer(run, job);
}

#endif
