/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: spans of memory, and copies between them (transfer.c) */
#ifndef TREADLE_TRANSFER_H
#define TREADLE_TRANSFER_H

#include "core/endpoint.h"
#include "mm/pagemap.h"

struct treadle_mr;

/* What a copy may be waiting for. */
enum treadle_side { TREADLE_NONE, TREADLE_SRC, TREADLE_DST };

/* One side of a copy: buffers of a context's process, or one buffer of the kernel. */
struct treadle_span {
	struct treadle_ctx *ctx;
	struct treadle_pm *pm; /* of @ctx; NULL: @kbuf */
	const bool
		*closed; /* of the endpoint for which it is touched; once set, it is not any more */
	const struct treadle_iov *iov;
	struct treadle_mr *const *mr; /* a peer's memory: its regions, @mrs of them; else NULL */
	unsigned int i, mrs;
	u64 off; /* into iov[i], or into kbuf */
	u8 *kbuf;
	void **leaf;   /* while pm->lock is held: table of the pages at... */
	u64 leaf_addr; /* ...this address */
};

static __always_inline void treadle_span_kernel(struct treadle_span *s, void *buf, u64 off)
{
	s->pm = NULL;
	s->mr = NULL;
	s->kbuf = buf;
	s->off = off;
}

void treadle_span_user(struct treadle_span *s, struct treadle_ctx *ctx, const bool *closed,
		       const struct treadle_iov *iov, unsigned int count, u64 off);
bool treadle_copy_small(const struct treadle_ep *to, u64 dst, const struct treadle_ep *from,
			u64 src, u64 len, const struct treadle_mr *mr);
bool treadle_copy_own(const struct treadle_ep *there, u64 at, u64 addr, u64 len, bool write,
		      const struct treadle_mr *mr);
int treadle_copy(struct treadle_span *dst, struct treadle_span *src, u64 *done, u64 len,
		 struct treadle_run *run, enum treadle_side *side);
int treadle_span_fill(struct treadle_span *s, u64 len, bool write, struct treadle_run *run);
int treadle_modify(struct treadle_span *span, u64 *done, u64 len, u32 unit, bool write,
		   u64 (*fn)(void *arg, void *at, u64 bytes, void *rest), void *arg,
		   struct treadle_run *run);

#endif
