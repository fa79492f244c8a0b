// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: frames with numbers, and items in them
 *
 * Items are collected in the open frame while a send is under way. A frame gets its number when it
 * is closed, and is kept until the other node has acknowledged it, so that it can be sent again on
 * another link. Between two links items are written as long as there is room.
 *
 * An answer is best sent with the next command. In a dialogue, where one command follows each frame
 * of answers, answers wait for that command, and for a part of a round trip at most. So a message
 * and its reply take one frame each.
 */
#include "mm/base.h"
#include "mm/compat.h"
#include "node/session.h"

#define DIALOGUE 4u	       /* replies in a row that make one */
#define PATIENCE NSEC_PER_MSEC /* answers wait so long at most */

/* Answers have waited long enough. May be called with interrupts off. */
static enum hrtimer_restart patience_ended(struct hrtimer *timer)
{
	struct treadle_session_links *l =
		container_of(timer, struct treadle_session_links, patience);

	mod_delayed_work(treadle_node_wq, &l->tick, 0);
	return HRTIMER_NORESTART;
}

/**
 * treadle_session_init() - set up the frames of a new session
 * @s: the session
 *
 * Context: any.
 */
void treadle_session_init(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	INIT_LIST_HEAD(&l->free);
	INIT_LIST_HEAD(&l->kept);
	INIT_DELAYED_WORK(&l->tick, treadle_session_tick);
	treadle_timer_setup(&l->patience, patience_ended, HRTIMER_MODE_REL);
	l->bare_free = TREADLE_ALL_BARE;
	l->quota = TREADLE_BARE;
	treadle_window_init(&s->window, TREADLE_ROOM, TREADLE_COMMANDS);
}

/**
 * treadle_session_reset() - take back all frames of a session, which ends
 * @s: the session; without a link, and not up
 *
 * Frames that are being filled come back later: treadle_session_post().
 *
 * Context: s->lock held.
 */
void treadle_session_reset(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	list_splice_init(&l->kept, &l->free);
	if (l->open) {
		list_add(&l->open->list, &l->free);
		l->open = NULL;
		l->out--;
	}
	l->stale += l->out;
	l->out = 0;
	l->epoch++;
	l->starved = false;
}

static struct treadle_frame *frame_open(struct treadle_session *s, bool data)
{
	struct treadle_session_links *l = s->links;
	struct treadle_frame *frame;

	lockdep_assert_held(&s->lock);
	if (!s->up || !treadle_window_may_open(&s->window, data) || list_empty(&l->free))
		return NULL;
	treadle_window_open(&s->window, data);
	frame = list_first_entry(&l->free, struct treadle_frame, list);
	list_del(&frame->list);
	frame->data = data;
	frame->answers = false;
	frame->epoch = l->epoch;
	frame->length = sizeof(*frame->head);
	frame->head->type = TREADLE_WIRE_ITEMS;
	frame->head->flags = 0;
	frame->head->items = 0;
	l->out++;
	return frame;
}

/* A frame is sent: does a command follow each frame of answers? */
static void count_replies(struct treadle_session_links *l, const struct treadle_frame *frame)
{
	if (frame->answers) {
		l->alone = min(l->alone + 1, 2);
		return;
	}
	l->replies = l->alone > 1 ? 0 : min(l->replies + 1u, DIALOGUE);
	l->alone = 0;
}

/* Number a frame, and post it if there is a link. */
static void frame_send(struct treadle_session *s, struct treadle_frame *frame)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	l->out--;
	frame->number = treadle_window_send(&s->window);
	frame->head->seq = cpu_to_le32(frame->number);
	frame->head->length = cpu_to_le32(frame->length);
	if (list_empty(&l->kept))
		l->progress = jiffies;
	list_add_tail(&frame->list, &l->kept);
	l->sent_frames++;
	count_replies(l, frame);
	if (!l->live)
		return;
	l->busy |= !frame->answers;
	treadle_frame_transmit(s, frame, treadle_window_tell(&s->window));
}

/**
 * treadle_session_send_open() - number the open frame, and post it if there is a link
 * @s: the session; has an open frame
 *
 * Context: s->lock held.
 */
void treadle_session_send_open(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	struct treadle_frame *frame = l->open;

	l->open = NULL;
	if (l->waiting) {
		l->waiting = false;
		hrtimer_try_to_cancel(&l->patience);
	}
	frame_send(s, frame);
}

/* The open frame has nothing but answers: wait for a command? True: for a while, yes. */
static bool wait_for_reply(struct treadle_session_links *l)
{
	u64 ns = min_t(u64, l->round_trip / 4, PATIENCE);

	if (l->replies < DIALOGUE || l->alone || !ns)
		return false;
	if (!l->waiting) {
		l->waiting = true;
		hrtimer_start(&l->patience, ns_to_ktime(ns), HRTIMER_MODE_REL);
	}
	return true;
}

/**
 * treadle_session_part() - send answers that have waited for a command: there was none
 * @s: the session
 *
 * Context: s->lock held.
 */
void treadle_session_part(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	if (!l->waiting)
		return;
	l->waiting = false;
	l->replies = 0;
	treadle_session_flush(s);
}

/**
 * treadle_frame_item() - append an item to a frame
 * @frame:     has room for it
 * @kind:      of the item
 * @bytes:     of all of it
 * @reference: of the item
 *
 * Context: any; the frame is the caller's.
 * Return: the item; the caller writes what follows struct treadle_wire_item.
 */
void *treadle_frame_item(struct treadle_frame *frame, u8 kind, u32 bytes, u32 reference)
{
	struct treadle_wire_item *item = (void *)frame->head + frame->length;
	u32 padded = ALIGN(bytes, 8);

	if (padded != bytes)
		*(u64 *)((void *)item + padded - 8) = 0;
	item->kind = kind;
	item->flags = 0;
	item->length = cpu_to_le16(bytes);
	item->reference = cpu_to_le32(reference);
	le16_add_cpu(&frame->head->items, 1);
	frame->length += padded;
	return item;
}

/**
 * treadle_session_item() - append an item to the open frame
 * @s:	       the session
 * @kind:      of the item
 * @bytes:     of all of it; fits a frame
 * @reference: of the item
 *
 * Context: s->lock held. treadle_session_flush() follows before it is dropped.
 * Return: the item; the caller writes what follows struct treadle_wire_item. NULL: there is no
 * room, or the session is not up.
 */
void *treadle_session_item(struct treadle_session *s, u8 kind, u32 bytes, u32 reference)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	if (l->open && l->open->length + ALIGN(bytes, 8) > TREADLE_WIRE_FRAME_BYTES)
		treadle_session_send_open(s);
	if (!l->open) {
		l->open = frame_open(s, false);
		if (!l->open)
			return NULL;
		l->open->answers = true;
	}
	l->open->answers &= kind == TREADLE_WIRE_DONE;
	return treadle_frame_item(l->open, kind, bytes, reference);
}

/**
 * treadle_session_flush() - post the open frame if no command is under way; or what must be told
 * @s: the session
 *
 * Context: s->lock held.
 */
void treadle_session_flush(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	if (!l->live || l->corked)
		return;
	if (!l->open)
		treadle_session_acknowledge(s);
	else if (!l->busy && !(l->open->answers && wait_for_reply(l)))
		treadle_session_send_open(s);
}

/**
 * treadle_session_frame() - take a frame of one's own
 * @s:	  the session
 * @data: it gets bulk data
 *
 * Context: s->lock held. The frame is filled without it.
 * Return: the frame, for treadle_session_post() or _unframe(); NULL: there is no room, or the
 * session is not up.
 */
struct treadle_frame *treadle_session_frame(struct treadle_session *s, bool data)
{
	return frame_open(s, data);
}

/* Take back a frame that was not sent. */
static void frame_drop(struct treadle_session *s, struct treadle_frame *frame)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	list_add(&frame->list, &l->free);
	if (frame->epoch == l->epoch) {
		l->out--;
		treadle_window_close(&s->window, frame->data);
		/* what has waited for it goes on with the answer */
		if (l->starved)
			treadle_session_ping(s);
	} else if (!--l->stale && !s->begun) {
		treadle_session_kick(s); /* frees the memory */
	}
}

/**
 * treadle_session_owns() - does a frame belong to the session as it is now?
 * @s:	   the session
 * @frame: of treadle_session_frame()
 *
 * Context: s->lock held.
 * Return: false: the session has ended since: the frame can't be sent.
 */
bool treadle_session_owns(const struct treadle_session *s, const struct treadle_frame *frame)
{
	lockdep_assert_held(&s->lock);
	return frame->epoch == s->links->epoch;
}

/**
 * treadle_session_post() - send a frame of one's own, behind the open one
 * @s:	   the session; it may have ended since the frame was taken: then it is not sent
 * @frame: of treadle_session_frame(), with one item
 *
 * Context: s->lock held.
 */
void treadle_session_post(struct treadle_session *s, struct treadle_frame *frame)
{
	if (unlikely(frame->epoch != s->links->epoch)) {
		frame_drop(s, frame);
		return;
	}
	if (s->links->open)
		treadle_session_send_open(s);
	frame_send(s, frame);
}

/**
 * treadle_session_unframe() - give back a frame that is not sent
 * @s:	   the session
 * @frame: of treadle_session_frame()
 *
 * Context: s->lock held.
 */
void treadle_session_unframe(struct treadle_session *s, struct treadle_frame *frame)
{
	frame_drop(s, frame);
}

/**
 * treadle_session_starve() - let ->room be called when there may be room again
 * @s: the session
 *
 * Context: s->lock held.
 */
void treadle_session_starve(struct treadle_session *s)
{
	lockdep_assert_held(&s->lock);
	s->links->starved = true;
}

/* --- its node ----------------------------------------------------------------------------- */

/**
 * treadle_session_net() - the network namespace of a session
 * @s: the session
 *
 * Context: any.
 * Return: the namespace; held as long as the session has a number.
 */
struct net *treadle_session_net(const struct treadle_session *s)
{
	return s->links->net;
}

/**
 * treadle_session_detach() - a session leaves its node
 * @s: the session; has no link
 *
 * Context: any. The node may be gone afterwards.
 */
void treadle_session_detach(struct treadle_session *s)
{
	struct treadle_node *node;

	spin_lock(&s->lock);
	node = s->node;
	WRITE_ONCE(s->node, NULL);
	s->links->closing = false;
	spin_unlock(&s->lock);
	if (node && atomic_dec_and_test(&node->sessions))
		wake_up_var(&node->sessions);
}
