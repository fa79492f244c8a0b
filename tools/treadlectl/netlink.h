// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The module's statistics by generic netlink: Documentation/treadle.yaml. An answer becomes a tree
 * of values with the names that are there, with underscores.
 */
#ifndef TREADLE_TOOLS_TREADLECTL_NETLINK_H
#define TREADLE_TOOLS_TREADLECTL_NETLINK_H

#include <cstdint>

#include <treadle/detail/fd.h>
#include <treadle/netlink.h>

#include "output.h"

namespace ctl
{

class Netlink
{
public:
	/* Throws a sentence if the module is not loaded, or has no statistics. */
	Netlink();
	/* cmd: TREADLE_CMD_MODULE_GET to _PEER_GET */
	Value get(std::uint8_t cmd) { return request(cmd, false).front(); }
	Value::List dump(std::uint8_t cmd) { return request(cmd, true); }

private:
	Value::List request(std::uint8_t cmd, bool dump);

	treadle::detail::UniqueFd fd_;
	std::uint16_t family_ = 0;
	std::uint32_t sequence_ = 0;
};

/* What is counted: TREADLE_A_COUNTERS_*, without traffic and failures. */
struct Counted {
	const char *name, *help;
	bool gauge; /* may become less */
};
extern const std::vector<Counted> counted;

} // namespace ctl

#endif
