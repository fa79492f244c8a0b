// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_cm(3): connections, as an endpoint makes them. The passive side is in fi_pep.cpp. */
#include "endpoint/connected_endpoint.h"
#include "endpoint/port.h"
#include "names/av.h"

namespace treadle::fi
{

/*
 * An endpoint that is opened for a request is to answer it. Once it has, no other endpoint can.
 */
ConnectedEndpoint::ConnectedEndpoint(Domain &domain, InfoPtr &&info, treadle::Endpoint kernel,
				     const std::optional<Handle> &handle)
	: KernelEndpoint(domain, std::move(info), tx_caps_of(*info), rx_caps_of(*info),
			 std::move(kernel))
{
	if (!handle || handle->request == RequestId{})
		return;
	handle_ = info_->handle;
	request_ = handle->request;
	peer_ = handle->peer;
}

ConnectedEndpoint::~ConnectedEndpoint()
{
	std::ignore = kernel_.close(); /* before the source of its events */
	forget_request();
}

/*
 * known: the address is that of the connected peer. Otherwise it is the requested one, which does
 * not replace a known address.
 */
void ConnectedEndpoint::set_peer(const Address &address, bool known) noexcept
{
	const std::lock_guard guard(peer_lock_);

	if (known || !peer_)
		peer_ = address;
}

/*
 * The handle may be gone: a rejected request is freed, and closing a passive endpoint frees its
 * requests.
 */
void ConnectedEndpoint::forget_request() noexcept
{
	if (handle_)
		domain_.fabric().requests.forget(std::exchange(handle_, nullptr), request_);
}

bool ConnectedEndpoint::keeps_name() const noexcept
{
	return handle_ || KernelEndpoint::keeps_name();
}

int ConnectedEndpoint::set_name(const void *addr, std::size_t size)
{
	const std::lock_guard guard(control_lock());
	const EndpointId before = kernel_.id();
	const int rc = KernelEndpoint::set_name(addr, size);

	if (kernel_.id() != before) /* drop events bound by an fi_enable that failed */
		source_ = {};
	return rc;
}

int ConnectedEndpoint::bind_av(Av &av, std::uint64_t flags)
{
	return check_bound(av.domain(), flags, 0, "address vector") ?:
		       REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "bind: a connected endpoint knows its peer: no address vector");
}

int ConnectedEndpoint::check_peers() const
{
	return eq() ? 0 :
		      REFUSE(-FI_ENOEQ, FI_LOG_EP_CTRL,
			     "enable: no event queue is bound, nor one to its domain");
}

/* Binds once, even if a later step of fi_enable fails and fi_enable is called again. */
int ConnectedEndpoint::bind_events()
{
	if (source_)
		return 0;
	Eq::Source source(*eq(), ports_.front()->fid, [this](const treadle_event &event) {
		if (event.event == TREADLE_EVENT_CONNECTED)
			set_peer(event.addr, true);
		return InfoPtr();
	});
	const int rc = source.bind(kernel_);
	if (!rc)
		source_ = std::move(source);
	return rc;
}

int ConnectedEndpoint::connect(const void *addr, std::span<const std::byte> data)
{
	const std::lock_guard guard(control_lock());
	const auto address = decode(addr_format(), addr);

	if (!address)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "connect: not an address of its format");
	if (handle_)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "connect: the endpoint was opened to accept");
	int rc = enable();
	if (rc)
		return rc;
	rc = negative(kernel_.connect(*address, data));
	if (rc)
		return REFUSE(rc, FI_LOG_EP_CTRL, "connect: %s", to_string(*address).c_str());
	set_peer(*address, false);
	return 0;
}

int ConnectedEndpoint::accept(std::span<const std::byte> data)
{
	const std::lock_guard guard(control_lock());

	if (!handle_)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "accept: the endpoint was not opened for a connection request");
	int rc = enable();
	if (rc)
		return rc;
	rc = negative(kernel_.accept(data));
	if (rc)
		return REFUSE(rc, FI_LOG_EP_CTRL, "accept");
	forget_request();
	return 0;
}

int ConnectedEndpoint::shutdown(std::uint64_t flags) noexcept
{
	const std::lock_guard guard(control_lock());

	if (flags)
		return REFUSE(-FI_EBADFLAGS, FI_LOG_EP_CTRL, "shutdown: flags 0x%" PRIx64, flags);
	flush(); /* requests that FI_MORE has put off are outstanding, too */
	const int rc = negative(kernel_.shutdown());
	return rc ? REFUSE(rc, FI_LOG_EP_CTRL, "shutdown") : 0;
}

int ConnectedEndpoint::get_peer(void *addr, std::size_t *size)
{
	const std::lock_guard guard(peer_lock_);
	const std::size_t room = *size;

	if (!peer_)
		return REFUSE(-FI_ENOTCONN, FI_LOG_EP_CTRL, "getpeer");
	return copy_out(encode(addr_format(), *peer_), addr, size) ?
		       0 :
		       too_small(FI_LOG_EP_CTRL, "getpeer", room, *size);
}

} // namespace treadle::fi
