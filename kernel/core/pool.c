// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: pools of threads that work for contexts
 *
 * Each user has a pool of threads in each control group in which it has contexts: a thread's time
 * is charged to the group, and limited by it. Kernel threads run on when a process is stopped. They
 * are created when there is work, and end soon after it. All end with the last context of the pool,
 * so that the group can be removed.
 *
 * The memory of a context may be slow on purpose (userfaultfd, FUSE), for as long as its owner
 * likes. So a thread has one work at a time, and there are up to POOLS_THREADS of them. But no more
 * run at a time than there are processors, however many works wait: without a controller of
 * processors, a user gets what a process with a thread for each processor would get.
 */
#include <linux/completion.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "core/group.h"
#include "core/object.h"

#define POOLS_THREADS 256
#define IDLE	      HZ	/* a thread without work ends after this */
#define AGAIN	      (HZ / 50) /* a thread that could not be created is tried again after this */

/*
 * struct treadle_pool - threads of one user in one control group
 * @ref:      held by contexts, threads and @make; the last one is dropped under pools_lock
 * @node:     in pools (under pools_lock)
 * @user:     of the contexts, held
 * @group:    treadle_group_of() the contexts' processes
 * @lock:     all of the following; also taken in interrupts. Innermost
 * @works:    works that wait for a thread; while there is one, a thread runs or @making is set
 * @idle:     threads that wait for work
 * @contexts: number of contexts that have not ended
 * @threads:  number of threads
 * @running:  of these, threads that wait neither for work nor for a page
 * @make:     creates threads, which sleeps; @making: it is queued, or runs
 */
struct treadle_pool {
	struct kref ref;
	struct hlist_node node;
	struct treadle_user *user;
	u64 group;
	spinlock_t lock;
	struct list_head works, idle;
	unsigned int contexts, threads, running;
	bool making;
	struct delayed_work make;
	struct rcu_head rcu;
};

/* A thread that waits for work, on its stack: in pool->idle until it is woken for a work. */
struct idler {
	struct list_head node;
	struct task_struct *task;
};

/*
 * A thread that begins. This is on the stack of its creator, which waits for @begun. @placed, for
 * which the thread waits, is on the thread's stack: a completion must live as long as its waiter.
 */
struct beginner {
	struct treadle_pool *pool;
	struct completion begun, *placed;
};

static struct workqueue_struct *pool_wq; /* for pool->make */
static DEFINE_HASHTABLE(pools, 6);
static DEFINE_SPINLOCK(pools_lock);

/**
 * treadle_pool_init() - set up what all pools share
 *
 * Context: module load; may sleep.
 * Return: 0 or -ENOMEM.
 */
int treadle_pool_init(void)
{
	pool_wq = alloc_workqueue("treadle-pools", WQ_UNBOUND, 0);
	return pool_wq ? 0 : -ENOMEM;
}

/**
 * treadle_pool_exit() - undo treadle_pool_init()
 *
 * Context: module unload, after the last pool; may sleep.
 */
void treadle_pool_exit(void)
{
	destroy_workqueue(pool_wq);
}

static unsigned int most_running(void)
{
	return num_online_cpus();
}

/* If a work waits, and a processor is left for it, wake a thread, or have one created. */
static void pool_kick(struct treadle_pool *pool)
{
	struct idler *idler;

	lockdep_assert_held(&pool->lock);
	if (list_empty(&pool->works) || pool->running >= most_running())
		return;
	idler = list_first_entry_or_null(&pool->idle, struct idler, node);
	if (likely(idler)) {
		list_del_init(&idler->node);
		pool->running++;
		wake_up_process(idler->task);
	} else if (!pool->making && pool->threads < POOLS_THREADS) {
		pool->making = true;
		kref_get(&pool->ref);
		queue_delayed_work(pool_wq, &pool->make, 0);
	}
}

/* Lock the pool of @ctx. Until then it may change; RCU keeps the old one. */
static struct treadle_pool *pool_lock(struct treadle_ctx *ctx, unsigned long *flags)
	__acquires(&ctx->pool->lock)
{
	struct treadle_pool *pool;

	rcu_read_lock();
	for (;;) {
		pool = READ_ONCE(ctx->pool);
		spin_lock_irqsave(&pool->lock, *flags);
		if (likely(pool == ctx->pool))
			break;
		spin_unlock_irqrestore(&pool->lock, *flags);
	}
	rcu_read_unlock();
	return pool;
}

/* Append @work to its context's pool. Takes pool->lock; also in interrupts. */
static void work_link(struct treadle_work *work)
{
	unsigned long flags;
	struct treadle_pool *pool = pool_lock(work->ctx, &flags);

	list_add_tail(&work->link, &pool->works);
	pool_kick(pool);
	spin_unlock_irqrestore(&pool->lock, flags);
}

/**
 * treadle_queue_work() - let a thread of the context's pool do a work
 * @work: its context is held by the caller until the work is done
 *
 * A work that runs already will run once more.
 *
 * Context: any, also interrupts. Takes pool->lock.
 * Return: true; or false if the work is queued already.
 */
bool treadle_queue_work(struct treadle_work *work)
{
	int state = atomic_read(&work->state);

	do {
		if (state == TREADLE_WORK_QUEUED || state == TREADLE_WORK_AGAIN)
			return false;
	} while (!atomic_try_cmpxchg(&work->state, &state,
				     state == TREADLE_WORK_IDLE ? TREADLE_WORK_QUEUED :
								  TREADLE_WORK_AGAIN));
	if (state == TREADLE_WORK_IDLE)
		work_link(work);
	return true;
}

/* The last reference is gone: drops pools_lock, under which nothing finds the pool any more. */
static void pool_release(struct kref *ref) __releases(&pools_lock)
{
	struct treadle_pool *pool = container_of(ref, struct treadle_pool, ref);

	lockdep_assert_held(&pools_lock);
	hash_del(&pool->node);
	spin_unlock(&pools_lock);
	treadle_user_put(pool->user);
	kfree_rcu(pool, rcu);
}

/**
 * treadle_pool_put() - drop a reference
 * @pool: held by the caller
 *
 * Context: not in interrupts; never sleeps. Takes pools_lock, and users_lock after it.
 */
void treadle_pool_put(struct treadle_pool *pool)
{
	kref_put_lock(&pool->ref, pool_release, &pools_lock);
}

static void pool_make(struct work_struct *work);

static struct treadle_pool *pool_alloc(struct treadle_user *user, u64 group)
{
	struct treadle_pool *pool = kzalloc(sizeof(*pool), GFP_KERNEL);

	if (!pool)
		return NULL;
	kref_init(&pool->ref);
	pool->user = treadle_user_hold(user);
	pool->group = group;
	spin_lock_init(&pool->lock);
	INIT_LIST_HEAD(&pool->works);
	INIT_LIST_HEAD(&pool->idle);
	INIT_DELAYED_WORK(&pool->make, pool_make);
	return pool;
}

/*
 * Find the pool of @user in @group and hold it. If there is none, add @new, which may be NULL.
 * Takes pools_lock; does not sleep.
 */
static struct treadle_pool *pool_find(struct treadle_user *user, u64 group,
				      struct treadle_pool *new)
{
	struct treadle_pool *pool;

	spin_lock(&pools_lock);
	hash_for_each_possible(pools, pool, node, group)
		if (pool->user == user && pool->group == group)
			break;
	if (pool) {
		kref_get(&pool->ref);
	} else if (new) {
		hash_add(pools, &new->node, group);
		pool = new;
	}
	spin_unlock(&pools_lock);
	return pool;
}

/* Find or create the pool of @user in @group, and hold it. NULL: no memory. May sleep. */
static struct treadle_pool *pool_get(struct treadle_user *user, u64 group)
{
	struct treadle_pool *pool = pool_find(user, group, NULL), *new;

	if (pool)
		return pool;
	new = pool_alloc(user, group);
	if (!new)
		return NULL;
	pool = pool_find(user, group, new);
	if (pool != new) {
		treadle_user_put(new->user);
		kfree(new);
	}
	return pool;
}

/**
 * treadle_pool_join() - give a new context its pool
 * @ctx: with user and opener set
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int treadle_pool_join(struct treadle_ctx *ctx)
{
	struct treadle_pool *pool = pool_get(ctx->user, treadle_group_of(ctx->opener, 0));

	if (!pool)
		return -ENOMEM;
	ctx->pool = pool;
	ctx->in_pool = true;
	spin_lock_irq(&pool->lock);
	pool->contexts++;
	spin_unlock_irq(&pool->lock);
	return 0;
}

/* The pool has one context less. After the last one, threads that wait for work end. */
static void context_leaves(struct treadle_pool *pool)
{
	struct idler *idler;

	lockdep_assert_held(&pool->lock);
	if (--pool->contexts)
		return;
	list_for_each_entry(idler, &pool->idle, node)
		wake_up_process(idler->task);
}

/**
 * treadle_pool_leave() - a context has ended
 * @ctx: its pool may still have works of it to do
 *
 * May be called again; only the first call counts.
 *
 * Context: any. Takes pool->lock.
 */
void treadle_pool_leave(struct treadle_ctx *ctx)
{
	unsigned long flags;
	struct treadle_pool *pool = pool_lock(ctx, &flags);

	if (ctx->in_pool) {
		ctx->in_pool = false;
		context_leaves(pool);
	}
	spin_unlock_irqrestore(&pool->lock, flags);
}

/*
 * Move @ctx, but none of its works, from @pool to @next. True: the caller's reference of @next is
 * the context's now, and the context's reference of @pool is the caller's.
 */
static bool context_moves(struct treadle_pool *pool, struct treadle_pool *next,
			  struct treadle_ctx *ctx)
{
	bool moves;

	spin_lock_irq(&next->lock);
	next->contexts++;
	spin_unlock_irq(&next->lock);
	spin_lock_irq(&pool->lock);
	moves = ctx->pool == pool && ctx->in_pool;
	if (moves) {
		WRITE_ONCE(ctx->pool, next);
		context_leaves(pool);
	}
	spin_unlock_irq(&pool->lock);
	if (!moves) {
		spin_lock_irq(&next->lock);
		context_leaves(next);
		spin_unlock_irq(&next->lock);
	}
	return moves;
}

/*
 * If the process of @ctx is in another control group now, move the context to the pool there. Its
 * works follow when their turn comes. True: @ctx belongs to another pool than @pool. May sleep.
 */
static bool pool_follow(struct treadle_pool *pool, struct treadle_ctx *ctx)
{
	struct treadle_pool *next;
	u64 group;

	if (unlikely(READ_ONCE(ctx->pool) != pool))
		return true;
	group = treadle_group_of(ctx->opener, pool->group);
	if (likely(group == pool->group))
		return false;
	next = pool_get(ctx->user, group);
	if (!next) /* no memory: works of @ctx are done in this group */
		return false;
	if (context_moves(pool, next, ctx))
		treadle_pool_put(pool); /* the context's reference; the thread has its own */
	else
		treadle_pool_put(next);
	return READ_ONCE(ctx->pool) != pool;
}

/**
 * treadle_pool_sleeps() - the calling thread is about to wait, perhaps without a bound
 * @pool: of the calling thread; NULL: it is a process's thread
 *
 * Another thread runs meanwhile, if there is work. Pairs with treadle_pool_awakes().
 *
 * Context: process context, interrupts on. Takes pool->lock.
 */
void treadle_pool_sleeps(struct treadle_pool *pool)
{
	if (!pool)
		return;
	spin_lock_irq(&pool->lock);
	pool->running--;
	pool_kick(pool);
	spin_unlock_irq(&pool->lock);
}

/**
 * treadle_pool_awakes() - the calling thread goes on
 * @pool: as for treadle_pool_sleeps()
 *
 * Context: process context, interrupts on. Takes pool->lock.
 */
void treadle_pool_awakes(struct treadle_pool *pool)
{
	if (!pool)
		return;
	spin_lock_irq(&pool->lock);
	pool->running++;
	spin_unlock_irq(&pool->lock);
}

/**
 * treadle_pool_waits() - does a work wait for a thread?
 * @pool: of the calling thread
 *
 * Context: any. Takes no lock, so the answer may be old.
 * Return: true if one waits.
 */
bool treadle_pool_waits(const struct treadle_pool *pool)
{
	return !list_empty_careful(&pool->works);
}

/*
 * Wait for the next work and hold its context. NULL: the thread has to end; it is not counted any
 * more. May sleep.
 */
static struct treadle_work *next_work(struct treadle_pool *pool)
{
	struct idler self = { .task = current };
	struct treadle_work *work = NULL;

	spin_lock_irq(&pool->lock);
	/* too many run if this thread, or another one, is back from waiting for a page */
	while (list_empty(&pool->works) || pool->running > most_running()) {
		pool->running--;
		if (pool->contexts) {
			list_add(&self.node, &pool->idle);
			__set_current_state(TASK_IDLE);
			spin_unlock_irq(&pool->lock);
			schedule_timeout(IDLE);
			spin_lock_irq(&pool->lock);
			if (list_empty(&self.node)) /* pool_kick() did this, and ->running++ */
				continue;
			list_del(&self.node);
		}
		pool->threads--;
		goto out;
	}
	work = list_first_entry(&pool->works, struct treadle_work, link);
	list_del_init(&work->link);
	kref_get(&work->ctx->ref);
	pool_kick(pool);
out:
	spin_unlock_irq(&pool->lock);
	return work;
}

/*
 * Run @work: allocations are charged to the context's memory cgroup, and pages are faulted in with
 * the opener's credentials (disk quotas, FUSE).
 */
static void work_run(struct treadle_work *work, struct treadle_pool *pool)
{
	struct mem_cgroup *memcg = set_active_memcg(work->ctx->memcg);
	const struct cred *cred = override_creds(work->ctx->cred);
	bool once = work->once;

	atomic_set(&work->state, once ? TREADLE_WORK_IDLE : TREADLE_WORK_RUNS);
	work->fn(work, pool);
	revert_creds(cred);
	set_active_memcg(memcg);
	if (!once && atomic_cmpxchg(&work->state, TREADLE_WORK_RUNS, TREADLE_WORK_IDLE) ==
			     TREADLE_WORK_AGAIN) {
		atomic_set(&work->state, TREADLE_WORK_QUEUED);
		work_link(work);
	}
}

/* A thread: does works, one at a time, until next_work() has none. Holds pool and module. */
static int pool_thread(void *arg)
{
	struct beginner *self = arg;
	struct treadle_pool *pool = self->pool;
	DECLARE_COMPLETION_ONSTACK(placed);
	struct treadle_work *work;

	self->placed = &placed;
	complete(&self->begun);
	wait_for_completion(&placed);
	while ((work = next_work(pool))) {
		struct treadle_ctx *ctx = work->ctx;

		if (unlikely(pool_follow(pool, ctx)))
			work_link(work);
		else
			work_run(work, pool);
		treadle_ctx_put(ctx);
		cond_resched();
	}
	treadle_pool_put(pool);
	module_put_and_kthread_exit(0);
}

/*
 * Does the pool need one more thread? If so, count it, and take its references of the pool and the
 * module. Until then the waiting works hold the module, by their contexts.
 */
static bool pool_grows(struct treadle_pool *pool)
{
	bool grows;

	spin_lock_irq(&pool->lock);
	grows = !list_empty(&pool->works) && pool->running < most_running() &&
		list_empty(&pool->idle) && pool->threads < POOLS_THREADS;
	if (grows) {
		pool->threads++;
		pool->running++;
		kref_get(&pool->ref);
		__module_get(THIS_MODULE);
	} else {
		pool->making = false;
		pool_kick(pool);
	}
	spin_unlock_irq(&pool->lock);
	return grows;
}

/* Start a thread in the pool's group, or where it is if it can't be moved. 0 or an error. */
static int make_thread(struct treadle_pool *pool)
{
	struct beginner one = {
		.pool = pool,
		.begun = COMPLETION_INITIALIZER_ONSTACK(one.begun),
	};
	struct task_struct *task;

	task = kthread_run(pool_thread, &one, "treadle-%u", treadle_user_id(pool->user));
	if (IS_ERR(task))
		return PTR_ERR(task);
	wait_for_completion(&one.begun);
	/* a group without contexts may be about to be removed */
	if (READ_ONCE(pool->contexts))
		treadle_group_enter(task, pool->group);
	complete(one.placed);
	return 0;
}

/*
 * Create threads while the pool needs them; if one can't be created, try again later. Owns the
 * reference that pool_kick() took.
 */
static void pool_make(struct work_struct *work)
{
	struct treadle_pool *pool = container_of(to_delayed_work(work), struct treadle_pool, make);

	while (pool_grows(pool)) {
		if (!make_thread(pool))
			continue;
		spin_lock_irq(&pool->lock);
		pool->threads--;
		pool->running--;
		spin_unlock_irq(&pool->lock);
		treadle_pool_put(pool);
		queue_delayed_work(pool_wq, &pool->make, AGAIN);
		module_put(THIS_MODULE);
		return;
	}
	treadle_pool_put(pool);
}
