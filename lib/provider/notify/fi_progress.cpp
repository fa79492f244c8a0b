// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "notify/progress.h"

namespace treadle::fi
{

void ProgressList::choose() noexcept
{
	if (members_.empty())
		any_ = nullptr;
	else
		any_ = members_.size() == 1 && !locks_ ? members_.front() : &all_;
}

/* One that comes while a thread sleeps is stopped: that sleep has not begun for it. */
void ProgressList::add(Progress &progress)
{
	const auto guard = locked();

	members_.push_back(&progress);
	choose();
	if (stopped_ || sleepers_)
		progress.stop();
}

void ProgressList::remove(Progress &progress) noexcept
{
	const auto guard = locked();

	std::erase(members_, &progress);
	choose();
}

void ProgressList::make_all() noexcept
{
	const auto guard = locked();

	for (Progress *const member : members_)
		member->make_progress();
}

void ProgressList::stop_all() noexcept
{
	const auto guard = locked();

	for (Progress *const member : members_)
		member->stop();
}

bool ProgressList::begin_sleep() noexcept
{
	const auto guard = locked();
	bool may = true;

	for (Progress *const member : members_)
		may &= member->begin_sleep();
	return may;
}

void ProgressList::end_sleep() noexcept
{
	const auto guard = locked();

	for (Progress *const member : members_)
		member->end_sleep();
}

} // namespace treadle::fi
