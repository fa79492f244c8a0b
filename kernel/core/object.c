// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: ids, references, destruction
 *
 * Allocate (id reserved, invisible) -> answer the caller -> publish; abort
 * before that. DESTROY first makes an object unfindable and unbindable, then
 * stops it, then drops the table's reference.
 */
#include <linux/slab.h>

#include "core/object.h"
#include "core/limits.h"

/* Reserve an id; the object is freed by treadle_obj_put from here on. */
int treadle_obj_init(struct treadle_ctx *ctx, struct treadle_obj *obj,
		     const struct treadle_obj_ops *ops)
{
	int ret = -ENOSPC;

	mutex_lock(&ctx->lock);
	if (ctx->dead)
		ret = -ESHUTDOWN;
	else if (atomic_read(&ctx->nr_objs) < treadle_max_objects && ctx->last_id < INT_MAX)
		ret = xa_reserve(&ctx->objs, ctx->last_id + 1, TREADLE_GFP);
	if (!ret) {
		obj->id = ++ctx->last_id; /* no number is used twice */
		atomic_inc(&ctx->nr_objs);
	}
	mutex_unlock(&ctx->lock);
	if (ret)
		return ret;
	kref_init(&obj->ref);
	obj->ops = ops;
	obj->type = ops->type;
	atomic_set(&obj->users, 0);
	kref_get(&ctx->ref);
	obj->ctx = ctx;
	return 0;
}

/* The table takes over the caller's reference. */
int treadle_obj_publish(struct treadle_obj *obj)
{
	struct treadle_ctx *ctx = obj->ctx;
	int ret = 0;

	mutex_lock(&ctx->lock);
	if (ctx->dead) {
		ret = -ESHUTDOWN;
	} else { /* the slot was reserved: this allocates nothing */
		if (obj->type == TREADLE_CNTR)
			xa_set_mark(&ctx->objs, obj->id, TREADLE_CNTRS); /* before it is found */
		xa_store(&ctx->objs, obj->id, obj, TREADLE_GFP);
		rcu_assign_pointer(ctx->recent[obj->id % TREADLE_RECENT], obj);
	}
	mutex_unlock(&ctx->lock);
	return ret;
}

/* It is not published after all, but peers may have found it: regions have keys, endpoints ports. */
void treadle_obj_abort(struct treadle_obj *obj)
{
	TREADLE_RUN(run, obj->ctx);

	if (obj->ops->hide)
		obj->ops->hide(obj, &run);
	treadle_run_jobs(&run);
	treadle_obj_put(obj);
}

/* Out of the table; under ctx->lock, or by the only one who still changes it. */
void treadle_obj_unlist(struct treadle_ctx *ctx, struct treadle_obj *obj)
{
	struct treadle_obj __rcu **recent = &ctx->recent[obj->id % TREADLE_RECENT];

	if (rcu_access_pointer(*recent) == obj)
		RCU_INIT_POINTER(*recent, NULL);
	xa_erase(&ctx->objs, obj->id);
}

static void obj_free_rcu(struct rcu_head *rcu)
{
	struct treadle_obj *obj = container_of(rcu, struct treadle_obj, rcu);

	kfree(obj);
}

void treadle_obj_release(struct kref *ref)
{
	struct treadle_obj *obj = container_of(ref, struct treadle_obj, ref);
	struct treadle_ctx *ctx = obj->ctx;

	/* one that was never published still owns its reserved id */
	if (atomic_read(&obj->users) != TREADLE_GONE) {
		xa_erase(&ctx->objs, obj->id);
		atomic_dec(&ctx->nr_objs);
	}
	if (obj->ops->free)
		obj->ops->free(obj);
	call_rcu(&obj->rcu, obj_free_rcu);
	treadle_ctx_put(ctx);
}

/* Find by id and hold; @type 0: any. */
struct treadle_obj *treadle_obj_get(struct treadle_ctx *ctx, u32 id, enum treadle_type type)
{
	return treadle_obj_find(ctx, id, type, false);
}

/* Find, hold, and keep it from being destroyed. */
struct treadle_obj *treadle_obj_bind(struct treadle_ctx *ctx, u32 id, enum treadle_type type)
{
	return treadle_obj_find(ctx, id, type, true);
}

void treadle_obj_unbind(struct treadle_obj *obj)
{
	atomic_dec(&obj->users);
	treadle_obj_put(obj);
}

int treadle_obj_destroy(struct treadle_ctx *ctx, u32 id)
{
	TREADLE_RUN(run, ctx);
	struct treadle_obj *obj;
	int ret = 0;

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
