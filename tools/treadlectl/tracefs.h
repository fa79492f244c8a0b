// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The events treadle:* of the kernel, through an instance of tracefs of this tool's own. */
#ifndef TREADLE_TOOLS_TREADLECTL_TRACEFS_H
#define TREADLE_TOOLS_TREADLECTL_TRACEFS_H

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <treadle/detail/fd.h>

namespace ctl
{

struct Event {
	double time = 0;    /* seconds since the machine has started */
	std::string name;   /* without treadle_ */
	std::string thread; /* "name-tid" */
	std::vector<std::pair<std::string, std::string>> fields;

	/* The text of a field; empty if there is none. */
	const std::string &text(std::string_view field) const;
	/* The number, or 0. A negative one is sign-extended. */
	std::uint64_t operator[](std::string_view field) const;
	int error() const { return static_cast<int>((*this)["error"]); }
};

/* An event in a line of tracefs; nothing: there is none. */
std::optional<Event> event_of(const std::string &line);

/*
 * Traces until it is destroyed. One that was left by a process that was killed is removed by the
 * next one.
 */
class Tracing
{
public:
	/* Throws a sentence if that is impossible. */
	Tracing();
	~Tracing();
	Tracing(const Tracing &) = delete;

	/* Trace what concerns these contexts, and some that does not. */
	void limit_to(const std::set<std::uint64_t> &contexts);
	/* What has happened. Waits for something until that time has passed. */
	std::vector<Event> read(std::chrono::milliseconds most);
	/* So many events were lost, as they came faster than they were read. */
	std::uint64_t lost() const { return lost_; }

private:
	void set(const std::string &file, const std::string &text) const;

	std::string path_, rest_;
	treadle::detail::UniqueFd pipe_;
	std::uint64_t lost_ = 0;
};

} // namespace ctl

#endif
