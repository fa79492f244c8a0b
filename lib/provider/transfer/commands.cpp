// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/commands.h"

namespace treadle::fi
{

namespace
{

/* The command without context and flags. */
Command unflagged(const Message &m) noexcept
{
	const auto *from = reinterpret_cast<const void *>(m.addr);
	auto *to = reinterpret_cast<void *>(m.addr);

	switch (m.opcode) {
	case TREADLE_OP_SEND:
		return Command::send(from, m.len, m.peer);
	case TREADLE_OP_TSEND:
		return Command::send_tagged(from, m.len, m.peer, m.tag);
	case TREADLE_OP_READ:
		return Command::read(to, m.len, m.peer, m.tag, m.ignore);
	case TREADLE_OP_WRITE:
		return Command::write(from, m.len, m.peer, m.tag, m.ignore);
	case TREADLE_OP_RECV:
		return Command::receive(to, m.len, m.peer);
	default:
		return Command::receive_tagged(to, m.len, m.tag, m.ignore, m.peer);
	}
}

} // namespace

Command command_of(const Message &m) noexcept
{
	Command command = unflagged(m);

	if (m.flags & TREADLE_F_REMOTE_CQ_DATA)
		command.data(m.data);
	if (m.flags & TREADLE_F_MULTI_RECV)
		command.several(m.data);
	return command.context(m.context).flags(m.flags);
}

} // namespace treadle::fi
