// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/*
 * The specification of repeating commands, and the check of histories against it: wrong ones are
 * found.
 */

#include <gtest/gtest.h>

#include "written.h"

namespace
{

/* Counter 3 counts the rounds of commands. */
struct Repeating : Written {
	Repeating() { counters = {0, 0, 1, 0}; }

	/* On counter 0, at first, and every step after it. */
	int every(Word first, Word step) { return arm(made(first, step)); }
	static Command made(Word first, Word step)
	{
		return {.counter = 0, .threshold = first, .notify = 3, .step = step};
	}
	Op &cancel_at(int number, Word threshold, Word result, bool rests = false)
	{
		return call({.kind = Kind::cancel,
			     .rests = rests,
			     .target = number,
			     .value = threshold,
			     .result = result});
	}
};

} // namespace

TEST(ModelRepeat, a_command_that_repeats_runs_once_for_each_step)
{
	Repeating h;
	const int c = h.every(3, 2);

	h.add(0, 2);
	h.add(0, 5); /* 7: 3, 5 and 7 */
	Op &last = h.read(3, 3);
	last.last = true;
	EXPECT_TRUE(h.right());
	for (const Word wrong : {2, 4}) {
		last.result = wrong;
		EXPECT_FALSE(h.right()) << wrong;
	}
	last.result = 3;
	h.ran(c);
	EXPECT_FALSE(h.right()) << "it is silent";
}

TEST(ModelRepeat, a_repeating_command_is_canceled_at_its_threshold)
{
	Repeating h;
	const int c = h.every(3, 2);

	h.add(0, 4);
	h.read(3, 1);
	h.cancel_at(c, 3, 0);
	h.cancel_at(c, 5, 1);
	h.cancel_at(c, 5, 0);
	h.add(0, 4);
	h.read(3, 1);
	EXPECT_TRUE(h.right());
	h.actors[0].back().result = 2;
	EXPECT_FALSE(h.right()) << "it was canceled";
	h.actors[0].back().result = 1;
	h.actors[0][4].value = 7;
	EXPECT_FALSE(h.right()) << "it was not there yet";
	h.actors[0][4].value = 5;
	h.actors[0][4].result = 0;
	EXPECT_FALSE(h.right()) << "it was there";
}

TEST(ModelRepeat, a_call_that_sees_the_count_finds_it_armed)
{
	Repeating h;
	const int c = h.every(1, 1);

	h.add(0, 1).end = top;
	h.actors.emplace_back();
	h.call({.kind = Kind::read, .target = 3, .result = 1}, 1);
	h.call({.kind = Kind::cancel, .target = c, .value = 2, .result = 1}, 1);
	EXPECT_TRUE(h.right());
	h.actors[1].back().result = 0;
	EXPECT_FALSE(h.right());
	h.actors[1].front().result = 0;
	h.call({.kind = Kind::cancel, .target = c, .value = 2, .result = 1}, 1);
	EXPECT_TRUE(h.right()) << "but before that it may be under way";
}

TEST(ModelRepeat, under_way_it_is_not_found_and_comes_back)
{
	Repeating h;
	const int c = h.every(1, 1);

	Op &add = h.add(0, 1);
	Op &flush = h.flush(0, 0, 1);
	flush.begin = add.begin;
	h.cancel_at(c, 2, 1);
	EXPECT_TRUE(h.right());
	h.actors[0].erase(h.actors[0].begin() + 1);
	EXPECT_FALSE(h.right()) << "nothing has started it";
}

TEST(ModelRepeat, a_flush_of_all_leaves_those_that_repeat)
{
	Repeating h;
	const int c = h.every(1, 1);

	h.arm({.counter = 0, .threshold = 9});
	h.call({.kind = Kind::flush_all, .target = 0, .result = 1});
	h.add(0, 1);
	h.cancel_at(c, 2, 1);
	EXPECT_TRUE(h.right());
	h.actors[0][2].result = 2;
	EXPECT_FALSE(h.right());
	h.actors[0][2].kind = Kind::flush;
	h.actors[0][2].target = 0;
	EXPECT_FALSE(h.right()) << "flushed, and it was there";
	h.actors[0].pop_back();
	EXPECT_TRUE(h.right()) << "a flush of its counter does not";
}

TEST(ModelRepeat, it_rests_until_another_counter_says)
{
	Repeating h;
	Command made = Repeating::made(1, 1);
	made.rest = 1;
	made.rest_threshold = 2;
	const int c = h.arm(made);

	h.add(0, 5);
	Op &read = h.read(3, 1);
	read.seen = 0;
	h.add(1, 2);
	h.read(3, 2);
	h.cancel_at(c, 3, 0); /* the command is not there */
	h.cancel_at(c, 3, 1, true);
	h.add(1, 9);
	h.read(3, 2);
	EXPECT_TRUE(h.right());
	h.actors[0].back().result = 3;
	EXPECT_FALSE(h.right()) << "it was canceled";
	h.actors[0].back().result = 2;
	h.actors[0][2].result = 2;
	EXPECT_FALSE(h.right()) << "it has not rested";
	h.actors[0][2].result = 1;
	h.actors[0][6].rests = false;
	EXPECT_FALSE(h.right()) << "it was resting";
}

TEST(ModelRepeat, it_goes_with_its_process)
{
	Repeating h;
	Command made = Repeating::made(1, 1);
	made.notify = none;
	made.remote = 2;

	h.arm(made);
	h.add(0, 3).end = 0;
	h.call({.kind = Kind::kill, .target = 0}, 1);
	Op &read = h.read(2, 0, 2);
	read.seen = 0;
	for (Word n = 0; n <= 3; ++n) {
		read.result = n;
		EXPECT_TRUE(h.right()) << n;
	}
	read.result = 4;
	EXPECT_FALSE(h.right());
}

TEST(ModelRepeat, it_fails_when_its_peer_is_gone_and_goes_on)
{
	Repeating h;
	Command made = Repeating::made(1, 1);
	made.remote = 2;

	h.arm(made);
	h.add(0, 2);
	h.call({.kind = Kind::kill, .target = 1}, 1);
	h.add(0, 3);
	h.read(3, 2);
	h.call({.kind = Kind::read, .error = true, .target = 3, .result = 3});
	EXPECT_TRUE(h.right());
	h.actors[0][3].result = 3;
	h.actors[0][4].result = 2;
	EXPECT_FALSE(h.right()) << "the process was gone";
}
