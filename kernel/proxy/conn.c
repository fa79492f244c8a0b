// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: connections with endpoints of other nodes
 *
 * Each node has a connection of its own, between its endpoint and the proxy of the other one:
 *
 *	CONNECT: CONN_REQ to the node of the passive endpoint, where a proxy of the asker asks;
 *	ACCEPT there: CONN_REP, and a proxy of the accepter accepts here; REJECT: CONN_REJ;
 *	the end of the one connection: CONN_OVER, which ends the other one.
 *
 * An endpoint that closes ends its connection, and its proxy, by GONE.
 *
 * The reference of REQ, REP and REJ is the number of the asker's request. The proxies' events are
 * told by a job, as they come under treadle_conn_lock. That lock is outside of s->lock.
 */
#include <linux/slab.h>

#include "ep/connect.h"
#include "proxy/proxy.h"

static struct treadle_proxy *proxy_of(struct treadle_ep *ep)
{
	return container_of(ep, struct treadle_proxy, ep);
}

/* Write an item about a connection. False: there is no room. Takes s->lock. */
static bool tell(struct treadle_session *s, u8 kind, u32 reference, u32 from, u32 to,
		 const u8 *data, u32 bytes)
{
	struct treadle_wire_pair *w;

	spin_lock(&s->lock);
	w = treadle_session_item(s, kind, sizeof(*w) + bytes, reference);
	if (w) {
		w->from = cpu_to_le32(from);
		w->to = cpu_to_le32(to);
		memcpy(w + 1, data, bytes);
	} else {
		treadle_session_starve(s);
	}
	treadle_session_flush(s);
	spin_unlock(&s->lock);
	return w;
}

/* Ask the other node. False: there is no room, or no session yet. */
static bool ask(struct treadle_session *s, struct treadle_conn *conn)
{
	struct treadle_end *asker = &conn->end[ASKER], *accepter = &conn->end[ACCEPTER];
	u32 handle;

	lockdep_assert_held(&treadle_conn_lock);
	/* -ECONNREFUSED: the asker is closing, which ends the request */
	if (treadle_remote_introduce(s, asker->ep, &handle))
		return false;
	conn->told = tell(s, TREADLE_WIRE_CONN_REQ, conn->request, handle,
			  ntohs(accepter->addr.port), conn->ask, conn->ask_size);
	return conn->told;
}

/**
 * treadle_far_connect() - ask an endpoint on another node for a connection: ->connect
 * @s:		session with that node
 * @ep:		the asker
 * @conn:	in state CONN_ASKED, or over since
 *
 * Context: may sleep. Takes treadle_conn_lock.
 */
void treadle_far_connect(struct treadle_session *s, struct treadle_ep *ep,
			 struct treadle_conn *conn)
{
	bool memory = (s->remote || treadle_remote_alloc(s)) &&
		      !xa_reserve(&treadle_own_ep(ep)->hosts, s->id, TREADLE_GFP);

	spin_lock(&treadle_conn_lock);
	if (conn->state != CONN_ASKED) {
		;
	} else if (!memory) {
		treadle_conn_refuse(conn, -ENOMEM);
		treadle_conn_dispose(conn);
	} else {
		list_add_tail(&conn->pending, &s->remote->connecting);
		if (!ask(s, conn)) {
			spin_lock(&s->lock);
			treadle_session_starve(s);
			treadle_session_connect(s);
			spin_unlock(&s->lock);
		}
	}
	treadle_conn_unlock();
}

/* --- the proxy's end ---------------------------------------------------------------------- */

/* What the job of a proxy has to tell. */
struct news {
	u32 due;
	bool asker;
	u32 there;
	int error;
	struct treadle_ep *local;
	u32 bytes;
	u8 data[TREADLE_CM_DATA];
};

static void take_news(struct treadle_proxy *proxy, struct news *news)
{
	struct treadle_conn *conn = proxy->ep.conn;

	spin_lock(&treadle_conn_lock);
	news->due = proxy->due;
	news->asker = conn->there; /* the number of an asker of another node is not 0 */
	news->there = conn->there;
	news->error = conn->error;
	news->bytes = conn->answer_size;
	memcpy(news->data, conn->answer, news->bytes);
	news->local = conn->end[news->asker ? ACCEPTER : ASKER].ep;
	if (news->local)
		treadle_ep_get(news->local);
	treadle_conn_unlock();
}

/*
 * The handle of the endpoint here, which has its place for the host: see treadle_far_connect() and
 * treadle_conn_adopt(). 0; -EAGAIN: no room; or an error: it has ended, too.
 */
static int handle_of(struct treadle_session *s, struct treadle_ep *ep, u32 *handle)
{
	if (!ep)
		return -ECONNREFUSED;
	return treadle_remote_introduce(s, ep, handle);
}

/* Tell what is due. False: there is no room for it. */
static bool tell_news(struct treadle_session *s, const struct news *news)
{
	u32 refused = BIT(TREADLE_EVENT_CONNREFUSED), up = BIT(TREADLE_EVENT_CONNECTED);
	u32 handle, due = news->asker ? news->due : news->due & BIT(TREADLE_EVENT_SHUTDOWN);
	int ret = due & ~refused ? handle_of(s, news->local, &handle) : 0;

	if (ret == -EAGAIN)
		return false;
	if (due & refused)
		return tell(s, TREADLE_WIRE_CONN_REJ, news->there, -news->error, 0, news->data,
			    news->bytes);
	if (ret && due & up)
		return tell(s, TREADLE_WIRE_CONN_REJ, news->there, ECONNREFUSED, 0, NULL, 0);
	if (ret) /* GONE has told it */
		return true;
	if (due & up &&
	    !tell(s, TREADLE_WIRE_CONN_REP, news->there, handle, 0, news->data, news->bytes))
		return false;
	return !(due & BIT(TREADLE_EVENT_SHUTDOWN)) ||
	       tell(s, TREADLE_WIRE_CONN_OVER, 0, handle, 0, NULL, 0);
}

/* The job of a proxy. It holds the proxy, also while it waits for room. */
static void tell_job(struct treadle_job *job, struct treadle_run *run)
{
	struct treadle_proxy *proxy = container_of(job, struct treadle_proxy, job);
	struct treadle_session *s = proxy->session;
	struct news news = {};
	bool told, valid, up;

	take_news(proxy, &news);
	told = tell_news(s, &news);
	if (news.local)
		treadle_ep_put(news.local);
	spin_lock(&treadle_conn_lock);
	spin_lock(&s->lock);
	valid = treadle_proxy_valid(proxy);
	up = told && news.due & BIT(TREADLE_EVENT_CONNECTED);
	if (told)
		proxy->due &= ~news.due;
	proxy->telling = valid && (proxy->due || !told);
	if (proxy->telling && !told) {
		list_add_tail(&proxy->wait, &s->proxies->telling);
		treadle_session_starve(s);
	}
	told = proxy->telling && told;
	valid = proxy->telling;
	spin_unlock(&s->lock);
	if (up && news.asker)
		treadle_conn_established(proxy->ep.conn);
	treadle_conn_unlock();
	if (told)
		treadle_run_add(run, job);
	else if (!valid)
		treadle_ep_put(&proxy->ep);
}

/**
 * treadle_far_notice() - something has happened at the end of a proxy: ->notice
 * @ep:		the proxy
 * @event:	enum treadle_event_kind
 *
 * Context: under treadle_conn_lock.
 */
void treadle_far_notice(struct treadle_ep *ep, u32 event)
{
	struct treadle_proxy *proxy = proxy_of(ep);

	lockdep_assert_held(&treadle_conn_lock);
	proxy->due |= BIT(event);
	if (proxy->telling)
		return;
	proxy->telling = true;
	treadle_ep_get(ep);
	INIT_LIST_HEAD(&proxy->job.link);
	proxy->job.ctx = ep->obj.ctx;
	proxy->job.fn = tell_job;
	treadle_queue_job(&proxy->job);
}

/* --- what the other node tells ------------------------------------------------------------ */

static const struct treadle_wire_pair *pair_of(const struct treadle_wire_view *view)
{
	return (const struct treadle_wire_pair *)view->item;
}

/* The MSG proxy with the handle that an item says, or NULL. */
static struct treadle_proxy *msg_proxy(struct treadle_session *s,
				       const struct treadle_wire_view *view)
{
	struct treadle_proxy *proxy = treadle_proxy_find(s, le32_to_cpu(pair_of(view)->from));

	return proxy && proxy->ep.type == TREADLE_EP_MSG ? proxy : NULL;
}

/**
 * treadle_far_request() - an endpoint of the other node asks for a connection
 * @s:		the session
 * @view:	CONN_REQ
 *
 * Context: arrivals of the session. May sleep. Takes treadle_conn_lock.
 * Return: 0 or -EPROTO.
 */
int treadle_far_request(struct treadle_session *s, const struct treadle_wire_view *view)
{
	u32 there = le32_to_cpu(view->item->reference), port = le32_to_cpu(pair_of(view)->to);
	struct treadle_proxy *proxy = msg_proxy(s, view);
	struct treadle_ports *ports = treadle_ports(treadle_session_net(s));
	struct treadle_addr to = {};
	struct treadle_conn *conn;
	struct treadle_ep *pep;
	bool memory;

	if (!there || port > U16_MAX)
		return -EPROTO;
	if (proxy && proxy->ep.conn)
		return -EPROTO;
	treadle_node_address(treadle_session_net(s), &to);
	to.port = htons(port);
	conn = proxy ? treadle_conn_new(&proxy->ep.addr, &to) : ERR_PTR(-ENOMEM);
	memory = !IS_ERR(conn);
	if (!memory) {
		/* without room for this, the asker waits until it gives up */
		tell(s, TREADLE_WIRE_CONN_REJ, there, ENOMEM, 0, NULL, 0);
		return 0;
	}
	kref_get(&s->ref);
	conn->s = s;
	conn->there = there;
	conn->ask_size = view->bytes;
	memcpy(conn->ask, view->payload, view->bytes);
	pep = treadle_ep_find(ports, treadle_source(TREADLE_HERE, port));
	spin_lock(&treadle_conn_lock);
	treadle_conn_ask(&proxy->ep, conn, pep, 0);
	if (conn->state != CONN_ASKED)
		treadle_conn_dispose(conn);
	treadle_conn_unlock();
	if (pep)
		treadle_ep_put(pep);
	treadle_conn_put(conn);
	return 0;
}

/**
 * treadle_far_accepted() - the other node has accepted a request
 * @s:		the session
 * @view:	CONN_REP; if the asker has closed since, it means nothing
 *
 * Context: arrivals of the session. Takes treadle_conn_lock.
 * Return: 0 or -EPROTO.
 */
int treadle_far_accepted(struct treadle_session *s, const struct treadle_wire_view *view)
{
	struct treadle_proxy *proxy = msg_proxy(s, view);
	struct treadle_conn *conn;
	int ret = 0;
	u32 handle;

	spin_lock(&treadle_conn_lock);
	conn = treadle_conn_asking(le32_to_cpu(view->item->reference), s);
	if (conn && (!proxy || proxy->ep.conn)) {
		ret = proxy ? -EPROTO : 0;
		/* without room for this, the accepter hears of it when the asker closes */
		if (!proxy && !treadle_remote_introduce(s, conn->end[ASKER].ep, &handle))
			tell(s, TREADLE_WIRE_CONN_OVER, 0, handle, 0, NULL, 0);
		treadle_conn_refuse(conn, -ENOMEM);
		treadle_conn_dispose(conn);
	} else if (conn) {
		proxy->ep.conn = treadle_conn_get(conn);
		conn->end[ACCEPTER].ep = &proxy->ep;
		treadle_conn_accept(&proxy->ep, view->payload, view->bytes);
	}
	treadle_conn_unlock();
	return ret;
}

/**
 * treadle_far_refused() - the other node has refused a request
 * @s:		the session
 * @view:	CONN_REJ
 *
 * Context: arrivals of the session. Takes treadle_conn_lock.
 * Return: 0 or -EPROTO.
 */
int treadle_far_refused(struct treadle_session *s, const struct treadle_wire_view *view)
{
	u32 error = le32_to_cpu(pair_of(view)->from);
	struct treadle_conn *conn;

	if (!error || error > MAX_ERRNO)
		return -EPROTO;
	spin_lock(&treadle_conn_lock);
	conn = treadle_conn_asking(le32_to_cpu(view->item->reference), s);
	if (conn) {
		conn->answer_size = view->bytes;
		memcpy(conn->answer, view->payload, view->bytes);
		treadle_conn_refuse(conn, -(int)error);
		treadle_conn_dispose(conn);
	}
	treadle_conn_unlock();
	return 0;
}

/**
 * treadle_far_over() - the other node's end of a connection is over
 * @s:		the session
 * @view:	CONN_OVER
 *
 * Context: arrivals of the session. Takes treadle_conn_lock and s->lock.
 * Return: 0 or -EPROTO.
 */
int treadle_far_over(struct treadle_session *s, const struct treadle_wire_view *view)
{
	struct treadle_proxy *proxy = msg_proxy(s, view);
	struct treadle_conn *conn;
	struct treadle_end *end;

	if (!proxy)
		return 0;
	spin_lock(&treadle_conn_lock);
	conn = proxy->ep.conn;
	if (conn && conn->state == CONN_UP) {
		/* as SHUTDOWN: its commands must not fail as if this end had hung up */
		end = treadle_end_of(conn, &proxy->ep);
		treadle_conn_hang_up(conn, end);
		treadle_end_leave(end, conn, &proxy->ep, -ECANCELED);
	}
	treadle_conn_unlock();
	spin_lock(&s->lock);
	treadle_pull_abort_all(s, proxy);
	spin_unlock(&s->lock);
	return 0;
}

/**
 * treadle_far_room() - ask, and tell, what had to wait
 * @s:		the session
 *
 * Context: arrivals of the session. Takes treadle_conn_lock and s->lock.
 */
void treadle_far_room(struct treadle_session *s)
{
	struct treadle_proxy *proxy, *next;
	struct treadle_conn *conn;
	unsigned int n = 0;
	bool more = false;
	LIST_HEAD(telling);

	if (s->remote) {
		spin_lock(&treadle_conn_lock);
		list_for_each_entry(conn, &s->remote->connecting, pending)
			if (!conn->told && (n++ == TREADLE_ROOM || !ask(s, conn))) {
				more = true;
				break;
			}
		treadle_conn_unlock();
	}
	spin_lock(&s->lock);
	if (more)
		treadle_session_starve(s);
	if (s->proxies)
		list_splice_init(&s->proxies->telling, &telling);
	spin_unlock(&s->lock);
	list_for_each_entry_safe(proxy, next, &telling, wait) {
		list_del(&proxy->wait);
		treadle_queue_job(&proxy->job);
	}
}

/**
 * treadle_far_drop() - the session ends: nothing more is told
 * @p:		no longer of the session
 *
 * Context: may sleep.
 */
void treadle_far_drop(struct treadle_proxies *p)
{
	struct treadle_proxy *proxy, *next;

	list_for_each_entry_safe(proxy, next, &p->telling, wait) {
		list_del(&proxy->wait);
		treadle_ep_put(&proxy->ep);
	}
}

/**
 * treadle_far_end() - the other node is lost: refuse requests that it has not answered
 * @s:		the session
 * @error:	for them
 *
 * Context: may sleep. Takes treadle_conn_lock.
 */
void treadle_far_end(struct treadle_session *s, int error)
{
	struct treadle_conn *conn;
	unsigned int n = 0;

	if (!s->remote)
		return;
	spin_lock(&treadle_conn_lock);
	while ((conn = list_first_entry_or_null(&s->remote->connecting, struct treadle_conn,
						pending))) {
		treadle_conn_refuse(conn, error);
		treadle_conn_dispose(conn);
		treadle_conn_pause(&n);
	}
	treadle_conn_unlock();
}
