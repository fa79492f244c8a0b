// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: completion queues, fi_cq(3)
 *
 * A completion ring never loses an entry. Completions that do not fit are kept on a list. Their
 * memory is that of the finished command or receive. For a command on a doorbell's stack it is
 * allocated by the doorbell, which may sleep, or is the reserve of its ring.
 */
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "core/limits.h"
#include "notify/cq.h"

#define FLUSH_BATCH 64 /* under one hold of the lock */

/*
 * Move kept completions into the ring, as many as fit, and their nodes to @done, for
 * cq_free_nodes(). True: the batch is used up, there may be more to move.
 */
static bool cq_flush_some(struct treadle_cq *cq, struct list_head *done)
{
	struct treadle_cq_node *node;
	int n = 0;

	lockdep_assert_held(&cq->lock);
	while (!list_empty(&cq->overflow) && treadle_cq_room(cq)) {
		if (n++ == FLUSH_BATCH)
			return true;
		node = list_first_entry(&cq->overflow, struct treadle_cq_node, link);
		*treadle_cq_slot(cq) = node->cqe;
		treadle_cq_publish(cq);
		list_move_tail(&node->link, done);
		WRITE_ONCE(cq->kept, cq->kept - 1);
	}
	if (list_empty(&cq->overflow))
		WRITE_ONCE(treadle_cq_prod_of(cq)->flags, 0);
	return false;
}

/*
 * Free the nodes of @done, with the commands and receives that they are part of. No spinlock held;
 * may sleep.
 */
static void cq_free_nodes(struct list_head *done)
{
	struct treadle_cq_node *node, *next;

	list_for_each_entry_safe(node, next, done, link) {
		list_del(&node->link);
		node->memory->free(node);
		cond_resched();
	}
}

/* Move all kept completions that fit. Takes cq->lock; may sleep. */
static void cq_flush(struct treadle_cq *cq)
{
	bool more, awaited;
	LIST_HEAD(done);

	do {
		spin_lock(&cq->lock);
		more = cq_flush_some(cq, &done);
		/*
		 * a reader that looks at the ring first and at ->kept second may miss what moves
		 * from there to here, and wait
		 */
		awaited = !list_empty(&done) && treadle_awaited(&cq->waitq);
		spin_unlock(&cq->lock);
		cq_free_nodes(&done);
		treadle_wake(&cq->waitq, awaited);
	} while (more && !fatal_signal_pending(current));
}

/*
 * The process reads the queue no more: drop what is kept, and from now on what comes. Takes
 * cq->lock; may sleep.
 */
static void cq_shutdown(struct treadle_cq *cq)
{
	LIST_HEAD(done);

	spin_lock(&cq->lock);
	cq->dead = true;
	WRITE_ONCE(cq->kept, 0);
	list_splice_init(&cq->overflow, &done);
	spin_unlock(&cq->lock);
	cq_free_nodes(&done);
}

static void node_kfree(struct treadle_cq_node *node)
{
	kfree(node);
}

/**
 * treadle_cq_keep() - write a completion, or keep it
 * @cq:     the queue
 * @dead:   of the completion's endpoint: true if that is closed
 * @cqe:    the completion
 * @node:   where to keep it if it does not fit, not touched before; NULL: allocate memory then
 * @memory: of @node
 *
 * If the queue was destroyed, the completion is dropped.
 *
 * Context: takes cq->lock; no spinlock is held. May sleep, also with @node, as it frees other
 * nodes.
 * Return: TREADLE_CQ_KEPT: @node is in use until @memory->free is called. That may be at once, by
 * the thread that reads, and may drop the last reference on the endpoint and this queue.
 * TREADLE_CQ_DONE: written or dropped. TREADLE_CQ_CLOSED, TREADLE_CQ_NOMEM (only without @node):
 * nothing was done.
 */
noinline enum treadle_cq_fate treadle_cq_keep(struct treadle_cq *cq, const bool *dead,
					      const struct treadle_cqe *cqe,
					      struct treadle_cq_node *node,
					      const struct treadle_cq_memory *memory)
{
	static const struct treadle_cq_memory allocated = { .free = node_kfree };
	struct treadle_cq_node *spare = NULL;
	enum treadle_cq_fate fate = TREADLE_CQ_DONE;
	struct mem_cgroup *old;
	bool awaited;
	LIST_HEAD(done);

	kref_get(&cq->obj.ref);
	for (;;) {
		spin_lock(&cq->lock);
		/* before cq->dead: if the endpoint is closed, its queue may be, too */
		if (unlikely(READ_ONCE(*dead))) {
			fate = TREADLE_CQ_CLOSED;
			break;
		}
		if (unlikely(cq->dead))
			break;
		if (unlikely(cq->kept))
			cq_flush_some(cq, &done);
		if (likely(list_empty(&cq->overflow) && treadle_cq_room(cq))) {
			*treadle_cq_slot(cq) = *cqe;
			treadle_cq_publish(cq);
			break;
		}
		if (node || spare) {
			if (node) {
				fate = TREADLE_CQ_KEPT;
			} else {
				node = spare;
				spare = NULL;
				memory = &allocated;
			}
			if (memory->keep)
				memory->keep(node);
			node->memory = memory;
			node->cqe = *cqe;
			list_add_tail(&node->link, &cq->overflow);
			WRITE_ONCE(cq->kept, cq->kept + 1);
			WRITE_ONCE(treadle_cq_prod_of(cq)->flags, TREADLE_CQ_OVERFLOW);
			break;
		}
		spin_unlock(&cq->lock);
		/*
		 * 96 bytes, charged to the queue's owner, which does not read. The number is
		 * bounded: a doorbell is refused while the queue overflows. At the limit of the
		 * memory group the kernel charges a page beyond it, of which the group's later
		 * allocations use up the rest: at worst this is a page for each.
		 */
		old = set_active_memcg(cq->obj.ctx->memcg);
		spare = kmalloc(sizeof(*spare), TREADLE_GFP_BEYOND) ?:
				kmalloc(sizeof(*spare), TREADLE_GFP);
		set_active_memcg(old);
		if (unlikely(!spare)) {
			fate = TREADLE_CQ_NOMEM;
			spin_lock(&cq->lock);
			break;
		}
	}
	awaited = treadle_awaited(&cq->waitq);
	spin_unlock(&cq->lock);
	kfree(spare);
	cq_free_nodes(&done);
	treadle_wake(&cq->waitq, awaited);
	treadle_obj_put(&cq->obj);
	return fate;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static struct treadle_cq *cq_of(struct treadle_obj *obj)
{
	return container_of(obj, struct treadle_cq, obj);
}

static struct treadle_waitq *cq_waitq(struct treadle_obj *obj)
{
	return &cq_of(obj)->waitq;
}

static spinlock_t *cq_lock(struct treadle_obj *obj)
{
	return &cq_of(obj)->lock;
}

/* Is there a completion to read? Without cq->lock: a barrier of the caller's orders it (wait.h). */
static bool cq_has(struct treadle_cq *cq)
{
	const struct treadle_cq_cons *user = cq->rw.addr;

	return READ_ONCE(treadle_cq_prod_of(cq)->prod) != READ_ONCE(user->cons) ||
	       READ_ONCE(cq->kept);
}

static bool cq_ready(const struct treadle_waiter *me)
{
	return cq_has(cq_of(me->obj));
}

/* Move kept completions into the ring, where the process looks for them. */
static void cq_done(struct treadle_obj *obj)
{
	if (READ_ONCE(cq_of(obj)->kept))
		cq_flush(cq_of(obj));
}

static bool cq_readable(struct treadle_obj *obj, u64 seen)
{
	cq_done(obj);
	return cq_has(cq_of(obj));
}

static void cq_signaled(struct treadle_obj *obj, u32 signals)
{
	lockdep_assert_held(&cq_of(obj)->waitq.signaling);
	WRITE_ONCE(treadle_cq_prod_of(cq_of(obj))->signals, signals);
}

static const struct treadle_wait_ops cq_wait_ops = {
	.queue = cq_waitq,
	.lock = cq_lock,
	.ready = cq_ready,
	.done = cq_done,
	.readable = cq_readable,
	.signaled = cq_signaled,
};

/* --- making and ending --------------------------------------------------------------------- */

static void cq_stop(struct treadle_obj *obj, struct treadle_run *run)
{
	cq_shutdown(cq_of(obj));
	treadle_waitq_end(&cq_of(obj)->waitq);
}

static long cq_doorbell(struct treadle_obj *obj)
{
	cq_flush(cq_of(obj));
	return 0;
}

static const struct treadle_area *cq_area(struct treadle_obj *obj, enum treadle_region region)
{
	return region == TREADLE_RO ? &cq_of(obj)->ro : &cq_of(obj)->rw;
}

static void cq_free(struct treadle_obj *obj)
{
	struct treadle_cq *cq = container_of(obj, struct treadle_cq, obj);

	treadle_area_free(&cq->ro);
	treadle_area_free(&cq->rw);
}

static const struct treadle_obj_ops cq_ops = {
	.type = TREADLE_CQ,
	.stop = cq_stop,
	.free = cq_free,
	.area = cq_area,
	.doorbell = cq_doorbell,
	.wait = &cq_wait_ops,
};

/**
 * treadle_ioc_cq_create() - CQ_CREATE: make a completion queue
 * @u: the call, with a struct treadle_cq_create
 *
 * Context: may sleep.
 * Return: 0, with the queue in u->new; or -errno.
 */
int treadle_ioc_cq_create(struct treadle_ucmd *u)
{
	struct treadle_cq_create *arg = u->arg;
	struct treadle_cq *cq;
	int ret;

	if (arg->flags)
		return -EINVAL;
	ret = treadle_round_entries(&arg->entries, treadle_max_cq);
	if (ret)
		return ret;
	cq = kzalloc(sizeof(*cq), TREADLE_GFP);
	if (!cq)
		return -ENOMEM;
	ret = treadle_obj_init(u->ctx, &cq->obj, &cq_ops);
	if (ret) {
		kfree(cq);
		return ret;
	}
	spin_lock_init(&cq->lock);
	INIT_LIST_HEAD(&cq->overflow);
	treadle_waitq_init(&cq->waitq);
	ret = treadle_area_alloc(
		&cq->ro, TREADLE_SLOTS_OFFSET + (size_t)arg->entries * sizeof(struct treadle_cqe));
	if (!ret)
		ret = treadle_area_alloc(&cq->rw, PAGE_SIZE);
	if (ret) {
		treadle_obj_put(&cq->obj);
		return ret;
	}
	cq->cqes = cq->ro.addr + TREADLE_SLOTS_OFFSET;
	cq->mask = arg->entries - 1;
	arg->id = cq->obj.id;
	treadle_map_cookie(&cq->obj, &cq->ro, TREADLE_RO, &arg->ro);
	treadle_map_cookie(&cq->obj, &cq->rw, TREADLE_RW, &arg->rw);
	u->new = &cq->obj;
	return 0;
}
