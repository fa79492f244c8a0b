// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/object.h>

#include <cerrno>
#include <mutex>

#include <treadle/detail/fd.h>
#include <treadle/ioctl.h>

#include "sys/device.h"

namespace treadle::detail
{

std::error_code Handle::close() noexcept
{
	const std::uint32_t id = number();

	if (id) {
		const auto failed = sys::destroy(device_, id);

		if (failed == std::errc::device_or_resource_busy)
			return failed;
	}
	/* Any other answer: this process does not have the object, or not any more. */
	std::atomic_ref(id_).store(0, std::memory_order_relaxed);
	return from_errno(0);
}

std::error_code Handle::wait(Timeout timeout, treadle_wait args) const noexcept
{
	args.id = number();
	args.timeout_ns = kernel_timeout(timeout);
	return sys::checked(device_, TREADLE_IOC_WAIT, args);
}

std::error_code Handle::signal() const noexcept
{
	return status(sys::ioctl(device_, TREADLE_IOC_SIGNAL, number()));
}

Result<int> Handle::fd(WaitFd &file) const noexcept
{
	const std::lock_guard guard(file.lock);
	treadle_wait_fd args{};

	if (file.fd.get() < 0) {
		args.id = number();
		if (const auto error = sys::checked(device_, TREADLE_IOC_WAIT_FD, args))
			return std::unexpected(error);
		file.fd = UniqueFd(args.fd);
	}
	return file.fd.get();
}

} // namespace treadle::detail
