// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Two processes; and a process and its child, which must not disturb each other. */

#include <cstring>

#include "child.h"
#include "node.h"

/* Exchanges addresses over the line, and returns the peer. */
static Peer meet(Node &node, const Line &line)
{
	line.tell(node.ep.address());
	return node.to(line.ask<treadle_addr>());
}

TEST(TwoProcesses, all_sizes_both_ways)
{
	static constexpr std::size_t sizes[] = {0, 1, 8, 4096, 4097, 65536, 1 << 20, 16 << 20};

	Child child([](const Line &line) {
		Node node;
		const auto peer = meet(node, line);
		std::vector<std::byte> buffer(16 << 20);

		for (const auto size : sizes) {
			/* Unexpected at one side, expected at the other. */
			ASSERT_EQ(node.receive(buffer), ok);
			ASSERT_EQ(reap_one(node.rx_cq).len, size);
			ASSERT_EQ(node.send(std::span(buffer).first(size), peer), ok);
			ASSERT_EQ(reap_one(node.tx_cq).error, 0u);
		}
	});
	Node node;
	const auto peer = meet(node, child.line());

	for (const auto size : sizes) {
		SCOPED_TRACE(size);
		const auto data = pattern(size, size);
		std::vector<std::byte> back(size + 1, std::byte{0xee});

		ASSERT_EQ(node.receive(back), ok);
		ASSERT_EQ(node.send(data, peer), ok);
		ASSERT_EQ(reap_one(node.tx_cq).error, 0u);
		const auto cqe = reap_one(node.rx_cq);
		ASSERT_EQ(cqe.len, size);
		EXPECT_EQ(Peer{cqe.src}, peer);
		EXPECT_TRUE(std::equal(data.begin(), data.end(), back.begin()));
		EXPECT_EQ(back.back(), std::byte{0xee});
	}
	EXPECT_EQ(child.join(), 0);
}

/* The receiver's pages were never accessed, so its worker delivers after the sender has gone on. */
TEST(TwoProcesses, injected_buffer_is_free_at_return)
{
	constexpr int rounds = 20;

	Child child([](const Line &line) {
		Node node;

		meet(node, line);
		for (int i = 0; i < rounds; ++i) {
			Pages to(1);

			ASSERT_EQ(node.receive(to.span()), ok);
			line.tell('r');
			ASSERT_EQ(reap_one(node.rx_cq).len, 64u);
			EXPECT_EQ(std::count(to.span().begin(), to.span().end(), std::byte{1}), 64)
				<< i;
		}
	});
	Node node;
	const auto peer = meet(node, child.line());
	std::vector<std::byte> buffer(64);

	for (int i = 0; i < rounds; ++i) {
		child.line().ask<char>();
		std::fill(buffer.begin(), buffer.end(), std::byte{1});
		ASSERT_EQ(node.send(buffer, peer, 0, TREADLE_F_INJECT), ok);
		std::fill(buffer.begin(), buffer.end(), std::byte{2});
		reap(node.tx_cq, 1);
	}
	EXPECT_EQ(child.join(), 0);
}

/* Armed commands run although their process does not. */
TEST(TwoProcesses, a_stopped_process_forwards)
{
	static std::uint64_t word;

	Child child([](const Line &line) {
		Node node;
		const auto peer = meet(node, line);

		EXPECT_EQ(node.receive(bytes_of(word)), ok);
		EXPECT_EQ(node.context.submit(Command::send(bytes_at(&word, 8), peer)
						      .on(node.ep.id())
						      .work()
						      .when(node.received.id(), 1)),
			  ok);
		line.tell('r');
		line.ask<char>();
	});
	Node node;
	const auto peer = meet(node, child.line());
	std::uint64_t in = 0;
	std::uint64_t out = 0x1234;
	int status;

	child.line().ask<char>();
	::kill(child.pid(), SIGSTOP);
	ASSERT_EQ(waitpid(child.pid(), &status, WUNTRACED), child.pid());
	ASSERT_EQ(node.receive(bytes_of(in)), ok);
	ASSERT_EQ(node.send(bytes_of(out), peer), ok);
	EXPECT_EQ(reap_one(node.rx_cq).len, 8u);
	EXPECT_EQ(in, 0x1234u);
	::kill(child.pid(), SIGCONT);
	child.line().tell('x');
	EXPECT_EQ(child.join(), 0);
}

TEST(Killed, receiver_with_a_message_that_waits)
{
	const auto data = pattern(4 << 20, 1);
	Node node;
	Child child([](const Line &line) {
		Node other;

		meet(other, line);
		pause();
	});
	const auto peer = meet(node, child.line());
	std::uint64_t word = 1;

	ASSERT_EQ(node.send(data, peer, 1), ok);
	EXPECT_TRUE(stays_empty(node.tx_cq));
	child.kill();
	auto cqe = reap_one(node.tx_cq);
	EXPECT_EQ(cqe.context, 1u);
	EXPECT_EQ(cqe.error, static_cast<std::uint32_t>(ECONNRESET));
	EXPECT_EQ(node.sent.error(), 1u);

	ASSERT_EQ(node.send(bytes_of(word), peer, 2), ok);
	cqe = reap_one(node.tx_cq);
	EXPECT_EQ(cqe.context, 2u);
	EXPECT_EQ(cqe.error, static_cast<std::uint32_t>(ECONNREFUSED));
}

/* At any instant of a large transfer, in both roles: the survivor's command completes. */
TEST(Killed, in_the_middle_of_a_transfer)
{
	static std::vector<std::byte> big = pattern(32 << 20, 1);

	for (int round = 0; round < 10; ++round) {
		for (const bool sender : {true, false}) {
			SCOPED_TRACE(testing::Message()
				     << round << (sender ? " sender" : " receiver"));
			Node node;
			Child child([&](const Line &line) {
				Node other;
				const auto peer = meet(other, line);

				line.ask<char>();
				EXPECT_EQ(sender ? other.send(big, peer) : other.receive(big), ok);
				if (round && !testing::Test::HasFailure())
					line.tell('p');
				pause();
			});
			const auto peer = meet(node, child.line());
			std::vector<std::byte> buffer(big.size());

			ASSERT_EQ(sender ? node.receive(buffer, 0, peer) : node.send(big, peer),
				  ok);
			child.line().tell('g');
			if (round)
				child.line().ask<char>();
			usleep(static_cast<useconds_t>(round * 3000));
			child.kill();
			if (!sender) {
				const auto cqe = reap_one(node.tx_cq);

				EXPECT_TRUE(!cqe.error || cqe.error == ECONNRESET ||
					    cqe.error == ECONNREFUSED)
					<< cqe.error;
			} else if (round || !node.rx_cq.wait(a_moment)) {
				const auto cqe = reap_one(node.rx_cq);

				if (!cqe.error) {
					EXPECT_EQ(buffer, big) << "complete, or an error";
				} else {
					EXPECT_EQ(cqe.error,
						  static_cast<std::uint32_t>(ECONNRESET));
				}
			} else {
				/* The sender died before it sent: the receive is still posted. */
				EXPECT_EQ(node.ep.cancel(0), ok);
			}
		}
	}
}

/* Messages of a killed sender stay; the receiver goes on with another sender. */
TEST(Killed, sender_of_unexpected_messages)
{
	Node node;
	std::uint64_t in = 0;
	std::uint64_t out = 3;
	std::vector<std::byte> buffer(1 << 20);

	Child child([](const Line &line) {
		Node other;
		const auto peer = meet(other, line);
		std::uint64_t word = 2;

		EXPECT_EQ(other.send(bytes_of(word), peer), ok);
		EXPECT_EQ(other.send(pattern(1 << 20, 1), peer), ok);
		line.tell('r');
		pause();
	});
	meet(node, child.line());
	child.line().ask<char>();
	child.kill();
	ASSERT_EQ(node.receive(bytes_of(in)), ok);
	EXPECT_EQ(reap_one(node.rx_cq).error, 0u);
	EXPECT_EQ(in, 2u) << "small: it was sent";

	Node third;
	ASSERT_EQ(node.receive(buffer), ok);
	ASSERT_EQ(third.send(bytes_of(out), third.to(node)), ok);
	const auto cqe = reap_one(node.rx_cq);
	EXPECT_EQ(cqe.error, 0u);
	EXPECT_EQ(cqe.len, 8u) << "large: it went with its sender";
}

/* All that a child does with its parent's objects ends with EPERM and changes nothing. */
TEST(Fork, child_can_neither_use_nor_hurt_the_parents_context)
{
	Node a;
	Node b;
	const auto a_to_b = a.to(b);
	std::uint64_t in = 0;
	std::uint64_t out = 1;

	/* Used rings; an unread completion, a kept message, an armed command. */
	for (int i = 0; i < 100; ++i) {
		ASSERT_EQ(b.receive(bytes_of(in)), ok);
		ASSERT_EQ(a.send(bytes_of(out), a_to_b), ok);
		reap(a.tx_cq, 1);
		reap(b.rx_cq, 1);
	}
	ASSERT_EQ(b.receive(bytes_of(in), 7), ok);
	ASSERT_EQ(a.send(bytes_of(out), a_to_b, 8), ok);
	ASSERT_TRUE(reaches(b.received, 101));
	ASSERT_EQ(b.receive(bytes_of(in), 9), ok);
	ASSERT_EQ(a.context.submit(Command::add(a.sent.id(), 1000).work().when(a.received.id(), 1)),
		  ok);

	Child child([&](const Line &) {
		std::uint64_t index = 0;
		Completion one;

		EXPECT_EQ(a.send(bytes_of(out), a_to_b), from_errno(EPERM));
		EXPECT_EQ(a.send(bytes_of(out), a_to_b, 0, TREADLE_F_MORE), ok);
		EXPECT_EQ(a.tx.flush(), from_errno(EPERM));
		EXPECT_EQ(b.receive(bytes_of(in)), from_errno(EPERM));
		const Command command = Command::send(bytes_at(&out, 8), a_to_b);
		for (std::uint32_t i = 0; i < 2 * a.tx.entries(); ++i) {
			ASSERT_EQ(a.send(bytes_of(out), a_to_b), from_errno(EPERM)) << i;
			ASSERT_EQ(b.receive(bytes_of(in)), from_errno(EPERM)) << i;
			ASSERT_EQ(a.tx.post_all({&command, 1}).error, from_errno(EPERM)) << i;
		}
		EXPECT_EQ(b.rx_cq.read({&one, 1}), std::unexpected(from_errno(EPERM)));
		EXPECT_EQ(a.tx_cq.read({&one, 1}), std::unexpected(from_errno(EPERM)));
		EXPECT_EQ(b.rx_cq.wait(0ns), from_errno(EPERM));
		EXPECT_EQ(b.rx_cq.signal(), from_errno(EPERM));
		EXPECT_EQ(a.sent.add(1), from_errno(EPERM));
		EXPECT_EQ(a.sent.value(), 0u) << "pages of zeros";
		EXPECT_EQ(a.sent.wait(1, 0, 0ns), from_errno(EPERM));
		EXPECT_EQ(a.av.insert({}, nullptr).error, from_errno(EPERM));
		EXPECT_EQ(a.av.insert({&b.ep.address(), 1}, &index).count, 0u);
		EXPECT_EQ(a.av.insert(b.ep.address()).error(), from_errno(EPERM));
		EXPECT_EQ(a.av.remove({&index, 1}), from_errno(EPERM));
		EXPECT_EQ(b.ep.cancel(9), from_errno(EPERM));
		EXPECT_EQ(a.context.flush().error(), from_errno(EPERM));
		EXPECT_EQ(a.context.submit(Command::add(a.sent.id(), 1).work()), from_errno(EPERM));
		EXPECT_EQ(Counter::create(a.context).error(), from_errno(EPERM));
		EXPECT_EQ(a.rx_cq.fd().error(), from_errno(EPERM));
		/* Destructors must not reach the parent's objects either. */
		a.~Node();
		b.~Node();

		/* A context of its own works. */
		Node own;
		EXPECT_EQ(own.receive(bytes_of(in)), ok);
		EXPECT_EQ(own.send(bytes_of(out), own.to(own)), ok);
		EXPECT_EQ(reap_one(own.rx_cq).len, 8u);
	});
	EXPECT_EQ(child.join(), 0);

	/* For the parent nothing has changed. */
	EXPECT_EQ(reap_one(b.rx_cq).context, 7u);
	EXPECT_EQ(reap_one(a.tx_cq).context, 8u);
	ASSERT_EQ(a.send(bytes_of(out), a_to_b), ok);
	EXPECT_EQ(reap_one(b.rx_cq).context, 9u);
	EXPECT_EQ(a.sent.value(), 102u);
	EXPECT_EQ(must(a.context.flush(), "flush"), 1u);
}

/* A child inherits the file, but the context ends with the process that opened it. */
TEST(Fork, an_orphan_does_not_keep_the_context_alive)
{
	Node node;
	std::uint64_t word = 1;
	int fds[2];

	ASSERT_EQ(pipe(fds), 0);
	Child child([&](const Line &line) {
		Node other;

		meet(other, line);
		if (!fork()) {
			char end;

			/* Until the test ends. */
			close(fds[1]);
			_exit(read(fds[0], &end, 1) != 0);
		}
		line.tell('r');
		pause();
	});
	const auto peer = meet(node, child.line());

	child.line().ask<char>();
	child.kill();
	/* The process may still be exiting. */
	std::uint32_t error = 0;
	for (int i = 0; i < 100 && error != ECONNREFUSED; ++i) {
		usleep(20'000);
		error = static_cast<std::uint32_t>(
			node.send(bytes_of(word), peer, 0, TREADLE_F_INJECT).value());
		if (!error)
			error = reap_one(node.tx_cq).error;
	}
	EXPECT_EQ(error, static_cast<std::uint32_t>(ECONNREFUSED));
	close(fds[0]);
	close(fds[1]);
}
