// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: what is known of other nodes
 */
#include <net/net_namespace.h>

#include <treadle/netlink.h>

#include "node/session.h"

static u64 ms_since(unsigned long then)
{
	return jiffies_to_msecs(jiffies - then);
}

/* How the other node is reached. */
static void tell_state(const struct treadle_session *s, struct treadle_node_info *n)
{
	const struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	n->error = -l->error;
	if (l->live) {
		n->state = TREADLE_PEER_STATE_UP;
		n->state_ms = ms_since(l->passed);
	} else if (s->begun) {
		n->state = TREADLE_PEER_STATE_LOST;
		n->state_ms = ms_since(l->lost);
	} else if (l->wanted) {
		n->state = TREADLE_PEER_STATE_CONNECTING;
		n->state_ms = ms_since(l->asked);
	}
}

/* What was sent, and what waits. */
static void tell_counts(const struct treadle_session *s, struct treadle_node_info *n)
{
	const struct treadle_session_links *l = s->links;
	const struct treadle_window *w = &s->window;

	lockdep_assert_held(&s->lock);
	n->counted = true;
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
 * @n:		number: that of the node before, or 0; all fields are set, @number to the next
 *		larger one
 * @counts:	tell counts, too
 *
 * Context: may sleep. Takes s->lock.
 * Return: 0 or -ENOENT.
 */
int treadle_node_next(struct net *net, struct treadle_node_info *n, bool counts)
{
	struct treadle_session *s = treadle_session_next(net, n->number);

	if (!s)
		return -ENOENT;
	*n = (struct treadle_node_info){ .number = s->host, .addr = s->addr };
	spin_lock(&s->lock);
	tell_state(s, n);
	if (counts)
		tell_counts(s, n);
	spin_unlock(&s->lock);
	treadle_session_put(s);
	return 0;
}
