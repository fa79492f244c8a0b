// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* The locked variants: any thread may call anything. */

#include <atomic>
#include <thread>

#include "node.h"

namespace
{

constexpr std::uint64_t threads = 4;
constexpr std::uint64_t each = 1000;

struct SharedNode {
	Context context = must(Context::open(), "open");
	AddressVector av = must(AddressVector::create(context), "av");
	SharedCompletionQueue tx_cq = must(SharedCompletionQueue::create(context, 256), "cq");
	SharedCompletionQueue rx_cq = must(SharedCompletionQueue::create(context, 256), "cq");
	SharedTransmitRing tx = must(SharedTransmitRing::create(context, 64), "tx");
	SharedReceiveRing rx = must(SharedReceiveRing::create(context, 64), "rx");
	Endpoint ep = must(Endpoint::create(context, loopback()), "ep");

	SharedNode()
	{
		EXPECT_EQ(ep.enable({.tx = tx.id(),
				     .rx = rx.id(),
				     .av = av.id(),
				     .tx_cq = tx_cq.id(),
				     .rx_cq = rx_cq.id()}),
			  ok);
	}
};

} // namespace

TEST(Threads, share_rings_and_queues)
{
	SharedNode a;
	SharedNode b;
	const auto to = must(a.av.insert(b.ep.address()), "insert");
	std::vector<std::uint64_t> in(threads * each);
	std::atomic<std::uint64_t> sent = 0;
	std::atomic<std::uint64_t> received = 0;
	std::vector<std::atomic<int>> seen(threads * each);
	const auto deadline = std::chrono::steady_clock::now() + 3 * patience;
	const auto late = [&] { return std::chrono::steady_clock::now() > deadline; };

	{
		std::vector<std::jthread> all;

		for (std::uint64_t t = 0; t < threads; ++t) {
			all.emplace_back([&, t] {
				for (std::uint64_t i = t * each; i < (t + 1) * each && !late();) {
					const auto rc = b.rx.post({.opcode = TREADLE_OP_RECV,
								   .flags = TREADLE_F_COMPLETION,
								   .context = i,
								   .addr = address_of(&in[i]),
								   .len = 8});

					ASSERT_TRUE(!rc || rc == from_errno(EAGAIN)) << rc;
					i += !rc;
					if (rc)
						std::this_thread::yield();
				}
			});
			all.emplace_back([&, t] {
				for (std::uint64_t i = t * each; i < (t + 1) * each && !late();) {
					/* Some in pairs; the doorbell of a pair may be rung by any thread. */
					const std::uint32_t more = i % 3 == 1 ? TREADLE_F_MORE : 0;
					const auto rc = a.tx.post({.opcode = TREADLE_OP_SEND,
								   .flags = TREADLE_F_COMPLETION |
									    TREADLE_F_INJECT | more,
								   .context = i,
								   .addr = address_of(&i),
								   .len = 8,
								   .peer = std::to_underlying(to)});

					ASSERT_TRUE(!rc || rc == from_errno(EAGAIN)) << rc;
					/* The buffer is free when the doorbell was rung. */
					while (more && a.tx.flush() == from_errno(EAGAIN))
						std::this_thread::yield();
					i += !rc;
					if (rc)
						std::this_thread::yield();
				}
			});
			all.emplace_back([&] {
				Completion some[5];

				while ((sent < threads * each || received < threads * each) &&
				       !late()) {
					std::uint32_t n = a.tx_cq.read(some).value_or(0);

					for (std::uint32_t i = 0; i < n; ++i)
						EXPECT_EQ(some[i].error(), ok);
					sent += n;
					n = b.rx_cq.read(some).value_or(0);
					for (std::uint32_t i = 0; i < n; ++i) {
						EXPECT_EQ(some[i].error(), ok);
						++seen[some[i].context()];
					}
					received += n;
					if (!n)
						std::this_thread::yield();
				}
			});
		}
	}
	EXPECT_EQ(sent, threads * each);
	EXPECT_EQ(received, threads * each);
	for (const auto &count : seen)
		EXPECT_EQ(count, 1);
	std::vector<int> values(threads * each);
	for (const auto value : in)
		++values.at(value);
	for (const auto count : values)
		EXPECT_EQ(count, 1);
}

TEST(Threads, counters)
{
	auto context = must(Context::open(), "open");
	auto counter = must(Counter::create(context), "counter");

	{
		std::vector<std::jthread> all;

		for (std::uint64_t t = 0; t < threads; ++t)
			all.emplace_back([&] {
				for (std::uint64_t i = 0; i < each; ++i)
					EXPECT_EQ(counter.add(1), ok);
			});
	}
	EXPECT_EQ(counter.value(), threads * each);
}

/* Closing what another thread uses: one of the two gets an error, and none crashes. */
TEST(Threads, close_while_in_use)
{
	for (int round = 0; round < 50; ++round) {
		auto context = must(Context::open(), "open");
		auto counter = must(Counter::create(context), "counter");
		const auto id = counter.id();
		std::jthread user([&] {
			std::error_code rc;

			while (!(rc = context.submit(Command::add(id, 1).work())))
				;
			EXPECT_EQ(rc, from_errno(ENOENT));
		});

		usleep(static_cast<useconds_t>(round * 100));
		while (counter.close() == from_errno(EBUSY))
			;
	}
}
