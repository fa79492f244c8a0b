/* SPDX-License-Identifier: GPL-2.0 */
/* What netlink says of other nodes, by the network namespace of a side. */
#ifndef TREADLE_KSELFTEST_NODES_H
#define TREADLE_KSELFTEST_NODES_H

#include "../netlink.h"
#include "loop.h"

struct other_node {
	struct treadle_addr addr;
	__u64 number, state, error, state_ms;
	bool counted, heard; /* the rest is there; silent_ms is */
	__u64 executing, silent_ms, round_trip_ns, sent, resent, received, links, sessions;
	__u64 unacknowledged, credits, under_way, queued;
};

static inline struct other_node nodes_read(const struct nlmsghdr *h)
{
	const struct nlattr *addr = nl_attr(h, TREADLE_A_PEER_IPV4);
	struct other_node n = {
		.addr.family = AF_INET,
		.number = nl_u(h, TREADLE_A_PEER_NUMBER),
		.state = nl_u(h, TREADLE_A_PEER_STATE),
		.error = nl_u(h, TREADLE_A_PEER_ERROR),
		.state_ms = nl_u(h, TREADLE_A_PEER_STATE_MS),
		.counted = nl_attr(h, TREADLE_A_PEER_CREDITS),
		.heard = nl_attr(h, TREADLE_A_PEER_SILENT_MS),
		.executing = nl_u(h, TREADLE_A_PEER_EXECUTING),
		.silent_ms = nl_u(h, TREADLE_A_PEER_SILENT_MS),
		.round_trip_ns = nl_u(h, TREADLE_A_PEER_ROUND_TRIP_NS),
		.sent = nl_u(h, TREADLE_A_PEER_SENT),
		.resent = nl_u(h, TREADLE_A_PEER_RESENT),
		.received = nl_u(h, TREADLE_A_PEER_RECEIVED),
		.links = nl_u(h, TREADLE_A_PEER_LINKS),
		.sessions = nl_u(h, TREADLE_A_PEER_SESSIONS),
		.unacknowledged = nl_u(h, TREADLE_A_PEER_UNACKNOWLEDGED),
		.credits = nl_u(h, TREADLE_A_PEER_CREDITS),
		.under_way = nl_u(h, TREADLE_A_PEER_UNDER_WAY),
		.queued = nl_u(h, TREADLE_A_PEER_QUEUED),
	};

	need(addr && nl_u(h, TREADLE_A_PEER_STATE_MS) == n.state_ms);
	memcpy(n.addr.addr, nl_data(addr), 4);
	return n;
}

/* The first @max nodes that the socket's namespace knows, in the order of the answer. */
static inline int nodes_dump(struct nl *nl, struct other_node *nodes, int max)
{
	const struct nlmsghdr *h;
	int n = 0;

	nl_dump(nl, TREADLE_CMD_PEER_GET, 0, 0);
	while ((h = nl_next(nl)))
		if (n < max)
			nodes[n++] = nodes_read(h);
	need(!nl->error);
	return n;
}

/* The same of a side; 0: of the first namespace. */
static inline int nodes_of(int side, struct other_node *nodes, int max)
{
	static struct nl sockets[3];

	if (!sockets[side].family) {
		enter(side);
		nl_open(&sockets[side]);
		enter(0);
	}
	return nodes_dump(&sockets[side], nodes, max);
}

/* The only node that a side knows. */
static inline struct other_node node_of_side(int side)
{
	struct other_node n[2];

	need(nodes_of(side, n, 2) == 1);
	return n[0];
}

#endif
