// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

/* The data path allocates no memory. */

#include <functional>

#include "node.h"

#include "allocations.h"

/* Does counting work? Otherwise the other tests prove nothing. */
TEST(Allocation, is_noticed)
{
	void *volatile memory;

	EXPECT_EQ(allocations::of([&] { memory = std::malloc(8); }), 1);
	std::free(memory);
	EXPECT_EQ(allocations::of([&] { memory = std::calloc(1, 8); }), 1);
	std::free(memory);
	EXPECT_EQ(allocations::of([&] { memory = new std::vector<int>(3); }), 2);
	delete static_cast<std::vector<int> *>(memory);
	/* Also in a library. */
	EXPECT_GT(allocations::of([] {
			  const auto context = Context::open();
			  EXPECT_TRUE(CompletionQueue::create(*context, 16));
		  }),
		  0);
}

/* Whichever allocation of a launch fails, nothing runs, also after a launch that failed. */
TEST(Allocation, a_graph_that_could_not_be_launched_does_not_run)
{
	Node node;
	Graph graph(node.context);
	std::uint64_t one = 1;
	int rc = ENOMEM, refused = -1;

	graph.add(Command::atomic(TREADLE_ATOMIC_SUM, TREADLE_UINT64, bytes_at(&one, 8), nullptr)
			  .on(node.ep.id())
			  .work());
	ASSERT_EQ(graph.launch(), ok);
	for (int first = 0; rc == ENOMEM && first < 100; ++first, ++refused) {
		ASSERT_EQ(graph.wait(patience), ok);
		ASSERT_TRUE(first || graph.failed());
		rc = allocations::without(
			[&] {
				try {
					return graph.launch().value();
				} catch (const std::bad_alloc &) {
					return ENOMEM;
				}
			},
			first);
	}
	EXPECT_EQ(rc, 0);
	EXPECT_GT(refused, 2);
	EXPECT_EQ(graph.wait(patience), ok);
}

class AllocationTest : public PairTest
{
protected:
	std::vector<std::uint64_t> here = std::vector<std::uint64_t>(16, 1);
	std::vector<std::uint64_t> there = std::vector<std::uint64_t>(16);
	MemoryRegion region =
		must(MemoryRegion::create(b.context, bytes_at(there.data(), 8 * there.size()),
					  {.access = TREADLE_ACCESS_REMOTE_READ |
						     TREADLE_ACCESS_REMOTE_WRITE,
					   .key = 5}),
		     "region");

	/* Posts and reads the completions: no call allocates, not even the first. */
	void expect_none(const char *name, const std::function<std::error_code()> &post,
			 bool received)
	{
		for (int i = 0; i < 100; ++i) {
			std::error_code posted;
			Completion sent, got;
			int allocated;

			allocated = allocations::of([&] {
				posted = post();
				read(a.tx_cq, sent);
				if (received)
					read(b.rx_cq, got);
			});
			ASSERT_EQ(posted, ok) << name;
			EXPECT_EQ(sent.context(), 7u) << name;
			EXPECT_EQ(sent.error(), ok) << name;
			EXPECT_EQ(got.context(), received ? 8u : 0u) << name;
			ASSERT_EQ(allocated, 0) << name << ", message " << i;
		}
	}
	static void read(CompletionQueue &queue, Completion &to)
	{
		if (const auto next = queue.next(patience))
			to = *next;
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
			EXPECT_EQ(b.receive(in, 8), ok);
			return a.send(out, a_to_b, 7);
		},
		true);
	expect_none(
		"inject, before a receive",
		[&] {
			const auto rc = a.send(out, a_to_b, 7, TREADLE_F_INJECT);
			EXPECT_EQ(b.receive(in, 8), ok);
			return rc;
		},
		true);
	expect_none(
		"tagged",
		[&] {
			EXPECT_EQ(b.receive_tagged(in, 3, 0, 8), ok);
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
		{"write",
		 [&] {
			 return Command::write(bytes_at(here.data(), 64), a_to_b, {0, 5});
		 }},
		{"read",
		 [&] {
			 return Command::read(bytes_at(here.data(), 64), a_to_b, {0, 5});
		 }},
		{"vectors",
		 [&] {
			 return Command::write({}, a_to_b, {0, 0}).buffers(buffers).ranges(ranges);
		 }},
		{"atomic",
		 [&] {
			 return Command::atomic(TREADLE_ATOMIC_SUM, TREADLE_UINT64,
						bytes_at(here.data(), 8), a_to_b, {0, 5});
		 }},
		{"fetch",
		 [&] {
			 return Command::fetch(TREADLE_ATOMIC_SUM, TREADLE_UINT64,
					       bytes_at(here.data(), 8), bytes_at(&old, 8), a_to_b,
					       {0, 5});
		 }},
		{"compare",
		 [&] {
			 return Command::compare(TREADLE_ATOMIC_CSWAP, TREADLE_UINT64,
						 bytes_at(here.data(), 8), bytes_at(&than, 8),
						 bytes_at(&old, 8), a_to_b, {0, 5});
		 }},
		{"when",
		 [&] {
			 return Command::write(bytes_at(here.data(), 8), a_to_b, {0, 5})
				 .when(b.received.id(), 0);
		 }},
	};

	for (const auto &[name, command] : commands)
		expect_none(
			name, [&] { return a.tx.post(command().context(7).completion()); }, false);
}

TEST_F(AllocationTest, looking_makes_none)
{
	Completion one;

	EXPECT_EQ(allocations::of([&] {
			  for (int i = 0; i < 100; ++i) {
				  EXPECT_EQ(b.rx_cq.read({&one, 1}),
					    std::unexpected(from_errno(EAGAIN)));
				  EXPECT_EQ(b.rx_cq.wait(0ns), from_errno(EAGAIN));
				  EXPECT_EQ(b.received.value(), 0u);
				  EXPECT_EQ(b.received.wait(1, 0, 0ns), from_errno(EAGAIN));
			  }
		  }),
		  0);
}
