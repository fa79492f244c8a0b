// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* The specification of triggers, and the check of histories against it: wrong ones are found. */

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "written.h"

TEST(Model, a_command_runs_at_its_threshold)
{
	Written h;
	const int c = h.arm({.counter = 0, .threshold = 3});

	h.add(0, 2);
	h.add(0, 1);
	h.ran(c);
	EXPECT_TRUE(h.right());
	h.completions[0].clear();
	EXPECT_FALSE(h.right()) << "its threshold is met and it stays armed: a lost wake-up";
}

TEST(Model, none_runs_before_its_threshold)
{
	Written h;
	const int c = h.arm({.counter = 0, .threshold = 3});

	h.add(0, 2);
	h.ran(c);
	EXPECT_FALSE(h.right()) << "never reached";
	h.add(0, 1);
	EXPECT_FALSE(h.right()) << "was seen to have run before the count was added";
	h.actors[0].back().seen = 0;
	EXPECT_TRUE(h.right());
}

TEST(Model, none_runs_that_was_not_armed)
{
	Written h;
	h.ran(h.command({.counter = 0, .threshold = 0}));
	EXPECT_FALSE(h.right());
}

TEST(Model, each_runs_once)
{
	Written h;
	const int c = h.arm({.counter = 0, .threshold = 0});

	h.ran(c);
	EXPECT_TRUE(h.right());
	h.ran(c);
	EXPECT_FALSE(h.right());
}

TEST(Model, errors_count_towards_the_threshold)
{
	Written h;
	const int c = h.arm({.counter = 0, .threshold = 3});

	h.add(0, 2);
	h.add(0, 1, true);
	h.ran(c);
	EXPECT_TRUE(h.right());
	h.actors[0].back().target = 1;
	EXPECT_FALSE(h.right()) << "of another counter";
}

TEST(Model, order_is_that_of_thresholds_then_of_submission)
{
	Written h;
	const int late = h.arm({.counter = 0, .threshold = 5});
	const int first = h.arm({.counter = 0, .threshold = 2});
	const int second = h.arm({.counter = 0, .threshold = 2});

	h.set(0, 100);
	for (const int c : {first, second, late})
		h.ran(c);
	EXPECT_TRUE(h.right());
	std::swap(h.completions[0][0], h.completions[0][1]);
	EXPECT_FALSE(h.right()) << "submission";
	std::swap(h.completions[0][0], h.completions[0][1]);
	std::swap(h.completions[0][1], h.completions[0][2]);
	EXPECT_FALSE(h.right()) << "threshold";
	h.completions[0].erase(h.completions[0].begin());
	EXPECT_FALSE(h.right()) << "left out";
}

TEST(Model, values_have_64_bits_and_wrap)
{
	Written h;
	h.set(0, top);
	const int c = h.arm({.counter = 0, .threshold = top});
	h.ran(c);
	const int low = h.arm({.counter = 0, .threshold = 1});
	h.ran(low);
	h.add(0, 2);
	h.read(0, 1);
	const int high = h.arm({.counter = 0, .threshold = 2});
	EXPECT_TRUE(h.right()) << "1 is below 2";
	h.ran(high);
	EXPECT_FALSE(h.right()) << "it has wrapped";
}

TEST(Model, cancel_is_exact)
{
	Written h;
	const int c = h.arm({.counter = 0, .threshold = 3});

	h.cancel(c, 1);
	h.cancel(c, 0);
	h.add(0, 3);
	EXPECT_TRUE(h.right());
	h.ran(c);
	EXPECT_FALSE(h.right()) << "canceled, and it ran";
	h.completions[0].clear();
	h.actors[0][2].result = 1;
	EXPECT_FALSE(h.right()) << "canceled twice";
	h.actors[0][1].result = h.actors[0][2].result = 0;
	EXPECT_FALSE(h.right()) << "neither canceled, nor did it run";
}

TEST(Model, flush_is_exact)
{
	Written h;
	h.arm({.counter = 0, .threshold = 3});
	h.arm({.counter = 0, .threshold = 4});
	h.arm({.counter = 1, .threshold = 5});
	h.flush(0, 2);
	h.call({.kind = Kind::flush_all, .target = 0, .result = 1});
	h.add(0, 9);
	h.add(1, 9);
	EXPECT_TRUE(h.right());
	for (const int delta : {-1, 1}) {
		h.actors[0][3].result += delta;
		EXPECT_FALSE(h.right()) << "of a counter";
		h.actors[0][3].result -= delta;
		h.actors[0][4].result += delta;
		EXPECT_FALSE(h.right()) << "of all";
		h.actors[0][4].result -= delta;
	}
	h.ran(1);
	EXPECT_FALSE(h.right()) << "it was flushed";
}

TEST(Model, a_flush_of_all_may_be_overtaken_between_two_counters)
{
	Written h;
	h.arm({.counter = 0, .threshold = 9});
	h.call({.kind = Kind::flush_all, .target = 0, .result = 2}).end = top;
	const int c = h.command({.counter = 1, .threshold = 9});
	h.call({.kind = Kind::arm, .target = c}, 1);
	EXPECT_TRUE(h.right());
	h.actors[0].back().result = 3;
	EXPECT_FALSE(h.right());
}

TEST(Model, at_the_same_time_either_may_be_first)
{
	for (const bool runs : {false, true}) {
		Written h;
		const int c = h.arm({.counter = 0, .threshold = 1});

		Op &add = h.add(0, 1);
		Op &cancel = h.cancel(c, runs ? 0 : 1, 1);
		cancel.begin = add.begin;
		if (runs)
			h.ran(c);
		EXPECT_TRUE(h.right());
		cancel.result ^= 1;
		EXPECT_FALSE(h.right());
	}
}

TEST(Model, a_call_that_ended_is_before_one_that_begins)
{
	Written h;
	const int c = h.arm({.counter = 0, .threshold = 2});

	h.set(0, 1, 1);
	h.add(0, 1, false, 2);
	h.ran(c);
	EXPECT_TRUE(h.right());
	std::swap(h.actors[1], h.actors[2]);
	std::swap(h.actors[1][0].begin, h.actors[2][0].begin);
	std::swap(h.actors[1][0].end, h.actors[2][0].end);
	EXPECT_FALSE(h.right()) << "it was set back after";
}

TEST(Model, a_counter_that_was_set_back_may_fire_or_not)
{
	Written h;
	const int c = h.arm({.counter = 0, .threshold = 5});

	h.set(0, 7);
	h.set(0, 0);
	EXPECT_TRUE(h.right());
	h.ran(c);
	EXPECT_TRUE(h.right());
}

TEST(Model, commands_count_into_others)
{
	for (const bool failed : {false, true}) {
		Written h;
		const int a = h.arm({.counter = 0, .threshold = 1, .notify = 1});
		const int b = h.arm({.counter = 1, .threshold = 1});

		h.add(0, 1);
		h.ran(a, failed);
		h.ran(b);
		h.call({.kind = Kind::read, .error = failed, .target = 1, .result = 1});
		EXPECT_TRUE(h.right());
		h.actors[0].back().error = !failed;
		EXPECT_FALSE(h.right()) << "as success, or as error";
		h.actors[0].back().error = failed;
		h.actors[0].back().result = 2;
		EXPECT_FALSE(h.right()) << "once";
		h.actors[0].back().result = 0;
		h.actors[0].back().last = true;
		EXPECT_FALSE(h.right()) << "never, and all is over";
		h.commands[a].notify = none;
		h.actors[0].pop_back();
		EXPECT_FALSE(h.right()) << "nothing has counted for b";
	}
}

TEST(Model, a_remote_count_is_made_once)
{
	Written h;
	const int a = h.arm({.counter = 0, .threshold = 1, .remote = 2});
	const int b = h.arm({.counter = 2, .threshold = 1}, 1);

	h.add(0, 1);
	h.ran(a);
	h.ran(b, false, 1);
	h.read(2, 1, 1).seen = 1;
	EXPECT_TRUE(h.right());
	h.actors[1].back().result = 0;
	EXPECT_FALSE(h.right()) << "b was seen to have run";
	h.actors[1].back().result = 1;
	h.completions[0][0].failed = true;
	EXPECT_FALSE(h.right()) << "it has failed";
}

/* Process 0 is killed; its writes arrive at counter 2 of process 1. */
TEST(Model, nothing_runs_after_it_was_killed)
{
	Written h;
	h.arm({.counter = 0, .threshold = 1, .remote = 2});
	h.arm({.counter = 0, .threshold = 1, .remote = 2});
	h.add(0, 1).end = 0;
	h.call({.kind = Kind::kill, .target = 0}, 1);
	Op &first = h.read(2, 0, 2);
	first.seen = 0;
	for (Word n = 0; n <= 2; ++n) {
		h.actors[2][0].result = n;
		EXPECT_TRUE(h.right()) << n;
	}
	h.actors[2][0].result = 3;
	EXPECT_FALSE(h.right()) << "each once";

	/* The command is armed after the count that would fire it, and no later count does. */
	h.actors[0].pop_back();
	h.actors[2][0].result = 1;
	EXPECT_FALSE(h.right()) << "the threshold was not met";
}

/* Two commands start in order; the first one writes to process 1, and only the second completes. */
TEST(Model, a_write_may_still_be_under_way_when_its_process_is_killed)
{
	Written h;
	const int write = h.arm({.counter = 0, .threshold = 1, .remote = 2});
	const int second = h.arm({.counter = 0, .threshold = 1});

	h.add(0, 1);
	h.ran(second);
	h.call({.kind = Kind::kill, .target = 0}, 1);
	h.read(2, 0, 2).seen = 0;
	EXPECT_TRUE(h.right()) << "the write is lost";
	h.actors[2].back().result = 1;
	EXPECT_TRUE(h.right()) << "the write has arrived";
	h.actors[2].back().result = 2;
	EXPECT_FALSE(h.right()) << "it arrives once";

	h.actors[2].back().result = 1;
	h.commands[write].threshold = 2;
	EXPECT_FALSE(h.right()) << "the threshold was not met";
	h.commands[write].threshold = 1;
	h.actors[1].clear();
	EXPECT_FALSE(h.right()) << "its process lives: it completes";

	h.call({.kind = Kind::kill, .target = 0}, 1);
	h.actors[2].clear();
	EXPECT_TRUE(h.right());
	h.commands[write].remote = none;
	EXPECT_FALSE(h.right()) << "it writes to no process: it completes first";
}

TEST(Model, a_waiting_command_dies_with_its_process)
{
	Written h;
	h.arm({.counter = 0, .threshold = 1, .remote = 2});
	h.call({.kind = Kind::kill, .target = 0}, 1);
	/* As if another process had counted for the dead one. */
	h.call({.kind = Kind::add, .target = 0, .value = 1}, 2).seen = 0;
	h.read(2, 0, 2).seen = 0;
	EXPECT_TRUE(h.right());
	h.actors[2].back().result = 1;
	EXPECT_FALSE(h.right());
}

TEST(Model, a_command_left_armed_is_not_ready)
{
	Written h;
	const int c = h.arm({.counter = 0, .threshold = 3});

	h.add(0, 2);
	h.call({.kind = Kind::cancel, .last = true, .target = c, .result = 1});
	EXPECT_TRUE(h.right());
	h.actors[0][1].value = 3;
	EXPECT_FALSE(h.right()) << "a lost wake-up";
	h.actors[0].back().last = false;
	EXPECT_TRUE(h.right()) << "but at any other time it may be just about to run";
}

TEST(Model, reads_find_the_value)
{
	Written h;
	h.add(0, 2);
	h.read(0, 2);
	h.add(0, 1);
	EXPECT_TRUE(h.right());
	h.actors[0][1].result = 3;
	EXPECT_FALSE(h.right());
}

/*
 * A device that follows the model, in some order, has right histories. With one injected fault it
 * has wrong ones.
 */
class Device : public testing::TestWithParam<int>
{
protected:
	enum class Fault {
		nothing,
		runs_twice,
		forgets,
		wrong_order,
		cancels_too,
		miscounts,
		leaves_out,
		repeats_itself
	};

	/* Calls overlap: each begins a random time before it happens. */
	Written play(std::mt19937 &random, Fault fault)
	{
		Written h;
		Counters c;
		std::array<std::vector<int>, 2> armed;
		const auto lottery = [&](int n) { return static_cast<int>(random() % n); };

		h.counters = {0, 0, 0}; /* rounds of repeating commands */
		h.completions.resize(1);
		for (int step = 0; step < 24; ++step) {
			const int counter = lottery(2);
			const int actor = lottery(3);
			Op op{.target = counter};

			switch (lottery(6)) {
			case 0:
			case 1:
				op.kind = Kind::arm;
				op.target = h.command({.counter = counter,
						       .threshold = static_cast<Word>(lottery(6))});
				if (of_those_that_repeat(fault) && lottery(2)) {
					h.commands.back().notify = 2;
					h.commands.back().step = static_cast<Word>(1 + lottery(3));
				}
				c.arm(op.target, h.commands.data());
				break;
			case 2:
				op.kind = Kind::add;
				op.value = static_cast<Word>(lottery(3));
				c.add(counter, false, op.value);
				break;
			case 3:
				op.kind = Kind::flush;
				op.result = c.flush(counter, h.commands.data());
				if (fault == Fault::miscounts) {
					op.result += 100;
					faulty_ = true;
				}
				break;
			default:
				if (h.commands.empty())
					continue;
				op.kind = Kind::cancel;
				op.target = lottery(static_cast<int>(h.commands.size()));
				op.value = c.threshold_of(op.target, h.commands.data());
				op.result = c.take(op.target, h.commands.data());
				if (fault == Fault::cancels_too && op.result &&
				    !h.commands[op.target].step) {
					h.ran(op.target);
					faulty_ = true;
				}
			}
			op.begin = h.clock - std::min<Word>(h.clock, lottery(4));
			if (!h.actors[actor].empty())
				op.begin = std::max(op.begin, h.actors[actor].back().end);
			op.end = ++h.clock + lottery(3);
			h.clock = std::max(h.clock, op.end);
			h.actors[actor].push_back(op);
			fire(h, c, fault);
		}
		Op &last = h.read(2, c.value(2, false));
		last.last = true;
		last.seen = 0;
		return h;
	}

	void fire(Written &h, Counters &c, Fault fault)
	{
		for (int counter = 0; counter < 2; ++counter)
			for (int n; (n = c.ready(counter, h.commands.data())) != none;) {
				c.start(n, h.commands.data());
				if (h.commands[n].step) {
					round(h, c, n, fault);
					continue;
				}
				if (fault == Fault::forgets && !faulty_) {
					faulty_ = true;
					continue;
				}
				h.ran(n);
				if (fault == Fault::runs_twice && !faulty_) {
					h.ran(n);
					faulty_ = true;
				}
				auto &all = h.completions[0];
				if (fault == Fault::wrong_order && !faulty_ && all.size() > 1 &&
				    in_order(h, all[all.size() - 2].command, n)) {
					std::swap(all[all.size() - 2], all.back());
					faulty_ = true;
				}
			}
	}

	/*
	 * Faults of repeating commands can't always be found: a command under way is not flushed.
	 */
	static bool of_those_that_repeat(Fault fault)
	{
		return fault == Fault::nothing || fault == Fault::leaves_out ||
		       fault == Fault::repeats_itself;
	}

	void round(Written &h, Counters &c, int number, Fault fault)
	{
		const bool faulty = !faulty_ && fault != Fault::nothing;

		c.again(number, h.commands.data());
		c.add(2, false, faulty ? (fault == Fault::leaves_out ? 0 : 2) : 1);
		faulty_ |= faulty;
	}

	/* Armed in this order and fired at once, with thresholds that allow no other order. */
	static bool in_order(const Written &h, int a, int b)
	{
		return h.commands[a].counter == h.commands[b].counter && a < b &&
		       h.commands[a].threshold <= h.commands[b].threshold && alone(h, a) &&
		       alone(h, b);
	}
	/* No other call took place while the command was armed. */
	static bool alone(const Written &h, int command)
	{
		const Op *arm = nullptr;

		for (const auto &actor : h.actors)
			for (const Op &op : actor)
				if (op.kind == Kind::arm && op.target == command)
					arm = &op;
		return arm && std::ranges::none_of(h.actors, [&](const auto &actor) {
			       return std::ranges::any_of(actor, [&](const Op &op) {
				       return &op != arm && op.begin < arm->end &&
					      op.end > arm->begin;
			       });
		       });
	}

	bool faulty_ = false;
};

TEST_P(Device, is_found_out_if_it_is_faulty)
{
	const auto fault = static_cast<Fault>(GetParam());
	std::mt19937 random(1);
	int found = 0, faulty = 0;

	for (int round = 0; round < 300; ++round) {
		faulty_ = false;
		const Written h = play(random, fault);
		const Verdict verdict = check(h);
		ASSERT_TRUE(verdict.right || faulty_) << text_of(h) << verdict.why;
		ASSERT_TRUE(!verdict.right || !faulty_ || of_those_that_repeat(fault))
			<< text_of(h);
		found += !verdict.right;
		faulty += faulty_;
	}
	if (fault == Fault::nothing)
		EXPECT_EQ(faulty, 0);
	else
		EXPECT_GT(found, faulty / 2) << "of " << faulty;
}

INSTANTIATE_TEST_SUITE_P(Faults, Device, testing::Range(0, 8));
