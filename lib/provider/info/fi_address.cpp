// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "info/address.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <rdma/fabric.h>

#include <treadle/context.h>
#include <treadle/endpoint.h>

#include "base/later.h"

namespace treadle::fi
{

namespace
{

/* The text forms and their families. fi_getinfo(3) uses fi_sockaddr:// for both families. */
struct Scheme {
	std::string_view text;
	int family;
};
constexpr Scheme schemes[] = {
	{"fi_sockaddr_in://", AF_INET},
	{"fi_sockaddr_in6://", AF_INET6},
	{"fi_sockaddr://", AF_UNSPEC},
};

std::optional<Address> from_memory(const void *from, std::size_t size) noexcept
{
	sockaddr_storage aligned{}; /* a copy, as callers' addresses need not be aligned */

	std::memcpy(&aligned, from, std::min(size, sizeof(aligned)));
	const auto address = from_sockaddr(reinterpret_cast<const sockaddr *>(&aligned), size);
	return address ? std::optional(*address) : std::nullopt;
}

std::optional<std::uint16_t> parse_port(std::string_view text) noexcept
{
	std::uint16_t port = 0;
	auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);

	if (text.empty() || error != std::errc() || end != text.data() + text.size())
		return std::nullopt;
	return htons(port);
}

/* An empty host is the loopback address, as an empty node is for getaddrinfo(3). */
std::optional<Address> parse_host(std::string_view text, int family) noexcept
{
	char host[INET6_ADDRSTRLEN + 1] = "";
	Address address{};

	if (text.empty())
		return loopback_of(family);
	if (text.size() >= sizeof(host))
		return std::nullopt;
	std::copy(text.begin(), text.end(), host);
	address.family = family;
	if (inet_pton(family, host, address.addr) != 1)
		return std::nullopt;
	return address;
}

bool is_loopback(const Address &address) noexcept
{
	return address.family == AF_INET ? address.addr[0] == 127 :
					   IN6_IS_ADDR_LOOPBACK(address.addr);
}

/* An address of the other family in this one, if it has one there. */
std::optional<Address> in_family(int family, const Address &address) noexcept
{
	constexpr std::uint8_t mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	Address to = unspecified(family);

	to.port = address.port;
	if (address.family == family)
		return address;
	if (is_loopback(address))
		return loopback_of(family, address.port);
	if (family == AF_INET6) {
		std::copy(std::begin(mapped), std::end(mapped), to.addr);
		std::memcpy(to.addr + sizeof(mapped), address.addr, 4);
		return to;
	}
	if (std::equal(std::begin(mapped), std::end(mapped), address.addr)) {
		std::memcpy(to.addr, address.addr + sizeof(mapped), 4);
		return to;
	}
	return is_local(address) ? std::optional(loopback_of(family, address.port)) : std::nullopt;
}

} // namespace

Address loopback_of(int family, std::uint16_t port) noexcept
{
	Address address = loopback();

	address.port = port;
	if (family == AF_INET6) {
		address.family = AF_INET6;
		std::memcpy(address.addr, &in6addr_loopback, sizeof(in6addr_loopback));
	}
	return address;
}

std::uint32_t format_of(int family, std::uint32_t asked) noexcept
{
	if (asked == FI_ADDR_STR)
		return FI_ADDR_STR;
	return family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
}

std::optional<Address> decode(std::uint32_t format, const void *from, std::size_t size) noexcept
{
	std::optional<Address> address;

	if (!from)
		return std::nullopt;
	if (format == FI_ADDR_STR) {
		const char *text = static_cast<const char *>(from);
		return from_string({text, strnlen(text, size)}); /* a length ends the text, too */
	}
	address = from_memory(from, size);
	if (address && format != FI_FORMAT_UNSPEC && format != FI_SOCKADDR &&
	    format != later::FI_SOCKADDR_IP && format != format_of(address->family, FI_SOCKADDR))
		return std::nullopt;
	return address;
}

std::optional<Address> decode(std::uint32_t format, const void *from) noexcept
{
	return decode(format, from,
		      format == FI_ADDR_STR ? std::numeric_limits<std::size_t>::max() :
					      element_size(format));
}

std::size_t element_size(std::uint32_t format) noexcept
{
	switch (format) {
	case FI_ADDR_STR:
		return sizeof(char *);
	case FI_SOCKADDR_IN6:
		return sizeof(sockaddr_in6);
	default:
		return sizeof(sockaddr_in);
	}
}

std::optional<Address> decode_element(std::uint32_t format, const void *element) noexcept
{
	if (format != FI_ADDR_STR)
		return decode(format, element, element_size(format));
	const char *text;
	std::memcpy(&text, element, sizeof(text));
	return text ? from_string(text) : std::nullopt;
}

std::string encode(std::uint32_t format, const Address &address)
{
	sockaddr_storage storage;

	if (!address.family)
		return {};
	if (format == FI_ADDR_STR) {
		std::string text = to_string(address);
		text.push_back('\0');
		return text;
	}
	const auto same = in_family(format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET, address);
	const socklen_t size = same ? to_sockaddr(*same, storage) : 0;
	return {reinterpret_cast<const char *>(&storage), size};
}

bool copy_out(const std::string &bytes, void *to, std::size_t *size) noexcept
{
	const bool fits = *size >= bytes.size();

	if (to)
		std::memcpy(to, bytes.data(), std::min(*size, bytes.size()));
	*size = bytes.size();
	return fits;
}

std::string to_string(const Address &address)
{
	char host[INET6_ADDRSTRLEN] = "";
	const std::string port = std::to_string(ntohs(address.port));

	inet_ntop(address.family, address.addr, host, sizeof(host));
	if (address.family == AF_INET6)
		return "fi_sockaddr_in6://[" + std::string(host) + "]:" + port;
	return "fi_sockaddr_in://" + std::string(host) + ":" + port;
}

std::optional<Address> from_string(std::string_view rest) noexcept
{
	const auto *scheme =
		std::find_if(std::begin(schemes), std::end(schemes),
			     [&](const Scheme &s) { return rest.starts_with(s.text); });

	if (scheme == std::end(schemes))
		return std::nullopt;
	rest.remove_prefix(scheme->text.size());
	/* Options (?qos=3) and further fields are ignored. */
	rest = rest.substr(0, rest.find_first_of("/?"));

	int family = scheme->family;
	std::string_view host;
	if (rest.starts_with('[')) {
		const std::size_t end = rest.find(']');
		if (end == rest.npos || family == AF_INET)
			return std::nullopt;
		family = AF_INET6;
		host = rest.substr(1, end - 1);
		rest.remove_prefix(end + 1);
	} else {
		host = rest.substr(0, rest.find(':'));
		rest.remove_prefix(host.size());
		if (family == AF_INET6 && !host.empty())
			return std::nullopt;
		if (family == AF_UNSPEC)
			family = AF_INET;
	}

	auto address = parse_host(host, family);
	if (!address || rest.empty())
		return address;
	if (rest == ":") /* the service may be missing */
		return address;
	const auto port = rest.front() == ':' ? parse_port(rest.substr(1)) : std::nullopt;
	if (!port)
		return std::nullopt;
	address->port = *port;
	return address;
}

std::vector<Address> resolve(const char *node, const char *service, bool numeric, bool own)
{
	std::vector<Address> found;
	addrinfo hints{};
	addrinfo *list = nullptr;

	if (node && !service) {
		if (auto address = from_string(node))
			return {*address};
	}
	/* getaddrinfo(3) takes a large port modulo 65536 */
	if (service && *service &&
	    std::string_view(service).find_first_not_of("0123456789") == std::string_view::npos &&
	    !parse_port(service))
		return found;
	hints.ai_flags = (numeric ? AI_NUMERICHOST : 0) | (own ? AI_PASSIVE : 0);
	hints.ai_socktype = SOCK_STREAM;
	if (getaddrinfo(node, service, &hints, &list) != 0)
		return found;
	const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
	for (const addrinfo *entry = list; entry; entry = entry->ai_next) {
		if (auto address = from_sockaddr(entry->ai_addr, entry->ai_addrlen))
			found.push_back(*address);
	}
	/*
	 * Peers that resolve the same name must choose the same family, whatever the local order of
	 * preference is.
	 */
	std::stable_sort(found.begin(), found.end(), [](const Address &a, const Address &b) {
		return a.family == AF_INET && b.family != AF_INET;
	});
	return found;
}

bool is_unspecified(const Address &address) noexcept
{
	return std::all_of(std::begin(address.addr), std::end(address.addr),
			   [](std::uint8_t byte) { return byte == 0; });
}

/*
 * The module answers this, without a socket or an interface: an endpoint can be at any local
 * address. Loopback addresses are always local here, whatever interfaces there are.
 */
bool is_local(const Address &address) noexcept
{
	constexpr std::uint8_t broadcast[] = {127, 255, 255, 255};
	Address any_port = address;

	if (is_loopback(address))
		return address.family != AF_INET ||
		       std::memcmp(address.addr, broadcast, sizeof(broadcast)) != 0;
	any_port.port = 0;
	const auto context = Context::open();
	return context && treadle::Endpoint::create(*context, any_port).has_value();
}

} // namespace treadle::fi
