// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Other processes: started, given steps, stopped, watched and ended. */
#pragma once

#include <functional>
#include <vector>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "partner.h"
#include "watched.h"

namespace bench
{

/* What another process answers to each step, or reports instead. */
struct Report {
	bool good = true;
	Card card{};
	uint64_t value = 0;
	Activity activity{};
	char text[120]{}; /* the error, if not good */

	static Report error(const char *why)
	{
		Report report{.good = false};

		std::snprintf(report.text, sizeof(report.text), "%s", why);
		return report;
	}
};

/* Another process, as process 0 sees it. It is ended with this object. */
class Other
{
public:
	explicit Other(size_t number) : name_("process " + std::to_string(number)) {}
	Other(const Other &) = delete;
	virtual ~Other() = default;

	virtual void tell(const void *what, size_t size) = 0;
	template <class T> void tell(const T &what) { tell(&what, sizeof(what)); }

	/* Waits for its next report. Throws if that is an error, or if there is none in time. */
	Report report()
	{
		const Report report = next_report();

		if (!report.good)
			throw std::runtime_error(name_ + ": " + report.text);
		return report;
	}

	virtual void stop() = 0;
	virtual void resume() = 0;
	virtual Activity activity() = 0;
	/* Ends it in order, because a provider may have files to remove. */
	virtual void dismiss() = 0;

protected:
	virtual Report next_report() = 0;

	const std::string name_;
};

/* A process on this machine. */
class Child final : public Other
{
public:
	/* The process runs this. An exception that it throws becomes its last report. */
	using Life = std::function<void(Partner &parent)>;

	Child(size_t number, unsigned seconds, const Life &life) : Other(number)
	{
		int ends[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
			throw Failure("socketpair", errno);
		std::fflush(nullptr);
		pid_ = fork();
		if (pid_ == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			::close(ends[0]);
			live(life, ends[1]);
			std::_Exit(0);
		}
		::close(ends[1]);
		fd_ = ends[0];
		if (pid_ < 0)
			throw Failure("fork", errno);
		const timeval patience{.tv_sec = seconds, .tv_usec = 0};
		setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	}

	~Child() override
	{
		::close(fd_);
		if (pid_ <= 0)
			return;
		for (int i = 0; i < 300; i++) {
			if (waitpid(pid_, nullptr, WNOHANG))
				return;
			usleep(10000);
		}
		kill(pid_, SIGKILL);
		waitpid(pid_, nullptr, 0);
	}

	using Other::tell;
	void tell(const void *what, size_t size) override { Partner(fd_).put(what, size); }

	bool silent() const { return Partner(fd_).silent(); }

	void stop() override
	{
		int status;

		kill(pid_, SIGSTOP);
		if (waitpid(pid_, &status, WUNTRACED) != pid_ || !WIFSTOPPED(status))
			throw std::runtime_error(name_ + " can't be stopped");
	}

	void resume() override { kill(pid_, SIGCONT); }

	void dismiss() override
	{
		resume();
		::shutdown(fd_, SHUT_RDWR); /* processes forked later have this end, too */
	}

	Activity activity() override { return activity_of(pid_); }

protected:
	Report next_report() override
	{
		Report report;

		if (!Partner(fd_).get(&report, sizeof(report)))
			return Report::error("no answer");
		return report;
	}

private:
	static void live(const Life &life, int fd)
	{
		try {
			Partner parent(fd);
			life(parent);
		} catch (const std::exception &e) {
			const Report report = Report::error(e.what());
			::send(fd, &report, sizeof(report), MSG_NOSIGNAL);
		}
	}

	pid_t pid_ = 0;
	int fd_ = -1;
};

/* Called in the other process: sends a report. */
inline void report(Partner &parent, const Report &what = {})
{
	parent.put(&what, sizeof(what));
}
/*
 * Waits for the next step. If process 0 is gone, it throws, and what the process has opened is
 * closed.
 */
template <class T> T told(Partner &parent)
{
	T what;

	if (!parent.get(&what, sizeof(what)))
		throw std::runtime_error("the end");
	return what;
}

struct Others : std::vector<std::unique_ptr<Other>> {
	~Others()
	{
		/* Dismiss all of them first; destructors then wait for each. */
		for (auto &other : *this)
			other->dismiss();
	}
};

/* Stops the others. It checks by /proc that none of them ran until end(). */
class Stillness
{
public:
	explicit Stillness(const Others &others) : others_(others)
	{
		for (auto &other : others_)
			other->stop();
		for (auto &other : others_)
			before_.push_back(other->activity());
	}

	void end()
	{
		for (size_t i = 0; i < others_.size(); i++) {
			const Activity after = others_[i]->activity();
			if (!after.stopped || after != before_[i])
				throw std::runtime_error("process " + std::to_string(i + 1) +
							 " has run, although it was stopped");
		}
		for (auto &other : others_)
			other->resume();
	}

private:
	const Others &others_;
	std::vector<Activity> before_;
};

} // namespace bench
