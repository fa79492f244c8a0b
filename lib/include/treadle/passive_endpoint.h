// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PASSIVE_ENDPOINT_H
#define TREADLE_PASSIVE_ENDPOINT_H

#include <treadle/endpoint.h>

namespace treadle
{

/**
 * An address that takes connection requests: fi_cm(3).
 *
 *	listener.bind(events, 1)
 *	listener.listen()
 *
 * Each request is a TREADLE_EVENT_CONNREQ in the queue. Answer it with reject, or create an
 * Endpoint for it and call Endpoint::accept. Closing the listener refuses the requests that have no
 * endpoint yet.
 *
 * Threads: everything may be called from any thread at any time.
 */
class TREADLE_API PassiveEndpoint : public detail::Addressed
{
public:
	/* As Endpoint::create. auth_key: with it, processes of other users may send requests. */
	[[nodiscard]] static Result<PassiveEndpoint>
	create(const Context &context, const treadle_addr &address,
	       std::span<const std::byte> auth_key = {}) noexcept;

	/*
	 * Takes requests from now on. Needs an event queue (EINVAL). backlog: how many requests may
	 * be unanswered, at most 65536 (EINVAL); 0: 128. More are refused. A later call changes the
	 * backlog.
	 */
	[[nodiscard]] std::error_code listen(std::uint32_t backlog = 0) noexcept;

	/*
	 * Refuses a request. data, at most TREADLE_CM_DATA bytes (EINVAL), is sent along. ENOENT:
	 * there is no such request, or it was answered.
	 */
	[[nodiscard]] std::error_code reject(RequestId request,
					     std::span<const std::byte> data = {}) noexcept;

private:
	friend detail::Addressed;
	using Addressed::Addressed;
};

} // namespace treadle

#endif
