// SPDX-License-Identifier: GPL-2.0
/* treadle: event queues, fi_eq(3); connect.h has locks and lifetimes */
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ep/connect.h"
#include "ep/endpoint.h"
#include "node/node.h"

/* Event queues, held, with waiters that treadle_conn_unlock() wakes. Under treadle_conn_lock. */
static LIST_HEAD(news);

/**
 * treadle_event_queue() - queue an event at the event queue of an endpoint, if it has one
 * @ep:		the endpoint
 * @notice:	part of a connection, which the queue holds; not queued yet
 *
 * Context: under treadle_conn_lock, which must be dropped by treadle_conn_unlock().
 */
void treadle_event_queue(struct treadle_ep *ep, struct treadle_notice *notice)
{
	struct treadle_eq *eq = ep->eq;

	lockdep_assert_held(&treadle_conn_lock);
	if (ep->far)
		treadle_node_ops.notice(ep, notice->event);
	if (!eq || eq->dead)
		return;
	treadle_conn_get(notice->conn);
	list_add_tail(&notice->link, &eq->events);
	if (!treadle_awaited(&eq->waitq)) /* barrier F (wait.h) */
		return;
	if (list_empty(&eq->news))
		kref_get(&eq->obj.ref);
	list_move_tail(&eq->news, &news);
}

/**
 * treadle_conn_unlock() - drop treadle_conn_lock, and wake the waiters of queues with new events
 *
 * Waking is done without the lock, as there may be many waiters. Each caller wakes only the queues
 * that got events under its own hold. If another holder queues an event to one of these meanwhile,
 * that holder takes the queue over (list_move_tail()): this caller may be preempted for long.
 *
 * Context: under treadle_conn_lock, and no other spinlock.
 */
void treadle_conn_unlock(void) __releases(&treadle_conn_lock)
{
	struct treadle_eq *eq;
	LIST_HEAD(mine);

	list_splice_init(&news, &mine);
	while (!list_empty(&mine)) {
		eq = list_first_entry(&mine, struct treadle_eq, news);
		list_del_init(&eq->news);
		spin_unlock(&treadle_conn_lock);
		treadle_wake(&eq->waitq, true);
		treadle_obj_put(&eq->obj);
		spin_lock(&treadle_conn_lock);
	}
	spin_unlock(&treadle_conn_lock);
}

/**
 * treadle_event_take_back() - remove an event from its queue, if it is there
 * @notice:	part of a connection, which is freed unless other references are left
 *
 * Context: under treadle_conn_lock.
 */
void treadle_event_take_back(struct treadle_notice *notice)
{
	lockdep_assert_held(&treadle_conn_lock);
	if (list_empty(&notice->link))
		return;
	list_del_init(&notice->link);
	treadle_conn_put(notice->conn);
}

/* Make of @notice what read(2) returns. */
static void fill_event(struct treadle_event *ev, const struct treadle_notice *notice)
{
	struct treadle_conn *conn = notice->conn;
	const struct treadle_end *asker = &conn->end[ASKER], *end;
	bool to_asker = notice == &asker->result || notice == &asker->shut;
	const u8 *data = NULL;

	lockdep_assert_held(&treadle_conn_lock);
	memset(ev, 0, sizeof(*ev));
	ev->event = notice->event;
	if (notice == &conn->asked) {
		ev->context = treadle_own_ep(conn->pep)->eq_context;
		ev->request = conn->request;
		data = conn->ask;
		ev->data_size = conn->ask_size;
	} else {
		end = &conn->end[to_asker ? ASKER : ACCEPTER];
		ev->context = treadle_own_ep(end->ep)->eq_context;
	}
	if (notice == &asker->result) {
		data = conn->answer;
		ev->data_size = conn->answer_size;
	}
	if (notice->event == TREADLE_EVENT_CONNREFUSED)
		ev->error = -conn->error;
	ev->addr = conn->end[to_asker ? ACCEPTER : ASKER].addr;
	if (ev->data_size)
		memcpy(ev->data, data, ev->data_size);
	ev->size = offsetof(struct treadle_event, data) + ev->data_size;
}

/* Drop all events. Endpoints of other contexts may still be bound to the queue. May sleep. */
static void eq_shutdown(struct treadle_eq *eq)
{
	unsigned int n = 0;

	spin_lock(&treadle_conn_lock);
	WRITE_ONCE(eq->dead, true); /* from here on nothing is added */
	while (!list_empty(&eq->events)) {
		treadle_event_take_back(list_first_entry(&eq->events, struct treadle_notice, link));
		treadle_conn_pause(&n);
	}
	treadle_conn_unlock();
}

static struct treadle_eq *eq_of(struct treadle_obj *obj)
{
	return container_of(obj, struct treadle_eq, obj);
}

/*
 * Copy the first event, which stays queued. Returns its notice, a part of a connection, which is
 * held until event_done(); or NULL. The caller holds eq->read_lock.
 */
static struct treadle_notice *first_event(struct treadle_eq *eq, struct treadle_event *ev)
{
	struct treadle_notice *notice;

	lockdep_assert_held(&eq->read_lock);
	spin_lock(&treadle_conn_lock);
	notice = list_first_entry_or_null(&eq->events, struct treadle_notice, link);
	if (notice) {
		fill_event(ev, notice);
		/* from here on the reader may know the request's number: the request has to stay */
		if (notice == &notice->conn->asked)
			notice->conn->seen = true;
		treadle_conn_get(notice->conn);
	}
	treadle_conn_unlock();
	return notice;
}

/* After first_event(): remove the event if @read. Its endpoint may have removed it already. */
static void event_done(struct treadle_notice *notice, bool read)
{
	struct treadle_conn *conn = notice->conn;

	spin_lock(&treadle_conn_lock);
	if (read) {
		treadle_event_take_back(notice);
	} else if (notice == &conn->asked) {
		conn->seen = false;
		/* the asker has closed meanwhile, and left the request to this reader */
		if (!conn->end[ASKER].ep && !conn->end[ACCEPTER].ep)
			treadle_conn_dispose(conn);
	}
	treadle_conn_unlock();
	treadle_conn_put(conn);
}

/*
 * read(2) of the file of an event queue. Returns the size of the event, which is removed; or
 * -EAGAIN: there is none, -EINVAL: it is longer than @size, -EFAULT, -ESHUTDOWN, -EINTR. @seen is
 * of no use: what is readable does not depend on it.
 */
static ssize_t eq_read(struct treadle_obj *obj, char __user *buf, size_t size, u64 *seen)
{
	struct treadle_eq *eq = eq_of(obj);
	struct treadle_event ev;
	struct treadle_notice *notice;
	ssize_t ret;

	/* one reader at a time: no other one takes the event that is being copied */
	if (mutex_lock_killable(&eq->read_lock))
		return -EINTR;
	notice = first_event(eq, &ev);
	if (!notice) {
		ret = READ_ONCE(eq->dead) ? -ESHUTDOWN : -EAGAIN;
		goto out;
	}
	if (size < ev.size)
		ret = -EINVAL;
	else if (copy_to_user(buf, &ev, ev.size))
		ret = -EFAULT;
	else
		ret = ev.size;
	event_done(notice, ret > 0);
out:
	mutex_unlock(&eq->read_lock);
	return ret;
}

static struct treadle_waitq *eq_waitq(struct treadle_obj *obj)
{
	return &eq_of(obj)->waitq;
}

static spinlock_t *eq_lock(struct treadle_obj *obj)
{
	return &treadle_conn_lock;
}

/* A destroyed queue is readable, too: read(2) says -ESHUTDOWN. */
static bool eq_readable(struct treadle_obj *obj, u64 seen)
{
	return !list_empty(&eq_of(obj)->events) || READ_ONCE(eq_of(obj)->dead);
}

static bool eq_ready(const struct treadle_waiter *me)
{
	return eq_readable(me->obj, 0);
}

static const struct treadle_wait_ops eq_wait_ops = {
	.queue = eq_waitq,
	.lock = eq_lock,
	.ready = eq_ready,
	.readable = eq_readable,
	.read = eq_read,
};

static void eq_stop(struct treadle_obj *obj, struct treadle_run *run)
{
	eq_shutdown(eq_of(obj));
	treadle_waitq_end(&eq_of(obj)->waitq);
}

static const struct treadle_obj_ops eq_ops = {
	.type = TREADLE_EQ,
	.stop = eq_stop,
	.wait = &eq_wait_ops,
};

/**
 * treadle_ioc_eq_create() - EQ_CREATE: make an event queue
 * @u:	the call, with a struct treadle_eq_create
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int treadle_ioc_eq_create(struct treadle_ucmd *u)
{
	struct treadle_eq_create *arg = u->arg;
	struct treadle_eq *eq;
	int ret;

	if (arg->flags || arg->reserved)
		return -EINVAL;
	eq = kzalloc(sizeof(*eq), TREADLE_GFP);
	if (!eq)
		return -ENOMEM;
	INIT_LIST_HEAD(&eq->events);
	INIT_LIST_HEAD(&eq->news);
	mutex_init(&eq->read_lock);
	treadle_waitq_init(&eq->waitq);
	ret = treadle_obj_init(u->ctx, &eq->obj, &eq_ops);
	if (ret) {
		kfree(eq);
		return ret;
	}
	arg->id = eq->obj.id;
	u->new = &eq->obj;
	return 0;
}

/**
 * treadle_ioc_ep_eq() - EP_EQ: bind an endpoint to an event queue, also of another context
 * @u:	the call, with a struct treadle_ep_eq
 *
 * Context: may sleep. Takes treadle_conn_lock.
 * Return: 0 or -errno. -EISCONN: the endpoint has an event queue.
 */
int treadle_ioc_ep_eq(struct treadle_ucmd *u)
{
	struct treadle_ep_eq *arg = u->arg;
	struct treadle_obj *eq;
	struct treadle_ep *ep;
	int ret = 0;

	if (arg->flags)
		return -EINVAL;
	ep = treadle_ep_bind(u->ctx, arg->ep, ONLY_MSG | ONLY_PASSIVE);
	if (IS_ERR(ep))
		return PTR_ERR(ep);
	eq = treadle_wait_file_obj(arg->eq_fd, TREADLE_EQ);
	if (IS_ERR(eq)) {
		ret = PTR_ERR(eq);
	} else {
		spin_lock(&treadle_conn_lock);
		if (container_of(eq, struct treadle_eq, obj)->dead) { /* its context has ended */
			ret = -ENOENT;
		} else if (ep->eq) {
			ret = -EISCONN;
		} else {
			ep->eq = container_of(eq, struct treadle_eq, obj);
			treadle_own_ep(ep)->eq_context = arg->context;
		}
		treadle_conn_unlock();
		if (ret)
			treadle_obj_unbind(eq);
	}
	treadle_obj_unbind(&ep->obj);
	return ret;
}
