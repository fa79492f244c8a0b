// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_domain(3), fi_open_ops and fi_set_ops; fi_treadle(7): operations of this provider only. */
// conformance: fi_domain(3): fi_open_ops opens provider specific interfaces: those of fi_treadle.h;
//   others are -FI_ENOSYS

#include "node.h"

#include <fstream>

#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fi_rma.h>

#include <treadle/fi_treadle.h>

namespace
{

fi_treadle_ops_domain *ops_of(const Node &node)
{
	void *ops = nullptr;

	EXPECT_EQ(fi_open_ops(&node.domain->fid, FI_TREADLE_DOMAIN_OPS_1, 0, &ops, nullptr), 0);
	EXPECT_GE(static_cast<fi_treadle_ops_domain *>(ops)->size, sizeof(fi_treadle_ops_domain));
	return static_cast<fi_treadle_ops_domain *>(ops);
}

TEST(Ops, AreOpenedByTheirName)
{
	Node node;
	void *ops = nullptr;
	int fd = -1;
	treadle_query limits{};

	EXPECT_EQ(fi_open_ops(&node.domain->fid, "magic", 0, &ops, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_open_ops(&node.domain->fid, nullptr, 0, &ops, nullptr), -FI_EINVAL);
	EXPECT_EQ(fi_open_ops(&node.domain->fid, FI_TREADLE_DOMAIN_OPS_1, 0, nullptr, nullptr),
		  -FI_EINVAL);
	EXPECT_EQ(fi_open_ops(&node.domain->fid, FI_TREADLE_DOMAIN_OPS_1, 1, &ops, nullptr),
		  -FI_EBADFLAGS);
	EXPECT_EQ(fi_open_ops(&node.fabric->fid, FI_TREADLE_DOMAIN_OPS_1, 0, &ops, nullptr),
		  -FI_ENOSYS);
	EXPECT_EQ(ops, nullptr);
	EXPECT_EQ(ops_of(node)->query(node.domain.get(), &limits), 0);
	EXPECT_EQ(limits.abi_version, std::uint32_t{TREADLE_ABI_VERSION});
	EXPECT_EQ(limits.inject_size, node.info->tx_attr->inject_size);
	EXPECT_EQ(ops_of(node)->getfd(node.domain.get(), &fd), 0);
	char path[64] = "";
	EXPECT_GT(readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof(path) - 1),
		  0);
	EXPECT_STREQ(path, TREADLE_DEVICE);
}

// conformance: fi_domain(3): fi_set_ops: -FI_ENOSYS if the override is not supported; none is,
//   without device memory
TEST(Ops, NoneCanBeSet)
{
	Node node;
	fi_hmem_override_ops own{};

	own.size = sizeof(own);
	EXPECT_EQ(fi_set_ops(&node.domain->fid, FI_SET_OPS_HMEM_OVERRIDE, 0, &own, nullptr),
		  -FI_ENOSYS);
}

/* The process itself may be the device. */
TEST(Ops, ACounterHasAWordAndACopyForTheProcess)
{
	Node node;
	const auto *const ops = ops_of(node);
	const Owned<fid_cntr> cntr = node.cntr();
	std::uint64_t *word = nullptr;
	const std::uint64_t *copy = nullptr;

	ASSERT_EQ(ops->cntr_word(cntr.get(), nullptr, &word), 0);
	ASSERT_EQ(ops->cntr_copy(cntr.get(), nullptr, &copy), 0);
	EXPECT_EQ(*word, 0u);
	for (std::uint64_t i = 1; i < 100; ++i) {
		__atomic_store_n(word, i, __ATOMIC_RELEASE);
		ASSERT_TRUE(reaches(cntr.get(), i));
		ASSERT_EQ(fi_cntr_read(cntr.get()), i);
	}
	EXPECT_EQ(fi_cntr_set(cntr.get(), 7), 0);
	EXPECT_EQ(__atomic_load_n(&copy[0], __ATOMIC_ACQUIRE), 7u);
	__atomic_store_n(word, 100, __ATOMIC_RELEASE);
	EXPECT_TRUE(reaches(cntr.get(), 8));
	EXPECT_EQ(fi_cntr_adderr(cntr.get(), 3), 0);
	EXPECT_EQ(__atomic_load_n(&copy[1], __ATOMIC_ACQUIRE), 3u);
	EXPECT_EQ(ops->cntr_word(reinterpret_cast<fid_cntr *>(node.domain.get()), nullptr, &word),
		  -FI_EINVAL);
}

long locked_kb()
{
	std::ifstream status("/proc/self/status");
	std::string word;
	long kb = -1;

	while (status >> word) {
		if (word == "VmLck:")
			status >> kb;
	}
	return kb;
}

TEST(Ops, PinnedMemoryStaysAndIsRevokedWhenUnmapped)
{
	Pair p(hints_for(FI_MSG | FI_RMA));
	constexpr std::size_t size = 65536;
	const long before = locked_kb();
	char *const memory = static_cast<char *>(
		mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	const iovec iov{memory, size};
	fi_mr_attr attr{};
	fid_mr *raw = nullptr;
	const auto write = [&] {
		EXPECT_EQ(fi_write(p.a.ep.get(), "abc", 4, nullptr, p.b_at_a, 100, fi_mr_key(raw),
				   nullptr),
			  0);
	};

	attr.mr_iov = &iov;
	attr.iov_count = 1;
	attr.access = FI_REMOTE_WRITE;
	attr.requested_key = 5;
	const auto *const ops = ops_of(p.node);
	ASSERT_EQ(ops->mr_regpinned(p.node.domain.get(), &attr, 0, &raw), 0);
	const Owned<fid_mr> mr(raw);
	EXPECT_EQ(locked_kb(), before + 64);
	write();
	next(p.a.tx_cq.get());
	EXPECT_STREQ(memory + 100, "abc");
	munmap(memory, size);
	write();
	EXPECT_EQ(next_error(p.a.tx_cq.get()).err, FI_EKEYREJECTED);
	/* Pinned memory has to exist. */
	fid_mr *none = nullptr;
	attr.requested_key = 6;
	EXPECT_EQ(ops->mr_regpinned(p.node.domain.get(), &attr, 0, &none), -FI_EFAULT);
	EXPECT_EQ(ops->mr_regpinned(p.node.domain.get(), &attr, FI_PEEK, &none), -FI_EBADFLAGS);
	EXPECT_EQ(ops->mr_regpinned(p.node.domain.get(), nullptr, 0, &none), -FI_EINVAL);
}

} // namespace
