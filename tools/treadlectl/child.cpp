// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "child.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ctl
{

std::optional<Told> in_child(const std::function<int()> &work, int seconds)
{
	using clock = std::chrono::steady_clock;
	const auto end = clock::now() + std::chrono::seconds(seconds);
	int line[2];

	if (pipe2(line, O_CLOEXEC))
		throw std::system_error(errno, std::generic_category(), "pipe");
	const pid_t child = fork();
	if (child < 0)
		throw std::system_error(errno, std::generic_category(), "fork");
	if (!child) {
		const int null = open("/dev/null", O_RDWR);
		dup2(null, STDIN_FILENO);
		dup2(null, STDERR_FILENO);
		dup2(line[1], STDOUT_FILENO);
		std::signal(SIGPIPE, SIG_DFL);
		const int status = work();
		std::fflush(stdout);
		_exit(status);
	}
	close(line[1]);
	Told told{"", 0};
	bool ended = false;
	for (;;) {
		const auto left =
			std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now());
		pollfd from{line[0], POLLIN, 0};
		char text[4096];

		if (left.count() <= 0 || poll(&from, 1, static_cast<int>(left.count())) <= 0)
			break;
		const ssize_t n = read(line[0], text, sizeof(text));
		ended = n <= 0;
		if (ended)
			break;
		told.text.append(text, static_cast<std::size_t>(n));
	}
	close(line[0]);
	int status = 0;
	/* A child that not even SIGKILL ends at once is left to init. */
	if (!ended)
		kill(child, SIGKILL);
	if (waitpid(child, &status, ended ? 0 : WNOHANG) < 0 || !ended)
		return std::nullopt;
	told.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return told;
}

std::optional<Told> run_program(const std::vector<std::string> &argv, int seconds)
{
	return in_child(
		[&] {
			std::vector<char *> words;

			words.reserve(argv.size() + 1);
			for (const std::string &word : argv)
				words.push_back(const_cast<char *>(word.c_str()));
			words.push_back(nullptr);
			setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
			execvp(words[0], words.data());
			return 127;
		},
		seconds);
}

} // namespace ctl
