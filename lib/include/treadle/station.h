// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_STATION_H
#define TREADLE_STATION_H

#include <cstdint>

#include <treadle/address_vector.h>
#include <treadle/completion_queue.h>
#include <treadle/context.h>
#include <treadle/counter.h>
#include <treadle/endpoint.h>
#include <treadle/receive_ring.h>
#include <treadle/transmit_ring.h>

namespace treadle
{

struct StationOptions {
	treadle_addr address = loopback();     /* port 0: any free port */
	treadle_ep_type type = TREADLE_EP_RDM; /* or TREADLE_EP_DGRAM */
	/* Slots of each ring. 0: 256, or limits().max_ring if that is less; EINVAL above that. */
	std::uint32_t entries = 0;
	std::uint32_t flags = TREADLE_EP_SOURCE; /* TREADLE_EP_*, see Bindings */
};

/**
 * An endpoint and all that it needs, opened in one call: a context, a ring to send and one to
 * receive, one queue for all completions (with room for both rings, if limits().max_cq allows it),
 * counters of what was sent and received, and a vector of peers. Its parts are what they are
 * elsewhere.
 *
 *	auto station = Station::open();
 *	const auto peer = station->peers.insert(address);
 *	station->rx.receive(buffer)
 *	station->tx.send(data, *peer)
 *	const auto done = station->queue.next();
 *
 * Programs that share parts among endpoints, or need connections, create the parts themselves.
 *
 * Threads: by one thread at a time, except where its parts say more.
 */
struct TREADLE_API Station {
	/*
	 * The errors of Context::open, of the create functions of its parts, and of
	 * Endpoint::enable.
	 */
	[[nodiscard]] static Result<Station> open(const StationOptions &options = {}) noexcept;

	/* What other stations insert into their peers. */
	const treadle_addr &address() const noexcept { return endpoint.address(); }

	/* Each part is destroyed before those above it, which it uses. */
	Context context;
	AddressVector peers;
	CompletionQueue queue;
	Counter sent;
	Counter received;
	TransmitRing tx;
	ReceiveRing rx;
	Endpoint endpoint;
};

} // namespace treadle

#endif
