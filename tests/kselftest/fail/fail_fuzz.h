/* SPDX-License-Identifier: GPL-2.0 */
/* After each input of the guided fuzzer, nothing may be left in the module of tests/fail. */
#ifndef TREADLE_KSELFTEST_FAIL_FUZZ_H
#define TREADLE_KSELFTEST_FAIL_FUZZ_H

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

#endif
