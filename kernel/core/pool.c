// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the threads that work for contexts
 *
 * Each user has a pool of threads in each control group in which it has contexts: a thread's time
 * is charged to the group, and limited by it. Threads of the kernel go on when a process is
 * stopped. They are made when there is work, and end soon after, or with the last context of the
 * pool, so that the group can be removed.
 *
 * The memory of a context may be slow on purpose (userfaultfd, FUSE), for as long as its owner
 * likes. So a thread has one work at a time, and there are up to POOLS_THREADS of them. But no more
 * run at a time than there are processors, whatever waits: without a controller of processors, a
 * user gets what a process with a thread for each would get.
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
#define IDLE	      HZ	/* until a thread with nothing to do ends */
#define AGAIN	      (HZ / 50) /* until a thread that could not be made is tried again */

/*
 * struct treadle_pool - threads of one user in one control group
 * @ref:      contexts, threads, @make; the last one goes with pools_lock
 * @node:     in pools (under pools_lock)
 * @group:    treadle_group_of() their owners
 * @lock:     what follows; in interrupts, too. Innermost
 * @works:    that wait for a thread; if there are any, a thread runs or @making
 * @idle:     threads that wait for work
 * @contexts: that have not ended
 * @threads:  all of them; @running: of these, what neither waits for work nor for a page
 * @make:     makes threads, as that sleeps; @making: it is queued, or runs
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

/* A thread that waits: in pool->idle until it is woken for a work. On its stack. */
struct idler {
	struct list_head node;
	struct task_struct *task;
};

/*
 * A thread that begins, on its maker's stack until @begun. Then it waits for @placed, on its own: a
 * completion belongs to the one that waits for it.
 */
struct beginner {
	struct treadle_pool *pool;
	struct completion begun, *placed;
};

static struct workqueue_struct *pool_wq; /* of those who make threads */
static DEFINE_HASHTABLE(pools, 6);
static DEFINE_SPINLOCK(pools_lock);

int treadle_pool_init(void)
{
	pool_wq = alloc_workqueue("treadle-pools", WQ_UNBOUND, 0);
	return pool_wq ? 0 : -ENOMEM;
}

void treadle_pool_exit(void)
{
	destroy_workqueue(pool_wq);
}

static unsigned int most_running(void)
{
	return num_online_cpus();
}

/* If there is something to do, and a processor to do it on, see to one more thread. */
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

/* The pool of @ctx, locked. It may change until it is. */
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

static void work_link(struct treadle_work *work)
{
	unsigned long flags;
	struct treadle_pool *pool = pool_lock(work->ctx, &flags);

	list_add_tail(&work->link, &pool->works);
	pool_kick(pool);
	spin_unlock_irqrestore(&pool->lock, flags);
}

/**
 * treadle_queue_work - let a thread of the context's pool do a work
 * @work: whose context is held until it has been done
 *
 * In any context, interrupts, too. A work that runs will run once more.
 * Return: false if it is pending.
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

static void pool_release(struct kref *ref) __releases(&pools_lock)
{
	struct treadle_pool *pool = container_of(ref, struct treadle_pool, ref);

	hash_del(&pool->node);
	spin_unlock(&pools_lock);
	treadle_user_put(pool->user);
	kfree_rcu(pool, rcu);
}

/**
 * treadle_pool_put - drop a reference
 * @pool: held
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

/* The pool of @user in @group, held; if there is none, @new, unless that is NULL. */
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
 * treadle_pool_join - a new context gets its pool
 * @ctx: whose user and opener are known
 *
 * May sleep. Return: 0 or -ENOMEM.
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

/* One context less. Without any, what waits for work ends. */
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
 * treadle_pool_leave - a context has ended
 * @ctx: of which the pool may still have work to do
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

/* Move @ctx, but no work of it, from @pool to @next, of which the caller has a reference. */
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
 * If the owner of @ctx is in another control group now, the context goes there, and its works
 * follow when their turn comes. Return: whether @ctx belongs to another pool than @pool.
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
	if (!next) /* no memory: its works are done in this group */
		return false;
	if (context_moves(pool, next, ctx))
		treadle_pool_put(pool); /* the context's; the thread has its own */
	else
		treadle_pool_put(next);
	return READ_ONCE(ctx->pool) != pool;
}

/**
 * treadle_pool_sleeps - the calling thread is about to wait, for as long as somebody likes
 * @pool: of the thread; NULL if it is a process's
 *
 * Another thread runs meanwhile, if there is work. Pairs with treadle_pool_awakes().
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
 * treadle_pool_awakes - the calling thread goes on
 * @pool: as treadle_pool_sleeps()
 */
void treadle_pool_awakes(struct treadle_pool *pool)
{
	if (!pool)
		return;
	spin_lock_irq(&pool->lock);
	pool->running++;
	spin_unlock_irq(&pool->lock);
}

/*
 * The next work, with a reference to its context. NULL: the thread is to end, and is not counted
 * any more.
 */
static struct treadle_work *next_work(struct treadle_pool *pool)
{
	struct idler self = { .task = current };
	struct treadle_work *work = NULL;

	spin_lock_irq(&pool->lock);
	/* too many run when a page has come that this thread, or another one, has waited for */
	while (list_empty(&pool->works) || pool->running > most_running()) {
		pool->running--;
		if (pool->contexts) {
			list_add(&self.node, &pool->idle);
			__set_current_state(TASK_IDLE);
			spin_unlock_irq(&pool->lock);
			schedule_timeout(IDLE);
			spin_lock_irq(&pool->lock);
			if (list_empty(&self.node)) /* by pool_kick(), which counts it as running */
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
 * What is allocated is charged to the context's memory group, and pages come as if the opener asked
 * for them (disk quotas, FUSE).
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
 * Is a thread to be made? Then it counts, and has its references. The works that wait hold the
 * module.
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

/* Start a thread. If it can't be moved, it works where it is. Return: 0, or why there is none. */
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
