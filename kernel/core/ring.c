// SPDX-License-Identifier: GPL-2.0
/* treadle: creating and freeing descriptor rings */
#include <linux/log2.h>

#include "core/object.h"
#include "core/ring.h"

/**
 * treadle_ring_init() - allocate the pages of a ring
 * @ring:    zeroed
 * @entries: from treadle_round_entries()
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM. Also after an error the caller calls treadle_ring_exit().
 */
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

/**
 * treadle_ring_exit() - free the pages of a ring
 * @ring: perhaps in part allocated
 *
 * Context: may sleep.
 */
void treadle_ring_exit(struct treadle_ring *ring)
{
	treadle_area_free(&ring->rw);
	treadle_area_free(&ring->ro);
}

/**
 * treadle_ring_answer() - tell how user space maps a ring
 * @obj:  owner of the ring
 * @ring: initialized
 * @arg:  gets the object's id and the maps
 *
 * Context: any.
 */
void treadle_ring_answer(struct treadle_obj *obj, struct treadle_ring *ring,
			 struct treadle_ring_create *arg)
{
	arg->id = obj->id;
	treadle_map_cookie(obj, &ring->rw, TREADLE_RW, &arg->rw);
	treadle_map_cookie(obj, &ring->ro, TREADLE_RO, &arg->ro);
}

/**
 * treadle_round_entries() - round a number of entries up to a power of two, 32 at least
 * @entries: the number
 * @limit:   the largest number allowed
 *
 * Context: any.
 * Return: 0; -EINVAL: no entries, or more than @limit.
 */
int treadle_round_entries(u32 *entries, u32 limit)
{
	if (!*entries || *entries > limit)
		return -EINVAL;
	*entries = roundup_pow_of_two(max(*entries, 32u));
	return *entries > limit ? -EINVAL : 0;
}
