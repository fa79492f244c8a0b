/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: counters (counter.c) */
#ifndef TREADLE_COUNTER_H
#define TREADLE_COUNTER_H

#include "core/area.h"
#include "core/trigger.h"
#include "notify/wait.h"

/*
 * struct treadle_cntr - counter, and the commands armed on it
 * @trigger: commands by (threshold, submission); its lock is that of the values and @active
 * @page:   the two values, mapped read-only
 * @bytes:  TREADLE_CNTR_BYTES (constant)
 * @active: @job is queued or running: exactly one runner fires, in order
 * @job:    fires; its function is that of who arms (exec/fire.c; under trigger.lock)
 * @errors: how often page->error has changed (written under the lock)
 * @why:    errno of the first error that was counted, 0 if there is none
 */
struct treadle_cntr {
	struct treadle_obj obj;
	struct treadle_trigger trigger;
	struct treadle_area ro;
	struct treadle_cntr_page *page;
	bool bytes, active;
	u32 errors;
	int why;
	struct treadle_job job;
	struct treadle_waitq waitq;
};

/* @error: 0: successes; else errors, for that reason */
void treadle_cntr_add(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run);
void treadle_cntr_set(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run);

/**
 * treadle_cntr_count - count an operation that has ended
 * @cntr:	the counter
 * @len:	bytes that the operation has transferred, not used if it has failed
 * @error:	0, or why it has failed
 * @run:	takes what the new value fires
 *
 * An error counts as one, whatever the counter counts.
 */
static inline void treadle_cntr_count(struct treadle_cntr *cntr, u64 len, int error,
				      struct treadle_run *run)
{
	treadle_cntr_add(cntr, cntr->bytes && !error ? len : 1, error, run);
}

/* As treadle_cntr_count(), if there is a counter at all. */
static __always_inline void treadle_count(struct treadle_cntr *cntr, u64 len, int error,
					  struct treadle_run *run)
{
	if (unlikely(cntr))
		treadle_cntr_count(cntr, len, error, run);
}

/* The same for a counter of a command's own, or NULL, which is bound no more: once the count is seen it may be closed. */
static __always_inline void treadle_count_last(struct treadle_cntr *cntr, u64 len, int error,
					       struct treadle_run *run)
{
	if (likely(!cntr))
		return;
	atomic_dec(&cntr->obj.users);
	treadle_count(cntr, len, error, run);
	treadle_obj_put(&cntr->obj);
}

u64 treadle_cntr_sum(const struct treadle_cntr *cntr) __must_hold(&cntr->trigger.lock);
void treadle_cntr_activate(struct treadle_cntr *cntr, struct treadle_run *run)
	__must_hold(&cntr->trigger.lock);
int treadle_ioc_cntr_create(struct treadle_ucmd *u);

#endif
