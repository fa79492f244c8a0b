// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* Commands on a peer's memory: reads, writes and atomics, with one buffer and with many. */

#include <numeric>

#include "node.h"

class MemoryTest : public PairTest
{
protected:
	std::vector<std::uint64_t> there = std::vector<std::uint64_t>(64);
	std::vector<std::uint64_t> here = std::vector<std::uint64_t>(64);
	MemoryRegion region =
		must(MemoryRegion::create(b.context, bytes_at(there.data(), 8 * there.size()),
					  {.access = TREADLE_ACCESS_REMOTE_READ |
						     TREADLE_ACCESS_REMOTE_WRITE,
					   .key = 5}),
		     "region");

	MemoryTest() { std::iota(here.begin(), here.end(), 1); }

	/* Posts a command and returns the error that it ended with. */
	std::uint32_t outcome(Command command)
	{
		EXPECT_EQ(a.tx.post(command.completion()), ok);
		return reap_one(a.tx_cq).error;
	}
	treadle_iov iov(std::uint64_t *at, std::size_t words)
	{
		return {address_of(at), 8 * words};
	}
};

TEST_F(MemoryTest, write_and_read)
{
	std::uint64_t got[4]{};

	EXPECT_EQ(outcome(Command::write(bytes_at(here.data(), 32), a_to_b, {8, 5})), 0u);
	EXPECT_EQ(there[0], 0u);
	EXPECT_EQ(there[1], 1u);
	EXPECT_EQ(there[4], 4u);
	EXPECT_EQ(outcome(Command::read(bytes_at(got, 32), a_to_b, {8, 5})), 0u);
	EXPECT_EQ(got[3], 4u);
	EXPECT_EQ(outcome(Command::read(bytes_at(got, 32), a_to_b, {8, 6})),
		  static_cast<std::uint32_t>(EKEYREJECTED));
}

TEST_F(MemoryTest, vectors_in_any_order_of_calls)
{
	const treadle_iov buffers[] = {iov(&here[0], 1), iov(&here[1], 3)};
	const treadle_rma_iov ranges[] = {{0, 16, 5}, {80, 16, 5}};

	EXPECT_EQ(outcome(Command::write({}, a_to_b, {0, 0}).buffers(buffers).ranges(ranges)), 0u);
	EXPECT_EQ(there[1], 2u);
	EXPECT_EQ(there[11], 4u);
	std::fill(there.begin(), there.end(), 0);
	EXPECT_EQ(outcome(Command::write({}, a_to_b, {0, 0}).ranges(ranges).buffers(buffers)), 0u);
	EXPECT_EQ(there[1], 2u);
	EXPECT_EQ(there[11], 4u);
	/* Then one of each again. */
	EXPECT_EQ(outcome(Command::write({}, a_to_b, {0, 0})
				  .buffers(buffers)
				  .ranges(ranges)
				  .buffers(std::span(buffers, 1))
				  .ranges(std::vector<treadle_rma_iov>{{160, 8, 5}})),
		  0u);
	EXPECT_EQ(there[20], 1u);
}

/* Vectors that are too long are refused, and spoil no setting before or after them. */
TEST_F(MemoryTest, too_many_buffers_of_a_command)
{
	const std::vector<treadle_iov> many(TREADLE_MAX_IOV + 1, iov(&here[0], 1));
	const std::vector<treadle_rma_iov> many_ranges(TREADLE_MAX_RMA_IOV + 1, {0, 8, 5});
	const treadle_iov buffers[] = {iov(&here[0], 1), iov(&here[1], 3)};
	const treadle_rma_iov ranges[] = {{0, 16, 5}, {80, 16, 5}};
	std::uint64_t got[2]{};
	const treadle_iov results[] = {iov(&got[0], 1), iov(&got[1], 1)};

	Command write = Command::write({}, a_to_b, {0, 0}).buffers(many).ranges(ranges);
	EXPECT_EQ(a.tx.post(write.completion()), from_errno(EINVAL));
	EXPECT_EQ(outcome(write.buffers(buffers)), 0u);
	EXPECT_EQ(there[11], 4u);
	EXPECT_EQ(a.tx.post(write.ranges(many_ranges).completion()), from_errno(EINVAL));
	/* No range is not the range with key 0. */
	EXPECT_EQ(a.tx.post(Command::write(bytes_at("x", 1), a_to_b, {0, 5}).ranges({})),
		  from_errno(EINVAL));
	EXPECT_EQ(outcome(write.ranges(ranges)), 0u);

	Command fetch = Command::fetch(TREADLE_ATOMIC_READ, TREADLE_UINT64, {}, bytes_at(got, 16),
				       a_to_b, {8, 5})
				.ranges(many_ranges)
				.results(results);
	EXPECT_EQ(a.tx.post(fetch.completion()), from_errno(EINVAL));
	EXPECT_EQ(outcome(fetch.ranges(std::span(ranges, 1))), 0u);
	EXPECT_EQ(got[1], there[1]);
}

/* In any order of the setters, the final command counts. */
TEST_F(MemoryTest, one_range_or_result_has_the_length_of_the_data)
{
	std::uint64_t got[2]{};
	const treadle_rma_iov range{8, 8, 5};
	const treadle_iov result = iov(&got[0], 1), data = iov(&here[0], 1);
	const auto fetch = [&] {
		return Command::fetch(TREADLE_ATOMIC_SUM, TREADLE_UINT64, bytes_at(here.data(), 16),
				      bytes_at(got, 16), a_to_b, {0, 5});
	};
	const auto compare = [&] {
		return Command::compare(TREADLE_ATOMIC_CSWAP, TREADLE_UINT64,
					bytes_at(here.data(), 16), bytes_at(here.data(), 16),
					bytes_at(got, 16), a_to_b, {0, 5});
	};

	EXPECT_EQ(a.tx.post(Command::write(bytes_at(here.data(), 16), a_to_b, {0, 0})
				    .ranges({&range, 1})),
		  from_errno(EINVAL));
	EXPECT_EQ(a.tx.post(Command::read(bytes_at(got, 16), a_to_b, {0, 0}).ranges({&range, 1})),
		  from_errno(EINVAL));
	EXPECT_EQ(a.tx.post(fetch().results({&result, 1})), from_errno(EINVAL));
	EXPECT_EQ(a.tx.post(fetch().results({})), from_errno(EINVAL));
	EXPECT_EQ(a.tx.post(compare().results({&result, 1}, {&data, 1})), from_errno(EINVAL));
	EXPECT_EQ(outcome(Command::write(bytes_at(here.data(), 16), a_to_b, {0, 0})
				  .ranges({&range, 1})
				  .buffers({&data, 1})),
		  0u);
	EXPECT_EQ(there[1], 1u);
	EXPECT_EQ(there[0], 0u);
	EXPECT_EQ(outcome(fetch().results({&result, 1}).buffers({&data, 1})), 0u);
	EXPECT_EQ(outcome(compare().results({&result, 1}, {&data, 1}).buffers({&data, 1})), 0u);
	EXPECT_EQ(there[2], 0u);
}

/* A command without such vectors: its slots are not taken for other commands. */
TEST_F(MemoryTest, results_of_what_has_none_are_refused)
{
	std::uint64_t got[2]{};
	const treadle_iov results[] = {iov(&got[0], 1), iov(&got[1], 1)};

	EXPECT_EQ(a.tx.post(Command::send(bytes_at(here.data(), 8), a_to_b).results(results)),
		  from_errno(EINVAL));
	EXPECT_EQ(a.tx.post(Command::send(bytes_at(here.data(), 8), a_to_b).rest(CounterId{5}, 1)),
		  from_errno(EINVAL));
	EXPECT_EQ(a.tx.post(Command::send(bytes_at(here.data(), 8), a_to_b).work(7)),
		  from_errno(EINVAL));
	EXPECT_EQ(outcome(Command::write(bytes_at(here.data(), 8), a_to_b, {8, 5})), 0u);
	EXPECT_EQ(there[1], 1u);
}

TEST_F(MemoryTest, atomics)
{
	std::uint64_t got[2]{9, 9}, than[2]{0, 2};
	const treadle_iov results[] = {iov(&got[1], 1), iov(&got[0], 1)};
	const treadle_iov compares[] = {iov(&than[1], 1), iov(&than[0], 1)};

	EXPECT_EQ(outcome(Command::atomic(TREADLE_ATOMIC_SUM, TREADLE_UINT64,
					  bytes_at(here.data(), 16), a_to_b, {0, 5})),
		  0u);
	EXPECT_EQ(there[1], 2u);
	EXPECT_EQ(outcome(Command::fetch(TREADLE_ATOMIC_READ, TREADLE_UINT64, {}, bytes_at(got, 16),
					 a_to_b, {0, 5})),
		  0u);
	EXPECT_EQ(got[0], 1u);
	EXPECT_EQ(got[1], 2u);
	/* 2 is not 1, 0 is not 2: nothing is swapped, and the results come crosswise. */
	EXPECT_EQ(outcome(Command::compare(TREADLE_ATOMIC_CSWAP, TREADLE_UINT64,
					   bytes_at(here.data(), 16), {}, {}, a_to_b, {0, 5})
				  .results(results, compares)),
		  0u);
	EXPECT_EQ(got[0], 2u);
	EXPECT_EQ(got[1], 1u);
	EXPECT_EQ(there[0], 1u);
	than[1] = 1;
	EXPECT_EQ(outcome(Command::compare(TREADLE_ATOMIC_CSWAP, TREADLE_UINT64,
					   bytes_at(&here[9], 16), {}, {}, a_to_b, {0, 5})
				  .results(results, compares)),
		  0u);
	EXPECT_EQ(there[0], 10u);
	EXPECT_EQ(there[1], 2u);
}

/* Slots that other commands have used are written anew. */
TEST_F(MemoryTest, atomics_as_messages)
{
	const std::vector<treadle_iov> ones(TREADLE_MAX_IOV, {~0ull, 0});
	std::uint64_t got = 9, than = 1;
	Message message{.opcode = TREADLE_OP_ATOMIC,
			.flags = TREADLE_F_COMPLETION,
			.addr = address_of(&here[1]),
			.len = 8,
			.peer = std::to_underlying(a_to_b),
			.tag = 8,
			.ignore = 5};
	const auto outcome_of = [&](std::uint8_t opcode, const Atomic &atomic) {
		message.opcode = opcode;
		for (std::uint32_t i = 0; i < a.tx.entries(); i += 2) {
			EXPECT_EQ(a.tx.post(Command::write({}, a_to_b, {0, 5}).buffers(ones)), ok);
		}
		EXPECT_EQ(a.tx.post(message, atomic), ok);
		return reap_one(a.tx_cq).error;
	};

	EXPECT_EQ(outcome_of(TREADLE_OP_ATOMIC, {TREADLE_ATOMIC_SUM, TREADLE_UINT64}), 0u);
	EXPECT_EQ(there[1], 2u);
	EXPECT_EQ(outcome_of(TREADLE_OP_FETCH,
			     {TREADLE_ATOMIC_SUM, TREADLE_UINT64, address_of(&got)}),
		  0u);
	EXPECT_EQ(there[1], 4u);
	EXPECT_EQ(got, 2u);
	/* No operands are read, so their address does not matter. */
	message.addr = 8;
	EXPECT_EQ(outcome_of(TREADLE_OP_FETCH,
			     {TREADLE_ATOMIC_READ, TREADLE_UINT64, address_of(&got)}),
		  0u);
	EXPECT_EQ(got, 4u);
	message.addr = address_of(&here[6]);
	EXPECT_EQ(outcome_of(TREADLE_OP_COMPARE, {TREADLE_ATOMIC_CSWAP, TREADLE_UINT64,
						  address_of(&got), address_of(&than)}),
		  0u);
	EXPECT_EQ(there[1], 4u);
	than = 4;
	EXPECT_EQ(outcome_of(TREADLE_OP_COMPARE, {TREADLE_ATOMIC_CSWAP, TREADLE_UINT64,
						  address_of(&got), address_of(&than)}),
		  0u);
	EXPECT_EQ(there[1], 7u);
	/* The doorbell refuses a wrong atomic, as it refuses a command. */
	EXPECT_EQ(a.tx.post(message, Atomic(TREADLE_ATOMIC_SUM, TREADLE_UINT64)),
		  from_errno(EOPNOTSUPP));
	message.opcode = TREADLE_OP_SEND;
	EXPECT_EQ(a.tx.post(message, Atomic(TREADLE_ATOMIC_SUM, TREADLE_UINT64)),
		  from_errno(EINVAL));
	EXPECT_FALSE(a.tx_cq.ready());
}

TEST_F(MemoryTest, armed)
{
	Counter c = must(Counter::create(a.context), "counter");
	Counter done = must(Counter::create(a.context), "counter");
	std::uint64_t got = 0;

	ASSERT_EQ(a.context.submit(Command::write(bytes_at(&here[6], 8), a_to_b, {0, 5})
					   .on(a.ep.id())
					   .work()
					   .when(c.id(), 1)
					   .notify(done.id())),
		  ok);
	ASSERT_EQ(a.context.submit(Command::read(bytes_at(&got, 8), a_to_b, {0, 5})
					   .on(a.ep.id())
					   .work()
					   .when(done.id(), 1)
					   .notify(done.id())),
		  ok);
	EXPECT_EQ(there[0], 0u);
	ASSERT_EQ(c.add(1), ok);
	EXPECT_EQ(done.wait(2, 0, patience), ok);
	EXPECT_EQ(got, 7u);
}
