// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Addresses in words. */
#ifndef TREADLE_TOOLS_TREADLECTL_ADDRESS_H
#define TREADLE_TOOLS_TREADLECTL_ADDRESS_H

#include <string>

#include <arpa/inet.h>
#include <net/if.h>

#include <treadle/types.h>

namespace ctl
{

/* Without the port. */
inline std::string address_of(const treadle_addr &addr)
{
	char text[INET6_ADDRSTRLEN] = "?", name[IF_NAMESIZE];

	inet_ntop(addr.family, addr.addr, text, sizeof(text));
	if (!addr.scope)
		return text;
	return std::string(text) + '%' +
	       (if_indextoname(addr.scope, name) ? name : std::to_string(addr.scope));
}

} // namespace ctl

#endif
