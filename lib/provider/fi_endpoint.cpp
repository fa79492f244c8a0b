// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "endpoint.h"

#include "address.h"
#include "av.h"
#include "cntr.h"
#include "cq.h"
#include "eq.h"
#include "transfer.h"

namespace treadle::fi
{

namespace
{

constexpr auto subsys = FI_LOG_EP_CTRL;

constexpr std::uint64_t message_caps = FI_MSG | FI_TAGGED;

/* A counter that has a place in Bindings, and the flag of fi_ep_bind(3) that puts it there. */
struct CounterRole {
	std::uint64_t flag;
	CounterId Bindings::*place;
};
constexpr CounterRole counter_roles[] = {
	{FI_SEND, &Bindings::send},
	{FI_RECV, &Bindings::recv},
	{FI_READ, &Bindings::read},
	{FI_WRITE, &Bindings::write},
};

std::uint64_t all_counter_flags() noexcept
{
	std::uint64_t flags = 0;

	for (const CounterRole &role : counter_roles)
		flags |= role.flag;
	return flags;
}

/* What an endpoint opened from this may do in one direction; 0: nothing. */
std::uint64_t direction_caps(const fi_info &info, std::uint64_t context_caps,
			     std::uint64_t direction, std::uint64_t relevant) noexcept
{
	std::uint64_t caps = with_directions(info.caps);

	if (context_caps)
		caps &= with_directions(context_caps);
	return caps & direction && caps & message_caps ? caps & relevant : 0;
}

/* Endpoints are created where their info says; without a source, at any port of the loopback. */
std::optional<Address> source_of(const fi_info &info) noexcept
{
	if (!info.src_addr)
		return loopback_of(info.addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET);
	return decode(info.addr_format, info.src_addr, info.src_addrlen);
}

std::span<const std::byte> key_of(const fi_info &info, const Domain &domain) noexcept
{
	const fi_ep_attr *attr = info.ep_attr;

	if (!attr || !attr->auth_key || !attr->auth_key_size ||
	    FI_VERSION_LT(domain.api(), FI_VERSION(1, 5)))
		return domain.auth_key();
	return std::as_bytes(std::span(attr->auth_key, attr->auth_key_size));
}

} // namespace

Endpoint::Endpoint(Domain &domain, InfoPtr info, std::optional<treadle::Endpoint> kernel)
	: kernel_(std::move(kernel)), domain_(domain), domain_use_(domain.users),
	  info_(std::move(info)),
	  tx_caps_(direction_caps(*info_, info_->tx_attr->caps, FI_SEND, fi::tx_caps)),
	  rx_caps_(direction_caps(*info_, info_->rx_attr->caps, FI_RECV, fi::rx_caps)),
	  shares_(shares_tx() || shares_rx() || is_shared_rx())
{
}

Endpoint::~Endpoint()
{
	if (!shared_rx_)
		return;
	const std::lock_guard guard(shared_rx_->receivers_lock_);
	std::erase(shared_rx_->receivers_, this);
}

int Endpoint::open(fid_domain *domain, fi_info *info, fid_ep **out, void *context) noexcept
{
	Domain &in = Domain::of(domain);

	if (!info || !info->ep_attr || !info->tx_attr || !info->rx_attr)
		return REFUSE(-FI_EINVAL, subsys, "open: needs a fi_info with all attributes");
	if (info->ep_attr->type != FI_EP_RDM)
		return REFUSE(-FI_EINVAL, subsys, "open: ep_attr->type is not FI_EP_RDM");
	return guard([&] {
		const InfoPtr all = offer(in.kernel().limits());
		if (!all)
			return -FI_ENOMEM;
		if (!agrees(*all, *info, in.api(), "fi_endpoint", FI_LOG_WARN))
			return -FI_EINVAL;
		InfoPtr settled(dup_info(all.get()));
		if (!settled)
			return -FI_ENOMEM;
		narrow(*settled, info, in.api());
		settled->caps = info->caps;
		settled->tx_attr->caps = info->tx_attr->caps;
		settled->rx_attr->caps = info->rx_attr->caps;

		const auto source = source_of(*info);
		if (!source)
			return REFUSE(-FI_EINVAL, subsys,
				      "open: src_addr has not the format addr_format");
		auto kernel = treadle::Endpoint::create(in.kernel(), *source, TREADLE_EP_RDM,
							key_of(*info, in));
		if (!kernel)
			return REFUSE(fabric_error(kernel.error().negative()), subsys, "open at %s",
				      to_string(*source).c_str());

		std::shared_ptr<Endpoint> endpoint;
		const bool shares = settled->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT ||
				    settled->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
		if (in.serialized() && !shares)
			endpoint = std::make_shared<EndpointOf<NoLock>>(in, std::move(settled),
									std::move(*kernel));
		else
			endpoint = std::make_shared<EndpointOf<Mutex>>(in, std::move(settled),
								       std::move(*kernel));
		*out = make_port(endpoint, context);
		return 0;
	});
}

Port *Endpoint::make_port(const std::shared_ptr<Endpoint> &endpoint, void *context)
{
	Endpoint &self = *endpoint;

	/* First, so that nothing fails once the port is there. */
	self.ports_.reserve(self.ports_.size() + 1);
	Port *port = self.new_port(endpoint, context);
	self.ports_.push_back(port);
	port->update();
	return port;
}

/* --- binding ------------------------------------------------------------------------- */

int Endpoint::bind(::fid *other, std::uint64_t flags)
{
	if (enabled_)
		return REFUSE(-FI_EOPBADSTATE, subsys, "bind: the endpoint is enabled already");
	uses_.reserve(uses_.size() + 1);
	switch (other->fclass) {
	case FI_CLASS_AV:
		return bind_av(other, flags);
	case FI_CLASS_CQ:
		return bind_cq(other, flags);
	case FI_CLASS_CNTR:
		return bind_cntr(other, flags);
	case FI_CLASS_STX_CTX:
		return bind_shared_tx(other, flags);
	case FI_CLASS_SRX_CTX:
		return bind_shared_rx(other, flags);
	case FI_CLASS_EQ:
		if (has_eq_)
			return REFUSE(-FI_EINVAL, subsys, "bind: has an event queue");
		has_eq_ = true;
		uses_.emplace_back(Eq::of(other).users);
		return 0;
	default:
		return REFUSE(-FI_EINVAL, subsys, "bind: not to an object of class %zu",
			      other->fclass);
	}
}

int Endpoint::bind_av(::fid *f, std::uint64_t flags)
{
	Av &av = Av::of(f);

	if (&av.domain() != &domain_)
		return REFUSE(-FI_EDOMAIN, subsys, "bind: address vector of another domain");
	if (flags)
		return REFUSE(-FI_EBADFLAGS, subsys,
			      "bind: flags for an address vector: 0x%" PRIx64, flags);
	if (bindings_.av != AddressVectorId{})
		return REFUSE(-FI_EINVAL, subsys, "bind: has an address vector");
	bindings_.av = av.id();
	uses_.emplace_back(av.users);
	return 0;
}

int Endpoint::bind_cq(::fid *f, std::uint64_t flags)
{
	Cq &cq = Cq::of(f);
	const bool selective = flags & FI_SELECTIVE_COMPLETION;

	if (&cq.domain() != &domain_)
		return REFUSE(-FI_EDOMAIN, subsys, "bind: completion queue of another domain");
	if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) ||
	    !(flags & (FI_TRANSMIT | FI_RECV)))
		return REFUSE(-FI_EBADFLAGS, subsys,
			      "bind: flags for a completion queue: 0x%" PRIx64, flags);
	if ((flags & FI_TRANSMIT && bindings_.tx_cq != CompletionQueueId{}) ||
	    (flags & FI_RECV && bindings_.rx_cq != CompletionQueueId{}))
		return REFUSE(-FI_EINVAL, subsys,
			      "bind: has a completion queue for this direction");
	if (flags & FI_TRANSMIT) {
		bindings_.tx_cq = cq.id();
		tx_selective_ = selective;
	}
	if (flags & FI_RECV) {
		bindings_.rx_cq = cq.id();
		rx_selective_ = selective;
	}
	uses_.emplace_back(cq.users);
	return 0;
}

int Endpoint::bind_cntr(::fid *f, std::uint64_t flags)
{
	Cntr &cntr = Cntr::of(f);

	if (&cntr.domain() != &domain_)
		return REFUSE(-FI_EDOMAIN, subsys, "bind: counter of another domain");
	if (flags & (FI_REMOTE_READ | FI_REMOTE_WRITE))
		return REFUSE(-FI_EINVAL, subsys,
			      "bind: remote operations count only with FI_RMA_EVENT");
	if (flags & ~all_counter_flags() || !flags)
		return REFUSE(-FI_EBADFLAGS, subsys, "bind: flags for a counter: 0x%" PRIx64,
			      flags);
	for (const CounterRole &role : counter_roles) {
		if (flags & role.flag && bindings_.*role.place != CounterId{})
			return REFUSE(-FI_EINVAL, subsys, "bind: has a counter for this operation");
	}
	for (const CounterRole &role : counter_roles) {
		if (flags & role.flag)
			bindings_.*role.place = cntr.id();
	}
	uses_.emplace_back(cntr.users);
	return 0;
}

/* --- states and names ---------------------------------------------------------------- */

int Endpoint::check_bindings() const
{
	if (bindings_.av == AddressVectorId{})
		return REFUSE(-FI_ENOAV, subsys, "enable: no address vector is bound");
	if ((tx_caps_ && bindings_.tx_cq == CompletionQueueId{}) ||
	    (rx_caps_ && bindings_.rx_cq == CompletionQueueId{}))
		return REFUSE(-FI_ENOCQ, subsys, "enable: no completion queue is bound for %s",
			      tx_caps_ && bindings_.tx_cq == CompletionQueueId{} ? "FI_TRANSMIT" :
										   "FI_RECV");
	if ((tx_caps_ && shares_tx() && !shared_tx_) || (rx_caps_ && shares_rx() && !shared_rx_))
		return REFUSE(-FI_EOPBADSTATE, subsys, "enable: no shared context is bound for %s",
			      tx_caps_ && shares_tx() && !shared_tx_ ? "FI_TRANSMIT" : "FI_RECV");
	return shared_rx_ ? shared_rx_->check_receiver(*this) : 0;
}

int Endpoint::enable()
{
	if (enabled_)
		return 0;
	int rc = check_bindings();
	if (rc)
		return rc;
	bindings_.flags = rx_caps_ & FI_SOURCE ? TREADLE_EP_SOURCE : 0;
	if (rx_caps_ & FI_SOURCE && rx_caps_ & FI_SOURCE_ERR)
		bindings_.flags |= TREADLE_EP_SOURCE_ERR;
	rc = make_rings(bindings_);
	if (!rc && kernel_) /* a shared context is enabled from the start */
		rc = kernel_->enable(bindings_);
	if (rc)
		return REFUSE(fabric_error(rc), subsys, "enable");
	enabled_ = true;
	update_ports();
	if (shared_rx_ && rx_selective_) {
		/* Whose receive it will be is not known when it is posted: one may be, so it is asked for. */
		shared_rx_->rx_selective_ = true;
		shared_rx_->update_ports();
	}
	return 0;
}

void Endpoint::update_ports() noexcept
{
	for (Port *port : ports_)
		port->update();
}

int Endpoint::cancel(void *context) noexcept
{
	if (kernel_)
		return enabled_ ? fabric_error(kernel_->cancel(address_of(context))) :
				  -FI_EOPBADSTATE;
	const std::lock_guard guard(receivers_lock_);
	for (Endpoint *receiver : receivers_) {
		if (receiver->enabled_)
			return receiver->cancel(context);
	}
	return REFUSE(-FI_EOPBADSTATE, subsys, "cancel: no endpoint receives here");
}

int Endpoint::set_name(const void *addr, std::size_t size)
{
	const auto address = decode(domain_.addr_format(), addr, size);

	if (enabled_) /* a shared context always is */
		return REFUSE(-FI_EOPBADSTATE, subsys, "setname: the endpoint is enabled already");
	if (!address)
		return REFUSE(-FI_EINVAL, subsys, "setname: not an address of the domain's format");
	auto kernel = treadle::Endpoint::create(domain_.kernel(), *address, TREADLE_EP_RDM,
						key_of(*info_, domain_));
	if (!kernel)
		return REFUSE(fabric_error(kernel.error().negative()), subsys, "setname: %s",
			      to_string(*address).c_str());
	kernel_ = std::move(*kernel);
	return 0;
}

int Endpoint::get_name(void *addr, std::size_t *size) const
{
	if (!kernel_)
		return REFUSE(-FI_EINVAL, subsys, "getname: a shared context has no address");
	return copy_out(encode(domain_.addr_format(), kernel_->address()), addr, size) ?
		       0 :
		       -FI_ETOOSMALL;
}

} // namespace treadle::fi
