// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#pragma once

#include <cerrno>
#include <cstdint>

#include <poll.h>
#include <sys/socket.h>

#include "fabric.h"

namespace bench
{

/* Another process at the end of a socket. Messages keep the two in step. */
class Partner
{
public:
	explicit Partner(int fd) : fd_(fd) {}

	void put(const void *data, size_t size)
	{
		if (::send(fd_, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size))
			throw Failure("the other process", EPIPE);
	}

	/* Returns false if the partner is gone. */
	bool get(void *data, size_t size)
	{
		return ::recv(fd_, data, size, MSG_WAITALL) == static_cast<ssize_t>(size);
	}

	void put(uint64_t word) { put(&word, sizeof(word)); }

	uint64_t get()
	{
		uint64_t word;
		if (!get(&word, sizeof(word)))
			throw Failure("the other process", EPIPE);
		return word;
	}

	bool silent() const
	{
		pollfd poll{fd_, POLLIN, 0};
		return ::poll(&poll, 1, 0) == 0;
	}

private:
	int fd_;
};

} // namespace bench
