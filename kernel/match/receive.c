// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the receive side: from the ring into the matcher and out of it
 *
 * Posting costs no system call: a receive lies in the ring until somebody looks
 * for it, mostly a sender. Whoever has rx->lock takes what is there. A receive
 * first looks for a message that waits; only if there is none it is posted.
 *
 * While messages wait, the ring asks for a doorbell (barrier C).
 */
#include <linux/overflow.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "match/receive.h"

#define TAKE_BATCH   64	   /* receives taken under one hold of the lock */
#define TAKE_LOOKS   4096u /* messages looked at, if they have masks */
#define TAKE_BATCHES 64	   /* of these for somebody else */

/*
 * Who tells of what is nobody's, with rx->lock: one with a queue if there is one (they come first), and not one that
 * closes, as nobody would hear of it, unless there is nobody else. NULL: none receives here.
 */
struct treadle_ep *treadle_rx_ep(struct treadle_rx *rx)
{
	struct treadle_ep *ep;

	list_for_each_entry(ep, &rx->eps, rx_link)
		if (likely(!READ_ONCE(ep->dead)) ||
		    READ_ONCE(rx->obj.ctx->dead)) /* all of them are then */
			return ep;
	return list_first_entry_or_null(&rx->eps, struct treadle_ep, rx_link);
}

/* What to receive, from a judged descriptor; from anybody. */
static __always_inline void recv_set(struct treadle_recv *recv, const struct treadle_desc *d)
{
	recv->context = d->context;
	recv->one.addr = d->addr;
	recv->one.len = d->len;
	recv->flags = d->flags;
	recv->iov_count = d->iov_count;
	recv->space = d->opcode == TREADLE_OP_TRECV;
	recv->kind = TREADLE_RECV_ONE;
	/* what has a vector is refused */
	if (unlikely(d->flags & TREADLE_F_MULTI_RECV) && d->iov_count <= 1) {
		recv->kind = TREADLE_RECV_MULTI;
		recv->min = d->data;
		recv->parts = 0;
		recv->error = 0;
		recv->over = recv->told = false;
	}
	recv->m.node.tag = d->tag;
	recv->m.node.src = TREADLE_SRC_ANY;
	recv->m.ignore = d->ignore;
	recv->m.node.seq = 0;
}

/* Only from whom a descriptor names: by the port, as who sends by whichever context is the same sender. */
static void recv_from(struct treadle_recv *recv, int route, u32 name)
{
	recv->m.node.src = route ? TREADLE_SRC_NOBODY : (u16)name;
}

/* As the first endpoint with an address vector knows @peer now; -EDESTADDRREQ: it does not, or there is none. */
static int recv_from_peer(struct treadle_rx *rx, struct treadle_recv *recv, u64 peer)
{
	struct treadle_ep *ep = list_first_entry_or_null(&rx->named, struct treadle_ep, named_link);
	u32 name = 0;
	int ret = ep ? treadle_av_resolve(ep->av, peer, &name) : -EDESTADDRREQ;

	recv_from(recv, ret, name);
	return ret == -EDESTADDRREQ ? ret : 0;
}

/*
 * What a command receives, from whom its index meant when that was submitted; *error: why it does not.
 * In place of its descriptor, but that of one that repeats.
 */
struct treadle_recv *treadle_cmd_recv(struct treadle_cmd *cmd, int *error)
{
	struct treadle_recv *recv = cmd->recv ?: &cmd->as_recv;
	const struct treadle_desc d = cmd->d;

	cmd->recv = NULL;
	recv_set(recv, &d);
	recv->rx = cmd->ep->rx;
	recv->cmd = cmd;
	if (d.peer != TREADLE_ADDR_ANY)
		recv_from(recv, cmd->route, cmd->port);
	*error = 0;
	if (d.flags & TREADLE_F_COLLECTIVE) {
		recv->space = TREADLE_COLLECTIVE;
		if (recv->m.node.src == TREADLE_SRC_NOBODY)
			*error = -EHOSTUNREACH;
	}
	return recv;
}

/* A receive for a slot of the ring, or NULL. With rx->lock. */
static struct treadle_recv *recv_alloc(struct treadle_rx *rx)
{
	struct treadle_recv *recv = rx->free;

	if (recv)
		rx->free = recv->next;
	return recv;
}

/* --- the matcher, with rx->lock -------------------------------------------------------- */

/* Nobody waits for a receive any more: whoever posts one need not ring. */
void treadle_rx_quiet(struct treadle_rx *rx)
{
	if (!rx->match[TREADLE_PLAIN].messages && !rx->match[TREADLE_TAGGED].messages && !rx->shut)
		treadle_ring_quiet(&rx->ring);
}

/* May @recv go, with another endpoint, while @msg is copied to it? Then nobody else has what its sender has forgotten. */
bool treadle_rx_lends(const struct treadle_recv *recv, const struct treadle_msg *msg)
{
	return !msg->cmd && recv->cmd && recv->cmd->ep != msg->to;
}

/* A message leaves the queue: matched with @recv, or (NULL) withdrawn or failed. */
void treadle_rx_dequeue(struct treadle_rx *rx, struct treadle_msg *msg,
			const struct treadle_recv *recv)
{
	struct treadle_match *match = &rx->match[msg->claimed ? TREADLE_CLAIMED : msg->space];

	msg->lent = recv && treadle_rx_lends(recv, msg);
	if (unlikely(msg->lent))
		treadle_match_lend_msg(match, &msg->m);
	else
		treadle_match_remove_msg(match, &msg->m);
	if (msg->cmd && msg->queued) { /* not what is claimed: that was when it was claimed */
		spin_lock(&msg->cmd->ep->lock);
		rb_erase(&msg->cmd->by_context, &msg->cmd->ep->parked);
		spin_unlock(&msg->cmd->ep->lock);
	}
	msg->queued = false;
	treadle_rx_quiet(rx);
}

void treadle_rx_post(struct treadle_rx *rx, struct treadle_recv *recv)
{
	treadle_match_post(&rx->match[recv->space], &recv->m);
	if (likely(!recv->cmd)) {
		treadle_recv_slot(recv)->posted = true;
		return;
	}
	recv->cmd->recv = recv;
	recv->cmd->armed.threshold =
		recv->space == TREADLE_COLLECTIVE ? recv->m.node.src : recv->context;
	recv->cmd->armed.seq = recv->m.node.seq;
	treadle_armed_insert(treadle_recv_root(recv), &recv->cmd->armed);
}

/* @recv is for @msg; what is left of a multi-receive stays where it was among those posted. */
static __always_inline void rx_meet(struct treadle_rx *rx, struct treadle_recv *recv,
				    struct treadle_msg *msg)
{
	if (unlikely(recv->kind == TREADLE_RECV_MULTI) && treadle_multi_cut(recv, msg))
		treadle_rx_post(rx, recv);
}

/* Messages may wait for @recv that have not been looked at; @next: it goes on with those. */
static void rx_add_fed(struct treadle_rx *rx, struct treadle_recv *recv, bool next)
{
	list_add(&recv->m.wild, next ? &rx->feeding : rx->feeding.prev);
	if (recv->cmd) { /* to be found when its endpoint closes */
		recv->cmd->recv = recv;
		list_add(&recv->cmd->wait, &recv->cmd->ep->feeding);
	}
}

void treadle_rx_unfeed(struct treadle_recv *recv)
{
	list_del(&recv->m.wild);
	if (recv->cmd) {
		list_del(&recv->cmd->wait);
		recv->cmd->recv = NULL;
	}
}

/*
 * Find the message that waits for @recv. True: it is taken care of; false: post it. After *looks
 * messages it is the first of rx->feeding, and somebody has to go on: treadle_rx_take().
 */
static __always_inline bool rx_serve(struct treadle_rx *rx, struct treadle_recv *recv, u32 *looks,
				     struct treadle_run *run)
{
	struct treadle_match *match = &rx->match[recv->space];
	struct treadle_match_msg *m;
	struct treadle_msg *msg;

	if (likely(!match->messages && !treadle_match_marked(&rx->at)))
		return false;
	m = treadle_match_seek(match, &recv->m, &rx->at, looks);
	if (!m) {
		/* without a mask it was found by hash; then the mark is that of another */
		if (!recv->m.ignore || !treadle_match_marked(&rx->at))
			return false;
		rx_add_fed(rx, recv, true);
		return true;
	}
	msg = container_of(m, struct treadle_msg, m);
	treadle_rx_dequeue(rx, msg, recv);
	msg->recv = recv;
	/* more may wait for it: that is for treadle_rx_take, which counts its steps */
	if (unlikely(recv->kind == TREADLE_RECV_MULTI) && treadle_multi_cut(recv, msg))
		rx_add_fed(rx, recv, true);
	msg->job.ctx = rx->obj.ctx;
	treadle_run_add(run, &msg->job);
	return true;
}

/*
 * One with a mask looks at messages one by one: more than @looks of them are for treadle_rx_take, too. Until that is done
 * who comes next finds what is posted, if younger, and not what is to be looked at.
 */
static void rx_place(struct treadle_rx *rx, struct treadle_recv *recv, u32 looks,
		     struct treadle_run *run)
{
	struct treadle_match *match = &rx->match[recv->space];

	if (recv->m.ignore &&
	    ((match->messages && !looks) || treadle_match_marked(&rx->at) ||
	     !list_empty(&rx->feeding) || !treadle_match_room(match, recv->m.ignore)))
		rx_add_fed(rx, recv, false);
	else if (!rx_serve(rx, recv, &looks, run))
		treadle_rx_post(rx, recv);
}

/* Whoever places it goes on with treadle_rx_feed(). */
void treadle_rx_place(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run)
{
	recv->m.node.seq = rx->seq++;
	rx_place(rx, recv, 0, run);
}

/* Take the first receive of rx->feeding, or NULL. */
static struct treadle_recv *rx_fed(struct treadle_rx *rx)
{
	struct treadle_recv *recv =
		list_first_entry_or_null(&rx->feeding, struct treadle_recv, m.wild);

	if (recv)
		treadle_rx_unfeed(recv);
	return recv;
}

/* Nobody who waits is for it. */
static int rx_post(struct treadle_rx *rx, struct treadle_recv *recv)
{
	if (unlikely(recv->m.ignore) &&
	    !treadle_match_room(&rx->match[recv->space], recv->m.ignore))
		return -ENOSPC;
	treadle_rx_post(rx, recv);
	return 0;
}

static void rx_unpost(struct treadle_recv *recv)
{
	if (likely(!recv->cmd)) {
		treadle_recv_slot(recv)->posted = false;
		return;
	}
	rb_erase_cached(&recv->cmd->armed.node, treadle_recv_root(recv));
	recv->cmd->recv = NULL;
}

/* Take a posted receive out of the matcher. */
void treadle_rx_withdraw(struct treadle_recv *recv)
{
	treadle_match_remove_recv(&recv->rx->match[recv->space], &recv->m);
	rx_unpost(recv);
}

/* Take the posted receive for @msg, or NULL. */
struct treadle_recv *treadle_rx_match(struct treadle_rx *rx, struct treadle_msg *msg)
{
	struct treadle_match_recv *m;
	struct treadle_recv *recv;

	m = treadle_match_arrive(&rx->match[msg->space], msg->m.tag, msg->m.src);
	if (!m)
		return NULL;
	recv = container_of(m, struct treadle_recv, m);
	rx_unpost(recv);
	rx_meet(rx, recv, msg);
	return recv;
}

/* --- the ring, with rx->lock -------------------------------------------------------------- */

/* Something is not as in a plain receive: then it is one for several messages. */
static noinline int judge_multi(const struct treadle_desc *d)
{
	u64 end;

	if (d->opcode != TREADLE_OP_RECV || d->reserved0 ||
	    (d->flags & ~(TREADLE_F_COMPLETION | TREADLE_F_MORE)) != TREADLE_F_MULTI_RECV ||
	    d->tag || d->ignore || d->iov_count != 1 || check_add_overflow(d->addr, d->len, &end))
		return -EINVAL;
	return 0;
}

/* A buffer may be longer than any message: several go into one, and who posts it need not know. */
static __always_inline int judge_recv(const struct treadle_desc *d, const struct treadle_iov *iov)
{
	u64 end;

	if ((d->opcode != TREADLE_OP_RECV && d->opcode != TREADLE_OP_TRECV) || d->reserved0 ||
	    (d->flags & ~(TREADLE_F_COMPLETION | TREADLE_F_MORE)) || d->data)
		return judge_multi(d);
	if ((d->opcode == TREADLE_OP_RECV && (d->tag || d->ignore)) ||
	    d->iov_count > TREADLE_MAX_IOV)
		return -EINVAL;
	if (d->iov_count == 0)
		return d->addr || d->len ? -EINVAL : 0;
	if (d->iov_count == 1) {
		if (check_add_overflow(d->addr, d->len, &end))
			return -EINVAL;
	} else if (d->addr || treadle_iov_judge(iov, d->iov_count, d->len)) {
		return -EINVAL;
	}
	return 0;
}

static bool suits(const struct treadle_recv *recv, const struct treadle_msg *msg)
{
	return recv->space == msg->space && treadle_match_suits(&recv->m, &msg->m);
}

/*
 * Take the receive at ring.head; *error: why it is bad. NULL: the ring is broken, as
 * credits say that there are receives for all slots.
 */
static __always_inline struct treadle_recv *take_one(struct treadle_rx *rx, u32 prod, int *error)
{
	struct treadle_ring *ring = &rx->ring;
	struct treadle_desc d TREADLE_UNSET;
	struct treadle_recv *recv, *second;
	struct treadle_rx_slot *ext = NULL;

	treadle_ring_fetch_line(ring, ring->head, &d);
	recv = recv_alloc(rx);
	if (unlikely(!recv))
		return NULL;
	if (unlikely(d.iov_count > 1)) {
		second = prod - ring->head > 1 ? recv_alloc(rx) : NULL;
		if (!second)
			return NULL;
		ext = treadle_recv_slot(second);
		memcpy(ext->iov, treadle_ring_slot(ring, ++ring->head)->iov, sizeof(ext->iov));
		barrier();
	}
	ring->head++;
	recv->cmd = NULL;
	recv->ext = ext;
	*error = judge_recv(&d, ext ? ext->iov : NULL);
	d.flags &= TREADLE_F_COMPLETION | TREADLE_F_MULTI_RECV;
	recv_set(recv, &d);
	if (unlikely(d.peer != TREADLE_ADDR_ANY))
		*error = *error ?: recv_from_peer(rx, recv, d.peer);
	recv->m.node.seq = rx->seq++;
	return recv;
}

/* Up to where the ring is written; false if it is broken, or found to be. */
static __always_inline bool ring_prod(struct treadle_ring *ring, u32 *prod)
{
	if (unlikely(ring->broken))
		return false;
	if (likely(treadle_ring_prod(ring, prod)))
		return true;
	treadle_ring_break(ring);
	return false;
}

/*
 * With rx->lock, after something was posted: is the connection over, and the caller to cancel it, without the lock? There is
 * no end to that while others post, so whoever fires, or gives back, a stranger's receive leaves it to that one's worker.
 */
bool treadle_rx_shut(struct treadle_rx *rx, const struct treadle_run *run)
{
	if (likely(!rx->shut) || !treadle_rx_ep(rx))
		return false;
	if (treadle_run_is_for(run, rx->obj.ctx))
		return true;
	treadle_rx_hand_over(rx);
	return false;
}

/* The endpoint whose connection is over, held, or NULL: the caller need not cancel what is posted here. */
static struct treadle_ep *shut_ep(struct treadle_rx *rx, const struct treadle_run *run)
{
	return treadle_rx_shut(rx, run) ? treadle_ep_get(treadle_rx_ep(rx)) : NULL;
}

static void flush(struct treadle_rx *rx, struct treadle_ep *ep, struct treadle_run *run)
{
	if (!ep)
		return;
	treadle_rx_flush(rx, ep, 0, run);
	treadle_ep_put(ep);
}

/*
 * The worker of whose receives these are. Until it has seen the end of the ring, no sender
 * takes any. What is posted after that is rung for, if a message waits: before it was left here that was asked for (C).
 */
static void rx_job(struct treadle_job *job, struct treadle_run *run)
{
	struct treadle_rx *rx = container_of(job, struct treadle_rx, job);
	struct treadle_ep *ep;
	bool more;

	spin_lock(&rx->lock);
	treadle_rx_take(rx, NULL, run);
	more = treadle_rx_ep(rx) && !treadle_ring_empty(&rx->ring);
	rx->handed = more;
	treadle_rx_quiet(rx);
	ep = shut_ep(rx, run);
	spin_unlock(&rx->lock);
	flush(rx, ep, run);
	if (more)
		treadle_queue_job(job);
	else
		treadle_obj_put(&rx->obj);
}

/* The worker of whose receives these are goes on. With rx->lock. */
void treadle_rx_hand_over(struct treadle_rx *rx)
{
	if (rx->handed)
		return;
	rx->handed = true;
	kref_get(&rx->obj.ref); /* of the job */
	rx->job.ctx = rx->obj.ctx;
	rx->job.fn = rx_job;
	treadle_queue_job(&rx->job);
}

/*
 * Neither a sender nor who fires a peer's receive looks for him at all that he posts, the less so if he is to lose his
 * processor, nor does who is killed. What was there before it has fired nobody passes over: treadle_rx_behind().
 */
static bool enough(const struct treadle_rx *rx, const struct treadle_run *run, int batches)
{
	return (!treadle_run_is_for(run, rx->obj.ctx) && batches >= TAKE_BATCHES) ||
	       (run->guest && need_resched()) || fatal_signal_pending(current);
}

/*
 * Has anything been posted that nobody has looked at? Then what comes behind it is for its owner to post, who pays
 * for looking. Without rx->lock: what is posted, or taken, while we look may count or not.
 */
bool treadle_rx_behind(struct treadle_rx *rx)
{
	return data_race(rx->handed || !list_empty(&rx->feeding) || !treadle_ring_empty(&rx->ring));
}

/*
 * Take the receives that are in the ring: up to the one for @msg, which has found
 * none among those posted before and is returned, or all. With rx->lock, which is
 * dropped after a bounded number of receives taken, and of messages looked at; `prod` is
 * read once, so a process that goes on posting keeps nobody. In a broken ring there are
 * none; but receives that are feeding need not be of the ring. What is left to the worker finds
 * @msg among those that wait.
 */
TREADLE_HOT struct treadle_recv *treadle_rx_take(struct treadle_rx *rx, struct treadle_msg *msg,
						 struct treadle_run *run) __must_hold(&rx->lock)
{
	struct treadle_recv *recv, *found = NULL;
	struct treadle_ring *ring = &rx->ring;
	struct treadle_ep *ep;
	u32 prod, looks = TAKE_LOOKS;
	int error, n = 0, batches = 0;
	bool last;

	if (unlikely(rx->handed && msg))
		return NULL;
	if (unlikely(!ring_prod(ring, &prod)))
		prod = ring->head;
	while ((s32)(prod - ring->head) > 0 || !list_empty(&rx->feeding)) {
		ep = treadle_rx_ep(rx);
		if (!ep)
			break;
		recv = rx_fed(rx);
		error = 0;
		if (likely(!recv))
			recv = take_one(rx, prod, &error);
		if (!recv) {
			treadle_ring_break(ring);
			prod = ring->head;
			continue;
		}
		if (likely(!error)) {
			if (!rx_serve(rx, recv, &looks, run)) {
				/* a message that waits is older than @msg */
				if (msg && suits(recv, msg)) {
					rx_meet(rx, recv, msg);
					return recv;
				}
				error = rx_post(rx, recv);
			}
			if (likely(!error && looks) && ++n < TAKE_BATCH)
				continue;
		}
		n = 0;
		looks = TAKE_LOOKS;
		/* a run that takes for others does so in turn with what else it fires */
		if (!treadle_run_is_for(run, rx->obj.ctx))
			treadle_run_charge(run, TREADLE_CHARGE);
		if (unlikely(error && recv->cmd))
			ep = recv->cmd->ep;
		treadle_ep_get(ep);
		spin_unlock(&rx->lock);
		if (error)
			treadle_rx_tell(recv, ep, error, run);
		treadle_ep_put(ep);
		treadle_rx_grow(rx, TREADLE_PLAIN, run);
		treadle_rx_grow(rx, TREADLE_TAGGED, run);
		last = enough(rx, run, ++batches);
		if (!last)
			treadle_run_pause(run);
		spin_lock(&rx->lock);
		if (ring->broken)
			prod = ring->head;
		/* others may have posted what we have not seen */
		recv = msg ? treadle_rx_match(rx, msg) : NULL;
		if (recv) {
			found = recv;
			msg = NULL;
			prod = ring->head;
		} else if (last) {
			treadle_rx_hand_over(rx);
			break;
		}
	}
	return found;
}

/* Receives with masks have been placed: who waits for them? With rx->lock. */
void treadle_rx_feed(struct treadle_rx *rx, struct treadle_run *run)
{
	if (list_empty(&rx->feeding))
		return;
	if (treadle_run_is_for(run, rx->obj.ctx))
		treadle_rx_take(rx, NULL, run);
	else
		treadle_rx_hand_over(rx);
}

int treadle_rx_doorbell(struct treadle_rx *rx)
{
	TREADLE_RUN(run, rx->obj.ctx);
	struct treadle_ep *ep;
	int ret;

	spin_lock(&rx->lock);
	treadle_rx_take(rx, NULL, &run); /* whoever goes on with it elsewhere */
	treadle_rx_quiet(rx); /* a message that asked for doorbells may have been matched since */
	ret = rx->ring.broken ? -ESHUTDOWN : 0;
	ep = shut_ep(rx, &run);
	spin_unlock(&rx->lock);
	flush(rx, ep, &run);
	treadle_run_jobs(&run);
	return ret;
}

/*
 * As if it had never been matched: at its old place among those posted. What came through a
 * transmit ring goes with the endpoint there, and not with that of the message; what came by the
 * ring stays. Without rx->lock, which closing takes after it has set dead.
 */
void treadle_rx_put_back(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run)
{
	struct treadle_ep *ep;
	bool dead;

	spin_lock(&rx->lock);
	dead = recv->cmd && READ_ONCE(recv->cmd->ep->dead);
	if (unlikely(recv->kind == TREADLE_RECV_MULTI))
		treadle_multi_uncancel(recv);
	if (!dead)
		rx_place(rx, recv, TAKE_LOOKS, run);
	treadle_rx_feed(rx, run);
	ep = shut_ep(rx, run);
	spin_unlock(&rx->lock);
	if (dead)
		treadle_recv_free(recv);
	flush(rx, ep, run);
}

/**
 * treadle_recv_is_long - may the receive @cmd look at very many others when it is issued?
 * @cmd:	armed
 *
 * Receives that its owner has posted before come first, and a look at messages goes over those that wait.
 */
bool treadle_recv_is_long(const struct treadle_cmd *cmd)
{
	return !(cmd->d.flags & TREADLE_F_COLLECTIVE) &&
	       (cmd->d.flags & TREADLE_F_PEEK || treadle_rx_behind(cmd->ep->rx));
}
