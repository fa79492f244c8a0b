// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_COMMANDS_H
#define TREADLE_PROVIDER_COMMANDS_H

#include <cstdint>
#include <expected>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <treadle/command.h>
#include <treadle/message.h>

/* Operations as messages, and as commands. */
namespace treadle::fi
{

/* What RMA and atomics share. */
inline Message rma_message(std::uint8_t opcode, const void *buf, std::size_t len, fi_addr_t peer,
			   std::uint64_t addr, std::uint64_t key, const void *context) noexcept
{
	return {.opcode = opcode,
		.context = address_of(context),
		.addr = address_of(buf),
		.len = len,
		.peer = peer,
		.tag = addr,
		.ignore = key};
}

using CommandOrError = std::expected<Command, int>; /* int: -FI_errno */

/*
 * Make a command of a message or an atomic. Only a command can name its endpoint or have a
 * condition.
 */
Command command_of(const Message &message) noexcept;
Command command_of(const Message &message, const Atomic &atomic) noexcept;

/*
 * Make commands without flags of a call with a structure, or return an error (fi_rma.cpp,
 * fi_atomic.cpp).
 */
CommandOrError command_of(std::uint8_t opcode, const fi_msg_rma &msg) noexcept;
CommandOrError command_of(std::uint8_t opcode, const fi_msg_atomic &msg,
			  const fi_msg_fetch &results = {},
			  const fi_msg_compare &compares = {}) noexcept;

} // namespace treadle::fi

#endif
