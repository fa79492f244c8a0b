// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "domain/domain.h"

#include <algorithm>
#include <cstring>
#include <span>

#include <treadle/fi_treadle.h>

#include "info/address.h"
#include "names/av.h"
#include "notify/cntr.h"
#include "notify/cq.h"
#include "endpoint/endpoint.h"
#include "notify/eq.h"
#include "work/graph.h"
#include "collective/group.h"
#include "memory/mr.h"
#include "notify/pollset.h"
#include "endpoint/stx.h"
#include "transfer/transfer.h"
#include "transfer/trigger.h"

namespace treadle::fi
{

namespace
{

int ask_atomic(fid_domain *domain, fi_datatype datatype, fi_op op, fi_atomic_attr *attr,
	       std::uint64_t flags) noexcept
{
	fi_atomic_attr unused;

	return query_atomic(Domain::of(domain), datatype, op, attr ? *attr : unused, flags);
}

/*
 * Logs the misuse of a function of FI_TREADLE_DOMAIN_OPS_1, which any fid_domain can be passed to.
 */
int refused(const char *call) noexcept
{
	return REFUSE(-FI_EINVAL, FI_LOG_DOMAIN, "%s: NULL, or no domain of %s", call, name);
}

int endpoint_with_flags(fid_domain *, fi_info *, fid_ep **, std::uint64_t flags, void *) noexcept
{
	return REFUSE(-FI_ENOSYS, FI_LOG_DOMAIN, "fi_endpoint2: flags 0x%" PRIx64, flags);
}

int query_limits(fid_domain *domain, treadle_query *limits) noexcept
{
	const Domain *const of = Domain::known(domain);

	if (!of || !limits)
		return refused("query");
	*limits = of->kernel().limits();
	return 0;
}

int get_fd(fid_domain *domain, int *fd) noexcept
{
	const Domain *const of = Domain::known(domain);

	if (!of || !fd)
		return refused("getfd");
	*fd = of->kernel().fd();
	return 0;
}

/* A raw key is the key itself: fi_mr(3), "fi_mr_map_raw". */
int map_raw_key(const struct fi_mr_map_raw &map) noexcept
{
	if (map.flags)
		return REFUSE(-FI_EBADFLAGS, FI_LOG_MR, "map_raw: flags 0x%" PRIx64, map.flags);
	if (!map.raw_key || !map.key)
		return REFUSE(-FI_EINVAL, FI_LOG_MR,
			      "map_raw: needs a raw key, and room for a key");
	if (map.key_size != sizeof(*map.key))
		return REFUSE(-FI_EINVAL, FI_LOG_MR, "map_raw: key of %zu bytes, not %zu",
			      map.key_size, sizeof(*map.key));
	std::memcpy(map.key, map.raw_key, sizeof(*map.key));
	return 0;
}

/* Capabilities of info and of its domain, which the structure has from 1.5 on. */
std::uint64_t wanted_caps(const fi_info &info, std::uint32_t api) noexcept
{
	return info.caps | (FI_VERSION_GE(api, FI_VERSION(1, 5)) ? info.domain_attr->caps : 0);
}

/* Expands FI_MR_BASIC to its single bits. */
int mr_bits(int mode) noexcept
{
	constexpr int basic = FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED;

	return mode == FI_MR_BASIC ? basic : mode & basic;
}

} // namespace

fi_ops_domain Domain::domain_ops{
	.size = sizeof(fi_ops_domain),
	.av_open = opens<Av::open>,
	.cq_open = opens<Cq::open>,
	.endpoint = opens<Endpoint::open>,
	.scalable_ep = opens<Endpoint::open_scalable>,
	.cntr_open = opens<Cntr::open>,
	.poll_open = opens<PollSet::open>,
	.stx_ctx = opens<Stx::open>,
	.srx_ctx = opens<Endpoint::open_shared_rx>,
	.query_atomic = ask_atomic,
	.query_collective = query_collective,
	.endpoint2 = endpoint_with_flags,
};

Domain::Domain(Fabric &fabric, Context kernel, const fi_info &info, void *context)
	: Object(context), fabric_(fabric), fabric_use_(fabric.users), kernel_(std::move(kernel)),
	  addr_format_(format_of(info.addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET,
				 info.addr_format)),
	  threading_(info.domain_attr->threading ? info.domain_attr->threading : FI_THREAD_SAFE),
	  av_type_(info.domain_attr->av_type), mr_mode_(mr_bits(info.domain_attr->mr_mode)),
	  user_ids_(wanted_caps(info, api()) & FI_AV_USER_ID),
	  directed_(info.caps & FI_DIRECTED_RECV), serialized_(threading_ != FI_THREAD_SAFE)
{
	const fi_domain_attr &attr = *info.domain_attr;

	/* older structures may end before this field */
	if (FI_VERSION_GE(api(), FI_VERSION(1, 5)) && attr.auth_key) {
		const auto *key = reinterpret_cast<const std::byte *>(attr.auth_key);
		auth_key_.assign(key, key + attr.auth_key_size);
	}
	ops = &domain_ops;
	mr = &Mr::ops;
	Fabric::register_domain(this);
}

int Domain::open(fid_fabric *fabric, fi_info *info, fid_domain **out, void *context) noexcept
{
	if (!info || !info->domain_attr)
		return REFUSE(-FI_EINVAL, subsys, "open: needs a fi_info with a domain_attr");
	const bool one = info->domain_attr->threading == FI_THREAD_DOMAIN;
	auto kernel = Context::open(TREADLE_DEVICE, one ? Threads::one_at_a_time : Threads::any);
	if (!kernel)
		return REFUSE(kernel.error().negative(), subsys, "%s", TREADLE_DEVICE);
	const InfoPtr all = offer(kernel->limits(), FI_EP_RDM);
	if (!all)
		return -FI_ENOMEM;
	return guard([&] {
		Fabric &on = Fabric::of(fabric);
		fi_info asked{}; /* only domain attributes: those of endpoints don't matter here */
		asked.domain_attr = info->domain_attr;
		asked.addr_format = info->addr_format;
		if (!agrees(*all, asked, on.api_version, "fi_domain", FI_LOG_WARN))
			return -FI_EINVAL;
		*out = new Domain(on, std::move(*kernel), *info, context);
		return 0;
	});
}

bool Domain::suits(const fi_info &answer) const noexcept
{
	const fi_domain_attr &attr = *answer.domain_attr;
	const auto key = std::as_bytes(std::span(attr.auth_key, attr.auth_key_size));

	/*
	 * Levels between FI_THREAD_SAFE and FI_THREAD_DOMAIN mean the same here: one thread at a
	 * time for each object.
	 */
	return (!serialized() || attr.threading != FI_THREAD_SAFE) &&
	       (!serialized(true) || attr.threading == FI_THREAD_DOMAIN) &&
	       (!((answer.caps | attr.caps) & FI_AV_USER_ID) || user_ids_) &&
	       (key.empty() || std::ranges::equal(key, auth_key_)) &&
	       (!attr.av_type || !av_type_ || attr.av_type == av_type_) &&
	       mr_bits(attr.mr_mode) == mr_mode_ && answer.addr_format == addr_format_;
}

int Domain::bind(::fid *other, std::uint64_t flags)
{
	Eq *const queue = Eq::known(other);

	if (!queue)
		return REFUSE(-FI_EINVAL, subsys, "bind: only event queues of %s", name);
	if (flags & ~FI_REG_MR)
		return REFUSE(-FI_EBADFLAGS, subsys, "bind: flags 0x%" PRIx64, flags);
	Eq &eq = *queue;
	const std::lock_guard guard(bind_lock_);
	std::atomic<Eq *> &bound = flags & FI_REG_MR ? mr_events_ : events_;
	if (bound)
		return REFUSE(-FI_EINVAL, subsys, "bind: has an event queue%s",
			      flags & FI_REG_MR ? " for FI_REG_MR" : "");
	if (flags & FI_REG_MR)
		eq.prepare_registrations();
	(flags & FI_REG_MR ? mr_events_use_ : events_use_) = Use(eq.users);
	bound = &eq;
	return 0;
}

int Domain::open_ops(const char *ops, std::uint64_t flags, void **out) noexcept
{
	static fi_treadle_ops_domain domain_ops_1{
		.size = sizeof(fi_treadle_ops_domain),
		.query = query_limits,
		.mr_regpinned = Mr::reg_pinned,
		.getfd = get_fd,
	};

	void *known = !std::strcmp(ops, FI_TREADLE_DOMAIN_OPS_1) ? &domain_ops_1 :
		      !std::strcmp(ops, FI_TREADLE_GRAPH_OPS_1)	 ? &WorkGraph::ops :
								   static_cast<void *>(nullptr);
	if (!known)
		return Object::open_ops(ops, flags, out);
	if (flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "open_ops: flags 0x%" PRIx64, flags);
	*out = known;
	return 0;
}

int Domain::control(int command, void *arg)
{
	switch (command) {
	case FI_QUEUE_WORK:
		return queue_work(*this, *static_cast<fi_deferred_work *>(arg));
	case FI_CANCEL_WORK:
		return cancel_work(*this, *static_cast<fi_deferred_work *>(arg));
	case FI_FLUSH_WORK:
		return flush_work_told(*this, arg);
	case FI_MAP_RAW_MR:
		return map_raw_key(*static_cast<struct fi_mr_map_raw *>(arg));
	case FI_UNMAP_KEY:
		return 0;
	default:
		return Object::control(command, arg);
	}
}

} // namespace treadle::fi
