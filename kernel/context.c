// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: one open file: who it is, what it may have, how it ends
 *
 * Shutdown comes from the exit of the mm (even if a child still has the file)
 * or from the last close, whichever is first. It never waits for a copy, a page
 * fault or another process: it makes everything of this context fail, takes
 * down what waits, and leaves memory to the last reference.
 */
#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include <net/net_namespace.h>

#include "connect.h"
#include "treadle.h"

/*
 * treadle_ctx_create - a context of the caller's process
 * @nowait: don't wait for its mmap_lock
 *
 * May sleep. -EAGAIN: @nowait, and the lock is taken; -EINTR: a signal is pending; -EINVAL: the
 * caller has no memory; -ENOMEM.
 */
struct treadle_ctx *treadle_ctx_create(bool nowait)
{
	struct treadle_ctx *ctx;
	int ret;

	if (!current->mm)
		return ERR_PTR(-EINVAL);
	ctx = kzalloc(sizeof(*ctx), TREADLE_GFP);
	if (!ctx)
		return ERR_PTR(-ENOMEM);
	kref_init(&ctx->ref);
	mutex_init(&ctx->lock);
	xa_init_flags(&ctx->objs, XA_FLAGS_ACCOUNT);
	spin_lock_init(&ctx->jobs_lock);
	INIT_LIST_HEAD(&ctx->jobs);
	INIT_LIST_HEAD(&ctx->failing);
	treadle_work_init(&ctx->work, ctx, treadle_ctx_worker, false);
	treadle_watch_init(&ctx->watch);
	INIT_LIST_HEAD(&ctx->mates);
	atomic_set(&ctx->armed, 0);
	treadle_poller_init(ctx);
	ctx->cred = get_current_cred();
	ctx->uid = current_euid();
	ctx->user_ns = get_user_ns(current_user_ns());
	ctx->net = get_net(current->nsproxy->net_ns);
	ctx->ports = treadle_ports(ctx->net);
	ctx->mm = current->mm;
	mmgrab(ctx->mm);
	ctx->opener = get_pid(task_tgid(current));
#ifdef CONFIG_MEMCG
	ctx->memcg = get_mem_cgroup_from_mm(ctx->mm);
#endif
	__module_get(THIS_MODULE); /* until the last reference: workers run our code */

	ret = -ENOMEM;
	ctx->user = treadle_user_get();
	if (ctx->user)
		ret = treadle_pool_join(ctx);
	if (!ret)
		ret = treadle_mrs_init(&ctx->mrs);
	if (ret)
		goto fail;
	ret = treadle_pm_join(ctx, nowait);
	if (ret)
		goto fail_mrs;
	return ctx;
fail_mrs:
	rhashtable_destroy(&ctx->mrs);
fail:
	ctx->mrs.tbl = NULL;
	treadle_ctx_put(ctx);
	return ERR_PTR(ret);
}

static void ctx_release(struct kref *ref)
{
	struct treadle_ctx *ctx = container_of(ref, struct treadle_ctx, ref);

	treadle_watch_end(&ctx->watch);
	if (ctx->mrs.tbl)
		rhashtable_destroy(&ctx->mrs);
	if (ctx->pm)
		treadle_pm_put(ctx->pm);
	xa_destroy(&ctx->objs);
#ifdef CONFIG_MEMCG
	mem_cgroup_put(ctx->memcg);
#endif
	put_pid(ctx->opener);
	mmdrop(ctx->mm);
	if (ctx->pool) {
		treadle_pool_leave(ctx);
		treadle_pool_put(ctx->pool);
	}
	if (ctx->user)
		treadle_user_put(ctx->user);
	put_net(ctx->net);
	put_user_ns(ctx->user_ns);
	put_cred(ctx->cred);
	kfree(ctx);
	/* the work that brought us here is flushed before the module's text goes */
	module_put(THIS_MODULE);
}

void treadle_ctx_put(struct treadle_ctx *ctx)
{
	kref_put(&ctx->ref, ctx_release);
}

static void ctx_drop(struct treadle_ctx *ctx, struct treadle_obj *obj)
{
	treadle_obj_unlist(ctx, obj);
	treadle_obj_put(obj);
	cond_resched();
}

/* Whoever comes second does not wait: ctx->over tells. */
void treadle_ctx_shutdown(struct treadle_ctx *ctx)
{
	struct treadle_cull all = { .max = U64_MAX };
	TREADLE_RUN(run, ctx);
	struct treadle_obj *obj;
	bool dead, awaited = false;
	struct mem_cgroup *old;
	unsigned long id;

	mutex_lock(&ctx->lock);
	dead = ctx->dead;
	WRITE_ONCE(ctx->dead, true);
	mutex_unlock(&ctx->lock);
	if (dead)
		return;
	/* what is allocated for those who hear of it is paid by whose end it is */
	old = set_active_memcg(ctx->memcg);

	/*
	 * From here on no object is added or destroyed; reserved ids of calls
	 * under way are not visible. First nobody may reach us, then what waits
	 * in us is told, then the table lets go.
	 */
	xa_for_each(&ctx->objs, id, obj) {
		if (obj->type == TREADLE_EP)
			treadle_ep_close(container_of(obj, struct treadle_ep, obj));
		cond_resched();
	}
	smp_mb(); /* pairs with await_source(), as in treadle_ep_die() */
	xa_for_each(&ctx->objs, id, obj) {
		if (obj->type == TREADLE_EP)
			awaited |= READ_ONCE(container_of(obj, struct treadle_ep, obj)->awaited);
		cond_resched();
	}
	if (awaited)
		treadle_ctx_mourn(ctx, &run);
	xa_for_each(&ctx->objs, id, obj) {
		if (obj->type == TREADLE_EP)
			treadle_ep_shutdown(container_of(obj, struct treadle_ep, obj), &run);
		cond_resched();
	}
	treadle_cull_all(ctx, &all, &run);
	treadle_run_handoff(&run);
	xa_for_each(&ctx->objs, id, obj) {
		if (obj->type == TREADLE_MR)
			treadle_mr_shutdown(obj);
		else if (obj->type == TREADLE_CQ)
			treadle_cq_shutdown(container_of(obj, struct treadle_cq, obj));
		else if (obj->type == TREADLE_EQ)
			treadle_eq_shutdown(container_of(obj, struct treadle_eq, obj));
		treadle_waits_end(obj); /* who waits by a file; nobody else can be left */
		ctx_drop(ctx, obj);
	}
	set_active_memcg(old);
	treadle_pool_leave(ctx);
	smp_store_release(&ctx->over, true);
	smp_mb(); /* ->over before the look for waiters; pairs with the waiter, which is queued before it looks */
	wake_up_var(&ctx->over); /* by address only: the context may be gone */
}

/* An authorization key from user space. */
int treadle_copy_key(u64 ptr, u32 size, u8 *key)
{
	if (size > TREADLE_MAX_AUTH_KEY || (!size && ptr))
		return -EINVAL;
	return copy_from_user(key, u64_to_user_ptr(ptr), size) ? -EFAULT : 0;
}
