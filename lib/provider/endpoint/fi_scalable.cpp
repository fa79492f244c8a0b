// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Scalable endpoints: fi_endpoint(3), "SCALABLE ENDPOINTS". Each context is a kernel endpoint with
 * one direction, at the address of the scalable one. The scalable endpoint has a context for itself
 * if one direction is a shared context and the other has several.
 */
#include <cstddef>
#include <cstring>

#include "info/negotiate.h"
#include "transfer/transfer.h"

namespace treadle::fi
{

namespace
{

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

} // namespace

int Endpoint::open_scalable(fid_domain *domain, fi_info *info, fid_ep **out, void *context) noexcept
{
	return open_as(Role::scalable, domain, info, out, context);
}

void Endpoint::take_role(Role role) noexcept
{
	/* A scalable endpoint only has directions that use a shared context. */
	role_ = role;
	if (role == Role::transmit || (role == Role::scalable && !shares_rx()))
		rx_caps_ = 0;
	if (role == Role::receive || (role == Role::scalable && !shares_tx()))
		tx_caps_ = 0;
}

int Endpoint::open_context(Port &sep, Role role, int index, const fi_info &asked, void *context,
			   Port **out)
{
	const bool transmit = role == Role::transmit;
	const char *const call = transmit ? "fi_tx_context" : "fi_rx_context";
	const auto count = transmit ? info_->ep_attr->tx_ctx_cnt : info_->ep_attr->rx_ctx_cnt;
	InfoPtr agreed;

	if (role_ != Role::scalable || !kernel_)
		return REFUSE(-FI_ENOSYS, FI_LOG_EP_CTRL, "%s: not of a scalable endpoint", call);
	if (count == FI_SHARED_CONTEXT)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "%s: it has a shared one", call);
	if (index < 0 || static_cast<std::size_t>(index) >= count)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "%s: index %d: the endpoint has %zu",
			      call, index, count);
	const int rc = negotiate(domain_.kernel().limits(), &asked, domain_.api(), call, agreed);
	if (rc)
		return rc;
	agreed->ep_attr->tx_ctx_cnt = agreed->ep_attr->rx_ctx_cnt = 1;

	std::set<std::pair<Role, int>> place{{role, index}}; /* so that nothing fails at the end */
	const std::lock_guard guard(contexts_lock_);
	if (contexts_.contains({role, index}))
		return REFUSE(-FI_EBUSY, FI_LOG_EP_CTRL, "%s: index %d is open", call, index);
	auto kernel = transmit ? kernel_->transmit_context() :
				 kernel_->receive_context(static_cast<std::uint32_t>(index));
	if (!kernel)
		return REFUSE(fabric_error(kernel.error().negative()), FI_LOG_EP_CTRL, "%s", call);
	const auto endpoint = make(domain_, std::move(agreed), std::move(*kernel));
	endpoint->take_role(role);
	if (!endpoint->tx_caps_ && !endpoint->rx_caps_)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "%s: no capability for it", call);
	endpoint->min_multi_recv_ = min_multi_recv();
	endpoint->uses_.emplace_back(sep.users);
	*out = make_port(endpoint, context);
	(*out)->fid.fclass = transmit ? FI_CLASS_TX_CTX : FI_CLASS_RX_CTX;
	contexts_.merge(place);
	endpoint->index_ = index;
	endpoint->parent_ = this; /* its destructor removes it from contexts_ from now on */
	return 0;
}

template <class Attr>
int Endpoint::open_context(fid_ep *sep, Role role, int index, Attr *attr, Attr *fi_info::*side,
			   std::size_t Attr::*buffers, void *context, fid_ep **out) noexcept
{
	return guard([&] {
		Port &port = Port::of(sep);
		const std::uint32_t api = port.endpoint().domain().api();
		fi_info asked = port.endpoint().info();
		Attr own = inherited(*(asked.*side), attr, buffers, api);
		Port *opened;

		asked.*side = &own;
		const int rc =
			port.endpoint().open_context(port, role, index, asked, context, &opened);
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

int Endpoint::open_tx_context(fid_ep *sep, int index, fi_tx_attr *attr, fid_ep **out,
			      void *context) noexcept
{
	return open_context(sep, Role::transmit, index, attr, &fi_info::tx_attr,
			    &fi_tx_attr::inject_size, context, out);
}

int Endpoint::open_rx_context(fid_ep *sep, int index, fi_rx_attr *attr, fid_ep **out,
			      void *context) noexcept
{
	return open_context(sep, Role::receive, index, attr, &fi_info::rx_attr,
			    &fi_rx_attr::total_buffered_recv, context, out);
}

} // namespace treadle::fi
