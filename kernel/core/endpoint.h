/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: what an endpoint is; ep/ makes and ends it */
#ifndef TREADLE_ENDPOINT_H
#define TREADLE_ENDPOINT_H

#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

#include "core/object.h"

#define TREADLE_BINDINGS 11

struct treadle_av;
struct treadle_cntr;
struct treadle_conn;
struct treadle_cq;
struct treadle_eq;
struct treadle_rx;
struct treadle_tx;

/*
 * struct treadle_ep - endpoint
 * @addr, @port: where it is; unique in the network namespace, but for those that
 *		accept connections, which are where they were asked for, and for contexts
 * @role:	TREADLE_EP_SCALABLE, _TX_CONTEXT, _RX_CONTEXT, or 0
 * @contexts:	SCALABLE: receive contexts that are there, by index; read under RCU
 * @parent, @index: of a context; the parent is held, and bound until the context is shut
 *		down
 * @enabled:	everything below is set and never changes (release/acquire)
 * @bound:	all that it is bound to
 * @rx_shared:	@rx is a shared one
 * @rx_link, @named_link: on rx->eps, and if it has an address vector on rx->named (rx->lock)
 * @feeding:	commands of receives that are on rx->feeding, by their @wait (rx->lock)
 * @lock:	@dead, @severed, @closed, @parked, flows
 * @dead:	no longer reachable, accepts nothing; none of its completions is written (also under the
 *		lock of the completion queue)
 * @closed:	dead or severed: its buffers are not touched (also under the lock of their pagemap)
 * @left:	it has left its receive ring (only who shuts it down)
 * @awaited:	somebody has posted a collective receive for what it sends
 * @parked:	commands whose messages wait at a peer, by context
 * @flows:	peers to whom something is under way (under @lock; flow.c)
 * @waiting:	commands that wait for their turn there, by context
 * @nr_flows, @nr_ordered: their number, and of those where what comes next waits
 *		(written under @lock)
 *
 * MSG and PASSIVE, under treadle_conn_lock (connect.h):
 * @eq, @eq_context: where its events go; held, set once
 * @conn:	its connection; held, set once
 * @severed:	that is over
 * @peer:	at the other end of it; read under RCU
 * @ending:	of who flushes what the end of the connection ends (before all others)
 * @pending, @nr_pending, @backlog, @listening: requests that are not answered
 *
 * @unbind: ends it where the caller of DESTROY was killed
 */
struct treadle_ep {
	struct treadle_obj obj;
	struct treadle_addr addr;
	u32 type; /* enum treadle_ep_type */
	u16 port;
	bool listed; /* in the table of ports; a context: with its parent */
	u32 role, index;
	struct xarray contexts;
	struct treadle_ep *parent;
	u32 key_size;
	u8 key[TREADLE_MAX_AUTH_KEY];
	bool enabled;
	u32 flags;
	struct treadle_tx *tx;
	struct treadle_rx *rx;
	struct treadle_av *av;
	struct treadle_cq *tx_cq, *rx_cq;
	struct treadle_cntr *cntr_send, *cntr_recv, *cntr_read, *cntr_write;
	struct treadle_cntr *cntr_remote_read, *cntr_remote_write;
	struct treadle_obj *bound[TREADLE_BINDINGS];
	struct list_head rx_link, named_link, feeding;
	spinlock_t lock;
	bool dead, severed, closed, awaited, left, rx_shared;
	struct rb_root parked, flows, waiting;
	unsigned int nr_flows, nr_ordered;
	struct treadle_ep __rcu *peer;
	struct mutex ending;
	struct treadle_conn *conn;
	struct treadle_eq *eq;
	u64 eq_context;
	struct list_head pending;
	u32 nr_pending, backlog;
	bool listening;
	struct treadle_later unbind;
};

static inline bool treadle_same_user(const struct treadle_ctx *a, const struct treadle_ctx *b)
{
	return uid_eq(a->uid, b->uid) && a->user_ns == b->user_ns;
}

/* The same user in the same user namespace, or the same key. Default: nobody else. */
static inline bool treadle_admits(const struct treadle_ctx *a, const u8 *key, u32 size,
				  const struct treadle_ep *from)
{
	return likely(treadle_same_user(a, from->obj.ctx)) ||
	       treadle_key_is(key, size, from->key, from->key_size);
}

static inline bool treadle_ep_admits(const struct treadle_ep *ep, const struct treadle_ep *from)
{
	return treadle_admits(ep->obj.ctx, ep->key, ep->key_size, from);
}

/* What becomes of a command of @ep, which is closed, or whose process is gone. */
static inline int treadle_ep_error(const struct treadle_ep *ep)
{
	return READ_ONCE(ep->severed) && !READ_ONCE(ep->dead) ? -ECONNRESET : -ECANCELED;
}

static inline struct treadle_ep *treadle_ep_get(struct treadle_ep *ep)
{
	kref_get(&ep->obj.ref);
	return ep;
}

static inline void treadle_ep_put(struct treadle_ep *ep)
{
	treadle_obj_put(&ep->obj);
}

#endif
