// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_ADDRESS_H
#define TREADLE_PROVIDER_ADDRESS_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <treadle/address.h>

#include "provider.h"

/*
 * Addresses as libfabric writes them (fi_getinfo(3), "ADDRESSING FORMATS"), and
 * as the kernel does. The formats of libfabric here are FI_SOCKADDR_IN,
 * FI_SOCKADDR_IN6 and FI_ADDR_STR; FI_SOCKADDR and FI_SOCKADDR_IP (2.x) stand for either of the
 * first two.
 */
namespace treadle::fi
{

using Address = treadle_addr;

/* The loopback address of a family, with a port in network byte order. */
Address loopback_of(int family, std::uint16_t port = 0) noexcept;

/* The format in which an address of this family is written; FI_ADDR_STR stays what it is. */
std::uint32_t format_of(int family, std::uint32_t asked) noexcept;

/* From memory that a caller says is in this format; FI_FORMAT_UNSPEC: any sockaddr. */
std::optional<Address> decode(std::uint32_t format, const void *from, std::size_t size) noexcept;

/* The same from memory that nobody told the size of: that of the format. */
std::optional<Address> decode(std::uint32_t format, const void *from) noexcept;

/* One element of an array in this format, as fi_av_insert(3) takes it, and its size there. */
std::optional<Address> decode_element(std::uint32_t format, const void *element) noexcept;
std::size_t element_size(std::uint32_t format) noexcept;

/*
 * The address in this format, as bytes. One of the other family is that of a peer on this machine: it becomes
 * the loopback address of the format's, where its port is as good.
 */
std::string encode(std::uint32_t format, const Address &address);

/* Copies what fits and tells the size needed, as fi_getname(3) and fi_av_lookup(3) do. */
bool copy_out(const std::string &bytes, void *to, std::size_t *size) noexcept;

/* fi_sockaddr_in://127.0.0.1:7471, the text form of FI_ADDR_STR, and back. */
std::string to_string(const Address &address);
std::optional<Address> from_string(std::string_view text) noexcept;

/*
 * What a name and a service resolve to, IPv4 first: getaddrinfo(3), or a text
 * form as node and no service. Either may be null. Empty: to nothing.
 */
std::vector<Address> resolve(const char *node, const char *service, bool numeric);

/* Only addresses of this network namespace can be bound or reached. */
bool is_local(const Address &address) noexcept;

/* Bytes of an address in any format. */
inline constexpr std::size_t max_address = 80;

bool is_unspecified(const Address &address) noexcept;

/*
 * fi_setname(3): replaces an object of the kernel by one that create(Address) makes, at another
 * address. Who names no port keeps that which he has. One who keeps his port has to let go of it first: if the new
 * address is refused then, he gets the old one back, unless somebody was faster.
 */
template <class Kernel, class Create> int rename(Kernel &kernel, Address to, Create &&create)
{
	const Address from = kernel.address();

	if (!to.port)
		to.port = from.port;
	if (!std::memcmp(&to, &from, sizeof(to)))
		return 0;
	if (to.port == from.port)
		kernel.close();
	auto made = create(to);
	if (!made && to.port == from.port) {
		if (auto again = create(from))
			kernel = std::move(*again);
	}
	if (!made)
		return REFUSE(fabric_error(made.error().negative()), FI_LOG_EP_CTRL, "setname: %s",
			      to_string(to).c_str());
	kernel = std::move(*made);
	return 0;
}

} // namespace treadle::fi

#endif
