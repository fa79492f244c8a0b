// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tracefs.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cli.h"

namespace ctl
{

constexpr char prefix[] = "treadlectl-";
/* Of each processor: some 30,000 events. */
constexpr char buffer_kib[] = "4096";
/* A filter is at most a page. */
constexpr std::size_t most_contexts = 64;

const std::string &Event::text(std::string_view field) const
{
	static const std::string none;
	const auto at = std::ranges::find(fields, field, [](const auto &f) { return f.first; });

	return at == fields.end() ? none : at->second;
}

std::uint64_t Event::operator[](std::string_view field) const
{
	const std::string &value = text(field);

	return value.starts_with('-') ?
		       static_cast<std::uint64_t>(std::strtoll(value.c_str(), nullptr, 0)) :
		       std::strtoull(value.c_str(), nullptr, 0);
}

/*
 * "   name-tid     [cpu] flags   seconds: treadle_post: msg=1 …". The name is the thread's own
 * choice, so the line is read from its end.
 */
std::optional<Event> event_of(const std::string &line)
{
	constexpr std::string_view mark = ": treadle_";
	const std::size_t at = line.rfind(mark);
	Event event;

	if (at == line.npos)
		return std::nullopt;
	const std::size_t name = at + mark.size(), end = line.find(':', name);
	const std::size_t time = line.rfind(' ', at), cpu = line.rfind('[', at);
	if (end == line.npos || time == line.npos || cpu == line.npos)
		return std::nullopt;
	event.name = line.substr(name, end - name);
	event.time = std::strtod(line.c_str() + time, nullptr);
	const std::size_t first = line.find_first_not_of(' '),
			  last = line.find_last_not_of(' ', cpu - 1);
	if (first < cpu)
		event.thread = line.substr(first, last + 1 - first);
	for (std::size_t from = end + 1; from < line.size();) {
		const std::size_t word = line.find_first_not_of(' ', from);
		const std::size_t stop = std::min(line.find(' ', word), line.size());
		const std::size_t equals = line.find('=', word);

		if (word == line.npos)
			break;
		if (equals < stop)
			event.fields.emplace_back(line.substr(word, equals - word),
						  line.substr(equals + 1, stop - equals - 1));
		from = stop;
	}
	return event;
}

static std::string tracefs()
{
	static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

	for (const char *place : places) {
		if (!access((std::string(place) + "/instances").c_str(), W_OK))
			return place;
		if (errno == EACCES || errno == EPERM)
			throw std::runtime_error(std::string(place) +
						 " is root's: run this as root");
	}
	if (geteuid())
		throw std::runtime_error("there is no tracefs at /sys/kernel/tracing that you may "
					 "use: run this as root");
	throw std::runtime_error("there is no tracefs at /sys/kernel/tracing: mount -t tracefs "
				 "tracefs /sys/kernel/tracing");
}

/* Removes instances of processes that were killed. */
static void clean(const std::string &instances)
{
	std::error_code ignored;

	for (const auto &entry : std::filesystem::directory_iterator(instances, ignored)) {
		const std::string name = entry.path().filename();
		if (!name.starts_with(prefix))
			continue;
		const int pid = std::atoi(name.c_str() + sizeof(prefix) - 1);
		if (pid > 0 && kill(pid, 0) && errno == ESRCH)
			rmdir(entry.path().c_str());
	}
}

Tracing::Tracing()
{
	const std::string root = tracefs(), instances = root + "/instances/";

	if (access((root + "/events/treadle").c_str(), F_OK)) {
		cli::need_device();
		throw std::runtime_error("the module has no tracepoints: it is older than this "
					 "tool, or the kernel has none (CONFIG_TRACEPOINTS)");
	}
	clean(instances);
	path_ = instances + prefix + std::to_string(getpid());
	if (mkdir(path_.c_str(), 0700))
		throw std::system_error(errno, std::generic_category(), path_);
	try {
		set("tracing_on", "0"); /* until all events are on */
		set("buffer_size_kb", buffer_kib);
		set("trace_clock", "mono");
		pipe_ = treadle::detail::UniqueFd(
			open((path_ + "/trace_pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
		if (pipe_.get() < 0)
			throw std::system_error(errno, std::generic_category(), "trace_pipe");
	} catch (...) {
		rmdir(path_.c_str());
		throw;
	}
}

Tracing::~Tracing()
{
	pipe_ = treadle::detail::UniqueFd(); /* an instance that is read can't be removed */
	const int fd = open((path_ + "/events/treadle/enable").c_str(), O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		[[maybe_unused]] const ssize_t n = ::write(fd, "0", 1);
		close(fd);
	}
	rmdir(path_.c_str());
}

void Tracing::set(const std::string &file, const std::string &text) const
{
	const std::string path = path_ + "/" + file;
	const int fd = open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
	const ssize_t n = fd < 0 ? -1 : ::write(fd, text.data(), text.size());
	const int error = errno;

	if (fd >= 0)
		close(fd);
	if (n < 0)
		throw std::system_error(error, std::generic_category(), path);
}

/*
 * Each write waits for all processors, so there are few. The filter of all events leaves alone
 * those without these fields.
 */
void Tracing::limit_to(const std::set<std::uint64_t> &contexts)
{
	std::string filter;

	for (const std::uint64_t id : contexts) {
		const std::string number = std::to_string(id);

		filter += filter.empty() ? "ctx==" : "||ctx==";
		filter += number;
		filter += "||peer_ctx==";
		filter += number;
	}
	set("events/treadle/filter", contexts.size() > most_contexts ? "0" : filter);
	set("events/treadle/treadle_remote_arrive/filter", "0"); /* it names no context */
	set("events/treadle/enable", "1");
	set("tracing_on", "1");
}

std::vector<Event> Tracing::read(std::chrono::milliseconds most)
{
	std::vector<Event> events;
	char text[65536];
	ssize_t n;

	n = ::read(pipe_.get(), text, sizeof(text));
	if (n < 0 && errno == EAGAIN) {
		pollfd from{pipe_.get(), POLLIN, 0};
		poll(&from, 1, static_cast<int>(most.count()));
		n = ::read(pipe_.get(), text, sizeof(text));
	}
	for (int i = 0; n > 0 && i < 64; i++) {
		rest_.append(text, static_cast<std::size_t>(n));
		n = ::read(pipe_.get(), text, sizeof(text));
	}
	std::size_t from = 0, end;
	for (; (end = rest_.find('\n', from)) != rest_.npos; from = end + 1) {
		const std::string line = rest_.substr(from, end - from);
		const std::size_t gone = line.find(" [LOST ");

		if (const auto event = event_of(line))
			events.push_back(*event);
		else if (line.starts_with("CPU:") && gone != line.npos)
			lost_ += std::strtoull(line.c_str() + gone + 7, nullptr, 10);
	}
	rest_.erase(0, from);
	return events;
}

} // namespace ctl
