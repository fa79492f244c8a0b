// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_mr(3) of 2.x: FI_MR_DMABUF. The exporters are those of the kernel, if it has them. */
#include "node.h"

#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <linux/dma-heap.h>
#include <linux/udmabuf.h>

#include <rdma/fi_rma.h>

#include <treadle/detail/fd.h>
#include <treadle/fi_treadle.h>

namespace
{

using treadle::detail::UniqueFd;

constexpr std::size_t bytes = 1 << 20;
constexpr std::uint64_t dmabuf_flag = std::uint64_t{1} << 40; /* FI_MR_DMABUF */

/* struct fi_mr_dmabuf of 2.x; fi_mr_attr points to it in the place of mr_iov */
struct Dmabuf {
	int fd;
	std::uint64_t offset;
	std::size_t len;
	void *base_addr;
};

const char *exporter(bool heap)
{
	return heap ? "/dev/dma_heap/system" : "/dev/udmabuf";
}

/* A dma-buf of memory of the system. */
int dmabuf_of(bool heap)
{
	const UniqueFd file(open(exporter(heap), O_RDWR));

	EXPECT_GE(file.get(), 0);
	if (heap) {
		dma_heap_allocation_data data{};
		data.len = bytes;
		data.fd_flags = O_RDWR | O_CLOEXEC;
		EXPECT_EQ(ioctl(file.get(), DMA_HEAP_IOCTL_ALLOC, &data), 0);
		return static_cast<int>(data.fd);
	}
	const UniqueFd memory(memfd_create("dmabuf", MFD_ALLOW_SEALING));
	EXPECT_EQ(ftruncate(memory.get(), bytes), 0);
	EXPECT_EQ(fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
	udmabuf_create create{};
	create.memfd = static_cast<std::uint32_t>(memory.get());
	create.size = bytes;
	const int buffer = ioctl(file.get(), UDMABUF_CREATE, &create);
	EXPECT_GE(buffer, 0);
	return buffer;
}

int reg(const Node &node, const Dmabuf &buffer, std::uint64_t key, fid_mr **mr,
	std::size_t count = 1)
{
	fi_mr_attr attr{};

	attr.mr_iov = reinterpret_cast<const iovec *>(&buffer);
	attr.iov_count = count;
	attr.access = FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
	attr.requested_key = key;
	return fi_mr_regattr(node.domain.get(), &attr, dmabuf_flag, mr);
}

fi_treadle_ops_domain *ops_of(const Node &node)
{
	void *ops = nullptr;

	EXPECT_EQ(fi_open_ops(&node.domain->fid, FI_TREADLE_DOMAIN_OPS_1, 0, &ops, nullptr), 0);
	return static_cast<fi_treadle_ops_domain *>(ops);
}

/* udmabuf or the system's heap */
class DmabufOf : public testing::TestWithParam<bool>
{
protected:
	void SetUp() override
	{
		utsname kernel;
		int major = 0, minor = 0;

		if (access(exporter(GetParam()), F_OK) != 0)
			GTEST_SKIP() << "the kernel has no " << exporter(GetParam());
		ASSERT_EQ(uname(&kernel), 0);
		ASSERT_EQ(std::sscanf(kernel.release, "%d.%d", &major, &minor), 2);
		if (GetParam() || major > 6 || (major == 6 && minor >= 2))
			return;
		/* 6.1 can't map what udmabuf exports, 6.12 can */
		Node node;
		const UniqueFd file(dmabuf_of(false));
		fid_mr *mr = nullptr;
		ASSERT_EQ(reg(node, {file.get(), 0, bytes, nullptr}, 7, &mr), -FI_EOPNOTSUPP);
		GTEST_SKIP() << "udmabuf of this kernel can't be mapped: it was refused";
	}
	static Info hints(int mr_mode)
	{
		Info h = hints_for(FI_MSG | FI_RMA);
		h->domain_attr->mr_mode = mr_mode;
		return h;
	}
};
INSTANTIATE_TEST_SUITE_P(Dmabuf, DmabufOf, testing::Bool(),
			 [](const auto &of) { return of.param ? "Heap" : "Udmabuf"; });

// conformance: fi_mr(3): FI_MR_DMABUF: a region is a range of a dma-buf, which need not be mapped
TEST_P(DmabufOf, PeersAndMessagesReachIt)
{
	for (const int mode : {0, FI_MR_VIRT_ADDR}) {
		Pair p(hints(mode));
		const UniqueFd file(dmabuf_of(GetParam()));
		fid_mr *raw = nullptr;
		std::uint64_t address = 0;
		const auto data = pattern(100000);
		std::vector<std::uint8_t> got(data.size());

		auto *const map = static_cast<std::uint8_t *>(
			mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
		ASSERT_NE(map, MAP_FAILED);
		ASSERT_EQ(reg(p.node, {file.get(), 4096, bytes - 4096, ctx(1 << 20)}, 7, &raw), 0);
		const Owned<fid_mr> mr(raw);
		/* base_addr counts only with FI_MR_VIRT_ADDR */
		const std::uint64_t at = (mode ? (1 << 20) + 4096 : 0) + 50;
		ASSERT_EQ(fi_write(p.a.ep.get(), data.data(), data.size(), nullptr, p.b_at_a, at,
				   fi_mr_key(raw), nullptr),
			  0);
		next(p.a.tx_cq.get());
		EXPECT_EQ(std::memcmp(map + 4096 + 50, data.data(), data.size()), 0);
		ASSERT_EQ(fi_read(p.a.ep.get(), got.data(), got.size(), nullptr, p.b_at_a, at,
				  fi_mr_key(raw), nullptr),
			  0);
		next(p.a.tx_cq.get());
		EXPECT_EQ(got, data);

		ASSERT_EQ(ops_of(p.node)->mr_address(raw, &address), 0);
		std::fill(got.begin(), got.end(), 0);
		ASSERT_EQ(fi_recv(p.b.ep.get(), got.data(), got.size(), nullptr, p.a_at_b, nullptr),
			  0);
		ASSERT_EQ(fi_send(p.a.ep.get(), ctx(address + 50), data.size(), fi_mr_desc(raw),
				  p.b_at_a, nullptr),
			  0);
		next(p.b.rx_cq.get());
		next(p.a.tx_cq.get());
		EXPECT_EQ(got, data);
		munmap(map, bytes);
	}
}

/* Its address is none of the process's: what the process itself would copy is left to the kernel. */
TEST_P(DmabufOf, ItsBufferGoesThroughNoWindow)
{
	Pair p(hints(0));
	const UniqueFd file(dmabuf_of(GetParam()));
	std::vector<std::uint64_t> there(1024);
	fid_mr *raw = nullptr, *plain = nullptr;
	std::uint64_t address = 0;

	auto *const map = static_cast<std::uint64_t *>(
		mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
	ASSERT_NE(map, MAP_FAILED);
	ASSERT_EQ(reg(p.node, {file.get(), 0, bytes, nullptr}, 7, &raw), 0);
	const Owned<fid_mr> mr(raw);
	ASSERT_EQ(ops_of(p.node)->mr_address(raw, &address), 0);
	ASSERT_EQ(fi_mr_reg(p.node.domain.get(), there.data(), 8192,
			    FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 8, 0, &plain, nullptr),
		  0);
	const Owned<fid_mr> target(plain);
	/* more often than a window needs */
	for (std::uint64_t i = 1; i <= 100; ++i) {
		const std::size_t len = i % 3 ? 8 : 4096;

		ASSERT_EQ(fi_inject_write(p.a.ep.get(), &i, 8, p.b_at_a, 4096, 8), 0);
		map[0] = i;
		ASSERT_EQ(fi_write(p.a.ep.get(), ctx(address), len, fi_mr_desc(raw), p.b_at_a, 0, 8,
				   nullptr),
			  0);
		next(p.a.tx_cq.get());
		EXPECT_EQ(there[0], i);
		there[1] = i + 1;
		ASSERT_EQ(fi_read(p.a.ep.get(), ctx(address + 64), len, fi_mr_desc(raw), p.b_at_a,
				  8, 8, nullptr),
			  0);
		next(p.a.tx_cq.get());
		EXPECT_EQ(map[8], i + 1);
	}
	munmap(map, bytes);
}

/* Nor through a lane: addresses and lanes exclude each other. */
TEST_P(DmabufOf, ItsBufferGoesThroughNoLane)
{
	Info manual = hints_for(FI_MSG | FI_RMA);
	manual->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	Node node(std::move(manual));
	Log log;
	const UniqueFd file(dmabuf_of(GetParam()));
	fid_mr *raw = nullptr;
	std::uint64_t address = 0;

	auto *const map = static_cast<std::uint64_t *>(
		mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
	ASSERT_NE(map, MAP_FAILED);
	ASSERT_EQ(reg(node, {file.get(), 0, bytes, nullptr}, 7, &raw), 0);
	const Owned<fid_mr> mr(raw);
	{
		const Side early(node);
		EXPECT_EQ(ops_of(node)->mr_address(raw, &address), -FI_EOPBADSTATE);
		EXPECT_TRUE(log.has("an endpoint of the domain has lanes")) << log.all();
	}
	ASSERT_EQ(ops_of(node)->mr_address(raw, &address), 0);
	Side a(node), b(node);
	const fi_addr_t to = a.insert(b.ep.get());
	b.insert(a.ep.get());
	for (std::uint64_t i = 1; i <= 100; ++i) {
		map[0] = i;
		ASSERT_EQ(fi_recv(b.ep.get(), ctx(address + 64), 8, fi_mr_desc(raw), FI_ADDR_UNSPEC,
				  nullptr),
			  0);
		ASSERT_EQ(fi_send(a.ep.get(), ctx(address), 8, fi_mr_desc(raw), to, nullptr), 0);
		next(b.rx_cq.get());
		next(a.tx_cq.get());
		EXPECT_EQ(map[8], i);
	}
	munmap(map, bytes);
}

// conformance: fi_mr(3): FI_MR_DMABUF: what can't be registered is refused, with a reason in the log
TEST(Dmabuf, WrongBuffersAreRefused)
{
	Node node;
	Log log;
	fid_mr *mr = nullptr;
	std::uint64_t address = 0;
	char memory[8];
	const UniqueFd file(memfd_create("none", 0));

	EXPECT_EQ(reg(node, {-1, 0, 8, nullptr}, 5, &mr), -FI_EBADF);
	EXPECT_TRUE(log.has("FI_MR_DMABUF: file -1")) << log.all();
	EXPECT_EQ(reg(node, {file.get(), 0, 8, nullptr}, 5, &mr), -FI_EINVAL);
	EXPECT_TRUE(log.has("FI_MR_DMABUF: file " + std::to_string(file.get()))) << log.all();
	EXPECT_EQ(reg(node, {file.get(), 0, 8, nullptr}, 5, &mr, 2), -FI_EINVAL);
	EXPECT_TRUE(log.has("2 buffers, not one")) << log.all();
	EXPECT_EQ(ops_of(node)->mr_address(nullptr, &address), -FI_EINVAL);
	ASSERT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof(memory), FI_SEND, 0, 1, 0, &mr,
			    nullptr),
		  0);
	EXPECT_EQ(ops_of(node)->mr_address(mr, &address), -FI_EINVAL);
	EXPECT_TRUE(log.has("no dma-buf")) << log.all();
	EXPECT_EQ(fi_close(&mr->fid), 0);
}

} // namespace
