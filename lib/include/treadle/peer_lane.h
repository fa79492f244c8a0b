// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PEER_LANE_H
#define TREADLE_PEER_LANE_H

#include <cstdint>

#include <treadle/detail/mapping.h>
#include <treadle/detail/ring.h>
#include <treadle/lane.h>
#include <treadle/object.h>
#include <treadle/peer.h>

namespace treadle
{

class Context;

enum class LaneId : std::uint32_t {};

/**
 * One end of a lane: memory through which one endpoint sends small messages to another without a
 * system call. See <treadle/lane.h> of the uapi and Documentation/lanes.rst, which say what is
 * written there, and when. detail::LaneWriter and detail::LaneReader do that.
 *
 * The endpoint can't be closed before the lanes that it has made (EBUSY).
 *
 * Threads: one at a time.
 */
class TREADLE_API Lane : public Object<LaneId>
{
public:
	/* Holds nothing. */
	Lane() noexcept : Object(-1, 0) {}

	/* For the sender. Errors: see struct treadle_lane_make. */
	[[nodiscard]] static Result<Lane> make(const Context &context, EndpointId endpoint,
					       Peer peer) noexcept;
	/* For the receiver: the oldest one that was offered to its ring. EAGAIN: there is none. */
	[[nodiscard]] static Result<Lane> take(const Context &context, ReceiveRingId ring) noexcept;

	/* The map: a struct treadle_lane, and the units of its messages. */
	std::byte *data() const noexcept { return memory_.data(); }
	/* For the sender: do messages wait in the kernel? Then one by the lane might overtake. */
	bool overtakes() const noexcept { return detail::load_acquire(peer_->flags) != 0; }
	/* For the receiver: the sender as treadle_cqe.src has it, or TREADLE_ADDR_ANY. */
	[[nodiscard]] Result<std::uint64_t> source() const noexcept;

private:
	Lane(int device, std::uint32_t id, detail::Mapping memory, detail::Mapping peer) noexcept;

	const treadle_ring_cons *peer_ = nullptr;
	detail::Mapping memory_, peer_map_;
};

} // namespace treadle

#endif
