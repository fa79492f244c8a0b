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
 * Pure logic, so that the same source is tested in user space. It takes no lock: the caller holds
 * the session's. Numbers are compared modulo 2^32; windows are far smaller.
 */
#ifndef TREADLE_WINDOW_H
#define TREADLE_WINDOW_H

#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/string.h>
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
 * @opened:	frames that are being filled, and will get the numbers from @next on
 * @data:	frames of bulk data among these and those from @acked on
 * @used, @granted: commands that were sent, and that the peer takes, since the session began
 *
 * Frames from the peer:
 * @expected:	the next one
 * @room:	frames that this side takes at a time, and that it keeps to send them again
 * @offered:	commands that this side takes, since the session began
 * @taken:	commands that the peer has sent, since the session began
 * @told:	what the peer was told last
 */
struct treadle_window {
	u32 acked, posted, next, limit, opened, data;
	u32 used, granted;
	u32 expected, room, offered, taken;
	struct treadle_ack told;
};

/* Is @a before @b? */
static inline bool treadle_before(u32 a, u32 b)
{
	return (s32)(a - b) < 0;
}

/**
 * treadle_window_init() - begin a session
 * @w:        the window
 * @room:     frames that this side takes at a time, at most TREADLE_MAX_FRAMES
 * @commands: commands that this side takes at first, at most TREADLE_MAX_COMMANDS
 *
 * Both sides begin with number 0, and with no limit and no grant: the peer's first acknowledgment,
 * which comes with its HELLO, has them.
 */
static inline void treadle_window_init(struct treadle_window *w, u32 room, u32 commands)
{
	memset(w, 0, sizeof(*w));
	w->room = room;
	w->offered = commands;
}

/**
 * treadle_window_may_open() - may a new frame be filled, and then sent?
 * @w:    the window
 * @data: it is one of bulk data
 *
 * Return: false: it waits for an acknowledgment of the peer.
 */
static inline bool treadle_window_may_open(const struct treadle_window *w, bool data)
{
	u32 size = w->limit - w->acked;

	if (size > w->room)
		size = w->room;
	return w->next - w->acked + w->opened < size && (!data || w->data < size - size / 4);
}

/**
 * treadle_window_open() - fill a new frame; treadle_window_may_open() is true
 * @w:    the window
 * @data: it is one of bulk data
 *
 * It has a place in the window from now on, so it can be sent at any time.
 */
static inline void treadle_window_open(struct treadle_window *w, bool data)
{
	w->opened++;
	w->data += data;
}

/* Give up a frame that was not sent. @data: it was to be one of bulk data. */
static inline void treadle_window_close(struct treadle_window *w, bool data)
{
	w->opened--;
	w->data -= data;
}

/**
 * treadle_window_send() - number a frame that was opened
 * @w: the window
 *
 * Return: its number. The caller keeps the frame until it is acknowledged.
 */
static inline u32 treadle_window_send(struct treadle_window *w)
{
	w->opened--;
	if (w->posted == w->next)
		w->posted++;
	return w->next++;
}

/**
 * treadle_window_use_command() - may a frame have one more command?
 * @w: the window
 *
 * Return: true: it is counted; false: it waits for a grant of the peer.
 */
static inline bool treadle_window_use_command(struct treadle_window *w)
{
	if (w->used == w->granted)
		return false;
	w->used++;
	return true;
}

/**
 * treadle_window_tell() - what the next frame to the peer, new or not, has to say
 * @w: the window
 *
 * Return: the words; the peer counts as told.
 */
static inline struct treadle_ack treadle_window_tell(struct treadle_window *w)
{
	w->told.ack = w->expected;
	w->told.limit = w->expected + w->room;
	w->told.commands = w->offered;
	return w->told;
}

/**
 * treadle_window_owes_ack() - does the peer have to be told, even if there is nothing to be sent?
 * @w: the window
 *
 * Return: true if half of the frames that the peer may send were processed since it was told, or
 * if it can be granted as many commands as it has left. Else a frame that is sent anyway, or a
 * timer, does it.
 */
static inline bool treadle_window_owes_ack(const struct treadle_window *w)
{
	u32 commands = w->offered - w->told.commands;

	return w->expected - w->told.ack >= (w->room + 1) / 2 ||
	       (commands && commands >= w->told.commands - w->taken);
}

/**
 * treadle_window_acked() - a frame of the peer says how far it has come
 * @w:    the window
 * @told: what it says
 *
 * Return: frames that are acknowledged by it, oldest first: the caller frees them, with
 * treadle_window_free() for each. -EPROTO: the peer takes back what it has said, or acknowledges
 * what was not sent: the session has to end.
 */
static inline int treadle_window_acked(struct treadle_window *w, const struct treadle_ack *told)
{
	u32 acked = told->ack - w->acked;

	if (acked > w->posted - w->acked || treadle_before(told->limit, w->limit) ||
	    told->limit - told->ack > TREADLE_MAX_FRAMES ||
	    treadle_before(told->commands, w->granted) ||
	    told->commands - w->used > TREADLE_MAX_COMMANDS)
		return -EPROTO;
	w->acked = told->ack;
	w->limit = told->limit;
	w->granted = told->commands;
	return acked;
}

/**
 * treadle_window_arrived() - a frame of the peer is to be processed
 * @w:        the window
 * @number:   of the frame
 * @commands: in it
 *
 * Return: 0; treadle_window_processed() follows. -EPROTO: it is not the next one, is beyond the
 * limit, or has more commands than were granted: the session has to end.
 */
static inline int treadle_window_arrived(struct treadle_window *w, u32 number, u32 commands)
{
	if (number != w->expected || number - w->told.ack >= w->room ||
	    commands > w->told.commands - w->taken)
		return -EPROTO;
	w->taken += commands;
	return 0;
}

/* The frame has been processed: the peer may be told, and send another one. */
static inline void treadle_window_processed(struct treadle_window *w)
{
	w->expected++;
}

/* Is there anything that the peer was not told? */
static inline bool treadle_window_untold(const struct treadle_window *w)
{
	return w->expected != w->told.ack || w->offered != w->told.commands;
}

/**
 * treadle_window_offer() - commands of the peer have ended: it may send as many more
 * @w:        the window
 * @commands: so many
 */
static inline void treadle_window_offer(struct treadle_window *w, u32 commands)
{
	w->offered += commands;
}

/**
 * treadle_window_reconnect() - there is a new connection, after the old one was drained
 * @w:         the window
 * @processed: the peer has processed the frames before this number
 *
 * What the peer was told on the old connection may have been lost: it is told again.
 *
 * Return: frames that are acknowledged by it, as treadle_window_acked(). Those from w->posted to
 * w->next have to be sent again, in order, before any new one. -EPROTO as there.
 */
static inline int treadle_window_reconnect(struct treadle_window *w, u32 processed)
{
	u32 acked = processed - w->acked;

	if (acked > w->next - w->acked)
		return -EPROTO;
	w->acked = w->posted = processed;
	return acked;
}

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
