// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* An event queue: registrations of memory in the background, FI_REG_MR. */
#include "notify/eq.h"

#include <poll.h>
#include <sys/epoll.h>

namespace treadle::fi
{

void Eq::report(Reserve &from, ::fid &region) noexcept
{
	const std::lock_guard guard(lock_);

	from.events_.front().set(region, 0, FI_MR_COMPLETE);
	append(from.events_);
}

void Eq::prepare_registrations() noexcept
{
	const std::lock_guard guard(lock_);
	epoll_event event{.events = EPOLLIN, .data = {}};

	if (registrar_ || !is_ours())
		return;
	auto registrar = Registrar::create();
	int rc = registrar ? 0 : negative(registrar.error());
	if (!rc && epoll_ctl(wake_.get(), EPOLL_CTL_ADD, *registrar->fd(), &event) < 0)
		rc = -errno;
	if (rc)
		REFUSE(rc, subsys, "no io_uring, so memory is registered by the calling thread");
	else
		registrar_ = std::move(*registrar);
}

/*
 * Holds the lock under which its event is read, so that the event is not read before the caller
 * knows the region.
 */
int Eq::begin(Pending &registration) noexcept
{
	const std::lock_guard guard(lock_);

	return !registrar_ ? -ENOSYS : fi::guard([&] {
		registration.event_.emplace_back();
		return negative(registrar_->begin(registration));
	});
}

void Eq::take_registrations() noexcept
{
	while (Registration *const next = registrar_ && !waiting_ ? registrar_->next() : nullptr) {
		Pending &done = *static_cast<Pending *>(next);
		std::list<EqEvent> event(std::move(done.event_));
		::fid *owner;
		const int rc = done.finish(owner);

		event.front().set(*owner, rc, FI_MR_COMPLETE);
		append(event);
	}
}

void Eq::take_finished() noexcept
{
	const std::lock_guard guard(lock_);

	if (is_ours())
		take_registrations();
}

void Eq::withdraw(const std::unique_ptr<Pending> &registration, const ::fid &owner) noexcept
{
	std::unique_lock guard(lock_);

	if (registrar_ && registration && is_ours())
		registrar_->cancel(*registration);
	/* One thread at a time waits for the file, so that no other takes its wakeup. */
	while (registrar_ && registration && is_ours()) {
		if (waiting_) {
			waited_.wait(guard);
			continue;
		}
		pollfd done{*registrar_->fd(), POLLIN, 0};
		waiting_ = true;
		guard.unlock();
		poll(&done, 1, -1);
		guard.lock();
		waiting_ = false;
		take_registrations();
		waited_.notify_all();
	}
	drop_events_of(&owner);
}

} // namespace treadle::fi
