// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: counters, fi_cntr(3)
 *
 * When the value reaches the threshold of the first command that is armed, the change makes the
 * counter active and puts its job into the run queue of the thread that made it (exec/fire.c).
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "notify/counter.h"

/* treadle_cntr_sum - what thresholds are compared with */
u64 treadle_cntr_sum(const struct treadle_cntr *cntr)
{
	lockdep_assert_held(&cntr->trigger.lock);
	return cntr->page->success + cntr->page->error;
}

/*
 * treadle_cntr_activate - if a command is due and no job fires yet, start one
 * It is in the queue before trigger.lock is
 * dropped: a thread that is preempted in between would be the only one to know of it.
 */
void treadle_cntr_activate(struct treadle_cntr *cntr, struct treadle_run *run)
{
	struct rb_node *first = rb_first_cached(&cntr->trigger.armed);

	lockdep_assert_held(&cntr->trigger.lock);
	if (likely(!first) || cntr->active ||
	    treadle_armed_entry(first)->threshold > treadle_cntr_sum(cntr))
		return;
	cntr->active = true;
	kref_get(&cntr->obj.ref); /* of the job */
	treadle_run_add(run, &cntr->job);
}

/* A new value. Under trigger.lock; who sees that there was a change sees it, too. */
static void cntr_write(struct treadle_cntr *cntr, u64 *word, u64 value)
{
	struct treadle_cntr_page *page = cntr->page;

	if (word == &page->error && *word != value) /* before the wake-up: F */
		WRITE_ONCE(cntr->errors, cntr->errors + 1);
	/* After all that was moved, some of it without a lock; pairs with the reader's acquiring load. */
	smp_store_release(word, value);
	smp_store_release(&page->changes, page->changes + 1);
}

/* After a change: let go of trigger.lock, start the job, wake waiters. */
static void cntr_changed(struct treadle_cntr *cntr, struct treadle_run *run)
	__releases(&cntr->trigger.lock)
{
	bool awaited = treadle_awaited(&cntr->waitq);

	treadle_cntr_activate(cntr, run);
	spin_unlock(&cntr->trigger.lock);
	treadle_wake(&cntr->waitq, awaited);
}

void treadle_cntr_add(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run)
{
	u64 *word = error ? &cntr->page->error : &cntr->page->success;

	spin_lock(&cntr->trigger.lock);
	cntr_write(cntr, word, *word + value);
	if (unlikely(error && value && !cntr->why)) /* of none there is no first */
		cntr->why = error;
	cntr_changed(cntr, run);
}

void treadle_cntr_set(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run)
{
	u64 *word = error ? &cntr->page->error : &cntr->page->success;

	spin_lock(&cntr->trigger.lock);
	cntr_write(cntr, word, value);
	if (unlikely(error))
		cntr->why = value ? cntr->why ?: error : 0;
	cntr_changed(cntr, run);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static struct treadle_cntr *cntr_of(struct treadle_obj *obj)
{
	return container_of(obj, struct treadle_cntr, obj);
}

static struct treadle_waitq *cntr_waitq(struct treadle_obj *obj)
{
	return &cntr_of(obj)->waitq;
}

static spinlock_t *cntr_lock(struct treadle_obj *obj)
{
	return &cntr_of(obj)->trigger.lock;
}

static void cntr_begin(struct treadle_waiter *me)
{
	me->errors = READ_ONCE(cntr_of(me->obj)->errors);
}

static bool cntr_ready(const struct treadle_waiter *me)
{
	const struct treadle_cntr *cntr = cntr_of(me->obj);

	/* What was moved before is there when the call returns; pairs with cntr_write(). */
	return smp_load_acquire(&cntr->page->success) >= me->arg->threshold ||
	       smp_load_acquire(&cntr->page->error) != me->arg->error ||
	       READ_ONCE(cntr->errors) != me->errors;
}

static u64 cntr_seen(struct treadle_obj *obj)
{
	return READ_ONCE(cntr_of(obj)->page->changes);
}

static bool cntr_readable(struct treadle_obj *obj, u64 seen)
{
	return cntr_seen(obj) != seen;
}

/* Take note of the counter as it is; what comes later makes the file readable again. */
static ssize_t cntr_read(struct treadle_obj *obj, char __user *buf, size_t size, u64 *seen)
{
	struct treadle_cntr_page *page = cntr_of(obj)->page;
	u64 changes, sum;

	if (size < sizeof(sum))
		return -EINVAL;
	changes = smp_load_acquire(&page->changes); /* what comes after it is told again */
	sum = READ_ONCE(page->success) + READ_ONCE(page->error);
	if (copy_to_user(buf, &sum, sizeof(sum)))
		return -EFAULT;
	WRITE_ONCE(*seen, changes);
	return sizeof(sum);
}

static const struct treadle_wait_ops cntr_wait_ops = {
	.queue = cntr_waitq,
	.lock = cntr_lock,
	.begin = cntr_begin,
	.ready = cntr_ready,
	.readable = cntr_readable,
	.seen = cntr_seen,
	.read = cntr_read,
};

/* --- making and ending ------------------------------------------------------------------------- */

static void cntr_stop(struct treadle_obj *obj, struct treadle_run *run)
{
	treadle_waitq_end(&cntr_of(obj)->waitq);
}

static const struct treadle_area *cntr_area(struct treadle_obj *obj, enum treadle_region region)
{
	return region == TREADLE_RO ? &cntr_of(obj)->ro : NULL;
}

/* Nothing is armed any more: what is armed holds the counter. */
static void cntr_free(struct treadle_obj *obj)
{
	treadle_area_free(&container_of(obj, struct treadle_cntr, obj)->ro);
}

static const struct treadle_obj_ops cntr_ops = {
	.type = TREADLE_CNTR,
	.stop = cntr_stop,
	.free = cntr_free,
	.area = cntr_area,
	.wait = &cntr_wait_ops,
};

int treadle_ioc_cntr_create(struct treadle_ucmd *u)
{
	struct treadle_cntr_create *arg = u->arg;
	struct treadle_cntr *cntr;
	int ret;

	if (arg->flags & ~TREADLE_CNTR_BYTES || arg->reserved)
		return -EINVAL;
	cntr = kzalloc(sizeof(*cntr), TREADLE_GFP);
	if (!cntr)
		return -ENOMEM;
	ret = treadle_obj_init(u->ctx, &cntr->obj, &cntr_ops);
	if (ret) {
		kfree(cntr);
		return ret;
	}
	treadle_trigger_init(&cntr->trigger);
	cntr->bytes = arg->flags & TREADLE_CNTR_BYTES;
	cntr->job.ctx = u->ctx;
	treadle_waitq_init(&cntr->waitq);
	ret = treadle_area_alloc(&cntr->ro, PAGE_SIZE);
	if (ret) {
		treadle_obj_put(&cntr->obj);
		return ret;
	}
	cntr->page = cntr->ro.addr;
	arg->id = cntr->obj.id;
	treadle_map_cookie(&cntr->obj, &cntr->ro, TREADLE_RO, &arg->ro);
	u->new = &cntr->obj;
	return 0;
}
