// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_EVENT_QUEUE_H
#define TREADLE_EVENT_QUEUE_H

#include <cstddef>
#include <span>

#include <treadle/ioctl.h>
#include <treadle/object.h>

namespace treadle
{

class Context;

/**
 * Events of connections, struct treadle_event, one after the other, from all endpoints that were
 * bound to the queue, of any context of the process: fi_eq(3). A queue has at most a few events of
 * each endpoint, so it can't overflow. Events of an endpoint that is closed are dropped from it.
 *
 * Threads: everything may be called from any thread at any time.
 */
class TREADLE_API EventQueue : public Object<EventQueueId>
{
public:
	/* ENOSPC, ENOMEM, EMFILE. */
	[[nodiscard]] static Result<EventQueue> create(const Context &context) noexcept;

	/* Takes the oldest event. EAGAIN: none; EPERM: after fork; ESHUTDOWN: closed. */
	[[nodiscard]] std::error_code read(treadle_event &event) noexcept;
	/* The same, but waits for an event. Errors of both. */
	[[nodiscard]] Result<treadle_event> next(Timeout timeout = forever) noexcept;

	/*
	 * Blocks until there is an event, or the queue is closed. ETIMEDOUT (EAGAIN without
	 * timeout), EINTR, ECANCELED.
	 */
	[[nodiscard]] std::error_code wait(Timeout timeout = forever) const noexcept
	{
		return Handle::wait(timeout);
	}

	/* Ends every wait with ECANCELED; or the next one that would block. */
	[[nodiscard]] std::error_code signal() const noexcept { return Handle::signal(); }

	/*
	 * For poll(2): readable while there is an event, or from signal() until a wait. The queue
	 * owns it. Never an error.
	 */
	[[nodiscard]] Result<int> fd() const noexcept { return fd_.get(); }

private:
	EventQueue(int device, std::uint32_t id) noexcept : Object(device, id) {}

	detail::UniqueFd fd_;
};

/* The data that the peer sent along. */
inline std::span<const std::byte> data_of(const treadle_event &event) noexcept
{
	return std::as_bytes(std::span(event.data, event.data_size));
}

/* The request of a TREADLE_EVENT_CONNREQ, to accept or to reject. */
inline RequestId request_of(const treadle_event &event) noexcept
{
	return RequestId{event.request};
}

} // namespace treadle

#endif
