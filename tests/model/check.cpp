// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "check.h"

#include <map>
#include <sstream>
#include <string_view>
#include <unordered_set>

namespace model
{

namespace
{

constexpr int max_actors = 8;
constexpr Word max_steps = 2'000'000;

/* A count that a command has caused and that has not been made yet. */
struct Effect {
	std::int8_t counter;
	bool error;
	bool must; /* it is known to come: nobody who was killed is part of it */

	bool operator==(const Effect &) const = default;
};

/* What has happened so far. */
struct State {
	Counters counters;
	std::array<std::uint8_t, max_actors> at{};	/* the next call of each */
	std::array<std::uint8_t, max_actors> part{};	/* of a flush_all: a bit for each counter */
	std::array<Word, max_actors> flushed{};		/* and how many it has found */
	std::array<std::uint8_t, max_counters> fired{}; /* of those whose order is known */
	Word done = 0;					/* commands that have fired */
	std::array<Effect, 2 * max_commands> effects{};
	Word effect_count = 0;
};

class Search
{
public:
	explicit Search(const History &history)
		: h_(history), outcome_(h_.commands.size()), order_(h_.counters.size()),
		  killed_(h_.completions.size())
	{
		for (const auto &actor : h_.actors)
			for (const Op &op : actor)
				if (op.kind == Kind::kill)
					killed_[op.target] = true;
	}

	Verdict run()
	{
		if (h_.counters.size() > max_counters || h_.commands.size() > max_commands ||
		    h_.actors.size() > max_actors)
			return {false, "it is too long", false, 0};
		for (const auto &process : h_.completions)
			for (const Completion &c : process) {
				if (outcome_[c.command] != Outcome::none)
					return {false, name(c.command) + " ran twice", false, 0};
				outcome_[c.command] = c.failed ? Outcome::error : Outcome::success;
				known_ |= Word{1} << c.command;
				if (h_.commands[c.command].remote == none)
					order_[h_.commands[c.command].counter].push_back(c.command);
			}
		const bool right = explore(State{});
		if (right)
			return {true, {}, false, steps_};
		if (steps_ > max_steps)
			return {false, "it was given up after too many steps", true, steps_};
		return {false, "no order explains it", false, steps_};
	}

private:
	enum class Outcome { none, success, error };

	static std::string name(int command) { return "command " + std::to_string(command); }
	bool lives(int counter) const { return !killed_[h_.counters[counter]]; }
	bool has_fired(const State &s, int command) const { return s.done >> command & 1; }

	bool explore(State s)
	{
		settle(s);
		if (is_end(s))
			return true;
		if (++steps_ > max_steps)
			return false;
		if (!dead_.empty() && dead_.contains(hash(s)))
			return false;
		if (try_effects(s) || try_fires(s) || try_calls(s))
			return true;
		dead_.insert(hash(s));
		return false;
	}

	/*
	 * Commands that are known to have fired do so as soon as they can: as nothing but
	 * that can become of them, everything else is as possible after it as before.
	 */
	void settle(State &s) const
	{
		for (bool again = true; again;) {
			again = false;
			for (int c = 0; c < std::ssize(h_.counters); ++c) {
				const int next = s.counters.ready(c, h_.commands.data());

				if (next == none || outcome_[next] == Outcome::none ||
				    (h_.commands[next].remote == none &&
				     order_[c][s.fired[c]] != next))
					continue;
				fire(s, next);
				again = true;
			}
		}
	}

	void fire(State &s, int number) const
	{
		const Command &command = h_.commands[number];
		const bool failed = outcome_[number] == Outcome::error;
		const bool lives_on = lives(command.counter);

		s.counters.take(number, h_.commands.data());
		s.done |= Word{1} << number;
		if (command.remote == none && outcome_[number] != Outcome::none)
			++s.fired[command.counter];
		if (command.remote != none && !failed)
			s.effects[s.effect_count++] = {static_cast<std::int8_t>(command.remote),
						       false, lives_on && lives(command.remote)};
		if (command.notify != none)
			s.effects[s.effect_count++] = {static_cast<std::int8_t>(command.notify),
						       failed, lives_on};
	}

	bool is_end(const State &s) const
	{
		if (s.done != (s.done | known_))
			return false;
		for (int a = 0; a < std::ssize(h_.actors); ++a)
			if (s.at[a] < h_.actors[a].size() && h_.actors[a][s.at[a]].end)
				return false;
		for (Word e = 0; e < s.effect_count; ++e)
			if (s.effects[e].must)
				return false;
		for (int c = 0; c < std::ssize(h_.counters); ++c)
			if (lives(c) && s.counters.ready(c, h_.commands.data()) != none)
				return false;
		return true;
	}

	bool try_effects(const State &s)
	{
		for (Word e = 0; e < s.effect_count; ++e) {
			const Effect &effect = s.effects[e];
			State next = s;

			if (std::find(s.effects.begin(), s.effects.begin() + e, effect) !=
			    s.effects.begin() + e)
				continue; /* one is as good as the other */

			next.counters.add(effect.counter, effect.error, 1);
			next.effects[e] = next.effects[--next.effect_count];
			next.effects[next.effect_count] = {};
			if (explore(next))
				return true;
		}
		return false;
	}

	/* What may have fired without anybody left to tell. */
	bool try_fires(const State &s)
	{
		for (int c = 0; c < std::ssize(h_.counters); ++c) {
			const int ready = s.counters.ready(c, h_.commands.data());

			if (ready == none || lives(c) || outcome_[ready] != Outcome::none ||
			    s.fired[c] < order_[c].size())
				continue;
			State next = s;
			fire(next, ready);
			if (explore(next))
				return true;
		}
		return false;
	}

	bool try_calls(const State &s)
	{
		/* Whoever has not happened must not have ended before it begins. */
		Word first_end = ~Word{0};
		for (int a = 0; a < std::ssize(h_.actors); ++a)
			if (s.at[a] < h_.actors[a].size() && h_.actors[a][s.at[a]].end)
				first_end = std::min(first_end, h_.actors[a][s.at[a]].end);
		/* Those that end first are tried first. */
		std::multimap<Word, int> heads;
		for (int a = 0; a < std::ssize(h_.actors); ++a)
			if (s.at[a] < h_.actors[a].size()) {
				const Op &op = h_.actors[a][s.at[a]];
				if (op.begin < first_end && were_seen(s, op))
					heads.emplace(op.end ? op.end : ~Word{0}, a);
			}
		for (const auto &[end, actor] : heads) {
			if (h_.actors[actor][s.at[actor]].kind == Kind::flush_all) {
				if (try_flush_all(s, actor))
					return true;
				continue;
			}
			State next = s;
			if (call(next, actor) && explore(next))
				return true;
		}
		return false;
	}

	/* One counter of a process after the other, in any order, with time between them. */
	bool try_flush_all(const State &s, int actor)
	{
		const Op &op = h_.actors[actor][s.at[actor]];
		bool all = true;

		for (int c = 0; c < std::ssize(h_.counters); ++c) {
			if (h_.counters[c] != op.target || (s.part[actor] >> c & 1))
				continue;
			State next = s;
			all = false;
			next.part[actor] |= static_cast<std::uint8_t>(1 << c);
			next.flushed[actor] += next.counters.flush(c);
			if (explore(next))
				return true;
		}
		if (!all || (s.flushed[actor] != op.result && op.end))
			return false;
		State next = s;
		++next.at[actor];
		next.part[actor] = 0;
		next.flushed[actor] = 0;
		return explore(next);
	}

	bool were_seen(const State &s, const Op &op) const
	{
		if (op.kind == Kind::kill)
			return true;
		const auto &completions = h_.completions[process_of(op)];
		for (std::uint32_t i = 0; i < op.seen; ++i)
			if (!has_fired(s, completions[i].command))
				return false;
		return true;
	}

	int process_of(const Op &op) const
	{
		switch (op.kind) {
		case Kind::arm:
		case Kind::cancel:
			return h_.process_of(op.target);
		case Kind::flush_all:
		case Kind::kill:
			return op.target;
		default:
			return h_.counters[op.target];
		}
	}

	/* Whether the model does what the call says it did. */
	bool call(State &s, int actor) const
	{
		const Op &op = h_.actors[actor][s.at[actor]];
		const Command *const commands = h_.commands.data();
		Counters &c = s.counters;

		++s.at[actor];
		switch (op.kind) {
		case Kind::arm:
			c.arm(op.target, commands);
			return true;
		case Kind::add:
			c.add(op.target, op.error, op.value);
			return true;
		case Kind::set:
			c.set(op.target, op.error, op.value);
			return true;
		case Kind::cancel:
			if (op.last && op.result &&
			    c.ready(commands[op.target].counter, commands) != none)
				return false;
			return c.take(op.target, commands) == (op.result != 0) || !op.end;
		case Kind::flush:
			return c.flush(op.target) == op.result || !op.end;
		case Kind::read:
			return c.value(op.target, op.error) == op.result || !op.end;
		case Kind::kill:
			for (int i = 0; i < std::ssize(h_.counters); ++i)
				if (h_.counters[i] == op.target)
					c.flush(i);
			return true;
		default:
			return false;
		}
	}

	/* In 64 bits there is no room for two of some thousands to meet. */
	static std::size_t hash(const State &s)
	{
		return std::hash<std::string_view>()(
			{reinterpret_cast<const char *>(&s), sizeof(s)});
	}

	const History &h_;
	std::vector<Outcome> outcome_;
	std::vector<std::vector<int>>
		order_; /* of each counter's commands that reach nobody else */
	std::vector<char> killed_;
	Word known_ = 0;
	Word steps_ = 0;
	std::unordered_set<std::size_t> dead_; /* states from which no end is reached */
};

} // namespace

Verdict check(const History &history)
{
	return Search(history).run();
}

std::string text_of(const History &history)
{
	static constexpr const char *kinds[] = {"arm",	 "add",	      "set",  "cancel",
						"flush", "flush_all", "read", "kill"};
	std::ostringstream out;

	for (std::size_t i = 0; i < history.commands.size(); ++i) {
		const Command &c = history.commands[i];
		out << "command " << i << ": counter " << c.counter << " at " << c.threshold
		    << " notify " << c.notify << " remote " << c.remote << '\n';
	}
	for (std::size_t a = 0; a < history.actors.size(); ++a)
		for (const Op &op : history.actors[a])
			out << "actor " << a << ": " << op.begin << '-' << op.end << ' '
			    << kinds[static_cast<int>(op.kind)] << ' ' << op.target
			    << (op.error ? " error" : "") << (op.last ? " last" : "") << " value "
			    << op.value << " result " << op.result << " seen " << op.seen << '\n';
	for (std::size_t p = 0; p < history.completions.size(); ++p) {
		out << "process " << p << ':';
		for (const Completion &c : history.completions[p])
			out << ' ' << c.command << (c.failed ? "!" : "");
		out << '\n';
	}
	return out.str();
}

} // namespace model
