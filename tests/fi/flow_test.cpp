// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Messages that do not get through: full rings, cancel, wrong peers, wrong buffers. */
#include "kinds.h"

#include <sys/mman.h>

namespace
{

template <class Calls> class Flow : public Message<Calls>
{
};
TYPED_TEST_SUITE(Flow, Kinds);

// conformance: fi_domain(3): resource management: Tx Ctx or Rx Ctx full: EAGAIN
TYPED_TEST(Flow, AFullTransmitRingSaysTryAgain)
{
	Info hints = this->hints();
	hints->tx_attr->size = 32;
	Pair p(std::move(hints));
	const auto out = pattern(64 << 10); /* stays with the sender until it is received */
	std::vector<std::uint8_t> in(out.size());
	int posted = 0;
	ssize_t rc;

	while ((rc = TypeParam::send(p.a.ep.get(), out.data(), out.size(), p.b_at_a, ctx(1))) ==
		       0 &&
	       posted < 1000)
		++posted;
	EXPECT_EQ(rc, -FI_EAGAIN);
	EXPECT_GE(posted, 32);
	for (int i = 0; i < posted; ++i) {
		ASSERT_EQ(TypeParam::recv(p.b.ep.get(), in.data(), in.size(), FI_ADDR_UNSPEC,
					  ctx(2)),
			  0);
		this->expect_received(p.b.rx_cq.get(), ctx(2), out.size());
		this->expect_sent(p.a.tx_cq.get(), ctx(1));
	}
	EXPECT_EQ(TypeParam::inject(p.a.ep.get(), out.data(), 1, p.b_at_a), 0);
}

// conformance: fi_domain(3): resource management: Tx Ctx or Rx Ctx full: EAGAIN
TYPED_TEST(Flow, AFullReceiveRingSaysTryAgain)
{
	Info hints = this->hints();
	hints->rx_attr->size = 32;
	Pair p(std::move(hints));
	char c;
	int posted = 0;
	ssize_t rc;

	while ((rc = TypeParam::recv(p.b.ep.get(), &c, 1, FI_ADDR_UNSPEC, ctx(1))) == 0 &&
	       posted < 1000)
		++posted;
	EXPECT_EQ(rc, -FI_EAGAIN);
	EXPECT_GE(posted, 32);
	ASSERT_EQ(TypeParam::inject(p.a.ep.get(), "x", 1, p.b_at_a), 0);
	next(p.b.rx_cq.get());
	EXPECT_EQ(TypeParam::recv(p.b.ep.get(), &c, 1, FI_ADDR_UNSPEC, ctx(1)), 0);
}

/* MPI programs post thousands of receives, and don't send before. */
TYPED_TEST(Flow, ByDefaultThereIsRoomForThousandsOfReceives)
{
	Pair p(this->hints());
	char c;

	for (int i = 0; i < 4096; ++i)
		ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &c, 1, FI_ADDR_UNSPEC, ctx(i)), 0) << i;
	EXPECT_EQ(TypeParam::recv(p.b.ep.get(), &c, 1, FI_ADDR_UNSPEC, ctx(1)), -FI_EAGAIN);
	for (int i = 0; i < 4096; ++i) {
		ASSERT_EQ(TypeParam::inject(p.a.ep.get(), "x", 1, p.b_at_a), 0);
		ASSERT_EQ(next(p.b.rx_cq.get()).op_context, ctx(i));
	}
}

// conformance: fi_endpoint(3): fi_cancel: one operation, by its context; operations without a
//   context can't be canceled; receives of a shared context through that context
TYPED_TEST(Flow, CancelTakesAReceiveBack)
{
	Pair p(this->hints());
	char first = 0, second = 0;

	ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &first, 1, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &second, 1, FI_ADDR_UNSPEC, ctx(2)), 0);
	EXPECT_EQ(fi_cancel(&p.b.ep->fid, ctx(3)), -FI_ENOENT);
	EXPECT_EQ(fi_cancel(&p.b.ep->fid, ctx(1)), 0);
	const auto error = next_error(p.b.rx_cq.get());
	EXPECT_EQ(error.err, FI_ECANCELED);
	EXPECT_EQ(error.op_context, ctx(1));
	ASSERT_EQ(TypeParam::inject(p.a.ep.get(), "x", 1, p.b_at_a), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(2));
	EXPECT_EQ(first, 0);
	EXPECT_EQ(second, 'x');
	EXPECT_EQ(fi_cancel(&p.b.ep->fid, ctx(2)), -FI_ENOENT);
}

TYPED_TEST(Flow, CancelTakesBackASendThatIsNotReceived)
{
	Pair p(this->hints());
	const auto out = pattern(64 << 10);

	ASSERT_EQ(TypeParam::send(p.a.ep.get(), out.data(), out.size(), p.b_at_a, ctx(1)), 0);
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
	EXPECT_EQ(fi_cancel(&p.a.ep->fid, ctx(1)), 0);
	EXPECT_EQ(next_error(p.a.tx_cq.get()).err, FI_ECANCELED);
}

/* "Operations posted without a valid context parameter [...] cannot be canceled." */
// conformance: fi_endpoint(3): fi_cancel: one operation, by its context; operations without a ...
TYPED_TEST(Flow, OperationsWithoutAContextCannotBeCanceled)
{
	Pair p(this->hints());
	char c = 0;

	ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &c, 1, FI_ADDR_UNSPEC, nullptr), 0);
	EXPECT_EQ(fi_cancel(&p.b.ep->fid, nullptr), -FI_ENOENT);
	ASSERT_EQ(TypeParam::inject(p.a.ep.get(), "x", 1, p.b_at_a), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, nullptr);
	EXPECT_EQ(c, 'x');
}

// conformance: fi_endpoint(3): fi_cancel: one operation, by its context; operations without a ...
TYPED_TEST(Flow, AnInjectedMessageHasNoContextToBeCanceledBy)
{
	Pair p(this->hints());
	fid_ep *alias = nullptr;
	ASSERT_EQ(fi_ep_alias(p.a.ep.get(), &alias, FI_TRANSMIT | FI_FENCE), 0);
	const Owned<fid_ep> fenced(alias);
	const auto out = pattern(64 << 10);
	std::vector<std::uint8_t> in(out.size());

	ASSERT_EQ(TypeParam::send(p.a.ep.get(), out.data(), out.size(), p.b_at_a, ctx(1)), 0);
	ASSERT_EQ(TypeParam::inject(alias, out.data(), 3, p.b_at_a), 0); /* waits for it */
	EXPECT_EQ(fi_cancel(&p.a.ep->fid, p.a.ep->fid.context), -FI_ENOENT);
	EXPECT_EQ(fi_cancel(&alias->fid, alias->fid.context), -FI_ENOENT);
	for (const std::size_t size : {out.size(), std::size_t{3}}) {
		ASSERT_EQ(TypeParam::recv(p.b.ep.get(), in.data(), in.size(), FI_ADDR_UNSPEC,
					  ctx(2)),
			  0);
		this->expect_received(p.b.rx_cq.get(), ctx(2), size);
	}
	this->expect_sent(p.a.tx_cq.get(), ctx(1));
}

/*
 * "the default operation flags apply where a flags parameter is not available": so does the
 * completion level, at which the counter counts.
 */
TYPED_TEST(Flow, AnInjectedMessageIsCountedWhenItsLevelIsReached)
{
	Side::Options options;
	options.counters = true;
	Pair p(this->hints(), options);
	fid_ep *alias = nullptr;
	ASSERT_EQ(fi_ep_alias(p.a.ep.get(), &alias, FI_TRANSMIT | FI_MATCH_COMPLETE), 0);
	const Owned<fid_ep> matched(alias);
	char in[2] = {};

	ASSERT_EQ(TypeParam::inject(alias, "a", 1, p.b_at_a), 0);
	EXPECT_EQ(fi_cntr_wait(p.a.sent.get(), 1, 50), -FI_ETIMEDOUT);
	ASSERT_EQ(TypeParam::inject(p.a.ep.get(), "b", 1, p.b_at_a), 0);
	EXPECT_TRUE(reaches(p.a.sent.get(), 1));
	for (char &c : in) {
		ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &c, 1, FI_ADDR_UNSPEC, ctx(2)), 0);
		this->expect_received(p.b.rx_cq.get(), ctx(2), 1);
	}
	EXPECT_TRUE(reaches(p.a.sent.get(), 2));
	EXPECT_EQ(std::string(in, 2), "ab");
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));
}

TYPED_TEST(Flow, WrongPeersAndBuffersAreReported)
{
	Pair p(this->hints());
	char c = 0;
	Log log;

	/* No such entry: nothing was sent. */
	EXPECT_EQ(TypeParam::send(p.a.ep.get(), &c, 1, 12345, ctx(1)), -FI_EADDRNOTAVAIL);
	EXPECT_NE(log.all(), "");
	EXPECT_TRUE(is_silent(p.a.tx_cq.get()));

	/* No endpoint has the address. */
	fi_addr_t unreachable;
	{
		Side gone(p.node);
		unreachable = p.a.insert(gone.ep.get());
	}
	ASSERT_EQ(TypeParam::send(p.a.ep.get(), &c, 1, unreachable, ctx(2)), 0);
	auto error = next_error(p.a.tx_cq.get());
	EXPECT_EQ(error.err, FI_ECONNREFUSED);
	EXPECT_EQ(error.op_context, ctx(2));

	/* Nothing is mapped there. */
	void *nothing = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(nothing, 4096);
	ASSERT_EQ(TypeParam::recv(p.b.ep.get(), &c, 1, FI_ADDR_UNSPEC, ctx(3)), 0);
	ASSERT_EQ(TypeParam::send(p.a.ep.get(), nothing, 1, p.b_at_a, ctx(4)), 0);
	EXPECT_EQ(next_error(p.a.tx_cq.get()).err, FI_EFAULT);
}

TYPED_TEST(Flow, LongerThanTheLimitIsRefused)
{
	Pair p(this->hints());
	char c;

	EXPECT_EQ(TypeParam::send(p.a.ep.get(), &c, p.node.info->ep_attr->max_msg_size + 1,
				  p.b_at_a, nullptr),
		  -FI_EMSGSIZE);
}

} // namespace
