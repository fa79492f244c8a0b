// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_collective(3): the arguments of a call, its completions, and what it does not touch. */
#include "group.h"

namespace
{

// conformance: fi_trigger(3): any data transfer operation is potentially trigger-able: all of ...
// conformance: fi_collective(3): -FI_EOPNOTSUPP, -FI_EMSGSIZE; -FI_EAGAIN: 1024 calls of a group
//   may be under way
TEST(Call, BadInputIsRefused)
{
	Crowd crowd(2);
	fid_ep *ep = crowd[0].ep.get();
	const fi_addr_t group = crowd[0].group(), self = crowd[0].peers[0];
	std::vector<std::uint64_t> buf(16), result(16);
	const auto allreduce = [&](const void *in, std::size_t count, void *out, int type, int op,
				   std::uint64_t flags = 0, fi_addr_t where = FI_ADDR_NOTAVAIL) {
		return fi_allreduce(ep, in, count, nullptr, out, nullptr,
				    where == FI_ADDR_NOTAVAIL ? group : where,
				    static_cast<fi_datatype>(type), static_cast<fi_op>(op), flags,
				    nullptr);
	};

	EXPECT_EQ(allreduce(buf.data(), 1, result.data(), FI_UINT64, FI_ATOMIC_WRITE),
		  -FI_EOPNOTSUPP);
	EXPECT_EQ(allreduce(buf.data(), 1, result.data(), FI_UINT64, FI_CSWAP), -FI_EOPNOTSUPP);
	EXPECT_EQ(allreduce(buf.data(), 1, result.data(), FI_UINT64, 4711), -FI_EOPNOTSUPP);
	EXPECT_EQ(allreduce(buf.data(), 1, result.data(), FI_VOID, FI_SUM), -FI_EOPNOTSUPP);
	EXPECT_EQ(allreduce(buf.data(), 1, result.data(), FI_DOUBLE, FI_BOR), -FI_EOPNOTSUPP);
	EXPECT_EQ(allreduce(buf.data(), 0, result.data(), FI_UINT64, FI_SUM), -FI_EINVAL);
	EXPECT_EQ(allreduce(buf.data(), 1 << 20, result.data(), FI_UINT64, FI_SUM), -FI_EMSGSIZE);
	EXPECT_EQ(allreduce(nullptr, 1, result.data(), FI_UINT64, FI_SUM), -FI_EINVAL);
	EXPECT_EQ(allreduce(buf.data(), 1, nullptr, FI_UINT64, FI_SUM), -FI_EINVAL);
	EXPECT_EQ(allreduce(buf.data(), 1, reinterpret_cast<char *>(result.data()) + 1, FI_UINT64,
			    FI_SUM),
		  -FI_EINVAL);
	EXPECT_EQ(allreduce(buf.data(), 1, result.data(), FI_UINT64, FI_SUM, FI_TRIGGER),
		  -FI_EBADFLAGS);
	EXPECT_EQ(allreduce(buf.data(), 1, result.data(), FI_UINT64, FI_SUM, 0, 4711), -FI_EINVAL);
	EXPECT_EQ(allreduce(buf.data(), 1, result.data(), FI_UINT64, FI_SUM, 0, self), -FI_EINVAL);
	for (const fi_addr_t unknown : {fi_addr_t{4711}, FI_ADDR_NOTAVAIL})
		EXPECT_EQ(fi_broadcast(ep, buf.data(), 1, nullptr, group, unknown, FI_UINT64, 0,
				       nullptr),
			  -FI_EINVAL);
	EXPECT_EQ(fi_broadcast(ep, buf.data(), std::size_t{1} << 40, nullptr, group, self,
			       FI_UINT64, 0, nullptr),
		  -FI_EMSGSIZE);
	EXPECT_EQ(fi_alltoall(ep, buf.data(), 4, nullptr, buf.data() + 4, nullptr, group, FI_UINT64,
			      0, nullptr),
		  -FI_EINVAL)
		<< "they overlap";
	EXPECT_EQ(fi_scatter(ep, buf.data(), 4, nullptr, buf.data() + 4, nullptr, group, self,
			     FI_UINT64, 0, nullptr),
		  -FI_EINVAL)
		<< "what it gets would be over what the other one gets";
	EXPECT_EQ(fi_barrier2(ep, group, FI_INJECT, nullptr), -FI_EBADFLAGS);
	fid_ep *alias = nullptr;
	ASSERT_EQ(fi_ep_alias(ep, &alias, FI_TRANSMIT | FI_TRIGGER), 0);
	const Owned<fid_ep> triggered(alias);
	EXPECT_EQ(fi_barrier(alias, group, nullptr), -FI_EBADFLAGS);
	EXPECT_TRUE(is_silent(crowd[0].cq.get()));
	/* No refused call has counted as a call. */
	EXPECT_EQ(fi_barrier(ep, group, nullptr), 0);
	EXPECT_EQ(fi_barrier(crowd[1].ep.get(), crowd[1].group(), nullptr), 0);
	crowd.expect_done();
}

TEST(Call, ReceivesOfTheApplicationAreNotTouched)
{
	Crowd crowd(4);
	std::uint64_t in[8], one = 1, result[4];

	for (std::size_t i = 0; i < 4; ++i) {
		ASSERT_EQ(fi_recv(crowd[i].ep.get(), &in[i], 8, nullptr, FI_ADDR_UNSPEC, ctx(77)),
			  0);
		ASSERT_EQ(fi_trecv(crowd[i].ep.get(), &in[4 + i], 8, nullptr, FI_ADDR_UNSPEC, 0,
				   ~std::uint64_t{0}, ctx(78)),
			  0);
	}
	for (std::size_t i = 0; i < 4; ++i)
		ASSERT_EQ(fi_allreduce(crowd[i].ep.get(), &one, 1, nullptr, &result[i], nullptr,
				       crowd[i].group(), FI_UINT64, FI_SUM, 0, ctx(5)),
			  0);
	crowd.expect_done(ctx(5));
	for (std::size_t i = 0; i < 4; ++i) {
		EXPECT_TRUE(is_silent(crowd[i].cq.get()));
		EXPECT_EQ(fi_cancel(&crowd[i].ep->fid, ctx(77)), 0);
		EXPECT_EQ(next_error(crowd[i].cq.get()).op_context, ctx(77));
		EXPECT_EQ(fi_cancel(&crowd[i].ep->fid, ctx(78)), 0);
		EXPECT_EQ(next_error(crowd[i].cq.get()).op_context, ctx(78));
	}
}

// conformance: fi_collective(3): completions as of atomics, with the flag FI_COLLECTIVE and in
//   counters of FI_SEND; operations that FI_MORE has postponed start with one
TEST(Call, SuccessIsReportedAsTheQueueWantsIt)
{
	Member::Options options;
	options.cq_flags = FI_SELECTIVE_COMPLETION;
	options.counter = true;
	Crowd crowd(2, options);

	for (std::size_t i = 0; i < 2; ++i)
		ASSERT_EQ(fi_barrier(crowd[i].ep.get(), crowd[i].group(), nullptr), 0);
	for (std::size_t i = 0; i < 2; ++i) {
		EXPECT_TRUE(reaches(crowd[i].sent.get(), 1));
		EXPECT_TRUE(is_silent(crowd[i].cq.get()));
	}
	for (std::size_t i = 0; i < 2; ++i)
		ASSERT_EQ(fi_barrier2(crowd[i].ep.get(), crowd[i].group(), FI_COMPLETION, ctx(5)),
			  0);
	crowd.expect_done(ctx(5));
	for (std::size_t i = 0; i < 2; ++i)
		EXPECT_TRUE(reaches(crowd[i].sent.get(), 2));
}

/* Flags of a call override the defaults; fi_barrier has no flags. */
// conformance: fi_collective(3): completions as of atomics, with the flag FI_COLLECTIVE and in ...
TEST(Call, DefaultFlagsAreForCallsWithoutFlags)
{
	Member::Options options;
	options.cq_flags = FI_SELECTIVE_COMPLETION;
	Info hints = hints_for(FI_MSG | FI_TAGGED | FI_COLLECTIVE);
	hints->tx_attr->op_flags = FI_COMPLETION;
	Crowd crowd(2, options, std::move(hints));
	std::uint64_t one = 1, result[2];

	for (std::size_t i = 0; i < 2; ++i) {
		ASSERT_EQ(fi_allreduce(crowd[i].ep.get(), &one, 1, nullptr, &result[i], nullptr,
				       crowd[i].group(), FI_UINT64, FI_SUM, 0, ctx(4)),
			  0);
		ASSERT_EQ(fi_barrier(crowd[i].ep.get(), crowd[i].group(), ctx(5)), 0);
	}
	crowd.expect_done(ctx(5));
	for (std::size_t i = 0; i < 2; ++i) {
		EXPECT_TRUE(is_silent(crowd[i].cq.get()));
		EXPECT_EQ(result[i], 2u);
	}
}

// conformance: fi_collective(3): completions as of atomics, with the flag FI_COLLECTIVE and in ...
TEST(Call, OperationsPutOffByFiMoreStartWithIt)
{
	Crowd crowd(2);
	Member &first = crowd[0], &second = crowd[1];
	std::uint64_t out = 0x5eed, in = 0;
	iovec iov{&out, sizeof(out)};
	fi_msg message{};

	message.msg_iov = &iov;
	message.iov_count = 1;
	message.addr = first.peers[1];
	message.context = ctx(1);
	ASSERT_EQ(fi_recv(second.ep.get(), &in, sizeof(in), nullptr, FI_ADDR_UNSPEC, ctx(2)), 0);
	ASSERT_EQ(fi_sendmsg(first.ep.get(), &message, FI_MORE), 0);
	ASSERT_EQ(fi_barrier(first.ep.get(), first.group(), ctx(5)), 0);
	EXPECT_EQ(next(second.cq.get()).op_context, ctx(2));
	EXPECT_EQ(in, out);
	EXPECT_EQ(next(first.cq.get()).op_context, ctx(1));
	ASSERT_EQ(fi_barrier(second.ep.get(), second.group(), ctx(5)), 0);
	crowd.expect_done(ctx(5));
}

// conformance: fi_collective(3): -FI_EOPNOTSUPP, -FI_EMSGSIZE; -FI_EAGAIN: 1024 calls of a ...
TEST(Call, AMemberTooFarAheadGetsEagain)
{
	Member::Options options;
	options.cq_size = 4096;
	Crowd crowd(2, options);
	int posted = 0;
	ssize_t rc;

	while (!(rc = fi_barrier(crowd[0].ep.get(), crowd[0].group(), nullptr)))
		++posted;
	EXPECT_EQ(rc, -FI_EAGAIN);
	EXPECT_GE(posted, 100);
	for (int i = 0; i < posted; ++i)
		ASSERT_EQ(fi_barrier(crowd[1].ep.get(), crowd[1].group(), nullptr), 0);
	for (int i = 0; i < posted; ++i)
		crowd.expect_done();
	EXPECT_EQ(fi_barrier(crowd[0].ep.get(), crowd[0].group(), nullptr), 0);
	EXPECT_EQ(fi_barrier(crowd[1].ep.get(), crowd[1].group(), nullptr), 0);
	crowd.expect_done();
}

// conformance: fi_trigger(3): FI_FLUSH_WORK: of the domain, or of one counter (arg is the ...
TEST(Call, FlushingAllDeferredWorkIsNotForIt)
{
	Crowd crowd(2);

	ASSERT_EQ(fi_barrier(crowd[0].ep.get(), crowd[0].group(), ctx(5)), 0);
	ASSERT_EQ(fi_control(&crowd.node.domain->fid, FI_FLUSH_WORK, nullptr), 0);
	ASSERT_EQ(fi_barrier(crowd[1].ep.get(), crowd[1].group(), ctx(5)), 0);
	crowd.expect_done(ctx(5));
}

} // namespace
