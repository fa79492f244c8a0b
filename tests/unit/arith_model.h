// SPDX-License-Identifier: GPL-2.0
#ifndef TREADLE_TESTS_UNIT_ARITH_MODEL_H
#define TREADLE_TESTS_UNIT_ARITH_MODEL_H

/* The results of atomic operations, in plain C++. */

#include <cmath>
#include <complex>
#include <cstdlib>
#include <limits>
#include <type_traits>

extern "C" {
#include "pure/arith.h"
}

template <class T> struct IsComplex : std::false_type {
};
template <class T> struct IsComplex<std::complex<T>> : std::true_type {
};
template <class T> constexpr bool is_integer = std::numeric_limits<T>::is_integer;

template <class T> struct Unsigned {
	using type = std::make_unsigned_t<T>;
};
template <> struct Unsigned<__int128> {
	using type = unsigned __int128;
};
template <> struct Unsigned<unsigned __int128> {
	using type = unsigned __int128;
};

inline treadle_compute_fn *compute_of(int type)
{
	return TREADLE_TYPES_FP >> type & 1 ? treadle_compute_fp : treadle_compute_int;
}

/* Operations that need no order, then those that do. */
template <class T> T expected(int op, T was, T with, T than)
{
	const bool a = was != T(0), b = with != T(0);

	switch (op) {
	case TREADLE_ATOMIC_SUM:
		if constexpr (is_integer<T>)
			return static_cast<T>(typename Unsigned<T>::type(was) +
					      typename Unsigned<T>::type(with));
		else
			return was + with;
	case TREADLE_ATOMIC_PROD:
		if constexpr (IsComplex<T>::value)
			return T(was.real() * with.real() - was.imag() * with.imag(),
				 was.real() * with.imag() + was.imag() * with.real());
		else if constexpr (is_integer<T>)
			return static_cast<T>((unsigned __int128)was * (unsigned __int128)with);
		else
			return was * with;
	case TREADLE_ATOMIC_LOR:
		return T(a || b);
	case TREADLE_ATOMIC_LAND:
		return T(a && b);
	case TREADLE_ATOMIC_LXOR:
		return T((a && !b) || (!a && b));
	case TREADLE_ATOMIC_READ:
		return was;
	case TREADLE_ATOMIC_WRITE:
		return with;
	case TREADLE_ATOMIC_CSWAP:
		return than == was ? with : was;
	case TREADLE_ATOMIC_CSWAP_NE:
		return than != was ? with : was;
	default:
		break;
	}
	if constexpr (!IsComplex<T>::value) {
		switch (op) {
		case TREADLE_ATOMIC_MIN:
			return with < was ? with : was;
		case TREADLE_ATOMIC_MAX:
			return with > was ? with : was;
		case TREADLE_ATOMIC_CSWAP_LE:
			return than <= was ? with : was;
		case TREADLE_ATOMIC_CSWAP_LT:
			return than < was ? with : was;
		case TREADLE_ATOMIC_CSWAP_GE:
			return than >= was ? with : was;
		case TREADLE_ATOMIC_CSWAP_GT:
			return than > was ? with : was;
		default:
			break;
		}
	}
	if constexpr (is_integer<T>) {
		switch (op) {
		case TREADLE_ATOMIC_BOR:
			return static_cast<T>(was | with);
		case TREADLE_ATOMIC_BAND:
			return static_cast<T>(was & with);
		case TREADLE_ATOMIC_BXOR:
			return static_cast<T>(was ^ with);
		case TREADLE_ATOMIC_MSWAP:
			return static_cast<T>((with & than) | (was & ~than));
		default:
			break;
		}
	}
	std::abort(); /* not defined */
}

template <class R> bool identical(R a, R b) requires(!IsComplex<R>::value)
{
	if constexpr (std::is_floating_point_v<R>)
		return (std::isnan(a) && std::isnan(b)) ||
		       (a == b && std::signbit(a) == std::signbit(b));
	else
		return a == b;
}
template <class R> bool identical(std::complex<R> a, std::complex<R> b)
{
	return identical(a.real(), b.real()) && identical(a.imag(), b.imag());
}

#endif
