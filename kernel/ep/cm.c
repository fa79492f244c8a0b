// SPDX-License-Identifier: GPL-2.0
/* treadle: request, accept, reject and end connections, fi_cm(3); connect.h has locks, lifetimes */
#include <linux/slab.h>
#include <linux/socket.h>
#include <linux/uaccess.h>

#include "ep/connect.h"
#include "ep/endpoint.h"
#include "node/node.h"

#define BACKLOG_DEFAULT 128
#define BACKLOG_MAX	65536

/* Copy the caller's connection data. Returns 0, -EINVAL or -EFAULT. */
static int copy_data(u8 *to, u32 *to_size, u64 data, u32 size)
{
	if (size > TREADLE_CM_DATA || (!size && data))
		return -EINVAL;
	if (copy_from_user(to, u64_to_user_ptr(data), size))
		return -EFAULT;
	*to_size = size;
	return 0;
}

/**
 * treadle_ioc_listen() - LISTEN: let a passive endpoint take requests
 * @u:	the call, with a struct treadle_listen
 *
 * Context: may sleep. Takes treadle_conn_lock.
 * Return: 0 or -errno. -EINVAL: also if the endpoint has no event queue.
 */
int treadle_ioc_listen(struct treadle_ucmd *u)
{
	struct treadle_listen *arg = u->arg;
	struct treadle_ep *pep;
	int ret = 0;

	if (arg->flags || arg->backlog > BACKLOG_MAX)
		return -EINVAL;
	pep = treadle_ep_bind(u->ctx, arg->ep, ONLY_PASSIVE);
	if (IS_ERR(pep))
		return PTR_ERR(pep);
	spin_lock(&treadle_conn_lock);
	if (!pep->eq) {
		ret = -EINVAL;
	} else {
		treadle_own_ep(pep)->backlog = arg->backlog ?: BACKLOG_DEFAULT;
		treadle_own_ep(pep)->listening = !READ_ONCE(pep->dead);
	}
	treadle_conn_unlock();
	treadle_obj_unbind(&pep->obj);
	return ret;
}

/* May @ep send a request to @pep (or NULL)? Returns 0, or the error of CONNREFUSED. */
static int may_request(const struct treadle_ep *pep, const struct treadle_ep *ep)
{
	const struct treadle_own_ep *own;

	lockdep_assert_held(&treadle_conn_lock);
	if (!pep || pep->type != TREADLE_EP_PASSIVE)
		return -ECONNREFUSED;
	own = treadle_own_ep(pep);
	if (!own->listening || own->nr_pending >= own->backlog)
		return -ECONNREFUSED;
	return treadle_admits(&pep->id, &ep->id) ? 0 : -EACCES;
}

/* The conditions that CONNECT and ACCEPT share: alive, enabled, with an event queue. */
static int may_connect(const struct treadle_ep *ep)
{
	lockdep_assert_held(&treadle_conn_lock);
	if (READ_ONCE(ep->dead))
		return -ESHUTDOWN;
	if (!smp_load_acquire(&ep->enabled)) /* pairs with ep_enable() */
		return -ENOTCONN;
	return ep->eq || ep->far ? 0 : -EINVAL;
}

/**
 * treadle_conn_ask() - begin a connection: queue the request at @pep, or CONNREFUSED at @ep
 * @ep:		asks; a proxy if another node does
 * @conn:	in state CONN_NEW
 * @pep:	is asked; NULL: there is none, or, if conn->s is set, another node is asked
 * @error:	0, or with which it is refused
 *
 * Context: under treadle_conn_lock.
 * Return: 0, or an error if @ep cannot connect.
 */
int treadle_conn_ask(struct treadle_ep *ep, struct treadle_conn *conn, struct treadle_ep *pep,
		     int error)
{
	bool far = conn->s && !ep->far;
	int ret;

	lockdep_assert_held(&treadle_conn_lock);
	ret = may_connect(ep);
	if (!ret && ep->conn)
		ret = -EISCONN;
	if (ret)
		return ret;
	ep->conn = treadle_conn_get(conn);
	conn->end[ASKER].ep = ep;
	if (!error && !far)
		error = may_request(pep, ep);
	if (error) {
		treadle_conn_refuse(conn, error);
		return 0;
	}
	conn->state = CONN_ASKED;
	conn->pep = far ? NULL : pep;
	treadle_conn_trace(conn, TREADLE_TRACE_ASKED);
	if (far)
		return 0;
	conn->end[ACCEPTER].addr = pep->addr;
	list_add_tail(&conn->pending, &treadle_own_ep(pep)->pending);
	treadle_own_ep(pep)->nr_pending++;
	treadle_event_queue(pep, &conn->asked);
	return 0;
}

/*
 * The session with the node at @addr, held; NULL: it is this one, or not known. *host: its number,
 * for treadle_host_put(); 0: not to be put; or why it is not known.
 */
static struct treadle_session *session_with(struct treadle_ctx *ctx,
					    const struct treadle_addr *addr, bool local, int *host)
{
	*host = 0;
	if (local)
		return treadle_session_get(ctx->net, treadle_host_mirror(ctx->net));
	*host = treadle_host_get(ctx->net, addr, ctx->user);
	return *host > 0 ? treadle_session_get(ctx->net, *host) : NULL;
}

/**
 * treadle_ioc_connect() - CONNECT: request a connection
 * @u:	the call, with a struct treadle_connect
 *
 * Context: may sleep. Takes treadle_conn_lock.
 * Return: 0: the outcome comes as an event; or -errno.
 */
int treadle_ioc_connect(struct treadle_ucmd *u)
{
	struct treadle_connect *arg = u->arg;
	struct treadle_ep *ep, *pep = NULL;
	struct treadle_conn *conn;
	u8 data[TREADLE_CM_DATA];
	bool local, asked;
	u32 size;
	int ret, host;

	if (arg->flags)
		return -EINVAL;
	if (arg->addr.family != AF_INET && arg->addr.family != AF_INET6)
		return -EADDRNOTAVAIL;
	if (!treadle_addr_valid(&arg->addr))
		return -EINVAL;
	ret = copy_data(data, &size, arg->data, arg->data_size);
	if (ret)
		return ret;
	ep = treadle_ep_bind(u->ctx, arg->ep, ONLY_MSG);
	if (IS_ERR(ep))
		return PTR_ERR(ep);
	conn = treadle_conn_new(&ep->addr, &arg->addr);
	if (IS_ERR(conn)) {
		treadle_obj_unbind(&ep->obj);
		return PTR_ERR(conn);
	}
	conn->ask_size = size;
	memcpy(conn->ask, data, size);
	local = treadle_addr_local(u->ctx->net, &arg->addr);
	conn->s = session_with(u->ctx, &arg->addr, local, &host);
	if (local && !conn->s)
		pep = treadle_ep_find(u->ctx->ports,
				      treadle_source(TREADLE_HERE, ntohs(arg->addr.port)));
	spin_lock(&treadle_conn_lock);
	ret = treadle_conn_ask(ep, conn, pep, local || conn->s ? 0 : min(host, 0) ?: -EHOSTUNREACH);
	asked = conn->state == CONN_ASKED;
	if (!asked)
		treadle_conn_dispose(conn);
	treadle_conn_unlock();
	if (asked && conn->s)
		treadle_node_ops.connect(conn->s, ep, conn);
	if (host > 0)
		treadle_host_put(u->ctx->net, host);
	if (pep)
		treadle_ep_put(pep);
	treadle_conn_put(conn);
	treadle_obj_unbind(&ep->obj);
	return ret;
}

/**
 * treadle_conn_accept() - accept the request that an endpoint was made for, and connect both ends
 * @ep:		accepts; a proxy if another node does
 * @answer:	data for the asker
 * @size:	of it
 *
 * Context: under treadle_conn_lock.
 * Return: 0 or -errno: see treadle_ioc_accept().
 */
int treadle_conn_accept(struct treadle_ep *ep, const u8 *answer, u32 size)
{
	struct treadle_conn *conn = ep->conn;
	struct treadle_ep *asker;
	int ret;

	lockdep_assert_held(&treadle_conn_lock);
	ret = may_connect(ep);
	if (ret)
		return ret;
	if (!conn || conn->end[ACCEPTER].ep != ep)
		return -EINVAL;
	if (conn->state == CONN_UP)
		return -EISCONN;
	if (conn->state != CONN_ASKED) {
		treadle_conn_dispose(conn); /* the asker has closed */
		return READ_ONCE(ep->severed) ? -ESHUTDOWN : -ECONNRESET;
	}
	asker = conn->end[ASKER].ep; /* not NULL: it sets CONN_OVER when it closes */
	conn->state = CONN_UP;
	treadle_conn_trace(conn, TREADLE_TRACE_CONNECTED);
	conn->answer_size = size;
	memcpy(conn->answer, answer, size);
	treadle_conn_dispose(conn);
	rcu_assign_pointer(asker->peer, ep);
	treadle_event_queue(asker, &conn->end[ASKER].result);
	/* on another node, the asker must hear of it before the first message comes */
	if (!asker->far)
		treadle_conn_established(conn);
	return 0;
}

/**
 * treadle_conn_established() - the asker knows that it was accepted: the accepter may send
 * @conn:	the connection; nothing is done if it is not up
 *
 * Context: under treadle_conn_lock.
 */
void treadle_conn_established(struct treadle_conn *conn)
{
	struct treadle_ep *ep = conn->end[ACCEPTER].ep;

	lockdep_assert_held(&treadle_conn_lock);
	if (conn->state != CONN_UP)
		return;
	rcu_assign_pointer(ep->peer, conn->end[ASKER].ep);
	treadle_event_queue(ep, &conn->end[ACCEPTER].result);
}

/**
 * treadle_ioc_accept() - ACCEPT: accept the request that the endpoint was created with
 * @u:	the call, with a struct treadle_accept
 *
 * Context: may sleep. Takes treadle_conn_lock.
 * Return: 0 or -errno. -ECONNRESET: the asker has closed meanwhile.
 */
int treadle_ioc_accept(struct treadle_ucmd *u)
{
	struct treadle_accept *arg = u->arg;
	u8 answer[TREADLE_CM_DATA];
	struct treadle_ep *ep;
	u32 size;
	int ret;

	if (arg->flags)
		return -EINVAL;
	ret = copy_data(answer, &size, arg->data, arg->data_size);
	if (ret)
		return ret;
	ep = treadle_ep_bind(u->ctx, arg->ep, ONLY_MSG);
	if (IS_ERR(ep))
		return PTR_ERR(ep);
	spin_lock(&treadle_conn_lock);
	ret = treadle_conn_accept(ep, answer, size);
	treadle_conn_unlock();
	treadle_obj_unbind(&ep->obj);
	return ret;
}

/**
 * treadle_ioc_reject() - REJECT: reject a request that no endpoint has accepted yet
 * @u:	the call, with a struct treadle_reject
 *
 * Context: may sleep. Takes treadle_conn_lock.
 * Return: 0 or -errno. -ENOENT: no such request at this passive endpoint.
 */
int treadle_ioc_reject(struct treadle_ucmd *u)
{
	struct treadle_reject *arg = u->arg;
	u8 answer[TREADLE_CM_DATA];
	struct treadle_conn *conn;
	struct treadle_ep *pep;
	u32 size;
	int ret;

	if (arg->flags || arg->reserved)
		return -EINVAL;
	ret = copy_data(answer, &size, arg->data, arg->data_size);
	if (ret)
		return ret;
	pep = treadle_ep_bind(u->ctx, arg->ep, ONLY_PASSIVE);
	if (IS_ERR(pep))
		return PTR_ERR(pep);
	spin_lock(&treadle_conn_lock);
	conn = treadle_conn_find(arg->request);
	if (!conn || conn->pep != pep) {
		ret = -ENOENT;
	} else {
		conn->answer_size = size;
		memcpy(conn->answer, answer, size);
		treadle_conn_refuse(conn, -ECONNREFUSED);
		treadle_conn_dispose(conn);
	}
	treadle_conn_unlock();
	treadle_obj_unbind(&pep->obj);
	return ret;
}

/**
 * treadle_ioc_shutdown() - SHUTDOWN: end a connection, and all that waits at the caller's end
 * @u:	the call, with a struct treadle_shutdown
 *
 * Context: may sleep, for as long as a page that a doorbell needs is missing. Takes
 * treadle_conn_lock, then ep->ending.
 * Return: 0, also if the connection has ended already; or -errno. -EINTR: the caller is killed.
 */
int treadle_ioc_shutdown(struct treadle_ucmd *u)
{
	struct treadle_shutdown *arg = u->arg;
	struct treadle_conn *conn = NULL;
	struct treadle_end *end = NULL;
	struct treadle_ep *ep;
	int ret = -ENOTCONN;
	TREADLE_RUN(run, u->ctx);

	if (arg->flags || arg->reserved)
		return -EINVAL;
	ep = treadle_ep_bind(u->ctx, arg->ep, ONLY_MSG);
	if (IS_ERR(ep))
		return PTR_ERR(ep);
	spin_lock(&treadle_conn_lock);
	if (READ_ONCE(ep->severed)) {
		ret = 0;
	} else if (ep->conn && ep->conn->state == CONN_UP) {
		conn = ep->conn; /* held by @ep, which is bound */
		end = treadle_end_of(conn, ep);
		treadle_conn_hang_up(conn, end);
		ret = 0;
	}
	treadle_conn_unlock();
	/* also if the other end was first: the worker may still flush this end */
	if (!ret)
		ret = treadle_ep_quiesce(ep, &run);
	if (!ret)
		ret = mutex_lock_killable(&ep->ending);
	if (!ret) {
		treadle_end_flush(ep, -ECANCELED, &run);
		/* the worker will queue the event of this end: let it run these jobs before that */
		if (!conn)
			treadle_run_handoff(&run);
		mutex_unlock(&ep->ending);
	}
	if (conn && ret) { /* killed, but another process may share the memory: a worker goes on */
		treadle_end_leave(end, conn, ep, -ECANCELED);
	} else if (conn) {
		treadle_conn_get(conn);
		treadle_end_notify(end, treadle_ep_get(ep), &run);
	}
	treadle_obj_unbind(&ep->obj);
	treadle_run_jobs(&run);
	return ret;
}
