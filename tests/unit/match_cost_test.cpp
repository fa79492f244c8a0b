// SPDX-License-Identifier: GPL-2.0

/*
 * The matcher's cost in steps: nodes visited in a bucket, and entries walked over in a list. Times
 * have no meaning here.
 */

#include <algorithm>
#include <climits>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "matcher.h"

constexpr u32 any = Matcher::any;

/* Nodes visited until a key is found: for the mean key, and for the last one. */
struct Search {
	double mean = 0;
	u32 longest = 0;
};

static Search search(const treadle_hash &hash)
{
	Search result;

	for_each_bucket(hash, [&](const treadle_hnode *node) {
		u32 looked = 0;

		for (; node; node = node->next)
			result.mean += ++looked;
		result.longest = std::max(result.longest, looked);
	});
	if (hash.keys)
		result.mean /= hash.keys;
	return result;
}

/* A good hash has 1.5 and 8 or 9, with one key a bucket. */
static void expect_short(const treadle_hash &hash)
{
	const auto [mean, longest] = search(hash);

	EXPECT_LE(mean, 1.75);
	EXPECT_LE(longest, 14u);
}

struct Keys {
	const char *name;
	u64 (*tag)(u64 i);
	u64 ignore;
	u32 (*src)(u64 i);
};

void PrintTo(const Keys &keys, std::ostream *out)
{
	*out << keys.name;
}

static u32 from_any(u64)
{
	return any;
}

static u32 from_each(u64 i)
{
	return i;
}

static const Keys patterns[] = {
	{"in_sequence", [](u64 i) { return i; }, 0, from_any},
	{"by_page", [](u64 i) { return i << 12; }, 0, from_any},
	{"in_the_high_half", [](u64 i) { return i << 32; }, 0, from_any},
	{"in_the_high_bits", [](u64 i) { return i << 47; }, 0, from_any},
	{"with_bits_that_do_not_count", [](u64 i) { return i << 8 | (i & 0xff); }, 0xff, from_any},
	{"rank_and_tag", [](u64 i) { return (i % 317) << 40 | (i / 317); }, 0, from_any},
	{"reversed", [](u64 i) { return ~i; }, 0, from_any},
	{"one_tag_by_source", [](u64) { return u64{7}; }, 0, from_each},
	{"source_as_tag", [](u64 i) { return i; }, 0, from_each},
};

class MatchCost : public testing::TestWithParam<Keys>
{
protected:
	Matcher m;
	std::mt19937_64 random{1};
};

TEST_P(MatchCost, of_a_receive_is_that_of_few_with_100000)
{
	const auto &[name, tag, ignore, src] = GetParam();

	for (const u64 count : {10, 100'000}) {
		std::vector<treadle_match_recv *> posted;

		for (u64 i = 0; i < count; ++i) {
			posted.push_back(m.post(tag(i), ignore, src(i)));
			m.grow();
		}
		EXPECT_EQ(m.match.posted.keys, count);
		expect_short(m.match.posted);
		shim_list_steps = 0;
		for (int k = 0; k < 1000; ++k) {
			const u64 i = random() % count;

			ASSERT_EQ(m.arrive(tag(i), src(i)), posted[i]);
			m.put_back(posted[i]);
		}
		EXPECT_EQ(shim_list_steps, 0u);
		for (auto *const recv : posted)
			m.cancel(recv);
	}
}

TEST_P(MatchCost, of_a_message_is_that_of_few_with_100000)
{
	const auto &[name, tag, ignore, src] = GetParam();

	for (const u64 count : {10, 100'000}) {
		std::vector<treadle_match_msg *> kept;

		for (u64 i = 0; i < count; ++i) {
			kept.push_back(m.keep(tag(i), src(i)));
			m.grow();
		}
		expect_short(m.match.by_tag);
		expect_short(m.match.by_src);
		shim_list_steps = 0;
		for (int k = 0; k < 1000; ++k) {
			const u64 i = random() % count;

			ASSERT_EQ(m.find(tag(i), 0, src(i)), kept[i]);
		}
		EXPECT_EQ(shim_list_steps, 0u);
		for (auto *const msg : kept)
			m.withdraw(msg);
	}
}

INSTANTIATE_TEST_SUITE_P(, MatchCost, testing::ValuesIn(patterns),
			 [](const auto &info) { return info.param.name; });

class MatchCrowd : public testing::Test
{
protected:
	static constexpr u64 count = 100'000;

	Matcher m;
};

/* Plain messages: the oldest is at hand, and a new one is the last. */
TEST_F(MatchCrowd, of_one_key_is_not_walked)
{
	std::vector<treadle_match_recv *> posted;
	std::vector<treadle_match_msg *> kept;

	shim_list_steps = 0;
	for (u64 i = 0; i < count; ++i)
		posted.push_back(m.post(0));
	for (auto *const recv : posted)
		ASSERT_EQ(m.arrive(0), recv);
	for (u64 i = 0; i < count; ++i)
		kept.push_back(m.keep(0));
	for (auto *const msg : kept)
		ASSERT_EQ(m.take(0), msg);
	/* a post looks at the youngest receive, and a message twice */
	EXPECT_LE(shim_list_steps, 3 * count);
}

TEST_F(MatchCrowd, of_one_key_is_not_walked_to_cancel)
{
	std::vector<treadle_match_recv *> posted;

	for (u64 i = 0; i < count; ++i)
		posted.push_back(m.post(0));
	shim_list_steps = 0;
	for (u64 i = 0; i < count; ++i)
		m.cancel(posted[(i * 7919 + count / 2) % count]);
	EXPECT_EQ(shim_list_steps, 0u);
	EXPECT_EQ(m.arrive(0), nullptr);
}

/* A transfer that fails puts back the oldest receive. */
TEST_F(MatchCrowd, of_one_key_is_not_walked_to_put_back_the_oldest)
{
	for (u64 i = 0; i < count; ++i)
		m.post(0);

	auto *const recv = m.arrive(0);

	shim_list_steps = 0;
	m.put_back(recv);
	EXPECT_LE(shim_list_steps, 2u);
	EXPECT_EQ(m.arrive(0), recv);
}

/*
 * All but the youngest entry go, and come back in an order that peers choose, the oldest first. All
 * must regain their places, without a walk.
 */
template <class Make, class Away, class Back, class Take>
static void expect_places_kept(u64 count, u64 steps, Make make, Away away, Back back, Take take)
{
	std::vector<u64> order(count);
	std::mt19937_64 random{1};

	std::iota(order.begin(), order.end(), 0);
	for (int round = 0; round < 4; ++round) {
		std::vector<decltype(make())> all;

		for (u64 i = 0; i < count + 2; ++i)
			all.push_back(make());
		for (u64 i = 0; i <= count; ++i)
			away(all[i]);
		shim_list_steps = 0;
		back(all[0]);
		for (const u64 i : order)
			back(all[i + 1]);
		for (auto *const one : all)
			ASSERT_EQ(take(), one);
		EXPECT_LE(shim_list_steps, steps * count);
		round % 2 ? std::ranges::shuffle(order, random) : std::ranges::reverse(order);
	}
}

TEST_F(MatchCrowd, of_one_key_is_not_walked_to_put_back_many)
{
	const auto arrive = [&] { return m.arrive(0); };

	expect_places_kept(
		count, 4, [&] { return m.post(0); }, [&](auto *recv) { ASSERT_EQ(arrive(), recv); },
		[&](auto *recv) { m.put_back(recv); }, arrive);
}

TEST_F(MatchCrowd, of_one_key_is_not_walked_to_give_back_many)
{
	expect_places_kept(
		count, 8, [&] { return m.keep(0); }, [&](auto *msg) { m.lend(msg); },
		[&](auto *msg) { m.give_back(msg); }, [&] { return m.take(0); });
}

/* A mask costs a look, not a walk. */
TEST_F(MatchCrowd, of_all_classes_is_not_walked)
{
	std::vector<treadle_match_recv *> posted;

	for (u64 i = 0; i < count; ++i) {
		posted.push_back(m.post(i << 8, 1ull << i % TREADLE_CLASSES));
		m.grow();
	}
	shim_list_steps = 0;
	for (u64 i = 0; i < count; ++i)
		ASSERT_EQ(m.arrive(i << 8), posted[i]);
	EXPECT_EQ(shim_list_steps, 0u);
}

/* A table that could not grow in time catches up while entries come and go. */
TEST_F(MatchCrowd, that_came_without_memory_spreads_later)
{
	constexpr u64 count = 20'000;

	shim_allocations_left = 0;
	for (u64 i = 0; i < count; ++i) {
		m.post(i);
		m.grow();
	}
	shim_allocations_left = ULONG_MAX;
	EXPECT_EQ(m.match.posted.buckets, u32{TREADLE_SEG0});
	for (u64 i = 0; i < count; ++i) {
		m.grow();
		m.post(count + i);
		ASSERT_NE(m.arrive(i), nullptr);
	}
	expect_short(m.match.posted);
}
