/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests with the module of tests/fail, in which each operation that can fail can be made to fail,
 * and which counts its allocations. It replaces the module during these tests.
 */
#ifndef TREADLE_KSELFTEST_FAIL_H
#define TREADLE_KSELFTEST_FAIL_H

#include "../module.h"

#define PARAMETERS "/sys/module/treadle/parameters/"

/* Makes the n-th operation from here on fail, in the caller's process and the module's workers. */
static inline void fail_nth(int n)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", n);
	write_to(PARAMETERS "fail_nth", text);
}

/* The number of failures in a row: a second or third try of the module fails as well. */
static inline void fail_times(int n)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", n);
	write_to(PARAMETERS "fail_times", text);
}

static inline bool has_failed(void)
{
	long long left = number_in(PARAMETERS "fail_nth", NULL);

	need(left >= 0);
	fail_nth(0);
	return left == 0;
}

static inline long long live(void)
{
	long long n = number_in(PARAMETERS "fail_live", NULL);

	need(n >= 0);
	return n;
}

static pid_t harness;

static inline void back_to_the_real_one(void)
{
	if (getpid() != harness)
		return;
	module_unload();
	need(module_load(false, "") == 0);
}

/* PREPARE: a statement, with the module for tests in place. The harness does not return. */
#define FAIL_MAIN(prepare)                           \
	int main(int argc, char **argv)              \
	{                                            \
		harness = getpid();                  \
		atexit(back_to_the_real_one);        \
		module_unload();                     \
		need(module_load(true, "") == 0);    \
		prepare;                             \
		return test_harness_run(argc, argv); \
	}
#define FAIL_HARNESS_MAIN FAIL_MAIN((void)0)

#endif
