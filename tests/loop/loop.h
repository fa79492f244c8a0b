/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle_loop: for tests only, a transport that joins nodes of one kernel (control.c, fault.c,
 * wire.c). A frame is copied into a buffer of the other side, where a work processes it. Between a
 * node and its mirror, as long as no fault is ordered, the process that has sent it does so, before
 * its system call returns: so a command has the same end, at the same time, as without a mirror.
 */
#ifndef TREADLE_LOOP_H
#define TREADLE_LOOP_H

#include <linux/err.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>

#include "node/transport.h"

#define LOOP_BUFFERS (TREADLE_ROOM + TREADLE_SPARE)

struct loop_wire;

/* Events that a side of a link has to hear of */
enum loop_event {
	LOOP_OFFER, /* it is the passive side: its node gets it */
	LOOP_UP,
	LOOP_DOWN,
};

/*
 * struct loop_end - a side of a link
 * @work:	calls the events of the link, one at a time, under @lock
 * @events:	bits of enum loop_event: still to be called
 * @left:	->leave was called, or the link was never given to a node: no more events
 * @deaf:	a frame was refused: no more frames
 * @told:	the peer's last word (LOOP_UP, LOOP_DOWN), @told_bytes of it; written before the bit
 *
 * Frames to this side, counted from the first one:
 * @arrived:	in buffers (written by the peer's ->post)
 * @begun:	are, or were, being processed
 * @done:	have been processed; their buffers are free
 * @limit:	the others were lost when the link broke
 *
 * Frames of this side, in @posted if they are to be reported as sent:
 * @due:	the last numbered one to be reported
 * @signaled:	the last one to be reported
 * @sent:	these were
 */
struct loop_end {
	struct treadle_link link;
	struct loop_wire *wire;
	struct loop_end *peer;
	struct mutex lock;
	struct delayed_work work;
	unsigned long events;
	bool left, deaf;
	struct treadle_hail told;
	u32 told_bytes;

	u64 arrived, begun, done, limit, due, signaled, sent;
	u32 length[LOOP_BUFFERS];
	void *buffer[LOOP_BUFFERS];
	struct treadle_frame *posted[LOOP_BUFFERS];
};

/*
 * struct loop_wire - a link
 * @end:	the active side, and the passive one
 * @from, @to:	addresses of their nodes
 * @direct:	between a node and its mirror: @call processes frames of both sides, too, as task
 *		work of @caller; it is one of @users then. NULL: it is not queued
 * @broken:	frames that are posted from now on are lost
 * @users:	sides that have not left, and task works
 */
struct loop_wire {
	struct loop_end end[2];
	struct treadle_addr from, to;
	bool direct;
	struct callback_head call;
	struct task_struct *caller;
	unsigned long broken;
	atomic_t users;
	struct work_struct free;
};

/* control.c */
const struct treadle_addr *loop_address(struct treadle_node *node);
bool loop_is_mirrored(struct treadle_node *node);
int loop_offer(struct loop_end *end);

/* wire.c */
extern const struct treadle_transport loop_transport;
void loop_break(struct loop_wire *wire);
int loop_intrude(const struct treadle_addr *to, const struct treadle_addr *from);
int loop_wire_init(void);
void loop_wire_exit(void);

/*
 * fault.c: what goes wrong on order
 * @active:	anything at all
 * @reset, @refuse, @hostile: one of so many frames ends the link, attempts is refused, frames is
 *		changed; 0: none
 * @delay:	microseconds until a frame is processed, at most
 * @stall:	in jiffies: nothing gets through until then
 * @stalled:	@stall is set
 */
struct loop_faults {
	bool active, stalled;
	u32 reset, refuse, hostile, delay;
	unsigned long stall;
};
extern struct loop_faults loop_faults;

void loop_fault_seed(u64 seed);
u32 loop_random(u32 below);
bool loop_chance(u32 one_of);
void loop_mangle_hail(struct treadle_hail *hail, u32 *bytes);
bool loop_mangle(struct loop_end *to, u32 slot);

/* What has happened, for tests to read */
enum loop_count {
	LOOP_LINKS,
	LOOP_FRAMES,
	LOOP_RESETS,
	LOOP_REFUSED,
	LOOP_HOSTILE,
	LOOP_DECLINED,
	LOOP_COUNTS
};
extern atomic_long_t loop_counts[LOOP_COUNTS];

static inline void loop_count(enum loop_count what)
{
	atomic_long_inc(&loop_counts[what]);
}

/* exporter.c */
int loop_exporter_init(void);
void loop_exporter_exit(void);

#endif
