// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "check.h"

#include <map>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <unordered_set>

namespace model
{

namespace
{

constexpr int max_actors = 8;
constexpr Word max_steps = 2'000'000;

/* The state after some of the events. */
struct State {
	Counters counters;
	std::array<std::uint8_t, max_actors> at{}; /* the next call of each actor */
	/* of a flush_all: a bit for each counter that was flushed */
	std::array<std::uint8_t, max_actors> part{};
	/* and the number of commands that it found */
	std::array<Word, max_actors> flushed{};
	/* by counter, of the commands with a known order */
	std::array<std::uint8_t, max_counters> fired{};
	Word done = 0;	 /* commands that have fired */
	Word failed = 0; /* those under way that end with an error */
	/* Counts caused by commands that are still to be made: effect(). */
	std::array<std::uint16_t, 4 * max_counters> effects{};
};
static_assert(std::has_unique_object_representations_v<State>); /* states are compared as bytes */

/* must: the count is known to come, as no process that was killed is part of it. */
constexpr int effect(int counter, bool error, bool must)
{
	return 4 * counter + 2 * error + must;
}

class Search
{
public:
	explicit Search(const History &history)
		: h_(history), outcome_(h_.commands.size()), order_(h_.counters.size()),
		  killed_(h_.completions.size()), matters_(h_.commands.size())
	{
		for (const auto &actor : h_.actors)
			for (const Op &op : actor)
				if (op.kind == Kind::kill)
					killed_[op.target] = true;
		for (std::size_t number = 0; number < h_.commands.size(); ++number)
			for (std::size_t a = 0;
			     a < std::min<std::size_t>(h_.actors.size(), max_actors); ++a)
				for (std::size_t i = 0; i < h_.actors[a].size(); ++i)
					if (matters(h_.actors[a][i], static_cast<int>(number)))
						matters_[number][a] =
							static_cast<std::uint8_t>(i + 1);
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
				if (repeats(c.command))
					return {false, name(c.command) + " is silent", false, 0};
				outcome_[c.command] = c.failed ? Outcome::error : Outcome::success;
				known_ |= Word{1} << c.command;
				if (h_.commands[c.command].remote == none)
					order_[h_.commands[c.command].counter].push_back(c.command);
			}
		const bool right = explore(State{});
		if (right)
			return {true, {}, false, steps_, rounds_};
		if (steps_ > max_steps)
			return {false, "it was given up after too many steps", true, steps_};
		return {false, "no order explains it", false, steps_};
	}

private:
	enum class Outcome { none, success, error };

	static std::string name(int command) { return "command " + std::to_string(command); }
	bool is_alive(int counter) const { return !killed_[h_.counters[counter]]; }
	bool has_fired(const State &s, int command) const { return s.done >> command & 1; }
	bool repeats(int command) const { return h_.commands[command].step; }
	/* The command has a remote counter in a process that was killed: it fails after that. */
	bool must_fail(const State &s, int command) const
	{
		const int remote = h_.commands[command].remote;

		if (remote == none || is_alive(remote))
			return false;
		for (int a = 0; a < std::ssize(h_.actors); ++a)
			for (int i = 0; i < s.at[a]; ++i)
				if (h_.actors[a][i].kind == Kind::kill &&
				    h_.actors[a][i].target == h_.counters[remote])
					return true;
		return false;
	}
	bool must_succeed(int command) const
	{
		const int remote = h_.commands[command].remote;

		return remote == none || is_alive(remote);
	}

	/* Does the progress of a repeating command matter to the call? */
	bool matters(const Op &op, int number) const
	{
		const Command &c = h_.commands[number];

		switch (op.kind) {
		case Kind::set:
		case Kind::flush:
			return op.target == c.counter || op.target == c.rest;
		case Kind::cancel:
			return op.target == number && !op.last;
		case Kind::kill:
			return op.target == h_.process_of(number);
		default:
			return false;
		}
	}
	/* The progress matters to no later call, so the command may run as soon as it can. */
	bool is_free(const State &s, int number) const
	{
		for (int a = 0; a < std::ssize(h_.actors); ++a)
			if (s.at[a] < matters_[number][a])
				return false;
		return must_succeed(number) || must_fail(s, number);
	}

	bool explore(State s)
	{
		const Word rounds = settle(s);
		if (is_end(s) || go_on(s)) {
			rounds_ += rounds;
			return true;
		}
		return false;
	}

	bool go_on(const State &s)
	{
		if (++steps_ > max_steps)
			return false;
		if (!dead_.empty() && dead_.contains(hash(s)))
			return false;
		if (try_ends(s) || try_effects(s) || try_fires(s) || try_calls(s))
			return true;
		dead_.insert(hash(s));
		return false;
	}

	/*
	 * Commands that are known to have fired fire as soon as they can: there is nothing else
	 * that they can do, and all other events are as possible afterwards as before. So do
	 * repeating commands if their progress matters to no later call.
	 */
	Word settle(State &s) const
	{
		Word rounds = 0;

		for (bool again = true; again;) {
			again = false;
			for (int c = 0; c < std::ssize(h_.counters); ++c) {
				const int next = s.counters.ready(c, h_.commands.data());

				if (next == none || !fires_now(s, c, next))
					continue;
				rounds += fire(s, next,
					       repeats(next) ? must_fail(s, next) :
							       outcome_[next] == Outcome::error);
				again = true;
			}
			for (int n = 0; n < std::ssize(h_.commands); ++n)
				if ((s.counters.away() >> n & 1) && is_free(s, n)) {
					end(s, n);
					again = true;
				}
		}
		return rounds;
	}

	bool fires_now(const State &s, int counter, int next) const
	{
		if (repeats(next))
			return is_free(s, next);
		return outcome_[next] != Outcome::none &&
		       (h_.commands[next].remote != none ||
			order_[counter][s.fired[counter]] == next);
	}

	/* Returns 1 if the command repeats, and has not only rested. */
	Word fire(State &s, int number, bool failed) const
	{
		const Command &command = h_.commands[number];
		const bool rested = s.counters.rests(number, h_.commands.data());

		s.counters.start(number, h_.commands.data());
		if (command.remote != none && !failed && !rested)
			++s.effects[effect(command.remote, false,
					   is_alive(command.counter) && is_alive(command.remote))];
		if (repeats(number)) {
			s.failed |= Word{failed} << number;
			return !rested;
		}
		s.done |= Word{1} << number;
		if (command.remote == none && outcome_[number] != Outcome::none)
			++s.fired[command.counter];
		notify(s, command, failed);
		return 0;
	}

	/* A repeating command is armed again, then counts. */
	void end(State &s, int number) const
	{
		const bool rested = s.counters.rests(number, h_.commands.data());

		s.counters.again(number, h_.commands.data());
		if (!rested)
			notify(s, h_.commands[number], s.failed >> number & 1);
		s.failed &= ~(Word{1} << number);
	}

	void notify(State &s, const Command &command, bool failed) const
	{
		if (command.notify != none)
			++s.effects[effect(command.notify, failed, is_alive(command.counter))];
	}

	bool is_end(const State &s) const
	{
		if (s.done != (s.done | known_))
			return false;
		for (int a = 0; a < std::ssize(h_.actors); ++a)
			if (s.at[a] < h_.actors[a].size() && h_.actors[a][s.at[a]].end)
				return false;
		return is_quiet(s);
	}

	/*
	 * No command is ready, under way, or about to count, except those of processes that were
	 * killed.
	 */
	bool is_quiet(const State &s) const
	{
		for (int c = 0; c < std::ssize(h_.counters); ++c)
			if (s.effects[effect(c, false, true)] || s.effects[effect(c, true, true)] ||
			    (is_alive(c) && s.counters.ready(c, h_.commands.data()) != none))
				return false;
		for (int n = 0; n < std::ssize(h_.commands); ++n)
			if ((s.counters.away() >> n & 1) && is_alive(h_.commands[n].counter))
				return false;
		return true;
	}

	bool try_ends(const State &s)
	{
		for (int n = 0; n < std::ssize(h_.commands); ++n) {
			if (!(s.counters.away() >> n & 1))
				continue;
			State next = s;
			end(next, n);
			if (explore(next))
				return true;
		}
		return false;
	}

	bool try_effects(const State &s)
	{
		for (int e = 0; e < std::ssize(s.effects); ++e) {
			if (!s.effects[e])
				continue;
			State next = s;
			--next.effects[e];
			next.counters.add(e / 4, e & 2, 1);
			if (explore(next))
				return true;
		}
		return false;
	}

	/*
	 * Commands that may have fired without a completion: they repeat, or their process was
	 * killed.
	 */
	bool try_fires(const State &s)
	{
		for (int c = 0; c < std::ssize(h_.counters); ++c) {
			const int ready = s.counters.ready(c, h_.commands.data());

			if (ready == none || (!repeats(ready) && !may_have_fired(s, c, ready)))
				continue;
			for (const bool failed : {false, true}) {
				if (failed ? !repeats(ready) || must_succeed(ready) :
					     repeats(ready) && must_fail(s, ready))
					continue;
				State next = s;
				const Word rounds = fire(next, ready, failed);
				if (explore(next)) {
					rounds_ += rounds;
					return true;
				}
			}
		}
		return false;
	}

	/*
	 * A command with an effect only in its own process completes before those behind it. One
	 * that reaches another process may still have been under way when later ones had completed.
	 */
	bool may_have_fired(const State &s, int counter, int ready) const
	{
		return !is_alive(counter) && outcome_[ready] == Outcome::none &&
		       (h_.commands[ready].remote != none ||
			s.fired[counter] >= order_[counter].size());
	}

	bool try_calls(const State &s)
	{
		/* An event must begin before all events that have not happened end. */
		Word first_end = ~Word{0};
		for (int a = 0; a < std::ssize(h_.actors); ++a)
			if (s.at[a] < h_.actors[a].size() && h_.actors[a][s.at[a]].end)
				first_end = std::min(first_end, h_.actors[a][s.at[a]].end);
		/* Try those first that end first. */
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

	/*
	 * Flushes the counters of a process one by one, in any order, with other events in between.
	 */
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
			next.flushed[actor] += next.counters.flush(c, h_.commands.data(), false);
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

	/* Does the model give the result of the call? */
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
			    c.ready(c.counter_of(op.target, commands), commands) != none)
				return false;
			return (is_meant(c, op) && c.take(op.target, commands)) ==
				       (op.result != 0) ||
			       !op.end;
		case Kind::flush:
			return c.flush(op.target, commands) == op.result || !op.end;
		case Kind::read:
			if (op.last && !is_quiet(s))
				return false;
			return c.value(op.target, op.error) == op.result || !op.end;
		case Kind::kill:
			for (int i = 0; i < std::ssize(h_.counters); ++i)
				if (h_.counters[i] == op.target)
					c.flush(i, commands);
			for (int n = 0; n < std::ssize(h_.commands); ++n)
				if (h_.process_of(n) == op.target)
					c.lose(Word{1} << n);
			return true;
		default:
			return false;
		}
	}

	/*
	 * A repeating command is canceled on the counter, and at the threshold, that it waits for.
	 */
	bool is_meant(const Counters &c, const Op &op) const
	{
		const Command *const commands = h_.commands.data();

		return !repeats(op.target) || (c.rests(op.target, commands) == op.rests &&
					       c.threshold_of(op.target, commands) == op.value);
	}

	/* With 64 bits, some thousands of states do not collide. */
	static std::size_t hash(const State &s)
	{
		return std::hash<std::string_view>()(
			{reinterpret_cast<const char *>(&s), sizeof(s)});
	}

	const History &h_;
	std::vector<Outcome> outcome_;
	std::vector<std::vector<int>>
		order_; /* by counter: commands with an effect only in their own process */
	std::vector<char> killed_;
	/*
	 * for each repeating command and actor: the position after the last call that its progress
	 * matters to
	 */
	std::vector<std::array<std::uint8_t, max_actors>> matters_;
	Word known_ = 0;
	Word steps_ = 0;
	Word rounds_ = 0;
	std::unordered_set<std::size_t> dead_; /* states that lead to no end */
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
		    << " notify " << c.notify << " remote " << c.remote;
		if (c.step)
			out << " step " << c.step << " rest " << c.rest << " at "
			    << c.rest_threshold;
		out << '\n';
	}
	for (std::size_t a = 0; a < history.actors.size(); ++a)
		for (const Op &op : history.actors[a])
			out << "actor " << a << ": " << op.begin << '-' << op.end << ' '
			    << kinds[static_cast<int>(op.kind)] << ' ' << op.target
			    << (op.error ? " error" : "") << (op.last ? " last" : "")
			    << (op.rests ? " rests" : "") << " value " << op.value << " result "
			    << op.result << " seen " << op.seen << '\n';
	for (std::size_t p = 0; p < history.completions.size(); ++p) {
		out << "process " << p << ':';
		for (const Completion &c : history.completions[p])
			out << ' ' << c.command << (c.failed ? "!" : "");
		out << '\n';
	}
	return out.str();
}

} // namespace model
