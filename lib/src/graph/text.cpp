// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* A graph for readers and for Graphviz. */

#include <treadle/graph.h>

namespace treadle
{

namespace
{

const char *name_of(std::uint8_t opcode) noexcept
{
	static constexpr const char *names[TREADLE_OP_LAST] = {"nop",	  "send",     "tsend",
							       "recv",	  "trecv",    "read",
							       "write",	  "atomic",   "fetch",
							       "compare", "cntr_set", "cntr_add"};

	return opcode < TREADLE_OP_LAST ? names[opcode] : "?";
}

std::string label(const Command &command)
{
	const treadle_desc &d = command.desc();
	std::string out = name_of(d.opcode);

	if (d.len)
		out += ' ' + std::to_string(d.len) + " bytes";
	if (d.opcode != TREADLE_OP_NOP && !(d.flags & TREADLE_F_LOCAL))
		out += d.opcode == TREADLE_OP_RECV || d.opcode == TREADLE_OP_TRECV ? " from " :
										     " to ";
	else
		return out;
	return out + (d.peer == TREADLE_ADDR_ANY ? "any" : std::to_string(d.peer));
}

} // namespace

std::string Graph::text() const
{
	std::string out;

	for (Node n = 0; n < nodes_.size(); ++n) {
		out += std::to_string(n) + ": " + label(nodes_[n].command);
		for (const Node before : nodes_[n].after)
			out += (before == nodes_[n].after[0] ? ", after " : " ") +
			       std::to_string(before);
		out += '\n';
	}
	return out;
}

std::string Graph::graphviz() const
{
	std::string out = "digraph {\n";

	for (Node n = 0; n < nodes_.size(); ++n) {
		out += "\t" + std::to_string(n) + " [label=\"" + label(nodes_[n].command) + "\"]\n";
		for (const Node before : nodes_[n].after)
			out += "\t" + std::to_string(before) + " -> " + std::to_string(n) + "\n";
	}
	return out + "}\n";
}

} // namespace treadle
