/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A context without a process, and identities of peers on another host. tests/fail/context.c makes
 * them.
 */
#include "fail.h"

/* Memory that RCU keeps is given back a little later. */
static bool all_gone(void)
{
	const __u64 end = now_ns() + PATIENCE_NS;

	until_unused();
	while (live() && now_ns() < end)
		usleep(1000);
	return live() == 0;
}

/* EINVAL: the kernel's log says what was not as it should be. */
TEST(a_context_needs_no_process)
{
	write_to(PARAMETERS "context", "1");
	EXPECT_TRUE(all_gone());
}

/* Whatever of it fails, nothing is left. */
TEST(making_one_fails_cleanly_wherever_it_fails)
{
	int n = 0;

	do {
		int fd = open(PARAMETERS "context", O_WRONLY | O_CLOEXEC);

		need(fd >= 0);
		fail_nth(++n);
		if (write(fd, "1", 1) != 1)
			EXPECT_TRUE(errno == ENOMEM || errno == EINVAL);
		close(fd);
		EXPECT_TRUE(all_gone());
	} while (has_failed());
	EXPECT_LT(3, n);
}

FAIL_HARNESS_MAIN
