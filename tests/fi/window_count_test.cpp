// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Counters and atomics through windows, and processes without them: Documentation/windows.rst. */
#include "child.h"
#include "window.h"

#include <chrono>
#include <thread>

#include <rdma/fi_atomic.h>

namespace
{

/* --- counters ----------------------------------------------------------------------------- */

struct CountedWindow : testing::Test, CountedEndpoint {
	CountedWindow()
	{
		write(50);
		EXPECT_GT(direct(), 0u);
	}
};

TEST_F(CountedWindow, CountsAddsAndSets)
{
	EXPECT_EQ(fi_cntr_read(writes.get()), 50u);
	ASSERT_EQ(fi_cntr_add(writes.get(), 10), 0);
	write(5);
	EXPECT_EQ(fi_cntr_read(writes.get()), 65u);
	ASSERT_EQ(fi_cntr_set(writes.get(), 3), 0);
	EXPECT_EQ(fi_cntr_read(writes.get()), 3u);
	const auto before = direct();
	write(4);
	EXPECT_EQ(direct(), before + 4);
	EXPECT_EQ(fi_cntr_read(writes.get()), 7u);
	EXPECT_EQ(fi_cntr_wait(writes.get(), 8, 1), -FI_ETIMEDOUT);
	write(1);
	EXPECT_EQ(fi_cntr_wait(writes.get(), 8, 0), 0);
	EXPECT_EQ(fi_cntr_read(writes.get()), 8u);
	EXPECT_EQ(fi_cntr_readerr(writes.get()), 0u);
}

TEST_F(CountedWindow, WakesAThreadThatWaitsForACounter)
{
	for (std::uint64_t i = 1; i <= 200; ++i) {
		std::thread waiter(
			[&] { EXPECT_EQ(fi_cntr_wait(writes.get(), 50 + i, patience), 0); });
		if (i % 2)
			std::this_thread::sleep_for(std::chrono::microseconds(i * 5));
		write(1);
		waiter.join();
		ASSERT_FALSE(HasFailure()) << i;
	}
	EXPECT_EQ(fi_cntr_read(writes.get()), 250u);
}

TEST_F(CountedWindow, ATriggerSeesWhatWasCounted)
{
	const auto armed = [&](std::uint64_t threshold, std::uint64_t *what, std::uint64_t at) {
		auto *const context = new fi_triggered_context{};
		const iovec iov{what, 8};
		const fi_rma_iov target{at, 8, 7};
		const fi_msg_rma msg{&iov, nullptr, 1, self, &target, 1, context, 0};

		context->event_type = FI_TRIGGER_THRESHOLD;
		context->trigger.threshold = {writes.get(), threshold};
		EXPECT_EQ(fi_writemsg(ep.get(), &msg, FI_TRIGGER), 0);
		return std::unique_ptr<fi_triggered_context>(context);
	};
	std::uint64_t two = 2, three = 3;

	const auto now = armed(50, &two, 8); /* counts, too */
	EXPECT_TRUE(reaches(writes.get(), 51));
	EXPECT_EQ(there.seen(1), 2u);
	const auto later = armed(55, &three, 16);
	write(3);
	EXPECT_EQ(fi_cntr_read(writes.get()), 54u);
	EXPECT_EQ(there.seen(2), 0u);
	write(1);
	EXPECT_TRUE(reaches(writes.get(), 56));
	EXPECT_EQ(there.seen(2), 3u);
}

/* --- atomics ------------------------------------------------------------------------------ */

TEST_F(Pinned, AtomicsAreInstructions)
{
	std::uint64_t operand = 5, before = 0, compare = 0;
	const auto fetch = [&](fi_op op) {
		ASSERT_EQ(fi_fetch_atomic(ep(), &operand, 1, nullptr, &before, nullptr, p.b_at_a, 8,
					  7, FI_UINT64, op, ctx(op)),
			  0);
		const auto entry = next(cq());
		EXPECT_EQ(entry.op_context, ctx(op));
		EXPECT_EQ(entry.flags, FI_ATOMIC | FI_READ);
	};

	w.warm();
	const auto direct = w.direct();
	there.word(1) = 10;
	fetch(FI_SUM);
	EXPECT_EQ(before, 10u);
	EXPECT_EQ(there.word(1), 15u);
	fetch(FI_BXOR);
	EXPECT_EQ(before, 15u);
	EXPECT_EQ(there.word(1), 10u);
	fetch(FI_ATOMIC_READ);
	EXPECT_EQ(before, 10u);
	fetch(FI_ATOMIC_WRITE);
	EXPECT_EQ(before, 10u);
	EXPECT_EQ(there.word(1), 5u);
	operand = 8, compare = 5;
	ASSERT_EQ(fi_compare_atomic(ep(), &operand, 1, nullptr, &compare, nullptr, &before, nullptr,
				    p.b_at_a, 8, 7, FI_UINT64, FI_CSWAP, ctx(1)),
		  0);
	next(cq());
	EXPECT_EQ(before, 5u);
	EXPECT_EQ(there.word(1), 8u);
	ASSERT_EQ(fi_inject_atomic(ep(), &operand, 1, p.b_at_a, 8, 7, FI_UINT64, FI_SUM), 0);
	EXPECT_EQ(there.word(1), 16u);
	EXPECT_EQ(w.direct(), direct + 6);
	/* Not one instruction, or not aligned. */
	fetch(FI_PROD);
	EXPECT_EQ(there.word(1), 128u);
	EXPECT_EQ(w.direct(), direct + 6);
	ASSERT_EQ(fi_atomic(ep(), &operand, 1, nullptr, p.b_at_a, 9, 7, FI_UINT64, FI_SUM, ctx(1)),
		  0);
	EXPECT_EQ(next_error(cq()).err, FI_EINVAL);
	EXPECT_EQ(there.word(1), 128u);
}

TEST_F(Window, AtomicsOnMemoryThatIsNotPinnedGoThroughTheKernel)
{
	std::uint64_t one = 1;

	w.warm();
	const auto before = w.direct();
	ASSERT_EQ(fi_inject_atomic(ep(), &one, 1, p.b_at_a, 0, 7, FI_UINT64, FI_SUM), 0);
	EXPECT_EQ(there.word(), 2u);
	EXPECT_EQ(w.direct(), before);
}

/* One thread's go through the window; the other's, of two elements, through the kernel. */
TEST_F(Pinned, AtomicsAreAtomicAgainstThoseOfTheKernel)
{
	constexpr int times = 3000;
	const std::uint64_t ones[] = {1, 1};
	Side third(p.node);
	const fi_addr_t there_too = third.insert(p.b.ep.get());

	w.warm();
	const auto before = w.direct();
	there.word() = there.word(1) = 0;
	std::thread kernel([&] {
		for (int i = 0; i < times; ++i)
			EXPECT_EQ(fi_inject_atomic(third.ep.get(), ones, 2, there_too, 0, 7,
						   FI_UINT64, FI_SUM),
				  0);
	});
	for (int i = 0; i < times; ++i)
		ASSERT_EQ(fi_inject_atomic(ep(), ones, 1, p.b_at_a, 0, 7, FI_UINT64, FI_SUM), 0);
	kernel.join();
	EXPECT_EQ(there.seen(), 2u * times);
	EXPECT_EQ(there.seen(1), 1u * times);
	EXPECT_EQ(w.direct(), before + times);
}

/* --- processes ---------------------------------------------------------------------------- */

TEST_F(Window, AChildCantUseItsParentsWindows)
{
	w.warm();
	Child child([&](int) {
		std::uint64_t value = 9;
		fi_cq_tagged_entry entry;

		EXPECT_EQ(fi_inject_write(ep(), &value, 8, p.b_at_a, 0, 7), -FI_EPERM);
		EXPECT_EQ(fi_read(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, nullptr), -FI_EPERM);
		EXPECT_LT(fi_cq_read(cq(), &entry, 1), 0);
		return 0;
	});
	EXPECT_EQ(child.wait(), 0);
	EXPECT_EQ(there.word(), 1u);
	w.write(5);
	EXPECT_EQ(there.word(), 5u);
}

TEST(WindowOff, TheVariableTurnsThemOff)
{
	Child child([](int) {
		setenv("FI_TREADLE_DIRECT", "0", 1);
		Memory there;
		Pair p(hints_for(caps));
		const auto mr = reg(p.node, there);
		fi_treadle_direct_stats stats{};

		stats.size = sizeof(stats);
		EXPECT_EQ(ops_of<fi_treadle_ops_direct>(p.node, FI_TREADLE_DIRECT_OPS_1)
				  .stats(p.a.ep.get(), &stats),
			  -FI_EOPNOTSUPP);
		for (std::uint64_t i = 0; i < 20; ++i) {
			EXPECT_EQ(fi_inject_write(p.a.ep.get(), &i, 8, p.b_at_a, 0, 7), 0);
			EXPECT_EQ(there.word(), i);
		}
		return 0;
	});
	EXPECT_EQ(child.wait(), 0);
}

} // namespace
