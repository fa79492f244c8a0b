/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every call, with each thing failing within it that the kernel can let fail: /proc/thread-self/fail-nth lets the n-th
 * allocation or copy from or to user memory (not get_user() and the like) of this thread fail (fault-injection.rst), for
 * n = 1, 2, 3, until the call no longer gets that far (sweep.h). Of leaks the kernel is asked after the run. What workers
 * and io_uring's threads do, and the rest, is for fail/fail_module.
 *
 * test-timeout: 1500
 */
#include "../support.h"

static int control = -1;

/* The n-th point from here on fails. Other threads need not know. */
static void fail_nth(int n)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%d", n);

	if (control < 0)
		control = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	need(control >= 0 && pwrite(control, text, length, 0) == length);
}

/* Has it come to that? No more fails after this. What asks, copies to and from this process, and so is a point itself. */
static bool has_failed(void)
{
	char text[16] = "";

	if (pread(control, text, sizeof(text) - 1, 0) < 0) {
		need(errno == EFAULT);
		return false;
	}
	if (atoi(text) == 0)
		return true;
	if (pwrite(control, "0", 1, 0) != 1)
		need(errno == EFAULT);
	return false;
}

static void debugfs(const char *file, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s", file);
	write_to(path, text);
}

static __attribute__((constructor)) void failures_are_silent(void)
{
	static const char *kinds[] = {"failslab", "fail_page_alloc", "fail_usercopy"};
	char file[64];

	for (int i = 0; i < ARRAY_SIZE(kinds); i++) {
		/* Each tells of itself in the kernel's log, else, which looks like a complaint. */
		snprintf(file, sizeof(file), "%s/verbose", kinds[i]);
		debugfs(file, "0");
	}
	/* Those that may sleep and reclaim are just those that can fail. */
	debugfs("failslab/ignore-gfp-wait", "N");
	debugfs("fail_page_alloc/ignore-gfp-wait", "N");
	debugfs("fail_page_alloc/ignore-gfp-highmem", "N");
	debugfs("fail_page_alloc/min-order", "0");
}

/* Not known here. */
static long long live(void)
{
	return 0;
}

#include "../sweep_commands.h"
#include "../sweep_endings.h"
#include "../sweep_receives.h"

TEST_HARNESS_MAIN
