// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: a context from the opening of its file to its end
 *
 * Shutdown comes from the exit of the mm (even if a child still has the file)
 * or from the last close, whichever is first. It never waits for a copy, a page
 * fault or another process: it makes every operation of this context fail, ends
 * what waits, and leaves memory to the last reference.
 */
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/memcontrol.h>
#include <linux/nsproxy.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>

#include "dev/dev.h"

static void ctx_drop(struct treadle_ctx *ctx, struct treadle_obj *obj)
{
	treadle_obj_unlist(ctx, obj);
	treadle_obj_put(obj);
	cond_resched();
}

/* End @ctx. A second caller returns at once: ctx->over says when the end is complete. */
static void ctx_shutdown(struct treadle_ctx *ctx)
{
	struct treadle_cull all = { .max = U64_MAX };
	struct treadle_obj *obj;
	bool dead;
	struct mem_cgroup *old;
	unsigned long id;
	TREADLE_RUN(run, ctx);

	mutex_lock(&ctx->lock);
	dead = ctx->dead;
	WRITE_ONCE(ctx->dead, true);
	mutex_unlock(&ctx->lock);
	if (dead)
		return;
	/* charge what is allocated for notifications to the context that ends */
	old = set_active_memcg(ctx->memcg);

	/*
	 * From here on no object is added or destroyed; ids that calls under
	 * way have reserved are not visible. First close all endpoints, so that
	 * no peer reaches them; then notify what waits; then empty the table.
	 */
	xa_for_each(&ctx->objs, id, obj) {
		if (obj->type == TREADLE_EP)
			treadle_ep_close(container_of(obj, struct treadle_ep, obj));
		cond_resched();
	}
	xa_for_each(&ctx->objs, id, obj) {
		if (obj->type == TREADLE_EP)
			treadle_ep_notify_death(container_of(obj, struct treadle_ep, obj), &run);
		cond_resched();
	}
	xa_for_each(&ctx->objs, id, obj) {
		if (obj->type == TREADLE_EP)
			treadle_ep_shutdown(container_of(obj, struct treadle_ep, obj), &run);
		cond_resched();
	}
	treadle_cull_all(ctx, &all, &run);
	treadle_run_handoff(&run);
	xa_for_each(&ctx->objs, id, obj) {
		if (obj->type != TREADLE_EP) { /* endpoints are shut down already */
			if (obj->ops->hide)
				obj->ops->hide(obj, &run);
			if (obj->ops->stop)
				obj->ops->stop(obj, &run);
		}
		ctx_drop(ctx, obj);
	}
	set_active_memcg(old);
	treadle_pool_leave(ctx);
	smp_store_release(&ctx->over, true);
	/* ->over before the check for waiters; pairs with ctx_end(), queued before it reads */
	smp_mb();
	wake_up_var(&ctx->over); /* uses the address only: the context may be freed already */
}

static struct treadle_ctx *ctx_of(struct treadle_pm_user *user)
{
	return container_of(user, struct treadle_ctx, pm_user);
}

static void ctx_get(struct treadle_pm_user *user)
{
	kref_get(&ctx_of(user)->ref);
}

static void ctx_mm_gone(struct treadle_pm_user *user)
{
	ctx_shutdown(ctx_of(user));
	treadle_ctx_put(ctx_of(user));
}

/* Make a context for the calling process. -EAGAIN: @nowait, and the mmap_lock is taken. */
static struct treadle_ctx *ctx_open(bool nowait)
{
	const struct treadle_owner owner = { .ns = current_user_ns(), .uid = current_euid() };
	struct treadle_ctx *ctx;
	struct treadle_pm *pm;
	int ret;

	if (!current->mm)
		return ERR_PTR(-EINVAL);
	ctx = treadle_ctx_create(&owner, current->nsproxy->net_ns, current->mm);
	if (IS_ERR(ctx))
		return ctx;
	treadle_poller_init(ctx);
	treadle_polling_init(ctx);
	ctx->ports = treadle_ports(ctx->net);
	ctx->pm_user.get = ctx_get;
	ctx->pm_user.mm_gone = ctx_mm_gone;
	ret = treadle_mrs_init(&ctx->mrs);
	if (ret) {
		ctx->mrs.tbl = NULL;
		goto fail;
	}
	pm = treadle_pm_join(&ctx->pm_user, nowait);
	ret = PTR_ERR_OR_ZERO(pm);
	if (ret)
		goto fail;
	ctx->pm = pm;
	return ctx;
fail:
	treadle_ctx_put(ctx);
	return ERR_PTR(ret);
}

/* Is this a worker of io_uring, which may wait? The thread that polls for entries is none. */
static bool in_uring_worker(void)
{
	return (current->flags & PF_IO_WORKER) && current->worker_private;
}

/*
 * Let the maps of the file be found in a mapping of its own, not in that of the device's inode: to
 * take a page out of a window, a notifier needs its i_mmap_rwsem, which other processes must not
 * hold up. It may hold locks that rank above those of other files: so this one has its own class.
 */
static void file_own_mapping(struct file *file, struct inode *inode, struct treadle_ctx *ctx)
{
	static struct lock_class_key key;

	address_space_init_once(&ctx->mapping);
	lockdep_set_class(&ctx->mapping.i_mmap_rwsem, &key);
	ctx->mapping.host = inode;
	ctx->mapping.a_ops = &empty_aops;
	file->f_mapping = &ctx->mapping;
	file->f_wb_err = filemap_sample_wb_err(&ctx->mapping);
}

/**
 * treadle_open() - open(2): make a context for the calling process
 * @inode:	of the device
 * @file:	gets the context as its private_data
 *
 * Joining the pagemap takes the mmap_lock for writing. io_uring sets O_NONBLOCK for its first
 * attempt, which it makes with the lock of its ring held: that attempt must not wait, and is made
 * again by a worker after -EAGAIN. A worker waits also where the process itself has set O_NONBLOCK,
 * as its -EAGAIN would be the result.
 *
 * mmu_notifier_get() gives up while a signal, or a notification of io_uring, is pending. Callers of
 * open() don't expect that, so the call is restarted after delivery; a thread of io_uring cannot.
 *
 * Context: may sleep. Takes the mmap_lock of the caller.
 * Return: 0, -EAGAIN: the mmap_lock is taken and the call must not wait, or another -errno.
 */
int treadle_open(struct inode *inode, struct file *file)
{
	bool nowait = (file->f_flags & O_NONBLOCK) && !in_uring_worker();
	struct treadle_ctx *ctx = ctx_open(nowait);

	if (ctx == ERR_PTR(-EINTR) && !(current->flags & PF_IO_WORKER))
		return nowait ? -EAGAIN : -ERESTARTNOINTR;
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);
	file->private_data = ctx;
	file_own_mapping(file, inode, ctx);
	return 0;
}

/*
 * End @ctx, or wait until the worker of pm_mm_exit() has ended it, so that ports are free once the
 * parent has reaped the process. Part of an exit, so not killable; bounded, as the end of a context
 * waits for no copy, page fault or other process.
 */
static void ctx_end(struct treadle_ctx *ctx)
{
	ctx_shutdown(ctx);
	treadle_wait_var(&ctx->over, smp_load_acquire(&ctx->over));
}

/**
 * treadle_flush() - a descriptor is closed: end the context if its process exits
 * @file:	the context's file
 * @id:		not used
 *
 * mm->owner is NULL when the process exits and no other one shares its memory. The last close can
 * come much later: mappings hold the file, and they stay while another process accesses the memory
 * from outside. Such an access may wait for a page as long as userfaultfd withholds it.
 *
 * Context: may sleep, for a bounded time.
 * Return: 0.
 */
int treadle_flush(struct file *file, fl_owner_t id)
{
#ifdef CONFIG_MEMCG
	struct treadle_ctx *ctx = file->private_data;

	if ((current->flags & PF_EXITING) && !rcu_access_pointer(ctx->mm->owner))
		ctx_end(ctx);
#endif
	return 0;
}

/* The file is closed: leave the pagemap and drop the file's reference. */
static void ctx_leave(struct treadle_ctx *ctx)
{
	treadle_pm_leave(ctx->pm, &ctx->pm_user);
	treadle_ctx_put(ctx);
}

/* Owns the file's reference, which holds the module; unloading flushes the workqueue. */
static void ctx_closed(struct work_struct *work)
{
	struct treadle_ctx *ctx = container_of(work, struct treadle_ctx, closed);

	ctx_shutdown(ctx);
	ctx_leave(ctx);
}

/**
 * treadle_release() - the last close: end the context, if its mm has not exited before
 * @inode:	of the device
 * @file:	the context's file
 *
 * Ending a context may be much work. The process that opened it does that itself, so that its ports
 * are free afterwards: also while it exits, and after exec(). So does a process that shares its
 * memory. Other closers leave it to a worker: a process that was passed the file, and a thread of
 * the kernel, which may have files of other processes to close (io_uring's fixed files).
 *
 * Context: may sleep, for a bounded time.
 * Return: 0.
 */
int treadle_release(struct inode *inode, struct file *file)
{
	struct treadle_ctx *ctx = file->private_data;

	if (task_tgid(current) == ctx->opener || current->mm == ctx->mm)
		ctx_end(ctx);
	/* pairs with the release in ctx_shutdown(): nothing is left to be ended */
	if (smp_load_acquire(&ctx->over)) {
		ctx_leave(ctx);
	} else {
		INIT_WORK(&ctx->closed, ctx_closed);
		treadle_queue_end(&ctx->closed);
	}
	return 0;
}
