// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: memory of a session's frames; and frames without a number
 *
 * Frames without a number have buffers of their own at the receiver, TREADLE_SPARE of them. What is
 * sent is counted: the answer to a PING says that all before it were processed. So the last ones
 * of a quota are sent as a PING, which acknowledges as well.
 */
#include <linux/gfp.h>
#include <linux/ktime.h>
#include <linux/slab.h>

#include "node/session.h"

#define TICK 5 /* ms until something is acknowledged */

/*
 * Those of a quota, an ANSWER, two of HELLO; and the buffer of the numbered frame that is being
 * processed, which is counted in what its end lets the other node send.
 */
static_assert(TREADLE_BARE + 1 + 2 + 1 <= TREADLE_SPARE);

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
		struct treadle_frame *frame = &memory->numbered[i];

		frame->head = (void *)__get_free_pages(GFP_KERNEL | __GFP_NOWARN,
						       get_order(TREADLE_WIRE_FRAME_BYTES));
		if (!frame->head)
			goto fail;
		frame->room = TREADLE_WIRE_FRAME_BYTES;
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
 * treadle_frames_unmap() - unmap the first frames of each kind
 * @link:   the link
 * @memory: of its session
 * @frames: number of frames with a number
 * @bare:   and without
 *
 * Context: the manager.
 */
void treadle_frames_unmap(struct treadle_link *link, struct treadle_frames *memory, u32 frames,
			  u32 bare)
{
	while (bare--)
		link->transport->unmap(link, &memory->bare[bare]);
	while (frames--)
		link->transport->unmap(link, &memory->numbered[frames]);
}

/**
 * treadle_frames_map() - map all frames of a session for a link
 * @link:   the link
 * @memory: of the session
 *
 * Context: the manager.
 * Return: 0, or an error: none is mapped.
 */
int treadle_frames_map(struct treadle_link *link, struct treadle_frames *memory)
{
	u32 frames, bare = 0;
	int ret;

	if (!link->transport->map)
		return 0;
	for (frames = 0; frames < TREADLE_ROOM; frames++) {
		ret = link->transport->map(link, &memory->numbered[frames]);
		if (ret)
			goto fail;
	}
	for (; bare < TREADLE_BARE; bare++) {
		ret = link->transport->map(link, &memory->bare[bare]);
		if (ret)
			goto fail;
	}
	return 0;
fail:
	treadle_frames_unmap(link, memory, frames, bare);
	return ret;
}

/* --- frames without a number -------------------------------------------------------------- */

/**
 * treadle_frame_transmit() - post a frame, with what the other node has to be told
 * @s:	   the session; frames may be posted on its link
 * @frame: all but the acknowledgment is written
 * @told:  what to say: of treadle_window_tell()
 *
 * Context: s->lock held.
 */
void treadle_frame_transmit(struct treadle_session *s, struct treadle_frame *frame,
			    struct treadle_ack told)
{
	struct treadle_session_links *l = s->links;

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
	treadle_frame_transmit(s, frame, treadle_window_tell(&s->window));
	return true;
}

/* A PING was sent. */
static void set_pinged(struct treadle_session_links *l)
{
	l->pinged = true;
	l->pings++;
	l->since = 0;
	l->ping_at = jiffies;
	l->ping_ns = ktime_get_ns();
}

/**
 * treadle_session_answered() - a PING was answered
 * @s: the session
 *
 * Context: s->lock held.
 * Return: 0 or -EPROTO: none was sent.
 */
int treadle_session_answered(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	u64 ns = ktime_get_ns() - l->ping_ns;

	lockdep_assert_held(&s->lock);
	if (!l->pinged)
		return -EPROTO;
	l->pinged = false;
	l->answers = l->pings;
	if (unlikely(l->looks)) /* the manager waits for it */
		treadle_session_kick(s);
	l->quota = TREADLE_BARE - l->since;
	l->round_trip = l->round_trip ? l->round_trip - l->round_trip / 8 + ns / 8 : ns;
	return 0;
}

/**
 * treadle_session_send_due() - send what is due without a number
 * @s: the session; frames may be posted on its link
 *
 * What is not possible now follows when a frame was sent, or a PING was answered.
 *
 * Context: s->lock held.
 */
void treadle_session_send_due(struct treadle_session *s)
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
	if (ping)
		set_pinged(l);
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
	l->quota--;
	set_pinged(l);
}

static void tick_start(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	l->ticking = true;
	l->ticked = s->window.told;
	queue_delayed_work(treadle_node_wq, &l->tick, msecs_to_jiffies(TICK));
}

/**
 * treadle_session_tick() - a timer: answers have waited; or acknowledge what has not been since it
 * was started
 * @work: l->tick of a session
 *
 * Context: may sleep.
 */
void treadle_session_tick(struct work_struct *work)
{
	struct treadle_session_links *l =
		container_of(to_delayed_work(work), struct treadle_session_links, tick);
	struct treadle_session *s = treadle_session_of(l);

	spin_lock(&s->lock);
	l->ticking = false;
	treadle_session_part(s);
	if (l->live && treadle_window_untold(&s->window)) {
		if (!memcmp(&l->ticked, &s->window.told, sizeof(l->ticked))) {
			l->owing = true;
			treadle_session_send_due(s);
		} else {
			tick_start(s);
		}
	}
	spin_unlock(&s->lock);
}

/**
 * treadle_session_acknowledge() - tell the other node what it waits for; the rest a little later
 * @s: the session; frames may be posted on its link, and none is about to be
 *
 * Context: s->lock held.
 */
void treadle_session_acknowledge(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	if (treadle_window_owes_ack(&s->window)) {
		l->owing = true;
		treadle_session_send_due(s);
	} else if (!l->ticking && treadle_window_untold(&s->window)) {
		tick_start(s);
	}
}
