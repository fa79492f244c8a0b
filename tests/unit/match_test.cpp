// SPDX-License-Identifier: GPL-2.0

/* Which receive gets a message: kernel/pure/match.c, one behaviour after the other. */

#include <algorithm>
#include <array>
#include <climits>
#include <vector>

#include <gtest/gtest.h>

#include "matcher.h"

constexpr u32 any = Matcher::any;

class Match : public testing::Test
{
protected:
	Matcher m;
};

TEST_F(Match, nothing_matches_in_an_empty_matcher)
{
	EXPECT_EQ(m.arrive(0), nullptr);
	EXPECT_EQ(m.find(0), nullptr);
	EXPECT_EQ(m.find(0, ~0ull), nullptr);
}

TEST_F(Match, a_receive_takes_one_message)
{
	auto *const recv = m.post(7);

	EXPECT_EQ(m.arrive(8), nullptr);
	EXPECT_EQ(m.arrive(7), recv);
	EXPECT_EQ(m.arrive(7), nullptr);
}

TEST_F(Match, a_message_is_for_one_receive)
{
	auto *const msg = m.keep(7);

	EXPECT_EQ(m.take(8), nullptr);
	EXPECT_EQ(m.take(7), msg);
	EXPECT_EQ(m.take(7), nullptr);
}

TEST_F(Match, all_64_bits_of_a_tag_count)
{
	for (int bit = 0; bit < 64; ++bit) {
		const u64 tag = 0x5555aaaa5555aaaa ^ 1ull << bit;
		auto *const recv = m.post(tag);

		EXPECT_EQ(m.arrive(0x5555aaaa5555aaaa), nullptr) << bit;
		EXPECT_EQ(m.arrive(tag), recv) << bit;
	}
}

TEST_F(Match, receives_with_one_tag_go_in_order)
{
	std::vector<treadle_match_recv *> posted;

	for (int i = 0; i < 10; ++i)
		posted.push_back(m.post(7));
	for (auto *const recv : posted)
		EXPECT_EQ(m.arrive(7), recv);
}

TEST_F(Match, messages_with_one_tag_go_in_order_from_any_source)
{
	std::vector<treadle_match_msg *> kept;

	for (u32 i = 0; i < 10; ++i)
		kept.push_back(m.keep(7, i % 3));
	for (auto *const msg : kept)
		EXPECT_EQ(m.take(7), msg);
}

TEST_F(Match, the_oldest_receive_wins_however_exact)
{
	const struct {
		u64 ignore;
		u32 src;
	} kinds[] = {{0, 1}, {0, any}, {0xff, 1}, {0xff, any}, {~0ull, 1}, {~0ull, any}};

	for (const auto &first : kinds) {
		for (const auto &second : kinds) {
			auto *const a = m.post(7, first.ignore, first.src);
			auto *const b = m.post(7, second.ignore, second.src);

			EXPECT_EQ(m.arrive(7), a);
			EXPECT_EQ(m.arrive(7), b);
			EXPECT_EQ(m.arrive(7), nullptr);
		}
	}
}

TEST_F(Match, a_named_source_is_the_only_one)
{
	auto *const two = m.post(7, 0, 2);
	auto *const three = m.post(7, 0xff, 3);

	EXPECT_EQ(m.arrive(7, 1), nullptr);
	EXPECT_EQ(m.arrive(7, 3), three);
	EXPECT_EQ(m.arrive(7, 2), two);
}

TEST_F(Match, a_receive_finds_the_messages_of_its_source)
{
	auto *const one = m.keep(7, 1);
	auto *const two = m.keep(7, 2);
	auto *const again = m.keep(7, 1);

	EXPECT_EQ(m.find(7, 0, 3), nullptr);
	EXPECT_EQ(m.find(9, 0xff, 3), nullptr);
	EXPECT_EQ(m.take(7, 0, 2), two);
	EXPECT_EQ(m.take(7, 0, 2), nullptr);
	EXPECT_EQ(m.take(9, 0xff, 1), one);
	EXPECT_EQ(m.take(7), again);
}

TEST_F(Match, ignored_bits_do_not_count_on_either_side)
{
	auto *const recv = m.post(0x1234, 0xff);

	EXPECT_EQ(m.arrive(0x1334), nullptr);
	EXPECT_EQ(m.arrive(0x12ab), recv);

	auto *const msg = m.keep(0x12ab);

	EXPECT_EQ(m.take(0x1334, 0xff), nullptr);
	EXPECT_EQ(m.take(0x1234, 0xff), msg);
}

TEST_F(Match, a_receive_that_ignores_all_takes_the_oldest)
{
	auto *const first = m.keep(1, 1);
	auto *const second = m.keep(2, 2);

	EXPECT_EQ(m.take(99, ~0ull, 2), second);
	EXPECT_EQ(m.take(99, ~0ull), first);

	auto *const recv = m.post(99, ~0ull);

	EXPECT_EQ(m.arrive(1), recv);
}

TEST_F(Match, more_masks_than_classes_stay_in_order)
{
	constexpr int masks = 3 * TREADLE_CLASSES;
	std::vector<treadle_match_recv *> posted;

	for (int i = 0; i < 4 * masks; ++i)
		posted.push_back(m.post(0, 1ull << i % masks));
	for (auto *const recv : posted)
		EXPECT_EQ(m.arrive(0), recv);
	EXPECT_EQ(m.arrive(0), nullptr);
}

TEST_F(Match, a_receive_without_a_class_matches_as_the_others)
{
	for (int i = 0; i < TREADLE_CLASSES; ++i)
		m.post(0xff0000, 1ull << i);

	auto *const named = m.post(0x1200, 0xff, 2);
	auto *const wide = m.post(0x1200, 0xfff);

	EXPECT_TRUE(treadle_match_listed(named));
	EXPECT_TRUE(treadle_match_listed(wide));
	EXPECT_EQ(m.arrive(0x2200, 2), nullptr);
	EXPECT_EQ(m.arrive(0x1234, 1), wide);
	EXPECT_EQ(m.arrive(0x1234, 1), nullptr);
	EXPECT_EQ(m.arrive(0x1234, 2), named);
}

TEST_F(Match, an_unused_class_serves_another_mask)
{
	std::array<treadle_match_recv *, TREADLE_CLASSES> first;

	for (int i = 0; i < TREADLE_CLASSES; ++i)
		first[i] = m.post(0xff0000, 1ull << i);
	auto *const listed = m.post(0, 0xff);
	EXPECT_TRUE(treadle_match_listed(listed));
	EXPECT_EQ(m.arrive(0xff0000 | 1ull << 3), first[3]);

	/* of two receives with the same mask one is listed, and one is not */
	auto *const hashed = m.post(0, 0xff);
	EXPECT_FALSE(treadle_match_listed(hashed));
	EXPECT_EQ(m.arrive(1), listed);
	EXPECT_EQ(m.arrive(2), hashed);
}

TEST_F(Match, a_class_serves_named_and_unnamed_sources)
{
	auto *const named = m.post(7, 0xff, 1);
	auto *const open = m.post(7, 0xff);

	m.cancel(named);
	EXPECT_EQ(m.arrive(7, 1), open);

	auto *const again = m.post(7, 0xff, 1);

	EXPECT_EQ(m.arrive(7, 2), nullptr);
	EXPECT_EQ(m.arrive(7, 1), again);
}

/* Three with one key; each of them, first, middle and last, is taken out. */
TEST_F(Match, a_canceled_receive_matches_nothing)
{
	for (const int out : {0, 1, 2}) {
		for (const u64 ignore : {0x0ull, 0xffull}) {
			std::vector<treadle_match_recv *> posted;

			for (int i = 0; i < 3; ++i)
				posted.push_back(m.post(7, ignore));
			m.cancel(posted[out]);
			posted.erase(posted.begin() + out);
			for (auto *const recv : posted)
				EXPECT_EQ(m.arrive(7), recv) << out;
			EXPECT_EQ(m.arrive(7), nullptr) << out;
		}
	}
}

TEST_F(Match, a_canceled_receive_without_a_class_matches_nothing)
{
	for (int i = 0; i < TREADLE_CLASSES; ++i)
		m.post(0xff0000, 1ull << i);

	auto *const first = m.post(0, 0xff);
	auto *const second = m.post(0, 0xff);
	auto *const third = m.post(0, 0xff);

	m.cancel(second);
	EXPECT_EQ(m.arrive(0), first);
	m.cancel(third);
	EXPECT_EQ(m.arrive(0), nullptr);
}

TEST_F(Match, a_message_that_is_withdrawn_is_not_found)
{
	for (const int out : {0, 1, 2}) {
		std::vector<treadle_match_msg *> kept;

		for (u32 i = 0; i < 3; ++i)
			kept.push_back(m.keep(7, i & 1));
		m.withdraw(kept[out]);
		kept.erase(kept.begin() + out);
		EXPECT_EQ(m.match.messages, 2u);
		EXPECT_EQ(m.find(7, 0xff), kept[0]);
		for (auto *const msg : kept) {
			EXPECT_EQ(m.find(7, 0, msg->src)->src, msg->src);
			EXPECT_EQ(m.take(7), msg) << out;
		}
		EXPECT_EQ(m.find(7), nullptr);
	}
}

/* Four with one key; they leave one by one, and return when all or some have left. */
TEST_F(Match, a_receive_put_back_regains_its_place)
{
	for (const bool listed : {false, true}) {
		const u64 ignore = listed ? 0xff : 0;

		for (int i = 0; listed && i < TREADLE_CLASSES; ++i)
			m.post(0xff0000, 1ull << i);
		for (const auto &order : {std::array{0, 1, 2, 3}, std::array{3, 2, 1, 0},
					  std::array{1, 3, 0, 2}, std::array{2, 0, 3, 1}}) {
			for (int gone = 1; gone <= 4; ++gone) {
				std::vector<treadle_match_recv *> posted;

				for (int i = 0; i < 4; ++i)
					posted.push_back(m.post(7, ignore));
				EXPECT_EQ(treadle_match_listed(posted[0]), listed);
				for (int i = 0; i < gone; ++i)
					m.cancel(posted[order[i]]);
				for (int i = gone; i--;)
					m.put_back(posted[order[i]]);
				for (auto *const recv : posted)
					EXPECT_EQ(m.arrive(7), recv) << gone;
			}
		}
	}
}

TEST_F(Match, a_receive_put_back_is_older_than_other_kinds)
{
	auto *const first = m.post(7);
	auto *const second = m.post(7, 0xff);
	auto *const third = m.post(7, 0, 1);

	EXPECT_EQ(m.arrive(7), first);
	EXPECT_EQ(m.arrive(7), second);
	m.put_back(first);
	EXPECT_EQ(m.arrive(7), first);
	m.put_back(second);
	EXPECT_EQ(m.arrive(7), second);
	EXPECT_EQ(m.arrive(7), third);
}

/* --- growth --- */

TEST_F(Match, a_search_goes_on_where_it_was)
{
	constexpr u64 count = 100;
	std::vector<treadle_match_msg *> kept;
	treadle_match_recv &recv = m.receive(count, 1), &never = m.receive(1ull << 40, 1);
	treadle_match_place mark, other;
	u32 looks = 10;

	treadle_match_mark_init(&mark);
	treadle_match_mark_init(&other);
	for (u64 i = 0; i < count; ++i)
		kept.push_back(m.keep(i));
	EXPECT_EQ(treadle_match_seek(&m.match, &recv, &mark, &looks), nullptr);
	EXPECT_TRUE(treadle_match_marked(&mark));
	EXPECT_EQ(looks, 0u);
	/* the entries at its place go, another search passes, and a match arrives */
	for (int i = 5; i < 15; ++i)
		m.withdraw(kept[i]);
	looks = 5;
	EXPECT_EQ(treadle_match_seek(&m.match, &never, &other, &looks), nullptr);
	EXPECT_TRUE(treadle_match_marked(&other));
	auto *const msg = m.keep(count);

	/* the 85 that were there */
	looks = 85;
	EXPECT_EQ(treadle_match_seek(&m.match, &recv, &mark, &looks), nullptr);
	looks = 1;
	EXPECT_EQ(treadle_match_seek(&m.match, &recv, &mark, &looks), msg);
	EXPECT_FALSE(treadle_match_marked(&mark));
	looks = UINT_MAX;
	EXPECT_EQ(treadle_match_seek(&m.match, &never, &other, &looks), nullptr);
	EXPECT_FALSE(treadle_match_marked(&other));
}

TEST_F(Match, each_message_is_walked_over_once)
{
	std::vector<treadle_match_msg *> kept;
	treadle_match_place mark;
	u32 looks = 3;

	treadle_match_mark_init(&mark);
	for (u64 i = 0; i < 5; ++i)
		kept.push_back(m.keep(i));
	for (int i = 0; i < 3; ++i)
		EXPECT_EQ(treadle_match_seek(&m.match, nullptr, &mark, &looks), kept[i]);
	EXPECT_EQ(treadle_match_seek(&m.match, nullptr, &mark, &looks), nullptr);
	EXPECT_TRUE(treadle_match_marked(&mark));
	m.withdraw(kept[2]);
	m.withdraw(kept[3]);
	looks = 3;
	EXPECT_EQ(treadle_match_seek(&m.match, nullptr, &mark, &looks), kept[4]);
	EXPECT_EQ(treadle_match_seek(&m.match, nullptr, &mark, &looks), nullptr);
	EXPECT_FALSE(treadle_match_marked(&mark));
}

TEST_F(Match, a_lent_message_is_not_found)
{
	auto *const lent = m.keep(7);

	m.lend(lent);
	EXPECT_EQ(m.find(7), nullptr);
	EXPECT_EQ(m.find(7, 0, 1), nullptr);
	EXPECT_EQ(m.find(0, ~0ull), nullptr);
	auto *const next = m.keep(7);

	EXPECT_EQ(m.take(0, ~0ull), next);
	treadle_match_unmark(&lent->at);
	EXPECT_EQ(m.find(0, ~0ull), nullptr);
}

/* Lent messages are given back in any order. */
TEST_F(Match, a_message_given_back_regains_its_place)
{
	std::array order{0, 1, 2};

	do {
		std::vector<treadle_match_msg *> kept;

		for (u32 i = 0; i < 6; ++i)
			kept.push_back(m.keep(i < 5 ? 7 : 8));
		for (const int i : {0, 1, 2})
			m.lend(kept[i]);
		kept.push_back(m.keep(7));
		EXPECT_EQ(m.find(7), kept[3]);
		for (const int i : order)
			m.give_back(kept[i]);
		EXPECT_EQ(m.take(8), kept[5]);
		EXPECT_EQ(m.take(0, ~0ull), kept[0]);
		EXPECT_EQ(m.take(7, 0, 1), kept[1]);
		EXPECT_EQ(m.take(7, 0xff), kept[2]);
		EXPECT_EQ(m.take(7), kept[3]);
		EXPECT_EQ(m.take(7), kept[4]);
		EXPECT_EQ(m.take(7), kept[6]);
		EXPECT_EQ(m.take(0, ~0ull), nullptr);
	} while (std::ranges::next_permutation(order).found);
}

TEST_F(Match, a_message_given_back_does_not_overtake_its_source)
{
	auto *const other = m.keep(3);
	auto *const lent = m.keep(7);

	m.lend(lent);
	m.give_back(lent);
	EXPECT_EQ(m.take(0, ~0ull), other);
	EXPECT_EQ(m.take(0, ~0ull), lent);
}

/* However many masks there are beside them. Otherwise the list would have no limit. */
TEST_F(Match, receives_that_ignore_nothing_have_a_class_and_no_limit)
{
	for (int i = 0; i <= TREADLE_CLASSES; ++i)
		m.post(0xff0000, 1ull << i);
	for (u32 i = 0; i <= TREADLE_LISTED; ++i) {
		ASSERT_TRUE(treadle_match_room(&m.match, 0));
		ASSERT_FALSE(treadle_match_listed(m.post(i, 0)));
	}
	EXPECT_EQ(m.match.listed, 1u);
	EXPECT_TRUE(treadle_match_room(&m.match, 1ull << 20));
	EXPECT_EQ(m.arrive(TREADLE_LISTED)->node.tag, TREADLE_LISTED);
}

TEST_F(Match, masks_without_a_class_have_a_limit)
{
	std::vector<treadle_match_recv *> posted;

	for (int i = 0; i < TREADLE_CLASSES; ++i) {
		EXPECT_TRUE(treadle_match_room(&m.match, 1ull << i));
		m.post(0, 1ull << i);
	}
	for (u32 i = 0; i < TREADLE_LISTED; ++i) {
		EXPECT_TRUE(treadle_match_room(&m.match, 1ull << 10));
		posted.push_back(m.post(0, 1ull << 10));
	}
	EXPECT_FALSE(treadle_match_room(&m.match, 1ull << 10));
	EXPECT_FALSE(treadle_match_room(&m.match, 1ull << 11));
	EXPECT_TRUE(treadle_match_room(&m.match, 1ull << 3));
	m.cancel(posted[7]);
	EXPECT_TRUE(treadle_match_room(&m.match, 1ull << 11));
}

TEST_F(Match, tables_want_nothing_until_they_are_full)
{
	u32 buckets;

	for (u64 i = 0; i < TREADLE_SEG0; ++i) {
		EXPECT_EQ(treadle_match_wants(&m.match, &buckets), nullptr);
		m.post(i);
		m.post(i); /* the same key needs no room */
	}
	EXPECT_EQ(treadle_match_wants(&m.match, &buckets), &m.match.posted);
	EXPECT_EQ(buckets, u32{TREADLE_SEG0});
}

TEST_F(Match, an_unwanted_segment_comes_back)
{
	treadle_hnode *segment[2 * TREADLE_SEG0]{};
	u32 buckets;

	EXPECT_EQ(treadle_hash_give(&m.match.posted, segment, TREADLE_SEG0), segment);
	for (u64 i = 0; i < TREADLE_SEG0; ++i)
		m.post(i);
	/* too large: it was asked for at another time */
	EXPECT_EQ(treadle_hash_give(&m.match.posted, segment, 2 * TREADLE_SEG0), segment);
	EXPECT_EQ(treadle_hash_give(&m.match.by_tag, segment, TREADLE_SEG0), segment);
	m.grow();
	/* another thread was faster */
	EXPECT_EQ(treadle_hash_give(&m.match.posted, segment, TREADLE_SEG0), segment);
	EXPECT_EQ(treadle_match_wants(&m.match, &buckets), nullptr);
}

/* All keys are found at every size, whether a table grows in time, late, or not at all. */
TEST_F(Match, growing_loses_no_entry)
{
	constexpr u64 count = 20'000;

	for (const u64 start : {u64{0}, count / 2, count}) {
		std::vector<treadle_match_recv *> posted;
		std::vector<treadle_match_msg *> kept;

		for (u64 i = 0; i < count; ++i) {
			posted.push_back(m.post(i << 20, 0, i % 3 ? any : 1));
			kept.push_back(m.keep(i << 20, i & 1));
			if (i >= start)
				m.grow();
		}
		for (u64 i = 0; i < count; ++i) {
			ASSERT_EQ(m.take(i << 20, 0, i & 2 ? any : i & 1), kept[i]);
			ASSERT_EQ(m.arrive(i << 20), posted[i]);
		}
		EXPECT_EQ(m.match.posted.keys, 0u);
		EXPECT_EQ(m.match.by_tag.keys, 0u);
		EXPECT_EQ(m.match.by_src.keys, 0u);
	}
}

TEST_F(Match, a_table_at_its_limit_goes_on)
{
	treadle_hash &hash = m.match.posted;
	constexpr u32 limit = TREADLE_SEG0 << (TREADLE_SEGS - 1);
	constexpr u32 pretended = limit + 1;
	auto *const first = m.post(1);
	treadle_match_recv &recv = m.receive(2);
	u32 buckets;

	/* As if there were more keys than the table can have buckets: each post adds one. */
	hash.keys += pretended;
	for (u32 i = hash.buckets; i < limit; ++i) {
		m.grow();
		m.put_back(&recv);
		m.cancel(&recv);
	}
	EXPECT_EQ(hash.buckets, limit);
	EXPECT_EQ(treadle_match_wants(&m.match, &buckets), nullptr);

	auto *const last = m.post(3);

	EXPECT_EQ(hash.buckets, limit);
	EXPECT_EQ(m.arrive(3), last);
	EXPECT_EQ(m.arrive(1), first);
	EXPECT_EQ(hash.keys, pretended);
}

TEST_F(Match, no_memory_at_the_start_leaks_nothing)
{
	for (const unsigned long left : {0, 1, 2}) {
		treadle_match match;

		shim_allocations_left = left;
		EXPECT_EQ(treadle_match_init(&match, 1), -ENOMEM);
		treadle_match_exit(&match);
	}
	shim_allocations_left = ULONG_MAX;
}
