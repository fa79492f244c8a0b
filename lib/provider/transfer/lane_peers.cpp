// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/lane_peers.h"

#include "endpoint/endpoint.h"
#include "names/av.h"

namespace treadle::fi
{

LanePeers::LanePeers(Endpoint &endpoint, const LaneUse &use) noexcept
	: av_(*use.av), changes_(*use.changes), names_(endpoint.rx_caps() & FI_SOURCE),
	  directed_(endpoint.rx_caps() & FI_DIRECTED_RECV), asks_(names_ || directed_)
{
}

void LanePeers::ask_kernel(LaneEnd &end) noexcept
{
	end.changes = changes();
	const std::uint64_t source = end.lane.source().value_or(TREADLE_ADDR_ANY);
	end.asked = true;
	end.source = names_ ? source : TREADLE_ADDR_ANY;
	end.port = directed_ && source != TREADLE_ADDR_ANY ? port_of(source) : no_port;
}

/* Keeps the answer. */
std::uint32_t LanePeers::look_up(std::uint64_t peer) noexcept
{
	const std::uint32_t now = changes();
	const auto place = av_.place(peer);
	const std::uint32_t port = place && place->here ? place->address.port : no_port;

	known_[peer % known_.size()] = {.peer = peer, .port = port, .changes = now};
	return port;
}

} // namespace treadle::fi
