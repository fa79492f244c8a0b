// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_ADDRESS_H
#define TREADLE_ADDRESS_H

#include <cstdint>

#include <sys/socket.h>

#include <treadle/ioctl.h>
#include <treadle/result.h>
#include <treadle/ring.h>

namespace treadle
{

/* IPv4 and IPv6 addresses of endpoints, as bind(2) has them. Thread-safe, no system call. */

/* port: host byte order; 0: any free port. */
TREADLE_API treadle_addr loopback(std::uint16_t port = 0) noexcept;

/* EINVAL: too short for its family; EADDRNOTAVAIL: neither AF_INET nor AF_INET6. */
[[nodiscard]] TREADLE_API Result<treadle_addr> from_sockaddr(const sockaddr *address,
							     socklen_t length) noexcept;

/* The sender, from a completion with EADDRNOTAVAIL, for endpoints with TREADLE_EP_SOURCE_ERR. */
TREADLE_API treadle_addr sender_of(const treadle_cqe &cqe) noexcept;

/* Writes all of a sockaddr_in or sockaddr_in6 and returns its size, 0 for an unknown family. */
TREADLE_API socklen_t to_sockaddr(const treadle_addr &address, sockaddr_storage &out) noexcept;

} // namespace treadle

#endif
