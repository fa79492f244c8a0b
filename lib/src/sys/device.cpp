// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "device.h"

#include <cerrno>

#include <sys/ioctl.h>

#include <treadle/ioctl.h>

namespace treadle::sys
{

int ioctl(int fd, unsigned long request, void *arg) noexcept
{
	const int rc = ::ioctl(fd, request, arg);

	return rc < 0 ? -errno : rc;
}

int ioctl(int fd, unsigned long request, std::uint32_t id) noexcept
{
	const int rc = ::ioctl(fd, request, static_cast<unsigned long>(id));

	return rc < 0 ? -errno : rc;
}

std::error_code destroy(int fd, std::uint32_t id) noexcept
{
	treadle_destroy args{.size = 0, .id = id};

	return checked(fd, TREADLE_IOC_DESTROY, args);
}

} // namespace treadle::sys
