// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/address.h>

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace treadle
{

treadle_addr loopback(std::uint16_t port) noexcept
{
	return {.family = AF_INET, .port = htons(port), .scope = 0, .addr = {127, 0, 0, 1}};
}

Result<treadle_addr> from_sockaddr(const sockaddr *address, socklen_t length) noexcept
{
	treadle_addr out{};

	if (length < sizeof(address->sa_family))
		return std::unexpected(from_errno(EINVAL));
	out.family = address->sa_family;
	if (out.family == AF_INET) {
		sockaddr_in in;

		if (length < sizeof(in))
			return std::unexpected(from_errno(EINVAL));
		std::memcpy(&in, address, sizeof(in));
		out.port = in.sin_port;
		std::memcpy(out.addr, &in.sin_addr, sizeof(in.sin_addr));
	} else if (out.family == AF_INET6) {
		sockaddr_in6 in;

		if (length < sizeof(in))
			return std::unexpected(from_errno(EINVAL));
		std::memcpy(&in, address, sizeof(in));
		out.port = in.sin6_port;
		out.scope = in.sin6_scope_id;
		std::memcpy(out.addr, &in.sin6_addr, sizeof(in.sin6_addr));
	} else {
		return std::unexpected(from_errno(EADDRNOTAVAIL));
	}
	return out;
}

socklen_t to_sockaddr(const treadle_addr &address, sockaddr_storage &out) noexcept
{
	if (address.family == AF_INET) {
		sockaddr_in in{};

		in.sin_family = AF_INET;
		in.sin_port = address.port;
		std::memcpy(&in.sin_addr, address.addr, sizeof(in.sin_addr));
		std::memcpy(&out, &in, sizeof(in));
		return sizeof(in);
	}
	if (address.family == AF_INET6) {
		sockaddr_in6 in{};

		in.sin6_family = AF_INET6;
		in.sin6_port = address.port;
		in.sin6_scope_id = address.scope;
		std::memcpy(&in.sin6_addr, address.addr, sizeof(in.sin6_addr));
		std::memcpy(&out, &in, sizeof(in));
		return sizeof(in);
	}
	return 0;
}

treadle_addr sender_of(const treadle_cqe &cqe) noexcept
{
	const __u64 words[] = {cqe.src, cqe.olen,
			       cqe.flags & TREADLE_CQ_TAGGED ? cqe.buf : cqe.tag};
	treadle_addr address;

	static_assert(sizeof(words) == sizeof(address));
	std::memcpy(&address, words, sizeof(address));
	return address;
}

} // namespace treadle
