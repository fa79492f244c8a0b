// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_UNIT_WRITTEN_H
#define TREADLE_TESTS_UNIT_WRITTEN_H

#include "../model/check.h"

using namespace model;

/* Histories, written down. Without at() each call ends before the next one begins. */
struct Written : History {
	Written()
	{
		counters = {0, 0, 1};
		actors.resize(3);
		completions.resize(2);
	}

	int command(Command c)
	{
		commands.push_back(c);
		return static_cast<int>(commands.size()) - 1;
	}
	Op &call(Op op, int actor = 0)
	{
		op.begin = ++clock;
		op.end = ++clock;
		op.seen = op.kind == Kind::kill ? 0 :
						  static_cast<std::uint32_t>(completions[0].size());
		return actors[actor].emplace_back(op);
	}
	int arm(Command c, int actor = 0)
	{
		const int number = command(c);
		call({.kind = Kind::arm, .target = number}, actor).seen = 0;
		return number;
	}
	Op &add(int counter, Word value, bool error = false, int actor = 0)
	{
		return call({.kind = Kind::add, .error = error, .target = counter, .value = value},
			    actor);
	}
	Op &set(int counter, Word value, int actor = 0)
	{
		return call({.kind = Kind::set, .target = counter, .value = value}, actor);
	}
	Op &cancel(int number, Word result, int actor = 0)
	{
		return call({.kind = Kind::cancel, .target = number, .result = result}, actor);
	}
	Op &flush(int counter, Word result, int actor = 0)
	{
		return call({.kind = Kind::flush, .target = counter, .result = result}, actor);
	}
	Op &read(int counter, Word result, int actor = 0)
	{
		return call({.kind = Kind::read, .target = counter, .result = result}, actor);
	}
	void ran(int number, bool failed = false, int process = 0)
	{
		completions[process].push_back({number, failed});
	}
	bool right() const { return check(*this).right; }

	Word clock = 0;
};

constexpr Word top = ~Word{0};

#endif
