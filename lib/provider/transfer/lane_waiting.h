// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_LANE_WAITING_H
#define TREADLE_PROVIDER_LANE_WAITING_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include <treadle/message.h>

#include "transfer/lane_peers.h"
#include "transfer/lane_reports.h"

namespace treadle::fi
{

inline bool is_tagged(const Message &receive) noexcept
{
	return receive.opcode == TREADLE_OP_TRECV;
}

/* The flags of a receive's completion; flags: of the message. */
inline std::uint32_t kind_of(bool tagged, std::uint32_t flags = 0) noexcept
{
	constexpr std::uint32_t same[] = {TREADLE_LANE_TAGGED, TREADLE_LANE_DATA};
	static_assert(same[0] == TREADLE_CQ_TAGGED && same[1] == TREADLE_CQ_REMOTE_CQ_DATA);

	return TREADLE_CQ_RECV | (tagged ? TREADLE_CQ_TAGGED : TREADLE_CQ_MSG) |
	       (flags & TREADLE_LANE_DATA);
}

/* A message that was taken out of its lane and has found no receive, with its bytes behind it. */
struct WaitingMessage : LaneReports::Place {
	WaitingMessage *after = nullptr;
	LaneEnd *end = nullptr;
	std::uint64_t tag = 0, data = 0, claim = 0;
	std::uint32_t len = 0, flags = 0;

	std::byte *bytes() noexcept { return reinterpret_cast<std::byte *>(this + 1); }
	/* Copies as much as there is room for. */
	void copy_to(std::span<const treadle_iov> iov) noexcept;
};

/* All of an endpoint's, in the order in which they were taken out. */
class LaneWaiting
{
public:
	/* most: bytes, about */
	LaneWaiting(LanePeers &peers, std::size_t most) noexcept : peers_(peers), most_(most) {}
	LaneWaiting(const LaneWaiting &) = delete;
	LaneWaiting &operator=(const LaneWaiting &) = delete;
	~LaneWaiting();

	bool empty() const noexcept { return !unclaimed_.first; }
	bool full() const noexcept { return bytes_ > most_; }
	bool half_full() const noexcept { return bytes_ > most_ / 2; }

	/* Copies a message that is still in its lane: keep or drop follows. Null: no memory. */
	static WaitingMessage *copy(LaneEnd &end,
				    const detail::LaneReader::Message &message) noexcept;
	void keep(WaitingMessage *copy) noexcept;
	static void drop(WaitingMessage *copy) noexcept { std::free(copy); }

	/* The oldest one that a receive matches, or null. It stays, or is removed. */
	WaitingMessage *find(const Message &receive) noexcept
	{
		WaitingMessage **const at = place_of(receive);

		return at ? *at : nullptr;
	}
	WaitingMessage *remove(const Message &receive) noexcept
	{
		WaitingMessage **const at = empty() ? nullptr : place_of(receive);

		return at ? unclaimed_.remove(at) : nullptr;
	}
	/* FI_CLAIM: keeps what was removed for the receive with this context, which takes it. */
	void claim(WaitingMessage &message, std::uint64_t context) noexcept;
	WaitingMessage *take_claimed(std::uint64_t context) noexcept;
	/* What was removed has been received. */
	void consumed(const WaitingMessage &message) noexcept
	{
		bytes_ -= message.len + overhead;
		--message.end->waiting;
	}

private:
	static constexpr std::size_t overhead = 300; /* of a message, as the kernel charges it */

	struct Queue {
		WaitingMessage *first = nullptr, **last = &first;

		void append(WaitingMessage *message) noexcept;
		WaitingMessage *remove(WaitingMessage **at) noexcept;
	};

	WaitingMessage **place_of(const Message &receive) noexcept;
	bool matches(const WaitingMessage &message, const Message &receive,
		     std::uint32_t port) noexcept;

	LanePeers &peers_;
	const std::size_t most_;
	std::size_t bytes_ = 0;
	Queue unclaimed_, claimed_;
};

} // namespace treadle::fi

#endif
