// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A provider at work in its own process, or two if its ends are to be apart. While one provider is
 * measured, the processes of the others are stopped, with their threads. A provider that crashes or
 * hangs only takes down its own processes.
 */
#pragma once

#include <algorithm>
#include <cstdio>
#include <utility>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machines.h"
#include "operations.h"

namespace bench
{

struct Answer {
	enum class Status { done, unsupported, failed } status;
	uint64_t ns, messages;
	uint64_t typical; /* ns for the same: the median of the parts that were timed */
	Post::Overlap overlap;
	char text[120]; /* the error */
};

/* What the other machine has to know. */
struct RemoteJob {
	char provider[64]{};
	uint64_t operation, size, type, progress, threading;

	explicit RemoteJob(const Job &job)
		: operation(static_cast<uint64_t>(job.op.kind)), size(job.size), type(job.type),
		  progress(job.progress), threading(job.threading)
	{
		std::snprintf(provider, sizeof(provider), "%s", job.provider.c_str());
	}
	RemoteJob() = default;
};

/* The second end, on behalf of another machine. */
inline void answer_there(Partner &partner, const std::string &address)
{
	RemoteJob job;

	if (!partner.get(&job, sizeof(job)))
		return;
	job.provider[sizeof(job.provider) - 1] = 0;
	const auto op =
		std::ranges::find(operations, static_cast<Kind>(job.operation), &Operation::kind);
	if (op == std::end(operations) || job.size > 4ULL << 30)
		throw std::runtime_error("another machine asks for what is not there");
	try {
		start({job.provider, *op, job.size, true, static_cast<fi_ep_type>(job.type),
		       address, static_cast<fi_progress>(job.progress),
		       static_cast<fi_threading>(job.threading)},
		      Place::second, &partner)
			->answer();
	} catch (const Unsupported &) {
		return; /* the first end finds out, too */
	}
}

class Worker
{
public:
	/* @machine: where the second end is, or null. */
	explicit Worker(Job job, const Machine *machine = nullptr)
		: job_(std::move(job)), machine_(machine)
	{
		int ends[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
			throw Failure("socketpair", errno);
		std::fflush(nullptr);
		pid_ = fork();
		if (pid_ == 0) {
			setpgid(0, 0);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			::close(ends[0]);
			serve(ends[1]);
			_exit(0);
		}
		::close(ends[1]);
		fd_ = ends[0];
		if (pid_ < 0)
			throw Failure("fork", errno);
		setpgid(pid_, pid_); /* in both processes, as either may be first */
		first_ = wait();
	}

	Worker(const Worker &) = delete;
	Worker &operator=(const Worker &) = delete;

	/* Ends the process in order if possible, because a provider may have files to remove. */
	~Worker()
	{
		if (pid_ <= 0)
			return;
		signal(SIGCONT);
		::shutdown(fd_, SHUT_RDWR); /* workers forked later have this end, too */
		::close(fd_);
		for (int i = 0; i < 300 && waitpid(pid_, nullptr, WNOHANG) == 0; i++)
			usleep(10000);
		signal(SIGKILL);
		waitpid(pid_, nullptr, 0);
	}

	const Job &job() const { return job_; }
	/* Could it start, and did the right data arrive? */
	const Answer &first() const { return first_; }

	Answer run(uint64_t messages)
	{
		signal(SIGCONT);
		Partner(fd_).put(messages);
		return wait();
	}

private:
	static constexpr int patience = 60000; /* ms */

	void signal(int number) { kill(-pid_, number); }

	Answer wait()
	{
		Answer answer{};
		pollfd poll{fd_, POLLIN, 0};

		if (::poll(&poll, 1, patience) <= 0)
			return failed("no answer in time");
		if (!Partner(fd_).get(&answer, sizeof(answer)))
			return failed("died");
		signal(SIGSTOP);
		return answer;
	}

	static Answer failed(const char *why)
	{
		Answer answer{};

		answer.status = Answer::Status::failed;
		std::snprintf(answer.text, sizeof(answer.text), "%s", why);
		return answer;
	}

	void serve(int fd)
	{
		Partner asking(fd);
		Answer answer{};

		try {
			if (machine_)
				on_two_machines(asking);
			else if (job_.two)
				in_two_processes(asking);
			else
				work(asking, *start(job_));
			return;
		} catch (const Unsupported &) {
			answer.status = Answer::Status::unsupported;
		} catch (const std::exception &e) {
			answer = failed(e.what());
		}
		::send(fd, &answer, sizeof(answer), MSG_NOSIGNAL);
	}

	/* Forks before anything is opened, because few providers survive a later fork. */
	void in_two_processes(Partner &asking)
	{
		int ends[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
			throw Failure("socketpair", errno);
		const pid_t second = fork();
		if (second == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			::close(ends[0]);
			Partner partner(ends[1]);
			try {
				start(job_, Place::second, &partner)->answer();
			} catch (const Unsupported &) {
				_exit(0); /* the first end finds out, too */
			} catch (const std::exception &e) {
				std::fprintf(stderr, "%s, second process: %s\n",
					     job_.provider.c_str(), e.what());
			}
			_exit(0);
		}
		::close(ends[1]);
		Partner partner(ends[0]);
		work(asking, *start(job_, Place::first, &partner));
		::shutdown(ends[0], SHUT_RDWR);
		waitpid(second, nullptr, 0);
	}

	void on_two_machines(Partner &asking)
	{
		const Socket socket = machine_->connect();
		Partner partner(socket.get());
		const RemoteJob remote(job_);

		partner.put(&remote, sizeof(remote));
		work(asking, *start(job_, Place::first, &partner));
	}

	static void work(Partner &asking, Conversation &conversation)
	{
		uint64_t messages;
		Answer answer{};
		auto *post = dynamic_cast<Post *>(&conversation);

		conversation.verify();
		asking.put(&answer, sizeof(answer));
		while (asking.get(&messages, sizeof(messages))) {
			Timer timer;
			Watch unwatched;
			/* Wakes threads and warms caches after the break. */
			conversation.run(messages / 8, unwatched);
			answer.messages = conversation.run(messages, timer);
			answer.ns = timer.total;
			std::ranges::sort(timer.parts);
			answer.typical = timer.parts[timer.parts.size() / 2] * timer.parts.size();
			if (post)
				answer.overlap = post->overlap();
			asking.put(&answer, sizeof(answer));
		}
	}

	Job job_;
	const Machine *const machine_;
	pid_t pid_ = 0;
	int fd_ = -1;
	Answer first_{};
};

} // namespace bench
