// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the context of an open file; dev/file.c completes it in open(), and ends it
 */
#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <net/net_namespace.h>

#include "core/object.h"
#include "core/pool.h"

/**
 * treadle_ctx_create() - create a context for the calling process
 *
 * The caller adds the pagemap, the ports, the regions and the poller.
 *
 * Context: process context; may sleep.
 * Return: the context, with a reference for treadle_ctx_put(); or -EINVAL: the caller has no mm;
 * or -ENOMEM.
 */
struct treadle_ctx *treadle_ctx_create(void)
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
	atomic_set(&ctx->armed, 0);
	ctx->cred = get_current_cred();
	ctx->owner.ns = get_user_ns(current_user_ns());
	ctx->owner.uid = current_euid();
	ctx->net = get_net(current->nsproxy->net_ns);
	ctx->mm = current->mm;
	mmgrab(ctx->mm);
	ctx->opener = get_pid(task_tgid(current));
#ifdef CONFIG_MEMCG
	ctx->memcg = get_mem_cgroup_from_mm(ctx->mm);
#endif
	__module_get(THIS_MODULE); /* until ctx_release(): threads run the module's code */

	ret = -ENOMEM;
	ctx->user = treadle_user_get();
	if (ctx->user)
		ret = treadle_pool_join(ctx);
	if (!ret)
		return ctx;
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
	put_user_ns(ctx->owner.ns);
	put_cred(ctx->cred);
	kfree(ctx);
	/* if a work dropped the last reference: it is flushed before the module's text is freed */
	module_put(THIS_MODULE);
}

/**
 * treadle_ctx_put() - drop a reference
 * @ctx: held by the caller
 *
 * Context: the last reference may sleep; any other may be dropped anywhere.
 */
void treadle_ctx_put(struct treadle_ctx *ctx)
{
	kref_put(&ctx->ref, ctx_release);
}
