// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "device.h"

#include <cerrno>

#include <sys/ioctl.h>
#include <unistd.h>

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

int doorbell(int fd, std::uint32_t id) noexcept
{
	const off64_t rc = ::lseek64(fd, id, SEEK_SET);

	return rc < 0 ? -errno : static_cast<int>(rc);
}

int destroy(int fd, std::uint32_t id) noexcept
{
	treadle_destroy args{.size = 0, .id = id};

	return call(fd, TREADLE_IOC_DESTROY, args);
}

int cancel_work(int fd, std::uint32_t id, std::uint64_t threshold, std::uint64_t context) noexcept
{
	treadle_cancel args{};

	args.kind = TREADLE_CANCEL_WORK;
	args.id = id;
	args.threshold = threshold;
	args.context = context;
	return call(fd, TREADLE_IOC_CANCEL, args);
}

std::expected<std::uint64_t, Errno> flush_work(int fd, std::uint32_t id) noexcept
{
	treadle_cancel args{};

	args.kind = TREADLE_FLUSH_WORK;
	args.id = id;
	if (const auto ok = checked(fd, TREADLE_IOC_CANCEL, args); !ok)
		return std::unexpected(ok.error());
	return args.count;
}

} // namespace treadle::sys
