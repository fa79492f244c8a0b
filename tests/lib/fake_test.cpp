// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What no module does yet, but may: this program plays the module, behind ioctl(2) of an ordinary file. */
#include <cstdarg>
#include <cstring>
#include <string>

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "node.h"

namespace
{

constexpr std::uint32_t entries = 8;
constexpr std::uint64_t page = 4096, cq_rw = 4 * page, cq_ro = 5 * page, size = 7 * page;
int device = -1;
std::uint32_t abi_version = TREADLE_ABI_VERSION;

/* Each test creates each object once, so their maps have fixed places in the file. */
int fake_ioctl(unsigned long request, void *arg)
{
	if (request == TREADLE_IOC_QUERY) {
		auto &query = *static_cast<treadle_query *>(arg);
		query.abi_version = abi_version;
		query.max_ring = query.max_cq = entries;
	} else if (request == TREADLE_IOC_TX_CREATE) {
		auto &ring = *static_cast<treadle_ring_create *>(arg);
		ring.id = 1;
		ring.rw = {.offset = 0, .length = 2 * page};
		ring.ro = {.offset = 2 * page, .length = page};
	} else if (request == TREADLE_IOC_CQ_CREATE) {
		auto &cq = *static_cast<treadle_cq_create *>(arg);
		cq.id = 2;
		cq.rw = {.offset = cq_rw, .length = page};
		cq.ro = {.offset = cq_ro, .length = 2 * page};
	}
	return 0;
}

class FakeModule : public testing::Test
{
protected:
	FakeModule()
	{
		device = memfd_create("treadle", MFD_CLOEXEC);
		EXPECT_EQ(ftruncate(device, size), 0);
		void *at =
			mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, device, cq_ro);
		prod = static_cast<treadle_cq_prod *>(at);
		cqes = reinterpret_cast<treadle_cqe *>(static_cast<char *>(at) +
						       TREADLE_SLOTS_OFFSET);
		path = "/proc/self/fd/" + std::to_string(device);
	}
	~FakeModule() override
	{
		munmap(prod, 2 * page);
		close(std::exchange(device, -1));
	}
	void complete(std::uint64_t context)
	{
		treadle_cqe &cqe = cqes[prod->prod++ % entries];

		cqe = {};
		cqe.context = context;
	}
	void fail(std::uint64_t context)
	{
		treadle_cqe &cqe = cqes[prod->prod % entries];
		cqe = {};
		cqe.context = context;
		cqe.error = EIO;
		cqe.flags = TREADLE_CQ_ERR_DATA;
		std::memset(&cqes[(prod->prod + 1) % entries], 0xee, sizeof(cqe));
		prod->prod += 2;
	}

	treadle_cq_prod *prod;
	treadle_cqe *cqes;
	std::string path;
};

/* For any number of completions that are read at once, anywhere in the ring. */
TEST_F(FakeModule, error_data_is_no_completion)
{
	for (const std::size_t most : {1, 2, 8}) {
		const auto context = must(Context::open(path.c_str()), "context");
		auto queue = must(CompletionQueue::create(context, entries), "queue");
		std::uint64_t written = 0, seen = 0;

		for (int round = 0; round < 20; ++round) {
			complete(written++);
			fail(written++);
			fail(written++);
			while (seen < written) {
				Completion out[8];
				const auto n = must(queue.read(std::span(out, most)), "read");
				ASSERT_GT(n, 0u);
				for (std::uint32_t i = 0; i < n; ++i, ++seen) {
					ASSERT_EQ(out[i].context(), seen);
					ASSERT_EQ(out[i].error(), from_errno(seen % 3 ? EIO : 0));
				}
			}
			EXPECT_FALSE(queue.ready());
			EXPECT_EQ(queue.room(), entries);
		}
		*prod = {};
		std::uint32_t none = 0;
		EXPECT_EQ(pwrite(device, &none, sizeof(none), cq_rw), ssize_t{sizeof(none)});
	}
}

/* The library is older than the module, or newer. */
TEST_F(FakeModule, of_another_abi_is_refused_in_words)
{
	for (const std::uint32_t other : {TREADLE_ABI_VERSION + 1u, TREADLE_ABI_VERSION - 1u}) {
		abi_version = other;
		const auto opened = Context::open(path.c_str());
		const auto limits = Context::query(path.c_str());
		abi_version = TREADLE_ABI_VERSION;
		ASSERT_FALSE(opened);
		EXPECT_EQ(opened.error(), std::errc::protocol_error);
		EXPECT_EQ(opened.error().message(),
			  "The module and the library have different ABI versions");
		EXPECT_EQ(limits.error(), opened.error());
	}
	EXPECT_TRUE(Context::open(path.c_str()));
}

} // namespace

/* In the place of libc's, for this program and the library. */
extern "C" __attribute__((visibility("default"))) int ioctl(int fd, unsigned long request,
							    ...) noexcept
{
	va_list args;

	va_start(args, request);
	void *const arg = va_arg(args, void *);
	va_end(args);
	return fd >= 0 ? fake_ioctl(request, arg) :
			 static_cast<int>(syscall(SYS_ioctl, fd, request, arg));
}
