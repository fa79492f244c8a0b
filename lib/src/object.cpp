// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/object.h>

#include <cerrno>

#include <treadle/detail/fd.h>
#include <treadle/ioctl.h>

#include "sys/device.h"

namespace treadle::detail
{

int Handle::close() noexcept
{
	const std::uint32_t id = number();

	if (id && sys::destroy(fd_, id) == -EBUSY)
		return -EBUSY;
	/* Any other answer: this process does not have the object, or not any more. */
	std::atomic_ref(id_).store(0, std::memory_order_relaxed);
	return 0;
}

int Handle::wait(treadle_wait args) const noexcept
{
	args.id = number();
	return sys::call(fd_, TREADLE_IOC_WAIT, args);
}

int Handle::wait(std::int64_t timeout) const noexcept
{
	treadle_wait args{};

	args.timeout_ns = timeout;
	return wait(args);
}

int Handle::signal() const noexcept
{
	return sys::ioctl(fd_, TREADLE_IOC_SIGNAL, number());
}

Result<int> Handle::wait_fd(WaitFd &file) const noexcept
{
	const std::lock_guard guard(file.lock);
	treadle_wait_fd args{};

	if (file.fd.get() < 0) {
		args.id = number();
		if (const auto ok = sys::checked(fd_, TREADLE_IOC_WAIT_FD, args); !ok)
			return std::unexpected(ok.error());
		file.fd = UniqueFd(args.fd);
	}
	return file.fd.get();
}

} // namespace treadle::detail
