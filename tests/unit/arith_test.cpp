// SPDX-License-Identifier: GPL-2.0
/* fi_atomic(3): every operation on every type, compared with plain C++. */
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "arith_model.h"

namespace
{

template <class T, int Type> struct Kind {
	using Value = T;
	static constexpr int type = Type;
};

using Kinds =
	testing::Types<Kind<std::int8_t, TREADLE_INT8>, Kind<std::uint8_t, TREADLE_UINT8>,
		       Kind<std::int16_t, TREADLE_INT16>, Kind<std::uint16_t, TREADLE_UINT16>,
		       Kind<std::int32_t, TREADLE_INT32>, Kind<std::uint32_t, TREADLE_UINT32>,
		       Kind<std::int64_t, TREADLE_INT64>, Kind<std::uint64_t, TREADLE_UINT64>,
		       Kind<float, TREADLE_FLOAT>, Kind<double, TREADLE_DOUBLE>,
		       Kind<std::complex<float>, TREADLE_FLOAT_COMPLEX>,
		       Kind<std::complex<double>, TREADLE_DOUBLE_COMPLEX>,
		       Kind<long double, TREADLE_LONG_DOUBLE>,
		       Kind<std::complex<long double>, TREADLE_LONG_DOUBLE_COMPLEX>,
		       Kind<__int128, TREADLE_INT128>, Kind<unsigned __int128, TREADLE_UINT128>>;

template <class T> std::vector<T> samples()
{
	using L = std::numeric_limits<T>;

	if constexpr (is_integer<T>)
		return {T(0), T(1), T(2), T(-1), T(77), L::min(), L::max(), T(L::max() - 1)};
	else
		return {T(0),	      T(-0.0),	     T(1),	     T(-1.5),
			T(1) / 3,     L::min(),	     L::max(),	     L::denorm_min(),
			L::epsilon(), L::infinity(), -L::infinity(), L::quiet_NaN()};
}
template <class T>
requires IsComplex<T>::value std::vector<T> samples()
{
	std::vector<T> all;
	for (const auto re : samples<typename T::value_type>()) {
		for (const auto im : {0.0L, -2.0L, 1 / 3.0L})
			all.emplace_back(re, static_cast<typename T::value_type>(im));
	}
	return all;
}

template <class K> class Arith : public testing::Test
{
};
TYPED_TEST_SUITE(Arith, Kinds);

// conformance: fi_atomic(3): what each operation computes, for every datatype
TYPED_TEST(Arith, EveryOperationIsThatOfTheManual)
{
	using T = typename TypeParam::Value;
	constexpr int type = TypeParam::type;
	const auto values = samples<T>();
	int operations = 0;

	ASSERT_EQ(treadle_type_size(type), sizeof(T));
	for (int op = 0; op < TREADLE_ATOMIC_OPS; ++op) {
		if (!(treadle_atomic_types(op) >> type & 1))
			continue;
		++operations;
		for (const T &was : values) {
			for (const T &with : values) {
				for (const T &than : values) {
					/* Operands need no alignment. */
					alignas(16) char at[sizeof(T)], operand[sizeof(T) + 1],
						compare[sizeof(T) + 3];
					T now, before;
					u32 tries = 1;

					std::memcpy(at, &was, sizeof(T));
					std::memcpy(operand + 1, &with, sizeof(T));
					std::memcpy(compare + 3, &than, sizeof(T));
					if (sizeof(T) <= 16) {
						ASSERT_TRUE(treadle_update(
							compute_of(type), op, type, at, operand + 1,
							op >= TREADLE_ATOMIC_CSWAP ? compare + 3 :
										     nullptr,
							&tries));
						std::memcpy(&before, operand + 1, sizeof(T));
						ASSERT_TRUE(identical(before, was)) << op;
					} else {
						compute_of(type)(op, type, at, operand + 1,
								 compare + 3);
					}
					std::memcpy(&now, at, sizeof(T));
					ASSERT_TRUE(identical(now, expected(op, was, with, than)))
						<< "operation " << op;
				}
			}
		}
	}
	/* Complex numbers have no order, and only integers have bits. */
	EXPECT_EQ(operations, IsComplex<T>::value ? 9 : is_integer<T> ? 19 : 15);
}

/* Concurrently with instructions of the CPU. */
template <class T> void hammer(int type)
{
	constexpr int rounds = 20000;
	alignas(16) T word = 0;
	const auto add = [&] {
		for (int i = 0; i < rounds; ++i) {
			T one = 1;
			u32 tries;
			do
				tries = TREADLE_EXCHANGE_TRIES;
			while (!treadle_update(compute_of(type), TREADLE_ATOMIC_SUM, type, &word,
					       &one, nullptr, &tries));
		}
	};
	{
		std::jthread a(add), b(add);
		if constexpr (sizeof(T) <= 8 && is_integer<T>) {
			for (int i = 0; i < rounds; ++i)
				__atomic_fetch_add(&word, 1, __ATOMIC_RELAXED);
		} else {
			add();
		}
	}
	EXPECT_TRUE(word == static_cast<T>(3 * rounds)) << "type " << type;
}

TEST(Arith, WordsAreAtomic)
{
	hammer<std::uint8_t>(TREADLE_UINT8);
	hammer<std::int16_t>(TREADLE_INT16);
	hammer<std::uint32_t>(TREADLE_UINT32);
	hammer<std::int64_t>(TREADLE_INT64);
	hammer<float>(TREADLE_FLOAT);
	hammer<double>(TREADLE_DOUBLE);
	hammer<long double>(TREADLE_LONG_DOUBLE);
	hammer<unsigned __int128>(TREADLE_UINT128);
}

/* Parts of one word of 4 bytes, each changed by another thread. */
TEST(Arith, PartsOfAWordAreExchangedAlone)
{
	constexpr int rounds = 20000;
	alignas(4) std::uint8_t bytes[4] = {1, 2, 3, 4};
	const auto add = [&](int at, u32 size) {
		for (int i = 0; i < rounds; ++i) {
			treadle_element old{}, next{};
			do {
				next.b2 = static_cast<std::uint16_t>((size == 1 ? old.b1 : old.b2) +
								     1);
			} while (!treadle_exchange_part(bytes + at, size, &old, &next));
		}
	};
	{
		std::jthread a(add, 0, 1), b(add, 1, 1), c(add, 2, 2), d(add, 2, 2);
	}
	EXPECT_EQ(bytes[0], static_cast<std::uint8_t>(1 + rounds));
	EXPECT_EQ(bytes[1], static_cast<std::uint8_t>(2 + rounds));
	EXPECT_EQ(bytes[2] | bytes[3] << 8, static_cast<std::uint16_t>((3 | 4 << 8) + 2 * rounds));
}

std::uint32_t contended;

/* Simulates another thread that is faster each time. */
bool overtaken(u8, u8, void *value, const void *, const void *)
{
	++contended;
	*static_cast<std::uint32_t *>(value) = 0;
	return true;
}

TEST(Arith, GivesUpIfAnotherThreadIsFaster)
{
	std::uint32_t operand = 5;
	u32 tries = 3;

	contended = 10;
	EXPECT_FALSE(treadle_update(overtaken, TREADLE_ATOMIC_SUM, TREADLE_UINT32, &contended,
				    &operand, nullptr, &tries));
	EXPECT_EQ(tries, 0u);
	EXPECT_EQ(contended, 13u);
	EXPECT_EQ(operand, 5u);
}

TEST(Arith, WordsAreAlignedToTheirSize)
{
	alignas(32) char at[64];

	for (const unsigned int size : {1, 2, 4, 8, 16}) {
		EXPECT_TRUE(treadle_is_word(at + size, size, 16));
		EXPECT_EQ(treadle_is_word(at + size / 2, size, 16), size == 1);
	}
	EXPECT_FALSE(treadle_is_word(at, 16, 8));
	EXPECT_FALSE(treadle_is_word(at, 32, 16));
}

} // namespace
