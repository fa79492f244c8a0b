/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: one atomic operation on one element
 *
 * Pure logic over the exchange of a word, so that the same source is tested in user space. An
 * element that is a word for the CPU is changed in place by compare-and-exchange. So it is also
 * atomic against the CPUs' own instructions. For other elements (a complex number that is not
 * aligned to its size, or larger than a word) the caller holds a lock.
 */
#ifndef TREADLE_ARITH_H
#define TREADLE_ARITH_H

#ifdef __KERNEL__
#include <linux/atomic.h>
#ifdef __x86_64__
#include <asm/asm.h>
#endif
#include <linux/string.h>
#include <linux/types.h>

#include "mm/compat.h"
#else
#include "shim.h"
#endif

#include <treadle/atomic.h>

#define TREADLE_EXCHANGE_TRIES 1000 /* lost exchanges allowed for the elements of one piece */

union treadle_element {
	u8 bytes[32];
	u8 b1;
	u16 b2;
	u32 b4;
	u64 b8, b16[2];
} __attribute__((aligned(16)));

/*
 * Compute the new value of an element: *value is the old value, and then the new one. False: the
 * element stays as it is. Operands need no alignment. treadle_compute_fp is for the types in
 * TREADLE_TYPES_FP, and uses the FPU: call it between kernel_fpu_begin() and kernel_fpu_end().
 * treadle_compute_soft does the same without an FPU.
 */
typedef bool treadle_compute_fn(u8 op, u8 type, void *value, const void *operand,
				const void *compare);
treadle_compute_fn treadle_compute_int, treadle_compute_fp, treadle_compute_soft;

/* Can the element at @at be exchanged as a word? @words: size of the CPU's longest such word. */
static inline bool treadle_is_word(const void *at, u32 size, u32 words)
{
	return size <= words && !((unsigned long)at & (size - 1));
}

/*
 * treadle_exchange() of 1 or 2 bytes by exchanging the aligned 4 bytes around them, which are in
 * the same page: for CPUs that exchange no less. It also fails if the bytes around them change.
 */
static inline bool treadle_exchange_part(void *at, u32 size, union treadle_element *old,
					 const union treadle_element *to)
{
	unsigned int off = (unsigned long)at & 3;
	u32 *around = (u32 *)((u8 *)at - off);
	u32 was = READ_ONCE(*around), next = was;
	bool ok = !memcmp((u8 *)&was + off, old, size);

	memcpy((u8 *)&next + off, to, size);
	ok = ok && try_cmpxchg(around, &was, next);
	if (!ok)
		memcpy(old, (u8 *)&was + off, size);
	return ok;
}

/*
 * Compare and exchange. True: @at was *old and is *to now. False: *old is what @at has instead,
 * perhaps the same value.
 */
static inline bool treadle_exchange(void *at, u32 size, union treadle_element *old,
				    const union treadle_element *to)
{
	bool ok = false;

	switch (size) {
#if TREADLE_CMPXCHG_SMALL
	case 1:
		return try_cmpxchg((u8 *)at, &old->b1, to->b1);
	case 2:
		return try_cmpxchg((u16 *)at, &old->b2, to->b2);
#else
	case 1:
	case 2:
		return treadle_exchange_part(at, size, old, to);
#endif
	case 4:
		return try_cmpxchg((u32 *)at, &old->b4, to->b4);
	case 8:
		return try_cmpxchg((u64 *)at, &old->b8, to->b8);
#ifdef __x86_64__
	case 16:
		asm volatile("lock cmpxchg16b %1"
			     : "=@ccz"(ok), "+m"(*(union treadle_element *)at), "+a"(old->b16[0]),
			       "+d"(old->b16[1])
			     : "b"(to->b16[0]), "c"(to->b16[1])
			     : "memory");
#endif
	}
	return ok;
}

#ifdef __x86_64__
/*
 * The only atomic load of 16 bytes is an exchange, which writes the value that is there. Memory
 * that even the kernel can't write, as the vDSO, makes it fault. Such memory does not change, so
 * two loads replace it.
 */
static inline void treadle_load16(void *at, union treadle_element *value)
{
	u64 low = 0, high = 0;
	bool done = false;

	asm volatile("1: lock cmpxchg16b %1\n"
		     "   movb $1, %0\n"
		     "2:\n" _ASM_EXTABLE(1b, 2b)
		     : "+m"(done), "+m"(*(union treadle_element *)at), "+a"(low), "+d"(high)
		     : "b"(0ul), "c"(0ul)
		     : "memory", "cc");
	value->b16[0] = done ? low : READ_ONCE(((u64 *)at)[0]);
	value->b16[1] = done ? high : READ_ONCE(((u64 *)at)[1]);
}
#endif

/* Load the word at @at. */
static inline void treadle_load(void *at, u32 size, union treadle_element *value)
{
	switch (size) {
	case 1:
		value->b1 = READ_ONCE(*(u8 *)at);
		break;
	case 2:
		value->b2 = READ_ONCE(*(u16 *)at);
		break;
	case 4:
		value->b4 = READ_ONCE(*(u32 *)at);
		break;
	case 8:
		value->b8 = READ_ONCE(*(u64 *)at);
		break;
#ifdef __x86_64__
	case 16:
		treadle_load16(at, value);
#endif
	}
}

/*
 * Apply @op to the word at @at, and store the old value in *operand. Each exchange that is lost to
 * another CPU counts down *tries. False: *tries is 0, and nothing has changed.
 */
static inline bool treadle_update(treadle_compute_fn *compute, u8 op, u8 type, void *at,
				  void *operand, const void *compare, u32 *tries)
{
	u32 size = treadle_type_size(type);
	union treadle_element old, next;

	treadle_load(at, size, &old);
	for (;;) {
		next = old;
		if (!compute(op, type, &next, operand, compare) ||
		    treadle_exchange(at, size, &old, &next))
			break;
		if (!--*tries)
			return false;
	}
	memcpy(operand, &old, size);
	return true;
}

#endif
