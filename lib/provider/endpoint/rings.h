// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_RINGS_H
#define TREADLE_PROVIDER_RINGS_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <rdma/fi_endpoint.h>

#include <treadle/context.h>
#include <treadle/endpoint.h>
#include <treadle/fi_treadle.h>

namespace treadle::fi
{

class Av;
class Cntr;
class Cq;
class Endpoint;
class Port;
class ProgressList;
class Stx;

/* What operations through windows need of their endpoint. */
struct DirectUse {
	Cq *queue; /* for its transmits, or null */
	/* How often peers were removed from its vector. */
	const std::atomic<std::uint32_t> *removals;
	Cntr *reads, *writes; /* counters of such operations, or null */
};

/* What lanes need of their endpoint. */
struct LaneUse {
	Av *av;
	Cq *sent_to, *received_to;		    /* queues, or null */
	Cntr *sent, *received;			    /* counters, or null */
	const std::atomic<std::uint32_t> *removals; /* as above */
	const std::atomic<std::uint32_t> *changes;  /* how often the vector was changed */
	bool receives;				    /* by lanes, too */
	std::vector<ProgressList *> progress;	    /* all that are read for this endpoint */
};

/*
 * The rings of an endpoint. Their lock depends on the threading level, so transfer/ implements
 * this, together with the ports that post to them.
 */
class Rings
{
public:
	/* serialized: one thread at a time calls for the endpoint. May throw. */
	static std::unique_ptr<Rings> make(bool serialized);

	virtual ~Rings() = default;

	/* Makes a ring, and names it in `bindings`. 0 or -errno. */
	/* idle: microseconds; 0: the ring is not polled (TREADLE_TX_POLLED). */
	virtual int make_tx(const Context &context, const fi_tx_attr &attr, std::uint32_t idle,
			    Bindings &bindings) noexcept = 0;
	virtual int make_rx(const Context &context, const fi_rx_attr &attr, std::uint32_t flags,
			    Bindings &bindings) noexcept = 0;
	/* Transmits go to the ring of a shared context. */
	virtual void share_tx(Stx &stx) noexcept = 0;

	/*
	 * The endpoint is enabled: RMA and atomics may go through windows. close_windows ends that;
	 * the endpoint can't be closed before.
	 */
	virtual void allow_windows(Endpoint &endpoint, const DirectUse &use) = 0;
	virtual void close_windows() noexcept = 0;
	/* The same for messages and lanes. */
	virtual void allow_lanes(Endpoint &endpoint, const LaneUse &use) = 0;
	virtual void close_lanes() noexcept = 0;
	/* Cancels a receive that the kernel does not know. */
	virtual bool cancel_receive(std::uint64_t context) noexcept = 0;
	/* False: there are no lanes. */
	virtual bool lane_stats(fi_treadle_lane_stats &stats) const noexcept = 0;
	/* Null: there are no windows. They count while others read. */
	virtual const fi_treadle_direct_stats *direct_stats() const noexcept = 0;

	/* Rings the doorbell for what FI_MORE has put off. */
	virtual void flush() noexcept = 0;
	/* Free slots; 0 without a ring. */
	virtual std::uint32_t tx_room() noexcept = 0;
	virtual std::uint32_t rx_room() noexcept = 0;

	/* A port that posts to these rings once the endpoint is enabled. May throw. */
	virtual Port *new_port(std::shared_ptr<Endpoint> endpoint, void *context) = 0;
};

} // namespace treadle::fi

#endif
