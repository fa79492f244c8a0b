// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_LIB_CHILD_H
#define TREADLE_TESTS_LIB_CHILD_H

#include <cstdio>
#include <functional>

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

/* A child process with a line to talk over. The destructor kills it if it has not exited. */
class Child
{
public:
	class Line
	{
	public:
		explicit Line(int fd) : fd_(fd) {}

		template <class T> void tell(const T &value) const
		{
			if (send(fd_, &value, sizeof(value), MSG_NOSIGNAL) != sizeof(value))
				ADD_FAILURE() << "the other process is gone";
		}
		template <class T> T ask() const
		{
			T value{};

			if (read(fd_, &value, sizeof(value)) != sizeof(value))
				ADD_FAILURE() << "the other process is gone";
			return value;
		}

	private:
		int fd_;
	};

	explicit Child(const std::function<void(const Line &)> &body)
	{
		int fds[2];

		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
		std::fflush(nullptr);
		pid_ = fork();
		if (!pid_) {
			close(fds[0]);
			body(Line(fds[1]));
			std::fflush(nullptr);
			_exit(testing::Test::HasFailure());
		}
		close(fds[1]);
		fd_ = fds[0];
	}
	Child(const Child &) = delete;
	Child &operator=(const Child &) = delete;
	~Child()
	{
		kill();
		close(fd_);
	}

	Line line() const { return Line(fd_); }
	/* Its exit status, or minus the signal that ended it. */
	int join()
	{
		int status = 0;

		if (pid_ > 0)
			waitpid(pid_, &status, 0);
		pid_ = 0;
		return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
	}
	void kill()
	{
		if (pid_ > 0) {
			::kill(pid_, SIGKILL);
			join();
		}
	}
	pid_t pid() const { return pid_; }

private:
	pid_t pid_;
	int fd_;
};

using Line = Child::Line;

#endif
