/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: the shared rings, from the kernel's side
 *
 * The only place with barriers against user space; their letters are those of
 * uapi/treadle/ring.h. Nothing that a process can write is believed: indices
 * are kept here, and a slot is copied once before it is judged.
 */
#ifndef TREADLE_RING_H
#define TREADLE_RING_H

#include <linux/mm_types.h>
#include <treadle/ring.h>

/* Pages that are mapped into the kernel and into the process. */
struct treadle_area {
	struct page **pages;
	unsigned int count;
	void *addr;
};

int treadle_area_alloc(struct treadle_area *area, size_t bytes);
void treadle_area_free(struct treadle_area *area);

/*
 * struct treadle_ring - a descriptor ring
 * @head:     slots read (under the owner's lock)
 * @released: slots given back (tx: tx->credit_lock; rx: rx->lock)
 */
struct treadle_ring {
	struct treadle_area rw, ro;
	struct treadle_ring_prod *user;
	struct treadle_ring_cons *kern;
	const union treadle_slot *slots;
	u32 entries, head, released;
	bool broken;
};

/* B: acquire; the slots before prod are written. Returns false on an index out of range. */
static inline bool treadle_ring_prod(struct treadle_ring *r, u32 *prod)
{
	*prod = smp_load_acquire(&r->user->prod);
	return *prod - READ_ONCE(r->released) <= r->entries && *prod - r->head <= r->entries;
}

/* C: after setting DOORBELL, and before looking at prod again. */
static inline void treadle_ring_want_doorbell(struct treadle_ring *r)
{
	WRITE_ONCE(r->kern->flags, r->kern->flags | TREADLE_RING_DOORBELL);
	smp_mb();
}

static inline void treadle_ring_quiet(struct treadle_ring *r)
{
	WRITE_ONCE(r->kern->flags, r->kern->flags & ~TREADLE_RING_DOORBELL);
}

static inline void treadle_ring_break(struct treadle_ring *r)
{
	r->broken = true;
	WRITE_ONCE(r->kern->flags, TREADLE_RING_BROKEN | TREADLE_RING_DOORBELL);
}

/* A: release; the caller holds what protects @released. */
static inline void treadle_ring_release(struct treadle_ring *r, u32 slots)
{
	WRITE_ONCE(r->released, r->released + slots);
	smp_store_release(&r->kern->released, r->released);
}

static inline const union treadle_slot *treadle_ring_slot(struct treadle_ring *r, u32 index)
{
	return &r->slots[index & (r->entries - 1)];
}

/*
 * Copy the descriptor at @index; the second line only if it counts, else it
 * is zero. The barriers keep the compiler from reading the shared slot again.
 */
static inline void treadle_ring_fetch(struct treadle_ring *r, u32 index, struct treadle_desc *d)
{
	const struct treadle_desc *s = &treadle_ring_slot(r, index)->desc;

	BUILD_BUG_ON(offsetof(struct treadle_desc, ep) != TREADLE_SLOT_SIZE / 2);
	memcpy(d, s, TREADLE_SLOT_SIZE / 2);
	barrier();
	if (d->flags & TREADLE_F_EXT)
		memcpy((u8 *)d + TREADLE_SLOT_SIZE / 2, (const u8 *)s + TREADLE_SLOT_SIZE / 2,
		       TREADLE_SLOT_SIZE / 2);
	else
		memset((u8 *)d + TREADLE_SLOT_SIZE / 2, 0, TREADLE_SLOT_SIZE / 2);
	barrier();
}

#endif
