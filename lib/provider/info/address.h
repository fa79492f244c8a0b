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

#include "base/provider.h"

/*
 * Addresses as libfabric writes them (fi_getinfo(3), "ADDRESSING FORMATS"), and as the kernel does.
 * The formats of libfabric here are FI_SOCKADDR_IN, FI_SOCKADDR_IN6 and FI_ADDR_STR. FI_SOCKADDR
 * and FI_SOCKADDR_IP (2.x) stand for either of the first two.
 */
namespace treadle::fi
{

using Address = treadle_addr;

/* The loopback address of a family, with a port in network byte order. */
Address loopback_of(int family, std::uint16_t port = 0) noexcept;

/* The unspecified address of a family: of an endpoint, that at which peers reach this machine. */
constexpr Address unspecified(int family) noexcept
{
	return {.family = static_cast<std::uint16_t>(family), .port = 0, .scope = 0, .addr = {}};
}

/* The format of an address of this family; FI_ADDR_STR stays FI_ADDR_STR. */
std::uint32_t format_of(int family, std::uint32_t asked) noexcept;

/* Reads an address in this format; FI_FORMAT_UNSPEC: any sockaddr. */
std::optional<Address> decode(std::uint32_t format, const void *from, std::size_t size) noexcept;

/* The same for memory of unknown size: the format says how many bytes are read. */
std::optional<Address> decode(std::uint32_t format, const void *from) noexcept;

/* Reads one element of an array in this format, as fi_av_insert(3) takes it. */
std::optional<Address> decode_element(std::uint32_t format, const void *element) noexcept;
std::size_t element_size(std::uint32_t format) noexcept;

/*
 * The address in this format, as bytes. In a format of the other family, an IPv4 address is mapped
 * into IPv6. An address of this machine becomes the loopback address of the format's family, with
 * the same port. Any other has none: empty.
 */
std::string encode(std::uint32_t format, const Address &address);

/* Copies what fits and sets *size to the size needed, as fi_getname(3) and fi_av_lookup(3) do. */
bool copy_out(const std::string &bytes, void *to, std::size_t *size) noexcept;

/* The text form of FI_ADDR_STR, such as fi_sockaddr_in://127.0.0.1:7471, and back. */
std::string to_string(const Address &address);
std::optional<Address> from_string(std::string_view text) noexcept;

/*
 * The addresses of a name and a service, IPv4 first, by getaddrinfo(3). Without a service, the node
 * may be a text form. Either may be null; without a node, they are the unspecified ones if they are
 * for the caller itself (own), else loopback. Returns an empty vector if there are none.
 */
std::vector<Address> resolve(const char *node, const char *service, bool numeric, bool own = false);

/* Is the address local in this network namespace? Only such can be bound. */
bool is_local(const Address &address) noexcept;

/* The most bytes of an address in any format. */
inline constexpr std::size_t max_address = 80;

bool is_unspecified(const Address &address) noexcept;

/*
 * fi_setname(3): replaces a kernel object by one that create(Address) makes at another address.
 * Port 0 keeps the present port.
 *
 * If the port stays, the old object is closed first. If the new address is then refused, the old
 * one is taken again, which fails if another object has taken it meanwhile.
 */
template <class Kernel, class Create> int rename(Kernel &kernel, Address to, Create &&create)
{
	const Address from = kernel.address();

	if (!to.port)
		to.port = from.port;
	if (!std::memcmp(&to, &from, sizeof(to)))
		return 0;
	if (to.port == from.port)
		std::ignore = kernel.close();
	auto made = create(to);
	if (!made && to.port == from.port) {
		if (auto again = create(from))
			kernel = std::move(*again);
	}
	if (!made)
		return REFUSE(fabric_error(negative(made.error())), FI_LOG_EP_CTRL, "setname: %s",
			      to_string(to).c_str());
	kernel = std::move(*made);
	return 0;
}

} // namespace treadle::fi

#endif
