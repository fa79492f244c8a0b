// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: waiting and polling
 *
 * fi_cq(3) sread and signal, fi_cntr(3) wait, fi_eq(3) sread, FI_WAIT_FD. A waiter enqueues itself,
 * takes and drops the lock of the object, then looks. A completion is written, and waiters are
 * looked for, under that lock (barrier F).
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "notify/wait.h"

static struct treadle_waitq *waitq_of(struct treadle_obj *obj)
{
	return obj->ops->wait->queue(obj);
}

/* The object, held, if it can be waited for; else an error. */
static struct treadle_obj *waitable(struct treadle_ctx *ctx, u32 id)
{
	struct treadle_obj *obj = treadle_obj_get(ctx, id, 0);

	if (!IS_ERR(obj) && !obj->ops->wait) {
		treadle_obj_put(obj);
		return ERR_PTR(-EBADF);
	}
	return obj;
}

/* F: a later change of the object sees a waiter that is queued already. */
static void pass_lock(struct treadle_obj *obj)
{
	spinlock_t *lock = obj->ops->wait->lock(obj);

	spin_lock(lock);
	spin_unlock(lock);
}

/* The condition of a wait. Takes the lock of the object; must not sleep. */
static bool ready(const struct treadle_waiter *me)
{
	pass_lock(me->obj);
	return me->obj->ops->wait->ready(me);
}

static bool signaled(const struct treadle_waiter *me)
{
	return READ_ONCE(me->w->signals) != me->signals || READ_ONCE(me->w->ended);
}

/* Returns 0 if the object was ready, or SIGNAL or DESTROY was called; -ETIME; -ERESTARTSYS. */
static int wait(const struct treadle_waiter *me)
{
	if (me->arg->timeout_ns < 0)
		return wait_event_interruptible(me->w->head, ready(me) || signaled(me));
	return wait_event_interruptible_hrtimeout(me->w->head, ready(me) || signaled(me),
						  ns_to_ktime(me->arg->timeout_ns));
}

/*
 * The wait was cut short. If that was no signal, but work that the kernel does in this thread
 * (io_uring), the call begins again for the time that is left.
 */
static int interrupted(struct treadle_ucmd *u, ktime_t end)
{
	struct treadle_wait __user *uarg = u->uarg;
	const struct treadle_wait *arg = u->arg;
	s64 left;

	/* a thread of io_uring does not restart a call */
	if (task_sigpending(current) || (current->flags & PF_IO_WORKER))
		return -EINTR;
	if (arg->timeout_ns >= 0) {
		left = ktime_to_ns(ktime_sub(end, ktime_get()));
		if (left <= 0)
			return -ETIMEDOUT;
		if (put_user(left, &uarg->timeout_ns))
			return -EINTR;
	}
	return -ERESTARTNOHAND;
}

/**
 * treadle_ioc_wait() - WAIT: sleep until an object is ready
 * @u: the call, with a struct treadle_wait
 *
 * Context: sleeps. Takes the lock of the object (pass_lock()).
 * Return: 0: ready; -ECANCELED: SIGNAL or DESTROY; -EAGAIN, -ETIMEDOUT; -EINTR, or restarted;
 * -EINVAL, -ENOENT, -EBADF.
 */
int treadle_ioc_wait(struct treadle_ucmd *u)
{
	struct treadle_wait *arg = u->arg;
	ktime_t end = ktime_add_safe(ktime_get(), ns_to_ktime(arg->timeout_ns));
	struct treadle_waiter me = { .arg = arg };
	struct treadle_obj *obj;
	int ret;

	if ((arg->flags & ~TREADLE_WAIT_SIGNALS) || (!arg->flags && arg->signals))
		return -EINVAL;
	obj = waitable(u->ctx, arg->id);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if ((obj->type != TREADLE_CNTR && (arg->threshold || arg->error)) ||
	    (obj->type != TREADLE_CQ && arg->flags)) {
		treadle_obj_put(obj);
		return -EINVAL;
	}
	me.obj = obj;
	me.w = waitq_of(obj);
	me.signals = arg->flags ? arg->signals : READ_ONCE(me.w->signals);
	if (obj->ops->wait->begin)
		obj->ops->wait->begin(&me);
	if (ready(&me))
		ret = 0;
	else if (atomic_xchg(&me.w->unseen, 0))
		ret = -ECANCELED;
	else if (!arg->timeout_ns && !signaled(&me))
		ret = -EAGAIN;
	else
		ret = wait(&me);
	if (ret == -ERESTARTSYS) {
		ret = interrupted(u, end);
	} else if (ret == -ETIME) {
		ret = -ETIMEDOUT;
	} else if (!ret && !ready(&me) && signaled(&me)) {
		/* if not by SIGNAL: another thread has read what was there */
		atomic_set(&me.w->unseen, 0);
		ret = -ECANCELED;
	}
	if (!ret && obj->ops->wait->done)
		obj->ops->wait->done(obj);
	treadle_obj_put(obj);
	return ret;
}

/**
 * treadle_signal() - SIGNAL: end all waits for an object, also one that is about to begin
 * @ctx: context of the calling process
 * @id:  the object
 *
 * Context: takes waitq->signaling. Waits for nothing.
 * Return: 0; -ENOENT; -EBADF: it can't be waited for.
 */
int treadle_signal(struct treadle_ctx *ctx, u32 id)
{
	struct treadle_obj *obj = waitable(ctx, id);
	struct treadle_waitq *w;

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	w = waitq_of(obj);
	atomic_set(&w->unseen, 1);
	spin_lock(&w->signaling);
	/* order ->unseen before ->signals: a thread that sees the number sees @unseen, too */
	smp_store_release(&w->signals, w->signals + 1);
	if (obj->ops->wait->signaled)
		obj->ops->wait->signaled(obj, w->signals);
	spin_unlock(&w->signaling);
	wake_up_all(&w->head);
	treadle_obj_put(obj);
	return 0;
}

/* --- a file to poll ----------------------------------------------------------------------- */

/*
 * struct wait_file - a file of WAIT_FD
 * @obj: held
 * @seen: state of the object at the last read(2) (->seen)
 */
struct wait_file {
	struct treadle_obj *obj;
	u64 seen;
};

static __poll_t wait_poll(struct file *file, poll_table *pt)
{
	struct wait_file *wf = file->private_data;
	struct treadle_waitq *w = waitq_of(wf->obj);
	bool readable;

	poll_wait(file, &w->head, pt);
	pass_lock(wf->obj);
	readable = wf->obj->ops->wait->readable(wf->obj, READ_ONCE(wf->seen));
	return readable || atomic_read(&w->unseen) || READ_ONCE(w->ended) ? EPOLLIN | EPOLLRDNORM :
									    0;
}

/* Only for the owner: a child shares the file, and would take the event from its parent. */
static ssize_t wait_read(struct file *file, char __user *buf, size_t size, loff_t *pos)
{
	struct wait_file *wf = file->private_data;
	struct treadle_waitq *w = waitq_of(wf->obj);
	ssize_t ret;
	int unseen;

	if (current->mm != wf->obj->ctx->mm)
		return -EPERM;
	unseen = atomic_xchg(&w->unseen, 0); /* before the look: a later SIGNAL is another one */
	ret = wf->obj->ops->wait->read ? wf->obj->ops->wait->read(wf->obj, buf, size, &wf->seen) :
					 -EAGAIN;
	if (unlikely(ret < 0 && ret != -EAGAIN && unseen)) { /* not seen: put it back */
		atomic_set(&w->unseen, 1);
		wake_up_all(&w->head);
	}
	return ret;
}

static int wait_release(struct inode *inode, struct file *file)
{
	struct wait_file *wf = file->private_data;

	treadle_obj_put(wf->obj);
	kfree(wf);
	return 0;
}

static const struct file_operations wait_fops = {
	.owner = THIS_MODULE,
	.poll = wait_poll,
	.read = wait_read,
	.release = wait_release,
	.llseek = noop_llseek,
};

/**
 * treadle_wait_file_obj() - the object behind a file that WAIT_FD has made in this process
 * @fd:   the file
 * @type: of the object
 *
 * Context: may sleep.
 * Return: the object, bound and held; -EBADF: no such file, not of this process, or of another
 * type; -ENOENT: destroyed.
 */
struct treadle_obj *treadle_wait_file_obj(int fd, enum treadle_type type)
{
	struct file *file = fget(fd);
	struct treadle_obj *obj = ERR_PTR(-EBADF);

	if (!file)
		return obj;
	if (file->f_op == &wait_fops) {
		struct wait_file *wf = file->private_data;

		if (wf->obj->type != type || wf->obj->ctx->mm != current->mm)
			obj = ERR_PTR(-EBADF);
		else if (!atomic_inc_unless_negative(&wf->obj->users))
			obj = ERR_PTR(-ENOENT);
		else
			obj = wf->obj;
		if (!IS_ERR(obj))
			kref_get(&obj->ref); /* cannot be the first: the file holds one */
	}
	fput(file);
	return obj;
}

/**
 * treadle_ioc_wait_fd() - WAIT_FD: make a file that is readable when an object is ready
 * @u: the call, with a struct treadle_wait_fd
 *
 * Context: may sleep.
 * Return: 0, with the file in u->file; or -errno.
 */
int treadle_ioc_wait_fd(struct treadle_ucmd *u)
{
	struct treadle_wait_fd *arg = u->arg;
	struct treadle_obj *obj;
	struct wait_file *wf;
	struct file *file;
	int fd;

	if (arg->flags)
		return -EINVAL;
	obj = waitable(u->ctx, arg->id);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	wf = kzalloc(sizeof(*wf), TREADLE_GFP);
	fd = wf ? get_unused_fd_flags(O_CLOEXEC) : -ENOMEM;
	if (fd < 0)
		goto fail;
	wf->obj = obj;
	if (obj->ops->wait->seen)
		wf->seen = obj->ops->wait->seen(obj);
	file = anon_inode_getfile("[treadle]", &wait_fops, wf, O_RDONLY | O_CLOEXEC);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		fd = PTR_ERR(file);
		goto fail;
	}
	u->file = file;
	u->fd = fd;
	arg->fd = fd;
	return 0;
fail:
	kfree(wf);
	treadle_obj_put(obj);
	return fd;
}
