/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: spans of memory, and copies between them (transfer.c) */
#ifndef TREADLE_TRANSFER_H
#define TREADLE_TRANSFER_H

#include "copy/mr.h"
#include "core/endpoint.h"
#include "mm/own.h"
#include "mm/pagemap.h"

/* The side of a copy that it waits for, or that failed. */
enum treadle_side { TREADLE_NONE, TREADLE_SRC, TREADLE_DST };

/*
 * struct treadle_span - one side of a copy: buffers of a process, or one buffer of the kernel
 * @ctx:	context of the process
 * @pm:		pages of @ctx; NULL: @kbuf
 * @closed:	of the endpoint for which the buffers are used; once it is set (under pm->lock),
 *		they are not touched any more. NULL: @kbuf
 * @iov:	the buffers
 * @mr:		a peer's memory: its regions, @mrs of them, held; else NULL
 * @i, @off:	position: in iov[i], or in kbuf
 * @msg:	number of the message that is traced, or 0; of a process only
 * @leaf:	table of the page at @leaf_addr; valid only while pm->lock is held
 */
struct treadle_span {
	struct treadle_ctx *ctx;
	struct treadle_pm *pm;
	const bool *closed;
	const struct treadle_iov *iov;
	struct treadle_mr *const *mr;
	unsigned int i, mrs;
	u32 msg;
	u64 off;
	u8 *kbuf;
	void **leaf;
	u64 leaf_addr;
};

/* A span of one buffer of the kernel, from @off on. */
static __always_inline void treadle_span_kernel(struct treadle_span *s, void *buf, u64 off)
{
	s->pm = NULL;
	s->closed = NULL;
	s->mr = NULL;
	s->kbuf = buf;
	s->off = off;
}

void treadle_span_user(struct treadle_span *s, struct treadle_ctx *ctx, const bool *closed,
		       const struct treadle_iov *iov, unsigned int count, u64 off);
bool treadle_copy_small(const struct treadle_ep *to, u64 dst, const struct treadle_ep *from,
			u64 src, u64 len, const struct treadle_mr *mr);
bool treadle_copy_in(const struct treadle_ep *to, u64 at, const void *from, u64 len);
int treadle_copy(struct treadle_span *dst, struct treadle_span *src, u64 *done, u64 len,
		 struct treadle_run *run, enum treadle_side *side);
int treadle_span_fill(struct treadle_span *s, u64 len, bool write, struct treadle_run *run);
int treadle_span_prepare(struct treadle_span *s, u64 len, bool write, struct treadle_run *run);
int treadle_modify(struct treadle_span *span, u64 *done, u64 len, u32 unit, bool write,
		   u64 (*fn)(void *arg, void *at, u64 bytes, void *rest), void *arg,
		   struct treadle_run *run);

/**
 * treadle_copy_own() - copy one word between the calling process's memory and one page of a peer
 * @to:    endpoint of the peer
 * @at:    address in its memory
 * @addr:  address in the caller's memory; run->own is its context
 * @len:   one that own_word() takes
 * @write: true: to the peer; else from it
 * @mr:    the region of the peer, or NULL
 *
 * Takes the fewest instructions. The caller's memory may be that of a slow device. So it is not
 * touched under the lock of the peer's pagemap, which the peer's MMU notifier waits for. More than
 * a word would have to be copied twice for that, which takes longer than treadle_copy_small().
 *
 * The caller's buffers stay its own meanwhile, because closing its endpoint waits for its doorbell
 * (treadle_ep_quiesce()).
 *
 * Context: takes the lock of the peer's pagemap; does not sleep. @mr is kept by a reference or the
 * RCU read lock.
 * Return: true: copied. False: nothing was, use treadle_copy().
 */
static __always_inline bool treadle_copy_own(const struct treadle_ep *to, u64 at, u64 addr, u64 len,
					     bool write, const struct treadle_mr *mr)
{
	struct treadle_pm *there = treadle_pm_of(to->obj.ctx);
	u64 word = 0;
	void *page;
	bool ok;

	if (!treadle_pm_small(at, len) || (write && !treadle_own_get(&word, addr, len)))
		return false;
	pm_lock(there);
	page = treadle_pm_known(there, at, write);
	ok = page && !(mr && treadle_mr_revoked(mr)) && !READ_ONCE(to->closed);
	if (likely(ok) && write) {
		own_set_word(page, word, len);
		treadle_pm_wrote(page, len);
	} else if (likely(ok)) {
		word = own_word_at(page, len);
	}
	pm_unlock(there);
	return ok && (write || treadle_own_put(addr, word, len));
}

#endif
