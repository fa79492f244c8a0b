// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the life of proxies, which stand for endpoints of another node
 *
 * A session has a context without a process. INTRO makes a proxy in it, GONE destroys it as its
 * process's end would. The end of a session is the end of all.
 *
 * What the other node says of an endpoint's user is believed only if the administrator says so
 * (trust_uids). That it knows an authorization key is proven by HELLO's nonces and the handle.
 */
#include <crypto/algapi.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "ep/endpoint.h"
#include "exec/trigger.h"
#include "proxy/proxy.h"

/* Has the endpoint proven that it knows @known? See prove() of path/remote.c. */
static bool proves(const struct treadle_key *key, const struct treadle_key *known)
{
	const struct treadle_proxy *proxy = container_of(key, struct treadle_proxy, key);
	const struct treadle_session *s = proxy->session;
	struct treadle_key_message message;
	u8 proof[32];

	memcpy(message.nonce[0], s->nonce[1], sizeof(message.nonce[0]));
	memcpy(message.nonce[1], s->nonce[0], sizeof(message.nonce[1]));
	message.ids[0] = s->ids[1];
	message.ids[1] = s->ids[0];
	message.handle = cpu_to_le64(proxy->handle);
	treadle_hmac(known->bytes, known->size, &message, sizeof(message), proof);
	return !crypto_memneq(proof, key->bytes, sizeof(proof));
}

static void proxy_free(struct treadle_obj *obj)
{
	struct treadle_ep *ep = container_of(obj, struct treadle_ep, obj);
	struct treadle_proxy *proxy = container_of(ep, struct treadle_proxy, ep);

	treadle_ep_fini(ep);
	treadle_session_put(proxy->session);
}

static const struct treadle_obj_ops proxy_ops = {
	.type = TREADLE_EP,
	.hide = treadle_ep_hide,
	.stop = treadle_ep_stop,
	.free = proxy_free,
};

/* The identity of an endpoint, as far as it is believed. */
static void identify(struct treadle_proxy *proxy, const struct treadle_wire_intro *w)
{
	struct treadle_session *s = proxy->session;
	kuid_t uid = make_kuid(&init_user_ns, le32_to_cpu(w->user));
	struct treadle_peer *id = &proxy->ep.id;

	id->source = treadle_source(s->host, le16_to_cpu(w->port));
	id->owner.uid = INVALID_UID;
	if (treadle_node_trusts_uids(s) && uid_valid(uid))
		id->owner = (struct treadle_owner){ &init_user_ns, uid };
	if (!w->has_key)
		return;
	memcpy(proxy->key.bytes, w->proof, sizeof(w->proof));
	proxy->key.proves = proves;
	id->key = &proxy->key;
}

/* Make the proxy of @w. 0 or an error. */
static int make(struct treadle_session *s, const struct treadle_wire_intro *w, u32 handle)
{
	struct treadle_proxy *proxy;
	int ret;

	proxy = kzalloc(w->has_key ? struct_size(proxy, key.bytes, sizeof(w->proof)) :
				     offsetof(struct treadle_proxy, key),
			TREADLE_GFP);
	if (!proxy)
		return -ENOMEM;
	treadle_ep_init(&proxy->ep, w->type);
	proxy->ep.far = true;
	proxy->session = s;
	proxy->begun = s->remote->begun;
	proxy->handle = handle;
	treadle_host_address(treadle_session_net(s), s->host, &proxy->ep.addr);
	proxy->ep.addr.port = htons(le16_to_cpu(w->port));
	identify(proxy, w);
	ret = treadle_obj_init(s->ctx, &proxy->ep.obj, &proxy_ops);
	if (ret) {
		kfree(proxy);
		return ret;
	}
	kref_get(&s->ref);
	proxy->ep.enabled = true;
	ret = xa_reserve(&s->proxies->members, le16_to_cpu(w->port), TREADLE_GFP) ?:
		      xa_reserve(&s->proxies->handles, handle, TREADLE_GFP);
	if (ret) {
		treadle_obj_put(&proxy->ep.obj);
		return ret;
	}
	/* the places are reserved, so this allocates nothing */
	xa_store(&s->proxies->handles, handle, proxy, TREADLE_GFP);
	spin_lock(&s->lock);
	xa_store(&s->proxies->members, treadle_source_port(proxy->ep.id.source), proxy, GFP_NOWAIT);
	spin_unlock(&s->lock);
	return treadle_obj_publish(&proxy->ep.obj);
}

/* Say that there is no proxy with @handle. False: there is no room for that. */
static bool tell_unknown(struct treadle_session *s, u32 handle)
{
	void *item;

	spin_lock(&s->lock);
	item = treadle_session_item(s, TREADLE_WIRE_UNKNOWN, sizeof(struct treadle_wire_item),
				    handle);
	if (!item)
		treadle_session_starve(s);
	treadle_session_flush(s);
	spin_unlock(&s->lock);
	return item;
}

/**
 * treadle_proxy_room - say for which endpoints there was no memory, where that had to wait
 * @s:		the session
 *
 * Context: arrivals of the session. Takes s->lock.
 */
void treadle_proxy_room(struct treadle_session *s)
{
	struct treadle_proxies *p = s->proxies;
	u32 handle = 0;

	while (p && p->nr_unknown) {
		handle = find_next_bit(p->unknown, TREADLE_HANDLES, handle);
		if (handle == TREADLE_HANDLES || !tell_unknown(s, handle))
			return;
		__clear_bit(handle, p->unknown);
		p->nr_unknown--;
	}
}

/* There is no memory for an endpoint. It is made known again before its next command. */
static void fail(struct treadle_session *s, const struct treadle_wire_intro *w, u32 handle,
		 int error, struct treadle_run *run)
{
	struct treadle_proxies *p = s->proxies;

	pr_warn_ratelimited("treadle: no memory for an endpoint of another node: %d\n", error);
	if (p->nr_unknown || !tell_unknown(s, handle))
		p->nr_unknown += !__test_and_set_bit(handle, p->unknown);
	treadle_member_fail(s, le16_to_cpu(w->port), error, run);
}

/**
 * treadle_proxy_intro - an endpoint of the other node makes itself known
 * @s:		the session
 * @view:	INTRO
 * @run:	of the caller
 *
 * Without memory the commands that follow are refused.
 *
 * Context: arrivals of the session. May sleep.
 * Return: 0 or -EPROTO.
 */
int treadle_proxy_intro(struct treadle_session *s, const struct treadle_wire_view *view,
			struct treadle_run *run)
{
	const struct treadle_wire_intro *w = (const struct treadle_wire_intro *)view->item;
	u32 handle = le32_to_cpu(w->item.reference);
	int ret;

	if (handle >= TREADLE_HANDLES || treadle_proxy_find(s, handle) ||
	    (w->type != TREADLE_EP_RDM && w->type != TREADLE_EP_DGRAM && w->type != TREADLE_EP_MSG))
		return -EPROTO;
	ret = make(s, w, handle);
	if (ret)
		fail(s, w, handle, ret, run);
	else
		treadle_member_known(s, treadle_proxy_find(s, handle), run);
	return 0;
}

static void destroy(struct treadle_session *s, struct treadle_proxy *proxy)
{
	struct treadle_ctx *ctx = s->ctx;
	u32 id = proxy->ep.obj.id;

	/* closed before its messages fail, so that none begins to wait for bytes afterwards */
	treadle_ep_close(&proxy->ep);
	spin_lock(&s->lock);
	treadle_pull_abort_all(s, proxy);
	if (s->proxies)
		xa_cmpxchg(&s->proxies->members, treadle_source_port(proxy->ep.id.source), proxy,
			   NULL, GFP_NOWAIT);
	spin_unlock(&s->lock);
	treadle_obj_destroy(ctx, id);
}

/**
 * treadle_proxy_gone - an endpoint of the other node has ended
 * @s:		the session
 * @view:	GONE
 *
 * Context: arrivals of the session. May sleep.
 * Return: 0 or -EPROTO.
 */
int treadle_proxy_gone(struct treadle_session *s, const struct treadle_wire_view *view)
{
	u32 handle = le32_to_cpu(view->item->reference);
	struct treadle_proxy *proxy;

	if (handle >= TREADLE_HANDLES)
		return -EPROTO;
	proxy = xa_erase(&s->proxies->handles, handle);
	s->proxies->last = NULL;
	s->proxies->nr_unknown -= __test_and_clear_bit(handle, s->proxies->unknown);
	if (proxy) /* else there was no memory for it */
		destroy(s, proxy);
	return 0;
}

/**
 * treadle_proxies_begin - prepare a session for commands of the other node
 * @s:		the session
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int treadle_proxies_begin(struct treadle_session *s)
{
	const struct treadle_owner unknown = { .uid = INVALID_UID };
	struct treadle_proxies *p = kvzalloc(sizeof(*p), TREADLE_GFP);
	struct net *net = treadle_session_net(s);
	struct treadle_ctx *ctx;

	if (!p)
		return -ENOMEM;
	ctx = treadle_ctx_create(&unknown, net, NULL);
	if (IS_ERR(ctx)) {
		kvfree(p);
		return PTR_ERR(ctx);
	}
	treadle_poller_init(ctx);
	ctx->ports = treadle_ports(net);
	xa_init(&p->handles);
	xa_init(&p->members);
	INIT_LIST_HEAD(&p->due);
	INIT_LIST_HEAD(&p->telling);
	spin_lock(&s->lock);
	s->ctx = ctx;
	s->proxies = p;
	spin_unlock(&s->lock);
	return 0;
}

/**
 * treadle_proxies_end - the other node is lost
 * @s:		the session; no frame arrives
 *
 * Context: may sleep, for a bounded time.
 */
void treadle_proxies_end(struct treadle_session *s)
{
	struct treadle_proxies *p = treadle_pull_end(s);
	struct treadle_ctx *ctx = s->ctx;
	struct treadle_proxy *proxy;
	unsigned long handle;

	if (!p)
		return;
	treadle_far_drop(p);
	xa_for_each(&p->handles, handle, proxy) {
		destroy(s, proxy);
		cond_resched();
	}
	xa_destroy(&p->handles);
	xa_destroy(&p->members);
	while (p->count--) {
		kfree(p->answers[p->first].bytes);
		p->first = (p->first + 1) % TREADLE_COMMANDS;
	}
	kvfree(p);
	s->ctx = NULL;
	treadle_pool_leave(ctx);
	treadle_ctx_put(ctx);
}
