// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_NODE_H
#define TREADLE_TESTS_FI_NODE_H

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

#include <gtest/gtest.h>

/* Shared by the tests of the provider. They use libfabric's calls only. */

inline constexpr char provider_name[] = "treadle";
inline constexpr std::uint32_t api_version = FI_VERSION(1, 17);

/* ms; TEST_PATIENCE of tests/run-programs extends it on slow machines */
inline const int patience = [] {
	const char *times = std::getenv("TEST_PATIENCE");
	return 20'000 * (times ? std::atoi(times) : 1);
}();

struct FreeInfo {
	void operator()(fi_info *info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

/* Closes an object; the test fails if that fails. */
struct Close {
	template <class Fid> void operator()(Fid *object) const
	{
		EXPECT_EQ(fi_close(&object->fid), 0);
	}
};
template <class Fid> using Owned = std::unique_ptr<Fid, Close>;

/* Hints that name the provider only. */
Info no_hints();
/* Hints for capabilities; 0: any. */
Info hints_for(std::uint64_t caps);

/* All answers of fi_getinfo; null, with its error, if it refuses. */
Info get_info(const fi_info *hints, int *error = nullptr, std::uint32_t version = api_version,
	      const char *node = nullptr, const char *service = nullptr, std::uint64_t flags = 0);

std::vector<std::byte> address_of(fid_ep *ep);

/* Bytes that differ from place to place and from seed to seed. */
std::vector<std::uint8_t> pattern(std::size_t size, unsigned int seed = 1);

/* A domain, and functions that create its objects: each works or fails the test. */
class Node
{
public:
	explicit Node(Info hints = hints_for(0), std::uint32_t version = api_version);

	Owned<fid_eq> eq(fi_wait_obj wait = FI_WAIT_NONE, std::uint64_t flags = 0) const;
	Owned<fid_av> av(std::uint64_t flags = 0, fi_av_type type = FI_AV_UNSPEC) const;
	Owned<fid_cq> cq(fi_cq_format format = FI_CQ_FORMAT_TAGGED,
			 fi_wait_obj wait = FI_WAIT_UNSPEC, std::size_t size = 0) const;
	Owned<fid_cntr> cntr(fi_wait_obj wait = FI_WAIT_UNSPEC) const;
	Owned<fid_ep> ep() const;

	Info info;
	Owned<fid_fabric> fabric;
	Owned<fid_domain> domain;
};

/* An endpoint with all objects that it needs, enabled. */
class Side
{
public:
	struct Options {
		std::uint64_t cq_flags = 0; /* FI_SELECTIVE_COMPLETION */
		fi_cq_format format = FI_CQ_FORMAT_TAGGED;
		fi_wait_obj wait = FI_WAIT_UNSPEC;
		std::size_t cq_size = 0;
		bool counters = false;
		std::uint64_t av_flags = 0;
	};
	explicit Side(Node &node) : Side(node, Options()) {}
	Side(Node &node, const Options &options);

	/* Inserts the peer; returns its index. */
	fi_addr_t insert(fid_ep *peer) { return insert(address_of(peer)); }
	fi_addr_t insert(const std::vector<std::byte> &address);

	Owned<fid_av> av;
	Owned<fid_cq> tx_cq, rx_cq;
	Owned<fid_cntr> sent, received;
	Owned<fid_ep> ep;
};

/* Two endpoints that know each other. */
class Pair
{
public:
	explicit Pair(Info hints = hints_for(0)) : Pair(std::move(hints), Side::Options()) {}
	Pair(Info hints, const Side::Options &options);

	Node node;
	Side a, b;
	fi_addr_t b_at_a, a_at_b;
};

/* Waits for one completion, for seconds if needed; fails the test if there is none, or an error. */
fi_cq_tagged_entry next(fid_cq *cq, fi_addr_t *src = nullptr);
/* The same for a completion with an error. */
fi_cq_err_entry next_error(fid_cq *cq);
/* No completion comes, also not a little later. */
::testing::AssertionResult is_silent(fid_cq *cq);
/* Waits until a counter has this value. */
::testing::AssertionResult reaches(fid_cntr *cntr, std::uint64_t value);

/* Collects the provider's log lines at the level of FI_LOG_LEVEL=warn and above. */
class Log
{
public:
	Log();
	~Log();
	bool has(const std::string &text) const;
	std::string all() const;
	void clear();
};

/* A context that is just a number. */
inline void *ctx(std::uintptr_t value)
{
	return reinterpret_cast<void *>(value);
}

#endif
