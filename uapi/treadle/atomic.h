/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * treadle: operations and types of atomics
 *
 * The numbers are those of libfabric's enum fi_op and enum fi_datatype, so no table is needed to
 * translate them; fi_atomic(3) says what each operation does.
 *
 * An operation is atomic for each element, against all others by any process on that place with a
 * type of that size. For an element that is aligned to its size and has up to 8 bytes (16 with
 * cmpxchg16b), it is atomic against the CPU's own atomic instructions, too.
 */
#ifndef UAPI_TREADLE_ATOMIC_H
#define UAPI_TREADLE_ATOMIC_H

#include <linux/types.h>

enum treadle_atomic_op {
	TREADLE_ATOMIC_MIN,
	TREADLE_ATOMIC_MAX,
	TREADLE_ATOMIC_SUM,
	TREADLE_ATOMIC_PROD,
	TREADLE_ATOMIC_LOR,
	TREADLE_ATOMIC_LAND,
	TREADLE_ATOMIC_BOR,
	TREADLE_ATOMIC_BAND,
	TREADLE_ATOMIC_LXOR,
	TREADLE_ATOMIC_BXOR,
	TREADLE_ATOMIC_READ, /* FETCH only, and without a local buffer */
	TREADLE_ATOMIC_WRITE,
	TREADLE_ATOMIC_CSWAP, /* from here on: COMPARE only */
	TREADLE_ATOMIC_CSWAP_NE,
	TREADLE_ATOMIC_CSWAP_LE,
	TREADLE_ATOMIC_CSWAP_LT,
	TREADLE_ATOMIC_CSWAP_GE,
	TREADLE_ATOMIC_CSWAP_GT,
	TREADLE_ATOMIC_MSWAP,
	TREADLE_ATOMIC_OPS
};

enum treadle_datatype {
	TREADLE_INT8,
	TREADLE_UINT8,
	TREADLE_INT16,
	TREADLE_UINT16,
	TREADLE_INT32,
	TREADLE_UINT32,
	TREADLE_INT64,
	TREADLE_UINT64,
	TREADLE_FLOAT, /* this and the next five: only with TREADLE_FEATURE_ATOMIC_FP */
	TREADLE_DOUBLE,
	TREADLE_FLOAT_COMPLEX,
	TREADLE_DOUBLE_COMPLEX,
	TREADLE_LONG_DOUBLE, /* as in C: x86-64: x87, 10 of 16 bytes count; arm64: binary128 */
	TREADLE_LONG_DOUBLE_COMPLEX,
	TREADLE_INT128,
	TREADLE_UINT128,
	TREADLE_DATATYPES
};

#define TREADLE_TYPES(first, last) ((1U << ((last) + 1)) - (1U << (first)))
#define TREADLE_TYPES_INT                              \
	(TREADLE_TYPES(TREADLE_INT8, TREADLE_UINT64) | \
	 TREADLE_TYPES(TREADLE_INT128, TREADLE_UINT128))
#define TREADLE_TYPES_REAL \
	(TREADLE_TYPES_INT | 1U << TREADLE_FLOAT | 1U << TREADLE_DOUBLE | 1U << TREADLE_LONG_DOUBLE)
#define TREADLE_TYPES_FP  TREADLE_TYPES(TREADLE_FLOAT, TREADLE_LONG_DOUBLE_COMPLEX)
#define TREADLE_TYPES_ALL TREADLE_TYPES(TREADLE_INT8, TREADLE_UINT128)

/* Bytes of an element; 0: there is no such type. */
static inline __u32 treadle_type_size(__u32 type)
{
	static const __u8 size[TREADLE_DATATYPES] = {1, 1, 2, 2,  4,  4,  8,  8,
						     4, 8, 8, 16, 16, 32, 16, 16};

	return type < TREADLE_DATATYPES ? size[type] : 0;
}

/*
 * The alignment of a remote element in bytes, that of the type in C on x86-64. An address that is
 * not aligned completes with EINVAL. Local operands need no alignment.
 */
static inline __u32 treadle_type_align(__u32 type)
{
	static const __u8 align[TREADLE_DATATYPES] = {1, 1, 2, 2, 4,  4,  8,  8,
						      4, 8, 4, 8, 16, 16, 16, 16};

	return type < TREADLE_DATATYPES ? align[type] : 1;
}

/* A bit for each type that the operation is defined for. Complex numbers have no order. */
static inline __u32 treadle_atomic_types(__u32 op)
{
	switch (op) {
	case TREADLE_ATOMIC_MIN:
	case TREADLE_ATOMIC_MAX:
	case TREADLE_ATOMIC_CSWAP_LE:
	case TREADLE_ATOMIC_CSWAP_LT:
	case TREADLE_ATOMIC_CSWAP_GE:
	case TREADLE_ATOMIC_CSWAP_GT:
		return TREADLE_TYPES_REAL;
	case TREADLE_ATOMIC_BOR:
	case TREADLE_ATOMIC_BAND:
	case TREADLE_ATOMIC_BXOR:
	case TREADLE_ATOMIC_MSWAP:
		return TREADLE_TYPES_INT;
	default:
		return op < TREADLE_ATOMIC_OPS ? TREADLE_TYPES_ALL : 0;
	}
}

#endif /* UAPI_TREADLE_ATOMIC_H */
