// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_PORT_H
#define TREADLE_PROVIDER_PORT_H

#include <atomic>
#include <cstdint>
#include <memory>

#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "base/object.h"
#include "endpoint/calls.h"
#include "endpoint/desc_flags.h"
#include "endpoint/endpoint.h"

namespace treadle::fi
{

/* struct fid_ep: an endpoint with default flags (fi_endpoint(3), "fi_ep_alias"). */
class Port : public Object<Port, fid_ep, FI_CLASS_EP, FI_LOG_EP_CTRL>
{
public:
	virtual ~Port() = default;

	Endpoint &endpoint() const noexcept { return *endpoint_; }

	int bind(::fid *other, std::uint64_t flags) { return endpoint_->bind(other, flags); }
	int control(int command, void *arg);
	int prepare_close() noexcept;

	/* Descriptor flags of a transmit with exactly these flags; and the default flags. */
	std::uint32_t tx_desc_flags(std::uint64_t flags) const noexcept
	{
		return desc_flags_of(flags) | tx_always_;
	}
	std::uint64_t tx_op_flags() const noexcept { return tx_op_flags_; }

	/* Chooses the functions to call, after fi_enable or a change of flags. */
	void update() noexcept;
	/*
	 * Endpoint::directed() has changed. Nothing else is updated, because other threads may be
	 * posting receives.
	 */
	void update_directed() noexcept
	{
		any_source_.store(endpoint_->directed() ? 0 : TREADLE_ADDR_ANY,
				  std::memory_order_relaxed);
	}

protected:
	Port(std::shared_ptr<Endpoint> endpoint, void *context);

	/* Takes over the rings, once they exist. */
	virtual void attach() noexcept = 0;
	/* Fills the tables of calls that post to the rings. */
	virtual void choose_transfers() noexcept = 0;
	/* needed: all of these capabilities */
	Calls tx_calls(std::uint64_t needed) const noexcept;
	Calls rx_calls(std::uint64_t needed) const noexcept;

	std::uint32_t rx_desc_flags(std::uint64_t flags) const noexcept
	{
		/*
		 * FI_MORE is ignored: putting off the doorbell of a receive gains nothing, as it
		 * hardly ever rings.
		 */
		return desc_flags_of(flags & (FI_COMPLETION | FI_MULTI_RECV | peek_flags)) |
		       rx_always_;
	}

	std::shared_ptr<Endpoint> endpoint_;
	std::uint64_t tx_op_flags_, rx_op_flags_;
	const std::uint64_t absent_levels_; /* completion levels that datagrams don't have */
	/* Default flags as descriptor flags, for calls that take no flags. */
	std::uint32_t tx_flags_ = 0, rx_flags_ = 0, inject_flags_ = TREADLE_F_INJECT;
	std::uint32_t tx_always_ = 0, rx_always_ = 0; /* descriptor flags of every operation */
	/* Or'ed into every source: all ones unless FI_DIRECTED_RECV was asked for. */
	std::atomic<std::uint64_t> any_source_ = TREADLE_ADDR_ANY;
	/* Commands name their endpoint, because the ring is shared. */
	const bool shares_tx_;
	fi_ops_msg msg_ops_{};
	fi_ops_tagged tagged_ops_{};
	fi_ops_rma rma_ops_{};
	fi_ops_atomic atomic_ops_{};

private:
	Hooked hooked_{fid};

	int set_op_flags(std::uint64_t flags);
	int make_alias(const struct fi_alias &alias);

	static fi_ops_ep ep_ops;
	static fi_ops_cm cm_ops;

	const bool primary_;
	fi_ops_collective collective_ops_{};
};

} // namespace treadle::fi

#endif
