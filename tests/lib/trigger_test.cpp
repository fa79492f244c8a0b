// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Commands that wait for a counter: when they start, in which order, and where they report. */

#include <algorithm>
#include <atomic>
#include <numeric>
#include <latch>
#include <random>
#include <thread>

#include "node.h"

class TriggerTest : public PairTest
{
protected:
	Counter c = must(Counter::create(a.context), "counter");
	Counter done = must(Counter::create(a.context), "counter");
	std::vector<std::uint64_t> words = std::vector<std::uint64_t>(64);

	TriggerTest() { std::iota(words.begin(), words.end(), 0); }

	/* A send of one word from a to b. */
	Command send(std::uint64_t word)
	{
		return Command::send(bytes_at(&words[word], 8), a_to_b)
			.on(a.ep.id())
			.work()
			.context(word);
	}

	/* What b receives, in order. */
	std::vector<std::uint64_t> receive(std::size_t n)
	{
		std::vector<std::uint64_t> in(n);
		std::vector<std::uint64_t> order;

		for (std::size_t i = 0; i < n; ++i)
			EXPECT_EQ(b.receive(bytes_of(in[i]), i), ok);
		for (const auto &cqe : reap(b.rx_cq, n))
			order.push_back(in[cqe.context]);
		return order;
	}

	bool nothing_arrives()
	{
		std::uint64_t word;

		EXPECT_EQ(b.receive(bytes_of(word), 4711), ok);
		const bool quiet = stays_empty(b.rx_cq);
		if (quiet) {
			EXPECT_EQ(b.ep.cancel(4711), ok);
			EXPECT_EQ(reap_one(b.rx_cq).error, static_cast<std::uint32_t>(ECANCELED));
		}
		return quiet;
	}
};

TEST_F(TriggerTest, starts_at_the_threshold_and_not_before)
{
	ASSERT_EQ(a.context.submit(send(7).when(c.id(), 3)), ok);
	ASSERT_EQ(c.add(2), ok);
	EXPECT_TRUE(nothing_arrives());
	ASSERT_EQ(c.add(1), ok);
	EXPECT_EQ(receive(1), std::vector<std::uint64_t>{7});
	ASSERT_EQ(c.add(1), ok);
	EXPECT_TRUE(nothing_arrives()) << "once only";
}

TEST_F(TriggerTest, starts_at_once_if_the_threshold_is_reached)
{
	ASSERT_EQ(c.set(5), ok);
	ASSERT_EQ(a.context.submit(send(7).when(c.id(), 5)), ok);
	ASSERT_EQ(a.context.submit(send(8).when(c.id(), 0)), ok);
	EXPECT_EQ(receive(2), (std::vector<std::uint64_t>{7, 8}));
}

TEST_F(TriggerTest, errors_count_too)
{
	ASSERT_EQ(a.context.submit(send(7).when(c.id(), 3)), ok);
	ASSERT_EQ(c.add(1), ok);
	ASSERT_EQ(c.add_error(1), ok);
	EXPECT_TRUE(nothing_arrives());
	ASSERT_EQ(c.add_error(1), ok);
	EXPECT_EQ(receive(1), std::vector<std::uint64_t>{7});
}

TEST_F(TriggerTest, fires_by_threshold_then_by_submission)
{
	std::vector<std::pair<std::uint64_t, std::uint64_t>> order; /* threshold, word */
	std::mt19937 random(1);

	for (std::uint64_t i = 0; i < 60; ++i) {
		order.emplace_back(random() % 10 + 1, i);
		ASSERT_EQ(a.context.submit(send(i).when(c.id(), order.back().first)), ok);
	}
	std::ranges::stable_sort(order, {}, [](const auto &item) { return item.first; });
	/* A jump over some, steps, and a jump over the rest. */
	ASSERT_EQ(c.set(4), ok);
	ASSERT_EQ(c.add(1), ok);
	ASSERT_EQ(c.add(1), ok);
	ASSERT_EQ(c.set(1ULL << 60), ok);

	const auto arrived = receive(order.size());
	ASSERT_EQ(arrived.size(), order.size());
	for (std::size_t i = 0; i < order.size(); ++i)
		EXPECT_EQ(arrived[i], order[i].second) << i;
}

TEST_F(TriggerTest, compares_64_bits)
{
	const std::uint64_t high = 0xffffffff00000000;

	ASSERT_EQ(a.context.submit(send(1).when(c.id(), high + 1)), ok);
	ASSERT_EQ(c.set(high), ok);
	EXPECT_TRUE(nothing_arrives());
	ASSERT_EQ(c.add(1), ok);
	EXPECT_EQ(receive(1), std::vector<std::uint64_t>{1});
}

TEST_F(TriggerTest, tells_its_own_counter_and_queue_only)
{
	ASSERT_EQ(a.context.submit(send(1).when(c.id(), 1).notify(done.id())), ok);
	ASSERT_EQ(a.context.submit(send(2).when(c.id(), 1).notify(done.id()).completion()), ok);
	ASSERT_EQ(c.add(1), ok);
	EXPECT_EQ(receive(2).size(), 2u);
	EXPECT_TRUE(reaches(done, 2));
	EXPECT_EQ(reap_one(a.tx_cq).context, 2u);
	EXPECT_TRUE(stays_empty(a.tx_cq));
	EXPECT_EQ(a.sent.value(), 0u);
}

TEST_F(TriggerTest, failure_counts_as_error)
{
	treadle_addr gone;

	{
		Node n;
		gone = n.ep.address();
	}
	ASSERT_EQ(a.context.submit(Command::send(bytes_at(words.data(), 8), a.to(gone))
					   .on(a.ep.id())
					   .work()
					   .when(c.id(), 1)
					   .notify(done.id())),
		  ok);
	ASSERT_EQ(c.add(1), ok);
	EXPECT_EQ(done.wait(1, 0, patience), ok);
	EXPECT_EQ(done.error(), 1u);
	EXPECT_EQ(done.value(), 0u);
	EXPECT_TRUE(stays_empty(a.tx_cq));
	EXPECT_EQ(a.sent.error(), 0u);
}

/* fi_trigger(3): a condition on an ordinary command of the endpoint's own ring. */
TEST_F(TriggerTest, on_the_ring_of_the_endpoint)
{
	ASSERT_EQ(a.tx.post(Command::send(bytes_at(&words[3], 8), a_to_b)
				    .when(c.id(), 1)
				    .completion()
				    .context(9)),
		  ok);
	EXPECT_TRUE(nothing_arrives());
	ASSERT_EQ(c.add(1), ok);
	EXPECT_EQ(receive(1), std::vector<std::uint64_t>{3});
	EXPECT_EQ(reap_one(a.tx_cq).context, 9u);
	EXPECT_EQ(a.sent.value(), 1u);
}

TEST_F(TriggerTest, tagged_send)
{
	std::uint64_t in = 0;

	ASSERT_EQ(b.receive_tagged(bytes_of(in), 77), ok);
	ASSERT_EQ(a.context.submit(Command::send_tagged(bytes_at(&words[5], 8), a_to_b, 77)
					   .on(a.ep.id())
					   .work()
					   .when(c.id(), 1)),
		  ok);
	ASSERT_EQ(c.add(1), ok);
	EXPECT_EQ(reap_one(b.rx_cq).tag, 77u);
	EXPECT_EQ(in, 5u);
}

/* Armed receives, fired before and after their message came. */
TEST_F(TriggerTest, receives)
{
	Counter go = must(Counter::create(b.context), "counter");
	Counter got = must(Counter::create(b.context), "counter");
	std::uint64_t plain = 0;
	std::uint64_t tagged = 0;

	ASSERT_EQ(b.context.submit(Command::receive(bytes_at(&plain, 8))
					   .on(b.ep.id())
					   .work()
					   .when(go.id(), 1)
					   .notify(got.id())),
		  ok);
	ASSERT_EQ(b.context.submit(Command::receive_tagged(bytes_at(&tagged, 8), 5, 0xf0)
					   .on(b.ep.id())
					   .work()
					   .when(go.id(), 2)
					   .notify(got.id())),
		  ok);
	ASSERT_EQ(a.send(bytes_of(words[1]), a_to_b), ok);
	EXPECT_EQ(got.wait(1, 0, a_moment), from_errno(ETIMEDOUT)) << "not posted yet";
	ASSERT_EQ(go.add(1), ok);
	EXPECT_TRUE(reaches(got, 1));
	EXPECT_EQ(plain, 1u);
	ASSERT_EQ(go.add(1), ok);
	ASSERT_EQ(a.send_tagged(bytes_of(words[2]), a_to_b, 0x35), ok);
	EXPECT_TRUE(reaches(got, 2));
	EXPECT_EQ(tagged, 2u);
	EXPECT_TRUE(stays_empty(b.rx_cq));
}

TEST_F(TriggerTest, counters_drive_counters)
{
	Counter d = must(Counter::create(a.context), "counter");

	ASSERT_EQ(a.context.submit(Command::add(d.id(), 5).work().when(c.id(), 1)), ok);
	ASSERT_EQ(a.context.submit(Command::set(done.id(), 42).work().when(d.id(), 5)), ok);
	ASSERT_EQ(a.context.submit(Command::set(d.id(), 3).work().when(done.id(), 42)), ok);
	ASSERT_EQ(c.add(1), ok);
	EXPECT_EQ(done.value(), 42u) << "it has all happened when add returns";
	EXPECT_EQ(d.value(), 3u);
}

TEST_F(TriggerTest, forwards_what_was_received)
{
	Node n;
	std::uint64_t transit = 0;
	std::uint64_t in = 0;

	ASSERT_EQ(n.receive(bytes_of(in)), ok);
	ASSERT_EQ(b.context.submit(Command::send(bytes_at(&transit, 8), b.to(n))
					   .on(b.ep.id())
					   .work()
					   .when(b.received.id(), 1)),
		  ok);
	ASSERT_EQ(b.receive(bytes_of(transit)), ok);
	ASSERT_EQ(a.send(bytes_of(words[33]), a_to_b), ok);
	reap(n.rx_cq, 1);
	EXPECT_EQ(in, 33u);
}

/* Every command's notification is the next one's condition. */
TEST_F(TriggerTest, long_chain)
{
	constexpr std::uint64_t n = 100'000;

	for (std::uint64_t i = 1; i <= n; ++i)
		ASSERT_EQ(a.context.submit(Command::add(c.id(), 1).work().when(c.id(), i).flags(
				  i % 100 ? TREADLE_F_MORE : 0)),
			  ok);
	EXPECT_EQ(c.value(), 0u);
	ASSERT_EQ(c.add(1), ok);
	EXPECT_TRUE(reaches(c, n + 1));
}

TEST_F(TriggerTest, many_on_one_counter)
{
	constexpr std::uint64_t n = 100'000;
	std::mt19937_64 random(2);

	for (std::uint64_t i = 1; i <= n; ++i)
		ASSERT_EQ(a.context.submit(Command::add(done.id(), 1)
						   .work()
						   .when(c.id(), random() % n + 1)
						   .flags(i % 100 ? TREADLE_F_MORE : 0)),
			  ok);
	EXPECT_EQ(done.value(), 0u);
	ASSERT_EQ(c.set(n), ok);
	EXPECT_TRUE(reaches(done, n));
	EXPECT_EQ(must(a.context.flush(), "flush"), 0u);
	EXPECT_EQ(done.value(), n);
}

TEST_F(TriggerTest, canceled_work_never_runs)
{
	ASSERT_EQ(a.context.submit(send(1).when(c.id(), 1)), ok);
	ASSERT_EQ(a.context.submit(send(2).when(c.id(), 1)), ok);
	ASSERT_EQ(a.context.submit(send(3).when(c.id(), 2)), ok);
	EXPECT_EQ(a.context.cancel(c.id(), 1, 3), from_errno(ENOENT)) << "other threshold";
	EXPECT_EQ(a.context.cancel(c.id(), 2, 1), from_errno(ENOENT)) << "other context";
	EXPECT_EQ(a.context.cancel(done.id(), 1, 1), from_errno(ENOENT)) << "other counter";
	EXPECT_EQ(a.context.cancel(c.id(), 1, 1), ok);
	EXPECT_EQ(a.context.cancel(c.id(), 1, 1), from_errno(ENOENT)) << "only once";
	ASSERT_EQ(c.add(2), ok);
	EXPECT_EQ(receive(2), (std::vector<std::uint64_t>{2, 3}));
	EXPECT_EQ(a.context.cancel(c.id(), 1, 2), from_errno(ENOENT)) << "it has run";
	EXPECT_TRUE(nothing_arrives());
	EXPECT_TRUE(stays_empty(a.tx_cq)) << "nothing reports it";
}

TEST_F(TriggerTest, flush_counts_what_it_cancels)
{
	for (std::uint64_t i = 0; i < 10; ++i)
		ASSERT_EQ(a.context.submit(send(i).when(c.id(), i + 1)), ok);
	ASSERT_EQ(a.context.submit(send(20).when(done.id(), 1)), ok);
	ASSERT_EQ(c.add(4), ok);
	EXPECT_EQ(must(a.context.flush(c.id()), "flush"), 6u);
	EXPECT_EQ(must(a.context.flush(c.id()), "flush"), 0u);
	EXPECT_EQ(must(a.context.flush(), "flush"), 1u);
	ASSERT_EQ(c.set(100), ok);
	ASSERT_EQ(done.set(100), ok);
	EXPECT_EQ(receive(4), (std::vector<std::uint64_t>{0, 1, 2, 3}));
	EXPECT_TRUE(nothing_arrives());
}

TEST_F(TriggerTest, what_is_closed_has_nothing_to_flush)
{
	auto cells = must(TriggerCells::create(a.context, 1), "cells");

	ASSERT_EQ(a.context.submit(send(1).when(c.id(), 1)), ok);
	ASSERT_EQ(done.close(), ok);
	ASSERT_EQ(cells.close(), ok);
	EXPECT_EQ(a.context.flush(done.id()).error(), from_errno(ENOENT));
	EXPECT_EQ(a.context.flush(cells.id()).error(), from_errno(ENOENT));
	EXPECT_EQ(must(a.context.flush(), "flush"), 1u);
}

/* A command has run or was canceled: never both, never neither. */
TEST_F(TriggerTest, cancel_is_exact_while_firing)
{
	constexpr std::uint64_t n = 20'000;
	std::atomic<std::uint64_t> canceled = 0;

	for (std::uint64_t i = 1; i <= n; ++i)
		ASSERT_EQ(a.context.submit(Command::add(done.id(), 1)
						   .work()
						   .context(i)
						   .when(c.id(), i)
						   .flags(i % 100 ? TREADLE_F_MORE : 0)),
			  ok);
	{
		std::latch begun(1); /* otherwise all may have fired before the first cancel */
		std::jthread canceling([&] {
			std::mt19937 random(3);

			for (std::uint64_t i = 0; i < n / 2; ++i) {
				const std::uint64_t which = random() % n + 1;

				canceled += !a.context.cancel(c.id(), which, which);
				if (!i)
					begun.count_down();
			}
		});
		std::jthread firing([&] {
			begun.wait();
			for (std::uint64_t i = 10; i <= n; i += 10)
				EXPECT_EQ(c.set(i), ok);
		});
		std::jthread flushing([&] {
			std::this_thread::sleep_for(20ms);
			canceled += must(a.context.flush(c.id()), "flush");
		});
	}
	EXPECT_TRUE(reaches(done, n - canceled));
	EXPECT_EQ(must(a.context.flush(), "flush"), 0u);
	EXPECT_EQ(done.value() + canceled, n);
	EXPECT_GT(canceled, 0u);
	EXPECT_GT(done.value(), 0u);
}

TEST_F(TriggerTest, a_counter_with_armed_work_can_be_closed)
{
	Counter d = must(Counter::create(a.context), "counter");

	ASSERT_EQ(a.context.submit(send(1).when(d.id(), 1)), ok);
	const auto rc = d.close();
	if (rc) {
		EXPECT_EQ(rc, from_errno(EBUSY));
		EXPECT_EQ(must(a.context.flush(d.id()), "flush"), 1u);
		EXPECT_EQ(d.close(), ok);
	}
	EXPECT_TRUE(nothing_arrives());
}

TEST_F(TriggerTest, malformed)
{
	EXPECT_EQ(a.context.submit(send(1).when(CounterId{0x7fffffff}, 1)), from_errno(ENOENT));
	EXPECT_EQ(a.context.submit(send(1).notify(CounterId{0x7fffffff})), from_errno(ENOENT));
	EXPECT_EQ(a.context.submit(Command::send(bytes_at(&words[1], 8), a_to_b).work()),
		  from_errno(ENOTCONN))
		<< "whose?";
	EXPECT_EQ(a.context.submit(Command::add(CounterId{0x7fffffff}, 1).work()),
		  from_errno(ENOENT));
	EXPECT_EQ(a.context.submit(
			  Command::add(CounterId{static_cast<std::uint32_t>(a.ep.id())}, 1).work()),
		  from_errno(EBADF));
	EXPECT_EQ(must(a.context.flush(), "flush"), 0u);
	ASSERT_EQ(a.context.submit(send(7).when(c.id(), 0)), ok);
	EXPECT_EQ(receive(1), std::vector<std::uint64_t>{7});
}

class CancelTest : public PairTest
{
};

TEST_F(CancelTest, a_receive)
{
	std::uint64_t in[3]{};
	std::uint64_t out = 5;

	ASSERT_EQ(b.receive(bytes_of(in[0]), 10), ok);
	ASSERT_EQ(b.receive(bytes_of(in[1]), 11), ok);
	ASSERT_EQ(b.receive_tagged(bytes_of(in[2]), 1, 0, 12), ok);
	EXPECT_EQ(b.ep.cancel(10), ok);
	auto cqe = reap_one(b.rx_cq);
	EXPECT_EQ(cqe.context, 10u);
	EXPECT_EQ(cqe.error, static_cast<std::uint32_t>(ECANCELED));
	EXPECT_EQ(b.ep.cancel(10), from_errno(ENOENT));
	EXPECT_EQ(b.ep.cancel(12), ok);
	EXPECT_EQ(reap_one(b.rx_cq).context, 12u);

	ASSERT_EQ(a.send(bytes_of(out), a_to_b), ok);
	EXPECT_EQ(reap_one(b.rx_cq).context, 11u);
	EXPECT_EQ(b.ep.cancel(11), from_errno(ENOENT));
	EXPECT_EQ(in[0], 0u);
	EXPECT_EQ(in[1], 5u);
	EXPECT_EQ(b.received.error(), 2u);
}

/* Commands with the same context: one for each cancel, the oldest first. */
TEST_F(CancelTest, one_at_a_time)
{
	std::uint64_t in[2]{};
	std::uint64_t out = 5;

	for (auto &word : in)
		ASSERT_EQ(b.receive(bytes_of(word), 10), ok);
	EXPECT_EQ(b.ep.cancel(10), ok);
	ASSERT_EQ(a.send(bytes_of(out), a_to_b), ok);
	reap(b.rx_cq, 2);
	EXPECT_EQ(in[0], 0u);
	EXPECT_EQ(in[1], 5u);
	EXPECT_EQ(b.ep.cancel(10), from_errno(ENOENT));
}

/* A large message without a receive buffer waits; canceled, it never arrives. */
TEST_F(CancelTest, a_send_that_waits)
{
	const auto data = pattern(1 << 20, 1);
	std::vector<std::byte> buffer(data.size());

	ASSERT_EQ(a.send(data, a_to_b, 1), ok);
	ASSERT_EQ(a.send(std::span(data).first(500'000), a_to_b, 2), ok);
	EXPECT_EQ(a.ep.cancel(1), ok);
	auto cqe = reap_one(a.tx_cq);
	EXPECT_EQ(cqe.context, 1u);
	EXPECT_EQ(cqe.error, static_cast<std::uint32_t>(ECANCELED));
	ASSERT_EQ(b.receive(buffer), ok);
	EXPECT_EQ(reap_one(b.rx_cq).len, 500'000u);
	EXPECT_EQ(reap_one(a.tx_cq).context, 2u);
}

/* A receive completes once, with the message or as canceled, while both are tried. */
TEST_F(CancelTest, is_exact_while_messages_come)
{
	constexpr std::uint64_t n = 3000;
	std::uint64_t in = 0;
	std::uint64_t out = 1;
	std::uint64_t received = 0;
	std::uint64_t canceled = 0;
	std::atomic<std::uint64_t> answered = 0;
	std::atomic<std::uint64_t> current = 0;
	std::jthread canceling([&](const std::stop_token &stop) {
		while (!stop.stop_requested())
			answered += !b.ep.cancel(current);
	});

	/* longer on a machine on which one of the two always comes first */
	for (std::uint64_t i = 1; i <= n || (!(received && canceled) && i <= 20 * n); ++i) {
		ASSERT_EQ(b.receive(bytes_of(in), i), ok);
		current = i;
		ASSERT_EQ(a.send(bytes_of(out), a_to_b, i, TREADLE_F_INJECT), ok);
		const auto cqe = reap_one(b.rx_cq);
		ASSERT_EQ(cqe.context, i);
		received += cqe.error == 0;
		canceled += cqe.error == ECANCELED;
		if (cqe.error) {
			current = 0;
			ASSERT_EQ(b.receive(bytes_of(in), 100 * n + i), ok);
			ASSERT_EQ(reap_one(b.rx_cq).context, 100 * n + i);
		}
		ASSERT_EQ(reap_one(a.tx_cq).error, 0u);
	}
	canceling.request_stop();
	canceling.join();
	EXPECT_GT(received, 0u);
	EXPECT_GT(canceled, 0u);
	EXPECT_EQ(answered, canceled);
}
