// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_collective(3): calls that fail, are canceled, or lose their group. */
#include "group.h"

TEST(Failure, MembersThatDisagreeAboutTheCountGetErrors)
{
	Crowd crowd(2);
	std::uint64_t buf[2]{};

	ASSERT_EQ(fi_broadcast(crowd[0].ep.get(), buf, 2, nullptr, crowd[0].group(),
			       crowd[0].peers[0], FI_UINT64, 0, ctx(1)),
		  0);
	ASSERT_EQ(fi_broadcast(crowd[1].ep.get(), buf, 1, nullptr, crowd[1].group(),
			       crowd[1].peers[0], FI_UINT64, 0, ctx(2)),
		  0);
	EXPECT_EQ(next(crowd[0].cq.get()).op_context, ctx(1));
	const auto error = next_error(crowd[1].cq.get());
	EXPECT_EQ(error.op_context, ctx(2));
	EXPECT_EQ(error.err, FI_ETRUNC);
	EXPECT_EQ(error.flags, FI_COLLECTIVE);
	EXPECT_TRUE(is_silent(crowd[1].cq.get()));
}

TEST(Failure, ACanceledCallFailsForAllMembersThatWait)
{
	Crowd crowd(4);
	std::uint64_t one = 1, result[4];

	/* 0 is the root, 2 waits for 3. */
	for (std::size_t i = 0; i < 3; ++i)
		ASSERT_EQ(fi_allreduce(crowd[i].ep.get(), &one, 1, nullptr, &result[i], nullptr,
				       crowd[i].group(), FI_UINT64, FI_SUM, 0, ctx(5)),
			  0);
	EXPECT_EQ(fi_cancel(&crowd[2].ep->fid, ctx(4711)), -FI_ENOENT);
	EXPECT_EQ(fi_cancel(&crowd[2].ep->fid, ctx(5)), 0);
	EXPECT_EQ(next_error(crowd[2].cq.get()).err, FI_ECANCELED);
	EXPECT_EQ(next_error(crowd[0].cq.get()).err, FI_ECANCELED);
	EXPECT_EQ(next_error(crowd[1].cq.get()).err, FI_ECANCELED);
	EXPECT_EQ(fi_cancel(&crowd[2].ep->fid, ctx(5)), -FI_ENOENT);
	/*
	 * The other members still call in step: a late call fails, too, and the next call is
	 * another one.
	 */
	ASSERT_EQ(fi_allreduce(crowd[3].ep.get(), &one, 1, nullptr, &result[3], nullptr,
			       crowd[3].group(), FI_UINT64, FI_SUM, 0, ctx(5)),
		  0);
	EXPECT_EQ(next_error(crowd[3].cq.get()).err, FI_ECANCELED);
	for (std::size_t i = 0; i < 4; ++i)
		ASSERT_EQ(fi_barrier(crowd[i].ep.get(), crowd[i].group(), ctx(6)), 0);
	crowd.expect_done(ctx(6));
}

/* Data too large to be copied waits at its sender. */
TEST(Failure, ACanceledCallFailsForLaterMembers)
{
	for (const std::size_t size : {1, 1024, 1 << 16}) {
		Crowd crowd(2);
		std::vector<std::uint64_t> buf(size);

		ASSERT_EQ(fi_broadcast(crowd[0].ep.get(), buf.data(), size, nullptr,
				       crowd[0].group(), crowd[0].peers[0], FI_UINT64, 0, ctx(1)),
			  0);
		const bool waits = fi_cancel(&crowd[0].ep->fid, ctx(1)) == 0;
		if (waits)
			EXPECT_EQ(next_error(crowd[0].cq.get()).err, FI_ECANCELED);
		else
			EXPECT_EQ(next(crowd[0].cq.get()).op_context, ctx(1));
		EXPECT_EQ(waits, size > 1);
		ASSERT_EQ(fi_broadcast(crowd[1].ep.get(), buf.data(), size, nullptr,
				       crowd[1].group(), crowd[1].peers[0], FI_UINT64, 0, ctx(2)),
			  0);
		if (waits)
			EXPECT_EQ(next_error(crowd[1].cq.get()).err, FI_ECANCELED);
		else
			EXPECT_EQ(next(crowd[1].cq.get()).op_context, ctx(2));
	}
}

// conformance: fi_collective(3): completions as of atomics, with the flag FI_COLLECTIVE and in ...
TEST(Failure, OneOfThoseWithAContextIsCanceled)
{
	Crowd crowd(2);

	for (int i = 0; i < 2; ++i)
		ASSERT_EQ(fi_barrier(crowd[0].ep.get(), crowd[0].group(), ctx(5)), 0);
	EXPECT_EQ(fi_cancel(&crowd[0].ep->fid, ctx(5)), 0);
	EXPECT_EQ(next_error(crowd[0].cq.get()).err, FI_ECANCELED);
	EXPECT_TRUE(is_silent(crowd[0].cq.get()));
	for (int i = 0; i < 2; ++i)
		ASSERT_EQ(fi_barrier(crowd[1].ep.get(), crowd[1].group(), ctx(5)), 0);
	EXPECT_EQ(next_error(crowd[1].cq.get()).err, FI_ECANCELED);
	crowd.expect_done(ctx(5));
}

// conformance: fi_collective(3): fi_close disconnects from the group; fi_mc_addr
TEST(Failure, ClosingAGroupEndsItsCalls)
{
	Crowd crowd(2);

	ASSERT_EQ(fi_barrier(crowd[0].ep.get(), crowd[0].group(), ctx(5)), 0);
	crowd[0].mc.reset();
	const auto error = next_error(crowd[0].cq.get());
	EXPECT_EQ(error.op_context, ctx(5));
	EXPECT_EQ(error.err, FI_ECANCELED);
}

/* Slices too large to be copied wait at their senders, whichever member fails meanwhile. */
// conformance: fi_collective(3): fi_close disconnects from the group; fi_mc_addr
TEST(Failure, AMemberThatLeavesFailsAReductionForAll)
{
	constexpr std::size_t n = 5, count = 1024;

	for (std::size_t victim = 0; victim < n; ++victim) {
		Crowd crowd(n);
		std::vector<std::uint64_t> buf(n * count), results(n * count);

		for (std::size_t i = 0; i < n; ++i) {
			if (i == victim)
				continue;
			ASSERT_EQ(fi_reduce_scatter(crowd[i].ep.get(), buf.data(), count, nullptr,
						    &results[i * count], nullptr, crowd[i].group(),
						    FI_UINT64, FI_SUM, 0, ctx(5)),
				  0);
		}
		crowd[victim].mc.reset();
		crowd[victim].ep.reset();
		for (std::size_t i = 0; i < n; ++i) {
			if (i == victim)
				continue;
			const auto error = next_error(crowd[i].cq.get());
			ASSERT_EQ(error.op_context, ctx(5)) << "victim " << victim << ", at " << i;
			EXPECT_TRUE(is_silent(crowd[i].cq.get()));
		}
	}
}
