// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What waits for what: the armed commands of one context, and the counters between them. */
#ifndef TREADLE_TOOLS_TREADLECTL_CHAIN_H
#define TREADLE_TOOLS_TREADLECTL_CHAIN_H

#include <set>
#include <string>
#include <vector>

#include "fdinfo.h"
#include "graph.h"

namespace ctl
{

/* The counters that change when the command has run. */
std::set<Id> counts_into(const Picture &p, const Armed &a);
/* The armed commands that count into the counter. */
std::vector<const Armed *> feeders(const Picture &p, Id counter);

/*
 * The ends of the chains that lead to a command: cells, and counters that no armed command counts
 * into.
 */
struct Ends {
	std::set<Id> counters;
	std::vector<const Armed *> cells;
	bool circle = false;
};
Ends ends_of(const Picture &p, const Armed &a);

/*
 * In words: an operation, a command, its condition, and what counts into a counter besides armed
 * commands.
 */
const char *name_of(unsigned op);
std::string what_is(const Armed &a);
std::string what_it_waits_for(const Picture &p, const Armed &a);
std::string others_that_count(const Picture &p, Id counter);

/* Adds the nodes and edges of a context. Names begin with @prefix. */
void draw(Graph &graph, const Picture &p, const std::string &prefix);

} // namespace ctl

#endif
