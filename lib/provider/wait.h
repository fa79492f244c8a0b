// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_WAIT_H
#define TREADLE_PROVIDER_WAIT_H

#include <cstdint>

#include <rdma/fi_eq.h>

#include <treadle/result.h>

#include "provider.h"

/* What queues and counters have in common that can be waited for. */
namespace treadle::fi
{

constexpr bool can_wait_on(fi_wait_obj object) noexcept
{
	return object == FI_WAIT_NONE || object == FI_WAIT_UNSPEC || object == FI_WAIT_FD;
}

/* Of a timeout in milliseconds; negative stays for ever. */
constexpr std::int64_t nanoseconds(int timeout) noexcept
{
	return timeout < 0 ? -1 : timeout * std::int64_t{1'000'000};
}

/* FI_GETWAIT and FI_GETWAITOBJ: make_fd returns the file as Result<int>. */
template <class MakeFd>
int tell_wait(int command, void *arg, fi_wait_obj object, fi_log_subsys subsys,
	      MakeFd &&make_fd) noexcept
{
	if (command == FI_GETWAITOBJ) {
		*static_cast<fi_wait_obj *>(arg) = object;
		return 0;
	}
	if (object != FI_WAIT_FD)
		return REFUSE(-FI_ENODATA, subsys, "GETWAIT: was not opened with FI_WAIT_FD");
	const Result<int> fd = make_fd();
	if (!fd)
		return REFUSE(fabric_error(fd.error().negative()), subsys, "GETWAIT");
	*static_cast<int *>(arg) = *fd;
	return 0;
}

} // namespace treadle::fi

#endif
