// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_ENDPOINT_H
#define TREADLE_ENDPOINT_H

#include <cstddef>
#include <span>

#include <treadle/address.h>
#include <treadle/object.h>

namespace treadle
{

class Context;
class EventQueue;

/**
 * The objects that an endpoint uses. None is owned; all must outlive the endpoint (close says
 * EBUSY). Any may be left out: without a ring the endpoint does not send, or receive; without a
 * queue nothing is completed.
 */
struct Bindings {
	TransmitRingId tx{};
	ReceiveRingId rx{};
	/* to send, to receive from one peer only, for TREADLE_EP_SOURCE; none if connected */
	AddressVectorId av{};
	CompletionQueueId tx_cq{};
	CompletionQueueId rx_cq{};
	/* operations of this endpoint */
	CounterId send{};
	CounterId recv{};
	CounterId read{};
	CounterId write{};
	/* operations of its peers on its memory */
	CounterId remote_read{};
	CounterId remote_write{};
	std::uint32_t flags =
		0; /* TREADLE_EP_SOURCE, _SOURCE_ERR, _RECV_COMPLETION, TREADLE_EP_NO_* */
};

namespace detail
{

/* The common part of active and passive endpoints. */
class TREADLE_API Addressed : public Object<EndpointId>
{
public:
	/* The address that peers use: that of create, with port and address filled in. */
	const treadle_addr &address() const noexcept { return address_; }

	/*
	 * Events of the endpoint go to this queue, and have this context. The queue can't be closed
	 * before the endpoint. Connected and passive endpoints only (EOPNOTSUPP), once (EISCONN).
	 */
	[[nodiscard]] std::error_code bind(const EventQueue &queue, std::uint64_t context) noexcept;

protected:
	Addressed(int device, std::uint32_t id, const treadle_addr &address) noexcept
		: Object(device, id), address_(address)
	{
	}

	template <class T>
	static Result<T> make(const Context &context, treadle_ep_create &args,
			      std::span<const std::byte> auth_key) noexcept
	{
		return make<T>(device_of(context), args, auth_key);
	}
	template <class T>
	static Result<T> make(int device, treadle_ep_create &args,
			      std::span<const std::byte> auth_key = {}) noexcept
	{
		if (const auto error = request(device, args, auth_key))
			return std::unexpected(error);
		return T(device, args.id, args.addr);
	}

private:
	static std::error_code request(int device, treadle_ep_create &args,
				       std::span<const std::byte> auth_key) noexcept;
	static int device_of(const Context &context) noexcept;

	treadle_addr address_;
};

} // namespace detail

/**
 * An address that messages come from and go to: fi_endpoint(3).
 *
 * An endpoint of type TREADLE_EP_MSG must be connected with another one before they may send. Each
 * has an event queue (bind) and is enabled. One side calls connect with the address of a
 * PassiveEndpoint. The other creates an endpoint for the request and calls accept. Then both have a
 * TREADLE_EVENT_CONNECTED in their queues; if the request fails, the first side has a
 * TREADLE_EVENT_CONNREFUSED. At the end of the connection there is one TREADLE_EVENT_SHUTDOWN on
 * each side. See <treadle/connect.h>.
 *
 * Threads: everything may be called from any thread at any time.
 */
class TREADLE_API Endpoint : public detail::Addressed
{
public:
	/*
	 * Binds the address. Port 0: any free port. auth_key: a process that presents it may send
	 * here, besides those of the same user; at most limits().max_auth_key bytes (EINVAL).
	 * EADDRINUSE, EADDRNOTAVAIL, EAGAIN (no free port), ENOSPC, ENOMEM.
	 */
	[[nodiscard]] static Result<Endpoint>
	create(const Context &context, const treadle_addr &address,
	       treadle_ep_type type = TREADLE_EP_RDM,
	       std::span<const std::byte> auth_key = {}) noexcept;

	/*
	 * Of type TREADLE_EP_MSG, to accept a request, at the address that got the request. ENOENT:
	 * there is no such request any more; EBUSY: it has an endpoint.
	 */
	[[nodiscard]] static Result<Endpoint>
	create(const Context &context, RequestId request,
	       std::span<const std::byte> auth_key = {}) noexcept;

	/*
	 * A scalable endpoint: an address that several contexts share, each an endpoint that is
	 * enabled by itself. The scalable endpoint is not enabled (EOPNOTSUPP), and must outlive
	 * its contexts (close says EBUSY). Of type TREADLE_EP_RDM or TREADLE_EP_DGRAM (else
	 * EOPNOTSUPP). Errors as of create.
	 */
	[[nodiscard]] static Result<Endpoint>
	create_scalable(const Context &context, const treadle_addr &address,
			treadle_ep_type type = TREADLE_EP_RDM,
			std::span<const std::byte> auth_key = {}) noexcept;
	/* Its contexts: one to send (Bindings::tx), one to receive (Bindings::rx) at an index. */
	[[nodiscard]] Result<Endpoint> transmit_context() const noexcept;
	/* EBUSY: the index has one; EINVAL: it is not below TREADLE_MAX_CONTEXTS. */
	[[nodiscard]] Result<Endpoint> receive_context(std::uint32_t index) const noexcept;

	/*
	 * From now on the endpoint sends and receives; once. EISCONN: it is enabled already;
	 * ENOENT, EBADF: an object is not of this context, or of another kind; EBUSY: the ring has
	 * an endpoint; EINVAL; EOPNOTSUPP: it is scalable: enable its contexts.
	 */
	[[nodiscard]] std::error_code enable(const Bindings &bindings) noexcept;

	/*
	 * Cancels one receive, or one command that waits, with this context: it completes with
	 * ECANCELED. ENOENT: it completes, or has completed, otherwise. A receive that was
	 * posted to a shared ReceiveRing is found through each endpoint that receives there. side:
	 * only receives, or only other commands.
	 */
	enum class Side : std::uint32_t {
		both = 0,
		receive = TREADLE_CANCEL_RX,
		transmit = TREADLE_CANCEL_TX
	};
	[[nodiscard]] std::error_code cancel(std::uint64_t context,
					     Side side = Side::both) noexcept;

	/*
	 * Asks for a connection, once (EISCONN). The endpoint must be enabled (ENOTCONN) and have
	 * an event queue (EINVAL). data, at most TREADLE_CM_DATA bytes (EINVAL), is sent along. The
	 * answer is an event. EOPNOTSUPP: not of type TREADLE_EP_MSG. EADDRNOTAVAIL: the address is
	 * of an unknown family.
	 */
	[[nodiscard]] std::error_code connect(const treadle_addr &address,
					      std::span<const std::byte> data = {}) noexcept;
	/*
	 * Accepts the request that the endpoint was created for, once (EISCONN). The endpoint must
	 * be enabled (ENOTCONN). EINVAL: it was created for no request, or has no event queue.
	 * ECONNRESET: the peer has gone.
	 */
	[[nodiscard]] std::error_code accept(std::span<const std::byte> data = {}) noexcept;
	/*
	 * Ends the connection. When it returns, commands that waited have completed with ECANCELED.
	 * A transfer that was under way accesses no memory any more, and completes with ECONNRESET,
	 * perhaps a little later. No error, also again; ENOTCONN: it was never connected;
	 * EOPNOTSUPP: not of type TREADLE_EP_MSG.
	 */
	[[nodiscard]] std::error_code shutdown() noexcept;

private:
	friend detail::Addressed;
	using Addressed::Addressed;
};

} // namespace treadle

#endif
