// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_DESC_FLAGS_H
#define TREADLE_PROVIDER_DESC_FLAGS_H

#include <cstdint>

#include <treadle/ring.h>

#include "info/caps.h"

/* Flags of an operation, and what they are in a descriptor. */
namespace treadle::fi
{

constexpr bool is_atomic(std::uint8_t opcode) noexcept
{
	return opcode == TREADLE_OP_ATOMIC || opcode == TREADLE_OP_FETCH ||
	       opcode == TREADLE_OP_COMPARE;
}

/* Flags that a call may have besides the defaults of its endpoint. */
constexpr std::uint64_t transmit_flags(std::uint8_t opcode) noexcept
{
	return tx_op_flags | FI_MORE | (is_atomic(opcode) ? 0 : FI_REMOTE_CQ_DATA);
}
inline constexpr std::uint64_t peek_flags = FI_PEEK | FI_CLAIM | FI_DISCARD;
constexpr std::uint64_t receive_flags(std::uint8_t opcode) noexcept
{
	return (rx_op_flags & ~FI_MULTI_RECV) | FI_MORE |
	       (opcode == TREADLE_OP_RECV ? FI_MULTI_RECV : peek_flags);
}

/* Rare flags of an operation as descriptor flags. */
constexpr std::uint32_t rare_desc_flags_of(std::uint64_t flags) noexcept
{
	const auto when = [flags](std::uint64_t flag, std::uint32_t desc_flag) {
		return flags & flag ? desc_flag : 0;
	};

	/* FI_INJECT: the doorbell copies the buffer, so it can't be put off */
	return (flags & FI_INJECT ? 0 : when(FI_MORE, TREADLE_F_MORE)) |
	       when(FI_FENCE, TREADLE_F_FENCE) | when(FI_REMOTE_CQ_DATA, TREADLE_F_REMOTE_CQ_DATA) |
	       when(FI_MATCH_COMPLETE, TREADLE_F_DELIVERY_COMPLETE) |
	       when(FI_MULTI_RECV, TREADLE_F_MULTI_RECV) | when(FI_PEEK, TREADLE_F_PEEK) |
	       when(FI_CLAIM, TREADLE_F_CLAIM) | when(FI_DISCARD, TREADLE_F_DISCARD);
}

/* Flags of an operation as descriptor flags: one shift for each usual flag. */
constexpr std::uint32_t desc_flags_of(std::uint64_t flags) noexcept
{
	constexpr std::uint64_t usual = FI_COMPLETION | FI_INJECT | FI_DELIVERY_COMPLETE;
	constexpr std::uint64_t silent = FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;
	const auto when = [flags](std::uint64_t flag, std::uint32_t desc_flag) {
		return static_cast<std::uint32_t>((flags & flag) / (flag / desc_flag));
	};
	const std::uint32_t desc_flags = when(FI_COMPLETION, TREADLE_F_COMPLETION) |
					 when(FI_INJECT, TREADLE_F_INJECT) |
					 when(FI_DELIVERY_COMPLETE, TREADLE_F_DELIVERY_COMPLETE);

	if (!(flags & ~(usual | silent))) [[likely]]
		return desc_flags;
	return desc_flags | rare_desc_flags_of(flags);
}

/* The flags that have a meaning for the operation: a read is never injected. */
constexpr std::uint64_t flags_for(std::uint8_t opcode, std::uint64_t flags) noexcept
{
	return opcode == TREADLE_OP_READ ? flags & ~(FI_INJECT | FI_REMOTE_CQ_DATA) : flags;
}

} // namespace treadle::fi

#endif
