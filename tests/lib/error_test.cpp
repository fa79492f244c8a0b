// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* An error is reported once, in the right place, and changes nothing else. */

#include <unistd.h>

#include "node.h"

class ErrorTest : public PairTest
{
protected:
	/* The errno of a send, whether the post returned it or a completion. */
	int outcome(std::error_code rc, CompletionQueue &queue)
	{
		return rc ? rc.value() : static_cast<int>(reap_one(queue).error);
	}

	/* After an error everything works as before. */
	void expect_works()
	{
		std::uint64_t in = 0;
		const std::uint64_t out = 42;

		ASSERT_EQ(b.receive(bytes_of(in)), ok);
		ASSERT_EQ(a.send(std::as_bytes(std::span(&out, 1)), a_to_b), ok);
		EXPECT_EQ(reap_one(b.rx_cq).error, 0u);
		EXPECT_EQ(reap_one(a.tx_cq).error, 0u);
		EXPECT_EQ(in, 42u);
	}
};

/* An error of the sender is reported to the sender only; the receive waits for another message. */
TEST_F(ErrorTest, send_from_unmapped_memory)
{
	for (const std::size_t pages : {1, 256}) {
		for (const bool early : {true, false}) {
			SCOPED_TRACE(testing::Message() << pages << (early ? " early" : " late"));
			Pages hole(pages);
			std::vector<std::byte> buffer(pages * 4096);
			const auto data = pattern(buffer.size(), pages);

			hole.unmap(pages / 2);
			if (early) {
				ASSERT_EQ(b.receive(buffer, 4), ok);
			}
			const auto errors = a.sent.error();
			const auto rc = a.send(hole.span(), a_to_b, 3);
			if (!early) {
				ASSERT_EQ(b.receive(buffer, 4), ok);
			}
			EXPECT_EQ(outcome(rc, a.tx_cq), EFAULT);
			EXPECT_TRUE(
				fails(a.sent, errors + !rc)); /* counted after it is completed */
			EXPECT_TRUE(stays_empty(b.rx_cq));
			ASSERT_EQ(a.send(data, a_to_b), ok);
			EXPECT_EQ(reap_one(b.rx_cq).context, 4u);
			EXPECT_EQ(reap_one(a.tx_cq).error, 0u);
			EXPECT_EQ(buffer, data);
		}
	}
	EXPECT_EQ(b.received.error(), 0u);
}

TEST_F(ErrorTest, receive_into_unmapped_or_read_only_memory)
{
	for (const std::size_t len : {64, 1 << 20}) {
		SCOPED_TRACE(len);
		const auto data = pattern(len, 1);
		Pages hole(len / 4096 + 1);
		Pages fixed(len / 4096 + 1, PROT_READ);

		hole.unmap(0);
		ASSERT_EQ(b.receive(hole.span(), 1), ok);
		ASSERT_EQ(b.receive(fixed.span(), 2), ok);
		for (std::uint64_t i = 1; i <= 2; ++i) {
			ASSERT_EQ(a.send(data, a_to_b, i), ok);
			const auto cqe = reap_one(b.rx_cq);
			EXPECT_EQ(cqe.error, static_cast<std::uint32_t>(EFAULT));
			EXPECT_EQ(cqe.context, i);
			reap(a.tx_cq, 1);
		}
		EXPECT_TRUE(fails(b.received, 2 + (len > 64 ? 2u : 0u)));
		EXPECT_EQ(b.received.value(), 0u);
	}
	expect_works();
}

TEST_F(ErrorTest, message_longer_than_the_buffer)
{
	for (const std::size_t len : {100, 1 << 20}) {
		for (const bool early : {true, false}) {
			SCOPED_TRACE(testing::Message() << len << (early ? " early" : " late"));
			const auto data = pattern(len, 1);
			std::vector<std::byte> buffer(len, std::byte{0xee});
			const auto part = std::span(buffer).first(60);

			if (early) {
				ASSERT_EQ(b.receive(part, 1), ok);
			}
			ASSERT_EQ(a.send(data, a_to_b, 2), ok);
			if (!early) {
				ASSERT_EQ(b.receive(part, 1), ok);
			}
			const auto cqe = reap_one(b.rx_cq);
			EXPECT_EQ(cqe.error, static_cast<std::uint32_t>(TREADLE_ETRUNC));
			EXPECT_EQ(cqe.context, 1u);
			EXPECT_EQ(cqe.olen, len - 60);
			EXPECT_EQ(buffer[60], std::byte{0xee});
			EXPECT_TRUE(std::equal(part.begin(), part.end(), data.begin()));
			reap(a.tx_cq, 1);
		}
	}
	expect_works();
}

TEST_F(ErrorTest, no_endpoint_there)
{
	treadle_addr gone;
	std::uint64_t out = 1;

	{
		Node c;
		gone = c.ep.address();
	}
	EXPECT_EQ(outcome(a.send(bytes_of(out), a.to(gone), 5), a.tx_cq), ECONNREFUSED);
	EXPECT_EQ(a.sent.error(), 1u);
	EXPECT_EQ(a.sent.value(), 0u);
	expect_works();
}

TEST_F(ErrorTest, not_on_this_machine)
{
	treadle_addr far = loopback(4711);
	std::uint64_t out = 1;

	far.addr[0] = 192; /* 192.0.2.1 is on no machine */
	far.addr[1] = 0;
	far.addr[2] = 2;
	EXPECT_EQ(outcome(a.send(bytes_of(out), a.to(far)), a.tx_cq), EHOSTUNREACH);
	expect_works();
}

TEST_F(ErrorTest, no_such_peer)
{
	std::uint64_t out = 1;

	EXPECT_EQ(outcome(a.send(bytes_of(out), Peer{4711}), a.tx_cq), EDESTADDRREQ);
	EXPECT_EQ(outcome(a.send(bytes_of(out), Peer::any), a.tx_cq), EDESTADDRREQ);
	expect_works();
}

TEST_F(ErrorTest, too_long)
{
	const auto &limits = a.context.limits();
	const auto data = pattern(limits.inject_size + 1, 1);
	std::byte byte{};

	EXPECT_EQ(a.send(data, a_to_b, 0, TREADLE_F_INJECT), from_errno(EMSGSIZE));
	EXPECT_EQ(a.send({&byte, limits.max_msg_size + 1}, a_to_b), from_errno(EMSGSIZE));
	EXPECT_TRUE(stays_empty(a.tx_cq));
	expect_works();
}

TEST_F(ErrorTest, malformed)
{
	std::uint64_t out = 1;

	EXPECT_EQ(a.tx.post({.opcode = 200, .peer = std::to_underlying(a_to_b)}),
		  from_errno(EOPNOTSUPP));
	EXPECT_EQ(a.tx.post({.opcode = TREADLE_OP_CNTR_ADD, .flags = TREADLE_F_INJECT}),
		  from_errno(EINVAL));
	EXPECT_EQ(a.send(bytes_of(out), a_to_b, 0, 1U << 31), from_errno(EINVAL));
	expect_works();
}

/* A command in a batch has no return value. */
TEST_F(ErrorTest, in_a_batch_refusals_are_completions)
{
	std::uint64_t in[2]{};
	std::uint64_t out[2] = {1, 2};

	for (auto &word : in)
		ASSERT_EQ(b.receive(bytes_of(word)), ok);
	ASSERT_EQ(a.send(bytes_of(out[0]), a_to_b, 1, TREADLE_F_MORE), ok);
	ASSERT_EQ(a.send(bytes_of(out[0]), Peer{4711}, 2, TREADLE_F_MORE), ok);
	ASSERT_EQ(a.send(bytes_of(out[1]), a_to_b, 3), ok);
	for (const auto &cqe : reap(a.tx_cq, 3))
		EXPECT_EQ(cqe.error,
			  cqe.context == 2 ? static_cast<std::uint32_t>(EDESTADDRREQ) : 0u);
	EXPECT_EQ(a.sent.error(), 1u);
	EXPECT_EQ(a.sent.value(), 2u);
	reap(b.rx_cq, 2);
	EXPECT_TRUE(std::equal(in, in + 2, out));
}

/* The last command of a batch is refused: that is the return value. The others were executed. */
TEST_F(ErrorTest, at_the_end_of_a_batch_the_refusal_is_returned)
{
	std::uint64_t in = 0;
	std::uint64_t out = 1;

	ASSERT_EQ(b.receive(bytes_of(in)), ok);
	ASSERT_EQ(a.send(bytes_of(out), a_to_b, 1, TREADLE_F_MORE), ok);
	EXPECT_EQ(a.send(bytes_of(out), Peer{4711}, 2), from_errno(EDESTADDRREQ));
	EXPECT_EQ(reap_one(b.rx_cq).error, 0u);
	EXPECT_EQ(reap_one(a.tx_cq).context, 1u);
	EXPECT_TRUE(stays_empty(a.tx_cq));
	expect_works();
}

TEST_F(ErrorTest, full_receive_ring)
{
	const std::uint32_t entries = b.rx.entries();
	std::vector<std::uint64_t> in(entries + 1);
	std::uint64_t out = 0;

	EXPECT_EQ(b.rx.room(), entries);
	for (std::uint32_t i = 0; i < entries; ++i)
		ASSERT_EQ(b.receive(bytes_of(in[i]), i), ok);
	EXPECT_EQ(b.rx.room(), 0u);
	EXPECT_EQ(b.receive(bytes_of(in[entries]), entries), from_errno(EAGAIN));

	/* Each message makes room for one receive; the refused receive has had no effect. */
	for (std::uint64_t i = 0; i < entries; ++i) {
		ASSERT_EQ(a.send(bytes_of(++out), a_to_b), ok);
		EXPECT_EQ(reap_one(b.rx_cq).context, i);
		EXPECT_EQ(in[i], i + 1);
		reap(a.tx_cq, 1);
	}
	EXPECT_EQ(b.receive(bytes_of(in[0])), ok);
}

/* Large messages without a receive hold their slots. */
TEST_F(ErrorTest, full_transmit_ring)
{
	const std::uint32_t entries = a.tx.entries();
	const auto data = pattern(100'000, 1);
	std::vector<std::byte> buffer(data.size());

	for (std::uint32_t i = 0; i < entries; ++i)
		ASSERT_EQ(a.send(data, a_to_b, i), ok) << i;
	EXPECT_EQ(a.send(data, a_to_b, entries), from_errno(EAGAIN));
	const treadle_iov two[] = {{address_of(data.data()), 1}, {address_of(data.data()), 1}};
	EXPECT_EQ(a.tx.post({.opcode = TREADLE_OP_SEND, .peer = std::to_underlying(a_to_b)}, two),
		  from_errno(EAGAIN));

	EXPECT_EQ(a.tx.room(), 0u);
	ASSERT_EQ(b.receive(buffer), ok);
	EXPECT_EQ(reap_one(a.tx_cq).context, 0u);
	EXPECT_EQ(a.tx.room(), 1u);
	EXPECT_EQ(a.tx.post({.opcode = TREADLE_OP_SEND, .peer = std::to_underlying(a_to_b)}, two),
		  from_errno(EAGAIN))
		<< "needs two slots";
	EXPECT_EQ(a.send(data, a_to_b, entries), ok);
	for (std::uint32_t i = 0; i < entries; ++i) {
		ASSERT_EQ(b.receive(buffer), ok);
		EXPECT_EQ(reap_one(a.tx_cq).context, i + 1);
		EXPECT_EQ(reap_one(b.rx_cq).len, data.size());
		ASSERT_EQ(buffer, data);
	}
}

TEST(Enable, before_it_nothing_works_and_only_once)
{
	auto context = must(Context::open(), "open");
	auto tx = must(TransmitRing::create(context, 8), "tx");
	auto ep = must(Endpoint::create(context, loopback()), "ep");

	EXPECT_NE(tx.post({.opcode = TREADLE_OP_SEND, .peer = 0}), ok);
	EXPECT_EQ(ep.enable({.tx = tx.id()}), ok);
	EXPECT_EQ(ep.enable({.tx = tx.id()}), from_errno(EISCONN));
	EXPECT_EQ(tx.close(), from_errno(EBUSY));
	EXPECT_EQ(ep.close(), ok);
	EXPECT_EQ(tx.close(), ok);
}

TEST(Enable, wrong_objects)
{
	auto context = must(Context::open(), "open");
	auto ep = must(Endpoint::create(context, loopback()), "ep");
	const auto counter = must(Counter::create(context), "counter");

	EXPECT_EQ(ep.enable({.tx = TransmitRingId{static_cast<std::uint32_t>(counter.id())}}),
		  from_errno(EBADF));
	EXPECT_EQ(ep.enable({.tx = TransmitRingId{0x7fffffff}}), from_errno(ENOENT));
	EXPECT_EQ(ep.enable({.flags = 1U << 31}), from_errno(EINVAL));
	EXPECT_EQ(ep.enable({}), ok);
}
