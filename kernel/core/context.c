// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: contexts. dev/file.c completes that of an open file in open(), and ends it
 */
#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>
#include <net/net_namespace.h>

#include "core/object.h"
#include "core/pool.h"

static void ctx_init(struct treadle_ctx *ctx)
{
	kref_init(&ctx->ref);
	mutex_init(&ctx->lock);
	xa_init_flags(&ctx->objs, XA_FLAGS_ACCOUNT);
	spin_lock_init(&ctx->jobs_lock);
	INIT_LIST_HEAD(&ctx->jobs);
	INIT_LIST_HEAD(&ctx->failing);
	treadle_work_init(&ctx->work, ctx, treadle_ctx_worker, false);
	treadle_watch_init(&ctx->watch);
	atomic_set(&ctx->armed, 0);
}

/**
 * treadle_ctx_create() - create a context of a process, or of none
 * @owner:	of its endpoints
 * @net:	network namespace of its endpoints
 * @mm:		memory of the calling process; NULL: the context stands for peers on another host,
 *		and belongs to no process. The caller is accountable for it
 *
 * The caller adds the ports and the poller; with a process, the pagemap and the regions, too.
 *
 * Context: process context; may sleep.
 * Return: the context, with a reference for treadle_ctx_put(); or -ENOMEM.
 */
struct treadle_ctx *treadle_ctx_create(const struct treadle_owner *owner, struct net *net,
				       struct mm_struct *mm)
{
	struct treadle_ctx *ctx = kzalloc(sizeof(*ctx), TREADLE_GFP);
	int ret = -ENOMEM;

	if (!ctx)
		return ERR_PTR(-ENOMEM);
	ctx_init(ctx);
	ctx->cred = get_current_cred();
	ctx->owner = *owner;
	get_user_ns(ctx->owner.ns);
	ctx->net = get_net(net);
	if (mm) {
		mmgrab(mm);
		ctx->mm = mm;
		ctx->opener = get_pid(task_tgid(current));
#ifdef CONFIG_MEMCG
		ctx->memcg = get_mem_cgroup_from_mm(mm);
#endif
	}
	__module_get(THIS_MODULE); /* until ctx_release(): threads run the module's code */

	ctx->user = treadle_user_get();
	if (ctx->user)
		ret = treadle_pool_join(ctx);
	if (!ret)
		ret = treadle_stats_init(&ctx->sums.stats, 0, TREADLE_STATS, NULL);
	if (!ret && mm)
		ret = treadle_census_add(ctx);
	if (!ret)
		return ctx;
	treadle_ctx_put(ctx);
	return ERR_PTR(ret);
}

/**
 * treadle_scratch_alloc() - give a context the page that its windows have where they have none
 * @ctx: the context
 *
 * Context: may sleep; takes ctx->lock.
 * Return: 0 or -ENOMEM.
 */
int treadle_scratch_alloc(struct treadle_ctx *ctx)
{
	int ret;

	mutex_lock(&ctx->lock);
	if (!ctx->scratch)
		ctx->scratch = alloc_page(TREADLE_GFP | __GFP_ZERO);
	ret = ctx->scratch ? 0 : -ENOMEM;
	mutex_unlock(&ctx->lock);
	return ret;
}

static void ctx_release(struct kref *ref)
{
	struct treadle_ctx *ctx = container_of(ref, struct treadle_ctx, ref);

	treadle_census_remove(ctx);
	treadle_stats_free(&ctx->sums.stats);
	treadle_watch_end(&ctx->watch);
	if (ctx->mrs.tbl)
		rhashtable_destroy(&ctx->mrs);
	if (ctx->pm)
		treadle_pm_put(ctx->pm);
	xa_destroy(&ctx->objs);
	if (ctx->scratch)
		__free_page(ctx->scratch);
#ifdef CONFIG_MEMCG
	mem_cgroup_put(ctx->memcg);
#endif
	put_pid(ctx->opener);
	if (ctx->mm)
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
