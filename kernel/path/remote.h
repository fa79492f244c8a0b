/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: commands for and from other nodes (remote.c, sent.c, notices.c, share.c, push.c;
 * arrived.c, pull.c)
 *
 * A node that executes a command for another one has a proxy of the sending endpoint: an endpoint
 * without rings, in a context without a process. What differs from a command of this node is in
 * arrived.c: where the bytes are, and how the command ends.
 */
#ifndef TREADLE_REMOTE_H
#define TREADLE_REMOTE_H

#include "node/node.h"
#include "path/path.h"

#define TREADLE_WATCH_BUCKETS 64u
#define TREADLE_HANDLES	      65536u /* endpoints that one node makes known to another */

/*
 * struct treadle_push - a command that goes in pieces: a long message, WRITE or READ
 * @job:	sends pieces, in the worker of the command's context, which can wait for pages
 * @wait:	in remote->waiting, while there is no frame or credit
 * @s:		the session; the command is in its table as long as the push has not ended
 * @cmd:	the command
 * @reference:	of the command; @from: handle of its endpoint
 * @next, @end:	the next byte to send, or, of a READ, to ask for; and the first one that must not be
 * @arrived:	READ: bytes that have arrived; @landed: of these, in place
 * @late:	READ: pieces that have arrived, for which a page is missing
 * @users:	@job is queued or runs, and pieces that are arriving
 * @waits:	in remote->waiting; @active: @job is queued or runs
 * @failed:	the bytes can't be read: ABORT has to be sent
 * @ended:	out of the table: the last user completes the command with @status
 *
 * Under s->lock, but @failed, and the entries of @late, which only @job changes and removes.
 */
struct treadle_push {
	struct treadle_job job;
	struct list_head wait;
	struct treadle_session *s;
	struct treadle_cmd *cmd;
	u32 reference, from;
	u64 next, end, arrived, landed;
	struct list_head late;
	u32 users;
	bool waits, active, ended;
	int failed, status;
};

/*
 * struct treadle_sent - a place in the table of commands that the other node has
 * @cmd:	NULL: the place is free
 * @push:	sends or takes the command's bytes in pieces, or NULL
 * @generation:	counts the uses of the place: with its index, the reference
 * @next:	the next free place
 * @ask:	CANCEL has to be sent
 * @abort:	ABORT has to be sent, of this reference; or 0. @status: what it says
 */
struct treadle_sent {
	struct treadle_cmd *cmd;
	struct treadle_push *push;
	u16 generation, next;
	bool ask;
	u32 abort, status;
};

/*
 * struct treadle_remote - what a session has to send, and what it has sent; under s->lock
 * @queued:	commands that wait for a frame, for a credit or for a connection, in order
 * @shares:	of share.c: users with commands; @held: those with commands that have no place;
 *		@places: of all commands in the table and in @queued
 * @waiting:	pushes that wait for a frame or a credit
 * @begun:	which beginning of a session this is: handles of another one mean nothing
 * @handles:	in use; @next_handle: where the search for a free one begins
 * @gone:	of endpoints that have ended, about which the other node has to be told; @nr_gone
 * @unknown:	handles for which the other node had no memory: INTRO is sent again; @nr_unknown
 * @asks, @aborts: number of places with ->ask, with ->abort
 * @ending:	treadle_remote_end() is under way: no command is added
 * @free:	first free place; TREADLE_COMMANDS: there is none
 * @connecting:	requests to the other node that are not answered (treadle_conn_lock)
 * @watches:	sources on the other node that collective receives await, by port, until they are
 *		known (proxy/member.c)
 * @watched:	ports of endpoints here that the other node has asked for, and @nr_watched of them
 */
struct treadle_remote {
	struct list_head queued, shares, held, waiting;
	u32 places;
	u64 begun;
	unsigned long handles[BITS_TO_LONGS(TREADLE_HANDLES)];
	unsigned long gone[BITS_TO_LONGS(TREADLE_HANDLES)];
	unsigned long unknown[BITS_TO_LONGS(TREADLE_HANDLES)];
	u32 next_handle, nr_gone, nr_unknown, asks, aborts;
	bool ending;
	u16 free;
	struct list_head connecting;
	struct hlist_head watches[TREADLE_WATCH_BUCKETS];
	unsigned long watched[BITS_TO_LONGS(TREADLE_HANDLES)];
	u32 nr_watched;
	struct treadle_sent sent[TREADLE_COMMANDS];
};

/*
 * What an endpoint proves to know its key by: the nonces and ids of both nodes, those of its own
 * first, and its handle. So a proof is of no use in another session, or in the other direction.
 */
struct treadle_key_message {
	u8 nonce[2][16];
	__le64 ids[2];
	__le64 handle;
};

/* Bytes of a piece of a READ or WRITE of @len bytes, at @off. */
static inline u32 treadle_piece(u64 len, u64 off)
{
	return min_t(u64, len - off, TREADLE_WIRE_PIECE);
}

/* traced.c */
void treadle_trace_sent(const struct treadle_session *s, struct treadle_cmd *cmd);
void treadle_trace_arrived(const struct treadle_session *s, struct treadle_cmd *cmd);

/* remote.c */
extern const struct treadle_path_ops treadle_remote_path;
struct treadle_wire_cmd *treadle_remote_cmd(struct treadle_session *s, struct treadle_frame *frame,
					    const struct treadle_cmd *cmd, u64 offset, u32 bytes);
void treadle_remote_room(struct treadle_session *s);

/* sent.c */
struct treadle_sent *treadle_sent_find(struct treadle_session *s, u32 reference);
struct treadle_sent *treadle_sent_take(struct treadle_session *s, struct treadle_cmd *cmd);
enum treadle_withdrawn treadle_sent_withdraw(struct treadle_cmd *cmd) __must_hold(&cmd->ep->lock);
void treadle_sent_whole(struct treadle_cmd *cmd);
int treadle_sent_place(const struct treadle_cmd *cmd, const u8 *bytes, u64 *done, u64 len,
		       u64 offset, struct treadle_run *run);
void treadle_remote_done(struct treadle_session *s, const struct treadle_wire_view *view,
			 struct treadle_run *run);
void treadle_sent_complete(struct treadle_cmd *cmd, int error, struct treadle_run *run);
void treadle_remote_end_push(struct treadle_session *s, u32 reference, int status,
			     struct treadle_run *run);
struct treadle_remote *treadle_remote_alloc(struct treadle_session *s);
int treadle_remote_begin(struct treadle_session *s);
void treadle_remote_end(struct treadle_session *s, int error);
void treadle_remote_free(struct treadle_session *s);

/* share.c */
struct treadle_share *treadle_share_of(struct treadle_session *s, const struct treadle_cmd *cmd);
int treadle_share_add(struct treadle_session *s, const struct treadle_cmd *cmd);
bool treadle_share_open(const struct treadle_session *s, const struct treadle_share *share);
void treadle_share_enter(struct treadle_session *s, struct treadle_share *share);
void treadle_share_queue(struct treadle_session *s, struct treadle_share *share,
			 struct treadle_cmd *cmd);
void treadle_share_leave(struct treadle_session *s, struct treadle_cmd *cmd);
void treadle_shares_go_on(struct treadle_session *s);
struct treadle_cmd *treadle_shares_first(struct treadle_session *s);
void treadle_shares_free(struct treadle_remote *r);

/* notices.c */
int treadle_sent_abort(struct treadle_session *s, u32 reference, u32 status);
void treadle_sent_ask(struct treadle_session *s, struct treadle_sent *sent);
void treadle_sent_tell(struct treadle_session *s);
int treadle_remote_unknown(struct treadle_session *s, const struct treadle_wire_view *view);
void treadle_remote_forget(struct treadle_ep *ep);
bool treadle_remote_known_anew(struct treadle_session *s, struct treadle_ep *ep, u32 *handle);
int treadle_remote_introduce(struct treadle_session *s, struct treadle_ep *ep, u32 *handle);

/* Is @entry, of ->hosts of an endpoint, of the session as it is now? It ends with the handle. */
static inline bool treadle_entry_fits(const struct treadle_remote *r, u64 entry)
{
	return entry && entry >> 16 == READ_ONCE(r->begun);
}

/*
 * Make an endpoint known to the other node, if it is not yet. Its ->hosts has a place reserved for
 * the host. *@handle: the endpoint's handle there. False: the session has no room. Under s->lock.
 */
static inline bool treadle_remote_known(struct treadle_session *s, struct treadle_ep *ep,
					u32 *handle)
{
	u64 known = READ_ONCE(treadle_own_ep(ep)->known);

	lockdep_assert_held(&s->lock);
	if (unlikely(!treadle_entry_fits(s->remote, known) || s->remote->nr_unknown))
		return treadle_remote_known_anew(s, ep, handle);
	*handle = known & 0xffff;
	return true;
}

/* push.c */
struct treadle_push *treadle_push_alloc(struct treadle_session *s, struct treadle_cmd *cmd,
					struct treadle_run *run);
void treadle_push_start(struct treadle_push *push, u32 reference, u32 from);
void treadle_push_go_on(struct treadle_push *push);
bool treadle_push_stop(struct treadle_push *push, int status);
void treadle_push_free(struct treadle_push *push);
int treadle_push_grant(struct treadle_session *s, const struct treadle_wire_view *view,
		       struct treadle_run *run);
void treadle_push_data(struct treadle_session *s, const struct treadle_wire_view *view,
		       struct treadle_run *run);

/* --- commands from other nodes ------------------------------------------------------------ */

/*
 * struct treadle_proxy - an endpoint of another node; its commands are executed here
 * @ep:		without rings, queues and counters; first member
 * @session:	held
 * @begun:	remote->begun when it was made
 * @handle:	by which the other node names it
 * @due, @telling: events of its connection about which the other node is not told yet, a bit for
 *		each kind; @job is queued or runs, or waits in proxies->telling by @wait
 *		(treadle_conn_lock)
 * @key:	only there if it has an authorization key: proves that (ep.id.key), by the bytes of
 *		INTRO's proof; last member
 */
struct treadle_proxy {
	struct treadle_ep ep;
	struct treadle_session *session;
	u64 begun;
	u32 handle;
	u32 due;
	bool telling;
	struct treadle_job job;
	struct list_head wait;
	struct treadle_key key;
};

/*
 * struct treadle_pull - a message with its bytes at the other node, until they come (pull.c)
 * @msg:	matched, and allocated
 * @proxy:	of the sender
 * @reference:	of the command, at the other node
 * @granted:	bytes before this offset may come
 * @receiving:	the arrival of bytes goes on with the message; else its job does
 * @due:	GRANT could not be sent: in proxies->due by @wait
 * @status:	the other node can't send the bytes; or @broken: why they can't be placed
 *
 * @next:	another one with the same index of its reference
 *
 * Under s->lock.
 */
struct treadle_pull {
	struct treadle_msg *msg;
	struct treadle_proxy *proxy;
	u32 reference;
	u64 granted;
	bool receiving, due;
	int status, broken;
	struct list_head wait;
	struct treadle_pull *next;
};

/*
 * struct treadle_answer - what the other node has to be told of a command that has ended
 * @reference:	0: nothing; the command is only counted
 * @piece:	ANSWER_DATA, of a READ, at @offset; else DONE
 */
struct treadle_answer {
	u32 reference;
	int error;
	bool piece;
	u64 offset;
	u8 *bytes;
	u32 len;
};

/*
 * struct treadle_proxies - what a session executes for the other node
 * @handles:	its endpoints, by handle (proxy/). Only arrivals and the end of the session use it
 * @last:	the one that was found last, or NULL; only for arrivals
 * @members:	the same, by port, for what awaits them; changed like @handles, read under s->lock
 * @unknown:	handles for which there was no memory, and the other node is not told yet; only for
 *		arrivals; @nr_unknown of them
 * @scratch:	for results of the command that is being executed by the arrival
 * @cut:	by the index of the reference: of a READ or WRITE of which a piece has failed
 * @pulls:	by the index of the reference, which is used again before a message has ended here
 * @due:	pulls without room for their GRANT
 * @telling:	proxies with a job that waits for room
 * @answers:	that could not be sent, a ring: @count of them, from @first on. There is one for
 *		each command that the other node may send
 *
 * From @cut on under s->lock.
 */
struct treadle_proxies {
	struct xarray handles, members;
	struct treadle_proxy *last;
	unsigned long unknown[BITS_TO_LONGS(TREADLE_HANDLES)];
	u32 nr_unknown;
	u8 scratch[TREADLE_WIRE_PIECE];
	u32 cut[TREADLE_COMMANDS];
	struct treadle_pull *pulls[TREADLE_COMMANDS];
	struct list_head due, telling;
	u32 first, count;
	struct treadle_answer answers[TREADLE_COMMANDS];
};

/* arrived.c */
void treadle_answer(struct treadle_session *s, const struct treadle_answer *a);
void treadle_arrived_room(struct treadle_session *s);

/* pull.c */
int treadle_pull_fetch(struct treadle_msg *msg, struct treadle_span *to, u64 len,
		       struct treadle_run *run, enum treadle_side *side);
void treadle_pull_release(struct treadle_cmd *cmd);
void treadle_pull_room(struct treadle_session *s);
void treadle_pull_data(struct treadle_session *s, const struct treadle_wire_view *view,
		       struct treadle_run *run);
void treadle_pull_abort(struct treadle_session *s, const struct treadle_wire_view *view);
void treadle_pull_abort_all(struct treadle_session *s, const struct treadle_proxy *proxy);
struct treadle_proxies *treadle_pull_end(struct treadle_session *s);

static inline struct treadle_proxy *treadle_proxy_of(const struct treadle_cmd *cmd)
{
	return container_of(cmd->ep, struct treadle_proxy, ep);
}

/* Is the session still the one in which the proxy was made? Under s->lock. */
static inline bool treadle_proxy_valid(const struct treadle_proxy *proxy)
{
	const struct treadle_session *s = proxy->session;

	lockdep_assert_held(&s->lock);
	return s->begun && s->proxies && s->remote && s->remote->begun == proxy->begun;
}

#endif
