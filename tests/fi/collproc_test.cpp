// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Collectives among processes: progress without running members, deaths, and the number of system
 * calls.
 */
// conformance: fi_arch(7): collectives

#include "group.h"

#include <set>
#include <vector>

namespace
{

constexpr std::size_t n = 8;

void allreduce(Member &m, std::uint64_t &buf, std::uint64_t &result)
{
	ASSERT_EQ(fi_allreduce(m.ep.get(), &buf, 1, nullptr, &result, nullptr, m.group(), FI_UINT64,
			       FI_SUM, 0, ctx(5)),
		  0);
}

/* The context of the next completion. SIGSTOP and SIGCONT would end a blocking wait. */
void *poll(fid_cq *cq)
{
	fi_cq_tagged_entry entry{};
	ssize_t rc = -FI_EAGAIN;

	for (int i = 0; i < 20'000 && rc == -FI_EAGAIN; ++i) {
		rc = fi_cq_read(cq, &entry, 1);
		usleep(1000);
	}
	EXPECT_EQ(rc, 1);
	return entry.op_context;
}

TEST(Processes, EachOfThemHasTheResult)
{
	Processes all(n, [](Member &m, std::size_t rank, int) {
		for (std::uint64_t i = 0; i < 20; ++i) {
			std::uint64_t buf = rank + i, result = 0, gathered[n], slice[n]{};
			allreduce(m, buf, result);
			EXPECT_EQ(next(m.cq.get()).op_context, ctx(5));
			EXPECT_EQ(result, n * (n - 1) / 2 + n * i);
			ASSERT_EQ(fi_allgather(m.ep.get(), &buf, 1, nullptr, gathered, nullptr,
					       m.group(), FI_UINT64, 0, nullptr),
				  0);
			next(m.cq.get());
			for (std::uint64_t k = 0; k < n; ++k)
				EXPECT_EQ(gathered[k], k + i);
			ASSERT_EQ(fi_alltoall(m.ep.get(), gathered, 1, nullptr, slice, nullptr,
					      m.group(), FI_UINT64, 0, nullptr),
				  0);
			next(m.cq.get());
			for (const std::uint64_t word : slice)
				EXPECT_EQ(word, rank + i);
		}
	});
	for (std::size_t i = 0; i < n; ++i)
		EXPECT_EQ(all[i].wait(), 0);
}

/* The work of stopped members is done, large data included. */
// conformance: fi_collective(3): it is left open which member makes progress: a member that has
//   called makes none
TEST(Processes, AllButTheLastToCallMayBeStopped)
{
	constexpr std::size_t count = 20'000;

	for (const std::size_t last : {std::size_t{0}, n - 1}) {
		Processes all(n, [=](Member &m, std::size_t rank, int line) {
			std::vector<std::uint64_t> buf(count, rank), result(count), sum(count);
			std::uint64_t small = rank, small_sum = 0;
			char byte;

			if (rank == last)
				read_all(line, &byte, 1);
			allreduce(m, small, small_sum);
			ASSERT_EQ(fi_allreduce(m.ep.get(), buf.data(), count, nullptr, sum.data(),
					       nullptr, m.group(), FI_UINT64, FI_SUM, 0, ctx(6)),
				  0);
			if (rank != last)
				write_all(line, "", 1);
			const void *first = poll(m.cq.get()), *second = poll(m.cq.get());
			EXPECT_EQ(std::set<const void *>({first, second}),
				  std::set<const void *>({ctx(5), ctx(6)}));
			EXPECT_EQ(small_sum, n * (n - 1) / 2);
			EXPECT_EQ(sum, std::vector<std::uint64_t>(count, n * (n - 1) / 2));
			if (rank == last)
				write_all(line, "", 1);
		});
		for (std::size_t i = 0; i < n; ++i) {
			if (i == last)
				continue;
			all.await(i);
			all[i].kill(SIGSTOP);
		}
		all.go(last);
		all.await(last); /* this member has the result, and so have the others */
		EXPECT_EQ(all[last].wait(), 0);
		for (std::size_t i = 0; i < n; ++i) {
			if (i == last)
				continue;
			all[i].kill(SIGCONT);
			EXPECT_EQ(all[i].wait(), 0);
		}
	}
}

/* The victim is the tree's root, an inner node, or a leaf. */
TEST(Processes, AMemberThatDiesFailsTheCallOfAllOthersOnce)
{
	for (const std::size_t victim : {std::size_t{0}, std::size_t{4}, n - 1}) {
		Processes all(n, [=](Member &m, std::size_t rank, int line) {
			std::uint64_t buf = 1, result = 0;

			if (rank != victim)
				allreduce(m, buf, result);
			write_all(line, "", 1);
			if (rank == victim)
				pause();
			EXPECT_EQ(next_error(m.cq.get()).op_context, ctx(5));
			EXPECT_TRUE(is_silent(m.cq.get()));
		});
		for (std::size_t i = 0; i < n; ++i)
			all.await(i);
		all[victim].kill(SIGKILL);
		for (std::size_t i = 0; i < n; ++i) {
			if (i == victim)
				continue;
			EXPECT_EQ(all[i].wait(), 0) << "rank " << i << " without " << victim;
		}
	}
}

/* The call fails once all live members have called: until then a buffer may be in use. */
TEST(Processes, AMemberThatIsDeadFailsTheNextCall)
{
	Processes all(3, [](Member &m, std::size_t rank, int line) {
		std::uint64_t buf = 1, result = 0;
		char byte;

		if (rank == 1)
			return;
		read_all(line, &byte, 1);
		allreduce(m, buf, result);
		EXPECT_EQ(next_error(m.cq.get()).op_context, ctx(5));
	});
	EXPECT_EQ(all[1].wait(), 0);
	all.go(0);
	all.go(2);
	EXPECT_EQ(all[0].wait(), 0);
	EXPECT_EQ(all[2].wait(), 0);
}

} // namespace
