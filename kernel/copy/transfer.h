/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: spans of memory, and copies between them (transfer.c) */
#ifndef TREADLE_TRANSFER_H
#define TREADLE_TRANSFER_H

#include "core/endpoint.h"
#include "mm/pagemap.h"

struct treadle_mr;

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
bool treadle_copy_own(const struct treadle_ep *there, u64 at, u64 addr, u64 len, bool write,
		      const struct treadle_mr *mr);
int treadle_copy(struct treadle_span *dst, struct treadle_span *src, u64 *done, u64 len,
		 struct treadle_run *run, enum treadle_side *side);
int treadle_span_fill(struct treadle_span *s, u64 len, bool write, struct treadle_run *run);
int treadle_span_prepare(struct treadle_span *s, u64 len, bool write, struct treadle_run *run);
int treadle_modify(struct treadle_span *span, u64 *done, u64 len, u32 unit, bool write,
		   u64 (*fn)(void *arg, void *at, u64 bytes, void *rest), void *arg,
		   struct treadle_run *run);

#endif
