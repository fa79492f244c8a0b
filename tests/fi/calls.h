// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_CALLS_H
#define TREADLE_TESTS_FI_CALLS_H

/* The system calls of a part of a test, counted from outside. */

#include <csignal>
#include <functional>
#include <utility>
#include <vector>

#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <treadle/ioctl.h>

/*
 * Tracing is slow, so only the part between start and stop is counted, divided by marks. The marks
 * are system calls that nothing else here makes.
 */
inline void start()
{
	ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
	raise(SIGSTOP);
}
inline void mark()
{
	syscall(SYS_getsid, 0);
}
inline void stop()
{
	syscall(SYS_getpgid, 0);
}

/* Is it an ioctl of treadle? libfabric makes others when it starts. */
inline bool is_ours(const __ptrace_syscall_info &info)
{
	return info.entry.nr == SYS_ioctl &&
	       _IOC_TYPE(info.entry.args[1]) == _IOC_TYPE(TREADLE_IOC_QUERY);
}

enum class Count { all, ioctls_of_treadle };

/* Runs a function in a child; returns the number of system calls before each mark. */
inline std::vector<int> count_calls(const std::function<void()> &run, Count what = Count::all)
{
	const pid_t child = fork();
	std::vector<int> counts;
	int status = 0, calls = 0;

	if (child == 0) {
		run();
		_exit(testing::Test::HasFailure());
	}
	EXPECT_EQ(waitpid(child, &status, WUNTRACED), child);
	EXPECT_TRUE(WIFSTOPPED(status));
	ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	while (ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) == 0 &&
	       waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		__ptrace_syscall_info info{};

		if (WSTOPSIG(status) != (SIGTRAP | 0x80) ||
		    ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) <= 0 ||
		    info.op != PTRACE_SYSCALL_INFO_ENTRY)
			continue;
		if (info.entry.nr == SYS_getpgid) {
			ptrace(PTRACE_DETACH, child, nullptr, nullptr);
			waitpid(child, &status, 0);
			break;
		}
		if (info.entry.nr == SYS_getsid)
			counts.push_back(std::exchange(calls, 0));
		else if (what == Count::all || is_ours(info))
			++calls;
	}
	EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
	return counts;
}

#endif
