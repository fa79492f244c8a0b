// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_CAPS_H
#define TREADLE_PROVIDER_CAPS_H

#include <cstdint>

#include <rdma/fabric.h>
#include <rdma/fi_trigger.h>

/* Capabilities and operation flags, by direction. */
namespace treadle::fi
{

/* Kinds of transfers, and the side that starts them. */
inline constexpr std::uint64_t transfer_caps =
	FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_COLLECTIVE;
inline constexpr std::uint64_t tx_directions = FI_SEND | FI_READ | FI_WRITE;
inline constexpr std::uint64_t rx_directions = FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;

/* Those of messages, and those of access to a peer's memory. */
inline constexpr std::uint64_t message_caps = FI_MSG | FI_TAGGED | FI_COLLECTIVE;
inline constexpr std::uint64_t message_directions = FI_SEND | FI_RECV;
inline constexpr std::uint64_t memory_caps = FI_RMA | FI_ATOMIC;
inline constexpr std::uint64_t memory_directions =
	(tx_directions | rx_directions) & ~message_directions;

/* Capabilities for transmitting, and for receiving: fi_endpoint(3). */
inline constexpr std::uint64_t tx_caps =
	transfer_caps | tx_directions | FI_TRIGGER | FI_XPU_TRIGGER | FI_FENCE | FI_NAMED_RX_CTX;
inline constexpr std::uint64_t rx_caps = transfer_caps | rx_directions | FI_TRIGGER |
					 FI_XPU_TRIGGER | FI_DIRECTED_RECV | FI_SOURCE |
					 FI_SOURCE_ERR | FI_MULTI_RECV | FI_RMA_EVENT;

/*
 * Flags that may be defaults of an endpoint or alias. Not FI_MORE: no operation would ever start.
 */
inline constexpr std::uint64_t completion_levels =
	FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
inline constexpr std::uint64_t tx_op_flags =
	FI_COMPLETION | FI_INJECT | FI_TRIGGER | FI_FENCE | completion_levels;
inline constexpr std::uint64_t rx_op_flags =
	FI_COMPLETION | FI_TRIGGER | FI_MULTI_RECV | completion_levels;

/* Adds both directions if none is named. */
std::uint64_t with_directions(std::uint64_t caps) noexcept;
/*
 * The part of caps that a context asks for; 0 asks for nothing. If it asks only for directions: all
 * transfers in them.
 */
std::uint64_t narrowed(std::uint64_t caps, std::uint64_t context) noexcept;

} // namespace treadle::fi

#endif
