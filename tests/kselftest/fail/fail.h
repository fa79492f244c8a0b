/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests over the module of tests/fail, in which whatever can fail asks first whether it is its turn, and which counts
 * what it gets and gives back. It takes the place of the module for as long as they run.
 */
#ifndef TREADLE_KSELFTEST_FAIL_H
#define TREADLE_KSELFTEST_FAIL_H

#include "../module.h"

#define PARAMETERS "/sys/module/treadle/parameters/"

/* The n-th thing from here on, of the caller's process and of the module's workers. */
static inline void fail_nth(int n)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", n);
	write_to(PARAMETERS "fail_nth", text);
}

/* How many in a row: a second or third try, which the module may make, fails as well. */
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

/* The harness does not return. */
#define FAIL_HARNESS_MAIN                            \
	int main(int argc, char **argv)              \
	{                                            \
		harness = getpid();                  \
		atexit(back_to_the_real_one);        \
		module_unload();                     \
		need(module_load(true, "") == 0);    \
		return test_harness_run(argc, argv); \
	}

#endif
