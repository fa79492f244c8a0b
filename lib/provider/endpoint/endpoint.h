// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_ENDPOINT_H
#define TREADLE_PROVIDER_ENDPOINT_H

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <treadle/endpoint.h>
#include <treadle/memory_region.h>

#include "domain/domain.h"
#include "endpoint/groups.h"
#include "endpoint/rings.h"
#include "info/caps.h"

namespace treadle::fi
{

class Av;
class Eq;
class Port;

/*
 * What an fid_ep stands for: rings, and the objects bound to them. The application sees it through
 * a Port, and through one more for every alias. The roles are classes of their own:
 *
 *	KernelEndpoint		has an address, where peers find it
 *	  UnconnectedEndpoint	FI_EP_RDM, FI_EP_DGRAM
 *	  ConnectedEndpoint	FI_EP_MSG
 *	  ScalableEndpoint	has contexts
 *	  ScalableContext	one of its contexts, for one direction
 *	SharedReceive		a shared receive context: a receive ring of several endpoints
 */
class Endpoint
{
public:
	Endpoint(const Endpoint &) = delete;
	Endpoint &operator=(const Endpoint &) = delete;
	virtual ~Endpoint() = default;

	Domain &domain() const noexcept { return domain_; }
	const fi_info &info() const noexcept { return *info_; }
	bool enabled() const noexcept { return enabled_; }
	/* FI_EP_MSG */
	bool connected() const noexcept { return info_->ep_attr->type == FI_EP_MSG; }
	/* Is the ring of a direction that of a shared context? */
	bool shares_tx() const noexcept { return info_->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT; }
	bool shares_rx() const noexcept { return info_->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT; }

	/* Capabilities by direction, with defaults for those that the caller left out. */
	std::uint64_t tx_caps() const noexcept { return tx_caps_; }
	std::uint64_t rx_caps() const noexcept { return rx_caps_; }
	/*
	 * FI_TRIGGER or FI_XPU, in the fi_info of the endpoint or of the context's endpoint.
	 * Attributes of a context can't remove them, because deferred work is queued at the domain.
	 */
	bool can_trigger(std::uint64_t how = FI_TRIGGER) const noexcept
	{
		return (info_->caps | tx_caps_ | rx_caps_) & how;
	}
	/* FI_COLLECTIVE if it can be a member of a group. */
	virtual std::uint64_t collective_caps() const noexcept { return 0; }
	/* Does src_addr of a receive count? fi_msg(3). The control lock must be held. */
	bool directed() const noexcept { return directed_; }
	/* Is a success reported only if the operation says FI_COMPLETION? */
	bool tx_selective() const noexcept { return tx_selective_; }
	bool rx_selective() const noexcept { return rx_selective_; }
	/* Does a queue or a counter report completed transmits? */
	bool reports_tx() const noexcept
	{
		return bindings_.tx_cq != CompletionQueueId{} || bindings_.send != CounterId{} ||
		       bindings_.read != CounterId{} || bindings_.write != CounterId{};
	}
	/* The same for receives. */
	virtual bool reports_rx() const noexcept = 0;
	/* Is there a queue for the completion of FI_PEEK, which no counter counts? */
	virtual bool queues_rx() const noexcept = 0;

	/* FI_OPT_MIN_MULTI_RECV, for receives posted from now on. */
	std::size_t min_multi_recv() const noexcept
	{
		return min_multi_recv_.load(std::memory_order_relaxed);
	}
	void set_min_multi_recv(std::size_t bytes) noexcept
	{
		min_multi_recv_.store(bytes, std::memory_order_relaxed);
	}
	/* The transmit ring is polled: poll_ep in fi_treadle.h. 0 or -FI_errno. */
	int poll(std::uint32_t idle) noexcept;
	/* FI_OPT_FI_HMEM_P2P; has no effect. */
	std::atomic<int> hmem_p2p = FI_HMEM_P2P_ENABLED;

	Av *av() const noexcept { return av_; }
	Eq *eq() const noexcept { return eq_ ? eq_ : domain_.events(); }
	Rings &rings() const noexcept { return *rings_; }
	EndpointGroups &groups() const noexcept { return *groups_; }

	/* The kernel endpoint that owns the commands; none: an error of SharedReceive. */
	virtual EndpointId id() const noexcept = 0;
	/* The port of its address, in network byte order; unique in this network namespace. */
	virtual std::uint16_t port() const noexcept = 0;
	/*
	 * Lets only peers of this endpoint reach a region. The endpoint keeps its name from then
	 * on. 0 or -errno.
	 */
	virtual int bind_region(MemoryRegion &region) noexcept = 0;

	virtual int bind(::fid *other, std::uint64_t flags) = 0;
	virtual int enable() = 0;
	virtual int cancel(void *context) noexcept = 0;
	virtual int set_name(const void *addr, std::size_t size) = 0;
	virtual int get_name(void *addr, std::size_t *size) = 0;

	/* fi_cm(3): refused, but for FI_EP_MSG */
	virtual int connect(const void *addr, std::span<const std::byte> data);
	virtual int accept(std::span<const std::byte> data);
	virtual int shutdown(std::uint64_t flags) noexcept;
	virtual int get_peer(void *addr, std::size_t *size);

	/*
	 * Starts what FI_MORE has put off: a request is about to go another way and must not
	 * overtake it.
	 */
	void flush() noexcept { rings_->flush(); }
	/*
	 * Lets the kernel take what lies in a ring that it polls: triggered operations there are
	 * armed. From any thread: that is a doorbell, and no more.
	 */
	void take_polled() noexcept
	{
		if (poll_)
			rings_->flush();
	}
	/* Operations that fit, or -errno. */
	virtual ssize_t tx_room() noexcept;
	ssize_t rx_room() noexcept;

	/* Makes another view of an endpoint, which registers itself. */
	static Port *make_port(const std::shared_ptr<Endpoint> &endpoint, void *context,
			       std::size_t fclass = FI_CLASS_EP);
	/* The application closes it. Nothing else refers to the endpoint from then on. */
	virtual void close() noexcept
	{
		take_polled();
		groups_->close();
		rings_->close_lanes();
		rings_->close_windows();
	}

	/*
	 * Protects bindings, names, states, connections and ports: control calls may come from any
	 * thread, fi_domain(3). The lock of a shared receive context is taken inside that of an
	 * endpoint bound to it.
	 */
	std::recursive_mutex &control_lock() const noexcept { return control_lock_; }

protected:
	/* shares: a ring belongs to several endpoints. */
	Endpoint(Domain &domain, InfoPtr &&info, std::uint64_t tx_caps, std::uint64_t rx_caps,
		 bool shares);

	/* Makes the rings that are not shared. 0 or -errno. */
	int make_rings(std::uint32_t rx_flags = 0) noexcept;
	void set_enabled() noexcept;

private:
	friend class Port;

	Use domain_use_; /* dropped last */

protected:
	Domain &domain_;
	const InfoPtr info_;
	const std::uint64_t tx_caps_, rx_caps_;
	bool directed_;
	bool tx_selective_ = false, rx_selective_ = false;
	Av *av_ = nullptr;
	Eq *eq_ = nullptr;
	Bindings bindings_;
	std::vector<Use> uses_; /* one for each bound object */
	std::vector<Port *> ports_;

private:
	mutable std::recursive_mutex control_lock_;
	std::atomic<std::size_t> min_multi_recv_{64};
	std::uint32_t poll_; /* idle time of the transmit ring in microseconds; 0: not polled */
	std::atomic<bool> enabled_ = false; /* read without the lock; bindings stay then */
	const std::unique_ptr<Rings> rings_;
	const std::unique_ptr<EndpointGroups> groups_;
};

/* Capabilities of an endpoint opened from this, in one direction; 0: none. */
std::uint64_t tx_caps_of(const fi_info &info) noexcept;
std::uint64_t rx_caps_of(const fi_info &info) noexcept;

} // namespace treadle::fi

#endif
