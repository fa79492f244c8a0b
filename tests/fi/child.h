// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_CHILD_H
#define TREADLE_TESTS_FI_CHILD_H

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

/* Fails the test, without a signal, if the peer has ended. */
inline void write_all(int line, const void *buf, std::size_t len)
{
	EXPECT_EQ(send(line, buf, len, MSG_NOSIGNAL), static_cast<ssize_t>(len));
}

inline void read_all(int line, void *buf, std::size_t len)
{
	auto *at = static_cast<char *>(buf);

	while (len) {
		const ssize_t n = read(line, at, len);
		ASSERT_GT(n, 0);
		at += n;
		len -= static_cast<std::size_t>(n);
	}
}

/* Length and bytes in one write: a peer may end once it has read the length of an empty message. */
inline void put(int line, const std::vector<std::byte> &bytes)
{
	const std::size_t size = bytes.size();
	std::vector<std::byte> whole(sizeof(size) + size);

	std::memcpy(whole.data(), &size, sizeof(size));
	std::copy(bytes.begin(), bytes.end(), whole.begin() + sizeof(size));
	write_all(line, whole.data(), whole.size());
}

inline std::vector<std::byte> get(int line)
{
	std::size_t size = 0;

	read_all(line, &size, sizeof(size));
	std::vector<std::byte> bytes(size);
	read_all(line, bytes.data(), size);
	return bytes;
}

/*
 * A child process with a socket to its parent. The result of its function is its exit status; 0 is
 * success.
 */
class Child
{
public:
	explicit Child(const std::function<int(int)> &run)
	{
		int line[2];

		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line), 0);
		pid_ = fork();
		if (pid_ == 0) {
			close(line[0]);
			int status = 1;
			try {
				status = run(line[1]);
			} catch (const std::exception &e) {
				fprintf(stderr, "child: %s\n", e.what());
			}
			_exit(testing::Test::HasFailure() ? 1 : status);
		}
		close(line[1]);
		line_ = line[0];
	}
	~Child()
	{
		close(line_);
		if (pid_ > 0)
			kill(SIGKILL), wait();
	}

	int line() const { return line_; }
	void kill(int signal) { ::kill(pid_, signal); }
	int wait()
	{
		int status = -1;

		waitpid(pid_, &status, 0);
		pid_ = 0;
		return status;
	}

private:
	pid_t pid_;
	int line_;
};

#endif
