/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: commands and messages (submit.c, opdef.c, op_*.c, receive.c, deliver.c, complete.c) */
#ifndef TREADLE_COMMAND_H
#define TREADLE_COMMAND_H

#include "endpoint.h"

#define TREADLE_MAX_MSG (1ULL << 32)
#define TREADLE_EAGER	4096u /* longer unexpected messages stay with the sender */
/* Longer copies go to a worker, so that a post never holds its caller long. */
#define TREADLE_INLINE (1u << 20)

/*
 * struct treadle_cmd - a command
 * @d:		the kernel's copy of the descriptor
 * @kept:	a completion that did not fit
 * @armed:	its place on @cond
 * @ep:		endpoint, or NULL (counter operations)
 * @iov:	vector of more than one buffer: on the caller's stack, or allocated
 * @recv:	armed receives: the receive that will be posted
 * @tx, @slots:	credits to give back at the end
 * @route, @port: sends: 0 and where to, or why not
 * @inject:	F_INJECT, armed or delayed: the bytes, taken within the doorbell
 * @heap:	allocated, and holds references; else on the stack of a doorbell
 */
struct treadle_cmd {
	union {
		struct treadle_desc d;
		struct treadle_cq_node kept;
	};
	struct treadle_armed armed;
	struct treadle_ep *ep;
	struct treadle_cntr *cond, *notify, *target;
	struct treadle_iov *iov;
	struct treadle_recv *recv;
	struct treadle_tx *tx;
	u8 *inject;
	int route;
	u16 port;
	u8 slots;
	bool heap;
};

/*
 * struct treadle_msg - a message on its way
 * @ref:	of an allocated one: the sender's path, or the queue, or the job
 * @job:	when a worker goes on with it
 * @m:		while unexpected
 * @parked:	on cmd->ep->parked (its lock) while queued with its command
 * @to:		target; held if @heap
 * @cmd:	whose buffers to copy and whom to tell at delivery; NULL: the sender
 *		has been told, @payload has it all
 * @recv:	what it was matched with; @part: its bytes of a multi-receive
 * @done:	bytes copied, into @payload before and to @recv after the match
 * @port:	of the sender
 * @charge:	bytes of rx->buffered
 * @queued:	in to->rx's matcher (rx->lock)
 * @claimed:	kept there for who has claimed it (rx->lock)
 * @payload:	the kernel's copy (behind this structure), or NULL
 */
struct treadle_msg {
	struct kref ref;
	struct treadle_job job;
	struct treadle_match_msg m;
	struct list_head parked;
	struct treadle_ep *to;
	struct treadle_cmd *cmd;
	struct treadle_recv *recv;
	u64 len, done, data;
	u32 flags, charge;
	u16 port;
	bool tagged, queued, heap, claimed;
	u8 *payload;
	struct treadle_iov part;
};

static inline const struct treadle_iov *treadle_cmd_iov(const struct treadle_cmd *cmd)
{
	static_assert(offsetof(struct treadle_desc, len) ==
		      offsetof(struct treadle_desc, addr) + offsetof(struct treadle_iov, len));
	return cmd->iov ?: (const struct treadle_iov *)&cmd->d.addr;
}

/* Where a command's bytes come from, from offset @off on. */
static inline void treadle_cmd_span(const struct treadle_cmd *cmd, struct treadle_span *s, u64 off)
{
	if (cmd->inject)
		treadle_span_kernel(s, cmd->inject, off);
	else
		treadle_span_user(s, &cmd->ep->obj.ctx->pm, treadle_cmd_iov(cmd), cmd->d.iov_count,
				  off);
}

/* submit.c */
extern struct kmem_cache *treadle_cmd_cache;
struct treadle_cmd *treadle_cmd_persist(struct treadle_cmd *cmd, gfp_t gfp);
void treadle_cmd_free(struct treadle_cmd *cmd);
int treadle_take_inject(struct treadle_cmd *cmd, struct treadle_run *run);

/* opdef.c: an opcode is a row, a prep (judges, changes nothing) and an issue */
struct treadle_opdef {
	u32 flags; /* TREADLE_F_* that it takes */
	bool data; /* has local buffers */
	bool needs_ep;
	bool receives; /* its completions go to the receive side */
	int (*prep)(struct treadle_cmd *cmd);
	void (*issue)(struct treadle_cmd *cmd, struct treadle_run *run);
};
extern const struct treadle_opdef treadle_opdefs[TREADLE_OP_LAST];
u64 treadle_opcodes(void);
u64 treadle_op_flags(void);

/* op_msg.c, op_cntr.c */
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
	return recv->cmd ? recv->cmd->iov : recv->ext->iov;
}

/* receive.c; take, place, match, put_back and dequeue under rx->lock */
int treadle_recv_set(struct treadle_recv *recv, struct treadle_ep *ep,
		     const struct treadle_desc *d);
struct treadle_recv *treadle_rx_take(struct treadle_rx *rx, struct treadle_msg *msg,
				     struct treadle_run *run) __must_hold(&rx->lock);
void treadle_rx_place(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run);
struct treadle_recv *treadle_rx_match(struct treadle_rx *rx, struct treadle_msg *msg);
void treadle_rx_dequeue(struct treadle_rx *rx, struct treadle_msg *msg);
void treadle_rx_put_back(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run);
void treadle_rx_grow(struct treadle_rx *rx, u32 which);
bool treadle_rx_cancel(struct treadle_rx *rx, struct treadle_ep *ep, u64 context,
		       struct treadle_run *run);
void treadle_rx_detach(struct treadle_rx *rx, struct treadle_ep *ep, struct treadle_run *run);
int treadle_rx_doorbell(struct treadle_rx *rx);
void treadle_recv_free(struct treadle_recv *recv);

/* multi.c; cut and cancel under rx->lock */
bool treadle_multi_cut(struct treadle_recv *multi, struct treadle_msg *msg);
struct treadle_recv *treadle_multi_part(struct treadle_msg *msg);
void treadle_multi_finish(struct treadle_msg *msg, int error, struct treadle_run *run);
void treadle_multi_put_back(struct treadle_msg *msg, struct treadle_run *run);
bool treadle_multi_cancel(struct treadle_recv *multi, int error);

/* op_peek.c */
int treadle_peek_prep(const struct treadle_desc *d);
void treadle_peek_issue(struct treadle_recv *recv, struct treadle_ep *ep, struct treadle_run *run);

/* deliver.c */
void treadle_deliver(struct treadle_msg *msg, struct treadle_run *run);
void treadle_deliver_job(struct treadle_job *job, struct treadle_run *run);
void treadle_msg_put(struct treadle_msg *msg);

/* complete.c */
void treadle_cmd_complete(struct treadle_cmd *cmd, int error, struct treadle_run *run);
void treadle_recv_complete(struct treadle_recv *recv, struct treadle_ep *ep,
			   const struct treadle_msg *msg, int error, struct treadle_run *run);

#endif
