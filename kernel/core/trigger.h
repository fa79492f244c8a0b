/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: triggers, where armed commands wait for a condition; exec/ arms and fires them */
#ifndef TREADLE_TRIGGER_H
#define TREADLE_TRIGGER_H

#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "core/pool.h"
#include "pure/armed.h"

/*
 * struct treadle_trigger - commands that are armed on one counter, or on the cells of a context
 * @lock:  all of this, and a counter's values; order in kernel/ROOMS
 * @armed: commands by (key, submission); the key is the threshold of a counter's command, and the
 *	   endpoint's id of a cell's command
 * @seq:   number of submissions
 */
struct treadle_trigger {
	spinlock_t lock;
	struct rb_root_cached armed;
	u64 seq;
};

static inline void treadle_trigger_init(struct treadle_trigger *t)
{
	spin_lock_init(&t->lock);
	t->armed = RB_ROOT_CACHED;
	t->seq = 0;
}

enum treadle_polling {
	TREADLE_POLL_IDLE, /* nothing is armed; in the other states the poller holds the context */
	TREADLE_POLL_NOW,  /* the work is queued or runs */
	TREADLE_POLL_LATER /* the timer will queue the work */
};

/*
 * struct treadle_poller - looks at the cells on which a context has armed commands
 * @trigger:	all these commands, whatever cells they are armed on
 * @state:	enum treadle_polling (trigger.lock)
 * @fresh:	a command was armed since the last look, or a counter has followed its cell
 *		(trigger.lock)
 *
 * Private to the timer while it is started, else to the work:
 * @key, @seq:	where the next look goes on
 * @until:	submission of a command with @key and a written cell; it fires once all commands
 *		before it are seen to be not written. TREADLE_POLL_NONE: there is none
 * @since:	when a command was last armed or started, in ns
 * @timers:	number of interrupts that looked, for fdinfo
 */
#define TREADLE_POLL_NONE U64_MAX
struct treadle_poller {
	struct treadle_trigger trigger;
	enum treadle_polling state;
	bool fresh;
	u64 key, seq, until, since;
	u32 timers;
	struct treadle_work work;
	struct hrtimer timer;
};

#endif
