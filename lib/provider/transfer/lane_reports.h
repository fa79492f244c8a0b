// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_LANE_REPORTS_H
#define TREADLE_PROVIDER_LANE_REPORTS_H

#include <array>
#include <cstdint>
#include <utility>

#include <treadle/ioctl.h>

#include "notify/cntr.h"
#include "notify/cq.h"

namespace treadle::fi
{

/*
 * The completions of receives that the process has executed itself, and their counter. A completion
 * that the queue has no room for is late: it waits here, and so does what comes after it.
 */
class LaneReports
{
public:
	/* Room for a late completion. */
	struct Place {
		Place *next = nullptr;
		treadle_cqe cqe{};
		bool heap = false; /* freed once it is reported */
	};
	/* At a time, with places of its own. */
	static constexpr std::uint32_t most_late = 130;

	/* Either may be null. */
	LaneReports(Cq *queue, Cntr *counter) noexcept;
	LaneReports(const LaneReports &) = delete;
	LaneReports &operator=(const LaneReports &) = delete;
	~LaneReports();

	/* Before all others. False: the kernel alone writes completions of this queue. */
	bool allow() noexcept;

	/*
	 * A receive with these flags has completed with a message of len bytes. place: where its
	 * message lies, which is freed; or null. False: there are late completions.
	 */
	[[gnu::always_inline]] bool report(const treadle_cqe &cqe, std::uint32_t flags,
					   std::uint64_t len, Place *place = nullptr) noexcept
	{
		bool late = false;

		if (local_ && (flags & TREADLE_F_COMPLETION || cqe.error)) {
			late = late_ || !add(cqe);
			if (late) [[unlikely]]
				keep(cqe, std::exchange(place, nullptr));
		}
		if (place) [[unlikely]]
			release(place);
		if (counter_) [[unlikely]]
			count(cqe.error, flags, len);
		return !late;
	}

	/* Are there late ones? */
	bool late() const noexcept { return late_; }
	/* Reports them. False: some still have no room. */
	bool catch_up() noexcept { return !late_ || report_late(); }

private:
	[[gnu::always_inline]] bool add(const treadle_cqe &cqe) noexcept
	{
		const detail::LocalQueue local = local_; /* in registers */
		bool wakes;

		if (!local.reserve_always(wakes)) [[unlikely]]
			return false;
		local.add(cqe);
		if (wakes) [[unlikely]]
			queue_->wake();
		return true;
	}
	/* By value, so that report can keep it in registers. */
	void keep(treadle_cqe cqe, Place *place) noexcept;
	bool report_late() noexcept;
	void release(Place *place) noexcept;
	void count(std::uint32_t error, std::uint32_t flags, std::uint64_t len) noexcept;

	Cq *const queue_;
	Cntr *const counter_;
	detail::LocalQueue local_; /* may hold nothing */
	Place *late_ = nullptr, **last_ = &late_;
	Place *unused_ = nullptr;
	std::array<Place, most_late> places_;
};

} // namespace treadle::fi

#endif
