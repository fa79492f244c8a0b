// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_DETAIL_FD_H
#define TREADLE_DETAIL_FD_H

#include <utility>

#include <treadle/result.h>

namespace treadle::detail
{

/* Owns a file descriptor. */
class TREADLE_API UniqueFd
{
public:
	constexpr explicit UniqueFd(int fd = -1) noexcept : fd_(fd) {}
	UniqueFd(UniqueFd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
	UniqueFd &operator=(UniqueFd &&other) noexcept
	{
		std::swap(fd_, other.fd_);
		return *this;
	}
	~UniqueFd();

	int get() const noexcept { return fd_; }

private:
	int fd_;
};

/* The file to poll(2) for an object, made on first use: TREADLE_IOC_WAIT_FD. */
TREADLE_API Result<UniqueFd> make_wait_fd(int fd, unsigned int id) noexcept;

} // namespace treadle::detail

#endif
