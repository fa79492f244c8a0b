// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Lanes end, or give way to the kernel: waits by file, multi-receives, death, close, the switch. */
#include "child.h"
#include "lane.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <poll.h>

#include <rdma/fi_endpoint.h>

namespace
{

using namespace std::chrono_literals;

TEST(LaneWait, AThreadThatWaitsByFileIsWoken)
{
	LanePair pair(Side::Options{.wait = FI_WAIT_FD});
	fid *objects[] = {&pair.p.b.rx_cq->fid};
	fi_cq_tagged_entry entry;
	std::uint64_t in = 0;
	int fd = -1;

	/* a message lies in the lane when the file is asked for */
	const std::uint64_t first = 100;
	ASSERT_EQ(fi_trecv(pair.b(), &in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), 0);
	ASSERT_EQ(fi_tinject(pair.a(), &first, 8, pair.p.b_at_a, 7), 0);
	ASSERT_EQ(fi_control(objects[0], FI_GETWAIT, &fd), 0);
	pollfd file{fd, POLLIN, 0};
	EXPECT_EQ(fi_trywait(pair.p.node.fabric.get(), objects, 1), -FI_EAGAIN);
	ASSERT_EQ(fi_cq_read(pair.p.b.rx_cq.get(), &entry, 1), 1);
	EXPECT_EQ(in, first);
	for (std::uint64_t i = 0; i < 50; ++i) {
		ASSERT_EQ(fi_trecv(pair.b(), &in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), 0);
		ASSERT_EQ(fi_trywait(pair.p.node.fabric.get(), objects, 1), 0);
		std::thread sender(
			[&] { EXPECT_EQ(fi_tinject(pair.a(), &i, 8, pair.p.b_at_a, 7), 0); });
		EXPECT_EQ(poll(&file, 1, patience), 1);
		ASSERT_EQ(fi_cq_read(pair.p.b.rx_cq.get(), &entry, 1), 1);
		EXPECT_EQ(in, i);
		sender.join();
	}
}

TEST(LaneWait, ACounterIsWaitedFor)
{
	LanePair pair(Side::Options{.counters = true});
	const std::uint64_t before = fi_cntr_read(pair.p.b.received.get());
	std::uint64_t in = 0;

	for (std::uint64_t i = 1; i <= 50; ++i) {
		ASSERT_EQ(fi_trecv(pair.b(), &in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), 0);
		std::thread sender(
			[&] { EXPECT_EQ(fi_tinject(pair.a(), &i, 8, pair.p.b_at_a, 7), 0); });
		ASSERT_EQ(fi_cntr_wait(pair.p.b.received.get(), before + i, patience), 0);
		EXPECT_EQ(in, i);
		sender.join();
		next(pair.p.b.rx_cq.get());
	}
}

TEST(LaneGivesWay, AMultiReceiveGetsWhatWaits)
{
	Info hints = manual(FI_MSG | FI_TAGGED | FI_MULTI_RECV);
	Pair p(std::move(hints));
	std::uint64_t buffer[200] = {}, i = 0;
	std::size_t least = 1;
	const iovec iov{buffer, sizeof(buffer)};
	const fi_msg msg{&iov, nullptr, 1, FI_ADDR_UNSPEC, nullptr, 0};

	for (char to; i < 50; ++i) { /* until there is a lane */
		ASSERT_EQ(fi_tinject(p.a.ep.get(), "", 1, p.b_at_a, 1), 0);
		ASSERT_EQ(fi_trecv(p.b.ep.get(), &to, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr),
			  0);
		next(p.b.rx_cq.get());
	}
	ASSERT_GT(lanes_of(p.node, p.a.ep.get()).sent, 0u);
	ASSERT_EQ(fi_setopt(&p.b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
			    sizeof(least)),
		  0);
	for (i = 0; i < 100; ++i)
		ASSERT_EQ(fi_inject(p.a.ep.get(), &i, 8, p.b_at_a), 0);
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
	ASSERT_EQ(fi_recvmsg(p.b.ep.get(), &msg, FI_MULTI_RECV), 0);
	for (; i < 200; ++i)
		ASSERT_EQ(fi_inject(p.a.ep.get(), &i, 8, p.b_at_a), 0);
	for (i = 0; i < 200; ++i) {
		const auto entry = next(p.b.rx_cq.get());
		EXPECT_EQ(entry.buf, &buffer[i]);
		EXPECT_EQ(!!(entry.flags & FI_MULTI_RECV), i == 199);
		ASSERT_EQ(buffer[i], i);
	}
}

TEST(LaneGivesWay, PeersWithIdentifiersAreReceivedFromByTheKernel)
{
	Pair p(manual(lane_caps | FI_AV_USER_ID));
	std::uint64_t in = 0;

	for (std::uint64_t i = 0; i < 100; ++i) {
		ASSERT_EQ(fi_trecv(p.b.ep.get(), &in, 8, nullptr, p.a_at_b, 1, 0, nullptr), 0);
		ASSERT_EQ(fi_tinject(p.a.ep.get(), &i, 8, p.b_at_a, 1), 0);
		next(p.b.rx_cq.get());
		ASSERT_EQ(in, i);
	}
	EXPECT_EQ(lanes_of(p.node, p.a.ep.get()).sent, 0u);
}

TEST(LaneGivesWay, AnAddressThatIsThereTwiceKeepsItsOrder)
{
	LanePair pair;
	const fi_addr_t again = pair.p.a.insert(pair.b());
	std::uint64_t in = 0;

	for (std::uint64_t i = 0; i < 1000; ++i)
		ASSERT_EQ(fi_tinject(pair.a(), &i, 8, i % 3 ? pair.p.b_at_a : again, 7), 0);
	for (std::uint64_t i = 0; i < 1000; ++i) {
		ASSERT_EQ(fi_trecv(pair.b(), &in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr), 0);
		next(pair.p.b.rx_cq.get());
		ASSERT_EQ(in, i);
	}
	EXPECT_EQ(lanes_of(pair.p.node, pair.a()).lanes, 1u);
}

TEST(LaneGivesWay, TheVariableTurnsThemOff)
{
	Child child([](int) {
		setenv("FI_TREADLE_DIRECT", "0", 1);
		Pair p(manual());
		fi_treadle_lane_stats stats{};
		std::uint64_t in = 0;

		stats.size = sizeof(stats);
		EXPECT_EQ(ops_of<fi_treadle_ops_direct>(p.node, FI_TREADLE_DIRECT_OPS_1)
				  .lane_stats(p.a.ep.get(), &stats),
			  -FI_EOPNOTSUPP);
		for (std::uint64_t i = 0; i < 50; ++i) {
			EXPECT_EQ(fi_tinject(p.a.ep.get(), &i, 8, p.b_at_a, 7), 0);
			EXPECT_EQ(fi_trecv(p.b.ep.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0,
					   nullptr),
				  0);
			next(p.b.rx_cq.get());
			EXPECT_EQ(in, i);
		}
		return 0;
	});
	EXPECT_EQ(child.wait(), 0);
}

TEST(LaneEnds, AnEndpointClosesWhileItsPeerSends)
{
	for (int round = 0; round < 30; ++round) {
		LanePair pair;
		std::atomic<bool> over = false;
		char to[64];
		std::thread sender([&] {
			for (std::uint64_t i = 0; !over; ++i) {
				const ssize_t rc = fi_tinject(pair.a(), &i, 8, pair.p.b_at_a, 7);
				EXPECT_TRUE(!rc || rc == -FI_EAGAIN || rc == -FI_ECONNREFUSED)
					<< rc;
			}
		});

		for (int i = 0; i < 20 * round; ++i) {
			fi_cq_tagged_entry entry;

			fi_trecv(pair.b(), to, 8, nullptr, FI_ADDR_UNSPEC, 7, 0, nullptr);
			fi_cq_read(pair.p.b.rx_cq.get(), &entry, 1);
		}
		pair.p.b.ep.reset();
		std::this_thread::sleep_for(1ms);
		over = true;
		sender.join();
	}
}

/* Sends as fast as it can, until it is killed. */
int stream(int line)
{
	Node node(manual());
	Side side(node);
	const fi_addr_t peer = meet(side, line);

	for (std::uint64_t i = 0;; ++i) {
		while (fi_tinject(side.ep.get(), &i, 8, peer, 7) == -FI_EAGAIN)
			;
	}
}

/* All messages come, in their order, up to one of them; and the next sender can be heard. */
TEST(LaneEnds, ASenderIsKilled)
{
	Node node(manual());
	Side side(node);

	for (int round = 0; round < 10; ++round) {
		Child child(stream);
		std::uint64_t in = 0, expected = 0;
		fi_cq_tagged_entry entry;
		const fi_addr_t from = meet(side, child.line());

		ASSERT_EQ(fi_trecv(side.ep.get(), &in, 8, nullptr, from, 7, 0, ctx(1)), 0);
		const auto take = [&](int timeout) {
			if (fi_cq_sread(side.rx_cq.get(), &entry, 1, nullptr, timeout) != 1)
				return false;
			EXPECT_EQ(in, expected++);
			EXPECT_EQ(fi_trecv(side.ep.get(), &in, 8, nullptr, from, 7, 0, ctx(1)), 0);
			return true;
		};
		while (expected < static_cast<std::uint64_t>(round) * 100)
			ASSERT_TRUE(take(patience));
		child.kill(SIGKILL);
		while (take(50))
			ASSERT_FALSE(HasFailure());
		ASSERT_EQ(fi_cancel(&side.ep->fid, ctx(1)), 0);
		EXPECT_EQ(next_error(side.rx_cq.get()).err, FI_ECANCELED);
	}
}

TEST(LaneEnds, AReceiverIsKilled)
{
	for (int round = 0; round < 10; ++round) {
		Child child([](int line) {
			Node node(manual());
			Side side(node);
			std::uint64_t in;

			for (meet(side, line);;) {
				fi_trecv(side.ep.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, 7, 0,
					 nullptr);
				next(side.rx_cq.get());
			}
			return 0;
		});
		Node node(manual());
		Side side(node);
		const fi_addr_t to = meet(side, child.line());
		std::thread killer([&] {
			std::this_thread::sleep_for(std::chrono::milliseconds(3 * round));
			child.kill(SIGKILL);
		});
		fi_cq_tagged_entry entry;
		ssize_t rc = 0;

		for (std::uint64_t i = 0; !rc || rc == -FI_EAGAIN; ++i) {
			fi_tinject(side.ep.get(), &i, 8, to, 7);
			rc = fi_cq_read(side.tx_cq.get(), &entry, 1);
		}
		ASSERT_EQ(rc, -FI_EAVAIL);
		/* the first one may have waited in the kernel as the receiver ended */
		const int error = next_error(side.tx_cq.get()).err;
		EXPECT_TRUE(error == FI_ECONNREFUSED || error == FI_ECONNRESET) << error;
		killer.join();
	}
}

} // namespace
