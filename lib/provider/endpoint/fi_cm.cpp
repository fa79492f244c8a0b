// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_cm(3): connections, as an endpoint makes them. The passive side is in fi_pep.cpp. */
#include "endpoint/endpoint.h"
#include "connect/pep.h"

namespace treadle::fi
{

namespace
{

int no_connections(const char *call) noexcept
{
	return REFUSE(-FI_ENOSYS, FI_LOG_EP_CTRL, "%s: only for FI_EP_MSG", call);
}

} // namespace

/* The endpoint is made to answer a request. Once it has, no other endpoint can. */
void Endpoint::answers(const ::fid *handle, const Handle &request) noexcept
{
	handle_ = handle;
	request_ = request.request;
	set_peer(request.peer, false);
}

/*
 * known: the address is that of the connected peer. Otherwise it is the requested one, which does
 * not replace a known address.
 */
void Endpoint::set_peer(const Address &address, bool known) noexcept
{
	const std::lock_guard guard(peer_lock_);

	if (known || !peer_)
		peer_ = address;
}

/*
 * The handle may be gone: a rejected request is freed, and closing a passive endpoint frees its
 * requests.
 */
void Endpoint::answered() noexcept
{
	if (handle_)
		domain_.fabric().requests.forget(std::exchange(handle_, nullptr), request_);
}

/* Binds once, even if a later step of fi_enable fails and fi_enable is called again. */
int Endpoint::bind_events()
{
	if (source_ || !kernel_)
		return 0;
	Eq::Source source(*eq(), ports_.front()->fid, [this](const treadle_event &event) {
		if (event.event == TREADLE_EVENT_CONNECTED)
			set_peer(event.addr, true);
		return InfoPtr();
	});
	const int rc = source.bind(*kernel_);
	if (!rc)
		source_ = std::move(source);
	return rc;
}

int Endpoint::connect(const void *addr, std::span<const std::byte> data)
{
	const std::lock_guard guard(control_lock_);

	if (!connected() || !kernel_)
		return no_connections("connect");
	const auto address = decode(addr_format(), addr);
	if (!address)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL, "connect: not an address of its format");
	if (handle_)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "connect: the endpoint was opened to accept");
	int rc = enable();
	if (rc)
		return rc;
	rc = kernel_->connect(*address, data);
	if (rc)
		return REFUSE(rc, FI_LOG_EP_CTRL, "connect: %s", to_string(*address).c_str());
	set_peer(*address, false);
	return 0;
}

int Endpoint::accept(std::span<const std::byte> data)
{
	const std::lock_guard guard(control_lock_);

	if (!connected() || !kernel_)
		return no_connections("accept");
	if (!handle_)
		return REFUSE(-FI_EINVAL, FI_LOG_EP_CTRL,
			      "accept: the endpoint was not opened for a connection request");
	int rc = enable();
	if (rc)
		return rc;
	rc = kernel_->accept(data);
	if (rc)
		return REFUSE(rc, FI_LOG_EP_CTRL, "accept");
	answered();
	return 0;
}

int Endpoint::shutdown(std::uint64_t flags) noexcept
{
	const std::lock_guard guard(control_lock_);

	if (!connected() || !kernel_)
		return no_connections("shutdown");
	if (flags)
		return REFUSE(-FI_EBADFLAGS, FI_LOG_EP_CTRL, "shutdown: flags 0x%" PRIx64, flags);
	flush(); /* requests that FI_MORE has put off are outstanding, too */
	const int rc = kernel_->shutdown();
	return rc ? REFUSE(rc, FI_LOG_EP_CTRL, "shutdown") : 0;
}

int Endpoint::get_peer(void *addr, std::size_t *size)
{
	const std::lock_guard guard(peer_lock_);
	const std::size_t room = *size;

	if (!connected())
		return no_connections("getpeer");
	if (!peer_)
		return REFUSE(-FI_ENOTCONN, FI_LOG_EP_CTRL, "getpeer");
	return copy_out(encode(addr_format(), *peer_), addr, size) ?
		       0 :
		       too_small(FI_LOG_EP_CTRL, "getpeer", room, *size);
}

} // namespace treadle::fi
