// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: allocate and free commands, take the bytes they inject, fail them
 */
#include <linux/memcontrol.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "exec/command.h"
#include "mm/own.h"

struct kmem_cache *treadle_cmd_cache;

/* KASAN sees each use of a command that has ended, if its memory is freed. */
#define SPARES (!IS_ENABLED(CONFIG_KASAN))

/* Memory for a command of @tx, which may be NULL. May sleep. NULL: there is none. */
static struct treadle_cmd *cmd_memory(struct treadle_tx *tx, struct treadle_run *run)
{
	struct treadle_cmd *memory =
		SPARES && tx && READ_ONCE(tx->spare) ? xchg(&tx->spare, NULL) : NULL;

	if (likely(memory))
		return memory;
	treadle_run_let_go(run); /* the allocation may sleep */
	return kmem_cache_alloc(treadle_cmd_cache, TREADLE_GFP);
}

/* Free the memory of a command of @tx, which may be NULL; or keep it for the next one. */
static void cmd_memory_free(struct treadle_tx *tx, struct treadle_cmd *memory)
{
	if (!SPARES || !tx || READ_ONCE(tx->spare) || cmpxchg(&tx->spare, NULL, memory))
		kmem_cache_free(treadle_cmd_cache, memory);
}

/*
 * Move a command from a doorbell's stack to the heap. The new command takes over what @cmd holds,
 * and references on its endpoint and its ring. A failure message (F_FAILURE) falls back to the
 * reserve of its ring. NULL: no memory, and @cmd is unchanged; never for F_FAILURE.
 */
static struct treadle_cmd *persist(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_cmd *heap;

	heap = cmd_memory(cmd->tx, run);
	if (!heap && (cmd->d.flags & TREADLE_F_FAILURE) && cmd->tx) /* the peer waits for it */
		heap = treadle_cmd_take_reserve(cmd);
	if (!heap)
		return NULL;
	*heap = *cmd;
	if (cmd->vec) {
		treadle_run_let_go(run);
		heap->vec = kmemdup(cmd->vec, treadle_cmd_vecs(&cmd->d) * sizeof(*cmd->vec),
				    TREADLE_GFP);
		if (!heap->vec) {
			kmem_cache_free(treadle_cmd_cache, heap);
			return NULL;
		}
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

/**
 * treadle_cmd_leave() - prepare a command for going on elsewhere, when the doorbell has returned
 * @cmd: the command; becomes the one on the heap
 * @how: what has to wait for it; never lowered
 * @run: of the caller; hands over its jobs of other contexts first, as an allocation may sleep
 *
 * Takes the bytes that the command injects, moves it from the doorbell's stack to the heap, and
 * counts it in its flow. A command that has left before needs no memory for that, and no time.
 *
 * Context: may sleep; takes ep->lock. For a command on the stack, tx->lock is held.
 * Return: 0; -ENOMEM, never for F_FAILURE with TREADLE_UNTRACKED; or an error of
 * treadle_take_inject(). After an error, too, *@cmd is the command that has to be completed.
 */
int treadle_cmd_leave(struct treadle_cmd **cmd, enum treadle_track how, struct treadle_run *run)
{
	struct treadle_cmd *heap;

	if (!(*cmd)->heap) {
		u32 flags = (*cmd)->d.flags;
		int ret = 0;

		if (unlikely(flags & TREADLE_F_PROXY))
			ret = treadle_paths[(*cmd)->path]->leave(*cmd, run);
		else if (flags & TREADLE_F_INJECT)
			ret = treadle_take_inject(*cmd, run);
		if (ret)
			return ret;
		heap = persist(*cmd, run);
		if (!heap) {
			if (flags & TREADLE_F_PROXY) { /* what ->leave has kept */
				kfree((*cmd)->own);
				(*cmd)->own = NULL;
			}
			return -ENOMEM;
		}
		*cmd = heap;
	}
	return treadle_flow_track(*cmd, how, run) ? 0 : -ENOMEM;
}

/**
 * treadle_cmd_carry() - the same, with what a stage of the command has on its stack
 * @cmd:   the command, a member of @state
 * @state: of the stage
 * @size:  of @state
 * @how:   as for treadle_cmd_leave()
 * @run:   of the caller
 *
 * Context: see treadle_cmd_leave().
 * Return: a copy of @state, with *@cmd on the heap, for kfree(); or an ERR_PTR() as
 * treadle_cmd_leave() returns.
 */
void *treadle_cmd_carry(struct treadle_cmd **cmd, const void *state, size_t size,
			enum treadle_track how, struct treadle_run *run)
{
	void *copy = treadle_cmd_alloc(*cmd, size, TREADLE_GFP, run);
	int ret = copy ? treadle_cmd_leave(cmd, how, run) : -ENOMEM;

	if (ret) {
		kfree(copy);
		return ERR_PTR(ret);
	}
	return memcpy(copy, state, size);
}

/**
 * treadle_cmd_alloc() - allocate memory that a command needs, charged to the command's owner
 * @cmd:  the command; has an endpoint
 * @size: bytes
 * @gfp:  flags for the allocation
 * @run:  of the caller
 *
 * The charge goes to the memcg of the command's context, whatever thread runs: its own process, a
 * worker, or a peer that fired an armed command.
 *
 * Only the owner's threads reclaim. A peer, a peer's worker and an exiting thread charge beyond the
 * limit instead. That excess is bounded: it is for commands that were charged when they were armed.
 *
 * Context: may sleep.
 * Return: the memory, for kfree(); NULL: there is none.
 */
void *treadle_cmd_alloc(const struct treadle_cmd *cmd, size_t size, gfp_t gfp,
			struct treadle_run *run)
{
	const struct treadle_ctx *ctx = cmd->ep->obj.ctx;
	struct mem_cgroup *old = set_active_memcg(ctx->memcg);
	/* a thread without an mm exits, or is a worker: that charges to its context's memcg */
	bool owner = current->mm ? current->mm == ctx->mm : old == ctx->memcg;
	void *p = NULL;

	if (likely(owner)) /* may reclaim, and may be throttled for what its group uses */
		treadle_run_let_go(run);
	else
		p = kmalloc(size, TREADLE_GFP_BEYOND | (gfp & __GFP_ZERO));
	if (!p)
		p = kmalloc(size, gfp);
	set_active_memcg(old);
	return p;
}

/**
 * treadle_iov_validate() - check a vector of buffers
 * @iov:   the buffers, in kernel memory
 * @count: how many
 * @len:   what their lengths must add up to
 *
 * Context: any.
 * Return: 0, or -EINVAL: a buffer wraps around, or the sum is not @len.
 */
int treadle_iov_validate(const struct treadle_iov *iov, unsigned int count, u64 len)
{
	u64 sum = 0, end;
	unsigned int i;

	for (i = 0; i < count; i++)
		if (check_add_overflow(iov[i].addr, iov[i].len, &end) ||
		    check_add_overflow(sum, iov[i].len, &sum))
			return -EINVAL;
	return sum == len ? 0 : -EINVAL;
}

/**
 * treadle_cmd_read() - copy a command's bytes into the kernel
 * @cmd:   the command; has an endpoint, or injected bytes
 * @to:    gets the bytes
 * @at:    offset of the first one
 * @done:  how many are there; counts them
 * @len:   how many in all
 * @holds: others wait for what the bytes go to, so no page is waited for
 * @run:   of the caller
 *
 * Tried again here, as long as that is of use, so that what a process sends stays in order.
 *
 * Context: may sleep.
 * Return: as treadle_copy(); the side is the command's.
 */
int treadle_cmd_read(const struct treadle_cmd *cmd, u8 *to, u64 at, u64 *done, u64 len, bool holds,
		     struct treadle_run *run)
{
	struct treadle_ctx *ctx = cmd->ep->obj.ctx;
	struct treadle_span src, dst;
	enum treadle_side side;
	int ret;

	if (likely(ctx == run->own && !cmd->vec && !cmd->inject && !at && !*done) &&
	    likely(treadle_own_read(to, cmd->d.addr, len))) {
		*done = len;
		return 0;
	}
	run->holds = holds;
	do {
		treadle_cmd_span(cmd, &src, at + *done);
		treadle_span_kernel(&dst, to, *done);
		ret = treadle_copy(&dst, &src, done, len, run, &side);
	} while ((ret == -EINPROGRESS || (ret == -EAGAIN && !holds)) &&
		 treadle_run_insists(run, ctx));
	run->holds = false;
	return ret;
}

/* Copy @len bytes from @src to @buf. Returns what treadle_copy() does. */
static int take(u8 *buf, struct treadle_span *src, u64 len, struct treadle_run *run)
{
	enum treadle_side side;
	struct treadle_span dst;
	u64 done = 0;

	treadle_span_kernel(&dst, buf, 0);
	return treadle_copy(&dst, src, &done, len, run, &side);
}

/* A look at a polled ring has a command on its stack: it waits for the pages from now on. */
static bool poll_insists(struct treadle_run *run, const struct treadle_ctx *ctx)
{
	if (!run->polls || run->ctx != ctx)
		return false;
	run->guest = false;
	cond_resched();
	return true;
}

/**
 * treadle_take_inject() - copy a command's operands into the kernel, once
 * @cmd: the command; has an endpoint
 * @run: of the caller
 *
 * Needed for F_INJECT, because the process may reuse its buffers when the doorbell returns, and for
 * atomics, because their results replace the operands. Sets cmd->inject.
 *
 * Context: may sleep.
 * Return: 0, also if there is nothing to take; -EAGAIN: the worker of the command's context has to
 * do it; -EINTR: the caller was killed; -ENOMEM; -ECONNRESET or -ECANCELED: the endpoint is closed;
 * or the error of the buffer.
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
	} while (ret == -EAGAIN && (poll_insists(run, ctx) || treadle_run_insists(run, ctx)));
	if (!ret)
		cmd->inject = buf;
	else
		kfree(buf);
	if (ret == -ESHUTDOWN)
		return treadle_ep_error(cmd->ep);
	return ret == -EAGAIN && run->ctx == ctx && current->mm ? -EINTR : ret;
}

/**
 * treadle_cmd_free() - drop what a command holds, and its memory if it is on the heap
 * @cmd: the command; not armed, on no list
 *
 * A command on the heap gives back its slots of the ring; for one on the stack the doorbell does.
 * A tracked command leaves its flow, and a worker starts what waited for it.
 *
 * Context: takes ep->lock if the command is tracked; may drop the last reference of an object.
 */
TREADLE_HOT void treadle_cmd_free(struct treadle_cmd *cmd)
{
	struct treadle_tx *tx;

	if (unlikely(cmd->notify))
		treadle_obj_unbind(&cmd->notify->obj);
	if (unlikely(cmd->target))
		treadle_obj_unbind(&cmd->target->obj);
	if (unlikely(cmd->cond))
		treadle_cond_drop(cmd);
	if (unlikely(cmd->path == TREADLE_PATH_PROXY))
		treadle_paths[cmd->path]->release(cmd);
	if (unlikely(cmd->own))
		kfree(cmd->own);
	if (!cmd->heap)
		return;
	if (unlikely(cmd->tracked)) /* dropped, not completed */
		treadle_flow_done(cmd->ep, cmd->dest, cmd->tracked, NULL);
	tx = cmd->tx;
	if (tx && cmd->slots)
		treadle_ring_release_any(&tx->ring, cmd->slots);
	if (cmd->ep)
		treadle_ep_put(cmd->ep);
	if (unlikely(cmd->vec))
		kfree(cmd->vec);
	cmd_memory_free(tx, cmd);
	if (tx)
		treadle_obj_put(&tx->obj);
}

/**
 * treadle_cmd_fail() - end a command that has not begun
 * @cmd: the command; freed, or passed on
 * @why: the reason, a negative errno: an earlier command failed (F_STRICT), it was canceled, or its
 *	 buffer can't be read
 * @run: of the caller
 *
 * A silent collective send is not completed: its message goes to the peer without data, as
 * F_FAILURE with the reason, because the peer waits for a message.
 *
 * Context: may sleep. No spinlock is held.
 */
void treadle_cmd_fail(struct treadle_cmd *cmd, int why, struct treadle_run *run)
{
	const u32 collective = TREADLE_F_COLLECTIVE | TREADLE_F_WORK;
	struct treadle_cntr *notify = cmd->notify;

	if (cmd->d.opcode != TREADLE_OP_TSEND ||
	    (cmd->d.flags & (collective | TREADLE_F_FAILURE | TREADLE_F_COMPLETION)) !=
		    collective) {
		if (!why) /* a datagram that is dropped */
			treadle_cmd_count(cmd);
		treadle_cmd_complete(cmd, why, run);
		return;
	}
	/*
	 * The failure message reports nothing at the initiator. As F_INJECT it has no context by
	 * which it could be canceled. It is copied, so it does not wait for the peer to receive it.
	 */
	cmd->notify = NULL;
	cmd->d.flags |= TREADLE_F_FAILURE | TREADLE_F_INJECT;
	cmd->d.flags &= ~(TREADLE_F_REMOTE_CQ_DATA | TREADLE_F_DELIVERY_COMPLETE);
	cmd->d.iov_count = 0;
	cmd->d.len = 0;
	if (!cmd->heap)
		cmd->vec = NULL;
	cmd->d.data = -why;
	if (cmd->tracked) /* commands that wait for this one must not hold up its failure message */
		cmd->admitted = true;
	treadle_cmd_issue(cmd, run);
	if (notify) { /* unbind first: a process that sees the count may destroy the counter */
		atomic_dec(&notify->obj.users);
		treadle_cntr_add(notify, 1, why, run);
		treadle_obj_put(&notify->obj);
	}
}

/* Issues a command in the worker of its context, which can wait for pages. */
struct later {
	struct treadle_job job;
	struct treadle_cmd *cmd;
};

static void issue_now(struct treadle_job *job, struct treadle_run *run)
{
	struct later *later = container_of(job, struct later, job);
	struct treadle_cmd *cmd = later->cmd;

	kfree(later);
	treadle_cmd_issue(cmd, run);
}

/**
 * treadle_cmd_issue_later() - let the worker of a command's context issue it, as it can wait
 * @cmd: the command, in its turn; becomes the one on the heap
 * @run: of the caller
 *
 * The commands behind it wait, too.
 *
 * Context: see treadle_cmd_leave().
 * Return: TREADLE_KEPT, or an error of treadle_cmd_carry().
 */
int treadle_cmd_issue_later(struct treadle_cmd **cmd, struct treadle_run *run)
{
	struct later *later, on_stack = { .cmd = *cmd };

	later = treadle_cmd_carry(&on_stack.cmd, &on_stack, sizeof(*later), TREADLE_AWAITED, run);
	*cmd = on_stack.cmd;
	if (IS_ERR(later))
		return PTR_ERR(later);
	later->cmd->admitted = true;
	INIT_LIST_HEAD(&later->job.link);
	later->job.ctx = later->cmd->ep->obj.ctx;
	later->job.fn = issue_now;
	treadle_queue_job(&later->job);
	return TREADLE_KEPT;
}

/* Job of the context's worker: issue the failure messages again that found no memory. */
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
		treadle_cmd_issue(cmd, run);
		cond_resched();
	}
}

/**
 * treadle_cmd_fail_later() - let the worker retry a failure message for which there is no memory
 * @cmd: the command, F_FAILURE; consumed
 * @run: of the caller
 *
 * Itself it needs no memory but the reserve of the ring. The worker retries until the message is
 * sent or the endpoint is closed.
 *
 * Context: may sleep; takes ctx->jobs_lock. For a command on the stack, cmd->tx->lock is held.
 */
void treadle_cmd_fail_later(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_ctx *ctx = cmd->ep->obj.ctx;
	bool first;

	treadle_cmd_leave(&cmd, TREADLE_UNTRACKED, run); /* no error: F_FAILURE, and no bytes */
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
