// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The armed commands of a context as a graph, for dot(1). */
#include "chain.h"

namespace ctl
{

std::string draw(const Picture &p, const std::string &prefix)
{
	const auto name = [&](const char *kind, auto... numbers) {
		std::string id = "\"" + prefix + "_" + kind;
		((id += "_" + std::to_string(numbers)), ...);
		return id + "\"";
	};
	const auto edge = [](const std::string &from, const std::string &to,
			     const std::string &label) {
		return "\t" + from + " -> " + to +
		       (label.empty() ? "" : " [label=\"" + label + "\"]") + ";\n";
	};
	std::string out;
	std::size_t n = 0;

	for (const auto &[id, counter] : p.counters)
		out += "\t" + name("c", id) + " [label=\"counter " + std::to_string(id) + "\\n" +
		       std::to_string(counter.sum()) + "\"" +
		       (feeders(p, id).empty() ? ", color=red" : "") + "];\n";
	for (const Armed &a : p.armed) {
		const std::string command = name("a", n++), cell = name("k", a.cond, a.at);

		out += "\t" + command + " [shape=box, label=\"" + what_is(a) + "\"];\n";
		if (a.cell)
			out += "\t" + cell + " [shape=diamond, color=red, label=\"cell\\n" +
			       std::to_string(a.at) + "\"];\n" +
			       edge(cell, command, "is " + std::to_string(a.wants));
		else
			out += edge(name("c", a.cond), command, "at " + std::to_string(a.at));
		for (const Id id : counts_into(p, a))
			out += edge(command, name("c", id), "");
	}
	return out;
}

} // namespace ctl
