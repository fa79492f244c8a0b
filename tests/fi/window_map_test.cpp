// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory of a peer that the application itself accesses: map of FI_TREADLE_DIRECT_OPS_1. */
#include "child.h"
#include "window.h"

#include <cerrno>

namespace
{

struct Mapped : Window {
	~Mapped() override
	{
		for (fi_treadle_map *map : maps)
			EXPECT_EQ(ops.unmap(map), 0);
	}

	int open(std::uint64_t addr, std::size_t len, std::uint64_t access, std::uint64_t key = 7)
	{
		fi_treadle_map *map = nullptr;
		const int rc = ops.map(ep(), p.b_at_a, addr, len, key, access, &map);

		EXPECT_EQ(rc == 0, map != nullptr);
		if (map)
			maps.push_back(map);
		return rc;
	}
	/* 1: it was stored; 0: perhaps not; -1: it could not begin. */
	int store(const fi_treadle_map *map, std::uint64_t at, std::uint64_t value)
	{
		std::uint64_t generation;
		auto *const word = static_cast<std::uint64_t *>(
			fi_treadle_map_begin(map, at, sizeof(value), &generation));

		if (!word)
			return -1;
		std::atomic_ref(*word).store(value);
		return fi_treadle_map_end(map, generation);
	}

	fi_treadle_ops_direct &ops = ops_of<fi_treadle_ops_direct>(p.node, FI_TREADLE_DIRECT_OPS_1);
	std::vector<fi_treadle_map *> maps;
};

TEST_F(Mapped, LoadsAndStoresAreOnThePeersMemory)
{
	ASSERT_EQ(open(8, 16, FI_READ | FI_WRITE), 0);
	fi_treadle_map *const map = maps[0];

	EXPECT_EQ(map->addr, 0u);
	EXPECT_EQ(map->len, size);
	EXPECT_EQ(store(map, 8, 5), -1); /* no page yet */
	ASSERT_EQ(ops.fill(map, 0, size), 0);
	EXPECT_EQ(store(map, 8, 5), 1);
	EXPECT_EQ(there.seen(1), 5u);
	EXPECT_EQ(store(map, size - 8, 6), 1);
	EXPECT_EQ(there.seen(size / 8 - 1), 6u);
	/* Bytes of two pages. */
	std::uint64_t generation;
	auto *const at = static_cast<char *>(fi_treadle_map_begin(map, 4090, 12, &generation));
	ASSERT_NE(at, nullptr);
	std::memcpy(at, "twelve bytes", 12);
	EXPECT_TRUE(fi_treadle_map_end(map, generation));
	EXPECT_EQ(std::memcmp(there.bytes() + 4090, "twelve bytes", 12), 0);
	/* Outside. */
	for (const auto &[addr, len] : {std::pair<std::uint64_t, std::size_t>{size, 1},
					{size - 7, 8},
					{~0ULL, 1},
					{0, size + 1},
					{8, ~0ULL},
					{8, 0}}) {
		EXPECT_EQ(fi_treadle_map_begin(map, addr, len, &generation), nullptr);
		EXPECT_EQ(ops.fill(map, addr, len), -FI_EINVAL);
	}
}

TEST_F(Mapped, PagesThatLeaveAreSeen)
{
	std::uint64_t generation;

	ASSERT_EQ(open(0, 8, FI_READ | FI_WRITE), 0);
	ASSERT_EQ(ops.fill(maps[0], 0, size), 0);
	ASSERT_NE(fi_treadle_map_begin(maps[0], 0, 8, &generation), nullptr);
	there.replace();
	EXPECT_FALSE(fi_treadle_map_end(maps[0], generation));
	EXPECT_EQ(store(maps[0], 0, 7), -1);
	EXPECT_EQ(there.word(), 0u);
	/* An operation has the owner make its pages. */
	w.write(8);
	ASSERT_EQ(ops.fill(maps[0], 0, 8), 0);
	EXPECT_EQ(store(maps[0], 0, 9), 1);
	EXPECT_EQ(there.seen(), 9u);
	mr.reset();
	EXPECT_EQ(store(maps[0], 0, 10), -1);
	EXPECT_EQ(ops.fill(maps[0], 0, 8), -FI_EKEYREJECTED);
	EXPECT_EQ(there.seen(), 9u);
}

TEST_F(Mapped, WhatIsRefused)
{
	fi_treadle_map *map = nullptr;

	EXPECT_EQ(open(0, 8, FI_READ, 8), -FI_EKEYREJECTED);
	EXPECT_EQ(open(size, 8, FI_READ), -EREMOTEIO);
	EXPECT_EQ(open(0, 0, FI_READ), -FI_EINVAL);
	EXPECT_EQ(open(0, 8, 0), -FI_EINVAL);
	EXPECT_EQ(open(0, 8, FI_READ | FI_SEND), -FI_EINVAL);
	EXPECT_EQ(ops.map(nullptr, p.b_at_a, 0, 8, 7, FI_READ, &map), -FI_EINVAL);
	EXPECT_EQ(ops.map(ep(), p.b_at_a, 0, 8, 7, FI_READ, nullptr), -FI_EINVAL);
	EXPECT_EQ(ops.map(ep(), 99, 0, 8, 7, FI_READ, &map), -EDESTADDRREQ);
	EXPECT_EQ(ops.fill(nullptr, 0, 8), -FI_EINVAL);
	EXPECT_EQ(ops.unmap(nullptr), -FI_EINVAL);
	const Owned<fid_ep> other = p.node.ep();
	EXPECT_EQ(ops.map(other.get(), 0, 0, 8, 7, FI_READ, &map), -FI_EOPBADSTATE);
	EXPECT_EQ(map, nullptr);

	Memory readable;
	const auto mr2 = reg(p.node, readable, 9, FI_REMOTE_READ);
	EXPECT_EQ(open(0, 8, FI_WRITE, 9), -FI_EACCES);
	EXPECT_EQ(open(0, 8, FI_READ, 9), 0);
}

TEST_F(Mapped, TheEndpointStaysOpen)
{
	ASSERT_EQ(open(0, 8, FI_READ), 0);
	EXPECT_EQ(fi_close(&ep()->fid), -FI_EBUSY);
	EXPECT_EQ(ops.unmap(maps[0]), 0);
	maps.clear();
	fid_ep *const closing = p.a.ep.release();
	EXPECT_EQ(fi_close(&closing->fid), 0);
}

/* A child of fork(2) has the structure, and none of the pages. */
TEST_F(Mapped, AChildSeesNoPage)
{
	ASSERT_EQ(open(0, 8, FI_READ | FI_WRITE), 0);
	ASSERT_EQ(ops.fill(maps[0], 0, 8), 0);
	ASSERT_EQ(store(maps[0], 0, 1), 1);
	Child child([&](int) { return store(maps[0], 0, 2) == -1 ? 0 : 1; });
	EXPECT_EQ(child.wait(), 0);
	EXPECT_EQ(there.seen(), 1u);
}

TEST(MapSwitch, IsTheSameAsForWindows)
{
	Child child([](int) {
		setenv("FI_TREADLE_DIRECT", "0", 1);
		Memory there;
		Pair p(hints_for(caps));
		const auto mr = reg(p.node, there);
		fi_treadle_map *map = nullptr;

		EXPECT_EQ(ops_of<fi_treadle_ops_direct>(p.node, FI_TREADLE_DIRECT_OPS_1)
				  .map(p.a.ep.get(), p.b_at_a, 0, 8, 7, FI_READ, &map),
			  -FI_EOPNOTSUPP);
		return 0;
	});
	EXPECT_EQ(child.wait(), 0);
}

} // namespace
