// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "info/info.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <ranges>
#include <vector>

#include <strings.h>

#include <rdma/fi_endpoint.h>

#include "info/address.h"
#include "domain/domain.h"
#include "base/later.h"
#include "info/limits.h"

namespace treadle::fi
{

namespace
{

constexpr std::size_t most_contexts = 256; /* of one kind, of a scalable endpoint */

/* The protocol is provider-specific, so the top bit is set: fi_endpoint(3). */
constexpr std::uint32_t protocol = FI_PROV_SPECIFIC | 0x74726c; /* "trl" */
constexpr std::uint32_t protocol_version = 1;

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

bool has_type(const treadle_query &kernel, fi_ep_type type) noexcept
{
	switch (type) {
	case FI_EP_RDM:
		return true;
	case FI_EP_MSG:
		return kernel.features & TREADLE_FEATURE_MSG_EP;
	case FI_EP_DGRAM:
		return kernel.features & TREADLE_FEATURE_DGRAM_EP;
	default:
		return false;
	}
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

std::optional<Address> choose(const Choice &choice, int family) noexcept
{
	if (!choice)
		return loopback_of(family);
	for (const Address &address : *choice) {
		if (address.family == family)
			/*
			 * A wildcard address becomes the loopback address: neither side can use a
			 * wildcard.
			 */
			return is_unspecified(address) ? loopback_of(family, address.port) :
							 address;
	}
	return std::nullopt;
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

std::vector<Route> routes(const char *node, const char *service, std::uint64_t flags,
			  const fi_info *hints, fi_log_level level)
{
	const std::uint32_t format = asked_format(hints);
	std::vector<Route> found;
	std::string strangers;
	Choice src, dest;

	if (node || service) {
		Choice &named = flags & FI_SOURCE ? src : dest;
		named = resolve(node, service, flags & FI_NUMERICHOST);
		if (named->empty())
			EXPLAIN(level, "node %s, service %s: resolve to no address\n",
				node ? node : "-", service ? service : "-");
	}
	if (hints && ((!src && !from_hints(src, hints, hints->src_addr, hints->src_addrlen,
					   "src_addr", level)) ||
		      (!dest && !from_hints(dest, hints, hints->dest_addr, hints->dest_addrlen,
					    "dest_addr", level))))
		return found;

	for (const int family : {AF_INET, AF_INET6}) {
		if ((format == FI_SOCKADDR_IN && family != AF_INET) ||
		    (format == FI_SOCKADDR_IN6 && family != AF_INET6))
			continue;
		const auto from = choose(src, family);
		const auto to = choose(dest, family);
		if (!from || !to)
			continue;
		const Address &suspect = is_local(*from) ? *to : *from;
		if (is_local(suspect))
			found.push_back({*from, dest ? to : std::nullopt});
		else
			strangers += to_string(suspect) + " is no address of this machine; ";
	}
	if (found.empty())
		EXPLAIN(level, "%snothing has the family, format and peer asked for\n",
			strangers.c_str());
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

/*
 * Copies from the named domain what the hints leave open. Returns false if the rest does not suit
 * it.
 */
bool restrict_to(const Domain &domain, const fi_domain_attr &hints, fi_info &info) noexcept
{
	fi_domain_attr &attr = *info.domain_attr;
	const bool old = hints.mr_mode & (FI_MR_BASIC | FI_MR_SCALABLE);

	if (!hints.threading)
		attr.threading = domain.threading();
	if (!hints.av_type)
		attr.av_type = domain.av_type();
	if (!domain.suits(info) && !old && (!hints.mr_mode || !(domain.mr_mode() & ~hints.mr_mode)))
		attr.mr_mode = FI_VERSION_GE(domain.api(), FI_VERSION(1, 5)) ? domain.mr_mode() :
			       domain.mr_mode()				     ? FI_MR_BASIC :
									       FI_MR_SCALABLE;
	return domain.suits(info);
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
		EXPLAIN(level, "%s: %s\n", TREADLE_DEVICE, limits.error().message());
		return -FI_ENODATA;
	}
	std::vector<InfoPtr> offers;
	const int rc = fitting_offers(*limits, version, flags, hints, level, offers);
	if (rc)
		return rc;

	const Domain *const domain = domain_of(hints);
	const auto found = routes(node, service, flags, hints, level);
	for (const InfoPtr &all : std::views::reverse(offers)) {
		for (const Route &route : std::views::reverse(found)) {
			InfoPtr info(dup_info(all.get()));
			if (!info)
				return -FI_ENOMEM;
			narrow(*info, hints, version);
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
	if (!list && !found.empty())
		EXPLAIN(level, "domain_attr->domain: was opened with another threading, av_type, "
			       "mr_mode, addr_format, auth_key or without FI_AV_USER_ID\n");
	*result = list.release();
	return *result ? 0 : -FI_ENODATA;
}

} // namespace

bool set_address(std::uint32_t format, const std::optional<Address> &address, void *&to,
		 std::size_t &size)
{
	if (!address)
		return true;
	const std::string bytes = encode(format, *address);
	to = std::malloc(bytes.size());
	if (to)
		std::memcpy(to, bytes.data(), bytes.size());
	size = bytes.size();
	return to;
}

std::optional<Address> source_of(const fi_info &info) noexcept
{
	if (!info.src_addr)
		return loopback_of(info.addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET);
	return decode(info.addr_format, info.src_addr, info.src_addrlen);
}

int settle(const treadle_query &kernel, const fi_info *asked, std::uint32_t api, const char *call,
	   InfoPtr &settled)
{
	if (!asked || !asked->ep_attr || !asked->tx_attr || !asked->rx_attr)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "%s: needs a fi_info with all attributes",
			      call);
	if (!has_type(kernel, asked->ep_attr->type))
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "%s: ep_attr->type: %s", call,
			      Text(asked->ep_attr->type, FI_TYPE_EP_TYPE).c_str());
	settled = offer(kernel, asked->ep_attr->type);
	if (!settled)
		return -FI_ENOMEM;
	if (!agrees(*settled, *asked, api, call, FI_LOG_WARN))
		return -FI_EINVAL;
	narrow(*settled, asked, api);
	settled->caps = asked->caps;
	settled->tx_attr->caps = asked->tx_attr->caps;
	settled->rx_attr->caps = asked->rx_attr->caps;
	/* libfabric sets these in the answer of fi_getinfo, but not in a fi_info of FI_CONNREQ. */
	settled->fabric_attr->api_version = api;
	settled->fabric_attr->prov_name =
		strdup(asked->fabric_attr && asked->fabric_attr->prov_name ?
			       asked->fabric_attr->prov_name :
			       name);
	return settled->fabric_attr->prov_name ? 0 : -FI_ENOMEM;
}

/* FI_TREADLE_ONE_NODE: the user states that all peers are on this node. */
static bool one_node() noexcept
{
	int value = 0;

	return !fi_param_get_bool(&provider, "one_node", &value) && value;
}

InfoPtr offer(const treadle_query &kernel, fi_ep_type type) noexcept
{
	InfoPtr info(dup_info(nullptr));
	const auto has = [&](treadle_opcode op) { return kernel.opcodes >> op & 1; };

	if (!info || !(info->fabric_attr->name = strdup(name)) ||
	    !(info->domain_attr->name = strdup(name)))
		return nullptr;
	info->fabric_attr->prov_version = version; /* libfabric sets the provider's name */

	info->caps = FI_LOCAL_COMM | FI_SEND | FI_RECV | (one_node() ? FI_REMOTE_COMM : 0);
	if (type != FI_EP_MSG) /* messages of a connection have one source */
		info->caps |= FI_SOURCE | FI_SOURCE_ERR | FI_DIRECTED_RECV;
	if (has(TREADLE_OP_SEND) && has(TREADLE_OP_RECV))
		info->caps |= FI_MSG;
	if (has(TREADLE_OP_TSEND) && has(TREADLE_OP_TRECV))
		info->caps |= FI_TAGGED;
	const bool memory = type != FI_EP_DGRAM; /* datagrams only carry messages */
	if (memory && has(TREADLE_OP_READ) && has(TREADLE_OP_WRITE))
		info->caps |= FI_RMA;
	if (memory && has(TREADLE_OP_ATOMIC) && has(TREADLE_OP_FETCH) && has(TREADLE_OP_COMPARE))
		info->caps |= FI_ATOMIC;
	if (info->caps & (FI_RMA | FI_ATOMIC))
		info->caps |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT;
	/* Collectives use these, and endpoints without a connection. */
	if (type == FI_EP_RDM && info->caps & FI_TAGGED && info->caps & FI_ATOMIC &&
	    kernel.desc_flags & TREADLE_F_COLLECTIVE)
		info->caps |= FI_COLLECTIVE;
	if (kernel.features & TREADLE_FEATURE_TRIGGER)
		info->caps |= FI_TRIGGER;
	if (kernel.features & TREADLE_FEATURE_CELL)
		info->caps |= FI_XPU_TRIGGER;
	if (kernel.features & TREADLE_FEATURE_SHARED_AV)
		info->caps |= FI_SHARED_AV;
	if (kernel.features & TREADLE_FEATURE_AV_IDS && type != FI_EP_MSG)
		info->caps |= FI_AV_USER_ID;
	if (kernel.desc_flags & TREADLE_F_MULTI_RECV)
		info->caps |= FI_MULTI_RECV;
	if (kernel.desc_flags & TREADLE_F_FENCE)
		info->caps |= FI_FENCE;

	/* Operations to one peer never overtake each other: Documentation/send-path.rst. */
	constexpr std::uint64_t orders =
		FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAR | FI_ORDER_WAW |
		FI_ORDER_WAS | FI_ORDER_SAR | FI_ORDER_SAW | FI_ORDER_SAS | FI_ORDER_RMA_RAR |
		FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR |
		FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;

	fi_domain_attr &domain = *info->domain_attr;
	/*
	 * A context takes one object for a ring. An endpoint takes three: itself and two rings. At
	 * least a queue and a vector are shared by all.
	 */
	const std::size_t objects = kernel.max_objects - 1;
	const bool scalable = type != FI_EP_MSG && kernel.features & TREADLE_FEATURE_SCALABLE;
	domain.threading = FI_THREAD_SAFE;
	domain.control_progress = FI_PROGRESS_AUTO;
	domain.data_progress = FI_PROGRESS_AUTO;
	domain.resource_mgmt = FI_RM_ENABLED;
	domain.mr_key_size = sizeof(std::uint64_t);
	domain.cq_data_size = sizeof(std::uint64_t);
	domain.cq_cnt = objects;
	domain.cntr_cnt = objects;
	domain.mr_cnt = objects;
	domain.ep_cnt = (objects - 2) / 3;
	domain.tx_ctx_cnt = domain.ep_cnt;
	domain.rx_ctx_cnt = domain.ep_cnt;
	/*
	 * A context takes two objects. Half of all objects then suffice for as many contexts of
	 * either kind.
	 */
	domain.max_ep_tx_ctx = scalable ? std::min(most_contexts, objects / 8) : 1;
	domain.max_ep_rx_ctx = domain.max_ep_tx_ctx;
	if (scalable)
		info->caps |= FI_NAMED_RX_CTX;
	domain.max_ep_stx_ctx = domain.ep_cnt;
	domain.max_ep_srx_ctx = domain.ep_cnt;
	domain.mr_iov_limit = kernel.features & TREADLE_FEATURE_MR_IOV ? TREADLE_MAX_MR_IOV : 1;
	domain.max_err_data = std::max<std::size_t>(max_address, TREADLE_CM_DATA);
	domain.caps = info->caps & (FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SHARED_AV);
	if (kernel.features & TREADLE_FEATURE_AV_SET_ID)
		domain.caps |= info->caps & FI_AV_USER_ID;

	fi_ep_attr &ep = *info->ep_attr;
	ep.type = type;
	ep.protocol = protocol;
	ep.protocol_version = protocol_version;
	ep.max_msg_size = kernel.max_msg_size;
	/*
	 * A read, write or atomic starts once all earlier operations to the same peer have ended.
	 */
	ep.max_order_raw_size = ep.max_order_war_size = ep.max_order_waw_size = SIZE_MAX;
	ep.mem_tag_format = 0xaaaaaaaaaaaaaaaa; /* 64 bits in any fields */
	ep.tx_ctx_cnt = domain.max_ep_tx_ctx;
	ep.rx_ctx_cnt = domain.max_ep_rx_ctx;
	if (kernel.features & TREADLE_FEATURE_AUTH_KEY)
		ep.auth_key_size = domain.auth_key_size = kernel.max_auth_key;

	fi_tx_attr &tx = *info->tx_attr;
	tx.caps = info->caps & tx_caps;
	tx.op_flags = tx_op_flags & ~(info->caps & FI_FENCE ? 0 : FI_FENCE);
	tx.msg_order = orders;
	tx.inject_size = kernel.inject_size;
	tx.size = kernel.max_ring;
	tx.iov_limit = TREADLE_MAX_IOV;
	tx.rma_iov_limit = TREADLE_MAX_RMA_IOV;

	fi_rx_attr &rx = *info->rx_attr;
	rx.caps = info->caps & rx_caps;
	rx.op_flags = rx_op_flags & ~(info->caps & FI_MULTI_RECV ? 0 : FI_MULTI_RECV);
	rx.msg_order = orders;
	rx.total_buffered_recv = kernel.max_buffered;
	rx.size = kernel.max_ring;
	rx.iov_limit = TREADLE_MAX_IOV;
	if (type == FI_EP_DGRAM) {
		/* A datagram that finds no room is dropped, and no error is reported. */
		ep.max_msg_size = TREADLE_MAX_DGRAM;
		tx.op_flags &= ~(FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE);
		tx.rma_iov_limit = 0;
		ep.max_order_raw_size = ep.max_order_war_size = ep.max_order_waw_size = 0;
	}
	return info;
}

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
