// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Calls of the module through an io_uring of the program's own. */

#include <treadle/uring.h>

#include "node.h"

namespace
{

class UringTest : public PairTest
{
protected:
	UringTest() { EXPECT_EQ(io_uring_queue_init(8, &uring, 0), 0); }
	~UringTest() override { io_uring_queue_exit(&uring); }

	io_uring_sqe *entry(std::uint64_t data)
	{
		sqe = io_uring_get_sqe(&uring);
		next_data = data;
		return sqe;
	}
	/* After prep_*, which leaves the data to the program. */
	void submit()
	{
		io_uring_sqe_set_data64(sqe, next_data);
		ASSERT_EQ(io_uring_submit(&uring), 1);
	}
	/* The result of the call that ends next, which has this data. */
	int result(std::uint64_t data)
	{
		__kernel_timespec timeout{.tv_sec = patience / 1s, .tv_nsec = 0};
		io_uring_cqe *cqe;

		if (const int rc = io_uring_wait_cqe_timeout(&uring, &cqe, &timeout)) {
			ADD_FAILURE() << "nothing ended: " << rc;
			return rc;
		}
		const int res = cqe->res;
		EXPECT_EQ(io_uring_cqe_get_data64(cqe), data);
		io_uring_cqe_seen(&uring, cqe);
		return res;
	}
	bool nothing_has_ended() { return io_uring_cq_ready(&uring) == 0; }

	io_uring uring{};
	io_uring_sqe *sqe = nullptr;
	std::uint64_t next_data = 0;
};

TEST_F(UringTest, a_doorbell_takes_what_was_posted)
{
	std::uint64_t in[3]{}, out[3] = {1, 2, 3};

	for (auto &word : in)
		ASSERT_EQ(b.receive(bytes_of(word)), ok);
	for (auto &word : out)
		ASSERT_EQ(a.send(bytes_of(word), a_to_b, word, TREADLE_F_MORE), ok);
	EXPECT_TRUE(a.tx.pending());
	prep_doorbell(entry(7), a.tx);
	submit();
	const int taken = result(7);
	EXPECT_EQ(taken, 3);
	EXPECT_EQ(a.tx.rang(taken), ok);
	EXPECT_FALSE(a.tx.pending());
	reap(a.tx_cq, 3);
	reap(b.rx_cq, 3);
	EXPECT_TRUE(std::ranges::equal(in, out));

	/* Then the ring works as before. */
	ASSERT_EQ(b.receive(bytes_of(in[0])), ok);
	ASSERT_EQ(a.send(bytes_of(out[2]), a_to_b), ok);
	reap(b.rx_cq, 1);
	EXPECT_EQ(in[0], 3u);
}

TEST_F(UringTest, commands_posted_meanwhile_wait_for_the_next_doorbell)
{
	std::uint64_t in[2]{}, out[2] = {1, 2};

	for (auto &word : in)
		ASSERT_EQ(b.receive(bytes_of(word)), ok);
	ASSERT_EQ(a.send(bytes_of(out[0]), a_to_b, 1, TREADLE_F_MORE), ok);
	prep_doorbell(entry(1), a.tx);
	submit();
	const int taken = result(1);
	ASSERT_EQ(a.send(bytes_of(out[1]), a_to_b, 2, TREADLE_F_MORE), ok);
	EXPECT_EQ(a.tx.rang(taken), ok);
	EXPECT_TRUE(a.tx.pending());
	EXPECT_EQ(a.tx.flush(), ok);
	EXPECT_FALSE(a.tx.pending());
	reap(b.rx_cq, 2);
	EXPECT_TRUE(std::ranges::equal(in, out));
}

TEST_F(UringTest, a_doorbell_reports_errors)
{
	ASSERT_EQ(a.ep.close(), ok);
	const auto gone = a.tx.id();
	ASSERT_NE(gone, TransmitRingId{});
	ASSERT_EQ(a.tx.close(), ok);
	prep_doorbell(entry(1), a.tx);
	submit();
	EXPECT_EQ(a.tx.rang(result(1)), std::errc::no_such_file_or_directory);
}

TEST_F(UringTest, waits_for_completions)
{
	std::uint64_t in = 0, out = 5;
	treadle_wait args;

	ASSERT_EQ(b.receive(bytes_of(in)), ok);
	prep_wait(entry(1), b.rx_cq, args);
	submit();
	EXPECT_TRUE(nothing_has_ended());
	ASSERT_EQ(a.send(bytes_of(out), a_to_b), ok);
	EXPECT_EQ(result(1), 0);
	EXPECT_TRUE(b.rx_cq.ready());
	reap(b.rx_cq, 1);
}

TEST_F(UringTest, waits_for_counters_and_events_and_no_longer_than_told)
{
	const auto events = must(EventQueue::create(a.context), "event queue");
	treadle_wait args;

	prep_wait(entry(1), a.sent, 3, 0, args);
	submit();
	EXPECT_TRUE(nothing_has_ended());
	EXPECT_EQ(a.sent.add(3), ok);
	EXPECT_EQ(result(1), 0);

	prep_wait(entry(2), a.sent, 4, 0, args, 10ms);
	submit();
	EXPECT_EQ(result(2), -ETIMEDOUT);
	prep_wait(entry(3), events, args, 0ms);
	submit();
	EXPECT_EQ(result(3), -EAGAIN);
}

TEST_F(UringTest, registers_memory)
{
	std::uint64_t word = 0, out = 6;
	const treadle_iov range{address_of(&word), sizeof(word)};
	Registration registration(b.context, {&range, 1},
				  {.access = TREADLE_ACCESS_REMOTE_WRITE,
				   .flags = TREADLE_MR_KERNEL_KEY});

	EXPECT_EQ(registration.result().error(), from_errno(ENOENT));
	prep_register(entry(1), registration);
	submit();
	registration.done(result(1));
	const auto region = must(registration.result(), "region");
	EXPECT_NE(region.key(), 0u);
	ASSERT_EQ(a.tx.write(bytes_of(out), a_to_b, {.addr = 0, .key = region.key()}), ok);
	EXPECT_EQ(reap_one(a.tx_cq).error, 0u);
	EXPECT_EQ(word, 6u);
}

} // namespace
