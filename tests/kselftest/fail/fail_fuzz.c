/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The coverage-guided fuzzer on any kernel. The module of tests/fail reports coverage, of workers
 * as well, makes operations fail when a step asks for it, and counts after each input what was not
 * released.
 *
 * test-timeout: 7200
 */
#include "fail.h"

#include "../fuzz_guided.h"

/* Compares with the count before, so that only this input's leaks count. */
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
	note("%lld allocations were not released", now - before);
	before = now;
	return false;
}

static __attribute__((constructor)) void looks_after_each(void)
{
	guide.clean = nothing_is_left;
}

FAIL_HARNESS_MAIN
