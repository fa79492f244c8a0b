// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_WINDOW_H
#define TREADLE_TESTS_FI_WINDOW_H

/* Endpoints that reach memory through windows, and what they count. */

#include "node.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <sys/mman.h>

#include <rdma/fi_rma.h>

#include <treadle/fi_treadle.h>

inline constexpr std::uint64_t caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_TRIGGER;
inline constexpr std::size_t size = 1 << 20;
inline constexpr std::uint64_t both = FI_REMOTE_READ | FI_REMOTE_WRITE;

/* Memory with pages. */
class Memory
{
public:
	Memory() : at_(map(nullptr, 0)) {}
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;
	~Memory() { munmap(at_, size); }

	/* Other pages at the same place. */
	void replace()
	{
		munmap(at_, size);
		EXPECT_EQ(map(at_, MAP_FIXED_NOREPLACE), at_);
	}
	char *bytes() { return static_cast<char *>(at_); }
	std::uint64_t &word(std::size_t i = 0) { return static_cast<std::uint64_t *>(at_)[i]; }
	/* As another process may write it. */
	std::uint64_t seen(std::size_t i = 0) { return std::atomic_ref(word(i)).load(); }

private:
	static void *map(void *at, int flags)
	{
		return mmap(at, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | flags, -1, 0);
	}

	void *at_;
};

template <class Ops> Ops &ops_of(const Node &node, const char *name)
{
	void *ops = nullptr;

	EXPECT_EQ(fi_open_ops(&node.domain->fid, name, 0, &ops, nullptr), 0);
	return *static_cast<Ops *>(ops);
}

inline Owned<fid_mr> reg(const Node &node, Memory &memory, std::uint64_t key = 7,
			 std::uint64_t access = both, bool pinned = false)
{
	const iovec iov{memory.bytes(), size};
	fid_mr *mr = nullptr;
	fi_mr_attr attr{};

	attr.mr_iov = &iov;
	attr.iov_count = 1;
	attr.access = access;
	attr.requested_key = key;
	if (pinned)
		EXPECT_EQ(ops_of<fi_treadle_ops_domain>(node, FI_TREADLE_DOMAIN_OPS_1)
				  .mr_regpinned(node.domain.get(), &attr, 0, &mr),
			  0);
	else
		EXPECT_EQ(fi_mr_regattr(node.domain.get(), &attr, 0, &mr), 0);
	return Owned<fid_mr>(mr);
}

inline fi_treadle_direct_stats stats_of(const Node &node, fid_ep *ep)
{
	fi_treadle_direct_stats stats{};

	stats.size = sizeof(stats);
	EXPECT_EQ(ops_of<fi_treadle_ops_direct>(node, FI_TREADLE_DIRECT_OPS_1).stats(ep, &stats),
		  0);
	return stats;
}

/* Side a of a pair writes to memory of side b, or of another process. */
class Writer
{
public:
	Writer(Node &node, Side &side, fi_addr_t to, std::uint64_t key = 7)
		: node(node), side(side), to(to), key(key)
	{
	}

	std::uint64_t direct() const { return stats_of(node, side.ep.get()).direct; }
	std::uint64_t kernel(fi_treadle_why why) const
	{
		return stats_of(node, side.ep.get()).kernel[why];
	}

	void write(std::uint64_t value, std::uint64_t at = 0)
	{
		ASSERT_EQ(fi_inject_write(side.ep.get(), &value, sizeof(value), to, at, key), 0);
	}
	/* Writes until that goes through a window. */
	void warm(std::uint64_t at = 0)
	{
		const auto before = direct();
		for (int i = 0; i < 200 && direct() == before; ++i)
			write(1, at);
		ASSERT_GT(direct(), before);
	}
	void write_and_wait(const void *buf, std::size_t len, std::uint64_t at, void *context)
	{
		ASSERT_EQ(fi_write(side.ep.get(), buf, len, nullptr, to, at, key, context), 0);
		const auto entry = next(side.tx_cq.get());
		EXPECT_EQ(entry.op_context, context);
		EXPECT_EQ(entry.flags, FI_RMA | FI_WRITE);
		EXPECT_EQ(entry.len, 0u);
	}
	void read_and_wait(void *buf, std::size_t len, std::uint64_t at, void *context)
	{
		ASSERT_EQ(fi_read(side.ep.get(), buf, len, nullptr, to, at, key, context), 0);
		const auto entry = next(side.tx_cq.get());
		EXPECT_EQ(entry.op_context, context);
		EXPECT_EQ(entry.flags, FI_RMA | FI_READ);
	}

	Node &node;
	Side &side;
	const fi_addr_t to;
	const std::uint64_t key;
};

class Window : public testing::Test
{
protected:
	explicit Window(const Side::Options &options = {}, bool pinned = false)
		: p(hints_for(caps), options), mr(reg(p.node, there, 7, both, pinned)),
		  w(p.node, p.a, p.b_at_a)
	{
	}

	fid_ep *ep() { return p.a.ep.get(); }
	fid_cq *cq() { return p.a.tx_cq.get(); }

	Memory there;
	Pair p;
	Owned<fid_mr> mr;
	Writer w;
};

struct Pinned : Window {
	Pinned() : Window({}, true) {}
};

/* An endpoint that writes to itself, and counts the writes. */
struct CountedEndpoint {
	CountedEndpoint()
	{
		EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid,
				     FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION),
			  0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &writes->fid, FI_WRITE), 0);
		EXPECT_EQ(fi_enable(ep.get()), 0);
		EXPECT_EQ(fi_av_insert(av.get(), address_of(ep.get()).data(), 1, &self, 0, nullptr),
			  1);
	}
	std::uint64_t direct() { return stats_of(node, ep.get()).direct; }
	void write(int times)
	{
		for (int i = 0; i < times; ++i)
			EXPECT_EQ(fi_write(ep.get(), &value, 8, nullptr, self, 0, 7, nullptr), 0);
	}

	Memory there;
	Node node{hints_for(caps)};
	Owned<fid_av> av = node.av();
	Owned<fid_cq> cq = node.cq();
	Owned<fid_cntr> writes = node.cntr();
	Owned<fid_ep> ep = node.ep();
	Owned<fid_mr> mr = reg(node, there);
	std::uint64_t value = 1;
	fi_addr_t self = FI_ADDR_UNSPEC;
};

#endif
