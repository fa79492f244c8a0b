// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_collective(3): the results of each collective. */
// conformance: fi_arch(7): collectives

#include "group.h"

#include <algorithm>
#include <complex>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

namespace
{

constexpr std::size_t sizes[] = {1, 2, 3, 4, 7, 8};
/*
 * Numbers of elements: few, more than are copied for a receiver, more than an atomic changes at
 * once.
 */
constexpr std::size_t counts[] = {1, 3, 700, 5000};

using Words = std::vector<std::uint64_t>;

/* Member i's contribution at place j. */
std::uint64_t value(std::size_t i, std::size_t j)
{
	return i * 1'000'003 + j * 7 + 1;
}
Words words(std::size_t member, std::size_t count)
{
	Words out(count);
	for (std::size_t j = 0; j < count; ++j)
		out[j] = value(member, j);
	return out;
}
Words sum(std::size_t members, std::size_t count)
{
	Words out(count);
	for (std::size_t i = 0; i < members; ++i) {
		for (std::size_t j = 0; j < count; ++j)
			out[j] += value(i, j);
	}
	return out;
}
Words slice(const Words &from, std::size_t i, std::size_t count)
{
	return Words(from.begin() + static_cast<std::ptrdiff_t>(i * count),
		     from.begin() + static_cast<std::ptrdiff_t>((i + 1) * count));
}

/* Every size of a group, with every count, from every root. */
class Collectives : public testing::TestWithParam<std::size_t>
{
protected:
	Crowd crowd{GetParam()};
	std::size_t n = GetParam();

	/* call(member, rank, buf, result), with so many words in each. */
	template <class Call> std::vector<Words> run(std::size_t in, std::size_t out, Call &&call)
	{
		std::vector<Words> bufs, results;

		for (std::size_t i = 0; i < n; ++i) {
			bufs.push_back(words(i, in));
			results.emplace_back(out, 4711);
		}
		/* Another member calls last each time. */
		for (std::size_t i = 0; i < n; ++i) {
			const std::size_t rank = (i + first_) % n;
			EXPECT_EQ(call(crowd[rank], rank, bufs[rank].data(), results[rank].data()),
				  0);
		}
		++first_;
		crowd.expect_done(ctx(5));
		return results;
	}

private:
	std::size_t first_ = 0;
};

// conformance: fi_collective(3): fi_barrier, fi_barrier2: not complete until all have called
TEST_P(Collectives, BarrierDoesNotCompleteUntilAllPeersHaveEntered)
{
	for (std::size_t last = 0; last < n; ++last) {
		for (std::size_t i = 0; i < n; ++i) {
			if (i == last)
				continue;
			ASSERT_EQ(fi_barrier(crowd[i].ep.get(), crowd[i].group(), ctx(5)), 0);
		}
		for (std::size_t i = 0; i < n && n > 1; ++i) {
			fi_cq_tagged_entry entry;
			EXPECT_EQ(fi_cq_read(crowd[i].cq.get(), &entry, 1), -FI_EAGAIN);
		}
		ASSERT_EQ(fi_barrier2(crowd[last].ep.get(), crowd[last].group(), 0, ctx(5)), 0);
		crowd.expect_done(ctx(5));
	}
}

// conformance: fi_collective(3): fi_broadcast: of any non-void type
TEST_P(Collectives, BroadcastTransfersAnArrayFromASingleSenderToAll)
{
	for (const std::size_t count : counts) {
		for (std::size_t root = 0; root < n; ++root) {
			const auto results =
				run(count, count,
				    [&](Member &m, std::size_t rank, std::uint64_t *buf,
					std::uint64_t *result) {
					    return fi_broadcast(m.ep.get(),
								rank == root ? buf : result, count,
								nullptr, m.group(), m.peers[root],
								FI_UINT64, 0, ctx(5));
				    });
			for (std::size_t i = 0; i < n; ++i) {
				if (i == root)
					continue;
				EXPECT_EQ(results[i], words(root, count));
			}
		}
	}
}

// conformance: fi_collective(3): fi_alltoall: count elements for each peer
TEST_P(Collectives, AlltoallDistributesDifferentPortionsToPeers)
{
	for (const std::size_t count : counts) {
		const auto results =
			run(n * count, n * count,
			    [&](Member &m, std::size_t, std::uint64_t *buf, std::uint64_t *result) {
				    return fi_alltoall(m.ep.get(), buf, count, nullptr, result,
						       nullptr, m.group(), FI_UINT64, 0, ctx(5));
			    });
		for (std::size_t i = 0; i < n; ++i) {
			for (std::size_t from = 0; from < n; ++from)
				EXPECT_EQ(slice(results[i], from, count),
					  slice(words(from, n * count), i, count));
		}
	}
}

// conformance: fi_collective(3): fi_allreduce
TEST_P(Collectives, AllreduceCopiesTheResultBackToEachPeer)
{
	for (const std::size_t count : counts) {
		const auto results =
			run(count, count,
			    [&](Member &m, std::size_t, std::uint64_t *buf, std::uint64_t *result) {
				    return fi_allreduce(m.ep.get(), buf, count, nullptr, result,
							nullptr, m.group(), FI_UINT64, FI_SUM, 0,
							ctx(5));
			    });
		for (const Words &result : results)
			EXPECT_EQ(result, sum(n, count));
	}
}

// conformance: fi_collective(3): fi_allgather
TEST_P(Collectives, AllgatherCollectsFromAllPeersIntoASingleArray)
{
	for (const std::size_t count : counts) {
		const auto results =
			run(count, n * count,
			    [&](Member &m, std::size_t, std::uint64_t *buf, std::uint64_t *result) {
				    return fi_allgather(m.ep.get(), buf, count, nullptr, result,
							nullptr, m.group(), FI_UINT64, 0, ctx(5));
			    });
		for (const Words &result : results) {
			for (std::size_t from = 0; from < n; ++from)
				EXPECT_EQ(slice(result, from, count), words(from, count));
		}
	}
}

TEST_P(Collectives, AllgatherMayCollectWhereItsOwnDataIs)
{
	for (const std::size_t count : counts) {
		const auto results =
			run(count, n * count,
			    [&](Member &m, std::size_t, std::uint64_t *buf, std::uint64_t *result) {
				    std::copy_n(buf, count, result);
				    return fi_allgather(m.ep.get(), result, count, nullptr, result,
							nullptr, m.group(), FI_UINT64, 0, ctx(5));
			    });
		for (const Words &result : results) {
			for (std::size_t from = 0; from < n; ++from)
				EXPECT_EQ(slice(result, from, count), words(from, count));
		}
	}
}

// conformance: fi_collective(3): fi_reduce_scatter: each participant receives a slice, of count
//   elements
TEST_P(Collectives, ReduceScatterGivesEachParticipantASliceOfTheResults)
{
	for (const std::size_t count : counts) {
		const auto results =
			run(n * count, count,
			    [&](Member &m, std::size_t, std::uint64_t *buf, std::uint64_t *result) {
				    return fi_reduce_scatter(m.ep.get(), buf, count, nullptr,
							     result, nullptr, m.group(), FI_UINT64,
							     FI_SUM, 0, ctx(5));
			    });
		for (std::size_t i = 0; i < n; ++i)
			EXPECT_EQ(results[i], slice(sum(n, n * count), i, count));
	}
}

// conformance: fi_collective(3): fi_reduce
TEST_P(Collectives, ReduceCollectsTheResultsAtASingleRoot)
{
	for (const std::size_t count : counts) {
		for (std::size_t root = 0; root < n; ++root) {
			const auto results =
				run(count, count,
				    [&](Member &m, std::size_t rank, std::uint64_t *buf,
					std::uint64_t *result) {
					    return fi_reduce(m.ep.get(), buf, count, nullptr,
							     rank == root ? result : nullptr,
							     nullptr, m.group(), m.peers[root],
							     FI_UINT64, FI_SUM, 0, ctx(5));
				    });
			EXPECT_EQ(results[root], sum(n, count));
		}
	}
}

// conformance: fi_collective(3): fi_scatter
TEST_P(Collectives, ScatterSplitsTheDataOfASingleRoot)
{
	for (const std::size_t count : counts) {
		for (std::size_t root = 0; root < n; ++root) {
			const auto results =
				run(n * count, count,
				    [&](Member &m, std::size_t rank, std::uint64_t *buf,
					std::uint64_t *result) {
					    return fi_scatter(m.ep.get(),
							      rank == root ? buf : nullptr, count,
							      nullptr, result, nullptr, m.group(),
							      m.peers[root], FI_UINT64, 0, ctx(5));
				    });
			for (std::size_t i = 0; i < n; ++i)
				EXPECT_EQ(results[i], slice(words(root, n * count), i, count));
		}
	}
}

// conformance: fi_collective(3): fi_gather
TEST_P(Collectives, GatherCollectsFromAllPeersAtARoot)
{
	for (const std::size_t count : counts) {
		for (std::size_t root = 0; root < n; ++root) {
			const auto results =
				run(count, n * count,
				    [&](Member &m, std::size_t rank, std::uint64_t *buf,
					std::uint64_t *result) {
					    return fi_gather(m.ep.get(), buf, count, nullptr,
							     rank == root ? result : nullptr,
							     nullptr, m.group(), m.peers[root],
							     FI_UINT64, 0, ctx(5));
				    });
			for (std::size_t from = 0; from < n; ++from)
				EXPECT_EQ(slice(results[root], from, count), words(from, count));
		}
	}
}

TEST_P(Collectives, ManyMayBeUnderWay)
{
	constexpr int many = 100;
	std::vector<Words> results(n, Words(many));
	const std::uint64_t one = 1;

	/* Some members are far ahead of the others. */
	for (std::size_t i = 0; i < n; ++i) {
		for (int k = 0; k < many; ++k)
			ASSERT_EQ(fi_allreduce(crowd[i].ep.get(), &one, 1, nullptr, &results[i][k],
					       nullptr, crowd[i].group(), FI_UINT64, FI_SUM, 0,
					       ctx(5)),
				  0);
	}
	for (int k = 0; k < many; ++k)
		crowd.expect_done(ctx(5));
	for (const Words &result : results)
		EXPECT_EQ(result, Words(many, n));
}

INSTANTIATE_TEST_SUITE_P(Groups, Collectives, testing::ValuesIn(sizes));

/* --- types and operations ---------------------------------------------------------------- */

template <class T> struct TypeOf;
#define TYPE(type, name)                                   \
	template <> struct TypeOf<type> {                  \
		static constexpr fi_datatype value = name; \
	}
TYPE(std::int8_t, FI_INT8);
TYPE(std::uint16_t, FI_UINT16);
TYPE(std::int32_t, FI_INT32);
TYPE(std::uint64_t, FI_UINT64);
TYPE(float, FI_FLOAT);
TYPE(double, FI_DOUBLE);
TYPE(long double, FI_LONG_DOUBLE);
TYPE(std::complex<double>, FI_DOUBLE_COMPLEX);

template <class T> class Types : public testing::Test
{
protected:
	static constexpr std::size_t n = 5, count = 9;
	Crowd crowd{n};

	template <class F> void expect(fi_op op, F &&combine)
	{
		std::vector<std::vector<T>> bufs(n), results(n), slices(n);
		std::vector<T> all(n * count), only(n * count);

		for (std::size_t i = 0; i < n; ++i) {
			for (std::size_t j = 0; j < n * count; ++j)
				bufs[i].push_back(static_cast<T>((i * 3 + j) % 4));
			results[i].resize(n * count);
			slices[i].resize(count);
			for (std::size_t j = 0; j < n * count; ++j)
				all[j] = i ? static_cast<T>(combine(all[j], bufs[i][j])) :
					     bufs[i][j];
		}
		for (std::size_t i = 0; i < n; ++i) {
			fid_ep *ep = crowd[i].ep.get();
			const fi_addr_t group = crowd[i].group();
			ASSERT_EQ(fi_allreduce(ep, bufs[i].data(), n * count, nullptr,
					       results[i].data(), nullptr, group, TypeOf<T>::value,
					       op, 0, nullptr),
				  0);
			ASSERT_EQ(fi_reduce_scatter(ep, bufs[i].data(), count, nullptr,
						    slices[i].data(), nullptr, group,
						    TypeOf<T>::value, op, 0, nullptr),
				  0);
			ASSERT_EQ(fi_reduce(ep, bufs[i].data(), n * count, nullptr, only.data(),
					    nullptr, group, crowd[i].peers[2], TypeOf<T>::value, op,
					    0, nullptr),
				  0);
		}
		for (int k = 0; k < 3; ++k)
			crowd.expect_done();
		for (std::size_t i = 0; i < n; ++i) {
			EXPECT_EQ(results[i], all) << op;
			EXPECT_TRUE(
				std::equal(slices[i].begin(), slices[i].end(),
					   all.begin() + static_cast<std::ptrdiff_t>(i * count)))
				<< op;
		}
		EXPECT_EQ(only, all) << op;
	}
};

using Samples = testing::Types<std::int8_t, std::uint16_t, std::int32_t, std::uint64_t, float,
			       double, long double, std::complex<double>>;
TYPED_TEST_SUITE(Types, Samples);

// conformance: fi_collective(3): fi_allreduce
TYPED_TEST(Types, AreReducedByTheOperation)
{
	using T = TypeParam;

	this->expect(FI_SUM, [](T a, T b) { return a + b; });
	this->expect(FI_PROD, [](T a, T b) { return a * b; });
	this->expect(FI_LOR, [](T a, T b) { return T(a != T(0) || b != T(0)); });
	this->expect(FI_LAND, [](T a, T b) { return T(a != T(0) && b != T(0)); });
	this->expect(FI_LXOR, [](T a, T b) { return T((a != T(0)) != (b != T(0))); });
	if constexpr (!std::is_same_v<T, std::complex<double>>) {
		this->expect(FI_MIN, [](T a, T b) { return std::min(a, b); });
		this->expect(FI_MAX, [](T a, T b) { return std::max(a, b); });
	}
	if constexpr (std::is_integral_v<T>) {
		this->expect(FI_BOR, [](T a, T b) { return a | b; });
		this->expect(FI_BAND, [](T a, T b) { return a & b; });
		this->expect(FI_BXOR, [](T a, T b) { return a ^ b; });
	}
}

// conformance: fi_collective(3): fi_allreduce
TEST(Allreduce, AllHaveTheSameBits)
{
	constexpr std::size_t n = 7, count = 300;
	Crowd crowd(n);
	std::vector<std::vector<double>> results(n, std::vector<double>(count)), bufs(n);

	for (std::size_t i = 0; i < n; ++i) {
		for (std::size_t j = 0; j < count; ++j)
			bufs[i].push_back(1.0 / static_cast<double>(value(i * i, j)) *
					  (i % 2 ? -1e9 : 1));
		ASSERT_EQ(fi_allreduce(crowd[i].ep.get(), bufs[i].data(), count, nullptr,
				       results[i].data(), nullptr, crowd[i].group(), FI_DOUBLE,
				       FI_SUM, 0, nullptr),
			  0);
	}
	crowd.expect_done();
	for (std::size_t i = 1; i < n; ++i)
		EXPECT_EQ(std::memcmp(results[i].data(), results[0].data(), count * sizeof(double)),
			  0);
}

/* More steps than a caller of the kernel performs itself, and than a ring has room for. */
TEST(Allreduce, OfManyMembers)
{
	constexpr std::size_t n = 64;
	Crowd crowd(n);
	Words results(n);
	std::vector<Words> gathered(n, Words(n));

	for (std::size_t i = 0; i < n; ++i) {
		const std::uint64_t &own = crowd[i].peers[i];
		ASSERT_EQ(fi_allreduce(crowd[i].ep.get(), &own, 1, nullptr, &results[i], nullptr,
				       crowd[i].group(), FI_UINT64, FI_SUM, 0, nullptr),
			  0);
		ASSERT_EQ(fi_allgather(crowd[i].ep.get(), &own, 1, nullptr, gathered[i].data(),
				       nullptr, crowd[i].group(), FI_UINT64, 0, nullptr),
			  0);
	}
	crowd.expect_done();
	crowd.expect_done();
	for (std::size_t i = 0; i < n; ++i) {
		EXPECT_EQ(results[i], n * (n - 1) / 2);
		EXPECT_EQ(gathered[i], gathered[0]);
		EXPECT_EQ(gathered[0][i], i);
	}
}

TEST(Allreduce, TheResultMayBeTheBuffer)
{
	Crowd crowd(4);
	Words buf{1, 2, 3, 4};

	for (std::size_t i = 0; i < 4; ++i)
		ASSERT_EQ(fi_allreduce(crowd[i].ep.get(), &buf[i], 1, nullptr, &buf[i], nullptr,
				       crowd[i].group(), FI_UINT64, FI_PROD, 0, nullptr),
			  0);
	crowd.expect_done();
	EXPECT_EQ(buf, Words(4, 24));
}

/* Buffers that overlap by half would be overwritten before they are sent. */
TEST(Overlap, OnlyWhereTheOwnDataBelongs)
{
	Crowd crowd(2);
	fid_ep *const ep = crowd[1].ep.get();
	const fi_addr_t group = crowd[1].group();
	Words words(8, 7);

	EXPECT_EQ(fi_allgather(ep, &words[1], 2, nullptr, words.data(), nullptr, group, FI_UINT64,
			       0, nullptr),
		  -FI_EINVAL);
	EXPECT_EQ(fi_allreduce(ep, &words[1], 2, nullptr, words.data(), nullptr, group, FI_UINT64,
			       FI_SUM, 0, nullptr),
		  -FI_EINVAL);
	EXPECT_EQ(fi_alltoall(ep, &words[2], 2, nullptr, words.data(), nullptr, group, FI_UINT64, 0,
			      nullptr),
		  -FI_EINVAL);
	EXPECT_EQ(words, Words(8, 7));
}

/* The number of counters of this process's contexts, from their files. */
static std::size_t counters()
{
	std::size_t n = 0;

	for (const auto &file : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
		std::ifstream in(file.path());
		for (std::string line; std::getline(in, line);)
			n += line.starts_with("treadle-cntr:") || line.starts_with("treadle-more:");
	}
	return n;
}

/* In any number of pieces of a slice. */
TEST(ReduceScatter, OfMegabytes)
{
	constexpr std::size_t n = 4, count = 1 << 17;
	Crowd crowd(n);
	const Words buf(n * count, 3);
	std::vector<Words> results(n, Words(count));
	const std::size_t before = counters();

	for (std::size_t i = 0; i < n; ++i) {
		ASSERT_EQ(fi_reduce_scatter(crowd[i].ep.get(), buf.data(), count, nullptr,
					    results[i].data(), nullptr, crowd[i].group(), FI_UINT64,
					    FI_SUM, 0, nullptr),
			  0);
		EXPECT_LE(counters() - before, 16 * (i + 1));
	}
	crowd.expect_done();
	for (const Words &result : results)
		EXPECT_EQ(result, Words(count, 3 * n));
}

/* Every type has a size, which is all that matters. */
// conformance: fi_collective(3): fi_broadcast: of any non-void type
TEST(Broadcast, AnyNonVoidDatatypeMayBeBroadcast)
{
	Crowd crowd(3);

	for (int type = FI_INT8; type <= FI_UINT128; ++type) {
		const auto datatype = static_cast<fi_datatype>(type);
		fi_collective_attr attr{};
		attr.op = FI_NOOP;
		attr.datatype = datatype;
		ASSERT_EQ(fi_query_collective(crowd.node.domain.get(), FI_BROADCAST, &attr, 0), 0);
		const std::size_t len = 10 * attr.datatype_attr.size;
		std::vector<std::vector<std::uint8_t>> bufs(3, std::vector<std::uint8_t>(len));
		bufs[1] = pattern(len, static_cast<unsigned int>(type));
		for (std::size_t i = 0; i < 3; ++i)
			ASSERT_EQ(fi_broadcast(crowd[i].ep.get(), bufs[i].data(), 10, nullptr,
					       crowd[i].group(), crowd[i].peers[1], datatype, 0,
					       nullptr),
				  0);
		crowd.expect_done();
		EXPECT_EQ(bufs[0], bufs[1]);
		EXPECT_EQ(bufs[2], bufs[1]);
	}
}

TEST(Broadcast, OfMegabytes)
{
	Crowd crowd(4);
	std::vector<std::vector<std::uint8_t>> bufs(4, std::vector<std::uint8_t>(5'000'000));

	bufs[3] = pattern(5'000'000, 1);
	for (std::size_t i = 0; i < 4; ++i)
		ASSERT_EQ(fi_broadcast(crowd[i].ep.get(), bufs[i].data(), bufs[i].size(), nullptr,
				       crowd[i].group(), crowd[i].peers[3], FI_UINT8, 0, nullptr),
			  0);
	crowd.expect_done();
	for (const auto &buf : bufs)
		EXPECT_EQ(buf, bufs[3]);
}

} // namespace
