// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: arithmetic of real and complex numbers, in integers
 *
 * IEEE 754 for machines other than x86-64: binary32, binary64 and, for long double, binary128;
 * rounded to nearest even, with subnormals. No state of the FPU is used, so any lock may be held.
 * The result of an operation on a NaN is that NaN, made quiet. Comparisons, and products of complex
 * numbers, are as in arith_fp.c.
 */
#include "pure/arith.h"

#if !defined(__KERNEL__) || !defined(__x86_64__)

typedef unsigned __int128 bits_t;

/* Number of bits of exponent and fraction; the sign bit is above them. */
struct format {
	u8 exp, frac;
};

/* A finite number: @m * 2^@e. The highest bit is at format.frac, except in subnormals and zero. */
struct number {
	bool negative;
	int e;
	bits_t m;
};

static bits_t one_bit(unsigned int n)
{
	return (bits_t)1 << n;
}

static int bias(const struct format *f)
{
	return (1 << (f->exp - 1)) - 1;
}

static bool sign(const struct format *f, bits_t a)
{
	return a >> (f->exp + f->frac) & 1;
}

static bits_t magnitude(const struct format *f, bits_t a)
{
	return a & (one_bit(f->exp + f->frac) - 1);
}

/* The magnitude of infinity: below that of any NaN, above that of any finite number. */
static bits_t infinity(const struct format *f)
{
	return (one_bit(f->exp) - 1) << f->frac;
}

static bool is_nan(const struct format *f, bits_t a)
{
	return magnitude(f, a) > infinity(f);
}

static bits_t quiet(const struct format *f, bits_t nan)
{
	return nan | one_bit(f->frac - 1);
}

/* @magnitude: exponent and fraction, no sign. */
static bits_t with_sign(const struct format *f, bool negative, bits_t magnitude)
{
	return (bits_t)negative << (f->exp + f->frac) | magnitude;
}

/* Number of significant bits. */
static unsigned int length(bits_t m)
{
	u64 high = m >> 64, low = m;

	if (high)
		return 128 - __builtin_clzll(high);
	return low ? 64 - __builtin_clzll(low) : 0;
}

static struct number unpack(const struct format *f, bits_t a)
{
	bits_t frac = a & (one_bit(f->frac) - 1);
	int exp = magnitude(f, a) >> f->frac;

	return (struct number){
		.negative = sign(f, a),
		.e = (exp ?: 1) - bias(f) - f->frac,
		.m = exp ? frac | one_bit(f->frac) : frac,
	};
}

/*
 * Round @n to the format. @more: the exact magnitude is larger, by less than the lowest bit of
 * @n.m; then @n.m has at least two bits more than the format.
 */
static bits_t pack(const struct format *f, struct number n, bool more)
{
	int lowest = 1 - bias(f) - f->frac, shift;
	bits_t half, rest, to;

	if (!n.m)
		return with_sign(f, n.negative, 0);
	/* exponent of the lowest bit that is kept; it is never below that of subnormals */
	if (lowest < n.e + (int)length(n.m) - f->frac - 1)
		lowest = n.e + (int)length(n.m) - f->frac - 1;
	shift = lowest - n.e;
	if (shift <= 0) {
		to = n.m << -shift;
	} else if (shift > 128) {
		to = 0;
	} else {
		half = one_bit(shift - 1);
		to = shift < 128 ? n.m >> shift : 0;
		rest = n.m & (half | (half - 1));
		if (rest > half || (rest == half && (more || to & 1)))
			to++;
	}
	/* the bit at format.frac counts as 1 in the exponent, as does a carry out of rounding */
	to += (bits_t)(lowest + bias(f) + f->frac - 1) << f->frac;
	return with_sign(f, n.negative, to < infinity(f) ? to : infinity(f));
}

/* The sum, rounded. inf - inf is a NaN; x - x is +0. */
static bits_t add(const struct format *f, bits_t a, bits_t b)
{
	struct number x = unpack(f, a), y = unpack(f, b), swap;
	bits_t lost = 0;
	int apart;

	if (is_nan(f, a) || is_nan(f, b))
		return quiet(f, is_nan(f, a) ? a : b);
	if (magnitude(f, a) == infinity(f) || magnitude(f, b) == infinity(f)) {
		if (magnitude(f, a) == magnitude(f, b) && a != b)
			return quiet(f, infinity(f));
		return magnitude(f, a) == infinity(f) ? a : b;
	}
	if (magnitude(f, a) < magnitude(f, b)) { /* x gets the larger magnitude */
		swap = x;
		x = y;
		y = swap;
	}
	/* 113 bits of the longest format, ten bits more for rounding, and one for a carry */
	x.m <<= 10;
	x.e -= 10;
	y.m <<= 10;
	apart = x.e - (y.e - 10);
	if (apart > 127) {
		lost = y.m;
		y.m = 0;
	} else {
		lost = y.m & (one_bit(apart) - 1);
		y.m >>= apart;
	}
	if (x.negative == y.negative) {
		x.m += y.m;
	} else {
		x.m -= y.m + !!lost; /* rounded down: pack() adds what is lost */
		x.negative = x.m && x.negative;
	}
	return pack(f, x, lost);
}

static bits_t multiply(const struct format *f, bits_t a, bits_t b)
{
	struct number x = unpack(f, a), y = unpack(f, b);
	bool negative = x.negative != y.negative;
	bits_t low, high, mid, cross[2];
	unsigned int n;

	if (is_nan(f, a) || is_nan(f, b))
		return quiet(f, is_nan(f, a) ? a : b);
	if (magnitude(f, a) == infinity(f) || magnitude(f, b) == infinity(f)) {
		if (!x.m || !y.m)
			return quiet(f, infinity(f));
		return with_sign(f, negative, infinity(f));
	}
	low = (bits_t)(u64)x.m * (u64)y.m;
	cross[0] = (bits_t)(u64)x.m * (u64)(y.m >> 64);
	cross[1] = (bits_t)(u64)(x.m >> 64) * (u64)y.m;
	mid = (low >> 64) + (u64)cross[0] + (u64)cross[1];
	high = (bits_t)(u64)(x.m >> 64) * (u64)(y.m >> 64) + (cross[0] >> 64) + (cross[1] >> 64) +
	       (mid >> 64);
	low = mid << 64 | (u64)low;
	x = (struct number){ .negative = negative, .e = x.e + y.e, .m = low };
	if (!high)
		return pack(f, x, false);
	n = length(high);
	x.m = high << (128 - n) | low >> n;
	x.e += n;
	return pack(f, x, low << (128 - n));
}

static bool less(const struct format *f, bits_t a, bits_t b)
{
	if (is_nan(f, a) || is_nan(f, b) || !(magnitude(f, a) | magnitude(f, b)))
		return false;
	if (sign(f, a) != sign(f, b))
		return sign(f, a);
	return sign(f, a) ? b < a : a < b;
}

static bool equal(const struct format *f, bits_t a, bits_t b)
{
	return !is_nan(f, a) && !is_nan(f, b) && (a == b || !(magnitude(f, a) | magnitude(f, b)));
}

/* A complex number; a real one has the imaginary part 0. */
struct value {
	bits_t re, im;
};

static bool is_true(const struct format *f, struct value z)
{
	return magnitude(f, z.re) || magnitude(f, z.im);
}

static bool same(const struct format *f, struct value a, struct value b)
{
	return equal(f, a.re, b.re) && equal(f, a.im, b.im);
}

static struct value truth(const struct format *f, bool is)
{
	return (struct value){ .re = is ? (bits_t)bias(f) << f->frac : 0 };
}

static struct value product(const struct format *f, bool complex, struct value a, struct value b)
{
	bits_t minus = with_sign(f, true, 0);

	if (!complex)
		return (struct value){ .re = multiply(f, a.re, b.re) };
	return (struct value){
		.re = add(f, multiply(f, a.re, b.re), multiply(f, a.im, b.im) ^ minus),
		.im = add(f, multiply(f, a.re, b.im), multiply(f, a.im, b.re)),
	};
}

/* Apply @op to *v. False: the element stays as it is, and *v is not used. */
static bool compute(const struct format *f, bool complex, u8 op, struct value *v, struct value with,
		    struct value than)
{
	struct value was = *v;

	*v = with;
	switch (op) {
	case TREADLE_ATOMIC_MIN:
		return less(f, with.re, was.re);
	case TREADLE_ATOMIC_MAX:
		return less(f, was.re, with.re);
	case TREADLE_ATOMIC_SUM:
		v->re = add(f, was.re, with.re);
		v->im = complex ? add(f, was.im, with.im) : 0;
		return true;
	case TREADLE_ATOMIC_PROD:
		*v = product(f, complex, was, with);
		return true;
	case TREADLE_ATOMIC_LOR:
		*v = truth(f, is_true(f, was) || is_true(f, with));
		return true;
	case TREADLE_ATOMIC_LAND:
		*v = truth(f, is_true(f, was) && is_true(f, with));
		return true;
	case TREADLE_ATOMIC_LXOR:
		*v = truth(f, is_true(f, was) != is_true(f, with));
		return true;
	case TREADLE_ATOMIC_WRITE:
		return true;
	case TREADLE_ATOMIC_CSWAP:
		return same(f, than, was);
	case TREADLE_ATOMIC_CSWAP_NE:
		return !same(f, than, was);
	case TREADLE_ATOMIC_CSWAP_LE:
		return less(f, than.re, was.re) || equal(f, than.re, was.re);
	case TREADLE_ATOMIC_CSWAP_LT:
		return less(f, than.re, was.re);
	case TREADLE_ATOMIC_CSWAP_GE:
		return less(f, was.re, than.re) || equal(f, than.re, was.re);
	case TREADLE_ATOMIC_CSWAP_GT:
		return less(f, was.re, than.re);
	default: /* READ */
		return false;
	}
}

static bits_t load(const void *from, u32 size)
{
	bits_t a = 0;
	u64 b8;
	u32 b4;

	switch (size) {
	case 4:
		memcpy(&b4, from, size);
		return b4;
	case 8:
		memcpy(&b8, from, size);
		return b8;
	default:
		memcpy(&a, from, size);
		return a;
	}
}

static void store(void *to, u32 size, bits_t a)
{
	u64 b8 = a;
	u32 b4 = a;

	if (size == sizeof(b4))
		memcpy(to, &b4, sizeof(b4));
	else if (size == sizeof(b8))
		memcpy(to, &b8, sizeof(b8));
	else
		memcpy(to, &a, size);
}

static struct value load_value(const void *from, u32 size, bool complex)
{
	return (struct value){ load(from, size), complex ? load(from + size, size) : 0 };
}

/**
 * treadle_compute_soft() - apply an atomic operation to a real or complex number
 * @op:      enum treadle_atomic_op
 * @type:    datatype in TREADLE_TYPES_FP
 * @value:   current value; replaced by the result
 * @operand: not read by TREADLE_ATOMIC_READ
 * @compare: read from TREADLE_ATOMIC_CSWAP on
 *
 * Context: any.
 * Return: false if the value stays as it is.
 */
bool treadle_compute_soft(u8 op, u8 type, void *value, const void *operand, const void *compare)
{
	static const struct format binary32 = { 8, 23 }, binary64 = { 11, 52 },
				   binary128 = { 15, 112 };
	bool complex = type == TREADLE_FLOAT_COMPLEX || type == TREADLE_DOUBLE_COMPLEX ||
		       type == TREADLE_LONG_DOUBLE_COMPLEX;
	u32 size = treadle_type_size(type) >> complex;
	const struct format *f = &binary128;
	struct value v = load_value(value, size, complex), with = {}, than = {};

	if (size == 4)
		f = &binary32;
	else if (size == 8)
		f = &binary64;
	/* operands that @op does not use may be invalid pointers */
	if (op != TREADLE_ATOMIC_READ)
		with = load_value(operand, size, complex);
	if (op >= TREADLE_ATOMIC_CSWAP)
		than = load_value(compare, size, complex);
	if (!compute(f, complex, op, &v, with, than))
		return false;
	store(value, size, v.re);
	if (complex)
		store(value + size, size, v.im);
	return true;
}

#endif
