// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Counts system calls and instructions of a process by tracing it. That works without performance
 * counters (in virtual machines), needs no privilege, and is exact.
 */
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <set>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace bench
{

enum class What { system_calls, instructions };

/* No kernel has this system call, so it is never part of what is counted. */
constexpr long mark_call = 0x7ead1e;

/*
 * The counted program calls each of these once, before its first mark and after its last one.
 * Outside of them it runs at full speed.
 */
inline void begin_counting()
{
	raise(SIGUSR1);
}

inline void end_counting()
{
	raise(SIGUSR2);
}

/* Called by the counted program: ends one section and begins the next. */
[[gnu::noinline]] inline void mark()
{
	syscall(mark_call);
}

/* The cost of each section. Empty if it could not be counted. */
struct Counts {
	std::vector<uint64_t> sections;
	bool threads = false; /* more than one: then instructions also count waiting */
};

/* Follows a child and its threads, and adds up their counts. */
class Tracer
{
public:
	Tracer(What what, pid_t child) : what_(what), child_(child)
	{
		ptrace(PTRACE_SEIZE, child_, 0,
		       PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
	}

	Counts follow()
	{
		int status;

		for (;;) {
			const pid_t tid = waitpid(-1, &status, __WALL);
			if (tid < 0)
				return {};
			if (WIFSTOPPED(status))
				resume(tid, stopped(tid, status));
			else if (tid == child_)
				break;
			else
				threads_.erase(tid);
		}
		if (!WIFEXITED(status) || WEXITSTATUS(status) ||
		    (what_ == What::instructions && had_threads_))
			sections_.clear();
		return {std::move(sections_), had_threads_};
	}

private:
	/* Returns the signal to deliver to the thread. */
	int stopped(pid_t tid, int status)
	{
		const int signal = WSTOPSIG(status);

		if (status >> 16) {
			if (tid != child_)
				threads_.insert(tid);
		} else if (signal == (SIGTRAP | 0x80)) {
			system_call(tid);
		} else if (signal == SIGTRAP) {
			step(tid);
		} else if (signal == SIGUSR1 && tid == child_ && !counting_) {
			counting_ = true;
			had_threads_ = !threads_.empty();
			/* A running thread has to stop once before its system calls are seen. */
			for (pid_t thread : threads_)
				ptrace(PTRACE_INTERRUPT, thread, 0, 0);
		} else if (signal == SIGUSR2 && counting_ && !sections_.empty()) {
			counting_ = false;
			sections_.pop_back(); /* drops what follows the last mark */
		} else {
			return signal;
		}
		return 0;
	}

	void system_call(pid_t tid)
	{
		const __ptrace_syscall_info info = look(tid);

		if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
			return;
		if (info.entry.nr == mark_call)
			sections_.push_back(0);
		else if (counting_ && !sections_.empty() && info.entry.nr != SYS_sched_yield)
			sections_.back()++;
	}

	void step(pid_t tid)
	{
		const uint64_t at = look(tid).instruction_pointer;

		if (at == reinterpret_cast<uintptr_t>(&mark))
			sections_.push_back(0);
		else if (at != last_) // counts a repeated string instruction once
			sections_.back()++;
		last_ = at;
	}

	void resume(pid_t tid, int signal)
	{
		const bool stepping = what_ == What::instructions && tid == child_ &&
				      !sections_.empty() && !had_threads_;

		ptrace(!counting_ ? PTRACE_CONT :
		       stepping	  ? PTRACE_SINGLESTEP :
				    PTRACE_SYSCALL,
		       tid, 0, signal);
	}

	static __ptrace_syscall_info look(pid_t tid)
	{
		__ptrace_syscall_info info{};

		ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info);
		return info;
	}

	What what_;
	pid_t child_;
	std::set<pid_t> threads_; /* all but the first */
	bool counting_ = false, had_threads_ = false;
	uint64_t last_ = 0;
	std::vector<uint64_t> sections_;
};

/*
 * Runs `body` in a child process and returns the cost of each section between two marks. A body
 * that takes longer than `seconds` is ended, and nothing is returned.
 */
inline Counts count(What what, const std::function<void()> &body, unsigned seconds = 60)
{
	cpu_set_t before, one;

	/*
	 * A step switches twice between this process and the child, which is far cheaper on one
	 * CPU.
	 */
	sched_getaffinity(0, sizeof(before), &before);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (what == What::instructions)
		sched_setaffinity(0, sizeof(one), &one);

	int seized[2];
	if (pipe2(seized, O_CLOEXEC))
		return {};
	std::fflush(nullptr);
	const pid_t child = fork();
	if (child == 0) {
		char none;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		::close(seized[1]);
		if (read(seized[0], &none, 1))
			_exit(1);
		alarm(seconds);
		try {
			body();
			_exit(0);
		} catch (const std::exception &e) {
			std::fprintf(stderr, "while counting: %s\n", e.what());
			_exit(1);
		}
	}
	Counts counts;
	::close(seized[0]);
	if (child > 0) {
		Tracer tracer(what, child);
		::close(seized[1]);
		counts = tracer.follow();
	} else {
		::close(seized[1]);
	}
	sched_setaffinity(0, sizeof(before), &before);
	return counts;
}

} // namespace bench
