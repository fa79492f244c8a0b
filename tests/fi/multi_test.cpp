// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_msg(3), FI_MULTI_RECV; fi_endpoint(3), FI_OPT_MIN_MULTI_RECV; fi_cq(3), completion flags. */
#include "node.h"

namespace
{

constexpr std::size_t message = 100;

Info hints(std::uint64_t rx_op_flags = 0)
{
	Info hints = hints_for(FI_MSG | FI_TAGGED | FI_MULTI_RECV | FI_TRIGGER);

	hints->rx_attr->op_flags = rx_op_flags;
	return hints;
}

/* A side with completions that have the address of the data. */
struct Fixture : Pair {
	explicit Fixture(std::uint64_t rx_op_flags = 0, std::uint64_t cq_flags = 0)
		: Pair(hints(rx_op_flags), {.cq_flags = cq_flags})
	{
	}
	void set_minimum(std::size_t bytes)
	{
		ASSERT_EQ(fi_setopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &bytes,
				    sizeof(bytes)),
			  0);
	}
	void post(void *buf, std::size_t size, void *context, std::uint64_t flags = FI_MULTI_RECV)
	{
		const iovec iov{buf, size};
		fi_msg msg{};

		msg.msg_iov = &iov;
		msg.iov_count = 1;
		msg.addr = FI_ADDR_UNSPEC;
		msg.context = context;
		ASSERT_EQ(fi_recvmsg(b.ep.get(), &msg, flags), 0);
	}
	void send(unsigned int seed, std::size_t size = message)
	{
		const auto out = pattern(size, seed);

		ASSERT_EQ(fi_inject(a.ep.get(), out.data(), out.size(), b_at_a), 0);
	}
};

void expect_pattern(const void *at, std::size_t size, unsigned int seed)
{
	const auto wanted = pattern(size, seed);

	EXPECT_EQ(std::memcmp(at, wanted.data(), size), 0);
}

} // namespace

// conformance: fi_msg(3): FI_MULTI_RECV: messages are packed into the buffer until it has been
//   consumed
TEST(MultiRecv, MessagesArePackedUntilTheBufferIsConsumed)
{
	Fixture p;
	std::vector<std::uint8_t> buffer(4 * message + message / 2);

	p.set_minimum(message);
	p.post(buffer.data(), buffer.size(), ctx(7));
	for (unsigned int i = 0; i < 4; ++i) {
		p.send(i);
		const auto entry = next(p.b.rx_cq.get());
		EXPECT_EQ(entry.op_context, ctx(7));
		EXPECT_EQ(entry.len, message);
		EXPECT_EQ(entry.buf, buffer.data() + i * message);
		EXPECT_EQ(entry.flags,
			  FI_RECV | FI_MSG | (i == 3 ? FI_MULTI_RECV : std::uint64_t{0}));
		expect_pattern(entry.buf, message, i);
	}
	p.send(9);
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
}

// conformance: fi_cq(3): buf: the starting location where the data was placed
TEST(MultiRecv, UnexpectedMessages)
{
	Fixture p;
	std::vector<std::uint8_t> buffer(3 * message);

	p.set_minimum(1);
	for (unsigned int i = 0; i < 3; ++i)
		p.send(i);
	p.post(buffer.data(), buffer.size(), ctx(7));
	for (unsigned int i = 0; i < 3; ++i) {
		const auto entry = next(p.b.rx_cq.get());
		EXPECT_EQ(entry.buf, buffer.data() + i * message);
		EXPECT_EQ(!!(entry.flags & FI_MULTI_RECV), i == 2);
		expect_pattern(entry.buf, message, i);
	}
}

// conformance: fi_msg(3): FI_MULTI_RECV as operation flag of the endpoint; a tagged receive takes
//   one message
TEST(MultiRecv, AsADefaultOfTheEndpoint)
{
	Fixture p(FI_MULTI_RECV);
	std::vector<std::uint8_t> buffer(2 * message), tagged(2 * message);
	const iovec iov{buffer.data(), buffer.size()};

	for (const bool vector : {false, true}) {
		SCOPED_TRACE(vector);
		if (vector)
			ASSERT_EQ(fi_recvv(p.b.ep.get(), &iov, nullptr, 1, FI_ADDR_UNSPEC, ctx(1)),
				  0);
		else
			ASSERT_EQ(fi_recv(p.b.ep.get(), buffer.data(), buffer.size(), nullptr,
					  FI_ADDR_UNSPEC, ctx(1)),
				  0);
		for (unsigned int i = 0; i < 2; ++i) {
			p.send(i);
			const auto entry = next(p.b.rx_cq.get());
			EXPECT_EQ(entry.buf, buffer.data() + i * message);
			EXPECT_EQ(!!(entry.flags & FI_MULTI_RECV), i == 1);
		}
	}
	/* A tagged receive is for one message. */
	ASSERT_EQ(fi_trecv(p.b.ep.get(), tagged.data(), tagged.size(), nullptr, FI_ADDR_UNSPEC, 1,
			   0, ctx(2)),
		  0);
	ASSERT_EQ(fi_tinject(p.a.ep.get(), "x", 1, p.b_at_a, 1), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).flags, FI_RECV | FI_TAGGED);
	ASSERT_EQ(fi_tinject(p.a.ep.get(), "y", 1, p.b_at_a, 1), 0);
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
}

// conformance: fi_msg(3): FI_MULTI_RECV: an entry is always generated when the buffer has been
//   consumed
TEST(MultiRecv, TheEndIsReportedAlsoIfOtherCompletionsAreSuppressed)
{
	Fixture p(0, FI_SELECTIVE_COMPLETION);
	std::vector<std::uint8_t> buffer(3 * message);

	p.set_minimum(message);
	p.post(buffer.data(), buffer.size(), ctx(7));
	p.send(0);
	p.send(1);
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
	p.send(2);
	const auto entry = next(p.b.rx_cq.get());
	EXPECT_TRUE(entry.flags & FI_MULTI_RECV);
	EXPECT_EQ(entry.op_context, ctx(7));
}

// conformance: fi_msg(3): FI_MULTI_RECV: a message that is too long for the rest of the buffer is
//   truncated, and ends the buffer
TEST(MultiRecv, AMessageThatDoesNotFitIsTruncatedAndEndsTheBuffer)
{
	Fixture p;
	std::vector<std::uint8_t> buffer(message + 30);

	p.set_minimum(1);
	p.post(buffer.data(), buffer.size(), ctx(7));
	p.send(0);
	next(p.b.rx_cq.get());
	p.send(1);
	const auto error = next_error(p.b.rx_cq.get());
	EXPECT_EQ(error.err, FI_ETRUNC);
	EXPECT_EQ(error.len, 30u);
	EXPECT_EQ(error.olen, message - 30);
	EXPECT_EQ(error.buf, buffer.data() + message);
	EXPECT_TRUE(error.flags & FI_MULTI_RECV);
}

TEST(MultiRecv, CancelReleasesTheBuffer)
{
	Fixture p;
	std::vector<std::uint8_t> buffer(10 * message);

	p.post(buffer.data(), buffer.size(), ctx(7));
	p.send(0);
	next(p.b.rx_cq.get());
	ASSERT_EQ(fi_cancel(&p.b.ep->fid, ctx(7)), 0);
	const auto error = next_error(p.b.rx_cq.get());
	EXPECT_EQ(error.err, FI_ECANCELED);
	EXPECT_EQ(error.op_context, ctx(7));
	EXPECT_TRUE(error.flags & FI_MULTI_RECV);
}

// conformance: fi_msg(3): FI_MULTI_RECV: released when the space falls below FI_OPT_MIN_MULTI_RECV;
//   for receives posted after it was set
TEST(MultiRecv, TheMinimumIsThatOfWhenItWasPosted)
{
	Fixture p;
	std::vector<std::uint8_t> buffer(4 * message);
	std::size_t value = 0, size = sizeof(value);

	ASSERT_EQ(fi_getopt(&p.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &size),
		  0);
	EXPECT_GT(value, 0u);
	p.set_minimum(3 * message + 1);
	ASSERT_EQ(fi_getopt(&p.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &size),
		  0);
	EXPECT_EQ(value, 3 * message + 1);
	p.post(buffer.data(), buffer.size(), ctx(1));
	p.set_minimum(message);
	p.post(buffer.data(), buffer.size(), ctx(2));
	p.send(0);
	EXPECT_TRUE(next(p.b.rx_cq.get()).flags & FI_MULTI_RECV);
	p.send(1);
	const auto second = next(p.b.rx_cq.get());
	EXPECT_EQ(second.op_context, ctx(2));
	EXPECT_FALSE(second.flags & FI_MULTI_RECV);
	EXPECT_EQ(fi_setopt(&p.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, 2),
		  -FI_EINVAL);
}

TEST(MultiRecv, AVectorIsRefused)
{
	Fixture p;
	char c[2];
	const iovec iov[2] = {{&c[0], 1}, {&c[1], 1}};
	fi_msg msg{};

	msg.msg_iov = iov;
	msg.iov_count = 2;
	msg.addr = FI_ADDR_UNSPEC;
	EXPECT_EQ(fi_recvmsg(p.b.ep.get(), &msg, FI_MULTI_RECV), -FI_EINVAL);
}

TEST(MultiRecv, ByAThreshold)
{
	Fixture p;
	const auto go = p.node.cntr(), done = p.node.cntr();
	std::vector<std::uint8_t> buffer(2 * message);
	const iovec iov{buffer.data(), buffer.size()};
	fi_op_msg op{};
	fi_deferred_work work{};

	op.ep = p.b.ep.get();
	op.flags = FI_MULTI_RECV | FI_COMPLETION;
	op.msg.msg_iov = &iov;
	op.msg.iov_count = 1;
	op.msg.addr = FI_ADDR_UNSPEC;
	op.msg.context = ctx(3);
	work.triggering_cntr = go.get();
	work.threshold = 1;
	work.completion_cntr = done.get();
	work.op_type = FI_OP_RECV;
	work.op.msg = &op;
	ASSERT_EQ(fi_control(&p.node.domain->fid, FI_QUEUE_WORK, &work), 0);
	ASSERT_EQ(fi_cntr_add(go.get(), 1), 0);
	p.send(0);
	EXPECT_EQ(next(p.b.rx_cq.get()).buf, buffer.data());
	EXPECT_EQ(fi_cntr_read(done.get()), 0u);
	p.send(1);
	EXPECT_TRUE(next(p.b.rx_cq.get()).flags & FI_MULTI_RECV);
	EXPECT_TRUE(reaches(done.get(), 1));
}
