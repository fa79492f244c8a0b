// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: arithmetic of real and complex numbers
 *
 * By the CPU's own FPU, which rounds as IEEE 754 says: this file alone is compiled for
 * it, and its function is called between kernel_fpu_begin() and kernel_fpu_end() only.
 * Other machines than x86-64 use arith_soft.c. Comparisons with a NaN are
 * false, but for "not equal". A product of complex numbers is that of the formula:
 * what is special about infinities in C's Annex G is not done.
 */
#include "pure/arith.h"

#ifdef __x86_64__

/* The operations of a type @T whose value is *v, was, with and than: its name and type. */
#define REAL(name, T)                                                     \
	static bool name(u8 op, T *v, const T *operand, const T *compare) \
	{                                                                 \
		T was = *v, with = *operand, than = *compare, to = with;  \
		bool changes = true;                                      \
                                                                          \
		switch (op) {                                             \
		case TREADLE_ATOMIC_MIN:                                  \
			changes = with < was;                             \
			break;                                            \
		case TREADLE_ATOMIC_MAX:                                  \
			changes = with > was;                             \
			break;                                            \
		case TREADLE_ATOMIC_SUM:                                  \
			to = was + with;                                  \
			break;                                            \
		case TREADLE_ATOMIC_PROD:                                 \
			to = was * with;                                  \
			break;                                            \
		case TREADLE_ATOMIC_LOR:                                  \
			to = was != 0 || with != 0;                       \
			break;                                            \
		case TREADLE_ATOMIC_LAND:                                 \
			to = was != 0 && with != 0;                       \
			break;                                            \
		case TREADLE_ATOMIC_LXOR:                                 \
			to = (was != 0) != (with != 0);                   \
			break;                                            \
		case TREADLE_ATOMIC_WRITE:                                \
			break;                                            \
		case TREADLE_ATOMIC_CSWAP:                                \
			changes = than == was;                            \
			break;                                            \
		case TREADLE_ATOMIC_CSWAP_NE:                             \
			changes = than != was;                            \
			break;                                            \
		case TREADLE_ATOMIC_CSWAP_LE:                             \
			changes = than <= was;                            \
			break;                                            \
		case TREADLE_ATOMIC_CSWAP_LT:                             \
			changes = than < was;                             \
			break;                                            \
		case TREADLE_ATOMIC_CSWAP_GE:                             \
			changes = than >= was;                            \
			break;                                            \
		case TREADLE_ATOMIC_CSWAP_GT:                             \
			changes = than > was;                             \
			break;                                            \
		default: /* READ */                                       \
			changes = false;                                  \
		}                                                         \
		if (changes)                                              \
			*v = to;                                          \
		return changes;                                           \
	}

/* Two numbers of type @T: what is not zero is true, and true is 1. */
#define COMPLEX(name, T)                                                           \
	struct name {                                                              \
		T re, im;                                                          \
	};                                                                         \
                                                                                   \
	static bool name##_true(struct name z)                                     \
	{                                                                          \
		return z.re != 0 || z.im != 0;                                     \
	}                                                                          \
                                                                                   \
	static bool name##_same(struct name a, struct name b)                      \
	{                                                                          \
		return a.re == b.re && a.im == b.im;                               \
	}                                                                          \
                                                                                   \
	static bool name(u8 op, struct name *v, const struct name *operand,        \
			 const struct name *compare)                               \
	{                                                                          \
		struct name was = *v, with = *operand, than = *compare, to = with; \
		bool changes = true;                                               \
                                                                                   \
		switch (op) {                                                      \
		case TREADLE_ATOMIC_SUM:                                           \
			to.re = was.re + with.re;                                  \
			to.im = was.im + with.im;                                  \
			break;                                                     \
		case TREADLE_ATOMIC_PROD:                                          \
			to.re = was.re * with.re - was.im * with.im;               \
			to.im = was.re * with.im + was.im * with.re;               \
			break;                                                     \
		case TREADLE_ATOMIC_LOR:                                           \
			to.re = name##_true(was) || name##_true(with);             \
			to.im = 0;                                                 \
			break;                                                     \
		case TREADLE_ATOMIC_LAND:                                          \
			to.re = name##_true(was) && name##_true(with);             \
			to.im = 0;                                                 \
			break;                                                     \
		case TREADLE_ATOMIC_LXOR:                                          \
			to.re = name##_true(was) != name##_true(with);             \
			to.im = 0;                                                 \
			break;                                                     \
		case TREADLE_ATOMIC_WRITE:                                         \
			break;                                                     \
		case TREADLE_ATOMIC_CSWAP:                                         \
			changes = name##_same(than, was);                          \
			break;                                                     \
		case TREADLE_ATOMIC_CSWAP_NE:                                      \
			changes = !name##_same(than, was);                         \
			break;                                                     \
		default: /* READ */                                                \
			changes = false;                                           \
		}                                                                  \
		if (changes)                                                       \
			*v = to;                                                   \
		return changes;                                                    \
	}

REAL(real_float, float)
REAL(real_double, double)
REAL(real_long_double, long double)
COMPLEX(complex_float, float)
COMPLEX(complex_double, double)
COMPLEX(complex_long_double, long double)

bool treadle_compute_fp(u8 op, u8 type, void *value, const void *operand, const void *compare)
{
	/* operands may lie anywhere, and are not there if nothing is to be done with them */
	union treadle_element v, o = {}, c = {};
	u32 size = treadle_type_size(type);
	bool changes;

	memcpy(&v, value, size);
	if (op != TREADLE_ATOMIC_READ)
		memcpy(&o, operand, size);
	if (op >= TREADLE_ATOMIC_CSWAP)
		memcpy(&c, compare, size);
	switch (type) {
	case TREADLE_FLOAT:
		changes = real_float(op, (void *)&v, (void *)&o, (void *)&c);
		break;
	case TREADLE_DOUBLE:
		changes = real_double(op, (void *)&v, (void *)&o, (void *)&c);
		break;
	case TREADLE_LONG_DOUBLE:
		changes = real_long_double(op, (void *)&v, (void *)&o, (void *)&c);
		break;
	case TREADLE_FLOAT_COMPLEX:
		changes = complex_float(op, (void *)&v, (void *)&o, (void *)&c);
		break;
	case TREADLE_DOUBLE_COMPLEX:
		changes = complex_double(op, (void *)&v, (void *)&o, (void *)&c);
		break;
	default:
		changes = complex_long_double(op, (void *)&v, (void *)&o, (void *)&c);
	}
	if (changes)
		memcpy(value, &v, size);
	return changes;
}

#endif
