/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Every call, with each thing in it failing that the kernel can make fail:
 * /proc/thread-self/fail-nth makes the n-th allocation or copy from or to user memory (not
 * get_user() and the like) of this thread fail (fault-injection.rst), for n = 1, 2, 3, until the
 * call no longer gets that far (sweep.h). kmemleak looks for leaks after the run. fail/fail_module
 * covers workers, io_uring's threads, and the rest.
 *
 * test-timeout: 1500
 */
#include "../support.h"

static int control = -1;

/* Makes the n-th point from here on fail, in this thread only. */
static void fail_nth(int n)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%d", n);

	if (control < 0)
		control = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	need(control >= 0 && pwrite(control, text, length, 0) == length);
}

/*
 * Has the point failed? Ends the injection. The read itself copies to this process, and so is a
 * point, too.
 */
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
		/* Else each failure is logged by the kernel, which looks like a bug report. */
		snprintf(file, sizeof(file), "%s/verbose", kinds[i]);
		debugfs(file, "0");
	}
	/* Allocations that may sleep and reclaim are the ones that can fail. */
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

#include "../sweep_calls.h"
#include "../sweep_commands.h"
#include "../sweep_endings.h"
#include "../sweep_receives.h"

TEST_HARNESS_MAIN
