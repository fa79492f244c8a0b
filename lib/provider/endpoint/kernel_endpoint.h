// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_KERNEL_ENDPOINT_H
#define TREADLE_PROVIDER_KERNEL_ENDPOINT_H

#include "endpoint/endpoint.h"
#include "info/address.h"

namespace treadle::fi
{

class Cntr;
class Cq;
class SharedReceive;
class Stx;

/* Is a ring of an endpoint opened from this that of a shared context? */
inline bool shares_context(const fi_info &info) noexcept
{
	return info.ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT ||
	       info.ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
}

/* An endpoint with an address: an endpoint of the kernel. */
class KernelEndpoint : public Endpoint
{
public:
	bool reports_rx() const noexcept override;
	bool queues_rx() const noexcept override { return bindings_.rx_cq != CompletionQueueId{}; }
	EndpointId id() const noexcept override { return kernel_.id(); }
	std::uint16_t port() const noexcept override { return kernel_.address().port; }
	int bind_region(MemoryRegion &region) noexcept override;

	int bind(::fid *other, std::uint64_t flags) override;
	int enable() override;
	int cancel(void *context) noexcept override;
	int set_name(const void *addr, std::size_t size) override;
	int get_name(void *addr, std::size_t *size) override;
	ssize_t tx_room() noexcept override;
	void close() noexcept override;

	using Side = treadle::Endpoint::Side;
	/* Cancels an operation that was posted to the rings. 0 or -errno. */
	virtual int cancel(void *context, Side side) noexcept;
	/* The bound address vector; may be called for other endpoints. */
	AddressVectorId av_id() const noexcept
	{
		const std::lock_guard guard(control_lock());

		return bindings_.av;
	}

protected:
	KernelEndpoint(Domain &domain, InfoPtr &&info, std::uint64_t tx_caps, std::uint64_t rx_caps,
		       treadle::Endpoint kernel);

	bool shares() const noexcept { return shares_context(*info_); }
	/* The format of its names. */
	std::uint32_t addr_format() const noexcept
	{
		return connected() ? info_->addr_format : domain_.addr_format();
	}
	/* fi_setname(3): the endpoint anew. */
	virtual Result<treadle::Endpoint> create_at(const Address &address) const;
	/* Has something happened after which the name stays? The control lock must be held. */
	virtual bool keeps_name() const noexcept { return enabled() || has_regions_; }
	/* Does an event queue report its events, perhaps that of the domain? */
	virtual bool has_events() const noexcept { return false; }
	virtual int bind_av(Av &av, std::uint64_t flags);
	/* Is an object of this domain, and are there no other flags? 0 or -errno. */
	int check_bound(const Domain &domain, std::uint64_t flags, std::uint64_t known,
			const char *what) const noexcept;
	/* Is it bound to what names its peers? 0 or -errno. */
	virtual int check_peers() const;
	/*
	 * fi_enable makes these steps, and the rings between them. What the first has bound stays
	 * bound if a later step fails. 0 or -errno.
	 */
	virtual int bind_events() { return 0; }
	virtual int enable_kernel() { return negative(kernel_.enable(bindings_)); }
	/* The endpoint is enabled, and has a ring of its own: may it use windows? May throw. */
	virtual void allow_windows();
	/* The vector that names its peers, or null. */
	virtual Av *vector() const noexcept { return av(); }
	/* Flags of its receive ring. */
	virtual std::uint32_t rx_flags() const noexcept { return 0; }
	Cq *tx_cq() const noexcept { return tx_cq_; }
	Cntr *read_cntr() const noexcept { return read_cntr_; }
	Cntr *write_cntr() const noexcept { return write_cntr_; }
	Cq *rx_cq() const noexcept { return rx_cq_; }
	Cntr *send_cntr() const noexcept { return send_cntr_; }
	Cntr *recv_cntr() const noexcept { return recv_cntr_; }
	/* The progress of all queues and counters that are bound. */
	std::vector<ProgressList *> progress() const;

	treadle::Endpoint kernel_; /* closed before the rings and other objects bound to it */

private:
	int bind_cq(Cq &cq, std::uint64_t flags);
	int bind_cntr(Cntr &cntr, std::uint64_t flags);
	int bind_shared_tx(Stx &stx, std::uint64_t flags);
	int bind_shared_rx(Port &srx, std::uint64_t flags);
	int bind_eq(Eq &eq, std::uint64_t flags);
	int check_bindings() const;
	void set_binding_flags() noexcept;

	bool has_regions_ = false; /* regions are bound to its name in the kernel */
	Cq *tx_cq_ = nullptr, *rx_cq_ = nullptr;
	Cntr *send_cntr_ = nullptr, *recv_cntr_ = nullptr;
	std::vector<Cntr *> cntrs_; /* that are bound */
	Cntr *read_cntr_ = nullptr, *write_cntr_ = nullptr;
	Stx *shared_tx_ = nullptr;
	SharedReceive *shared_rx_ = nullptr;
};

/* FI_EP_RDM, FI_EP_DGRAM */
class UnconnectedEndpoint final : public KernelEndpoint
{
public:
	UnconnectedEndpoint(Domain &domain, InfoPtr &&info, treadle::Endpoint kernel);

	std::uint64_t collective_caps() const noexcept override;

private:
	void allow_windows() override;
	std::uint32_t rx_flags() const noexcept override;
	bool has_lanes() const noexcept;
	bool receives_by_lanes() const noexcept;

	Use lanes_use_; /* of the domain's rule */
};

/* fi_endpoint(3) */
int open_endpoint(fid_domain *domain, fi_info *info, fid_ep **out, void *context) noexcept;

/* The type in the kernel; and the key that its peers need: fi_mr(3), auth_key. */
treadle_ep_type kernel_type(const fi_info &info) noexcept;
std::span<const std::byte> key_of(const fi_info &info, const Domain &domain) noexcept;

/* Looks up info.handle, which only a connected endpoint can use. */
int find_handle(const fi_info &info, Domain &domain, std::optional<Handle> &handle) noexcept;

} // namespace treadle::fi

#endif
