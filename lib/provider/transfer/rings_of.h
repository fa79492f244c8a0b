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
#include "transfer/lane_receiver.h"
#include "transfer/lane_sender.h"

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

	/* Null: no message is sent, or received, by lanes. */
	LaneSender *lanes_out() noexcept { return sender_.get(); }
	LaneReceiver<Lock> *lanes_in() noexcept { return receiver_.get(); }
	void allow_lanes(Endpoint &endpoint, const LaneUse &use) override
	{
		if (own_tx_)
			sender_ = LaneSender::make(endpoint, use, own_tx_->entries());
		if (!use.receives || !rx_)
			return;
		receiver_ = LaneReceiver<Lock>::make(endpoint, use, *rx_);
		if (!receiver_)
			return;
		progress_ = use.progress;
		for (ProgressList *const list : progress_)
			list->add(*receiver_);
	}
	void close_lanes() noexcept override
	{
		if (receiver_) {
			for (ProgressList *const list : progress_)
				list->remove(*receiver_);
		}
		receiver_.reset();
		if (sender_) /* what was taken back from lanes may wait for a doorbell */
			flush();
		sender_.reset();
	}
	bool cancel_receive(std::uint64_t context) noexcept override
	{
		return receiver_ && receiver_->cancel(context);
	}
	bool lane_stats(fi_treadle_lane_stats &stats) const noexcept override
	{
		stats = sender_ ? sender_->stats() : fi_treadle_lane_stats{};
		stats.size = sizeof(stats);
		if (receiver_) {
			stats.received = receiver_->stats().received;
			stats.taken = receiver_->stats().taken;
			stats.closed = receiver_->stats().closed;
		}
		return sender_ || receiver_;
	}

	void flush() noexcept override
	{
		if (tx_)
			std::ignore = tx_->flush();
	}
	std::uint32_t tx_room() noexcept override { return tx_ ? tx_->room() : 0; }
	std::uint32_t rx_room() noexcept override
	{
		return rx_ ? rx_->room() - (receiver_ ? receiver_->posted() : 0) : 0;
	}

	Port *new_port(std::shared_ptr<Endpoint> endpoint, void *context) override;

private:
	std::optional<BasicTransmitRing<Lock>> own_tx_;
	BasicTransmitRing<Lock> *tx_ = nullptr; /* its own, or that of a shared context */
	std::optional<BasicReceiveRing<Lock>> rx_;
	std::unique_ptr<Direct> direct_;
	std::unique_ptr<LaneSender> sender_;
	std::unique_ptr<LaneReceiver<Lock>> receiver_;
	std::vector<ProgressList *> progress_; /* where the receiver is */
};

} // namespace treadle::fi

#endif
