// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Scalable endpoints: contexts that share an address. */

#include "node.h"

namespace
{

constexpr unsigned int context_bits = 4;

/* An address with a transmit context and two receive contexts. */
struct Scalable {
	Scalable()
	{
		EXPECT_EQ(sends.enable({.tx = tx.id(), .av = av.id(), .tx_cq = tx_cq.id()}), ok);
		for (std::uint32_t i = 0; i < 2; ++i) {
			rings.push_back(must(ReceiveRing::create(context, 64), "rx"));
			queues.push_back(must(CompletionQueue::create(context, 64), "rx cq"));
			receives.push_back(must(address.receive_context(i), "receive context"));
			EXPECT_EQ(receives[i].enable({.rx = rings[i].id(),
						      .av = av.id(),
						      .rx_cq = queues[i].id(),
						      .flags = TREADLE_EP_SOURCE}),
				  ok);
		}
	}

	Context context = must(Context::open(), "open");
	AddressVector av = must(AddressVector::create(context, 0, context_bits), "av");
	CompletionQueue tx_cq = must(CompletionQueue::create(context, 64), "tx cq");
	TransmitRing tx = must(TransmitRing::create(context, 64), "tx");
	std::vector<ReceiveRing> rings;
	std::vector<CompletionQueue> queues;
	Endpoint address = must(Endpoint::create_scalable(context, loopback()), "scalable");
	Endpoint sends = must(address.transmit_context(), "transmit context");
	std::vector<Endpoint> receives;

	std::error_code send(std::string_view text, Peer peer)
	{
		return tx.send(bytes(text), peer);
	}
	std::error_code receive(std::uint32_t i, std::span<std::byte> buffer)
	{
		return rings[i].receive(buffer);
	}
};

Peer with_context(Peer peer, std::uint64_t context)
{
	return AddressVector::with_context(peer, context, context_bits);
}

} // namespace

TEST(ScalableTest, each_context_gets_what_names_it)
{
	Scalable a, b;
	const auto to = must(a.av.insert(b.address.address()), "insert");
	const auto from = must(b.av.insert(a.address.address()), "insert");
	std::array<std::byte, 8> in[2] = {};

	for (std::uint32_t i = 0; i < 2; ++i)
		ASSERT_EQ(b.receive(i, in[i]), ok);
	ASSERT_EQ(a.send("one", with_context(to, 1)), ok);
	EXPECT_EQ(Peer{reap_one(b.queues[1]).src}, from);
	EXPECT_TRUE(stays_empty(b.queues[0]));
	ASSERT_EQ(a.send("zero", to), ok);
	EXPECT_EQ(reap_one(b.queues[0]).len, 4u);
	EXPECT_EQ(reap(a.tx_cq, 2).back().error, 0u);
	EXPECT_STREQ(reinterpret_cast<char *>(in[0].data()), "zero");
	EXPECT_STREQ(reinterpret_cast<char *>(in[1].data()), "one");
	ASSERT_EQ(a.send("two", with_context(to, 2)), ok);
	EXPECT_EQ(reap_one(a.tx_cq).error, static_cast<std::uint32_t>(ECONNREFUSED));
}

TEST(ScalableTest, the_address_goes_last)
{
	Scalable s;

	EXPECT_EQ(s.address.receive_context(1).error(), from_errno(EBUSY));
	EXPECT_EQ(s.address.receive_context(TREADLE_MAX_CONTEXTS).error(), from_errno(EINVAL));
	EXPECT_EQ(s.address.enable({}), from_errno(EOPNOTSUPP));
	EXPECT_EQ(s.address.close(), from_errno(EBUSY));
	EXPECT_EQ(s.sends.close(), ok);
	EXPECT_EQ(s.address.close(), from_errno(EBUSY));
	for (Endpoint &ep : s.receives)
		EXPECT_EQ(ep.close(), ok);
	EXPECT_EQ(s.address.close(), ok);
}

TEST(ScalableTest, bits_of_an_address_vector)
{
	const auto context = must(Context::open(), "open");
	const auto make = [&](std::uint32_t bits) {
		return AddressVector::create(context, 0, bits);
	};

	EXPECT_TRUE(make(TREADLE_RX_CTX_BITS));
	EXPECT_EQ(make(TREADLE_RX_CTX_BITS + 1).error(), from_errno(EINVAL));
}
