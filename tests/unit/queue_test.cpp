// SPDX-License-Identifier: GPL-2.0

/* Completion queues: the library reads what the kernel writes, in one thread and in two. */

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <treadle/completion_queue.h>

#include "device.h"

using namespace treadle;

#ifdef __SANITIZE_THREAD__
constexpr u64 many = 50'000;
#else
constexpr u64 many = 300'000;
#endif

static treadle_cqe completion(u64 i)
{
	return {.context = i,
		.len = i * 3,
		.data = i * 5,
		.tag = i * 7,
		.buf = i * 11,
		.src = i * 13,
		.flags = static_cast<u32>(i * 17),
		.error = static_cast<u32>(i * 19),
		.olen = i * 23};
}

static bool is_completion(const treadle_cqe &cqe, u64 i)
{
	const treadle_cqe expected = completion(i);

	return std::memcmp(&cqe, &expected, sizeof(cqe)) == 0;
}

class Queue : public testing::TestWithParam<u32>
{
protected:
	static constexpr u32 entries = 8;

	Queue()
	{
		device.doorbell = [this](u32) {
			++doorbells;
			kernel.flush();
			return 0;
		};
	}

	void post(u64 count)
	{
		while (count--)
			kernel.post(completion(posted++));
	}
	void expect_read(u64 count)
	{
		Completion one;

		for (; count; --count) {
			ASSERT_EQ(queue.read({&one, 1}), 1u);
			EXPECT_TRUE(is_completion(one.cqe(), seen)) << seen;
			++seen;
		}
	}
	void expect_empty()
	{
		Completion one;

		EXPECT_EQ(queue.read({&one, 1}), std::unexpected(from_errno(EAGAIN)));
	}

	Device device{GetParam()};
	Context context = device.open();
	CompletionQueue queue = std::move(CompletionQueue::create(context, entries).value());
	KernelQueue &kernel = device.queue(queue);
	u64 posted = 0;
	u64 seen = 0;
	int doorbells = 0;
};

INSTANTIATE_TEST_SUITE_P(, Queue, testing::Values(0, 0x7ffffffd, 0xfffffffd),
			 testing::PrintToStringParamName());

TEST_P(Queue, an_empty_queue_returns_eagain_without_a_doorbell)
{
	expect_empty();
	post(1);
	expect_read(1);
	expect_empty();
	EXPECT_EQ(doorbells, 0);
}

TEST_P(Queue, completions_come_in_order)
{
	for (u32 n = 1; n <= entries; ++n) {
		post(n);
		expect_read(n);
		expect_empty();
	}
	EXPECT_EQ(doorbells, 0);
}

TEST_P(Queue, a_read_takes_as_many_as_asked_for)
{
	std::vector<Completion> out(entries + 1);

	post(5);
	EXPECT_EQ(queue.read(std::span(out).first(2)), 2u);
	EXPECT_EQ(queue.read(std::span(out).subspan(2)), 3u);
	for (u64 i = 0; i < 5; ++i)
		EXPECT_TRUE(is_completion(out[i].cqe(), i)) << i;
	EXPECT_EQ(queue.read(out), std::unexpected(from_errno(EAGAIN)));
}

TEST_P(Queue, a_completion_that_the_visitor_refuses_stays)
{
	post(5);
	EXPECT_EQ(queue.consume(5, [](const treadle_cqe &cqe) { return cqe.context != 3; }), 3u);
	EXPECT_EQ(queue.consume(5, [](const treadle_cqe &) { return false; }), 0u);
	seen = 3;
	expect_read(2);
	expect_empty();
}

/* Only completions that were read make room. */
TEST_P(Queue, completions_that_do_not_fit_wait)
{
	post(entries + 3);
	EXPECT_EQ(kernel.kept(), 3u);
	kernel.flush();
	EXPECT_EQ(kernel.kept(), 3u);
	expect_read(2);
	kernel.flush();
	EXPECT_EQ(kernel.kept(), 1u);
	expect_read(entries);
	EXPECT_EQ(doorbells, 0);
	expect_read(1);
	EXPECT_EQ(doorbells, 1);
	expect_empty();
}

TEST_P(Queue, an_empty_ring_is_filled_by_one_doorbell)
{
	post(5 * entries);
	EXPECT_EQ(kernel.kept(), 4 * entries);
	expect_read(5 * entries);
	EXPECT_EQ(doorbells, 4);
	expect_empty();
	EXPECT_EQ(doorbells, 4);
}

TEST_P(Queue, waiting_completions_come_before_later_ones)
{
	post(entries + 1);
	expect_read(entries - 1);
	post(1);
	expect_read(3);
	expect_empty();
}

TEST_P(Queue, an_error_of_the_doorbell_is_returned)
{
	Completion one;

	post(entries + 1);
	expect_read(entries);
	device.doorbell = [](u32) { return -EPERM; };
	EXPECT_EQ(queue.read({&one, 1}), std::unexpected(from_errno(EPERM)));
}

/* One thread completes, one reads, in portions; both are too slow now and then. */
TEST_P(Queue, nothing_is_torn_between_threads)
{
	std::thread writer([&] {
		std::mt19937 random(1);

		for (u64 i = 0; i < many; ++i) {
			kernel.post(completion(i));
			/* limits the overflow, so that the ring is tested, too */
			while (kernel.kept() > random() % (4 * entries))
				std::this_thread::yield();
		}
	});
	std::mt19937 random(2);
	u64 wrong = 0;

	while (seen < many) {
		const auto n = queue.consume(1 + random() % entries, [&](const treadle_cqe &cqe) {
			wrong += !is_completion(cqe, seen++);
			return true;
		});
		if (!n)
			std::this_thread::yield();
	}
	writer.join();
	EXPECT_EQ(wrong, 0u);
	expect_empty();
	EXPECT_EQ(kernel.kept(), 0u);
}
