/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: the threads that work for contexts (pool.c), and their users (user.c) */
#ifndef TREADLE_POOL_H
#define TREADLE_POOL_H

#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct treadle_ctx;
struct treadle_pool;
struct treadle_user;

/*
 * struct treadle_work - work that a pool does for a context, in one thread at a time
 * @link:  in pool->works (under pool->lock)
 * @ctx:   its pool does the work; held while the work is queued or runs
 * @fn:    runs in a thread of the pool, with the memory cgroup and the credentials of @ctx
 * @once:  the work may be freed by @fn. Otherwise it is part of @ctx
 * @state: enum treadle_work_state
 */
struct treadle_work {
	struct list_head link;
	struct treadle_ctx *ctx;
	void (*fn)(struct treadle_work *work, struct treadle_pool *pool);
	bool once;
	atomic_t state;
};

/*
 * struct treadle_later - work that is tried again later while something is in its way (user.c)
 * @again: queues @work after a pause; @pause: the last pause, in jiffies
 */
struct treadle_later {
	struct treadle_work work;
	struct delayed_work again;
	unsigned long pause;
};

enum treadle_work_state {
	TREADLE_WORK_IDLE,
	TREADLE_WORK_QUEUED,
	TREADLE_WORK_RUNS,
	TREADLE_WORK_AGAIN, /* runs, and will run once more */
};

static inline void treadle_work_init(struct treadle_work *work, struct treadle_ctx *ctx,
				     void (*fn)(struct treadle_work *, struct treadle_pool *),
				     bool once)
{
	INIT_LIST_HEAD(&work->link);
	work->ctx = ctx;
	work->fn = fn;
	work->once = once;
	atomic_set(&work->state, TREADLE_WORK_IDLE);
}

/* Will it run (again)? */
static inline bool treadle_work_pending(const struct treadle_work *work)
{
	int state = atomic_read(&work->state);

	return state == TREADLE_WORK_QUEUED || state == TREADLE_WORK_AGAIN;
}

int treadle_pool_init(void);
void treadle_pool_exit(void);
bool treadle_queue_work(struct treadle_work *work);
int treadle_pool_join(struct treadle_ctx *ctx);
void treadle_pool_leave(struct treadle_ctx *ctx);
void treadle_pool_put(struct treadle_pool *pool);
void treadle_pool_sleeps(struct treadle_pool *pool);
void treadle_pool_awakes(struct treadle_pool *pool);
bool treadle_pool_waits(const struct treadle_pool *pool);

struct treadle_user *treadle_user_get(void);
struct treadle_user *treadle_user_hold(struct treadle_user *user);
unsigned int treadle_user_id(const struct treadle_user *user);
void treadle_user_put(struct treadle_user *user);
void treadle_user_polls(struct treadle_user *user, bool more);
unsigned int treadle_user_share(const struct treadle_user *user);
void treadle_later_begin(struct treadle_later *later, struct treadle_ctx *ctx,
			 void (*fn)(struct treadle_work *, struct treadle_pool *));
void treadle_later_again(struct treadle_later *later);
void treadle_later_end(struct treadle_later *later);

#endif
