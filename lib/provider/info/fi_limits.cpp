// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A process calls fi_getinfo many times, and libfabric repeats each call. Opening the device is
 * expensive: the kernel takes all locks of the process's memory for it.
 */
#include "info/limits.h"

#include <cerrno>
#include <chrono>
#include <mutex>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <treadle/context.h>

namespace treadle::fi
{

namespace
{

/*
 * What the cached limits belong to. Limits are module parameters that stay while the module is
 * loaded. Each time it is loaded, its sysfs directory has another inode, and the device may be
 * another file. Which other nodes there are depends on the network namespace.
 */
struct Identity {
	dev_t device = 0;
	ino_t module = 0; /* 0: unknown */
	ino_t network = 0;

	bool operator==(const Identity &) const = default;
};

Identity identity() noexcept
{
	struct stat device, module, network;

	if (stat(TREADLE_DEVICE, &device) || !S_ISCHR(device.st_mode) ||
	    stat("/sys/module/treadle", &module) || stat("/proc/thread-self/ns/net", &network))
		return {};
	return {device.st_rdev, module.st_ino, network.st_ino};
}

/* The address for other nodes may come and go, and nothing cheap says so. */
constexpr std::chrono::milliseconds longest_known{100};

std::mutex known_lock;
Identity known_identity;
treadle_query known_limits;
std::chrono::steady_clock::time_point known_since;

} // namespace

Result<treadle_query> kernel_limits() noexcept
{
	const Identity now = identity();
	const auto time = std::chrono::steady_clock::now();
	const bool allowed =
		now.module && !faccessat(AT_FDCWD, TREADLE_DEVICE, R_OK | W_OK, AT_EACCESS);
	{
		const std::lock_guard guard(known_lock);
		if (allowed && now == known_identity && time - known_since < longest_known)
			return known_limits;
	}
	const auto limits = Context::query();
	if (limits && allowed) {
		const std::lock_guard guard(known_lock);
		known_identity = now;
		known_limits = *limits;
		known_since = time;
	}
	return limits;
}

} // namespace treadle::fi
