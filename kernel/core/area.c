// SPDX-License-Identifier: GPL-2.0
/* treadle: pages that kernel and process share; dev/mmap.c maps them */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/vmalloc.h>

#include "core/object.h"

int treadle_area_alloc(struct treadle_area *area, size_t bytes)
{
	unsigned int i, n = DIV_ROUND_UP(bytes, PAGE_SIZE);

	area->pages = treadle_table_alloc(n, sizeof(*area->pages), TREADLE_GFP);
	if (!area->pages)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		area->pages[i] = alloc_page(TREADLE_GFP | __GFP_ZERO);
		if (!area->pages[i])
			goto fail;
		area->count++;
		if (fatal_signal_pending(current))
			goto fail;
		cond_resched();
	}
	area->addr = vmap(area->pages, n, VM_MAP, PAGE_KERNEL);
	if (area->addr)
		return 0;
fail:
	treadle_area_free(area);
	return -ENOMEM;
}

void treadle_area_free(struct treadle_area *area)
{
	unsigned int i;

	if (area->addr)
		vunmap(area->addr);
	for (i = 0; i < area->count; i++) {
		put_page(area->pages[i]);
		cond_resched();
	}
	kvfree(area->pages);
	memset(area, 0, sizeof(*area));
}

void treadle_map_cookie(struct treadle_obj *obj, const struct treadle_area *area,
			enum treadle_region region, struct treadle_map *map)
{
	map->offset = ((u64)region << TREADLE_REGION_SHIFT | obj->id) << PAGE_SHIFT;
	map->length = (u64)area->count << PAGE_SHIFT;
}
