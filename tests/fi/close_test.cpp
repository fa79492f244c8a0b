// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_close among many open objects; and a process that closes nothing. */
#include "child.h"
#include "node.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace
{

using Clock = std::chrono::steady_clock;

/* The shortest of several times: at least one of them had the processor for itself. */
Clock::duration time_to_close(Node &node, fid_av *av, fid_cq *cq)
{
	auto shortest = Clock::duration::max();

	for (int i = 0; i < 40; ++i) {
		auto ep = node.ep();
		EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
		EXPECT_EQ(fi_enable(ep.get()), 0);
		const auto begin = Clock::now();
		ep.reset();
		shortest = std::min(shortest, Clock::now() - begin);
	}
	return shortest;
}

TEST(Close, AnEndpointTakesNoLongerBesideThousandsOfObjects)
{
	Info hints = hints_for(FI_MSG | FI_RMA);
	hints->tx_attr->size = 32;
	hints->rx_attr->size = 32;
	Node node(std::move(hints));
	const auto av = node.av();
	const auto cq = node.cq();
	std::vector<Owned<fid_mr>> regions;
	char memory[64];

	const auto alone = time_to_close(node, av.get(), cq.get());
	for (std::uint64_t key = 0; key < 50'000; ++key) {
		fid_mr *mr = nullptr;
		ASSERT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof(memory), FI_REMOTE_WRITE, 0,
				    key, 0, &mr, nullptr),
			  0);
		regions.emplace_back(mr);
	}
	const auto crowded = time_to_close(node, av.get(), cq.get());
	EXPECT_LT(crowded.count(), 5 * alone.count()) << "ns";
}

/* libfabric closes its providers in exit(3), while other threads go on. */
TEST(Close, AProcessMayEndWithThreadsInTheProvider)
{
	for (int i = 0; i < 10; ++i) {
		Child child([](int) -> int {
			fid_cq *const queue = (new Node)->cq().release();
			for (int thread = 0; thread < 2; ++thread)
				std::thread([queue] {
					fi_cq_tagged_entry entry;
					for (;;)
						fi_cq_read(queue, &entry, 1);
				}).detach();
			std::this_thread::sleep_for(std::chrono::milliseconds(20));
			std::exit(testing::Test::HasFailure());
		});
		EXPECT_EQ(child.wait(), 0) << i;
	}
}

} // namespace
