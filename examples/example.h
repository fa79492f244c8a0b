// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Errors and completions in the examples, which wait for one completion at a time. */
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include <treadle/treadle.h>

/* Functions that create something return a value or an errno, and never throw. */
template <class T> T value_of(treadle::Result<T> result, const char *what)
{
	if (!result) {
		std::fprintf(stderr, "%s: %s\n", what, result.error().message());
		std::exit(1);
	}
	return std::move(*result);
}

/* Posting returns 0 or -errno. */
inline void check(int rc, const char *what)
{
	if (rc < 0) {
		std::fprintf(stderr, "%s: %s\n", what, treadle::Errno(-rc).message());
		std::exit(1);
	}
}

/* Reading completions takes no system call; waiting for one does. */
inline treadle_cqe next(treadle::CompletionQueue &completions)
{
	treadle_cqe cqe;
	int rc;

	while ((rc = completions.read({&cqe, 1})) == -EAGAIN)
		check(completions.wait(-1), "wait");
	check(rc, "read completions");
	check(-static_cast<int>(cqe.error), "completion");
	return cqe;
}

/* Addresses are exchanged by other means: here by a socket. */
inline treadle_addr exchange(int line, treadle_addr addr)
{
	if (send(line, &addr, sizeof(addr), MSG_NOSIGNAL) != sizeof(addr) ||
	    read(line, &addr, sizeof(addr)) != sizeof(addr))
		std::exit(1);
	return addr;
}

/*
 * Runs two processes with a socket between them. A context belongs to the process that opened it,
 * so each opens its own.
 */
inline int in_two_processes(void (*parent)(int line, pid_t child), void (*child)(int line))
{
	int ends[2];

	check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ? -errno : 0, "socketpair");
	const pid_t pid = fork();
	check(pid < 0 ? -errno : 0, "fork");
	/* Close the other end: else a process would wait for ever when the other one has failed. */
	close(ends[pid ? 1 : 0]);
	if (pid)
		parent(ends[0], pid);
	else
		child(ends[1]);
	return 0;
}
