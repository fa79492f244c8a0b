// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What the kernel shows of a context in /proc/PID/fdinfo/FD: kernel/dev/fdinfo.c */
#ifndef TREADLE_TOOLS_TREADLECTL_FDINFO_H
#define TREADLE_TOOLS_TREADLECTL_FDINFO_H

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <treadle/ring.h>

namespace ctl
{

using Id = std::uint32_t;

struct Counter {
	std::uint64_t success, error;
	std::uint64_t sum() const { return success + error; }
};

struct Endpoint {
	unsigned port;
	Id counts[6]; /* send, recv, read, write, remote_read, remote_write */
};
struct Armed {
	bool cell;
	/* A counter that follows a cell: the command never leaves it. */
	bool follows() const { return cell && (flags & TREADLE_F_REPEAT); }
	Id cond;
	std::uint64_t at, is, wants; /* a counter only has `at` */
	unsigned op;
	std::uint32_t flags;
	Id ep, notify, target;
	std::string context;
};

/* One context, as shown in one open file of the device. */
struct Picture {
	bool context = false; /* the file is a context */
	std::uint64_t armed_count = 0;
	bool more = false; /* more than the file shows */
	std::map<Id, Counter> counters;
	std::map<Id, Endpoint> endpoints;
	std::vector<Armed> armed;
};

/* A process may not be looked at. */
struct NoRights : std::runtime_error {
	using std::runtime_error::runtime_error;
};

/* The name of a process, as ps has it; empty if it has gone. */
std::string command_of(const std::string &pid);

/*
 * Calls @found with each file of the process that is a context, and with what it shows. Throws if
 * there is no such process, or if it may not be looked at.
 */
void contexts_of(const std::string &pid,
		 const std::function<void(const std::string &fd, const Picture &)> &found);

} // namespace ctl

#endif
