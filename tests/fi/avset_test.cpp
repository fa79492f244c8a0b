// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * fi_av_set(3). The order of a set is seen in the results of gathers: ranks are places in the set.
 */
#include "group.h"

#include <map>

namespace
{

using Ranks = std::vector<std::size_t>;

class AvSets : public testing::Test
{
protected:
	static constexpr std::size_t n = 6;
	Crowd crowd{n};

	fid_av *av(std::size_t i = 0) { return crowd[i].av.get(); }

	Owned<fid_av_set> open(fi_av_set_attr attr, int expected = 0, std::size_t i = 0)
	{
		fid_av_set *set = nullptr;
		EXPECT_EQ(fi_av_set(av(i), &attr, &set, nullptr), expected);
		return Owned<fid_av_set>(set);
	}
	static fi_av_set_attr range(fi_addr_t start, fi_addr_t end, std::uint64_t stride,
				    std::size_t count = 0)
	{
		fi_av_set_attr attr{};
		attr.count = count;
		attr.start_addr = start;
		attr.end_addr = end;
		attr.stride = stride;
		return attr;
	}
	static fi_av_set_attr empty() { return range(FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL, 0); }

	/* Expects a set with these members, in this order. */
	template <class Make> void expect(const Ranks &ranks, Make &&make)
	{
		std::map<std::size_t, Owned<fid_av_set>> sets;
		std::map<std::size_t, Owned<fid_mc>> groups;
		std::map<std::size_t, Ranks> results;

		for (const std::size_t i : ranks) {
			sets[i] = make(i);
			groups[i] = crowd[i].join(sets[i].get());
			results[i].resize(ranks.size(), 4711);
		}
		for (const std::size_t i : ranks)
			crowd[i].expect_joined(groups[i].get());
		for (const auto &[i, group] : groups)
			ASSERT_EQ(fi_allgather(crowd[i].ep.get(), &i, 1, nullptr, results[i].data(),
					       nullptr, fi_mc_addr(group.get()), FI_UINT64, 0,
					       nullptr),
				  0);
		for (const std::size_t i : ranks) {
			next(crowd[i].cq.get());
			EXPECT_EQ(results[i], ranks);
		}
	}
};

// conformance: fi_av_set(3): count, start_addr, end_addr, stride
TEST_F(AvSets, RangeIncludesStartAndEnd)
{
	expect({1, 2, 3}, [&](std::size_t i) { return open(range(1, 3, 1), 0, i); });
	expect({0, 1, 2, 3, 4, 5}, [&](std::size_t i) { return open(range(0, 5, 1, 6), 0, i); });
}

// conformance: fi_av_set(3): count, start_addr, end_addr, stride
TEST_F(AvSets, StrideIsBetweenSuccessiveAddresses)
{
	expect({1, 3, 5}, [&](std::size_t i) { return open(range(1, 5, 2), 0, i); });
	expect({0, 4}, [&](std::size_t i) { return open(range(0, 5, 4), 0, i); });
	expect({1, 3, 5}, [&](std::size_t i) { return open(range(1, 5, 2, 3), 0, i); });
	open(range(1, 5, 2, 2), -FI_EINVAL);
	open(range(0, std::uint64_t{1} << 40, 1, SIZE_MAX), -FI_EINVAL);
}

// conformance: fi_av_set(3): only valid addresses are added; a range needs FI_AV_TABLE
TEST_F(AvSets, OnlyValidAddressesOfTheRangeAreAdded)
{
	expect({4, 5}, [&](std::size_t i) { return open(range(4, 5000, 1), 0, i); });
}

// conformance: fi_av_set(3): FI_UNIVERSE: all addresses of the vector; of a shared vector, those
//   that directly follow the addresses inserted here
TEST_F(AvSets, UniverseHasAllAddressesOfTheVector)
{
	expect({0, 1, 2, 3, 4, 5}, [&](std::size_t i) {
		fi_av_set_attr attr = empty();
		attr.flags = FI_UNIVERSE;
		return open(attr, 0, i);
	});
}

// conformance: fi_av_set(3): FI_UNIVERSE: all addresses of the vector; of a shared vector, ...
// conformance: fi_av_set(3): FI_BARRIER_SET and the like are accepted; a set supports all
//   collectives
TEST_F(AvSets, UniverseAfterARemoval)
{
	for (std::size_t i = 1; i < n; ++i)
		ASSERT_EQ(fi_av_remove(av(i), &crowd[i].peers[0], 1, 0), 0);
	expect({1, 2, 3, 4, 5}, [&](std::size_t i) {
		fi_av_set_attr attr = empty();
		attr.flags = FI_UNIVERSE | FI_BARRIER_SET | FI_ALLGATHER_SET;
		return open(attr, 0, i);
	});
}

// conformance: fi_av_set(3): union, intersect, diff, insert, remove, and the order of members
TEST_F(AvSets, InsertAppends)
{
	expect({5, 0, 3}, [&](std::size_t i) { return crowd[i].make_set({5, 0, 3}); });
}

TEST_F(AvSets, InsertTakesOnlyNewAddresses)
{
	const auto set = crowd[0].make_set({1});

	EXPECT_EQ(fi_av_set_insert(set.get(), crowd[0].peers[1]), -FI_EINVAL);
	EXPECT_EQ(fi_av_set_insert(set.get(), 4711), -FI_EINVAL) << "not in the vector";
}

// conformance: fi_av_set(3): union, intersect, diff, insert, remove, and the order of members
TEST_F(AvSets, RemoveKeepsTheOrderOfTheOthers)
{
	expect({4, 2, 0}, [&](std::size_t i) {
		auto set = crowd[i].make_set({4, 1, 2, 0});
		EXPECT_EQ(fi_av_set_remove(set.get(), crowd[i].peers[1]), 0);
		EXPECT_EQ(fi_av_set_remove(set.get(), crowd[i].peers[1]), -FI_EINVAL);
		return set;
	});
}

// conformance: fi_av_set(3): union, intersect, diff, insert, remove, and the order of members
TEST_F(AvSets, UnionPlacesNewAddressesAtTheEnd)
{
	expect({3, 1, 5, 0}, [&](std::size_t i) {
		auto set = crowd[i].make_set({3, 1});
		const auto other = crowd[i].make_set({5, 1, 0});
		EXPECT_EQ(fi_av_set_union(set.get(), other.get()), 0);
		EXPECT_EQ(fi_av_set_union(set.get(), set.get()), 0);
		return set;
	});
}

// conformance: fi_av_set(3): union, intersect, diff, insert, remove, and the order of members
TEST_F(AvSets, IntersectKeepsTheOrder)
{
	expect({3, 1, 5}, [&](std::size_t i) {
		auto set = crowd[i].make_set({3, 0, 1, 5});
		const auto other = crowd[i].make_set({1, 5, 2, 3});
		EXPECT_EQ(fi_av_set_intersect(set.get(), other.get()), 0);
		EXPECT_EQ(fi_av_set_intersect(set.get(), set.get()), 0);
		return set;
	});
}

// conformance: fi_av_set(3): union, intersect, diff, insert, remove, and the order of members
TEST_F(AvSets, DiffKeepsTheOrder)
{
	expect({5, 0}, [&](std::size_t i) {
		auto set = crowd[i].make_set({5, 3, 0, 1});
		const auto other = crowd[i].make_set({1, 2, 3});
		EXPECT_EQ(fi_av_set_diff(set.get(), other.get()), 0);
		return set;
	});
}

TEST_F(AvSets, OfTwoVectorsDoNotMix)
{
	const auto set = crowd[0].make_set({1}), other = crowd[1].make_set({1});

	EXPECT_EQ(fi_av_set_union(set.get(), other.get()), -FI_EINVAL);
	EXPECT_EQ(fi_av_set_intersect(set.get(), other.get()), -FI_EINVAL);
	EXPECT_EQ(fi_av_set_diff(set.get(), other.get()), -FI_EINVAL);
}

// conformance: fi_av_set(3): fi_av_set_addr
TEST_F(AvSets, AddressesDiffer)
{
	const auto set = crowd[0].make_set({1}), other = crowd[0].make_set({1});
	fi_addr_t a = FI_ADDR_NOTAVAIL, b = FI_ADDR_NOTAVAIL;

	EXPECT_EQ(fi_av_set_addr(set.get(), &a), 0);
	EXPECT_EQ(fi_av_set_addr(other.get(), &b), 0);
	EXPECT_NE(a, b);
	EXPECT_NE(a, FI_ADDR_NOTAVAIL);
}

// conformance: fi_av_set(3): count, start_addr, end_addr, stride
// conformance: fi_av_set(3): comm_key, if supported by the fabric: there are none: -FI_EOPNOTSUPP
TEST_F(AvSets, AttributesAreValidated)
{
	const Log log;
	fi_av_set_attr attr = empty();
	fid_av_set *set = nullptr;
	std::uint8_t key[8]{};

	EXPECT_EQ(fi_av_set(av(), nullptr, &set, nullptr), -FI_EINVAL);
	attr.flags = FI_MORE;
	open(attr, -FI_EBADFLAGS);
	attr = empty();
	attr.comm_key = key;
	attr.comm_key_size = sizeof(key);
	open(attr, -FI_EOPNOTSUPP);
	EXPECT_TRUE(log.has("communication keys"));
	open(range(3, 1, 1), -FI_EINVAL);
	open(range(1, 3, 0), -FI_EINVAL);
	open(range(1, 3, 1, 2), -FI_EINVAL) /* more than count */;
	open(range(FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL, 1), -FI_EINVAL);
	open(range(0, FI_ADDR_NOTAVAIL - 1, 1), -FI_EINVAL);
}

// conformance: fi_av_set(3): only valid addresses are added; a range needs FI_AV_TABLE
TEST(AvSet, RangesNeedATable)
{
	Node node(hints_for(FI_MSG | FI_COLLECTIVE));
	const auto av = node.av(0, FI_AV_MAP);
	fi_av_set_attr attr{};
	fid_av_set *set = nullptr;

	attr.stride = 1;
	EXPECT_EQ(fi_av_set(av.get(), &attr, &set, nullptr), -FI_EINVAL);
	attr.stride = 0;
	attr.start_addr = attr.end_addr = FI_ADDR_NOTAVAIL;
	ASSERT_EQ(fi_av_set(av.get(), &attr, &set, nullptr), 0);
	EXPECT_EQ(fi_close(&av->fid), -FI_EBUSY);
	EXPECT_EQ(fi_close(&set->fid), 0);
}

} // namespace
