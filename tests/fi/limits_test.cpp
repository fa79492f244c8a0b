// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_getinfo(3) has the limits of the module that is loaded now, not of a former one. */
#include "node.h"

#include <chrono>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace
{

/* A module is in use until its background work has ended. */
bool unload()
{
	for (int left = patience; left > 0; left -= 10) {
		if (syscall(SYS_delete_module, "treadle", O_NONBLOCK) == 0)
			return true;
		std::this_thread::sleep_for(std::chrono::milliseconds(10));
	}
	return false;
}

bool load(const char *parameters)
{
	const char *const path = std::getenv("MODULE");
	const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	const bool loaded = syscall(SYS_finit_module, fd, parameters, 0) == 0;

	close(fd);
	return loaded;
}

std::size_t largest_ring()
{
	Info hints = no_hints();
	hints->tx_attr->size = 128;
	const Info info = get_info(hints.get());

	return info ? info->tx_attr->size : 0;
}

TEST(Limits, AreThoseOfTheModuleThatIsLoaded)
{
	int error = 0;

	EXPECT_EQ(largest_ring(), 128u);
	ASSERT_TRUE(unload());
	EXPECT_FALSE(get_info(no_hints().get(), &error));
	EXPECT_EQ(error, -FI_ENODATA);
	EXPECT_TRUE(load("max_ring=64"));
	EXPECT_EQ(largest_ring(), 0u); /* so large an object can't be created */
	ASSERT_TRUE(unload());
	ASSERT_TRUE(load(""));
	EXPECT_EQ(largest_ring(), 128u);
}

} // namespace
