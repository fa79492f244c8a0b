// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A graph as commands that are armed on counters
 *
 * All commands that come after the same commands wait for one counter, into which these count. A
 * command has only one counter to count into. If several counters wait for it, it counts into a
 * relay: a counter on which a NOP for each of them is armed. Commands that come after none wait for
 * the start counter, which is added to when everything is installed. Commands that none comes after
 * count into the end counter. Counters are not set back: thresholds are relative to their values.
 *
 * A graph that is installed to be launched many times is the same, with commands that repeat: when
 * a command has ended, its threshold grows by the number that a launch adds to its counter. Two
 * commands are added. One makes a single count of all commands that end a launch. The other one
 * starts a launch when the counter of launches allows it, but never before the last one has ended.
 */
#include "plan.h"

#include <algorithm>
#include <map>

namespace treadle
{

Graph::Plan::Plan(const std::vector<Step> &nodes)
{
	std::map<std::vector<Node>, std::size_t> gates{{{}, start_counter}};
	std::vector<std::vector<std::size_t>> told(nodes.size());

	for (const Step &step : nodes) {
		const auto [gate, is_new] = gates.try_emplace(step.after, counters);

		if (is_new)
			++counters;
		for (const Node before : is_new ? step.after : std::vector<Node>())
			told[before].push_back(gate->second);
	}
	for (std::size_t n = 0; n < nodes.size(); ++n) {
		const Step &step = nodes[n];
		const std::size_t on = gates.find(step.after)->second;
		const std::uint64_t threshold = std::max<std::size_t>(step.after.size(), 1);

		if (told[n].empty()) {
			items.push_back({&step.command, on, end_counter, threshold});
			++ends;
		} else if (told[n].size() == 1) {
			items.push_back({&step.command, on, told[n][0], threshold});
		} else {
			items.push_back({&step.command, on, counters, threshold});
			for (const std::size_t gate : told[n])
				items.push_back({nullptr, counters, gate, 1});
			++counters;
		}
	}
}

/* The command, armed on one counter and counted in another. */
Command Graph::Plan::Item::armed(std::span<const Counter> counters) const
{
	const Counter &at = counters[on];
	Command out = command ? *command : Command::nop().work();

	return out.when(at.id(), at.value() + threshold)
		.notify(counters[tell].id())
		.flags(TREADLE_F_STRICT);
}

} // namespace treadle
