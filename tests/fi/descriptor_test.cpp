// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The descriptors that calls write: one cache line if no more is needed. */
#include "node.h"

#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <treadle/ioctl.h>
#include <treadle/ring.h>

namespace
{

/* The slots of all descriptor rings of this process. */
std::vector<std::span<treadle_slot>> all_slots()
{
	std::vector<std::span<treadle_slot>> rings;
	std::FILE *const maps = std::fopen("/proc/self/maps", "r");
	char line[512], mode[8];
	unsigned long start, end;

	while (maps && std::fgets(line, sizeof(line), maps)) {
		if (!std::strstr(line, TREADLE_DEVICE) ||
		    std::sscanf(line, "%lx-%lx %7s", &start, &end, mode) != 3 ||
		    std::strncmp(mode, "rw", 2) != 0 || end - start <= TREADLE_SLOTS_OFFSET)
			continue;
		rings.emplace_back(reinterpret_cast<treadle_slot *>(start + TREADLE_SLOTS_OFFSET),
				   (end - start - TREADLE_SLOTS_OFFSET) / sizeof(treadle_slot));
	}
	if (maps)
		std::fclose(maps);
	return rings;
}

constexpr std::uint8_t stale = 0xee; /* the contents of a slot that was not written */

class Descriptor : public testing::Test
{
protected:
	Descriptor() : p(hints_for(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC))
	{
		EXPECT_EQ(fi_mr_reg(p.node.domain.get(), there, sizeof(there),
				    FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &mr, nullptr),
			  0);
		key = fi_mr_key(mr);
	}
	~Descriptor() override { fi_close(&mr->fid); }

	/* Makes a call that returns 0, with the context c, and finds its command in a ring. */
	treadle_desc posted(const std::function<ssize_t(void *c)> &call)
	{
		const std::uintptr_t context = ++contexts;
		std::optional<treadle_desc> found;

		for (const auto ring : all_slots())
			std::memset(ring.data(), stale, ring.size_bytes());
		EXPECT_EQ(call(ctx(context)), 0);
		next(p.a.tx_cq.get());
		for (const auto ring : all_slots()) {
			for (const treadle_slot &slot : ring) {
				if (slot.desc.context == context)
					found = slot.desc;
			}
		}
		EXPECT_TRUE(found);
		return found.value_or(treadle_desc{});
	}
	void expect_one_cache_line(const char *name, const std::function<ssize_t(void *c)> &call)
	{
		const treadle_desc desc = posted(call);
		const auto *bytes = reinterpret_cast<const std::uint8_t *>(&desc);

		EXPECT_FALSE(desc.flags & TREADLE_F_EXT) << name;
		for (std::size_t i = offsetof(treadle_desc, ep); i < sizeof(desc); ++i)
			ASSERT_EQ(bytes[i], stale) << name << ", byte " << i;
	}
	void expect_the_same(const std::function<ssize_t(void *c)> &plain,
			     const std::function<ssize_t(void *c)> &with_structure)
	{
		treadle_desc one = posted(plain), other = posted(with_structure);

		EXPECT_NE(one.context, other.context);
		one.context = other.context = 0;
		EXPECT_EQ(std::memcmp(&one, &other, sizeof(one)), 0);
	}

	fid_ep *ep() const { return p.a.ep.get(); }

	Pair p;
	fid_mr *mr = nullptr;
	std::uint64_t here[8]{}, there[8]{}, result[8]{}, compare[8]{}, key;
	std::uintptr_t contexts = 0x5eed0000;
	const iovec iov[2]{{here, 16}, {here + 2, 8}};
	const fi_rma_iov range{0, 16, 7}, both{0, 24, 7};
};

TEST_F(Descriptor, OneRangeIsOneCacheLine)
{
	const auto msg = [this](std::size_t buffers, const fi_rma_iov &remote, void *c) {
		return fi_msg_rma{iov, nullptr, buffers, p.b_at_a, &remote, 1, c, 0};
	};

	expect_one_cache_line("write", [&](void *c) {
		return fi_write(ep(), here, 16, nullptr, p.b_at_a, 0, key, c);
	});
	expect_one_cache_line("writemsg", [&](void *c) {
		const fi_msg_rma m = msg(1, range, c);
		return fi_writemsg(ep(), &m, FI_COMPLETION);
	});
	expect_one_cache_line("writemsg of two buffers", [&](void *c) {
		const fi_msg_rma m = msg(2, both, c);
		return fi_writemsg(ep(), &m, FI_COMPLETION);
	});
	expect_one_cache_line("readmsg", [&](void *c) {
		const fi_msg_rma m = msg(1, range, c);
		return fi_readmsg(ep(), &m, FI_COMPLETION);
	});
	expect_one_cache_line("readv", [&](void *c) {
		return fi_readv(ep(), iov, nullptr, 2, p.b_at_a, 0, key, c);
	});
	expect_one_cache_line("sendmsg", [&](void *c) {
		const fi_msg m{iov, nullptr, 1, p.b_at_a, c, 0};
		return fi_sendmsg(ep(), &m, FI_COMPLETION);
	});
	expect_one_cache_line("tsendmsg", [&](void *c) {
		const fi_msg_tagged m{iov, nullptr, 1, p.b_at_a, 3, 0, c, 0};
		return fi_tsendmsg(ep(), &m, FI_COMPLETION);
	});
}

TEST_F(Descriptor, AtomicsWithAStructureAreThoseWithout)
{
	const fi_ioc operands{here, 2}, results{result, 2}, compares{compare, 2};
	fi_ioc out = results;
	const fi_rma_ioc target{0, 2, key};
	const auto msg = [&](fi_op op, void *c) {
		return fi_msg_atomic{&operands, nullptr,   1,  p.b_at_a, &target,
				     1,		FI_UINT64, op, c,	 0};
	};

	expect_the_same(
		[&](void *c) {
			return fi_atomic(ep(), here, 2, nullptr, p.b_at_a, 0, key, FI_UINT64,
					 FI_SUM, c);
		},
		[&](void *c) {
			const fi_msg_atomic m = msg(FI_SUM, c);
			return fi_atomicmsg(ep(), &m, FI_COMPLETION);
		});
	expect_the_same(
		[&](void *c) {
			return fi_fetch_atomic(ep(), here, 2, nullptr, result, nullptr, p.b_at_a, 0,
					       key, FI_UINT64, FI_SUM, c);
		},
		[&](void *c) {
			const fi_msg_atomic m = msg(FI_SUM, c);
			return fi_fetch_atomicmsg(ep(), &m, &out, nullptr, 1, FI_COMPLETION);
		});
	expect_the_same(
		[&](void *c) {
			return fi_fetch_atomic(ep(), nullptr, 2, nullptr, result, nullptr, p.b_at_a,
					       0, key, FI_UINT64, FI_ATOMIC_READ, c);
		},
		[&](void *c) {
			fi_msg_atomic m = msg(FI_ATOMIC_READ, c);
			m.msg_iov = nullptr;
			m.iov_count = 0;
			return fi_fetch_atomicmsg(ep(), &m, &out, nullptr, 1, FI_COMPLETION);
		});
	expect_the_same(
		[&](void *c) {
			return fi_compare_atomic(ep(), here, 2, nullptr, compare, nullptr, result,
						 nullptr, p.b_at_a, 0, key, FI_UINT64, FI_CSWAP, c);
		},
		[&](void *c) {
			const fi_msg_atomic m = msg(FI_CSWAP, c);
			return fi_compare_atomicmsg(ep(), &m, &compares, nullptr, 1, &out, nullptr,
						    1, FI_COMPLETION);
		});
}

} // namespace
