/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: waiting for objects of the calling process (wait.c) */
#ifndef TREADLE_WAIT_H
#define TREADLE_WAIT_H

#include <linux/wait.h>

#include "core/object.h"

/*
 * struct treadle_waitq - waiters for an object
 * @head:	waiters
 * @signaling:	protects @signals, and the copy of it in the page of a completion queue
 * @signals:	calls of SIGNAL (written under @signaling)
 * @unseen:	1: SIGNAL was called, and no waiter has seen it yet
 * @ended:	the object was destroyed
 */
struct treadle_waitq {
	wait_queue_head_t head;
	spinlock_t signaling;
	u32 signals;
	atomic_t unseen;
	bool ended;
};

static inline void treadle_waitq_init(struct treadle_waitq *w)
{
	init_waitqueue_head(&w->head);
	spin_lock_init(&w->signaling);
}

/*
 * F: must waiters be woken? Called under the lock of the object, after the change was written: a
 * waiter enqueues itself, takes and drops that lock, and then looks. treadle_wake() follows without
 * the lock, as there may be many.
 */
static __always_inline bool treadle_awaited(struct treadle_waitq *w)
{
	return waitqueue_active(&w->head);
}

static __always_inline void treadle_wake(struct treadle_waitq *w, bool awaited)
{
	if (unlikely(awaited))
		wake_up_all(&w->head);
}

/*
 * The object was destroyed, and SIGNAL does not find it: end all waits, also those that are about
 * to begin.
 */
static inline void treadle_waitq_end(struct treadle_waitq *w)
{
	/* a queued waiter is woken; a later one enqueues itself, then looks, and sees @ended */
	WRITE_ONCE(w->ended, true);
	wake_up_all(&w->head);
}

/*
 * struct treadle_waiter - a call of WAIT
 * @obj:	what it waits for
 * @w:		the queue of @obj
 * @arg:	arguments of the call
 * @signals:	number of SIGNAL calls that the caller knows of
 * @errors:	likewise, changes of a counter's errors
 */
struct treadle_waiter {
	struct treadle_obj *obj;
	struct treadle_waitq *w;
	const struct treadle_wait *arg;
	u32 signals, errors;
};

/**
 * struct treadle_wait_ops - how a process waits for a type of object
 * @queue:	the queue of its waiters
 * @lock:	the lock under which it changes (barrier F)
 * @begin:	note in the waiter the state that its caller knows (optional)
 * @ready:	is there what the waiter waits for? Must not sleep
 * @done:	the wait has ended well (optional). May sleep
 * @readable:	is there anything that was not there at @seen? May sleep
 * @seen:	its state now (optional: 0)
 * @read:	read(2) of a file of WAIT_FD; sets *seen to the state that was read (optional:
 *		-EAGAIN)
 * @signaled:	SIGNAL was called so often (optional). Under w->signaling; must not sleep
 */
struct treadle_wait_ops {
	struct treadle_waitq *(*queue)(struct treadle_obj *obj);
	spinlock_t *(*lock)(struct treadle_obj *obj);
	void (*begin)(struct treadle_waiter *me);
	bool (*ready)(const struct treadle_waiter *me);
	void (*done)(struct treadle_obj *obj);
	bool (*readable)(struct treadle_obj *obj, u64 seen);
	u64 (*seen)(struct treadle_obj *obj);
	ssize_t (*read)(struct treadle_obj *obj, char __user *buf, size_t size, u64 *seen);
	void (*signaled)(struct treadle_obj *obj, u32 signals);
};

int treadle_signal(struct treadle_ctx *ctx, u32 id);
struct treadle_obj *treadle_wait_file_obj(int fd, enum treadle_type type);
int treadle_ioc_wait(struct treadle_ucmd *u);
int treadle_ioc_wait_fd(struct treadle_ucmd *u);

#endif
