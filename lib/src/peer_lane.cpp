// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/peer_lane.h>

#include <tuple>
#include <utility>

#include <treadle/context.h>

#include "sys/device.h"

namespace treadle
{

Lane::Lane(int device, std::uint32_t id, detail::Mapping memory, detail::Mapping peer) noexcept
	: Object(device, id), memory_(std::move(memory)), peer_map_(std::move(peer))
{
}

/* A child after fork finds zeros, and a peer that holds it up: it uses the ring, and gets EPERM. */
Result<Lane> Lane::make(const Context &context, EndpointId endpoint, Peer peer) noexcept
{
	treadle_lane_make args{};

	args.ep = std::to_underlying(endpoint);
	args.peer = std::to_underlying(peer);
	if (const auto error = sys::checked(context.device(), TREADLE_IOC_LANE_MAKE, args))
		return std::unexpected(error);
	auto memory = detail::Mapping::create(context.device(), args.rw, detail::Access::write);
	auto page = detail::Mapping::create(context.device(), args.ro, detail::Access::read,
					    TREADLE_RING_DOORBELL);
	if (!memory || !page) {
		std::ignore = sys::destroy(context.device(), args.id);
		return std::unexpected(!memory ? memory.error() : page.error());
	}
	Lane lane(context.device(), args.id, std::move(*memory), std::move(*page));
	lane.peer_ = reinterpret_cast<const treadle_ring_cons *>(lane.peer_map_.data());
	return lane;
}

Result<Lane> Lane::take(const Context &context, ReceiveRingId ring) noexcept
{
	treadle_lane_take args{};

	args.rx = std::to_underlying(ring);
	if (const auto error = sys::checked(context.device(), TREADLE_IOC_LANE_TAKE, args))
		return std::unexpected(error);
	auto memory = detail::Mapping::create(context.device(), args.rw, detail::Access::write);
	if (!memory) {
		std::ignore = sys::destroy(context.device(), args.id);
		return std::unexpected(memory.error());
	}
	return Lane(context.device(), args.id, std::move(*memory), detail::Mapping());
}

Result<std::uint64_t> Lane::source() const noexcept
{
	treadle_lane_source args{};

	args.lane = number();
	if (const auto error = sys::checked(device(), TREADLE_IOC_LANE_SOURCE, args))
		return std::unexpected(error);
	return args.src;
}

} // namespace treadle
