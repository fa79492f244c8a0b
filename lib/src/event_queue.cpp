// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/event_queue.h>

#include <cerrno>

#include <sys/syscall.h>
#include <unistd.h>

#include <treadle/context.h>

#include "sys/device.h"

namespace treadle
{

Result<EventQueue> EventQueue::create(const Context &context) noexcept
{
	treadle_eq_create args{};
	treadle_wait_fd file{};

	if (const auto error = sys::checked(context.device(), TREADLE_IOC_EQ_CREATE, args))
		return std::unexpected(error);

	EventQueue queue(context.device(), args.id);

	file.id = args.id;
	if (const auto error = sys::checked(context.device(), TREADLE_IOC_WAIT_FD, file))
		return std::unexpected(error);
	queue.fd_ = detail::UniqueFd(file.fd);
	return queue;
}

std::error_code EventQueue::read(treadle_event &event) noexcept
{
	/* not read(2): that is a cancellation point */
	return from_errno(syscall(SYS_read, fd_.get(), &event, sizeof(event)) < 0 ? errno : 0);
}

Result<treadle_event> EventQueue::next(Timeout timeout) noexcept
{
	const detail::Deadline deadline(timeout);
	treadle_event event;

	/* Waits first: a read of an empty queue would take the signal that is to end the wait. */
	for (;;) {
		if (const auto failed = wait(deadline.left()))
			return std::unexpected(failed);
		const auto failed = read(event);
		if (!failed)
			return event;
		if (failed != std::errc::resource_unavailable_try_again) /* else another took it */
			return std::unexpected(failed);
	}
}

} // namespace treadle
