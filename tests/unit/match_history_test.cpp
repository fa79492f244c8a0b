// SPDX-License-Identifier: GPL-2.0

/*
 * The matcher, compared with a list that is searched: the same answers through long random
 * histories.
 */

#include <algorithm>
#include <climits>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "match_model.h"
#include "matcher.h"

/* Without sanitizers all parts: sanitizers are slow, and one thread has no races. */
#if defined(__SANITIZE_THREAD__)
constexpr int parts = 20;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int parts = 4;
#else
constexpr int parts = 1;
#endif

enum class Memory { enough, scarce, none };

struct History {
	const char *name;
	u64 tags;		/* number of different tags */
	int shift;		/* where their bits are */
	std::vector<u64> masks; /* ignored bits */
	u32 sources;
	int named;	   /* percent of the receives that name a source */
	std::size_t level; /* posted receives, and kept messages, in turn */
	int steps;
	Memory memory;
	int lent = 0; /* percent of the matched messages that are given back */
};

void PrintTo(const History &history, std::ostream *out)
{
	*out << history.name;
}

class MatchHistory : public testing::TestWithParam<History>
{
protected:
	void SetUp() override
	{
		ASSERT_EQ(treadle_match_init(&match, random()), 0);
		ASSERT_EQ(treadle_match_init(&claimed, random()), 0);
	}
	void TearDown() override
	{
		shim_allocations_left = ULONG_MAX;
		for (const auto &offer : offers)
			kvfree(offer.segment);
		for (auto *const recv : reference.posted)
			delete recv;
		for (auto *const recv : in_flight)
			delete recv;
		for (auto *const msg : reference.messages)
			delete msg;
		for (const auto &it : lent)
			delete it.msg;
		treadle_match_exit(&claimed);
		treadle_match_exit(&match);
	}

	u64 below(u64 n) { return random() % n; }
	bool percent(unsigned int p) { return below(100) < p; }
	u64 a_tag() { return below(history.tags) << history.shift; }
	template <class T> typename T::value_type take(T &from, std::size_t i)
	{
		const auto value = from[i];

		from.erase(from.begin() + i);
		return value;
	}

	/*
	 * A receive and a message have met. Sometimes the transfer fails, and the receive returns.
	 */
	void met(treadle_match_recv *recv)
	{
		if (percent(20) && in_flight.size() < 100)
			in_flight.push_back(recv);
		else
			delete recv;
	}

	/*
	 * A message leaves its place for a while. Every other one is in another matcher meanwhile.
	 */
	void lend(treadle_match_msg *msg)
	{
		Lent &it = lent.emplace_back(msg);

		if (percent(50)) {
			treadle_match_lend_msg(&match, msg);
			return;
		}
		it.place = std::make_unique<treadle_match_place>();
		it.seq = treadle_match_keep_place(msg, it.place.get());
		treadle_match_remove_msg(&match, msg);
		treadle_match_keep_as(&claimed, msg, a_tag());
	}

	/* As treadle_rx_place(). */
	void place(treadle_match_recv *recv)
	{
		auto *const expected = reference.find(*recv);
		auto *const found = treadle_match_find(&match, recv);

		ASSERT_EQ(found, expected);
		if (!found) {
			treadle_match_post(&match, recv);
			reference.post(recv);
			return;
		}
		std::erase(reference.messages, found);
		if (percent(history.lent) && lent.size() < 100) {
			lend(found);
		} else {
			treadle_match_remove_msg(&match, found);
			delete found;
		}
		met(recv);
	}

	void post()
	{
		auto *const recv = new treadle_match_recv{};

		recv->node.tag = a_tag();
		recv->ignore = history.masks[below(history.masks.size())];
		recv->node.src = percent(history.named) ? below(history.sources) : TREADLE_SRC_ANY;
		recv->node.seq = seq++;
		place(recv);
	}
	void arrive()
	{
		const u64 tag = a_tag();
		const u32 src = below(history.sources);
		auto *const expected = reference.arrive(tag, src);
		auto *const recv = treadle_match_arrive(&match, tag, src);

		ASSERT_EQ(recv, expected);
		if (recv) {
			std::erase(reference.posted, recv);
			met(recv);
			return;
		}

		auto *const msg = new treadle_match_msg{};

		msg->tag = tag;
		msg->src = src;
		treadle_match_keep(&match, msg);
		reference.keep(msg);
	}
	void put_back()
	{
		if (!in_flight.empty())
			place(take(in_flight, below(in_flight.size())));
	}
	/* A lent message goes to a receive posted since, or back to its place, or is done with. */
	void give_back()
	{
		if (lent.empty())
			return;

		const std::size_t i = below(lent.size());
		const Lent it = std::move(lent[i]);
		auto *const msg = it.msg;

		lent.erase(lent.begin() + i);
		if (it.place) {
			treadle_match_remove_msg(&claimed, msg);
			treadle_match_lend_at(msg, it.place.get(), it.seq);
		}

		auto *const expected = reference.arrive(msg->tag, msg->src);
		auto *const recv = treadle_match_arrive(&match, msg->tag, msg->src);

		ASSERT_EQ(recv, expected);
		if (recv || percent(20)) {
			treadle_match_unmark(&msg->at);
			delete msg;
		} else {
			treadle_match_return_msg(&match, msg);
			reference.keep(msg);
		}
		if (recv) {
			std::erase(reference.posted, recv);
			met(recv);
		}
	}
	void cancel()
	{
		if (reference.posted.empty())
			return;

		auto *const recv = take(reference.posted, below(reference.posted.size()));

		treadle_match_remove_recv(&match, recv);
		delete recv;
	}
	void withdraw()
	{
		if (reference.messages.empty())
			return;

		auto *const msg = take(reference.messages, below(reference.messages.size()));

		treadle_match_remove_msg(&match, msg);
		delete msg;
	}

	/*
	 * Events may happen between the request for a segment and its arrival, for two at a time.
	 */
	void grow()
	{
		if (history.memory == Memory::none)
			return;
		if (!offers.empty() && percent(50)) {
			const auto offer = take(offers, below(offers.size()));

			kvfree(treadle_hash_give(offer.hash, offer.segment, offer.buckets));
			return;
		}

		u32 buckets;
		treadle_hash *const hash = treadle_match_wants(&match, &buckets);

		if (!hash)
			return;
		shim_allocations_left = history.memory == Memory::enough || percent(30);
		void *const segment = kvcalloc(buckets, sizeof(treadle_hnode *), 0);

		if (segment)
			offers.push_back({hash, static_cast<treadle_hnode **>(segment), buckets});
	}

	void step()
	{
		const u64 dice = below(100);

		if (reference.posted.size() >= history.level)
			posting = false;
		if (reference.messages.size() >= history.level)
			posting = true;
		if (dice < 85)
			percent(posting ? 75 : 25) ? post() : arrive();
		else if (dice < 88)
			put_back();
		else if (dice < 90)
			give_back();
		else if (dice < 92)
			cancel();
		else if (dice < 94)
			withdraw();
		else
			grow();
	}

	/* The tables have each entry once, and each ring is in order. */
	void audit(const treadle_hash &hash, std::size_t entries)
	{
		std::size_t keys = 0;
		std::size_t seen = 0;

		for_each_bucket(hash, [&](treadle_hnode *node) {
			for (; node; node = node->next) {
				EXPECT_EQ(*node->pprev, node);
				++keys;
				++seen;
				for (auto *n = node;; ++seen) {
					auto *const next = list_next_entry(n, same);

					if (next == node)
						break;
					EXPECT_EQ(next->pprev, nullptr);
					EXPECT_EQ(next->cls, n->cls);
					EXPECT_LT(n->seq, next->seq);
					n = next;
				}
			}
		});
		EXPECT_EQ(keys, hash.keys);
		u64 last = 0;
		for (auto *at = rb_first_cached(&hash.back); at; at = rb_next(at), ++seen) {
			const u64 tag = rb_entry(at, treadle_hnode, back)->tag;

			EXPECT_LE(last, tag);
			last = tag;
			EXPECT_TRUE(rb_entry(at, treadle_hnode, back)->cls & TREADLE_BACK);
		}
		EXPECT_EQ(seen, entries);
	}
	void audit()
	{
		const auto &posted = reference.posted;
		const std::size_t hashed = std::ranges::count_if(posted, [](auto *r) {
			return !treadle_match_listed(r);
		});
		std::size_t counted = 0;

		for (int i = 0; i <= TREADLE_EXACT; ++i) {
			const u32 users = match.cls[i].any + match.cls[i].named;

			EXPECT_EQ(match.used >> i & 1, users != 0);
			counted += users;
		}
		EXPECT_EQ(counted, hashed);
		EXPECT_EQ(match.messages, reference.messages.size());
		audit(match.posted, hashed);
		audit(match.by_tag, reference.messages.size());
		audit(match.by_src, reference.messages.size());
	}

	const History &history = GetParam();
	std::mt19937_64 random{20230617};
	treadle_match match;
	treadle_match claimed;
	Reference reference;
	std::vector<treadle_match_recv *> in_flight;
	struct Lent {
		treadle_match_msg *msg;
		std::unique_ptr<treadle_match_place> place =
			{}; /* back to its place, if it is @claimed */
		u64 seq = 0;
	};
	std::vector<Lent> lent;
	std::size_t between = 0; /* how often there was an entry beside the rings */
	struct Offer {
		treadle_hash *hash;
		treadle_hnode **segment;
		u32 buckets;
	};
	std::vector<Offer> offers;
	u64 seq = 0;
	bool posting = true;
};

TEST_P(MatchHistory, gives_the_same_answers)
{
	for (int i = 0; i < history.steps / parts; ++i) {
		step();
		for (const auto *hash : {&match.posted, &match.by_tag, &match.by_src})
			between += rb_first_cached(&hash->back) != nullptr;
		if (i % 5000 == 0)
			audit();
		ASSERT_FALSE(HasFailure()) << "step " << i;
	}
	while (!reference.posted.empty())
		cancel();
	while (!lent.empty())
		give_back();
	while (!reference.messages.empty())
		withdraw();
	audit();
	if (history.lent && parts == 1) {
		EXPECT_GT(between, 0u);
	}
}

static const std::vector<u64> exact{0};
static const std::vector<u64> one_or_all{0, 0, 0, ~0ull};
static const std::vector<u64> few{0, 0, 0xf, 0xf0, ~0ull};
static const std::vector<u64> many{0,	  1,	 2,	3,     4,	   0xf,	     0xf0, 0xff,
				   0xf00, 0xfff, 0xff0, 0xf0f, 1ull << 63, ~0xffull, ~0ull};

INSTANTIATE_TEST_SUITE_P(
	, MatchHistory,
	testing::Values(
		History{"plain", 1, 0, exact, 1, 0, 300, 200'000, Memory::enough},
		History{"plain_from_named", 1, 0, exact, 8, 70, 300, 200'000, Memory::enough},
		History{"exact", 1000, 0, exact, 4, 30, 400, 300'000, Memory::enough},
		History{"high_bits", 1000, 54, exact, 4, 30, 400, 100'000, Memory::scarce},
		History{"exact_or_all", 1000, 0, one_or_all, 4, 30, 300, 200'000, Memory::scarce},
		History{"few_masks", 4096, 0, few, 4, 30, 400, 300'000, Memory::enough},
		History{"many_masks", 4096, 0, many, 4, 30, 300, 300'000, Memory::enough},
		History{"many_masks_crowded", 16, 0, many, 3, 50, 100, 200'000, Memory::scarce},
		History{"without_memory", 4096, 0, few, 4, 30, 400, 100'000, Memory::none},
		History{"plain_lent", 1, 0, exact, 3, 50, 300, 200'000, Memory::enough, 20},
		History{"few_masks_lent", 256, 0, few, 4, 30, 300, 300'000, Memory::scarce, 20},
		History{"many_entries", 1 << 20, 0, exact, 1000, 50, 6000, 60'000, Memory::scarce}),
	[](const auto &info) { return info.param.name; });
