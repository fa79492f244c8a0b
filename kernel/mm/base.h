/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: what all files use: attributes, and how memory is asked for */
#ifndef TREADLE_BASE_H
#define TREADLE_BASE_H

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

/* A variable of which every field is set before it is read: not worth clearing first. */
#define TREADLE_UNSET __attribute__((uninitialized))

/* The functions that every message goes through lie together. */
#define TREADLE_HOT __attribute__((hot))

/* What user space can ask for without end: at the limit of its cgroup, ENOMEM and no OOM killer. */
#define TREADLE_GFP (GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)
/* Where another process's group pays: nobody reclaims for it; at its limit it fails at once. */
#define TREADLE_GFP_OTHER (TREADLE_GFP & ~__GFP_DIRECT_RECLAIM)
/*
 * The same for what has begun: at the limit it is charged beyond (__GFP_HIGH). Fails only if the
 * machine has no memory; then it is tried again with what may reclaim, and may fail, too.
 */
#define TREADLE_GFP_BEYOND (TREADLE_GFP_OTHER | __GFP_HIGH)

/*
 * @n zeroed elements of @size bytes, for kvfree(). Of single pages, if they are many: for huge
 * ones, which kvcalloc() would try hard to get, all of the machine's memory is compacted, and no
 * group pays for that.
 */
static inline void *treadle_table_alloc(size_t n, size_t size, gfp_t gfp)
{
	if (array_size(n, size) <= PAGE_SIZE << PAGE_ALLOC_COSTLY_ORDER)
		return kvcalloc(n, size, gfp);
	return __vmalloc(array_size(n, size), gfp | __GFP_ZERO);
}

#endif
