// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The armed commands of a context as a graph. */
#include "chain.h"

namespace ctl
{

void draw(Graph &graph, const Picture &p, const std::string &prefix)
{
	const auto name = [&](const char *kind, auto... numbers) {
		std::string id = prefix + "_" + kind;
		((id += "_" + std::to_string(numbers)), ...);
		return id;
	};
	const auto counter = [&](Id id) {
		const auto at = p.counters.find(id);
		const std::string value =
			at == p.counters.end() ? "" : std::to_string(at->second.sum());
		return graph.add({name("c", id),
				  {"counter " + std::to_string(id), value},
				  Graph::Shape::oval,
				  at != p.counters.end() && feeders(p, id).empty()});
	};
	std::size_t n = 0;

	for (const auto &[id, value] : p.counters)
		counter(id);
	for (const Armed &a : p.armed) {
		const std::size_t command =
			graph.add({name("a", n++), {what_is(a)}, Graph::Shape::box, false});

		if (a.cell)
			graph.edges.push_back(
				{graph.add({name("k", a.cond, a.at),
					    {"cell", std::to_string(a.at)},
					    Graph::Shape::diamond,
					    true}),
				 command,
				 a.follows() ? "follows" : "is " + std::to_string(a.wants)});
		else
			graph.edges.push_back(
				{counter(a.cond), command, "at " + std::to_string(a.at)});
		for (const Id id : counts_into(p, a))
			graph.edges.push_back({command, counter(id), ""});
	}
}

} // namespace ctl
