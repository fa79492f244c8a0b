// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_STX_H
#define TREADLE_PROVIDER_STX_H

#include <rdma/fi_endpoint.h>

#include <treadle/transmit_ring.h>

#include "domain.h"

namespace treadle::fi
{

/* fi_stx_context(3): a transmit ring of several endpoints, whose threads know nothing of each other. */
class Stx final : public Object<Stx, fid_stx, FI_CLASS_STX_CTX, FI_LOG_EP_CTRL>
{
public:
	static int open(fid_domain *domain, fi_tx_attr *attr, fid_stx **out,
			void *context) noexcept;

	Domain &domain() const noexcept { return domain_; }
	SharedTransmitRing &ring() noexcept { return ring_; }

private:
	Stx(Domain &domain, SharedTransmitRing ring, void *context) noexcept;

	Domain &domain_;
	Use domain_use_;
	SharedTransmitRing ring_;
};

} // namespace treadle::fi

#endif
