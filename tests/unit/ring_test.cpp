// SPDX-License-Identifier: GPL-2.0

/* Descriptor rings: the library's half against the kernel's, in one thread and in two. */

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <treadle/receive_ring.h>

#include "device.h"

using namespace treadle;
using namespace std::chrono_literals;

#ifdef __SANITIZE_THREAD__
constexpr u64 many = 30'000;
#else
constexpr u64 many = 100'000;
#endif

/* Starts from which indices pass 2^31 or 2^32. */
constexpr u32 starts[] = {0, 0x7ffffffd, 0xfffffffd};

static Message message(u64 i)
{
	return {.opcode = TREADLE_OP_TSEND,
		.flags = TREADLE_F_COMPLETION,
		.context = i,
		.addr = i * 3,
		.len = i * 5,
		.peer = i * 7,
		.tag = i * 11,
		.ignore = i * 13,
		.data = i * 17};
}

static std::vector<treadle_iov> vector_of(u64 i)
{
	std::vector<treadle_iov> iov;

	for (u64 j = 0; j <= i % TREADLE_MAX_IOV; ++j)
		iov.push_back({.addr = i * 19 + j, .len = i * 23 + j});
	return iov;
}

/* The slot of message(i), whatever it held before. */
static void expect_message(const treadle_desc &desc, u64 i)
{
	treadle_desc expected{};

	expected.opcode = TREADLE_OP_TSEND;
	expected.iov_count = 1;
	expected.flags = TREADLE_F_COMPLETION;
	expected.context = i;
	expected.addr = i * 3;
	expected.len = i * 5;
	expected.peer = i * 7;
	expected.tag = i * 11;
	expected.ignore = i * 13;
	expected.data = i * 17;
	EXPECT_EQ(std::memcmp(&desc, &expected, sizeof(desc)), 0) << i;
}

class Ring : public testing::TestWithParam<u32>
{
protected:
	static constexpr u32 entries = 8;

	detail::DescriptorRing create()
	{
		treadle_ring_create args{};

		args.entries = entries;
		auto ring = detail::DescriptorRing::create(context.device(), TREADLE_IOC_TX_CREATE,
							   args);
		id = args.id;
		return std::move(ring.value());
	}
	void release_all() { kernel.release(kernel.ring.head - kernel.ring.kern->released); }

	Device device{GetParam()};
	Context context = device.open();
	u32 id = 0;
	detail::DescriptorRing ring = create();
	KernelRing &kernel = device.ring(id);
};

INSTANTIATE_TEST_SUITE_P(, Ring, testing::ValuesIn(starts), testing::PrintToStringParamName());

TEST_P(Ring, a_command_that_is_put_arrives)
{
	for (u64 i = 0; i < 3 * entries; ++i) {
		EXPECT_EQ(kernel.take().has_value(), false);
		ASSERT_EQ(ring.put(message(i)), 0);
		const auto taken = kernel.take();
		ASSERT_TRUE(taken);
		expect_message(taken->desc, i);
		kernel.release(taken->slots);
	}
}

TEST_P(Ring, a_full_ring_returns_eagain_and_does_not_change)
{
	EXPECT_EQ(ring.room(), entries);
	for (u64 i = 0; i < entries; ++i) {
		ASSERT_EQ(ring.put(message(i)), 0);
		EXPECT_EQ(ring.room(), entries - i - 1);
	}
	for (int i = 0; i < 3; ++i) {
		EXPECT_EQ(ring.put(message(99)), -EAGAIN);
		EXPECT_EQ(ring.put(message(99), vector_of(7)), -EAGAIN);
		EXPECT_EQ(ring.put(Command::set(CounterId{1}, 99)), -EAGAIN);
	}
	EXPECT_EQ(ring.room(), 0u);
	for (u64 i = 0; i < entries; ++i)
		expect_message(kernel.take()->desc, i);
	EXPECT_FALSE(kernel.take());
}

/* Read is not finished: only released slots are written again. */
TEST_P(Ring, slots_come_back_by_credit)
{
	for (u64 i = 0; i < entries; ++i)
		ASSERT_EQ(ring.put(message(i)), 0);
	while (kernel.take()) {
	}
	EXPECT_EQ(ring.put(message(entries)), -EAGAIN);
	kernel.release(3);
	EXPECT_EQ(ring.room(), 3u);
	for (u64 i = 0; i < 3; ++i)
		EXPECT_EQ(ring.put(message(entries + i)), 0);
	EXPECT_EQ(ring.put(message(99)), -EAGAIN);
	for (u64 i = 0; i < 3; ++i)
		expect_message(kernel.take()->desc, entries + i);
}

TEST_P(Ring, several_buffers_take_two_slots)
{
	for (u64 i = 0; i < 5 * entries; ++i) {
		const auto iov = vector_of(i);
		const u32 slots = iov.size() > 1 ? 2 : 1;

		ASSERT_EQ(ring.put(message(i), iov), 0);
		EXPECT_EQ(ring.room(), entries - slots);
		const auto taken = kernel.take();
		ASSERT_TRUE(taken);
		EXPECT_EQ(taken->slots, slots);
		EXPECT_EQ(taken->desc.iov_count, iov.size());
		EXPECT_EQ(taken->desc.context, i);
		EXPECT_EQ(taken->desc.len, total(iov));
		EXPECT_EQ(taken->desc.addr, slots > 1 ? 0 : iov[0].addr);
		if (slots > 1) {
			EXPECT_EQ(std::memcmp(taken->iov, iov.data(), iov.size() * sizeof(iov[0])),
				  0);
		}
		kernel.release(slots);
	}
}

TEST_P(Ring, the_last_slot_is_too_little_for_two)
{
	for (u64 i = 0; i < entries - 1; ++i)
		ASSERT_EQ(ring.put(message(i)), 0);
	EXPECT_EQ(ring.put(message(99), vector_of(1)), -EAGAIN);
	EXPECT_EQ(ring.room(), 1u);
	EXPECT_EQ(ring.put(message(entries - 1)), 0);
	for (u64 i = 0; i < entries; ++i)
		expect_message(kernel.take()->desc, i);
}

TEST_P(Ring, no_buffers_and_too_many)
{
	const std::vector<treadle_iov> nine(TREADLE_MAX_IOV + 1);

	EXPECT_EQ(ring.put(message(1), nine), -EINVAL);
	EXPECT_EQ(ring.room(), entries);
	EXPECT_EQ(ring.put(message(1), std::span<const treadle_iov>{}), 0);

	const auto taken = kernel.take();

	EXPECT_EQ(taken->desc.iov_count, 0);
	EXPECT_EQ(taken->desc.addr, 0u);
	EXPECT_EQ(taken->desc.len, 0u);
}

TEST_P(Ring, a_command_arrives_whole)
{
	const auto iov = vector_of(7);
	const auto command = Command::send({}, Peer{2})
				     .buffers(iov)
				     .on(EndpointId{3})
				     .when(CounterId{4}, 5)
				     .notify(CounterId{6})
				     .context(7);

	for (u32 i = 0; i < entries; ++i) {
		ASSERT_EQ(ring.put(command), 0);
		const auto taken = kernel.take();
		ASSERT_TRUE(taken);
		EXPECT_EQ(taken->slots, 2u);
		EXPECT_EQ(std::memcmp(&taken->desc, &command.desc(), sizeof(taken->desc)), 0);
		EXPECT_EQ(std::memcmp(taken->iov, iov.data(), iov.size() * sizeof(iov[0])), 0);
		kernel.release(taken->slots);
		/* from an odd place, too */
		ASSERT_EQ(ring.put(message(i)), 0);
		expect_message(kernel.take()->desc, i);
		kernel.release(1);
	}
}

TEST_P(Ring, a_retracted_command_was_never_there)
{
	ASSERT_EQ(ring.put(message(1)), 0);
	ASSERT_EQ(ring.put(message(2), vector_of(5)), 0);
	ring.retract(2);
	EXPECT_EQ(ring.room(), entries - 1);
	ASSERT_EQ(ring.put(message(3)), 0);
	expect_message(kernel.take()->desc, 1);
	expect_message(kernel.take()->desc, 3);
	EXPECT_FALSE(kernel.take());
}

TEST_P(Ring, the_kernel_asks_for_a_doorbell)
{
	EXPECT_FALSE(ring.doorbell_wanted());
	treadle_ring_want_doorbell(&kernel.ring);
	EXPECT_TRUE(ring.doorbell_wanted());
	treadle_ring_quiet(&kernel.ring);
	EXPECT_FALSE(ring.doorbell_wanted());
	treadle_ring_break(&kernel.ring);
	EXPECT_TRUE(ring.doorbell_wanted());
	treadle_ring_quiet(&kernel.ring);
	EXPECT_TRUE(ring.doorbell_wanted());
}

/* Each index that a process could write is validated, however full the ring is. */
TEST_P(Ring, indices_out_of_range_are_seen)
{
	u32 *const word = &kernel.ring.user->prod;

	for (u32 taken = 0; taken <= entries; ++taken) {
		for (u32 released = 0; released <= taken; ++released) {
			kernel.ring.head = GetParam() + taken;
			kernel.ring.kern->released = GetParam() + released;
			for (int prod = -20; prod <= 40; ++prod) {
				u32 seen;

				*word = GetParam() + prod;
				EXPECT_EQ(treadle_ring_prod(&kernel.ring, &seen),
					  prod >= static_cast<int>(taken) &&
						  prod <= static_cast<int>(released + entries));
				EXPECT_EQ(seen, *word);
			}
		}
	}
}

/* --- in threads --- */

/* Rounds to go; fewer where processors are so busy that they would take too long. */
class Rounds
{
public:
	explicit Rounds(u64 most) : end_(most) {}

	bool includes(u64 i) const { return i < end_; }
	/* Called by the thread that starts the others. */
	void started(u64 i)
	{
		if (i % 64 == 0 && std::chrono::steady_clock::now() > until_)
			end_ = i + 1;
	}
	void stop() { end_ = 0; }

private:
	std::atomic<u64> end_;
	const std::chrono::steady_clock::time_point until_ = std::chrono::steady_clock::now() + 3s;
};

/* A meeting point of two threads. It yields now and then, as there may be fewer processors. */
class Meeting
{
public:
	void meet()
	{
		const u64 all = (arrived_++ / 2 + 1) * 2;

		for (u32 n = 1; arrived_ < all; ++n)
			if (n % 1024 == 0)
				std::this_thread::yield();
	}

private:
	std::atomic<u64> arrived_ = 0;
};

static void doze(u32 n)
{
	while (n--)
		barrier();
}

static bool is_message(const Taken &taken, u64 i)
{
	const auto iov = vector_of(i);
	const bool two = iov.size() > 1;

	return taken.slots == 1u + two && taken.desc.context == i && taken.desc.data == i * 17 &&
	       taken.desc.len == total(iov) &&
	       (!two || std::memcmp(taken.iov, iov.data(), iov.size() * sizeof(iov[0])) == 0);
}

/*
 * Three threads: one posts, one takes as a doorbell does, one finishes as workers do. A field that
 * is seen before it was written has a wrong value.
 */
TEST_P(Ring, nothing_is_torn_between_threads)
{
	Rounds rounds(many);
	std::deque<u32> finished;
	std::mutex lock;
	std::atomic<bool> failed = false;
	const auto fail = [&] {
		failed = true;
		rounds.stop();
	};

	std::thread finisher([&] {
		std::mt19937 random(1);

		for (u64 n = 0; rounds.includes(n);) {
			u32 slots = 0;
			{
				const std::lock_guard guard(lock);

				for (u32 i = random() % 4; i && !finished.empty(); --i, ++n) {
					slots += finished.front();
					finished.pop_front();
				}
			}
			if (slots)
				kernel.release(slots);
			else
				std::this_thread::yield();
		}
	});
	std::thread taker([&] {
		for (u64 i = 0; rounds.includes(i);) {
			const auto taken = kernel.take();

			if (taken) {
				if (!is_message(*taken, i++))
					fail();
				const std::lock_guard guard(lock);
				finished.push_back(taken->slots);
			} else if (kernel.ring.broken) {
				fail();
			} else {
				std::this_thread::yield();
			}
		}
	});
	for (u64 i = 0; rounds.includes(i); ++i) {
		while (ring.put(message(i), vector_of(i)) == -EAGAIN && !failed)
			std::this_thread::yield();
		rounds.started(i);
	}
	taker.join();
	finisher.join();
	EXPECT_FALSE(failed);
	EXPECT_EQ(ring.room(), entries);
}

/*
 * The kernel goes to sleep exactly while a receive is posted. Either it sees the receive, or the
 * poster sees that the doorbell is needed. Each round is a race.
 */
TEST_P(Ring, no_receive_is_overlooked)
{
	Rounds rounds(many);
	Meeting meeting;
	auto rx = std::move(ReceiveRing::create(context, entries).value());
	KernelRing &kernel = device.ring(rx);
	bool rung = false;
	u64 lost = 0;

	device.doorbell = [&](u32) {
		rung = true;
		return 0;
	};

	std::thread sleeper([&] {
		std::mt19937 random(1);

		for (u64 i = 0; rounds.includes(i); ++i) {
			meeting.meet();
			doze(random() % 128);
			treadle_ring_want_doorbell(&kernel.ring);

			const bool seen = kernel.take().has_value();

			meeting.meet();
			lost += !seen && !rung;
			if (!seen)
				kernel.take();
			kernel.release(1);
			treadle_ring_quiet(&kernel.ring);
			rung = false;
			meeting.meet();
		}
	});
	std::mt19937 random(2);
	for (u64 i = 0; rounds.includes(i); ++i) {
		rounds.started(i);
		meeting.meet();
		doze(random() % 128);
		EXPECT_EQ(rx.post(message(i)), std::error_code(0, category()));
		meeting.meet();
		meeting.meet();
	}
	sleeper.join();
	EXPECT_EQ(lost, 0u);
}
