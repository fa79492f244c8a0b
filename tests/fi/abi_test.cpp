// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The module has another ABI version than the provider's library. */
#include <cstdarg>

#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <treadle/ioctl.h>

#include "node.h"

namespace
{

std::uint32_t abi_version = TREADLE_ABI_VERSION;

TEST(Abi, IsNamedIfItIsAnother)
{
	const auto hints = hints_for(FI_MSG);
	Log log;
	int error = 0;

	for (const std::uint32_t other : {TREADLE_ABI_VERSION + 1u, TREADLE_ABI_VERSION - 1u}) {
		log.clear();
		abi_version = other;
		EXPECT_FALSE(get_info(hints.get(), &error));
		EXPECT_EQ(error, -FI_ENODATA);
		EXPECT_TRUE(log.has("/dev/treadle: The module and the library have different ABI "
				    "versions"))
			<< log.all();
	}
	abi_version = TREADLE_ABI_VERSION;
	EXPECT_TRUE(get_info(hints.get(), &error));
}

} // namespace

/* In the place of libc's, for this program and the library. */
extern "C" __attribute__((visibility("default"))) int ioctl(int fd, unsigned long request,
							    ...) noexcept
{
	va_list args;

	va_start(args, request);
	void *const arg = va_arg(args, void *);
	va_end(args);
	const auto rc = static_cast<int>(syscall(SYS_ioctl, fd, request, arg));
	if (!rc && request == TREADLE_IOC_QUERY)
		static_cast<treadle_query *>(arg)->abi_version = abi_version;
	return rc;
}
