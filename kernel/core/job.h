/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: who goes on with what cannot be done at once (worker.c) */
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
 * Wait for @condition, of which wake_up_var(@var) tells. Not killable: for what is bounded, or where
 * nothing could be left out. May sleep; not counted as load, nor as hung.
 */
#define treadle_wait_var(var, condition)                                                \
	do {                                                                            \
		if (!(condition))                                                       \
			___wait_var_event(var, condition, TASK_IDLE, 0, 0, schedule()); \
	} while (0)

struct treadle_ctx;
struct treadle_run;

/*
 * Something that can go on: a message to copy, a counter with commands to fire.
 * It is on at most one list: run->jobs (private to a runner of @ctx), run->others of a runner of
 * another context (by @offer, without a lock), or ctx->jobs (under ctx->jobs_lock).
 */
struct treadle_job {
	union {
		struct list_head link;
		struct llist_node offer;
	};
	struct treadle_ctx *ctx; /* whose worker takes it, kept by the job's object */
	void (*fn)(struct treadle_job *job, struct treadle_run *run);
};

/*
 * One caller's run queue: completion -> counter -> trigger -> completion goes
 * round through @jobs and @others instead of recursion. A counter on @others fires nothing until
 * its job is run: before the runner waits, or is busy, for as long as it likes, it calls
 * treadle_run_let_go(). If the runner is preempted, a look takes them (offer.c).
 */
struct treadle_run {
	struct list_head jobs;	 /* of @ctx, private */
	struct treadle_ctx *ctx; /* for whose buffers the runner may fault in pages */
	int budget;		 /* in bytes: treadle_run_charge() */
	/* A doorbell clears the rest: of more than 64 bytes the compiler makes a loop. */
	u32 look;		   /* the last one since a claim, or 0 */
	struct llist_head others;  /* of other contexts, offered, the newest first */
	struct list_head node;	   /* in watch->runs (watch->lock of @ctx) */
	struct treadle_ctx *own;   /* of a doorbell, which its process rings; else NULL */
	struct treadle_pool *pool; /* whose thread runs; NULL: a process's */
	bool listed;		   /* the runner's own: @node is in there */
	bool guest; /* starts what another context has waiting, which waits for no page, nor receive, of @ctx */
	bool holds;  /* room of who receives: waits for no page meanwhile */
	bool worker; /* of @ctx, who may copy much */
	bool mine;   /* it is the turn of @jobs */
};

/*
 * struct treadle_watch - the runs of a context that have jobs of others (offer.c)
 * @lock:  all of this. Before ctx->jobs_lock of any context
 * @runs:  those that have offered something and not let go since
 * @look:  counts the looks; never 0
 * @on:	   @timer is started, or @work is queued or runs
 * @claims: how many jobs these runs have claimed, more or less
 * @seen, @skipped: the timer's own: @claims when it fired, how often since the last look
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

#define TREADLE_CHARGE	      (16 << 10) /* what a command costs, in bytes that are copied */
#define TREADLE_CHARGE_FILL   (4 << 10)	 /* and a page that is asked for */
#define TREADLE_CALLER_BUDGET (256 * TREADLE_CHARGE)
#define TREADLE_RUN(name, context)                                          \
	struct treadle_run name = { .jobs = LIST_HEAD_INIT(name.jobs),      \
				    .others = LLIST_HEAD_INIT(name.others), \
				    .ctx = context,                         \
				    .budget = TREADLE_CALLER_BUDGET }

void treadle_run_jobs(struct treadle_run *run);
void treadle_run_handoff(struct treadle_run *run);
void treadle_queue_job(struct treadle_job *job);
void treadle_ctx_worker(struct treadle_work *work, struct treadle_pool *pool);
void treadle_queue_end(struct work_struct *work);
void treadle_queue_later(struct delayed_work *work, unsigned long delay);
int treadle_worker_init(void);
void treadle_worker_exit(void);

/* Does he run for @ctx, his own, and not start what another one has waiting? Then he may wait for its memory. */
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

/* The jobs of other contexts don't wait for what comes now. A run ends with this, too. */
static inline void treadle_run_let_go(struct treadle_run *run)
{
	if (run->listed) /* also with nothing offered: a look may have the run in its hands */
		treadle_run_give(run);
}

/* He who rings for @ctx tries again at once; its worker has others to do, and comes again. */
static inline bool treadle_run_insists(struct treadle_run *run, const struct treadle_ctx *ctx)
{
	if (run->ctx != ctx || !current->mm || fatal_signal_pending(current))
		return false;
	if (need_resched())
		treadle_run_let_go(run);
	cond_resched();
	return true;
}

/* Take @bytes (at most TREADLE_CHUNK, and some) that were worked on out of the budget of @run. */
static __always_inline void treadle_run_charge(struct treadle_run *run, u32 bytes)
{
	run->budget -= bytes;
}

static inline bool treadle_run_empty(const struct treadle_run *run)
{
	return list_empty(&run->jobs) && !run->listed;
}

/* Under the lock of what @job works on: treadle_run_offer(). */
static inline void treadle_run_add(struct treadle_run *run, struct treadle_job *job)
{
	if (job->ctx == run->ctx)
		list_add_tail(&job->link, &run->jobs);
	else
		treadle_run_offer(run, job);
}

#endif
