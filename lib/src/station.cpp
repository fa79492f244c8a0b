// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/station.h>

#include <algorithm>

namespace treadle
{

Result<Station> Station::open(const StationOptions &options) noexcept
{
	auto context = Context::open();
	if (!context)
		return std::unexpected(context.error());
	auto peers = AddressVector::create(*context);
	if (!peers)
		return std::unexpected(peers.error());

	const treadle_query &limits = context->limits();
	const std::uint32_t entries =
		options.entries ? options.entries : std::min<std::uint32_t>(256, limits.max_ring);
	auto queue = CompletionQueue::create(*context, 2 * std::min(entries, limits.max_cq / 2));
	if (!queue)
		return std::unexpected(queue.error());
	auto sent = Counter::create(*context);
	if (!sent)
		return std::unexpected(sent.error());
	auto received = Counter::create(*context);
	if (!received)
		return std::unexpected(received.error());
	auto tx = TransmitRing::create(*context, entries);
	if (!tx)
		return std::unexpected(tx.error());
	auto rx = ReceiveRing::create(*context, entries);
	if (!rx)
		return std::unexpected(rx.error());
	auto endpoint = Endpoint::create(*context, options.address, options.type);
	if (!endpoint)
		return std::unexpected(endpoint.error());
	if (const auto failed = endpoint->enable({.tx = tx->id(),
						  .rx = rx->id(),
						  .av = peers->id(),
						  .tx_cq = queue->id(),
						  .rx_cq = queue->id(),
						  .send = sent->id(),
						  .recv = received->id(),
						  .flags = options.flags}))
		return std::unexpected(failed);
	return Station{std::move(*context), std::move(*peers),	  std::move(*queue),
		       std::move(*sent),    std::move(*received), std::move(*tx),
		       std::move(*rx),	    std::move(*endpoint)};
}

} // namespace treadle
