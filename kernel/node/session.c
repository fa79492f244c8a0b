// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: frames of sessions
 *
 * Items are collected in the open frame while a send is under way. A frame gets its number when it
 * is closed, and is kept until the other node has acknowledged it, so that it can be sent again on
 * another link. Between two links items are written as long as there is room.
 *
 * Frames without a number have buffers of their own at the receiver, TREADLE_SPARE of them. What is
 * sent is counted: the answer to a PING says that all before it were processed. So the last ones
 * of a quota are sent as a PING, which acknowledges as well.
 */
#include <linux/gfp.h>
#include <linux/slab.h>

#include "mm/base.h"
#include "node/session.h"

#define TICK 5 /* ms until something is acknowledged */

static_assert(TREADLE_BARE + 1 + 2 <= TREADLE_SPARE); /* ANSWER, and two of HELLO */

/* --- memory ------------------------------------------------------------------------------- */

static void memory_free(struct treadle_frames *memory)
{
	u32 i;

	if (!memory)
		return;
	for (i = 0; i < TREADLE_ROOM; i++)
		free_pages((unsigned long)memory->numbered[i].head,
			   get_order(TREADLE_WIRE_FRAME_BYTES));
	free_page((unsigned long)memory->page);
	kfree(memory);
}

static struct treadle_frames *memory_alloc(void)
{
	struct treadle_frames *memory = kzalloc(sizeof(*memory), GFP_KERNEL);
	u32 i;

	static_assert(TREADLE_BARE * TREADLE_BARE_BYTES <= PAGE_SIZE);
	if (!memory)
		return NULL;
	memory->page = (void *)get_zeroed_page(GFP_KERNEL);
	if (!memory->page)
		goto fail;
	for (i = 0; i < TREADLE_BARE; i++) {
		memory->bare[i].head = memory->page + i * TREADLE_BARE_BYTES;
		memory->bare[i].room = TREADLE_BARE_BYTES;
	}
	for (i = 0; i < TREADLE_ROOM; i++) {
		struct page *page =
			alloc_pages(GFP_KERNEL | __GFP_NOWARN, get_order(TREADLE_WIRE_FRAME_BYTES));

		if (!page)
			goto fail;
		memory->numbered[i].head = page_address(page);
		memory->numbered[i].room = TREADLE_WIRE_FRAME_BYTES;
	}
	return memory;
fail:
	memory_free(memory);
	return NULL;
}

/**
 * treadle_frames_get() - allocate the frames of a session, if they are not there
 * @s: the session
 *
 * Context: the manager; may sleep.
 * Return: 0 or -ENOMEM.
 */
int treadle_frames_get(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	struct treadle_frames *memory;
	u32 i;

	if (l->memory)
		return 0;
	memory = memory_alloc();
	if (!memory)
		return -ENOMEM;
	spin_lock(&s->lock);
	for (i = 0; i < TREADLE_ROOM; i++)
		list_add_tail(&memory->numbered[i].list, &l->free);
	l->memory = memory;
	spin_unlock(&s->lock);
	return 0;
}

/**
 * treadle_frames_put() - free the frames of a session, unless some are being filled
 * @s: the session; has no link, and has not begun. Or nothing else uses it
 *
 * Context: the manager, or the release of @s; may sleep.
 */
void treadle_frames_put(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	struct treadle_frames *memory = NULL;

	spin_lock(&s->lock);
	if (!l->stale) {
		INIT_LIST_HEAD(&l->free);
		swap(memory, l->memory);
	}
	spin_unlock(&s->lock);
	memory_free(memory);
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

/* --- frames without a number -------------------------------------------------------------- */

/**
 * treadle_frame_transmit() - post a frame, with what the other node has to be told
 * @s:	   the session; frames may be posted on its link
 * @frame: all but the acknowledgment is written
 *
 * Context: s->lock held.
 */
void treadle_frame_transmit(struct treadle_session *s, struct treadle_frame *frame)
{
	struct treadle_session_links *l = s->links;
	struct treadle_ack told = treadle_window_tell(&s->window);

	lockdep_assert_held(&s->lock);
	frame->head->ack = cpu_to_le32(told.ack);
	frame->head->limit = cpu_to_le32(told.limit);
	frame->head->commands = cpu_to_le32(told.commands);
	l->owing = false;
	l->link->transport->post(l->link, frame);
}

/**
 * treadle_bare_get() - get the memory of a frame without a number
 * @s: the session
 *
 * Context: s->lock held.
 * Return: NULL: all are in use until treadle_link_sent().
 */
struct treadle_frame *treadle_bare_get(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	u32 i;

	lockdep_assert_held(&s->lock);
	if (!l->bare_free)
		return NULL;
	i = __ffs(l->bare_free);
	l->bare_free &= ~BIT(i);
	return &l->memory->bare[i];
}

static bool send_bare(struct treadle_session *s, enum treadle_wire_type type)
{
	struct treadle_frame *frame = treadle_bare_get(s);

	if (!frame)
		return false;
	*frame->head = (struct treadle_wire_frame){
		.type = type,
		.length = cpu_to_le32(sizeof(*frame->head)),
	};
	frame->length = sizeof(*frame->head);
	treadle_frame_transmit(s, frame);
	return true;
}

/* Send what is due without a number, as far as possible. The rest follows when that changes. */
static void send_due(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	bool ping = !l->pinged && l->quota <= TREADLE_BARE / 2;

	lockdep_assert_held(&s->lock);
	if (l->answer && send_bare(s, TREADLE_WIRE_ANSWER))
		l->answer = false;
	if (!l->owing || !l->quota || !send_bare(s, ping ? TREADLE_WIRE_PING : TREADLE_WIRE_ACK))
		return;
	l->quota--;
	l->since++;
	if (ping) {
		l->pinged = true;
		l->since = 0;
	}
}

/**
 * treadle_session_ping() - have the other node answer, unless it has to already
 * @s: the session
 *
 * Context: s->lock held.
 */
void treadle_session_ping(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	if (!l->live || l->pinged || !l->quota || !send_bare(s, TREADLE_WIRE_PING))
		return;
	l->pinged = true;
	l->quota--;
	l->since = 0;
}

static void tick_start(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	l->ticking = true;
	l->ticked = s->window.told;
	queue_delayed_work(treadle_node_wq, &l->tick, msecs_to_jiffies(TICK));
}

/* The timer: acknowledge what has not been since it was started. */
static void tick(struct work_struct *work)
{
	struct treadle_session_links *l =
		container_of(to_delayed_work(work), struct treadle_session_links, tick);
	struct treadle_session *s = treadle_session_of(l);

	spin_lock(&s->lock);
	l->ticking = false;
	if (l->live && treadle_window_untold(&s->window)) {
		if (!memcmp(&l->ticked, &s->window.told, sizeof(l->ticked))) {
			l->owing = true;
			send_due(s);
		} else {
			tick_start(s);
		}
	}
	spin_unlock(&s->lock);
}

/* --- frames with a number ----------------------------------------------------------------- */

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
	frame->epoch = l->epoch;
	frame->length = sizeof(*frame->head);
	frame->head->type = TREADLE_WIRE_ITEMS;
	frame->head->flags = 0;
	frame->head->items = 0;
	l->out++;
	return frame;
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
	list_add_tail(&frame->list, &l->kept);
	if (!l->live)
		return;
	l->busy = true;
	treadle_frame_transmit(s, frame);
}

static void send_open(struct treadle_session *s)
{
	struct treadle_frame *frame = s->links->open;

	s->links->open = NULL;
	frame_send(s, frame);
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
		send_open(s);
	if (!l->open) {
		l->open = frame_open(s, false);
		if (!l->open)
			return NULL;
	}
	return treadle_frame_item(l->open, kind, bytes, reference);
}

/* Acknowledge what the other node waits for; what it does not wait for, a little later. */
static void acknowledge(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	if (treadle_window_owes_ack(&s->window)) {
		l->owing = true;
		send_due(s);
	} else if (!l->ticking && treadle_window_untold(&s->window)) {
		tick_start(s);
	}
}

/**
 * treadle_session_flush() - post the open frame if nothing is under way; or what must be told
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
		acknowledge(s);
	else if (!l->busy)
		send_open(s);
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
		send_open(s);
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

/* --- what arrives ------------------------------------------------------------------------- */

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

/* Process a frame: its items are valid. 0, or an error: the session has to end. */
static int process(struct treadle_session *s, struct treadle_wire_reader *r, bool room)
{
	struct treadle_wire_view view;
	TREADLE_RUN(run, s->ctx);
	int ret = 0;

	while (!ret && treadle_wire_next(r, &view) > 0)
		ret = treadle_node_ops.item(s, &view, &run);
	if (unlikely(room))
		treadle_node_ops.room(s, &run);
	spin_lock(&s->lock);
	treadle_window_processed(&s->window);
	s->links->corked = false;
	treadle_session_flush(s);
	spin_unlock(&s->lock);
	treadle_run_jobs(&run);
	return ret;
}

static int arrived_items(struct treadle_session *s, struct treadle_link *link,
			 const struct treadle_wire_frame *frame, struct treadle_wire_reader *r)
{
	struct treadle_session_links *l = s->links;
	struct treadle_wire_reader ahead = *r;
	struct treadle_wire_view view;
	bool room = false;
	u32 commands = 0;
	int ret;

	/* all of the frame, before anything of it is done */
	while ((ret = treadle_wire_next(&ahead, &view)) > 0)
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
	return unlikely(ret) ? ret : process(s, r, room);
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
		ret = l->pinged ? 0 : -EPROTO;
		l->pinged = false;
		l->quota = TREADLE_BARE - l->since;
		room |= l->starved;
		l->starved = false;
	}
	if (!ret)
		send_due(s);
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
				send_due(s);
		} else {
			l->busy = false;
			if (l->open && l->live && !l->corked)
				send_open(s);
		}
	}
	spin_unlock(&s->lock);
}
EXPORT_SYMBOL_GPL(treadle_link_sent);

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
	INIT_DELAYED_WORK(&l->tick, tick);
	l->bare_free = TREADLE_ALL_BARE;
	l->quota = TREADLE_BARE;
	treadle_window_init(&s->window, TREADLE_ROOM, TREADLE_COMMANDS);
}

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
	l->live = l->ready = l->busy = false;
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
	list_for_each_entry(frame, &l->kept, list) {
		treadle_window_replay(&s->window);
		l->busy = true;
		treadle_frame_transmit(s, frame);
	}
	treadle_session_flush(s);
	return 0;
}
