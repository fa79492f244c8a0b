/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: struct treadle_ep; ep/ creates and ends endpoints */
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
 * @addr:	unique in the network namespace, with two exceptions: endpoints that accept
 *		connections get the address that was asked for, and contexts that of the endpoint
 *		that they are of
 * @id:		its identity; a context: that of the endpoint that it is of
 * @role:	TREADLE_EP_SCALABLE, _TX_CONTEXT, _RX_CONTEXT, or 0
 * @far:	it is the proxy of an endpoint of another node; constant
 * @index:	of a context
 * @enabled:	the fields from @flags to @cntr_remote_write, and @bound, are set and never change
 *		(release/acquire)
 * @rx_shared:	@rx is a shared receive ring
 * @lock:	@dead, @severed, @closed, @awaited, @parked, @flows, @waiting
 * @dead:	unreachable; accepts nothing, and none of its completions is written (also under
 *		the lock of the completion queue)
 * @closed:	dead or severed: its buffers are not touched (also under the lock of their pagemap)
 * @left:	detached from its receive ring (used by the teardown only)
 * @awaited:	collective receives that wait for a message of this endpoint (match/await.c)
 * @parked:	commands with a message that waits at a peer, by context
 * @flows:	peers to which commands are under way, by port (exec/flow.c)
 * @waiting:	commands that wait for their turn in a flow, by context
 * @nr_parked, @most_parked: number of messages in @parked that wait on this machine, and the most
 *		so far (written under @lock)
 * @nr_flows, @nr_ordered: number of flows, and of those in which the next command has to wait
 *		(written under @lock)
 *
 * MSG and PASSIVE, under treadle_conn_lock (connect.h):
 * @eq:		event queue; held, set once
 * @conn:	its connection; held, set once
 * @severed:	the connection has ended
 * @peer:	the endpoint at the other end; read under RCU
 * @ending:	serializes the flush of what the end of the connection ends; outermost lock
 */
struct treadle_ep {
	struct treadle_obj obj;
	struct treadle_addr addr;
	u32 type; /* enum treadle_ep_type */
	struct treadle_peer id;
	bool far;
	bool listed; /* in the table of ports; a context: in ->contexts of its parent */
	u32 role, index;
	bool enabled;
	u32 flags;
	struct treadle_tx *tx;
	struct treadle_rx *rx;
	struct treadle_av *av;
	struct treadle_cq *tx_cq, *rx_cq;
	struct treadle_cntr *cntr_send, *cntr_recv, *cntr_read, *cntr_write;
	struct treadle_cntr *cntr_remote_read, *cntr_remote_write;
	spinlock_t lock;
	bool dead, severed, closed, left, rx_shared;
	struct list_head awaited;
	struct rb_root parked, flows, waiting;
	unsigned int nr_flows, nr_ordered, nr_parked, most_parked;
	struct treadle_ep __rcu *peer;
	struct mutex ending;
	struct treadle_conn *conn;
	struct treadle_eq *eq;
};

/*
 * struct treadle_own_ep - what an endpoint of this node has besides: a node may have 10^5 proxies
 * @bound:	all objects that it is bound to; constant once @enabled is set
 * @contexts:	SCALABLE: its receive contexts, by index; read under RCU
 * @parent:	of a context: the scalable endpoint; held, and bound until the context is torn down
 * @hosts:	other nodes that know it, by number (path/remote.c)
 * @known:	the same for the one to which it has sent last, without a lock: the entry, or 0
 * @rx_link, @named_link: in rx->eps, and with an address vector in rx->named (rx->lock)
 * @feeding:	commands of receives that are in rx->feeding, by their @wait (rx->lock)
 * @eq_context:	MSG and PASSIVE: the context of its events; constant once @eq is set
 * @pending, @nr_pending, @backlog, @listening: PASSIVE: connection requests that are not answered
 *		yet (treadle_conn_lock)
 * @unbind:	unbinds it later, if the caller of DESTROY was killed while a doorbell was under way
 */
struct treadle_own_ep {
	struct treadle_ep ep;
	struct treadle_obj *bound[TREADLE_BINDINGS];
	struct xarray contexts, hosts;
	u64 known;
	struct treadle_ep *parent;
	struct list_head rx_link, named_link, feeding;
	u64 eq_context;
	struct list_head pending;
	u32 nr_pending, backlog;
	bool listening;
	struct treadle_later unbind;
};

/* @ep is not a proxy. */
static inline struct treadle_own_ep *treadle_own_ep(const struct treadle_ep *ep)
{
	WARN_ON_ONCE(ep->far);
	return container_of(ep, struct treadle_own_ep, ep);
}

/* The error of a command of @ep, if @ep is closed, or its process has exited. */
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
