// SPDX-License-Identifier: GPL-2.0

/* The order in which commands fire that are armed on a counter: kernel/pure/armed.h. */

#include <deque>
#include <iterator>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "shim.h"

extern "C" {
#include "pure/armed.h"
}

constexpr u64 half = 1ull << 63;
constexpr u64 last = ~0ull;

class Armed : public testing::Test
{
protected:
	treadle_armed *arm(u64 threshold)
	{
		treadle_armed &armed = all.emplace_back();

		armed.threshold = threshold;
		armed.seq = seq++;
		treadle_armed_insert(&root, &armed);
		return &armed;
	}
	treadle_armed *pop(u64 value) { return treadle_armed_pop(&root, value); }
	treadle_armed *from(u64 threshold, u64 seq = 0)
	{
		return treadle_armed_from(&root, threshold, seq);
	}
	void erase(treadle_armed *armed) { rb_erase_cached(&armed->node, &root); }

	rb_root_cached root{};
	std::deque<treadle_armed> all;
	u64 seq = 0;
};

TEST_F(Armed, without_commands_nothing_fires)
{
	EXPECT_EQ(pop(last), nullptr);
	EXPECT_EQ(from(0), nullptr);
}

TEST_F(Armed, a_command_fires_once_at_its_threshold)
{
	auto *const armed = arm(5);

	EXPECT_EQ(pop(0), nullptr);
	EXPECT_EQ(pop(4), nullptr);
	EXPECT_EQ(pop(5), armed);
	EXPECT_EQ(pop(5), nullptr);
	EXPECT_EQ(pop(last), nullptr);
}

TEST_F(Armed, a_counter_that_jumps_fires_by_threshold)
{
	auto *const nine = arm(9);
	auto *const three = arm(3);
	auto *const seven = arm(7);
	auto *const one = arm(1);

	EXPECT_EQ(pop(8), one);
	EXPECT_EQ(pop(8), three);
	EXPECT_EQ(pop(8), seven);
	EXPECT_EQ(pop(8), nullptr);
	EXPECT_EQ(pop(100), nine);
}

TEST_F(Armed, equal_thresholds_fire_in_order_of_submission)
{
	std::vector<treadle_armed *> fives;

	for (int i = 0; i < 100; ++i) {
		fives.push_back(arm(5));
		arm(6);
		arm(4);
	}
	for (int i = 0; i < 100; ++i)
		EXPECT_EQ(pop(5)->threshold, 4u);
	for (auto *const armed : fives)
		EXPECT_EQ(pop(5), armed);
	EXPECT_EQ(pop(5), nullptr);
}

TEST_F(Armed, a_late_command_fires_before_higher_thresholds)
{
	auto *const ten = arm(10);

	EXPECT_EQ(pop(5), nullptr);

	auto *const two = arm(2);

	EXPECT_EQ(pop(5), two);
	EXPECT_EQ(pop(5), nullptr);
	EXPECT_EQ(pop(10), ten);
}

TEST_F(Armed, threshold_0_fires_at_once)
{
	auto *const armed = arm(0);

	EXPECT_EQ(pop(0), armed);
}

/* Values are unsigned, and all 64 bits count. */
TEST_F(Armed, values_are_compared_with_all_their_bits)
{
	auto *const never = arm(last);
	auto *const above = arm(half);
	auto *const below = arm(half - 1);
	auto *const far = arm(1ull << 32);
	auto *const one = arm(1);

	EXPECT_EQ(pop(0), nullptr);
	EXPECT_EQ(pop((1ull << 32) - 1), one);
	EXPECT_EQ(pop((1ull << 32) - 1), nullptr);
	EXPECT_EQ(pop(half - 2), far);
	EXPECT_EQ(pop(half - 2), nullptr);
	EXPECT_EQ(pop(half), below);
	EXPECT_EQ(pop(half), above);
	EXPECT_EQ(pop(last - 1), nullptr);
	EXPECT_EQ(pop(last), never);
}

TEST_F(Armed, the_order_of_submission_has_64_bits_too)
{
	seq = (1ull << 32) - 1;
	auto *const first = arm(5);
	auto *const second = arm(5);
	seq = half;
	auto *const third = arm(5);

	EXPECT_EQ(pop(5), first);
	EXPECT_EQ(pop(5), second);
	EXPECT_EQ(pop(5), third);
}

TEST_F(Armed, a_canceled_command_does_not_fire)
{
	auto *const one = arm(1);
	auto *const two = arm(2);
	auto *const three = arm(3);

	erase(two);
	erase(one);
	EXPECT_EQ(pop(2), nullptr);
	EXPECT_EQ(pop(3), three);
}

TEST_F(Armed, a_search_finds_the_first_that_is_not_before)
{
	auto *const one = arm(1);
	auto *const three = arm(3);
	auto *const three_again = arm(3);
	auto *const never = arm(last);

	EXPECT_EQ(from(0), one);
	EXPECT_EQ(from(1), one);
	EXPECT_EQ(from(1, one->seq + 1), three);
	EXPECT_EQ(from(2, last), three);
	EXPECT_EQ(from(3, three->seq + 1), three_again);
	EXPECT_EQ(from(3, last), never);
	EXPECT_EQ(from(last, last), nullptr);
}

/* As treadle_cntr_cull(): some at a time, while others come and go where it goes on. */
TEST_F(Armed, a_walk_goes_on_where_it_was)
{
	for (int i = 0; i < 1000; ++i)
		arm(i % 10);

	u64 threshold = 0;
	u64 next_seq = 0;
	int seen = 0;

	for (auto *armed = from(0); armed; armed = from(threshold, next_seq)) {
		for (int i = 0; armed && i < 7; ++i) {
			auto *const next = treadle_armed_next(armed);

			EXPECT_EQ(armed->threshold, static_cast<u64>(seen / 100));
			threshold = armed->threshold;
			next_seq = armed->seq + 1;
			if (seen++ % 2)
				erase(armed);
			armed = next;
		}
		if (auto *const first = from(0); first && first->threshold < threshold)
			erase(first);
		if (threshold)
			arm(threshold - 1); /* behind the walk: not seen */
	}
	EXPECT_EQ(seen, 1000);
}

TEST_F(Armed, a_million_fire_in_order)
{
	constexpr u64 count = 1'000'000;

	for (u64 i = 0; i < count; ++i)
		arm(i * 2654435761 % count); /* each once */
	for (u64 value = 0; value < count; ++value) {
		ASSERT_EQ(pop(value)->threshold, value);
		ASSERT_EQ(pop(value), nullptr);
	}
}

/* Compared with a map of all that is armed. */
class ArmedHistory : public Armed, public testing::WithParamInterface<std::vector<u64>>
{
protected:
	using Key = std::pair<u64, u64>;

	u64 below(u64 n) { return random() % n; }
	u64 a_threshold()
	{
		const auto &around = GetParam();

		return around[below(around.size())] + below(4);
	}

	std::mt19937_64 random{7};
	std::map<Key, treadle_armed *> reference;
};

TEST_P(ArmedHistory, gives_the_same_answers)
{
	for (int i = 0; i < 300'000; ++i) {
		const u64 dice = below(100);
		const auto first = reference.begin();

		if (dice < (i / 1000 % 2 ? 30 : 60)) {
			auto *const armed = arm(a_threshold());

			reference[{armed->threshold, armed->seq}] = armed;
		} else if (dice < 80) {
			const u64 value = a_threshold();
			auto *const armed = pop(value);

			if (first == reference.end() || first->first.first > value) {
				ASSERT_EQ(armed, nullptr);
			} else {
				ASSERT_EQ(armed, first->second);
				reference.erase(first);
			}
		} else if (dice < 90) {
			const Key key(a_threshold(), below(seq + 2));
			const auto expected = reference.lower_bound(key);
			auto *const armed = from(key.first, key.second);

			ASSERT_EQ(armed, expected == reference.end() ? nullptr : expected->second);
			if (!armed)
				continue;
			const auto behind = std::next(expected);
			ASSERT_EQ(treadle_armed_next(armed),
				  behind == reference.end() ? nullptr : behind->second);
			if (dice < 85) {
				erase(armed);
				reference.erase(expected);
			}
		} else if (first != reference.end()) {
			ASSERT_EQ(from(0), first->second);
		}
	}
	for (const auto &[key, armed] : reference)
		ASSERT_EQ(pop(last), armed);
	EXPECT_EQ(pop(last), nullptr);
}

INSTANTIATE_TEST_SUITE_P(, ArmedHistory,
			 testing::Values(std::vector<u64>{0}, std::vector<u64>{0, 4, 8, 12, 16},
					 std::vector<u64>{0, (1ull << 32) - 2, half - 2, last - 3},
					 [] {
						 std::vector<u64> many(1000);

						 for (u64 i = 0; i < many.size(); ++i)
							 many[i] = i << 40;
						 return many;
					 }()));
