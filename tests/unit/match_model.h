// SPDX-License-Identifier: GPL-2.0
#ifndef TREADLE_TESTS_UNIT_MATCH_MODEL_H
#define TREADLE_TESTS_UNIT_MATCH_MODEL_H

#include <vector>

#include "shim.h"

extern "C" {
#include "pure/match.h"
}

/* A matcher in its simplest form. */
class Reference
{
public:
	static bool fits(const treadle_match_recv &recv, u64 tag, u32 src)
	{
		return ((recv.node.tag ^ tag) & ~recv.ignore) == 0 &&
		       (recv.node.src == TREADLE_SRC_ANY || recv.node.src == src);
	}

	treadle_match_recv *arrive(u64 tag, u32 src) const
	{
		for (auto *const recv : posted)
			if (fits(*recv, tag, src))
				return recv;
		return nullptr;
	}
	treadle_match_msg *find(const treadle_match_recv &recv) const
	{
		for (auto *const msg : messages)
			if (fits(recv, msg->tag, msg->src))
				return msg;
		return nullptr;
	}
	/* Also for a message that was lent. */
	void keep(treadle_match_msg *msg)
	{
		auto at = messages.end();

		while (at != messages.begin() && at[-1]->by_src.seq > msg->by_src.seq)
			--at;
		messages.insert(at, msg);
	}
	void post(treadle_match_recv *recv)
	{
		auto at = posted.end();

		while (at != posted.begin() && at[-1]->node.seq > recv->node.seq)
			--at;
		posted.insert(at, recv);
	}

	std::vector<treadle_match_recv *> posted;  /* oldest first */
	std::vector<treadle_match_msg *> messages; /* oldest first */
};

#endif
