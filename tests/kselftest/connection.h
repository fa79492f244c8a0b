/* SPDX-License-Identifier: GPL-2.0 */
/* Helpers for tests of MSG endpoints: connections in their simplest form. */
#ifndef TREADLE_KSELFTEST_CONNECTION_H
#define TREADLE_KSELFTEST_CONNECTION_H

#include "treadle.h"

/* --- calls --------------------------------------------------------------------- */

static inline __u32 eq_create(int fd)
{
	struct treadle_eq_create c = {.size = sizeof(c)};

	need(call(fd, TREADLE_IOC_EQ_CREATE, &c) == 0);
	return c.id;
}

static inline int wait_fd(int fd, __u32 id)
{
	struct treadle_wait_fd w = {.size = sizeof(w), .id = id};

	need(call(fd, TREADLE_IOC_WAIT_FD, &w) == 0);
	need(fcntl(w.fd, F_GETFD) == FD_CLOEXEC);
	return w.fd;
}

static inline int ep_eq(int fd, __u32 ep, int eq, __u64 context)
{
	struct treadle_ep_eq c = {.size = sizeof(c), .ep = ep, .eq_fd = eq, .context = context};

	return call(fd, TREADLE_IOC_EP_EQ, &c);
}

static inline int listen_to(int fd, __u32 ep, __u32 backlog)
{
	struct treadle_listen c = {.size = sizeof(c), .ep = ep, .backlog = backlog};

	return call(fd, TREADLE_IOC_LISTEN, &c);
}

static inline int connect_to(int fd, __u32 ep, struct treadle_addr addr, const void *data,
			     __u32 size)
{
	struct treadle_connect c = {.size = sizeof(c),
				    .ep = ep,
				    .addr = addr,
				    .data = (unsigned long)data,
				    .data_size = size};

	return call(fd, TREADLE_IOC_CONNECT, &c);
}

static inline int accept_with(int fd, __u32 ep, const void *data, __u32 size)
{
	struct treadle_accept c = {
		.size = sizeof(c), .ep = ep, .data = (unsigned long)data, .data_size = size};

	return call(fd, TREADLE_IOC_ACCEPT, &c);
}

static inline int reject_with(int fd, __u32 ep, __u32 request, const void *data, __u32 size)
{
	struct treadle_reject c = {.size = sizeof(c),
				   .ep = ep,
				   .request = request,
				   .data = (unsigned long)data,
				   .data_size = size};

	return call(fd, TREADLE_IOC_REJECT, &c);
}

static inline int hang_up(int fd, __u32 ep)
{
	struct treadle_shutdown c = {.size = sizeof(c), .ep = ep};

	return call(fd, TREADLE_IOC_SHUTDOWN, &c);
}

/* --- events -------------------------------------------------------------------- */

/* Reads an event, if there is one; returns its size, or -errno. */
static inline int event_take(int eq, struct treadle_event *ev)
{
	int result = read(eq, ev, sizeof(*ev));

	return result < 0 ? -errno : result;
}

/* Waits for the next event. */
static inline struct treadle_event event_next(int eq)
{
	struct pollfd p = {.fd = eq, .events = POLLIN};
	struct treadle_event ev;
	int result;

	while ((result = event_take(eq, &ev)) == -EAGAIN) {
		result = poll(&p, 1, PATIENCE_NS / 1000000);
		need(result > 0 || (result < 0 && errno == EINTR));
	}
	need(result == (int)ev.size &&
	     ev.size == offsetof(struct treadle_event, data) + ev.data_size);
	return ev;
}

/* The next event must be of this kind, for that endpoint. */
static inline struct treadle_event event_is(int eq, __u32 kind, __u64 context)
{
	struct treadle_event ev = event_next(eq);

	if (ev.event != kind || ev.context != context)
		note("event %u of %llu, error %u", ev.event, ev.context, ev.error);
	need(ev.event == kind && ev.context == context);
	return ev;
}

static inline bool eq_empty(int eq)
{
	struct pollfd p = {.fd = eq, .events = POLLIN};
	struct treadle_event ev;

	return poll(&p, 1, 0) == 0 && event_take(eq, &ev) == -EAGAIN;
}

/* --- servers and clients ----------------------------------------------------------- */

/* A passive endpoint that listens, with a context and an event queue of its own. */
struct listener {
	int fd, eq;
	__u32 ep, eq_id;
	struct treadle_addr addr;
};

/* Contexts of events. */
enum { PEP = 100, CLIENT = 200, SERVER = 300 };

static inline void listener_create(struct listener *l, const char *key)
{
	l->fd = device();
	l->eq_id = eq_create(l->fd);
	l->eq = wait_fd(l->fd, l->eq_id);
	l->addr = loopback(0);
	need(ep_create_as(l->fd, TREADLE_EP_PASSIVE, 0, &l->addr, key, &l->ep) == 0);
	need(ep_eq(l->fd, l->ep, l->eq, PEP) == 0);
}

static inline void listener_open(struct listener *l)
{
	listener_create(l, NULL);
	need(listen_to(l->fd, l->ep, 0) == 0);
}

static inline void listener_close(struct listener *l)
{
	close(l->eq);
	close(l->fd);
}

/* Opens and enables a MSG endpoint with the event queue @eq. */
static inline void msg_open(struct node *n, struct options o, int eq, __u64 context)
{
	o.type = TREADLE_EP_MSG;
	node_create(n, o);
	need(ep_eq(n->fd, n->ep, eq, context) == 0);

	struct treadle_ep_enable e = node_bindings(n);

	need(call(n->fd, TREADLE_IOC_EP_ENABLE, &e) == 0);
}

static inline void ring_unmap(struct ring *r)
{
	munmap(r->rw, r->rw_map.length);
	munmap((void *)r->ro, r->ro_map.length);
}

static inline void cq_unmap(struct cq *q)
{
	munmap(q->rw, q->rw_map.length);
	munmap((void *)q->ro, q->ro_map.length);
}

static inline void node_unmap(struct node *n)
{
	ring_unmap(&n->tx);
	ring_unmap(&n->rx);
	cq_unmap(&n->cq);
	cq_unmap(&n->rcq);
	munmap((void *)n->sent.page, PAGE);
	munmap((void *)n->rcvd.page, PAGE);
}

/* Closes the context, and unmaps its rings, which would keep it. */
static inline void node_close(struct node *n)
{
	node_unmap(n);
	close(n->fd);
}

/* Both ends of a connection, in one process: three contexts, two event queues. */
struct pair {
	struct listener l;
	int ceq_fd, ceq;
	__u32 request;
	struct node client, server;
};

static inline void pair_ask(struct pair *p)
{
	listener_open(&p->l);
	p->ceq_fd = device();
	p->ceq = wait_fd(p->ceq_fd, eq_create(p->ceq_fd));
	msg_open(&p->client, (struct options){0}, p->ceq, CLIENT);
	need(connect_to(p->client.fd, p->client.ep, p->l.addr, NULL, 0) == 0);
	p->request = event_is(p->l.eq, TREADLE_EVENT_CONNREQ, PEP).request;
}

static inline void pair_open(struct pair *p)
{
	pair_ask(p);
	msg_open(&p->server, (struct options){.request = p->request}, p->l.eq, SERVER);
	need(accept_with(p->server.fd, p->server.ep, NULL, 0) == 0);
	event_is(p->l.eq, TREADLE_EVENT_CONNECTED, SERVER);
	event_is(p->ceq, TREADLE_EVENT_CONNECTED, CLIENT);
}

/* A message, small or large, reaches the other end. */
static inline void expect_message(struct node *from, struct node *to, size_t len, __u64 seed)
{
	size_t room = len ?: 1;
	char *in = pages(room), *out = pages(room);
	struct treadle_cqe c;

	fill(out, len, seed);
	need(post_recv(to, recv_of(in, len, ANY, seed)) == 0);
	need(post(from, send_of(out, len, 0, seed)) == 1);
	c = cq_next(&to->rcq);
	need(c.error == 0 && c.context == seed && c.len == len && c.src == ANY);
	need(same(in, len, seed));
	need(cq_next(&from->cq).error == 0);
	munmap(in, room);
	munmap(out, room);
}

#endif
