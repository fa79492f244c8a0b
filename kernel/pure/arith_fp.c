// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: arithmetic of real and complex numbers, with the FPU
 *
 * The CPU's FPU rounds as IEEE 754 says. This file alone is compiled for it, and its function is
 * called only between kernel_fpu_begin() and kernel_fpu_end(). Machines other than x86-64 use
 * arith_soft.c. Comparisons with a NaN are false, except "not equal". A product of complex numbers
 * is computed by the formula: the special cases for infinities in Annex G of C are left out.
 */
#include "pure/arith.h"

#ifdef __x86_64__

/* The operations of the real type @T. *v: the old value, and then the new one. */
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

/* The operations of the complex type of two @T. A number other than zero is true; true is 1. */
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

/**
 * treadle_compute_fp() - apply an atomic operation to a real or complex number
 * @op:      enum treadle_atomic_op
 * @type:    datatype in TREADLE_TYPES_FP
 * @value:   current value; replaced by the result
 * @operand: not read by TREADLE_ATOMIC_READ
 * @compare: read from TREADLE_ATOMIC_CSWAP on
 *
 * Context: between kernel_fpu_begin() and kernel_fpu_end().
 * Return: false if the value stays as it is.
 */
bool treadle_compute_fp(u8 op, u8 type, void *value, const void *operand, const void *compare)
{
	/* operands need not be aligned; operands that @op does not use may be invalid pointers */
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
