// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Counters, thresholds, cancel and flush: an executable specification.
 *
 * It is plain, and for one thread. Each function is one atomic step. A counter that reaches a
 * threshold makes its first command *ready*. fire() is another step, which comes at some time after
 * that, or never: the command may be canceled, or the counter set back, before. A state is flat, so
 * that it can be copied and compared.
 *
 * A repeating command is under way from start() to again(). Meanwhile no call finds it. Each time
 * it is armed behind all that wait for as much. It counts in its own process after that.
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

/*
 * An armed command. Its counter names its process, and it counts on other counters once it has run.
 */
struct Command {
	int counter = 0;
	Word threshold = 0;
	int notify = none; /* a counter of the same process: of successes, or of errors */
	int remote = none; /* a counter of another process: of successes only */
	/* the command repeats: armed again when it has ended, for so much more; 0: once */
	Word step = 0;
	int rest =
		/* before that it rests on this counter, for a threshold that grows by as much */
		none;
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

	/* Does the command rest now, or the next time that it is armed? */
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

	/* Arms behind all that wait for as much or less. */
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

	/*
	 * The next command that must fire, or none. The sum of successes and errors wraps as they
	 * do.
	 */
	int ready(int counter, const Command *commands) const
	{
		const Counter &c = of_[counter];

		if (!c.count || threshold_of(c.armed[0], commands) > c.success + c.error)
			return none;
		return c.armed[0];
	}

	/* The command that is ready leaves its counter. */
	void start(int number, const Command *commands)
	{
		const std::uint16_t turn = turns_[number];

		take(number, commands);
		if (commands[number].step) {
			turns_[number] = turn;
			away_ |= Word{1} << number;
		}
	}
	/* A repeating command has ended, or has rested. */
	void again(int number, const Command *commands)
	{
		away_ &= ~(Word{1} << number);
		++turns_[number];
		arm(number, commands);
	}
	/* Commands that have started and not ended. */
	Word away() const { return away_; }
	/* Commands that never come back: their process is gone. */
	void lose(Word numbers) { away_ &= ~numbers; }

	/* Removes a command for good. Returns whether it was armed. */
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

	/* Removes the armed commands, with or without those that repeat; returns their number. */
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
