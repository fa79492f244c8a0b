// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_LANE_RECEIVER_H
#define TREADLE_PROVIDER_LANE_RECEIVER_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <treadle/detail/lane.h>
#include <treadle/fi_treadle.h>
#include <treadle/message.h>
#include <treadle/receive_ring.h>

#include "endpoint/rings.h"
#include "notify/progress.h"
#include "transfer/lane_peers.h"
#include "transfer/lane_reports.h"
#include "transfer/lane_waiting.h"

namespace treadle::fi
{

/*
 * The receiving ends of an endpoint's lanes: Documentation/lanes.rst. While it is open, receives
 * are kept here, and messages of the lanes are matched with them. Else receives go to the kernel's
 * ring. Messages of lanes that no receive has matched stay here in any case, and every new receive
 * is compared with them first.
 *
 * Lock order: ProgressList, then this, then the lock of the ring.
 */
template <class Lock> class LaneReceiver final : public Progress
{
public:
	/* Null: such an endpoint has none. May throw. */
	static std::unique_ptr<LaneReceiver> make(Endpoint &endpoint, const LaneUse &use,
						  BasicReceiveRing<Lock> &ring);
	LaneReceiver(const LaneReceiver &) = delete;
	LaneReceiver &operator=(const LaneReceiver &) = delete;
	~LaneReceiver() = default;

	/* A receive with one buffer. 0 or -errno. */
	int post(const Message &receive) noexcept;
	/*
	 * The usual case, in few instructions and without a call: it is kept here. False: post has
	 * to do it.
	 */
	[[gnu::always_inline]] bool post_here(const Message &receive) noexcept
	{
		if (!lock_.locks())
			return keep_here(receive);
		const std::lock_guard guard(lock_);
		return keep_here(receive);
	}
	/* One with any flags but those of a peek. */
	int post(const Message &receive, std::span<const treadle_iov> iov) noexcept;
	/* FI_PEEK, FI_CLAIM, FI_DISCARD. 0 or -errno. by_kernel: the kernel has to do it. */
	static constexpr int by_kernel = 1;
	int peek(const Message &receive, std::span<const treadle_iov> iov) noexcept;
	/* Cancels a receive that is kept here. */
	bool cancel(std::uint64_t context) noexcept;
	/* Receives that are kept here. */
	std::uint32_t posted() noexcept;

	void make_progress() noexcept override;
	bool begin_sleep() noexcept override;
	void end_sleep() noexcept override;
	void stop() noexcept override;

	const fi_treadle_lane_stats &stats() const noexcept { return stats_; }

private:
	static constexpr std::uint32_t most_posted = 128, most_lanes = 64;
	static constexpr std::uint32_t longest_pause = 4096;
	/* Those of all receives that are kept here, and of one call. */
	static_assert(LaneReports::most_late > most_posted);

	struct Posted {
		std::uint64_t addr, len, tag, counts /* bits of the tag */, context, peer;
		std::uint32_t flags, port;
		std::uint32_t kind; /* flags of its completion */
	};
	class OptionalLock
	{
	public:
		explicit OptionalLock(bool locks) noexcept : locks_(locks) {}
		bool locks() const noexcept { return locks_; }
		void lock()
		{
			if (locks_)
				mutex_.lock();
		}
		void unlock()
		{
			if (locks_)
				mutex_.unlock();
		}

	private:
		Mutex mutex_;
		const bool locks_;
	};

	LaneReceiver(Endpoint &endpoint, const LaneUse &use, BasicReceiveRing<Lock> &ring);

	[[gnu::noinline]] void make_locked() noexcept;
	/* All below: under the lock. */
	void advance() noexcept;
	[[gnu::noinline]] bool prepare() noexcept;
	void try_open() noexcept;
	bool close() noexcept;
	void bounce() noexcept;
	void take_lanes() noexcept;
	void drop_ended() noexcept;
	[[gnu::always_inline]] bool take_all(LaneEnd &end, bool all) noexcept;
	[[gnu::always_inline]] bool accept(LaneEnd &end, const detail::LaneReader::Message &message,
					   bool all) noexcept;
	[[gnu::noinline]] bool keep_message(LaneEnd &end, detail::LaneReader::Message message,
					    bool all) noexcept;
	[[gnu::always_inline]] void keep_receive(const Message &receive,
						 std::uint32_t port) noexcept
	{
		*end_++ = {.addr = receive.addr,
			   .len = receive.len,
			   .tag = receive.tag,
			   .counts = ~receive.ignore,
			   .context = receive.context,
			   .peer = receive.peer,
			   .flags = receive.flags,
			   .port = port,
			   .kind = kind_of(is_tagged(receive))};
	}
	[[gnu::always_inline]] bool keep_here(const Message &receive) noexcept
	{
		const std::uint32_t port = peers_.known_port(receive.peer);

		if (port >= no_port || !open_ || end_ == limit_ || reports_.late() ||
		    !waiting_.empty()) [[unlikely]]
			return false;
		keep_receive(receive, port);
		return true;
	}
	[[gnu::always_inline]] Posted *find(std::uint32_t flags, std::uint64_t tag,
					    const LaneEnd &end) noexcept;
	bool has_room() noexcept;
	[[gnu::noinline]] void close_gap(Posted *at) noexcept;
	[[gnu::always_inline]] void drop_posted(Posted *at) noexcept;
	void give(WaitingMessage &message, const Message &receive,
		  std::span<const treadle_iov> iov) noexcept;
	bool give(const Message &receive, std::span<const treadle_iov> iov) noexcept;
	bool give_many(Message &receive) noexcept;
	void consume(WaitingMessage &message, const treadle_cqe &cqe, std::uint32_t flags,
		     std::uint64_t len) noexcept;
	std::uint64_t source_of(LaneEnd &end) noexcept
	{
		peers_.ask(end);
		return end.source;
	}
	treadle_cqe seen(WaitingMessage &message, std::uint64_t context) noexcept;
	int use_claim(const Message &receive, std::span<const treadle_iov> iov) noexcept;

	const LaneUse use_;
	Endpoint &endpoint_;
	BasicReceiveRing<Lock> &ring_;
	OptionalLock lock_;
	LanePeers peers_;
	LaneReports reports_;
	LaneWaiting waiting_;
	bool open_ = false, stopped_ = false;
	bool ended_ = false; /* a lane may have ended */
	std::uint32_t sleepers_ = 0;
	std::uint32_t offers_ = 0;
	std::uint32_t pause_ = 0, next_pause_ = 1;
	std::uint64_t received_ = 0; /* stats_.received when it was opened */
	std::array<Posted, most_posted> posted_;
	Posted *first_ = posted_.data(), *end_ = first_;
	Posted *const limit_; /* end_ is not beyond that */
	std::vector<std::unique_ptr<LaneEnd>> ends_;
	fi_treadle_lane_stats stats_{};
};

extern template class LaneReceiver<NoLock>;
extern template class LaneReceiver<Mutex>;

} // namespace treadle::fi

#endif
