// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "fdinfo.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include <sys/stat.h>

namespace ctl
{

/* Reads "word number word number": returns the number after the word. */
template <class T> static T take(std::istream &in, const char *word)
{
	std::string found;
	T value{};

	if (!(in >> found >> value) || found != word)
		throw std::runtime_error(std::string("the kernel does not tell: ") + word);
	return value;
}

static Armed armed_of(std::istream &in)
{
	Armed a{};
	std::string kind;

	in >> kind >> a.cond;
	a.cell = kind == "cell";
	a.at = take<std::uint64_t>(in, "at");
	if (a.cell) {
		a.is = take<std::uint64_t>(in, "is");
		a.wants = take<std::uint64_t>(in, "wants");
	}
	a.op = take<unsigned>(in, "op");
	a.flags = take<std::uint32_t>(in, "flags");
	a.ep = take<Id>(in, "ep");
	a.notify = take<Id>(in, "counts");
	in >> a.target;
	a.context = take<std::string>(in, "context");
	return a;
}

static Picture read(std::istream &file)
{
	Picture p;

	for (std::string line; std::getline(file, line);) {
		std::istringstream in(line);
		std::string what;
		Id id = 0;

		in >> what;
		if (what == "treadle-context:") {
			p.context = true;
			p.armed_count = take<std::uint64_t>(in, "armed");
		} else if (what == "treadle-cntr:") {
			in >> id;
			p.counters[id].success = take<std::uint64_t>(in, "success");
			p.counters[id].error = take<std::uint64_t>(in, "error");
		} else if (what == "treadle-ep:") {
			in >> id;
			Endpoint &ep = p.endpoints[id];
			ep.port = take<unsigned>(in, "port");
			ep.counts[0] = take<Id>(in, "counts");
			for (int i = 1; i < 6; i++)
				in >> ep.counts[i];
		} else if (what == "treadle-armed:") {
			p.armed.push_back(armed_of(in));
		} else if (what == "treadle-more:") {
			p.more = true;
		}
	}
	return p;
}

/* Says why a process, or one of its files, can't be read. */
[[noreturn]] static void cannot_look(const std::string &pid, int error)
{
	if (error == ENOENT || error == ESRCH)
		throw std::runtime_error("there is no process " + pid);
	if (error == EACCES || error == EPERM)
		throw NoRights(
			"process " + pid +
			" may not be looked at: its user may, and root, as ptrace(2) has it");
	throw std::system_error(error, std::generic_category(), "process " + pid);
}

/* May the file be a context? Its name doesn't matter, but it is a character device. */
static bool may_be_context(const std::filesystem::path &fd)
{
	struct stat st;

	return !::stat(fd.c_str(), &st) && S_ISCHR(st.st_mode);
}

void contexts_of(const std::string &pid,
		 const std::function<void(const std::string &fd, const Picture &)> &found)
{
	const std::filesystem::path process = "/proc/" + pid;
	std::error_code error;
	std::filesystem::directory_iterator fd(process / "fd", error), end;

	if (error)
		cannot_look(pid, error.value());
	for (; fd != end; fd.increment(error)) {
		if (!may_be_context(fd->path()))
			continue;
		const std::string number = fd->path().filename();
		std::ifstream file(process / "fdinfo" / number);
		if (!file && errno != ENOENT && errno != ESRCH)
			cannot_look(pid, errno);
		const Picture picture = read(file);
		if (picture.context)
			found(number, picture);
		if (error)
			break; /* the process has ended */
	}
}

std::string command_of(const std::string &pid)
{
	std::ifstream file("/proc/" + pid + "/comm");
	std::string name;

	std::getline(file, name);
	return name;
}

} // namespace ctl
