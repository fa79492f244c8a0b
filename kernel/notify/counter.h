/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: counters (counter.c) */
#ifndef TREADLE_COUNTER_H
#define TREADLE_COUNTER_H

#include "core/area.h"
#include "core/trigger.h"
#include "notify/wait.h"

struct cntr_copy;

/*
 * struct treadle_cntr - counter, and the commands armed on it
 * @trigger: commands by (threshold, submission); its lock protects the values, too
 * @ro, @page: the two values, mapped read-only (written under trigger.lock)
 * @bytes:  TREADLE_CNTR_BYTES (constant)
 * @active: @job is queued or running: exactly one runner fires, in order (trigger.lock)
 * @errors: how often page->error has changed (written under trigger.lock)
 * @why:    errno of the first error that was counted, or 0 (trigger.lock)
 * @job:    fires; its function is set when a command is armed (exec/fire.c; under trigger.lock)
 * @waitq:  WAIT, and @copy, which is never taken off by a change
 * @copy:   CNTR_COPY, or NULL (set under ctx->lock)
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
	struct cntr_copy *copy;
};

void treadle_cntr_add(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run);
void treadle_cntr_set(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run);

/**
 * treadle_cntr_count() - count an operation that has ended
 * @cntr:	the counter
 * @len:	bytes that the operation has transferred; not used if it has failed
 * @error:	0, or why it has failed
 * @run:	of the caller; gets what the new value fires
 *
 * An error counts as one, whatever the counter counts.
 *
 * Context: takes trigger.lock; does not sleep.
 */
static inline void treadle_cntr_count(struct treadle_cntr *cntr, u64 len, int error,
				      struct treadle_run *run)
{
	treadle_cntr_add(cntr, cntr->bytes && !error ? len : 1, error, run);
}

/* treadle_cntr_count(), if @cntr is not NULL. */
static __always_inline void treadle_count(struct treadle_cntr *cntr, u64 len, int error,
					  struct treadle_run *run)
{
	if (unlikely(cntr))
		treadle_cntr_count(cntr, len, error, run);
}

/*
 * The same for the counter of a command's own (or NULL), which the command gives up. It is unbound
 * first: a process that sees the count may destroy the counter.
 */
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
int treadle_cntr_copy_to(struct treadle_cntr *cntr, struct treadle_obj *cells, u64 *to);
bool treadle_cntr_uncopy(struct treadle_cntr *cntr);
int treadle_ioc_cntr_create(struct treadle_ucmd *u);

#endif
