// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_INSTRUCTIONS_H
#define TREADLE_PROVIDER_INSTRUCTIONS_H

#include <atomic>
#include <cstdint>
#include <cstring>

#include <treadle/atomic.h>
#include <treadle/ring.h>

/* Atomics that the processor executes on one word. */

namespace treadle::fi
{

/* Is it one instruction of the processor, on one word, with all that the kernel promises? */
constexpr bool is_instruction(std::uint8_t opcode, treadle_atomic_op op) noexcept
{
	switch (op) {
	case TREADLE_ATOMIC_SUM:
	case TREADLE_ATOMIC_BOR:
	case TREADLE_ATOMIC_BAND:
	case TREADLE_ATOMIC_BXOR:
	case TREADLE_ATOMIC_WRITE:
		return opcode != TREADLE_OP_COMPARE;
	case TREADLE_ATOMIC_READ:
		return opcode == TREADLE_OP_FETCH;
	case TREADLE_ATOMIC_CSWAP:
		return opcode == TREADLE_OP_COMPARE;
	default:
		return false;
	}
}

template <class T> T value_at(std::uint64_t from) noexcept
{
	T value;

	std::memcpy(&value, reinterpret_cast<const void *>(from), sizeof(value));
	return value;
}

/* Returns the value before. Signed numbers wrap as unsigned ones do. */
template <class T>
[[gnu::always_inline]] inline T apply(std::atomic_ref<T> word, treadle_atomic_op op,
				      std::uint64_t operand, std::uint64_t compare) noexcept
{
	switch (op) {
	case TREADLE_ATOMIC_SUM:
		return word.fetch_add(value_at<T>(operand));
	case TREADLE_ATOMIC_BOR:
		return word.fetch_or(value_at<T>(operand));
	case TREADLE_ATOMIC_BAND:
		return word.fetch_and(value_at<T>(operand));
	case TREADLE_ATOMIC_BXOR:
		return word.fetch_xor(value_at<T>(operand));
	case TREADLE_ATOMIC_WRITE:
		return word.exchange(value_at<T>(operand));
	case TREADLE_ATOMIC_CSWAP: {
		T before = value_at<T>(compare);
		word.compare_exchange_strong(before, value_at<T>(operand));
		return before;
	}
	default:
		return word.load();
	}
}

} // namespace treadle::fi

#endif
