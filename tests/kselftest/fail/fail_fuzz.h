/* SPDX-License-Identifier: GPL-2.0 */
/* After each input of the guided fuzzer, nothing may be left in the module of tests/fail. */
#ifndef TREADLE_KSELFTEST_FAIL_FUZZ_H
#define TREADLE_KSELFTEST_FAIL_FUZZ_H

#include "fail.h"

#include "../fuzz_guided.h"

/* What the module held before this input, so that only its leaks count. */
static long long held;

/* Sets it once what has been used before is given back. */
static inline void hold_still(void)
{
	held = live();
	for (int i = 0; i < 100; i++) {
		usleep(10000);
		if (live() < held)
			held = live();
	}
}

static bool nothing_is_left(void)
{
	__u64 end = now_ns() + PATIENCE_NS;
	long long now;

	fail_nth(0);
	while ((now = live()) > held && now_ns() < end)
		usleep(200);
	if (now <= held)
		return true;
	note("%lld allocations were not released", now - held);
	held = now;
	return false;
}

static __attribute__((constructor)) void looks_after_each(void)
{
	guide.clean = nothing_is_left;
}

#endif
