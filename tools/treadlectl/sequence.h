// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Events in words, and as a picture: processes as columns, time downwards. */
#ifndef TREADLE_TOOLS_TREADLECTL_SEQUENCE_H
#define TREADLE_TOOLS_TREADLECTL_SEQUENCE_H

#include <map>
#include <string>
#include <vector>

#include "tracefs.h"

namespace ctl
{

/* What is known of a context: its process, "name (pid)". */
using Owners = std::map<std::uint64_t, std::string>;

/* "send of 8 bytes posted to port 7, by endpoint 3 of bench (12)" */
std::string in_words(const Event &event, const Owners &owners);
/* Has the event failed, or does it say that something has to wait? */
bool is_failure(const Event &event);
bool is_wait(const Event &event);
std::string sequence(const std::vector<Event> &events, const Owners &owners,
		     const std::string &title);

} // namespace ctl

#endif
