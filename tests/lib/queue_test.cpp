// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Completion queues and counters: nothing is lost, and waiting ends when it should. */

#include <atomic>
#include <numeric>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "node.h"

class QueueTest : public PairTest
{
protected:
	/* Many more completions than the queue holds, all written before any is read. */
	static constexpr std::uint64_t many = 200;
	Node small{{.ring = 256, .queue = 8}};
	Peer a_to_small = a.to(small);

	void fill(std::vector<std::uint64_t> &in)
	{
		for (std::uint64_t i = 0; i < in.size(); ++i)
			ASSERT_EQ(small.receive(bytes_of(in[i]), i), ok);
	}
};

TEST_F(QueueTest, overflow_keeps_everything_in_order)
{
	/* The ring, and the minimum of kept completions that the documentation promises. */
	const std::uint64_t n = 2 * small.rx_cq.entries();
	std::vector<std::uint64_t> in(n);
	std::uint64_t out = 1;

	fill(in);
	for (std::uint64_t i = 0; i < n; ++i) {
		ASSERT_EQ(a.send(bytes_of(out), a_to_small), ok);
		reap(a.tx_cq, 1);
	}
	const auto all = reap(small.rx_cq, n);
	for (std::uint64_t i = 0; i < all.size(); ++i)
		EXPECT_EQ(all[i].context, i);
	EXPECT_TRUE(stays_empty(small.rx_cq));
}

/* What the receiver's queue has no room for is refused, waits or is kept; it is not lost. */
TEST_F(QueueTest, overflow_under_load)
{
	std::vector<std::uint64_t> in(many);
	std::uint64_t out = 1;
	std::uint64_t posted = 0;
	std::uint64_t seen = 0;
	Completion some[3];

	fill(in);
	while (seen < many) {
		while (posted < many && !a.send(bytes_of(out), a_to_small, 0, TREADLE_F_INJECT))
			++posted;
		while (a.tx_cq.read(some))
			;
		ASSERT_EQ(small.rx_cq.wait(patience), ok)
			<< posted << " posted, " << seen << " seen";
		for (std::uint32_t i = 0, n = must(small.rx_cq.read(some), "read"); i < n; ++i)
			ASSERT_EQ(some[i].context(), seen++);
	}
	EXPECT_EQ(posted, many);
}

TEST_F(QueueTest, full_queue_refuses_commands)
{
	std::uint64_t out = 1;
	std::error_code rc;
	std::uint64_t posted = 0;

	/* Sends of `small` complete into its queue of 8. */
	const auto to_a = small.to(a);
	for (std::uint64_t i = 0; i < many && !rc; ++i) {
		rc = small.send(bytes_of(out), to_a, i, TREADLE_F_INJECT);
		posted += !rc;
	}
	EXPECT_EQ(rc, from_errno(EAGAIN));
	EXPECT_GE(posted, small.tx_cq.entries());
	EXPECT_EQ(reap(small.tx_cq, posted).size(), posted);
	EXPECT_EQ(small.send(bytes_of(out), to_a, 1, TREADLE_F_INJECT), ok);
}

/* The queue has no room for a batch: nothing is lost or done twice, and the order stays. */
TEST_F(QueueTest, full_queue_holds_up_a_batch)
{
	constexpr std::uint64_t n = 4000;
	constexpr std::uint64_t batch = 800; /* more than ring and queue together hold */
	Node peer({.ring = 4096, .queue = 4096});
	const auto to = small.to(peer);
	std::vector<std::uint64_t> in(n);
	std::vector<std::uint64_t> out(n);
	std::uint64_t posted = 0;
	std::uint64_t completed = 0;
	int refused = 0;
	Completion some[5];

	std::iota(out.begin(), out.end(), 0);
	for (auto &word : in)
		ASSERT_EQ(peer.receive(bytes_of(word)), ok);
	while (posted < n) {
		const bool last = posted % batch == batch - 1;
		const auto rc = small.tx.post(
			Command::send(bytes_at(&out[posted], 8), to)
				.context(posted)
				.completion()
				.flags(TREADLE_F_INJECT | (last ? 0 : TREADLE_F_MORE)));

		ASSERT_TRUE(!rc || rc == from_errno(EAGAIN)) << rc;
		posted += !rc;
		if (!rc)
			continue;
		++refused;
		for (std::uint32_t i = 0, n = must(small.tx_cq.read(some), "read"); i < n; ++i) {
			EXPECT_EQ(some[i].error(), ok);
			ASSERT_EQ(some[i].context(), completed++);
		}
	}
	EXPECT_GT(refused, 0);
	for (const auto &cqe : reap(small.tx_cq, n - completed))
		ASSERT_EQ(cqe.context, completed++);
	reap(peer.rx_cq, n);
	for (std::uint64_t i = 0; i < n; ++i)
		ASSERT_EQ(in[i], i);
}

TEST_F(QueueTest, consume_stops_where_it_is_told)
{
	std::uint64_t in[4]{};
	std::uint64_t out = 1;
	std::vector<std::uint64_t> seen;

	for (std::uint64_t i = 0; i < 4; ++i) {
		ASSERT_EQ(b.receive(bytes_of(in[i]), i), ok);
		ASSERT_EQ(a.send(bytes_of(out), a_to_b), ok);
	}
	ASSERT_TRUE(reaches(b.received, 4));
	const auto until = [&](std::uint64_t last) {
		return [&seen, last](const treadle_cqe &cqe) {
			if (cqe.context == last)
				return false;
			seen.push_back(cqe.context);
			return true;
		};
	};
	EXPECT_EQ(b.rx_cq.consume(10, until(0)), 0u);
	EXPECT_EQ(b.rx_cq.consume(10, until(2)), 2u);
	EXPECT_EQ(b.rx_cq.consume(1, until(99)), 1u);
	EXPECT_EQ(b.rx_cq.consume(10, until(99)), 1u);
	EXPECT_EQ(b.rx_cq.consume(10, until(99)), std::unexpected(from_errno(EAGAIN)));
	EXPECT_EQ(seen, (std::vector<std::uint64_t>{0, 1, 2, 3}));
}

TEST_F(QueueTest, wait_times_out)
{
	EXPECT_EQ(a.rx_cq.wait(0ns), from_errno(EAGAIN));
	const auto start = std::chrono::steady_clock::now();
	EXPECT_EQ(a.rx_cq.wait(200ms), from_errno(ETIMEDOUT));
	EXPECT_GE(std::chrono::steady_clock::now() - start, 200ms);
}

TEST_F(QueueTest, wait_returns_when_a_completion_comes)
{
	std::uint64_t in = 0;
	std::uint64_t out = 1;

	ASSERT_EQ(b.receive(bytes_of(in)), ok);
	std::jthread sender([&] {
		std::this_thread::sleep_for(50ms);
		EXPECT_EQ(a.send(bytes_of(out), a_to_b), ok);
	});
	EXPECT_EQ(b.rx_cq.wait(), ok);
	EXPECT_EQ(reap(b.rx_cq, 1).size(), 1u);
}

TEST_F(QueueTest, signal_ends_a_wait)
{
	for (const bool queue : {true, false}) {
		std::atomic<bool> done = false;
		/* A signal ends a wait: repeat until it has come while the other thread was waiting. */
		std::jthread other([&] {
			while (!done) {
				EXPECT_EQ(queue ? a.rx_cq.signal() : a.sent.signal(), ok);
				std::this_thread::sleep_for(1ms);
			}
		});
		EXPECT_EQ(queue ? a.rx_cq.wait(patience) : a.sent.wait(1, 0, patience),
			  from_errno(ECANCELED));
		done = true;
	}
}

TEST_F(QueueTest, a_unix_signal_ends_a_wait)
{
	struct sigaction action {
	};
	std::atomic<bool> done = false;
	const auto self = pthread_self();

	action.sa_handler = [](int) {};
	sigaction(SIGUSR1, &action, nullptr);
	std::jthread other([&] {
		while (!done) {
			pthread_kill(self, SIGUSR1);
			std::this_thread::sleep_for(1ms);
		}
	});
	EXPECT_EQ(a.rx_cq.wait(patience), from_errno(EINTR));
	EXPECT_EQ(a.sent.wait(1, 0, patience), from_errno(EINTR));
	done = true;
}

/* No wake-up is lost: two nodes wait for each other, again and again. */
TEST_F(QueueTest, ping_pong_by_waiting)
{
	constexpr int rounds = 2000;
	const auto run = [&](Node &me, Peer peer, bool first) {
		std::uint64_t in = 0;
		std::uint64_t out = 0;
		Completion one;

		for (int i = 0; i < rounds; ++i) {
			if (me.receive(bytes_of(in)) ||
			    (first && me.send(bytes_of(out), peer, 0, TREADLE_F_INJECT)))
				return i;
			if (me.rx_cq.wait(patience) || !me.rx_cq.read({&one, 1}))
				return i;
			if (!first && me.send(bytes_of(out), peer, 0, TREADLE_F_INJECT))
				return i;
			while (me.tx_cq.read({&one, 1}))
				;
		}
		return rounds;
	};
	int there = 0;
	{
		std::jthread other([&] { there = run(b, b_to_a, false); });
		EXPECT_EQ(run(a, a_to_b, true), rounds);
	}
	EXPECT_EQ(there, rounds);
}

TEST_F(QueueTest, fd_with_epoll)
{
	std::uint64_t in[2]{};
	std::uint64_t out = 1;
	epoll_event event{.events = EPOLLIN, .data = {}};
	const int fd = must(b.rx_cq.fd(), "fd");
	const int epoll = epoll_create1(EPOLL_CLOEXEC);

	EXPECT_EQ(must(b.rx_cq.fd(), "fd"), fd);
	EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ASSERT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
	EXPECT_EQ(epoll_wait(epoll, &event, 1, 0), 0);
	for (auto &word : in)
		ASSERT_EQ(b.receive(bytes_of(word)), ok);
	{
		std::jthread sender([&] {
			std::this_thread::sleep_for(50ms);
			EXPECT_EQ(a.send(bytes_of(out), a_to_b), ok);
		});
		EXPECT_EQ(epoll_wait(epoll, &event, 1, patience_ms), 1);
	}
	EXPECT_EQ(epoll_wait(epoll, &event, 1, 0), 1) << "still not empty";
	reap(b.rx_cq, 1);
	EXPECT_EQ(epoll_wait(epoll, &event, 1, 0), 0);
	ASSERT_EQ(a.send(bytes_of(out), a_to_b), ok);
	EXPECT_EQ(epoll_wait(epoll, &event, 1, patience_ms), 1);
	::close(epoll);
}

class CounterTest : public PairTest
{
protected:
	Counter c = must(Counter::create(a.context), "counter");
};

TEST_F(CounterTest, add_and_set)
{
	EXPECT_EQ(c.value(), 0u);
	EXPECT_EQ(c.error(), 0u);
	EXPECT_EQ(c.add(5), ok);
	EXPECT_EQ(c.value(), 5u);
	EXPECT_EQ(c.add(~0ULL), ok);
	EXPECT_EQ(c.value(), 4u);
	EXPECT_EQ(c.set(1ULL << 40), ok);
	EXPECT_EQ(c.value(), 1ULL << 40);
	EXPECT_EQ(c.error(), 0u);
	EXPECT_EQ(c.add_error(2), ok);
	EXPECT_EQ(c.add_error(1), ok);
	EXPECT_EQ(c.error(), 3u);
	EXPECT_EQ(c.set_error(1), ok);
	EXPECT_EQ(c.error(), 1u);
	EXPECT_EQ(c.value(), 1ULL << 40);
}

TEST_F(CounterTest, wait)
{
	EXPECT_EQ(c.wait(0, 0, 0ns), ok);
	EXPECT_EQ(c.wait(1, 0, 0ns), from_errno(EAGAIN));
	EXPECT_EQ(c.wait(1, 0, a_moment), from_errno(ETIMEDOUT));
	std::jthread other([&] {
		for (int i = 0; i < 5; ++i) {
			std::this_thread::sleep_for(10ms);
			EXPECT_EQ(c.add(1), ok);
		}
		std::this_thread::sleep_for(10ms);
		EXPECT_EQ(c.add_error(1), ok);
	});
	EXPECT_EQ(c.wait(5, 0, patience), ok);
	EXPECT_GE(c.value(), 5u);
	EXPECT_EQ(c.wait(6, 0, patience), ok) << "an error ends it too";
	EXPECT_EQ(c.value(), 5u);
	EXPECT_EQ(c.error(), 1u);
}

TEST_F(CounterTest, fd_with_poll)
{
	const int fd = must(c.fd(), "fd");
	pollfd poller{.fd = fd, .events = POLLIN, .revents = 0};
	std::uint64_t word;

	EXPECT_EQ(poll(&poller, 1, 0), 0);
	ASSERT_EQ(c.add(1), ok);
	EXPECT_EQ(poll(&poller, 1, patience_ms), 1);
	EXPECT_EQ(read(fd, &word, sizeof(word)), 8u);
	EXPECT_EQ(poll(&poller, 1, 0), 0);
	ASSERT_EQ(c.add_error(1), ok);
	EXPECT_EQ(poll(&poller, 1, patience_ms), 1);
}

TEST_F(CounterTest, the_file_outlives_the_counter)
{
	const int fd = dup(must(c.fd(), "fd"));
	pollfd poller{.fd = fd, .events = POLLIN, .revents = 0};

	EXPECT_EQ(c.close(), ok);
	EXPECT_EQ(c.close(), ok);
	EXPECT_EQ(poll(&poller, 1, 0), 1);
	EXPECT_EQ(poller.revents, POLLIN);
	::close(fd);
}
