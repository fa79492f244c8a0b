/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: what only node/ knows of sessions: frames (frames.c, session.c, arrived.c), links
 * (link.c), and how nodes recognize each other (hello.c)
 */
#ifndef TREADLE_SESSION_H
#define TREADLE_SESSION_H

#include <linux/bits.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/refcount.h>
#include <linux/rhashtable-types.h>

#include "node/node.h"

#define TREADLE_NODE_TIMEOUT 15u /* seconds, unless the transport says otherwise */
#define TREADLE_HANDSHAKES   16	 /* links of a node that were accepted, and have not passed HELLO */
#define TREADLE_OFFERS	     4	 /* links of the other node that are neither accepted nor refused */
#define TREADLE_BARE	     8u	 /* frames without a number that are not known to be processed */
#define TREADLE_BARE_BYTES   256u
#define TREADLE_ALL_BARE     (BIT(TREADLE_BARE) - 1)

/*
 * struct treadle_node - an address at which a network namespace is reached
 * @listen:	as the transport said it; the secret is a copy
 * @id:		random
 * @sessions:	number of sessions with this node, and 1 until it is closed
 * @handshakes:	links that were accepted, and have not passed HELLO
 * @closing:	no session begins any more (hosts->lock)
 * @peer:	of a second node of the namespace: its session with the first one
 * @host:	the same: its number
 */
struct treadle_node {
	const struct treadle_transport *transport;
	struct treadle_node_listen listen;
	void *private;
	u64 id;
	atomic_t sessions, handshakes;
	bool closing;
	struct treadle_session *peer;
	u16 host;
	struct rcu_head rcu;
};

/* The steps of HELLO, which both sides take (hello.c) */
enum treadle_step { TREADLE_NOTHING, TREADLE_HELLO, TREADLE_PROOF, TREADLE_REFUSED };

struct treadle_hello {
	struct treadle_wire_frame head;
	__le32 step;
	__le32 zero;
	__le64 node;
	__le64 session;
	u8 link_nonce[16];
	u8 nonce[16]; /* of the session */
	u8 proof[32];
};
static_assert(sizeof(struct treadle_hello) <= TREADLE_BARE_BYTES);

/*
 * struct treadle_frames - memory of the frames of a session
 * @numbered: with numbers
 * @bare:	without; parts of @page
 * @hello:	HELLO of this side and of the other one
 */
struct treadle_frames {
	struct treadle_frame numbered[TREADLE_ROOM];
	struct treadle_frame bare[TREADLE_BARE];
	void *page;
	struct treadle_hello hello[2];
};

/*
 * struct treadle_session_links - the rest of a session
 *
 * Constant, or with locks of their own:
 * @users:	entries of address vectors, and 1 while it is @active: then it is in the table of
 *		its namespace, in which it has a number
 * @net:	its network namespace
 * @listed:	it is in the table: all but the sessions of a second node
 * @by_addr:	in the table (hosts->lock)
 * @charged, @user: the user for which the host counts, by treadle_user_id()
 * @to:		what a link connects to, if that is not the node's port at the session's address
 * @manage, @tick: the manager (link.c), and the timer of acknowledgments (frames.c)
 * @release:	frees the session
 *
 * Frames, under s->lock:
 * @memory:	their memory, from before there is a link until the session is idle
 * @free, @kept: frames that are not in use; that have a number, oldest first
 * @open:	frame for items, or NULL
 * @out, @stale: frames that are being filled; and those of an earlier session
 * @progress:	when a frame was acknowledged last, or @kept was empty, or the link became live
 * @epoch:	counts the sessions, for @stale
 * @live:	frames may be posted on @link
 * @busy:	treadle_link_sent() is due, for a frame with more than answers
 * @corked:	a frame is being processed: answers are collected
 * @starved:	->room has to be called
 * @replies:	commands in a row that were sent after one frame of answers at most
 * @alone:	frames of answers since the last one with commands: 0, 1, or more
 * @waiting, @patience: the answers of @open wait for a command; until when
 * @ticking, @ticked: the timer runs; what was told when it was started
 * @bare_free:	bit mask
 * @quota:	frames without a number that may be sent before a PING is answered
 * @pinged, @since: a PING is not answered; as many were sent since
 * @pings, @answers: numbers of the last PING that was sent, and of the last that was answered
 * @answer, @owing: an ANSWER, or an acknowledgment, has to be sent
 * @ping_at, @ping_ns: when PING was sent last; @round_trip: until its answer, in ns, smoothed
 * @sent_frames, @resent, @received: counts of numbered frames
 *
 * Links (link.c), under s->lock:
 * @link:	that in use: an attempt, or a connection; set and cleared by the manager only
 * @offers:	of the other node
 * @looks:	so often the manager still looks whether a live @link is used, before it accepts
 *		what is offered; 0: it doesn't
 * @active:	has one of @users, as it has a link or needs one
 * @wanted, @asked: the session is to begin; and since when
 * @closing:	its node is being closed
 * @broken:	@link has to be left
 * @verdict:	the session has to end with this error
 * @lingers:	not before @deadline, so that the other node hears of it
 * @counted:	@link counts in node->handshakes
 * @heard:	when something has arrived last
 * @passed:	when @link has passed HELLO
 * @nr_links, @nr_begun: how many links have passed it, and how often the session has begun
 * @error:	why there is no @link that has passed it: 0 or -errno, of the last one, of the last
 *		attempt, or of the session
 *
 * Only for the manager, unless noted otherwise:
 * @deadline:	until when @link has to be live (s->lock)
 * @retry:	when to try again
 * @probe, @seen, @look_at: a PING from this number on has to be answered; @heard as of the last
 *		look, and when the next one is
 * @lost:	when the last link was lost (s->lock)
 * @failures:	attempts that have failed since
 * @number, @before: of the last attempt that was accepted, and before that (connect.pml)
 * @attempt:	number of the attempt under way
 * @id:		of this side of the session; another one after each end: then it is @next_id, and
 *		s->nonce[0] is @next_nonce
 * @doubted:	a node at the address says that it lost the session: attempts offer @next_id
 * @anew:	@link is for @next_id: when it passes HELLO, the session ends, and begins anew; set
 *		by the manager, cleared by HELLO (s->lock)
 * @peer_id:	of the other side, once it has begun (s->lock)
 * @mapped:	@link has all frames of @memory
 *
 * HELLO (hello.c), under s->lock:
 * @ready:	@link is up, and frames may be posted
 * @sent, @got:	the last steps
 */
struct treadle_session_links {
	refcount_t users;
	struct net *net;
	bool listed;
	struct rhash_head by_addr;
	bool charged;
	u32 user;
	struct treadle_addr to;
	struct delayed_work manage, tick;
	struct work_struct release;
	struct rcu_head rcu;

	struct treadle_frames *memory;
	struct list_head free, kept;
	struct treadle_frame *open;
	unsigned long progress;
	u32 out, stale, epoch;
	bool live, busy, corked, starved;
	bool ticking, waiting;
	u8 replies, alone;
	struct hrtimer patience;
	struct treadle_ack ticked;
	bool pinged, answer, owing;
	u64 pings, answers;
	u8 bare_free, quota, since;
	unsigned long ping_at;
	u64 ping_ns, round_trip;
	u64 sent_frames, resent, received;

	struct treadle_link *link;
	struct list_head offers;
	u32 nr_offers, looks;
	bool active, wanted, closing, broken, lingers, counted;
	int verdict;
	unsigned long heard, passed, asked, deadline, retry, lost, seen, look_at;
	u64 probe;
	u64 nr_links, nr_begun;
	int error;
	u32 failures;
	u64 number, before, attempt;
	u64 id, peer_id, next_id;
	u8 next_nonce[16];
	bool doubted, anew;
	bool mapped, ready;
	u8 sent, got;
};

/* A session, and what only node/ knows of it */
struct treadle_session_all {
	struct treadle_session s;
	struct treadle_session_links links;
};

/* By which events name a session: the same number on both nodes. */
static inline u64 treadle_session_traced(const struct treadle_session *s)
{
	return le64_to_cpu(s->ids[0] ^ s->ids[1]);
}

static inline struct treadle_session *treadle_session_of(struct treadle_session_links *l)
{
	return &container_of(l, struct treadle_session_all, links)->s;
}

/* host.c */
int treadle_hosts_init(void);
void treadle_hosts_exit(void);
int treadle_hosts_attach(struct treadle_node *node);
void treadle_hosts_detach(struct treadle_node *node);
struct treadle_node *treadle_hosts_node(struct net *net);
struct treadle_session *treadle_host_of(struct treadle_node *node, const struct treadle_addr *from);
void treadle_host_drop(struct treadle_session *s);

/* link.c */
extern struct workqueue_struct *treadle_node_wq;
void treadle_links_init(struct treadle_session *s);
void treadle_session_kick(struct treadle_session *s);
void treadle_session_end(struct treadle_session *s, int error);
void treadle_link_fail(struct treadle_session *s, struct treadle_link *link, int error);
void treadle_link_passed(struct treadle_session *s);

/* frames.c */
int treadle_frames_get(struct treadle_session *s);
void treadle_frames_put(struct treadle_session *s);
int treadle_frames_map(struct treadle_link *link, struct treadle_frames *memory);
void treadle_frames_unmap(struct treadle_link *link, struct treadle_frames *memory, u32 frames,
			  u32 bare);
void treadle_frame_transmit(struct treadle_session *s, struct treadle_frame *frame,
			    struct treadle_ack told);
struct treadle_frame *treadle_bare_get(struct treadle_session *s);
void treadle_session_send_due(struct treadle_session *s);
int treadle_session_answered(struct treadle_session *s);
void treadle_session_acknowledge(struct treadle_session *s);
void treadle_session_tick(struct work_struct *work);

/* session.c */
void treadle_session_init(struct treadle_session *s);
void treadle_session_reset(struct treadle_session *s);
void treadle_session_detach(struct treadle_session *s);
void treadle_session_send_open(struct treadle_session *s);
void treadle_session_part(struct treadle_session *s);

/* arrived.c */
void treadle_session_unlink(struct treadle_session *s);
int treadle_session_go(struct treadle_session *s, const struct treadle_wire_frame *told);
void treadle_session_room(struct treadle_session *s);

/* hello.c */
void treadle_hello_go(struct treadle_session *s);
int treadle_hello_arrived(struct treadle_session *s, struct treadle_link *link,
			  const struct treadle_wire_frame *frame, u32 bytes);

#endif
