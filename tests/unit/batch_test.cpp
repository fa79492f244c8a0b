// SPDX-License-Identifier: GPL-2.0

/*
 * Batches of commands: the result of a post is that of its command, whatever the doorbell returns.
 */

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <treadle/transmit_ring.h>

#include "device.h"

using namespace treadle;

static const std::error_code ok = from_errno(0);
constexpr int signal_arrives = 1;

class Batch : public testing::Test
{
protected:
	static constexpr u32 entries = 8;

	Batch()
	{
		device.doorbell = [this](u32) { return doorbell(); };
	}

	/* As tx_doorbell() in kernel/exec/submit.c; verdict returns the result of a command. */
	int doorbell()
	{
		int n = 0;

		++doorbells;
		while (const auto taken = kernel.take()) {
			const bool more = taken->desc.flags & TREADLE_F_MORE;
			int rc = verdict(taken->desc.context);

			if (rc == signal_arrives && n) {
				kernel.put_back(*taken);
				return n;
			}
			rc = std::min(rc, 0); /* one command is taken at least */
			if (more && rc != -EAGAIN && rc) {
				/* reported by a completion */
				failed.push_back(taken->desc.context);
				rc = 0;
			} else if (!rc) {
				done.push_back(taken->desc.context);
			}
			if (rc && (n || (more && rc == -EAGAIN))) {
				kernel.put_back(*taken);
				return n ? n : rc;
			}
			if (keep_credits)
				held += taken->slots;
			else
				kernel.release(taken->slots);
			if (rc)
				return rc;
			++n;
		}
		return n;
	}

	std::error_code post(u64 context, u32 flags = 0)
	{
		return tx.post({.opcode = TREADLE_OP_SEND, .flags = flags, .context = context});
	}
	void expect_done(std::vector<u64> expected)
	{
		EXPECT_EQ(done, expected);
		done.clear();
	}

	Device device{0xfffffff0};
	Context context = device.open();
	TransmitRing tx = std::move(TransmitRing::create(context, entries).value());
	KernelRing &kernel = device.ring(tx);
	std::function<int(u64)> verdict = [](u64) { return 0; };
	std::vector<u64> done;
	std::vector<u64> failed;
	int doorbells = 0;
	bool keep_credits = false;
	u32 held = 0;
};

constexpr u32 more = TREADLE_F_MORE;

TEST_F(Batch, a_command_is_run_at_once)
{
	EXPECT_EQ(post(1), ok);
	EXPECT_EQ(post(2), ok);
	EXPECT_EQ(doorbells, 2);
	expect_done({1, 2});
}

TEST_F(Batch, many_are_run_by_one_doorbell)
{
	EXPECT_EQ(post(1, more), ok);
	EXPECT_EQ(post(2, more), ok);
	EXPECT_EQ(post(3, more), ok);
	expect_done({});
	EXPECT_EQ(post(4), ok);
	EXPECT_EQ(doorbells, 1);
	expect_done({1, 2, 3, 4});
}

TEST_F(Batch, a_flush_runs_waiting_commands_only)
{
	EXPECT_EQ(tx.flush(), ok);
	EXPECT_EQ(doorbells, 0);
	EXPECT_EQ(post(1, more), ok);
	EXPECT_EQ(tx.flush(), ok);
	EXPECT_EQ(tx.flush(), ok);
	EXPECT_EQ(doorbells, 1);
	expect_done({1});
}

TEST_F(Batch, one_larger_than_the_ring_starts_before_its_end)
{
	for (u64 i = 0; i < 3 * entries; ++i)
		ASSERT_EQ(post(i, more), ok);
	EXPECT_EQ(tx.flush(), ok);
	EXPECT_EQ(done.size(), 3 * entries);
	EXPECT_LE(doorbells, 3);
}

TEST_F(Batch, a_full_ring_says_again)
{
	keep_credits = true;
	for (u64 i = 0; i < entries; ++i)
		ASSERT_EQ(post(i), ok);
	EXPECT_EQ(post(99), from_errno(EAGAIN));
	EXPECT_EQ(post(99, more), from_errno(EAGAIN));
	kernel.release(1);
	EXPECT_EQ(post(entries), ok);
	EXPECT_EQ(done.size(), entries + 1);
}

TEST_F(Batch, a_signal_stops_nothing)
{
	int signals = 0;

	verdict = [&](u64 context) { return context % 2 && signals++ % 2 ? signal_arrives : 0; };
	signals = 1;
	EXPECT_EQ(post(0, more), ok);
	EXPECT_EQ(post(1, more), ok);
	EXPECT_EQ(post(2, more), ok);
	EXPECT_EQ(post(3), ok);
	expect_done({0, 1, 2, 3});
	EXPECT_EQ(doorbells, 3);
}

TEST_F(Batch, an_error_is_that_of_the_last)
{
	verdict = [](u64 context) { return context == 3 ? -EINVAL : 0; };
	EXPECT_EQ(post(1, more), ok);
	EXPECT_EQ(post(2, more), ok);
	EXPECT_EQ(post(3), from_errno(EINVAL));
	expect_done({1, 2});
	EXPECT_TRUE(failed.empty());
	EXPECT_EQ(post(4), ok);
	expect_done({4});
}

TEST_F(Batch, an_error_of_another_is_not_that_of_the_last)
{
	verdict = [](u64 context) { return context == 1 ? -EINVAL : 0; };
	EXPECT_EQ(post(1, more), ok);
	EXPECT_EQ(post(2), ok);
	expect_done({2});
	EXPECT_EQ(failed, std::vector<u64>{1});
}

/* No room for completions: the batch waits, and the caller has to post the last command again. */
TEST_F(Batch, a_batch_without_room_waits_except_for_its_last)
{
	verdict = [](u64) { return -EAGAIN; };
	EXPECT_EQ(post(1, more), ok);
	EXPECT_EQ(post(2, more), ok);
	EXPECT_EQ(post(3), from_errno(EAGAIN));
	EXPECT_EQ(post(3), from_errno(EAGAIN));
	EXPECT_EQ(tx.flush(), from_errno(EAGAIN));
	EXPECT_EQ(tx.room(), entries - 2);
	verdict = [](u64) { return 0; };
	EXPECT_EQ(post(3), ok);
	expect_done({1, 2, 3});
}

TEST_F(Batch, a_single_command_without_room_is_gone)
{
	verdict = [](u64 context) { return context == 2 ? -EAGAIN : 0; };
	EXPECT_EQ(post(1, more), ok);
	EXPECT_EQ(post(2), from_errno(EAGAIN));
	expect_done({1});
	EXPECT_EQ(tx.room(), entries);
	EXPECT_EQ(tx.flush(), ok);
	expect_done({});
}

/* In any case: a command that was taken is done or fails once, in order, and no other is. */
TEST_F(Batch, every_answer_is_true)
{
	std::mt19937 random(5);
	std::map<u64, bool> promised; /* posted with MORE: it may fail later */
	const std::vector<treadle_iov> two(2);
	u64 next = 0;

	verdict = [&](u64) {
		const u32 dice = random() % 100;

		return dice < 70 ? 0 : dice < 80 ? signal_arrives : dice < 90 ? -EAGAIN : -EINVAL;
	};
	keep_credits = true;
	for (int i = 0; i < 300'000; ++i) {
		const u32 flags = random() % 3 ? more : 0;
		const Message message{.opcode = TREADLE_OP_SEND, .flags = flags, .context = next};
		const std::size_t count = done.size();
		const auto rc = random() % 2 ? tx.post(message) : tx.post(message, two);
		const bool ran = done.size() > count && done.back() == next;

		if (flags) {
			ASSERT_TRUE(!rc || rc == from_errno(EAGAIN)) << rc;
		} else {
			ASSERT_TRUE(!rc || rc == from_errno(EAGAIN) || rc == from_errno(EINVAL))
				<< rc;
			ASSERT_EQ(ran, !rc) << i;
		}
		if (!rc)
			promised[next] = flags;
		++next;
		if (random() % 4 == 0)
			kernel.release(std::exchange(held, 0));
		if (random() % 8 == 0) {
			const auto flushed = tx.flush();

			ASSERT_TRUE(!flushed || flushed == from_errno(EAGAIN)) << flushed;
		}
	}
	verdict = [](u64) { return 0; };
	EXPECT_EQ(tx.flush(), ok);
	kernel.release(std::exchange(held, 0));
	EXPECT_EQ(tx.room(), entries);

	EXPECT_TRUE(std::ranges::is_sorted(done));
	EXPECT_TRUE(std::ranges::is_sorted(failed));
	EXPECT_EQ(done.size() + failed.size(), promised.size());
	for (const u64 context : done)
		ASSERT_EQ(promised.count(context), 1u) << context;
	for (const u64 context : failed)
		ASSERT_TRUE(promised.at(context)) << context;
}
