/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: how a command reaches its peer (local.c, op_msg.c, op_recv.c, keep.c, deliver.c,
 * op_rma.c, op_atomic.c)
 */
#ifndef TREADLE_PATH_H
#define TREADLE_PATH_H

#include "match/traced.h"
#include "pure/wire.h"

/* opdef.c */
u64 treadle_opcodes(void);
u64 treadle_op_flags(void);

/* local.c */
extern const struct treadle_path_ops treadle_local_path;
extern const struct treadle_msg_ops treadle_local_msg;

int treadle_local_fetch(struct treadle_msg *msg, struct treadle_span *to, u64 len,
			struct treadle_run *run, enum treadle_side *side);
void treadle_local_complete(struct treadle_msg *msg, int error, struct treadle_run *run);
int treadle_local_park(struct treadle_msg *msg);
void treadle_local_unpark(struct treadle_msg *msg);
enum treadle_withdrawn treadle_local_withdraw(struct treadle_cmd *cmd);

/* arrived.c, pull.c */
extern const struct treadle_path_ops treadle_proxy_path;
extern const struct treadle_msg_ops treadle_proxy_msg;

/* op_msg.c, op_recv.c */
int treadle_send_validate(struct treadle_cmd *cmd);
void treadle_send_issue(struct treadle_cmd *cmd, struct treadle_run *run);
void treadle_proxy_send_issue(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_recv_validate(struct treadle_cmd *cmd);
int treadle_recv_bind(struct treadle_cmd *cmd);
void treadle_recv_issue(struct treadle_cmd *cmd, struct treadle_run *run);

static inline bool treadle_is_tagged(const struct treadle_desc *d)
{
	return d->opcode == TREADLE_OP_TSEND || d->opcode == TREADLE_OP_TRECV;
}

/* Members of collectives are whole endpoints, as they are named by their source. */
static inline bool treadle_is_member(const struct treadle_ep *ep)
{
	return ep->type == TREADLE_EP_RDM && !ep->role;
}

/* deliver.c */
void treadle_deliver(struct treadle_msg *msg, struct treadle_run *run);
void treadle_deliver_job(struct treadle_job *job, struct treadle_run *run);
void treadle_msg_span(const struct treadle_msg *msg, struct treadle_span *to);

/* keep.c */
void treadle_msg_keep(struct treadle_msg *m, struct treadle_run *run);

/**
 * treadle_find_target - find the target of a command
 * @cmd:	the command, with its route
 *
 * Context: any.
 * Return: the endpoint, held, which admits the initiator; or an ERR_PTR() for the completion.
 * -EXDEV: it is on another node, to which only a connection leads.
 */
static __always_inline struct treadle_ep *treadle_find_target(const struct treadle_cmd *cmd)
{
	struct treadle_ep *from = cmd->ep, *to;
	int ret;

	if (from->type == TREADLE_EP_MSG) {
		to = treadle_conn_peer(from);
		if (IS_ERR(to) ||
		    (likely(to->rx || treadle_op_remote(cmd->d.opcode)) && likely(!to->far)))
			return to;
		ret = to->far ? -EXDEV : -ECONNREFUSED;
		treadle_ep_put(to);
		return ERR_PTR(ret);
	}
	if (cmd->route)
		return ERR_PTR(cmd->route);
	to = treadle_ep_find(from->obj.ctx->ports, cmd->dest);
	if (!to)
		return ERR_PTR(-ECONNREFUSED);
	if (!smp_load_acquire(&to->enabled) || READ_ONCE(to->dead) || to->type != from->type ||
	    (!to->rx && !treadle_op_remote(cmd->d.opcode)))
		ret = -ECONNREFUSED;
	else if (!treadle_admits(&to->id, &from->id))
		ret = -EACCES;
	else
		return to;
	treadle_ep_put(to);
	return ERR_PTR(ret);
}

/**
 * treadle_begin - the first stages of a send, RMA or atomic: its turn, and its target
 * @cmd:	the command; may move to the heap
 * @run:	of the caller
 *
 * Context: May sleep. Takes ep->lock.
 * Return: the target, held. NULL: *@cmd waits for its turn, was completed or dropped, and is no
 * more the caller's.
 */
static __always_inline struct treadle_ep *treadle_begin(struct treadle_cmd **cmd,
							struct treadle_run *run)
{
	struct treadle_ep *from = (*cmd)->ep, *to;
	int verdict;

	if (unlikely(READ_ONCE(from->dead))) { /* closed while it was armed */
		treadle_cmd_free(*cmd);
		return NULL;
	}
	verdict = treadle_flow_admit(cmd, run);
	if (unlikely(verdict)) {
		if (verdict != TREADLE_KEPT)
			treadle_cmd_fail(*cmd, verdict, run);
		return NULL;
	}
	to = treadle_find_target(*cmd);
	if (likely(!IS_ERR(to)))
		return to;
	if (to == ERR_PTR(-EXDEV)) {
		(*cmd)->path = TREADLE_PATH_REMOTE;
		treadle_cmd_issue(*cmd, run);
		return NULL;
	}
	/* a datagram is dropped: treadle_msg_is_lossy() */
	if (from->type == TREADLE_EP_DGRAM)
		treadle_cmd_count(*cmd);
	treadle_cmd_complete(*cmd, from->type == TREADLE_EP_DGRAM ? 0 : PTR_ERR(to), run);
	return NULL;
}

/* What a copy has come to that has stopped at the target's side (@there), or at the initiator's. */
static inline int treadle_copy_verdict(int ret, bool there)
{
	switch (ret) {
	case -EAGAIN: /* a page of that side is missing */
		return there ? TREADLE_DEFER_THERE : TREADLE_DEFER_HERE;
	case -EINPROGRESS: /* the budget of the run is used up */
		return TREADLE_DEFER_THERE;
	default:
		return ret;
	}
}

/* A READ or WRITE from another node may be a piece of one: from d.addr on. */
static inline u64 treadle_cmd_begin(const struct treadle_cmd *cmd)
{
	return unlikely(cmd->d.flags & TREADLE_F_PROXY) ? cmd->d.addr : 0;
}

static inline u64 treadle_cmd_end(const struct treadle_cmd *cmd)
{
	return unlikely(cmd->d.flags & TREADLE_F_PROXY) ?
		       min_t(u64, cmd->d.len, cmd->d.addr + TREADLE_WIRE_PIECE) :
		       cmd->d.len;
}

bool treadle_piece_is_cut(const struct treadle_cmd *cmd); /* arrived.c */

/*
 * struct treadle_rma - an RMA or atomic command under way
 * @job:	continues it in a worker
 * @to:	target, held
 * @mr:	regions, held; @count of them
 * @at:	the ranges in the target's memory; @parts of them
 * @done:	bytes transferred
 * @heap:	allocated; else on the stack of the issuing function
 * @modified:	atomics: the target's memory is modified completely, and @done counts results
 */
struct treadle_rma {
	struct treadle_job job;
	struct treadle_ep *to;
	struct treadle_cmd *cmd;
	struct treadle_mr *mr[TREADLE_MAX_RMA_IOV];
	struct treadle_iov at[TREADLE_MAX_RMA_IOV * TREADLE_MAX_MR_IOV];
	u64 done;
	u8 count, parts;
	bool heap, modified;
};

/* op_rma.c, and its parts that atomics share */
int treadle_rma_validate(struct treadle_cmd *cmd);
int treadle_write_bind(struct treadle_cmd *cmd);
void treadle_rma_issue(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_rma_validate_ranges(const struct treadle_cmd *cmd);
bool treadle_rma_open(struct treadle_rma *rma, struct treadle_cmd *cmd, u32 access,
		      struct treadle_run *run);
void treadle_rma_span(const struct treadle_rma *rma, struct treadle_span *s, u64 off);
void treadle_rma_finish(struct treadle_rma *rma, int error, struct treadle_run *run);
void treadle_rma_conclude(struct treadle_rma *m, int verdict,
			  void (*fn)(struct treadle_job *job, struct treadle_run *run),
			  struct treadle_run *run);
int treadle_remote_error(const struct treadle_rma *rma, int error);
int treadle_rma_alive(const struct treadle_rma *rma);

/*
 * What a step did with a range of the memory of @to, at address @at there. A step works under the
 * locks, if all pages are known and the region is alive.
 * UNDONE: nothing; the command has to begin anew the long way.
 * RESULT_DUE: the target's memory is modified, but the fetched value, in cmd->d.data, is not
 * delivered yet.
 */
enum treadle_step { TREADLE_UNDONE, TREADLE_DONE, TREADLE_RESULT_DUE };
typedef enum treadle_step treadle_step_fn(struct treadle_cmd *cmd, const struct treadle_ep *to,
					  u64 at, const struct treadle_mr *mr,
					  const struct treadle_ctx *own);

/* Remote ranges together are as long as the command; a single one has no length of its own. */
static __always_inline int treadle_rma_validate_len(const struct treadle_cmd *cmd)
{
	return unlikely(cmd->d.rma_iov_count > 1) ? treadle_rma_validate_ranges(cmd) : 0;
}

/* op_atomic.c */
extern const bool treadle_has_fp;
int treadle_atomic_validate(struct treadle_cmd *cmd);
void treadle_atomic_issue(struct treadle_cmd *cmd, struct treadle_run *run);

/* The counter of an endpoint for operations of peers on its memory, or NULL. */
static inline struct treadle_cntr *treadle_target_cntr(const struct treadle_ep *to, u8 opcode)
{
	return opcode == TREADLE_OP_WRITE || opcode == TREADLE_OP_ATOMIC ? to->cntr_remote_write :
									   to->cntr_remote_read;
}

/* Count a command of one range that has succeeded, at both ends. @mr: held, or under RCU */
static __always_inline void treadle_rma_count(const struct treadle_cmd *cmd,
					      const struct treadle_mr *mr)
{
	u64 __percpu *out = cmd->ep->obj.stats.n + cmd->d.opcode;
	u64 __percpu *in = treadle_mr_stats(mr)->n + cmd->d.opcode;
	u64 len = cmd->d.len;

	this_cpu_inc(out[TREADLE_STAT_OUT]);
	this_cpu_add(out[TREADLE_STAT_OUT_BYTES], len);
	this_cpu_inc(in[-TREADLE_OP_READ]);
	this_cpu_add(in[TREADLE_STAT_RMA - TREADLE_OP_READ], len);
}

/**
 * treadle_rma_at_once - execute an RMA or atomic command in one step, if nothing is in the way
 * @cmd:	the command
 * @access:	what the region has to grant
 * @step:	does the work
 * @run:	takes what the target's counter fires
 *
 * For one buffer and one range. RCU keeps the region, so it need not be held. @cmd is counted; only
 * its completion is left to the caller.
 *
 * Context: Takes the locks that @step takes, and the counter's.
 * Return: UNDONE if the long way, from treadle_rma_open() on, has to execute the command or find
 * its error; else as @step returns.
 */
static __always_inline enum treadle_step treadle_rma_at_once(struct treadle_cmd *cmd, u32 access,
							     treadle_step_fn *step,
							     struct treadle_run *run)
{
	enum treadle_step done = TREADLE_UNDONE;
	struct treadle_mr_view seen;
	struct treadle_cntr *cntr;
	struct treadle_ep *to;

	if (unlikely(cmd->vec || cmd->inject || (cmd->d.flags & TREADLE_F_REMOTE_CQ_DATA) ||
		     READ_ONCE(cmd->ep->closed) || !treadle_flow_idle(cmd)))
		return TREADLE_UNDONE;
	to = treadle_find_target(cmd);
	if (IS_ERR(to))
		return TREADLE_UNDONE;
	rcu_read_lock();
	seen = treadle_mr_peek(to, cmd->ep, &cmd->d, access);
	if (treadle_trace_copies())
		treadle_trace_copy_begin(cmd, to, 0, run->worker);
	if (likely(seen.mr))
		done = step(cmd, to, seen.at, seen.mr, run->own);
	if (treadle_trace_copies())
		treadle_trace_copy_end(cmd, to, done == TREADLE_DONE ? 0 : -EAGAIN);
	if (likely(done == TREADLE_DONE))
		treadle_rma_count(cmd, seen.mr);
	else if (done)
		treadle_mr_count(seen.mr, cmd->d.opcode, cmd->d.len);
	rcu_read_unlock();
	/* the target is notified before the initiator */
	cntr = done ? treadle_target_cntr(to, cmd->d.opcode) : NULL;
	if (unlikely(cntr))
		treadle_cntr_count(cntr, cmd->d.len, 0, run);
	treadle_ep_put(to);
	return done;
}

#endif
