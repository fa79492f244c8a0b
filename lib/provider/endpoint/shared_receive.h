// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_SHARED_RECEIVE_H
#define TREADLE_PROVIDER_SHARED_RECEIVE_H

#include <mutex>
#include <vector>

#include "endpoint/endpoint.h"

namespace treadle::fi
{

class KernelEndpoint;

/*
 * fi_srx_context(3): a receive ring, to which endpoints are bound. It has no endpoint of its own in
 * the kernel, and reports completions where the receiving endpoint says.
 */
class SharedReceive final : public Endpoint
{
public:
	static int open(fid_domain *domain, fi_rx_attr *attr, fid_ep **out, void *context) noexcept;

	/* follows: it is directed if one of its receivers asks for that */
	SharedReceive(Domain &domain, InfoPtr &&info, bool follows);

	bool reports_rx() const noexcept override { return true; }
	bool queues_rx() const noexcept override { return true; } /* for some endpoints perhaps */
	/* Any enabled endpoint that receives here. */
	EndpointId id() const noexcept override;
	std::uint16_t port() const noexcept override { return 0; }
	int bind_region(MemoryRegion &region) noexcept override
	{
		return negative(region.bind(EndpointId{}));
	}

	int bind(::fid *other, std::uint64_t flags) override;
	int enable() override { return 0; } /* from the start */
	int cancel(void *context) noexcept override;
	int set_name(const void *addr, std::size_t size) override;
	int get_name(void *addr, std::size_t *size) override;

	/* An endpoint is bound, and will receive from this ring. May throw. */
	ReceiveRingId add(KernelEndpoint &receiver);
	void remove(KernelEndpoint &receiver) noexcept;
	/* Can it receive for this endpoint, too? 0 or -errno. The control lock must be held. */
	int check_receiver(const KernelEndpoint &other) const;
	/*
	 * Moves endpoints with a completion queue to the front, so that completions for no endpoint
	 * in particular are reported.
	 */
	void sort_receivers() noexcept;

private:
	const bool follows_;
	mutable std::mutex receivers_lock_;
	std::vector<KernelEndpoint *> receivers_;
};

} // namespace treadle::fi

#endif
