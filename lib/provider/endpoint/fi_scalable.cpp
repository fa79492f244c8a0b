// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "endpoint/scalable_endpoint.h"

#include <cstddef>
#include <cstring>

#include "endpoint/port.h"
#include "info/negotiate.h"
#include "names/av.h"

namespace treadle::fi
{

namespace
{

const char *call_name(Direction direction) noexcept
{
	return direction == Direction::transmit ? "fi_tx_context" : "fi_rx_context";
}

/* May a scalable endpoint be opened from this? 0 or -errno. */
int check_scalable(const fi_info &info) noexcept
{
	const fi_ep_attr &attr = *info.ep_attr;

	if (info.caps & FI_COLLECTIVE)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "scalable_ep: not with FI_COLLECTIVE");
	if (attr.type == FI_EP_MSG)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "scalable_ep: not of type FI_EP_MSG");
	if (attr.tx_ctx_cnt == FI_SHARED_CONTEXT && attr.rx_ctx_cnt == FI_SHARED_CONTEXT)
		return REFUSE(
			-FI_EINVAL, FI_LOG_EP_CTRL,
			"scalable_ep: FI_SHARED_CONTEXT in both directions leaves no context");
	return 0;
}

/* Structures of callers with an older API may end before the newest fields. */
void copy(fi_tx_attr &to, const fi_tx_attr &from, std::uint32_t api) noexcept
{
	std::memcpy(&to, &from,
		    FI_VERSION_GE(api, FI_VERSION(1, 9)) ? sizeof(to) :
							   offsetof(fi_tx_attr, tclass));
}
void copy(fi_rx_attr &to, const fi_rx_attr &from, std::uint32_t) noexcept
{
	to = from;
}

/* The attributes of a context: attr, with defaults from the endpoint. */
template <class Attr>
Attr inherited(const Attr &endpoint, const Attr *attr, std::size_t Attr::*buffers,
	       std::uint32_t api) noexcept
{
	Attr asked = endpoint;

	if (!attr)
		return asked;
	copy(asked, *attr, api);
	for (const auto field : {&Attr::size, buffers}) {
		if (!(asked.*field))
			asked.*field = endpoint.*field;
	}
	if (!asked.caps)
		asked.caps = endpoint.caps;
	return asked;
}

/* Opens a context of a scalable endpoint with attr, a member of fi_info, which may be null. */
template <class Attr>
int open_context(fid_ep *sep, Direction direction, int index, Attr *attr, Attr *fi_info::*side,
		 std::size_t Attr::*buffers, void *context, fid_ep **out) noexcept
{
	Port &port = Port::of(sep);
	auto *const scalable = dynamic_cast<ScalableEndpoint *>(&port.endpoint());

	if (!scalable)
		return REFUSE(-FI_ENOSYS, FI_LOG_EP_CTRL, "%s: not of a scalable endpoint",
			      call_name(direction));
	return guard([&] {
		const std::uint32_t api = scalable->domain().api();
		fi_info asked = scalable->info();
		Attr own = inherited(*(asked.*side), attr, buffers, api);
		Port *opened;

		asked.*side = &own;
		const int rc =
			scalable->open_context(port, direction, index, asked, context, &opened);
		if (rc)
			return rc;
		if (attr) {
			const Endpoint &endpoint = opened->endpoint();
			copy(*attr, *(endpoint.info().*side), api);
			attr->caps = endpoint.tx_caps() | endpoint.rx_caps(); /* one is 0 */
		}
		*out = opened;
		return 0;
	});
}

} // namespace

/* --- the endpoint ----------------------------------------------------------------------- */

/* It only has directions that use a shared context. */
ScalableEndpoint::ScalableEndpoint(Domain &domain, InfoPtr &&info, treadle::Endpoint kernel)
	: KernelEndpoint(domain, std::move(info),
			 info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT ? tx_caps_of(*info) : 0,
			 info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT ? rx_caps_of(*info) : 0,
			 std::move(kernel))
{
}

int ScalableEndpoint::open(fid_domain *f, fi_info *info, fid_ep **out, void *context) noexcept
{
	Domain &domain = Domain::of(f);

	return guard([&] {
		InfoPtr agreed;
		std::optional<Handle> handle;
		int rc = negotiate(domain.kernel().limits(), info, domain.api(), "fi_scalable_ep",
				   agreed);
		if (!rc)
			rc = check_scalable(*agreed);
		if (!rc && info->handle)
			rc = find_handle(*info, domain, handle);
		if (rc)
			return rc;
		const auto source = source_of(*info);
		auto kernel = source ? treadle::Endpoint::create_scalable(domain.kernel(), *source,
									  kernel_type(*info),
									  key_of(*info, domain)) :
				       std::unexpected(from_errno(EINVAL));
		if (!kernel)
			return REFUSE(fabric_error(negative(kernel.error())), FI_LOG_EP_CTRL,
				      "open");
		agreed->addr_format = format_of(kernel->address().family, info->addr_format);
		*out = make_port(std::make_shared<ScalableEndpoint>(domain, std::move(agreed),
								    std::move(*kernel)),
				 context, FI_CLASS_SEP);
		return 0;
	});
}

Result<treadle::Endpoint> ScalableEndpoint::create_at(const Address &address) const
{
	return treadle::Endpoint::create_scalable(domain_.kernel(), address, kernel_type(*info_),
						  key_of(*info_, domain_));
}

int ScalableEndpoint::bind(::fid *other, std::uint64_t flags)
{
	const std::lock_guard guard(control_lock());

	if (!enabled() && !shares() && other->fclass != FI_CLASS_AV)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: a scalable endpoint has an address vector, its contexts the "
			      "rest");
	return KernelEndpoint::bind(other, flags);
}

int ScalableEndpoint::enable_kernel()
{
	if (!shares()) /* its contexts are enabled instead */
		return 0;
	auto context = shares_tx() ? kernel_.transmit_context() : kernel_.receive_context(0);
	if (!context)
		return negative(context.error());
	const int rc = negative(context->enable(bindings_));
	if (!rc)
		own_ = std::move(*context);
	return rc;
}

int ScalableEndpoint::cancel(void *context, Side side) noexcept
{
	return own_ ? negative(own_->cancel(address_of(context), side)) :
		      KernelEndpoint::cancel(context, side);
}

int ScalableEndpoint::set_name(const void *addr, std::size_t size)
{
	const std::lock_guard guard(control_lock());
	const std::lock_guard contexts_guard(contexts_lock_);

	return KernelEndpoint::set_name(addr, size);
}

/* --- its contexts ------------------------------------------------------------------------ */

int ScalableEndpoint::open_context(Port &sep, Direction direction, int index, const fi_info &asked,
				   void *context, Port **out)
{
	const bool transmit = direction == Direction::transmit;
	const char *const call = call_name(direction);
	const auto count = transmit ? info_->ep_attr->tx_ctx_cnt : info_->ep_attr->rx_ctx_cnt;
	InfoPtr agreed;

	if (count == FI_SHARED_CONTEXT)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "%s: it has a shared one", call);
	if (index < 0 || static_cast<std::size_t>(index) >= count)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "%s: index %d: the endpoint has %zu",
			      call, index, count);
	const int rc = negotiate(domain_.kernel().limits(), &asked, domain_.api(), call, agreed);
	if (rc)
		return rc;
	agreed->ep_attr->tx_ctx_cnt = agreed->ep_attr->rx_ctx_cnt = 1;

	/* so that nothing fails at the end */
	std::set<std::pair<Direction, int>> place{{direction, index}};
	const std::lock_guard guard(contexts_lock_);
	if (contexts_.contains({direction, index}))
		return REFUSE(-FI_EBUSY, FI_LOG_EP_CTRL, "%s: index %d is open", call, index);
	auto kernel = transmit ? kernel_.transmit_context() :
				 kernel_.receive_context(static_cast<std::uint32_t>(index));
	if (!kernel)
		return REFUSE(fabric_error(negative(kernel.error())), FI_LOG_EP_CTRL, "%s", call);
	const auto opened = std::make_shared<ScalableContext>(
		domain_, std::move(agreed), std::move(*kernel), direction, Use(sep.users));
	if (!opened->tx_caps() && !opened->rx_caps())
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "%s: no capability for it", call);
	opened->set_min_multi_recv(min_multi_recv());
	*out = make_port(opened, context, transmit ? FI_CLASS_TX_CTX : FI_CLASS_RX_CTX);
	contexts_.merge(place);
	opened->set_parent(*this, index);
	return 0;
}

void ScalableEndpoint::forget_context(Direction direction, int index) noexcept
{
	const std::lock_guard guard(contexts_lock_);

	contexts_.erase({direction, index});
}

ScalableContext::ScalableContext(Domain &domain, InfoPtr &&info, treadle::Endpoint kernel,
				 Direction direction, Use parent_use)
	: KernelEndpoint(domain, std::move(info),
			 direction == Direction::transmit ? tx_caps_of(*info) : 0,
			 direction == Direction::receive ? rx_caps_of(*info) : 0,
			 std::move(kernel)),
	  direction_(direction)
{
	uses_.push_back(std::move(parent_use));
}

ScalableContext::~ScalableContext()
{
	std::ignore = kernel_.close(); /* first, so that the index can be opened again */
	if (parent_)
		parent_->forget_context(direction_, index_);
}

void ScalableContext::set_parent(ScalableEndpoint &parent, int index) noexcept
{
	parent_ = &parent;
	index_ = index;
}

Av *ScalableContext::vector() const noexcept
{
	return parent_->av();
}

/* Both take the lock of the parent before their own. */
int ScalableContext::bind(::fid *other, std::uint64_t flags)
{
	Av *const av = Av::known(other);

	if (!av || enabled())
		return KernelEndpoint::bind(other, flags);
	if (flags || av->id() != parent_->av_id())
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: a context has the address vector of its endpoint");
	return 0;
}

int ScalableContext::enable()
{
	const AddressVectorId inherited = parent_->av_id();
	const std::lock_guard guard(control_lock());

	if (!enabled())
		bindings_.av = inherited;
	return KernelEndpoint::enable();
}

int open_tx_context(fid_ep *sep, int index, fi_tx_attr *attr, fid_ep **out, void *context) noexcept
{
	return open_context(sep, Direction::transmit, index, attr, &fi_info::tx_attr,
			    &fi_tx_attr::inject_size, context, out);
}

int open_rx_context(fid_ep *sep, int index, fi_rx_attr *attr, fid_ep **out, void *context) noexcept
{
	return open_context(sep, Direction::receive, index, attr, &fi_info::rx_attr,
			    &fi_rx_attr::total_buffered_recv, context, out);
}

} // namespace treadle::fi
