// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "chain.h"

#include <iterator>
#include <optional>

#include <treadle/ring.h>

namespace ctl
{

/* The counter of an endpoint that an operation counts into, if any. */
static std::optional<int> role_of(unsigned op)
{
	switch (op) {
	case TREADLE_OP_SEND:
	case TREADLE_OP_TSEND:
		return 0;
	case TREADLE_OP_RECV:
	case TREADLE_OP_TRECV:
		return 1;
	case TREADLE_OP_READ:
	case TREADLE_OP_FETCH:
	case TREADLE_OP_COMPARE:
		return 2;
	case TREADLE_OP_WRITE:
	case TREADLE_OP_ATOMIC:
		return 3;
	default:
		return std::nullopt;
	}
}

const char *name_of(unsigned op)
{
	static const char *const names[] = {"nothing", "send",		 "tagged send",
					    "receive", "tagged receive", "read",
					    "write",   "atomic",	 "fetch",
					    "compare", "counter set",	 "counter add"};

	return op < std::size(names) ? names[op] : "operation";
}

/* The counters that change when the command has run. */
std::set<Id> counts_into(const Picture &p, const Armed &a)
{
	std::set<Id> ids{a.notify, a.target};
	const auto role = role_of(a.op);
	const auto ep = p.endpoints.find(a.ep);

	if (role && ep != p.endpoints.end() && !(a.flags & TREADLE_F_WORK))
		ids.insert(ep->second.counts[*role]);
	ids.erase(0);
	return ids;
}

/* The armed commands that count into the counter. */
std::vector<const Armed *> feeders(const Picture &p, Id counter)
{
	std::vector<const Armed *> found;

	for (const Armed &a : p.armed)
		if (counts_into(p, a).contains(counter))
			found.push_back(&a);
	return found;
}

/* on_path: visited counters; true: the present chain leads through it */
static void follow(const Picture &p, const Armed &a, std::map<Id, bool> &on_path, Ends &ends)
{
	if (a.cell) {
		ends.cells.push_back(&a);
		return;
	}
	if (const auto [at, fresh] = on_path.try_emplace(a.cond, true); !fresh) {
		ends.circle |= at->second;
		return;
	}
	const auto before = feeders(p, a.cond);
	if (before.empty())
		ends.counters.insert(a.cond);
	for (const Armed *one : before)
		follow(p, *one, on_path, ends);
	on_path[a.cond] = false;
}

Ends ends_of(const Picture &p, const Armed &a)
{
	Ends ends;
	std::map<Id, bool> on_path;

	follow(p, a, on_path, ends);
	return ends;
}

std::string what_is(const Armed &a)
{
	std::string text = name_of(a.op);

	if (a.ep)
		text += " of endpoint " + std::to_string(a.ep);
	return text + ", context " + a.context;
}

std::string what_it_waits_for(const Picture &p, const Armed &a)
{
	if (a.cell) {
		const std::string cell = "cell at " + std::to_string(a.at) + " of " +
					 std::to_string(a.cond) + ": it is " + std::to_string(a.is);
		return a.follows() ? cell + ", a total of which " + std::to_string(a.wants) +
					     " is counted" :
				     cell + ", not " + std::to_string(a.wants);
	}
	const auto counter = p.counters.find(a.cond);
	std::string text = "counter " + std::to_string(a.cond) + " to be " + std::to_string(a.at);
	if (counter != p.counters.end())
		text += ": it is " + std::to_string(counter->second.sum());
	return text;
}

static const char *const operations_of[] = {"sends",  "receives",     "reads",
					    "writes", "peers' reads", "peers' writes"};

std::string others_that_count(const Picture &p, Id counter)
{
	std::string text;

	for (const auto &[id, ep] : p.endpoints)
		for (int i = 0; i < 6; i++)
			if (ep.counts[i] == counter)
				text += std::string(operations_of[i]) + " of endpoint " +
					std::to_string(id) + " (port " + std::to_string(ep.port) +
					"), ";
	return text + "the process itself";
}

} // namespace ctl
