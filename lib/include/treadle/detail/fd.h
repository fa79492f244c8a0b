// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_DETAIL_FD_H
#define TREADLE_DETAIL_FD_H

#include <utility>

#include <treadle/result.h>
#include <treadle/threading.h>

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

	/* Opens for reading and writing, close-on-exec. */
	static Result<UniqueFd> open(const char *path) noexcept;

	int get() const noexcept { return fd_; }

private:
	int fd_;
};

/* The file to poll(2) for an object, made on first use. */
struct WaitFd {
	UniqueFd fd;
	Mutex lock;
};

} // namespace treadle::detail

#endif
