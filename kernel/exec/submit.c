// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the doorbell of a transmit ring: copy descriptors, check them, arm or issue commands
 *
 * A descriptor is copied once and then checked; until it is accepted nothing has happened. An
 * ordinary command lives on this function's stack and is finished, or moved to the heap, when
 * issue() returns. An armed one is on the heap.
 */
#include <linux/memcontrol.h>
#include <linux/nospec.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "core/limits.h"
#include "exec/traced.h"

#define TREADLE_MAX_VECS 4 /* buffers, remote ranges, results, comparands */

/* --- checking ------------------------------------------------------------------------- */

/* Slots that a descriptor takes, even if it is invalid otherwise. */
static u32 desc_slots(const struct treadle_desc *d)
{
	return 1 + treadle_cmd_vecs(d);
}

/* Check the local buffers, which cmd->vec has if there are several. */
static __always_inline int validate_buffers(struct treadle_cmd *cmd, const struct treadle_opdef *op)
{
	const struct treadle_desc *d = &cmd->d;
	u64 end;

	if (d->iov_count > TREADLE_MAX_IOV)
		return -EINVAL;
	if (!op->data || d->iov_count == 0) {
		/* an atomic read has no operands, but a length */
		bool sized = op->atomic && d->atomic_op == TREADLE_ATOMIC_READ;

		return d->iov_count || d->addr || (d->len && !sized) ? -EINVAL : 0;
	}
	if (d->iov_count == 1) {
		if (check_add_overflow(d->addr, d->len, &end))
			return -EINVAL;
	} else if (d->addr || treadle_iov_validate(treadle_cmd_iov(cmd), d->iov_count, d->len)) {
		return -EINVAL;
	}
	if (d->len > TREADLE_MAX_MSG && !op->receives)
		return -EMSGSIZE;
	if ((d->flags & TREADLE_F_INJECT) && d->len > TREADLE_EAGER)
		return -EMSGSIZE;
	return 0;
}

/* A command that repeats on a cell: it adds to a counter what is added to the cell. */
static bool follows_cell(const struct treadle_desc *d)
{
	return d->opcode == TREADLE_OP_CNTR_ADD && (d->flags & TREADLE_F_WORK) &&
	       !(d->flags & TREADLE_F_NOTIFY) && !d->data && !d->rest;
}

/* Check the fields of conditions, notification, repetition and F_STRICT. */
static noinline int validate_cond(const struct treadle_desc *d)
{
	const u32 repeats = TREADLE_F_REPEAT | TREADLE_F_COND_CNTR | TREADLE_F_WORK |
			    TREADLE_F_COMPLETION | TREADLE_F_INJECT | TREADLE_F_COLLECTIVE |
			    TREADLE_F_MULTI_RECV | TREADLE_F_PEEK | TREADLE_F_CLAIM |
			    TREADLE_F_DISCARD;
	const u32 named = TREADLE_F_COND_CNTR | TREADLE_F_WORK;
	u32 f = d->flags;

	if (!(f & TREADLE_F_EXT) || ((f & TREADLE_F_STRICT) && !(f & TREADLE_F_COND_CNTR)))
		return -EINVAL;
	if ((f & TREADLE_F_COND) == TREADLE_F_COND ||
	    (!(f & TREADLE_F_COND) && (d->cond || d->threshold)) ||
	    (d->value && !(f & (TREADLE_F_COND_CELL | TREADLE_F_REPEAT)) && (f & named) != named))
		return -EINVAL;
	if ((f & TREADLE_F_REPEAT) && (f & TREADLE_F_COND_CELL)) {
		if (!follows_cell(d))
			return -EINVAL;
	} else if (f & TREADLE_F_REPEAT) {
		if ((f & repeats) != (TREADLE_F_REPEAT | TREADLE_F_COND_CNTR | TREADLE_F_WORK) ||
		    !d->value)
			return -EINVAL;
	} else if (d->rest) {
		return -EINVAL;
	}
	if ((!(f & TREADLE_F_NOTIFY) && d->notify) || (!d->rest && d->rest_threshold))
		return -EINVAL;
	return 0;
}

/* Check the second line of the descriptor: fields that are not used are zero. */
static __always_inline int validate_ext(const struct treadle_desc *d,
					const struct treadle_opdef *op)
{
	const u32 conds = TREADLE_F_COND | TREADLE_F_NOTIFY | TREADLE_F_REPEAT | TREADLE_F_STRICT;

	if (unlikely(d->flags & conds)) {
		if (validate_cond(d))
			return -EINVAL;
	} else if (!(d->flags & TREADLE_F_EXT)) {
		return op->atomic ? -EINVAL : 0;
	} else if (d->cond | d->threshold | d->value | d->rest | d->rest_threshold | d->notify) {
		return -EINVAL;
	}
	if (!op->remote && d->rma_iov_count)
		return -EINVAL;
	if (!op->atomic &&
	    (d->atomic_op || d->datatype || d->fetch_iov_count || d->result || d->compare))
		return -EINVAL;
	return d->reserved1 ? -EINVAL : 0;
}

/* Bind a counter: held until treadle_cmd_free(). NULL: *error is set. */
static struct treadle_cntr *bind_cntr(struct treadle_ctx *ctx, u32 id, int *error)
{
	struct treadle_obj *obj = treadle_obj_bind(ctx, id, TREADLE_CNTR);

	if (IS_ERR(obj)) {
		*error = PTR_ERR(obj);
		return NULL;
	}
	return container_of(obj, struct treadle_cntr, obj);
}

/* Bind the command's condition (F_COND_*): held until the command is disarmed or freed. */
static int bind_cond(struct treadle_ctx *ctx, struct treadle_cmd *cmd)
{
	bool cell = cmd->d.flags & TREADLE_F_COND_CELL;
	struct treadle_obj *obj =
		treadle_obj_bind(ctx, cmd->d.cond, cell ? TREADLE_CELL : TREADLE_CNTR);

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	cmd->cond = obj; /* from here on treadle_cond_drop() undoes all this */
	cmd->rest = NULL;
	cmd->resting = false;
	if (atomic_inc_return(&ctx->armed) > treadle_max_armed)
		return -ENOSPC;
	if (cmd->d.rest) {
		obj = treadle_obj_bind(ctx, cmd->d.rest, TREADLE_CNTR);
		if (IS_ERR(obj))
			return PTR_ERR(obj);
		cmd->rest = obj;
	}
	return cell ? treadle_cell_validate(obj, cmd->d.threshold) : 0;
}

/*
 * True if more completions are kept than the ring's size plus @room: the process must read before
 * it posts more. Read without the lock: a few more or less do not matter.
 */
static bool overflows(const struct treadle_cq *cq, u32 room)
{
	return cq && READ_ONCE(cq->kept) > cq->mask + room;
}

/*
 * Is there nothing to check in a descriptor? It is a send, a read or a write of one buffer, without
 * a second line, and without flags that any of these opcodes could refuse.
 */
static __always_inline bool is_usual(const struct treadle_desc *d, const struct treadle_opdef *op)
{
	return op->data && !op->receives && !op->atomic &&
	       !(d->flags & ~(TREADLE_F_COMPLETION | TREADLE_F_MORE)) && d->iov_count == 1 &&
	       !d->reserved0 && d->len <= TREADLE_MAX_MSG && d->addr + d->len >= d->addr;
}

/* Check a descriptor by itself. Its opcode is below TREADLE_OP_LAST. */
static __always_inline int validate(struct treadle_cmd *cmd, const struct treadle_opdef *op)
{
	const struct treadle_desc *d = &cmd->d;
	int error;

	if (d->reserved0 || (d->flags & ~TREADLE_F_ALL))
		return -EINVAL;
	if (!op->validate)
		return -EOPNOTSUPP;
	if (d->flags & ~op->flags)
		return d->flags & ~op->flags &
				       (TREADLE_F_FENCE | TREADLE_F_MULTI_RECV | TREADLE_F_PEEK |
					TREADLE_F_CLAIM | TREADLE_F_DISCARD) ?
			       -EOPNOTSUPP :
			       -EINVAL;
	error = validate_buffers(cmd, op);
	return error ?: validate_ext(d, op);
}

/* May the endpoint take a command? One that needs no endpoint must name none. */
static __always_inline int validate_ep(struct treadle_cmd *cmd, const struct treadle_opdef *op)
{
	const struct treadle_desc *d = &cmd->d;
	const struct treadle_ep *ep = cmd->ep;

	if (!op->needs_ep && !(d->flags & (TREADLE_F_COMPLETION | TREADLE_F_COLLECTIVE))) {
		cmd->ep = NULL;
		return d->ep ? -EINVAL : 0;
	}
	if (!ep || !smp_load_acquire(&ep->enabled)) /* pairs with EP_ENABLE */
		return -ENOTCONN;
	if (READ_ONCE(ep->dead))
		return -ESHUTDOWN;
	if (!(d->flags & TREADLE_F_MORE) && overflows(op->receives ? ep->rx_cq : ep->tx_cq, 0))
		return -EAGAIN;
	return 0;
}

/* The peer of a command is not on this machine, as far as is known. */
static noinline void route_away(struct treadle_cmd *cmd)
{
	if (cmd->route == -EHOSTUNREACH)
		cmd->route = treadle_av_reach(cmd->ep->av, cmd->d.peer, &cmd->dest);
	if (!cmd->route && !treadle_is_here(cmd->dest))
		cmd->path = TREADLE_PATH_REMOTE;
}

/*
 * Resolve the peer of a command. Returns 0, also if its completion will have the error
 * (cmd->route), or an error of the submission.
 */
static __always_inline int route(struct treadle_cmd *cmd)
{
	struct treadle_ep *ep = cmd->ep;

	if (unlikely(ep->type == TREADLE_EP_MSG || cmd->d.flags & TREADLE_F_LOCAL)) {
		bool local = cmd->d.flags & TREADLE_F_LOCAL;

		cmd->route = 0;
		cmd->dest = local ? ep->id.source : 0;
		return local ? 0 : treadle_conn_may_send(ep, cmd->d.flags & TREADLE_F_COND);
	}
	if (!ep->av)
		return -EDESTADDRREQ;
	cmd->route = treadle_av_resolve(ep->av, cmd->d.peer, &cmd->dest);
	if (unlikely(!treadle_is_here(cmd->dest)))
		route_away(cmd);
	return cmd->route == -EDESTADDRREQ ? cmd->route : 0;
}

/**
 * treadle_cmd_aim() - find out where a command would go
 * @cmd:	zeroed, but for its endpoint, which is enabled, and the opcode and peer of @cmd->d
 *
 * Context: any.
 * Return: 0, with ->route, ->dest and ->path set; or an error of the submission.
 */
int treadle_cmd_aim(struct treadle_cmd *cmd)
{
	cmd->path = TREADLE_PATH_LOCAL;
	return route(cmd);
}

/* Accept a command: check it, find out where it goes, and bind what it names. */
static __always_inline int accept(struct treadle_tx *tx, struct treadle_cmd *cmd)
{
	const struct treadle_desc *d = &cmd->d;
	const struct treadle_opdef *op;
	int error;

	if (d->opcode >= TREADLE_OP_LAST)
		return -EOPNOTSUPP;
	op = &treadle_opdefs[array_index_nospec(d->opcode, TREADLE_OP_LAST)];
	OPTIMIZER_HIDE_VAR(op); /* or its address is computed again for each field */
	error = likely(is_usual(d, op)) ? 0 : validate(cmd, op);
	if (!error)
		error = validate_ep(cmd, op);
	if (!error)
		error = op->validate(cmd);
	if (!error && op->routed)
		error = route(cmd);
	if (!error && op->bind)
		error = op->bind(cmd);
	if (!error && (d->flags & TREADLE_F_NOTIFY))
		cmd->notify = bind_cntr(tx->obj.ctx, d->notify, &error);
	if (!error && (d->flags & TREADLE_F_COND))
		error = bind_cond(tx->obj.ctx, cmd);
	return error;
}

/* --- the doorbell ------------------------------------------------------------------------- */

/*
 * Move a command with a condition to the heap, and onto its trigger: it is consumed, and the one on
 * the stack is left empty. An error: nothing has happened. Under tx->lock; may sleep.
 */
static int arm(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_cmd *heap = cmd;
	u8 slots = cmd->slots;
	int ret = treadle_cmd_leave(&heap, TREADLE_UNTRACKED, run);

	if (ret)
		return ret;
	/* it leaves the ring: the doorbell gives its slots back */
	cmd->slots = slots;
	heap->slots = 0;
	if (heap->d.flags & TREADLE_F_COND_CELL)
		treadle_cell_arm(heap, run);
	else
		treadle_cntr_arm(heap, run);
	return 0;
}

/* Set cmd->ep to the endpoint that the descriptor means; one that it names is held in *@named. */
static int find_ep(struct treadle_tx *tx, struct treadle_cmd *cmd, struct treadle_obj **named)
{
	u32 id = cmd->d.flags & TREADLE_F_EXT ? cmd->d.ep : 0;
	struct treadle_obj *obj;

	lockdep_assert_held(&tx->lock);
	*named = NULL;
	cmd->ep = READ_ONCE(tx->ep); /* stays while tx->lock is held */
	if (!id)
		return 0;
	obj = treadle_obj_get(tx->obj.ctx, id, TREADLE_EP);
	if (IS_ERR(obj)) {
		cmd->ep = NULL; /* the ring's endpoint does not report it */
		return PTR_ERR(obj);
	}
	*named = obj;
	cmd->ep = container_of(obj, struct treadle_ep, obj);
	return 0;
}

/*
 * True if a command has to stay in the ring until the completion queue is read. The library has
 * promised commands with F_MORE to its caller already. They may fail, and overflow the queue by
 * another ring's worth, but must not get lost.
 */
static __always_inline bool must_wait(const struct treadle_tx *tx, const struct treadle_cmd *cmd)
{
	const struct treadle_ep *ep = cmd->ep;

	return (cmd->d.flags & TREADLE_F_MORE) && ep && smp_load_acquire(&ep->enabled) &&
	       (overflows(ep->tx_cq, tx->ring.entries) || overflows(ep->rx_cq, tx->ring.entries));
}

/* Submit the command at ring.head. Returns 0, or why it was refused. */
static __always_inline int submit_one(struct treadle_tx *tx, struct treadle_cmd *cmd,
				      struct treadle_run *run)
{
	struct treadle_obj *named;
	int ret;

	lockdep_assert_held(&tx->lock);
	ret = find_ep(tx, cmd, &named);
	/* closing that endpoint does not wait for this doorbell: treadle_ep_quiesce() */
	if (named && cmd->ep->tx != tx)
		run->own = NULL;
	if (!ret && must_wait(tx, cmd))
		ret = -EAGAIN;
	if (!ret && unlikely(!tx->reserve) && treadle_tx_refill(tx))
		ret = cmd->d.flags & TREADLE_F_MORE ? -EAGAIN : -ENOMEM;
	if (!ret)
		ret = accept(tx, cmd);
	if (trace_treadle_post_enabled())
		treadle_trace_post(cmd, ret);
	if (!ret && cmd->cond)
		ret = arm(cmd, run);
	else if (!ret)
		treadle_cmd_issue(cmd, run);
	/* the completion of a refused command must not take its flags for the kernel's own */
	if (unlikely(ret))
		cmd->d.flags &= TREADLE_F_ALL;
	if (ret && ret != -EAGAIN && (cmd->d.flags & TREADLE_F_MORE) && treadle_cmd_heard(cmd)) {
		treadle_cmd_complete(cmd, ret, run);
		ret = 0;
	} else if (ret) {
		if (ret == -EAGAIN)
			treadle_tx_count(tx, TREADLE_STAT_RETRIED, 1);
		else
			treadle_stat_error(treadle_cmd_stats(cmd, tx->obj.ctx), ret);
		treadle_cmd_free(cmd);
	}
	if (named)
		treadle_obj_put(named);
	return ret;
}

/* Copy the slots behind the descriptor at ring->head to @vec, and let cmd->vec be that. */
static noinline void fetch_vectors(struct treadle_cmd *cmd, struct treadle_ring *ring,
				   union treadle_slot *vec)
{
	unsigned int i;

	for (i = 1; i < cmd->slots; i++)
		memcpy(&vec[i - 1], treadle_ring_slot(ring, ring->head + i), sizeof(*vec));
	barrier(); /* the shared slots are not read again */
	cmd->vec = vec;
}

/*
 * Take the commands of a transmit ring until it is empty, one is refused, or a signal is pending;
 * of a @polled ring @most at most. May sleep. Returns how many were taken, or why the first one was
 * refused.
 */
static __always_inline long take(struct treadle_tx *tx, struct treadle_run *run, bool polled,
				 int most)
{
	union treadle_slot vec[TREADLE_MAX_VECS] TREADLE_UNSET;
	struct treadle_cmd cmd TREADLE_UNSET;
	struct treadle_ring *ring = &tx->ring;
	u32 prod, credits = 0;
	long taken = 0;
	int ret = 0;

	lockdep_assert_held(&tx->lock);
	if (ring->broken)
		return -ESHUTDOWN;
	if (!treadle_ring_prod(ring, &prod)) {
		treadle_ring_break(ring);
		return -EINVAL;
	}
	while (ring->head != prod) {
		u32 slots;

		if (polled && taken == most)
			break;
		if (taken) {
			if (signal_pending(current))
				break;
			/*
			 * jobs of other contexts don't wait for further commands, nor for this
			 * thread while it lacks a processor or memory
			 */
			treadle_run_let_go(run);
			cond_resched();
		}
		treadle_ring_fetch(ring, ring->head, &cmd.d);
		if (polled) /* no call waits for the result */
			cmd.d.flags |= TREADLE_F_MORE;
		slots = desc_slots(&cmd.d);
		if (slots > prod - ring->head) {
			/* half a command: its producer is broken. Report those before it first */
			if (!taken) {
				treadle_ring_break(ring);
				ret = -EINVAL;
			}
			break;
		}
		cmd.slots = slots;
		cmd.tx = tx;
		cmd.path = TREADLE_PATH_LOCAL;
		cmd.vec = NULL;
		cmd.own = NULL;
		cmd.cond = NULL;
		cmd.notify = cmd.target = NULL;
		cmd.tracked = TREADLE_UNTRACKED;
		cmd.heap = cmd.admitted = false;
		cmd.marks = 0;
		if (slots > 1)
			fetch_vectors(&cmd, ring, vec);
		ret = submit_one(tx, &cmd, run);
		if (ret && taken) {
			ret = 0; /* reported by the next call, which finds this command first */
			break;
		}
		if (ret == -EAGAIN && (cmd.d.flags & TREADLE_F_MORE))
			break; /* not lost: it stays in the ring */
		ring->head += slots;
		credits += cmd.slots; /* 0 if the command lives on */
		taken++;
		if (ret)
			break;
	}
	if (credits)
		treadle_ring_release_any(ring, credits);
	treadle_tx_count(tx, TREADLE_STAT_COMMANDS, taken);
	return ret ?: taken;
}

/**
 * treadle_tx_take() - take commands of a polled ring
 * @tx:	  the ring
 * @run:  of the caller
 * @most: number of commands
 *
 * A command that is refused completes with the error (TREADLE_F_MORE).
 *
 * Context: may sleep; tx->lock is held.
 * Return: number of commands that were taken. -EAGAIN: the first one has to stay for now;
 * -ESHUTDOWN, -EINVAL: the ring is broken; else the error of a command that is not reported
 * otherwise, and is consumed.
 */
long treadle_tx_take(struct treadle_tx *tx, struct treadle_run *run, int most)
{
	return take(tx, run, true, most);
}

/* Take all commands of a ring that is not polled. Takes tx->lock; may sleep. Returns as take(). */
static __always_inline long tx_doorbell(struct treadle_tx *tx)
{
	long ret;
	TREADLE_RUN(run, tx->obj.ctx);

	run.own = tx->obj.ctx; /* treadle_call() admits no other process */
	if (unlikely(!mutex_trylock(&tx->lock)) && mutex_lock_killable(&tx->lock))
		return -EINTR;
	ret = take(tx, &run, false, 0);
	treadle_tx_count(tx, TREADLE_STAT_DOORBELLS, 1);
	mutex_unlock(&tx->lock);
	if (!treadle_run_empty(&run))
		treadle_run_jobs(&run);
	return ret;
}

/**
 * treadle_doorbell() - process what a process has written into the ring of an object
 * @ctx: context of the calling process
 * @id:  the object: a transmit ring, or a type with ->doorbell
 *
 * Context: may sleep; takes tx->lock.
 * Return: commands taken, or of other types what they return. Errors: -ENOENT, -EBADF: no such
 * object; -EINTR: killed; -ESHUTDOWN: the ring is broken; else why the first command was refused.
 */
TREADLE_HOT long treadle_doorbell(struct treadle_ctx *ctx, u32 id)
{
	struct treadle_obj *obj = treadle_obj_find(ctx, id, 0, false);
	long ret;

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (likely(obj->ops == &treadle_tx_ops)) /* not polled */
		ret = tx_doorbell(container_of(obj, struct treadle_tx, obj));
	else
		ret = obj->ops->doorbell ? obj->ops->doorbell(obj) : -EBADF;
	treadle_obj_put(obj);
	return ret;
}
