// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: transmit rings that a thread of the kernel looks at
 *
 * TX_CREATE with TREADLE_TX_POLLED. The process posts without a system call. All polled rings of a
 * context have one work, so one thread of the user's pool looks at them, and its time is charged to
 * the user's control group. A stopped process does not stop it: what is posted is executed.
 *
 * A ring without a command for its idle time falls asleep: TREADLE_RING_DOORBELL is set (barrier
 * C), and the next post has to ring. A doorbell takes the commands itself, and then wakes the ring:
 * it sets ->woken and queues the work. The flag is cleared only when the work looks at the ring
 * again, so posts don't depend on a thread that is yet to be created. When all rings are asleep the
 * work ends.
 *
 * No wake-up is lost: ->woken is set, and the work queued, under tx->lock, after the work has set
 * the flag under tx->lock. So a run of the work follows that finds ->woken.
 *
 * The thread waits for nothing of the process: a doorbell that is under way (tx->lock) or a missing
 * page is left to others (run->guest), but for the bytes of TREADLE_F_INJECT. A command that has to
 * stay in its ring, as its completion queue is full, is tried again every PAUSE_US.
 */
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>

#include "exec/command.h"

#define SLICE_NS (100 * NSEC_PER_USEC) /* if other works of the pool wait */
#define RUN_NS	 (100 * NSEC_PER_MSEC) /* then the work moves to another pool, if it has to */
#define PAUSE_US 500
#define TURN	 32 /* commands of a ring before the next ring */

/* What a look has found, the least first. STUCK: commands wait that can't be taken now. */
enum look { ASLEEP, STUCK, AWAKE };

/**
 * treadle_polled_join() - let a new ring be looked at, once its doorbell is rung
 * @tx: with ->polled.idle; not published yet
 *
 * Context: may sleep. Takes polls->lock.
 */
void treadle_polled_join(struct treadle_tx *tx)
{
	struct treadle_polls *p = &tx->obj.ctx->polls;

	mutex_lock(&tx->lock);
	treadle_ring_want_doorbell(&tx->ring);
	mutex_unlock(&tx->lock);
	tx->polled.asleep = true;
	spin_lock(&p->lock);
	list_add_tail(&tx->polled.link, &p->rings);
	WRITE_ONCE(p->count, p->count + 1);
	spin_unlock(&p->lock);
}

/**
 * treadle_polled_leave() - begin no further look at a ring
 * @tx: the ring, polled or not; may have left already
 *
 * Context: takes polls->lock.
 */
void treadle_polled_leave(struct treadle_tx *tx)
{
	struct treadle_polls *p = &tx->obj.ctx->polls;

	if (!tx->polled.idle)
		return;
	spin_lock(&p->lock);
	if (!list_empty(&tx->polled.link)) {
		list_del_init(&tx->polled.link);
		WRITE_ONCE(p->count, p->count - 1);
	}
	spin_unlock(&p->lock);
}

/* The doorbell of @tx was rung: if the ring is asleep, it wakes. */
static void wake(struct treadle_tx *tx)
{
	struct treadle_ctx *ctx = tx->obj.ctx;

	lockdep_assert_held(&tx->lock);
	if (tx->ring.broken || !(tx->ring.kern->flags & TREADLE_RING_DOORBELL))
		return;
	WRITE_ONCE(tx->polled.woken, true);
	kref_get(&ctx->ref);
	if (!treadle_queue_work(&ctx->polls.work))
		treadle_ctx_put(ctx); /* not the last one: @tx has one */
}

/**
 * treadle_polled_doorbell() - the doorbell of a polled ring: take its commands, and wake it
 * @obj: the ring
 *
 * Context: may sleep; takes tx->lock.
 * Return: as treadle_tx_take(); or -EINTR: the caller is killed.
 */
long treadle_polled_doorbell(struct treadle_obj *obj)
{
	struct treadle_tx *tx = container_of(obj, struct treadle_tx, obj);
	long ret;
	TREADLE_RUN(run, obj->ctx);

	run.own = obj->ctx; /* treadle_call() admits no other process */
	if (mutex_lock_killable(&tx->lock))
		return -EINTR;
	ret = treadle_tx_take(tx, &run, INT_MAX);
	treadle_tx_count(tx, TREADLE_STAT_DOORBELLS, 1);
	wake(tx);
	mutex_unlock(&tx->lock);
	if (!treadle_run_empty(&run))
		treadle_run_jobs(&run);
	return ret;
}

/* Take commands of @tx; if there were none for long, let it sleep. @now: the time */
static enum look look_locked(struct treadle_tx *tx, struct treadle_run *run, u64 now)
{
	struct treadle_polled *p = &tx->polled;
	long taken;

	lockdep_assert_held(&tx->lock);
	if (p->asleep) {
		WRITE_ONCE(p->asleep, false);
		WRITE_ONCE(p->woken, false);
		if (!tx->ring.broken)
			treadle_ring_quiet(&tx->ring);
		p->since = now;
		WRITE_ONCE(p->wakes, p->wakes + 1);
	}
	taken = treadle_tx_take(tx, run, TURN);
	p->seen = tx->ring.head;
	if (taken && taken != -EAGAIN)
		p->since = now;
	if (!tx->ring.broken) {
		if (now - p->since < p->idle)
			return AWAKE;
		treadle_ring_want_doorbell(&tx->ring);
	}
	WRITE_ONCE(p->asleep, treadle_ring_empty(&tx->ring));
	if (p->asleep)
		return ASLEEP;
	treadle_ring_quiet(&tx->ring);
	return taken == -EAGAIN ? STUCK : AWAKE;
}

/* Look at a ring, unless its doorbell is under way. Tries tx->lock; may sleep. */
static enum look look(struct treadle_tx *tx, struct treadle_run *run, u64 now)
{
	struct treadle_polled *p = &tx->polled;
	bool due = !p->asleep && now - p->since >= p->idle;
	enum look found;

	if (p->asleep && !READ_ONCE(p->woken))
		return ASLEEP;
	if (!p->asleep && !due && treadle_ring_peek(&tx->ring) == p->seen)
		return AWAKE;
	/* a doorbell is under way, and may be for long: it takes the commands */
	if (!mutex_trylock(&tx->lock))
		return due ? STUCK : AWAKE;
	found = look_locked(tx, run, now);
	mutex_unlock(&tx->lock);
	return found;
}

/* The next ring, held; NULL: there is none, or it is about to be freed. Takes polls->lock. */
static struct treadle_tx *next_ring(struct treadle_polls *p)
{
	struct treadle_tx *tx;

	spin_lock(&p->lock);
	tx = list_first_entry_or_null(&p->rings, struct treadle_tx, polled.link);
	if (tx) {
		list_move_tail(&tx->polled.link, &p->rings);
		if (!kref_get_unless_zero(&tx->obj.ref))
			tx = NULL;
	}
	spin_unlock(&p->lock);
	return tx;
}

/* Look at each ring once. Returns the most that was found. May sleep. */
static enum look look_around(struct treadle_polls *p, struct treadle_run *run, u64 now)
{
	unsigned int n = READ_ONCE(p->count);
	enum look most = ASLEEP;

	for (; n; n--) {
		struct treadle_tx *tx = next_ring(p);

		if (!tx)
			continue;
		run->guest = true;
		most = max(most, look(tx, run, now));
		treadle_obj_put(&tx->obj);
		if (!treadle_run_empty(run)) {
			run->guest = false; /* as a doorbell does */
			treadle_run_jobs(run);
			run->budget = TREADLE_CALLER_BUDGET;
		}
		cond_resched();
	}
	return most;
}

/* Looks at the rings until all are asleep, or other works of the pool wait. */
static void polling_work(struct treadle_work *work, struct treadle_pool *pool)
{
	struct treadle_ctx *ctx = work->ctx;
	u64 began = ktime_get_ns(), now = began;
	enum look found;
	TREADLE_RUN(run, ctx);

	run.pool = pool;
	run.polls = true;
	do {
		found = READ_ONCE(ctx->dead) ? ASLEEP : look_around(&ctx->polls, &run, now);
		cond_resched_tasks_rcu_qs();
		cpu_relax();
		if (found == STUCK) {
			treadle_pool_sleeps(pool);
			usleep_range_state(PAUSE_US, 2 * PAUSE_US, TASK_IDLE);
			treadle_pool_awakes(pool);
		}
		now = ktime_get_ns();
	} while (found != ASLEEP && now - began < (treadle_pool_waits(pool) ? SLICE_NS : RUN_NS));
	treadle_run_handoff(&run);
	treadle_stat_add(&ctx->sums.stats, TREADLE_STAT_WORKER_NS, now - began);
	if (found == ASLEEP || !treadle_queue_work(work))
		treadle_ctx_put(ctx);
}

/**
 * treadle_polling_init() - initialize what looks at the polled rings of a context
 * @ctx: the context, not published yet
 *
 * Context: any.
 */
void treadle_polling_init(struct treadle_ctx *ctx)
{
	struct treadle_polls *p = &ctx->polls;

	spin_lock_init(&p->lock);
	INIT_LIST_HEAD(&p->rings);
	treadle_work_init(&p->work, ctx, polling_work, false);
}
