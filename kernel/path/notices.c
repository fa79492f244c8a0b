// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: what another node has to be told of commands and endpoints: ABORT, CANCEL, GONE, INTRO
 *
 * Each is said at once if the session has room for it. Else a bit stays, and ->room says it. INTRO
 * comes before the first command of an endpoint, which waits with it.
 */
#include "path/remote.h"

/* Tell the other node that it gets no bytes of a command. False: there is no room for that yet. */
static bool tell_abort(struct treadle_session *s, u32 reference, u32 status)
{
	struct treadle_wire_abort *w;

	lockdep_assert_held(&s->lock);
	w = treadle_session_item(s, TREADLE_WIRE_ABORT, sizeof(*w), reference);
	if (!w) {
		treadle_session_starve(s);
		return false;
	}
	w->status = cpu_to_le32(status);
	w->zero = 0;
	treadle_session_flush(s);
	return true;
}

/**
 * treadle_sent_abort - tell the other node that it gets no bytes of a command, now or later
 * @s:		the session
 * @reference:	of a command that has ended; that the other node says
 * @status:	ENOMEM: the receive goes back; ECONNRESET: it fails
 *
 * Context: s->lock held.
 * Return: 0, or -ENOBUFS: an older one of the same place still waits, and the session has to end.
 */
int treadle_sent_abort(struct treadle_session *s, u32 reference, u32 status)
{
	struct treadle_remote *r = s->remote;
	u32 i = (reference & 0xffff) - 1;

	lockdep_assert_held(&s->lock);
	if (!r || i >= TREADLE_COMMANDS || tell_abort(s, reference, status))
		return 0;
	i = array_index_nospec(i, TREADLE_COMMANDS);
	if (r->sent[i].abort && r->sent[i].abort != reference)
		return -ENOBUFS;
	r->aborts += !r->sent[i].abort;
	r->sent[i].abort = reference;
	r->sent[i].status = status;
	return 0;
}

/**
 * treadle_sent_ask - ask the other node to cancel a command, now or later
 * @s:		the session
 * @sent:	place of the command
 *
 * Context: s->lock held.
 */
void treadle_sent_ask(struct treadle_session *s, struct treadle_sent *sent)
{
	struct treadle_remote *r = s->remote;
	struct treadle_wire_cancel *w;
	void *known;

	lockdep_assert_held(&s->lock);
	r->asks += !sent->ask;
	sent->ask = true;
	w = treadle_session_item(s, TREADLE_WIRE_CANCEL, sizeof(*w), sent->cmd->reference);
	if (!w) {
		treadle_session_starve(s);
		return;
	}
	known = xa_load(&treadle_own_ep(sent->cmd->ep)->hosts, s->id);
	w->from = cpu_to_le32(xa_to_value(known) & 0xffff);
	w->zero = 0;
	r->asks--;
	sent->ask = false;
	treadle_session_flush(s);
}

/* Tell the other node which endpoints have ended. */
static void tell_gone(struct treadle_session *s)
{
	struct treadle_remote *r = s->remote;
	unsigned long handle;

	lockdep_assert_held(&s->lock);
	while (r->nr_gone) {
		handle = find_first_bit(r->gone, TREADLE_HANDLES);
		if (!treadle_session_item(s, TREADLE_WIRE_GONE, sizeof(struct treadle_wire_item),
					  handle))
			return;
		__clear_bit(handle, r->gone);
		__clear_bit(handle, r->handles);
		r->nr_unknown -= __test_and_clear_bit(handle, r->unknown);
		r->nr_gone--;
	}
}

/**
 * treadle_sent_tell - tell the other node what had to wait: ends of endpoints, and what to cancel
 * @s:		the session, with ->remote
 *
 * Context: s->lock held.
 */
void treadle_sent_tell(struct treadle_session *s)
{
	struct treadle_remote *r = s->remote;
	u32 i;

	lockdep_assert_held(&s->lock);
	tell_gone(s);
	for (i = 0; r->aborts && i < TREADLE_COMMANDS; i++)
		if (r->sent[i].abort && tell_abort(s, r->sent[i].abort, r->sent[i].status)) {
			r->sent[i].abort = 0;
			r->aborts--;
		}
	for (i = 0; r->asks && i < TREADLE_COMMANDS; i++)
		if (r->sent[i].ask)
			treadle_sent_ask(s, &r->sent[i]);
}

/**
 * treadle_remote_unknown - the other node had no memory for an endpoint: make it known again
 * @s:		the session
 * @view:	UNKNOWN
 *
 * The next command of the endpoint does this.
 *
 * Context: takes s->lock.
 * Return: 0 or -EPROTO.
 */
int treadle_remote_unknown(struct treadle_session *s, const struct treadle_wire_view *view)
{
	u32 handle = le32_to_cpu(view->item->reference);
	struct treadle_remote *r = s->remote;

	if (handle >= TREADLE_HANDLES)
		return -EPROTO;
	handle = array_index_nospec(handle, TREADLE_HANDLES);
	spin_lock(&s->lock);
	if (test_bit(handle, r->handles)) /* else it has ended since */
		r->nr_unknown += !__test_and_set_bit(handle, r->unknown);
	spin_unlock(&s->lock);
	return 0;
}

/**
 * treadle_remote_forget - an endpoint has ended: tell all nodes that know it
 * @ep:		dead, and without commands at other nodes
 *
 * Context: May sleep. Takes s->lock of sessions.
 */
void treadle_remote_forget(struct treadle_ep *ep)
{
	struct treadle_session *s;
	struct xarray *hosts;
	unsigned long host;
	void *entry;

	if (ep->far) /* a proxy is known to no node */
		return;
	hosts = &treadle_own_ep(ep)->hosts;
	xa_for_each(hosts, host, entry) {
		s = treadle_session_get(ep->obj.ctx->net, host);
		if (!s)
			continue;
		spin_lock(&s->lock);
		if (s->remote && xa_to_value(entry) >> 16 == s->remote->begun) {
			__set_bit(xa_to_value(entry) & 0xffff, s->remote->gone);
			s->remote->nr_gone++;
			tell_gone(s);
			treadle_session_flush(s);
			if (s->remote->nr_gone)
				treadle_session_starve(s);
		}
		spin_unlock(&s->lock);
		treadle_session_put(s);
		cond_resched();
	}
	xa_destroy(hosts);
}

/* --- endpoints become known --------------------------------------------------------------- */

/* Prove that the endpoint knows its key: for this session and this handle. */
static void prove(const struct treadle_session *s, const struct treadle_key *key, u32 handle,
		  u8 *proof)
{
	struct treadle_key_message message;

	memcpy(message.nonce, s->nonce, sizeof(message.nonce));
	memcpy(message.ids, s->ids, sizeof(message.ids));
	message.handle = cpu_to_le64(handle);
	treadle_hmac(key->bytes, key->size, &message, sizeof(message), proof);
}

/* Say INTRO, with the endpoint's handle @handle. False: the session has no room. */
static bool say_intro(struct treadle_session *s, struct treadle_ep *ep, u32 handle)
{
	struct treadle_own_ep *own = treadle_own_ep(ep);
	struct treadle_remote *r = s->remote;
	struct treadle_wire_intro *w;
	u64 entry = r->begun << 16 | handle;

	lockdep_assert_held(&s->lock);
	w = treadle_session_item(s, TREADLE_WIRE_INTRO, sizeof(*w), handle);
	if (!w)
		return false;
	w->user = cpu_to_le32(from_kuid(&init_user_ns, ep->id.owner.uid));
	w->port = cpu_to_le16(treadle_source_port(ep->id.source));
	w->type = ep->type;
	w->has_key = !!ep->id.key;
	if (ep->id.key)
		prove(s, ep->id.key, handle, w->proof);
	r->nr_unknown -= __test_and_clear_bit(handle, r->unknown);
	__set_bit(handle, r->handles);
	r->next_handle = (handle + 1) % TREADLE_HANDLES;
	/* the place is reserved, so this allocates nothing */
	xa_store(&own->hosts, s->id, xa_mk_value(entry), GFP_NOWAIT);
	WRITE_ONCE(own->known, entry);
	return true;
}

/**
 * treadle_remote_known_anew - the same as treadle_remote_known(), not only for the last session
 * @s:		the session
 * @ep:		the endpoint
 * @handle:	set to its handle there
 *
 * Context: s->lock held.
 * Return: false: the session has no room.
 */
bool treadle_remote_known_anew(struct treadle_session *s, struct treadle_ep *ep, u32 *handle)
{
	struct treadle_own_ep *own = treadle_own_ep(ep);
	void *entry = xa_load(&own->hosts, s->id);
	struct treadle_remote *r = s->remote;

	lockdep_assert_held(&s->lock);
	if (xa_is_value(entry) && treadle_entry_fits(r, xa_to_value(entry))) {
		*handle = xa_to_value(entry) & 0xffff;
		if (r->nr_unknown && test_bit(*handle, r->unknown))
			return say_intro(s, ep, *handle);
		WRITE_ONCE(own->known, xa_to_value(entry));
		return true;
	}
	*handle = find_next_zero_bit(r->handles, TREADLE_HANDLES, r->next_handle);
	if (*handle == TREADLE_HANDLES)
		*handle = find_first_zero_bit(r->handles, TREADLE_HANDLES);
	return *handle != TREADLE_HANDLES && say_intro(s, ep, *handle);
}

/**
 * treadle_remote_introduce - make an endpoint known to the other node, for other reasons than sends
 * @s:		the session
 * @ep:		the endpoint; its ->hosts has a place reserved for the host
 * @handle:	set to its handle there
 *
 * Context: Takes ep->lock and s->lock.
 * Return: 0; -ECONNREFUSED: it is closed; -EAGAIN: the session has no room.
 */
int treadle_remote_introduce(struct treadle_session *s, struct treadle_ep *ep, u32 *handle)
{
	int ret = 0;

	spin_lock(&ep->lock);
	spin_lock(&s->lock);
	/* treadle_remote_forget() comes after ->dead */
	if (ep->dead)
		ret = -ECONNREFUSED;
	else if (!s->up || !treadle_remote_known(s, ep, handle))
		ret = -EAGAIN;
	treadle_session_flush(s);
	spin_unlock(&s->lock);
	spin_unlock(&ep->lock);
	return ret;
}
