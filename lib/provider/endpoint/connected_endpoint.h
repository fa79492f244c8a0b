// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_CONNECTED_ENDPOINT_H
#define TREADLE_PROVIDER_CONNECTED_ENDPOINT_H

#include <mutex>
#include <optional>

#include "endpoint/kernel_endpoint.h"
#include "notify/eq.h"

namespace treadle::fi
{

/* FI_EP_MSG: one peer, by fi_cm(3). */
class ConnectedEndpoint final : public KernelEndpoint
{
public:
	/* handle: what it was opened for, if anything: a request, which it is to answer */
	ConnectedEndpoint(Domain &domain, InfoPtr &&info, treadle::Endpoint kernel,
			  const std::optional<Handle> &handle);
	~ConnectedEndpoint() override;

	int set_name(const void *addr, std::size_t size) override;
	int connect(const void *addr, std::span<const std::byte> data) override;
	int accept(std::span<const std::byte> data) override;
	int shutdown(std::uint64_t flags) noexcept override;
	int get_peer(void *addr, std::size_t *size) override;

private:
	bool keeps_name() const noexcept override;
	bool has_events() const noexcept override { return bool{source_}; }
	int bind_av(Av &av, std::uint64_t flags) override;
	int check_peers() const override;
	int bind_events() override;
	void set_peer(const Address &address, bool known) noexcept;
	void forget_request() noexcept;

	std::mutex peer_lock_; /* innermost */
	/* the peer of a request, or of the connection once there is one */
	std::optional<Address> peer_;
	const ::fid *handle_ = nullptr; /* the request that is being answered, or null */
	RequestId request_{};
	Eq::Source source_; /* reports events once it is enabled */
};

} // namespace treadle::fi

#endif
