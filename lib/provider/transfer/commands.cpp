// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/commands.h"

namespace treadle::fi
{

Command command_of(const Message &m) noexcept
{
	const auto *from = reinterpret_cast<const void *>(m.addr);
	auto *to = reinterpret_cast<void *>(m.addr);
	Command command = m.opcode == TREADLE_OP_SEND ?
				  Command::send(from, m.len, m.peer) :
			  m.opcode == TREADLE_OP_TSEND ?
				  Command::send_tagged(from, m.len, m.peer, m.tag) :
			  m.opcode == TREADLE_OP_READ ?
				  Command::read(to, m.len, m.peer, m.tag, m.ignore) :
			  m.opcode == TREADLE_OP_WRITE ?
				  Command::write(from, m.len, m.peer, m.tag, m.ignore) :
			  m.opcode == TREADLE_OP_RECV ?
				  Command::receive(to, m.len, m.peer) :
				  Command::receive_tagged(to, m.len, m.tag, m.ignore, m.peer);

	if (m.flags & TREADLE_F_REMOTE_CQ_DATA)
		command.data(m.data);
	if (m.flags & TREADLE_F_MULTI_RECV)
		command.several(m.data);
	return command.context(m.context).flags(m.flags);
}

} // namespace treadle::fi
