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
#include <linux/uaccess.h>
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
	ctx->uid = current_euid();
	ctx->user_ns = get_user_ns(current_user_ns());
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
	put_user_ns(ctx->user_ns);
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

/**
 * treadle_copy_key() - copy an authorization key from user space
 * @ptr:  address in the calling process; 0 if @size is 0
 * @size: bytes; 0: no key
 * @key:  room for TREADLE_MAX_AUTH_KEY bytes
 *
 * Context: may sleep (page faults).
 * Return: 0, -EINVAL: @size is too large, or 0 with a @ptr; -EFAULT.
 */
int treadle_copy_key(u64 ptr, u32 size, u8 *key)
{
	if (size > TREADLE_MAX_AUTH_KEY || (!size && ptr))
		return -EINVAL;
	return copy_from_user(key, u64_to_user_ptr(ptr), size) ? -EFAULT : 0;
}

/* The time does not depend on the bytes, so that a key cannot be guessed byte by byte. */
static bool key_differs(const u8 *a, const u8 *b, u32 size)
{
	u8 diff = 0;

	while (size--)
		diff |= a[size] ^ b[size];
	return diff;
}

/**
 * treadle_key_is() - compare two authorization keys
 * @key:	@size bytes
 * @size:	0: no key
 * @other:	@other_size bytes
 * @other_size:	0: no key
 *
 * Context: any. The time depends on the lengths only.
 * Return: true if both keys exist and are equal.
 */
bool treadle_key_is(const u8 *key, u32 size, const u8 *other, u32 other_size)
{
	return size && size == other_size && !key_differs(key, other, size);
}
