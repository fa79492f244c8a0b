// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: completions, overflow, and what a finished command notifies
 *
 * A completion ring never loses an entry. What does not fit waits on a list; the
 * memory for it is that of the finished command or receive itself, or, for a
 * command on the stack of a doorbell, allocated by that caller, who may sleep, or the
 * reserve of its ring.
 */
#include <linux/memcontrol.h>
#include <linux/nospec.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "treadle.h"

#define FLUSH_BATCH 64 /* under one hold of the lock */

static struct treadle_cq_prod *cq_prod(struct treadle_cq *cq)
{
	return cq->ro.addr;
}

/* E: acquire. What is out of range counts as a full ring: only its owner is harmed. */
static bool cq_room(struct treadle_cq *cq)
{
	const struct treadle_cq_cons *user = cq->rw.addr;

	return cq->prod - smp_load_acquire(&user->cons) <= cq->mask;
}

static struct treadle_cqe *cq_slot(struct treadle_cq *cq)
{
	return &cq->cqes[cq->prod & cq->mask];
}

static void cq_publish(struct treadle_cq *cq)
{
	cq->prod++;
	smp_store_release(&cq_prod(cq)->prod, cq->prod); /* D */
}

/* Move kept completions into the ring, and those whose memory is free now to @done. True: there is more to move. */
static bool cq_flush_some(struct treadle_cq *cq, struct list_head *done)
{
	struct treadle_cq_node *node;
	int n = 0;

	while (!list_empty(&cq->overflow) && cq_room(cq)) {
		if (n++ == FLUSH_BATCH)
			return true;
		node = list_first_entry(&cq->overflow, struct treadle_cq_node, link);
		*cq_slot(cq) = node->cqe;
		cq_publish(cq);
		list_move_tail(&node->link, done);
		WRITE_ONCE(cq->kept, cq->kept - 1);
	}
	if (list_empty(&cq->overflow))
		WRITE_ONCE(cq_prod(cq)->flags, 0);
	return false;
}

static void cq_free_nodes(struct list_head *done)
{
	struct treadle_cq_node *node, *next;

	list_for_each_entry_safe(node, next, done, link) {
		list_del(&node->link);
		node->memory->free(node);
		cond_resched();
	}
}

/* As much as there is room for. Without locks; may sleep. */
void treadle_cq_flush(struct treadle_cq *cq)
{
	bool more, awaited;
	LIST_HEAD(done);

	do {
		spin_lock(&cq->lock);
		more = cq_flush_some(cq, &done);
		/* who looks at the ring, and then whether anything is kept, may miss what goes from there to here */
		awaited = !list_empty(&done) && treadle_awaited(&cq->waitq);
		spin_unlock(&cq->lock);
		cq_free_nodes(&done);
		treadle_wake(&cq->waitq, awaited);
	} while (more && !fatal_signal_pending(current));
}

/* Nobody reads it any more; who comes later drops what he has. */
void treadle_cq_shutdown(struct treadle_cq *cq)
{
	LIST_HEAD(done);

	spin_lock(&cq->lock);
	cq->dead = true;
	WRITE_ONCE(cq->kept, 0);
	list_splice_init(&cq->overflow, &done);
	spin_unlock(&cq->lock);
	cq_free_nodes(&done);
}

static void node_kfree(struct treadle_cq_node *node)
{
	kfree(node);
}

/*
 * Where to write a completion of @ep, under cq->lock, or NULL; mostly nothing is kept and there is room.
 */
static __always_inline struct treadle_cqe *cq_place(struct treadle_cq *cq,
						    const struct treadle_ep *ep)
{
	return likely(!cq->kept && !cq->dead && !READ_ONCE(ep->dead) && cq_room(cq)) ? cq_slot(cq) :
										       NULL;
}

/* What became of a completion. CQ_CLOSED: its endpoint is closed, CQ_NOMEM: no memory; nothing was done. */
enum cq_fate { CQ_DONE, CQ_KEPT, CQ_CLOSED, CQ_NOMEM };

/* What cq_place() said is written: show it, and let go of cq->lock. False: cq_keep() it. */
static __always_inline bool cq_placed(struct treadle_cq *cq, const struct treadle_cqe *cqe)
	__releases(&cq->lock)
{
	bool awaited = false;

	if (likely(cqe)) {
		cq_publish(cq);
		awaited = treadle_awaited(&cq->waitq);
	}
	spin_unlock(&cq->lock);
	treadle_wake(&cq->waitq, awaited);
	return likely(cqe);
}

/*
 * Write a completion of @ep, or keep it; if nobody reads the queue any more, drop it.
 * @node: @memory to keep it in if it does not fit, not touched before; or NULL: allocate then (may sleep)
 *
 * CQ_KEPT: @node is in use until it is freed. That may be at once, by
 * whoever reads, and with it goes what has held the endpoint and this queue.
 */
static noinline enum cq_fate cq_keep(struct treadle_cq *cq, const struct treadle_ep *ep,
				     const struct treadle_cqe *cqe, struct treadle_cq_node *node,
				     const struct treadle_cq_memory *memory)
{
	static const struct treadle_cq_memory allocated = { .free = node_kfree };
	struct treadle_cq_node *spare = NULL;
	enum cq_fate fate = CQ_DONE;
	struct mem_cgroup *old;
	bool awaited;
	LIST_HEAD(done);

	kref_get(&cq->obj.ref);
	for (;;) {
		spin_lock(&cq->lock);
		if (unlikely(READ_ONCE(ep->dead))) { /* first: then its queue may be closed, too */
			fate = CQ_CLOSED;
			break;
		}
		if (unlikely(cq->dead))
			break;
		if (unlikely(cq->kept))
			cq_flush_some(cq, &done);
		if (likely(list_empty(&cq->overflow) && cq_room(cq))) {
			*cq_slot(cq) = *cqe;
			cq_publish(cq);
			break;
		}
		if (node || spare) {
			if (node) {
				fate = CQ_KEPT;
			} else {
				node = spare;
				spare = NULL;
				memory = &allocated;
			}
			if (memory->keep)
				memory->keep(node);
			node->memory = memory;
			node->cqe = *cqe;
			list_add_tail(&node->link, &cq->overflow);
			WRITE_ONCE(cq->kept, cq->kept + 1);
			WRITE_ONCE(cq_prod(cq)->flags, TREADLE_CQ_OVERFLOW);
			break;
		}
		spin_unlock(&cq->lock);
		/*
		 * 96 bytes, paid by who does not read, and bounded: a doorbell is refused while the queue overflows. At
		 * the limit of his group the kernel charges a page beyond it for them, and what else he asks for uses up
		 * the rest of that: at worst this is a page for each.
		 */
		old = set_active_memcg(cq->obj.ctx->memcg);
		spare = kmalloc(sizeof(*spare), TREADLE_GFP_BEYOND) ?:
				kmalloc(sizeof(*spare), TREADLE_GFP);
		set_active_memcg(old);
		if (unlikely(!spare)) {
			fate = CQ_NOMEM;
			spin_lock(&cq->lock);
			break;
		}
	}
	awaited = treadle_awaited(&cq->waitq);
	spin_unlock(&cq->lock);
	kfree(spare);
	cq_free_nodes(&done);
	treadle_wake(&cq->waitq, awaited);
	treadle_obj_put(&cq->obj);
	return fate;
}

bool treadle_cq_ready(struct treadle_cq *cq)
{
	const struct treadle_cq_cons *user = cq->rw.addr;

	return READ_ONCE(cq_prod(cq)->prod) != READ_ONCE(user->cons) || READ_ONCE(cq->kept);
}

void treadle_cq_tell_signals(struct treadle_cq *cq, u32 signals)
{
	WRITE_ONCE(cq_prod(cq)->signals, signals);
}

/* --- commands ------------------------------------------------------------------------ */

static void cmd_node_free(struct treadle_cq_node *node)
{
	treadle_cmd_free(container_of(node, struct treadle_cmd, kept));
}

static const struct treadle_cq_memory cmd_memory = { .free = cmd_node_free };

static void reserve_free(struct treadle_cq_node *node)
{
	kmem_cache_free(treadle_cmd_cache, container_of(node, struct treadle_cmd, kept));
}

static const struct treadle_cq_memory reserve_memory = { .free = reserve_free };

/* The completion of @cmd does not fit. True: it is freed when that was read, and no more used here. */
static noinline bool cmd_keep(struct treadle_cq *cq, struct treadle_cmd *cmd,
			      const struct treadle_cqe *cqe)
{
	struct treadle_cmd *reserve;
	enum cq_fate fate;

	if (cmd->heap)
		return cq_keep(cq, cmd->ep, cqe, &cmd->kept, &cmd_memory) == CQ_KEPT;
	fate = cq_keep(cq, cmd->ep, cqe, NULL, NULL);
	if (likely(fate != CQ_NOMEM))
		return false;
	reserve = treadle_cmd_reserve(cmd);
	if (cq_keep(cq, cmd->ep, cqe, &reserve->kept, &reserve_memory) != CQ_KEPT)
		cmd->tx->reserve = reserve;
	return false;
}

static const u32 cq_flags[TREADLE_OP_LAST] = {
	[TREADLE_OP_SEND] = TREADLE_CQ_SEND | TREADLE_CQ_MSG,
	[TREADLE_OP_TSEND] = TREADLE_CQ_SEND | TREADLE_CQ_TAGGED,
	[TREADLE_OP_RECV] = TREADLE_CQ_RECV | TREADLE_CQ_MSG,
	[TREADLE_OP_TRECV] = TREADLE_CQ_RECV | TREADLE_CQ_TAGGED,
	[TREADLE_OP_READ] = TREADLE_CQ_READ | TREADLE_CQ_RMA,
	[TREADLE_OP_WRITE] = TREADLE_CQ_WRITE | TREADLE_CQ_RMA,
	[TREADLE_OP_ATOMIC] = TREADLE_CQ_WRITE | TREADLE_CQ_ATOMIC,
	[TREADLE_OP_FETCH] = TREADLE_CQ_READ | TREADLE_CQ_ATOMIC,
	[TREADLE_OP_COMPARE] = TREADLE_CQ_READ | TREADLE_CQ_ATOMIC,
};

/* The endpoint's counter of such operations, or NULL. */
static struct treadle_cntr *ep_cntr(const struct treadle_ep *ep, u32 op_flags)
{
	if (op_flags & TREADLE_CQ_RECV)
		return ep->cntr_recv;
	if (op_flags & TREADLE_CQ_READ)
		return ep->cntr_read;
	return op_flags & TREADLE_CQ_WRITE ? ep->cntr_write : ep->cntr_send;
}

/* Count an operation of @len bytes in @cntr, which may be NULL. */
static __always_inline void count(struct treadle_cntr *cntr, u64 len, int error,
				  struct treadle_run *run)
{
	if (unlikely(cntr))
		treadle_cntr_count(cntr, len, error, run);
}

/* In a counter of the command's own, which is bound no more: who sees the count may close it. */
static __always_inline void count_last(struct treadle_cntr *cntr, u64 len, int error,
				       struct treadle_run *run)
{
	if (likely(!cntr))
		return;
	atomic_dec(&cntr->obj.users);
	count(cntr, len, error, run);
	treadle_obj_put(&cntr->obj);
}

static __always_inline void cmd_cqe(struct treadle_cqe *cqe, const struct treadle_cmd *cmd,
				    u32 op_flags, int error)
{
	cqe->context = cmd->d.context;
	cqe->len = 0;
	cqe->data = 0;
	cqe->tag = cmd->d.opcode == TREADLE_OP_TRECV ? cmd->d.tag : 0;
	cqe->buf = 0;
	cqe->src = TREADLE_ADDR_ANY;
	cqe->flags = op_flags;
	cqe->error = -error;
	cqe->olen = 0;
}

/* It has fired, and was not taken off since: then its condition would be gone. */
static __always_inline bool repeats(const struct treadle_cmd *cmd, u32 flags)
{
	return unlikely(flags & TREADLE_F_REPEAT) && cmd->heap && cmd->cond;
}

/*
 * A command that repeats has ended. It is armed again before it is counted, so that who finds
 * all of them counted finds all of them armed.
 */
static noinline void cmd_again(struct treadle_cmd *cmd, u64 len, int error, struct treadle_run *run)
{
	struct treadle_cntr *notify = cmd->notify;
	struct treadle_ep *ep = cmd->ep;
	enum treadle_track tracked = cmd->tracked;
	u32 port = cmd->port;

	/* it may fire and be dropped while we are still here */
	if (notify)
		kref_get(&notify->obj.ref);
	if (tracked)
		treadle_ep_get(ep);
	cmd->tracked = TREADLE_UNTRACKED;
	cmd->admitted = false;
	if (treadle_opdefs[cmd->d.opcode].atomic) { /* the operands are taken again */
		kfree(cmd->inject);
		cmd->inject = NULL;
	}
	/* canceled, or it could only fail for ever: its memory is gone, or its connection over */
	if ((error == -ECANCELED && !cmd->skipped) || (error && ep && READ_ONCE(ep->severed)))
		treadle_cmd_free(cmd);
	else
		treadle_cntr_again(cmd, run);
	count(notify, len, error, run);
	if (notify)
		treadle_obj_put(&notify->obj);
	if (tracked) {
		treadle_flow_done(ep, port, tracked, run);
		treadle_ep_put(ep);
	}
}

static __always_inline u32 cmd_flags(const struct treadle_cmd *cmd)
{
	u8 op = cmd->d.opcode;
	u32 flags = op < TREADLE_OP_LAST ? cq_flags[array_index_nospec(op, TREADLE_OP_LAST)] : 0;

	if (unlikely(cmd->d.flags & TREADLE_F_COLLECTIVE))
		flags = (flags & ~TREADLE_CQ_TAGGED) | TREADLE_CQ_COLLECTIVE;
	return flags;
}

/* Who has looked, or thrown away, has not received; what is silent is not counted at all. */
static __always_inline bool counts(u32 flags, u32 op_flags)
{
	return op_flags && !(flags & TREADLE_F_WORK) &&
	       !(op_flags & TREADLE_CQ_RECV && flags & (TREADLE_F_PEEK | TREADLE_F_DISCARD));
}

/* If @cmd fails, will its endpoint be told? */
bool treadle_cmd_heard(const struct treadle_cmd *cmd)
{
	u32 flags = cmd->d.flags, op_flags = cmd_flags(cmd);
	const struct treadle_ep *ep = cmd->ep;

	if (!ep || !smp_load_acquire(&ep->enabled))
		return false;
	if (counts(flags, op_flags) && ep_cntr(ep, op_flags))
		return true;
	return (flags & TREADLE_F_COMPLETION || !(flags & TREADLE_F_WORK)) &&
	       (op_flags & TREADLE_CQ_RECV ? ep->rx_cq : ep->tx_cq);
}

/*
 * A command of the transmit side (or a receive that could not be posted) has
 * finished. It is freed, or kept by the completion queue. What a closed endpoint did not
 * finish is dropped: fi_endpoint(3), fi_close.
 *
 * Order: completion, then counters, so that who waits for a counter finds the
 * completion; credits last, so that who may post again finds both.
 */
TREADLE_HOT void treadle_cmd_complete(struct treadle_cmd *cmd, int error, struct treadle_run *run)
{
	u32 flags = cmd->d.flags, op_flags = cmd_flags(cmd);
	bool recv = op_flags & TREADLE_CQ_RECV, kept = false, held = true;
	struct treadle_ep *ep = cmd->ep;
	struct treadle_cntr *notify = cmd->notify, *cntr = NULL;
	enum treadle_track tracked = cmd->tracked;
	struct treadle_cq *cq = NULL;
	u64 len TREADLE_UNSET;
	u32 port = cmd->port;

	if (unlikely(error) && ep && READ_ONCE(ep->dead)) {
		treadle_cmd_free(cmd);
		return;
	}
	if (unlikely(repeats(cmd, flags))) {
		cmd_again(cmd, cmd->d.len, error, run);
		return;
	}
	if (unlikely(tracked)) {
		treadle_ep_get(ep);
		cmd->tracked = TREADLE_UNTRACKED;
		/* before that is seen: what is posted then is copied again */
		if (tracked == TREADLE_CROWDED)
			tracked = treadle_flow_relax(ep, port);
	}
	if (ep && ((flags & TREADLE_F_COMPLETION) || (error && !(flags & TREADLE_F_WORK))))
		cq = recv ? ep->rx_cq : ep->tx_cq;
	if (counts(flags, op_flags))
		cntr = ep_cntr(ep, op_flags);
	if (unlikely(recv && flags & TREADLE_F_MULTI_RECV)) /* its buffer is released */
		op_flags |= TREADLE_CQ_MULTI_RECV;
	/* the command may be freed as soon as the completion queue keeps it */
	if (cntr && cmd->heap)
		kref_get(&cntr->obj.ref);
	else
		held = false;
	cmd->notify = NULL;
	if (cq) {
		struct treadle_cqe late TREADLE_UNSET, *cqe;

		spin_lock(&cq->lock);
		cqe = cq_place(cq, ep);
		cmd_cqe(cqe ?: &late, cmd, op_flags, error);
		if (!cq_placed(cq, cqe)) {
			len = cmd->d.len; /* which a kept completion lies over */
			kept = cmd_keep(cq, cmd, &late);
		}
	}
	count(cntr, kept ? len : cmd->d.len, error, run);
	count_last(notify, kept ? len : cmd->d.len, error, run);
	if (held)
		treadle_obj_put(&cntr->obj);
	/* of one on a doorbell's stack nothing is left, mostly */
	if (!kept && unlikely(cmd->heap || cmd->own || cmd->cond || cmd->target))
		treadle_cmd_free(cmd);
	if (unlikely(tracked)) { /* what had to wait for this may start */
		treadle_flow_done(ep, port, tracked, run);
		treadle_ep_put(ep);
	}
}

/* --- receives ------------------------------------------------------------------------- */

/* While a completion queue keeps the receive, that holds the ring it belongs to. */
static void recv_node_keep(struct treadle_cq_node *node)
{
	kref_get(&container_of(node, struct treadle_recv, node)->rx->obj.ref);
}

static void recv_node_free(struct treadle_cq_node *node)
{
	struct treadle_recv *recv = container_of(node, struct treadle_recv, node);
	struct treadle_rx *rx = recv->rx;

	treadle_recv_free(recv);
	treadle_obj_put(&rx->obj);
}

static const struct treadle_cq_memory recv_memory = { .keep = recv_node_keep,
						      .free = recv_node_free };

/*
 * It came, and who it is from is not in the address vector: what is to be put there goes into fields
 * that say nothing else now.
 */
static noinline void unknown_source(struct treadle_cqe *cqe, const struct treadle_ep *ep, u16 port)
{
	struct treadle_addr addr = ep->addr; /* if it is gone: any of this machine will do */
	__u64 words[3];

	treadle_ep_address(ep->obj.ctx->ports, port, &addr);
	addr.port = htons(port);
	BUILD_BUG_ON(sizeof(words) != sizeof(addr));
	memcpy(words, &addr, sizeof(words));
	cqe->error = EADDRNOTAVAIL;
	cqe->src = words[0];
	cqe->olen = words[1];
	*(cqe->flags & TREADLE_CQ_TAGGED ? &cqe->buf : &cqe->tag) = words[2];
}

/* Who has sent, or written: his name, if there is one, or what FI_SOURCE_ERR tells. @cqe has its flags. */
static __always_inline void tell_source(struct treadle_cqe *cqe, const struct treadle_ep *ep,
					u16 port)
{
	if (!(ep->flags & TREADLE_EP_SOURCE) || !ep->av)
		return;
	if (!treadle_av_name(ep->av, port, &cqe->src) && (ep->flags & TREADLE_EP_SOURCE_ERR) &&
	    !cqe->error)
		unknown_source(cqe, ep, port);
}

/*
 * What comes without a command or receive of its owner: the peer at @port has written with data.
 * 0, or -ENOMEM: it did not fit, and could not be kept. May sleep.
 */
int treadle_cq_post(struct treadle_ep *ep, u16 port, struct treadle_cqe *cqe)
{
	tell_source(cqe, ep, port);
	return cq_keep(ep->rx_cq, ep, cqe, NULL, NULL) == CQ_NOMEM ? -ENOMEM : 0;
}

static __always_inline void recv_cqe(struct treadle_cqe *cqe, const struct treadle_recv *recv,
				     const struct treadle_ep *ep, const struct treadle_msg *msg,
				     int error)
{
	static const u32 kinds[TREADLE_MATCHES] = {
		[TREADLE_PLAIN] = TREADLE_CQ_RECV | TREADLE_CQ_MSG,
		[TREADLE_TAGGED] = TREADLE_CQ_RECV | TREADLE_CQ_TAGGED,
		[TREADLE_COLLECTIVE] = TREADLE_CQ_RECV | TREADLE_CQ_COLLECTIVE,
	};
	u32 flags = kinds[recv->space];

	cqe->context = recv->context;
	cqe->buf = recv->iov_count == 1 ? recv->one.addr : 0;
	cqe->src = TREADLE_ADDR_ANY;
	cqe->error = -error;
	if (likely(msg)) {
		cqe->len = error && error != -TREADLE_ETRUNC ? 0 : min(msg->len, recv->one.len);
		cqe->olen = msg->len > recv->one.len ? msg->len - recv->one.len : 0;
		cqe->tag = msg->m.tag;
		cqe->data = msg->data;
		if (msg->flags & TREADLE_F_REMOTE_CQ_DATA)
			flags |= TREADLE_CQ_REMOTE_CQ_DATA;
	} else {
		cqe->len = cqe->olen = cqe->tag = cqe->data = 0;
		/* of a multi-receive that has come to its end, and of nothing else: no message is anywhere */
		if (recv->kind == TREADLE_RECV_MULTI && !error)
			flags = cqe->buf = 0;
	}
	if (unlikely(recv->flags & TREADLE_F_MULTI_RECV))
		flags |= TREADLE_CQ_MULTI_RECV;
	cqe->flags = flags;
	if (likely(msg))
		tell_source(cqe, ep, msg->port);
}

/* Bytes that a receive has got. A message that was only looked at, or discarded, is not received. */
static __always_inline u64 received(const struct treadle_msg *msg, u32 flags)
{
	return msg && !(flags & (TREADLE_F_PEEK | TREADLE_F_DISCARD)) ? msg->len : 0;
}

/* Count a receive. Not inline: mostly there is no counter, and its registers are others' then. */
static noinline void count_recv(struct treadle_cntr *cntr, struct treadle_cntr *notify, u64 len,
				int error, struct treadle_run *run)
{
	count(cntr, len, error, run);
	count_last(notify, len, error, run);
}

/*
 * A receive has finished: @msg was placed (error 0, or ETRUNC, or worse), or
 * there was none (cancel, a bad descriptor). The receive is freed or kept; @ep is
 * held by somebody else. False: @ep is closed, and the receive as it was. That is known for
 * certain only with cq->lock, which closing has taken after it has set dead.
 */
TREADLE_HOT bool treadle_recv_tell(struct treadle_recv *recv, struct treadle_ep *ep,
				   const struct treadle_msg *msg, int error,
				   struct treadle_run *run)
{
	u32 flags = recv->flags;
	struct treadle_cntr *notify = NULL, *cntr = NULL;
	struct treadle_cq *cq = NULL;
	enum cq_fate fate = CQ_DONE;

	if (unlikely(error) && READ_ONCE(ep->dead))
		return false;
	if (recv->cmd && repeats(recv->cmd, flags)) {
		recv->cmd->recv = recv;
		cmd_again(recv->cmd, received(msg, flags), error, run);
		return true;
	}
	if (recv->cmd) {
		notify = recv->cmd->notify;
		recv->cmd->notify = NULL;
	}
	if ((flags & TREADLE_F_COMPLETION) ||
	    (!(flags & TREADLE_F_WORK) && (error || ep->flags & TREADLE_EP_RECV_COMPLETION)))
		cq = ep->rx_cq;
	if (cq) {
		struct treadle_cqe late TREADLE_UNSET, *cqe;

		spin_lock(&cq->lock);
		cqe = cq_place(cq, ep);
		recv_cqe(cqe ?: &late, recv, ep, msg, error);
		if (!cq_placed(cq, cqe))
			fate = cq_keep(cq, ep, &late, &recv->node, &recv_memory);
		if (unlikely(fate == CQ_CLOSED)) {
			if (recv->cmd)
				recv->cmd->notify = notify;
			return false;
		}
	}
	/* who has looked, or thrown away, has not received */
	if (!(flags & (TREADLE_F_WORK | TREADLE_F_PEEK | TREADLE_F_DISCARD)))
		cntr = ep->cntr_recv;
	if (unlikely(cntr || notify))
		count_recv(cntr, notify, received(msg, flags), error, run);
	if (fate != CQ_KEPT)
		treadle_recv_free(recv);
	return true;
}

/* One that goes with @ep, if that is closed. */
void treadle_recv_complete(struct treadle_recv *recv, struct treadle_ep *ep,
			   const struct treadle_msg *msg, int error, struct treadle_run *run)
{
	if (!treadle_recv_tell(recv, ep, msg, error, run))
		treadle_recv_free(recv);
}
