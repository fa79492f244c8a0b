// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "endpoint/endpoint.h"

#include <algorithm>

#include "endpoint/connected_endpoint.h"
#include "endpoint/kernel_endpoint.h"
#include "endpoint/port.h"
#include "endpoint/shared_receive.h"
#include "connect/pep.h"
#include "info/negotiate.h"
#include "info/offer.h"
#include "names/av.h"
#include "notify/cntr.h"
#include "notify/cq.h"

namespace treadle::fi
{

namespace
{

/* The capabilities of an endpoint opened from this, in one direction; 0: none. */
std::uint64_t direction_caps(const fi_info &info, std::uint64_t context_caps,
			     std::uint64_t directions, std::uint64_t relevant) noexcept
{
	const std::uint64_t caps = narrowed(with_directions(info.caps), context_caps);

	return caps & directions && caps & transfer_caps ? caps & relevant : 0;
}

/*
 * Slots of the largest operation: one, and one for each vector of buffers, ranges, results and
 * comparands.
 */
constexpr std::uint32_t most_slots(std::uint64_t caps) noexcept
{
	if (caps & FI_ATOMIC && caps & FI_READ)
		return 5;
	return caps & (FI_RMA | FI_ATOMIC) ? 3 : 2;
}

int not_connected(const char *call) noexcept
{
	return REFUSE(-FI_ENOSYS, FI_LOG_EP_CTRL, "%s: only for FI_EP_MSG", call);
}

/* Returns EINVAL if src_addr has not the format addr_format. */
Result<treadle::Endpoint> open_kernel(const fi_info &info, Domain &domain,
				      const std::optional<Handle> &handle)
{
	const auto key = key_of(info, domain);

	if (handle && handle->request != RequestId{})
		return treadle::Endpoint::create(domain.kernel(), handle->request, key);
	const auto create = [&](const Address &at) {
		return treadle::Endpoint::create(domain.kernel(), at, kernel_type(info), key);
	};
	if (handle)
		return handle->pep->give_address(create);
	const auto source = source_of(info);
	return source ? create(*source) : std::unexpected(from_errno(EINVAL));
}

} // namespace

/* --- endpoints of all roles ------------------------------------------------------------ */

std::uint64_t tx_caps_of(const fi_info &info) noexcept
{
	return direction_caps(info, info.tx_attr->caps, tx_directions, tx_caps);
}

std::uint64_t rx_caps_of(const fi_info &info) noexcept
{
	return direction_caps(info, info.rx_attr->caps, rx_directions, rx_caps);
}

Endpoint::Endpoint(Domain &domain, InfoPtr &&info, std::uint64_t tx_caps, std::uint64_t rx_caps,
		   bool shares)
	: domain_use_(domain.users), domain_(domain), info_(std::move(info)), tx_caps_(tx_caps),
	  rx_caps_(rx_caps), directed_(rx_caps & FI_DIRECTED_RECV),
	  poll_(poll_idle(domain.kernel().limits())),
	  rings_(Rings::make(domain.serialized(shares))), groups_(EndpointGroups::make())
{
}

int Endpoint::poll(std::uint32_t idle) noexcept
{
	const std::lock_guard guard(control_lock_);

	if (idle > TREADLE_MAX_IDLE || !tx_caps_ || shares_tx())
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "poll_ep: too long, or no transmit ring of its own");
	if (!(domain_.kernel().limits().features & TREADLE_FEATURE_TX_POLLED))
		return REFUSE(-FI_EOPNOTSUPP, FI_LOG_EP_CTRL, "poll_ep: the module does not poll");
	if (enabled_)
		return REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_CTRL, "poll_ep: the endpoint is enabled");
	poll_ = idle;
	return 0;
}

int Endpoint::make_rings(std::uint32_t rx_flags) noexcept
{
	const Context &context = domain_.kernel();
	/* Without, it serves only RMA and atomics. */
	const bool receives = rx_caps_ & (FI_MSG | FI_TAGGED | FI_COLLECTIVE);
	int rc = 0;

	if (tx_caps_ && !shares_tx())
		rc = rings_->make_tx(context, *info_->tx_attr, poll_, bindings_);
	if (!rc && receives && !shares_rx())
		rc = rings_->make_rx(context, *info_->rx_attr, rx_flags, bindings_);
	return rc;
}

void Endpoint::set_enabled() noexcept
{
	enabled_ = true;
	for (Port *port : ports_)
		port->update();
}

Port *Endpoint::make_port(const std::shared_ptr<Endpoint> &endpoint, void *context,
			  std::size_t fclass)
{
	Endpoint &self = *endpoint;
	const std::lock_guard guard(self.control_lock_);

	/* Reserve first, so that nothing fails once the port exists. */
	self.ports_.reserve(self.ports_.size() + 1);
	Port *port = self.rings_->new_port(endpoint, context);
	port->fid.fclass = fclass;
	self.ports_.push_back(port);
	port->update();
	return port;
}

ssize_t Endpoint::tx_room() noexcept
{
	return enabled_ ? ssize_t{rings_->tx_room() / most_slots(tx_caps_)} : -FI_EOPBADSTATE;
}

ssize_t Endpoint::rx_room() noexcept
{
	return enabled_ ? ssize_t{rings_->rx_room() / most_slots(0)} : -FI_EOPBADSTATE;
}

int Endpoint::connect(const void *, std::span<const std::byte>)
{
	return not_connected("connect");
}

int Endpoint::accept(std::span<const std::byte>)
{
	return not_connected("accept");
}

int Endpoint::shutdown(std::uint64_t) noexcept
{
	return not_connected("shutdown");
}

int Endpoint::get_peer(void *, std::size_t *)
{
	return not_connected("getpeer");
}

/* --- endpoints with an address --------------------------------------------------------- */

treadle_ep_type kernel_type(const fi_info &info) noexcept
{
	switch (info.ep_attr->type) {
	case FI_EP_MSG:
		return TREADLE_EP_MSG;
	case FI_EP_DGRAM:
		return TREADLE_EP_DGRAM;
	default:
		return TREADLE_EP_RDM;
	}
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

int find_handle(const fi_info &info, Domain &domain, std::optional<Handle> &handle) noexcept
{
	handle = domain.fabric().requests.find(info.handle);
	if (!handle || info.ep_attr->type != FI_EP_MSG)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "open: handle: %s",
			      handle ? "only for FI_EP_MSG" :
				       "no passive endpoint or unanswered request of this fabric");
	return 0;
}

int open_endpoint(fid_domain *f, fi_info *info, fid_ep **out, void *context) noexcept
{
	Domain &domain = Domain::of(f);

	return guard([&] {
		InfoPtr agreed;
		std::optional<Handle> handle;
		int rc = negotiate(domain.kernel().limits(), info, domain.api(), "fi_endpoint",
				   agreed);
		if (!rc && info->handle)
			rc = find_handle(*info, domain, handle);
		if (rc)
			return rc;
		/* An endpoint that is not scalable has one context of each kind. */
		for (std::size_t *count :
		     {&agreed->ep_attr->tx_ctx_cnt, &agreed->ep_attr->rx_ctx_cnt}) {
			if (*count != FI_SHARED_CONTEXT)
				*count = 1;
		}
		auto kernel = open_kernel(*info, domain, handle);
		if (!kernel)
			return REFUSE(fabric_error(negative(kernel.error())), FI_LOG_EP_CTRL,
				      "open");
		agreed->addr_format = format_of(kernel->address().family, info->addr_format);
		std::shared_ptr<Endpoint> endpoint;
		if (agreed->ep_attr->type == FI_EP_MSG)
			endpoint = std::make_shared<ConnectedEndpoint>(domain, std::move(agreed),
								       std::move(*kernel), handle);
		else
			endpoint = std::make_shared<UnconnectedEndpoint>(domain, std::move(agreed),
									 std::move(*kernel));
		*out = Endpoint::make_port(endpoint, context);
		return 0;
	});
}

KernelEndpoint::KernelEndpoint(Domain &domain, InfoPtr &&info, std::uint64_t tx_caps,
			       std::uint64_t rx_caps, treadle::Endpoint kernel)
	: Endpoint(domain, std::move(info), tx_caps, rx_caps, shares_context(*info)),
	  kernel_(std::move(kernel))
{
}

bool KernelEndpoint::reports_rx() const noexcept
{
	return bindings_.rx_cq != CompletionQueueId{} || bindings_.recv != CounterId{};
}

ssize_t KernelEndpoint::tx_room() noexcept
{
	const ssize_t left = Endpoint::tx_room();

	return tx_cq_ ? std::min(left, ssize_t{tx_cq_->room()}) : left;
}

/* --- enabling -------------------------------------------------------------------------- */

int KernelEndpoint::check_peers() const
{
	return bindings_.av != AddressVectorId{} ?
		       0 :
		       REFUSE(-FI_ENOAV, FI_LOG_EP_CTRL, "enable: no address vector is bound");
}

int KernelEndpoint::check_bindings() const
{
	if (const int rc = check_peers())
		return rc;
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

void KernelEndpoint::set_binding_flags() noexcept
{
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
}

int KernelEndpoint::enable()
{
	const std::lock_guard guard(control_lock());

	if (enabled())
		return 0;
	/* of two endpoints of one shared context that are enabled at once, one sees the other */
	std::unique_lock<std::recursive_mutex> shared_guard;
	if (shared_rx_)
		shared_guard = std::unique_lock(shared_rx_->control_lock());
	int rc = check_bindings();
	if (rc)
		return rc;
	set_binding_flags();
	rc = bind_events();
	if (!rc)
		rc = make_rings(rx_flags());
	if (!rc)
		rc = enable_kernel();
	if (rc)
		return REFUSE(fabric_error(rc), FI_LOG_EP_CTRL, "enable");
	if (!shares_tx())
		allow_windows();
	set_enabled();
	if (shared_rx_)
		shared_rx_->sort_receivers();
	return 0;
}

/* Datagrams are messages only. A process that shares the vector may replace peers. */
void KernelEndpoint::allow_windows()
{
	static const std::atomic<std::uint32_t> never{0}; /* a connection has one peer */
	const Av *const av = vector();
	const std::atomic<std::uint32_t> *removals = nullptr;

	if (connected())
		removals = &never;
	else if (av)
		removals = av->removals();
	if (info().ep_attr->type != FI_EP_DGRAM && removals)
		rings().allow_windows(*this, {.queue = tx_cq(),
					      .removals = removals,
					      .reads = read_cntr(),
					      .writes = write_cntr()});
}

void KernelEndpoint::close() noexcept
{
	if (shared_rx_)
		shared_rx_->remove(*this);
	Endpoint::close();
}

/* --- cancelling ------------------------------------------------------------------------ */

int KernelEndpoint::cancel(void *context) noexcept
{
	if (!enabled())
		return REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_CTRL,
			      "cancel: the endpoint is not enabled");
	if (!context)
		return REFUSE(-FI_ENOENT, FI_LOG_EP_CTRL,
			      "cancel: what has no context can't be canceled");
	/* receives in a shared context were posted there */
	const Side side = shared_rx_ ? Side::transmit : Side::both;
	if (rings().cancel_receive(address_of(context)))
		return 0;
	int rc = cancel(context, side);
	if (rc == -ENOENT) { /* requests that FI_MORE has put off are pending, too */
		flush();
		rc = cancel(context, side);
	}
	return rc == -ENOENT && groups().cancel(context) ? 0 : fabric_error(rc);
}

int KernelEndpoint::cancel(void *context, Side side) noexcept
{
	return negative(kernel_.cancel(address_of(context), side));
}

/* --- names ----------------------------------------------------------------------------- */

Result<treadle::Endpoint> KernelEndpoint::create_at(const Address &address) const
{
	return treadle::Endpoint::create(domain_.kernel(), address, kernel_type(*info_),
					 key_of(*info_, domain_));
}

int KernelEndpoint::set_name(const void *addr, std::size_t size)
{
	const auto address = decode(addr_format(), addr, size);
	const std::lock_guard guard(control_lock());

	if (keeps_name())
		return REFUSE(-FI_EOPBADSTATE, FI_LOG_EP_CTRL,
			      "setname: the endpoint is enabled already, accepts a connection, has "
			      "or is a context, or a region was bound to it");
	if (!address)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "setname: not an address of its format");
	return rename(kernel_, *address, [this](const Address &to) { return create_at(to); });
}

int KernelEndpoint::get_name(void *addr, std::size_t *size)
{
	const std::lock_guard guard(control_lock());
	const std::size_t room = *size;

	return copy_out(encode(addr_format(), kernel_.address()), addr, size) ?
		       0 :
		       too_small(FI_LOG_EP_CTRL, "getname", room, *size);
}

int KernelEndpoint::bind_region(MemoryRegion &region) noexcept
{
	const std::lock_guard guard(control_lock());
	const int rc = negative(region.bind(kernel_.id()));

	has_regions_ |= !rc;
	return rc;
}

/* --- FI_EP_RDM, FI_EP_DGRAM ------------------------------------------------------------ */

UnconnectedEndpoint::UnconnectedEndpoint(Domain &domain, InfoPtr &&info, treadle::Endpoint kernel)
	: KernelEndpoint(domain, std::move(info), tx_caps_of(*info), rx_caps_of(*info),
			 std::move(kernel))
{
}

std::vector<ProgressList *> KernelEndpoint::progress() const
{
	std::vector<ProgressList *> lists;
	const auto add = [&](auto *of) {
		if (of && std::ranges::find(lists, &of->progress()) == lists.end())
			lists.push_back(&of->progress());
	};

	add(tx_cq_);
	add(rx_cq_);
	for (Cntr *const cntr : cntrs_)
		add(cntr);
	return lists;
}

/*
 * The kernel sends and posts the commands of deferred work at any time, so such endpoints have no
 * lanes. Lanes copy from and to ordinary memory.
 */
bool UnconnectedEndpoint::has_lanes() const noexcept
{
	return info().ep_attr->type == FI_EP_RDM && !shares() &&
	       !can_trigger(FI_TRIGGER | FI_XPU_TRIGGER) &&
	       !((info().caps | tx_caps() | rx_caps()) & FI_HMEM) && av() && av()->removals() &&
	       domain_.allows_lanes() &&
	       domain_.kernel().limits().features & TREADLE_FEATURE_LANE && direct_wanted();
}

bool UnconnectedEndpoint::receives_by_lanes() const noexcept
{
	return has_lanes() && domain_.manual() && rx_caps() & FI_RECV &&
	       !(rx_caps() & FI_SOURCE_ERR) && !(rx_caps() & FI_DIRECTED_RECV && av()->has_ids());
}

std::uint32_t UnconnectedEndpoint::rx_flags() const noexcept
{
	return receives_by_lanes() ? TREADLE_RX_LANES : 0;
}

void UnconnectedEndpoint::allow_windows()
{
	KernelEndpoint::allow_windows();
	if (has_lanes() && domain_.use_lanes(lanes_use_))
		rings().allow_lanes(*this, {.av = av(),
					    .sent_to = tx_cq(),
					    .received_to = rx_cq(),
					    .sent = send_cntr(),
					    .received = recv_cntr(),
					    .removals = av()->removals(),
					    .changes = av()->changes(),
					    .receives = receives_by_lanes(),
					    .progress = progress()});
}

/* A member sends and receives, with rings of its own. */
std::uint64_t UnconnectedEndpoint::collective_caps() const noexcept
{
	const bool can = !shares() && tx_caps() & FI_SEND && rx_caps() & FI_RECV;

	return can ? tx_caps() & FI_COLLECTIVE : 0;
}

} // namespace treadle::fi
