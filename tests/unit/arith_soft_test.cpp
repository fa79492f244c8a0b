// SPDX-License-Identifier: GPL-2.0
/* Arithmetic of real and complex numbers in integers, compared with that of the compiler. */
#include <array>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

extern "C" {
#include "pure/arith.h"
}

namespace
{

/* long double as arm64 has it: the compiler's own functions compute with it. */
using Quad = __float128;

template <class T> struct Complex {
	T re, im;
};

template <class T, class Bits, int Exp, int Frac, int Real, int Complex> struct Format {
	using Value = T;
	using Word = Bits;
	static constexpr int exp = Exp, frac = Frac, real = Real, complex = Complex;
};

using Formats = testing::Types<
	Format<float, std::uint32_t, 8, 23, TREADLE_FLOAT, TREADLE_FLOAT_COMPLEX>,
	Format<double, std::uint64_t, 11, 52, TREADLE_DOUBLE, TREADLE_DOUBLE_COMPLEX>,
	Format<Quad, unsigned __int128, 15, 112, TREADLE_LONG_DOUBLE, TREADLE_LONG_DOUBLE_COMPLEX>>;

template <class F> class Soft : public testing::Test
{
public:
	using T = typename F::Value;
	using Word = typename F::Word;

	/*
	 * Numbers that exercise rounding: few bits set or clear, exponents near each other or the
	 * ends.
	 */
	Word some()
	{
		const auto r = [this](int n) { return static_cast<int>(random_() % n); };
		constexpr Word one = 1, ones = (one << F::frac) - 1;
		constexpr int most = (1 << F::exp) - 1, middle = most / 2;
		Word frac = (Word(random_()) << (F::frac / 2) ^ random_()) & ones;
		int exp = r(most + 1);

		switch (r(6)) {
		case 0:
			frac = 0;
			break;
		case 1:
			frac = ones;
			break;
		case 2:
			frac = one << r(F::frac);
			break;
		case 3:
			frac = ones ^ one << r(F::frac);
			break;
		case 4:
			frac &= ones << r(F::frac);
			break;
		default:
			break;
		}
		switch (r(6)) {
		case 0:
			exp = r(3);
			break;
		case 1:
			exp = most - r(3);
			break;
		case 2: /* the product of two is at the end of the normal range */
			exp = middle / 2 + r(F::frac + 2);
			break;
		case 3:
		case 4:
			exp = middle + r(2 * F::frac) - F::frac;
			break;
		default:
			break;
		}
		return Word(r(2)) << (F::exp + F::frac) | Word(exp) << F::frac | frac;
	}

	static bool identical(T a, T b)
	{
		return (a != a && b != b) || std::memcmp(&a, &b, sizeof(T)) == 0;
	}

	/* The module's result. */
	template <class V>
	static V soft(int op, int type, const V &was, const V &with, const V &than)
	{
		/* operands need no alignment */
		alignas(16) char at[sizeof(V)], operand[sizeof(V) + 1], compare[sizeof(V) + 3];
		V now;

		EXPECT_EQ(treadle_type_size(type), sizeof(V));
		std::memcpy(at, &was, sizeof(V));
		std::memcpy(operand + 1, &with, sizeof(V));
		std::memcpy(compare + 3, &than, sizeof(V));
		const bool changes =
			treadle_compute_soft(op, type, at,
					     op == TREADLE_ATOMIC_READ ? nullptr : operand + 1,
					     op >= TREADLE_ATOMIC_CSWAP ? compare + 3 : nullptr);
		EXPECT_TRUE(changes || std::memcmp(at, &was, sizeof(V)) == 0);
		std::memcpy(&now, at, sizeof(V));
		return now;
	}

	static T expected(int op, T was, T with, T than)
	{
		switch (op) {
		case TREADLE_ATOMIC_MIN:
			return with < was ? with : was;
		case TREADLE_ATOMIC_MAX:
			return with > was ? with : was;
		case TREADLE_ATOMIC_SUM:
			return was + with;
		case TREADLE_ATOMIC_PROD:
			return was * with;
		case TREADLE_ATOMIC_LOR:
			return was != 0 || with != 0;
		case TREADLE_ATOMIC_LAND:
			return was != 0 && with != 0;
		case TREADLE_ATOMIC_LXOR:
			return (was != 0) != (with != 0);
		case TREADLE_ATOMIC_WRITE:
			return with;
		case TREADLE_ATOMIC_CSWAP:
			return than == was ? with : was;
		case TREADLE_ATOMIC_CSWAP_NE:
			return than != was ? with : was;
		case TREADLE_ATOMIC_CSWAP_LE:
			return than <= was ? with : was;
		case TREADLE_ATOMIC_CSWAP_LT:
			return than < was ? with : was;
		case TREADLE_ATOMIC_CSWAP_GE:
			return than >= was ? with : was;
		case TREADLE_ATOMIC_CSWAP_GT:
			return than > was ? with : was;
		default:
			return was;
		}
	}

	static Complex<T> expected(int op, Complex<T> a, Complex<T> b, Complex<T> than)
	{
		const bool is_a = a.re != 0 || a.im != 0, is_b = b.re != 0 || b.im != 0;
		const bool same = than.re == a.re && than.im == a.im;

		switch (op) {
		case TREADLE_ATOMIC_SUM:
			return {a.re + b.re, a.im + b.im};
		case TREADLE_ATOMIC_PROD:
			return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
		case TREADLE_ATOMIC_LOR:
			return {T(is_a || is_b), 0};
		case TREADLE_ATOMIC_LAND:
			return {T(is_a && is_b), 0};
		case TREADLE_ATOMIC_LXOR:
			return {T(is_a != is_b), 0};
		case TREADLE_ATOMIC_WRITE:
			return b;
		case TREADLE_ATOMIC_CSWAP:
			return same ? b : a;
		case TREADLE_ATOMIC_CSWAP_NE:
			return same ? a : b;
		default:
			return a;
		}
	}

	static void check(int op, T was, T with, T than)
	{
		ASSERT_TRUE(identical(soft(op, F::real, was, with, than),
				      expected(op, was, with, than)))
			<< "operation " << op << ": " << static_cast<double>(was) << ", "
			<< static_cast<double>(with) << ", " << static_cast<double>(than);
	}

	static void check(int op, Complex<T> was, Complex<T> with, Complex<T> than)
	{
		const Complex<T> now = soft(op, F::complex, was, with, than);
		const Complex<T> wanted = expected(op, was, with, than);

		ASSERT_TRUE(identical(now.re, wanted.re) && identical(now.im, wanted.im))
			<< "operation " << op;
	}

private:
	std::mt19937_64 random_{1};
};
TYPED_TEST_SUITE(Soft, Formats);

TYPED_TEST(Soft, EveryOperationIsThatOfTheCompiler)
{
	using T = typename TypeParam::Value;
	constexpr int chosen = 400;
	std::vector<T> values;

	for (int i = 0; i < chosen; ++i)
		values.push_back(std::bit_cast<T>(this->some()));
	for (int op = 0; op < TREADLE_ATOMIC_OPS; ++op) {
		const auto types = treadle_atomic_types(op);

		for (std::size_t i = 0; i < values.size(); ++i) {
			for (std::size_t j = 0; j < values.size(); ++j) {
				const T a = values[i], b = values[j];
				const T c = values[(i + j) % chosen],
					d = values[(7 * i + j) % chosen];

				/* sometimes the comparand is equal */
				if (types >> TypeParam::real & 1)
					this->check(op, a, b, i % 3 ? c : a);
				if (types >> TypeParam::complex & 1)
					this->check(op, Complex<T>{a, b}, Complex<T>{c, d},
						    i % 3 ? Complex<T>{d, c} : Complex<T>{a, b});
				if (this->HasFatalFailure())
					return;
			}
		}
	}
}

TYPED_TEST(Soft, SumsAndProductsAreRoundedToTheNearest)
{
	using T = typename TypeParam::Value;

	for (int i = 0; i < 1000000; ++i) {
		const auto a = std::bit_cast<T>(this->some()), b = std::bit_cast<T>(this->some());

		this->check(TREADLE_ATOMIC_SUM, a, b, a);
		this->check(TREADLE_ATOMIC_PROD, a, b, a);
		if (this->HasFatalFailure())
			return;
	}
}

/* A NaN stays one, that of the operand, and raises no exception in later operations. */
TYPED_TEST(Soft, NansAreQuiet)
{
	using Word = typename TypeParam::Word;
	using T = typename TypeParam::Value;
	constexpr Word infinity = ((Word(1) << TypeParam::exp) - 1) << TypeParam::frac;
	constexpr Word quiet = Word(1) << (TypeParam::frac - 1);
	const auto result = [this](int op, Word a, Word b) {
		return std::bit_cast<Word>(this->soft(op, TypeParam::real, std::bit_cast<T>(a),
						      std::bit_cast<T>(b), T(0)));
	};

	for (const int op : {TREADLE_ATOMIC_SUM, TREADLE_ATOMIC_PROD}) {
		EXPECT_TRUE(result(op, infinity | 5, 7) == (infinity | quiet | 5));
		EXPECT_TRUE(result(op, 7, infinity | quiet | 6) == (infinity | quiet | 6));
	}
	EXPECT_TRUE(result(TREADLE_ATOMIC_PROD, 0, infinity) == (infinity | quiet));
	EXPECT_TRUE(result(TREADLE_ATOMIC_WRITE, 0, infinity | 5) == (infinity | 5));
}

} // namespace
