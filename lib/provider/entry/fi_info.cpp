// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "entry/get_info.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <ranges>
#include <vector>

#include <strings.h>

#include "base/later.h"
#include "domain/domain.h"
#include "info/address.h"
#include "info/limits.h"
#include "info/negotiate.h"
#include "info/offer.h"

namespace treadle::fi
{

namespace
{

/*
 * Set by utility providers that look for a provider to layer on. The flag is in libfabric's own
 * headers.
 */
constexpr std::uint64_t layering = std::uint64_t{1} << 59; /* OFI_CORE_PROV_ONLY */

/* All flags of fi_getinfo(3), including those of 2.x. */
constexpr std::uint64_t public_flags =
	FI_NUMERICHOST | FI_PROV_ATTR_ONLY | FI_SOURCE | later::FI_RESCAN;

/*
 * Most calls of fi_getinfo come here only because libfabric asks every provider, so refusals are
 * logged as warnings only if treadle was named. Flags that the manual page lacks come from utility
 * providers that look for a provider to layer on, and don't count as the user's.
 */
fi_log_level refusal_level(const fi_info *hints, std::uint64_t flags) noexcept
{
	const char *asked = std::getenv("FI_PROVIDER");

	if (hints && hints->fabric_attr && hints->fabric_attr->prov_name)
		asked = hints->fabric_attr->prov_name;
	if (flags & ~public_flags || !asked || asked[0] == '^')
		return FI_LOG_INFO;
	return strcasestr(asked, name) ? FI_LOG_WARN : FI_LOG_INFO;
}

#define EXPLAIN(level, ...) FI_LOG(&provider, level, FI_LOG_CORE, "fi_getinfo: " __VA_ARGS__)

/* A local address, and the peer's address if it was asked for. */
struct Route {
	Address src;
	std::optional<Address> dest;
};

const Domain *domain_of(const fi_info *hints) noexcept
{
	return hints && hints->domain_attr && hints->domain_attr->domain ?
		       &Domain::of(hints->domain_attr->domain) :
		       nullptr;
}

/* The format of the hints; if they leave it open, that of a named domain. */
std::uint32_t asked_format(const fi_info *hints) noexcept
{
	if (!hints)
		return FI_FORMAT_UNSPEC;
	const Domain *const domain = domain_of(hints);
	return domain && !hints->addr_format ? domain->addr_format() : hints->addr_format;
}

/* Addresses for one side of a route; without a value, any address will do. */
using Choice = std::optional<std::vector<Address>>;

/* The address at which peers reach this machine. node: that for other nodes, or of no family. */
Address own_address(const Address &node, int family, std::uint16_t port = 0) noexcept
{
	Address own = node;

	own.port = port;
	return node.family == family ? own : loopback_of(family, port);
}

/* A wildcard address becomes that of this machine: neither side can use a wildcard. */
std::optional<Address> choose(const Choice &choice, int family, const Address &node) noexcept
{
	if (!choice)
		return own_address(node, family);
	for (const Address &address : *choice) {
		if (address.family == family)
			return is_unspecified(address) ? own_address(node, family, address.port) :
							 address;
	}
	return std::nullopt;
}

bool is_here(const Address &address, const Address &node) noexcept
{
	return (address.family == node.family &&
		!std::memcmp(address.addr, node.addr, sizeof(node.addr))) ||
	       is_local(address);
}

/* Takes an address from hints. Returns false if it is not of their format. */
bool from_hints(Choice &choice, const fi_info *hints, const void *addr, std::size_t size,
		const char *what, fi_log_level level)
{
	if (!addr)
		return true;
	const std::uint32_t format = asked_format(hints);
	const auto address = decode(format, addr, size);
	if (!address) {
		EXPLAIN(level, "%s: not an address of format %s\n", what,
			Text(format, FI_TYPE_ADDR_FORMAT).c_str());
		return false;
	}
	choice = {*address};
	return true;
}

/* The routes that were asked for. own: the address of this machine for other nodes, if any. */
std::vector<Route> routes(const char *node, const char *service, std::uint64_t flags,
			  const fi_info *hints, const Address &own, fi_log_level level)
{
	const std::uint32_t format = asked_format(hints);
	std::vector<Route> found;
	std::string others;
	Choice src, dest;

	if (node || service) {
		Choice &named = flags & FI_SOURCE ? src : dest;
		named = resolve(node, service, flags & FI_NUMERICHOST, flags & FI_SOURCE);
		if (named->empty())
			EXPLAIN(level, "node %s, service %s: resolve to no address\n",
				node ? node : "-", service ? service : "-");
	}
	if (hints && ((!src && !from_hints(src, hints, hints->src_addr, hints->src_addrlen,
					   "src_addr", level)) ||
		      (!dest && !from_hints(dest, hints, hints->dest_addr, hints->dest_addrlen,
					    "dest_addr", level))))
		return found;

	/* the family in which other nodes are reached comes first */
	const int first = own.family == AF_INET6 ? AF_INET6 : AF_INET;
	for (const int family : {first, AF_INET + AF_INET6 - first}) {
		if ((format == FI_SOCKADDR_IN && family != AF_INET) ||
		    (format == FI_SOCKADDR_IN6 && family != AF_INET6))
			continue;
		const auto from = choose(src, family, own);
		const auto to = choose(dest, family, own);
		if (!from || !to)
			continue;
		if (!is_here(*from, own))
			others += to_string(*from) + " is no address of this machine; ";
		else if (own.family != family && !is_here(*to, own))
			others += to_string(*to) + " is of another machine, and treadle has no " +
				  (family == AF_INET6 ? "IPv6" : "IPv4") +
				  " address for other nodes; ";
		else
			found.push_back({*from, dest ? to : std::nullopt});
	}
	if (found.empty())
		EXPLAIN(level, "%snothing has the family, format and peer asked for\n",
			others.c_str());
	return found;
}

/* Are the instances in the hints of this provider and open? Only such can restrict the output. */
bool instances_agree(const fi_info &hints, fi_log_level level) noexcept
{
	const fid_fabric *fabric = hints.fabric_attr ? hints.fabric_attr->fabric : nullptr;
	const fid_domain *domain = hints.domain_attr ? hints.domain_attr->domain : nullptr;

	if (Fabric::are_open(fabric, domain))
		return true;
	EXPLAIN(level,
		"fabric_attr->fabric or domain_attr->domain: not open, of %s, and the one of the other\n",
		name);
	return false;
}

/* The mode of a domain as its application's version of libfabric names it. */
int mr_mode_of(const Domain &domain) noexcept
{
	if (FI_VERSION_GE(domain.api(), FI_VERSION(1, 5)))
		return domain.mr_mode();
	return domain.mr_mode() ? FI_MR_BASIC : FI_MR_SCALABLE;
}

/*
 * Copies from the named domain what the hints leave open. Returns false if the rest does not suit
 * it. May throw.
 */
bool restrict_to(const Domain &domain, const fi_domain_attr &hints, fi_info &info)
{
	fi_domain_attr &attr = *info.domain_attr;
	const bool old = hints.mr_mode & (FI_MR_BASIC | FI_MR_SCALABLE);
	const auto key = domain.auth_key();

	if (!attr.auth_key_size)
		copy_key(attr.auth_key, attr.auth_key_size,
			 reinterpret_cast<const std::uint8_t *>(key.data()), key.size());
	if (!hints.threading)
		attr.threading = domain.threading();
	if (!hints.av_type)
		attr.av_type = domain.av_type();
	if (!domain.suits(info) && !old && (!hints.mr_mode || !(domain.mr_mode() & ~hints.mr_mode)))
		attr.mr_mode = mr_mode_of(domain);
	return domain.suits(info);
}

/*
 * Addresses of this family reach no other node. Returns false if these were asked for.
 */
bool stay_here(fi_info &info, const fi_info *hints) noexcept
{
	if (hints && (hints->caps & FI_REMOTE_COMM ||
		      (hints->domain_attr && hints->domain_attr->caps & FI_REMOTE_COMM)))
		return false;
	info.caps &= ~FI_REMOTE_COMM;
	info.domain_attr->caps &= ~FI_REMOTE_COMM;
	return true;
}

void set_instances(fi_info &info, const fi_info *hints) noexcept
{
	info.fabric_attr->fabric =
		hints && hints->fabric_attr ? hints->fabric_attr->fabric : nullptr;
	info.domain_attr->domain =
		hints && hints->domain_attr ? hints->domain_attr->domain : nullptr;
	Fabric::first_open(info);
}

/* The offers that agree with the hints, the best first; or -FI_ENODATA, -FI_ENOMEM. */
int fitting_offers(const treadle_query &kernel, std::uint32_t version, std::uint64_t flags,
		   const fi_info *hints, fi_log_level level, std::vector<InfoPtr> &offers)
{
	const fi_ep_type asked = hints && hints->ep_attr ? hints->ep_attr->type : FI_EP_UNSPEC;
	InfoPtr refused;

	if (hints && !instances_agree(*hints, level))
		return -FI_ENODATA;
	for (const fi_ep_type type : {FI_EP_RDM, FI_EP_MSG, FI_EP_DGRAM}) {
		/*
		 * Nothing is layered on the other types: what that would give exists here already.
		 */
		if (flags & layering && type != FI_EP_RDM)
			continue;
		if (!has_type(kernel, type))
			continue;
		InfoPtr all = offer(kernel, type);
		if (!all)
			return -FI_ENOMEM;
		if (!hints || agrees(*all, *hints, version, "fi_getinfo", FI_LOG_INFO))
			offers.push_back(std::move(all));
		else if (!refused || asked == type)
			refused = std::move(all);
	}
	if (!offers.empty())
		return 0;
	agrees(*refused, *hints, version, "fi_getinfo", level); /* logs why */
	return -FI_ENODATA;
}

int build(std::uint32_t version, const char *node, const char *service, std::uint64_t flags,
	  const fi_info *hints, fi_info **result)
{
	const fi_log_level level = refusal_level(hints, flags);
	InfoPtr list;

	if (flags & FI_SOURCE && !node && !service) {
		EXPLAIN(level, "FI_SOURCE needs a node or a service\n");
		return -FI_EINVAL;
	}
	const auto limits = kernel_limits();
	if (!limits) {
		EXPLAIN(level, "%s: %s\n", TREADLE_DEVICE,
			treadle::describe(limits.error().value()));
		return -FI_ENODATA;
	}
	std::vector<InfoPtr> offers;
	const int rc = fitting_offers(*limits, version, flags, hints, level, offers);
	if (rc)
		return rc;

	const Domain *const domain = domain_of(hints);
	const Address &own = limits->node;
	const auto found = routes(node, service, flags, hints, own, level);
	std::size_t one_family = 0;
	for (const InfoPtr &all : std::views::reverse(offers)) {
		for (const Route &route : std::views::reverse(found)) {
			InfoPtr info(dup_info(all.get()));
			if (!info)
				return -FI_ENOMEM;
			narrow(*info, hints, version,
			       domain && domain->manual() ? FI_PROGRESS_MANUAL : FI_PROGRESS_AUTO);
			if (route.src.family != own.family && !one_node() &&
			    !stay_here(*info, hints)) {
				++one_family;
				continue;
			}
			info->addr_format = format_of(route.src.family, asked_format(hints));
			if (domain && !restrict_to(*domain, *hints->domain_attr, *info))
				continue;
			if (!set_address(info->addr_format, route.src, info->src_addr,
					 info->src_addrlen) ||
			    !set_address(info->addr_format, route.dest, info->dest_addr,
					 info->dest_addrlen))
				return -FI_ENOMEM;
			set_instances(*info, hints);
			info->next = list.release();
			list = std::move(info);
		}
	}
	if (!list && one_family)
		EXPLAIN(level, "FI_REMOTE_COMM: other nodes are reached by IPv%c only\n",
			own.family == AF_INET6 ? '6' : '4');
	else if (!list && !found.empty())
		EXPLAIN(level, "domain_attr->domain: was opened with another threading, av_type, "
			       "mr_mode, addr_format, auth_key, data_progress or without "
			       "FI_AV_USER_ID\n");
	*result = list.release();
	return *result ? 0 : -FI_ENODATA;
}

} // namespace

int get_info(std::uint32_t version, const char *node, const char *service, std::uint64_t flags,
	     const fi_info *hints, fi_info **info) noexcept
{
	if (flags & FI_PROV_ATTR_ONLY) { /* libfabric answers this flag if it is alone */
		*info = dup_info(nullptr);
		return *info ? 0 : -FI_ENOMEM;
	}
	return guard([&] { return build(version, node, service, flags, hints, info); });
}

} // namespace treadle::fi
