// SPDX-License-Identifier: GPL-2.0

/* Both ends of a lane: in one thread in any order, in two, and against a lane full of nonsense. */

#include <algorithm>
#include <atomic>
#include <cstring>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <treadle/detail/lane.h>

#include "shim.h"

using namespace treadle::detail;

namespace
{

constexpr std::size_t lane_bytes = TREADLE_LANE_BYTES + TREADLE_LANE_UNITS * TREADLE_LANE_UNIT;

/* On the heap, so that a sanitizer sees what goes beyond. */
struct Memory {
	std::vector<std::byte> bytes = std::vector<std::byte>(lane_bytes);
	std::byte *at() const { return const_cast<std::byte *>(bytes.data()); }
};

u32 length_of(u64 i)
{
	constexpr u32 lengths[] = {8, 0, 40, 41, 104, 1, 4096, 8, 8, 3000, 8, 232};

	return lengths[i % std::size(lengths)];
}

std::vector<std::byte> bytes_of(u64 i)
{
	std::vector<std::byte> bytes(length_of(i));

	for (std::size_t j = 0; j < bytes.size(); ++j)
		bytes[j] = static_cast<std::byte>(i * 7 + j);
	return bytes;
}

LaneWriter::Put put(LaneWriter &writer, u64 i)
{
	const u32 flags = i % 2 ? TREADLE_LANE_TAGGED : TREADLE_LANE_DATA;

	if (length_of(i) == 8 && i % 3)
		return writer.put_word(flags, i, i * 3, bytes_of(i).data());
	return writer.put(flags, i, i * 3, bytes_of(i).data(), length_of(i));
}

template <class Message> void expect_message(const Message &message, const std::byte *bytes, u64 i)
{
	const auto expected = bytes_of(i);

	ASSERT_EQ(message.tag, i);
	ASSERT_EQ(message.data, i * 3);
	ASSERT_EQ(message.len, expected.size());
	ASSERT_EQ(message.flags, i % 2 ? TREADLE_LANE_TAGGED : TREADLE_LANE_DATA);
	ASSERT_TRUE(std::equal(expected.begin(), expected.end(), bytes));
}

bool look(LaneReader &reader, LaneReader::Message &message)
{
	for (reader.refresh(); reader.more();) {
		if (reader.look(message))
			return true;
		if (!reader.skip())
			break;
	}
	return false;
}

/* Takes one message, if there is one: number i. */
bool take(LaneReader &reader, u64 i)
{
	LaneReader::Message message;

	if (!look(reader, message))
		return false;
	const std::vector<std::byte> copy(message.bytes, message.bytes + message.len);
	if (!reader.take(message))
		return false;
	expect_message(message, copy.data(), i);
	return true;
}

TEST(Lane, IsShutUntilItsReaderOpensIt)
{
	const Memory memory;
	LaneWriter writer(memory.at(), TREADLE_LANE_UNITS);
	LaneReader reader(memory.at());

	EXPECT_FALSE(writer.open());
	reader.open();
	EXPECT_TRUE(writer.open());
	EXPECT_EQ(put(writer, 0), LaneWriter::Put::done);
	reader.close();
	EXPECT_EQ(put(writer, 1), LaneWriter::Put::shut);
	u64 back = 0;
	EXPECT_TRUE(writer.take_back([&](const treadle_lane_msg &message, const std::byte *bytes) {
		expect_message(message, bytes, back++);
	}));
	EXPECT_EQ(back, 1u) << "the last one is told by the result";
	EXPECT_FALSE(take(reader, 0));
}

/* A reader copies a message before it takes it: the copy would go into the buffer of another one. */
TEST(Lane, WhatWasTakenBackIsNotLookedAt)
{
	const Memory memory;
	LaneWriter writer(memory.at(), TREADLE_LANE_UNITS);
	LaneReader reader(memory.at());
	LaneReader::Message message;

	reader.open();
	reader.close();
	EXPECT_EQ(put(writer, 6), LaneWriter::Put::shut);
	EXPECT_TRUE(writer.take_back([](const treadle_lane_msg &, const std::byte *) {}));
	reader.open();
	EXPECT_EQ(put(writer, 7), LaneWriter::Put::done);
	ASSERT_TRUE(look(reader, message));
	expect_message(message, message.bytes, 7);
}

TEST(Lane, TheReaderMayHaveTakenWhatWasPutLate)
{
	const Memory memory;
	LaneWriter writer(memory.at(), TREADLE_LANE_UNITS);
	LaneReader reader(memory.at());

	EXPECT_EQ(put(writer, 0), LaneWriter::Put::shut);
	EXPECT_TRUE(take(reader, 0));
	EXPECT_FALSE(writer.take_back([](auto &&...) { FAIL(); }));
	EXPECT_TRUE(writer.take_back([](auto &&...) { FAIL(); })) << "there is no late one now";
}

TEST(Lane, TheKernelClosesItForGood)
{
	const Memory memory;
	LaneReader reader(memory.at());
	LaneWriter writer(memory.at(), TREADLE_LANE_UNITS);

	reader.open();
	reinterpret_cast<treadle_lane *>(memory.at())->state = TREADLE_LANE_CLOSED;
	reader.open();
	EXPECT_TRUE(writer.closed());
	EXPECT_FALSE(writer.open());
}

TEST(Lane, HoldsNoMoreThanItsWriterCanTakeBack)
{
	const Memory memory;
	LaneWriter writer(memory.at(), 16);
	LaneReader reader(memory.at());
	u64 n = 0;

	reader.open();
	while (writer.put(0, n, 0, &n, sizeof(n)) == LaneWriter::Put::done)
		++n;
	EXPECT_EQ(n, 16u);
	EXPECT_EQ(writer.waiting(), 16u);
	EXPECT_EQ(put(writer, 6), LaneWriter::Put::full);
}

/* Any order of the ends' steps: each message arrives once, or comes back once, in order. */
TEST(Lane, InAnyOrderOfSteps)
{
	std::mt19937_64 random(1);
	const Memory memory;
	LaneWriter writer(memory.at(), TREADLE_LANE_UNITS);
	LaneReader reader(memory.at());
	LaneReader::Message looked;
	std::vector<std::byte> copy;
	bool has = false;
	u64 sent = 0, arrived = 0, taken = 0, back = 0;

	while (sent < 50'000) {
		switch (random() % 8) {
		case 0:
		case 1:
		case 2: {
			const auto result = put(writer, sent);

			sent += result != LaneWriter::Put::full;
			if (result != LaneWriter::Put::shut)
				break;
			bool late = writer.take_back(
				[&](const treadle_lane_msg &m, const std::byte *bytes) {
					expect_message(m, bytes, arrived++);
					++back;
				});
			if (late)
				++arrived, ++back;
			ASSERT_EQ(arrived, sent);
			break;
		}
		case 3:
			if (random() % 8)
				break;
			ASSERT_TRUE(writer.take_back(
				[&](const treadle_lane_msg &m, const std::byte *bytes) {
					expect_message(m, bytes, arrived++);
					++back;
				}));
			ASSERT_EQ(arrived, sent);
			break;
		case 4:
			if (random() % 4) {
				reader.open();
				has = false;
			} else {
				reader.close();
			}
			break;
		default:
			if (!has) {
				has = look(reader, looked);
				if (has)
					copy.assign(looked.bytes, looked.bytes + looked.len);
			} else {
				has = false;
				if (!reader.take(looked))
					break;
				expect_message(looked, copy.data(), arrived++);
				++taken;
			}
		}
		ASSERT_FALSE(HasFatalFailure());
		ASSERT_FALSE(reader.broken());
	}
	EXPECT_GT(taken, 5'000u);
	EXPECT_GT(back, 5'000u);
}

/* Two threads. With take-backs, bytes are copied while they change, which a sanitizer reports. */
TEST(Lane, InTwoThreads)
{
#ifdef __SANITIZE_THREAD__
	constexpr bool takes_back = false;
	constexpr u64 many = 30'000;
#else
	constexpr bool takes_back = true;
	constexpr u64 many = 300'000;
#endif
	const Memory memory;
	LaneWriter writer(memory.at(), TREADLE_LANE_UNITS);
	LaneReader reader(memory.at());
	std::vector<u8> how(many); /* 1: arrived, 2: came back; written once each */
	std::atomic<bool> ended = false;

	reader.open();
	std::thread sender([&] {
		std::mt19937_64 random(2);
		const auto returned = [&](const treadle_lane_msg &m, const std::byte *bytes) {
			expect_message(m, bytes, m.tag);
			how[m.tag] += 2;
		};

		for (u64 i = 0; i < many;) {
			switch (put(writer, i)) {
			case LaneWriter::Put::done:
				++i;
				if (takes_back && random() % 64 == 0) {
					ASSERT_TRUE(writer.take_back(returned));
				}
				break;
			case LaneWriter::Put::full:
				std::this_thread::yield();
				break;
			default:
				if (writer.take_back(returned))
					how[i] += 2;
				++i;
			}
		}
		ended = true;
	});
	std::mt19937_64 random(3);
	LaneReader::Message message;
	u64 next = 0;
	for (;;) {
		const bool last = ended;

		if (!look(reader, message)) {
			if (last)
				break;
			if (takes_back && random() % 16 == 0) {
				reader.close();
				reader.open();
			}
			continue;
		}
		const std::vector<std::byte> copy(message.bytes, message.bytes + message.len);
		if (!reader.take(message))
			continue;
		ASSERT_GE(message.tag, next);
		next = message.tag + 1;
		expect_message(message, copy.data(), message.tag);
		how[message.tag] += 1;
	}
	sender.join();
	for (u64 i = 0; i < many; ++i)
		ASSERT_TRUE(how[i] == 1 || how[i] == 2) << i << ": " << int{how[i]};
	EXPECT_FALSE(reader.broken());
}

/* The other end writes nonsense: each end stays within its memory, and comes to an end. */
TEST(Lane, Nonsense)
{
	std::mt19937_64 random(4);

	for (int round = 0; round < 3000; ++round) {
		const Memory memory;
		auto *lane = reinterpret_cast<treadle_lane *>(memory.at());
		LaneWriter writer(memory.at(), TREADLE_LANE_UNITS);
		LaneReader reader(memory.at());
		LaneReader::Message message;
		std::vector<std::byte> copy(TREADLE_LANE_LONGEST);

		reader.open();
		for (int step = 0; step < 200; ++step) {
			const u64 wild = random() % 2 ? random() : random() % 600;

			switch (random() % 8) {
			case 0:
				lane->tail = wild;
				break;
			case 1:
				lane->head = wild;
				break;
			case 2:
				lane->state = static_cast<u32>(wild);
				break;
			case 3: {
				const u64 junk[] = {wild, random() % 8, random()};

				std::memcpy(memory.at() + TREADLE_LANE_BYTES +
						    random() % TREADLE_LANE_UNITS *
							    TREADLE_LANE_UNIT,
					    junk, sizeof(junk));
				break;
			}
			case 4:
			case 5:
				put(writer, random());
				break;
			case 6:
				writer.take_back(
					[&](const treadle_lane_msg &m, const std::byte *bytes) {
						ASSERT_LE(m.len, copy.size());
						std::memcpy(copy.data(), bytes, m.len);
					});
				break;
			default:
				if (!look(reader, message))
					break;
				ASSERT_LE(message.len, copy.size());
				std::memcpy(copy.data(), message.bytes, message.len);
				reader.take(message);
			}
		}
		EXPECT_LE(writer.waiting(), TREADLE_LANE_UNITS);
	}
}

} // namespace
