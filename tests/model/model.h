// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What counters, thresholds, cancel and flush are: a specification that can be executed.
 *
 * Plain, and for one thread. Each function is one step that nobody sees the inside of. That a
 * counter has reached a threshold makes its first command *ready*; fire() is a step of its own,
 * which comes at some time after that, or never if the command is canceled, or the counter set
 * back, before. Everything is flat, so that a state can be copied and compared.
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

	/* Behind all that wait for as much or less. */
	void arm(int number, const Command *commands)
	{
		Counter &c = of_[commands[number].counter];
		auto *const end = c.armed.data() + c.count;
		auto *const at = std::find_if(c.armed.data(), end, [&](std::int8_t other) {
			return commands[other].threshold > commands[number].threshold;
		});

		std::copy_backward(at, end, end + 1);
		*at = static_cast<std::int8_t>(number);
		++c.count;
	}

	/* The command that has to be the next to fire, or none. Success + error wraps as they do. */
	int ready(int counter, const Command *commands) const
	{
		const Counter &c = of_[counter];

		if (!c.count || commands[c.armed[0]].threshold > c.success + c.error)
			return none;
		return c.armed[0];
	}

	/* Whether it was armed; not any more. Firing and canceling alike take a command off. */
	bool take(int number, const Command *commands)
	{
		Counter &c = of_[commands[number].counter];
		auto *const end = c.armed.data() + c.count;
		auto *const at = std::find(c.armed.data(), end, number);

		if (at == end)
			return false;
		std::copy(at + 1, end, at);
		*(end - 1) = 0; /* equal states have equal bytes */
		--c.count;
		return true;
	}

	/* How many there were. */
	Word flush(int counter)
	{
		Counter &c = of_[counter];
		const Word n = static_cast<Word>(c.count);

		c.count = 0;
		c.armed = {};
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
};

} // namespace model

#endif
