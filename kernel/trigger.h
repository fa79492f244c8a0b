/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: commands that wait for a condition: on counters and on cells (trigger.c, poller.c) */
#ifndef TREADLE_TRIGGER_H
#define TREADLE_TRIGGER_H

#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "armed.h"

struct treadle_cmd;
struct treadle_ctx;
struct treadle_desc;
struct treadle_ep;
struct treadle_obj;
struct treadle_run;

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

/* What to take off; a field that is NULL or not `exact` or `at` does not choose. */
struct treadle_cull {
	struct treadle_ep *ep;
	struct treadle_obj *cond; /* cells: of these only */
	bool work;		  /* deferred work and graphs only */
	bool lax;		  /* but no graphs (F_STRICT, F_REPEAT) */
	bool over;		  /* what ends with the connection of @ep, which it names */
	u32 sides;		  /* TREADLE_CANCEL_*: of one side only, if it is one */
	bool exact;		  /* with @context */
	bool at;		  /* at @threshold */
	bool killable;		  /* the caller need not go on once he is killed */
	u64 context, threshold;
	u64 max;   /* stop after so many */
	int error; /* complete them with it; 0: silently */
};

/* trigger.c */
void treadle_arm(struct treadle_trigger *t, struct treadle_cmd *cmd, u64 key);
void treadle_cond_unbind(struct treadle_cmd *cmd);
void treadle_cond_put(struct treadle_cmd *cmd);
void treadle_cond_drop(struct treadle_cmd *cmd);
int treadle_arm_error(struct treadle_cmd *cmd);
void treadle_arm_refuse(struct treadle_cmd *cmd, int error, struct treadle_run *run);
u64 treadle_cull(struct treadle_obj *cond, const struct treadle_cull *cull,
		 struct treadle_run *run);
u64 treadle_cull_all(struct treadle_ctx *ctx, const struct treadle_cull *cull,
		     struct treadle_run *run);

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

/* poller.c */
void treadle_poller_init(struct treadle_ctx *ctx);
void treadle_cell_arm(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_cell_judge(const struct treadle_obj *obj, u64 offset);
void treadle_cell_disarmed(struct treadle_obj *obj, const struct treadle_desc *d);
u64 treadle_cell_value(const struct treadle_obj *obj, const struct treadle_desc *d);
void treadle_cell_free(struct treadle_obj *obj);

#endif
