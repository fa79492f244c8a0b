// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_tagged(3), FI_PEEK, FI_CLAIM, FI_DISCARD */
#include "node.h"

namespace
{

constexpr std::size_t size = 500;

/* A counter could not report what was found. */
// conformance: fi_tagged(3): FI_PEEK: the results are in the completion queue; without one:
//   -FI_ENOCQ; at a shared context, results of an endpoint without a queue are lost
TEST(Peek, NeedsAQueue)
{
	Node node(hints_for(FI_TAGGED));
	const auto av = node.av();
	const auto sends = node.cntr(), receives = node.cntr();
	const auto ep = node.ep();
	fi_addr_t self;
	char in[8] = {};

	ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &sends->fid, FI_SEND), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &receives->fid, FI_RECV), 0);
	ASSERT_EQ(fi_enable(ep.get()), 0);
	ASSERT_EQ(fi_av_insert(av.get(), address_of(ep.get()).data(), 1, &self, 0, nullptr), 1);
	ASSERT_EQ(fi_tinject(ep.get(), "message", 8, self, 7), 0);
	fi_msg_tagged msg{};
	msg.addr = FI_ADDR_UNSPEC;
	msg.tag = 7;
	for (const std::uint64_t flags : {FI_PEEK, FI_PEEK | FI_CLAIM, FI_PEEK | FI_DISCARD})
		EXPECT_EQ(fi_trecvmsg(ep.get(), &msg, flags), -FI_ENOCQ);
	ASSERT_EQ(fi_trecv(ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), 0);
	EXPECT_EQ(fi_cntr_wait(receives.get(), 1, patience), 0);
	EXPECT_STREQ(in, "message");
}

struct Fixture : Pair {
	Fixture() : Pair(hints_for(FI_TAGGED | FI_SOURCE | FI_DIRECTED_RECV)) {}

	void send(std::uint64_t tag)
	{
		const auto out = pattern(size, tag);

		ASSERT_EQ(fi_tinjectdata(a.ep.get(), out.data(), out.size(), 1000 + tag, b_at_a,
					 tag),
			  0);
	}
	int request(std::uint64_t tag, std::uint64_t flags, void *context,
		    fi_addr_t src = FI_ADDR_UNSPEC)
	{
		const iovec iov{in.data(), in.size()};

		return request(tag, flags, context, src, &iov, 1);
	}
	int request(std::uint64_t tag, std::uint64_t flags, void *context, fi_addr_t src,
		    const iovec *iov, std::size_t count)
	{
		fi_msg_tagged msg{};

		msg.msg_iov = iov;
		msg.iov_count = count;
		msg.addr = src;
		msg.tag = tag;
		msg.context = context;
		return static_cast<int>(fi_trecvmsg(b.ep.get(), &msg, flags));
	}
	/* Expects a request to succeed with this message. */
	// conformance: fi_tagged(3): FI_PEEK: data may be returned; if buf is NULL it was not: it
	//   never is
	void expect_found(std::uint64_t tag, std::uint64_t flags, void *context)
	{
		fi_addr_t src = 0;

		std::fill(in.begin(), in.end(), 0);
		ASSERT_EQ(request(tag, flags, context), 0);
		const auto entry = next(b.rx_cq.get(), &src);
		EXPECT_EQ(entry.op_context, context);
		EXPECT_EQ(entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
		EXPECT_EQ(entry.len, size);
		EXPECT_EQ(entry.tag, tag);
		EXPECT_EQ(entry.data, 1000 + tag);
		EXPECT_EQ(src, a_at_b);
		EXPECT_EQ(entry.buf, flags & FI_PEEK || flags & FI_DISCARD ? nullptr : in.data());
	}
	void expect_none(std::uint64_t tag, std::uint64_t flags, void *context)
	{
		ASSERT_EQ(request(tag, flags, context), 0);
		const auto error = next_error(b.rx_cq.get());
		EXPECT_EQ(error.err, FI_ENOMSG);
		EXPECT_EQ(error.op_context, context);
	}

	std::vector<std::uint8_t> in = std::vector<std::uint8_t>(size);
};

} // namespace

// conformance: fi_tagged(3): FI_PEEK: none is found: an error completion with FI_ENOMSG; it does
//   not remain queued
TEST(Peek, NoMessageIsAnErrorCompletion)
{
	Fixture p;

	p.send(1);
	for (const std::uint64_t flags : {FI_PEEK, FI_PEEK | FI_CLAIM, FI_PEEK | FI_DISCARD})
		p.expect_none(2, flags, ctx(5));
	p.expect_found(1, 0, ctx(1));
	p.expect_none(1, FI_PEEK, ctx(5));
}

// conformance: fi_tagged(3): FI_PEEK: the message's length, flags, data, tag and source; it stays
TEST(Peek, ReportsTheMessageAndLeavesIt)
{
	Fixture p;

	p.send(1);
	p.expect_found(1, FI_PEEK, ctx(5));
	p.expect_found(1, FI_PEEK, ctx(6));
	p.expect_found(1, 0, ctx(7));
	EXPECT_EQ(p.in, pattern(size, 1));
}

// conformance: fi_tagged(3): FI_PEEK: none is found: an error completion with FI_ENOMSG; it ...
TEST(Peek, DoesNotRemainQueued)
{
	Fixture p;

	p.expect_none(1, FI_PEEK, ctx(5));
	p.send(1);
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
	EXPECT_EQ(fi_cancel(&p.b.ep->fid, ctx(5)), -FI_ENOENT);
}

TEST(Peek, NamesASource)
{
	Fixture p;
	const fi_addr_t itself = p.b.insert(p.b.ep.get());

	p.send(1);
	ASSERT_EQ(p.request(1, FI_PEEK, ctx(1), itself), 0);
	EXPECT_EQ(next_error(p.b.rx_cq.get()).err, FI_ENOMSG);
	ASSERT_EQ(p.request(1, FI_PEEK, ctx(1), p.a_at_b), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).tag, 1u);
}

// conformance: fi_tagged(3): FI_PEEK and FI_CLAIM: only a paired receive with FI_CLAIM and the same
//   context retrieves it
TEST(Peek, AClaimedMessageIsForThePairedReceive)
{
	Fixture p;
	fi_context first, second;

	p.send(1);
	p.send(1);
	p.expect_found(1, FI_PEEK | FI_CLAIM, &first);
	p.expect_found(1, FI_PEEK | FI_CLAIM, &second);
	p.expect_none(1, FI_PEEK, ctx(5));
	p.expect_none(1, FI_CLAIM, ctx(5));
	p.expect_found(1, FI_CLAIM, &second);
	EXPECT_EQ(p.in, pattern(size, 1));
	p.expect_none(1, FI_CLAIM, &second);
	p.expect_found(1, FI_CLAIM, &first);
}

// conformance: fi_tagged(3): FI_DISCARD with FI_PEEK or FI_CLAIM
TEST(Peek, ADiscardedMessageIsGone)
{
	Fixture p;
	fi_context context;

	p.send(1);
	p.send(2);
	p.expect_found(1, FI_PEEK | FI_DISCARD, ctx(5));
	p.expect_none(1, FI_PEEK, ctx(5));
	p.expect_found(2, FI_PEEK | FI_CLAIM, &context);
	p.expect_found(2, FI_CLAIM | FI_DISCARD, &context);
	p.expect_none(2, FI_CLAIM, &context);
}

/* fi_tagged(3), FI_DISCARD: "the input buffer(s) and length parameters are ignored" */
// conformance: fi_tagged(3): FI_PEEK: data may be returned; if buf is NULL it was not: it never is
// conformance: fi_tagged(3): FI_DISCARD: the buffers and lengths are ignored
TEST(Peek, BuffersAreIgnored)
{
	Fixture p;
	fi_context context;
	const auto expect = [&](std::uint64_t flags, std::size_t count) {
		ASSERT_EQ(p.request(1, flags, &context, FI_ADDR_UNSPEC, nullptr, count), 0);
		const auto entry = next(p.b.rx_cq.get());
		EXPECT_EQ(entry.op_context, &context);
		EXPECT_EQ(entry.len, size);
		EXPECT_EQ(entry.buf, nullptr);
	};

	for (const std::size_t count : {0, 1, 2, 1000}) {
		SCOPED_TRACE(count);
		p.send(1);
		p.send(1);
		expect(FI_PEEK, count);
		expect(FI_PEEK | FI_DISCARD, count);
		expect(FI_PEEK | FI_CLAIM, count);
		expect(FI_CLAIM | FI_DISCARD, count);
	}
	p.expect_none(1, FI_PEEK, ctx(5));
}

TEST(Peek, FlagsThatMeanNothingTogetherAreRefused)
{
	Fixture p;
	Log log;

	EXPECT_EQ(p.request(1, FI_DISCARD, ctx(1)), -FI_EINVAL);
	EXPECT_EQ(p.request(1, FI_PEEK | FI_CLAIM | FI_DISCARD, ctx(1)), -FI_EINVAL);
	EXPECT_TRUE(log.has("trecv"));
}
