// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: access to memory regions by peers
 *
 * fi_rma(3). A region is found by its key under RCU. Whether it is revoked is certain only under
 * the lock of its owner's pagemap: each copy asks there.
 */
#include <linux/nospec.h>

#include "copy/region.h"

/**
 * treadle_mr_put() - put the reference of treadle_mr_find()
 * @mr: the region
 *
 * Context: the last reference may sleep.
 */
void treadle_mr_put(struct treadle_mr *mr)
{
	treadle_obj_put(&mr->obj);
}

/**
 * treadle_mr_cntr() - the counter of a region
 * @mr: the region, held
 *
 * Context: any; takes no lock.
 * Return: the counter, which the region holds, or NULL.
 */
struct treadle_cntr *treadle_mr_cntr(struct treadle_mr *mr)
{
	return smp_load_acquire(&mr->cntr); /* pairs with mr_bind() */
}

/*
 * Where @len bytes at the peers' address @addr are in the owner's memory: parts written to @at.
 * Returns how many, or -EREMOTEIO. At most one for each part of the region, as each step ends at
 * the end of another part.
 */
static int mr_locate(const struct treadle_mr *mr, u64 addr, u64 len, struct treadle_iov *at)
{
	const struct treadle_mr_part *part, *end = mr->parts + mr->count;
	int count = 0;
	u64 off, n;

	do {
		for (part = mr->parts; part < end; part++) {
			off = addr - part->start;
			if (off < part->iov.len || (!len && off == part->iov.len))
				break;
		}
		if (part == end)
			return -EREMOTEIO;
		off = array_index_nospec(off, part->iov.len + 1);
		n = min(len, part->iov.len - off);
		at[count++] = (struct treadle_iov){ part->iov.addr + off, n };
		addr += n;
		len -= n;
	} while (len);
	return count;
}

/*
 * Check an access (@access: TREADLE_ACCESS_PEER) of @from by the endpoint @to. Key and address are
 * not checked.
 */
static __always_inline int mr_admits(const struct treadle_mr *mr, const struct treadle_ep *to,
				     const struct treadle_ep *from, u32 access)
{
	const struct treadle_ep *parent;
	u32 ep = READ_ONCE(mr->ep);

	if (unlikely(ep && ep != to->obj.id)) {
		parent = treadle_own_ep(to)->parent;
		if (!parent || ep != parent->obj.id)
			return -EKEYREJECTED;
	}
	if ((access & (~mr->access | to->flags)) || !treadle_admits(&mr->id, &from->id))
		return -EACCES;
	return 0;
}

/* Not inline: most are found without a search. */
static noinline const struct treadle_mr *find_mr(struct treadle_ctx *ctx, u64 key)
{
	return rhashtable_lookup(&ctx->mrs, &key, mr_params);
}

/**
 * treadle_mr_peek() - find a command's remote range, without holding the region
 * @to:     target endpoint
 * @from:   endpoint of the command
 * @d:      descriptor; names one range
 * @access: TREADLE_ACCESS_PEER bits that are needed
 *
 * Only for regions of one part without a counter. The region stays until rcu_read_unlock(). If it
 * was revoked, only the copy notices (treadle_mr_revoked()).
 *
 * Context: RCU read lock is held.
 * Return: the region and where the range is; no region: treadle_mr_find() finds it, or says why
 * not.
 */
TREADLE_HOT struct treadle_mr_view treadle_mr_peek(const struct treadle_ep *to,
						   const struct treadle_ep *from,
						   const struct treadle_desc *d, u32 access)
{
	const struct treadle_mr *mr =
		rcu_dereference(*treadle_mr_recent(to->obj.ctx, d->remote_key));
	const struct treadle_iov *iov;
	u64 off;

	if (unlikely(!mr || mr->key != d->remote_key))
		mr = find_mr(to->obj.ctx, d->remote_key);
	if (!mr || mr->count != 1 || smp_load_acquire(&mr->cntr) || /* pairs with mr_bind() */
	    mr_admits(mr, to, from, access))
		return (struct treadle_mr_view){};
	iov = &mr->parts[0].iov;
	off = d->remote_addr - mr->parts[0].start;
	if (off > iov->len || d->len > iov->len - off)
		return (struct treadle_mr_view){};
	return (struct treadle_mr_view){ mr, iov->addr + array_index_nospec(off, iov->len + 1) };
}

/**
 * treadle_mr_find() - find a remote range, and hold its region
 * @to:     target endpoint
 * @from:   endpoint of the command
 * @range:  key, address and length
 * @access: TREADLE_ACCESS_PEER bits that are needed
 * @found:  the region, for treadle_mr_put()
 * @at:     where the range is in the owner's memory: room for TREADLE_MAX_MR_IOV parts
 *
 * The region may be revoked at any time: each copy checks that again.
 *
 * Context: any; takes no lock.
 * Return: how many parts were written to @at; or -EKEYREJECTED, -EACCES, -EREMOTEIO.
 */
int treadle_mr_find(struct treadle_ep *to, const struct treadle_ep *from,
		    const struct treadle_rma_iov *range, u32 access, struct treadle_mr **found,
		    struct treadle_iov *at)
{
	struct treadle_mr *mr;
	int ret;

	rcu_read_lock();
	mr = rhashtable_lookup(&to->obj.ctx->mrs, &range->key, mr_params);
	if (mr && !kref_get_unless_zero(&mr->obj.ref))
		mr = NULL;
	rcu_read_unlock();
	if (!mr)
		return -EKEYREJECTED;
	/* checked here, too, because for an empty range there is no copy */
	ret = READ_ONCE(mr->revoked) ? -EKEYREJECTED : mr_admits(mr, to, from, access);
	if (!ret)
		ret = mr_locate(mr, range->addr, range->len, at);
	if (ret < 0)
		treadle_mr_put(mr);
	else
		*found = mr;
	return ret;
}

/**
 * treadle_mr_whole() - what a window needs to know of a region
 * @mr:		the region, held
 * @whole:	set
 *
 * Context: any; takes no lock.
 * Return: false: it has several ranges, or a counter, or is a dma-buf.
 */
bool treadle_mr_whole(struct treadle_mr *mr, struct treadle_mr_whole *whole)
{
	if (mr->count != 1 || mr->parts[0].buffer || treadle_mr_cntr(mr))
		return false;
	*whole = (struct treadle_mr_whole){
		.iov = mr->parts[0].iov,
		.start = mr->parts[0].start,
		.pages = mr->parts[0].pages,
		.revoked = &mr->revoked,
	};
	return true;
}
