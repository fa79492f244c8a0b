// SPDX-License-Identifier: GPL-2.0
/*
 * treadle_loop: links. One at a time calls the events of a side: its work, or a task work.
 */
#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/ktime.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/task_work.h>
#include <linux/wait_bit.h>

#include "loop.h"

#define LOOP_ORDER get_order(TREADLE_WIRE_FRAME_BYTES)

static struct workqueue_struct *loop_queue;
static atomic_t loop_wires;

static struct loop_end *to_end(struct treadle_link *link)
{
	return container_of(link, struct loop_end, link);
}

static void end_kick(struct loop_end *end)
{
	queue_delayed_work(loop_queue, &end->work, 0);
}

/*
 * Let frames that have arrived be processed: by this process, before it returns from its system
 * call, or else by the work.
 */
static void end_call(struct loop_end *end)
{
	struct loop_wire *wire = end->wire;
	struct task_struct *caller;

	if (!wire->direct || READ_ONCE(loop_faults.active) || !in_task() ||
	    current->flags & (PF_KTHREAD | PF_IO_WORKER)) {
		end_kick(end);
		return;
	}
	caller = cmpxchg(&wire->caller, NULL, current);
	if (caller == current) /* wire_called() follows, or is under way */
		return;
	if (!caller) {
		atomic_inc(&wire->users);
		if (!task_work_add(current, &wire->call, TWA_RESUME))
			return;
		atomic_dec(&wire->users); /* not the last one: this side has not left */
		WRITE_ONCE(wire->caller, NULL);
	}
	end_kick(end);
}

/* @hail: NULL: the peer says nothing */
static void end_event(struct loop_end *end, enum loop_event event, const struct treadle_hail *hail)
{
	if (hail) {
		end->told = *hail;
		end->told_bytes = sizeof(*hail);
		loop_mangle_hail(&end->told, &end->told_bytes);
	}
	smp_mb__before_atomic(); /* pairs with test_and_clear_bit() in end_work() */
	set_bit(event, &end->events);
	end_kick(end);
}

static bool end_is_active(const struct loop_end *end)
{
	return end == &end->wire->end[0];
}

static void wire_free(struct loop_wire *wire)
{
	int i;

	for (i = 0; i < 2 * LOOP_BUFFERS; i++)
		free_pages((unsigned long)wire->end[i % 2].buffer[i / 2], LOOP_ORDER);
	kfree(wire);
	if (atomic_dec_and_test(&loop_wires))
		wake_up_var(&loop_wires);
}

/* A work of a side may be queued after the side has left; it does nothing then. */
static void wire_free_work(struct work_struct *work)
{
	struct loop_wire *wire = container_of(work, struct loop_wire, free);

	cancel_delayed_work_sync(&wire->end[0].work);
	cancel_delayed_work_sync(&wire->end[1].work);
	wire_free(wire);
}

static void wire_put(struct loop_wire *wire)
{
	if (atomic_dec_and_test(&wire->users))
		queue_work(loop_queue, &wire->free);
}

/* A side has left, and the other one hears of it. */
static void end_tell(struct loop_end *end, const struct treadle_hail *hail)
{
	WRITE_ONCE(end->wire->broken, 1);
	end_event(end->peer, LOOP_DOWN, hail);
}

/*
 * The peer begins to process a frame before it can acknowledge it, so this is called before the
 * acknowledgment arrives, which frees the frame.
 */
static void end_sent(struct loop_end *end)
{
	u64 begun = READ_ONCE(end->peer->begun);

	/* of earlier ones none is to be reported: the window is not larger */
	if (unlikely(end->sent + LOOP_BUFFERS < begun))
		WRITE_ONCE(end->sent, begun - LOOP_BUFFERS);
	while (end->sent < begun) {
		struct treadle_frame *frame = end->posted[end->sent % LOOP_BUFFERS];

		WRITE_ONCE(end->sent, end->sent + 1);
		if (frame)
			treadle_link_sent(&end->link, frame);
	}
}

static void end_frames(struct loop_end *end)
{
	u64 at = end->done;

	end_sent(end);
	/* pairs with smp_store_release() in end_publish() */
	while (!end->deaf && at < smp_load_acquire(&end->arrived) && at < READ_ONCE(end->limit)) {
		u32 slot = at++ % LOOP_BUFFERS;

		end_sent(end);
		WRITE_ONCE(end->begun, at);
		if (treadle_link_arrived(&end->link, end->buffer[slot], end->length[slot]))
			end->deaf = true;
		/* pairs with smp_load_acquire() in end_has_room() */
		smp_store_release(&end->done, at);
		if (READ_ONCE(end->left))
			return;
	}
	if (READ_ONCE(end->peer->sent) < READ_ONCE(end->peer->signaled))
		end_call(end->peer);
}

/* Has a side frames to process or to report? */
static bool end_is_due(const struct loop_end *end)
{
	return (!end->deaf && end->done < READ_ONCE(end->arrived)) ||
	       (end->sent < READ_ONCE(end->signaled) && end->sent < READ_ONCE(end->peer->begun));
}

static void wire_called(struct callback_head *call)
{
	struct loop_wire *wire = container_of(call, struct loop_wire, call);
	struct loop_end *end;
	int i, idle = 0;

	/* each side may have something to say to what the other one has said */
	for (i = 0; i < 2 * LOOP_BUFFERS && idle < 2; i++) {
		end = &wire->end[i % 2];
		if (!end_is_due(end)) {
			idle++;
			continue;
		}
		idle = 0;
		mutex_lock(&end->lock);
		if (!end->left)
			end_frames(end);
		mutex_unlock(&end->lock);
	}
	/* what others have posted meanwhile, their end_call() has left to the works */
	WRITE_ONCE(wire->caller, NULL);
	for (i = 0; idle < 2 && i < 2; i++)
		end_kick(&wire->end[i]);
	wire_put(wire);
}

/* Call what is due. */
static void end_events(struct loop_end *end)
{
	if (READ_ONCE(end->left))
		return;
	if (unlikely(READ_ONCE(end->events))) {
		if (test_and_clear_bit(LOOP_OFFER, &end->events) && loop_offer(end)) {
			WRITE_ONCE(end->left, true);
			end_tell(end, NULL);
			wire_put(end->wire);
			return;
		}
		if (test_and_clear_bit(LOOP_UP, &end->events)) {
			loop_count(LOOP_LINKS);
			if (end_is_active(end)) {
				end_event(end->peer, LOOP_UP, NULL); /* before any frame */
				treadle_link_up(&end->link, &end->told, end->told_bytes);
			} else {
				treadle_link_up(&end->link, NULL, 0);
			}
		}
	}
	end_frames(end);
	if (unlikely(READ_ONCE(end->events)) && test_and_clear_bit(LOOP_DOWN, &end->events)) {
		bool refused = end_is_active(end) && !end->link.up && end->told_bytes;

		treadle_link_down(&end->link, refused ? &end->told : NULL,
				  refused ? end->told_bytes : 0);
	}
}

static void end_work(struct work_struct *work)
{
	struct loop_end *end = container_of(to_delayed_work(work), struct loop_end, work);

	if (READ_ONCE(loop_faults.stalled) && time_before(jiffies, READ_ONCE(loop_faults.stall))) {
		queue_delayed_work(loop_queue, &end->work, loop_faults.stall - jiffies);
		return;
	}
	if (READ_ONCE(loop_faults.delay))
		usleep_range(loop_random(loop_faults.delay), loop_faults.delay);
	mutex_lock(&end->lock);
	end_events(end);
	mutex_unlock(&end->lock);
}

static void end_init(struct loop_end *end, struct loop_wire *wire, struct loop_end *peer)
{
	end->link.transport = &loop_transport;
	end->wire = wire;
	end->peer = peer;
	end->limit = U64_MAX;
	mutex_init(&end->lock);
	INIT_DELAYED_WORK(&end->work, end_work);
}

static struct loop_wire *wire_alloc(const struct treadle_addr *from, const struct treadle_addr *to)
{
	struct loop_wire *wire = kzalloc(sizeof(*wire), GFP_KERNEL);
	int i;

	if (!wire)
		return NULL;
	atomic_inc(&loop_wires);
	init_task_work(&wire->call, wire_called);
	end_init(&wire->end[0], wire, &wire->end[1]);
	end_init(&wire->end[1], wire, &wire->end[0]);
	wire->from = *from;
	wire->to = *to;
	atomic_set(&wire->users, 2);
	INIT_WORK(&wire->free, wire_free_work);
	for (i = 0; i < 2 * LOOP_BUFFERS; i++) {
		void *buffer = (void *)__get_free_pages(GFP_KERNEL, LOOP_ORDER);

		if (!buffer) {
			wire_free(wire);
			return NULL;
		}
		wire->end[i % 2].buffer[i / 2] = buffer;
	}
	return wire;
}

static struct treadle_link *wire_connect(struct treadle_session *session,
					 const struct treadle_addr *to,
					 const struct treadle_hail *hail)
{
	struct treadle_node *node = treadle_session_node(session);
	struct loop_wire *wire;

	if (loop_chance(loop_faults.refuse)) {
		loop_count(LOOP_REFUSED);
		return ERR_PTR(-ECONNREFUSED);
	}
	wire = wire_alloc(loop_address(node), to);
	if (!wire)
		return ERR_PTR(-ENOMEM);
	wire->direct = loop_is_mirrored(node);
	wire->end[0].link.session = session;
	wire->end[0].link.from = wire->from;
	end_event(&wire->end[1], LOOP_OFFER, hail);
	return &wire->end[0].link;
}

/**
 * loop_intrude() - offer a link of no node, which never says more than its hail
 * @to:		the node
 * @from:	where it seems to come from
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int loop_intrude(const struct treadle_addr *to, const struct treadle_addr *from)
{
	const struct treadle_hail hail = {
		.magic = cpu_to_le32(TREADLE_HAIL_MAGIC),
		.version = cpu_to_le32(TREADLE_HAIL_VERSION),
		.node = cpu_to_le64(get_random_u64()),
		.session = cpu_to_le64(get_random_u64()),
		.attempt = cpu_to_le64(2 * ktime_get_real() / NSEC_PER_MSEC),
	};
	struct loop_wire *wire = wire_alloc(from, to);

	if (!wire)
		return -ENOMEM;
	wire->end[0].left = true;
	atomic_set(&wire->users, 1);
	end_event(&wire->end[1], LOOP_OFFER, &hail);
	return 0;
}

/* The active side may have left: then the passive one is up for a moment. */
static int wire_accept(struct treadle_link *link, const struct treadle_hail *hail)
{
	end_event(to_end(link)->peer, LOOP_UP, hail);
	return 0;
}

/* The lock means that no event is under way, and @left that none follows. */
static void end_leave(struct loop_end *end, const struct treadle_hail *hail)
{
	mutex_lock(&end->lock);
	WRITE_ONCE(end->left, true);
	mutex_unlock(&end->lock);
	cancel_delayed_work_sync(&end->work);
	end_tell(end, hail);
}

static void wire_free_link(struct treadle_link *link)
{
	wire_put(to_end(link)->wire);
}

static void wire_refuse(struct treadle_link *link, const struct treadle_hail *hail)
{
	loop_count(LOOP_DECLINED);
	end_leave(to_end(link), hail);
	wire_free_link(link);
}

static void wire_leave(struct treadle_link *link)
{
	end_leave(to_end(link), NULL);
}

/* Is there a buffer for one more frame? */
static bool end_has_room(struct loop_end *to)
{
	/* pairs with smp_store_release() in end_frames() */
	return to->arrived - smp_load_acquire(&to->done) < LOOP_BUFFERS;
}

/* As over verbs, not each frame is reported as sent. @frame: NULL: the peer never sent it */
static void end_publish(struct loop_end *to, struct treadle_frame *frame)
{
	struct loop_end *end = to->peer;
	bool report = frame && frame->head->type != TREADLE_WIRE_ITEMS;

	if (frame && !report && !frame->answers && end->due <= READ_ONCE(end->sent)) {
		end->due = to->arrived + 1;
		report = true;
	}
	end->posted[to->arrived % LOOP_BUFFERS] = report ? frame : NULL;
	if (report)
		WRITE_ONCE(end->signaled, to->arrived + 1);
	/* pairs with smp_load_acquire() in end_frames() */
	smp_store_release(&to->arrived, to->arrived + 1);
}

/* Faults that a frame meets, which is not published yet */
static void end_faults(struct loop_end *to, struct treadle_frame *frame)
{
	u32 slot = to->arrived % LOOP_BUFFERS, next = (to->arrived + 1) % LOOP_BUFFERS;

	if (loop_chance(loop_faults.hostile)) {
		loop_count(LOOP_HOSTILE);
		if (loop_mangle(to, slot)) { /* it arrives twice */
			end_publish(to, frame);
			if (!end_has_room(to))
				return;
			memcpy(to->buffer[next], to->buffer[slot], to->length[slot]);
			to->length[next] = to->length[slot];
			frame = NULL;
		}
	}
	end_publish(to, frame);
	if (loop_chance(loop_faults.reset)) {
		loop_count(LOOP_RESETS);
		loop_break(to->wire);
	}
}

static void wire_post(struct treadle_link *link, struct treadle_frame *frame)
{
	struct loop_end *end = to_end(link), *to = end->peer;
	u32 slot = to->arrived % LOOP_BUFFERS;

	if (unlikely(READ_ONCE(end->wire->broken)))
		return;
	if (unlikely(!end_has_room(to) || frame->length > TREADLE_WIRE_FRAME_BYTES)) {
		/* frames that hostility has added take the room of others */
		WARN(!loop_faults.hostile,
		     "treadle_loop: no buffer for a frame of type %u, %u bytes\n",
		     frame->head->type, frame->length);
		loop_break(end->wire);
		return;
	}
	memcpy(to->buffer[slot], frame->head, frame->length);
	to->length[slot] = frame->length;
	loop_count(LOOP_FRAMES);
	if (unlikely(READ_ONCE(loop_faults.active)))
		end_faults(to, frame);
	else
		end_publish(to, frame);
	end_call(to);
}

/**
 * loop_break() - end a link abruptly; any part of the frames in flight is lost
 * @wire:	the link
 *
 * Context: any, also under the lock of a session.
 */
void loop_break(struct loop_wire *wire)
{
	int i;

	if (test_and_set_bit(0, &wire->broken))
		return;
	for (i = 0; i < 2; i++) {
		struct loop_end *end = &wire->end[i];
		u64 done = READ_ONCE(end->done);

		WRITE_ONCE(end->limit, done + loop_random(READ_ONCE(end->arrived) - done + 1));
		end_event(end, LOOP_DOWN, NULL);
	}
}

const struct treadle_transport loop_transport = {
	.version = TREADLE_TRANSPORT_VERSION,
	.name = "loop",
	.connect = wire_connect,
	.accept = wire_accept,
	.refuse = wire_refuse,
	.leave = wire_leave,
	.free = wire_free_link,
	.post = wire_post,
};

/**
 * loop_wire_init() - get what links need
 *
 * Not WQ_UNBOUND: the work of the other side then runs in the thread that has processed a frame.
 *
 * Return: 0 or -ENOMEM.
 */
int loop_wire_init(void)
{
	loop_queue = alloc_workqueue("treadle_loop", 0, 0);
	return loop_queue ? 0 : -ENOMEM;
}

/**
 * loop_wire_exit() - free it; no node is left
 *
 * Context: may sleep.
 */
void loop_wire_exit(void)
{
	wait_var_event(&loop_wires, !atomic_read(&loop_wires)); /* task works, too */
	destroy_workqueue(loop_queue);
}
