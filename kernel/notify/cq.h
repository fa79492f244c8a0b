/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: completion queues (cq.c) */
#ifndef TREADLE_CQ_H
#define TREADLE_CQ_H

#include "core/ring.h"
#include "notify/wait.h"

struct treadle_cq_node;

/*
 * struct treadle_cq_memory - what happens to the memory of a kept completion
 * @keep:	it is kept from now on (optional). Under cq->lock
 * @free:	it is kept no more. Without locks; may sleep
 */
struct treadle_cq_memory {
	void (*keep)(struct treadle_cq_node *node);
	void (*free)(struct treadle_cq_node *node);
};

/*
 * struct treadle_cq_node - a completion that the kernel keeps
 * @link:	in cq->overflow (cq->lock)
 */
struct treadle_cq_node {
	struct list_head link;
	struct treadle_cqe cqe;
	const struct treadle_cq_memory *memory;
};

/*
 * struct treadle_cq - completion queue
 * @lock:     ring and overflow list
 * @ro, @rw:  ring and consumer index, mapped
 * @cqes:     the ring, in @ro
 * @mask:     entries - 1 (constant)
 * @prod:     the kernel's own index (under @lock)
 * @overflow: completions that did not fit, oldest first (under @lock)
 * @kept:     their number (written under @lock)
 * @dead:     destroyed: completions are dropped (under @lock)
 * @waitq:    WAIT
 */
struct treadle_cq {
	struct treadle_obj obj;
	spinlock_t lock;
	struct treadle_area ro, rw;
	struct treadle_cqe *cqes;
	u32 mask, prod;
	struct list_head overflow;
	u32 kept;
	bool dead;
	struct treadle_waitq waitq;
};

static inline struct treadle_cq_prod *treadle_cq_prod_of(struct treadle_cq *cq)
{
	return cq->ro.addr;
}

/* E: acquire. An index out of range counts as a full ring: only its owner is harmed. */
static inline bool treadle_cq_room(struct treadle_cq *cq)
{
	const struct treadle_cq_cons *user = cq->rw.addr;

	lockdep_assert_held(&cq->lock);
	return cq->prod - smp_load_acquire(&user->cons) <= cq->mask;
}

static inline struct treadle_cqe *treadle_cq_slot(struct treadle_cq *cq)
{
	return &cq->cqes[cq->prod & cq->mask];
}

static inline void treadle_cq_publish(struct treadle_cq *cq)
{
	u32 prod = cq->prod + 1;

	lockdep_assert_held(&cq->lock);
	cq->prod = prod;
	smp_store_release(&treadle_cq_prod_of(cq)->prod, prod); /* D */
}

/*
 * Where to write a completion, or NULL: completions are kept, the ring is full, or the queue or the
 * endpoint (@dead) is closed.
 */
static __always_inline struct treadle_cqe *treadle_cq_place(struct treadle_cq *cq, const bool *dead)
	__must_hold(&cq->lock)
{
	return likely(!cq->kept && !cq->dead && !READ_ONCE(*dead) && treadle_cq_room(cq)) ?
		       treadle_cq_slot(cq) :
		       NULL;
}

/*
 * What became of a completion. DONE: written, or dropped with its queue; KEPT: its node is in use;
 * CLOSED: its endpoint is closed, NOMEM: no memory; nothing was done.
 */
enum treadle_cq_fate { TREADLE_CQ_DONE, TREADLE_CQ_KEPT, TREADLE_CQ_CLOSED, TREADLE_CQ_NOMEM };

/*
 * Publish the completion at @cqe, which treadle_cq_place() has returned, drop cq->lock, wake
 * waiters. False: @cqe is NULL; treadle_cq_keep() has to do it.
 */
static __always_inline bool treadle_cq_placed(struct treadle_cq *cq, const struct treadle_cqe *cqe)
	__releases(&cq->lock)
{
	bool awaited = false;

	if (likely(cqe)) {
		treadle_cq_publish(cq);
		awaited = treadle_awaited(&cq->waitq);
	}
	spin_unlock(&cq->lock);
	treadle_wake(&cq->waitq, awaited);
	return likely(cqe);
}

enum treadle_cq_fate treadle_cq_keep(struct treadle_cq *cq, const bool *dead,
				     const struct treadle_cqe *cqe, struct treadle_cq_node *node,
				     const struct treadle_cq_memory *memory);
int treadle_ioc_cq_create(struct treadle_ucmd *u);

#endif
