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

	if (const auto ok = sys::checked(context.fd(), TREADLE_IOC_EQ_CREATE, args); !ok)
		return std::unexpected(ok.error());

	EventQueue queue(context.fd(), args.id);

	file.id = args.id;
	if (const auto ok = sys::checked(context.fd(), TREADLE_IOC_WAIT_FD, file); !ok)
		return std::unexpected(ok.error());
	queue.file_ = detail::UniqueFd(file.fd);
	return queue;
}

int EventQueue::read(treadle_event &event) noexcept
{
	/* not read(2): that is a cancellation point */
	return syscall(SYS_read, file(), &event, sizeof(event)) < 0 ? -errno : 0;
}

} // namespace treadle
