// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Does the machine's firewall let through what other nodes send? */
#ifndef TREADLE_TOOLS_TREADLECTL_FIREWALL_H
#define TREADLE_TOOLS_TREADLECTL_FIREWALL_H

#include <string>

namespace ctl
{

struct Verdict {
	enum { open, closed, unknown } port;
	std::string why;
};

/*
 * Reads rules as "nft list ruleset" or "iptables -S" prints them. A chain closes the port if it
 * names it and drops, or drops what no rule of it accepts, and none accepts the port. Sets, jumps
 * and rules for single addresses are not followed, so this is a guess.
 */
Verdict judge_nft(const std::string &rules);
Verdict judge_iptables(const std::string &rules);
/* Of this machine. */
Verdict firewall_verdict();

} // namespace ctl

#endif
