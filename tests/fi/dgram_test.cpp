// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_endpoint(3), FI_EP_DGRAM: what arrives, and what is dropped. */
// conformance: fi_arch(7): endpoint types: FI_EP_DGRAM
// conformance: fi_endpoint(3): FI_EP_DGRAM: unreliable, message boundaries are maintained; at most
//   65536 bytes

#include "kinds.h"
#include "node.h"

namespace
{

Info dgram_hints()
{
	Info hints = hints_for(FI_MSG | FI_TAGGED);

	hints->ep_attr->type = FI_EP_DGRAM;
	return hints;
}

class Dgram : public testing::Test
{
protected:
	Pair p{dgram_hints()};

	ssize_t send(const void *buf, std::size_t len)
	{
		return fi_send(p.a.ep.get(), buf, len, nullptr, p.b_at_a, ctx(1));
	}
};

TEST_F(Dgram, MessageBoundariesAreMaintained)
{
	const auto out = pattern(65536);
	std::vector<std::uint8_t> first(out.size()), second(out.size());

	ASSERT_EQ(p.node.info->ep_attr->max_msg_size, out.size());
	ASSERT_EQ(fi_recv(p.b.ep.get(), first.data(), first.size(), nullptr, 0, ctx(2)), 0);
	ASSERT_EQ(fi_recv(p.b.ep.get(), second.data(), second.size(), nullptr, 0, ctx(3)), 0);
	ASSERT_EQ(send(out.data(), 1000), 0);
	ASSERT_EQ(send(out.data(), out.size()), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).len, 1000u);
	EXPECT_EQ(next(p.b.rx_cq.get()).len, out.size());
	EXPECT_EQ(second, out);
	EXPECT_EQ(send(out.data(), out.size() + 1), -FI_EMSGSIZE);
}

/* A datagram's delivery is never reported: asking for that is refused, by flags and by defaults. */
TEST_F(Dgram, DeliveryIsNotReported)
{
	std::uint64_t out = 1;
	const iovec iov{&out, sizeof(out)};
	const fi_msg msg{&iov, nullptr, 1, p.b_at_a, nullptr, 0};
	const fi_msg_tagged tagged{&iov, nullptr, 1, p.b_at_a, 1, 0, nullptr, 0};

	for (const std::uint64_t level : {FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE}) {
		std::uint64_t flags = FI_TRANSMIT | level;
		EXPECT_EQ(fi_sendmsg(p.a.ep.get(), &msg, level), -FI_EBADFLAGS);
		EXPECT_EQ(fi_tsendmsg(p.a.ep.get(), &tagged, level | FI_MORE), -FI_EBADFLAGS);
		EXPECT_EQ(fi_control(&p.a.ep->fid, FI_SETOPSFLAG, &flags), -FI_EBADFLAGS);
	}
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
}

TEST_F(Dgram, WithoutAReceiveTheMessageWaitsIfThereIsRoom)
{
	std::uint64_t out = 1, in = 0;

	ASSERT_EQ(send(&out, sizeof(out)), 0);
	EXPECT_EQ(next(p.a.tx_cq.get()).op_context, ctx(1));
	ASSERT_EQ(fi_recv(p.b.ep.get(), &in, sizeof(in), nullptr, 0, ctx(2)), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(2));
	EXPECT_EQ(in, 1u);
}

TEST_F(Dgram, WithoutRoomTheMessageIsDropped)
{
	const std::vector<std::uint8_t> out(65536);
	const std::size_t room = p.node.info->rx_attr->total_buffered_recv;
	std::vector<std::uint8_t> in(out.size());
	std::size_t kept = 0;

	ASSERT_GT(room, out.size());
	for (std::size_t n = 0; n < room / out.size() + 10; n++) {
		ASSERT_EQ(send(out.data(), out.size()), 0);
		EXPECT_EQ(next(p.a.tx_cq.get()).op_context, ctx(1)) << "the sender is not told";
	}
	for (;; kept += in.size()) {
		ASSERT_EQ(fi_recv(p.b.ep.get(), in.data(), in.size(), nullptr, 0, ctx(2)), 0);
		if (is_silent(p.b.rx_cq.get())) /* reads what has come */
			break;
	}
	EXPECT_LE(kept, room);
	EXPECT_GT(kept + 2 * in.size(), room);
	ASSERT_EQ(send(out.data(), 8), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).len, 8u) << "and what comes later is not hindered";
}

TEST_F(Dgram, WithoutATargetTheMessageIsDropped)
{
	std::uint64_t out = 1;

	p.b.ep.reset();
	ASSERT_EQ(send(&out, sizeof(out)), 0);
	EXPECT_EQ(next(p.a.tx_cq.get()).op_context, ctx(1));
}

TEST_F(Dgram, EndpointsOfAnotherTypeAreNotReached)
{
	Node rdm;
	Side other(rdm);
	std::uint64_t out = 1, in = 0;
	const fi_addr_t there = p.a.insert(other.ep.get()), back = other.insert(p.a.ep.get());

	ASSERT_EQ(fi_recv(other.ep.get(), &in, sizeof(in), nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_send(p.a.ep.get(), &out, sizeof(out), nullptr, there, ctx(1)), 0);
	EXPECT_EQ(next(p.a.tx_cq.get()).op_context, ctx(1));
	EXPECT_TRUE(is_silent(other.rx_cq.get()));
	ASSERT_EQ(fi_send(other.ep.get(), &out, sizeof(out), nullptr, back, nullptr), 0);
	EXPECT_EQ(next_error(other.tx_cq.get()).err, FI_ECONNREFUSED);
}

TEST_F(Dgram, TaggedMessagesWithData)
{
	std::uint64_t out = 3, in = 0;

	ASSERT_EQ(fi_trecv(p.b.ep.get(), &in, sizeof(in), nullptr, p.a_at_b, 7, 0, ctx(2)), 0);
	ASSERT_EQ(fi_tsenddata(p.a.ep.get(), &out, sizeof(out), nullptr, 99, p.b_at_a, 7, nullptr),
		  0);
	const auto entry = next(p.b.rx_cq.get());
	EXPECT_EQ(entry.tag, 7u);
	EXPECT_EQ(entry.data, 99u);
	EXPECT_EQ(in, out);
}

} // namespace
