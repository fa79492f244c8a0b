// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_ENDPOINT_H
#define TREADLE_PROVIDER_ENDPOINT_H

#include <array>
#include <atomic>
#include <set>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <treadle/endpoint.h>

#include "base/refuses.h"
#include "info/caps.h"
#include "notify/cq.h"
#include "domain/domain.h"
#include "notify/eq.h"
#include "collective/group.h"

namespace treadle::fi
{

class Cntr;
class Port;
class Stx;

/*
 * What an fid_ep is to the application: a whole endpoint, a scalable one, or a context of a
 * scalable one (fi_endpoint(3), "SCALABLE ENDPOINTS").
 */
enum class Role { whole, scalable, transmit, receive };

/*
 * fi_endpoint(3): a kernel endpoint, its rings and the objects bound to it. The application sees it
 * through a Port, and through one more for every alias.
 *
 * A shared receive context is an Endpoint, too: a receive ring without a kernel endpoint. Other
 * endpoints are bound to it.
 */
class Endpoint
{
public:
	static int open(fid_domain *domain, fi_info *info, fid_ep **out, void *context) noexcept;
	static int open_scalable(fid_domain *domain, fi_info *info, fid_ep **out,
				 void *context) noexcept;
	static int open_tx_context(fid_ep *sep, int index, fi_tx_attr *attr, fid_ep **out,
				   void *context) noexcept;
	static int open_rx_context(fid_ep *sep, int index, fi_rx_attr *attr, fid_ep **out,
				   void *context) noexcept;
	static int open_shared_rx(fid_domain *domain, fi_rx_attr *attr, fid_ep **out,
				  void *context) noexcept;

	virtual ~Endpoint();

	Domain &domain() const noexcept { return domain_; }
	/*
	 * The kernel endpoint that owns the commands. Of a shared receive context: one that is
	 * bound to it, or none.
	 */
	EndpointId id() const noexcept
	{
		return direct_ ? direct_->id() : kernel_ ? kernel_->id() : receivers_id();
	}
	/* The port of its address, in network byte order; unique in this network namespace. */
	std::uint16_t port() const noexcept { return kernel_ ? kernel_->address().port : 0; }
	/*
	 * Lets only peers of this endpoint reach a region. The endpoint keeps its name from then
	 * on. 0 or -errno.
	 */
	int bind_region(MemoryRegion &region) noexcept;
	const fi_info &info() const noexcept { return *info_; }
	bool enabled() const noexcept { return enabled_; }
	/* Do calls for this endpoint come from one thread at a time? */
	bool serialized() const noexcept { return domain_.serialized(shares_); }
	/* Are the rings those of a shared context? */
	bool shares_tx() const noexcept { return info_->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT; }
	bool shares_rx() const noexcept { return info_->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT; }
	bool is_shared_rx() const noexcept { return !kernel_; }
	/* Does a queue or a counter report completed transmits? */
	bool reports_tx() const noexcept
	{
		return bindings_.tx_cq != CompletionQueueId{} || bindings_.send != CounterId{} ||
		       bindings_.read != CounterId{} || bindings_.write != CounterId{};
	}
	/*
	 * Is a completed receive reported? A shared context reports where the receiving endpoint
	 * says.
	 */
	bool reports_rx() const noexcept
	{
		return is_shared_rx() || bindings_.rx_cq != CompletionQueueId{} ||
		       bindings_.recv != CounterId{};
	}

	/*
	 * Is there a queue for completions that are not successful operations, such as those of
	 * FI_PEEK? A shared context may have one for some of its endpoints only.
	 */
	bool queues_rx() const noexcept
	{
		return is_shared_rx() || bindings_.rx_cq != CompletionQueueId{};
	}

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
	/*
	 * Can it receive messages? Otherwise it serves only RMA and atomics, and has no receive
	 * ring.
	 */
	bool has_messages() const noexcept
	{
		return rx_caps_ & (FI_MSG | FI_TAGGED | FI_COLLECTIVE);
	}
	/* Does src_addr of a receive count? fi_msg(3). The control lock must be held. */
	bool directed() const noexcept { return directed_; }
	/*
	 * FI_COLLECTIVE if it can be a member of a group: a whole endpoint that sends and receives.
	 */
	std::uint64_t collective_caps() const noexcept
	{
		return role_ == Role::whole && !shares_ && tx_caps_ & FI_SEND &&
				       rx_caps_ & FI_RECV ?
			       tx_caps_ & FI_COLLECTIVE :
			       0;
	}
	/* Is a success reported only if the operation says FI_COMPLETION? */
	bool tx_selective() const noexcept { return tx_selective_; }
	bool rx_selective() const noexcept { return rx_selective_; }
	/* FI_OPT_MIN_MULTI_RECV, for receives posted from now on. */
	std::size_t min_multi_recv() const noexcept
	{
		return min_multi_recv_.load(std::memory_order_relaxed);
	}
	void set_min_multi_recv(std::size_t bytes) noexcept
	{
		min_multi_recv_.store(bytes, std::memory_order_relaxed);
	}

	/* FI_OPT_FI_HMEM_P2P; has no effect. */
	std::atomic<int> hmem_p2p = FI_HMEM_P2P_ENABLED;
	/* FI_COLLECTIVE */
	Groups groups;
	Av *av() const noexcept { return av_; }
	Eq *eq() const noexcept { return eq_ ? eq_ : domain_.events(); }

	int bind(::fid *other, std::uint64_t flags);
	int enable();
	int cancel(void *context) noexcept;

	int set_name(const void *addr, std::size_t size);
	int get_name(void *addr, std::size_t *size);

	/* fi_cm(3), for FI_EP_MSG: fi_cm.cpp */
	bool connected() const noexcept { return info_->ep_attr->type == FI_EP_MSG; }
	int connect(const void *addr, std::span<const std::byte> data);
	int accept(std::span<const std::byte> data);
	int shutdown(std::uint64_t flags) noexcept;
	int get_peer(void *addr, std::size_t *size);

	/*
	 * Starts what FI_MORE has put off: a request is about to go another way and must not
	 * overtake it.
	 */
	virtual void flush() noexcept = 0;
	virtual ssize_t tx_room() noexcept = 0;
	virtual ssize_t rx_room() noexcept = 0;

	/* Makes another view of an endpoint, which registers itself. */
	static Port *make_port(const std::shared_ptr<Endpoint> &endpoint, void *context);

	/*
	 * Protects bindings, names, states, connections and ports: control calls may come from any
	 * thread, fi_domain(3). The lock of a shared receive context is taken inside that of an
	 * endpoint bound to it.
	 */
	std::recursive_mutex &control_lock() noexcept { return control_lock_; }

protected:
	Endpoint(Domain &domain, InfoPtr info, std::optional<treadle::Endpoint> kernel);

	/* Makes the rings that are not shared. */
	virtual int make_rings(Bindings &bindings) = 0;
	virtual Port *new_port(std::shared_ptr<Endpoint> self, void *context) = 0;

	/* Leaves the shared receive context. Call before kernel_ closes. */
	void leave_shared_rx() noexcept;

	Cq *tx_cq_ = nullptr;

	/* Rings are destroyed before it: a derived class that owns them closes it first. */
	std::optional<treadle::Endpoint> kernel_;
	/*
	 * Of an enabled scalable endpoint with a shared context: its own context in that direction.
	 */
	std::optional<treadle::Endpoint> direct_;
	Stx *shared_tx_ = nullptr;

private:
	friend class Port;

	static int open_as(Role role, fid_domain *domain, fi_info *info, fid_ep **out,
			   void *context) noexcept;
	static std::shared_ptr<Endpoint> make(Domain &domain, InfoPtr info,
					      std::optional<treadle::Endpoint> kernel);
	static int find_handle(const fi_info &info, Domain &domain,
			       std::optional<Handle> &handle) noexcept;
	static Result<treadle::Endpoint> open_kernel(Role role, const fi_info &info, Domain &domain,
						     const std::optional<Handle> &handle);
	static Result<treadle::Endpoint> create_kernel(Role role, const fi_info &info,
						       Domain &domain, const Address &address);
	/* Opens a context of this endpoint, which the application knows as `sep`. */
	int open_context(Port &sep, Role role, int index, const fi_info &asked, void *context,
			 Port **out);
	template <class Attr>
	static int open_context(fid_ep *sep, Role role, int index, Attr *attr, Attr *fi_info::*side,
				std::size_t Attr::*buffers, void *context, fid_ep **out) noexcept;
	/* Removes the capabilities that the role excludes. Call before there is a port. */
	void take_role(Role role) noexcept;
	void answers(const ::fid *handle, const Handle &request) noexcept;
	void set_peer(const Address &address, bool known) noexcept;
	/*
	 * The format of its names. A connected endpoint has no address vector, so it has its own.
	 */
	std::uint32_t addr_format() const noexcept
	{
		return connected() ? info_->addr_format : domain_.addr_format();
	}
	int bind_events();
	void answered() noexcept;

	int bind_av(Av &av, std::uint64_t flags);
	int bind_cq(Cq &cq, std::uint64_t flags);
	int bind_cntr(Cntr &cntr, std::uint64_t flags);
	int bind_shared_tx(Stx &stx, std::uint64_t flags);
	int bind_shared_rx(Port &srx, std::uint64_t flags);
	AddressVectorId bound_av();
	int check_bindings() const;
	int enable_kernel();
	using Side = treadle::Endpoint::Side;
	int cancel(void *context, Side side) noexcept; /* -errno */
	/* Of a shared receive context: may it receive for `other`, too? */
	int check_receiver(const Endpoint &other) const;
	EndpointId receivers_id() const noexcept;
	void sort_receivers() noexcept;
	void update_ports() noexcept;

	std::recursive_mutex control_lock_;
	Domain &domain_;
	Use domain_use_;
	InfoPtr info_;
	std::uint64_t tx_caps_, rx_caps_;
	bool directed_;
	/*
	 * Of a shared context without given capabilities: directed if a receiving endpoint asks for
	 * it.
	 */
	bool directed_by_receivers_ = false;
	Role role_ = Role::whole;
	/*
	 * Of a context: its scalable endpoint and its index. Of a scalable endpoint: its open
	 * contexts.
	 */
	Endpoint *parent_ = nullptr;
	int index_ = 0;
	std::mutex contexts_lock_;
	std::set<std::pair<Role, int>> contexts_;
	bool tx_selective_ = false, rx_selective_ = false;
	std::atomic<std::size_t> min_multi_recv_{64};
	std::atomic<bool> enabled_ = false; /* read without the lock; bindings stay then */
	bool has_regions_ = false;	    /* regions are bound to its name in the kernel */
	Av *av_ = nullptr;
	Eq *eq_ = nullptr;
	std::mutex peer_lock_; /* innermost */
	std::optional<Address>
		peer_; /* the peer of a request, or of the connection once there is one */
	const ::fid *handle_ = nullptr; /* the request that is being answered, or null */
	RequestId request_{};
	const bool shares_;
	Endpoint *shared_rx_ = nullptr;
	/* Of a shared receive context: the endpoints that receive there, and their lock. */
	mutable std::mutex receivers_lock_;
	std::vector<Endpoint *> receivers_;
	Bindings bindings_;
	std::vector<Use> uses_; /* one for each bound object */
	Eq::Source source_;	/* reports events once it is enabled */
	std::vector<Port *> ports_;
};

/* How the calls for one direction behave. */
enum class Calls {
	absent,	  /* no capability for this direction */
	disabled, /* fi_enable was not called yet */
	untold,	  /* enabled without a completion queue or a counter for it */
	plain,
	special, /* FI_TRIGGER or FI_MULTI_RECV is a default flag, or the ring is shared */
};

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
	std::uint32_t tx_desc_flags(std::uint64_t flags) const noexcept;
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

	std::uint32_t rx_desc_flags(std::uint64_t flags) const noexcept;

	std::shared_ptr<Endpoint> endpoint_;
	std::uint64_t tx_op_flags_, rx_op_flags_;
	const std::uint64_t unheard_; /* completion levels that datagrams don't have */
	/* Default flags as descriptor flags, for calls that take no flags. */
	std::uint32_t tx_flags_ = 0, rx_flags_ = 0, inject_flags_ = TREADLE_F_INJECT;
	std::uint32_t tx_always_ = 0, rx_always_ = 0; /* descriptor flags of every operation */
	/* Or'ed into every source: all ones unless FI_DIRECTED_RECV was asked for. */
	std::atomic<std::uint64_t> any_source_ = TREADLE_ADDR_ANY;
	/* Commands name their endpoint, because the ring is shared. */
	const bool shares_tx_;

private:
	Hooked hooked_{fid};

	int set_op_flags(std::uint64_t flags);
	int make_alias(const struct fi_alias &alias);

	static fi_ops_ep ep_ops;
	static fi_ops_cm cm_ops;

	const bool primary_;
	fi_ops_msg msg_ops_{};
	fi_ops_tagged tagged_ops_{};
	fi_ops_rma rma_ops_{};
	fi_ops_atomic atomic_ops_{};
	fi_ops_collective collective_ops_{};
};

/* fi_msg.cpp, fi_tagged.cpp, fi_rma.cpp, fi_atomic.cpp, fi_coll.cpp */
void choose_calls(fi_ops_msg &ops, bool serialized, Calls tx, Calls rx) noexcept;
void choose_calls(fi_ops_tagged &ops, bool serialized, Calls tx, Calls rx) noexcept;
void choose_calls(fi_ops_rma &ops, bool serialized, Calls read, Calls write) noexcept;
void choose_calls(fi_ops_collective &ops, Calls calls) noexcept;
void choose_calls(fi_ops_atomic &ops, bool serialized, Calls write, Calls fetch,
		  bool valid) noexcept;

} // namespace treadle::fi

#endif
