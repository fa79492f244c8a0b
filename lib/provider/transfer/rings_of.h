// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_RINGS_OF_H
#define TREADLE_PROVIDER_RINGS_OF_H

#include <optional>
#include <tuple>

#include <treadle/receive_ring.h>
#include <treadle/transmit_ring.h>

#include "endpoint/rings.h"
#include "endpoint/stx.h"
#include "transfer/direct.h"

namespace treadle::fi
{

/* Rings with this lock: NoLock or Mutex. */
template <class Lock> class RingsOf final : public Rings
{
public:
	BasicTransmitRing<Lock> *tx() noexcept { return tx_; }
	BasicReceiveRing<Lock> *rx() noexcept { return rx_ ? &*rx_ : nullptr; }

	int make_tx(const Context &context, const fi_tx_attr &attr, std::uint32_t idle,
		    Bindings &bindings) noexcept override
	{
		auto ring = BasicTransmitRing<Lock>::create(context, attr.size,
							    idle ? TREADLE_TX_POLLED : 0, idle);

		if (!ring)
			return negative(ring.error());
		tx_ = &own_tx_.emplace(std::move(*ring));
		bindings.tx = tx_->id();
		return 0;
	}
	int make_rx(const Context &context, const fi_rx_attr &attr, std::uint32_t flags,
		    Bindings &bindings) noexcept override
	{
		auto ring = BasicReceiveRing<Lock>::create(context, attr.size,
							   attr.total_buffered_recv, flags);

		if (!ring)
			return negative(ring.error());
		bindings.rx = rx_.emplace(std::move(*ring)).id();
		return 0;
	}
	void share_tx(Stx &stx) noexcept override { tx_ = stx.ring<Lock>(); }

	/* Null: there are no windows. */
	Direct *direct() noexcept { return direct_.get(); }
	void allow_windows(Endpoint &endpoint, const DirectUse &use) override
	{
		direct_ = Direct::make(endpoint, use);
	}
	void close_windows() noexcept override { direct_.reset(); }
	const fi_treadle_direct_stats *direct_stats() const noexcept override
	{
		return direct_ ? &direct_->stats() : nullptr;
	}

	void flush() noexcept override
	{
		if (tx_)
			std::ignore = tx_->flush();
	}
	std::uint32_t tx_room() noexcept override { return tx_ ? tx_->room() : 0; }
	std::uint32_t rx_room() noexcept override { return rx_ ? rx_->room() : 0; }

	Port *new_port(std::shared_ptr<Endpoint> endpoint, void *context) override;

private:
	std::optional<BasicTransmitRing<Lock>> own_tx_;
	BasicTransmitRing<Lock> *tx_ = nullptr; /* its own, or that of a shared context */
	std::optional<BasicReceiveRing<Lock>> rx_;
	std::unique_ptr<Direct> direct_;
};

} // namespace treadle::fi

#endif
