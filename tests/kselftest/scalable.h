/* SPDX-License-Identifier: GPL-2.0 */
/* Helpers for tests of scalable endpoints. */
#ifndef TREADLE_KSELFTEST_SCALABLE_H
#define TREADLE_KSELFTEST_SCALABLE_H

#include "treadle.h"

#define CONTEXTS 3
#define BITS	 2 /* leaves one index that is no context */

static inline __u64 at(__u64 peer, __u64 index)
{
	return index << (64 - BITS) | peer;
}

static inline __u32 av_of_contexts(int fd)
{
	struct treadle_av_create c = {.size = sizeof(c), .rx_ctx_bits = BITS};

	need(call(fd, TREADLE_IOC_AV_CREATE, &c) == 0);
	return c.id;
}

/* Creates an endpoint, with the answer in @c; returns 0 or -errno. */
static inline int ep_of_kind(int fd, struct treadle_ep_create *c)
{
	c->size = sizeof(*c);
	return call(fd, TREADLE_IOC_EP_CREATE, c);
}

static inline struct treadle_ep_create sep_create(int fd, __u32 type, const char *auth_key)
{
	struct treadle_ep_create c = {.type = type ?: TREADLE_EP_RDM,
				      .flags = TREADLE_EP_SCALABLE,
				      .addr = loopback(0),
				      .auth_key = (unsigned long)auth_key,
				      .auth_key_size = auth_key ? strlen(auth_key) : 0};

	need(ep_of_kind(fd, &c) == 0);
	return c;
}

/* Creates a context without enabling it; returns 0 or -errno. */
static inline int context_create(int fd, __u32 parent, __u32 flags, __u32 index, __u32 *id)
{
	struct treadle_ep_create c = {.flags = flags, .parent = parent, .index = index};
	int result = ep_of_kind(fd, &c);

	*id = c.id;
	return result;
}

static inline struct treadle_ep_enable context_bindings(const struct node *n)
{
	struct treadle_ep_enable e = node_bindings(n);

	e.flags = TREADLE_EP_SOURCE;
	return e;
}

/* Opens a context with all objects that it can be bound to. A transmit context has no @index. */
static inline void context_open(struct node *n, int fd, const struct treadle_ep_create *sep,
				__u32 av, __u32 flags, __u32 index)
{
	struct treadle_ep_enable e;

	*n = (struct node){.fd = fd, .av = av, .addr = sep->addr};
	cq_open(&n->cq, fd, 64);
	cq_open(&n->rcq, fd, 64);
	cntr_open(&n->sent, fd);
	cntr_open(&n->rcvd, fd);
	if (flags == TREADLE_EP_TX_CONTEXT)
		tx_open(&n->tx, fd, 64);
	else
		rx_open(&n->rx, fd, 64, 0);
	need(context_create(fd, sep->id, flags, index, &n->ep) == 0);
	e = context_bindings(n);
	need(call(fd, TREADLE_IOC_EP_ENABLE, &e) == 0);
}

struct sep {
	int fd;
	__u32 av;
	struct treadle_ep_create ep;
	struct node tx[CONTEXTS], rx[CONTEXTS];
};

static inline void sep_open(struct sep *s, __u32 type, const char *auth_key)
{
	s->fd = device();
	s->av = av_of_contexts(s->fd);
	s->ep = sep_create(s->fd, type, auth_key);
	for (int i = 0; i < CONTEXTS; i++) {
		context_open(&s->tx[i], s->fd, &s->ep, s->av, TREADLE_EP_TX_CONTEXT, 0);
		context_open(&s->rx[i], s->fd, &s->ep, s->av, TREADLE_EP_RX_CONTEXT, i);
	}
}

/* The error of the command that a node sends. */
static inline int sent(struct node *n, struct treadle_desc d)
{
	int result = post(n, d);

	return result == 1 ? cq_next(&n->cq).error : result;
}

/* All contexts but @index have received nothing. */
static inline bool only(struct sep *s, int index)
{
	for (int i = 0; i < CONTEXTS; i++)
		if (i != index && (!cq_empty(&s->rx[i].rcq) || ring_needs_doorbell(&s->rx[i].rx)))
			return false;
	return true;
}

#endif
