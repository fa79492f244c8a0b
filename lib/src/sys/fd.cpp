// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/detail/fd.h>

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace treadle::detail
{

Result<UniqueFd> UniqueFd::open(const char *path) noexcept
{
	const int fd = ::open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return std::unexpected(from_errno(errno));
	return UniqueFd(fd);
}

UniqueFd::~UniqueFd()
{
	if (fd_ >= 0)
		::close(fd_);
}

} // namespace treadle::detail
