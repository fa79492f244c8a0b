// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A registration that takes long (FI_REG_MR): this program keeps what the provider submits to its
 * io_uring.
 */
#include "node.h"

#include <atomic>
#include <thread>

#include <liburing.h>
#include <unistd.h>

namespace
{

/* The io_uring that entries are kept from, until they may start. */
std::atomic<io_uring *> kept;
std::atomic<bool> may_start;

TEST(SlowRegistration, TheQueueCanBeReadWhileTheRegionCloses)
{
	Node node(hints_for(FI_MSG | FI_RMA));
	const auto eq = node.eq(FI_WAIT_FD);
	char memory[64];
	fid_mr *mr = nullptr;
	std::atomic<bool> closed = false;
	std::atomic<int> readers = 0;

	ASSERT_EQ(fi_domain_bind(node.domain.get(), &eq->fid, FI_REG_MR), 0);
	ASSERT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof(memory), FI_REMOTE_READ, 0, 1, 0, &mr,
			    nullptr),
		  0);
	ASSERT_EQ(fi_mr_key(mr), FI_KEY_NOTAVAIL) << "it has not started";
	std::thread closer([&] {
		EXPECT_EQ(fi_close(&mr->fid), 0);
		closed = true;
	});
	usleep(200'000); /* gives the read time to wait, which is not required */
	std::thread reader([&] {
		fi_eq_entry entry{};
		std::uint32_t event;

		EXPECT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
		++readers;
	});
	for (int ms = 0; !readers && ms < patience; ms += 10)
		usleep(10'000);
	EXPECT_EQ(readers, 1);
	EXPECT_FALSE(closed);
	may_start = true;
	EXPECT_GE(io_uring_submit(kept), 1);
	closer.join();
	reader.join();
	node.domain.reset();
}

} // namespace

/* In the place of liburing's, for the provider. */
extern "C" __attribute__((visibility("default"))) int io_uring_submit(io_uring *ring)
{
	if (may_start)
		return io_uring_submit_and_wait(ring, 0);
	kept = ring;
	return 1;
}
