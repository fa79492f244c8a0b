// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: members of collectives on other nodes
 *
 * A collective receive fails when its source ends. The proxy of a source ends with it, so a receive
 * awaits the proxy. If there is none yet, the other node is asked to make its endpoint known
 * (WATCH): it answers with INTRO, or with LOST, if there is no such endpoint. The reference of both
 * is the port.
 */
#include <linux/slab.h>

#include "proxy/proxy.h"

/* A collective receive that awaits a source that is not known yet */
struct waiting {
	struct list_head link;
	struct treadle_rx *rx;
	u32 source;
	u64 seq;
};

/*
 * struct watch - a source that is not known yet; under s->lock
 * @node:	in remote->watches
 * @asked:	WATCH was sent
 * @waiting:	receives
 */
struct watch {
	struct hlist_node node;
	u16 port;
	bool asked;
	struct list_head waiting;
};

static struct hlist_head *bucket(struct treadle_session *s, u16 port)
{
	return &s->remote->watches[port % TREADLE_WATCH_BUCKETS];
}

static struct watch *find(struct treadle_session *s, u16 port)
{
	struct watch *watch;

	lockdep_assert_held(&s->lock);
	hlist_for_each_entry(watch, bucket(s, port), node)
		if (watch->port == port)
			return watch;
	return NULL;
}

/* Ask for the source. The session's ->room does it if there is none now. */
static void ask(struct treadle_session *s, struct watch *watch)
{
	struct treadle_wire_pair *w;

	lockdep_assert_held(&s->lock);
	w = treadle_session_item(s, TREADLE_WIRE_WATCH, sizeof(*w), watch->port);
	if (!w) {
		treadle_session_starve(s);
		return;
	}
	w->from = w->to = 0;
	watch->asked = true;
	treadle_session_flush(s);
}

/* The proxy at @port, held, or NULL. */
static struct treadle_proxy *member(struct treadle_session *s, u16 port)
{
	struct treadle_proxy *proxy = s->proxies ? xa_load(&s->proxies->members, port) : NULL;

	lockdep_assert_held(&s->lock);
	return proxy && kref_get_unless_zero(&proxy->ep.obj.ref) ? proxy : NULL;
}

/**
 * treadle_member_await - let a collective receive await a source on another node: ->await
 * @s:		the session
 * @rx:		the ring of the receive
 * @source:	on that node
 * @seq:	number of the receive
 * @run:	takes what the counters fire
 *
 * Context: May sleep. Takes s->lock, and as treadle_rx_await().
 */
void treadle_member_await(struct treadle_session *s, struct treadle_rx *rx, u32 source, u64 seq,
			  struct treadle_run *run)
{
	struct waiting *waiting = kmalloc(sizeof(*waiting), TREADLE_GFP);
	struct watch *new = kzalloc(sizeof(*new), TREADLE_GFP), *watch;
	u16 port = treadle_source_port(source);
	struct treadle_proxy *proxy;

	if (!waiting || !new || (!s->remote && !treadle_remote_alloc(s))) {
		kfree(waiting);
		kfree(new);
		treadle_rx_lost(rx, source, seq, -ENOMEM, run);
		return;
	}
	spin_lock(&s->lock);
	proxy = member(s, port);
	if (!proxy) {
		watch = find(s, port);
		if (!watch) {
			watch = new;
			new = NULL;
			watch->port = port;
			INIT_LIST_HEAD(&watch->waiting);
			hlist_add_head(&watch->node, bucket(s, port));
			ask(s, watch);
			treadle_session_connect(s);
		}
		kref_get(&rx->obj.ref);
		*waiting = (struct waiting){ .rx = rx, .source = source, .seq = seq };
		list_add_tail(&waiting->link, &watch->waiting);
		waiting = NULL;
	}
	spin_unlock(&s->lock);
	kfree(new);
	kfree(waiting);
	if (!proxy)
		return;
	treadle_rx_await_ep(rx, &proxy->ep, source, seq, run);
	treadle_ep_put(&proxy->ep);
}

/* Take the receives off that wait for @port. Takes s->lock. */
static void take(struct treadle_session *s, u16 port, struct list_head *waiting)
{
	struct watch *watch;

	spin_lock(&s->lock);
	watch = find(s, port);
	if (watch) {
		hlist_del(&watch->node);
		list_splice_init(&watch->waiting, waiting);
	}
	spin_unlock(&s->lock);
	kfree(watch);
}

/* The receives await @proxy from now on; without one they fail. */
static void resolve(struct list_head *list, struct treadle_proxy *proxy, int error,
		    struct treadle_run *run)
{
	struct waiting *w, *next;

	list_for_each_entry_safe(w, next, list, link) {
		if (proxy)
			treadle_rx_await_ep(w->rx, &proxy->ep, w->source, w->seq, run);
		else
			treadle_rx_lost(w->rx, w->source, w->seq, error, run);
		treadle_obj_put(&w->rx->obj);
		kfree(w);
		cond_resched();
	}
}

/**
 * treadle_member_known - there is a new proxy: receives may wait for it
 * @s:		the session
 * @proxy:	the proxy
 * @run:	takes what the counters fire
 *
 * Context: arrivals of the session. May sleep.
 */
void treadle_member_known(struct treadle_session *s, struct treadle_proxy *proxy,
			  struct treadle_run *run)
{
	LIST_HEAD(waiting);

	take(s, treadle_source_port(proxy->ep.id.source), &waiting);
	resolve(&waiting, proxy, 0, run);
}

/**
 * treadle_member_fail - a port that was asked for has no proxy: receives fail
 * @s:		the session
 * @port:	on the other node
 * @error:	with which they fail
 * @run:	takes what the counters fire
 *
 * Context: arrivals of the session. May sleep.
 */
void treadle_member_fail(struct treadle_session *s, u16 port, int error, struct treadle_run *run)
{
	LIST_HEAD(waiting);

	take(s, port, &waiting);
	resolve(&waiting, NULL, error, run);
}

/**
 * treadle_member_lost - the other node has no endpoint at a port that was asked for
 * @s:		the session
 * @view:	LOST
 * @run:	takes what the counters fire
 *
 * Context: arrivals of the session. May sleep.
 * Return: 0 or -EPROTO.
 */
int treadle_member_lost(struct treadle_session *s, const struct treadle_wire_view *view,
			struct treadle_run *run)
{
	u32 port = le32_to_cpu(view->item->reference);

	if (port > U16_MAX)
		return -EPROTO;
	treadle_member_fail(s, port, -ECONNREFUSED, run);
	return 0;
}

/* Answer WATCH. False: there is no room for that yet. May sleep. */
static bool answer(struct treadle_session *s, u16 port)
{
	struct treadle_ep *ep = treadle_ep_find(treadle_ports(treadle_session_net(s)),
						treadle_source(TREADLE_HERE, port));
	int ret = -ECONNREFUSED;
	u32 handle;

	if (ep && treadle_is_member(ep))
		ret = xa_reserve(&treadle_own_ep(ep)->hosts, s->id, TREADLE_GFP) ?:
			      treadle_remote_introduce(s, ep, &handle);
	if (ep)
		treadle_ep_put(ep);
	if (ret && ret != -EAGAIN) {
		spin_lock(&s->lock);
		ret = treadle_session_item(s, TREADLE_WIRE_LOST, sizeof(struct treadle_wire_item),
					   port) ?
			      0 :
			      -EAGAIN;
		treadle_session_flush(s);
		spin_unlock(&s->lock);
	}
	return !ret;
}

/**
 * treadle_member_asked - the other node asks for an endpoint
 * @s:		the session
 * @view:	WATCH
 *
 * Context: arrivals of the session. May sleep.
 * Return: 0 or -EPROTO.
 */
int treadle_member_asked(struct treadle_session *s, const struct treadle_wire_view *view)
{
	u32 port = le32_to_cpu(view->item->reference);

	if (port > U16_MAX)
		return -EPROTO;
	if (answer(s, port))
		return 0;
	spin_lock(&s->lock);
	s->remote->nr_watched += !__test_and_set_bit(port, s->remote->watched);
	treadle_session_starve(s);
	spin_unlock(&s->lock);
	return 0;
}

/**
 * treadle_member_room - ask, and answer, what had to wait
 * @s:		the session
 *
 * Context: arrivals of the session. May sleep.
 */
void treadle_member_room(struct treadle_session *s)
{
	struct treadle_remote *r = s->remote;
	struct watch *watch;
	u32 i, port = 0;

	if (!r)
		return;
	spin_lock(&s->lock);
	for (i = 0; i < TREADLE_WATCH_BUCKETS; i++)
		hlist_for_each_entry(watch, &r->watches[i], node)
			if (!watch->asked)
				ask(s, watch);
	spin_unlock(&s->lock);
	for (; r->nr_watched; port++) {
		port = find_next_bit(r->watched, TREADLE_HANDLES, port);
		if (port == TREADLE_HANDLES || !answer(s, port))
			break;
		__clear_bit(port, r->watched); /* only arrivals use it */
		r->nr_watched--;
	}
	if (!r->nr_watched)
		return;
	spin_lock(&s->lock);
	treadle_session_starve(s);
	spin_unlock(&s->lock);
}

/* Take any watch off. NULL: there is none. Takes s->lock. */
static struct watch *take_any(struct treadle_session *s)
{
	struct watch *watch = NULL;
	u32 i;

	spin_lock(&s->lock);
	for (i = 0; i < TREADLE_WATCH_BUCKETS && !watch; i++)
		watch = hlist_entry_safe(s->remote->watches[i].first, struct watch, node);
	if (watch)
		hlist_del(&watch->node);
	spin_unlock(&s->lock);
	return watch;
}

/**
 * treadle_member_end - the other node is lost: so are the sources that receives have asked for
 * @s:		the session
 * @error:	with which they fail
 *
 * Context: May sleep.
 */
void treadle_member_end(struct treadle_session *s, int error)
{
	struct watch *watch;

	while (s->remote && (watch = take_any(s))) {
		struct waiting *w, *next;

		list_for_each_entry_safe(w, next, &watch->waiting, link) {
			struct treadle_ctx *ctx = w->rx->obj.ctx;
			TREADLE_RUN(run, ctx);

			treadle_rx_lost(w->rx, w->source, w->seq, error, &run);
			treadle_run_handoff(&run); /* it may wait for pages */
			treadle_obj_put(&w->rx->obj);
			kfree(w);
		}
		kfree(watch);
		cond_resched();
	}
}
