// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The calls of a domain: what it opens, deferred work, and the functions of fi_treadle.h. */
#include "domain/domain.h"

#include <algorithm>
#include <cstring>

#include <treadle/fi_treadle.h>

#include "collective/query_collective.h"
#include "endpoint/kernel_endpoint.h"
#include "endpoint/port.h"
#include "endpoint/scalable_endpoint.h"
#include "endpoint/shared_receive.h"
#include "endpoint/stx.h"
#include "memory/mr.h"
#include "names/av.h"
#include "notify/cntr.h"
#include "notify/cq.h"
#include "notify/eq.h"
#include "notify/pollset.h"
#include "transfer/peer_map.h"
#include "transfer/query_atomic.h"
#include "work/work.h"
#include "work/work_graph.h"

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
	*fd = of->kernel().device();
	return 0;
}

int get_direct_stats(fid_ep *ep, fi_treadle_direct_stats *stats) noexcept
{
	const Port *const port = Port::known(&ep->fid);

	if (!port || !stats || stats->size < sizeof(stats->size))
		return refused("stats");
	const fi_treadle_direct_stats *const from = port->endpoint().rings().direct_stats();
	if (!from)
		return -FI_EOPNOTSUPP;
	std::memcpy(stats, from, std::min(stats->size, sizeof(*from)));
	return 0;
}

int get_lane_stats(fid_ep *ep, fi_treadle_lane_stats *stats) noexcept
{
	const Port *const port = Port::known(&ep->fid);
	fi_treadle_lane_stats all;

	if (!port || !stats || stats->size < sizeof(stats->size))
		return refused("lane_stats");
	if (!port->endpoint().rings().lane_stats(all))
		return -FI_EOPNOTSUPP;
	std::memcpy(stats, &all, std::min(stats->size, sizeof(all)));
	return 0;
}

int poll_endpoint(fid_ep *ep, std::uint32_t idle) noexcept
{
	Port *const port = Port::known(ep);

	return port ? port->endpoint().poll(idle) : refused("poll_ep");
}

int counter_word(fid_cntr *cntr, const fi_trigger_xpu *xpu, std::uint64_t **word) noexcept
{
	Cntr *const found = Cntr::known(cntr);

	if (!found || !word)
		return refused("cntr_word");
	return guard([&] { return found->word(Xpu(xpu ? *xpu : fi_trigger_xpu{}), *word); });
}

int counter_copy(fid_cntr *cntr, const fi_trigger_xpu *xpu, const std::uint64_t **copy) noexcept
{
	Cntr *const found = Cntr::known(cntr);

	if (!found || !copy)
		return refused("cntr_copy");
	return guard([&] { return found->copy(Xpu(xpu ? *xpu : fi_trigger_xpu{}), *copy); });
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

} // namespace

fi_ops_domain Domain::domain_ops{
	.size = sizeof(fi_ops_domain),
	.av_open = opens<Av::open>,
	.cq_open = opens<Cq::open>,
	.endpoint = opens<open_endpoint>,
	.scalable_ep = opens<ScalableEndpoint::open>,
	.cntr_open = opens<Cntr::open>,
	.poll_open = opens<PollSet::open>,
	.stx_ctx = opens<Stx::open>,
	.srx_ctx = opens<SharedReceive::open>,
	.query_atomic = ask_atomic,
	.query_collective = query_collective,
	.endpoint2 = endpoint_with_flags,
};

fi_ops_mr *const Domain::mr_ops = &Mr::ops;

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
		.poll_ep = poll_endpoint,
		.mr_address = Mr::address,
		.cntr_word = counter_word,
		.cntr_copy = counter_copy,
	};

	static fi_treadle_ops_direct direct_ops_1{
		.size = sizeof(fi_treadle_ops_direct),
		.stats = get_direct_stats,
		.lane_stats = get_lane_stats,
		.map = map_peer,
		.fill = fill_map,
		.unmap = unmap_peer,
	};

	void *known = nullptr;
	if (!std::strcmp(ops, FI_TREADLE_DOMAIN_OPS_1))
		known = &domain_ops_1;
	else if (!std::strcmp(ops, FI_TREADLE_DIRECT_OPS_1))
		known = &direct_ops_1;
	else if (!std::strcmp(ops, FI_TREADLE_GRAPH_OPS_1))
		known = &WorkGraph::ops;
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
		return flush_work(*this, arg);
	case FI_MAP_RAW_MR:
		return map_raw_key(*static_cast<struct fi_mr_map_raw *>(arg));
	case FI_UNMAP_KEY:
		return 0;
	default:
		return Object::control(command, arg);
	}
}

} // namespace treadle::fi
