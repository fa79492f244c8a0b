// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: which endpoint is at a port
 *
 * Each network namespace has a table of ports, read under RCU. The contexts of a scalable
 * endpoint are found by its port and their index.
 */
#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "names/names.h"

#define PORT_AUTO    XA_LIMIT(32768, 60999)
#define RECENT_PORTS 256

static unsigned int treadle_net_id;

/*
 * Per network namespace: port -> endpoint, read under RCU.
 *
 * @recent: the same, of one endpoint for each remainder of its port
 */
struct treadle_ports {
	struct xarray all;
	u32 next;
	struct treadle_ep __rcu *recent[RECENT_PORTS];
};

struct treadle_ports *treadle_ports(struct net *net)
{
	return net_generic(net, treadle_net_id);
}

static int __net_init net_init_one(struct net *net)
{
	xa_init_flags(&treadle_ports(net)->all, XA_FLAGS_ALLOC);
	treadle_ports(net)->next = PORT_AUTO.min;
	return 0;
}

static void __net_exit net_exit_one(struct net *net)
{
	xa_destroy(&treadle_ports(net)->all); /* contexts hold their namespace: it is empty */
}

static struct pernet_operations treadle_net_ops = {
	.init = net_init_one,
	.exit = net_exit_one,
	.id = &treadle_net_id,
	.size = sizeof(struct treadle_ports),
};

int treadle_net_init(void)
{
	return register_pernet_subsys(&treadle_net_ops);
}

void treadle_net_exit(void)
{
	unregister_pernet_subsys(&treadle_net_ops);
}

/* The endpoint or receive context with that name, held, or NULL. */
TREADLE_HOT struct treadle_ep *treadle_ep_find(struct treadle_ports *ports, u32 name)
{
	struct treadle_ep *ep;
	u16 port = name;

	rcu_read_lock_sched(); /* which costs no call */
	ep = rcu_dereference_sched(ports->recent[port % RECENT_PORTS]);
	if (unlikely(!ep || ep->port != port))
		ep = xa_load(&ports->all, port);
	/* the contexts of one that is none are none: so the index of a plain endpoint is 0 */
	if (ep && unlikely(ep->role | name >> 16))
		ep = xa_load(&ep->contexts, name >> 16);
	if (ep && !kref_get_unless_zero(&ep->obj.ref))
		ep = NULL;
	rcu_read_unlock_sched();
	return ep;
}

/* Its address, if it is there: without holding it, so that this can be asked under a lock. */
void treadle_ep_address(struct treadle_ports *ports, u16 port, struct treadle_addr *addr)
{
	struct treadle_ep *ep;

	rcu_read_lock_sched();
	ep = xa_load(&ports->all, port);
	if (ep) /* data_race(): one that is being made may get its port now, which the caller knows */
		*addr = data_race(ep->addr);
	rcu_read_unlock_sched();
}

/**
 * treadle_ep_list - make @ep reachable at the port of its address, or at a free one
 * @ep:	not listed yet
 *
 * May sleep. 0, and its port is set; -EADDRINUSE; -EAGAIN: no port is free; -ENOMEM.
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
	ep->port = port;
	ep->listed = true;
	rcu_assign_pointer(ports->recent[port % RECENT_PORTS], ep);
	return 0;
}

/**
 * treadle_ep_unlist - @ep is found no more, if it was
 * @ep:	its context's, or a context of a scalable one
 */
void treadle_ep_unlist(struct treadle_ep *ep)
{
	struct treadle_ports *ports = ep->obj.ctx->ports;

	if (!ep->listed)
		return;
	ep->listed = false;
	if (ep->parent) {
		if (ep->role == TREADLE_EP_RX_CONTEXT)
			xa_erase(&ep->parent->contexts, ep->index);
		atomic_dec(&ep->parent->obj.users);
		return;
	}
	/* another context may be putting its own there: only ours goes */
	cmpxchg((__force struct treadle_ep **)&ports->recent[ep->port % RECENT_PORTS], ep, NULL);
	xa_erase(&ports->all, ep->port);
}

/**
 * treadle_ep_from - the first endpoint, or first context of one, at *@port or above
 * @ports:	of a network namespace
 * @port:	where to begin
 *
 * May sleep. Held, and *@port is where it is; or NULL.
 */
struct treadle_ep *treadle_ep_from(struct treadle_ports *ports, unsigned long *port)
{
	struct treadle_ep *ep;

	for (; xa_find(&ports->all, port, ULONG_MAX, XA_PRESENT); (*port)++) {
		ep = treadle_ep_find(ports, *port); /* now it is held */
		if (ep)
			return ep;
		cond_resched();
	}
	return NULL;
}

/* --- the data path --------------------------------------------------------------------------- */

/* May @ep send? Judged in its doorbell; what is armed may wait for its connection. */
int treadle_conn_judge(const struct treadle_ep *ep, bool armed)
{
	if (READ_ONCE(ep->severed))
		return -ESHUTDOWN;
	if (armed || rcu_access_pointer(ep->peer))
		return 0;
	smp_rmb(); /* pairs with treadle_conn_hang_up() */
	return READ_ONCE(ep->severed) ? -ESHUTDOWN : -ENOTCONN;
}

/* Whom @from is connected with, held in *to. */
struct treadle_ep *treadle_conn_peer(struct treadle_ep *from)
{
	struct treadle_ep *peer;

	rcu_read_lock();
	peer = rcu_dereference(from->peer);
	if (peer && !kref_get_unless_zero(&peer->obj.ref))
		peer = NULL;
	rcu_read_unlock();
	if (!peer) {
		smp_rmb(); /* pairs with treadle_conn_hang_up() */
		return ERR_PTR(READ_ONCE(from->severed) ? -ECONNRESET : -ENOTCONN);
	}
	if (READ_ONCE(peer->dead)) {
		treadle_ep_put(peer);
		return ERR_PTR(-ECONNRESET);
	}
	return peer;
}
