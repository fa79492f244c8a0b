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

std::uint32_t LanePeers::look_up(std::uint64_t peer) noexcept
{
	const std::uint32_t now = changes();
	Known &known = known_[peer % known_.size()];

	if (known.peer != peer || known.changes != now) {
		const auto place = av_.place(peer);

		known = {.peer = peer,
			 .port = place && place->here ? place->address.port : no_port,
			 .changes = now};
	}
	return known.port;
}

} // namespace treadle::fi
