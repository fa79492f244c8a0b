// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What counters, thresholds, cancel and flush are: a specification that can be executed.
 *
 * Plain, and for one thread. Each function is one step that nobody sees the inside of. That a
 * counter has reached a threshold makes its first command *ready*; fire() is a step of its own,
 * which comes at some time after that, or never if the command is canceled, or the counter set
 * back, before. Everything is flat, so that a state can be copied and compared.
 *
 * A command that repeats is under way from start() to again(): then nobody finds it, and it comes back. Each time it
 * is armed behind all that wait for as much. What it counts in its own process it counts after that.
 */
#ifndef TREADLE_TESTS_MODEL_MODEL_H
#define TREADLE_TESTS_MODEL_MODEL_H

#include <algorithm>
#include <array>
#include <cstdint>

namespace model
{

using Word = std::uint64_t;

constexpr int none = -1;
constexpr int max_counters = 8;
constexpr int max_commands = 64;

/* What is armed: it names its process by its counter, and counts into others once it has run. */
struct Command {
	int counter = 0;
	Word threshold = 0;
	int notify = none; /* a counter of the same process: of success, or of error */
	int remote = none; /* a counter of another process: of success only */
	Word step = 0; /* it repeats: armed again when it has ended, for so much more; 0: once */
	int rest =
		none; /* but before that on this counter, for a threshold that grows by as much */
	Word rest_threshold = 0;
};

class Counters
{
public:
	Word value(int counter, bool error) const
	{
		return error ? of_[counter].error : of_[counter].success;
	}

	void add(int counter, bool error, Word value) { word(counter, error) += value; }
	void set(int counter, bool error, Word value) { word(counter, error) = value; }

	/* Whether it is armed for its rest, or will be the next time. */
	bool rests(int number, const Command *commands) const
	{
		return commands[number].rest != none && turns_[number] % 2;
	}
	int counter_of(int number, const Command *commands) const
	{
		return rests(number, commands) ? commands[number].rest : commands[number].counter;
	}
	Word threshold_of(int number, const Command *commands) const
	{
		const Command &c = commands[number];
		const Word rounds = turns_[number] / (c.rest == none ? 1 : 2);

		return (rests(number, commands) ? c.rest_threshold : c.threshold) + rounds * c.step;
	}

	/* Behind all that wait for as much or less. */
	void arm(int number, const Command *commands)
	{
		Counter &c = of_[counter_of(number, commands)];
		auto *const end = c.armed.data() + c.count;
		auto *const at = std::find_if(c.armed.data(), end, [&](std::int8_t other) {
			return threshold_of(other, commands) > threshold_of(number, commands);
		});

		std::copy_backward(at, end, end + 1);
		*at = static_cast<std::int8_t>(number);
		++c.count;
	}

	/* The command that has to be the next to fire, or none. Success + error wraps as they do. */
	int ready(int counter, const Command *commands) const
	{
		const Counter &c = of_[counter];

		if (!c.count || threshold_of(c.armed[0], commands) > c.success + c.error)
			return none;
		return c.armed[0];
	}

	/* The one that is ready leaves its counter. */
	void start(int number, const Command *commands)
	{
		const std::uint16_t turn = turns_[number];

		take(number, commands);
		if (commands[number].step) {
			turns_[number] = turn;
			away_ |= Word{1} << number;
		}
	}
	/* One that repeats has ended, or has rested. */
	void again(int number, const Command *commands)
	{
		away_ &= ~(Word{1} << number);
		++turns_[number];
		arm(number, commands);
	}
	/* Those that have started and not ended. */
	Word away() const { return away_; }
	/* They never come back: their process is gone. */
	void lose(Word numbers) { away_ &= ~numbers; }

	/* Whether it was armed; not any more, for good. */
	bool take(int number, const Command *commands)
	{
		Counter &c = of_[counter_of(number, commands)];
		auto *const end = c.armed.data() + c.count;
		auto *const at = std::find(c.armed.data(), end, number);

		if (at == end)
			return false;
		std::copy(at + 1, end, at);
		*(end - 1) = 0; /* equal states have equal bytes */
		--c.count;
		turns_[number] = 0;
		return true;
	}

	/* How many there were; those that repeat, too, or only the others. */
	Word flush(int counter, const Command *commands, bool repeating = true)
	{
		const Counter before = of_[counter];
		Word n = 0;

		for (Word i = 0; i < before.count; ++i)
			if (repeating || !commands[before.armed[i]].step)
				n += take(before.armed[i], commands);
		return n;
	}

private:
	struct Counter {
		Word success, error, count;
		std::array<std::int8_t, max_commands> armed; /* in the order in which they fire */
	};

	Word &word(int counter, bool error)
	{
		return error ? of_[counter].error : of_[counter].success;
	}

	std::array<Counter, max_counters> of_{};
	std::array<std::uint16_t, max_commands> turns_{}; /* how often each was armed again */
	Word away_ = 0;
};

} // namespace model

#endif
