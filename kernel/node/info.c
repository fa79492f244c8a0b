// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: what a process may know of other nodes
 */
#include <linux/capability.h>
#include <net/net_namespace.h>

#include "node/session.h"

static u64 ms_since(unsigned long then)
{
	return jiffies_to_msecs(jiffies - then);
}

/* How the other node is reached. */
static void tell_state(const struct treadle_session *s, struct treadle_next_node *n)
{
	const struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	n->error = -l->error;
	if (l->live) {
		n->state = TREADLE_NODE_UP;
		n->state_ms = ms_since(l->passed);
	} else if (s->begun) {
		n->state = TREADLE_NODE_LOST;
		n->state_ms = ms_since(l->lost);
	} else if (l->wanted) {
		n->state = TREADLE_NODE_CONNECTING;
		n->state_ms = ms_since(l->asked);
	}
}

/* What was sent, and what waits. */
static void tell_counts(const struct treadle_session *s, struct treadle_next_node *n)
{
	const struct treadle_session_links *l = s->links;
	const struct treadle_window *w = &s->window;

	lockdep_assert_held(&s->lock);
	n->flags = TREADLE_NODE_COUNTED;
	n->silent_ms = l->nr_links ? ms_since(l->heard) : U64_MAX;
	n->round_trip_ns = l->round_trip;
	n->sent = l->sent_frames;
	n->resent = l->resent;
	n->received = l->received;
	n->links = l->nr_links;
	n->sessions = l->nr_begun;
	n->unacknowledged = w->next - w->acked;
	n->credits = w->granted - w->used;
	n->under_way = s->under_way;
	n->queued = s->queued;
	n->executing = w->taken + TREADLE_COMMANDS - w->offered;
}

/**
 * treadle_node_next() - another node that a network namespace knows
 * @net:	the namespace
 * @n:		number: that of the node before, or 0; all fields but the size are set
 * @counts:	tell counts, too
 *
 * Context: may sleep. Takes s->lock.
 * Return: 0 or -ENOENT.
 */
int treadle_node_next(struct net *net, struct treadle_next_node *n, bool counts)
{
	struct treadle_session *s = treadle_session_next(net, n->number);

	if (!s)
		return -ENOENT;
	*n = (struct treadle_next_node){ .size = n->size, .number = s->host, .addr = s->addr };
	spin_lock(&s->lock);
	tell_state(s, n);
	if (counts)
		tell_counts(s, n);
	spin_unlock(&s->lock);
	treadle_session_put(s);
	return 0;
}

/**
 * treadle_ioc_next_node() - NEXT_NODE: another node that the network namespace knows
 * @u:	the call, with a struct treadle_next_node
 *
 * Each process of the namespace learns addresses and states. Counts say when other users send, and
 * how much, so they need a capability.
 *
 * Context: may sleep. Takes s->lock.
 * Return: 0 or -ENOENT.
 */
int treadle_ioc_next_node(struct treadle_ucmd *u)
{
	struct net *net = u->ctx->net;

	return treadle_node_next(net, u->arg, ns_capable_noaudit(net->user_ns, CAP_NET_ADMIN));
}
