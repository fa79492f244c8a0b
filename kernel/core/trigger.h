/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: where commands wait for a condition; exec/ arms and fires them */
#ifndef TREADLE_TRIGGER_H
#define TREADLE_TRIGGER_H

#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "core/pool.h"
#include "pure/armed.h"

/*
 * struct treadle_trigger - what is armed on one thing
 * @lock:  all of this; a counter's values, too. Innermost
 * @armed: commands by (key, submission): of a counter the key is the threshold, of
 *	   the poller the endpoint
 * @seq:   submissions
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
	TREADLE_POLL_IDLE, /* nothing is armed; else the context is held */
	TREADLE_POLL_NOW,  /* the work is queued or runs */
	TREADLE_POLL_LATER /* the timer will queue it */
};

/*
 * struct treadle_poller - looks at the cells on which a context has armed commands
 * @trigger:	all of them, whatever page they are on
 * @state:	enum treadle_polling (trigger.lock)
 * @fresh:	something was armed since it was last looked at (trigger.lock)
 *
 * Of the work alone, or of the timer while there is one:
 * @key, @seq:	where it goes on looking
 * @until:	the command of this key whose cell was found written, while it is seen
 *		to that none before it is; TREADLE_POLL_NONE: there is none
 * @since:	when something was last armed or started, in ns
 * @timers:	interrupts that looked, for fdinfo
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
