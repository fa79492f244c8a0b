// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_WAIT_H
#define TREADLE_PROVIDER_WAIT_H

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <poll.h>

#include <rdma/fi_eq.h>

#include <treadle/result.h>
#include <treadle/time.h>

#include "base/provider.h"
#include "notify/signaller.h"

/* What queues and counters that can be waited for have in common. */
namespace treadle::fi
{

class Waitable
{
public:
	/* May a caller block on the file? 0 or -FI_EAGAIN. */
	virtual int try_wait() noexcept = 0;
	/* A file that is readable when there is something to read or a counter has changed. */
	virtual Result<int> wait_fd() noexcept = 0;

protected:
	~Waitable() = default;
};

constexpr bool can_wait_on(fi_wait_obj object) noexcept
{
	switch (object) {
	case FI_WAIT_NONE:
	case FI_WAIT_UNSPEC:
	case FI_WAIT_SET:
	case FI_WAIT_FD:
	case FI_WAIT_MUTEX_COND:
	case FI_WAIT_YIELD: /* a wait sleeps in the kernel, and needs no object */
	case FI_WAIT_POLLFD:
		return true;
	default:
		return false;
	}
}

/* A timeout in milliseconds, as libfabric has it; negative: for ever. */
constexpr Timeout timeout_of(int milliseconds) noexcept
{
	return milliseconds < 0 ? forever : std::chrono::milliseconds(milliseconds);
}

/* The rest of a timeout in milliseconds that runs from now on; negative (for ever) stays. */
class TimeLeft
{
public:
	explicit TimeLeft(int timeout) noexcept
		: timeout_(timeout), end_(clock::now() + std::chrono::milliseconds(timeout))
	{
	}
	int milliseconds() const noexcept
	{
		const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - clock::now());

		return timeout_ < 0 ? -1 : std::max(static_cast<int>(left.count()), 0);
	}

private:
	using clock = std::chrono::steady_clock;

	int timeout_;
	clock::time_point end_;
};

/*
 * FI_GETWAIT and FI_GETWAITOBJ. make_fd returns the file as Result<int>; signaller: null if there
 * is none.
 */
template <class MakeFd>
int get_wait(int command, void *arg, fi_wait_obj object, fi_log_subsys subsys, Signaller *signaller,
	     MakeFd &&make_fd) noexcept
{
	if (command == FI_GETWAITOBJ) {
		*static_cast<fi_wait_obj *>(arg) = object;
		return 0;
	}
	if (signaller) {
		*static_cast<struct fi_mutex_cond *>(arg) = signaller->objects();
		return 0;
	}
	if (object != FI_WAIT_FD && object != FI_WAIT_POLLFD)
		return REFUSE(-FI_ENODATA, subsys,
			      "GETWAIT: was not opened with FI_WAIT_FD, POLLFD or MUTEX_COND");
	const Result<int> fd = make_fd();
	if (!fd)
		return REFUSE(fabric_error(negative(fd.error())), subsys, "GETWAIT");
	if (object == FI_WAIT_FD) {
		*static_cast<int *>(arg) = *fd;
		return 0;
	}
	/* There is one file, which never changes. */
	auto &list = *static_cast<struct fi_wait_pollfd *>(arg);
	const std::size_t room = std::exchange(list.nfds, 1);
	list.change_index = 0;
	if (!room)
		return -FI_ETOOSMALL;
	if (!list.fd)
		return REFUSE(-FI_EINVAL, subsys, "GETWAIT: nowhere to put the file");
	list.fd[0] = {*fd, POLLIN, 0};
	return 0;
}

} // namespace treadle::fi

#endif
