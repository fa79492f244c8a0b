/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: what all files use: attributes, and flags for allocations */
#ifndef TREADLE_BASE_H
#define TREADLE_BASE_H

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

/* For a variable with fields that are all set before they are read: it is not cleared first. */
#define TREADLE_UNSET __attribute__((uninitialized))

/* For the functions that each message goes through: the linker places them together. */
#define TREADLE_HOT __attribute__((hot))

/* For what user space can ask for without end: at its cgroup's limit ENOMEM, no OOM killer. */
#define TREADLE_GFP (GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)
/* Charged to another process's cgroup: no reclaim on its behalf, fails at once at its limit. */
#define TREADLE_GFP_OTHER (TREADLE_GFP & ~__GFP_DIRECT_RECLAIM)
/*
 * The same for an operation that has begun: may be charged beyond the limit (__GFP_HIGH). Fails
 * only if the machine has no memory; then callers try again with flags that reclaim, which can
 * fail, too.
 */
#define TREADLE_GFP_BEYOND (TREADLE_GFP_OTHER | __GFP_HIGH)

/*
 * Allocate @n zeroed elements of @size bytes, for kvfree(). A large table gets single pages:
 * kvcalloc() would try hard to get huge ones, and compact the memory of the whole machine, which no
 * cgroup pays for. May sleep. NULL: no memory.
 */
static inline void *treadle_table_alloc(size_t n, size_t size, gfp_t gfp)
{
	if (array_size(n, size) <= PAGE_SIZE << PAGE_ALLOC_COSTLY_ORDER)
		return kvcalloc(n, size, gfp);
	return __vmalloc(array_size(n, size), gfp | __GFP_ZERO);
}

#endif
