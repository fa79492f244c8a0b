// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: what arrives for a session
 *
 * A link's frames arrive one at a time. Nothing is allocated for a frame, and none is held: it is
 * processed when treadle_link_arrived() returns.
 */
#include <linux/module.h>

#include "node/session.h"

/* The oldest @n frames are acknowledged. */
static void frames_free(struct treadle_session *s, int n)
{
	struct treadle_session_links *l = s->links;

	while (n--) {
		struct treadle_frame *frame =
			list_first_entry(&l->kept, struct treadle_frame, list);

		treadle_window_free(&s->window, frame->data);
		list_move(&frame->list, &l->free);
	}
}

/*
 * The other node says how far it has come. 0 or -EPROTO. *@room: what has waited may go on.
 */
static int acked(struct treadle_session *s, const struct treadle_wire_frame *frame, bool *room)
{
	const struct treadle_ack told = {
		.ack = le32_to_cpu(frame->ack),
		.limit = le32_to_cpu(frame->limit),
		.commands = le32_to_cpu(frame->commands),
	};
	struct treadle_session_links *l = s->links;
	u32 granted = s->window.granted;
	int n = treadle_window_acked(&s->window, &told);

	if (n < 0)
		return n;
	frames_free(s, n);
	if (n)
		l->progress = jiffies;
	if (unlikely(l->starved) && (n || granted != s->window.granted)) {
		l->starved = false;
		*room = true;
	}
	return 0;
}

/* Begin to process a frame of a live link. 0, -ENOTCONN: the link is left already, or -EPROTO. */
static int arrive(struct treadle_session *s, struct treadle_link *link)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	if (unlikely(l->link != link))
		return -ENOTCONN;
	l->heard = jiffies;
	return l->live ? 0 : -EPROTO;
}

/*
 * Process a frame: its items are valid. @view: the first one, if there is one; @r: the rest. 0, or
 * an error: the session has to end.
 */
static int process(struct treadle_session *s, struct treadle_wire_view *view,
		   struct treadle_wire_reader *r, bool room)
{
	int ret = 0;
	TREADLE_RUN(run, s->ctx);

	if (likely(view->item)) {
		do {
			ret = treadle_node_ops.item(s, view, &run);
		} while (!ret && treadle_wire_next(r, view) > 0);
	}
	if (unlikely(room))
		treadle_node_ops.room(s, &run);
	spin_lock(&s->lock);
	treadle_window_processed(&s->window);
	s->links->received++;
	s->links->corked = false;
	treadle_session_flush(s);
	spin_unlock(&s->lock);
	if (unlikely(!treadle_run_empty(&run)))
		treadle_run_jobs(&run);
	return ret;
}

static int arrived_items(struct treadle_session *s, struct treadle_link *link,
			 const struct treadle_wire_frame *frame, struct treadle_wire_reader *r)
{
	struct treadle_wire_view first = { .item = NULL }, view;
	struct treadle_session_links *l = s->links;
	struct treadle_wire_reader ahead;
	bool room = false;
	u32 commands = 0;
	int ret;

	/* all of the frame, before anything of it is done */
	ret = treadle_wire_next(r, &first);
	ahead = *r;
	if (ret > 0)
		commands = first.item->kind == TREADLE_WIRE_CMD;
	while (ret > 0 && (ret = treadle_wire_next(&ahead, &view)) > 0)
		commands += view.item->kind == TREADLE_WIRE_CMD;
	if (ret)
		return ret;
	spin_lock(&s->lock);
	ret = arrive(s, link);
	if (likely(!ret))
		ret = treadle_window_arrived(&s->window, le32_to_cpu(frame->seq), commands);
	if (likely(!ret))
		ret = acked(s, frame, &room);
	l->corked = !ret;
	spin_unlock(&s->lock);
	return unlikely(ret) ? ret : process(s, &first, r, room);
}

/**
 * treadle_session_room() - frames or commands may be sent again
 * @s: the session
 *
 * Context: as treadle_link_arrived().
 */
void treadle_session_room(struct treadle_session *s)
{
	TREADLE_RUN(run, s->ctx);

	treadle_node_ops.room(s, &run);
	treadle_run_jobs(&run);
}

static int arrived_bare(struct treadle_session *s, struct treadle_link *link,
			const struct treadle_wire_frame *frame)
{
	struct treadle_session_links *l = s->links;
	bool room = false;
	int ret;

	spin_lock(&s->lock);
	ret = arrive(s, link) ?: acked(s, frame, &room);
	if (!ret && frame->type == TREADLE_WIRE_PING) {
		l->answer = true;
	} else if (!ret && frame->type == TREADLE_WIRE_ANSWER) {
		ret = treadle_session_answered(s);
		room |= l->starved;
		l->starved = false;
	}
	if (!ret)
		treadle_session_send_due(s);
	spin_unlock(&s->lock);
	if (unlikely(room) && !ret)
		treadle_session_room(s);
	return ret;
}

/**
 * treadle_link_arrived() - a transport has received a frame
 * @link:  the link
 * @data:  the frame; aligned to 8 bytes, and constant until this function returns
 * @bytes: so many
 *
 * Context: process context, one at a time for each link; may sleep, but waits for no process and
 * for no other call about this link.
 * Return: 0. An error: the link is left by the session. It gets no further frame.
 */
int treadle_link_arrived(struct treadle_link *link, const void *data, u32 bytes)
{
	struct treadle_session *s = link->session;
	const struct treadle_wire_frame *frame = data;
	struct treadle_wire_reader r;
	int ret = treadle_wire_begin(&r, frame, bytes);

	if (likely(!ret && frame->type == TREADLE_WIRE_ITEMS))
		ret = arrived_items(s, link, frame, &r);
	else if (!ret && frame->type == TREADLE_WIRE_HELLO)
		ret = treadle_hello_arrived(s, link, frame, bytes);
	else if (!ret)
		ret = arrived_bare(s, link, frame);
	if (unlikely(ret))
		treadle_link_fail(s, link, ret);
	return ret;
}
EXPORT_SYMBOL_GPL(treadle_link_arrived);

/**
 * treadle_link_sent() - a transport has sent a frame
 * @link:  the link
 * @frame: without a number: it may be written again. With one: see struct treadle_transport
 *
 * Context: process context; takes s->lock.
 */
void treadle_link_sent(struct treadle_link *link, struct treadle_frame *frame)
{
	struct treadle_session *s = link->session;
	struct treadle_session_links *l = s->links;

	spin_lock(&s->lock);
	if (l->link == link) {
		if (frame->room == TREADLE_BARE_BYTES) {
			l->bare_free |= BIT(frame - l->memory->bare);
			if (l->live)
				treadle_session_send_due(s);
		} else {
			l->busy = false;
			if (l->open)
				treadle_session_flush(s);
		}
	}
	spin_unlock(&s->lock);
}
EXPORT_SYMBOL_GPL(treadle_link_sent);

/* --- links -------------------------------------------------------------------------------- */

/**
 * treadle_session_unlink() - frames are not posted any more: the link is left
 * @s: the session
 *
 * Context: s->lock held.
 */
void treadle_session_unlink(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	l->link = NULL;
	l->live = l->ready = l->busy = l->waiting = l->anew = false;
	l->pinged = l->answer = l->owing = false;
	l->quota = TREADLE_BARE;
	l->since = 0;
	l->bare_free = TREADLE_ALL_BARE;
	l->sent = l->got = TREADLE_NOTHING;
}

/**
 * treadle_session_go() - go on, on a link that has passed HELLO
 * @s:	  the session
 * @told: what the other node has said
 *
 * Context: s->lock held.
 * Return: 0, or -EPROTO: what it has said cannot be.
 */
int treadle_session_go(struct treadle_session *s, const struct treadle_wire_frame *told)
{
	struct treadle_session_links *l = s->links;
	struct treadle_frame *frame;
	bool room;
	int n;

	lockdep_assert_held(&s->lock);
	n = treadle_window_reconnect(&s->window, le32_to_cpu(told->ack));
	if (n < 0)
		return n;
	frames_free(s, n);
	n = acked(s, told, &room);
	if (n < 0)
		return n;
	l->starved = false;
	l->live = s->up = true;
	l->progress = jiffies;
	list_for_each_entry(frame, &l->kept, list) {
		treadle_window_replay(&s->window);
		l->resent++;
		l->busy |= !frame->answers;
		treadle_frame_transmit(s, frame, treadle_window_tell(&s->window));
	}
	treadle_session_flush(s);
	return 0;
}
