/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: the shared rings, from the kernel's side
 *
 * The only place with barriers against user space, except for completion rings and counters
 * (notify/), and lanes (path/lane.c). Their letters are those of the diagram in
 * uapi/treadle/ring.h. What a process can write is not trusted: indices are kept here, and a slot
 * is copied once before it is validated.
 */
#ifndef TREADLE_RING_H
#define TREADLE_RING_H

#include <linux/atomic.h>
#include <treadle/ring.h>

#include "core/area.h"

/*
 * struct treadle_ring - a descriptor ring
 * @rw, @ro: pages that the process can write, and can only read
 * @user:    index of the process, in @rw
 * @kern:    indices and flags of the kernel, in @ro; number of released slots is only there
 * @slots:   descriptors, in @rw
 * @entries: number of slots, a power of two
 * @head:    number of slots that were read (under the owner's lock: tx->lock or rx->lock)
 * @broken:  the process has written an index or a descriptor that breaks the protocol (same lock)
 */
struct treadle_ring {
	struct treadle_area rw, ro;
	struct treadle_ring_prod *user;
	struct treadle_ring_cons *kern;
	const union treadle_slot *slots;
	u32 entries, head;
	bool broken;
};

int treadle_ring_init(struct treadle_ring *ring, u32 entries);
void treadle_ring_exit(struct treadle_ring *ring);
void treadle_ring_answer(struct treadle_obj *obj, struct treadle_ring *ring,
			 struct treadle_ring_create *arg);
int treadle_round_entries(u32 *entries, u32 limit);

/* B: acquire; slots before *prod are written. False: index out of range. Owner's lock held. */
static inline bool treadle_ring_prod(struct treadle_ring *r, u32 *prod)
{
	*prod = smp_load_acquire(&r->user->prod);
	return *prod - READ_ONCE(r->kern->released) <= r->entries && *prod - r->head <= r->entries;
}

/* The index of the process, for a look that decides nothing. Any context. */
static inline u32 treadle_ring_peek(const struct treadle_ring *r)
{
	return READ_ONCE(r->user->prod);
}

/* Have all written slots been read? A broken ring is never read. Owner's lock held. */
static inline bool treadle_ring_empty(struct treadle_ring *r)
{
	u32 prod;

	return r->broken || !treadle_ring_prod(r, &prod) || prod == r->head;
}

/* G: acquire; what was written before the cell is visible. One load. */
static inline u64 treadle_cell_read(const u64 *cell)
{
	return smp_load_acquire(cell);
}

/* H: release; the kernel does not look at the cell for @value any more. */
static inline void treadle_cell_done(u64 *done, u64 value)
{
	smp_store_release(done, value);
}

/* I: release; a device that reads the value finds what was counted. */
static inline void treadle_cell_write(u64 *cell, u64 value)
{
	smp_store_release(cell, value);
}

/* C: full barrier between setting DOORBELL and reading prod again. Owner's lock held. */
static inline void treadle_ring_want_doorbell(struct treadle_ring *r)
{
	WRITE_ONCE(r->kern->flags, r->kern->flags | TREADLE_RING_DOORBELL);
	smp_mb();
}

/* The process need not ring for what it posts. Owner's lock held. */
static inline void treadle_ring_quiet(struct treadle_ring *r)
{
	WRITE_ONCE(r->kern->flags, r->kern->flags & ~TREADLE_RING_DOORBELL);
}

/* Nothing is read from the ring any more. Owner's lock held. */
static inline void treadle_ring_break(struct treadle_ring *r)
{
	r->broken = true;
	WRITE_ONCE(r->kern->flags, TREADLE_RING_BROKEN | TREADLE_RING_DOORBELL);
}

/* A: release; slots are given back to the process. rx->lock held: one caller at a time. */
static inline void treadle_ring_release(struct treadle_ring *r, u32 slots)
{
	smp_store_release(&r->kern->released, r->kern->released + slots);
}

/* A: release; the same for transmit rings, without a lock. */
static inline void treadle_ring_release_any(struct treadle_ring *r, u32 slots)
{
	atomic_add_return_release(slots, (atomic_t *)&r->kern->released);
}

static inline const union treadle_slot *treadle_ring_slot(struct treadle_ring *r, u32 index)
{
	return &r->slots[index & (r->entries - 1)];
}

/* Copy the first line of the descriptor at @index, each field read once. */
static __always_inline void treadle_ring_fetch_line(struct treadle_ring *r, u32 index,
						    struct treadle_desc *d)
{
	const struct treadle_desc *s = &treadle_ring_slot(r, index)->desc;

	d->opcode = READ_ONCE(s->opcode);
	d->iov_count = READ_ONCE(s->iov_count);
	d->reserved0 = READ_ONCE(s->reserved0);
	d->flags = READ_ONCE(s->flags);
	d->context = READ_ONCE(s->context);
	d->addr = READ_ONCE(s->addr);
	d->len = READ_ONCE(s->len);
	d->peer = READ_ONCE(s->peer);
	d->tag = READ_ONCE(s->tag);
	d->ignore = READ_ONCE(s->ignore);
	d->data = READ_ONCE(s->data);
}

/* Zero the second line of a descriptor. */
static __always_inline void treadle_desc_short(struct treadle_desc *d)
{
	d->ep = d->cond = d->notify = 0;
	d->threshold = d->result = d->compare = 0;
	d->atomic_op = d->datatype = d->rma_iov_count = d->fetch_iov_count = 0;
	d->value = d->rest_threshold = 0;
	d->rest = d->reserved1 = 0;
}

/*
 * Copy the descriptor at @index. Its second line is copied if F_EXT is set, else zeroed. The
 * barrier keeps the compiler from reading the shared slot again.
 */
static __always_inline void treadle_ring_fetch(struct treadle_ring *r, u32 index,
					       struct treadle_desc *d)
{
	const struct treadle_desc *s = &treadle_ring_slot(r, index)->desc;

	BUILD_BUG_ON(offsetof(struct treadle_desc, ep) != TREADLE_SLOT_SIZE / 2);
	treadle_ring_fetch_line(r, index, d);
	if (unlikely(d->flags & TREADLE_F_EXT)) {
		memcpy((u8 *)d + TREADLE_SLOT_SIZE / 2, (const u8 *)s + TREADLE_SLOT_SIZE / 2,
		       TREADLE_SLOT_SIZE / 2);
		barrier();
		return;
	}
	treadle_desc_short(d);
}

#endif
