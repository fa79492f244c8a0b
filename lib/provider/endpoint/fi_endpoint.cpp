// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "endpoint/endpoint.h"

#include "info/address.h"
#include "names/av.h"
#include "notify/cntr.h"
#include "notify/cq.h"
#include "notify/eq.h"
#include "connect/pep.h"
#include "transfer/transfer.h"

namespace treadle::fi
{

namespace
{

/* A counter in Bindings, and the flag of fi_ep_bind(3) that sets it. */
struct CounterRole {
	std::uint64_t flag;
	CounterId Bindings::*place;
};
constexpr CounterRole counter_roles[] = {
	{FI_SEND, &Bindings::send},
	{FI_RECV, &Bindings::recv},
	{FI_READ, &Bindings::read},
	{FI_WRITE, &Bindings::write},
	{FI_REMOTE_READ, &Bindings::remote_read},
	{FI_REMOTE_WRITE, &Bindings::remote_write},
};

std::uint64_t all_counter_flags() noexcept
{
	std::uint64_t flags = 0;

	for (const CounterRole &role : counter_roles)
		flags |= role.flag;
	return flags;
}

/* The capabilities of an endpoint opened from this, in one direction; 0: none. */
std::uint64_t direction_caps(const fi_info &info, std::uint64_t context_caps,
			     std::uint64_t directions, std::uint64_t relevant) noexcept
{
	const std::uint64_t caps = narrowed(with_directions(info.caps), context_caps);

	return caps & directions && caps & transfer_caps ? caps & relevant : 0;
}

constexpr treadle_ep_type kernel_type(fi_ep_type type) noexcept
{
	return type == FI_EP_MSG   ? TREADLE_EP_MSG :
	       type == FI_EP_DGRAM ? TREADLE_EP_DGRAM :
				     TREADLE_EP_RDM;
}

/* Sets the number of contexts for a role. An endpoint that is not scalable has one of each kind. */
int set_context_counts(Role role, std::uint64_t caps, fi_ep_attr &attr) noexcept
{
	const auto shared = [](std::size_t count) { return count == FI_SHARED_CONTEXT; };

	for (std::size_t *count : {&attr.tx_ctx_cnt, &attr.rx_ctx_cnt}) {
		if (role == Role::whole && !shared(*count))
			*count = 1;
	}
	if (role == Role::scalable && caps & FI_COLLECTIVE)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "scalable_ep: not with FI_COLLECTIVE");
	if (role == Role::scalable && attr.type == FI_EP_MSG)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "scalable_ep: not of type FI_EP_MSG");
	if (role == Role::scalable && shared(attr.tx_ctx_cnt) && shared(attr.rx_ctx_cnt))
		return REFUSE(
			-FI_EINVAL, FI_LOG_EP_CTRL,
			"scalable_ep: FI_SHARED_CONTEXT in both directions leaves no context");
	return 0;
}

std::span<const std::byte> key_of(const fi_info &info, const Domain &domain) noexcept
{
	const fi_ep_attr *attr = info.ep_attr;

	/* older structures (before 1.5) may end before this field */
	if (!attr || FI_VERSION_LT(domain.api(), FI_VERSION(1, 5)) || !attr->auth_key ||
	    !attr->auth_key_size)
		return domain.auth_key();
	return std::as_bytes(std::span(attr->auth_key, attr->auth_key_size));
}

} // namespace

Endpoint::Endpoint(Domain &domain, InfoPtr info, std::optional<treadle::Endpoint> kernel)
	: kernel_(std::move(kernel)), domain_(domain), domain_use_(domain.users),
	  info_(std::move(info)),
	  tx_caps_(direction_caps(*info_, info_->tx_attr->caps, tx_directions, fi::tx_caps)),
	  rx_caps_(direction_caps(*info_, info_->rx_attr->caps, rx_directions, fi::rx_caps)),
	  directed_(rx_caps_ & FI_DIRECTED_RECV),
	  shares_(shares_tx() || shares_rx() || is_shared_rx())
{
}

Endpoint::~Endpoint()
{
	answered();
	if (parent_) {
		const std::lock_guard guard(parent_->contexts_lock_);
		parent_->contexts_.erase({role_, index_});
	}
}

/* Looks up info.handle, which only a connected endpoint can use. */
int Endpoint::find_handle(const fi_info &info, Domain &domain,
			  std::optional<Handle> &handle) noexcept
{
	handle = domain.fabric().requests.find(info.handle);
	if (!handle || info.ep_attr->type != FI_EP_MSG)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "open: handle: %s",
			      handle ? "only for FI_EP_MSG" :
				       "no passive endpoint or unanswered request of this fabric");
	return 0;
}

Result<treadle::Endpoint> Endpoint::create_kernel(Role role, const fi_info &info, Domain &domain,
						  const Address &address)
{
	const auto type = kernel_type(info.ep_attr->type);
	const auto key = key_of(info, domain);

	return role == Role::scalable ?
		       treadle::Endpoint::create_scalable(domain.kernel(), address, type, key) :
		       treadle::Endpoint::create(domain.kernel(), address, type, key);
}

/* Returns EINVAL if src_addr has not the format addr_format. */
Result<treadle::Endpoint> Endpoint::open_kernel(Role role, const fi_info &info, Domain &domain,
						const std::optional<Handle> &handle)
{
	if (handle && handle->request != RequestId{})
		return treadle::Endpoint::create(domain.kernel(), handle->request,
						 key_of(info, domain));
	const auto create = [&](const Address &at) {
		return create_kernel(role, info, domain, at);
	};
	if (handle)
		return handle->pep->give_address(create);
	const auto source = source_of(info);
	return source ? create(*source) : std::unexpected(Errno(EINVAL));
}

std::shared_ptr<Endpoint> Endpoint::make(Domain &domain, InfoPtr info,
					 std::optional<treadle::Endpoint> kernel)
{
	const bool shares = info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT ||
			    info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT || !kernel;

	if (domain.serialized(shares))
		return std::make_shared<EndpointOf<NoLock>>(domain, std::move(info),
							    std::move(kernel));
	return std::make_shared<EndpointOf<Mutex>>(domain, std::move(info), std::move(kernel));
}

int Endpoint::open(fid_domain *domain, fi_info *info, fid_ep **out, void *context) noexcept
{
	return open_as(Role::whole, domain, info, out, context);
}

int Endpoint::open_as(Role role, fid_domain *domain, fi_info *info, fid_ep **out,
		      void *context) noexcept
{
	Domain &in = Domain::of(domain);

	return guard([&] {
		InfoPtr agreed;
		std::optional<Handle> handle;
		int rc = negotiate(in.kernel().limits(), info, in.api(),
				   role == Role::whole ? "fi_endpoint" : "fi_scalable_ep", agreed);
		if (!rc)
			rc = set_context_counts(role, agreed->caps, *agreed->ep_attr);
		if (!rc && info->handle)
			rc = find_handle(*info, in, handle);
		if (rc)
			return rc;
		auto kernel = open_kernel(role, *info, in, handle);
		if (!kernel)
			return REFUSE(fabric_error(kernel.error().negative()), FI_LOG_EP_CTRL,
				      "open");
		agreed->addr_format = format_of(kernel->address().family, info->addr_format);
		const auto endpoint = make(in, std::move(agreed), std::move(*kernel));
		endpoint->take_role(role);
		if (handle && handle->request != RequestId{})
			endpoint->answers(info->handle, *handle);
		Port *port = make_port(endpoint, context);
		if (role == Role::scalable)
			port->fid.fclass = FI_CLASS_SEP;
		*out = port;
		return 0;
	});
}

Port *Endpoint::make_port(const std::shared_ptr<Endpoint> &endpoint, void *context)
{
	Endpoint &self = *endpoint;
	const std::lock_guard guard(self.control_lock_);

	/* Reserve first, so that nothing fails once the port exists. */
	self.ports_.reserve(self.ports_.size() + 1);
	Port *port = self.new_port(endpoint, context);
	self.ports_.push_back(port);
	port->update();
	return port;
}

/* --- binding ------------------------------------------------------------------------- */

int Endpoint::bind(::fid *other, std::uint64_t flags)
{
	/*
	 * Before taking its own lock: the parent's lock is taken outside it when a context is
	 * opened.
	 */
	const AddressVectorId parents_av = parent_ ? parent_->bound_av() : AddressVectorId{};
	const std::lock_guard guard(control_lock_);

	if (enabled_)
		return REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_CTRL,
			      "bind: the endpoint is enabled already");
	if (role_ == Role::scalable && !shares_ && other->fclass != FI_CLASS_AV)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: a scalable endpoint has an address vector, its contexts the "
			      "rest");
	uses_.reserve(uses_.size() + 1);
	if (Av *const av = Av::known(other)) {
		if (!parent_)
			return bind_av(*av, flags);
		if (!flags && av->id() == parents_av)
			return 0;
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: a context has the address vector of its endpoint");
	}
	if (Cq *const cq = Cq::known(other))
		return bind_cq(*cq, flags);
	if (Cntr *const cntr = Cntr::known(other))
		return bind_cntr(*cntr, flags);
	if (Stx *const stx = Stx::known(other))
		return bind_shared_tx(*stx, flags);
	if (Port *const srx = Port::known(other); srx && srx->endpoint().is_shared_rx())
		return bind_shared_rx(*srx, flags);
	if (Eq *const eq = Eq::known(other)) {
		if (flags)
			return REFUSE(-FI_EBADFLAGS, FI_LOG_EP_CTRL,
				      "bind: flags for an event queue: 0x%" PRIx64, flags);
		if (eq_ || source_) /* the domain's, if an fi_enable got that far */
			return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "bind: has an event queue");
		eq_ = eq;
		uses_.emplace_back(eq_->users);
		return 0;
	}
	return Port::not_bound_to(*other);
}

int Endpoint::bind_av(Av &av, std::uint64_t flags)
{
	if (&av.domain() != &domain_)
		return REFUSE(-FI_EDOMAIN, FI_LOG_EP_CTRL,
			      "bind: address vector of another domain");
	if (flags)
		return REFUSE(-FI_EBADFLAGS, FI_LOG_EP_CTRL,
			      "bind: flags for an address vector: 0x%" PRIx64, flags);
	if (connected())
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: a connected endpoint knows its peer: no address vector");
	if (bindings_.av != AddressVectorId{})
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "bind: has an address vector");
	bindings_.av = av.id();
	av_ = &av;
	uses_.emplace_back(av.users);
	return 0;
}

int Endpoint::bind_cq(Cq &cq, std::uint64_t flags)
{
	const bool selective = flags & FI_SELECTIVE_COMPLETION;

	if (&cq.domain() != &domain_)
		return REFUSE(-FI_EDOMAIN, FI_LOG_EP_CTRL,
			      "bind: completion queue of another domain");
	if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) ||
	    !(flags & (FI_TRANSMIT | FI_RECV)))
		return REFUSE(-FI_EBADFLAGS, FI_LOG_EP_CTRL,
			      "bind: flags for a completion queue: 0x%" PRIx64, flags);
	if ((flags & FI_TRANSMIT && bindings_.tx_cq != CompletionQueueId{}) ||
	    (flags & FI_RECV && bindings_.rx_cq != CompletionQueueId{}))
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: has a completion queue for this direction");
	if (flags & FI_TRANSMIT) {
		bindings_.tx_cq = cq.id();
		tx_cq_ = &cq;
		tx_selective_ = selective;
	}
	if (flags & FI_RECV) {
		bindings_.rx_cq = cq.id();
		rx_selective_ = selective;
	}
	uses_.emplace_back(cq.users);
	return 0;
}

int Endpoint::bind_cntr(Cntr &cntr, std::uint64_t flags)
{
	if (&cntr.domain() != &domain_)
		return REFUSE(-FI_EDOMAIN, FI_LOG_EP_CTRL, "bind: counter of another domain");
	if (flags & ~all_counter_flags())
		return REFUSE(-FI_EBADFLAGS, FI_LOG_EP_CTRL,
			      "bind: flags for a counter: 0x%" PRIx64, flags);
	if (!flags) /* no operation is to be counted */
		return 0;
	/*
	 * Ignore remote flags without FI_RMA_EVENT: programs bind one counter for all operations.
	 */
	if (!(rx_caps_ & FI_RMA_EVENT))
		flags &= ~(FI_REMOTE_READ | FI_REMOTE_WRITE);
	if (!flags)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: remote operations count only with FI_RMA_EVENT");
	for (const CounterRole &role : counter_roles) {
		if (flags & role.flag && bindings_.*role.place != CounterId{})
			return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
				      "bind: has a counter for this operation");
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
	if (connected() && !eq())
		return REFUSE(-FI_ENOEQ, FI_LOG_EP_CTRL,
			      "enable: no event queue is bound, nor one to its domain");
	if (!connected() && bindings_.av == AddressVectorId{})
		return REFUSE(-FI_ENOAV, FI_LOG_EP_CTRL, "enable: no address vector is bound");
	/* A target of RMA may lack receive reporting; it can't receive then. */
	const bool receives = rx_caps_ & FI_RECV &&
			      (shares_rx() || !(rx_caps_ & (FI_REMOTE_READ | FI_REMOTE_WRITE)));
	if ((tx_caps_ && !reports_tx()) || (receives && !reports_rx()))
		return REFUSE(-FI_ENOCQ, FI_LOG_EP_CTRL,
			      "enable: no completion queue or counter is bound for %s",
			      tx_caps_ && !reports_tx() ? "FI_TRANSMIT" : "FI_RECV");
	if ((tx_caps_ && shares_tx() && !shared_tx_) || (rx_caps_ && shares_rx() && !shared_rx_))
		return REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_CTRL,
			      "enable: no shared context is bound for %s",
			      tx_caps_ && shares_tx() && !shared_tx_ ? "FI_TRANSMIT" : "FI_RECV");
	return shared_rx_ ? shared_rx_->check_receiver(*this) : 0;
}

int Endpoint::enable_kernel()
{
	if (!kernel_) /* a shared context is enabled from the start */
		return 0;
	if (role_ != Role::scalable)
		return kernel_->enable(bindings_);
	if (!shares_) /* its contexts are enabled instead */
		return 0;
	auto context = shares_tx() ? kernel_->transmit_context() : kernel_->receive_context(0);
	if (!context)
		return context.error().negative();
	const int rc = context->enable(bindings_);
	if (!rc)
		direct_ = std::move(*context);
	return rc;
}

AddressVectorId Endpoint::bound_av()
{
	const std::lock_guard guard(control_lock_);

	return bindings_.av;
}

int Endpoint::enable()
{
	/*
	 * Before taking its own lock: the parent's lock is taken outside it when a context is
	 * opened.
	 */
	const AddressVectorId inherited = parent_ ? parent_->bound_av() : AddressVectorId{};
	const std::lock_guard guard(control_lock_);

	if (enabled_)
		return 0;
	if (parent_)
		bindings_.av = inherited;
	/* of two endpoints of one shared context that are enabled at once, one sees the other */
	std::unique_lock<std::recursive_mutex> shared_guard;
	if (shared_rx_)
		shared_guard = std::unique_lock(shared_rx_->control_lock_);
	int rc = check_bindings();
	if (rc)
		return rc;
	bindings_.flags = rx_caps_ & FI_SOURCE ? TREADLE_EP_SOURCE : 0;
	if (rx_caps_ & FI_SOURCE && rx_caps_ & FI_SOURCE_ERR)
		bindings_.flags |= TREADLE_EP_SOURCE_ERR;
	/* fi_getinfo(3): peers may only do what was asked for and the modifiers allow */
	for (const auto &[cap, denial] :
	     {std::pair{FI_RMA, TREADLE_EP_NO_RMA}, std::pair{FI_ATOMIC, TREADLE_EP_NO_ATOMIC},
	      std::pair{FI_REMOTE_READ, TREADLE_EP_NO_REMOTE_READ},
	      std::pair{FI_REMOTE_WRITE, TREADLE_EP_NO_REMOTE_WRITE}}) {
		if (!(rx_caps_ & cap))
			bindings_.flags |= denial;
	}
	/* A receive in a shared context doesn't know its endpoint when it is posted. */
	if (shared_rx_ && !rx_selective_)
		bindings_.flags |= TREADLE_EP_RECV_COMPLETION;
	rc = connected() ? bind_events() : 0;
	if (!rc)
		rc = make_rings(bindings_);
	if (!rc)
		rc = enable_kernel();
	if (rc)
		return REFUSE(fabric_error(rc), FI_LOG_EP_CTRL, "enable");
	enabled_ = true;
	if (shared_rx_)
		shared_rx_->sort_receivers();
	update_ports();
	return 0;
}

void Endpoint::update_ports() noexcept
{
	const std::lock_guard guard(control_lock_);

	for (Port *port : ports_)
		port->update();
}

int Endpoint::cancel(void *context) noexcept
{
	if (kernel_ && !enabled_)
		return REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_CTRL,
			      "cancel: the endpoint is not enabled");
	if (!context)
		return REFUSE(-FI_ENOENT, FI_LOG_EP_CTRL,
			      "cancel: what has no context can't be canceled");
	if (kernel_) { /* receives in a shared context were posted there */
		const Side side = shared_rx_ ? Side::transmit : Side::both;
		int rc = cancel(context, side);
		if (rc == -ENOENT) { /* requests that FI_MORE has put off are pending, too */
			flush();
			rc = cancel(context, side);
		}
		return rc == -ENOENT && groups.cancel(context) ? 0 : fabric_error(rc);
	}
	/* Any endpoint can cancel a posted receive, but only its own endpoint an armed one. */
	const std::lock_guard guard(receivers_lock_);
	int rc = -EOPNOTSUPP;
	for (Endpoint *receiver : receivers_) {
		if (!receiver->enabled_)
			continue;
		rc = receiver->cancel(context, Side::receive);
		if (rc != -ENOENT)
			return fabric_error(rc);
	}
	return rc == -ENOENT ?
		       -FI_ENOENT :
		       REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_CTRL, "cancel: no endpoint receives here");
}

int Endpoint::cancel(void *context, Side side) noexcept
{
	auto &posted_by = direct_ ? direct_ : kernel_;
	return posted_by ? posted_by->cancel(address_of(context), side) : -ENOENT;
}

int Endpoint::set_name(const void *addr, std::size_t size)
{
	const auto address = decode(addr_format(), addr, size);

	const std::lock_guard guard(control_lock_);
	const std::lock_guard contexts_guard(contexts_lock_);
	if (!kernel_)
		return REFUSE(-FI_ENOSYS, FI_LOG_EP_CTRL,
			      "setname: a shared context has no address");
	if (enabled_ || handle_ || parent_ || !contexts_.empty() || has_regions_)
		return REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_CTRL,
			      "setname: the endpoint is enabled already, accepts a connection, has "
			      "or is a context, or a region was bound to it");
	if (!address)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "setname: not an address of its format");
	const EndpointId before = kernel_->id();
	const int rc = rename(*kernel_, *address, [this](const Address &to) {
		return create_kernel(role_, *info_, domain_, to);
	});
	if (kernel_->id() != before) /* drop events bound by an fi_enable that failed */
		source_ = {};
	return rc;
}

int Endpoint::bind_region(MemoryRegion &region) noexcept
{
	const std::lock_guard guard(control_lock_);
	const int rc = region.bind(kernel_ ? kernel_->id() : EndpointId{});

	has_regions_ |= !rc;
	return rc;
}

int Endpoint::get_name(void *addr, std::size_t *size)
{
	const std::lock_guard guard(control_lock_);
	const std::size_t room = *size;

	if (!kernel_)
		return REFUSE(-FI_ENOSYS, FI_LOG_EP_CTRL,
			      "getname: a shared context has no address");
	return copy_out(encode(addr_format(), kernel_->address()), addr, size) ?
		       0 :
		       too_small(FI_LOG_EP_CTRL, "getname", room, *size);
}

} // namespace treadle::fi
