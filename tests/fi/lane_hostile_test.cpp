// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* One end of a lane writes anything into it: the other end, and a third endpoint, go on. */
#include "lane.h"

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include <treadle/lane.h>

namespace
{

using namespace std::chrono_literals;
using Random = std::mt19937_64;

constexpr std::size_t lane_size =
	TREADLE_LANE_BYTES + std::size_t{TREADLE_LANE_UNITS} * TREADLE_LANE_UNIT;

template <class Word> void write(Word &word, std::uint64_t value)
{
	std::atomic_ref(word).store(static_cast<Word>(value), std::memory_order_relaxed);
}

std::uint64_t *word_of(treadle_lane &lane, std::size_t offset)
{
	return reinterpret_cast<std::uint64_t *>(reinterpret_cast<std::byte *>(&lane) + offset);
}

/* Over the header of each unit: a length up to `longest`, and these flags. */
void write_headers(treadle_lane &lane, Random &random, std::uint32_t longest, std::uint32_t flags)
{
	for (std::size_t i = 0; i < TREADLE_LANE_UNITS; ++i) {
		const std::uint64_t len = random() % (std::uint64_t{longest} + 1);

		write(*word_of(lane, TREADLE_LANE_BYTES + i * TREADLE_LANE_UNIT),
		      len | (random() & flags) << 32);
	}
}

struct Nonsense {
	const char *what;
	void (*write)(treadle_lane &lane, Random &random);
};

const Nonsense nonsense[] = {
	{"tail", [](treadle_lane &lane, Random &random) { write(lane.tail, random()); }},
	{"tail one too far",
	 [](treadle_lane &lane, Random &) {
		 write(lane.tail, lane.head + TREADLE_LANE_UNITS + 1);
	 }},
	{"tail behind head", [](treadle_lane &lane, Random &) { write(lane.tail, lane.head - 1); }},
	{"head", [](treadle_lane &lane, Random &random) { write(lane.head, random()); }},
	{"head a little off",
	 [](treadle_lane &lane, Random &random) {
		 write(lane.head, lane.head + random() % 9 - 4);
	 }},
	{"state", [](treadle_lane &lane, Random &random) { write(lane.state, random()); }},
	{"lengths of messages",
	 [](treadle_lane &lane, Random &random) {
		 write_headers(lane, random, 2 * TREADLE_LANE_LONGEST, TREADLE_LANE_TAGGED);
	 }},
	{"any length",
	 [](treadle_lane &lane, Random &random) {
		 write_headers(lane, random, UINT32_MAX, TREADLE_LANE_TAGGED);
	 }},
	{"pads",
	 [](treadle_lane &lane, Random &random) {
		 write_headers(lane, random, UINT32_MAX, TREADLE_LANE_PAD | TREADLE_LANE_TAGGED);
		 write(lane.tail, lane.head + random() % (TREADLE_LANE_UNITS + 1));
	 }},
	{"everything",
	 [](treadle_lane &lane, Random &random) {
		 for (std::size_t at = 0; at < lane_size; at += 8)
			 write(*word_of(lane, at), random());
	 }},
};

/* The maps of this process that are as long as a lane. */
std::vector<treadle_lane *> maps_like_lanes()
{
	std::ifstream maps("/proc/self/maps");
	std::vector<treadle_lane *> found;

	for (std::string line; std::getline(maps, line);) {
		std::size_t end_at;
		const std::uintptr_t begin = std::stoull(line, &end_at, 16);
		const std::uintptr_t end = std::stoull(line.substr(end_at + 1), nullptr, 16);

		if (end - begin == lane_size && line.find(" rw-s ") != std::string::npos &&
		    line.find("treadle") != std::string::npos)
			found.push_back(reinterpret_cast<treadle_lane *>(begin));
	}
	return found;
}

/* Posts and reads until there is a lane between the two; then spoils it until it is killed. */
int spoil(int line, const Nonsense &kind, bool sends)
{
	Node node(manual());
	Side side(node);
	const fi_addr_t peer = meet(side, line);
	fi_cq_tagged_entry entry;
	std::uint64_t in, i = 0;
	Random random(1);
	std::vector<treadle_lane *> lanes;
	fid_cq *const queue = sends ? side.tx_cq.get() : side.rx_cq.get();
	const auto receive = [&] {
		fi_trecv(side.ep.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr);
	};
	const auto step = [&] {
		if (sends)
			fi_tinject(side.ep.get(), &i, 8, peer, 7);
		const ssize_t rc = fi_cq_read(queue, &entry, 1);
		if (rc == -FI_EAVAIL)
			next_error(queue);
		if (!sends && rc != -FI_EAGAIN)
			receive();
		++i;
	};
	const auto has_lane = [&] {
		const auto stats = lanes_of(node, side.ep.get());
		return sends ? stats.sent : stats.received;
	};

	if (!sends)
		receive();
	/* slowly: there is a lane only when nothing waits */
	while (!has_lane()) {
		step();
		if (sends)
			std::this_thread::sleep_for(1ms);
	}
	lanes = maps_like_lanes();
	if (lanes.empty())
		return 2;
	signal(SIGSEGV, [](int) { _exit(0); }); /* the lane has ended, and its map with it */
	put(line, {});
	/* not for ever: messages without a receive take the sender's memory */
	for (std::uint64_t steps = 0;; ++steps) {
		for (treadle_lane *const lane : lanes)
			kind.write(*lane, random);
		if (steps < 5000)
			step();
	}
}

/* An endpoint that sends and receives, with a receive between words that nothing may change. */
struct Victim {
	explicit Victim(Node &node) : side(node) {}

	void post()
	{
		fi_trecv(side.ep.get(), &words[1], 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr);
	}
	/* Reads what has completed. */
	void read()
	{
		fi_cq_tagged_entry entry;
		const ssize_t rc = fi_cq_read(side.rx_cq.get(), &entry, 1);

		if (rc == 1) {
			EXPECT_LE(entry.len, 8u);
			post();
		} else if (rc == -FI_EAVAIL) {
			EXPECT_EQ(next_error(side.rx_cq.get()).err, FI_ETRUNC);
			post();
		} else {
			EXPECT_EQ(rc, -FI_EAGAIN);
		}
		EXPECT_EQ(words[0], 0u);
		EXPECT_EQ(words[2], 0u);
	}
	void send(fi_addr_t to)
	{
		fi_cq_tagged_entry entry;
		const ssize_t rc = fi_tinject(side.ep.get(), &sent, 8, to, 7);

		sent += !rc;
		EXPECT_TRUE(!rc || rc == -FI_EAGAIN) << rc;
		if (fi_cq_read(side.tx_cq.get(), &entry, 1) == -FI_EAVAIL)
			next_error(side.tx_cq.get());
	}

	Side side;
	std::uint64_t sent = 0;
	std::array<std::uint64_t, 3> words{};
};

/* Numbered messages of another endpoint of this process come by a lane, once and in order. */
void converse(Side &from, fi_addr_t to, Side &at)
{
	std::uint64_t in;

	for (std::uint64_t i = 1; i <= 200; ++i) {
		in = 0;
		ASSERT_EQ(fi_trecv(at.ep.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, 8, 0, nullptr), 0);
		ssize_t rc;
		while ((rc = fi_tinject(from.ep.get(), &i, 8, to, 8)) == -FI_EAGAIN)
			;
		ASSERT_EQ(rc, 0);
		/* what the spoiled lane had left may come before */
		const auto end =
			std::chrono::steady_clock::now() + std::chrono::milliseconds(patience);
		while (!in) {
			ASSERT_LT(std::chrono::steady_clock::now(), end);
			fi_cq_tagged_entry entry;
			const ssize_t got = fi_cq_read(at.rx_cq.get(), &entry, 1);

			if (got == -FI_EAVAIL)
				next_error(at.rx_cq.get());
		}
		ASSERT_EQ(in, i);
	}
}

void withstand(bool hostile_sends)
{
	for (const Nonsense &kind : nonsense) {
		SCOPED_TRACE(kind.what);
		Child child([&](int line) { return spoil(line, kind, hostile_sends); });
		Node node(manual());
		Victim victim(node);
		Side third(node);
		const fi_addr_t hostile = meet(victim.side, child.line());
		const auto step = [&] {
			if (hostile_sends)
				victim.read();
			else
				victim.send(hostile);
		};
		std::atomic<bool> spoiling = false;
		std::thread ear([&] {
			get(child.line());
			spoiling = true;
		});

		if (hostile_sends)
			victim.post(); /* one: lanes open when the kernel has none */
		while (!spoiling) {
			step();
			if (!hostile_sends)
				std::this_thread::sleep_for(1ms); /* as in spoil() */
		}
		ear.join();
		for (const auto end = std::chrono::steady_clock::now() + 300ms;
		     std::chrono::steady_clock::now() < end && !testing::Test::HasFailure();)
			step();
		if (hostile_sends)
			converse(third, third.insert(victim.side.ep.get()), victim.side);
		else
			converse(victim.side, victim.side.insert(third.ep.get()), third);
		if (testing::Test::HasFailure())
			return;
	}
}

TEST(LaneHostile, ASenderThatWritesNonsense)
{
	withstand(true);
}

TEST(LaneHostile, AReceiverThatWritesNonsense)
{
	withstand(false);
}

} // namespace
