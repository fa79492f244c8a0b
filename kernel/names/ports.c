// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the endpoint at a port
 *
 * Each network namespace has a table of ports, read under RCU. The contexts of a scalable
 * endpoint are found by its port and their index.
 */
#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "names/names.h"
#include "node/node.h"

#define PORT_AUTO    XA_LIMIT(32768, 60999)
#define RECENT_PORTS 256

static unsigned int treadle_net_id;

/*
 * The endpoints of a network namespace, read under RCU.
 *
 * @all:    by port
 * @next:   where the search for a free port begins (XArray's lock)
 * @recent: a cache: for each remainder of ports, the endpoint that was listed last, or NULL
 */
struct treadle_ports {
	struct xarray all;
	u32 next;
	struct treadle_ep __rcu *recent[RECENT_PORTS];
};

/**
 * treadle_ports() - the table of ports of a network namespace
 * @net:	held
 *
 * Context: any.
 * Return: the table; it lives as long as @net.
 */
struct treadle_ports *treadle_ports(struct net *net)
{
	return net_generic(net, treadle_net_id);
}

/* The table was zeroed: @recent is empty. */
static int __net_init net_init_one(struct net *net)
{
	xa_init_flags(&treadle_ports(net)->all, XA_FLAGS_ALLOC);
	treadle_ports(net)->next = PORT_AUTO.min;
	return 0;
}

static void __net_exit net_exit_one(struct net *net)
{
	xa_destroy(&treadle_ports(net)->all); /* empty, as contexts hold their namespace */
}

static struct pernet_operations treadle_net_ops = {
	.init = net_init_one,
	.exit = net_exit_one,
	.id = &treadle_net_id,
	.size = sizeof(struct treadle_ports),
};

/**
 * treadle_net_init() - at module load: make a table of ports for each network namespace
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int treadle_net_init(void)
{
	return register_pernet_subsys(&treadle_net_ops);
}

/**
 * treadle_net_exit() - at module exit: free the tables, which are empty
 *
 * Context: may sleep.
 */
void treadle_net_exit(void)
{
	unregister_pernet_subsys(&treadle_net_ops);
}

/**
 * treadle_ep_find() - find the endpoint or receive context of a destination
 * @ports:	of its network namespace
 * @dest:	treadle_dest()
 *
 * Context: any.
 * Return: the endpoint, held, or NULL.
 */
TREADLE_HOT struct treadle_ep *treadle_ep_find(struct treadle_ports *ports, u64 dest)
{
	struct treadle_ep *ep;
	u16 port = treadle_source_port(treadle_dest_source(dest));

	rcu_read_lock_sched(); /* unlike rcu_read_lock(), no call */
	ep = rcu_dereference_sched(ports->recent[port % RECENT_PORTS]);
	if (unlikely(!ep || treadle_source_port(ep->id.source) != port))
		ep = xa_load(&ports->all, port);
	/* only index 0, of this host, leads to a plain endpoint: it has no contexts */
	if (ep && unlikely(ep->role | dest >> 16))
		ep = treadle_is_here(dest) ?
			     xa_load(&treadle_own_ep(ep)->contexts, treadle_dest_context(dest)) :
			     NULL;
	if (ep && !kref_get_unless_zero(&ep->obj.ref))
		ep = NULL;
	rcu_read_unlock_sched();
	return ep;
}

/**
 * treadle_source_address() - the address of a source of messages
 * @ctx:	of the receiver
 * @source:	the source
 * @addr:	an address of this machine; gets that of @source. If that is gone: only its port; if
 *		its host is gone, no family
 *
 * Takes no reference, so that none has to be dropped.
 *
 * Context: any, under spinlocks, too.
 */
void treadle_source_address(const struct treadle_ctx *ctx, u32 source, struct treadle_addr *addr)
{
	u16 port = treadle_source_port(source), host = treadle_source_host(source);
	struct treadle_ep *ep;

	if (host != TREADLE_HERE && host != treadle_host_mirror(ctx->net)) {
		if (!treadle_host_address(ctx->net, host, addr))
			memset(addr, 0, sizeof(*addr));
		addr->port = htons(port);
		return;
	}
	rcu_read_lock_sched();
	ep = xa_load(&ctx->ports->all, port);
	if (ep) /* data_race(): EP_CREATE may be setting the port in it, which the caller knows */
		*addr = data_race(ep->addr);
	rcu_read_unlock_sched();
	addr->port = htons(port);
}

/**
 * treadle_ep_list() - make an endpoint reachable at the port of its address, or at a free one
 * @ep:	not listed yet; its port is set
 *
 * Context: may sleep.
 * Return: 0, -EADDRINUSE, -EAGAIN: no port is free, or -ENOMEM.
 */
int treadle_ep_list(struct treadle_ep *ep)
{
	struct treadle_ports *ports = ep->obj.ctx->ports;
	u32 port = ntohs(ep->addr.port);
	int ret;

	if (port) {
		ret = xa_insert(&ports->all, port, ep, TREADLE_GFP);
		if (ret)
			return ret == -EBUSY ? -EADDRINUSE : ret;
	} else {
		ret = xa_alloc_cyclic(&ports->all, &port, ep, PORT_AUTO, &ports->next, TREADLE_GFP);
		if (ret < 0)
			return ret == -EBUSY ? -EAGAIN : ret;
		ep->addr.port = htons(port);
	}
	ep->id.source = treadle_source(TREADLE_HERE, port);
	ep->listed = true;
	rcu_assign_pointer(ports->recent[port % RECENT_PORTS], ep);
	return 0;
}

/**
 * treadle_ep_unlist() - undo treadle_ep_list(), or the listing of a context at its endpoint
 * @ep:	listed, or not; only its shutdown or its last reference may call this
 *
 * Context: without spinlocks.
 */
void treadle_ep_unlist(struct treadle_ep *ep)
{
	struct treadle_ports *ports = ep->obj.ctx->ports;
	u16 port = treadle_source_port(ep->id.source);
	struct treadle_own_ep *own;

	if (!ep->listed) /* nor is a proxy */
		return;
	own = treadle_own_ep(ep);
	ep->listed = false;
	if (own->parent) {
		if (ep->role == TREADLE_EP_RX_CONTEXT)
			xa_erase(&treadle_own_ep(own->parent)->contexts, ep->index);
		atomic_dec(&own->parent->obj.users);
		return;
	}
	/* cmpxchg, as another context may be storing its own endpoint there */
	cmpxchg((__force struct treadle_ep **)&ports->recent[port % RECENT_PORTS], ep, NULL);
	xa_erase(&ports->all, port);
}

/* --- the data path --------------------------------------------------------------------------- */

/**
 * treadle_conn_may_send() - may a MSG endpoint send? For the doorbell
 * @ep:		the endpoint
 * @armed:	the command waits for a condition, and so may come before the connection
 *
 * Context: any.
 * Return: 0, -ESHUTDOWN: the connection is over, or -ENOTCONN.
 */
int treadle_conn_may_send(const struct treadle_ep *ep, bool armed)
{
	if (READ_ONCE(ep->severed))
		return -ESHUTDOWN;
	if (armed || rcu_access_pointer(ep->peer))
		return 0;
	smp_rmb(); /* ->peer before ->severed; pairs with treadle_conn_hang_up() */
	return READ_ONCE(ep->severed) ? -ESHUTDOWN : -ENOTCONN;
}

/**
 * treadle_conn_peer() - the endpoint at the other end of a connection
 * @from:	a MSG endpoint
 *
 * Context: without spinlocks.
 * Return: the peer, held, or -ECONNRESET, or -ENOTCONN: there was no connection yet.
 */
struct treadle_ep *treadle_conn_peer(struct treadle_ep *from)
{
	struct treadle_ep *peer;

	rcu_read_lock();
	peer = rcu_dereference(from->peer);
	if (peer && !kref_get_unless_zero(&peer->obj.ref))
		peer = NULL;
	rcu_read_unlock();
	if (!peer) {
		smp_rmb(); /* ->peer before ->severed; pairs with treadle_conn_hang_up() */
		return ERR_PTR(READ_ONCE(from->severed) ? -ECONNRESET : -ENOTCONN);
	}
	if (READ_ONCE(peer->dead)) {
		treadle_ep_put(peer);
		return ERR_PTR(-ECONNRESET);
	}
	return peer;
}
