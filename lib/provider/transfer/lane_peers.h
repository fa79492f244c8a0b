// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_LANE_PEERS_H
#define TREADLE_PROVIDER_LANE_PEERS_H

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

#include <treadle/detail/lane.h>
#include <treadle/peer_lane.h>

#include "endpoint/rings.h"

namespace treadle::fi
{

/* Beside ports, which are between the first two. */
inline constexpr std::uint32_t any_port = 0, no_port = 0x10000, unknown_port = 0x20000;

/* The receiving end of a lane. */
struct LaneEnd {
	explicit LaneEnd(Lane &&from) noexcept : lane(std::move(from)), reader(lane.data()) {}

	Lane lane;
	detail::LaneReader reader;
	std::uint64_t source = TREADLE_ADDR_ANY; /* for completions */
	std::uint32_t port = no_port;		 /* for directed receives */
	std::uint32_t changes = 0;		 /* of the vector, when these two were asked for */
	bool asked = false;
	std::uint32_t waiting = 0; /* messages of it in LaneWaiting */
};

/*
 * The senders of lanes, as the address vector has them now. Directed receives are compared by the
 * port of their peer: peers with lanes are of this machine, where a port is one endpoint, and an
 * address may be in the vector several times.
 */
class LanePeers
{
public:
	LanePeers(Endpoint &endpoint, const LaneUse &use) noexcept;

	/* Brings what is known of a sender up to date. */
	void ask(LaneEnd &end) noexcept
	{
		if (asks_ && !(end.asked && end.changes == changes()))
			ask_kernel(end);
	}
	/* Of the peer that a receive names; no_port: it is not here. */
	std::uint32_t port_of(std::uint64_t peer) noexcept
	{
		const std::uint32_t port = known_port(peer);

		return port == unknown_port ? look_up(peer) : port;
	}
	/* The same without a call; unknown_port: port_of has to tell. */
	[[gnu::always_inline]] std::uint32_t known_port(std::uint64_t peer) const noexcept
	{
		if (peer == TREADLE_ADDR_ANY) [[likely]]
			return any_port;
		const Known &known = known_[peer % known_.size()];
		return known.peer == peer && known.changes == changes() ? known.port : unknown_port;
	}

private:
	struct Known {
		std::uint64_t peer = TREADLE_ADDR_ANY;
		std::uint32_t port = no_port, changes = 0;
	};

	std::uint32_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }
	void ask_kernel(LaneEnd &end) noexcept;
	std::uint32_t look_up(std::uint64_t peer) noexcept;

	const Av &av_;
	const std::atomic<std::uint32_t> &changes_;
	const bool names_, directed_, asks_;
	std::array<Known, 64> known_;
};

} // namespace treadle::fi

#endif
