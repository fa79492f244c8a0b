// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Graphs: which command starts after which, fails with which, or does not start. */

#include <limits>
#include <memory>
#include <random>
#include <thread>

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "node.h"

class GraphTest : public PairTest
{
protected:
	Graph graph{a.context};
	std::uint64_t clock = 0;
	std::uint64_t one = 1;

	/* Takes the time at which it is executed. */
	Command stamp(std::uint64_t &at)
	{
		return Command::fetch(TREADLE_ATOMIC_SUM, TREADLE_UINT64, bytes_at(&one, 8),
				      bytes_at(&at, 8), Peer{0}, {address_of(&clock), 0})
			.flags(TREADLE_F_LOCAL)
			.on(a.ep.id())
			.work();
	}
	Command calculate(treadle_atomic_op op, const std::uint64_t &operand, std::uint64_t &target)
	{
		return Command::atomic(op, TREADLE_UINT64, bytes_at(&operand, 8), &target)
			.on(a.ep.id())
			.work();
	}
	Command receive(std::uint64_t &word, std::uint64_t context)
	{
		return Command::receive(bytes_at(&word, 8)).on(a.ep.id()).work().context(context);
	}
	/* An atomic that has no memory to work on. */
	Command failure()
	{
		return Command::atomic(TREADLE_ATOMIC_SUM, TREADLE_UINT64, bytes_at(&one, 8),
				       nullptr)
			.on(a.ep.id())
			.work();
	}
	std::error_code run()
	{
		const auto rc = graph.launch();
		return rc ? rc : graph.wait(patience);
	}
};

TEST_F(GraphTest, a_command_starts_after_those_before_it)
{
	std::uint64_t x = 2, three = 3, five = 5;
	const auto first = graph.add(calculate(TREADLE_ATOMIC_SUM, three, x));
	const auto second = graph.add(calculate(TREADLE_ATOMIC_PROD, five, x), {first});

	graph.add(calculate(TREADLE_ATOMIC_SUM, three, x), {second});
	ASSERT_EQ(run(), ok);
	EXPECT_FALSE(graph.failed());
	EXPECT_EQ(x, 28u);
	EXPECT_TRUE(stays_empty(a.tx_cq)) << "work is silent";
}

TEST_F(GraphTest, order_of_random_graphs)
{
	std::mt19937 random(1);

	for (int round = 0; round < 20; ++round) {
		std::vector<std::uint64_t> stamps(40, ~0ull);
		std::vector<std::vector<Graph::Node>> after(stamps.size());

		graph.clear();
		for (Graph::Node n = 0; n < stamps.size(); ++n) {
			for (Graph::Node p = 0; p < n; ++p) {
				if (random() % 100 < static_cast<unsigned int>(round) * 3)
					after[n].push_back(p);
			}
			graph.add(stamp(stamps[n]), after[n]);
		}
		clock = 0;
		ASSERT_EQ(run(), ok);
		EXPECT_EQ(clock, stamps.size());
		for (Graph::Node n = 0; n < stamps.size(); ++n) {
			for (const Graph::Node p : after[n])
				EXPECT_LT(stamps[p], stamps[n]) << round << ": " << p << ", " << n;
		}
	}
}

TEST_F(GraphTest, is_launched_again)
{
	std::uint64_t x = 0;

	for (int i = 0; i < 4; ++i)
		graph.add(calculate(TREADLE_ATOMIC_SUM, one, x));
	graph.add_last(calculate(TREADLE_ATOMIC_PROD, one, x));
	for (std::uint64_t i = 1; i <= 50; ++i) {
		ASSERT_EQ(run(), ok);
		EXPECT_EQ(x, 4 * i);
	}
}

TEST_F(GraphTest, larger_than_a_ring)
{
	constexpr std::uint64_t n = 2000;
	std::uint64_t x = 0, y = 0;

	for (std::uint64_t i = 0; i < n; ++i)
		graph.add(calculate(TREADLE_ATOMIC_SUM, one, x));
	graph.add_last(calculate(TREADLE_ATOMIC_SUM, x, y));
	ASSERT_EQ(run(), ok);
	EXPECT_EQ(y, n);
}

TEST_F(GraphTest, cycles_and_missing_commands_are_found)
{
	std::uint64_t x = 0;
	const Command add = calculate(TREADLE_ATOMIC_SUM, one, x);
	const auto first = graph.add(add);
	const auto second = graph.add(add, {first});

	EXPECT_EQ(graph.check(), ok);
	EXPECT_EQ(graph.order(2, first), ok);
	EXPECT_EQ(graph.launch(), from_errno(EINVAL)) << "2 is not there yet";
	graph.add(add, {second});
	EXPECT_EQ(graph.launch(), from_errno(ELOOP));
	EXPECT_EQ(graph.order(0, 77), from_errno(EINVAL));
	graph.clear();
	graph.add(add, {0});
	EXPECT_EQ(graph.check(), from_errno(ELOOP)) << "after itself";
	graph.clear();
	graph.add(Command(add).when(a.sent.id(), 0));
	EXPECT_EQ(graph.check(), from_errno(EINVAL));
	graph.clear();
	graph.add(Command(add).notify(a.sent.id()));
	EXPECT_EQ(graph.check(), from_errno(EINVAL));
	EXPECT_EQ(x, 0u);
	graph.clear();
	EXPECT_EQ(run(), ok) << "of nothing";
}

TEST_F(GraphTest, nothing_starts_if_a_command_is_refused)
{
	std::uint64_t x = 0;

	for (int i = 0; i < 300; ++i) {
		if (i == 150)
			graph.add(Command::send(bytes_at(&x, 8), Peer{4711}).on(a.ep.id()).work());
		graph.add(calculate(TREADLE_ATOMIC_SUM, one, x));
	}
	EXPECT_EQ(graph.launch(), from_errno(EDESTADDRREQ));
	EXPECT_FALSE(graph.running());
	EXPECT_EQ(x, 0u);
	graph.clear();
	graph.add(calculate(TREADLE_ATOMIC_SUM, one, x));
	ASSERT_EQ(run(), ok);
	EXPECT_EQ(x, 1u);
}

TEST_F(GraphTest, what_comes_after_a_failure_fails)
{
	std::uint64_t x = 0, y = 0;

	for (int again = 0; again < 2; ++again) {
		graph.clear();
		const auto bad = graph.add(failure());
		const auto never = graph.add(calculate(TREADLE_ATOMIC_SUM, one, x), {bad});
		const auto good = graph.add(calculate(TREADLE_ATOMIC_SUM, one, y));
		graph.add(calculate(TREADLE_ATOMIC_SUM, one, x), {never, good});
		graph.add_last(Command::nop().on(a.ep.id()).collective().context(7));
		ASSERT_EQ(run(), ok);
		EXPECT_TRUE(graph.failed());
		EXPECT_EQ(x, 0u);
		EXPECT_EQ(y, 1u + again * 2);
		const treadle_cqe cqe = reap_one(a.tx_cq);
		EXPECT_EQ(cqe.context, 7u);
		EXPECT_EQ(cqe.error, static_cast<std::uint32_t>(EIO)) << "the first errno";
		/* The next launch is another one. */
		graph.clear();
		graph.add(calculate(TREADLE_ATOMIC_SUM, one, y));
		ASSERT_EQ(run(), ok);
		EXPECT_FALSE(graph.failed());
	}
}

TEST_F(GraphTest, is_canceled_as_a_whole)
{
	std::uint64_t x = 0, words[2];
	const auto first = graph.add(receive(words[0], 100));
	const auto second = graph.add(receive(words[1], 101));

	graph.add(calculate(TREADLE_ATOMIC_SUM, one, x), {first, second});
	ASSERT_EQ(graph.launch(), ok);
	EXPECT_EQ(graph.launch(), from_errno(EBUSY));
	ASSERT_EQ(b.send(bytes_of(one), b_to_a), ok);
	EXPECT_EQ(graph.wait(a_moment), from_errno(ETIMEDOUT));
	graph.cancel();
	EXPECT_EQ(graph.wait(patience), ok);
	EXPECT_TRUE(graph.failed());
	EXPECT_EQ(x, 0u);
	EXPECT_EQ(words[0], 1u) << "what has been done, has been done";
	EXPECT_EQ(a.ep.cancel(101), from_errno(ENOENT));
	EXPECT_TRUE(stays_empty(a.rx_cq));
}

TEST_F(GraphTest, starts_when_another_has_ended)
{
	std::uint64_t x = 2, three = 3, word;

	for (const bool fails : {false, true}) {
		Graph next(a.context);
		graph.clear();
		const auto got = graph.add(receive(word, 100));
		graph.add(calculate(TREADLE_ATOMIC_SUM, one, x), {got});
		next.add(calculate(TREADLE_ATOMIC_PROD, three, x));
		ASSERT_EQ(graph.launch(), ok);
		ASSERT_EQ(next.launch(&graph), ok);
		EXPECT_EQ(next.wait(a_moment), from_errno(ETIMEDOUT));
		if (fails)
			graph.cancel();
		ASSERT_EQ(fails ? ok : b.send(bytes_of(one), b_to_a), ok);
		EXPECT_EQ(next.wait(patience), ok);
		EXPECT_FALSE(next.failed());
		EXPECT_EQ(x, fails ? 27u : 9u);
		/* At once, if the other graph has ended. */
		ASSERT_EQ(next.launch(&graph), ok);
		EXPECT_EQ(next.wait(patience), ok);
		x = 9;
	}
}

/* The whole graph ends, including commands without endpoint; what it waited for starts nothing. */
TEST_F(GraphTest, is_canceled_while_it_waits_for_another)
{
	std::uint64_t x = 0, words[2];
	Graph others[2] = {Graph(a.context), Graph(a.context)};
	const Counter counter = must(Counter::create(a.context), "counter");

	for (int i = 0; i < 2; ++i) {
		others[i].add(receive(words[i], 100 + i));
		ASSERT_EQ(others[i].launch(), ok);
	}
	graph.add(Command::add(counter.id(), 1));
	graph.add(calculate(TREADLE_ATOMIC_SUM, one, x));
	ASSERT_EQ(graph.launch(&others[0]), ok);
	graph.cancel();
	EXPECT_EQ(graph.wait(patience), ok);
	EXPECT_TRUE(graph.failed());
	EXPECT_EQ(x, 0u);
	EXPECT_EQ(counter.value(), 0u);

	ASSERT_EQ(graph.launch(&others[1]), ok);
	ASSERT_EQ(b.send(bytes_of(one), b_to_a), ok);
	EXPECT_EQ(others[0].wait(patience), ok);
	EXPECT_EQ(graph.wait(a_moment), from_errno(ETIMEDOUT));
	EXPECT_EQ(x, 0u);
	ASSERT_EQ(b.send(bytes_of(one), b_to_a), ok);
	EXPECT_EQ(graph.wait(patience), ok);
	EXPECT_FALSE(graph.failed());
	EXPECT_EQ(x, 1u);
	EXPECT_EQ(counter.value(), 1u);
}

TEST_F(GraphTest, goes_with_what_it_waits_for)
{
	std::uint64_t word;

	{
		Graph other(a.context);
		other.add(receive(word, 100));
		ASSERT_EQ(other.launch(), ok);
	}
	EXPECT_EQ(a.ep.cancel(100), from_errno(ENOENT));
}

TEST_F(GraphTest, the_context_may_move)
{
	auto elsewhere = std::make_unique<Context>(must(Context::open(), "open"));
	Graph moving(*elsewhere);
	Graph installed(*elsewhere);

	moving.add(Command::nop().work());
	installed.add(Command::nop().work());
	ASSERT_EQ(installed.install(), ok);
	const Context here = std::move(*elsewhere);
	elsewhere.reset();
	for (int i = 0; i < 3; ++i) {
		ASSERT_EQ(moving.launch(), ok);
		ASSERT_EQ(moving.wait(patience), ok);
		ASSERT_EQ(installed.launch(), ok);
		ASSERT_EQ(installed.wait(), ok);
	}
}

TEST_F(GraphTest, a_file_tells_of_the_end)
{
	std::uint64_t word;
	const auto fd = graph.fd();

	ASSERT_TRUE(fd);
	const auto got = graph.add(receive(word, 1));
	graph.add(Command::nop().work(), {got});
	ASSERT_EQ(graph.launch(), ok);
	pollfd file{*fd, POLLIN, 0};
	EXPECT_EQ(poll(&file, 1, 50), 0);
	ASSERT_EQ(b.send(bytes_of(one), b_to_a), ok);
	EXPECT_EQ(poll(&file, 1, patience_ms), 1);
	EXPECT_FALSE(graph.running());
}

TEST_F(GraphTest, shows_itself)
{
	std::uint64_t x = 0;
	const auto first = graph.add(receive(x, 1));
	const auto second = graph.add(calculate(TREADLE_ATOMIC_SUM, one, x), {first});

	graph.add(Command::send(bytes_at(&x, 8), Peer{5}).on(a.ep.id()), {first, second});
	EXPECT_EQ(graph.text(), "0: recv 8 bytes from any\n"
				"1: atomic 8 bytes, after 0\n"
				"2: send 8 bytes to 5, after 0 1\n");
	EXPECT_EQ(graph.graphviz(), "digraph {\n"
				    "\t0 [label=\"recv 8 bytes from any\"]\n"
				    "\t1 [label=\"atomic 8 bytes\"]\n"
				    "\t0 -> 1\n"
				    "\t2 [label=\"send 8 bytes to 5\"]\n"
				    "\t0 -> 2\n"
				    "\t1 -> 2\n"
				    "}\n");
}

/* --- installed -------------------------------------------------------------------------- */

TEST_F(GraphTest, once_installed_a_launch_adds_to_a_counter)
{
	std::uint64_t x = 0;

	EXPECT_EQ(graph.launches(), nullptr);
	for (int i = 0; i < 4; ++i)
		graph.add(calculate(TREADLE_ATOMIC_SUM, one, x));
	graph.add_last(calculate(TREADLE_ATOMIC_PROD, one, x));
	ASSERT_EQ(graph.install(), ok);
	EXPECT_FALSE(graph.running());
	EXPECT_EQ(x, 0u);
	for (std::uint64_t i = 1; i <= 50; ++i) {
		ASSERT_EQ(run(), ok);
		EXPECT_EQ(x, 4 * i);
	}
	/* Any addition to the counter launches it, as often as the sum says. */
	ASSERT_NE(graph.launches(), nullptr);
	const CounterId id = graph.launches()->id();
	EXPECT_EQ(graph.launch(&graph), from_errno(EINVAL));
	ASSERT_EQ(a.context.submit(Command::add(id, 10).when(a.received.id(), 1).work()), ok);
	EXPECT_FALSE(graph.running());
	ASSERT_EQ(a.receive({}), ok);
	ASSERT_EQ(b.send({}, b_to_a), ok);
	ASSERT_EQ(graph.wait(patience), ok);
	EXPECT_TRUE(reaches(a.received, 1));
	EXPECT_EQ(graph.wait(patience), ok);
	EXPECT_EQ(x, 4 * 60u);
	reap(a.rx_cq, 1);
	reap(b.tx_cq, 1);
}

/* A launch may come before the call that installs the graph has ended. */
TEST_F(GraphTest, launches_come_while_it_is_installed)
{
	std::uint64_t x = 0;

	for (int i = 0; i < 100; ++i)
		graph.add(calculate(TREADLE_ATOMIC_SUM, one, x));
	for (int round = 0; round < 20; ++round) {
		Counter launches = must(Counter::create(a.context), "counter");
		std::jthread launching([&](const std::stop_token &stop) {
			while (!stop.stop_requested()) {
				EXPECT_EQ(launches.add(1), ok);
				usleep(100);
			}
		});
		while (!launches.value())
			sched_yield();
		ASSERT_EQ(graph.install(&launches), ok);
		const std::uint64_t installed = launches.value();
		while (launches.value() == installed)
			sched_yield();
		launching.request_stop();
		launching.join();
		ASSERT_EQ(graph.wait(patience), ok);
		EXPECT_FALSE(graph.failed());
		EXPECT_EQ(x % 100, 0u);
		graph.cancel();
		EXPECT_EQ(launches.close(), ok) << "nothing is armed on it";
	}
	EXPECT_GT(x, 0u);
}

TEST_F(GraphTest, installed_launches_do_not_overlap)
{
	constexpr std::uint64_t launches = 30;
	std::mt19937 random(2);

	for (int round = 0; round < 8; ++round) {
		std::vector<std::uint64_t> stamps(20, 0);
		std::vector<std::vector<Graph::Node>> after(stamps.size());
		std::uint64_t overlaps = 0, hundred = 20;

		graph.clear();
		for (Graph::Node n = 0; n < stamps.size(); ++n) {
			for (Graph::Node p = 0; p < n; ++p) {
				if (random() % 100 < static_cast<unsigned int>(round) * 6)
					after[n].push_back(p);
			}
			graph.add(stamp(stamps[n]), after[n]);
		}
		/* All commands of a launch have a time of that launch, in any order. */
		graph.add_last(calculate(TREADLE_ATOMIC_SUM, hundred, overlaps));
		clock = 0;
		ASSERT_EQ(graph.install(), ok);
		for (std::uint64_t i = 0; i < launches; ++i)
			ASSERT_EQ(graph.launch(), ok);
		ASSERT_EQ(graph.wait(patience), ok);
		EXPECT_FALSE(graph.failed());
		EXPECT_EQ(clock, launches * stamps.size());
		EXPECT_EQ(overlaps, launches * hundred);
		for (Graph::Node n = 0; n < stamps.size(); ++n) {
			EXPECT_GE(stamps[n], (launches - 1) * stamps.size());
			for (const Graph::Node p : after[n])
				EXPECT_LT(stamps[p], stamps[n]) << round << ": " << p << ", " << n;
		}
	}
}

/* Messages launch it: the counter of launches counts receives. */
TEST_F(GraphTest, is_launched_by_an_endpoint_and_tells_a_counter)
{
	std::uint64_t x = 0;
	Counter ends = must(Counter::create(a.context), "counter");
	const auto work = Command::add(a.sent.id(), 0).work();

	graph.add(calculate(TREADLE_ATOMIC_SUM, one, x));
	graph.add(Command(work));
	ASSERT_EQ(graph.install(&a.received, &ends), ok);
	ASSERT_EQ(a.context.submit(Command(work).when(a.received.id(), 100)), ok);
	for (std::uint64_t i = 1; i <= 10; ++i) {
		ASSERT_EQ(a.receive({}), ok);
		ASSERT_EQ(b.send({}, b_to_a), ok);
		EXPECT_TRUE(reaches(ends, i));
		EXPECT_FALSE(graph.running());
		EXPECT_EQ(x, i);
		reap(a.rx_cq, 1);
		reap(b.tx_cq, 1);
	}
	graph.cancel();
	EXPECT_EQ(a.context.flush(a.received.id()).value_or(99), 1u) << "what is not of the graph";
}

/* Each launch takes one message. */
TEST_F(GraphTest, an_installed_graph_receives_and_answers)
{
	std::uint64_t word = 0, sum = 0, answer = 0;
	const auto got = graph.add(receive(word, 1));
	const auto added = graph.add(calculate(TREADLE_ATOMIC_SUM, word, sum), {got});

	graph.add(Command::send(bytes_at(&sum, 8), a_to_b).on(a.ep.id()).work(), {added});
	ASSERT_EQ(graph.install(), ok);
	for (int i = 0; i < 5; ++i)
		ASSERT_EQ(graph.launch(), ok);
	for (std::uint64_t i = 1, expected = 0; i <= 5; ++i) {
		EXPECT_TRUE(graph.running());
		ASSERT_EQ(b.receive(std::as_writable_bytes(std::span(&answer, 1))), ok);
		ASSERT_EQ(b.send(bytes_of(i), b_to_a), ok);
		reap(b.rx_cq, 1);
		reap(b.tx_cq, 1);
		EXPECT_EQ(answer, expected += i);
	}
	EXPECT_EQ(graph.wait(patience), ok);
	EXPECT_TRUE(stays_empty(a.tx_cq));
}

TEST_F(GraphTest, an_installed_graph_that_failed_is_installed_again)
{
	std::uint64_t word = 0, x = 0;
	const auto got = graph.add(receive(word, 1));

	graph.add(calculate(TREADLE_ATOMIC_SUM, one, x), {got});
	for (std::uint64_t i = 1; i <= 6; ++i) {
		const bool fails = i % 2;
		const std::uint64_t words[2] = {i, i};

		/* Only after a failure. */
		ASSERT_EQ(i == 1 || graph.failed() ? graph.install() : ok, ok);

		ASSERT_EQ(graph.launch(), ok);
		ASSERT_EQ(b.send(std::as_bytes(std::span(words, fails ? 2 : 1)), b_to_a), ok);
		ASSERT_EQ(graph.wait(patience), ok);
		EXPECT_EQ(graph.failed(), fails);
		EXPECT_EQ(x, i / 2);
		reap(b.tx_cq, 1);
	}
}

TEST_F(GraphTest, an_installed_graph_is_canceled_as_a_whole)
{
	std::uint64_t x = 0, y = 0, words[2];

	for (std::uint64_t round = 1; round <= 5; ++round) {
		graph.clear();
		const auto early = graph.add(calculate(TREADLE_ATOMIC_SUM, one, y));
		const auto first = graph.add(receive(words[0], 100), {early});
		const auto second = graph.add(receive(words[1], 101), {early});
		const auto third =
			graph.add(calculate(TREADLE_ATOMIC_SUM, one, x), {first, second});
		graph.add(calculate(TREADLE_ATOMIC_SUM, one, x), {third});
		ASSERT_EQ(graph.install(), ok);
		if (round % 2) {
			for (int i = 0; i < 3; ++i)
				ASSERT_EQ(graph.launch(), ok);
			ASSERT_EQ(b.send(bytes_of(one), b_to_a), ok);
			EXPECT_EQ(graph.wait(a_moment), from_errno(ETIMEDOUT));
			reap(b.tx_cq, 1);
		}
		graph.cancel();
		EXPECT_EQ(graph.wait(patience), ok);
		EXPECT_EQ(graph.failed(), round % 2);
		EXPECT_FALSE(graph.running());
		EXPECT_EQ(graph.launches(), nullptr);
		EXPECT_EQ(x, 0u);
		EXPECT_EQ(y, (round + 1) / 2) << "of one launch, those behind it were not begun";
	}
	/* Nothing remains that could take a message or be launched. */
	std::uint64_t word = 0;
	ASSERT_EQ(a.receive(std::as_writable_bytes(std::span(&word, 1))), ok);
	ASSERT_EQ(b.send(bytes_of(one), b_to_a), ok);
	reap(a.rx_cq, 1);
	reap(b.tx_cq, 1);
	EXPECT_EQ(word, 1u);
	EXPECT_EQ(a.context.flush().value_or(99), 0u);
}

TEST_F(GraphTest, what_is_refused_is_not_installed)
{
	std::uint64_t x = 0;

	graph.add(calculate(TREADLE_ATOMIC_SUM, one, x));
	graph.add(Command(calculate(TREADLE_ATOMIC_SUM, one, x)).completion());
	EXPECT_EQ(graph.install(), from_errno(EINVAL));
	EXPECT_EQ(graph.launches(), nullptr);
	EXPECT_EQ(run(), ok) << "for once it may report";
	EXPECT_EQ(x, 2u);
	reap(a.tx_cq, 1);
	graph.clear();
	EXPECT_EQ(graph.install(), ok) << "of nothing";
	EXPECT_EQ(run(), ok);
}

/* In any state of the graph. */
TEST_F(GraphTest, an_installed_graph_goes)
{
	for (int launches = 0; launches < 3; ++launches) {
		std::uint64_t word;
		Graph other(a.context);
		const auto got = other.add(receive(word, 100));

		other.add(Command::nop().work(), {got});
		ASSERT_EQ(other.install(), ok);
		for (int i = 0; i < launches; ++i)
			ASSERT_EQ(other.launch(), ok);
	}
	EXPECT_EQ(a.ep.cancel(100), from_errno(ENOENT));
	EXPECT_EQ(a.context.flush().value_or(99), 0u);
}
