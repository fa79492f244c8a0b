// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the memory of commands, and what becomes of one that fails
 */
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "treadle.h"

struct kmem_cache *treadle_cmd_cache;

/* Fill the reserve of @tx. Under tx->lock, or before @tx is published. May sleep. 0 or -ENOMEM. */
int treadle_tx_reserve(struct treadle_tx *tx)
{
	if (!tx->reserve)
		tx->reserve = kmem_cache_alloc(treadle_cmd_cache, TREADLE_GFP);
	return tx->reserve ? 0 : -ENOMEM;
}

/*
 * treadle_cmd_reserve - take the reserve of the ring of @cmd, which is on its doorbell's stack
 *
 * It is there, once for each command: submit_one(). The caller frees it to treadle_cmd_cache.
 */
struct treadle_cmd *treadle_cmd_reserve(const struct treadle_cmd *cmd)
{
	struct treadle_cmd *reserve = cmd->tx->reserve;

	lockdep_assert_held(&cmd->tx->lock);
	cmd->tx->reserve = NULL;
	return reserve;
}

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
	treadle_send_issue(cmd, run);
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
		treadle_send_issue(cmd, run);
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
