// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: endpoints
 *
 * The types share everything but the way to a peer: connect.h has what MSG and PASSIVE
 * add. An endpoint is a port of its network namespace. EP_ENABLE binds it once;
 * from then on its bindings never change, so the data path reads them without a lock.
 * Binding keeps rings, queues and counters from being destroyed until the endpoint is
 * shut down. Their memory stays until the last message that names the endpoint is gone.
 */
#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <linux/socket.h>
#include <net/net_namespace.h>

#include "ep/connect.h"
#include "ep/endpoint.h"
#include "mm/window.h"
#include "path/lane.h"
#include "path/remote.h"

static const struct treadle_obj_ops ep_ops;

/* --- create ------------------------------------------------------------------------------- */

/* Give @ep an address of this machine, and a port. */
static int ep_bind_addr(struct treadle_ep *ep, const struct treadle_addr *addr)
{
	ep->addr = *addr;
	treadle_addr_concrete(ep->obj.ctx->net, &ep->addr);
	return treadle_addr_local(ep->obj.ctx->net, &ep->addr) ? treadle_ep_list(ep) :
								 -EADDRNOTAVAIL;
}

/* Make @ep a context of the scalable endpoint @parent, with the address and the key of that. */
static int ep_join(struct treadle_own_ep *own, u32 parent)
{
	struct treadle_ep *ep = &own->ep;
	struct treadle_obj *obj = treadle_obj_bind(ep->obj.ctx, parent, TREADLE_EP);
	int ret = 0;

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	own->parent = container_of(obj, struct treadle_ep, obj);
	ep->type = own->parent->type;
	ep->addr = own->parent->addr;
	ep->id = own->parent->id;
	if (own->parent->role != TREADLE_EP_SCALABLE)
		ret = -EINVAL;
	else if (ep->role == TREADLE_EP_RX_CONTEXT) /* EBUSY: the index is taken */
		ret = xa_insert(&treadle_own_ep(own->parent)->contexts, ep->index, ep, TREADLE_GFP);
	if (ret) {
		ep->id.key = NULL; /* of the parent, which frees it */
		own->parent = NULL;
		treadle_obj_unbind(obj);
	}
	ep->listed = !ret;
	return ret;
}

/* The kind of endpoint decides which fields are used; the others must be zero. */
static int validate_create(const struct treadle_ep_create *arg)
{
	bool context = arg->flags & (TREADLE_EP_TX_CONTEXT | TREADLE_EP_RX_CONTEXT);

	if (arg->flags & ~(TREADLE_EP_SCALABLE | TREADLE_EP_TX_CONTEXT | TREADLE_EP_RX_CONTEXT) ||
	    arg->flags & (arg->flags - 1))
		return -EINVAL;
	if (context)
		return arg->type || arg->request || arg->auth_key_size ||
				       memchr_inv(&arg->addr, 0, sizeof(arg->addr)) ||
				       arg->index >= TREADLE_MAX_CONTEXTS ||
				       (arg->index && arg->flags == TREADLE_EP_TX_CONTEXT) ?
			       -EINVAL :
			       0;
	if (!arg->type || arg->type > TREADLE_EP_PASSIVE || arg->parent || arg->index ||
	    (arg->request && arg->type != TREADLE_EP_MSG))
		return -EINVAL;
	if (arg->flags && arg->type != TREADLE_EP_RDM && arg->type != TREADLE_EP_DGRAM)
		return -EOPNOTSUPP;
	return 0;
}

/**
 * treadle_ep_init() - initialize an endpoint, before treadle_obj_init()
 * @ep:		zeroed
 * @type:	enum treadle_ep_type
 *
 * Context: any.
 */
void treadle_ep_init(struct treadle_ep *ep, u32 type)
{
	spin_lock_init(&ep->lock);
	mutex_init(&ep->ending);
	ep->parked = RB_ROOT;
	ep->waiting = RB_ROOT;
	ep->flows = RB_ROOT;
	INIT_LIST_HEAD(&ep->awaited);
	ep->type = type;
}

/**
 * treadle_ioc_ep_create() - EP_CREATE: make an endpoint, a context of one, or an accepting one
 * @u:	the call, with a struct treadle_ep_create
 *
 * Context: may sleep. Takes treadle_conn_lock for an accepting endpoint.
 * Return: 0 or -errno.
 */
int treadle_ioc_ep_create(struct treadle_ucmd *u)
{
	struct treadle_ep_create *arg = u->arg;
	struct treadle_own_ep *own;
	struct treadle_key *key;
	struct treadle_ep *ep;
	int ret = validate_create(arg);

	if (ret)
		return ret;
	if (arg->request || !arg->type)
		; /* the address is that of the passive or of the scalable endpoint */
	else if (arg->addr.family != AF_INET && arg->addr.family != AF_INET6)
		return -EADDRNOTAVAIL;
	else if (!treadle_addr_valid(&arg->addr))
		return -EINVAL;
	own = kzalloc(sizeof(*own), TREADLE_GFP);
	if (!own)
		return -ENOMEM;
	INIT_LIST_HEAD(&own->pending);
	xa_init_flags(&own->contexts, XA_FLAGS_ACCOUNT);
	xa_init_flags(&own->hosts, XA_FLAGS_ACCOUNT);
	INIT_LIST_HEAD(&own->feeding);
	ep = &own->ep;
	treadle_ep_init(ep, arg->type);
	ep->role = arg->flags;
	ep->index = arg->index;
	key = treadle_key_copy(arg->auth_key, arg->auth_key_size);
	ret = PTR_ERR_OR_ZERO(key);
	if (!ret) {
		ep->id.owner = u->ctx->owner;
		ep->id.key = key;
		ret = treadle_obj_init(u->ctx, &ep->obj, &ep_ops);
		if (ret)
			treadle_key_free(key);
	}
	if (ret) {
		kfree(own);
		return ret;
	}
	if (arg->request)
		ret = treadle_conn_adopt(ep, arg->request);
	else if (!arg->type)
		ret = ep_join(own, arg->parent);
	else
		ret = ep_bind_addr(ep, &arg->addr);
	if (ret) {
		treadle_obj_put(&ep->obj);
		return ret;
	}
	arg->addr = ep->addr;
	arg->id = ep->obj.id;
	u->new = &ep->obj;
	return 0;
}

/* --- enable --------------------------------------------------------------------------------- */

/* One of the objects that EP_ENABLE binds. @obj: bound already */
struct binding {
	u32 id;
	enum treadle_type type;
	struct treadle_obj *obj;
};

/* What EP_ENABLE names, in the order of own->bound; ids may be 0. */
static void ep_bindings(const struct treadle_ep_enable *arg, struct binding *b)
{
	b[0] = (struct binding){ arg->tx, TREADLE_TX };
	b[1] = (struct binding){ arg->rx, TREADLE_RX };
	b[2] = (struct binding){ arg->av, TREADLE_AV };
	b[3] = (struct binding){ arg->tx_cq, TREADLE_CQ };
	b[4] = (struct binding){ arg->rx_cq, TREADLE_CQ };
	b[5] = (struct binding){ arg->cntr_send, TREADLE_CNTR };
	b[6] = (struct binding){ arg->cntr_recv, TREADLE_CNTR };
	b[7] = (struct binding){ arg->cntr_read, TREADLE_CNTR };
	b[8] = (struct binding){ arg->cntr_write, TREADLE_CNTR };
	b[9] = (struct binding){ arg->cntr_remote_read, TREADLE_CNTR };
	b[10] = (struct binding){ arg->cntr_remote_write, TREADLE_CNTR };
}

#define BOUND(b, type, member) ((b).obj ? container_of((b).obj, struct type, member) : NULL)

/* Set the fields that never change once @ep is enabled. It owns the bindings of @b from here on. */
static void ep_set(struct treadle_ep *ep, const struct binding *b)
{
	int i;

	ep->tx = BOUND(b[0], treadle_tx, obj);
	ep->rx = BOUND(b[1], treadle_rx, obj);
	ep->rx_shared = ep->rx && ep->rx->shared;
	ep->av = b[2].obj ? container_of(b[2].obj, struct treadle_av_obj, obj)->av : NULL;
	ep->tx_cq = BOUND(b[3], treadle_cq, obj);
	ep->rx_cq = BOUND(b[4], treadle_cq, obj);
	ep->cntr_send = BOUND(b[5], treadle_cntr, obj);
	ep->cntr_recv = BOUND(b[6], treadle_cntr, obj);
	ep->cntr_read = BOUND(b[7], treadle_cntr, obj);
	ep->cntr_write = BOUND(b[8], treadle_cntr, obj);
	ep->cntr_remote_read = BOUND(b[9], treadle_cntr, obj);
	ep->cntr_remote_write = BOUND(b[10], treadle_cntr, obj);
	for (i = 0; i < TREADLE_BINDINGS; i++)
		treadle_own_ep(ep)->bound[i] = b[i].obj;
}

/*
 * The end of a connection cancels the receives in its ring: no other endpoint may receive there.
 * Nor may one where lanes end, as these belong to an endpoint.
 */
static bool rx_is_taken(struct treadle_rx *rx, const struct treadle_ep *ep)
{
	struct treadle_own_ep *other;
	bool taken = false;

	spin_lock(&rx->lock);
	other = list_first_entry_or_null(&rx->eps, struct treadle_own_ep, rx_link);
	taken = other &&
		(rx->laned || ep->type == TREADLE_EP_MSG || other->ep.type == TREADLE_EP_MSG);
	spin_unlock(&rx->lock);
	return taken;
}

/* Make @ep reachable, with the objects of @b, which are bound. One call at a time: ctx->lock. */
static int ep_enable(struct treadle_ep *ep, u32 flags, const struct binding *b)
{
	struct treadle_tx *tx = BOUND(b[0], treadle_tx, obj);
	struct treadle_rx *rx = BOUND(b[1], treadle_rx, obj);
	struct treadle_own_ep *own = treadle_own_ep(ep);

	lockdep_assert_held(&ep->obj.ctx->lock);
	if (ep->type == TREADLE_EP_PASSIVE || ep->role == TREADLE_EP_SCALABLE)
		return -EOPNOTSUPP;
	if ((ep->role == TREADLE_EP_TX_CONTEXT && rx) || (ep->role == TREADLE_EP_RX_CONTEXT && tx))
		return -EINVAL;
	if (ep->enabled)
		return -EISCONN;
	if (ep->type == TREADLE_EP_MSG && b[2].obj) /* it has one peer, and no address vector */
		return -EINVAL;
	if (rx && !rx->shared && rx_is_taken(rx, ep))
		return -EBUSY;
	if (tx && !tx->shared) {
		/*
		 * Without tx->lock, as a doorbell may wait for a page under it. Until ->enabled is
		 * set, the doorbell refuses commands of @ep.
		 */
		if (cmpxchg(&tx->ep, NULL, ep))
			return -EBUSY;
	}
	ep->flags = flags;
	ep_set(ep, b);
	/* before a message can come: a receive of the ring is taken for one of these endpoints */
	if (rx) {
		spin_lock(&rx->lock);
		/* endpoints with a queue first: receives without a message complete there */
		if (ep->rx_cq) {
			list_add(&own->rx_link, rx->queued);
			rx->queued = &own->rx_link;
		} else {
			list_add_tail(&own->rx_link, &rx->eps);
		}
		if (ep->av)
			list_add_tail(&own->named_link, &rx->named);
		spin_unlock(&rx->lock);
	}
	/* the data path reads all of the above after this (acquire) */
	smp_store_release(&ep->enabled, true);
	return 0;
}

#define EP_FLAGS                                                                  \
	(TREADLE_EP_SOURCE | TREADLE_EP_SOURCE_ERR | TREADLE_EP_RECV_COMPLETION | \
	 TREADLE_ACCESS_PEER)

/**
 * treadle_ioc_ep_enable() - EP_ENABLE: bind an endpoint to its objects, once
 * @u:	the call, with a struct treadle_ep_enable
 *
 * Context: may sleep. Takes ctx->lock.
 * Return: 0 or -errno. -EISCONN: enabled already; -EBUSY: a ring has an endpoint.
 */
int treadle_ioc_ep_enable(struct treadle_ucmd *u)
{
	struct treadle_ep_enable *arg = u->arg;
	struct binding b[TREADLE_BINDINGS];
	struct treadle_obj *obj;
	struct treadle_ep *ep;
	int i, ret = 0;

	if ((arg->flags & ~EP_FLAGS) ||
	    (arg->flags & TREADLE_EP_SOURCE_ERR && !(arg->flags & TREADLE_EP_SOURCE)))
		return -EINVAL;
	/* bound during this call, so that DESTROY fails */
	obj = treadle_obj_bind(u->ctx, arg->ep, TREADLE_EP);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ep = container_of(obj, struct treadle_ep, obj);
	ep_bindings(arg, b);
	for (i = 0; i < TREADLE_BINDINGS && !ret; i++) {
		if (!b[i].id)
			continue;
		obj = treadle_obj_bind(u->ctx, b[i].id, b[i].type);
		if (IS_ERR(obj))
			ret = PTR_ERR(obj);
		else
			b[i].obj = obj;
	}
	if (!ret) {
		mutex_lock(&u->ctx->lock);
		ret = ep_enable(ep, arg->flags, b);
		mutex_unlock(&u->ctx->lock);
	}
	for (i = 0; ret && i < TREADLE_BINDINGS; i++)
		if (b[i].obj)
			treadle_obj_unbind(b[i].obj);
	treadle_obj_unbind(&ep->obj);
	return ret;
}

/* --- the end -------------------------------------------------------------------------------- */

/*
 * Leave the receive ring, and fail the messages that wait there for @ep. Does it once; only the
 * teardown calls it. Takes rx->lock; may sleep.
 */
static void ep_leave(struct treadle_ep *ep, struct treadle_run *run)
{
	if (ep->enabled && ep->rx && !ep->left) {
		if (ep->rx->laned)
			treadle_lanes_end(ep->rx); /* before another one has the ring */
		treadle_rx_detach(ep->rx, ep, run);
	}
	ep->left = true;
}

/**
 * treadle_ep_close() - mark an endpoint dead: it begins nothing more, and accepts nothing more
 * @ep:	the endpoint; may be closed already
 *
 * Code that has not seen this yet may still run: treadle_ep_quiesce().
 *
 * Context: takes ep->lock.
 */
void treadle_ep_close(struct treadle_ep *ep)
{
	spin_lock(&ep->lock);
	WRITE_ONCE(ep->dead, true);
	WRITE_ONCE(ep->closed, true);
	spin_unlock(&ep->lock);
}

/* Close @ep, and notify endpoints that wait for its messages, before its port can be reused. */
static void ep_die(struct treadle_ep *ep, struct treadle_run *run)
{
	treadle_ep_close(ep);
	if (unlikely(!list_empty(&ep->awaited))) { /* nothing is added since ->dead is set */
		ep_leave(ep, run); /* before what may take long, as in treadle_ep_shutdown() */
		treadle_ep_notify_death(ep, run);
	}
}

/**
 * treadle_ep_try_quiesce() - make sure that no code accesses the buffers of an endpoint any more
 * @ep:	with ->closed set: by treadle_ep_close() or treadle_conn_hang_up()
 *
 * Code that has not seen ->closed holds pm->lock, or, for a doorbell that accesses the memory of
 * its own process without the pagemap, tx->lock. Once both were taken, no such code is left. Code
 * that still writes a completion holds cq->lock: cq_quiesce().
 *
 * Context: process context, without spinlocks. Takes tx->lock and pm->lock; waits for no page.
 * Return: false: a doorbell holds tx->lock. It may wait for a page as long as userfaultfd withholds
 * that.
 */
bool treadle_ep_try_quiesce(struct treadle_ep *ep)
{
	struct treadle_pm *pm = treadle_pm_of(ep->obj.ctx);

	if (ep->tx) {
		if (!mutex_trylock(&ep->tx->lock))
			return false;
		if (READ_ONCE(ep->dead) && ep->tx->ep == ep)
			WRITE_ONCE(ep->tx->ep, NULL); /* the ring may serve another endpoint */
		mutex_unlock(&ep->tx->lock);
	}
	if (pm) /* takes pm->lock */
		treadle_pm_windows_end(pm, 0, ULONG_MAX, NULL, PM_WAIT);
	return true;
}

/**
 * treadle_ep_quiesce() - the same, but wait for a doorbell: for the endpoint's own process
 * @ep:		as for treadle_ep_try_quiesce()
 * @run:	of the caller; its jobs are handed off before the wait
 *
 * Context: may sleep, for as long as a page of the process is missing (userfaultfd).
 * Return: 0, or -EINTR: the caller is killed.
 */
int treadle_ep_quiesce(struct treadle_ep *ep, struct treadle_run *run)
{
	treadle_run_handoff(run);
	while (!treadle_ep_try_quiesce(ep)) {
		if (mutex_lock_killable(&ep->tx->lock))
			return -EINTR;
		mutex_unlock(&ep->tx->lock);
	}
	return 0;
}

/* Wait for a writer that has not seen that the endpoint is dead: it holds cq->lock. */
static void cq_quiesce(struct treadle_cq *cq)
{
	if (!cq)
		return;
	spin_lock(&cq->lock);
	spin_unlock(&cq->lock);
}

/* Let the bound objects be destroyed: no code uses them for @ep any more. */
static void ep_unbind(struct treadle_own_ep *own)
{
	int i;

	cq_quiesce(own->ep.tx_cq);
	cq_quiesce(own->ep.rx_cq);
	for (i = 0; i < TREADLE_BINDINGS; i++)
		if (own->bound[i])
			atomic_dec(&own->bound[i]->users);
}

/*
 * End a shutdown, after the caller of DESTROY was killed while another process with the same memory
 * had a doorbell under way.
 */
static void ep_unbind_work(struct treadle_work *work, struct treadle_pool *pool)
{
	struct treadle_own_ep *own = container_of(work, struct treadle_own_ep, unbind.work);

	if (!treadle_ep_try_quiesce(&own->ep)) {
		treadle_later_again(&own->unbind);
		return;
	}
	treadle_later_end(&own->unbind);
	ep_unbind(own);
	treadle_ep_put(&own->ep);
}

/**
 * treadle_ep_shutdown() - end an endpoint
 * @ep:		closed, and endpoints that wait for its messages are notified; only once
 * @run:	of the caller
 *
 * No peer finds it any more. Messages that wait for it fail; its own commands and armed receives
 * are dropped without a completion (fi_endpoint(3), fi_close). Called by DESTROY, or when the
 * context ends.
 *
 * Context: may sleep, for as long as a page that a doorbell of @ep needs is missing.
 */
void treadle_ep_shutdown(struct treadle_ep *ep, struct treadle_run *run)
{
	const struct treadle_cull cull = { .ep = ep, .max = U64_MAX };
	struct treadle_own_ep *own;
	u64 n = 0;

	treadle_ep_unlist(ep);
	if (ep->type == TREADLE_EP_MSG || ep->type == TREADLE_EP_PASSIVE)
		treadle_conn_shutdown(ep);
	if (!ep->enabled) {
		treadle_remote_forget(ep); /* another node may have asked for it */
		return;
	}
	/*
	 * Before quiescing, which may take long: receives that @ep has armed would match messages
	 * for other endpoints of its ring meanwhile. Code that still runs adds nothing to what is
	 * emptied here: it checks ->dead under rx->lock, ep->lock or trigger->lock.
	 */
	ep_leave(ep, run);
	treadle_ep_withdraw(ep, NULL, 0, U64_MAX, &n, run);
	treadle_flow_drop(ep, 0, run);
	treadle_remote_forget(ep);
	if (!READ_ONCE(ep->obj.ctx->dead)) /* else ctx_shutdown() drops all at once */
		treadle_cull_all(ep->obj.ctx, &cull, run);
	if (ep->far) /* it has no ring, and is bound to nothing */
		return;
	own = treadle_own_ep(ep);
	if (!treadle_ep_quiesce(ep, run)) {
		ep_unbind(own);
		return;
	}
	treadle_ep_get(ep);
	treadle_later_begin(&own->unbind, ep->obj.ctx, ep_unbind_work);
}

/* Release what @ep and a proxy have. */
void treadle_ep_fini(struct treadle_ep *ep)
{
	treadle_ep_unlist(ep);
	treadle_conn_free(ep);
	/* one that was never published may have been made known */
	treadle_remote_forget(ep);
}

static void ep_free(struct treadle_obj *obj)
{
	struct treadle_ep *ep = container_of(obj, struct treadle_ep, obj);
	struct treadle_own_ep *own = treadle_own_ep(ep);
	int i;

	treadle_ep_fini(ep);
	/* only nodes of an insertion that failed for want of memory */
	xa_destroy(&own->contexts);
	for (i = 0; i < TREADLE_BINDINGS; i++)
		if (own->bound[i])
			treadle_obj_put(own->bound[i]);
	if (own->parent)
		treadle_ep_put(own->parent);
	else
		treadle_key_free(ep->id.key);
}

/* The functions of endpoints, and of proxies: struct treadle_obj_ops. */
void treadle_ep_hide(struct treadle_obj *obj, struct treadle_run *run)
{
	ep_die(container_of(obj, struct treadle_ep, obj), run);
}

void treadle_ep_stop(struct treadle_obj *obj, struct treadle_run *run)
{
	treadle_ep_shutdown(container_of(obj, struct treadle_ep, obj), run);
}

static const struct treadle_obj_ops ep_ops = {
	.type = TREADLE_EP,
	.stats = TREADLE_STAT_OUT,
	.stats_end = TREADLE_STAT_EP_END,
	.hide = treadle_ep_hide,
	.stop = treadle_ep_stop,
	.free = ep_free,
};
