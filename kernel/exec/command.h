/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: commands: the structures, and how commands are armed, fired and completed */
#ifndef TREADLE_COMMAND_H
#define TREADLE_COMMAND_H

#include <linux/nospec.h>
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
/* Kernel only: a collective message without payload; its data says why there is none. */
#define TREADLE_F_FAILURE (1U << 31)
/* Kernel only: a command from another node; its path ends it (struct treadle_path_ops). */
#define TREADLE_F_PROXY (1U << 30)
/* Kernel only, with F_PROXY: the bytes of the message are at the other node. */
#define TREADLE_F_PULL (1U << 29)
/* Longer copies go to a worker, so that a post returns soon. */
#define TREADLE_INLINE (1u << 20)

/*
 * struct treadle_polled - a transmit ring that a thread of the kernel looks at (polled.c)
 * @link:	in ctx->polls.rings (its lock); empty: the ring is not polled
 * @idle:	nanoseconds without a command until it is left alone; 0: the ring is not polled
 * @since:	when a command was taken last (thread only)
 * @seen:	ring.head after the last look (thread only)
 * @asleep:	the ring is left alone, and TREADLE_RING_DOORBELL is set (written by the thread)
 * @woken:	a doorbell was rung meanwhile (written under tx->lock)
 * @wakes:	how often the thread has begun to look (written by the thread)
 */
struct treadle_polled {
	struct list_head link;
	u64 idle, since, wakes;
	u32 seen;
	bool asleep, woken;
};

/*
 * struct treadle_tx - transmit ring
 * @lock:	held for a whole doorbell; protects ring.head
 * @shared:	TREADLE_TX_SHARED (constant)
 * @ep:		endpoint of descriptors that name none (set under ctx->lock, cleared under @lock)
 * @reserve:	memory of one command, for when a command on a doorbell's stack finds none: holds
 *		its completion or its failure message (under @lock; NULL until it is refilled)
 * @spare:	memory of a command that has ended, for the next one that leaves a doorbell's stack;
 *		or NULL. Exchanged without a lock
 * @counted:	statistics, from TREADLE_STAT_DOORBELLS on (written under @lock)
 * @ring:	descriptors
 * @polled:	for exec/polled.c
 */
struct treadle_tx {
	struct treadle_obj obj;
	struct mutex lock;
	bool shared;
	struct treadle_ep *ep;
	struct treadle_cmd *reserve, *spare;
	u64 counted[TREADLE_STAT_TX_END - TREADLE_STAT_DOORBELLS];
	struct treadle_ring ring;
	struct treadle_polled polled;
};

enum treadle_recv_kind {
	TREADLE_RECV_ONE,
	TREADLE_RECV_MULTI, /* takes several messages, see multi.c */
	TREADLE_RECV_PART,  /* the part of a TREADLE_RECV_MULTI that one message gets */
};

/*
 * struct treadle_recv - a posted receive
 * @m:		while it is posted
 * @node:	while its completion is kept
 * @next:	while it is free
 * @one:	the buffer; of a vector: no address, the total length
 * @cmd:	of an armed receive: the command; NULL: this is one of rx->slots, or a part
 * @ext:	of a vector in the ring: the second slot; its memory holds the vector
 * @awaiting:	of a collective receive: in ->awaited of its source (cmd->awaits)
 * @space:	its matcher: TREADLE_PLAIN, _TAGGED, _COLLECTIVE
 * @kind:	enum treadle_recv_kind
 * @multi:	of a part: the multi-receive
 *
 * Multi-receives only, under rx->lock; @one is the space that is left:
 * @min:	the receive ends when less is left
 * @parts:	parts that have not finished
 * @over:	takes no more messages; @error says why: 0 or -ECANCELED
 * @end_reported:	the completion of the last part reports the end, too
 *
 * Each slot of the ring has one, and each command: neither taking a receive off the ring nor firing
 * one allocates.
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
		struct {
			union {
				struct treadle_rx_slot *ext;
				struct treadle_recv *multi;
				u64 min;
			};
			u32 parts;
			s16 error;
			bool over, end_reported;
		};
		struct list_head awaiting;
	};
	u32 flags;
	u8 iov_count, space, kind;
};
/* treadle_cmd.as_recv lies over the command's descriptor. */
static_assert(sizeof(struct treadle_recv) <= sizeof(struct treadle_desc));

/*
 * enum treadle_verdict - what a stage says about its command. A negative errno: it has failed
 * @TREADLE_GO_ON:	the next stage follows; after the last one, the completion
 * @TREADLE_KEPT:	it waits off the stack, or has ended: the caller does not touch it any more
 * @TREADLE_DEFER_HERE:	the worker of the initiator's context has to go on
 * @TREADLE_DEFER_THERE: the worker of the target's context has to go on
 */
enum treadle_verdict {
	TREADLE_GO_ON,
	TREADLE_KEPT,
	TREADLE_DEFER_HERE,
	TREADLE_DEFER_THERE,
};

/*
 * enum treadle_track - what waits for a command that goes on elsewhere
 * @TREADLE_UNTRACKED:	nothing
 * @TREADLE_FENCED:	commands with F_FENCE
 * @TREADLE_CROWDED:	these, and later sends are not buffered by the receiver before this one
 * @TREADLE_AWAITED:	all later commands of the flow
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
 * @kept:	a completion that did not fit into the queue
 * @as_recv:	the receive that a receive command becomes when it is issued, unless it repeats
 * @armed:	while it is armed: its place in the trigger's tree; of a posted receive: in
 *		rx->armed
 * @by_context:	after that: in ep->waiting with @wait, while it waits for its turn (flow.c); in
 *		ep->parked with @msg, while its message waits at a peer, or for another node, with
 *		@wait or @reference. Receives: only @wait, in own->feeding
 * @ep:		endpoint, or NULL (counter operations)
 * @cond:	the counter or cells it is armed on, bound while it is armed; F_REPEAT: until it is
 *		dropped
 * @rest:	F_REPEAT: the second counter, which takes turns with @cond; bound, or NULL
 * @notify:	counter that counts its end, bound, or NULL
 * @target:	counter that it changes, bound, or NULL
 * @awaits:	of a posted collective receive: the source that has it in ->awaited, not held, or
 *		NULL (under rx->lock and ep->lock of the source)
 * @vec:	the slots behind the descriptor; on the caller's stack, or allocated with @heap
 * @recv:	in rx->armed or own->feeding: the posted receive; F_REPEAT: whenever it is under way
 * @inject:	F_INJECT, armed or delayed: the bytes, taken within the doorbell;
 *		atomics: operands, then results, then comparands
 * @own:	@recv or @inject, for kfree(); no command has both
 * @path:	enum treadle_path: how it reaches its peer
 * @tx, @slots:	ring, and the credits that it gets back at the end
 * @route:	0: @dest is valid; else the error. Receives: likewise, of the sender that they name
 * @dest:	where the command goes: treadle_dest()
 * @heap:	allocated and holds references; else on the stack of a doorbell
 * @tracked:	enum treadle_track: counted in its flow until it is completed or dropped
 * @admitted:	its turn has come; it waits no more in its flow
 * @skipped:	F_REPEAT: not executed this time, because of F_STRICT
 * @resting:	F_REPEAT: @cond and @rest, and their thresholds, are swapped
 * @marks:	all bits that follow:
 * @in_pieces:	for another node (path/remote.c): @own is a struct treadle_push, until it is @sent
 * @sent:	the other node has it, by the name @reference
 * @asked:	the other node was asked to cancel it
 * @traced:	a tracepoint has named it: d.reserved1 is its number
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
				u32 reference;
			};
		};
	};
	struct treadle_ep *ep;
	struct treadle_obj *cond, *rest;
	struct treadle_cntr *notify;
	union {
		struct treadle_cntr *target;
		struct treadle_ep *awaits;
	};
	union treadle_slot *vec;
	union {
		struct treadle_recv *recv;
		u8 *inject;
		void *own;
	};
	struct treadle_tx *tx;
	u64 dest;
	s16 route;
	u8 slots;
	u8 tracked;
	u8 path;
	bool heap, admitted;
	union {
		u8 marks;
		struct {
			u8 resting : 1, skipped : 1;			 /* F_REPEAT */
			u8 in_pieces : 1, sent : 1, asked : 1, held : 1; /* at another node */
			u8 traced : 1;
		};
	};
};

/* The number that tracepoints have given a command, or 0. A posted receive has none. */
static inline u32 treadle_cmd_traced(const struct treadle_cmd *cmd)
{
	return cmd->traced ? cmd->d.reserved1 : 0;
}

static inline const struct treadle_iov *treadle_cmd_iov(const struct treadle_cmd *cmd)
{
	static_assert(offsetof(struct treadle_desc, len) ==
		      offsetof(struct treadle_desc, addr) + offsetof(struct treadle_iov, len));
	return cmd->d.iov_count > 1 ? cmd->vec->iov : (const struct treadle_iov *)&cmd->d.addr;
}

/**
 * treadle_cmd_span() - where a command's bytes come from
 * @cmd: the command; has an endpoint, or injected bytes
 * @s:	 set to the injected bytes, or the process's buffers
 * @off: offset at which @s begins
 *
 * Context: any.
 */
static inline void treadle_cmd_span(const struct treadle_cmd *cmd, struct treadle_span *s, u64 off)
{
	if (cmd->inject)
		treadle_span_kernel(s, cmd->inject, off);
	else
		treadle_span_user(s, cmd->ep->obj.ctx, &cmd->ep->closed, treadle_cmd_iov(cmd),
				  cmd->d.iov_count, off);
	s->msg = treadle_cmd_traced(cmd);
}

/* How many vectors follow: buffers, remote ranges, results, comparands. Each takes a slot. */
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

/* The remote ranges and their @count; a single one is built from the descriptor, in *@one. */
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

/*
 * The buffers for results (@which 0) or for comparands (1), and their @count; a single one is built
 * from the descriptor, in *@one.
 */
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
int treadle_cmd_leave(struct treadle_cmd **cmd, enum treadle_track how, struct treadle_run *run);
void *treadle_cmd_carry(struct treadle_cmd **cmd, const void *state, size_t size,
			enum treadle_track how, struct treadle_run *run);
int treadle_tx_refill(struct treadle_tx *tx);
struct treadle_cmd *treadle_cmd_take_reserve(const struct treadle_cmd *cmd);
void treadle_cmd_fail_later(struct treadle_cmd *cmd, struct treadle_run *run);
void treadle_cmd_free(struct treadle_cmd *cmd);
void treadle_cmd_fail(struct treadle_cmd *cmd, int why, struct treadle_run *run);
int treadle_iov_validate(const struct treadle_iov *iov, unsigned int count, u64 len);
void *treadle_cmd_alloc(const struct treadle_cmd *cmd, size_t size, gfp_t gfp,
			struct treadle_run *run);
int treadle_cmd_read(const struct treadle_cmd *cmd, u8 *to, u64 at, u64 *done, u64 len, bool holds,
		     struct treadle_run *run);
int treadle_take_inject(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_cmd_issue_later(struct treadle_cmd **cmd, struct treadle_run *run);

/* flow.c */
int treadle_flow_wait(struct treadle_cmd **cmd, struct treadle_run *run);

/*
 * True: nothing is under way that @cmd might have to wait for (the common case). The acquiring
 * loads pair with flow_update(): the caller sees what finished commands have written.
 */
static __always_inline bool treadle_flow_idle(const struct treadle_cmd *cmd)
{
	const struct treadle_ep *ep = cmd->ep;

	return likely(!smp_load_acquire(&ep->nr_ordered)) &&
	       (likely(!(cmd->d.flags & TREADLE_F_FENCE)) || !smp_load_acquire(&ep->nr_flows));
}

/* The same as treadle_flow_wait(), without a call in the common case. */
static __always_inline int treadle_flow_admit(struct treadle_cmd **cmd, struct treadle_run *run)
{
	return treadle_flow_idle(*cmd) ? TREADLE_GO_ON : treadle_flow_wait(cmd, run);
}
bool treadle_flow_track(struct treadle_cmd *cmd, enum treadle_track how, struct treadle_run *run);
void treadle_flow_done(struct treadle_ep *ep, u64 dest, enum treadle_track how,
		       struct treadle_run *run);
enum treadle_track treadle_flow_relax(struct treadle_ep *ep, u64 dest);
bool treadle_flow_crowded(const struct treadle_cmd *cmd);
bool treadle_flow_cancel(struct treadle_ep *ep, u64 context, struct treadle_run *run);
void treadle_flow_drop(struct treadle_ep *ep, int error, struct treadle_run *run);

/* For trees: less than, equal to, or greater than 0, as @a is to @b. */
static inline int treadle_order(u64 a, u64 b)
{
	return a < b ? -1 : a > b;
}

/* waiting.c */
void treadle_wait_add(struct rb_root *tree, struct treadle_cmd *cmd);
struct treadle_cmd *treadle_wait_find(const struct rb_root *tree, const u64 *context);
void treadle_ep_withdraw(struct treadle_ep *ep, const u64 *context, int error, u64 max, u64 *count,
			 struct treadle_run *run);

/*
 * struct treadle_opdef - an opcode: a row of the table, filled in path/opdef.c, where all
 * operations are known
 * @flags:	TREADLE_F_* that it takes
 * @data:	has local buffers
 * @needs_ep:	needs an endpoint
 * @routed:	goes to a peer
 * @receives:	its completions go to the receive side
 * @remote:	names remote memory
 * @atomic:	and an operation on it
 * @validate:	checks the descriptor by itself, and its endpoint. 0 or a negative errno
 * @bind:	binds what the command needs; its peer is known (optional). 0 or a negative errno
 * @is_long:	issuing may take very long, so a peer must not do it (optional). Under the trigger's
 *		lock
 */
struct treadle_opdef {
	u32 flags;
	bool data;
	bool needs_ep;
	bool routed;
	bool receives;
	bool remote;
	bool atomic;
	int (*validate)(struct treadle_cmd *cmd);
	int (*bind)(struct treadle_cmd *cmd);
	bool (*is_long)(const struct treadle_cmd *cmd);
};
extern const struct treadle_opdef treadle_opdefs[TREADLE_OP_LAST];

/*
 * enum treadle_withdrawn - what became of a command that should be taken back
 * @TREADLE_NOT_HERE:	a receive has matched it, or it is gone: there may be another one
 * @TREADLE_OURS:	it is the caller's again
 * @TREADLE_ASKED:	the other node has it, and was asked: its answer ends the command
 */
enum treadle_withdrawn { TREADLE_NOT_HERE, TREADLE_OURS, TREADLE_ASKED };

/*
 * struct treadle_path_ops - a way to reach a peer: a row of treadle_paths[], filled in path/opdef.c
 * @issue:	by opcode: starts the command, and consumes it. May sleep
 * @withdraw:	takes back a command in ep->parked. Its ep->lock is held, and may be dropped
 *
 * Only for F_PROXY, with which commands are not counted, and have no completion here:
 * @complete:	tells the other node that the command has ended; frees it
 * @leave:	a command on the stack will go on elsewhere: keep its bytes. 0 or -ENOMEM. May sleep
 * @release:	the command is freed: keep what is not its own
 */
struct treadle_path_ops {
	void (*issue[TREADLE_OP_LAST])(struct treadle_cmd *cmd, struct treadle_run *run);
	enum treadle_withdrawn (*withdraw)(struct treadle_cmd *cmd);
	void (*complete)(struct treadle_cmd *cmd, int error, struct treadle_run *run);
	int (*leave)(struct treadle_cmd *cmd, struct treadle_run *run);
	void (*release)(struct treadle_cmd *cmd);
};
enum treadle_path { TREADLE_PATH_LOCAL, TREADLE_PATH_REMOTE, TREADLE_PATH_PROXY, TREADLE_PATHS };
extern const struct treadle_path_ops *const treadle_paths[TREADLE_PATHS];

/* Start a command, which is consumed. May sleep. */
static __always_inline void treadle_cmd_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	treadle_paths[cmd->path]->issue[array_index_nospec(cmd->d.opcode, TREADLE_OP_LAST)](cmd,
											    run);
}

/* op_cntr.c */
int treadle_nop_validate(struct treadle_cmd *cmd);
void treadle_nop_issue(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_cntr_validate(struct treadle_cmd *cmd);
int treadle_cntr_bind(struct treadle_cmd *cmd);
void treadle_cntr_issue(struct treadle_cmd *cmd, struct treadle_run *run);

/* fire.c */
void treadle_cntr_arm(struct treadle_cmd *cmd, struct treadle_run *run);
void treadle_cntr_again(struct treadle_cmd *cmd, struct treadle_run *run);

/* complete.c */
bool treadle_cmd_heard(const struct treadle_cmd *cmd);
void treadle_cmd_complete(struct treadle_cmd *cmd, int error, struct treadle_run *run);
void treadle_cmd_again(struct treadle_cmd *cmd, u64 len, int error, struct treadle_run *run);

/*
 * True if @cmd, which has @flags, is armed again when it ends. False if it has not been armed (not
 * on the heap) or was taken off its trigger, which clears @cond.
 */
static __always_inline bool treadle_cmd_repeats(const struct treadle_cmd *cmd, u32 flags)
{
	return unlikely(flags & TREADLE_F_REPEAT) && cmd->heap && cmd->cond;
}

/* Does @cmd let a counter follow a cell? Then it stays armed. */
static inline bool treadle_cmd_follows(const struct treadle_cmd *cmd)
{
	const u32 both = TREADLE_F_COND_CELL | TREADLE_F_REPEAT;

	return (cmd->d.flags & both) == both;
}

/* Where what happens to @cmd is counted. @ctx: of its condition, if it has no endpoint. */
static inline const struct treadle_stats *treadle_cmd_stats(const struct treadle_cmd *cmd,
							    const struct treadle_ctx *ctx)
{
	return cmd->ep ? &cmd->ep->obj.stats : &ctx->sums.stats;
}

/*
 * Count an operation of an endpoint that has succeeded, before its completion: a process that has
 * seen that finds it counted. Paths that matter do the same in fewer instructions.
 */
static inline void treadle_cmd_count(const struct treadle_cmd *cmd)
{
	bool collective = cmd->d.flags & TREADLE_F_COLLECTIVE && cmd->d.opcode == TREADLE_OP_TSEND;
	u32 op = collective ? TREADLE_STAT_COLLECTIVE : cmd->d.opcode;

	if (!(cmd->d.flags & TREADLE_F_PROXY)) {
		treadle_stat_add(&cmd->ep->obj.stats, TREADLE_STAT_OUT + op, 1);
		treadle_stat_add(&cmd->ep->obj.stats, TREADLE_STAT_OUT_BYTES + op, cmd->d.len);
	}
}

/* submit.c, tx.c, poller.c, polled.c */
extern const struct treadle_obj_ops treadle_tx_ops;
long treadle_doorbell(struct treadle_ctx *ctx, u32 id);
int treadle_cmd_aim(struct treadle_cmd *cmd);
long treadle_tx_take(struct treadle_tx *tx, struct treadle_run *run, int most);
void treadle_polling_init(struct treadle_ctx *ctx);
void treadle_polled_join(struct treadle_tx *tx);
void treadle_polled_leave(struct treadle_tx *tx);
long treadle_polled_doorbell(struct treadle_obj *obj);

static __always_inline void treadle_tx_count(struct treadle_tx *tx, enum treadle_stat stat, u64 n)
{
	u64 *counted = &tx->counted[stat - TREADLE_STAT_DOORBELLS];

	lockdep_assert_held(&tx->lock);
	WRITE_ONCE(*counted, *counted + n);
}

int treadle_ioc_tx_create(struct treadle_ucmd *u);
int treadle_ioc_cell_create(struct treadle_ucmd *u);
int treadle_ioc_cntr_copy(struct treadle_ucmd *u);

#endif
