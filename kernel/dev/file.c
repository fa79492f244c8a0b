// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: a context from the opening of its file to its end
 *
 * Shutdown comes from the exit of the mm (even if a child still has the file)
 * or from the last close, whichever is first. It never waits for a copy, a page
 * fault or another process: it makes everything of this context fail, takes
 * down what waits, and leaves memory to the last reference.
 */
#include <linux/fs.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>

#include "dev/dev.h"

static void ctx_drop(struct treadle_ctx *ctx, struct treadle_obj *obj)
{
	treadle_obj_unlist(ctx, obj);
	treadle_obj_put(obj);
	cond_resched();
}

/* Whoever comes second does not wait: ctx->over tells. */
static void ctx_shutdown(struct treadle_ctx *ctx)
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
		if (obj->type != TREADLE_EP) { /* endpoints have had theirs */
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
	smp_mb(); /* ->over before the look for waiters; pairs with the waiter, which is queued before it looks */
	wake_up_var(&ctx->over); /* by address only: the context may be gone */
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

/* The whole of a context, for the calling process; or an error: -EAGAIN: the mmap_lock is taken, and @nowait. */
static struct treadle_ctx *ctx_open(bool nowait)
{
	struct treadle_ctx *ctx = treadle_ctx_create();
	struct treadle_pm *pm;
	int ret;

	if (IS_ERR(ctx))
		return ctx;
	treadle_poller_init(ctx);
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

/* A worker of io_uring, which may wait. Its thread that polls for entries (SQPOLL) is none. */
static bool in_uring_worker(void)
{
	return (current->flags & PF_IO_WORKER) && current->worker_private;
}

/*
 * Joining the pagemap takes the mmap_lock for writing. io_uring sets O_NONBLOCK for its first
 * attempt, which it makes with the lock of its ring held: that attempt must not wait, and is made
 * again by a worker after -EAGAIN. A worker waits also where the process itself has set O_NONBLOCK,
 * as its -EAGAIN would be the result.
 *
 * mmu_notifier_get() gives up while a signal, or a notification of io_uring, is pending. That is
 * not expected of open(), so it begins anew after delivery; a thread of io_uring cannot.
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
	return 0;
}

/*
 * End @ctx, or wait until the worker of pm_mm_exit() has: so that ports are free once the parent has
 * reaped the process. Part of an exit, so not killable; bounded, as the end of a context waits for
 * no copy, page fault or other process.
 */
static void ctx_end(struct treadle_ctx *ctx)
{
	ctx_shutdown(ctx);
	treadle_wait_var(&ctx->over, smp_load_acquire(&ctx->over));
}

/*
 * Its process exits, and no other one has its memory. The file is not closed yet if that is in somebody's hands, as its
 * mappings are there, too: who reaches into it may take as long as who is to bring a page likes (userfaultfd).
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

/* Nobody reaches it by its file any more. */
static void ctx_leave(struct treadle_ctx *ctx)
{
	treadle_pm_leave(ctx->pm, &ctx->pm_user);
	treadle_ctx_put(ctx);
}

/* With the file's reference, which keeps the module, too; unloading waits for the workqueue. */
static void ctx_closed(struct work_struct *work)
{
	struct treadle_ctx *ctx = container_of(work, struct treadle_ctx, closed);

	ctx_shutdown(ctx);
	ctx_leave(ctx);
}

/*
 * There may be much to take down: its own process does that (also one that exits, or is another program now: its ports
 * are free then), or who shares its memory. Who was passed the file, or a thread of the kernel, which has others' to
 * close (io_uring's fixed files), leaves it to a worker.
 */
int treadle_release(struct inode *inode, struct file *file)
{
	struct treadle_ctx *ctx = file->private_data;

	if (task_tgid(current) == ctx->opener || current->mm == ctx->mm)
		ctx_end(ctx);
	/* pairs with ctx_shutdown(): nothing of it is left to be taken down */
	if (smp_load_acquire(&ctx->over)) {
		ctx_leave(ctx);
	} else {
		INIT_WORK(&ctx->closed, ctx_closed);
		treadle_queue_end(&ctx->closed);
	}
	return 0;
}
