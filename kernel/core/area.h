/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: pages that the kernel and a process share (area.c) */
#ifndef TREADLE_AREA_H
#define TREADLE_AREA_H

#include <linux/mm_types.h>
#include <treadle/ioctl.h>

struct treadle_obj;

/*
 * An mmap offset, in pages: the object's id in the lower 31 bits, and the region above. A 32-bit
 * process can pass these 32 bits if pages have 4 KiB. With larger pages it cannot map TREADLE_RO.
 */
#define TREADLE_REGION_SHIFT 31

enum treadle_region { TREADLE_RW, TREADLE_RO };

/* Pages that are mapped into the kernel and into the process. */
struct treadle_area {
	struct page **pages;
	unsigned int count;
	void *addr;
};

int treadle_area_alloc(struct treadle_area *area, size_t bytes);
void treadle_area_free(struct treadle_area *area);

void treadle_map_cookie(struct treadle_obj *obj, const struct treadle_area *area,
			enum treadle_region region, struct treadle_map *map);

#endif
