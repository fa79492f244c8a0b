// SPDX-License-Identifier: GPL-2.0
/* treadle: the states of a connection; connect.h has locks and lifetimes */
#include <linux/slab.h>

#include "ep/connect.h"
#include "ep/endpoint.h"
#include "node/node.h"

#define PAUSE 64 /* requests or events that are handled under one hold of treadle_conn_lock */

DEFINE_SPINLOCK(treadle_conn_lock);

/*
 * Requests by number, for all contexts. A request is inserted without treadle_conn_lock, before it
 * has a passive endpoint. It is looked up and erased under that lock.
 */
static DEFINE_XARRAY_FLAGS(requests, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
static u32 next_request;

static void notice_init(struct treadle_notice *notice, struct treadle_conn *conn, u32 event)
{
	INIT_LIST_HEAD(&notice->link);
	notice->conn = conn;
	notice->event = event;
}

/**
 * treadle_conn_new() - make a connection in state CONN_NEW, with a request number
 * @from:	address of the endpoint that asks
 * @to:		address that it asks for
 *
 * Context: may sleep.
 * Return: the connection, held by the caller and by its number; or -ENOMEM, or -ENOSPC: no number
 * is free.
 */
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
		notice_init(&conn->end[i].result, conn, TREADLE_EVENT_CONNECTED);
		notice_init(&conn->end[i].shut, conn, TREADLE_EVENT_SHUTDOWN);
	}
	conn->end[ASKER].addr = *from;
	conn->end[ACCEPTER].addr = *to;
	ret = xa_alloc_cyclic(&requests, &conn->request, conn, XA_LIMIT(1, INT_MAX), &next_request,
			      TREADLE_GFP);
	if (ret >= 0)
		return treadle_conn_get(conn); /* the first reference is the number's */
	treadle_conn_put(conn);
	return ERR_PTR(ret == -EBUSY ? -ENOSPC : ret);
}

/**
 * treadle_conn_exit() - free the table of requests
 *
 * No request is left. Nodes may be: of insertions that failed for want of memory.
 *
 * Context: at module exit, after the last context.
 */
void treadle_conn_exit(void)
{
	xa_destroy(&requests);
}

/**
 * treadle_conn_release() - free a connection: for treadle_conn_put()
 * @ref:	of the connection
 *
 * Context: any.
 */
void treadle_conn_release(struct kref *ref)
{
	struct treadle_conn *conn = container_of(ref, struct treadle_conn, ref);

	if (conn->s)
		treadle_session_put(conn->s);
	kfree(conn);
}

/**
 * treadle_conn_dispose() - remove a request that is answered, or cannot be any more
 * @conn:	may have been disposed of before; is freed unless other references are left
 *
 * Takes away its number, its CONNREQ event and its place at the passive endpoint.
 *
 * Context: under treadle_conn_lock.
 */
void treadle_conn_dispose(struct treadle_conn *conn)
{
	lockdep_assert_held(&treadle_conn_lock);
	if (!conn->request)
		return;
	xa_erase(&requests, conn->request);
	conn->request = 0;
	treadle_event_take_back(&conn->asked);
	if (conn->pep) {
		treadle_own_ep(conn->pep)->nr_pending--;
		conn->pep = NULL;
	}
	list_del_init(&conn->pending);
	treadle_conn_put(conn);
}

/**
 * treadle_conn_trace() - treadle_connect
 * @conn:	the connection
 * @what:	has happened to it
 *
 * Context: under treadle_conn_lock.
 */
void treadle_conn_trace(const struct treadle_conn *conn, enum treadle_trace_conn what)
{
	struct treadle_trace_msg m;

	lockdep_assert_held(&treadle_conn_lock);
	if (!trace_treadle_connect_enabled())
		return;
	treadle_trace_from(&m, conn->end[ASKER].ep);
	treadle_trace_to(&m, conn->end[ACCEPTER].ep ?: conn->pep);
	trace_treadle_connect(&m, conn->s ? conn->s->host : TREADLE_HERE, what, conn->error);
}

/**
 * treadle_conn_refuse() - end a connection that is not up yet, and queue CONNREFUSED at the asker
 * @conn:	nothing is done in the states CONN_UP and CONN_OVER
 * @error:	of the event
 *
 * Context: under treadle_conn_lock.
 */
void treadle_conn_refuse(struct treadle_conn *conn, int error)
{
	struct treadle_end *asker = &conn->end[ASKER];

	lockdep_assert_held(&treadle_conn_lock);
	if (conn->state != CONN_NEW && conn->state != CONN_ASKED)
		return;
	conn->state = CONN_OVER;
	conn->error = error;
	treadle_conn_trace(conn, TREADLE_TRACE_CONN_REFUSED);
	asker->result.event = TREADLE_EVENT_CONNREFUSED;
	if (asker->ep)
		treadle_event_queue(asker->ep, &asker->result);
}

/**
 * treadle_conn_find() - find a request to a passive endpoint of the calling process
 * @number:	of the request
 *
 * Context: under treadle_conn_lock.
 * Return: the connection, not held: the lock keeps it; or NULL.
 */
struct treadle_conn *treadle_conn_find(u32 number)
{
	struct treadle_conn *conn;

	lockdep_assert_held(&treadle_conn_lock);
	conn = xa_load(&requests, number);
	return conn && conn->pep && conn->pep->obj.ctx->mm == current->mm ? conn : NULL;
}

/**
 * treadle_conn_asking() - find a request to another node
 * @number:	of the request, as the other node says
 * @s:		session with that node
 *
 * Context: under treadle_conn_lock.
 * Return: the connection, not held: the lock keeps it; NULL: it is answered, or the asker has
 * closed.
 */
struct treadle_conn *treadle_conn_asking(u32 number, const struct treadle_session *s)
{
	struct treadle_conn *conn;

	lockdep_assert_held(&treadle_conn_lock);
	conn = xa_load(&requests, number);
	return conn && conn->s == s && !conn->there && conn->state == CONN_ASKED ? conn : NULL;
}

/**
 * treadle_conn_adopt() - EP_CREATE: make an endpoint the accepting end of a request
 * @ep:		not published yet; gets the address of the passive endpoint
 * @request:	number of the request
 *
 * Context: may sleep. Takes treadle_conn_lock.
 * Return: 0; -ENOENT: no such request; -EBUSY: it has an endpoint; -ENOMEM.
 */
int treadle_conn_adopt(struct treadle_ep *ep, u32 request)
{
	struct treadle_session *s = NULL;
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
		ep->id.source = treadle_source(TREADLE_HERE, ntohs(ep->addr.port));
		s = conn->s; /* as long as @ep has the connection */
	}
	treadle_conn_unlock();
	if (s) /* the node of the asker gets to know the endpoint */
		ret = xa_reserve(&treadle_own_ep(ep)->hosts, s->id, TREADLE_GFP);
	return ret;
}

/* --- the end of a connection ------------------------------------------------------------------ */

/**
 * treadle_end_flush() - after a hang-up: end all that waits at an endpoint
 * @ep:		severed and quiesced (treadle_ep_quiesce())
 * @error:	of commands; receives end with -ECANCELED
 * @run:	of the caller
 *
 * When this returns, nothing of @ep waits any more, and nothing will.
 *
 * Context: may sleep. Under ep->ending, without treadle_conn_lock.
 */
void treadle_end_flush(struct treadle_ep *ep, int error, struct treadle_run *run)
{
	struct treadle_cull armed = {
		.ep = ep, .over = true, .sides = TREADLE_CANCEL_TX, .error = error, .max = U64_MAX
	};
	u64 n = 0;

	lockdep_assert_held(&ep->ending);
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
	struct treadle_conn *conn = end->result.conn;
	struct treadle_ep *ep = end->ended;

	spin_lock(&treadle_conn_lock);
	if (end->ep)
		treadle_event_queue(end->ep, &end->shut);
	treadle_conn_unlock();
	treadle_ep_put(ep);
	treadle_conn_put(conn);
}

/**
 * treadle_end_notify() - after treadle_end_flush(): queue the SHUTDOWN event of an end, in a job
 * @end:	of @ep; the caller hands over a reference to its connection
 * @ep:		held; the reference is handed over
 * @run:	gets the job
 *
 * The job comes behind those that @run has, and, if @run is handed off, behind those that the
 * worker has. So a reader of the event finds all completions, except those of a job that a worker
 * is running.
 *
 * Context: without spinlocks.
 */
void treadle_end_notify(struct treadle_end *end, struct treadle_ep *ep, struct treadle_run *run)
{
	end->ended = ep;
	end->job.ctx = ep->obj.ctx;
	end->job.fn = end_job;
	treadle_run_add(run, &end->job);
}

/* Flush an end. A doorbell may wait for a page for long: don't wait for it, try again later. */
static void end_work(struct treadle_work *work, struct treadle_pool *pool)
{
	struct treadle_end *end = container_of(work, struct treadle_end, later.work);
	struct treadle_ep *ep = end->ended;
	struct treadle_ctx *ctx = work->ctx;
	TREADLE_RUN(run, ctx);

	/* not beside SHUTDOWN either, which may still have to write completions before the event */
	if (!treadle_ep_try_quiesce(ep) || !mutex_trylock(&ep->ending)) {
		treadle_later_again(&end->later);
		return;
	}
	treadle_later_end(&end->later);
	run.pool = pool;
	treadle_end_flush(ep, end->error, &run);
	mutex_unlock(&ep->ending);
	treadle_end_notify(end, ep, &run);
	treadle_run_handoff(&run); /* from here on the endpoint may be freed */
}

/**
 * treadle_end_leave() - after a hang-up: let a worker flush an end and queue its SHUTDOWN event
 * @end:	of @conn and @ep; only once
 * @conn:	gets a reference of the worker's
 * @ep:		likewise
 * @error:	of commands: -ECANCELED if @end has hung up, else -ECONNRESET
 *
 * Context: any; never sleeps.
 */
void treadle_end_leave(struct treadle_end *end, struct treadle_conn *conn, struct treadle_ep *ep,
		       int error)
{
	treadle_conn_get(conn);
	end->error = error;
	end->ended = treadle_ep_get(ep);
	treadle_later_begin(&end->later, ep->obj.ctx, end_work);
}

/**
 * treadle_conn_hang_up() - end a connection that is up
 * @conn:	in state CONN_UP
 * @self:	the end that the caller flushes; the other one is left to a worker
 *
 * From here on neither end sends.
 *
 * Context: under treadle_conn_lock. Takes ep->lock of each end.
 */
void treadle_conn_hang_up(struct treadle_conn *conn, const struct treadle_end *self)
{
	int i;

	lockdep_assert_held(&treadle_conn_lock);
	conn->state = CONN_OVER;
	treadle_conn_trace(conn, TREADLE_TRACE_CONN_OVER);
	for (i = 0; i < 2; i++) {
		struct treadle_end *end = &conn->end[i];
		struct treadle_ep *ep = end->ep;

		if (!ep)
			continue;
		spin_lock(&ep->lock);
		WRITE_ONCE(ep->severed, true);
		WRITE_ONCE(ep->closed, true);
		/*
		 * ->severed before ->peer = NULL: a sender without a peer must see why. Pairs with
		 * smp_rmb() in treadle_conn_may_send() and treadle_conn_peer(). ep->lock covers
		 * both: a command that does not wait in its flow, as ->closed is set
		 * (flow_before()), finds no peer, so it overtakes nothing.
		 */
		smp_wmb();
		RCU_INIT_POINTER(ep->peer, NULL);
		spin_unlock(&ep->lock);
		if (end != self)
			treadle_end_leave(end, conn, ep, -ECONNRESET);
	}
}

/**
 * treadle_conn_pause() - drop treadle_conn_lock now and then in a long loop
 * @n:	counts the calls
 *
 * Context: under treadle_conn_lock, which each PAUSEth call drops and takes again. May sleep.
 */
void treadle_conn_pause(unsigned int *n)
{
	lockdep_assert_held(&treadle_conn_lock);
	if (++*n % PAUSE)
		return;
	treadle_conn_unlock();
	cond_resched();
	spin_lock(&treadle_conn_lock);
}

/*
 * Close a passive endpoint: refuse its requests that no endpoint was made for. May sleep: drops
 * treadle_conn_lock now and then.
 */
static void pep_shutdown(struct treadle_ep *pep)
{
	struct treadle_own_ep *own = treadle_own_ep(pep);
	struct treadle_conn *conn;
	unsigned int n = 0;

	lockdep_assert_held(&treadle_conn_lock);
	own->listening = false; /* from here on no request is added */
	while (!list_empty(&own->pending)) {
		conn = list_first_entry(&own->pending, struct treadle_conn, pending);
		if (conn->end[ACCEPTER].ep) {
			/* the request goes on: that endpoint answers it */
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

/* Close one end of a connection. */
static void end_shutdown(struct treadle_ep *ep)
{
	struct treadle_conn *conn = ep->conn;
	struct treadle_end *end;

	lockdep_assert_held(&treadle_conn_lock);
	if (!conn)
		return;
	end = treadle_end_of(conn, ep);
	if (conn->state == CONN_UP)
		treadle_conn_hang_up(conn, end);
	treadle_event_take_back(&end->result);
	treadle_event_take_back(&end->shut);
	end->ep = NULL;
	if (end == &conn->end[ACCEPTER]) {
		treadle_conn_refuse(conn, -ECONNREFUSED);
		treadle_conn_dispose(conn);
		return;
	}
	if (conn->state == CONN_ASKED)
		conn->state = CONN_OVER;
	/* a request that was read stays until it is answered: its reader may still name it */
	if (!conn->seen || conn->end[ACCEPTER].ep)
		treadle_conn_dispose(conn);
}

/**
 * treadle_conn_shutdown() - close the connection or the pending requests of an endpoint
 * @ep:	MSG or PASSIVE, being shut down (treadle_ep_shutdown())
 *
 * Context: may sleep. Takes treadle_conn_lock.
 */
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

/**
 * treadle_conn_free() - release what an endpoint holds of its connection and event queue
 * @ep:	without references
 *
 * An endpoint that was never published was not shut down: its request waits for another endpoint,
 * or, if the passive endpoint is gone, is refused.
 *
 * Context: without spinlocks. Takes treadle_conn_lock.
 */
void treadle_conn_free(struct treadle_ep *ep)
{
	spin_lock(&treadle_conn_lock);
	if (ep->conn && treadle_end_of(ep->conn, ep)->ep == ep) {
		/* the request waits for another endpoint */
		treadle_end_of(ep->conn, ep)->ep = NULL;
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

/**
 * treadle_ep_bind() - find an endpoint, and keep it from being destroyed
 * @ctx:	its context
 * @id:		its id
 * @types:	ONLY_MSG, ONLY_PASSIVE, or both
 *
 * Context: without spinlocks.
 * Return: the endpoint, until treadle_obj_unbind(); or -ENOENT, -EBADF: no endpoint, -EOPNOTSUPP:
 * of another type.
 */
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
