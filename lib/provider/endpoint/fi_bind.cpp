// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_ep_bind(3) of endpoints with an address. */
#include "endpoint/kernel_endpoint.h"
#include "endpoint/port.h"
#include "endpoint/shared_receive.h"
#include "endpoint/stx.h"
#include "names/av.h"
#include "notify/cntr.h"
#include "notify/cq.h"
#include "notify/eq.h"

namespace treadle::fi
{

namespace
{

/* A counter in Bindings, and the flag of fi_ep_bind(3) that sets it. */
struct CounterRole {
	std::uint64_t flag;
	CounterId Bindings::*place;
};
constexpr CounterRole counter_roles[] = {
	{FI_SEND, &Bindings::send},
	{FI_RECV, &Bindings::recv},
	{FI_READ, &Bindings::read},
	{FI_WRITE, &Bindings::write},
	{FI_REMOTE_READ, &Bindings::remote_read},
	{FI_REMOTE_WRITE, &Bindings::remote_write},
};

std::uint64_t all_counter_flags() noexcept
{
	std::uint64_t flags = 0;

	for (const CounterRole &role : counter_roles)
		flags |= role.flag;
	return flags;
}

} // namespace

int KernelEndpoint::bind(::fid *other, std::uint64_t flags)
{
	const std::lock_guard guard(control_lock());

	if (enabled())
		return REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_CTRL,
			      "bind: the endpoint is enabled already");
	uses_.reserve(uses_.size() + 1);
	if (Av *const av = Av::known(other))
		return bind_av(*av, flags);
	if (Cq *const cq = Cq::known(other))
		return bind_cq(*cq, flags);
	if (Cntr *const cntr = Cntr::known(other))
		return bind_cntr(*cntr, flags);
	if (Stx *const stx = Stx::known(other))
		return bind_shared_tx(*stx, flags);
	if (Eq *const eq = Eq::known(other))
		return bind_eq(*eq, flags);
	Port *const port = Port::known(other);
	if (port && dynamic_cast<SharedReceive *>(&port->endpoint()))
		return bind_shared_rx(*port, flags);
	return Port::not_bound_to(*other);
}

int KernelEndpoint::check_bound(const Domain &domain, std::uint64_t flags, std::uint64_t known,
				const char *what) const noexcept
{
	if (&domain != &domain_)
		return REFUSE(-FI_EDOMAIN, FI_LOG_EP_CTRL, "bind: %s of another domain", what);
	if (flags & ~known)
		return REFUSE(-FI_EBADFLAGS, FI_LOG_EP_CTRL, "bind: %s with flags 0x%" PRIx64, what,
			      flags);
	return 0;
}

int KernelEndpoint::bind_av(Av &av, std::uint64_t flags)
{
	if (const int rc = check_bound(av.domain(), flags, 0, "address vector"))
		return rc;
	if (av_)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "bind: has an address vector");
	bindings_.av = av.id();
	av_ = &av;
	uses_.emplace_back(av.users);
	return 0;
}

int KernelEndpoint::bind_cq(Cq &cq, std::uint64_t flags)
{
	const bool selective = flags & FI_SELECTIVE_COMPLETION;

	if (const int rc =
		    check_bound(cq.domain(), flags, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION,
				"completion queue"))
		return rc;
	if (!(flags & (FI_TRANSMIT | FI_RECV)))
		return REFUSE(-FI_EBADFLAGS, FI_LOG_EP_CTRL,
			      "bind: completion queue with neither FI_TRANSMIT nor FI_RECV");
	if ((flags & FI_TRANSMIT && bindings_.tx_cq != CompletionQueueId{}) ||
	    (flags & FI_RECV && bindings_.rx_cq != CompletionQueueId{}))
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: has a completion queue for this direction");
	if (flags & FI_TRANSMIT) {
		bindings_.tx_cq = cq.id();
		tx_cq_ = &cq;
		tx_selective_ = selective;
	}
	if (flags & FI_RECV) {
		bindings_.rx_cq = cq.id();
		rx_cq_ = &cq;
		rx_selective_ = selective;
	}
	uses_.emplace_back(cq.users);
	return 0;
}

int KernelEndpoint::bind_cntr(Cntr &cntr, std::uint64_t flags)
{
	if (const int rc = check_bound(cntr.domain(), flags, all_counter_flags(), "counter"))
		return rc;
	if (!flags) /* no operation is to be counted */
		return 0;
	/*
	 * Ignore remote flags without FI_RMA_EVENT: programs bind one counter for all operations.
	 */
	if (!(rx_caps_ & FI_RMA_EVENT))
		flags &= ~(FI_REMOTE_READ | FI_REMOTE_WRITE);
	if (!flags)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: remote operations count only with FI_RMA_EVENT");
	for (const CounterRole &role : counter_roles) {
		if (flags & role.flag && bindings_.*role.place != CounterId{})
			return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
				      "bind: has a counter for this operation");
	}
	for (const CounterRole &role : counter_roles) {
		if (flags & role.flag)
			bindings_.*role.place = cntr.id();
	}
	cntrs_.push_back(&cntr);
	if (flags & FI_SEND)
		send_cntr_ = &cntr;
	if (flags & FI_RECV)
		recv_cntr_ = &cntr;
	if (flags & FI_READ)
		read_cntr_ = &cntr;
	if (flags & FI_WRITE)
		write_cntr_ = &cntr;
	uses_.emplace_back(cntr.users);
	return 0;
}

int KernelEndpoint::bind_shared_tx(Stx &stx, std::uint64_t flags)
{
	if (const int rc = check_bound(stx.domain(), flags, 0, "shared context"))
		return rc;
	if (!shares_tx() || shared_tx_)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: tx_ctx_cnt is not FI_SHARED_CONTEXT, or has one");
	shared_tx_ = &stx;
	rings().share_tx(stx);
	bindings_.tx = stx.id();
	uses_.emplace_back(stx.users);
	return 0;
}

int KernelEndpoint::bind_shared_rx(Port &port, std::uint64_t flags)
{
	auto &srx = static_cast<SharedReceive &>(port.endpoint());

	if (const int rc = check_bound(srx.domain(), flags, 0, "shared context"))
		return rc;
	if (!shares_rx() || shared_rx_)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: rx_ctx_cnt is not FI_SHARED_CONTEXT, or has one");
	bindings_.rx = srx.add(*this);
	shared_rx_ = &srx;
	uses_.emplace_back(port.users);
	return 0;
}

int KernelEndpoint::bind_eq(Eq &eq, std::uint64_t flags)
{
	if (flags)
		return REFUSE(-FI_EBADFLAGS, FI_LOG_EP_CTRL,
			      "bind: flags for an event queue: 0x%" PRIx64, flags);
	if (eq_ || has_events())
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "bind: has an event queue");
	eq_ = &eq;
	uses_.emplace_back(eq.users);
	return 0;
}

} // namespace treadle::fi
