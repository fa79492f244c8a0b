// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* An event queue: joins of groups. */
#include "notify/eq.h"

#include <sys/epoll.h>

namespace treadle::fi
{

int Eq::watch(Joining &joining, int file)
{
	const std::lock_guard guard(lock_);
	epoll_event event{.events = EPOLLIN, .data = {}};

	if (!is_ours())
		return -EPERM;
	joins_.reserve(joins_.size() + 1);
	if (epoll_ctl(wake_.get(), EPOLL_CTL_ADD, file, &event) < 0)
		return -errno;
	joins_.push_back({&joining, file});
	return 0;
}

void Eq::take_joins()
{
	for (auto it = joins_.begin(); it != joins_.end();) {
		int error = 0;

		if (!it->joining->joined(error)) {
			++it;
			continue;
		}
		append(it->joining->owner(), error, FI_JOIN_COMPLETE);
		epoll_ctl(wake_.get(), EPOLL_CTL_DEL, it->file, nullptr);
		it->joining->reported();
		it = joins_.erase(it);
	}
}

void Eq::unwatch(Joining &joining) noexcept
{
	const std::lock_guard guard(lock_);

	for (const Watched &watched : joins_) {
		if (watched.joining == &joining && is_ours())
			epoll_ctl(wake_.get(), EPOLL_CTL_DEL, watched.file, nullptr);
	}
	std::erase_if(joins_, [&](const Watched &w) { return w.joining == &joining; });
	drop_events_of(&joining.owner());
}

} // namespace treadle::fi
