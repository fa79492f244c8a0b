// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_LANE_SENDER_H
#define TREADLE_PROVIDER_LANE_SENDER_H

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <vector>

#include <treadle/detail/lane.h>
#include <treadle/fi_treadle.h>
#include <treadle/message.h>
#include <treadle/peer_lane.h>

#include "endpoint/rings.h"
#include "notify/cntr.h"
#include "notify/cq.h"

namespace treadle::fi
{

/*
 * The lanes by which an endpoint sends: Documentation/lanes.rst. Under the lock of its transmit
 * ring, all of it.
 */
class LaneSender
{
public:
	/* Null: such an endpoint has none. May throw. */
	static std::unique_ptr<LaneSender> make(Endpoint &endpoint, const LaneUse &use,
						std::uint32_t entries);

	static constexpr bool is_send(std::uint8_t opcode) noexcept
	{
		return opcode == TREADLE_OP_SEND || opcode == TREADLE_OP_TSEND;
	}

	/*
	 * A send is about to be posted to the ring. 0: it was sent by a lane instead. by_ring: it
	 * has to be posted now. -EAGAIN: there is no room for what has to go before it.
	 */
	static constexpr int by_ring = 1;
	template <class Ring>
	[[gnu::always_inline]] int send(Ring &ring, const Message &message) noexcept
	{
		const bool reported = message.flags & TREADLE_F_COMPLETION && queue_;

		if (late_) [[unlikely]]
			return put_late(ring, *std::exchange(late_, nullptr), message, reported);
		Open *const to = find(message.peer);
		if (!to)
			return by_ring;
		if (message.flags & ~plain || message.len > longest_) [[unlikely]]
			return leave(ring, *to, 1, stats_.other);
		if (!ring.idle() || to->lane.overtakes()) [[unlikely]]
			return leave(ring, *to, 1, stats_.busy);
		if (!to->writer.open()) [[unlikely]]
			return leave(ring, *to, 1, stats_.shut);
		if (!reserve(reported)) [[unlikely]]
			return leave(ring, *to, 1, stats_.waited);
		const auto put = to->writer.put(kind_here(message), message.tag, message.data,
						reinterpret_cast<const void *>(message.addr),
						static_cast<std::uint32_t>(message.len));
		if (put == detail::LaneWriter::Put::shut) [[unlikely]]
			return put_late(ring, *to, message, reported);
		if (put == detail::LaneWriter::Put::full) [[unlikely]] {
			cancel(reported);
			return leave(ring, *to, 1, stats_.full);
		}
		if (!use_.sent && queue_) [[likely]]
			quick_ = to;
		finish(message, reported);
		return 0;
	}

	/*
	 * The usual case, in few instructions: for the lane that was used last, which was open
	 * then; with Word 8 bytes, and without a call. False: send has to follow at once.
	 */
	template <bool Word, class Ring>
	[[gnu::always_inline]] bool send_here(const Ring &ring, const Message &message) noexcept
	{
		constexpr std::uint32_t usual = TREADLE_F_COMPLETION | TREADLE_F_INJECT |
						(Word ? 0 : TREADLE_F_REMOTE_CQ_DATA);
		const bool reported = message.flags & TREADLE_F_COMPLETION;
		const std::uint32_t kind = kind_here(message);
		const auto *const bytes = reinterpret_cast<const void *>(message.addr);
		const detail::LocalQueue queue = queue_; /* in registers */
		Open *const to = quick_;

		if ((Word ? message.len != 8 : message.len > longest_) || !to ||
		    message.peer != to->peer || removed() || message.flags & ~usual ||
		    !ring.idle() || to->lane.overtakes() || (reported && !queue.reserve()))
			[[unlikely]]
			return false;
		const auto put =
			Word || message.len == 8 ?
				to->writer.put_word(kind, message.tag, message.data, bytes) :
				to->writer.put(kind, message.tag, message.data, bytes,
					       static_cast<std::uint32_t>(message.len));
		if (put != detail::LaneWriter::Put::done) [[unlikely]] {
			quick_ = nullptr;
			if (put == detail::LaneWriter::Put::shut)
				late_ = to;
			else if (reported)
				queue.cancel();
			return false;
		}
		if (reported)
			queue.add(message.context, kind_of(message));
		++stats_.sent;
		return true;
	}

	/* The same for a send that no lane takes, of so many slots. */
	template <class Ring>
	[[gnu::noinline]] int make_way(Ring &ring, std::uint64_t peer, std::uint32_t slots) noexcept
	{
		Open *const to = find(peer);

		return to ? leave(ring, *to, slots, stats_.other) : by_ring;
	}

	const fi_treadle_lane_stats &stats() const noexcept { return stats_; }

private:
	/* A lane to a peer. */
	struct Open {
		std::uint64_t peer;
		treadle_addr address;
		Lane lane;
		detail::LaneWriter writer;
	};
	struct Entry {
		std::uint64_t peer = TREADLE_ADDR_ANY;
		std::unique_ptr<Open> open; /* or null */
		/* So many sends more before a lane is asked for, and how often that failed. */
		std::uint32_t wait = 0, fails = 0;
	};

	static constexpr std::size_t most_lanes = 256, places = 512, ways = 8;
	static constexpr std::uint32_t patience = 8, refused_patience = 64;
	/* More flags ask for more than a message. The ring is idle: a fence waits for nothing. */
	static constexpr std::uint32_t plain = TREADLE_F_COMPLETION | TREADLE_F_INJECT |
					       TREADLE_F_MORE | TREADLE_F_FENCE |
					       TREADLE_F_REMOTE_CQ_DATA;

	LaneSender(Endpoint &endpoint, const LaneUse &use, std::uint32_t entries);

	/* The lane to a peer, or null. */
	Open *find(std::uint64_t peer) noexcept
	{
		return last_ && last_->peer == peer && !removed() ? last_ : look_up(peer);
	}
	/* Were peers removed from the vector? */
	bool removed() const noexcept
	{
		return use_.removals->load(std::memory_order_relaxed) != removals_;
	}
	Open *look_up(std::uint64_t peer) noexcept;
	static bool is_tagged(const Message &message) noexcept
	{
		return message.opcode == TREADLE_OP_TSEND;
	}
	/* In the lane. */
	static std::uint32_t kind_here(const Message &message) noexcept
	{
		return (is_tagged(message) ? TREADLE_LANE_TAGGED : 0) |
		       (message.flags & TREADLE_F_REMOTE_CQ_DATA ? TREADLE_LANE_DATA : 0);
	}
	/* In a completion. */
	static std::uint32_t kind_of(const Message &message) noexcept
	{
		return TREADLE_CQ_SEND | (is_tagged(message) ? TREADLE_CQ_TAGGED : TREADLE_CQ_MSG);
	}
	/* It lies in a lane; what it counts and reports was reserved. */
	void finish(const Message &message, bool reported) noexcept
	{
		if (reported)
			queue_.add(message.context, kind_of(message));
		if (use_.sent) [[unlikely]]
			use_.sent->local().add(use_.sent->step(message.len));
		++stats_.sent;
	}
	/* The receiver has closed the lane while this message was put there. */
	template <class Ring>
	[[gnu::noinline]] int put_late(Ring &ring, Open &to, const Message &message,
				       bool reported) noexcept
	{
		if (!take_back(ring, to)) {
			finish(message, reported);
			return 0;
		}
		cancel(reported);
		++stats_.shut;
		return by_ring;
	}
	Entry *place(std::uint64_t peer) noexcept;
	bool has_lane(const treadle_addr &address) const noexcept;
	bool open(Entry &entry) noexcept;
	void forget(Entry &entry) noexcept;
	void check_removed() noexcept;
	bool is_still(const Open &to) noexcept;

	/* What lies in the lane goes by the ring first. */
	template <class Ring>
	[[gnu::noinline]] int leave(Ring &ring, Open &to, std::uint32_t slots,
				    std::uint64_t &why) noexcept
	{
		if (!to.writer.empty() && !to.writer.closed()) {
			if (ring.room_locked() < to.writer.waiting() + slots)
				return -EAGAIN;
			take_back(ring, to);
		}
		++why;
		return by_ring;
	}
	/*
	 * There is room in the ring. The bytes stay in the lane, unchanged, until the ring is idle.
	 * These sends have completed: nothing is reported, and the doorbell follows.
	 */
	template <class Ring> [[gnu::noinline]] bool take_back(Ring &ring, Open &to) noexcept
	{
		const bool closed = to.writer.closed();

		return to.writer.take_back([&](const treadle_lane_msg &message,
					       const std::byte *bytes) {
			const bool tagged = message.flags & TREADLE_LANE_TAGGED;
			const bool data = message.flags & TREADLE_LANE_DATA;

			if (closed) /* they are lost with their receiver */
				return;
			++stats_.taken_back;
			std::ignore = ring.post_locked(
				{.opcode = static_cast<std::uint8_t>(tagged ? TREADLE_OP_TSEND :
									      TREADLE_OP_SEND),
				 .flags = TREADLE_F_INJECT | TREADLE_F_MORE | TREADLE_F_WORK |
					  (data ? TREADLE_F_REMOTE_CQ_DATA : 0),
				 .addr = address_of(bytes),
				 .len = message.len,
				 .peer = to.peer,
				 .tag = tagged ? message.tag : 0,
				 .data = data ? message.data : 0});
		});
	}
	bool reserve(bool reported) noexcept
	{
		if (reported && !queue_.reserve()) [[unlikely]]
			return false;
		if (!use_.sent || use_.sent->local().reserve()) [[likely]]
			return true;
		if (reported)
			queue_.cancel();
		return false;
	}
	void cancel(bool reported) noexcept
	{
		if (reported)
			queue_.cancel();
		if (use_.sent)
			use_.sent->local().cancel();
	}

	const LaneUse use_;
	Endpoint &endpoint_;
	detail::LocalQueue queue_; /* may hold nothing */
	const std::uint32_t most_; /* messages in a lane: the ring has room for them */
	const std::uint64_t longest_;
	Open *last_ = nullptr;
	/* The lane that was used last, or null: it is shut, or sends are counted. */
	Open *quick_ = nullptr;
	/* send_here has put its message there when it was shut, and reserved its completion. */
	Open *late_ = nullptr;
	std::uint32_t removals_;
	std::size_t lanes_ = 0;
	std::unique_ptr<std::array<Entry, places>> entries_;
	fi_treadle_lane_stats stats_{};
};

} // namespace treadle::fi

#endif
