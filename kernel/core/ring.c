// SPDX-License-Identifier: GPL-2.0
/* treadle: making and freeing rings */
#include <linux/log2.h>

#include "core/object.h"
#include "core/ring.h"

/* treadle_ring_init - 0 or -ENOMEM; then too, treadle_ring_exit() frees what there is. May sleep */
int treadle_ring_init(struct treadle_ring *ring, u32 entries)
{
	int ret;

	ret = treadle_area_alloc(&ring->rw,
				 TREADLE_SLOTS_OFFSET + (size_t)entries * TREADLE_SLOT_SIZE);
	if (!ret)
		ret = treadle_area_alloc(&ring->ro, PAGE_SIZE);
	if (ret)
		return ret;
	ring->user = ring->rw.addr;
	ring->slots = ring->rw.addr + TREADLE_SLOTS_OFFSET;
	ring->kern = ring->ro.addr;
	ring->entries = entries;
	return 0;
}

void treadle_ring_exit(struct treadle_ring *ring)
{
	treadle_area_free(&ring->rw);
	treadle_area_free(&ring->ro);
}

/* treadle_ring_answer - how its process maps the ring @ring of @obj */
void treadle_ring_answer(struct treadle_obj *obj, struct treadle_ring *ring,
			 struct treadle_ring_create *arg)
{
	arg->id = obj->id;
	treadle_map_cookie(obj, &ring->rw, TREADLE_RW, &arg->rw);
	treadle_map_cookie(obj, &ring->ro, TREADLE_RO, &arg->ro);
}

/* treadle_round_entries - round up to a power of two within 1..limit; a page of slots at least. */
int treadle_round_entries(u32 *entries, u32 limit)
{
	if (!*entries || *entries > limit)
		return -EINVAL;
	*entries = roundup_pow_of_two(max(*entries, 32u));
	return *entries > limit ? -EINVAL : 0;
}
