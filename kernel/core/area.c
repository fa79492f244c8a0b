// SPDX-License-Identifier: GPL-2.0
/* treadle: pages that the kernel and a process share; dev/mmap.c maps them into the process */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/vmalloc.h>

#include "core/object.h"

/**
 * treadle_area_alloc() - allocate zeroed pages and map them into the kernel
 * @area:  zeroed
 * @bytes: rounded up to whole pages
 *
 * Context: may sleep. The pages are charged to the caller's memory cgroup.
 * Return: 0; -ENOMEM: no memory, or a fatal signal is pending; then nothing is left allocated.
 */
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

/**
 * treadle_area_free() - free the pages of an area and zero it
 * @area: may be partly allocated, or zeroed
 *
 * Context: may sleep. Pages that a process has mapped stay until they are unmapped.
 */
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

/**
 * treadle_map_cookie() - tell how user space maps an area
 * @obj:    owner of the area
 * @area:   allocated
 * @region: which area of @obj
 * @map:    gets offset and length for mmap(2)
 *
 * Context: any.
 */
void treadle_map_cookie(struct treadle_obj *obj, const struct treadle_area *area,
			enum treadle_region region, struct treadle_map *map)
{
	map->offset = ((u64)region << TREADLE_REGION_SHIFT | obj->id) << PAGE_SHIFT;
	map->length = (u64)area->count << PAGE_SHIFT;
}
