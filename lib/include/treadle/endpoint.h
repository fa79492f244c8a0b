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

/**
 * What an endpoint works with. Nothing here is owned; all of it outlives the
 * endpoint (close says -EBUSY). What is left out is none: without a ring it
 * does not send or receive, without a queue nothing is completed.
 */
struct Bindings {
	TransmitRingId tx{};
	ReceiveRingId rx{};
	AddressVectorId av{}; /* to send, to receive from one peer only, for TREADLE_EP_SOURCE */
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
	std::uint32_t flags = 0; /* TREADLE_EP_* */
};

/**
 * An address that messages come from and go to: fi_endpoint(3).
 *
 * Threads: everything may be called from any thread at any time.
 */
class TREADLE_API Endpoint : public Object<EndpointId>
{
public:
	/*
	 * Binds the address. Port 0: any free one. auth_key: who presents it may
	 * send here, besides the same user.
	 * EADDRINUSE, EADDRNOTAVAIL, EAGAIN (no free port), ENOSPC, ENOMEM, EOPNOTSUPP.
	 */
	static Result<Endpoint> create(const Context &context, const treadle_addr &address,
				       treadle_ep_type type = TREADLE_EP_RDM,
				       std::span<const std::byte> auth_key = {}) noexcept;

	/* Where peers find it: what was asked for, made complete. */
	const treadle_addr &address() const noexcept { return address_; }

	/* Once: from now on it sends and receives. 0, -EISCONN, -ENOENT, -EBUSY, -EINVAL. */
	int enable(const Bindings &bindings) noexcept;

	/*
	 * Cancels one receive, or one command that waits, with this context: it
	 * completes with ECANCELED. 0, or -ENOENT: it completes, or has, otherwise.
	 */
	int cancel(std::uint64_t context) noexcept;

private:
	Endpoint(int fd, std::uint32_t id, const treadle_addr &address) noexcept
		: Object(fd, id), address_(address)
	{
	}

	treadle_addr address_;
};

} // namespace treadle

#endif
