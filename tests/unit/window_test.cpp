// SPDX-License-Identifier: GPL-2.0

/* Sessions with other nodes over connections that are lost: kernel/pure/window.h. */

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "shim.h"

extern "C" {
#include "pure/window.h"
}

namespace
{

/* A frame on its way; number 0 and bare: only an acknowledgment. */
struct Frame {
	u32 number, commands;
	bool data, bare;
	treadle_ack told;
};

/* One end of a session. Frames are numbered from 0, so their number is what they carry. */
struct Side {
	treadle_window window;
	std::deque<Frame> kept, incoming;
	std::vector<u32> processed;
	u32 to_send, to_end = 0;

	Side(u32 room, u32 commands, u32 frames) : to_send(frames)
	{
		treadle_window_init(&window, room, commands);
	}

	void free(int acked)
	{
		ASSERT_GE(acked, 0);
		for (; acked; --acked) {
			treadle_window_free(&window, kept.front().data);
			kept.pop_front();
		}
	}

	/* True: a frame went to @peer. */
	bool send(Side &peer, std::mt19937 &random)
	{
		if (treadle_window_replays(&window)) {
			const u32 number = treadle_window_replay(&window);
			Frame frame = kept[number - window.acked];

			EXPECT_EQ(frame.number, number);
			frame.told = treadle_window_tell(&window);
			peer.incoming.push_back(frame);
			return true;
		}
		const bool data = random() % 2;

		if (!to_send || !treadle_window_may_open(&window, data))
			return false;
		Frame frame{.number = 0, .commands = 0, .data = data, .bare = false, .told = {}};

		while (!data && frame.commands < 3 && treadle_window_use_command(&window))
			frame.commands++;
		treadle_window_open(&window, data);
		frame.number = treadle_window_send(&window);
		frame.told = treadle_window_tell(&window);
		kept.push_back(frame);
		peer.incoming.push_back(frame);
		--to_send;
		return true;
	}

	bool tell(Side &peer)
	{
		if (!treadle_window_owes_ack(&window))
			return false;
		peer.incoming.push_back({0, 0, false, true, treadle_window_tell(&window)});
		return true;
	}

	bool process()
	{
		if (incoming.empty())
			return false;
		const Frame frame = incoming.front();

		incoming.pop_front();
		free(treadle_window_acked(&window, &frame.told));
		if (frame.bare)
			return true;
		EXPECT_EQ(treadle_window_arrived(&window, frame.number, frame.commands), 0);
		processed.push_back(frame.number);
		treadle_window_processed(&window);
		to_end += frame.commands;
		return true;
	}

	/* Commands of the peer end some time after they arrived. */
	bool end(u32 commands)
	{
		commands = std::min(commands, to_end);
		to_end -= commands;
		treadle_window_offer(&window, commands);
		return commands;
	}
};

/* What is under way is lost on both sides; each says how far it has come. */
void connect(Side &a, Side &b)
{
	a.incoming.clear();
	b.incoming.clear();
	const u32 of_a = a.window.expected, of_b = b.window.expected;

	a.free(treadle_window_reconnect(&a.window, of_b));
	b.free(treadle_window_reconnect(&b.window, of_a));
	const treadle_ack from_a = treadle_window_tell(&a.window);
	const treadle_ack from_b = treadle_window_tell(&b.window);

	a.free(treadle_window_acked(&a.window, &from_b));
	b.free(treadle_window_acked(&b.window, &from_a));
}

void expect_all(const Side &side, u32 frames)
{
	ASSERT_EQ(side.processed.size(), frames);
	for (u32 i = 0; i < frames; i++)
		ASSERT_EQ(side.processed[i], i);
}

/* Any order of steps, with @lost connections of a thousand steps: exactly once, in order, all. */
void play(u32 room_a, u32 room_b, u32 commands, unsigned lost, unsigned seed)
{
	constexpr u32 frames = 2000;
	std::mt19937 random(seed);
	Side a(room_a, commands, frames), b(room_b, commands, frames);

	connect(a, b);
	for (unsigned idle = 0; idle < 200; ++idle) {
		Side &side = random() % 2 ? a : b, &peer = &side == &a ? b : a;
		bool moved = false;

		switch (random() % 8) {
		case 0:
		case 1:
		case 2:
			moved = side.send(peer, random);
			break;
		case 3:
		case 4:
		case 5:
			moved = side.process();
			break;
		case 6:
			moved = side.tell(peer);
			break;
		case 7:
			moved = side.end(random() % 4);
			break;
		}
		if (random() % 1000 < lost)
			connect(a, b);
		if (moved)
			idle = 0;
		if (testing::Test::HasFatalFailure())
			return;
	}
	expect_all(a, frames);
	expect_all(b, frames);
}

} // namespace

TEST(Window, EachFrameIsProcessedOnceAndInOrder)
{
	for (unsigned seed = 0; seed < 20; ++seed)
		play(16, 16, 8, 0, seed);
}

TEST(Window, ConnectionsMayBeLostAtAnyTime)
{
	for (unsigned seed = 0; seed < 20; ++seed)
		play(16, 64, 8, 20, seed);
}

TEST(Window, TheSmallestWindowsGoOn)
{
	for (unsigned seed = 0; seed < 20; ++seed)
		play(1, 2, 1, 10, seed);
}

TEST(Window, NumbersMayWrapAround)
{
	Side a(4, 4, 100), b(4, 4, 100);
	std::mt19937 random(1);

	for (Side *side : {&a, &b}) {
		treadle_window &w = side->window;

		w.acked = w.posted = w.next = w.limit = w.expected = 0xfffffff0;
		w.told = {w.expected, w.expected, 0};
	}
	connect(a, b);
	for (unsigned i = 0; i < 10000; ++i) {
		a.send(b, random);
		b.process();
		b.tell(a);
		a.process();
	}
	ASSERT_EQ(b.processed.size(), 100u);
	EXPECT_EQ(b.processed.front(), 0xfffffff0);
	EXPECT_EQ(b.processed.back(), 0xfffffff0 + 99);
}

TEST(Window, DataLeavesRoomForAnswers)
{
	Side a(16, 8, 0), b(16, 8, 0);
	unsigned sent = 0;

	connect(a, b);
	for (; treadle_window_may_open(&a.window, true); ++sent)
		treadle_window_open(&a.window, true);
	EXPECT_EQ(sent, 12u);
	treadle_window_send(&a.window);
	EXPECT_FALSE(treadle_window_may_open(&a.window, true));
	for (; treadle_window_may_open(&a.window, false); ++sent)
		treadle_window_open(&a.window, false);
	EXPECT_EQ(sent, 16u);
	treadle_window_close(&a.window, true);
	EXPECT_TRUE(treadle_window_may_open(&a.window, true));
}

/* What a hostile peer says ends the session, and changes nothing. */
class Hostile : public testing::Test
{
protected:
	void SetUp() override
	{
		treadle_window_init(&w, 16, 8);
		ASSERT_EQ(acked(0, 16, 8), 0);
		for (int i = 0; i < 3; ++i) {
			treadle_window_open(&w, false);
			treadle_window_send(&w);
		}
		treadle_window_tell(&w);
		before = w;
	}
	void TearDown() override { EXPECT_EQ(memcmp(&before, &w, sizeof(w)), 0); }

	int acked(u32 ack, u32 limit, u32 commands)
	{
		const treadle_ack told = {ack, limit, commands};

		return treadle_window_acked(&w, &told);
	}

	treadle_window w, before;
};

TEST_F(Hostile, AcknowledgesWhatWasNotSent)
{
	EXPECT_EQ(acked(4, 20, 8), -EPROTO);
	EXPECT_EQ(acked(~0u, 20, 8), -EPROTO);
	EXPECT_EQ(treadle_window_reconnect(&w, 4), -EPROTO);
	EXPECT_EQ(treadle_window_reconnect(&w, ~0u), -EPROTO);
}

TEST_F(Hostile, TakesALimitOrAGrantBack)
{
	EXPECT_EQ(acked(1, 15, 8), -EPROTO);
	EXPECT_EQ(acked(1, 17, 7), -EPROTO);
}

TEST_F(Hostile, OffersMoreThanASessionMayHave)
{
	EXPECT_EQ(acked(0, TREADLE_MAX_FRAMES + 1, 8), -EPROTO);
	EXPECT_EQ(acked(0, 16, TREADLE_MAX_COMMANDS + 1), -EPROTO);
}

TEST_F(Hostile, SendsAFrameTwiceOrSkipsOne)
{
	EXPECT_EQ(treadle_window_arrived(&w, 1, 0), -EPROTO);
	EXPECT_EQ(treadle_window_arrived(&w, ~0u, 0), -EPROTO);
}

TEST_F(Hostile, SendsMoreCommandsThanGranted)
{
	EXPECT_EQ(treadle_window_arrived(&w, 0, 9), -EPROTO);
	EXPECT_EQ(treadle_window_arrived(&w, 0, ~0u), -EPROTO);
}

TEST(Window, AFrameBeyondTheLimitIsRefused)
{
	treadle_window w;

	treadle_window_init(&w, 2, 8);
	treadle_window_tell(&w);
	EXPECT_EQ(treadle_window_arrived(&w, 0, 0), 0);
	treadle_window_processed(&w);
	EXPECT_EQ(treadle_window_arrived(&w, 1, 0), 0);
	treadle_window_processed(&w);
	EXPECT_EQ(treadle_window_arrived(&w, 2, 0), -EPROTO);
	treadle_window_tell(&w);
	EXPECT_EQ(treadle_window_arrived(&w, 2, 0), 0);
}
