// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_SRC_GRAPH_PLAN_H
#define TREADLE_SRC_GRAPH_PLAN_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <treadle/graph.h>

namespace treadle
{

/* The first counters of every graph. */
enum : std::size_t { end_counter, start_counter, first_counter };

/* The commands and counters to install. */
struct Graph::Plan {
	struct Item {
		const Command *command; /* null: a relay's NOP */
		std::size_t on, tell;	/* counters */
		std::uint64_t threshold;

		Command armed(std::span<const Counter> counters) const;
	};
	std::vector<Item> items;
	std::size_t counters = first_counter;
	std::uint64_t ends = 0;

	explicit Plan(const std::vector<Step> &nodes);
};

} // namespace treadle

#endif
