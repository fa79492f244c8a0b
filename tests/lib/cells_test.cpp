// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Commands that wait until a word in memory is written. */

#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "node.h"

class CellsTest : public PairTest
{
protected:
	TriggerCells cells = must(TriggerCells::create(a.context, 100), "cells");
	Counter done = must(Counter::create(a.context), "counter");
	std::uint64_t word = 7, got = 0;

	/* A send of the word from a to b. */
	Command send() { return Command::send(bytes_at(&word, 8), a_to_b).on(a.ep.id()).work(); }
	bool arrives()
	{
		EXPECT_EQ(b.receive(bytes_of(got), 1), ok);
		return reap_one(b.rx_cq).error == 0 && got == word;
	}
	bool nothing_happens()
	{
		std::this_thread::sleep_for(a_moment);
		return done.value() == 0;
	}
};

TEST_F(CellsTest, fill_pages_and_lie_side_by_side)
{
	EXPECT_EQ(cells.count(), 512u);
	EXPECT_EQ(cells.at(1), cells.at(0) + 1);
	EXPECT_EQ(*cells.at(511), 0u);
	EXPECT_EQ(TriggerCells::create(a.context, 0).error(), from_errno(EINVAL));
	EXPECT_EQ(TriggerCells::create(a.context, TREADLE_MAX_CELLS + 1).error(),
		  from_errno(EINVAL));
}

TEST_F(CellsTest, start_what_waits_for_the_value_that_is_written)
{
	ASSERT_EQ(a.context.submit(send().when(cells.id(), 3, 5).notify(done.id())), ok);
	cells.write(3, 4);
	cells.write(4, 5);
	EXPECT_TRUE(nothing_happens());
	EXPECT_EQ(cells.done(3), 0u);
	word = 8;
	cells.write(3, 5);
	EXPECT_TRUE(arrives());
	EXPECT_TRUE(reaches(done, 1));
	EXPECT_EQ(cells.done(3), 5u);
}

TEST_F(CellsTest, are_written_by_plain_stores_of_anybody)
{
	ASSERT_EQ(a.context.submit(send().when(cells.id(), 0, 1)), ok);
	ASSERT_EQ(a.context.submit(send().when(cells.id(), 0, 2)), ok);
	std::thread([&] { *static_cast<volatile std::uint64_t *>(cells.at(0)) = 1; }).join();
	EXPECT_TRUE(arrives());
	const pid_t child = fork();
	if (child == 0) {
		cells.write(0, 2);
		_exit(0);
	}
	EXPECT_TRUE(arrives());
	EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(CellsTest, what_waits_can_be_canceled)
{
	ASSERT_EQ(a.context.submit(send().when(cells.id(), 1, 1).context(9).notify(done.id())), ok);
	ASSERT_EQ(a.context.submit(send().when(cells.id(), 2, 1).context(9).notify(done.id())), ok);
	EXPECT_EQ(a.context.cancel(cells.id(), 0, 9), from_errno(ENOENT));
	EXPECT_EQ(a.context.cancel(cells.id(), 1, 8), from_errno(ENOENT));
	EXPECT_EQ(a.context.cancel(cells.id(), 1, 9), ok);
	EXPECT_EQ(cells.done(1), 1u);
	EXPECT_EQ(cells.close(), from_errno(EBUSY));
	EXPECT_EQ(a.context.flush(cells.id()).value(), 1u);
	cells.write(1, 1);
	cells.write(2, 1);
	EXPECT_TRUE(nothing_happens());
	EXPECT_EQ(cells.close(), ok);
}

TEST_F(CellsTest, have_to_be_there)
{
	EXPECT_EQ(a.context.submit(send().when(cells.id(), 512, 1)), from_errno(EINVAL));
	EXPECT_EQ(a.context.submit(send().when(TriggerCellsId{4711}, 0, 1)), from_errno(ENOENT));
	EXPECT_EQ(a.context.submit(send().when(TriggerCellsId(std::uint32_t(done.id())), 0, 1)),
		  from_errno(EBADF));
}

TEST_F(CellsTest, are_followed_by_counters)
{
	for (std::uint64_t i = 1; i <= 50; ++i)
		ASSERT_EQ(a.context.submit(Command::nop().work().when(done.id(), i)), ok);
	cells.write(8, 3);
	ASSERT_EQ(done.follow(cells.id(), 8, 3), ok);
	EXPECT_TRUE(nothing_happens());
	ASSERT_EQ(a.context.submit(send().when(done.id(), 50)), ok);
	cells.write(8, 53);
	EXPECT_TRUE(arrives());
	EXPECT_TRUE(reaches(done, 50));
	EXPECT_EQ(done.close(), from_errno(EBUSY));
	EXPECT_EQ(cells.close(), from_errno(EBUSY));
	cells.write(8, 60);
	EXPECT_EQ(done.unfollow(cells.id(), 8), ok);
	EXPECT_EQ(done.value(), 57u);
	EXPECT_EQ(cells.done(8), 60u);
	EXPECT_EQ(done.unfollow(cells.id(), 8), from_errno(ENOENT));
	EXPECT_EQ(done.follow(cells.id(), 512), from_errno(EINVAL));
	EXPECT_EQ(done.follow(TriggerCellsId{4711}, 0), from_errno(ENOENT));
	EXPECT_EQ(done.close(), ok);
	EXPECT_EQ(cells.close(), ok);
}

TEST_F(CellsTest, have_copies_of_counters)
{
	const auto copied = [&](std::uint32_t index) {
		return __atomic_load_n(cells.at(index), __ATOMIC_ACQUIRE);
	};

	ASSERT_EQ(done.add(7), ok);
	EXPECT_EQ(done.copy_to(cells.id(), 3), from_errno(EINVAL));
	EXPECT_EQ(done.copy_to(cells.id(), 512), from_errno(EINVAL));
	EXPECT_EQ(done.copy_to(TriggerCellsId{}, 0), from_errno(ENOENT));
	EXPECT_EQ(done.end_copy(), from_errno(ENOENT));
	ASSERT_EQ(done.copy_to(cells.id(), 4), ok);
	EXPECT_EQ(copied(4), 7u);
	ASSERT_EQ(done.add(1), ok);
	ASSERT_EQ(done.add_error(2), ok);
	EXPECT_EQ(copied(4), 8u);
	EXPECT_EQ(copied(5), 2u);
	EXPECT_EQ(done.copy_to(cells.id(), 6), from_errno(EBUSY));
	EXPECT_EQ(cells.close(), from_errno(EBUSY));
	ASSERT_EQ(done.end_copy(), ok);
	ASSERT_EQ(done.add(1), ok);
	EXPECT_EQ(copied(4), 8u);
	ASSERT_EQ(done.copy_to(cells.id(), 0), ok);
	ASSERT_EQ(done.close(), ok);
	EXPECT_EQ(copied(0), 9u);
	EXPECT_EQ(cells.close(), ok);
}
