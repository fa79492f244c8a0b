// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The system calls that operations need, counted from outside. */
#include "calls.h"
#include "group.h"

namespace
{

TEST(Syscall, OnlyTheDoorbellIsOne)
{
	const auto counts = count_calls([] {
		Side::Options options;
		options.counters = true;
		Pair p(hints_for(FI_MSG | FI_TAGGED), options);
		fid_ep *a = p.a.ep.get(), *b = p.b.ep.get();
		fi_cq_tagged_entry entries[64];
		std::vector<int> in(100), out(100);
		int received = 0, sent = 0;

		start();
		for (int i = 0; i < 34; ++i) {
			ASSERT_EQ(fi_recv(b, &in[i], sizeof(int), nullptr, FI_ADDR_UNSPEC, nullptr),
				  0);
			ASSERT_EQ(fi_trecv(b, &in[50 + i], sizeof(int), nullptr, FI_ADDR_UNSPEC, i,
					   0, nullptr),
				  0);
		}
		mark(); /* 0: posting receives */
		for (int i = 0; i < 100; ++i) {
			ASSERT_EQ(fi_cq_read(p.b.rx_cq.get(), entries, 64), -FI_EAGAIN);
			ASSERT_EQ(fi_cntr_read(p.b.received.get()), 0u);
		}
		mark(); /* 1: reading empty queues and counters */
		ASSERT_EQ(fi_send(a, &out[0], sizeof(int), nullptr, p.b_at_a, nullptr), 0);
		mark(); /* 2: one send */
		ASSERT_EQ(fi_tinject(a, &out[0], sizeof(int), p.b_at_a, 0), 0);
		mark(); /* 3: one inject */
		for (int i = 0; i < 32; ++i) {
			const iovec iov{&out[i], sizeof(int)};
			const fi_msg_tagged msg{&iov, nullptr, 1, p.b_at_a, std::uint64_t(i) + 1,
						0,    nullptr, 0};
			ASSERT_EQ(fi_tsendmsg(a, &msg, i < 31 ? FI_MORE : 0), 0);
		}
		mark(); /* 4: 32 sends in a batch */
		for (ssize_t n; (n = fi_cq_read(p.b.rx_cq.get(), entries, 64)) > 0; received += n)
			;
		for (ssize_t n; (n = fi_cq_read(p.a.tx_cq.get(), entries, 64)) > 0; sent += n)
			;
		ASSERT_EQ(received, 34);
		ASSERT_EQ(sent, 33);
		ASSERT_EQ(fi_cntr_read(p.b.received.get()), 34u);
		mark(); /* 5: reading what has come */
		stop();
	});

	/*
	 * An empty queue asks the kernel for kept completions only if a flag says that there are
	 * some.
	 */
	EXPECT_EQ(counts, std::vector({0, 0, 1, 1, 1, 0}));
}

/* Each member's call is one doorbell. The last one does the work of all. */
// conformance: fi_collective(3): it is left open which member makes progress: a member that has ...
TEST(Syscall, ACollectiveIsOneForTheCallerAndNoneForOthers)
{
	const auto counts = count_calls([] {
		Crowd crowd(8);
		std::uint64_t one = 1, results[8]{};
		fi_cq_tagged_entry entry;
		const auto allreduce = [&](std::size_t i) {
			return fi_allreduce(crowd[i].ep.get(), &one, 1, nullptr, &results[i],
					    nullptr, crowd[i].group(), FI_UINT64, FI_SUM, 0,
					    nullptr);
		};

		for (int warm = 0; warm < 2; ++warm) {
			if (warm)
				start();
			for (std::size_t i = 0; i < 8; ++i) {
				ASSERT_EQ(allreduce(i), 0);
				if (warm)
					mark(); /* 0 to 7: the calls */
			}
			for (std::size_t i = 0; i < 8; ++i) {
				while (fi_cq_read(crowd[i].cq.get(), &entry, 1) != 1)
					;
				ASSERT_EQ(results[i], 8u);
			}
		}
		mark(); /* 8: reading what has come */
		stop();
	});

	EXPECT_EQ(counts, std::vector({1, 1, 1, 1, 1, 1, 1, 1, 0}));
}

/*
 * The module's limits do not change while it is loaded. The address for other nodes may, so it is
 * asked again after 100 ms: on a busy host that may be between the calls.
 */
TEST(Syscall, GetinfoAsksTheDeviceOnce)
{
	const std::vector once({1, 0, 0});
	std::vector<int> counts;

	for (int tries = 0; tries < 20 && counts != once; tries++)
		counts = count_calls(
			[] {
				start();
				for (int i = 0; i < 3; ++i) {
					const Info info = get_info(no_hints().get());
					ASSERT_TRUE(info);
					mark();
				}
				stop();
			},
			Count::ioctls_of_treadle);
	EXPECT_EQ(counts, once);
}

} // namespace
