/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: waiting for an object of one's own (wait.c) */
#ifndef TREADLE_WAIT_H
#define TREADLE_WAIT_H

#include <linux/wait.h>

#include "core/object.h"

/*
 * Who waits for a queue or counter. @signals: SIGNAL calls; @unseen: one without a waiter; @ended: the
 * object was destroyed
 */
struct treadle_waitq {
	wait_queue_head_t head;
	spinlock_t signaling; /* of the number, and of that in the page of a CQ */
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
 * F: is anybody to be woken? Asked under the lock of the object, once what is waited for was written: a waiter
 * queues himself, has had that lock, and then looks. treadle_wake() comes without the lock, as there may be many.
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

/* The object is gone, and no SIGNAL finds it: waits end, those too that are about to begin. */
static inline void treadle_waitq_end(struct treadle_waitq *w)
{
	/* A waiter that is queued is woken, under the lock of the queue; another one looks at @ended once it is. */
	WRITE_ONCE(w->ended, true);
	wake_up_all(&w->head);
}

/**
 * struct treadle_waiter - a call of WAIT
 * @w:		the queue of @obj
 * @signals, @errors: the numbers of SIGNALs, and of changes of a counter's errors, that its caller knows of
 */
struct treadle_waiter {
	struct treadle_obj *obj;
	struct treadle_waitq *w;
	const struct treadle_wait *arg;
	u32 signals, errors;
};

/**
 * struct treadle_wait_ops - how its process waits for an object
 * @queue:	where
 * @lock:	under which what is waited for changes (barrier F)
 * @begin:	note in the waiter what it knows of (optional)
 * @ready:	is there what it waits for? Does not sleep
 * @done:	the wait has ended well (optional). May sleep
 * @readable:	is there anything that was not there at @seen? May sleep
 * @seen:	where it is now (optional: 0)
 * @read:	read(2) of a file of WAIT_FD; *seen is where it is then (optional: -EAGAIN)
 * @signaled:	SIGNAL was called so often (optional). Under w->signaling
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
