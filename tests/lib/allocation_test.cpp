// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* What a message costs no memory for: nothing on the data path allocates. */

#include <functional>

#include "node.h"

#include "allocations.h"

/* Else the rest proves nothing. */
TEST(Allocation, is_noticed)
{
	void *volatile memory;

	EXPECT_EQ(allocations::of([&] { memory = std::malloc(8); }), 1);
	std::free(memory);
	EXPECT_EQ(allocations::of([&] { memory = std::calloc(1, 8); }), 1);
	std::free(memory);
	EXPECT_EQ(allocations::of([&] { memory = new std::vector<int>(3); }), 2);
	delete static_cast<std::vector<int> *>(memory);
	/* And where a library does it. */
	EXPECT_GT(allocations::of([] {
			  const auto context = Context::open();
			  EXPECT_TRUE(CompletionQueue::create(*context, 16));
		  }),
		  0);
}

/* Wherever memory ends in a launch: nothing runs, also if the last one has failed. */
TEST(Allocation, a_graph_that_could_not_be_launched_does_not_run)
{
	Node node;
	Graph graph(node.context);
	std::uint64_t one = 1;
	int rc = -ENOMEM, refused = -1;

	graph.add(Command::atomic(TREADLE_ATOMIC_SUM, TREADLE_UINT64, &one, 8, nullptr)
			  .on(node.ep.id())
			  .work());
	ASSERT_EQ(graph.launch(), 0);
	for (int first = 0; rc == -ENOMEM && first < 100; ++first, ++refused) {
		ASSERT_EQ(graph.wait(patience.count()), 0);
		ASSERT_TRUE(first || graph.failed());
		rc = allocations::without(
			[&] {
				try {
					return graph.launch();
				} catch (const std::bad_alloc &) {
					return -ENOMEM;
				}
			},
			first);
	}
	EXPECT_EQ(rc, 0);
	EXPECT_GT(refused, 2);
	EXPECT_EQ(graph.wait(patience.count()), 0);
}

class AllocationTest : public PairTest
{
protected:
	std::vector<std::uint64_t> here = std::vector<std::uint64_t>(16, 1);
	std::vector<std::uint64_t> there = std::vector<std::uint64_t>(16);
	MemoryRegion region = must(MemoryRegion::create(b.context, there.data(), 8 * there.size(),
							{.access = TREADLE_ACCESS_REMOTE_READ |
								   TREADLE_ACCESS_REMOTE_WRITE,
							 .key = 5}),
				   "region");

	/* Each time, also the first: posting, and reading what has come of it. */
	void expect_none(const char *name, const std::function<int()> &post, bool received)
	{
		for (int i = 0; i < 100; ++i) {
			int posted = -1, allocated;
			treadle_cqe sent{}, got{};

			allocated = allocations::of([&] {
				posted = post();
				read(a.tx_cq, sent);
				if (received)
					read(b.rx_cq, got);
			});
			ASSERT_EQ(posted, 0) << name;
			EXPECT_EQ(sent.context, 7u) << name;
			EXPECT_EQ(sent.error, 0u) << name;
			EXPECT_EQ(got.context, received ? 8u : 0u) << name;
			ASSERT_EQ(allocated, 0) << name << ", message " << i;
		}
	}
	static void read(CompletionQueue &queue, treadle_cqe &cqe)
	{
		while (queue.read({&cqe, 1}) == -EAGAIN)
			if (queue.wait(patience.count()))
				return;
	}
};

TEST_F(AllocationTest, messages_make_none)
{
	const auto out = std::as_bytes(std::span(here));
	std::vector<std::uint64_t> got(16);
	const auto in = std::as_writable_bytes(std::span(got));

	expect_none(
		"send",
		[&] {
			EXPECT_EQ(b.receive(in, 8), 0);
			return a.send(out, a_to_b, 7);
		},
		true);
	expect_none(
		"inject, nobody receives yet",
		[&] {
			const int rc = a.send(out, a_to_b, 7, TREADLE_F_INJECT);
			EXPECT_EQ(b.receive(in, 8), 0);
			return rc;
		},
		true);
	expect_none(
		"tagged",
		[&] {
			EXPECT_EQ(b.receive_tagged(in, 3, 0, 8), 0);
			return a.send_tagged(out, a_to_b, 3, 7);
		},
		true);
	EXPECT_EQ(got, here);
}

TEST_F(AllocationTest, commands_make_none)
{
	std::uint64_t old = 0, than = 1;
	const treadle_iov buffers[] = {{address_of(&here[0]), 8}, {address_of(&here[1]), 8}};
	const treadle_rma_iov ranges[] = {{0, 8, 5}, {64, 8, 5}};
	const std::pair<const char *, std::function<Command()>> commands[] = {
		{"write", [&] { return Command::write(here.data(), 64, a_to_b, 0, 5); }},
		{"read", [&] { return Command::read(here.data(), 64, a_to_b, 0, 5); }},
		{"vectors",
		 [&] {
			 return Command::write(nullptr, 0, a_to_b, 0, 0)
				 .buffers(buffers)
				 .ranges(ranges);
		 }},
		{"atomic",
		 [&] {
			 return Command::atomic(TREADLE_ATOMIC_SUM, TREADLE_UINT64, here.data(), 8,
						a_to_b, 0, 5);
		 }},
		{"fetch",
		 [&] {
			 return Command::fetch(TREADLE_ATOMIC_SUM, TREADLE_UINT64, here.data(),
					       &old, 8, a_to_b, 0, 5);
		 }},
		{"compare",
		 [&] {
			 return Command::compare(TREADLE_ATOMIC_CSWAP, TREADLE_UINT64, here.data(),
						 &than, &old, 8, a_to_b, 0, 5);
		 }},
		{"when",
		 [&] {
			 return Command::write(here.data(), 8, a_to_b, 0, 5)
				 .when(b.received.id(), 0);
		 }},
	};

	for (const auto &[name, command] : commands)
		expect_none(
			name, [&] { return a.tx.post(command().context(7).completion()); }, false);
}

TEST_F(AllocationTest, looking_makes_none)
{
	treadle_cqe cqe;

	EXPECT_EQ(allocations::of([&] {
			  for (int i = 0; i < 100; ++i) {
				  EXPECT_EQ(b.rx_cq.read({&cqe, 1}), -EAGAIN);
				  EXPECT_EQ(b.rx_cq.wait(0), -EAGAIN);
				  EXPECT_EQ(b.received.value(), 0u);
				  EXPECT_EQ(b.received.wait(1, 0, 0), -EAGAIN);
			  }
		  }),
		  0);
}
