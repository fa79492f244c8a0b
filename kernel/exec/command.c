// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the memory of commands and of what they inject, and what becomes of one that fails
 */
#include <linux/memcontrol.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "exec/command.h"

struct kmem_cache *treadle_cmd_cache;

/* Move a command from a doorbell's stack to the heap; it keeps what the other held. */
struct treadle_cmd *treadle_cmd_persist(struct treadle_cmd *cmd, gfp_t gfp, struct treadle_run *run)
{
	struct treadle_cmd *heap;

	if (cmd->heap)
		return cmd;
	treadle_run_let_go(run); /* for memory, as in treadle_cmd_alloc() */
	heap = kmem_cache_alloc(treadle_cmd_cache, gfp);
	if (!heap && (cmd->d.flags & TREADLE_F_FAILURE)) /* its receiver has to hear of it */
		heap = treadle_cmd_reserve(cmd);
	if (!heap)
		return NULL;
	*heap = *cmd;
	if (cmd->vec)
		heap->vec = kmemdup(cmd->vec, treadle_cmd_vecs(&cmd->d) * sizeof(*cmd->vec), gfp);
	if (cmd->vec && !heap->vec) {
		kmem_cache_free(treadle_cmd_cache, heap);
		return NULL;
	}
	heap->heap = true;
	if (heap->ep)
		treadle_ep_get(heap->ep);
	if (heap->tx)
		kref_get(&heap->tx->obj.ref);
	cmd->slots = 0;
	cmd->cond = NULL;
	cmd->notify = cmd->target = NULL;
	cmd->own = NULL;
	return heap;
}

/*
 * Its owner pays, whoever runs: its process, a worker, or a peer that has fired what it had armed.
 * A peer does not reclaim for it, nor a peer's worker, nor one that exits. What is charged beyond the limit
 * then is for commands, which were charged when they were armed.
 */
void *treadle_cmd_alloc(const struct treadle_cmd *cmd, size_t size, gfp_t gfp,
			struct treadle_run *run)
{
	const struct treadle_ctx *ctx = cmd->ep->obj.ctx;
	struct mem_cgroup *old = set_active_memcg(ctx->memcg);
	/* who has no mm is a worker, which pays for its context, or exits */
	bool owner = current->mm ? current->mm == ctx->mm : old == ctx->memcg;
	void *p = NULL;

	if (likely(owner)) /* who may reclaim, and be slowed down for what his group has */
		treadle_run_let_go(run);
	else
		p = kmalloc(size, TREADLE_GFP_BEYOND | (gfp & __GFP_ZERO));
	if (!p)
		p = kmalloc(size, gfp);
	set_active_memcg(old);
	return p;
}

/* 0: none of them wraps, and together they have @len bytes. Else -EINVAL. */
int treadle_iov_judge(const struct treadle_iov *iov, unsigned int count, u64 len)
{
	u64 sum = 0, end;
	unsigned int i;

	for (i = 0; i < count; i++)
		if (check_add_overflow(iov[i].addr, iov[i].len, &end) ||
		    check_add_overflow(sum, iov[i].len, &sum))
			return -EINVAL;
	return sum == len ? 0 : -EINVAL;
}

/* Copy @len bytes of the command's process into @buf. */
static int take(u8 *buf, struct treadle_span *src, u64 len, struct treadle_run *run)
{
	enum treadle_side side;
	struct treadle_span dst;
	u64 done = 0;

	treadle_span_kernel(&dst, buf, 0);
	return treadle_copy(&dst, src, &done, len, run, &side);
}

/*
 * Copy what a command works with into the kernel, once: of one with F_INJECT because
 * the buffers are free when the doorbell returns, of an atomic because its results
 * take the place of the operands.
 *
 * -EAGAIN: the worker of the command's context has to do it.
 */
int treadle_take_inject(struct treadle_cmd *cmd, struct treadle_run *run)
{
	bool compare = cmd->d.opcode == TREADLE_OP_COMPARE;
	struct treadle_ctx *ctx = cmd->ep->obj.ctx;
	const struct treadle_iov *iov;
	struct treadle_span src;
	struct treadle_iov one;
	unsigned int count;
	u8 *buf;
	int ret;

	if (cmd->inject || !cmd->d.len)
		return 0;
	buf = treadle_cmd_alloc(cmd, cmd->d.len << compare, TREADLE_GFP, run);
	if (!buf)
		return -ENOMEM;
	do {
		ret = 0;
		if (cmd->d.iov_count) {
			treadle_cmd_span(cmd, &src, 0);
			ret = take(buf, &src, cmd->d.len, run);
		}
		if (!ret && compare) {
			iov = treadle_cmd_fetch(cmd, 1, &one, &count);
			treadle_span_user(&src, ctx, &cmd->ep->closed, iov, count, 0);
			ret = take(buf + cmd->d.len, &src, cmd->d.len, run);
		}
		if (ret == -EINPROGRESS)
			ret = -EAGAIN;
	} while (ret == -EAGAIN && treadle_run_insists(run, ctx));
	if (!ret)
		cmd->inject = buf;
	else
		kfree(buf);
	if (ret == -ESHUTDOWN)
		return treadle_ep_error(cmd->ep);
	return ret == -EAGAIN && run->ctx == ctx && current->mm ? -EINTR : ret;
}

/* Drop what a command holds; give its slots back unless the doorbell will. */
TREADLE_HOT void treadle_cmd_free(struct treadle_cmd *cmd)
{
	if (unlikely(cmd->notify))
		treadle_obj_unbind(&cmd->notify->obj);
	if (unlikely(cmd->target))
		treadle_obj_unbind(&cmd->target->obj);
	if (unlikely(cmd->cond))
		treadle_cond_drop(cmd);
	if (unlikely(cmd->own))
		kfree(cmd->own);
	if (!cmd->heap)
		return;
	if (unlikely(cmd->tracked)) /* dropped, not completed */
		treadle_flow_done(cmd->ep, cmd->port, cmd->tracked, NULL);
	if (cmd->tx) {
		if (cmd->slots)
			treadle_ring_release_any(&cmd->tx->ring, cmd->slots);
		treadle_obj_put(&cmd->tx->obj);
	}
	if (cmd->ep)
		treadle_ep_put(cmd->ep);
	kfree(cmd->vec);
	kmem_cache_free(treadle_cmd_cache, cmd);
}

/*
 * It fails for the reason @why before it has begun: its condition was met by errors (F_STRICT), it
 * was canceled, or what it was to send can't be read.
 */
void treadle_cmd_fail(struct treadle_cmd *cmd, int why, struct treadle_run *run)
{
	const u32 told = TREADLE_F_COLLECTIVE | TREADLE_F_WORK;
	struct treadle_cntr *notify = cmd->notify;

	if (cmd->d.opcode != TREADLE_OP_TSEND ||
	    (cmd->d.flags & (told | TREADLE_F_FAILURE | TREADLE_F_COMPLETION)) != told) {
		treadle_cmd_complete(cmd, why, run);
		return;
	}
	/*
	 * The peer waits for it. It is told by a message without data, of which nobody hears here: it has
	 * no name by which it could be canceled, and is copied, so that it waits for nobody.
	 */
	cmd->notify = NULL;
	cmd->d.flags |= TREADLE_F_FAILURE | TREADLE_F_INJECT;
	cmd->d.flags &= ~(TREADLE_F_REMOTE_CQ_DATA | TREADLE_F_DELIVERY_COMPLETE);
	cmd->d.iov_count = 0;
	cmd->d.len = 0;
	if (!cmd->heap)
		cmd->vec = NULL;
	cmd->d.data = -why;
	if (cmd->tracked) /* it has been admitted: what waits for it now can't be waited for */
		cmd->admitted = true;
	treadle_opdefs[cmd->d.opcode].issue(cmd, run);
	if (notify) { /* who sees the count may close it */
		atomic_dec(&notify->obj.users);
		treadle_cntr_add(notify, 1, why, run);
		treadle_obj_put(&notify->obj);
	}
}

/* The worker of its context sends again what says that something has failed. */
static void cmd_fail_again(struct treadle_job *job, struct treadle_run *run)
{
	struct treadle_ctx *ctx = job->ctx;
	struct treadle_cmd *cmd, *next;
	LIST_HEAD(failing);

	spin_lock(&ctx->jobs_lock);
	list_splice_init(&ctx->failing, &failing);
	spin_unlock(&ctx->jobs_lock);
	list_for_each_entry_safe(cmd, next, &failing, wait) {
		list_del(&cmd->wait);
		treadle_opdefs[cmd->d.opcode].issue(cmd, run);
		cond_resched();
	}
}

/*
 * treadle_cmd_fail_later - there is no memory for the message of @cmd (F_FAILURE), which must not be lost
 *
 * Needs none itself. The worker tries until it succeeds, or the endpoint is closed.
 */
void treadle_cmd_fail_later(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_ctx *ctx = cmd->ep->obj.ctx;
	bool first;

	cmd = treadle_cmd_persist(cmd, TREADLE_GFP, run);
	cmd->admitted = true;
	spin_lock(&ctx->jobs_lock);
	first = list_empty(&ctx->failing);
	list_add_tail(&cmd->wait, &ctx->failing);
	spin_unlock(&ctx->jobs_lock);
	if (!first)
		return;
	ctx->fail_job.ctx = ctx;
	ctx->fail_job.fn = cmd_fail_again;
	treadle_queue_job(&ctx->fail_job);
}
