/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: the window of a session with another node: which frames may be sent, which have to be
 * sent again after the connection was lost, and what the peer has to be told
 *
 * A session outlives its connections. Frames have numbers, and a sender keeps a frame until the
 * peer has said that it has processed it. After a reconnection each side says how far it has
 * processed, and gets the rest again, in order: so each frame is processed exactly once.
 *
 * Nothing is allocated for an arriving frame: the receiver's limit says how many frames it takes,
 * and its grants how many commands. Frames of bulk data get three quarters of the limit at most, so
 * that answers, which free what the peer waits for, always get through.
 *
 * Pure logic, so that the same source is tested in user space. It takes no lock; the caller holds
 * the session's. Numbers are compared modulo 2^32; windows are far smaller.
 */
#ifndef TREADLE_WINDOW_H
#define TREADLE_WINDOW_H

#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/types.h>
#else
#include "shim.h"
#endif

#define TREADLE_MAX_FRAMES   1024u /* in flight in a direction */
#define TREADLE_MAX_COMMANDS 8192u /* granted and not yet used */

/*
 * struct treadle_ack - what each frame says about the other direction
 * @ack:	frames before this number were processed
 * @limit:	frames before this number may be sent
 * @commands:	commands that may be sent, since the session began
 */
struct treadle_ack {
	u32 ack, limit, commands;
};

/*
 * struct treadle_window - both directions of a session
 *
 * Frames to the peer:
 * @acked:	the first one that the peer may not have processed
 * @posted:	the next one to post on this connection; less than @next: it is sent again
 * @next:	number of the next new one
 * @limit:	of the peer: the first one that must not be sent
 * @data:	frames of bulk data among those from @acked on
 * @used, @granted: commands that were sent, and that the peer takes, since the session began
 *
 * Frames from the peer:
 * @expected:	the next one
 * @room:	frames that this side takes at a time
 * @offered:	commands that this side takes, since the session began
 * @taken:	commands that the peer has sent, since the session began
 * @told:	what the peer was told last
 */
struct treadle_window {
	u32 acked, posted, next, limit, data;
	u32 used, granted;
	u32 expected, room, offered, taken;
	struct treadle_ack told;
};

void treadle_window_init(struct treadle_window *w, u32 room, u32 commands);
bool treadle_window_may_send(const struct treadle_window *w, bool data);
u32 treadle_window_send(struct treadle_window *w, bool data);
bool treadle_window_use_command(struct treadle_window *w);
struct treadle_ack treadle_window_tell(struct treadle_window *w);
bool treadle_window_owes_ack(const struct treadle_window *w);
int treadle_window_acked(struct treadle_window *w, const struct treadle_ack *told);
int treadle_window_arrived(struct treadle_window *w, u32 number, u32 commands);
void treadle_window_offer(struct treadle_window *w, u32 commands);
int treadle_window_reconnect(struct treadle_window *w, u32 processed);

/* A frame was freed: it was acknowledged. @data: it was one of bulk data. */
static inline void treadle_window_free(struct treadle_window *w, bool data)
{
	w->data -= data;
}

/* Has a frame to be sent again, before any new one? */
static inline bool treadle_window_replays(const struct treadle_window *w)
{
	return w->posted != w->next;
}

/* The number of the next frame that is sent again; treadle_window_replays() is true. */
static inline u32 treadle_window_replay(struct treadle_window *w)
{
	return w->posted++;
}

#endif
