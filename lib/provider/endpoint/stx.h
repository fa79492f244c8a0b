// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_STX_H
#define TREADLE_PROVIDER_STX_H

#include <variant>

#include <rdma/fi_endpoint.h>

#include <treadle/transmit_ring.h>

#include "domain/domain.h"

namespace treadle::fi
{

/*
 * fi_stx_context(3): a transmit ring that several endpoints share. Their threads are only
 * serialized with each other by FI_THREAD_DOMAIN.
 */
class Stx final : public Object<Stx, fid_stx, FI_CLASS_STX_CTX, FI_LOG_EP_CTRL>
{
public:
	using Ring = std::variant<TransmitRing, SharedTransmitRing>;

	static int open(fid_domain *domain, fi_tx_attr *attr, fid_stx **out,
			void *context) noexcept;

	Domain &domain() const noexcept { return domain_; }
	/* All endpoints of a domain that share have the same Lock: Domain::serialized(true). */
	template <class Lock> BasicTransmitRing<Lock> *ring() noexcept
	{
		return std::get_if<BasicTransmitRing<Lock>>(&ring_);
	}
	TransmitRingId id() const noexcept
	{
		return std::visit([](const auto &ring) { return ring.id(); }, ring_);
	}

private:
	Stx(Domain &domain, Ring ring, void *context) noexcept;

	Domain &domain_;
	Use domain_use_;
	Ring ring_;
};

} // namespace treadle::fi

#endif
