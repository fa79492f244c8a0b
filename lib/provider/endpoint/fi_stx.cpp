// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_stx_context(3): fi_endpoint(3), "SHARED CONTEXTS". */
#include "endpoint/stx.h"

#include "base/refuses.h"
#include "info/negotiate.h"

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
		const int rc = negotiate_context(in.kernel().limits(), attr, nullptr, in.api(),
						 "fi_stx_context", info);
		if (rc)
			return rc;
		const auto open = [&]<class Lock>(Lock) {
			auto ring = BasicTransmitRing<Lock>::create(
				in.kernel(), info->tx_attr->size, TREADLE_TX_SHARED);
			if (!ring)
				return REFUSE(fabric_error(negative(ring.error())), subsys,
					      "stx_context");
			*out = new Stx(in, std::move(*ring), context);
			return 0;
		};
		return in.serialized(true) ? open(NoLock()) : open(Mutex());
	});
}

} // namespace treadle::fi
