/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: sessions with other nodes, for the rooms above (node.c, host.c; session.c, frames.c,
 * arrived.c; link.c, event.c, hello.c; info.c)
 */
#ifndef TREADLE_NODE_H
#define TREADLE_NODE_H

#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "core/object.h"
#include "core/source.h"
#include "node/transport.h"
#include "pure/window.h"

struct treadle_remote;
struct treadle_proxies;
struct treadle_rx;
struct treadle_conn;
struct treadle_ep;
struct treadle_user;

/*
 * struct treadle_session - what this node and another one have under way. It outlives its links
 *
 * For the rooms above:
 * @host:	number of the other node in the network namespace of this one: treadle_source()
 * @id:		the same, but unique: with a mirror, two sessions have one number (tests)
 * @lock:	protects everything here, unless noted otherwise. Innermost, but for pm->lock
 * @window:	numbers of frames and commands
 * @up:		frames may be sent
 * @begun:	->begin was called, and ->end was not
 * @ctx:	context that stands for the other node's processes; set by ->begin
 * @remote:	of path/remote.c: commands of this node that were sent, or wait for the session. May
 *		be there before the session has begun
 * @proxies:	of proxy/: endpoints of the other node
 * @queued, @under_way: counts of path/: commands that wait for the session, and that the other node
 *		has, for treadle_node_next()
 * @nonce, @ids: of both sides, this one's first: for proofs of keys. Constant while @begun
 */
struct treadle_session {
	struct kref ref;
	struct treadle_node *node;
	u16 host, id;
	struct treadle_addr addr;
	spinlock_t lock;
	struct treadle_window window;
	bool up, begun;
	struct treadle_ctx *ctx;
	struct treadle_remote *remote;
	struct treadle_proxies *proxies;
	u32 queued, under_way;
	u8 nonce[2][16];
	__le64 ids[2];
	struct treadle_session_links *links; /* of node/: the rest */
};

/*
 * struct treadle_node_ops - what the rooms above do for sessions; filled in proxy/arrive.c
 *
 * All are called in process context without locks, and may sleep, but wait for no process. ->item
 * and ->room are never called at the same time for one session, nor with ->begin or ->end.
 *
 * @begin:	a session begins, or begins anew: its frames have no numbers yet. 0 or an error
 * @item:	an item of a frame. 0; or -EPROTO: the peer breaks the rules, and the session ends
 * @room:	frames or commands may be sent again, for what has waited
 * @await:	a collective receive of this node awaits a source on the other one
 * @connect:	an endpoint of this node asks one on the other node for a connection
 * @notice:	something has happened to a connection's end that is on another node. Under
 *		treadle_conn_lock
 * @free:	the session's memory is freed: nothing uses it any more
 * @end:	the other node is lost, or has lost the session, or this one leaves: what was sent
 *		fails with -ECONNRESET, and what was not sent with @error. Once for each ->begin
 *		that has succeeded; and without one (@begun is false) if something has waited for
 *		the session, which could not begin. Commands that end later are not offered
 */
struct treadle_node_ops {
	int (*begin)(struct treadle_session *s);
	int (*item)(struct treadle_session *s, const struct treadle_wire_view *view,
		    struct treadle_run *run);
	void (*room)(struct treadle_session *s, struct treadle_run *run);
	void (*end)(struct treadle_session *s, int error);
	void (*await)(struct treadle_session *s, struct treadle_rx *rx, u32 source, u64 seq,
		      struct treadle_run *run);
	void (*connect)(struct treadle_session *s, struct treadle_ep *ep,
			struct treadle_conn *conn);
	void (*notice)(struct treadle_ep *proxy, u32 event);
	void (*free)(struct treadle_session *s);
};
extern const struct treadle_node_ops treadle_node_ops;

/* node.c: nodes of this machine, one for each network namespace */
int treadle_nodes_init(void);
void treadle_nodes_exit(void);
bool treadle_node_address(struct net *net, struct treadle_addr *addr);
bool treadle_node_trusts_uids(const struct treadle_session *s);

/* host.c: other nodes, by address and number */
int treadle_host_get(struct net *net, const struct treadle_addr *addr,
		     const struct treadle_user *user);
void treadle_host_put(struct net *net, u16 host);
void treadle_host_hold(struct net *net, u16 host);
u16 treadle_host_mirror(struct net *net);
bool treadle_host_address(struct net *net, u16 host, struct treadle_addr *addr);
#define TREADLE_WAY_BACK (TREADLE_MAX_HOST + 1) /* ->id of the mirror's session */
struct treadle_session *treadle_session_get(struct net *net, u16 id);
struct treadle_session *treadle_session_next(struct net *net, u32 number);
void treadle_session_put(struct treadle_session *s); /* any context, under spinlocks, too */

/*
 * struct treadle_node_info - another node that a network namespace knows (info.c)
 * @number:	from 1 on. Some time after a node has gone, its number is that of another one
 * @addr:	of the node; its port is 0
 * @state:	TREADLE_PEER_STATE_*
 * @error:	why it was not reached, or not any more, since it was last UP: 0 or an errno
 * @counted:	@executing, and the fields below @state_ms, are set; else they are 0
 * @executing:	commands of the node that have not ended here
 * @state_ms:	for so long it has been UP, CONNECTING or LOST
 * @silent_ms:	for so long nothing has arrived; U64_MAX: nothing ever has
 * @round_trip_ns: smoothed; 0: not measured yet
 * @sent, @resent, @received: numbered frames, since the node has got its number. @resent: after a
 *		connection was lost; not in @sent
 * @links:	connections that were recognized, one after the other
 * @sessions:	how often the session began anew; the other @links were reconnections
 * @unacknowledged: frames that the node has not acknowledged
 * @credits:	commands that the node would take at once
 * @under_way:	commands that the node has, or that go there in pieces
 * @queued:	commands that wait until they can be sent
 */
struct treadle_node_info {
	u32 number;
	struct treadle_addr addr;
	u32 state, error;
	bool counted;
	u32 executing;
	u64 state_ms, silent_ms, round_trip_ns;
	u64 sent, resent, received, links, sessions;
	u32 unacknowledged, credits, under_way, queued;
};
int treadle_node_next(struct net *net, struct treadle_node_info *n, bool counts);

/*
 * session.c: to send. All under s->lock; none sleeps.
 *
 * Items go into the open frame, in order. It is posted when it is full, when nothing is in flight,
 * or when what was in flight has been sent. A frame of its own, with one item, is filled without
 * the lock, and then posted behind the open one. The @bytes of an item include its fixed part; the
 * caller writes all but struct treadle_wire_item. NULL: there is no room, or the session is not up;
 * treadle_session_starve() then lets ->room be called when there may be room again. Each use of
 * these functions, and of the window, ends with treadle_session_flush().
 */
struct net *treadle_session_net(const struct treadle_session *s); /* without the lock */
void treadle_session_connect(struct treadle_session *s);
void *treadle_session_item(struct treadle_session *s, u8 kind, u32 bytes, u32 reference);
void treadle_session_flush(struct treadle_session *s);
struct treadle_frame *treadle_session_frame(struct treadle_session *s, bool data);
bool treadle_session_owns(const struct treadle_session *s, const struct treadle_frame *frame);
void *treadle_frame_item(struct treadle_frame *frame, u8 kind, u32 bytes, u32 reference);
void treadle_session_post(struct treadle_session *s, struct treadle_frame *frame);
void treadle_session_unframe(struct treadle_session *s, struct treadle_frame *frame);
void treadle_session_starve(struct treadle_session *s);
void treadle_session_ping(struct treadle_session *s); /* its answer calls ->room, if starved */

/* Commands that each side takes at first. */
#define TREADLE_COMMANDS 1024u

/* hello.c */
void treadle_hmac(const void *key, u32 key_bytes, const void *data, u32 bytes, u8 out[32]);

/* What fits into the item of a frame: bytes behind a fixed part of @fixed bytes. */
#define TREADLE_WIRE_MOST(fixed) \
	(TREADLE_WIRE_FRAME_BYTES - sizeof(struct treadle_wire_frame) - (fixed))

#endif
