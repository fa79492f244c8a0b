/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: endpoints of other nodes (proxy.c), and what arrives from them (arrive.c) */
#ifndef TREADLE_PROXY_H
#define TREADLE_PROXY_H

#include "path/remote.h"

int treadle_proxies_begin(struct treadle_session *s);
void treadle_proxies_end(struct treadle_session *s);
int treadle_proxy_intro(struct treadle_session *s, const struct treadle_wire_view *view,
			struct treadle_run *run);
int treadle_proxy_gone(struct treadle_session *s, const struct treadle_wire_view *view);
void treadle_proxy_room(struct treadle_session *s);

/* conn.c */
void treadle_far_connect(struct treadle_session *s, struct treadle_ep *ep,
			 struct treadle_conn *conn);
void treadle_far_notice(struct treadle_ep *ep, u32 event);
int treadle_far_request(struct treadle_session *s, const struct treadle_wire_view *view);
int treadle_far_accepted(struct treadle_session *s, const struct treadle_wire_view *view);
int treadle_far_refused(struct treadle_session *s, const struct treadle_wire_view *view);
int treadle_far_over(struct treadle_session *s, const struct treadle_wire_view *view);
void treadle_far_room(struct treadle_session *s);
void treadle_far_end(struct treadle_session *s, int error);
void treadle_far_drop(struct treadle_proxies *p);

/* member.c */
void treadle_member_await(struct treadle_session *s, struct treadle_rx *rx, u32 source, u64 seq,
			  struct treadle_run *run);
void treadle_member_known(struct treadle_session *s, struct treadle_proxy *proxy,
			  struct treadle_run *run);
void treadle_member_fail(struct treadle_session *s, u16 port, int error, struct treadle_run *run);
int treadle_member_lost(struct treadle_session *s, const struct treadle_wire_view *view,
			struct treadle_run *run);
int treadle_member_asked(struct treadle_session *s, const struct treadle_wire_view *view);
void treadle_member_room(struct treadle_session *s);
void treadle_member_end(struct treadle_session *s, int error);

/* The endpoint with @handle, or NULL. Only for the arrivals of the session. */
static inline struct treadle_proxy *treadle_proxy_find(struct treadle_session *s, u32 handle)
{
	struct treadle_proxies *p = s->proxies;

	if (unlikely(!p->last || p->last->handle != handle))
		p->last = xa_load(&p->handles, handle);
	return p->last;
}

#endif
