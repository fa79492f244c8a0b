// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "node.h"

Node::Node(const Options &options)
	: context(must(Context::open(), "open")), av(must(AddressVector::create(context), "av")),
	  tx_cq(must(CompletionQueue::create(context, options.queue), "tx cq")),
	  rx_cq(must(CompletionQueue::create(context, options.queue), "rx cq")),
	  sent(must(Counter::create(context), "counter")),
	  received(must(Counter::create(context), "counter")),
	  tx(must(TransmitRing::create(context, options.ring), "tx")),
	  rx(must(ReceiveRing::create(context, options.ring, options.buffered), "rx")),
	  ep(must(Endpoint::create(context, loopback()), "endpoint"))
{
	EXPECT_EQ(ep.enable({.tx = tx.id(),
			     .rx = rx.id(),
			     .av = av.id(),
			     .tx_cq = tx_cq.id(),
			     .rx_cq = rx_cq.id(),
			     .send = sent.id(),
			     .recv = received.id(),
			     .flags = options.flags}),
		  ok);
}

Peer Node::to(const treadle_addr &address)
{
	return must(av.insert(address), "av insert");
}

std::error_code Node::send(std::span<const std::byte> data, Peer peer, std::uint64_t context,
			   std::uint32_t flags)
{
	return tx.send(data, peer, {.context = context, .flags = flags | TREADLE_F_COMPLETION});
}

std::error_code Node::receive(std::span<std::byte> buffer, std::uint64_t context, Peer peer)
{
	return rx.receive(buffer, {.context = context, .from = peer});
}

std::error_code Node::send_tagged(std::span<const std::byte> data, Peer peer, std::uint64_t tag,
				  std::uint64_t context, std::uint32_t flags)
{
	return tx.send_tagged(data, peer, tag,
			      {.context = context, .flags = flags | TREADLE_F_COMPLETION});
}

std::error_code Node::receive_tagged(std::span<std::byte> buffer, std::uint64_t tag,
				     std::uint64_t ignore, std::uint64_t context, Peer peer)
{
	return rx.receive_tagged(buffer, tag, ignore, {.context = context, .from = peer});
}

std::vector<std::byte> pattern(std::size_t len, std::uint64_t seed)
{
	std::vector<std::byte> out(len);
	std::uint64_t x = seed * 0x9e3779b97f4a7c15 + 1;

	for (auto &byte : out) {
		x = x * 6364136223846793005 + 1442695040888963407;
		byte = static_cast<std::byte>(x >> 56);
	}
	return out;
}
