// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_SCALABLE_ENDPOINT_H
#define TREADLE_PROVIDER_SCALABLE_ENDPOINT_H

#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "endpoint/kernel_endpoint.h"

/*
 * Scalable endpoints: fi_endpoint(3), "SCALABLE ENDPOINTS". Each context is a kernel endpoint with
 * one direction, at the address of the scalable one.
 */
namespace treadle::fi
{

enum class Direction { transmit, receive };

/*
 * Its contexts transfer. It has a context for itself if one direction is a shared context and the
 * other has several.
 */
class ScalableEndpoint final : public KernelEndpoint
{
public:
	static int open(fid_domain *domain, fi_info *info, fid_ep **out, void *context) noexcept;

	ScalableEndpoint(Domain &domain, InfoPtr &&info, treadle::Endpoint kernel);

	EndpointId id() const noexcept override { return own_ ? own_->id() : kernel_.id(); }
	int bind(::fid *other, std::uint64_t flags) override;
	int set_name(const void *addr, std::size_t size) override;
	int cancel(void *context, Side side) noexcept override;
	using KernelEndpoint::cancel;

	/* Opens a context of this endpoint, which the application knows as `sep`. */
	int open_context(Port &sep, Direction direction, int index, const fi_info &asked,
			 void *context, Port **out);
	/* A context is closing. */
	void forget_context(Direction direction, int index) noexcept;

private:
	Result<treadle::Endpoint> create_at(const Address &address) const override;
	/* contexts_lock_ must be held, too */
	bool keeps_name() const noexcept override
	{
		return !contexts_.empty() || KernelEndpoint::keeps_name();
	}
	int enable_kernel() override;

	std::optional<treadle::Endpoint> own_; /* the context for itself, once it is enabled */
	std::mutex contexts_lock_;	       /* taken inside the control lock */
	std::set<std::pair<Direction, int>> contexts_; /* those that are open */
};

/* A transmit or a receive context of a scalable endpoint. */
class ScalableContext final : public KernelEndpoint
{
public:
	ScalableContext(Domain &domain, InfoPtr &&info, treadle::Endpoint kernel,
			Direction direction, Use parent_use);
	~ScalableContext() override;

	int bind(::fid *other, std::uint64_t flags) override;
	int enable() override;

	/* From now on it belongs to an endpoint, which it leaves when it closes. */
	void set_parent(ScalableEndpoint &parent, int index) noexcept;

private:
	bool keeps_name() const noexcept override { return true; } /* that of its endpoint */
	Av *vector() const noexcept override;

	const Direction direction_;
	ScalableEndpoint *parent_ = nullptr; /* null only while it is being opened */
	int index_ = 0;
};

int open_tx_context(fid_ep *sep, int index, fi_tx_attr *attr, fid_ep **out, void *context) noexcept;
int open_rx_context(fid_ep *sep, int index, fi_rx_attr *attr, fid_ep **out, void *context) noexcept;

} // namespace treadle::fi

#endif
