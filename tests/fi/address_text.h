// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_ADDRESS_TEXT_H
#define TREADLE_TESTS_FI_ADDRESS_TEXT_H

#include <string>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <rdma/fabric.h>

/* "127.0.0.1 7471", or the address itself if it is text. */
inline std::string text_of(const void *address, std::uint32_t format)
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (!address)
		return "";
	if (format == FI_ADDR_STR)
		return static_cast<const char *>(address);
	if (format == FI_SOCKADDR_IN6) {
		const auto *in6 = static_cast<const sockaddr_in6 *>(address);
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		return std::string(host) + " " + std::to_string(ntohs(in6->sin6_port));
	}
	const auto *in = static_cast<const sockaddr_in *>(address);
	inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
	return std::string(host) + " " + std::to_string(ntohs(in->sin_port));
}

#endif
