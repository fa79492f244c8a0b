// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What the kernel says of a process that should not run. */
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>

#include <unistd.h>

namespace bench
{

struct Activity {
	bool stopped = true;   /* all threads */
	uint64_t ticks = 0;    /* CPU time of all threads */
	uint64_t switches = 0; /* context switches of all threads */

	bool operator==(const Activity &) const = default;
};

inline Activity activity_of(pid_t pid)
{
	Activity activity;

	for (const auto &thread :
	     std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
		std::ifstream stat(thread.path() / "stat"), status(thread.path() / "status");
		std::string word, line;
		char state = '?';
		uint64_t user, system;

		/*
		 * pid (name) state; utime and stime are the 11th and 12th field after that: proc(5)
		 */
		stat.ignore(std::numeric_limits<std::streamsize>::max(), ')');
		stat >> state;
		for (int i = 0; i < 10; i++)
			stat >> word;
		if (!(stat >> user >> system))
			throw std::runtime_error("cannot read " + thread.path().string());
		activity.stopped &= state == 'T';
		activity.ticks += user + system;
		while (std::getline(status, line))
			if (const size_t at = line.find("_ctxt_switches:"); at != line.npos)
				activity.switches += std::stoull(line.substr(at + 15));
	}
	return activity;
}

} // namespace bench
