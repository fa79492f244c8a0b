/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: commands and messages (command.c, submit.c, opdef.c, op_*.c, receive.c, deliver.c, complete.c) */
#ifndef TREADLE_COMMAND_H
#define TREADLE_COMMAND_H

#include <linux/overflow.h>

#include <treadle/atomic.h>

#include "endpoint.h"

#define TREADLE_F_COND (TREADLE_F_COND_CNTR | TREADLE_F_COND_CELL)

#define TREADLE_MAX_MSG (1ULL << 32)
#define TREADLE_EAGER	4096u /* longer unexpected messages stay with the sender */
/* Flag of a collective message that only says why there is none, in its data; the kernel's own. */
#define TREADLE_F_FAILURE (1U << 31)
/* Longer copies go to a worker, so that a post never holds its caller long. */
#define TREADLE_INLINE (1u << 20)

/*
 * What waits for a command that goes on elsewhere: nothing; fences; also to be copied what might be; or all that goes
 * the same way.
 */
enum treadle_track {
	TREADLE_UNTRACKED,
	TREADLE_FENCED,
	TREADLE_CROWDED,
	TREADLE_AWAITED,
	TREADLE_TRACKS
};

/*
 * struct treadle_cmd - a command
 * @d:		the kernel's copy of the descriptor
 * @kept:	a completion that did not fit
 * @as_recv:	the receive that a command of one becomes when it is issued, unless it repeats
 * @cond:	while it is armed: counter or cells, bound; with F_REPEAT until it is dropped
 * @rest:	F_REPEAT, with @cond: the other counter it waits for in turn, bound, or NULL
 * @armed:	its place among what is armed; then, of a receive that is posted, in rx->armed
 * @ep:		endpoint, or NULL (counter operations)
 * @by_context:	after that: in ep->waiting, with @wait: where it waits for its turn (flow.c); or in
 *		ep->parked, with @msg: that waits at a peer; of a receive, @wait only: in ep->feeding
 * @vec:	the slots behind the descriptor: on the caller's stack, or allocated
 * @recv:	in rx->armed, ep->feeding: the receive that is posted; of one that repeats always, but under way
 * @tx, @slots:	credits to give back at the end
 * @route, @port: 0 and where to (treadle_name()), or why not; receives: likewise, from whom, if one is named
 * @inject:	F_INJECT, armed or delayed: the bytes, taken within the doorbell;
 *		atomics: operands, then results; behind them what to compare with
 * @own:	either of these two, which no command has both of
 * @heap:	allocated, and holds references; else on the stack of a doorbell
 * @tracked:	counted in its flow, until it is completed or dropped: enum treadle_track
 * @admitted:	its turn has come
 * @skipped:	F_REPEAT: it has not been executed this time, because of F_STRICT
 * @resting:	F_REPEAT: @cond and its threshold are those of @rest, and the other way round
 */
struct treadle_cmd {
	union {
		struct treadle_desc d;
		struct treadle_cq_node kept;
		struct treadle_recv as_recv;
	};
	union {
		struct treadle_armed armed;
		struct {
			struct rb_node by_context;
			union {
				struct list_head wait;
				struct treadle_msg *msg;
			};
		};
	};
	struct treadle_ep *ep;
	struct treadle_obj *cond, *rest;
	struct treadle_cntr *notify, *target;
	union treadle_slot *vec;
	union {
		struct treadle_recv *recv;
		u8 *inject;
		void *own;
	};
	struct treadle_tx *tx;
	int route;
	u32 port;
	u8 slots;
	u8 tracked;
	bool heap, admitted, resting, skipped;
};

/*
 * struct treadle_msg - a message on its way
 * @ref:	of an allocated one: the sender's path, or the queue, or the job
 * @job:	when a worker goes on with it
 * @m:		while unexpected
 * @to:		target; held if @heap
 * @cmd:	whose buffers to copy and whom to tell at delivery; NULL: the sender
 *		has been told, @payload has it all
 * @recv:	what it was matched with; @part: its bytes of a multi-receive
 * @done:	bytes copied, into @payload before and to @recv after the match
 * @port:	of the sender
 * @space:	which matcher: TREADLE_PLAIN, _TAGGED, _COLLECTIVE
 * @charge:	bytes of rx->buffered
 * @queued:	in to->rx's matcher (rx->lock), for anybody; @cmd is parked then (its endpoint's lock)
 * @claimed:	kept there for who has claimed it, and no more @queued (rx->lock)
 * @lent:	its place there is kept, as @recv is of another endpoint, and nobody else has it any more (rx->lock)
 * @payload:	the kernel's copy (behind this structure), or NULL
 */
struct treadle_msg {
	struct kref ref;
	struct treadle_job job;
	struct treadle_match_msg m;
	struct treadle_ep *to;
	struct treadle_cmd *cmd;
	struct treadle_recv *recv;
	u64 len, done, data;
	u32 flags, charge;
	u16 port;
	u8 space;
	bool queued, heap, claimed, lent;
	u8 *payload;
	struct treadle_iov part;
};

static inline const struct treadle_iov *treadle_cmd_iov(const struct treadle_cmd *cmd)
{
	static_assert(offsetof(struct treadle_desc, len) ==
		      offsetof(struct treadle_desc, addr) + offsetof(struct treadle_iov, len));
	return cmd->d.iov_count > 1 ? cmd->vec->iov : (const struct treadle_iov *)&cmd->d.addr;
}

/* Where a command's bytes come from, from offset @off on. */
static inline void treadle_cmd_span(const struct treadle_cmd *cmd, struct treadle_span *s, u64 off)
{
	if (cmd->inject)
		treadle_span_kernel(s, cmd->inject, off);
	else
		treadle_span_user(s, cmd->ep->obj.ctx, &cmd->ep->closed, treadle_cmd_iov(cmd),
				  cmd->d.iov_count, off);
}

/* Vectors, a slot each: buffers, remote ranges, results, what to compare with. */
static inline unsigned int treadle_cmd_vecs(const struct treadle_desc *d)
{
	unsigned int n = d->iov_count > 1;

	if (d->flags & TREADLE_F_EXT) {
		n += d->rma_iov_count > 1;
		if (d->fetch_iov_count > 1)
			n += 1 + (d->opcode == TREADLE_OP_COMPARE);
	}
	return n;
}

/* Remote ranges; one is made of the descriptor, in *one. */
static inline const struct treadle_rma_iov *
treadle_cmd_rma(const struct treadle_cmd *cmd, struct treadle_rma_iov *one, unsigned int *count)
{
	if ((cmd->d.flags & TREADLE_F_EXT) && cmd->d.rma_iov_count > 1) {
		*count = cmd->d.rma_iov_count;
		return cmd->vec[cmd->d.iov_count > 1].rma;
	}
	*one = (struct treadle_rma_iov){ cmd->d.remote_addr, cmd->d.len, cmd->d.remote_key };
	*count = 1;
	return one;
}

/* The buffers for results (0), or those to compare with (1); one is made of the descriptor. */
static inline const struct treadle_iov *treadle_cmd_fetch(const struct treadle_cmd *cmd, int which,
							  struct treadle_iov *one,
							  unsigned int *count)
{
	if (cmd->d.fetch_iov_count > 1) {
		*count = cmd->d.fetch_iov_count;
		return cmd->vec[(cmd->d.iov_count > 1) + (cmd->d.rma_iov_count > 1) + which].iov;
	}
	*one = (struct treadle_iov){ which ? cmd->d.compare : cmd->d.result, cmd->d.len };
	*count = 1;
	return one;
}

static inline bool treadle_op_remote(u8 opcode)
{
	return opcode >= TREADLE_OP_READ && opcode <= TREADLE_OP_COMPARE;
}

/* command.c; treadle_iov_judge(), treadle_take_inject(): submit.c */
extern struct kmem_cache *treadle_cmd_cache;
struct treadle_cmd *treadle_cmd_persist(struct treadle_cmd *cmd, gfp_t gfp,
					struct treadle_run *run);
int treadle_tx_reserve(struct treadle_tx *tx);
struct treadle_cmd *treadle_cmd_reserve(const struct treadle_cmd *cmd);
void treadle_cmd_fail_later(struct treadle_cmd *cmd, struct treadle_run *run);
void treadle_cmd_free(struct treadle_cmd *cmd);
void treadle_cmd_fail(struct treadle_cmd *cmd, int why, struct treadle_run *run);
int treadle_iov_judge(const struct treadle_iov *iov, unsigned int count, u64 len);
void *treadle_cmd_alloc(const struct treadle_cmd *cmd, size_t size, gfp_t gfp,
			struct treadle_run *run);
int treadle_take_inject(struct treadle_cmd *cmd, struct treadle_run *run);

/* flow.c */
struct treadle_cmd *treadle_flow_wait(struct treadle_cmd *cmd, struct treadle_run *run);

/* Mostly nothing is under way that a command might have to wait for. */
static __always_inline bool treadle_flow_idle(const struct treadle_cmd *cmd)
{
	const struct treadle_ep *ep = cmd->ep;

	return likely(!smp_load_acquire(&ep->nr_ordered)) &&
	       (likely(!(cmd->d.flags & TREADLE_F_FENCE)) || !smp_load_acquire(&ep->nr_flows));
}

static __always_inline struct treadle_cmd *treadle_flow_admit(struct treadle_cmd *cmd,
							      struct treadle_run *run)
{
	return treadle_flow_idle(cmd) ? cmd : treadle_flow_wait(cmd, run);
}
bool treadle_flow_track(struct treadle_cmd *cmd, enum treadle_track how, struct treadle_run *run);
void treadle_wait_add(struct rb_root *tree, struct treadle_cmd *cmd);
struct treadle_cmd *treadle_wait_find(const struct rb_root *tree, const u64 *context);
void treadle_flow_done(struct treadle_ep *ep, u32 port, enum treadle_track how,
		       struct treadle_run *run);
enum treadle_track treadle_flow_relax(struct treadle_ep *ep, u32 port);
bool treadle_flow_crowded(const struct treadle_cmd *cmd);
bool treadle_flow_cancel(struct treadle_ep *ep, u64 context, struct treadle_run *run);
void treadle_flow_drop(struct treadle_ep *ep, int error, struct treadle_run *run);

/*
 * struct treadle_rma - a command that works on a peer's memory by itself
 * @job:	when a worker goes on with it
 * @to:		target; held if @heap
 * @mr, @at:	regions (held), @count of them, and where in the target's memory: @parts
 * @done:	bytes transferred
 * @modified:	atomics: all has been done there, and @done counts results
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
int treadle_rma_prep(struct treadle_cmd *cmd);
void treadle_rma_issue(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_rma_judge_ranges(const struct treadle_cmd *cmd);
int treadle_rma_route(struct treadle_cmd *cmd);
bool treadle_rma_open(struct treadle_rma *rma, struct treadle_cmd *cmd, u32 access,
		      struct treadle_run *run);
void treadle_rma_span(const struct treadle_rma *rma, struct treadle_span *s, u64 off);
void treadle_rma_finish(struct treadle_rma *rma, int error, struct treadle_run *run);
void treadle_rma_defer(struct treadle_rma *m, struct treadle_ctx *ctx,
		       void (*fn)(struct treadle_job *job, struct treadle_run *run),
		       struct treadle_run *run);
int treadle_remote_error(const struct treadle_rma *rma, int error);
int treadle_rma_alive(const struct treadle_rma *rma);

/*
 * What is done in one step with a range of the memory of @to, which is at @at there: under the
 * locks, if no page is missing and the region is alive; else UNDONE: it is to be done from the begin.
 * OWED: it is done, but what was fetched, which is in the descriptor's data now, has to be delivered.
 */
enum treadle_step { TREADLE_UNDONE, TREADLE_DONE, TREADLE_OWED };
typedef enum treadle_step treadle_step_fn(struct treadle_cmd *cmd, const struct treadle_ep *to,
					  u64 at, const struct treadle_mr *mr,
					  const struct treadle_ctx *own);

/* Remote ranges are as long as the command: one is by definition. */
static __always_inline int treadle_rma_judge(const struct treadle_cmd *cmd)
{
	return unlikely(cmd->d.rma_iov_count > 1) ? treadle_rma_judge_ranges(cmd) : 0;
}

/* op_atomic.c */
extern const bool treadle_has_fp;
int treadle_atomic_prep(struct treadle_cmd *cmd);
void treadle_atomic_issue(struct treadle_cmd *cmd, struct treadle_run *run);

/* opdef.c: an opcode is a row, a prep (judges, changes nothing) and an issue */
struct treadle_opdef {
	u32 flags; /* TREADLE_F_* that it takes */
	bool data; /* has local buffers */
	bool needs_ep;
	bool receives; /* its completions go to the receive side */
	bool remote;   /* names remote memory */
	bool atomic;   /* and an operation on it */
	int (*prep)(struct treadle_cmd *cmd);
	void (*issue)(struct treadle_cmd *cmd, struct treadle_run *run);
};
extern const struct treadle_opdef treadle_opdefs[TREADLE_OP_LAST];
u64 treadle_opcodes(void);
u64 treadle_op_flags(void);

/* op_msg.c, op_cntr.c */
int treadle_route(struct treadle_cmd *cmd);
struct treadle_ep *treadle_find_target(const struct treadle_cmd *cmd);
int treadle_send_prep(struct treadle_cmd *cmd);
void treadle_send_issue(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_recv_prep(struct treadle_cmd *cmd);
void treadle_recv_issue(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_nop_prep(struct treadle_cmd *cmd);
void treadle_nop_issue(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_cntr_prep(struct treadle_cmd *cmd);
void treadle_cntr_issue(struct treadle_cmd *cmd, struct treadle_run *run);
void treadle_ep_withdraw(struct treadle_ep *ep, const u64 *context, int error, u64 max, u64 *count,
			 struct treadle_run *run);

static inline const struct treadle_iov *treadle_recv_iov(const struct treadle_recv *recv)
{
	if (likely(recv->iov_count <= 1))
		return &recv->one;
	return recv->cmd ? recv->cmd->vec->iov : recv->ext->iov;
}

/* receive.c; take to dequeue, and quiet to withdraw, under rx->lock */
struct treadle_recv *treadle_cmd_recv(struct treadle_cmd *cmd, int *error);
struct treadle_ep *treadle_rx_ep(struct treadle_rx *rx);
struct treadle_recv *treadle_rx_take(struct treadle_rx *rx, struct treadle_msg *msg,
				     struct treadle_run *run) __must_hold(&rx->lock);
void treadle_rx_place(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run);
struct treadle_recv *treadle_rx_match(struct treadle_rx *rx, struct treadle_msg *msg);
void treadle_rx_dequeue(struct treadle_rx *rx, struct treadle_msg *msg,
			const struct treadle_recv *recv);
bool treadle_rx_lends(const struct treadle_recv *recv, const struct treadle_msg *msg);
void treadle_rx_put_back(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run);
void treadle_rx_unfeed(struct treadle_recv *recv);
void treadle_rx_feed(struct treadle_rx *rx, struct treadle_run *run);
void treadle_rx_hand_over(struct treadle_rx *rx);
bool treadle_rx_behind(struct treadle_rx *rx);
bool treadle_rx_shut(struct treadle_rx *rx, const struct treadle_run *run);
int treadle_rx_doorbell(struct treadle_rx *rx);
void treadle_rx_quiet(struct treadle_rx *rx);
void treadle_rx_post(struct treadle_rx *rx, struct treadle_recv *recv);
void treadle_rx_withdraw(struct treadle_recv *recv);

/* queue.c */
void treadle_recv_free(struct treadle_recv *recv);
void treadle_rx_grow(struct treadle_rx *rx, u32 which, struct treadle_run *run);
bool treadle_rx_charge(struct treadle_rx *rx, u32 bytes);
void treadle_rx_uncharge(struct treadle_rx *rx, u32 bytes);

/* withdraw.c */
void treadle_rx_tell(struct treadle_recv *recv, struct treadle_ep *ep, int error,
		     struct treadle_run *run);
bool treadle_rx_cancel(struct treadle_rx *rx, struct treadle_ep *ep, u64 context,
		       struct treadle_run *run);
void treadle_rx_bereave(struct treadle_rx *rx, u32 port, const u64 *seq, int error,
			struct treadle_run *run);
void treadle_rx_detach(struct treadle_rx *rx, struct treadle_ep *ep, struct treadle_run *run);
void treadle_rx_mourn(struct treadle_rx *rx, struct treadle_ctx *ctx, struct treadle_run *run);
void treadle_rx_flush(struct treadle_rx *rx, struct treadle_ep *ep, u32 slot,
		      struct treadle_run *run);
void treadle_rx_flushed(struct treadle_rx *rx);

/* multi.c; cut and cancel under rx->lock */
bool treadle_multi_cut(struct treadle_recv *multi, struct treadle_msg *msg);
struct treadle_recv *treadle_multi_part(struct treadle_msg *msg, const struct treadle_run *run);
bool treadle_multi_finish(struct treadle_msg *msg, int error, struct treadle_run *run);
void treadle_multi_put_back(struct treadle_msg *msg, struct treadle_run *run);
void treadle_multi_uncut(struct treadle_msg *msg, struct treadle_recv *multi,
			 struct treadle_run *run);
bool treadle_multi_cancel(struct treadle_recv *multi, int error);
void treadle_multi_uncancel(struct treadle_recv *multi);

/* op_peek.c */
int treadle_peek_prep(const struct treadle_desc *d);
void treadle_peek_issue(struct treadle_recv *recv, struct treadle_ep *ep, struct treadle_run *run);

/* deliver.c */
void treadle_deliver(struct treadle_msg *msg, struct treadle_run *run);
void treadle_deliver_job(struct treadle_job *job, struct treadle_run *run);
void treadle_msg_put(struct treadle_msg *msg);
void treadle_msg_give_back(struct treadle_rx *rx, struct treadle_msg *msg, struct treadle_run *run)
	__must_hold(&rx->lock);

/* keep.c */
struct treadle_msg *treadle_msg_keepable(struct treadle_msg *m, struct treadle_run *run);
int treadle_msg_keep(struct treadle_rx *rx, struct treadle_msg *msg);
int treadle_msg_park(struct treadle_msg *msg);

/* What is not delivered is dropped, and the sender told of success: fi_domain(3), "DGRAM EP". */
static inline bool treadle_msg_is_lossy(const struct treadle_msg *m)
{
	return m->to->type == TREADLE_EP_DGRAM;
}

/*
 * Has its sender @from closed? Then what was before it in its order may have been taken back, under the lock under which it
 * has met a receive since (rx->lock). What was injected is on its way, and datagrams have no order.
 */
static inline bool treadle_msg_is_late(const struct treadle_msg *m, const struct treadle_ep *from)
{
	return unlikely(READ_ONCE(from->closed)) && !(m->flags & TREADLE_F_INJECT) &&
	       !treadle_msg_is_lossy(m);
}

/* complete.c */
bool treadle_cmd_heard(const struct treadle_cmd *cmd);
void treadle_cmd_complete(struct treadle_cmd *cmd, int error, struct treadle_run *run);
bool treadle_recv_tell(struct treadle_recv *recv, struct treadle_ep *ep,
		       const struct treadle_msg *msg, int error, struct treadle_run *run);
void treadle_recv_complete(struct treadle_recv *recv, struct treadle_ep *ep,
			   const struct treadle_msg *msg, int error, struct treadle_run *run);

/* The endpoint's counter of what peers do to its memory, or NULL. */
static inline struct treadle_cntr *treadle_target_cntr(const struct treadle_ep *to, u8 opcode)
{
	return opcode == TREADLE_OP_WRITE || opcode == TREADLE_OP_ATOMIC ? to->cntr_remote_write :
									   to->cntr_remote_read;
}

/*
 * One buffer, one range, and nothing in the way: then @step is all there is to a command, but for its
 * completion, and the region need not be held for it, as RCU keeps it. UNDONE: the long way, which
 * begins with treadle_rma_open(), does it, or says why not.
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
	seen = treadle_mr_peek(to, cmd, access);
	if (likely(seen.mr))
		done = step(cmd, to, seen.at, seen.mr, run->own);
	rcu_read_unlock();
	/* the target hears of it before the initiator does */
	cntr = done ? treadle_target_cntr(to, cmd->d.opcode) : NULL;
	if (unlikely(cntr))
		treadle_cntr_count(cntr, cmd->d.len, 0, run);
	treadle_ep_put(to);
	return done;
}

#endif
