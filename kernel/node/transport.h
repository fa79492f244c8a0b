/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: between sessions and transports
 *
 * A transport carries frames between two nodes over connections, which are called links here: in
 * order, and complete until the link ends. It is a module of its own: treadle_rdma over verbs, or
 * treadle_loop between two network namespaces, for tests. Everything that survives a link is of
 * the session (session.h): numbers, frames that may have to be sent again, and all decisions.
 */
#ifndef TREADLE_TRANSPORT_H
#define TREADLE_TRANSPORT_H

#include <linux/list.h>
#include <linux/types.h>

#include <treadle/types.h>

#include "pure/wire.h"

#define TREADLE_TRANSPORT_VERSION 1

/* What a link's receiver needs buffers for: numbered frames, and frames without a number. */
#define TREADLE_ROOM  64u
#define TREADLE_SPARE 16u

/*
 * struct treadle_hail - what both nodes say while they connect; at most 56 bytes, as RDMA's
 * connection manager takes no more
 * @magic, @version: TREADLE_HAIL_MAGIC, _VERSION; another one is refused
 * @node:	id of the node that says this
 * @session:	of its side of the session; another one than before: it has lost the session
 * @attempt:	number of the attempt to connect; in a refusal, of the last attempt that it has seen
 */
struct treadle_hail {
	__le32 magic;
	__le32 version;
	__le64 node;
	__le64 session;
	__le64 attempt;
};
#define TREADLE_HAIL_MAGIC   0x6c647274 /* "trdl" */
#define TREADLE_HAIL_VERSION 1

/*
 * struct treadle_frame - a frame to be sent, in memory of the session (struct page, not vmalloc)
 * @list:	of the session
 * @head:	its memory; @room bytes, up to TREADLE_WIRE_FRAME_BYTES
 * @length:	bytes that are used
 * @number:	of a numbered frame
 * @epoch:	of node/session.c: a frame of a session that has ended is not sent any more
 * @data:	it has bulk data, which gets a part of the window only
 * @answers:	it has nothing but answers
 * @map:	for the transport: DMA address, from ->map to ->unmap
 */
struct treadle_frame {
	struct list_head list;
	struct treadle_wire_frame *head;
	u32 room;
	u32 length;
	u32 number;
	u32 epoch;
	bool data, answers;
	u64 map;
};

struct treadle_session;
struct treadle_node;
struct treadle_link;

/*
 * struct treadle_transport - functions of a transport; constant
 *
 * All but ->post are called by the work that manages the session's links: one at a time for each
 * session, and may sleep, but wait for no peer.
 *
 * @version:	TREADLE_TRANSPORT_VERSION
 * @name:	for messages
 * @connect:	begins an attempt to connect to @to, from the address of the session's node. Returns
 *		the link, or an ERR_PTR(). treadle_link_up() or _down() follows, if the peer
 *		answers. The session gives up after a time by ->leave
 * @accept:	accepts a link that was offered. 0; or an error: only ->leave follows. As ->connect
 * @refuse:	refuses a link that was offered, and frees it. @hail: for the peer
 * @leave:	ends a link in any state. When it returns, no frame of the link is being
 *		processed, none arrives, and no frame of the session is read any more: the number
 *		of the last one is final
 * @free:	frees a link that was left, after its frames were unmapped
 * @map, @unmap: prepares a frame for ->post on a link that is up, and undoes it, between ->leave
 *		and ->free. Each frame once for each link. Optional. 0 or an error
 * @post:	sends a frame on a link that is up. Under the session's lock; must not sleep. The
 *		frame stays as it is until it was acknowledged, or, without a number, until
 *		treadle_link_sent(). That is also called for a numbered frame which was posted when
 *		no such call was due for an earlier one: items are collected until then. A frame
 *		with nothing but answers needs no such call. If the frame can't be sent,
 *		treadle_link_down() follows
 */
struct treadle_transport {
	u32 version;
	const char *name;
	struct treadle_link *(*connect)(struct treadle_session *session,
					const struct treadle_addr *to,
					const struct treadle_hail *hail);
	int (*accept)(struct treadle_link *link, const struct treadle_hail *hail);
	void (*refuse)(struct treadle_link *link, const struct treadle_hail *hail);
	void (*leave)(struct treadle_link *link);
	void (*free)(struct treadle_link *link);
	int (*map)(struct treadle_link *link, struct treadle_frame *frame);
	void (*unmap)(struct treadle_link *link, struct treadle_frame *frame);
	void (*post)(struct treadle_link *link, struct treadle_frame *frame);
};

/*
 * struct treadle_link - a connection, or an attempt; first member of the transport's own structure
 * @transport:	set by the transport
 * @session:	set by ->connect of the transport, or by treadle_link_offer()
 * @offers:	of the session, while it is offered
 * @hail:	what the peer has said; valid once it is offered or up
 * @from:	address of the node that has begun it, as this node knows it: its own, set by
 *		->connect, or @from of treadle_link_offer()
 * @offered:	the peer has begun it
 * @up, @down:	set once, by treadle_link_up() and _down()
 */
struct treadle_link {
	const struct treadle_transport *transport;
	struct treadle_session *session;
	struct list_head offers;
	struct treadle_hail hail;
	struct treadle_addr from;
	bool offered, up, down;
};

/*
 * struct treadle_node_listen - how a node is reached, and by which nodes
 * @net:	network namespace of its endpoints
 * @addr:	its address for others, with the port at which the transport listens
 * @secret, @secret_bytes: what nodes of one administration know; none: only with @insecure
 * @insecure:	admit nodes without a secret
 * @trust_uids:	believe what other nodes say of their users
 * @peer_timeout: seconds after which a node that is not reached is dead
 * @mirror:	for tests: a second node of a namespace. The first one reaches it as it reaches
 *		another machine, so local peers are reached over their link, too. Numbers of hosts
 *		are those of the first one
 */
struct treadle_node_listen {
	struct net *net;
	struct treadle_addr addr;
	const void *secret;
	u32 secret_bytes;
	bool insecure, trust_uids;
	u32 peer_timeout;
	bool mirror;
};

/* Of treadle.ko, for transports (node/node.c) */
struct treadle_node *treadle_node_open(const struct treadle_transport *transport,
				       const struct treadle_node_listen *listen, void *private);
void treadle_node_close(struct treadle_node *node);
void *treadle_node_private(const struct treadle_node *node);

/*
 * The node of a session, and the number of the attempt in what it said, for ->connect. Both stay
 * valid as long as a link of the session.
 */
struct treadle_node *treadle_session_node(const struct treadle_session *session);

/*
 * Events of a link (node/event.c), in process context, without locks of the transport that ->post,
 * ->leave or another function takes, too. The transport calls none of them after ->leave, nor for
 * a link if ->leave of it waits for that call's end. All may sleep. An offer that fails stays the
 * transport's. @hail may be NULL: nothing was said, or, for treadle_link_up(), it was offered. No
 * other frame of a link arrives after treadle_link_arrived() has failed.
 */
int treadle_link_offer(struct treadle_node *node, struct treadle_link *link,
		       const struct treadle_addr *from, const void *hail, size_t bytes);
void treadle_link_up(struct treadle_link *link, const void *hail, size_t bytes);
void treadle_link_down(struct treadle_link *link, const void *hail, size_t bytes);
int treadle_link_arrived(struct treadle_link *link, const void *frame, u32 bytes);
void treadle_link_sent(struct treadle_link *link, struct treadle_frame *frame);

#endif
