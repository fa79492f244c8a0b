// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_LANE_H
#define TREADLE_TESTS_FI_LANE_H

/* Endpoints that send and receive by lanes, and what they count. */

#include "child.h"
#include "node.h"
#include "window.h"

#include <cstdint>

inline constexpr std::uint64_t lane_caps =
	FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_SOURCE | FI_DIRECTED_RECV;

inline Info manual(std::uint64_t caps = lane_caps)
{
	Info hints = hints_for(caps);

	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	return hints;
}

inline fi_treadle_lane_stats lanes_of(const Node &node, fid_ep *ep)
{
	fi_treadle_lane_stats stats{};

	stats.size = sizeof(stats);
	EXPECT_EQ(
		ops_of<fi_treadle_ops_direct>(node, FI_TREADLE_DIRECT_OPS_1).lane_stats(ep, &stats),
		0);
	return stats;
}

/* Sides in two processes exchange their addresses. */
inline fi_addr_t meet(Side &side, int line)
{
	put(line, address_of(side.ep.get()));
	return side.insert(get(line));
}

/* Side a of a pair has a lane to side b. */
struct LanePair {
	explicit LanePair(Side::Options options = Side::Options(),
			  fi_threading threading = FI_THREAD_SAFE)
		: p(manual(threading), options)
	{
		warm();
	}

	fid_ep *a() { return p.a.ep.get(); }
	fid_ep *b() { return p.b.ep.get(); }
	std::uint64_t sent() { return lanes_of(p.node, a()).sent; }
	std::uint64_t received() { return lanes_of(p.node, b()).received; }

	/* Sends until that goes by a lane. */
	void warm()
	{
		const auto before = sent();
		char to;

		for (int i = 0; i < 500 && sent() == before; ++i) {
			ASSERT_EQ(fi_tinject(a(), "", 1, p.b_at_a, 1), 0);
			ASSERT_EQ(fi_trecv(b(), &to, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr), 0);
			next(p.b.rx_cq.get());
		}
		ASSERT_GT(sent(), before);
	}

	static Info manual(fi_threading threading)
	{
		Info hints = ::manual();

		hints->domain_attr->threading = threading;
		return hints;
	}

	Pair p;
};

#endif
