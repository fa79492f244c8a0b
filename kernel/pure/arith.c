// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: arithmetic of integers
 *
 * All types are widened to 128 bits, and results are truncated to the type. Sums and products wrap.
 */
#include "pure/arith.h"

static bool is_signed(u8 type)
{
	return type == TREADLE_INT8 || type == TREADLE_INT16 || type == TREADLE_INT32 ||
	       type == TREADLE_INT64 || type == TREADLE_INT128;
}

static unsigned __int128 widen(u8 type, const void *from)
{
	union treadle_element value;

	memcpy(&value, from, treadle_type_size(type));
	switch (type) {
	case TREADLE_INT8:
		return (s8)value.b1;
	case TREADLE_UINT8:
		return value.b1;
	case TREADLE_INT16:
		return (s16)value.b2;
	case TREADLE_UINT16:
		return value.b2;
	case TREADLE_INT32:
		return (s32)value.b4;
	case TREADLE_UINT32:
		return value.b4;
	case TREADLE_INT64:
		return (s64)value.b8;
	case TREADLE_UINT64:
		return value.b8;
	default:
		return (unsigned __int128)value.b16[1] << 64 | value.b16[0];
	}
}

static void narrow(void *to, u8 type, unsigned __int128 wide)
{
	union treadle_element value;

	switch (treadle_type_size(type)) {
	case 1:
		value.b1 = wide;
		break;
	case 2:
		value.b2 = wide;
		break;
	case 4:
		value.b4 = wide;
		break;
	case 8:
		value.b8 = wide;
		break;
	default:
		value.b16[0] = wide;
		value.b16[1] = wide >> 64;
	}
	memcpy(to, &value, treadle_type_size(type));
}

static bool less(u8 type, unsigned __int128 a, unsigned __int128 b)
{
	return is_signed(type) ? (__int128)a < (__int128)b : a < b;
}

/**
 * treadle_compute_int() - apply an atomic operation to an integer
 * @op:      enum treadle_atomic_op
 * @type:    datatype, an integer
 * @value:   current value; replaced by the result
 * @operand: not read by TREADLE_ATOMIC_READ
 * @compare: read from TREADLE_ATOMIC_CSWAP on
 *
 * Context: any.
 * Return: false if the value stays as it is.
 */
bool treadle_compute_int(u8 op, u8 type, void *value, const void *operand, const void *compare)
{
	unsigned __int128 was = widen(type, value);
	unsigned __int128 with = op == TREADLE_ATOMIC_READ ? 0 : widen(type, operand), to = with;
	unsigned __int128 than = op >= TREADLE_ATOMIC_CSWAP ? widen(type, compare) : 0;
	bool changes = true;

	switch (op) {
	case TREADLE_ATOMIC_MIN:
		changes = less(type, with, was);
		break;
	case TREADLE_ATOMIC_MAX:
		changes = less(type, was, with);
		break;
	case TREADLE_ATOMIC_SUM:
		to = was + with;
		break;
	case TREADLE_ATOMIC_PROD:
		to = was * with;
		break;
	case TREADLE_ATOMIC_LOR:
		to = was || with;
		break;
	case TREADLE_ATOMIC_LAND:
		to = was && with;
		break;
	case TREADLE_ATOMIC_BOR:
		to = was | with;
		break;
	case TREADLE_ATOMIC_BAND:
		to = was & with;
		break;
	case TREADLE_ATOMIC_LXOR:
		to = !was != !with;
		break;
	case TREADLE_ATOMIC_BXOR:
		to = was ^ with;
		break;
	case TREADLE_ATOMIC_WRITE:
		break;
	case TREADLE_ATOMIC_CSWAP:
		changes = than == was;
		break;
	case TREADLE_ATOMIC_CSWAP_NE:
		changes = than != was;
		break;
	case TREADLE_ATOMIC_CSWAP_LE:
		changes = !less(type, was, than);
		break;
	case TREADLE_ATOMIC_CSWAP_LT:
		changes = less(type, than, was);
		break;
	case TREADLE_ATOMIC_CSWAP_GE:
		changes = !less(type, than, was);
		break;
	case TREADLE_ATOMIC_CSWAP_GT:
		changes = less(type, was, than);
		break;
	case TREADLE_ATOMIC_MSWAP:
		to = (with & than) | (was & ~than);
		break;
	default: /* READ */
		changes = false;
	}
	if (changes)
		narrow(value, type, to);
	return changes;
}
