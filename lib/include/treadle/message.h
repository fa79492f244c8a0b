// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_MESSAGE_H
#define TREADLE_MESSAGE_H

#include <cstdint>

#include <treadle/atomic.h>
#include <treadle/ring.h>

namespace treadle
{

/**
 * An ordinary send, receive, read or write: the first cache line of a struct treadle_desc, field by
 * field (see there). Only that line is written to the ring for it. Calls of the rings with spans
 * (send, receive, read, write) check more at compile time, and cost the same.
 *
 *	ring.post({.opcode = TREADLE_OP_SEND, .flags = TREADLE_F_COMPLETION, .context = 1,
 *		   .addr = address_of(data), .len = 8, .peer = std::to_underlying(peer)})
 *
 * flags must not have TREADLE_F_EXT: for a condition, a counter of its own or another endpoint use
 * a Command.
 */
struct Message {
	std::uint8_t opcode;
	std::uint32_t flags = 0;
	std::uint64_t context = 0;
	std::uint64_t addr = 0; /* address_of(buffer); ignored if an iov is posted with it */
	std::uint64_t len = 0;	/* bytes; the same */
	std::uint64_t peer = TREADLE_ADDR_ANY;
	std::uint64_t tag = 0;	  /* read, write: the remote address, of a range of len bytes */
	std::uint64_t ignore = 0; /* read, write: the key of the remote region */
	std::uint64_t data = 0;
};

/**
 * Turns a Message of TREADLE_OP_ATOMIC, FETCH or COMPARE into an atomic on remote memory:
 * fi_atomic(3). The message's buffer has the operands. TREADLE_ATOMIC_READ has no operands, but
 * uses the length.
 *
 *	ring.post({.opcode = TREADLE_OP_FETCH, .flags = TREADLE_F_COMPLETION,
 *		   .addr = address_of(&one), .len = 8, .peer = std::to_underlying(peer),
 *		   .tag = remote.addr, .ignore = remote.key},
 *		  Atomic(TREADLE_ATOMIC_SUM, TREADLE_UINT64, address_of(&before)))
 */
struct Atomic {
	constexpr Atomic(treadle_atomic_op operation, treadle_datatype datatype,
			 std::uint64_t results = 0, std::uint64_t comparands = 0) noexcept
		: op(operation), type(datatype), result(results), compare(comparands)
	{
	}

	treadle_atomic_op op;
	treadle_datatype type;
	std::uint64_t result;  /* FETCH, COMPARE: address_of(buffer), as long as the message */
	std::uint64_t compare; /* COMPARE: the same */
};

inline std::uint64_t address_of(const void *buffer) noexcept
{
	return reinterpret_cast<std::uintptr_t>(buffer);
}

/* The length of a vector of buffers, or of remote ranges, in bytes. */
template <class Vector> std::uint64_t total(const Vector &iov) noexcept
{
	std::uint64_t len = 0;

	for (const auto &buffer : iov)
		len += buffer.len;
	return len;
}

} // namespace treadle

#endif
