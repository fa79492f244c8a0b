// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: read and write of a peer's memory
 *
 * fi_rma(3). The initiator copies, small ones within its doorbell; where the
 * peer's pages are missing, or there is much to copy, the worker of the peer's
 * context goes on. Nothing of the peer runs, and nothing of it is asked but its
 * regions.
 */
#include <linux/slab.h>

#include "mm/own.h"
#include "path/path.h"

/* --- judging ---------------------------------------------------------------------------- */

/* Several remote ranges are as long as the command. That none wraps is not asked: what does is in no region. */
int treadle_rma_judge_ranges(const struct treadle_cmd *cmd)
{
	const struct treadle_desc *d = &cmd->d;
	const struct treadle_rma_iov *range;
	struct treadle_rma_iov one;
	unsigned int i, count;
	u64 sum = 0;

	if (d->rma_iov_count > TREADLE_MAX_RMA_IOV || d->remote_addr || d->remote_key)
		return -EINVAL;
	range = treadle_cmd_rma(cmd, &one, &count);
	for (i = 0; i < count; i++)
		if (check_add_overflow(sum, range[i].len, &sum))
			return -EINVAL;
	return sum == d->len ? 0 : -EINVAL;
}

/* More completions are kept for a peer than fit into its queue once again. */
static bool overflows(const struct treadle_ep *to)
{
	return to->rx_cq && READ_ONCE(to->rx_cq->kept) > to->rx_cq->mask;
}

static bool peer_overflows(struct treadle_cmd *cmd)
{
	struct treadle_ep *to = treadle_find_target(cmd);
	bool ret;

	if (IS_ERR(to))
		return false; /* the completion says why */
	ret = overflows(to);
	treadle_ep_put(to);
	return ret;
}

/* Datagrams are messages and nothing else. */
int treadle_rma_route(struct treadle_cmd *cmd)
{
	return cmd->ep->type == TREADLE_EP_DGRAM ? -EOPNOTSUPP : treadle_route(cmd);
}

int treadle_rma_prep(struct treadle_cmd *cmd)
{
	const struct treadle_desc *d = &cmd->d;
	int ret;

	if (!(d->flags & TREADLE_F_REMOTE_CQ_DATA) && d->data)
		return -EINVAL;
	ret = treadle_rma_judge(cmd) ?: treadle_rma_route(cmd);
	if (ret)
		return ret;
	/* what is armed is refused when its time has come */
	if ((d->flags & TREADLE_F_REMOTE_CQ_DATA) && !(d->flags & TREADLE_F_COND) &&
	    peer_overflows(cmd))
		return -EAGAIN;
	return 0;
}

/* --- beginning and end, which atomics share ----------------------------------------------- */

/*
 * Set up @rma for a command whose turn it may be. False: it is completed, dropped
 * or waits, and belongs to somebody else.
 */
bool treadle_rma_open(struct treadle_rma *rma, struct treadle_cmd *cmd, u32 access,
		      struct treadle_run *run)
{
	const struct treadle_rma_iov *range;
	struct treadle_rma_iov one;
	unsigned int count;
	int ret;

	if (unlikely(READ_ONCE(cmd->ep->dead))) { /* closed while it was armed */
		treadle_cmd_free(cmd);
		return false;
	}
	cmd = treadle_flow_admit(cmd, run);
	if (!cmd)
		return false;
	rma->to = treadle_find_target(cmd);
	if (IS_ERR(rma->to)) {
		treadle_cmd_complete(cmd, PTR_ERR(rma->to), run);
		return false;
	}
	if (unlikely(cmd->d.flags & TREADLE_F_COND) && (cmd->d.flags & TREADLE_F_REMOTE_CQ_DATA) &&
	    overflows(rma->to)) {
		treadle_ep_put(rma->to);
		treadle_cmd_complete(cmd, -EAGAIN, run);
		return false;
	}
	rma->cmd = cmd;
	rma->done = 0;
	rma->heap = rma->modified = false;
	rma->count = rma->parts = 0;
	range = treadle_cmd_rma(cmd, &one, &count);
	while (rma->count < count) {
		ret = treadle_mr_find(rma->to, cmd->ep, &range[rma->count], access,
				      &rma->mr[rma->count], &rma->at[rma->parts]);
		if (ret < 0) {
			treadle_rma_finish(rma, READ_ONCE(rma->to->dead) ? -ECONNRESET : ret, run);
			return false;
		}
		rma->parts += ret;
		rma->count++;
	}
	return true;
}

/* The peer's memory, from offset @off on. */
void treadle_rma_span(const struct treadle_rma *rma, struct treadle_span *s, u64 off)
{
	/* Also what a connection has brought under way: nobody touches it once SHUTDOWN has returned. */
	treadle_span_user(s, rma->to->obj.ctx, &rma->to->closed, rma->at, rma->parts, off);
	s->mr = rma->mr;
	s->mrs = rma->count;
}

/*
 * What an error on the peer's side means here. When a process dies its endpoints go
 * before its regions, and these under the lock under which they were looked at.
 */
int treadle_remote_error(const struct treadle_rma *rma, int error)
{
	if (error == -ESHUTDOWN || READ_ONCE(rma->to->dead))
		return -ECONNRESET;
	return error == -EKEYREJECTED ? error : -EIO;
}

/* 0, or why the memory that is next to be touched may not be any more. */
int treadle_rma_alive(const struct treadle_rma *rma)
{
	if (unlikely(READ_ONCE(rma->cmd->ep->closed)))
		return treadle_ep_error(rma->cmd->ep);
	return unlikely(READ_ONCE(rma->to->dead)) && !rma->modified ? -ECONNRESET : 0;
}

/* Is the region of range @i also that of one before it? */
static bool named_before(const struct treadle_rma *rma, unsigned int i)
{
	unsigned int j;

	for (j = 0; j < i && rma->mr[j] != rma->mr[i]; j++)
		;
	return j < i;
}

/* Bytes of the ranges that are in the region of range @i, which is the first one there. */
static u64 region_len(const struct treadle_rma *rma, unsigned int i)
{
	const struct treadle_rma_iov *range;
	struct treadle_rma_iov one;
	unsigned int count, j;
	u64 len = 0;

	range = treadle_cmd_rma(rma->cmd, &one, &count);
	for (j = i; j < rma->count; j++)
		if (rma->mr[j] == rma->mr[i])
			len += range[j].len;
	return len;
}

/* FI_RMA_EVENT, FI_REMOTE_CQ_DATA: before the initiator hears of it. 0, or -ENOMEM: it could not be told. */
static int tell_target(const struct treadle_rma *rma, struct treadle_run *run)
{
	const struct treadle_desc *d = &rma->cmd->d;
	struct treadle_ep *to = rma->to;
	bool wrote = d->opcode == TREADLE_OP_WRITE || d->opcode == TREADLE_OP_ATOMIC;
	bool modified = wrote || d->opcode == TREADLE_OP_COMPARE ||
			(d->opcode == TREADLE_OP_FETCH && d->atomic_op != TREADLE_ATOMIC_READ);
	struct treadle_cntr *cntr = treadle_target_cntr(to, d->opcode);
	unsigned int i;

	if (!rma->count) /* F_LOCAL: there is no peer */
		return 0;
	if ((d->flags & TREADLE_F_REMOTE_CQ_DATA) && to->rx_cq) {
		struct treadle_cqe cqe = {
			.len = d->len,
			.data = d->data,
			.src = TREADLE_ADDR_ANY,
			.flags = TREADLE_CQ_RMA | TREADLE_CQ_REMOTE_WRITE |
				 TREADLE_CQ_REMOTE_CQ_DATA,
		};

		if (treadle_cq_post(to, rma->cmd->ep->port, &cqe))
			return -ENOMEM;
	}
	if (cntr)
		treadle_cntr_count(cntr, d->len, 0, run);
	for (i = 0; modified && i < rma->count; i++) {
		cntr = treadle_mr_cntr(rma->mr[i]);
		if (cntr && !named_before(rma, i))
			treadle_cntr_count(cntr, region_len(rma, i), 0, run);
	}
	return 0;
}

/* Complete both sides, let go of everything. */
void treadle_rma_finish(struct treadle_rma *rma, int error, struct treadle_run *run)
{
	struct treadle_cmd *cmd = rma->cmd;
	unsigned int i;

	if (!error)
		error = tell_target(rma, run);
	else if (rma->modified)
		tell_target(rma, run); /* an atomic, which has no data */
	for (i = 0; i < rma->count; i++)
		treadle_mr_put(rma->mr[i]);
	treadle_ep_put(rma->to);
	treadle_cmd_complete(cmd, error, run);
	if (rma->heap)
		kfree(rma);
}

/* Let the worker of @ctx go on with @fn; @m may be on the stack of its caller. */
void treadle_rma_defer(struct treadle_rma *m, struct treadle_ctx *ctx,
		       void (*fn)(struct treadle_job *job, struct treadle_run *run),
		       struct treadle_run *run)
{
	struct treadle_cmd *cmd = m->cmd;
	struct treadle_rma *rma = m;

	if (!m->heap) {
		/* about to leave its doorbell, after which the buffer is free */
		int ret = cmd->d.flags & TREADLE_F_INJECT ? treadle_take_inject(cmd, run) : 0;

		rma = ret ? NULL : treadle_cmd_alloc(cmd, sizeof(*rma), TREADLE_GFP, run);
		cmd = rma ? treadle_cmd_persist(cmd, TREADLE_GFP, run) : NULL;
		if (cmd)
			m->cmd = cmd;
		/* the peer's memory has been modified in part, perhaps: an error does not deny it */
		if (!cmd || !treadle_flow_track(cmd, TREADLE_AWAITED, run)) {
			kfree(rma);
			treadle_rma_finish(m, ret ?: -ENOMEM, run);
			return;
		}
		*rma = *m;
		rma->heap = true;
	}
	rma->job.ctx = ctx;
	rma->job.fn = fn;
	treadle_queue_job(&rma->job);
}

/* --- read and write ----------------------------------------------------------------------- */

static void rma_job(struct treadle_job *job, struct treadle_run *run);

static void rma_go(struct treadle_rma *rma, struct treadle_run *run)
{
	const struct treadle_cmd *cmd = rma->cmd;
	struct treadle_ctx *here = cmd->ep->obj.ctx, *there = rma->to->obj.ctx;
	bool write = cmd->d.opcode == TREADLE_OP_WRITE, far;
	enum treadle_side side = TREADLE_NONE;
	struct treadle_span local TREADLE_UNSET, remote TREADLE_UNSET;
	int ret;

	ret = treadle_rma_alive(rma);
	if (ret) {
		treadle_rma_finish(rma, ret, run);
		return;
	}
	if (cmd->d.len - rma->done > TREADLE_INLINE && !run->worker) {
		treadle_rma_defer(rma, there, rma_job, run);
		return;
	}
	treadle_cmd_span(cmd, &local, rma->done);
	treadle_rma_span(rma, &remote, rma->done);
	if (write)
		ret = treadle_copy(&remote, &local, &rma->done, cmd->d.len, run, &side);
	else
		ret = treadle_copy(&local, &remote, &rma->done, cmd->d.len, run, &side);
	far = side == (write ? TREADLE_DST : TREADLE_SRC);
	if (ret == -EAGAIN)
		treadle_rma_defer(rma, far ? there : here, rma_job, run);
	else if (ret == -EINPROGRESS)
		treadle_rma_defer(rma, there, rma_job, run);
	else if (ret && far)
		treadle_rma_finish(rma, treadle_remote_error(rma, ret), run);
	else
		treadle_rma_finish(rma, ret == -ESHUTDOWN ? treadle_ep_error(cmd->ep) : ret, run);
}

static void rma_job(struct treadle_job *job, struct treadle_run *run)
{
	rma_go(container_of(job, struct treadle_rma, job), run);
}

static __always_inline enum treadle_step copy_step(struct treadle_cmd *cmd,
						   const struct treadle_ep *to, u64 at,
						   const struct treadle_mr *mr,
						   const struct treadle_ctx *own)
{
	const struct treadle_ep *from = cmd->ep;
	u64 addr = cmd->d.addr, len = cmd->d.len;
	bool write = cmd->d.opcode == TREADLE_OP_WRITE, done;

	if (likely(from->obj.ctx == own && own_word(len)))
		done = treadle_copy_own(to, at, addr, len, write, mr);
	else if (write)
		done = treadle_copy_small(to, at, from, addr, len, mr);
	else
		done = treadle_copy_small(from, addr, to, at, len, mr);
	return done ? TREADLE_DONE : TREADLE_UNDONE;
}

static noinline void rma_slowly(struct treadle_cmd *cmd, u32 access, struct treadle_run *run)
{
	struct treadle_rma rma TREADLE_UNSET;

	if (treadle_rma_open(&rma, cmd, access, run))
		rma_go(&rma, run);
}

TREADLE_HOT void treadle_rma_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	u32 access = TREADLE_ACCESS_RMA |
		     (cmd->d.opcode == TREADLE_OP_WRITE ? TREADLE_ACCESS_REMOTE_WRITE :
							  TREADLE_ACCESS_REMOTE_READ);

	if (likely(treadle_rma_at_once(cmd, access, copy_step, run)))
		treadle_cmd_complete(cmd, 0, run);
	else
		rma_slowly(cmd, access, run);
}
