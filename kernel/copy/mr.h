/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: memory regions (mr.c, mr_access.c) */
#ifndef TREADLE_MR_H
#define TREADLE_MR_H

#include "core/endpoint.h"
#include "mm/pagemap.h"

struct treadle_mr; /* begins with a struct treadle_mr_head */

/*
 * struct treadle_mr_head - what other files may read of a region without a call
 * @revoked:	closed, or unmapped or moved since (written under pm->lock)
 */
struct treadle_mr_head {
	struct treadle_obj obj;
	bool revoked;
};

/*
 * Rights that an operation of a peer needs: TREADLE_ACCESS_REMOTE_*, and one of these two, which
 * every region grants. The same bits in the flags of an endpoint deny the operation there.
 */
#define TREADLE_ACCESS_RMA    TREADLE_EP_NO_RMA
#define TREADLE_ACCESS_ATOMIC TREADLE_EP_NO_ATOMIC
#define TREADLE_ACCESS_PEER                                                              \
	(TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE | TREADLE_ACCESS_RMA | \
	 TREADLE_ACCESS_ATOMIC)
static_assert(TREADLE_ACCESS_REMOTE_READ == TREADLE_EP_NO_REMOTE_READ);
static_assert(TREADLE_ACCESS_REMOTE_WRITE == TREADLE_EP_NO_REMOTE_WRITE);

int treadle_mrs_init(struct rhashtable *mrs); /* by key */
int treadle_mr_find(struct treadle_ep *to, const struct treadle_ep *from,
		    const struct treadle_rma_iov *range, u32 access, struct treadle_mr **mr,
		    struct treadle_iov *at);

/*
 * struct treadle_mr_view - a range of a region that RCU keeps
 * @mr: the region, or NULL
 * @at: the range's address in the owner's memory
 */
struct treadle_mr_view {
	const struct treadle_mr *mr;
	u64 at;
};
struct treadle_mr_view treadle_mr_peek(const struct treadle_ep *to, const struct treadle_ep *from,
				       const struct treadle_desc *d, u32 access) __must_hold(RCU);

static inline const struct treadle_stats *treadle_mr_stats(const struct treadle_mr *mr)
{
	return &((const struct treadle_mr_head *)mr)->obj.stats;
}

/**
 * treadle_mr_revoked() - has a region been closed or unmapped?
 * @mr: the region; of the same context as the endpoint by which it was found
 *
 * Context: the lock of its owner's pagemap is held.
 * Return: true: its memory must not be touched.
 */
static __always_inline bool treadle_mr_revoked(const struct treadle_mr *mr)
{
	const struct treadle_mr_head *head = (const struct treadle_mr_head *)mr;

	lockdep_assert_held(&treadle_pm_of(head->obj.ctx)->lock);
	return head->revoked;
}

/* A peer has accessed @len bytes of @mr, held or under RCU. @opcode: from TREADLE_OP_READ on */
static inline void treadle_mr_count(const struct treadle_mr *mr, u32 opcode, u64 len)
{
	u32 stat = TREADLE_STAT_MR + opcode - TREADLE_OP_READ;

	treadle_stat_add(treadle_mr_stats(mr), stat, 1);
	treadle_stat_add(treadle_mr_stats(mr), stat + TREADLE_STAT_RMA, len);
}

/*
 * struct treadle_mr_info - what a region is
 * @length:	bytes of all @count ranges
 * @pinned:	pages
 * @access, @flags, @ep, @revoked: as in struct treadle_mr
 */
struct treadle_mr_info {
	u64 length, pinned;
	u32 count, access, flags, ep;
	bool revoked;
};
void treadle_mr_describe(const struct treadle_obj *obj, struct treadle_mr_info *info);

/*
 * struct treadle_mr_whole - a region of one range
 * @iov:	the range
 * @start:	address of its first byte for peers
 * @pages:	pinned: its pages, from that of @iov.addr on; else NULL
 * @revoked:	as in struct treadle_mr
 */
struct treadle_mr_whole {
	struct treadle_iov iov;
	u64 start;
	struct page *const *pages;
	const bool *revoked;
};
bool treadle_mr_whole(struct treadle_mr *mr, struct treadle_mr_whole *whole);

void treadle_mr_put(struct treadle_mr *mr);
struct treadle_cntr *treadle_mr_cntr(struct treadle_mr *mr);
int treadle_ioc_mr_create(struct treadle_ucmd *u);
int treadle_ioc_mr_bind(struct treadle_ucmd *u);

#endif
