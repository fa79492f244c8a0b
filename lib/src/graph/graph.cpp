// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* The commands of a graph and their order. */

#include <treadle/graph.h>

#include <algorithm>
#include <cerrno>

namespace treadle
{

Graph::Node Graph::add(const Command &command, std::span<const Node> after)
{
	std::vector<Node> sorted(after.begin(), after.end());

	std::ranges::sort(sorted);
	sorted.erase(std::ranges::unique(sorted).begin(), sorted.end());
	nodes_.push_back({command, std::move(sorted)});
	return static_cast<Node>(nodes_.size() - 1);
}

std::vector<Graph::Node> Graph::last() const
{
	std::vector<bool> followed(nodes_.size());
	std::vector<Node> out;

	for (const Step &step : nodes_) {
		for (const Node before : step.after) {
			if (before < followed.size())
				followed[before] = true;
		}
	}
	for (Node n = 0; n < nodes_.size(); ++n) {
		if (!followed[n])
			out.push_back(n);
	}
	return out;
}

Graph::Node Graph::add_last(const Command &command)
{
	return add(command, last());
}

std::error_code Graph::order(Node before, Node after)
{
	if (after >= nodes_.size())
		return from_errno(EINVAL);
	auto &list = nodes_[after].after;
	const auto at = std::ranges::lower_bound(list, before);
	if (at == list.end() || *at != before)
		list.insert(at, before);
	return from_errno(0);
}

std::error_code Graph::check() const
{
	std::vector<std::size_t> missing(nodes_.size());
	std::vector<std::vector<Node>> then(nodes_.size());
	std::vector<Node> ready;

	for (Node n = 0; n < nodes_.size(); ++n) {
		const Step &step = nodes_[n];

		if (step.command.desc().flags &
		    (TREADLE_F_COND_CNTR | TREADLE_F_NOTIFY | TREADLE_F_COND_CELL | TREADLE_F_MORE))
			return from_errno(EINVAL);
		if (!step.after.empty() && step.after.back() >= nodes_.size())
			return from_errno(EINVAL);
		for (const Node before : step.after)
			then[before].push_back(n);
		missing[n] = step.after.size();
		if (!missing[n])
			ready.push_back(n);
	}
	std::size_t reached = 0;
	for (; !ready.empty(); ++reached) {
		const Node n = ready.back();
		ready.pop_back();
		for (const Node next : then[n]) {
			if (!--missing[next])
				ready.push_back(next);
		}
	}
	return from_errno(reached == nodes_.size() ? 0 : ELOOP);
}

} // namespace treadle
