// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "info/negotiate.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <rdma/fi_domain.h>

#include "base/later.h"
#include "info/caps.h"
#include "info/comparison.h"
#include "info/offer.h"

namespace treadle::fi
{

namespace
{

/* Capabilities that cost nothing. Every caller gets them, asked for or not. */
constexpr std::uint64_t free_caps = FI_LOCAL_COMM | FI_REMOTE_COMM | FI_TRIGGER | FI_FENCE;

/*
 * The kernel starts triggered operations at any time, so they cost the lanes of manual progress.
 * usual: progress if none is asked for.
 */
std::uint64_t free_caps_for(const fi_info &offer, const fi_info &asked, fi_progress usual) noexcept
{
	const fi_progress progress = asked.domain_attr && asked.domain_attr->data_progress ?
					     asked.domain_attr->data_progress :
					     usual;
	const bool manual = offer.ep_attr->type == FI_EP_RDM && progress == FI_PROGRESS_MANUAL;
	const bool needed = ((asked.tx_attr ? asked.tx_attr->op_flags : 0) |
			     (asked.rx_attr ? asked.rx_attr->op_flags : 0)) &
			    FI_TRIGGER;

	return manual && !needed ? free_caps & ~FI_TRIGGER : free_caps;
}

constexpr int modes_1_0 = FI_MR_BASIC | FI_MR_SCALABLE;
/*
 * The provider requires no mode, so normally none is returned. A caller that names only these modes
 * wants them, though: its keys are random then, for example.
 */
constexpr int modes_wanted = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;

/* Are there some of these directions, and no others? */
bool one_way(std::uint64_t caps, std::uint64_t directions) noexcept
{
	return caps & directions && !(caps & (tx_directions | rx_directions) & ~directions);
}

/* If the endpoint's capabilities are left open, those of its contexts count, as in narrow(). */
std::uint64_t asked_caps(const fi_info &asked) noexcept
{
	if (asked.caps)
		return asked.caps;
	return (asked.tx_attr ? asked.tx_attr->caps : 0) |
	       (asked.rx_attr ? asked.rx_attr->caps : 0);
}

/* FI_COLLECTIVE needs a whole endpoint that sends and receives. */
bool can_be_member(const fi_info &asked) noexcept
{
	const std::uint64_t caps = with_directions(asked.caps);

	return (!asked.caps || (caps & FI_SEND && caps & FI_RECV)) &&
	       (!asked.ep_attr ||
		(asked.ep_attr->tx_ctx_cnt <= 1 && asked.ep_attr->rx_ctx_cnt <= 1));
}

/* Structures of callers with an older API may end before these fields. */
bool has_keys(std::uint32_t api) noexcept
{
	return FI_VERSION_GE(api, FI_VERSION(1, 5));
}
bool has_classes(std::uint32_t api) noexcept
{
	return FI_VERSION_GE(api, FI_VERSION(1, 9));
}

/*
 * Compares fields after fi_domain_attr's tclass, which newer versions have. They are not offered.
 */
bool later_fields_agree(const Comparison &compare, const fi_domain_attr &asked, std::uint32_t api)
{
	struct {
		std::uint32_t tclass;
		std::size_t max_ep_auth_key; /* from 1.20 on */
		std::uint32_t max_group_id;  /* from 2.0 on */
	} later{};
	std::size_t size = 0;
	if (FI_VERSION_GE(api, FI_VERSION(2, 0)))
		size = sizeof(later);
	else if (FI_VERSION_GE(api, FI_VERSION(1, 20)))
		size = offsetof(decltype(later), max_group_id);

	/*
	 * The structure has at least these fields: libfabric never passes a version that is newer
	 * than itself.
	 */
	std::memcpy(&later,
		    reinterpret_cast<const std::byte *>(&asked) + offsetof(fi_domain_attr, tclass),
		    size);
	return compare.at_most("domain_attr->max_ep_auth_key", later.max_ep_auth_key,
			       std::size_t{0}) &&
	       compare.at_most("domain_attr->max_group_id", later.max_group_id, 0U);
}

bool mr_mode_agrees(const Comparison &compare, int mode, std::uint32_t api)
{
	const bool old = mode & modes_1_0;

	if ((old && mode != FI_MR_BASIC && mode != FI_MR_SCALABLE) ||
	    (!old && mode && FI_VERSION_LT(api, FI_VERSION(1, 5))))
		return compare.refuse("domain_attr->mr_mode: %s: not a valid combination",
				      Text(mode, FI_TYPE_MR_MODE).c_str());
	return true;
}

/*
 * One line for each attribute. An attribute has the same name in the structure that was asked with,
 * in the offer, and in the log.
 */
#define SAME(attr, field)	  compare.same(#attr "->" #field, asked.field, offer.field)
#define AT_MOST(attr, field)	  compare.at_most(#attr "->" #field, asked.field, offer.field)
#define WITHIN(attr, field, type) compare.within(#attr "->" #field, asked.field, offer.field, type)
#define ONE_OF(attr, field, ...)  compare.one_of(#attr "->" #field, asked.field, {__VA_ARGS__})

bool suits(const Comparison &compare, const fi_fabric_attr &offer, const fi_fabric_attr &asked)
{
	return SAME(fabric_attr, name) && AT_MOST(fabric_attr, prov_version);
}

/* A size without a key is refused, so that a caller that forgot the key notices. */
bool has_key(const Comparison &compare, const std::uint8_t *key, std::size_t size)
{
	if (size == later::FI_AV_AUTH_KEY)
		return compare.refuse(
			"auth_key_size: FI_AV_AUTH_KEY asked, not offered: entries of "
			"an address vector have no keys");
	return key || !size || compare.refuse("auth_key_size: %zu, but auth_key is NULL", size);
}

/*
 * Not compared: mr_key_size, which says what the program can handle; and the counts that
 * fi_domain(3) calls optimal: cq_cnt, cntr_cnt, mr_cnt, tx_ctx_cnt, rx_ctx_cnt. The answer has the
 * real ones.
 */
bool suits(const Comparison &compare, const fi_domain_attr &offer, const fi_domain_attr &asked,
	   std::uint32_t api)
{
	const bool agreed =
		SAME(domain_attr, name) &&
		ONE_OF(domain_attr, threading, FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_DOMAIN,
		       FI_THREAD_COMPLETION, FI_THREAD_ENDPOINT) &&
		ONE_OF(domain_attr, control_progress, FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL,
		       later::FI_PROGRESS_CONTROL_UNIFIED) &&
		ONE_OF(domain_attr, data_progress, FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL,
		       later::FI_PROGRESS_CONTROL_UNIFIED) &&
		ONE_OF(domain_attr, resource_mgmt, FI_RM_DISABLED, FI_RM_ENABLED) &&
		ONE_OF(domain_attr, av_type, FI_AV_MAP, FI_AV_TABLE) &&
		mr_mode_agrees(compare, asked.mr_mode, api) && AT_MOST(domain_attr, cq_data_size) &&
		AT_MOST(domain_attr, ep_cnt) && AT_MOST(domain_attr, max_ep_tx_ctx) &&
		AT_MOST(domain_attr, max_ep_rx_ctx) && AT_MOST(domain_attr, max_ep_stx_ctx) &&
		AT_MOST(domain_attr, max_ep_srx_ctx);

	if (!agreed || !has_keys(api)) /* the fields below came with keys */
		return agreed;
	return has_key(compare, asked.auth_key, asked.auth_key_size) &&
	       AT_MOST(domain_attr, mr_iov_limit) && AT_MOST(domain_attr, max_err_data) &&
	       AT_MOST(domain_attr, auth_key_size) && WITHIN(domain_attr, caps, FI_TYPE_CAPS) &&
	       later_fields_agree(compare, asked, api);
}

/* Not compared: msg_prefix_size, which only the provider sets. */
bool suits(const Comparison &compare, const fi_ep_attr &offer, const fi_ep_attr &asked,
	   std::uint64_t caps, std::uint32_t api)
{
	if (asked.type && asked.type != offer.type)
		return compare.refuse("ep_attr->type: %s asked, not offered",
				      Text(asked.type, FI_TYPE_EP_TYPE).c_str());
	if (caps & (FI_RMA | FI_ATOMIC) &&
	    !(AT_MOST(ep_attr, max_order_raw_size) && AT_MOST(ep_attr, max_order_war_size) &&
	      AT_MOST(ep_attr, max_order_waw_size)))
		return false;
	if (has_keys(api) && !(AT_MOST(ep_attr, auth_key_size) &&
			       has_key(compare, asked.auth_key, asked.auth_key_size)))
		return false;
	return ONE_OF(ep_attr, protocol, offer.protocol) && AT_MOST(ep_attr, protocol_version) &&
	       AT_MOST(ep_attr, max_msg_size) &&
	       (asked.tx_ctx_cnt == FI_SHARED_CONTEXT || AT_MOST(ep_attr, tx_ctx_cnt)) &&
	       (asked.rx_ctx_cnt == FI_SHARED_CONTEXT || AT_MOST(ep_attr, rx_ctx_cnt));
}

/*
 * The capabilities of a context must be a subset of the endpoint's. Those without a meaning for its
 * direction are ignored, as everywhere in libfabric.
 */
bool context_agrees(const Comparison &compare, const char *what, std::uint64_t asked,
		    std::uint64_t endpoint, std::uint64_t ignored)
{
	return compare.within(what, asked & ~ignored, with_directions(endpoint), FI_TYPE_CAPS);
}

bool suits(const Comparison &compare, const fi_tx_attr &offer, const fi_tx_attr &asked,
	   std::uint64_t caps)
{
	return context_agrees(compare, "tx_attr->caps", asked.caps, caps, rx_caps & ~tx_caps) &&
	       WITHIN(tx_attr, op_flags, FI_TYPE_OP_FLAGS) &&
	       WITHIN(tx_attr, msg_order, FI_TYPE_MSG_ORDER) &&
	       WITHIN(tx_attr, comp_order, FI_TYPE_MSG_ORDER) && AT_MOST(tx_attr, inject_size) &&
	       AT_MOST(tx_attr, size) && AT_MOST(tx_attr, iov_limit) &&
	       AT_MOST(tx_attr, rma_iov_limit);
}

/*
 * Not compared: total_buffered_recv, which is a hint that the provider may adjust, fi_endpoint(3).
 */
bool suits(const Comparison &compare, const fi_rx_attr &offer, const fi_rx_attr &asked,
	   std::uint64_t caps)
{
	return context_agrees(compare, "rx_attr->caps", asked.caps, caps, tx_caps & ~rx_caps) &&
	       WITHIN(rx_attr, op_flags, FI_TYPE_OP_FLAGS) &&
	       WITHIN(rx_attr, msg_order, FI_TYPE_MSG_ORDER) &&
	       WITHIN(rx_attr, comp_order, FI_TYPE_MSG_ORDER) && AT_MOST(rx_attr, size) &&
	       AT_MOST(rx_attr, iov_limit);
}

/* Takes what was asked for, or the usual value, limited by the offer. */
template <class T> void set(T &value, T asked, T usual) noexcept
{
	value = asked ? asked : std::min(value, usual);
}

/* The same for values that may be less than was asked for: never exceeds the offer. */
template <class T> void set_within(T &value, T asked, T usual) noexcept
{
	value = std::min(value, asked ? asked : usual);
}

constexpr std::size_t usual_ring = 1024; /* entries */
/*
 * FI_EP_RDM endpoints serve all peers: MPI programs post thousands of receives before any is used.
 */
constexpr std::size_t usual_rdm_receives = 4096;
constexpr std::size_t usual_queues = 1024; /* queues and counters that a machine has room for */
constexpr std::size_t usual_buffered = std::size_t{1} << 20; /* bytes of unexpected messages */

/*
 * A context without any of its own directions has no transfers: those asked for belong to the other
 * side.
 */
std::uint64_t one_side(std::uint64_t caps, std::uint64_t directions) noexcept
{
	return caps & directions ? caps : caps & ~(message_caps | memory_caps);
}

void narrow_domain(fi_domain_attr &info, const fi_domain_attr &asked, std::uint64_t caps,
		   std::uint32_t api, fi_progress usual)
{
	set(info.threading, asked.threading, FI_THREAD_SAFE);
	set(info.control_progress, asked.control_progress, FI_PROGRESS_AUTO);
	info.data_progress = asked.data_progress ? asked.data_progress : usual;
	info.av_type = asked.av_type;
	const bool wanted = caps & (FI_RMA | FI_ATOMIC) && !(asked.mr_mode & ~modes_wanted);
	if (asked.mr_mode & modes_1_0 || (wanted && FI_VERSION_GE(api, FI_VERSION(1, 5))))
		info.mr_mode = asked.mr_mode;
	else
		info.mr_mode = FI_VERSION_LT(api, FI_VERSION(1, 5)) ? FI_MR_SCALABLE : 0;
	set_within(info.cq_cnt, asked.cq_cnt, usual_queues);
	set_within(info.cntr_cnt, has_keys(api) ? asked.cntr_cnt : 0, usual_queues);
	if (!((caps | (has_keys(api) ? asked.caps : 0)) & FI_AV_USER_ID))
		info.caps &= ~FI_AV_USER_ID;
	info.auth_key_size = 0;
	if (has_keys(api))
		copy_key(info.auth_key, info.auth_key_size, asked.auth_key, asked.auth_key_size);
	if (has_classes(api))
		info.tclass = asked.tclass;
}

} // namespace

bool agrees(const fi_info &offer, const fi_info &asked, std::uint32_t api, const char *call,
	    fi_log_level level)
{
	const Comparison compare(call, level);
	const std::uint64_t caps = (asked.caps ? asked.caps : offer.caps) |
				   (offer.caps & free_caps_for(offer, asked, FI_PROGRESS_AUTO));

	if (asked.caps & memory_directions && !(asked.caps & memory_caps))
		return compare.refuse("caps: FI_READ, FI_WRITE, FI_REMOTE_READ and FI_REMOTE_WRITE "
				      "need FI_RMA or FI_ATOMIC");
	if (asked_caps(asked) & FI_RMA_EVENT &&
	    !(with_directions(asked_caps(asked)) & (FI_REMOTE_READ | FI_REMOTE_WRITE)))
		return compare.refuse("caps: FI_RMA_EVENT needs FI_REMOTE_READ or FI_REMOTE_WRITE");
	if (asked_caps(asked) & FI_SOURCE_ERR && !(asked_caps(asked) & FI_SOURCE))
		return compare.refuse("caps: FI_SOURCE_ERR needs FI_SOURCE");
	/* 2.x uses this bit for another capability */
	if (asked_caps(asked) & FI_XPU_TRIGGER && FI_VERSION_GE(api, FI_VERSION(2, 0)))
		return compare.refuse("caps: FI_XPU is of libfabric 1.x");
	if (asked_caps(asked) & FI_XPU_TRIGGER && !(asked_caps(asked) & FI_TRIGGER))
		return compare.refuse("caps: FI_XPU needs FI_TRIGGER");
	if (asked_caps(asked) & FI_COLLECTIVE && !can_be_member(asked))
		return compare.refuse("caps: FI_COLLECTIVE needs FI_SEND and FI_RECV, and an "
				      "endpoint with contexts of its own, one of each kind");
	/* Compares the type first: in most calls that mean another provider, the type differs. */
	return (!asked.ep_attr || suits(compare, *offer.ep_attr, *asked.ep_attr, caps, api)) &&
	       compare.within("caps", asked.caps, offer.caps, FI_TYPE_CAPS) &&
	       compare.one_of<std::uint32_t>("addr_format", asked.addr_format,
					     {FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6,
					      FI_ADDR_STR, later::FI_SOCKADDR_IP}) &&
	       (!asked.fabric_attr || suits(compare, *offer.fabric_attr, *asked.fabric_attr)) &&
	       (!asked.domain_attr ||
		suits(compare, *offer.domain_attr, *asked.domain_attr, api)) &&
	       (!asked.tx_attr || suits(compare, *offer.tx_attr, *asked.tx_attr, caps)) &&
	       (!asked.rx_attr || suits(compare, *offer.rx_attr, *asked.rx_attr, caps));
}

void narrow(fi_info &info, const fi_info *asked, std::uint32_t api, fi_progress usual)
{
	static const fi_domain_attr any_domain{};
	static const fi_ep_attr any_ep{};
	static const fi_tx_attr any_tx{};
	static const fi_rx_attr any_rx{};
	const fi_tx_attr &tx = asked && asked->tx_attr ? *asked->tx_attr : any_tx;
	const fi_rx_attr &rx = asked && asked->rx_attr ? *asked->rx_attr : any_rx;
	const fi_ep_attr &ep = asked && asked->ep_attr ? *asked->ep_attr : any_ep;

	if (asked && asked->caps)
		info.caps = with_directions(asked->caps) |
			    (info.caps & free_caps_for(info, *asked, usual));
	else
		/*
		 * Only if asked for: FI_SOURCE_ERR turns successes into errors, FI_AV_USER_ID costs
		 * memory, FI_COLLECTIVE needs whole endpoints, and FI_XPU_TRIGGER is experimental
		 * in libfabric.
		 */
		info.caps &= ~(FI_SOURCE_ERR | FI_AV_USER_ID | FI_COLLECTIVE | FI_XPU_TRIGGER) |
			     tx.caps | rx.caps;
	if (asked)
		info.handle = asked->handle;
	narrow_domain(*info.domain_attr,
		      asked && asked->domain_attr ? *asked->domain_attr : any_domain, info.caps,
		      api, usual);

	if (ep.mem_tag_format)
		info.ep_attr->mem_tag_format = ep.mem_tag_format;
	set<std::size_t>(info.ep_attr->tx_ctx_cnt, ep.tx_ctx_cnt, 1);
	set<std::size_t>(info.ep_attr->rx_ctx_cnt, ep.rx_ctx_cnt, 1);
	info.ep_attr->auth_key_size = 0;
	if (has_keys(api))
		copy_key(info.ep_attr->auth_key, info.ep_attr->auth_key_size, ep.auth_key,
			 ep.auth_key_size);

	info.tx_attr->caps = one_way(info.caps, rx_directions) ? 0 : info.caps & tx_caps;
	if (tx.caps)
		info.tx_attr->caps =
			one_side(narrowed(info.tx_attr->caps, tx.caps | free_caps), tx_directions);
	info.tx_attr->op_flags = tx.op_flags;
	if (has_classes(api))
		info.tx_attr->tclass = tx.tclass;
	set(info.tx_attr->inject_size, tx.inject_size, info.tx_attr->inject_size);
	set(info.tx_attr->size, tx.size, usual_ring);

	info.rx_attr->caps = one_way(info.caps, tx_directions) ? 0 : info.caps & rx_caps;
	if (rx.caps)
		info.rx_attr->caps =
			one_side(narrowed(info.rx_attr->caps, rx.caps | free_caps), rx_directions);
	info.rx_attr->op_flags = rx.op_flags;

	/* FI_MSG_PREFIX costs nothing, as the prefix has size 0. Some programs insist on it. */
	const std::uint64_t mode = asked ? asked->mode : 0;
	info.tx_attr->mode = (tx.mode ? tx.mode : mode) & FI_MSG_PREFIX;
	info.rx_attr->mode = (rx.mode ? rx.mode : mode) & FI_MSG_PREFIX;
	info.mode = (mode | tx.mode | rx.mode) & FI_MSG_PREFIX;
	set_within(info.rx_attr->total_buffered_recv, rx.total_buffered_recv, usual_buffered);
	set(info.rx_attr->size, rx.size,
	    info.ep_attr->type == FI_EP_RDM ? usual_rdm_receives : usual_ring);
}

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
		return unspecified(info.addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET);
	return decode(info.addr_format, info.src_addr, info.src_addrlen);
}

void copy_key(std::uint8_t *&to, std::size_t &to_size, const std::uint8_t *from, std::size_t size)
{
	if (!from || !size)
		return;
	to = static_cast<std::uint8_t *>(std::malloc(size)); /* fi_freeinfo frees it */
	if (!to)
		throw std::bad_alloc();
	std::memcpy(to, from, size);
	to_size = size;
}

void allow_others(fi_info &all) noexcept
{
	all.caps |= FI_REMOTE_COMM;
	all.domain_attr->caps |= FI_REMOTE_COMM;
}

int negotiate(const treadle_query &kernel, const fi_info *asked, std::uint32_t api,
	      const char *call, InfoPtr &agreed)
{
	if (!asked || !asked->ep_attr || !asked->tx_attr || !asked->rx_attr)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "%s: needs a fi_info with all attributes",
			      call);
	if (!has_type(kernel, asked->ep_attr->type))
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "%s: ep_attr->type: %s", call,
			      Text(asked->ep_attr->type, FI_TYPE_EP_TYPE).c_str());
	agreed = offer(kernel, asked->ep_attr->type);
	if (!agreed)
		return -FI_ENOMEM;
	allow_others(*agreed);
	if (!agrees(*agreed, *asked, api, call, FI_LOG_WARN))
		return -FI_EINVAL;
	narrow(*agreed, asked, api);
	agreed->caps = asked->caps;
	agreed->tx_attr->caps = asked->tx_attr->caps;
	agreed->rx_attr->caps = asked->rx_attr->caps;
	/* libfabric sets these in the answer of fi_getinfo, but not in a fi_info of FI_CONNREQ. */
	agreed->fabric_attr->api_version = api;
	agreed->fabric_attr->prov_name =
		strdup(asked->fabric_attr && asked->fabric_attr->prov_name ?
			       asked->fabric_attr->prov_name :
			       name);
	return agreed->fabric_attr->prov_name ? 0 : -FI_ENOMEM;
}

int negotiate_context(const treadle_query &kernel, fi_tx_attr *tx, fi_rx_attr *rx,
		      std::uint32_t api, const char *call, InfoPtr &agreed)
{
	const InfoPtr all = offer(kernel, FI_EP_RDM);
	fi_info asked{};

	if (!all)
		return -FI_ENOMEM;
	asked.tx_attr = tx;
	asked.rx_attr = rx;
	if (!agrees(*all, asked, api, call, FI_LOG_WARN))
		return -FI_EINVAL;
	agreed.reset(dup_info(all.get()));
	if (!agreed)
		return -FI_ENOMEM;
	narrow(*agreed, &asked, api);
	return 0;
}

} // namespace treadle::fi
