/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A failure sweep. In every call and each kind of command the n-th thing that can fail does fail,
 * for n = 1, 2, 3, until the call no longer gets that far. The result must be a clean errno,
 * nothing may have changed, so that the same call works afterwards, and nothing may leak. Calls are
 * in sweep_calls.h, those that cancel or end waiting operations in sweep_endings.h, commands in
 * sweep_commands.h, receives in sweep_receives.h.
 *
 * The including program provides fail_nth(n), which makes the n-th point from here on fail;
 * has_failed(), which says whether that has happened, and ends it; and live(), the number of
 * allocations that the module holds.
 */
#ifndef TREADLE_KSELFTEST_SWEEP_H
#define TREADLE_KSELFTEST_SWEEP_H

#include "connection.h"

/*
 * Errnos for memory that is missing, or can't be reached, or for a file descriptor that is missing.
 */
static bool is_clean(int result)
{
	return result == -ENOMEM || result == -EFAULT || result == -EMFILE;
}

/* In a completion, where EIO stands for the peer's memory. */
static bool is_clean_completion(int result)
{
	return is_clean(result) || result == -EIO;
}

/* Has the module released what it allocated, or does it soon? */
static bool all_given_back(long long before)
{
	__u64 end = now_ns() + PATIENCE_NS;

	while (live() > before && now_ns() < end)
		usleep(1000);
	return live() <= before;
}

#endif
