// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "transfer/lane_reports.h"

#include <cstdlib>
#include <tuple>

namespace treadle::fi
{

LaneReports::LaneReports(Cq *queue, Cntr *counter) noexcept : queue_(queue), counter_(counter)
{
	for (Place &place : places_) {
		place.next = unused_;
		unused_ = &place;
	}
}

LaneReports::~LaneReports()
{
	while (Place *const late = late_) {
		late_ = late->next;
		release(late);
	}
}

bool LaneReports::allow() noexcept
{
	if (!queue_)
		return true;
	if (queue_->allow_local())
		return false;
	local_ = queue_->local();
	return true;
}

void LaneReports::release(Place *place) noexcept
{
	if (place->heap) {
		std::free(place);
		return;
	}
	place->next = unused_;
	unused_ = place;
}

void LaneReports::keep(treadle_cqe cqe, Place *place) noexcept
{
	if (!place) {
		place = unused_;
		unused_ = place->next;
	}
	place->cqe = cqe;
	place->next = nullptr;
	*last_ = place;
	last_ = &place->next;
}

bool LaneReports::report_late() noexcept
{
	while (Place *const late = late_) {
		if (!add(late->cqe))
			return false;
		late_ = late->next;
		release(late);
	}
	last_ = &late_;
	return true;
}

void LaneReports::count(std::uint32_t error, std::uint32_t flags, std::uint64_t len) noexcept
{
	if (flags & (TREADLE_F_PEEK | TREADLE_F_DISCARD))
		return;
	if (error)
		std::ignore = counter_->counter().add_error(1);
	else if (counter_->local().reserve())
		counter_->local().add(counter_->step(len));
	else
		std::ignore = counter_->counter().add(counter_->step(len));
}

} // namespace treadle::fi
