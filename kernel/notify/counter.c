// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: counters, fi_cntr(3)
 *
 * When the value reaches the threshold of the first armed command, the counter becomes active: its
 * job goes into the run queue of the thread that changed it (exec/fire.c).
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "core/ring.h"
#include "notify/counter.h"

/**
 * treadle_cntr_sum() - the value that thresholds are compared with
 * @cntr: the counter
 *
 * Context: trigger.lock is held.
 * Return: successes and errors.
 */
u64 treadle_cntr_sum(const struct treadle_cntr *cntr)
{
	lockdep_assert_held(&cntr->trigger.lock);
	return cntr->page->success + cntr->page->error;
}

/**
 * treadle_cntr_activate() - start the counter's job if a command is due and no job is active
 * @cntr: the counter
 * @run:  of the caller; gets the job
 *
 * The job is queued before trigger.lock is dropped. Otherwise a thread that is preempted in between
 * would be the only one to know of it.
 *
 * Context: trigger.lock is held.
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

/* Write a new value. A reader that sees the change counted in page->changes sees the value, too. */
static void cntr_write(struct treadle_cntr *cntr, u64 *word, u64 value)
{
	struct treadle_cntr_page *page = cntr->page;

	lockdep_assert_held(&cntr->trigger.lock);
	if (word == &page->error && *word != value) /* before treadle_awaited(): F */
		WRITE_ONCE(cntr->errors, cntr->errors + 1);
	/*
	 * Release what the operation has moved, some of it without a lock; pairs with cntr_ready(),
	 * and with acquiring loads of the process.
	 */
	smp_store_release(word, value);
	smp_store_release(&page->changes, page->changes + 1);
}

/* Finish a change: start the job, drop trigger.lock, wake waiters. */
static void cntr_changed(struct treadle_cntr *cntr, struct treadle_run *run)
	__releases(&cntr->trigger.lock)
{
	bool awaited = treadle_awaited(&cntr->waitq);

	treadle_cntr_activate(cntr, run);
	spin_unlock(&cntr->trigger.lock);
	treadle_wake(&cntr->waitq, awaited);
}

/**
 * treadle_cntr_add() - add to a counter
 * @cntr:  the counter
 * @value: how much
 * @error: 0: to the successes; else to the errors, for this reason
 * @run:   of the caller; gets what the new value fires
 *
 * Context: takes trigger.lock; does not sleep.
 */
void treadle_cntr_add(struct treadle_cntr *cntr, u64 value, int error, struct treadle_run *run)
{
	u64 *word = error ? &cntr->page->error : &cntr->page->success;

	spin_lock(&cntr->trigger.lock);
	cntr_write(cntr, word, *word + value);
	if (unlikely(error && value && !cntr->why)) /* an addition of 0 is no error */
		cntr->why = error;
	cntr_changed(cntr, run);
}

/**
 * treadle_cntr_set() - set a counter
 * @cntr:  the counter
 * @value: the new value
 * @error: 0: of the successes; else of the errors, for this reason
 * @run:   of the caller; gets what the new value fires
 *
 * Context: takes trigger.lock; does not sleep.
 */
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

	/* the caller sees what was moved before; pairs with cntr_write() */
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

/* read(2): the value. A later change makes the file readable again. */
static ssize_t cntr_read(struct treadle_obj *obj, char __user *buf, size_t size, u64 *seen)
{
	struct treadle_cntr_page *page = cntr_of(obj)->page;
	u64 changes, sum;

	if (size < sizeof(sum))
		return -EINVAL;
	changes = smp_load_acquire(&page->changes); /* before the value is read */
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

/* --- a copy for a device -------------------------------------------------------------------- */

/*
 * struct cntr_copy - two cells that have the values of a counter
 * @entry: in cntr->waitq: a waiter that no change takes off. So a counter without a copy pays
 *	   nothing, and one with it writes the copy before it wakes others
 * @cells: the object of the cells, bound
 * @to:	   success and error. The kernel never reads them
 */
struct cntr_copy {
	wait_queue_entry_t entry;
	struct treadle_cntr *cntr;
	struct treadle_obj *cells;
	u64 *to;
};

/*
 * Write the newest values. The lock of the queue is held, so copies are written one after the
 * other. Each change wakes the queue after it (treadle_wake()), so the last one is never missed.
 */
static int copy_write(wait_queue_entry_t *entry, unsigned int mode, int flags, void *key)
{
	const struct cntr_copy *copy = container_of(entry, struct cntr_copy, entry);
	const struct treadle_cntr_page *page = copy->cntr->page;

	treadle_cell_write(&copy->to[0], smp_load_acquire(&page->success)); /* I; cntr_write() */
	treadle_cell_write(&copy->to[1], smp_load_acquire(&page->error));
	return 0;
}

/**
 * treadle_cntr_copy_to() - keep a copy of the values of a counter
 * @cntr:  the counter, not destroyed
 * @cells: the object that has the copy, bound: passed on to the counter on success
 * @to:	   two words of @cells
 *
 * Context: may sleep; takes ctx->lock.
 * Return: 0, with the copy written; -EBUSY: there is one already; -ENOMEM; -ESHUTDOWN.
 */
int treadle_cntr_copy_to(struct treadle_cntr *cntr, struct treadle_obj *cells, u64 *to)
{
	struct cntr_copy *copy = kzalloc(sizeof(*copy), TREADLE_GFP);
	int ret = 0;

	if (!copy)
		return -ENOMEM;
	init_waitqueue_func_entry(&copy->entry, copy_write);
	copy->cntr = cntr;
	copy->cells = cells;
	copy->to = to;
	mutex_lock(&cntr->obj.ctx->lock);
	if (cntr->obj.ctx->dead)
		ret = -ESHUTDOWN;
	else if (cntr->copy)
		ret = -EBUSY;
	if (!ret) {
		cntr->copy = copy;
		add_wait_queue(&cntr->waitq.head, &copy->entry);
		/* F: a later change sees the entry */
		spin_lock(&cntr->trigger.lock);
		spin_unlock(&cntr->trigger.lock);
		wake_up_all(&cntr->waitq.head);
	}
	mutex_unlock(&cntr->obj.ctx->lock);
	if (ret)
		kfree(copy);
	return ret;
}

/* Release the copy of a counter. It is not written any more. May sleep. */
static void copy_end(struct treadle_cntr *cntr, struct cntr_copy *copy)
{
	remove_wait_queue(&cntr->waitq.head, &copy->entry);
	treadle_obj_unbind(copy->cells);
	kfree(copy);
}

/**
 * treadle_cntr_uncopy() - end the copy of a counter
 * @cntr: the counter, not destroyed
 *
 * Context: may sleep; takes ctx->lock.
 * Return: false if there is none.
 */
bool treadle_cntr_uncopy(struct treadle_cntr *cntr)
{
	struct cntr_copy *copy;

	mutex_lock(&cntr->obj.ctx->lock);
	/* the shutdown of the context takes it without the lock: cntr_stop() */
	copy = xchg(&cntr->copy, NULL);
	mutex_unlock(&cntr->obj.ctx->lock);
	if (copy)
		copy_end(cntr, copy);
	return copy;
}

/* --- making and ending --------------------------------------------------------------------- */

/* None can be made any more: the counter is destroyed, or its context is dead. */
static void cntr_stop(struct treadle_obj *obj, struct treadle_run *run)
{
	struct cntr_copy *copy = xchg(&cntr_of(obj)->copy, NULL);

	if (copy)
		copy_end(cntr_of(obj), copy);
	treadle_waitq_end(&cntr_of(obj)->waitq);
}

static const struct treadle_area *cntr_area(struct treadle_obj *obj, enum treadle_region region)
{
	return region == TREADLE_RO ? &cntr_of(obj)->ro : NULL;
}

/* Armed commands hold the counter, so none is left. */
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

/**
 * treadle_ioc_cntr_create() - CNTR_CREATE: make a counter
 * @u: the call, with a struct treadle_cntr_create
 *
 * Context: may sleep.
 * Return: 0, with the counter in u->new; or -errno.
 */
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
