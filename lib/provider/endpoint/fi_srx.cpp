// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_srx_context(3): fi_endpoint(3), "SHARED CONTEXTS". */
#include "endpoint/shared_receive.h"

#include <algorithm>

#include "endpoint/kernel_endpoint.h"
#include "endpoint/port.h"
#include "info/negotiate.h"

namespace treadle::fi
{

SharedReceive::SharedReceive(Domain &domain, InfoPtr &&info, bool follows)
	: Endpoint(domain, std::move(info), 0, rx_caps_of(*info), true), follows_(follows)
{
	if (follows)
		directed_ = domain.directed();
	rx_selective_ = true; /* each receiving endpoint selects its completions */
}

int SharedReceive::open(fid_domain *f, fi_rx_attr *attr, fid_ep **out, void *context) noexcept
{
	Domain &domain = Domain::of(f);

	return guard([&] {
		InfoPtr info;
		int rc = negotiate_context(domain.kernel().limits(), nullptr, attr, domain.api(),
					   "fi_srx_context", info);
		if (rc)
			return rc;
		/*
		 * Only messages use the context; RMA and atomics of peers don't. FI_TRIGGER and
		 * FI_XPU do not depend on the context, see can_trigger().
		 */
		const std::uint64_t offered = with_directions(info->caps);
		info->caps =
			(narrowed(offered, attr ? attr->caps : 0) | (offered & FI_TRIGGER)) &
			~(tx_directions | FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE);
		if (domain.xpu())
			info->caps |= FI_XPU_TRIGGER;
		info->rx_attr->caps = info->caps;
		info->tx_attr->caps = 0;
		const auto srx = std::make_shared<SharedReceive>(domain, std::move(info),
								 !attr || !attr->caps);
		rc = srx->make_rings(TREADLE_RX_SHARED);
		if (rc)
			return REFUSE(fabric_error(rc), FI_LOG_EP_CTRL, "srx_context");
		srx->set_enabled();
		*out = make_port(srx, context, FI_CLASS_SRX_CTX);
		return 0;
	});
}

int SharedReceive::bind(::fid *, std::uint64_t)
{
	return REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_CTRL, "bind: the endpoint is enabled already");
}

/* --- receivers --------------------------------------------------------------------------- */

ReceiveRingId SharedReceive::add(KernelEndpoint &receiver)
{
	const std::lock_guard control_guard(control_lock());
	const bool asked = !follows_ && rx_caps_ & FI_DIRECTED_RECV;
	{
		const std::lock_guard guard(receivers_lock_);
		receivers_.push_back(&receiver);
		/*
		 * Until now the domain's value counted. A connected endpoint has no source to name.
		 */
		directed_ = std::ranges::any_of(receivers_, [&](const KernelEndpoint *ep) {
			return !ep->connected() && (asked || ep->rx_caps() & FI_DIRECTED_RECV);
		});
	}
	for (Port *port : ports_)
		port->update_directed();
	return bindings_.rx;
}

void SharedReceive::remove(KernelEndpoint &receiver) noexcept
{
	const std::lock_guard guard(receivers_lock_);

	std::erase(receivers_, &receiver);
}

int SharedReceive::check_receiver(const KernelEndpoint &other) const
{
	const std::lock_guard guard(receivers_lock_);
	const bool agreed = std::ranges::all_of(receivers_, [&](const KernelEndpoint *ep) {
		return !ep->enabled() || ep->connected() || other.connected() ||
		       ep->av() == other.av();
	});

	return agreed ?
		       0 :
		       REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "enable: endpoints of a shared receive context need one address vector");
}

void SharedReceive::sort_receivers() noexcept
{
	const std::lock_guard guard(receivers_lock_);

	std::ranges::stable_partition(receivers_, [](const KernelEndpoint *ep) {
		return ep->enabled() && ep->queues_rx();
	});
}

EndpointId SharedReceive::id() const noexcept
{
	const std::lock_guard guard(receivers_lock_);
	const auto enabled = std::ranges::find_if(receivers_, &KernelEndpoint::enabled);

	return enabled == receivers_.end() ? EndpointId{} : (*enabled)->id();
}

/* Any endpoint can cancel a posted receive, but only its own endpoint an armed one. */
int SharedReceive::cancel(void *context) noexcept
{
	int rc = -EOPNOTSUPP;

	if (!context)
		return REFUSE(-FI_ENOENT, FI_LOG_EP_CTRL,
			      "cancel: what has no context can't be canceled");
	const std::lock_guard guard(receivers_lock_);
	for (KernelEndpoint *receiver : receivers_) {
		if (!receiver->enabled())
			continue;
		rc = receiver->cancel(context, KernelEndpoint::Side::receive);
		if (rc != -ENOENT)
			return fabric_error(rc);
	}
	return rc == -ENOENT ?
		       -FI_ENOENT :
		       REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_CTRL, "cancel: no endpoint receives here");
}

int SharedReceive::set_name(const void *, std::size_t)
{
	return REFUSE(-FI_ENOSYS, FI_LOG_EP_CTRL, "setname: a shared context has no address");
}

int SharedReceive::get_name(void *, std::size_t *)
{
	return REFUSE(-FI_ENOSYS, FI_LOG_EP_CTRL, "getname: a shared context has no address");
}

} // namespace treadle::fi
