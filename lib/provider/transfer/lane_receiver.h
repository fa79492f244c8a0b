// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_LANE_RECEIVER_H
#define TREADLE_PROVIDER_LANE_RECEIVER_H

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <treadle/detail/lane.h>
#include <treadle/fi_treadle.h>
#include <treadle/message.h>
#include <treadle/peer_lane.h>
#include <treadle/receive_ring.h>

#include "endpoint/rings.h"
#include "notify/cntr.h"
#include "notify/cq.h"
#include "notify/progress.h"

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
	~LaneReceiver();

	/* A receive with one buffer. 0 or -errno. */
	int post(const Message &receive) noexcept;
	/* One with any flags but those of a peek. */
	int post(const Message &receive, std::span<const treadle_iov> iov) noexcept;
	/* FI_PEEK, FI_CLAIM, FI_DISCARD. 0 or -errno. by_kernel: the kernel has to do it. */
	static constexpr int by_kernel = 1;
	int peek(const Message &receive, std::span<const treadle_iov> iov) noexcept;
	/* Cancels a receive that is kept here. */
	bool cancel(std::uint64_t context) noexcept;
	/* Receives that are kept here. */
	std::uint32_t posted() noexcept;

	void make() noexcept override;
	bool begin_sleep() noexcept override;
	void end_sleep() noexcept override;
	void stop() noexcept override;

	const fi_treadle_lane_stats &stats() const noexcept { return stats_; }

private:
	static constexpr std::uint32_t most_posted = 64, most_lanes = 64, most_taken = 64;
	static constexpr std::uint32_t longest_pause = 4096;
	static constexpr std::size_t overhead = 300; /* of a message, as the kernel charges it */
	static constexpr std::uint32_t any = 0, nobody = 0x10000; /* beside ports */

	struct End {
		explicit End(Lane &&from) noexcept : lane(std::move(from)), reader(lane.data()) {}

		Lane lane;
		detail::LaneReader reader;
		std::uint64_t source = TREADLE_ADDR_ANY;
		std::uint32_t port = nobody; /* for directed receives */
		std::uint32_t changes = 0;   /* of the vector, when these two were asked for */
		bool asked = false;
		std::uint32_t waiting = 0; /* messages that wait here */
	};
	struct Posted {
		std::uint64_t addr, len, tag, ignore, context, peer;
		std::uint32_t flags;
		std::uint32_t port;
		bool tagged;
	};
	/* A completion that there was no room for. */
	struct Report {
		Report *next = nullptr;
		treadle_cqe cqe{};
		bool heap = false;
	};
	/* A message that waits here, and its bytes behind it. */
	struct Waiting : Report {
		Waiting *after = nullptr;
		End *end = nullptr;
		std::uint64_t tag = 0, data = 0, claim = 0;
		std::uint32_t len = 0, flags = 0;

		std::byte *bytes() noexcept { return reinterpret_cast<std::byte *>(this + 1); }
	};
	struct Queue {
		Waiting *first = nullptr, **last = &first;

		void append(Waiting *message) noexcept
		{
			message->after = nullptr;
			*last = message;
			last = &message->after;
		}
		void remove(Waiting **at) noexcept
		{
			if (last == &(*at)->after)
				last = at;
			*at = (*at)->after;
		}
	};
	struct Cached {
		std::uint64_t peer = TREADLE_ADDR_ANY;
		std::uint32_t port = nobody, changes = 0;
	};
	class OptionalLock
	{
	public:
		explicit OptionalLock(bool locks) noexcept : locks_(locks) {}
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
		std::mutex mutex_;
		const bool locks_;
	};

	LaneReceiver(Endpoint &endpoint, const LaneUse &use, BasicReceiveRing<Lock> &ring);

	/* All below: under the lock. */
	void advance() noexcept;
	void try_open() noexcept;
	bool close() noexcept;
	void bounce() noexcept;
	void take_lanes() noexcept;
	void drop_ended() noexcept;
	bool accept(End &end, const detail::LaneReader::Message &message, bool all) noexcept;
	std::uint32_t find(std::uint32_t flags, std::uint64_t tag, const End &end) noexcept;
	void drop_posted(std::uint32_t index) noexcept;
	Waiting **find_waiting(const Message &receive) noexcept;
	bool matches(const Waiting &message, const Message &receive, std::uint32_t port) noexcept;
	int give(Waiting **at, const Message &receive, std::span<const treadle_iov> iov) noexcept;
	bool give_many(Message &receive) noexcept;
	treadle_cqe seen(Waiting &message, std::uint64_t context) noexcept;
	void ask(End &end) noexcept;
	std::uint32_t port_of(std::uint64_t peer) noexcept;
	std::uint64_t source_of(End &end) noexcept
	{
		ask(end);
		return end.source;
	}
	void report(const treadle_cqe &cqe, Waiting *memory) noexcept;
	void keep(const treadle_cqe &cqe, Waiting *memory) noexcept;
	bool add(const treadle_cqe &cqe) noexcept;
	void count(const treadle_cqe &cqe, std::uint64_t len) noexcept;
	bool report_late() noexcept;
	void finish(const treadle_cqe &cqe, std::uint32_t flags, std::uint64_t len,
		    Waiting *memory) noexcept;

	const LaneUse use_;
	Endpoint &endpoint_;
	BasicReceiveRing<Lock> &ring_;
	OptionalLock lock_;
	detail::LocalQueue queue_; /* may hold nothing */
	bool open_ = false, stopped_ = false;
	bool names_, directed_;
	std::uint32_t sleepers_ = 0;
	std::uint32_t offers_ = 0;
	std::uint32_t pause_ = 0, next_pause_ = 1, taken_ = 0;
	std::uint32_t most_;
	std::uint32_t first_ = 0, end_ = 0; /* of posted_ */
	std::array<Posted, 2 * most_posted> posted_;
	std::vector<std::unique_ptr<End>> ends_;
	Queue waiting_, claimed_;
	std::size_t bytes_ = 0, most_bytes_;
	Report *late_ = nullptr, **last_late_ = &late_;
	Report *unused_ = nullptr;
	std::array<Report, most_posted + 2> reports_;
	std::array<Cached, 64> ports_;
	fi_treadle_lane_stats stats_{};
};

extern template class LaneReceiver<NoLock>;
extern template class LaneReceiver<Mutex>;

} // namespace treadle::fi

#endif
