// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_CHILD_H
#define TREADLE_TESTS_FI_CHILD_H

#include <csignal>
#include <functional>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

/* A child process with a line to its parent. What it returns is its exit status; 0 is well. */
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
