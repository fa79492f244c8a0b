/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fuzzer that is guided by what has run, on any kernel: over the module of tests/fail, which tells of it, of
 * workers as well; lets things fail when a step wants that; and knows after each input what has not been given back.
 *
 * test-timeout: 7200
 */
#include "fail.h"

#include "../fuzz_guided.h"

/* More than before: each is to answer for his own. */
static bool nothing_is_left(void)
{
	static long long before;
	__u64 end = now_ns() + PATIENCE_NS;
	long long now;

	fail_nth(0);
	while ((now = live()) > before && now_ns() < end)
		usleep(200);
	if (now <= before)
		return true;
	note("%lld are not given back", now - before);
	before = now;
	return false;
}

static __attribute__((constructor)) void looks_after_each(void)
{
	guide.clean = nothing_is_left;
}

FAIL_HARNESS_MAIN
