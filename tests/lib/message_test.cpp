// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Messages: sizes, tags, vectors, order, batches, and what a post costs. */

#include <atomic>
#include <cstdarg>
#include <cstring>

#include <sys/syscall.h>
#include <unistd.h>

#include "node.h"

/* The library's calls of ioctl(2) arrive here and are counted. */
static std::atomic<int> doorbells;
static std::atomic<int> calls;

extern "C" __attribute__((visibility("default"))) int ioctl(int fd, unsigned long request,
							    ...) noexcept
{
	va_list args;

	va_start(args, request);
	void *const arg = va_arg(args, void *);
	va_end(args);
	++calls;
	return static_cast<int>(syscall(SYS_ioctl, fd, request, arg));
}

extern "C" __attribute__((visibility("default"))) off_t lseek(int fd, off_t id, int whence) noexcept
{
	++calls;
	++doorbells;
	return syscall(SYS_lseek, fd, id, whence);
}

class MessageTest : public PairTest
{
protected:
	void expect_sent(std::uint64_t context, std::uint32_t kind)
	{
		const auto cqe = reap_one(a.tx_cq);

		EXPECT_EQ(cqe.context, context);
		EXPECT_EQ(cqe.error, 0u);
		EXPECT_EQ(cqe.flags, TREADLE_CQ_SEND | kind);
	}
	void expect_received(std::uint64_t context, std::uint32_t kind, std::uint64_t len,
			     const void *buf)
	{
		const auto cqe = reap_one(b.rx_cq);

		EXPECT_EQ(cqe.context, context);
		EXPECT_EQ(cqe.error, 0u);
		EXPECT_EQ(cqe.flags, TREADLE_CQ_RECV | kind);
		EXPECT_EQ(cqe.len, len);
		EXPECT_EQ(cqe.buf, address_of(buf));
		EXPECT_EQ(Peer{cqe.src}, b_to_a);
	}
};

class SizeTest : public MessageTest, public testing::WithParamInterface<std::size_t>
{
};

TEST_P(SizeTest, arrives_in_a_posted_buffer)
{
	const auto data = pattern(GetParam(), 1);
	std::vector<std::byte> buffer(data.size() + 1, std::byte{0xee});

	ASSERT_EQ(b.receive(buffer, 7), ok);
	ASSERT_EQ(a.send(data, a_to_b, 8), ok);
	expect_received(7, TREADLE_CQ_MSG, data.size(), buffer.data());
	expect_sent(8, TREADLE_CQ_MSG);
	EXPECT_TRUE(std::equal(data.begin(), data.end(), buffer.begin()));
	EXPECT_EQ(buffer.back(), std::byte{0xee});
	EXPECT_EQ(a.sent.value(), 1u);
	EXPECT_EQ(b.received.value(), 1u);
}

TEST_P(SizeTest, waits_for_a_buffer)
{
	const auto data = pattern(GetParam(), 2);
	std::vector<std::byte> buffer(data.size() + 1, std::byte{0xee});

	ASSERT_EQ(a.send(data, a_to_b, 8), ok);
	ASSERT_EQ(b.receive(buffer, 7), ok);
	expect_received(7, TREADLE_CQ_MSG, data.size(), buffer.data());
	expect_sent(8, TREADLE_CQ_MSG);
	EXPECT_TRUE(std::equal(data.begin(), data.end(), buffer.begin()));
	EXPECT_EQ(buffer.back(), std::byte{0xee});
}

TEST_P(SizeTest, goes_both_ways_at_once)
{
	const auto there = pattern(GetParam(), 3);
	const auto back = pattern(GetParam(), 4);
	std::vector<std::byte> at_a(back.size());
	std::vector<std::byte> at_b(there.size());

	ASSERT_EQ(a.receive(at_a), ok);
	ASSERT_EQ(b.receive(at_b), ok);
	ASSERT_EQ(a.send(there, a_to_b), ok);
	ASSERT_EQ(b.send(back, b_to_a), ok);
	reap(a.rx_cq, 1);
	reap(b.rx_cq, 1);
	reap(a.tx_cq, 1);
	reap(b.tx_cq, 1);
	EXPECT_EQ(there, at_b);
	EXPECT_EQ(back, at_a);
}

INSTANTIATE_TEST_SUITE_P(sizes, SizeTest,
			 testing::Values(0, 1, 8, 63, 64, 4095, 4096, 4097, 65536, 100'001, 1 << 20,
					 (8 << 20) + 3));

TEST_F(MessageTest, without_completion_only_counts)
{
	std::uint64_t in = 0;
	const std::uint64_t out = 5;

	ASSERT_EQ(b.rx.post({.opcode = TREADLE_OP_RECV, .addr = address_of(&in), .len = 8}), ok);
	ASSERT_EQ(a.tx.post({.opcode = TREADLE_OP_SEND,
			     .addr = address_of(&out),
			     .len = 8,
			     .peer = std::to_underlying(a_to_b)}),
		  ok);
	ASSERT_TRUE(reaches(b.received, 1));
	ASSERT_TRUE(reaches(a.sent, 1));
	EXPECT_EQ(in, 5u);
	EXPECT_TRUE(stays_empty(a.tx_cq));
	EXPECT_TRUE(stays_empty(b.rx_cq));
}

TEST_F(MessageTest, carries_remote_data)
{
	std::uint64_t in = 0;
	const std::uint64_t out = 5;

	ASSERT_EQ(b.receive(bytes_of(in)), ok);
	ASSERT_EQ(a.tx.post({.opcode = TREADLE_OP_SEND,
			     .flags = TREADLE_F_REMOTE_CQ_DATA,
			     .addr = address_of(&out),
			     .len = 8,
			     .peer = std::to_underlying(a_to_b),
			     .data = 0x1122334455667788}),
		  ok);
	const auto cqe = reap_one(b.rx_cq);
	EXPECT_EQ(cqe.data, 0x1122334455667788u);
	EXPECT_EQ(cqe.flags, TREADLE_CQ_RECV | TREADLE_CQ_MSG | TREADLE_CQ_REMOTE_CQ_DATA);
}

TEST_F(MessageTest, injected_buffer_is_free_at_return)
{
	auto data = pattern(a.context.limits().inject_size, 5);
	const auto copy = data;
	std::vector<std::byte> buffer(data.size());

	ASSERT_EQ(a.send(data, a_to_b, 1, TREADLE_F_INJECT), ok);
	std::fill(data.begin(), data.end(), std::byte{0});
	ASSERT_EQ(b.receive(buffer), ok);
	reap(b.rx_cq, 1);
	EXPECT_EQ(buffer, copy);
}

/* Also if the pages of the posted buffer, or of the sender's, were never accessed. */
TEST_F(MessageTest, injected_buffer_is_free_at_return_even_if_pages_are_new)
{
	for (int round = 0; round < 50; ++round) {
		Pages from(1);
		Pages to(1);
		const auto out = from.span().first(64);
		const auto in = to.span().first(64);

		std::fill(out.begin(), out.end(), std::byte{1});
		ASSERT_EQ(b.receive(in), ok);
		ASSERT_EQ(a.send(out, a_to_b, 0, TREADLE_F_INJECT), ok);
		std::fill(out.begin(), out.end(), std::byte{2});
		reap(b.rx_cq, 1);
		reap(a.tx_cq, 1);
		ASSERT_EQ(std::count(in.begin(), in.end(), std::byte{1}), 64) << round;
	}
}

TEST_F(MessageTest, gathers_and_scatters)
{
	for (std::size_t pieces = 0; pieces <= TREADLE_MAX_IOV; ++pieces) {
		SCOPED_TRACE(pieces);
		/* The two sides split the data differently. */
		const auto data = pattern(10'000 * pieces, pieces);
		std::vector<std::byte> buffer(data.size());
		std::vector<treadle_iov> from;
		std::vector<treadle_iov> to;
		std::size_t at = 0;

		for (std::size_t i = 0; i < pieces; ++i) {
			const std::size_t len = i + 1 == pieces ? data.size() - at : 1000 * (i + 1);

			from.push_back({address_of(data.data() + at), len});
			at += len;
			to.push_back({address_of(buffer.data() + i * 10'000), 10'000});
		}
		ASSERT_EQ(b.rx.post({.opcode = TREADLE_OP_RECV, .flags = TREADLE_F_COMPLETION}, to),
			  ok);
		ASSERT_EQ(a.tx.post({.opcode = TREADLE_OP_SEND,
				     .flags = TREADLE_F_COMPLETION,
				     .peer = std::to_underlying(a_to_b)},
				    from),
			  ok);
		EXPECT_EQ(reap_one(b.rx_cq).len, data.size());
		EXPECT_EQ(reap_one(a.tx_cq).error, 0u);
		EXPECT_EQ(buffer, data);
	}
}

TEST_F(MessageTest, vector_of_a_command)
{
	const auto data = pattern(300, 1);
	std::vector<std::byte> buffer(300);
	const treadle_iov from[] = {{address_of(&data[0]), 100}, {address_of(&data[100]), 200}};
	const treadle_iov one[] = {{address_of(data.data()), data.size()}};

	for (const auto iov :
	     {std::span<const treadle_iov>(from), std::span<const treadle_iov>(one)}) {
		std::fill(buffer.begin(), buffer.end(), std::byte{0});
		ASSERT_EQ(b.receive(buffer), ok);
		ASSERT_EQ(a.tx.post(Command::send({}, a_to_b).buffers(iov)), ok);
		reap(b.rx_cq, 1);
		EXPECT_EQ(buffer, data);
	}
}

TEST_F(MessageTest, too_many_buffers)
{
	const std::vector<treadle_iov> iov(TREADLE_MAX_IOV + 1);

	EXPECT_EQ(a.tx.post({.opcode = TREADLE_OP_SEND, .peer = std::to_underlying(a_to_b)}, iov),
		  from_errno(EINVAL));
	EXPECT_EQ(b.rx.post({.opcode = TREADLE_OP_RECV}, iov), from_errno(EINVAL));
	EXPECT_EQ(a.tx.post(Command::send({}, a_to_b).buffers(iov)), from_errno(EINVAL));
}

TEST_F(MessageTest, tags_select)
{
	std::uint64_t in[3]{};
	const std::uint64_t out[3] = {1, 2, 3};

	/* Two expected, by exact tag and by a tag with bits that do not count; one unexpected. */
	ASSERT_EQ(b.receive_tagged(bytes_of(in[0]), 0x10, 0, 100), ok);
	ASSERT_EQ(b.receive_tagged(bytes_of(in[1]), 0x2f, 0x0f, 101), ok);
	ASSERT_EQ(a.send_tagged(std::as_bytes(std::span(&out[1], 1)), a_to_b, 0x23), ok);
	ASSERT_EQ(a.send_tagged(std::as_bytes(std::span(&out[2], 1)), a_to_b, 0x33), ok);
	ASSERT_EQ(a.send_tagged(std::as_bytes(std::span(&out[0], 1)), a_to_b, 0x10), ok);

	auto cqe = reap_one(b.rx_cq);
	EXPECT_EQ(cqe.context, 101u);
	EXPECT_EQ(cqe.tag, 0x23u);
	EXPECT_EQ(cqe.flags, TREADLE_CQ_RECV | TREADLE_CQ_TAGGED);
	cqe = reap_one(b.rx_cq);
	EXPECT_EQ(cqe.context, 100u);
	EXPECT_EQ(cqe.tag, 0x10u);
	EXPECT_TRUE(stays_empty(b.rx_cq));

	ASSERT_EQ(b.receive_tagged(bytes_of(in[2]), 0, ~0ULL, 102), ok);
	cqe = reap_one(b.rx_cq);
	EXPECT_EQ(cqe.context, 102u);
	EXPECT_EQ(cqe.tag, 0x33u);
	EXPECT_TRUE(std::equal(in, in + 3, out));
}

TEST_F(MessageTest, tagged_and_plain_do_not_mix)
{
	std::uint64_t tagged = 0;
	std::uint64_t plain = 0;
	const std::uint64_t out = 1;

	ASSERT_EQ(b.receive_tagged(bytes_of(tagged), 0, ~0ULL), ok);
	ASSERT_EQ(b.receive(bytes_of(plain)), ok);
	ASSERT_EQ(a.send(std::as_bytes(std::span(&out, 1)), a_to_b), ok);
	EXPECT_EQ(reap_one(b.rx_cq).flags, TREADLE_CQ_RECV | TREADLE_CQ_MSG);
	EXPECT_TRUE(stays_empty(b.rx_cq));
}

TEST_F(MessageTest, source_selects)
{
	Node c;
	const auto from_c = b.to(c);
	std::uint64_t in[2]{};
	const std::uint64_t of_a = 1;
	const std::uint64_t of_c = 2;

	ASSERT_EQ(b.receive(bytes_of(in[1]), 11, from_c), ok);
	ASSERT_EQ(b.receive(bytes_of(in[0]), 10, b_to_a), ok);
	ASSERT_EQ(a.send(std::as_bytes(std::span(&of_a, 1)), a_to_b), ok);
	ASSERT_EQ(c.send(std::as_bytes(std::span(&of_c, 1)), c.to(b)), ok);
	auto cqe = reap_one(b.rx_cq);
	EXPECT_EQ(cqe.context, 10u);
	EXPECT_EQ(Peer{cqe.src}, b_to_a);
	cqe = reap_one(b.rx_cq);
	EXPECT_EQ(cqe.context, 11u);
	EXPECT_EQ(Peer{cqe.src}, from_c);
	EXPECT_EQ(in[0], 1u);
	EXPECT_EQ(in[1], 2u);
}

TEST_F(MessageTest, unknown_source_is_any)
{
	Node c;
	std::uint64_t in = 0;
	const std::uint64_t out = 2;

	ASSERT_EQ(b.receive(bytes_of(in)), ok);
	ASSERT_EQ(c.send(std::as_bytes(std::span(&out, 1)), c.to(b)), ok);
	EXPECT_EQ(reap_one(b.rx_cq).src, TREADLE_ADDR_ANY);
}

TEST_F(MessageTest, unknown_source_is_named_if_asked_for)
{
	Node to({.flags = TREADLE_EP_SOURCE | TREADLE_EP_SOURCE_ERR});
	const Peer peer = a.to(to);
	const std::uint64_t out = 2;
	std::uint64_t in = 0;

	for (const bool tagged : {false, true}) {
		ASSERT_EQ(tagged ? to.receive_tagged(bytes_of(in), 5) : to.receive(bytes_of(in)),
			  ok);
		const auto data = std::as_bytes(std::span(&out, 1));
		ASSERT_EQ(tagged ? a.send_tagged(data, peer, 5) : a.send(data, peer), ok);
		const treadle_cqe cqe = reap_one(to.rx_cq);
		EXPECT_EQ(cqe.error, static_cast<std::uint32_t>(EADDRNOTAVAIL));
		const treadle_addr sender = sender_of(cqe);
		EXPECT_EQ(std::memcmp(&sender, &a.ep.address(), sizeof(sender)), 0);
	}
}

TEST_F(MessageTest, to_itself)
{
	std::uint64_t in = 0;
	const std::uint64_t out = 9;
	const auto self = a.to(a);

	ASSERT_EQ(a.receive(bytes_of(in)), ok);
	ASSERT_EQ(a.send(std::as_bytes(std::span(&out, 1)), self), ok);
	EXPECT_EQ(Peer{reap_one(a.rx_cq).src}, self);
	EXPECT_EQ(in, 9u);
}

/* Small messages are buffered, large ones stay at the sender: they arrive in the order of sending. */
TEST_F(MessageTest, order_of_sending_whatever_the_size)
{
	std::vector<std::vector<std::byte>> out;
	std::vector<std::vector<std::byte>> in;

	for (std::size_t i = 0; i < 40; ++i) {
		out.push_back(pattern(i % 4 == 3 ? 300'000 : 1 + i * 100, i));
		in.emplace_back(300'000);
		ASSERT_EQ(a.send(out.back(), a_to_b, i), ok);
	}
	for (std::size_t i = 0; i < out.size(); ++i)
		ASSERT_EQ(b.receive(in[i], i), ok);
	for (const auto &cqe : reap(b.rx_cq, out.size())) {
		in[cqe.context].resize(cqe.len);
		EXPECT_EQ(in[cqe.context], out[cqe.context]) << cqe.context;
	}
	reap(a.tx_cq, out.size());
}

/* More than the receiver buffers: the rest waits at the sender, in order, and nothing is lost. */
TEST(Buffering, beyond_the_budget_senders_wait)
{
	constexpr std::uint64_t n = 60;
	Node a;
	Node b({.buffered = 4096});
	const auto to = a.to(b);
	std::vector<std::byte> in(1000);

	for (std::uint64_t i = 0; i < n; ++i)
		ASSERT_EQ(a.send(pattern(1000, i), to, i, TREADLE_F_INJECT), ok);
	for (std::uint64_t i = 0; i < n; ++i) {
		ASSERT_EQ(b.receive(in), ok);
		ASSERT_EQ(reap(b.rx_cq, 1).size(), 1u);
		ASSERT_EQ(in, pattern(1000, i)) << i;
	}
	for (const auto &cqe : reap(a.tx_cq, n))
		EXPECT_EQ(cqe.error, 0u);
}

TEST_F(MessageTest, costs_no_more_system_calls_than_promised)
{
	constexpr std::uint64_t n = 32;
	std::uint64_t in[n]{};
	std::uint64_t out[n];
	Completion some[n];

	calls = doorbells = 0;
	for (auto &word : in)
		ASSERT_EQ(b.receive(bytes_of(word)), ok);
	EXPECT_EQ(calls, 0) << "posting receives";

	for (std::uint64_t i = 0; i < n; ++i) {
		out[i] = i + 1;
		ASSERT_EQ(a.send(bytes_of(out[i]), a_to_b, i, i + 1 < n ? TREADLE_F_MORE : 0), ok);
		EXPECT_EQ(doorbells, i + 1 < n ? 0 : 1);
	}
	EXPECT_EQ(b.rx_cq.read(some), n);
	EXPECT_EQ(a.tx_cq.read(some), n);
	EXPECT_EQ(b.rx_cq.read(some), std::unexpected(from_errno(EAGAIN)));
	EXPECT_EQ(b.received.value(), n);
	EXPECT_EQ(calls, 1) << "a batch, and reading everything";
	EXPECT_TRUE(std::equal(in, in + n, out));
}

/* The caller need not know the size of the ring. */
TEST_F(MessageTest, a_batch_may_be_larger_than_the_ring)
{
	const std::uint64_t n = 3 * a.tx.entries();
	std::uint64_t word = 7;

	for (std::uint64_t i = 1; i <= n; ++i)
		ASSERT_EQ(a.tx.post({.opcode = TREADLE_OP_SEND,
				     .flags = i < n ? TREADLE_F_MORE : 0,
				     .addr = address_of(&word),
				     .len = 8,
				     .peer = std::to_underlying(a_to_b)}),
			  ok)
			<< i;
	EXPECT_TRUE(reaches(a.sent, n));
}

TEST_F(MessageTest, of_many_commands_the_first_ones_are_taken)
{
	std::uint64_t words[4]{}, out[] = {1, 2, 3};
	const std::vector<treadle_iov> many(TREADLE_MAX_IOV + 1, {address_of(out), 8});
	const Command good = Command::send(bytes_at(&out[0], 8), a_to_b).completion();
	const auto check = [&](const Command &bad, int error) {
		const Command all[] = {good, bad, good};
		const auto [count, rc] = a.tx.post_all(all);

		EXPECT_EQ(count, 1u);
		EXPECT_EQ(rc, from_errno(error));
		ASSERT_EQ(b.receive(bytes_of(words[0])), ok);
		EXPECT_EQ(reap_one(b.rx_cq).len, 8u);
		EXPECT_EQ(reap_one(a.tx_cq).error, 0u);
		ASSERT_EQ(b.receive(bytes_of(words[0]), 5), ok);
		EXPECT_TRUE(stays_empty(b.rx_cq));
		EXPECT_EQ(b.ep.cancel(5), ok);
		EXPECT_EQ(reap_one(b.rx_cq).error, static_cast<std::uint32_t>(ECANCELED));
	};

	check(Command::send(bytes_at(&out[0], 8), Peer{4711}).completion(), EDESTADDRREQ);
	check(Command(good).buffers(many), EINVAL);

	/* Each waits for its receive in a slot. */
	const std::vector<Command> waiting(a.tx.entries() + 8,
					   Command(good).flags(TREADLE_F_DELIVERY_COMPLETE));
	const auto [count, rc] = a.tx.post_all(waiting);
	EXPECT_EQ(rc, from_errno(EAGAIN));
	EXPECT_EQ(count, a.tx.entries());
	for (std::size_t i = 0; i < count; ++i) {
		ASSERT_EQ(b.receive(bytes_of(words[0])), ok);
		reap_one(b.rx_cq);
		reap_one(a.tx_cq);
	}
	EXPECT_EQ(a.tx.post_all(std::span(waiting).first(8)).count, 8u);
}

TEST_F(MessageTest, flush_ends_a_batch)
{
	std::uint64_t in = 0;
	const std::uint64_t out = 1;

	doorbells = 0;
	EXPECT_EQ(a.tx.flush(), ok);
	ASSERT_EQ(b.receive(bytes_of(in)), ok);
	ASSERT_EQ(a.send(std::as_bytes(std::span(&out, 1)), a_to_b, 0, TREADLE_F_MORE), ok);
	EXPECT_TRUE(stays_empty(b.rx_cq));
	EXPECT_EQ(doorbells, 0);
	EXPECT_EQ(a.tx.flush(), ok);
	EXPECT_EQ(doorbells, 1);
	reap(b.rx_cq, 1);
	EXPECT_EQ(in, 1u);
}

/* Rings wrap, also between the two slots of one command. */
TEST_F(MessageTest, many_rounds)
{
	const auto data = pattern(64, 1);
	std::vector<std::byte> buffer(64);
	const treadle_iov from[] = {{address_of(&data[0]), 20}, {address_of(&data[20]), 44}};
	const treadle_iov to[] = {{address_of(&buffer[0]), 50}, {address_of(&buffer[50]), 14}};

	for (int i = 0; i < 1000; ++i) {
		std::fill(buffer.begin(), buffer.end(), std::byte{0});
		const Message receive{.opcode = TREADLE_OP_RECV,
				      .flags = TREADLE_F_COMPLETION,
				      .addr = address_of(buffer.data()),
				      .len = buffer.size()};
		const Message send{.opcode = TREADLE_OP_SEND,
				   .addr = address_of(data.data()),
				   .len = data.size(),
				   .peer = std::to_underlying(a_to_b)};

		ASSERT_EQ(i % 3 ? b.rx.post(receive, to) : b.rx.post(receive), ok);
		ASSERT_EQ(i % 5 ? a.tx.post(send, from) : a.tx.post(send), ok);
		ASSERT_EQ(reap(b.rx_cq, 1).size(), 1u);
		ASSERT_EQ(buffer, data) << i;
	}
}

/* The kernel holds messages of one kind while receives of another are posted: each still finds its own. */
TEST_F(MessageTest, unexpected_of_one_tag_while_receiving_another)
{
	std::uint64_t in[2]{};
	const std::uint64_t out[2] = {1, 2};

	ASSERT_EQ(a.send_tagged(std::as_bytes(std::span(&out[0], 1)), a_to_b, 1), ok);
	ASSERT_EQ(b.receive_tagged(bytes_of(in[1]), 2), ok);
	ASSERT_EQ(a.send_tagged(std::as_bytes(std::span(&out[1], 1)), a_to_b, 2), ok);
	EXPECT_EQ(reap_one(b.rx_cq).tag, 2u);
	ASSERT_EQ(b.receive_tagged(bytes_of(in[0]), 1), ok);
	EXPECT_EQ(reap_one(b.rx_cq).tag, 1u);
	EXPECT_TRUE(std::equal(in, in + 2, out));
}
