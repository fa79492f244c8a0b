// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: read and write of a peer's memory
 *
 * fi_rma(3). The initiator copies; small transfers within its doorbell. If pages of the peer are
 * missing, or there is much to copy, the worker of the peer's context goes on. The target takes no
 * part otherwise: only its regions are looked up.
 */
#include <linux/slab.h>

#include "exec/complete.h"
#include "mm/own.h"
#include "path/path.h"

/* --- validation ------------------------------------------------------------------------- */

/**
 * treadle_rma_validate_ranges - validate a vector of remote ranges
 * @cmd:	the command
 *
 * Together they are as long as the command. A range that wraps is not refused here: no region has
 * it.
 *
 * Context: any.
 * Return: 0, or -EINVAL.
 */
int treadle_rma_validate_ranges(const struct treadle_cmd *cmd)
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

/* The target keeps more completions than its queue has slots. */
static bool overflows(const struct treadle_ep *to)
{
	return to->rx_cq && READ_ONCE(to->rx_cq->kept) > to->rx_cq->mask;
}

/* The same for the target of @cmd, if there is one. */
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

/**
 * treadle_rma_validate - check a read or write
 * @cmd:	the command
 *
 * Context: any.
 * Return: 0, or an error of the submission. Datagram endpoints have messages only.
 */
int treadle_rma_validate(struct treadle_cmd *cmd)
{
	const struct treadle_desc *d = &cmd->d;
	int ret;

	if (!(d->flags & TREADLE_F_REMOTE_CQ_DATA) && d->data)
		return -EINVAL;
	ret = treadle_rma_validate_len(cmd);
	if (ret)
		return ret;
	return cmd->ep->type == TREADLE_EP_DGRAM ? -EOPNOTSUPP : 0;
}

/**
 * treadle_write_bind - may the target be notified of a write?
 * @cmd:	the command, with its route
 *
 * An armed command is refused when it fires: treadle_rma_open().
 *
 * Context: any.
 * Return: 0, or -EAGAIN: the target reads too few completions.
 */
int treadle_write_bind(struct treadle_cmd *cmd)
{
	return (cmd->d.flags & TREADLE_F_REMOTE_CQ_DATA) && !(cmd->d.flags & TREADLE_F_COND) &&
			       peer_overflows(cmd) ?
		       -EAGAIN :
		       0;
}

/* --- beginning and end, which atomics share ----------------------------------------------- */

/**
 * treadle_rma_open - begin an RMA or atomic command: wait its turn, find its target and regions
 * @rma:	set up for @cmd
 * @cmd:	the command
 * @access:	what the regions have to grant
 * @run:	of the caller
 *
 * Context: May sleep.
 * Return: true if the caller goes on with @rma. False: @cmd waits for its turn, was completed or
 * dropped, and is no more the caller's.
 */
bool treadle_rma_open(struct treadle_rma *rma, struct treadle_cmd *cmd, u32 access,
		      struct treadle_run *run)
{
	const struct treadle_rma_iov *range;
	struct treadle_rma_iov one;
	unsigned int count;
	int ret;

	rma->to = treadle_begin(&cmd, run);
	if (!rma->to)
		return false;
	if (unlikely(cmd->d.flags & TREADLE_F_PROXY) && treadle_piece_is_cut(cmd)) {
		treadle_ep_put(rma->to);
		cmd->d.context = 0; /* it was answered */
		treadle_cmd_complete(cmd, -ECANCELED, run);
		return false;
	}
	if (unlikely(cmd->d.flags & (TREADLE_F_COND | TREADLE_F_PROXY)) &&
	    (cmd->d.flags & TREADLE_F_REMOTE_CQ_DATA) && overflows(rma->to)) {
		treadle_ep_put(rma->to);
		treadle_cmd_complete(cmd, -EAGAIN, run);
		return false;
	}
	rma->cmd = cmd;
	rma->done = treadle_cmd_begin(cmd);
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

/**
 * treadle_rma_span - the target's memory, as a span
 * @rma:	the command
 * @s:	set up
 * @off:	offset to begin at
 *
 * Context: any.
 */
void treadle_rma_span(const struct treadle_rma *rma, struct treadle_span *s, u64 off)
{
	/* ->closed covers the end of a connection, too: no access once SHUTDOWN has returned */
	treadle_span_user(s, rma->to->obj.ctx, &rma->to->closed, rma->at, rma->parts, off);
	s->mr = rma->mr;
	s->mrs = rma->count;
	s->msg = treadle_cmd_traced(rma->cmd);
}

/**
 * treadle_remote_error - the error that the initiator gets for an error on the target's side
 * @rma:	the command
 * @error:	of the access
 *
 * When a process dies, its endpoints are dead before its regions are revoked, under the lock under
 * which they were accessed: so a revoked region of a dead process is seen as the dead endpoint.
 *
 * Context: any.
 * Return: the error of the completion.
 */
int treadle_remote_error(const struct treadle_rma *rma, int error)
{
	if (error == -ESHUTDOWN || READ_ONCE(rma->to->dead))
		return -ECONNRESET;
	return error == -EKEYREJECTED ? error : -EIO;
}

/**
 * treadle_rma_alive - may the command go on accessing memory?
 * @rma:	the command
 *
 * Context: any.
 * Return: 0, or the error with which the command completes.
 */
int treadle_rma_alive(const struct treadle_rma *rma)
{
	if (unlikely(READ_ONCE(rma->cmd->ep->closed)))
		return treadle_ep_error(rma->cmd->ep);
	return unlikely(READ_ONCE(rma->to->dead)) && !rma->modified ? -ECONNRESET : 0;
}

/* Does a range before @i name the same region? */
static bool named_before(const struct treadle_rma *rma, unsigned int i)
{
	unsigned int j;

	for (j = 0; j < i && rma->mr[j] != rma->mr[i]; j++)
		;
	return j < i;
}

/* Bytes of all ranges in the region of range @i, the first one that names it. */
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

/*
 * Notify the target (FI_RMA_EVENT, FI_REMOTE_CQ_DATA), before the initiator is. Returns 0, or
 * -ENOMEM: its completion could not be written.
 */
static int notify_target(const struct treadle_rma *rma, struct treadle_run *run)
{
	const struct treadle_desc *d = &rma->cmd->d;
	struct treadle_ep *to = rma->to;
	bool wrote = d->opcode == TREADLE_OP_WRITE || d->opcode == TREADLE_OP_ATOMIC;
	bool modified = wrote || d->opcode == TREADLE_OP_COMPARE ||
			(d->opcode == TREADLE_OP_FETCH && d->atomic_op != TREADLE_ATOMIC_READ);
	struct treadle_cntr *cntr = treadle_target_cntr(to, d->opcode);
	unsigned int i;

	/* F_LOCAL: there is no peer. A piece: another one follows */
	if (!rma->count || treadle_cmd_end(rma->cmd) != d->len)
		return 0;
	if ((d->flags & TREADLE_F_REMOTE_CQ_DATA) && to->rx_cq) {
		struct treadle_cqe cqe = {
			.len = d->len,
			.data = d->data,
			.src = TREADLE_ADDR_ANY,
			.flags = TREADLE_CQ_RMA | TREADLE_CQ_REMOTE_WRITE |
				 TREADLE_CQ_REMOTE_CQ_DATA,
		};

		if (treadle_cq_post(to, rma->cmd->ep->id.source, &cqe))
			return -ENOMEM;
	}
	for (i = 0; i < rma->count; i++)
		if (!named_before(rma, i))
			treadle_mr_count(rma->mr[i], d->opcode, region_len(rma, i));
	if (cntr)
		treadle_cntr_count(cntr, d->len, 0, run);
	for (i = 0; modified && i < rma->count; i++) {
		cntr = treadle_mr_cntr(rma->mr[i]);
		if (cntr && !named_before(rma, i))
			treadle_cntr_count(cntr, region_len(rma, i), 0, run);
	}
	return 0;
}

/**
 * treadle_rma_finish - notify both sides, and release everything
 * @rma:	the command; freed if it is allocated
 * @error:	with which it completes
 * @run:	takes what the counters fire
 *
 * Context: May sleep.
 */
void treadle_rma_finish(struct treadle_rma *rma, int error, struct treadle_run *run)
{
	struct treadle_cmd *cmd = rma->cmd;
	unsigned int i;

	if (!error)
		error = notify_target(rma, run);
	else if (rma->modified)
		notify_target(rma, run); /* an atomic: no data, so this can't fail */
	for (i = 0; i < rma->count; i++)
		treadle_mr_put(rma->mr[i]);
	treadle_ep_put(rma->to);
	if (!error)
		treadle_cmd_count(cmd);
	treadle_cmd_complete(cmd, error, run);
	if (rma->heap)
		kfree(rma);
}

/*
 * Let the worker of @ctx go on with a command. It has a copy of @m if that is on the stack. Returns
 * an error if there is no memory for that; then @m is still the caller's.
 */
static int defer(struct treadle_rma *m, struct treadle_ctx *ctx,
		 void (*fn)(struct treadle_job *job, struct treadle_run *run),
		 struct treadle_run *run)
{
	struct treadle_rma *rma = m;

	if (!m->heap) {
		/* AWAITED: an error does not say that the peer's memory is unmodified */
		rma = treadle_cmd_carry(&m->cmd, m, sizeof(*m), TREADLE_AWAITED, run);
		if (IS_ERR(rma))
			return PTR_ERR(rma);
		rma->heap = true;
	}
	rma->job.ctx = ctx;
	rma->job.fn = fn;
	treadle_queue_job(&rma->job);
	return 0;
}

/**
 * treadle_rma_conclude - do what a stage of an RMA or atomic command says
 * @rma:	the command; if it is not allocated, and a worker goes on, a copy of it goes on
 * @verdict:	of the stage: enum treadle_verdict, or the error with which the command completes
 * @fn:	goes on in a worker
 * @run:	of the caller
 *
 * Context: May sleep.
 */
void treadle_rma_conclude(struct treadle_rma *rma, int verdict,
			  void (*fn)(struct treadle_job *job, struct treadle_run *run),
			  struct treadle_run *run)
{
	bool defers = verdict == TREADLE_DEFER_HERE || verdict == TREADLE_DEFER_THERE;

	if (treadle_trace_copies())
		treadle_trace_copy_end(rma->cmd, rma->to, defers ? -EAGAIN : verdict);
	switch (verdict) {
	case TREADLE_DEFER_HERE:
		verdict = defer(rma, rma->cmd->ep->obj.ctx, fn, run);
		break;
	case TREADLE_DEFER_THERE:
		verdict = defer(rma, rma->to->obj.ctx, fn, run);
		break;
	default:
		if (run->worker && !verdict)
			treadle_stat_add(&rma->cmd->ep->obj.stats, TREADLE_STAT_WORKER, 1);
		treadle_rma_finish(rma, verdict, run);
		return;
	}
	if (verdict)
		treadle_rma_finish(rma, verdict, run);
}

/* --- read and write ----------------------------------------------------------------------- */

/*
 * Copy as far as possible. A missing page is left to the worker of its context. Returns a verdict
 * or an error for treadle_rma_conclude().
 */
static int rma_copy(struct treadle_rma *rma, struct treadle_run *run)
{
	const struct treadle_cmd *cmd = rma->cmd;
	u64 end = treadle_cmd_end(cmd);
	bool write = cmd->d.opcode == TREADLE_OP_WRITE, there;
	enum treadle_side side = TREADLE_NONE;
	struct treadle_span local TREADLE_UNSET, remote TREADLE_UNSET;
	int ret;

	ret = treadle_rma_alive(rma);
	if (ret)
		return ret;
	if (end - rma->done > TREADLE_INLINE && !run->worker)
		return TREADLE_DEFER_THERE;
	treadle_cmd_span(cmd, &local, rma->done - treadle_cmd_begin(cmd));
	treadle_rma_span(rma, &remote, rma->done);
	if (write)
		ret = treadle_copy(&remote, &local, &rma->done, end, run, &side);
	else
		ret = treadle_copy(&local, &remote, &rma->done, end, run, &side);
	if (ret == -EAGAIN)
		treadle_stat_add(&cmd->ep->obj.stats, TREADLE_STAT_LATE, 1);
	there = side == (write ? TREADLE_DST : TREADLE_SRC);
	ret = treadle_copy_verdict(ret, there);
	if (ret < 0 && there)
		return treadle_remote_error(rma, ret);
	return ret == -ESHUTDOWN ? treadle_ep_error(cmd->ep) : ret;
}

static void rma_job(struct treadle_job *job, struct treadle_run *run)
{
	struct treadle_rma *rma = container_of(job, struct treadle_rma, job);

	if (treadle_trace_copies())
		treadle_trace_copy_begin(rma->cmd, rma->to, rma->done, run->worker);
	treadle_rma_conclude(rma, rma_copy(rma, run), rma_job, run);
}

/* A treadle_step_fn: copy a few bytes. */
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

/* Execute a read or write the long way: consumes @cmd; may sleep. */
static noinline void rma_slowly(struct treadle_cmd *cmd, u32 access, struct treadle_run *run)
{
	struct treadle_rma rma TREADLE_UNSET;

	if (treadle_rma_open(&rma, cmd, access, run))
		rma_job(&rma.job, run);
}

/**
 * treadle_rma_issue - read or write a peer's memory
 * @cmd:	the command; consumed
 * @run:	of the caller
 *
 * Context: May sleep.
 */
TREADLE_HOT void treadle_rma_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	bool write = cmd->d.opcode == TREADLE_OP_WRITE;
	u32 access = TREADLE_ACCESS_RMA |
		     (write ? TREADLE_ACCESS_REMOTE_WRITE : TREADLE_ACCESS_REMOTE_READ);

	if (likely(treadle_rma_at_once(cmd, access, copy_step, run)))
		treadle_cmd_succeed(cmd, write ? cmd->ep->cntr_write : cmd->ep->cntr_read, run);
	else
		rma_slowly(cmd, access, run);
}
