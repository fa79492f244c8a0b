// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: ids, references, destruction
 *
 * Create: reserve an id (the object is invisible), answer the caller, publish; or abort before
 * that. DESTROY first makes an object unfindable and unbindable, then stops it, then drops the
 * table's reference.
 */
#include <linux/slab.h>

#include "core/object.h"
#include "core/limits.h"

/**
 * treadle_obj_init() - initialize an object and reserve an id for it
 * @ctx: context of the object, which holds it from here on
 * @obj: first member of an allocated object, zeroed
 * @ops: its type
 *
 * After success treadle_obj_put() frees the object; after an error the caller does.
 *
 * Context: may sleep; takes ctx->lock.
 * Return: 0, -ESHUTDOWN, -ENOSPC: too many objects, or -ENOMEM.
 */
int treadle_obj_init(struct treadle_ctx *ctx, struct treadle_obj *obj,
		     const struct treadle_obj_ops *ops)
{
	int ret;

	if (ops->stats_end) {
		u64 *own = ops->stats_own ? (void *)obj + ops->stats_own : NULL;

		ret = treadle_stats_init(&obj->stats, ops->stats, ops->stats_end, own);
		if (ret)
			return ret;
	}
	ret = -ENOSPC;
	mutex_lock(&ctx->lock);
	if (ctx->dead)
		ret = -ESHUTDOWN;
	else if (atomic_read(&ctx->nr_objs) < treadle_max_objects && ctx->last_id < INT_MAX)
		ret = xa_reserve(&ctx->objs, ctx->last_id + 1, TREADLE_GFP);
	if (!ret) {
		obj->id = ++ctx->last_id; /* ids are never used again */
		atomic_inc(&ctx->nr_objs);
	}
	mutex_unlock(&ctx->lock);
	if (ret) {
		treadle_stats_free(&obj->stats);
		return ret;
	}
	kref_init(&obj->ref);
	obj->ops = ops;
	obj->type = ops->type;
	atomic_set(&obj->users, 0);
	kref_get(&ctx->ref);
	obj->ctx = ctx;
	return 0;
}

/**
 * treadle_obj_publish() - let user space find an object by its id
 * @obj: initialized; after success the table owns the caller's reference
 *
 * Context: may sleep; takes ctx->lock.
 * Return: 0 or -ESHUTDOWN.
 */
int treadle_obj_publish(struct treadle_obj *obj)
{
	struct treadle_ctx *ctx = obj->ctx;
	int ret = 0;

	mutex_lock(&ctx->lock);
	if (ctx->dead) {
		ret = -ESHUTDOWN;
	} else { /* the slot was reserved: this allocates nothing */
		if (obj->type == TREADLE_CNTR)
			xa_set_mark(&ctx->objs, obj->id, TREADLE_CNTRS); /* before xa_store() */
		xa_store(&ctx->objs, obj->id, obj, TREADLE_GFP);
		rcu_assign_pointer(ctx->recent[obj->id % TREADLE_RECENT], obj);
	}
	mutex_unlock(&ctx->lock);
	return ret;
}

/**
 * treadle_obj_abort() - free an object that is not published after all
 * @obj: initialized; the caller's reference is dropped
 *
 * Peers may have found it already: a region by its key, an endpoint by its port. So it is hidden
 * first.
 *
 * Context: may sleep; without ctx->lock.
 */
void treadle_obj_abort(struct treadle_obj *obj)
{
	TREADLE_RUN(run, obj->ctx);

	if (obj->ops->hide)
		obj->ops->hide(obj, &run);
	treadle_run_jobs(&run);
	treadle_obj_put(obj);
}

/**
 * treadle_obj_unlist() - take an object out of the table
 * @ctx: its context
 * @obj: published, held
 *
 * Context: under ctx->lock; or in the shutdown of @ctx, when nothing else changes the table.
 */
void treadle_obj_unlist(struct treadle_ctx *ctx, struct treadle_obj *obj)
{
	struct treadle_obj __rcu **recent = &ctx->recent[obj->id % TREADLE_RECENT];

	if (rcu_access_pointer(*recent) == obj)
		RCU_INIT_POINTER(*recent, NULL);
	treadle_sums_begin(&ctx->sums);
	xa_erase(&ctx->objs, obj->id);
	treadle_stats_fold(&obj->stats, &ctx->sums.stats);
	treadle_sums_end(&ctx->sums);
}

static void obj_free_rcu(struct rcu_head *rcu)
{
	struct treadle_obj *obj = container_of(rcu, struct treadle_obj, rcu);

	treadle_stats_free(&obj->stats);
	kfree(obj);
}

/**
 * treadle_obj_release() - free an object; only for treadle_obj_put()
 * @ref: of the object
 *
 * Context: may sleep. Memory is freed after an RCU grace period.
 */
void treadle_obj_release(struct kref *ref)
{
	struct treadle_obj *obj = container_of(ref, struct treadle_obj, ref);
	struct treadle_ctx *ctx = obj->ctx;

	/* not destroyed: counted still. One that was never published also owns its reserved id */
	if (atomic_read(&obj->users) != TREADLE_GONE) {
		xa_erase(&ctx->objs, obj->id);
		atomic_dec(&ctx->nr_objs);
	}
	if (obj->ops->free)
		obj->ops->free(obj);
	treadle_stats_fold(&obj->stats, &ctx->sums.stats); /* what has come since it was unlisted */
	call_rcu(&obj->rcu, obj_free_rcu);
	treadle_ctx_put(ctx);
}

/**
 * treadle_obj_get() - find an object by its id, and hold it
 * @ctx:  context of the object
 * @id:   from user space
 * @type: type of the object; 0: any
 *
 * Context: any; takes no lock.
 * Return: the object; -ENOENT; -EBADF: another type.
 */
struct treadle_obj *treadle_obj_get(struct treadle_ctx *ctx, u32 id, enum treadle_type type)
{
	return treadle_obj_find(ctx, id, type, false);
}

/**
 * treadle_obj_bind() - find an object by its id, hold it, and keep it from being destroyed
 * @ctx:  context of the object
 * @id:   from user space
 * @type: type of the object; 0: any
 *
 * Until treadle_obj_unbind(), DESTROY of the object fails with -EBUSY.
 *
 * Context: any; takes no lock.
 * Return: the object; -ENOENT; -EBADF: another type.
 */
struct treadle_obj *treadle_obj_bind(struct treadle_ctx *ctx, u32 id, enum treadle_type type)
{
	return treadle_obj_find(ctx, id, type, true);
}

/**
 * treadle_obj_unbind() - undo treadle_obj_bind()
 * @obj: bound by the caller
 *
 * Context: may sleep, as treadle_obj_put().
 */
void treadle_obj_unbind(struct treadle_obj *obj)
{
	atomic_dec(&obj->users);
	treadle_obj_put(obj);
}

/**
 * treadle_obj_destroy() - destroy an object on behalf of its process
 * @ctx: context of the object
 * @id:  from user space
 *
 * Context: may sleep; takes ctx->lock, and drops it before the object is hidden and stopped.
 * Return: 0, -ENOENT, or -EBUSY: something is bound to it.
 */
int treadle_obj_destroy(struct treadle_ctx *ctx, u32 id)
{
	struct treadle_obj *obj;
	int ret = 0;
	TREADLE_RUN(run, ctx);

	mutex_lock(&ctx->lock);
	obj = xa_load(&ctx->objs, id);
	if (!obj)
		ret = -ENOENT;
	else if (atomic_cmpxchg(&obj->users, 0, TREADLE_GONE) != 0)
		ret = -EBUSY;
	if (!ret) {
		treadle_obj_unlist(ctx, obj);
		atomic_dec(&ctx->nr_objs);
	}
	mutex_unlock(&ctx->lock);
	if (ret)
		return ret;
	if (obj->ops->hide)
		obj->ops->hide(obj, &run);
	if (obj->ops->stop)
		obj->ops->stop(obj, &run);
	treadle_run_jobs(&run);
	treadle_obj_put(obj);
	return 0;
}
