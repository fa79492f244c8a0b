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

/* Functions that don't return a value return an error code, which is false on success. */
inline void check(std::error_code error, const char *what)
{
	if (error) {
		std::fprintf(stderr, "%s: %s\n", what, error.message().c_str());
		std::exit(1);
	}
}

/* All others return a value or an error code, and never throw. */
template <class T> T value_of(treadle::Result<T> result, const char *what)
{
	check(result ? std::error_code() : result.error(), what);
	return std::move(*result);
}

/* Reading completions takes no system call; waiting for one does. */
inline treadle::Completion next(treadle::CompletionQueue &queue)
{
	const treadle::Completion done = value_of(queue.next(), "read completions");

	check(done.error(), "completion");
	return done;
}

/* What is sent: the bytes of an object. */
template <class T> std::span<const std::byte> bytes_of(const T &object)
{
	return std::as_bytes(std::span(&object, 1));
}
template <class T> std::span<std::byte> bytes_of(T &object)
{
	return std::as_writable_bytes(std::span(&object, 1));
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

	check(treadle::from_errno(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ? errno : 0),
	      "socketpair");
	const pid_t pid = fork();
	check(treadle::from_errno(pid < 0 ? errno : 0), "fork");
	/* Close the other end: else a process would wait for ever when the other one has failed. */
	close(ends[pid ? 1 : 0]);
	if (pid)
		parent(ends[0], pid);
	else
		child(ends[1]);
	return 0;
}
