// SPDX-License-Identifier: GPL-2.0
#ifndef TREADLE_TESTS_UNIT_MATCHER_H
#define TREADLE_TESTS_UNIT_MATCHER_H

#include <cstdlib>
#include <deque>

#include "shim.h"

extern "C" {
#include "pure/match.h"
}

/* A matcher, with the receives and messages in it. */
class Matcher
{
public:
	static constexpr u32 any = TREADLE_SRC_ANY;

	Matcher()
	{
		if (treadle_match_init(&match, 0x0123456789abcdef))
			std::abort();
	}
	~Matcher() { treadle_match_exit(&match); }

	Matcher(const Matcher &) = delete;
	Matcher &operator=(const Matcher &) = delete;

	/* A receive, younger than all before it, which is not posted yet. */
	treadle_match_recv &receive(u64 tag, u64 ignore = 0, u32 src = any)
	{
		treadle_match_recv &recv = receives_.emplace_back();

		recv.node.tag = tag;
		recv.ignore = ignore;
		recv.node.src = src;
		recv.node.seq = seq_++;
		return recv;
	}

	treadle_match_recv *post(u64 tag, u64 ignore = 0, u32 src = any)
	{
		treadle_match_recv &recv = receive(tag, ignore, src);

		treadle_match_post(&match, &recv);
		return &recv;
	}
	void put_back(treadle_match_recv *recv) { treadle_match_post(&match, recv); }
	void cancel(treadle_match_recv *recv) { treadle_match_remove_recv(&match, recv); }

	treadle_match_recv *arrive(u64 tag, u32 src = 1)
	{
		return treadle_match_arrive(&match, tag, src);
	}

	treadle_match_msg *keep(u64 tag, u32 src = 1)
	{
		treadle_match_msg &msg = messages_.emplace_back();

		msg.tag = tag;
		msg.src = src;
		treadle_match_keep(&match, &msg);
		return &msg;
	}
	void withdraw(treadle_match_msg *msg) { treadle_match_remove_msg(&match, msg); }
	void lend(treadle_match_msg *msg) { treadle_match_lend_msg(&match, msg); }
	void give_back(treadle_match_msg *msg) { treadle_match_return_msg(&match, msg); }

	/* The message that such a receive would take; it stays. */
	treadle_match_msg *find(u64 tag, u64 ignore = 0, u32 src = any)
	{
		treadle_match_recv recv{};

		recv.node.tag = tag;
		recv.ignore = ignore;
		recv.node.src = src;
		return treadle_match_find(&match, &recv);
	}
	treadle_match_msg *take(u64 tag, u64 ignore = 0, u32 src = any)
	{
		treadle_match_msg *const msg = find(tag, ignore, src);

		if (msg)
			withdraw(msg);
		return msg;
	}

	/* Gives the tables the segments that they want, as long as there is memory. */
	void grow()
	{
		u32 buckets;

		while (treadle_hash *const hash = treadle_match_wants(&match, &buckets)) {
			void *const segment = kvcalloc(buckets, sizeof(treadle_hnode *), 0);

			if (!segment)
				return;
			kvfree(treadle_hash_give(hash, static_cast<treadle_hnode **>(segment),
						 buckets));
		}
	}

	treadle_match match;

private:
	std::deque<treadle_match_recv> receives_;
	std::deque<treadle_match_msg> messages_;
	u64 seq_ = 0;
};

/* Calls visit(first node or null) for each bucket. */
template <class Visit> void for_each_bucket(const treadle_hash &hash, Visit &&visit)
{
	u32 bucket = 0;

	for (int i = 0; i < TREADLE_SEGS && bucket < hash.buckets; ++i) {
		const u32 size = TREADLE_SEG0 << (i ? i - 1 : 0);

		for (u32 j = 0; j < size && bucket < hash.buckets; ++j, ++bucket)
			visit(hash.seg[i][j]);
	}
}

#endif
