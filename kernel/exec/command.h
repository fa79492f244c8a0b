/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: commands: what they are, how they are armed, fired and completed */
#ifndef TREADLE_COMMAND_H
#define TREADLE_COMMAND_H

#include <linux/overflow.h>

#include <treadle/atomic.h>

#include "copy/mr.h"
#include "copy/transfer.h"
#include "exec/trigger.h"
#include "names/names.h"
#include "notify/counter.h"
#include "notify/cq.h"
#include "pure/match.h"

struct treadle_msg;

#define TREADLE_F_COND (TREADLE_F_COND_CNTR | TREADLE_F_COND_CELL)

#define TREADLE_MAX_MSG (1ULL << 32)
#define TREADLE_EAGER	4096u /* longer unexpected messages stay with the sender */
/* Flag of a collective message that only says why there is none, in its data; the kernel's own. */
#define TREADLE_F_FAILURE (1U << 31)
/* Longer copies go to a worker, so that a post never holds its caller long. */
#define TREADLE_INLINE (1u << 20)

/*
 * struct treadle_tx - transmit ring
 * @lock:	one doorbell at a time; ring.head
 * @ep:		endpoint of descriptors that name none (set under ctx->lock,
 *		cleared under @lock)
 * @reserve:	for the one command that a doorbell has on its stack, where no memory is to be had: it
 *		keeps the completion, or what is told to the peer (under @lock; NULL only in between)
 */
struct treadle_tx {
	struct treadle_obj obj;
	struct mutex lock;
	bool shared;
	struct treadle_ep *ep;
	struct treadle_cmd *reserve;
	struct treadle_ring ring;
};

enum treadle_recv_kind {
	TREADLE_RECV_ONE,
	TREADLE_RECV_MULTI, /* takes several messages, see multi.c */
	TREADLE_RECV_PART,  /* what one of them gets of it */
};

/*
 * struct treadle_recv - a posted receive
 * @m:		while posted; @node: when its completion did not fit; @next: free
 * @one:	the buffer; of a vector without an address, and of all its length
 * @cmd:	was armed: whom to notify; NULL: one of rx->slots, or a part
 * @ext:	of a vector in the ring: the second slot, whose memory holds it
 * @space:	which matcher: TREADLE_PLAIN, _TAGGED, _COLLECTIVE
 * @kind:	enum treadle_recv_kind
 * @multi:	of a part: what it is a part of
 *
 * Of a multi-receive (rx->lock), whose @one is what is left:
 * @min:	it ends when less is left
 * @parts:	parts that have not finished
 * @over:	it takes no more messages; with @error: 0 or -ECANCELED
 * @told:	its last part has said so
 *
 * There is one for each slot of the ring, and one in each command, so that neither taking a
 * receive off the ring nor firing one needs memory.
 */
struct treadle_recv {
	union {
		struct {
			struct treadle_match_recv m;
			u64 context;
			struct treadle_iov one;
		};
		struct treadle_cq_node node;
		struct treadle_recv *next;
	};
	struct treadle_rx *rx;
	struct treadle_cmd *cmd;
	union {
		struct treadle_rx_slot *ext;
		struct treadle_recv *multi;
		u64 min;
	};
	u32 flags, parts;
	s16 error;
	u8 iov_count, space, kind;
	bool over, told;
};
/* It lies over the descriptor of its command. */
static_assert(sizeof(struct treadle_recv) <= sizeof(struct treadle_desc));

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

/* command.c; reserve: tx.c */
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
 * An opcode is a row, a prep (judges, changes nothing) and an issue. The table is declared here, and filled where all
 * operations are known: path/opdef.c.
 */
struct treadle_opdef {
	u32 flags; /* TREADLE_F_* that it takes */
	bool data; /* has local buffers */
	bool needs_ep;
	bool receives; /* its completions go to the receive side */
	bool remote;   /* names remote memory */
	bool atomic;   /* and an operation on it */
	int (*prep)(struct treadle_cmd *cmd);
	void (*issue)(struct treadle_cmd *cmd, struct treadle_run *run);
	/* issuing it may take very long, so it is not for a peer (optional). Under the lock of its trigger */
	bool (*is_long)(const struct treadle_cmd *cmd);
};
extern const struct treadle_opdef treadle_opdefs[TREADLE_OP_LAST];
/* op_cntr.c */
int treadle_nop_prep(struct treadle_cmd *cmd);
void treadle_nop_issue(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_cntr_prep(struct treadle_cmd *cmd);
void treadle_cntr_issue(struct treadle_cmd *cmd, struct treadle_run *run);

/* fire.c */
void treadle_cntr_arm(struct treadle_cmd *cmd, struct treadle_run *run);
void treadle_cntr_again(struct treadle_cmd *cmd, struct treadle_run *run);

/* complete.c */
bool treadle_cmd_heard(const struct treadle_cmd *cmd);
void treadle_cmd_complete(struct treadle_cmd *cmd, int error, struct treadle_run *run);
void treadle_cmd_again(struct treadle_cmd *cmd, u64 len, int error, struct treadle_run *run);

/* It has fired, and was not taken off since: then its condition would be gone. */
static __always_inline bool treadle_cmd_repeats(const struct treadle_cmd *cmd, u32 flags)
{
	return unlikely(flags & TREADLE_F_REPEAT) && cmd->heap && cmd->cond;
}

/* submit.c, tx.c, poller.c */
long treadle_doorbell(struct treadle_ctx *ctx, u32 id);
int treadle_ioc_tx_create(struct treadle_ucmd *u);
int treadle_ioc_cell_create(struct treadle_ucmd *u);

#endif
