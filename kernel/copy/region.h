/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: struct treadle_mr and its table (mr.c, mr_access.c); other files use mr.h */
#ifndef TREADLE_REGION_H
#define TREADLE_REGION_H

#include <linux/rhashtable.h>

#include "copy/mr.h"
#include "mm/dmabuf.h"
#include "notify/counter.h"

/*
 * struct treadle_mr_part - one range of a region
 * @mr:		 the region
 * @iov:	 the range
 * @start:       address of its first byte for peers
 * @pin:         pinned: the range in the pagemap
 * @buffer:	 dma-buf that has the range, or NULL
 * @pages, @pinned: pinned: its pages, and how many there are
 */
struct treadle_mr_part {
	struct treadle_mr *mr;
	struct treadle_iov iov;
	u64 start;
	struct treadle_pin pin;
	struct treadle_buffer *buffer;
	struct page **pages;
	unsigned long pinned;
};

/*
 * struct treadle_mr - memory region
 * @key, @node:  key and its place in ctx->mrs, if @hashed
 * @revoked:     see struct treadle_mr_head
 * @closed:      shut down; set once, in mr_hide()
 * @access:      TREADLE_ACCESS_* that it grants (constant)
 * @flags:       TREADLE_MR_* (constant)
 * @cntr:        counts what peers write, set once (ctx->lock), or NULL
 * @ep:          id of the only endpoint by which it is reached, set once (ctx->lock), or 0
 * @charged:     pages of RLIMIT_MEMLOCK; 0: nothing is pinned
 * @refund:      refunds @charged, if the process does not do it itself
 * @id:          of its owner, with the authorization key of the region (constant)
 * @parts:       @count of them, in the order in which peers see them
 */
struct treadle_mr {
	struct treadle_obj obj;
	bool revoked, hashed, closed;
	u64 key;
	struct rhash_head node;
	u32 access, flags;
	struct treadle_cntr *cntr;
	u32 ep;
	unsigned long charged;
	struct treadle_work refund;
	struct treadle_peer id;
	unsigned int count;
	struct treadle_mr_part parts[];
};
static_assert(offsetof(struct treadle_mr, obj) == offsetof(struct treadle_mr_head, obj) &&
	      offsetof(struct treadle_mr, revoked) == offsetof(struct treadle_mr_head, revoked));

/*
 * A third of the cost of jhash(). A process may choose its regions' keys, but does not know the
 * seed. If a chain gets long nevertheless, the table is rehashed with another seed.
 */
static inline u32 mr_hash(const void *key, u32 len, u32 seed)
{
	u64 h = (*(const u64 *)key ^ seed * GOLDEN_RATIO_64) * GOLDEN_RATIO_64;

	return ((h ^ h >> 32) * GOLDEN_RATIO_64) >> 32;
}

/* Cheaper than memcmp(). */
static inline int mr_compare(struct rhashtable_compare_arg *arg, const void *mr)
{
	return ((const struct treadle_mr *)mr)->key != *(const u64 *)arg->key;
}

static const struct rhashtable_params mr_params = {
	.key_len = sizeof(u64),
	.key_offset = offsetof(struct treadle_mr, key),
	.head_offset = offsetof(struct treadle_mr, node),
	.hashfn = mr_hash,
	.obj_cmpfn = mr_compare,
	.automatic_shrinking = true,
	.nelem_hint = 1, /* the table is charged to no group, and most contexts have few regions */
};

/* The place of a region in ctx->recent_mrs, by its key. */
static inline struct treadle_mr __rcu **treadle_mr_recent(struct treadle_ctx *ctx, u64 key)
{
	return &ctx->recent_mrs[key % TREADLE_RECENT_MRS];
}

#endif
