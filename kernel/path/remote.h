/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: commands for and from other nodes (remote.c, push.c; arrived.c, pull.c)
 *
 * A node that executes a command for another one has a proxy of the sending endpoint: an endpoint
 * without rings, in a context without a process. What differs from a command of this node is in
 * arrived.c: where the bytes are, and how the command ends.
 */
#ifndef TREADLE_REMOTE_H
#define TREADLE_REMOTE_H

#include "node/node.h"
#include "path/path.h"

#define TREADLE_HANDLES 65536u /* endpoints that one node makes known to another */

/*
 * struct treadle_push - a command whose bytes go in pieces: a long message, WRITE or READ
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
 * All under s->lock.
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
 */
struct treadle_sent {
	struct treadle_cmd *cmd;
	struct treadle_push *push;
	u16 generation, next;
	bool ask;
};

/*
 * struct treadle_remote - what a session has to send, and what it has sent; under s->lock
 * @queued:	commands that wait for a frame, for a credit or for a connection, in order
 * @waiting:	pushes that wait for a frame or a credit
 * @begun:	counts how often the session has begun: handles of earlier times mean nothing
 * @handles:	in use; @next_handle: where the search for a free one begins
 * @gone:	of endpoints that have ended, about which the other node has to be told; @nr_gone
 * @asks:	number of places with ->ask
 * @free:	first free place; TREADLE_COMMANDS: there is none
 */
struct treadle_remote {
	struct list_head queued, waiting;
	u64 begun;
	unsigned long handles[BITS_TO_LONGS(TREADLE_HANDLES)];
	unsigned long gone[BITS_TO_LONGS(TREADLE_HANDLES)];
	u32 next_handle, nr_gone, asks;
	u16 free;
	struct treadle_sent sent[TREADLE_COMMANDS];
};

/* Bytes of a piece of a READ or WRITE of @len bytes, at @off. */
static inline u32 treadle_piece(u64 len, u64 off)
{
	return min_t(u64, len - off, TREADLE_WIRE_PIECE);
}

/* remote.c */
extern const struct treadle_path_ops treadle_remote_path;
struct treadle_wire_cmd *treadle_remote_cmd(struct treadle_session *s,
					    struct treadle_frame *frame,
					    const struct treadle_cmd *cmd, u64 offset, u32 bytes);
struct treadle_sent *treadle_sent_find(struct treadle_session *s, u32 reference);
void treadle_remote_end(struct treadle_session *s, int error);
int treadle_remote_begin(struct treadle_session *s);
void treadle_remote_free(struct treadle_session *s);
void treadle_remote_room(struct treadle_session *s);
void treadle_remote_done(struct treadle_session *s, const struct treadle_wire_view *view,
			 struct treadle_run *run);
void treadle_remote_forget(struct treadle_ep *ep);
void treadle_remote_end_push(struct treadle_session *s, u32 reference, int status,
			     struct treadle_run *run);

/* push.c */
struct treadle_push *treadle_push_alloc(struct treadle_session *s, struct treadle_cmd *cmd,
					struct treadle_run *run);
void treadle_push_start(struct treadle_push *push, u32 reference, u32 from);
void treadle_push_go_on(struct treadle_push *push);
bool treadle_push_stop(struct treadle_push *push, int status);
void treadle_push_free(struct treadle_push *push);
void treadle_push_grant(struct treadle_session *s, const struct treadle_wire_view *view,
			struct treadle_run *run);
void treadle_push_data(struct treadle_session *s, const struct treadle_wire_view *view,
		       struct treadle_run *run);

#endif
