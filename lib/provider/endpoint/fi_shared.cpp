// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Shared contexts: fi_endpoint(3), "SHARED CONTEXTS". */
#include <algorithm>

#include "endpoint/stx.h"
#include "info/negotiate.h"
#include "info/offer.h"
#include "transfer/transfer.h"

namespace treadle::fi
{

namespace
{

/* An application can only bind and close it. */
fi_ops_ep stx_ops{
	.size = sizeof(fi_ops_ep),
	.cancel = not_opened_for,
	.getopt = not_opened_for,
	.setopt = not_opened_for,
	.tx_ctx = not_opened_for,
	.rx_ctx = not_opened_for,
	.rx_size_left = not_opened_for,
	.tx_size_left = not_opened_for,
};

/* All attributes of an endpoint with this one context. Returns -errno if they are not possible. */
int negotiate_context(Domain &domain, fi_tx_attr *tx, fi_rx_attr *rx, const char *call,
		      InfoPtr &agreed)
{
	const InfoPtr all = offer(domain.kernel().limits(), FI_EP_RDM);
	fi_info asked{};

	if (!all)
		return -FI_ENOMEM;
	asked.tx_attr = tx;
	asked.rx_attr = rx;
	if (!agrees(*all, asked, domain.api(), call, FI_LOG_WARN))
		return -FI_EINVAL;
	agreed.reset(dup_info(all.get()));
	if (!agreed)
		return -FI_ENOMEM;
	narrow(*agreed, &asked, domain.api());
	return 0;
}

} // namespace

Stx::Stx(Domain &domain, Ring ring, void *context) noexcept
	: Object(context), domain_(domain), domain_use_(domain.users), ring_(std::move(ring))
{
	ops = &stx_ops;
}

int Stx::open(fid_domain *domain, fi_tx_attr *attr, fid_stx **out, void *context) noexcept
{
	Domain &in = Domain::of(domain);

	return guard([&] {
		InfoPtr info;
		const int rc = negotiate_context(in, attr, nullptr, "fi_stx_context", info);
		if (rc)
			return rc;
		const auto open = [&]<class Lock>(Lock) {
			auto ring = BasicTransmitRing<Lock>::create(
				in.kernel(), info->tx_attr->size, TREADLE_TX_SHARED);
			if (!ring)
				return REFUSE(fabric_error(ring.error().negative()), subsys,
					      "stx_context");
			*out = new Stx(in, std::move(*ring), context);
			return 0;
		};
		return in.serialized(true) ? open(NoLock()) : open(Mutex());
	});
}

int Endpoint::open_shared_rx(fid_domain *domain, fi_rx_attr *attr, fid_ep **out,
			     void *context) noexcept
{
	Domain &in = Domain::of(domain);

	return guard([&] {
		InfoPtr info;
		int rc = negotiate_context(in, nullptr, attr, "fi_srx_context", info);
		if (rc)
			return rc;
		/*
		 * Only messages use the context; RMA and atomics of peers don't. FI_TRIGGER does
		 * not depend on the context, see can_trigger().
		 */
		const std::uint64_t offered = with_directions(info->caps);
		info->caps =
			(narrowed(offered, attr ? attr->caps : 0) | (offered & FI_TRIGGER)) &
			~(tx_directions | FI_RMA | FI_ATOMIC | FI_REMOTE_READ | FI_REMOTE_WRITE);
		info->rx_attr->caps = info->caps;
		info->tx_attr->caps = 0;
		auto endpoint = make(in, std::move(info), std::nullopt);
		Endpoint &self = *endpoint;
		self.directed_by_receivers_ = !attr || !attr->caps;
		if (self.directed_by_receivers_)
			self.directed_ = in.directed();
		self.rx_selective_ = true; /* each receiving endpoint selects its completions */
		rc = self.make_rings(self.bindings_);
		if (rc)
			return REFUSE(fabric_error(rc), FI_LOG_EP_CTRL, "srx_context");
		endpoint->enabled_ = true;
		Port *port = make_port(endpoint, context);
		port->fid.fclass = FI_CLASS_SRX_CTX;
		*out = port;
		return 0;
	});
}

int Endpoint::bind_shared_tx(Stx &stx, std::uint64_t flags)
{
	if (&stx.domain() != &domain_)
		return REFUSE(-FI_EDOMAIN, FI_LOG_EP_CTRL,
			      "bind: shared context of another domain");
	if (flags)
		return REFUSE(-FI_EBADFLAGS, FI_LOG_EP_CTRL,
			      "bind: flags for a shared context: 0x%" PRIx64, flags);
	if (!shares_tx() || shared_tx_)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: tx_ctx_cnt is not FI_SHARED_CONTEXT, or has one");
	shared_tx_ = &stx;
	bindings_.tx = stx.id();
	uses_.emplace_back(stx.users);
	return 0;
}

int Endpoint::bind_shared_rx(Port &port, std::uint64_t flags)
{
	Endpoint &srx = port.endpoint();

	if (&srx.domain_ != &domain_)
		return REFUSE(-FI_EDOMAIN, FI_LOG_EP_CTRL,
			      "bind: shared context of another domain");
	if (flags)
		return REFUSE(-FI_EBADFLAGS, FI_LOG_EP_CTRL,
			      "bind: flags for a shared context: 0x%" PRIx64, flags);
	if (!shares_rx() || shared_rx_)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: rx_ctx_cnt is not FI_SHARED_CONTEXT, or has one");
	const std::lock_guard srx_guard(srx.control_lock_);
	const bool asked = !srx.directed_by_receivers_ && srx.rx_caps_ & FI_DIRECTED_RECV;
	bool directed;
	{
		const std::lock_guard guard(srx.receivers_lock_);
		srx.receivers_.push_back(this);
		/*
		 * Until now the domain's value counted. A connected endpoint has no source to name.
		 */
		directed = std::ranges::any_of(srx.receivers_, [&](const Endpoint *receiver) {
			return !receiver->connected() &&
			       (asked || receiver->rx_caps_ & FI_DIRECTED_RECV);
		});
	}
	srx.directed_ = directed;
	for (Port *seen : srx.ports_)
		seen->update_directed();
	shared_rx_ = &srx;
	bindings_.rx = srx.bindings_.rx;
	uses_.emplace_back(port.users);
	return 0;
}

void Endpoint::leave_shared_rx() noexcept
{
	if (!shared_rx_)
		return;
	const std::lock_guard guard(shared_rx_->receivers_lock_);
	std::erase(shared_rx_->receivers_, this);
}

int Endpoint::check_receiver(const Endpoint &other) const
{
	const std::lock_guard guard(receivers_lock_);
	const bool agreed = std::ranges::all_of(receivers_, [&](const Endpoint *receiver) {
		return !receiver->enabled_ || receiver->connected() || other.connected() ||
		       receiver->bindings_.av == other.bindings_.av;
	});

	return agreed ?
		       0 :
		       REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "enable: endpoints of a shared receive context need one address vector");
}

/*
 * Moves endpoints with a completion queue to the front, so that completions for no endpoint in
 * particular are reported.
 */
void Endpoint::sort_receivers() noexcept
{
	const std::lock_guard guard(receivers_lock_);

	std::ranges::stable_partition(receivers_, [](const Endpoint *receiver) {
		return receiver->enabled_ && receiver->bindings_.rx_cq != CompletionQueueId{};
	});
}

/* The endpoint for receives posted to a shared context: any enabled one that receives there. */
EndpointId Endpoint::receivers_id() const noexcept
{
	const std::lock_guard guard(receivers_lock_);
	const auto enabled = std::find_if(receivers_.begin(), receivers_.end(),
					  [](const Endpoint *ep) { return ep->enabled(); });

	return enabled == receivers_.end() ? EndpointId{} : (*enabled)->id();
}

} // namespace treadle::fi
