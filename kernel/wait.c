// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: waiting, polling, cancel
 *
 * fi_cq(3) sread and signal, fi_cntr(3) wait, fi_eq(3) sread, FI_WAIT_FD. A waiter enqueues
 * itself, has the lock of the object, then looks; who completes writes, and looks for waiters
 * before he lets go of that lock (barrier F).
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "connect.h"
#include "treadle.h"

/* The wait queue of a CQ, CNTR or EQ, or NULL. */
static struct treadle_waitq *waitq_of(struct treadle_obj *obj)
{
	switch (obj->type) {
	case TREADLE_CQ:
		return &container_of(obj, struct treadle_cq, obj)->waitq;
	case TREADLE_CNTR:
		return &container_of(obj, struct treadle_cntr, obj)->waitq;
	case TREADLE_EQ:
		return &container_of(obj, struct treadle_eq, obj)->waitq;
	default:
		return NULL;
	}
}

/* A CQ, CNTR or EQ, held. */
static struct treadle_obj *waitable(struct treadle_ctx *ctx, u32 id)
{
	struct treadle_obj *obj = treadle_obj_get(ctx, id, 0);

	if (!IS_ERR(obj) && !waitq_of(obj)) {
		treadle_obj_put(obj);
		return ERR_PTR(-EBADF);
	}
	return obj;
}

/* F: who changes the object from here on sees a waiter that has queued himself. */
static void pass_lock(struct treadle_obj *obj)
{
	spinlock_t *lock = &treadle_conn_lock;

	if (obj->type == TREADLE_CQ)
		lock = &container_of(obj, struct treadle_cq, obj)->lock;
	else if (obj->type == TREADLE_CNTR)
		lock = &container_of(obj, struct treadle_cntr, obj)->trigger.lock;
	spin_lock(lock);
	spin_unlock(lock);
}

/* What is kept goes into the ring if there is room. What that frees may sleep. */
static bool cq_ready(struct treadle_cq *cq)
{
	if (READ_ONCE(cq->kept))
		treadle_cq_flush(cq);
	return treadle_cq_ready(cq);
}

/* One that was destroyed has nothing any more, and says so when it is read. */
static bool eq_ready(struct treadle_eq *eq)
{
	return !list_empty(&eq->events) || READ_ONCE(eq->dead);
}

/* Who waits: @signals, @errors: the numbers of SIGNALs, and of changes of the counter's errors, that he knows of. */
struct waiter {
	struct treadle_obj *obj;
	struct treadle_waitq *w;
	const struct treadle_wait *arg;
	u32 signals, errors;
};

/* Nothing here sleeps: it is the condition of a wait. */
static bool ready(const struct waiter *me)
{
	struct treadle_cntr *cntr;

	pass_lock(me->obj);
	if (me->obj->type == TREADLE_CQ)
		return treadle_cq_ready(container_of(me->obj, struct treadle_cq, obj));
	if (me->obj->type == TREADLE_EQ)
		return eq_ready(container_of(me->obj, struct treadle_eq, obj));
	cntr = container_of(me->obj, struct treadle_cntr, obj);
	/* What was moved before is there when the call returns; pairs with cntr_write(). */
	return smp_load_acquire(&cntr->page->success) >= me->arg->threshold ||
	       smp_load_acquire(&cntr->page->error) != me->arg->error ||
	       READ_ONCE(cntr->errors) != me->errors;
}

static bool signaled(const struct waiter *me)
{
	return READ_ONCE(me->w->signals) != me->signals || READ_ONCE(me->w->ended);
}

/* Wait; 0: it was ready when it was looked at last, or somebody has called SIGNAL. */
static int wait(const struct waiter *me)
{
	if (me->arg->timeout_ns < 0)
		return wait_event_interruptible(me->w->head, ready(me) || signaled(me));
	return wait_event_interruptible_hrtimeout(me->w->head, ready(me) || signaled(me),
						  ns_to_ktime(me->arg->timeout_ns));
}

/*
 * Cut short. If not by a signal, but by what the kernel has to do in this thread (work of io_uring), the
 * call begins again after that, for the time that is left.
 */
static int interrupted(struct treadle_ucmd *u, ktime_t end)
{
	struct treadle_wait __user *uarg = u->uarg;
	const struct treadle_wait *arg = u->arg;
	s64 left;

	/* io_uring's threads go nowhere from where they could come back */
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

int treadle_ioc_wait(struct treadle_ucmd *u)
{
	struct treadle_wait *arg = u->arg;
	ktime_t end = ktime_add_safe(ktime_get(), ns_to_ktime(arg->timeout_ns));
	struct waiter me = { .arg = arg };
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
	if (obj->type == TREADLE_CNTR)
		me.errors = READ_ONCE(container_of(obj, struct treadle_cntr, obj)->errors);
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
		/* without a signal, another has read what was there */
		atomic_set(&me.w->unseen, 0);
		ret = -ECANCELED;
	}
	if (!ret && obj->type == TREADLE_CQ)
		cq_ready(container_of(obj, struct treadle_cq, obj)); /* where it is looked for */
	treadle_obj_put(obj);
	return ret;
}

/* End all waits; one that is about to begin sees it, too. */
int treadle_signal(struct treadle_ctx *ctx, u32 id)
{
	struct treadle_obj *obj = waitable(ctx, id);
	struct treadle_waitq *w;

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	w = waitq_of(obj);
	atomic_set(&w->unseen, 1);
	spin_lock(&w->signaling);
	smp_store_release(&w->signals, w->signals + 1); /* who sees it finds @unseen */
	if (obj->type == TREADLE_CQ)
		treadle_cq_tell_signals(container_of(obj, struct treadle_cq, obj), w->signals);
	spin_unlock(&w->signaling);
	wake_up_all(&w->head);
	treadle_obj_put(obj);
	return 0;
}

/*
 * The object is gone: so are waits, those too that found it just before, and no SIGNAL finds it. Who has
 * queued himself is woken, under the lock of the queue; who has not looks at @ended after he has.
 */
void treadle_waits_end(struct treadle_obj *obj)
{
	struct treadle_waitq *w = waitq_of(obj);

	if (!w)
		return;
	WRITE_ONCE(w->ended, true);
	wake_up_all(&w->head);
}

/* --- a file to poll ----------------------------------------------------------------------- */

/* @seen: CNTR: its changes when it was last read, with read(2) */
struct wait_file {
	struct treadle_obj *obj;
	u64 seen;
};

static struct treadle_cntr_page *cntr_page(struct treadle_obj *obj)
{
	return container_of(obj, struct treadle_cntr, obj)->page;
}

static __poll_t wait_poll(struct file *file, poll_table *pt)
{
	struct wait_file *wf = file->private_data;
	struct treadle_waitq *w = waitq_of(wf->obj);
	bool readable;

	poll_wait(file, &w->head, pt);
	pass_lock(wf->obj);
	if (wf->obj->type == TREADLE_CQ)
		readable = cq_ready(container_of(wf->obj, struct treadle_cq, obj));
	else if (wf->obj->type == TREADLE_EQ)
		readable = eq_ready(container_of(wf->obj, struct treadle_eq, obj));
	else
		readable = READ_ONCE(cntr_page(wf->obj)->changes) != READ_ONCE(wf->seen);
	return readable || atomic_read(&w->unseen) || READ_ONCE(w->ended) ? EPOLLIN | EPOLLRDNORM :
									    0;
}

/*
 * A counter: take note of it as it is; what comes later makes the file readable
 * again. An event queue: take an event.
 */
static ssize_t read_out(struct wait_file *wf, char __user *buf, size_t size)
{
	struct treadle_cntr_page *page;
	u64 changes, sum;

	if (wf->obj->type == TREADLE_EQ)
		return treadle_eq_read(container_of(wf->obj, struct treadle_eq, obj), buf, size);
	if (wf->obj->type != TREADLE_CNTR)
		return -EAGAIN;
	if (size < sizeof(sum))
		return -EINVAL;
	page = cntr_page(wf->obj);
	changes = smp_load_acquire(&page->changes); /* what comes after it is told again */
	sum = READ_ONCE(page->success) + READ_ONCE(page->error);
	if (copy_to_user(buf, &sum, sizeof(sum)))
		return -EFAULT;
	WRITE_ONCE(wf->seen, changes);
	return sizeof(sum);
}

/* Only for the owner: a child has the same file, and would take it from him. */
static ssize_t wait_read(struct file *file, char __user *buf, size_t size, loff_t *pos)
{
	struct wait_file *wf = file->private_data;
	struct treadle_waitq *w = waitq_of(wf->obj);
	ssize_t ret;
	int unseen;

	if (current->mm != wf->obj->ctx->mm)
		return -EPERM;
	unseen = atomic_xchg(&w->unseen, 0); /* before: one that comes meanwhile is another */
	ret = read_out(wf, buf, size);
	if (unlikely(ret < 0 && ret != -EAGAIN && unseen)) { /* who failed has seen nothing */
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

/* The object behind a file that WAIT_FD has made in this process, bound; or an error. */
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
			kref_get(&obj->ref); /* the file holds it, too */
	}
	fput(file);
	return obj;
}

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
	if (obj->type == TREADLE_CNTR)
		wf->seen = READ_ONCE(cntr_page(obj)->changes);
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

/* --- cancel ----------------------------------------------------------------------------------- */

/* What waits for a message, at a peer, or for its turn. */
static bool cancel_started(struct treadle_ep *ep, u32 sides, u64 context, struct treadle_run *run)
{
	u64 n = 0;

	if (sides != TREADLE_CANCEL_TX && ep->rx && treadle_rx_cancel(ep->rx, ep, context, run))
		return true;
	if (sides == TREADLE_CANCEL_RX)
		return false;
	/* in the order in which it goes on */
	if (treadle_flow_cancel(ep, context, run))
		return true;
	treadle_ep_withdraw(ep, &context, -ECANCELED, 1, &n, run);
	return n;
}

static u64 cancel_op(struct treadle_ep *ep, u32 sides, u64 context, struct treadle_run *run)
{
	struct treadle_cull cull = {
		.ep = ep,
		.sides = sides,
		.exact = true,
		.context = context,
		.killable = true,
		.max = 1,
		.error = -ECANCELED,
	};

	if (!smp_load_acquire(&ep->enabled))
		return 0;
	/* what fires while we look has gone on to where we have looked already */
	return cancel_started(ep, sides, context, run) ||
	       treadle_cull_all(ep->obj.ctx, &cull, run) || cancel_started(ep, sides, context, run);
}

int treadle_ioc_cancel(struct treadle_ucmd *u)
{
	struct treadle_cancel *arg = u->arg;
	struct treadle_cull cull = { .work = true, .killable = true, .max = U64_MAX };
	TREADLE_RUN(run, u->ctx);
	struct treadle_obj *obj = NULL;
	int ret = 0;

	if (arg->kind > TREADLE_FLUSH_WORK ||
	    arg->flags &
		    ~(arg->kind == TREADLE_CANCEL_OP ? TREADLE_CANCEL_RX | TREADLE_CANCEL_TX : 0) ||
	    (arg->kind != TREADLE_CANCEL_WORK && arg->threshold) ||
	    (arg->kind == TREADLE_FLUSH_WORK && arg->context))
		return -EINVAL;
	arg->count = 0;
	if (arg->id || arg->kind != TREADLE_FLUSH_WORK) {
		obj = treadle_obj_get(u->ctx, arg->id, 0);
		if (IS_ERR(obj))
			return PTR_ERR(obj);
		if (arg->kind == TREADLE_CANCEL_OP ?
			    obj->type != TREADLE_EP :
			    obj->type != TREADLE_CNTR && obj->type != TREADLE_CELL) {
			treadle_obj_put(obj);
			return -EBADF;
		}
	}
	switch (arg->kind) {
	case TREADLE_CANCEL_OP:
		arg->count = cancel_op(container_of(obj, struct treadle_ep, obj), arg->flags,
				       arg->context, &run);
		break;
	case TREADLE_CANCEL_WORK:
		cull.exact = cull.at = true;
		cull.context = arg->context;
		cull.threshold = arg->threshold;
		cull.max = 1;
		fallthrough;
	case TREADLE_FLUSH_WORK:
		cull.lax = !obj;
		arg->count = obj ? treadle_cull(obj, &cull, &run) :
				   treadle_cull_all(u->ctx, &cull, &run);
		break;
	}
	if (!arg->count && arg->kind != TREADLE_FLUSH_WORK)
		ret = -ENOENT;
	if (obj)
		treadle_obj_put(obj);
	treadle_run_jobs(&run);
	return ret;
}
