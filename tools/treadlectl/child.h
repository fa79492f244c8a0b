// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Work that may never end: a child does it, and is killed if it takes too long. */
#ifndef TREADLE_TOOLS_TREADLECTL_CHILD_H
#define TREADLE_TOOLS_TREADLECTL_CHILD_H

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ctl
{

/*
 * What the child has written to its standard output, and its exit status. Its standard error is
 * discarded. Nothing: it has not ended in time.
 */
struct Told {
	std::string text;
	int status;
};
std::optional<Told> in_child(const std::function<int()> &work, int seconds = 5);
/* The same of a program; 127: there is none. */
std::optional<Told> run_program(const std::vector<std::string> &argv, int seconds = 5);

} // namespace ctl

#endif
