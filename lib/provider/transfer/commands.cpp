// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/commands.h"

#include "base/results.h"

namespace treadle::fi
{

namespace
{

/* The command without context and flags. */
Command unflagged(const Message &m) noexcept
{
	const auto buffer = bytes_of(reinterpret_cast<void *>(m.addr), m.len);
	const Peer peer{m.peer};
	const Remote place{.addr = m.tag, .key = m.ignore};

	switch (m.opcode) {
	case TREADLE_OP_SEND:
		return Command::send(buffer, peer);
	case TREADLE_OP_TSEND:
		return Command::send_tagged(buffer, peer, m.tag);
	case TREADLE_OP_READ:
		return Command::read(buffer, peer, place);
	case TREADLE_OP_WRITE:
		return Command::write(buffer, peer, place);
	case TREADLE_OP_RECV:
		return Command::receive(buffer, peer);
	default:
		return Command::receive_tagged(buffer, m.tag, m.ignore, peer);
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
