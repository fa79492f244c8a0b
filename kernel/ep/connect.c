// SPDX-License-Identifier: GPL-2.0
/* treadle: the states of a connection; connect.h has locks and lifetimes */
#include <linux/slab.h>

#include "ep/connect.h"
#include "ep/endpoint.h"

#define PAUSE 64 /* requests, or events, under one hold of the lock */

DEFINE_SPINLOCK(treadle_conn_lock);

/* Requests by number, which endpoints of another context name; written under treadle_conn_lock. */
static DEFINE_XARRAY_FLAGS(requests, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
static u32 next_request;

static void notice_init(struct treadle_notice *notice, struct treadle_conn *conn, u32 event)
{
	INIT_LIST_HEAD(&notice->link);
	notice->conn = conn;
	notice->event = event;
}

struct treadle_conn *treadle_conn_new(const struct treadle_addr *from,
				      const struct treadle_addr *to)
{
	struct treadle_conn *conn = kzalloc(sizeof(*conn), TREADLE_GFP);
	int i, ret;

	if (!conn)
		return ERR_PTR(-ENOMEM);
	kref_init(&conn->ref);
	INIT_LIST_HEAD(&conn->pending);
	notice_init(&conn->asked, conn, TREADLE_EVENT_CONNREQ);
	for (i = 0; i < 2; i++) {
		notice_init(&conn->end[i].told, conn, TREADLE_EVENT_CONNECTED);
		notice_init(&conn->end[i].shut, conn, TREADLE_EVENT_SHUTDOWN);
	}
	conn->end[ASKER].addr = *from;
	conn->end[ACCEPTER].addr = *to;
	ret = xa_alloc_cyclic(&requests, &conn->request, conn, XA_LIMIT(1, INT_MAX), &next_request,
			      TREADLE_GFP);
	if (ret >= 0)
		return treadle_conn_get(conn); /* also the number's */
	treadle_conn_put(conn);
	return ERR_PTR(ret == -EBUSY ? -ENOSPC : ret);
}

/* There is none any more, but there may be nodes of numbers that had no memory. */
void treadle_conn_exit(void)
{
	xa_destroy(&requests);
}

void treadle_conn_release(struct kref *ref)
{
	kfree(container_of(ref, struct treadle_conn, ref));
}

/* It is answered, or nobody is there who could: it has no number any more. */
void treadle_conn_dispose(struct treadle_conn *conn)
{
	if (!conn->request)
		return;
	xa_erase(&requests, conn->request);
	conn->request = 0;
	treadle_event_take_back(&conn->asked);
	if (conn->pep) {
		conn->pep->nr_pending--;
		conn->pep = NULL;
		list_del_init(&conn->pending);
	}
	treadle_conn_put(conn);
}

void treadle_conn_refuse(struct treadle_conn *conn, int error)
{
	struct treadle_end *asker = &conn->end[ASKER];

	if (conn->state != CONN_NEW && conn->state != CONN_ASKED)
		return;
	conn->state = CONN_OVER;
	conn->error = error;
	asker->told.event = TREADLE_EVENT_CONNREFUSED;
	if (asker->ep)
		treadle_event_tell(asker->ep, &asker->told);
}

/* The request with that number, which was made to a passive endpoint of this process. */
struct treadle_conn *treadle_conn_find(u32 number)
{
	struct treadle_conn *conn = xa_load(&requests, number);

	return conn && conn->pep && conn->pep->obj.ctx->mm == current->mm ? conn : NULL;
}

/* EP_CREATE: @ep is to accept that request. */
int treadle_conn_adopt(struct treadle_ep *ep, u32 request)
{
	struct treadle_conn *conn;
	int ret = 0;

	spin_lock(&treadle_conn_lock);
	conn = treadle_conn_find(request);
	if (!conn) {
		ret = -ENOENT;
	} else if (conn->end[ACCEPTER].ep) {
		ret = -EBUSY;
	} else {
		ep->conn = treadle_conn_get(conn);
		conn->end[ACCEPTER].ep = ep;
		ep->addr = conn->end[ACCEPTER].addr;
		ep->port = ntohs(ep->addr.port);
	}
	treadle_conn_unlock();
	return ret;
}

/* --- the end of a connection ------------------------------------------------------------------ */

/*
 * With ep->ending, without treadle_conn_lock, and nobody is at its buffers (quiesce): nothing of @ep waits any more, and
 * nothing will.
 */
void treadle_end_flush(struct treadle_ep *ep, int error, struct treadle_run *run)
{
	struct treadle_cull armed = {
		.ep = ep, .over = true, .sides = TREADLE_CANCEL_TX, .error = error, .max = U64_MAX
	};
	u64 n = 0;

	treadle_ep_withdraw(ep, NULL, error, U64_MAX, &n, run);
	treadle_flow_drop(ep, error, run);
	treadle_cull_all(ep->obj.ctx, &armed, run);
	if (!ep->rx || ep->rx->shared)
		return;
	armed.sides = TREADLE_CANCEL_RX;
	armed.error = -ECANCELED;
	treadle_cull_all(ep->obj.ctx, &armed, run);
	treadle_rx_flush(ep->rx, ep, 0, run);
	treadle_rx_flushed(ep->rx);
}

static void end_job(struct treadle_job *job, struct treadle_run *run)
{
	struct treadle_end *end = container_of(job, struct treadle_end, job);
	struct treadle_conn *conn = end->told.conn;
	struct treadle_ep *ep = end->ended;

	spin_lock(&treadle_conn_lock);
	if (end->ep)
		treadle_event_tell(end->ep, &end->shut);
	treadle_conn_unlock();
	treadle_ep_put(ep);
	treadle_conn_put(conn);
}

/*
 * Then the event, so that who reads it finds all completions but of what a worker is in the midst of: behind what is in @run,
 * and what the worker was left before, if @run is left to it. @ep and a reference to the connection are handed over.
 */
void treadle_end_tell(struct treadle_end *end, struct treadle_ep *ep, struct treadle_run *run)
{
	end->ended = ep;
	end->job.ctx = ep->obj.ctx;
	end->job.fn = end_job;
	treadle_run_add(run, &end->job);
}

/* For itself, and again later: nobody waits for a doorbell that waits for a page. */
static void end_work(struct treadle_work *work, struct treadle_pool *pool)
{
	struct treadle_end *end = container_of(work, struct treadle_end, later.work);
	struct treadle_ep *ep = end->ended;
	struct treadle_ctx *ctx = work->ctx;
	TREADLE_RUN(run, ctx);

	/* nor beside SHUTDOWN, which may have in its hands what is to be told before the event */
	if (!treadle_ep_try_quiesce(ep) || !mutex_trylock(&ep->ending)) {
		treadle_later_again(&end->later);
		return;
	}
	treadle_later_end(&end->later);
	run.pool = pool;
	treadle_end_flush(ep, -ECONNRESET, &run);
	mutex_unlock(&ep->ending);
	treadle_end_tell(end, ep, &run);
	treadle_run_handoff(&run); /* from here on the endpoint may be gone */
}

/* Leave @end, of @ep, to a worker: what waits there ends, then the event is told. */
void treadle_end_leave(struct treadle_end *end, struct treadle_conn *conn, struct treadle_ep *ep)
{
	treadle_conn_get(conn);
	end->ended = treadle_ep_get(ep);
	treadle_later_begin(&end->later, ep->obj.ctx, end_work);
}

/* Under treadle_conn_lock. From here on neither end sends. The end that is not @self is left to its worker. */
void treadle_conn_hang_up(struct treadle_conn *conn, const struct treadle_end *self)
{
	int i;

	conn->state = CONN_OVER;
	for (i = 0; i < 2; i++) {
		struct treadle_end *end = &conn->end[i];
		struct treadle_ep *ep = end->ep;

		if (!ep)
			continue;
		spin_lock(&ep->lock);
		WRITE_ONCE(ep->severed, true);
		WRITE_ONCE(ep->closed, true);
		/* who need not wait any more (flow_before) overtakes nothing: he finds nobody, and why (treadle_conn_peer) */
		smp_wmb();
		RCU_INIT_POINTER(ep->peer, NULL);
		spin_unlock(&ep->lock);
		if (end != self)
			treadle_end_leave(end, conn, ep);
	}
}

/* After one of many: others have treadle_conn_lock in between. */
void treadle_conn_pause(unsigned int *n)
{
	if (++*n % PAUSE)
		return;
	treadle_conn_unlock();
	cond_resched();
	spin_lock(&treadle_conn_lock);
}

static void pep_shutdown(struct treadle_ep *pep)
{
	struct treadle_conn *conn;
	unsigned int n = 0;

	pep->listening = false; /* from here on nobody is added */
	while (!list_empty(&pep->pending)) {
		conn = list_first_entry(&pep->pending, struct treadle_conn, pending);
		if (conn->end[ACCEPTER].ep) {
			/* it goes on: that endpoint answers */
			treadle_event_take_back(&conn->asked);
			list_del_init(&conn->pending);
			conn->pep = NULL;
		} else {
			treadle_conn_refuse(conn, -ECONNREFUSED);
			treadle_conn_dispose(conn);
		}
		treadle_conn_pause(&n);
	}
}

static void end_shutdown(struct treadle_ep *ep)
{
	struct treadle_conn *conn = ep->conn;
	struct treadle_end *end;

	if (!conn)
		return;
	end = treadle_end_of(conn, ep);
	if (conn->state == CONN_UP)
		treadle_conn_hang_up(conn, end);
	treadle_event_take_back(&end->told);
	treadle_event_take_back(&end->shut);
	end->ep = NULL;
	if (end == &conn->end[ACCEPTER]) {
		treadle_conn_refuse(conn, -ECONNREFUSED);
		treadle_conn_dispose(conn);
		return;
	}
	if (conn->state == CONN_ASKED)
		conn->state = CONN_OVER;
	/* who has seen the request may still name it */
	if (!conn->seen || conn->end[ACCEPTER].ep)
		treadle_conn_dispose(conn);
}

/* Part of treadle_ep_shutdown: @ep, MSG or PASSIVE, is gone. */
void treadle_conn_shutdown(struct treadle_ep *ep)
{
	spin_lock(&treadle_conn_lock);
	if (ep->type == TREADLE_EP_PASSIVE)
		pep_shutdown(ep);
	else
		end_shutdown(ep);
	treadle_conn_unlock();
	if (ep->eq)
		atomic_dec(&ep->eq->obj.users);
}

/* The last reference goes; an endpoint that nobody ever saw was not shut down. */
void treadle_conn_free(struct treadle_ep *ep)
{
	spin_lock(&treadle_conn_lock);
	if (ep->conn && treadle_end_of(ep->conn, ep)->ep == ep) {
		treadle_end_of(ep->conn, ep)->ep = NULL; /* the request waits for another one */
		if (!ep->conn->pep)
			treadle_conn_refuse(ep->conn, -ECONNREFUSED);
		if (!ep->conn->pep)
			treadle_conn_dispose(ep->conn);
	}
	treadle_conn_unlock();
	if (ep->conn)
		treadle_conn_put(ep->conn);
	if (ep->eq)
		treadle_obj_put(&ep->eq->obj);
}

/* An endpoint of that type, kept from being destroyed until treadle_obj_unbind. */
struct treadle_ep *treadle_ep_bind(struct treadle_ctx *ctx, u32 id, u32 types)
{
	struct treadle_obj *obj = treadle_obj_bind(ctx, id, TREADLE_EP);
	struct treadle_ep *ep;

	if (IS_ERR(obj))
		return ERR_CAST(obj);
	ep = container_of(obj, struct treadle_ep, obj);
	if (!(BIT(ep->type) & types)) {
		treadle_obj_unbind(obj);
		return ERR_PTR(-EOPNOTSUPP);
	}
	return ep;
}
