// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_msg(3) and fi_tagged(3): every call, every size, and what arrives where. */
// conformance: fi_arch(7): messages: boundaries kept, FIFO, matched in the order received

#include "kinds.h"

#include <sys/mman.h>
#include <unistd.h>

namespace
{

TYPED_TEST_SUITE(Message, Kinds);

/* The receive is posted first, then the message comes, and the other way round. */
TYPED_TEST(Message, EverySizeArrivesExpectedAndUnexpected)
{
	Pair p(this->hints());

	for (std::size_t size :
	     {0, 1, 7, 64, 4095, 4096, 4097, 65536, 65537, 1 << 20, (3 << 20) + 5}) {
		for (const bool expected : {true, false}) {
			SCOPED_TRACE(testing::Message()
				     << size << (expected ? " expected" : " unexpected"));
			const auto out = pattern(size, size + expected);
			std::vector<std::uint8_t> in(size + 1, 0xee);
			const auto post = [&] {
				return TypeParam::recv(p.b.ep.get(), in.data(), size,
						       FI_ADDR_UNSPEC, ctx(1));
			};
			ASSERT_EQ(expected ? post() : 0, 0);
			ASSERT_EQ(TypeParam::send(p.a.ep.get(), out.data(), size, p.b_at_a, ctx(2)),
				  0);
			ASSERT_EQ(expected ? 0 : post(), 0);
			this->expect_received(p.b.rx_cq.get(), ctx(1), size);
			this->expect_sent(p.a.tx_cq.get(), ctx(2));
			EXPECT_TRUE(std::equal(out.begin(), out.end(), in.begin()));
			EXPECT_EQ(in[size], 0xee);
		}
	}
}

// conformance: fi_arch(7): messages may be gigabytes, vectors are one message
TYPED_TEST(Message, VectorsGatherAndScatter)
{
	Pair p(this->hints());
	const auto out = pattern(8 * 1000);
	std::vector<std::uint8_t> in(out.size());

	for (std::size_t n : {2, 3, 8}) {
		std::vector<iovec> from, to;
		const std::size_t part = 1000;
		for (std::size_t i = 0; i < n; ++i)
			from.push_back({const_cast<std::uint8_t *>(out.data()) + i * part, part});
		/* Cut at other places than the sent vector. */
		to.push_back({in.data(), 1});
		to.push_back({in.data() + 1, n * part - 1});
		std::fill(in.begin(), in.end(), 0);
		ASSERT_EQ(TypeParam::recvv(p.b.ep.get(), to.data(), to.size(), FI_ADDR_UNSPEC,
					   ctx(n)),
			  0);
		ASSERT_EQ(TypeParam::sendv(p.a.ep.get(), from.data(), n, p.b_at_a, ctx(n + 100)),
			  0);
		this->expect_received(p.b.rx_cq.get(), ctx(n), n * part);
		this->expect_sent(p.a.tx_cq.get(), ctx(n + 100));
		EXPECT_TRUE(std::equal(in.begin(), in.begin() + n * part, out.begin()));
	}
	const std::vector<iovec> nine(9, iovec{in.data(), 1});
	EXPECT_EQ(TypeParam::recvv(p.b.ep.get(), nine.data(), 9, FI_ADDR_UNSPEC, nullptr),
		  -FI_EINVAL);
	EXPECT_EQ(TypeParam::sendv(p.a.ep.get(), nine.data(), 9, p.b_at_a, nullptr), -FI_EINVAL);
}

TYPED_TEST(Message, NoVectorIsNoData)
{
	Pair p(this->hints());

	ASSERT_EQ(TypeParam::recvmsg(p.b.ep.get(), nullptr, 0, FI_ADDR_UNSPEC, ctx(1), 0), 0);
	ASSERT_EQ(TypeParam::sendmsg(p.a.ep.get(), nullptr, 0, p.b_at_a, ctx(2), 0, 0), 0);
	this->expect_received(p.b.rx_cq.get(), ctx(1), 0);
	this->expect_sent(p.a.tx_cq.get(), ctx(2));
}

TYPED_TEST(Message, MessageCallsTakeFlags)
{
	Pair p(this->hints());
	auto out = pattern(3000);
	std::vector<std::uint8_t> in(3000);
	const iovec from{out.data(), out.size()};
	const iovec to{in.data(), in.size()};

	for (const std::uint64_t flags :
	     {0ULL, FI_COMPLETION, FI_INJECT, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
	      FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE, FI_INJECT | FI_DELIVERY_COMPLETE}) {
		SCOPED_TRACE(flags);
		std::fill(in.begin(), in.end(), 0);
		ASSERT_EQ(TypeParam::recvmsg(p.b.ep.get(), &to, 1, FI_ADDR_UNSPEC, ctx(1), 0), 0);
		ASSERT_EQ(TypeParam::sendmsg(p.a.ep.get(), &from, 1, p.b_at_a, ctx(2), 99, flags),
			  0);
		this->expect_received(p.b.rx_cq.get(), ctx(1), in.size());
		this->expect_sent(p.a.tx_cq.get(), ctx(2));
		EXPECT_EQ(in, out);
	}
}

TYPED_TEST(Message, FlagsThatMeanNothingHereAreRefused)
{
	Pair p(this->hints());
	char c = 0;
	const iovec iov{&c, 1};
	Log log;

	const auto others =
		TypeParam::caps == FI_MSG ? FI_PEEK | FI_CLAIM | FI_DISCARD : FI_MULTI_RECV;
	for (const unsigned long long flags :
	     {others, others | FI_COMPLETION, FI_INJECT, FI_REMOTE_CQ_DATA})
		EXPECT_EQ(TypeParam::recvmsg(p.b.ep.get(), &iov, 1, FI_ADDR_UNSPEC, nullptr, flags),
			  -FI_EBADFLAGS)
			<< flags;
	EXPECT_TRUE(log.has("FI_INJECT")) << log.all();
	for (const std::uint64_t flags : {FI_COMMIT_COMPLETE, FI_MULTICAST, FI_PEEK})
		EXPECT_EQ(TypeParam::sendmsg(p.a.ep.get(), &iov, 1, p.b_at_a, nullptr, 0, flags),
			  -FI_EBADFLAGS)
			<< flags;
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
}

TYPED_TEST(Message, InjectFreesItsBufferAndIsSilent)
{
	Pair p(this->hints());

	for (std::size_t size : {0, 1, 100, 4096}) {
		auto out = pattern(size);
		const auto sent = out;
		std::vector<std::uint8_t> in(size);
		ASSERT_EQ(TypeParam::inject(p.a.ep.get(), out.data(), size, p.b_at_a), 0);
		std::fill(out.begin(), out.end(), 0);
		ASSERT_EQ(TypeParam::recv(p.b.ep.get(), in.data(), size, FI_ADDR_UNSPEC, ctx(1)),
			  0);
		this->expect_received(p.b.rx_cq.get(), ctx(1), size);
		EXPECT_EQ(in, sent);
	}
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
	/* The same with FI_MORE. */
	char out = 'a', in = 0;
	const iovec iov{&out, 1};
	ASSERT_EQ(TypeParam::sendmsg(p.a.ep.get(), &iov, 1, p.b_at_a, ctx(1), 0,
				     FI_INJECT | FI_MORE),
		  0);
	out = 'b';
	ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &in, 1, FI_ADDR_UNSPEC, ctx(2)), 0);
	this->expect_received(p.b.rx_cq.get(), ctx(2), 1);
	EXPECT_EQ(in, 'a');
	std::vector<std::uint8_t> big(4097);
	EXPECT_EQ(TypeParam::inject(p.a.ep.get(), big.data(), big.size(), p.b_at_a), -FI_EMSGSIZE);
}

// conformance: fi_domain(3): cq_data_size: 8
TYPED_TEST(Message, RemoteDataTravelsWithTheMessage)
{
	Pair p(this->hints());
	char out = 'x', in = 0;
	const iovec from{&out, 1};
	const std::uint64_t data = 0x1122334455667788;

	for (int variant = 0; variant < 3; ++variant) {
		ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &in, 1, FI_ADDR_UNSPEC, ctx(1)), 0);
		switch (variant) {
		case 0:
			ASSERT_EQ(TypeParam::senddata(p.a.ep.get(), &out, 1, data, p.b_at_a,
						      ctx(2)),
				  0);
			break;
		case 1:
			ASSERT_EQ(TypeParam::injectdata(p.a.ep.get(), &out, 1, data, p.b_at_a), 0);
			break;
		default:
			ASSERT_EQ(TypeParam::sendmsg(p.a.ep.get(), &from, 1, p.b_at_a, ctx(2), data,
						     FI_REMOTE_CQ_DATA),
				  0);
		}
		this->expect_received(p.b.rx_cq.get(), ctx(1), 1, data, FI_REMOTE_CQ_DATA);
		if (variant != 1)
			this->expect_sent(p.a.tx_cq.get(), ctx(2));
	}
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
}

// conformance: fi_arch(7): completions of messages may be out of order: comp_order is
//   FI_ORDER_NONE, msg_order FI_ORDER_SAS
TYPED_TEST(Message, BatchesComeWholeAndInOrder)
{
	constexpr int n = 32;
	Pair p(this->hints());
	int in[n], out[n];

	for (int i = 0; i < n; ++i)
		ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &in[i], sizeof(int), FI_ADDR_UNSPEC,
					  ctx(i + 1)),
			  0);
	for (int i = 0; i < n; ++i) {
		out[i] = i;
		const iovec iov{&out[i], sizeof(int)};
		ASSERT_EQ(TypeParam::sendmsg(p.a.ep.get(), &iov, 1, p.b_at_a, ctx(i + 1), 0,
					     i < n - 1 ? FI_MORE : 0),
			  0);
		if (i == n - 2) {
			EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
		}
	}
	for (int i = 0; i < n; ++i) {
		EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(i + 1));
		EXPECT_EQ(in[i], i);
	}
}

TYPED_TEST(Message, ARefusedCallStartsTheBatchBeforeIt)
{
	constexpr std::uint64_t unknown = std::uint64_t{1} << 62;
	Pair p(this->hints());
	int in = 0, out = 7;
	const iovec iov{&out, sizeof(int)};

	ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &in, sizeof(int), FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(TypeParam::sendmsg(p.a.ep.get(), &iov, 1, p.b_at_a, ctx(2), 0, FI_MORE), 0);
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
	EXPECT_EQ(TypeParam::sendmsg(p.a.ep.get(), &iov, 1, p.b_at_a, ctx(3), 0, unknown),
		  -FI_EBADFLAGS);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(1));
	EXPECT_EQ(in, 7);
	this->expect_sent(p.a.tx_cq.get(), ctx(2));
}

TYPED_TEST(Message, AMessagePutOffByMoreIsCanceledLikeAnyOther)
{
	Pair p(this->hints());
	const auto out = pattern(64 << 10); /* stays with the sender until it is received */
	const iovec iov{const_cast<std::uint8_t *>(out.data()), out.size()};

	ASSERT_EQ(TypeParam::sendmsg(p.a.ep.get(), &iov, 1, p.b_at_a, ctx(2), 0, FI_MORE), 0);
	ASSERT_EQ(fi_cancel(&p.a.ep->fid, ctx(2)), 0);
	EXPECT_EQ(next_error(p.a.tx_cq.get()).err, FI_ECANCELED);
}

// conformance: fi_domain(3): resource management: Rx buffer overrun: truncated, FI_ETRUNC at the
//   receiver, success at the sender
TYPED_TEST(Message, AMessageLongerThanItsBufferIsTruncated)
{
	Pair p(this->hints());
	const auto out = pattern(1000);
	std::vector<std::uint8_t> in(1000, 0xee);

	ASSERT_EQ(TypeParam::recv(p.b.ep.get(), in.data(), 300, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(TypeParam::send(p.a.ep.get(), out.data(), out.size(), p.b_at_a, ctx(2)), 0);
	const auto error = next_error(p.b.rx_cq.get());
	EXPECT_EQ(error.err, FI_ETRUNC);
	EXPECT_EQ(error.op_context, ctx(1));
	EXPECT_EQ(error.olen, 700u);
	EXPECT_TRUE(std::equal(in.begin(), in.begin() + 300, out.begin()));
	EXPECT_EQ(in[300], 0xee);
	this->expect_sent(p.a.tx_cq.get(), ctx(2));
}

TYPED_TEST(Message, SourceIsReported)
{
	Pair p(this->hints(FI_SOURCE));
	char c = 0;
	fi_addr_t src;

	ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &c, 1, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(TypeParam::send(p.a.ep.get(), &c, 1, p.b_at_a, ctx(2)), 0);
	next(p.b.rx_cq.get(), &src);
	EXPECT_EQ(src, p.a_at_b);

	/* An endpoint that the vector does not hold. */
	Side outsider(p.node);
	const fi_addr_t b = outsider.insert(p.b.ep.get());
	ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &c, 1, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(TypeParam::send(outsider.ep.get(), &c, 1, b, ctx(2)), 0);
	next(p.b.rx_cq.get(), &src);
	EXPECT_EQ(src, FI_ADDR_NOTAVAIL);
}

TYPED_TEST(Message, ReceivesMayNameTheirSource)
{
	Pair p(this->hints(FI_DIRECTED_RECV));
	Side other(p.node);
	const fi_addr_t b_at_other = other.insert(p.b.ep.get());
	const fi_addr_t other_at_b = p.b.insert(other.ep.get());
	char from_a = 0, from_other = 0, a = 'a', o = 'o';

	ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &from_a, 1, p.a_at_b, ctx(1)), 0);
	ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &from_other, 1, other_at_b, ctx(2)), 0);
	ASSERT_EQ(TypeParam::send(other.ep.get(), &o, 1, b_at_other, nullptr), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(2));
	ASSERT_EQ(TypeParam::send(p.a.ep.get(), &a, 1, p.b_at_a, nullptr), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(1));
	EXPECT_EQ(from_a, 'a');
	EXPECT_EQ(from_other, 'o');
}

TYPED_TEST(Message, WithoutTheCapabilityTheSourceIsIgnored)
{
	Pair p(this->hints());
	char c = 0;

	ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &c, 1, 77, ctx(1)), 0);
	ASSERT_EQ(TypeParam::send(p.a.ep.get(), &c, 1, p.b_at_a, nullptr), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(1));
}

TYPED_TEST(Message, OneCanSendToOneself)
{
	Node node(this->hints());
	Side side(node);
	const fi_addr_t self = side.insert(side.ep.get());
	const auto out = pattern(100'000);
	std::vector<std::uint8_t> in(out.size());

	ASSERT_EQ(TypeParam::recv(side.ep.get(), in.data(), in.size(), FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(TypeParam::send(side.ep.get(), out.data(), out.size(), self, ctx(2)), 0);
	this->expect_received(side.rx_cq.get(), ctx(1), out.size());
	EXPECT_EQ(in, out);
}

using PlainMessage = Message<Plain>;

/* With little memory: one page stands for the whole source, a part for the whole target. */
// conformance: fi_arch(7): messages may be gigabytes, vectors are one message
TEST_F(PlainMessage, OneGigabyte)
{
	constexpr std::size_t size = std::size_t{1} << 30, part = std::size_t{64} << 20;
	Pair p(hints());
	void *in = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(in, MAP_FAILED);
	const int file = memfd_create("target", 0);
	ASSERT_EQ(ftruncate(file, part), 0);
	for (std::size_t at = 0; at < size; at += part)
		ASSERT_NE(mmap(static_cast<char *>(in) + at, part, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_FIXED, file, 0),
			  MAP_FAILED);
	close(file);
	/* Never written: all pages are the zero page. */
	void *out =
		mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT_NE(out, MAP_FAILED);
	auto *bytes = static_cast<std::uint8_t *>(in);
	for (const std::size_t at : {std::size_t{0}, size / 2, size - 1})
		bytes[at] = 1;

	ASSERT_EQ(Plain::recv(p.b.ep.get(), in, size, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(Plain::send(p.a.ep.get(), out, size, p.b_at_a, ctx(2)), 0);
	fi_cq_tagged_entry entry{};
	ssize_t n;
	for (int i = 0;
	     (n = fi_cq_sread(p.b.rx_cq.get(), &entry, 1, nullptr, 1000)) == -FI_EAGAIN && i < 100;
	     ++i)
		;
	ASSERT_EQ(n, 1);
	EXPECT_EQ(entry.len, size);
	expect_sent(p.a.tx_cq.get(), ctx(2));
	for (const std::size_t at : {std::size_t{0}, size / 2, size - 1})
		EXPECT_EQ(bytes[at], 0);
	munmap(in, size);
	munmap(out, size);
}

// conformance: fi_arch(7): tagged messages: send_tag | ignore == recv_tag | ignore
TEST(TaggedMessage, IgnoreBitsDoNotCount)
{
	Pair p(hints_for(FI_TAGGED));
	int in[3] = {}, out[3] = {10, 20, 30};
	fid_ep *to = p.b.ep.get(), *from = p.a.ep.get();

	ASSERT_EQ(fi_trecv(to, &in[0], 4, nullptr, FI_ADDR_UNSPEC, 0x100, 0, ctx(1)), 0);
	ASSERT_EQ(fi_trecv(to, &in[1], 4, nullptr, FI_ADDR_UNSPEC, 0x200, 0xff, ctx(2)), 0);
	ASSERT_EQ(fi_trecv(to, &in[2], 4, nullptr, FI_ADDR_UNSPEC, 0, ~0ULL, ctx(3)), 0);
	for (const auto &[i, tag] : {std::pair{0, 0x2abULL}, {1, 0xdeadbeefULL}, {2, 0x100ULL}})
		ASSERT_EQ(fi_tsend(from, &out[i], 4, nullptr, p.b_at_a, tag, nullptr), 0);
	auto entry = next(p.b.rx_cq.get());
	EXPECT_EQ(entry.op_context, ctx(2));
	EXPECT_EQ(entry.tag, 0x2abu);
	entry = next(p.b.rx_cq.get());
	EXPECT_EQ(entry.op_context, ctx(3));
	EXPECT_EQ(entry.tag, 0xdeadbeefu);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(1));
	EXPECT_EQ(in[1], 10);
	EXPECT_EQ(in[2], 20);
	EXPECT_EQ(in[0], 30);
}

// conformance: fi_arch(7): messages and tagged messages on one endpoint, to the same peer, do not
//   match each other
TEST(TaggedMessage, PlainAndTaggedDoNotMeet)
{
	Pair p(hints_for(FI_MSG | FI_TAGGED));
	char plain = 0, tagged = 0;

	ASSERT_EQ(fi_recv(p.b.ep.get(), &plain, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_trecv(p.b.ep.get(), &tagged, 1, nullptr, FI_ADDR_UNSPEC, 0, ~0ULL, ctx(2)), 0);
	ASSERT_EQ(fi_tinject(p.a.ep.get(), "t", 1, p.b_at_a, 5), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(2));
	ASSERT_EQ(fi_inject(p.a.ep.get(), "p", 1, p.b_at_a), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(1));
	EXPECT_EQ(plain, 'p');
	EXPECT_EQ(tagged, 't');
}

} // namespace
