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
	static Result<EventQueue> create(const Context &context) noexcept;

	/* Takes the oldest event. 0, -EAGAIN: none, -EPERM: after fork, or -ESHUTDOWN: closed. */
	int read(treadle_event &event) noexcept;

	/*
	 * Blocks until there is an event, or the queue is closed. timeout: ns; negative: no limit.
	 * 0, -ETIMEDOUT (-EAGAIN with timeout 0), -EINTR, -ECANCELED.
	 */
	int wait(std::int64_t timeout) const noexcept { return Handle::wait(timeout); }

	/* Ends every wait with -ECANCELED; or the next one that would block. 0 or -errno. */
	int signal() const noexcept { return Handle::signal(); }

	/*
	 * A file to poll(2), owned by the queue: readable while there is an event, or from signal()
	 * until a wait.
	 */
	int file() const noexcept { return file_.get(); }

private:
	EventQueue(int fd, std::uint32_t id) noexcept : Object(fd, id) {}

	detail::UniqueFd file_;
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
