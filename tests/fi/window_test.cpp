// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RMA and atomics through windows: Documentation/windows.rst. */
#include "calls.h"
#include "child.h"
#include "node.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <sys/mman.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <treadle/fi_treadle.h>

namespace
{

using namespace std::chrono_literals;

constexpr std::uint64_t caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_TRIGGER;
constexpr std::size_t size = 1 << 20;
constexpr std::uint64_t both = FI_REMOTE_READ | FI_REMOTE_WRITE;

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

Owned<fid_mr> reg(const Node &node, Memory &memory, std::uint64_t key = 7,
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

fi_treadle_direct_stats stats_of(const Node &node, fid_ep *ep)
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

/* --- what moves --------------------------------------------------------------------------- */

TEST_F(Window, WritesAndReadsOfAllSizes)
{
	w.warm();
	for (const std::size_t len : {1, 2, 3, 4, 5, 8, 9, 64, 4096, 5000, 65536, 65537}) {
		const auto out = pattern(len, static_cast<unsigned>(len));
		std::vector<std::uint8_t> in(len + 2);

		SCOPED_TRACE(len);
		w.write_and_wait(out.data(), len, 3, ctx(len));
		EXPECT_EQ(std::memcmp(there.bytes() + 3, out.data(), len), 0);
		w.read_and_wait(in.data() + 1, len, 3, ctx(len + 1));
		EXPECT_EQ(std::memcmp(in.data() + 1, out.data(), len), 0);
		EXPECT_EQ(in[0], 0);
		EXPECT_EQ(in[len + 1], 0);
	}
	EXPECT_GE(w.direct(), 20u);
	EXPECT_GE(w.kernel(FI_TREADLE_OUTSIDE), 2u); /* the last size */
}

TEST_F(Window, CallsWithStructuresAndVectors)
{
	std::uint64_t value = 5;
	const iovec iov{&value, 8};
	const fi_rma_iov target{16, 8, 7};
	const fi_msg_rma msg{&iov, nullptr, 1, p.b_at_a, &target, 1, ctx(1), 0};

	w.warm();
	const auto before = w.direct();
	ASSERT_EQ(fi_writemsg(ep(), &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE), 0);
	EXPECT_EQ(there.word(2), 5u);
	EXPECT_EQ(next(cq()).op_context, ctx(1));
	ASSERT_EQ(fi_writev(ep(), &iov, nullptr, 1, p.b_at_a, 24, 7, ctx(2)), 0);
	EXPECT_EQ(there.word(3), 5u);
	EXPECT_EQ(next(cq()).op_context, ctx(2));
	there.word(2) = 6;
	ASSERT_EQ(fi_readmsg(ep(), &msg, FI_FENCE), 0);
	EXPECT_EQ(value, 6u);
	EXPECT_EQ(next(cq()).op_context, ctx(1));
	there.word(3) = 7;
	ASSERT_EQ(fi_readv(ep(), &iov, nullptr, 1, p.b_at_a, 24, 7, ctx(3)), 0);
	EXPECT_EQ(value, 7u);
	EXPECT_EQ(next(cq()).op_context, ctx(3));
	EXPECT_EQ(w.direct(), before + 4);
	EXPECT_EQ(fi_inject_write(ep(), there.bytes(), 4097, p.b_at_a, 0, 7), -FI_EMSGSIZE);
}

TEST_F(Window, WhatIsMoreThanATransferGoesThroughTheKernel)
{
	std::uint64_t value = 5;

	w.warm();
	ASSERT_EQ(fi_writedata(ep(), &value, 8, nullptr, 99, p.b_at_a, 0, 7, ctx(1)), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).data, 99u);
	EXPECT_EQ(next(cq()).op_context, ctx(1));
	EXPECT_EQ(w.kernel(FI_TREADLE_ASKS_MORE), 1u);
}

TEST(WindowProcesses, WriteAndReadEachOthersMemory)
{
	const auto owner = [](int line) {
		Memory memory;
		Node node(hints_for(caps));
		Side side(node);
		const auto mr = reg(node, memory);
		put(line, address_of(side.ep.get()));
		for (std::uint64_t i = 1; i <= 3; ++i) {
			get(line); /* written */
			EXPECT_EQ(memory.seen(5), i);
			memory.word(6) = 10 * i;
			put(line, {});
		}
		get(line); /* read */
		return 0;
	};
	Child child(owner);
	Node node(hints_for(caps));
	Side side(node);
	Writer w(node, side, side.insert(get(child.line())));
	std::uint64_t value = 0;

	w.warm();
	const auto before = w.direct();
	for (std::uint64_t i = 1; i <= 3; ++i) {
		w.write(i, 40);
		put(child.line(), {});
		get(child.line());
		w.read_and_wait(&value, 8, 48, ctx(i));
		EXPECT_EQ(value, 10 * i);
	}
	EXPECT_EQ(w.direct(), before + 6);
	put(child.line(), {});
	EXPECT_EQ(child.wait(), 0);
	/* Its window has ended. */
	ASSERT_EQ(fi_write(side.ep.get(), &value, 8, nullptr, w.to, 0, 7, ctx(1)), 0);
	EXPECT_EQ(next_error(side.tx_cq.get()).err, FI_ECONNREFUSED);
}

/* --- system calls ------------------------------------------------------------------------- */

TEST(WindowCalls, AreNone)
{
	const auto counts = count_calls([] {
		Memory there;
		Pair p(hints_for(caps));
		const auto mr = reg(p.node, there, 7, both, true);
		Writer w(p.node, p.a, p.b_at_a);
		fid_ep *ep = p.a.ep.get();
		fid_cq *cq = p.a.tx_cq.get();
		std::uint64_t value = 1, before = 0;
		fi_cq_tagged_entry entry;

		w.warm();
		start();
		for (int i = 0; i < 100; ++i)
			ASSERT_EQ(fi_inject_write(ep, &value, 8, p.b_at_a, 0, 7), 0);
		mark(); /* 0: writes that are not reported */
		for (int i = 0; i < 100; ++i) {
			ASSERT_EQ(fi_write(ep, &value, 8, nullptr, p.b_at_a, 0, 7, nullptr), 0);
			ASSERT_EQ(fi_cq_read(cq, &entry, 1), 1);
		}
		mark(); /* 1: writes */
		for (int i = 0; i < 100; ++i) {
			ASSERT_EQ(fi_read(ep, &value, 8, nullptr, p.b_at_a, 0, 7, nullptr), 0);
			ASSERT_EQ(fi_cq_read(cq, &entry, 1), 1);
		}
		mark(); /* 2: reads */
		for (int i = 0; i < 100; ++i) {
			ASSERT_EQ(fi_fetch_atomic(ep, &value, 1, nullptr, &before, nullptr,
						  p.b_at_a, 0, 7, FI_UINT64, FI_SUM, nullptr),
				  0);
			ASSERT_EQ(fi_cq_read(cq, &entry, 1), 1);
		}
		mark(); /* 3: fetch-adds */
		stop();
	});

	EXPECT_EQ(counts, std::vector({0, 0, 0, 0}));
}

TEST(WindowCalls, AreNoneForCountersEither)
{
	const auto counts = count_calls([] {
		Memory there;
		Node node(hints_for(caps));
		const auto av = node.av();
		const auto writes = node.cntr();
		const auto queue = node.cq();
		const auto ep = node.ep();
		const auto mr = reg(node, there);
		std::uint64_t value = 1;
		fi_addr_t self;

		ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
		ASSERT_EQ(fi_ep_bind(ep.get(), &queue->fid,
				     FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION),
			  0);
		ASSERT_EQ(fi_ep_bind(ep.get(), &writes->fid, FI_WRITE), 0);
		ASSERT_EQ(fi_enable(ep.get()), 0);
		ASSERT_EQ(fi_av_insert(av.get(), address_of(ep.get()).data(), 1, &self, 0, nullptr),
			  1);
		for (int i = 0; i < 100; ++i)
			ASSERT_EQ(fi_write(ep.get(), &value, 8, nullptr, self, 0, 7, nullptr), 0);
		start();
		for (std::uint64_t i = 1; i <= 100; ++i) {
			ASSERT_EQ(fi_write(ep.get(), &value, 8, nullptr, self, 0, 7, nullptr), 0);
			ASSERT_EQ(fi_cntr_read(writes.get()), 100 + i);
			ASSERT_EQ(fi_cntr_wait(writes.get(), 100 + i, patience), 0);
		}
		mark();
		stop();
	});

	EXPECT_EQ(counts, std::vector({0}));
}

/* --- pages and regions that go ------------------------------------------------------------ */

TEST_F(Window, WritesReachTheMemoryThatIsMappedThen)
{
	std::uint64_t value = 0;

	for (std::uint64_t i = 1; i <= 5; ++i) {
		w.warm();
		there.replace();
		EXPECT_EQ(there.word(), 0u);
		w.write(i);
		EXPECT_EQ(there.word(), i);
		w.write(i + 1, 8);
		EXPECT_EQ(there.word(1), i + 1);
		w.read_and_wait(&value, 8, 0, ctx(i));
		EXPECT_EQ(value, i);
	}
}

TEST_F(Window, ARegionThatWasClosedIsNotReached)
{
	std::uint64_t value = 9;

	w.warm();
	mr.reset();
	EXPECT_EQ(there.word(), 1u);
	ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(1)), 0);
	EXPECT_EQ(next_error(cq()).err, FI_EKEYREJECTED);
	EXPECT_EQ(there.word(), 1u);
	EXPECT_EQ(w.kernel(FI_TREADLE_ENDED), 1u);
}

TEST_F(Window, AKeyThatIsUsedAgainIsThatOfTheNewMemory)
{
	Memory other;

	w.warm();
	mr.reset();
	const auto again = reg(p.node, other);
	for (std::uint64_t i = 2; i < 50; ++i) {
		w.write(i);
		ASSERT_EQ(other.word(), i);
	}
	EXPECT_EQ(there.word(), 1u);
	EXPECT_GE(w.direct(), 10u);
}

TEST_F(Window, AnIndexThatIsUsedAgainIsThatOfTheNewPeer)
{
	Memory other;
	Node node(hints_for(caps));
	Side third(node);
	const auto mr = reg(node, other);
	fi_addr_t index = p.b_at_a;

	w.warm();
	ASSERT_EQ(fi_av_remove(p.a.av.get(), &index, 1, 0), 0);
	ASSERT_EQ(p.a.insert(third.ep.get()), p.b_at_a);
	w.write(5);
	EXPECT_EQ(other.word(), 5u);
	EXPECT_EQ(there.word(), 1u);
}

TEST_F(Window, RightsAreThoseOfTheRegion)
{
	Memory other;
	const auto readable = reg(p.node, other, 8, FI_REMOTE_READ);
	Writer reader(p.node, p.a, p.b_at_a, 8);
	std::uint64_t value = 3;

	other.word() = 4;
	for (int i = 0; i < 20; ++i) {
		value = 0;
		reader.read_and_wait(&value, 8, 0, ctx(1));
		EXPECT_EQ(value, 4u);
	}
	EXPECT_GT(reader.direct(), 0u);
	for (int i = 0; i < 20; ++i) {
		ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 8, ctx(1)), 0);
		EXPECT_EQ(next_error(cq()).err, FI_EACCES);
	}
	EXPECT_EQ(other.word(), 4u);
}

TEST_F(Window, BytesBehindTheRegionAreNotReached)
{
	std::uint64_t value = 3;

	w.warm();
	for (const std::uint64_t at : {size - 7, size, size + 8, ~std::uint64_t{0} - 3}) {
		ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, at, 7, ctx(1)), 0);
		EXPECT_NE(next_error(cq()).err, 0);
	}
	w.write(6, size - 8);
	EXPECT_EQ(there.word(size / 8 - 1), 6u);
}

/* --- order and completions ---------------------------------------------------------------- */

TEST_F(Window, NothingOvertakesAMessageThatWaits)
{
	const auto out = pattern(100'000);
	std::vector<std::uint8_t> in(out.size());
	std::uint64_t value = 5;

	w.warm();
	const auto before = w.direct();
	/* The peer has no buffer for it. */
	ASSERT_EQ(fi_send(ep(), out.data(), out.size(), nullptr, p.b_at_a, ctx(1)), 0);
	ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(2)), 0);
	EXPECT_EQ(w.direct(), before);
	EXPECT_EQ(w.kernel(FI_TREADLE_BUSY), 1u);
	ASSERT_EQ(fi_recv(p.b.ep.get(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, ctx(3)), 0);
	next(p.b.rx_cq.get());
	for (int i = 0; i < 2; ++i)
		next(cq());
	EXPECT_EQ(there.word(), 5u);
	w.write(6);
	EXPECT_EQ(w.direct(), before + 1);
}

TEST(WindowProcesses, AMessageComesAfterWhatWasWrittenBefore)
{
	constexpr std::uint64_t rounds = 500;
	const auto owner = [](int line) {
		Memory memory;
		Node node(hints_for(caps));
		Side side(node);
		const auto mr = reg(node, memory);
		put(line, address_of(side.ep.get()));
		const fi_addr_t peer = side.insert(get(line));
		for (std::uint64_t i = 1; i <= rounds; ++i) {
			std::uint64_t in = 0;
			EXPECT_EQ(fi_recv(side.ep.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, nullptr),
				  0);
			if (i == 1)
				put(line, {});
			next(side.rx_cq.get());
			EXPECT_EQ(memory.seen(), in);
			EXPECT_EQ(fi_inject(side.ep.get(), &in, 8, peer), 0);
		}
		return 0;
	};
	Child child(owner);
	Node node(hints_for(caps));
	Side side(node);
	Writer w(node, side, side.insert(get(child.line())));

	put(child.line(), address_of(side.ep.get()));
	get(child.line());
	for (std::uint64_t i = 1; i <= rounds; ++i) {
		std::uint64_t in = 0;
		ASSERT_EQ(fi_recv(side.ep.get(), &in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
		w.write(i);
		ASSERT_EQ(fi_inject(side.ep.get(), &i, 8, w.to), 0);
		next(side.rx_cq.get());
		ASSERT_EQ(in, i);
	}
	EXPECT_GT(w.direct(), rounds / 2);
	EXPECT_EQ(child.wait(), 0);
}

/* Some through the window, others not. */
TEST_F(Window, CompletionsComeInTheOrderOfTheirOperations)
{
	std::uint64_t value = 5;
	fi_cq_tagged_entry entries[7];
	std::uintptr_t read = 0;

	w.warm();
	for (std::uintptr_t i = 0; i < 100; ++i) {
		if (i % 3)
			ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(i)), 0);
		else
			ASSERT_EQ(fi_writedata(ep(), &value, 8, nullptr, i, p.b_at_a, 0, 7, ctx(i)),
				  0);
	}
	while (read < 100) {
		const ssize_t n = fi_cq_read(cq(), entries, 7);
		ASSERT_GT(n, 0);
		for (ssize_t i = 0; i < n; ++i)
			ASSERT_EQ(entries[i].op_context, ctx(read++));
	}
	EXPECT_EQ(fi_cq_read(cq(), entries, 1), -FI_EAGAIN);
	EXPECT_EQ(w.kernel(FI_TREADLE_ASKS_MORE), 34u);
}

/* Then the kernel completes. */
TEST_F(Window, WithoutRoomForCompletionsNoneIsLost)
{
	const ssize_t all = 3000;
	std::uint64_t value = 5;
	fi_cq_tagged_entry entries[64];
	ssize_t posted = 0, read = 0;

	w.warm();
	while (read < all) {
		if (posted < all &&
		    fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(1)) == 0) {
			++posted;
			continue;
		}
		const ssize_t n = fi_cq_read(cq(), entries, 64);
		ASSERT_GT(n, 0);
		read += n;
	}
	EXPECT_GT(w.direct(), 500u);
	EXPECT_GT(w.kernel(FI_TREADLE_WAITED), 0u);
	EXPECT_TRUE(is_silent(cq()));
}

TEST_F(Window, WakesAThreadThatWaitsForCompletions)
{
	std::uint64_t value = 5;

	w.warm();
	for (std::uintptr_t i = 0; i < 200; ++i) {
		std::thread waiter([&] {
			fi_cq_tagged_entry entry;
			ASSERT_EQ(fi_cq_sread(cq(), &entry, 1, nullptr, patience), 1);
			EXPECT_EQ(entry.op_context, ctx(i));
		});
		if (i % 2)
			std::this_thread::sleep_for(std::chrono::microseconds(i * 5));
		EXPECT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(i)), 0);
		waiter.join();
		ASSERT_FALSE(HasFailure()) << i;
	}
}

struct Polled : Window {
	Polled() : Window({.wait = FI_WAIT_FD}) {}
};

TEST_F(Polled, AQueueWithAFileGetsCompletionsOfTheKernel)
{
	std::uint64_t value = 5;
	fid *fids[] = {&cq()->fid};

	w.warm();
	ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(1)), 0);
	EXPECT_EQ(fi_trywait(p.node.fabric.get(), fids, 1), -FI_EAGAIN);
	next(cq());
	pollfd file{-1, POLLIN, 0};
	ASSERT_EQ(fi_control(&cq()->fid, FI_GETWAIT, &file.fd), 0);
	ASSERT_EQ(fi_trywait(p.node.fabric.get(), fids, 1), 0);
	ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, ctx(2)), 0);
	EXPECT_EQ(poll(&file, 1, 0), 1);
	EXPECT_EQ(next(cq()).op_context, ctx(2));
}

/* --- counters ----------------------------------------------------------------------------- */

class CountedWindow : public testing::Test
{
protected:
	CountedWindow()
	{
		EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid,
				     FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION),
			  0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &writes->fid, FI_WRITE), 0);
		EXPECT_EQ(fi_enable(ep.get()), 0);
		EXPECT_EQ(fi_av_insert(av.get(), address_of(ep.get()).data(), 1, &self, 0, nullptr),
			  1);
		write(50);
		EXPECT_GT(direct(), 0u);
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

TEST_F(CountedWindow, CountsAddsAndSets)
{
	EXPECT_EQ(fi_cntr_read(writes.get()), 50u);
	ASSERT_EQ(fi_cntr_add(writes.get(), 10), 0);
	write(5);
	EXPECT_EQ(fi_cntr_read(writes.get()), 65u);
	ASSERT_EQ(fi_cntr_set(writes.get(), 3), 0);
	EXPECT_EQ(fi_cntr_read(writes.get()), 3u);
	const auto before = direct();
	write(4);
	EXPECT_EQ(direct(), before + 4);
	EXPECT_EQ(fi_cntr_read(writes.get()), 7u);
	EXPECT_EQ(fi_cntr_wait(writes.get(), 8, 1), -FI_ETIMEDOUT);
	write(1);
	EXPECT_EQ(fi_cntr_wait(writes.get(), 8, 0), 0);
	EXPECT_EQ(fi_cntr_read(writes.get()), 8u);
	EXPECT_EQ(fi_cntr_readerr(writes.get()), 0u);
}

TEST_F(CountedWindow, WakesAThreadThatWaitsForACounter)
{
	for (std::uint64_t i = 1; i <= 200; ++i) {
		std::thread waiter(
			[&] { EXPECT_EQ(fi_cntr_wait(writes.get(), 50 + i, patience), 0); });
		if (i % 2)
			std::this_thread::sleep_for(std::chrono::microseconds(i * 5));
		write(1);
		waiter.join();
		ASSERT_FALSE(HasFailure()) << i;
	}
	EXPECT_EQ(fi_cntr_read(writes.get()), 250u);
}

TEST_F(CountedWindow, ATriggerSeesWhatWasCounted)
{
	const auto armed = [&](std::uint64_t threshold, std::uint64_t *what, std::uint64_t at) {
		auto *const context = new fi_triggered_context{};
		const iovec iov{what, 8};
		const fi_rma_iov target{at, 8, 7};
		const fi_msg_rma msg{&iov, nullptr, 1, self, &target, 1, context, 0};

		context->event_type = FI_TRIGGER_THRESHOLD;
		context->trigger.threshold = {writes.get(), threshold};
		EXPECT_EQ(fi_writemsg(ep.get(), &msg, FI_TRIGGER), 0);
		return std::unique_ptr<fi_triggered_context>(context);
	};
	std::uint64_t two = 2, three = 3;

	const auto now = armed(50, &two, 8); /* counts, too */
	EXPECT_TRUE(reaches(writes.get(), 51));
	EXPECT_EQ(there.seen(1), 2u);
	const auto later = armed(55, &three, 16);
	write(3);
	EXPECT_EQ(fi_cntr_read(writes.get()), 54u);
	EXPECT_EQ(there.seen(2), 0u);
	write(1);
	EXPECT_TRUE(reaches(writes.get(), 56));
	EXPECT_EQ(there.seen(2), 3u);
}

/* --- atomics ------------------------------------------------------------------------------ */

TEST_F(Pinned, AtomicsAreInstructions)
{
	std::uint64_t operand = 5, before = 0, compare = 0;
	const auto fetch = [&](fi_op op) {
		ASSERT_EQ(fi_fetch_atomic(ep(), &operand, 1, nullptr, &before, nullptr, p.b_at_a, 8,
					  7, FI_UINT64, op, ctx(op)),
			  0);
		const auto entry = next(cq());
		EXPECT_EQ(entry.op_context, ctx(op));
		EXPECT_EQ(entry.flags, FI_ATOMIC | FI_READ);
	};

	w.warm();
	const auto direct = w.direct();
	there.word(1) = 10;
	fetch(FI_SUM);
	EXPECT_EQ(before, 10u);
	EXPECT_EQ(there.word(1), 15u);
	fetch(FI_BXOR);
	EXPECT_EQ(before, 15u);
	EXPECT_EQ(there.word(1), 10u);
	fetch(FI_ATOMIC_READ);
	EXPECT_EQ(before, 10u);
	fetch(FI_ATOMIC_WRITE);
	EXPECT_EQ(before, 10u);
	EXPECT_EQ(there.word(1), 5u);
	operand = 8, compare = 5;
	ASSERT_EQ(fi_compare_atomic(ep(), &operand, 1, nullptr, &compare, nullptr, &before, nullptr,
				    p.b_at_a, 8, 7, FI_UINT64, FI_CSWAP, ctx(1)),
		  0);
	next(cq());
	EXPECT_EQ(before, 5u);
	EXPECT_EQ(there.word(1), 8u);
	ASSERT_EQ(fi_inject_atomic(ep(), &operand, 1, p.b_at_a, 8, 7, FI_UINT64, FI_SUM), 0);
	EXPECT_EQ(there.word(1), 16u);
	EXPECT_EQ(w.direct(), direct + 6);
	/* Not one instruction, or not aligned. */
	fetch(FI_PROD);
	EXPECT_EQ(there.word(1), 128u);
	EXPECT_EQ(w.direct(), direct + 6);
	ASSERT_EQ(fi_atomic(ep(), &operand, 1, nullptr, p.b_at_a, 9, 7, FI_UINT64, FI_SUM, ctx(1)),
		  0);
	EXPECT_EQ(next_error(cq()).err, FI_EINVAL);
	EXPECT_EQ(there.word(1), 128u);
}

TEST_F(Window, AtomicsOnMemoryThatIsNotPinnedGoThroughTheKernel)
{
	std::uint64_t one = 1;

	w.warm();
	const auto before = w.direct();
	ASSERT_EQ(fi_inject_atomic(ep(), &one, 1, p.b_at_a, 0, 7, FI_UINT64, FI_SUM), 0);
	EXPECT_EQ(there.word(), 2u);
	EXPECT_EQ(w.direct(), before);
}

/* One thread's go through the window; the other's, of two elements, through the kernel. */
TEST_F(Pinned, AtomicsAreAtomicAgainstThoseOfTheKernel)
{
	constexpr int times = 3000;
	const std::uint64_t ones[] = {1, 1};
	Side third(p.node);
	const fi_addr_t there_too = third.insert(p.b.ep.get());

	w.warm();
	const auto before = w.direct();
	there.word() = there.word(1) = 0;
	std::thread kernel([&] {
		for (int i = 0; i < times; ++i)
			EXPECT_EQ(fi_inject_atomic(third.ep.get(), ones, 2, there_too, 0, 7,
						   FI_UINT64, FI_SUM),
				  0);
	});
	for (int i = 0; i < times; ++i)
		ASSERT_EQ(fi_inject_atomic(ep(), ones, 1, p.b_at_a, 0, 7, FI_UINT64, FI_SUM), 0);
	kernel.join();
	EXPECT_EQ(there.seen(), 2u * times);
	EXPECT_EQ(there.seen(1), 1u * times);
	EXPECT_EQ(w.direct(), before + times);
}

/* --- processes ---------------------------------------------------------------------------- */

TEST_F(Window, AChildCantUseItsParentsWindows)
{
	w.warm();
	Child child([&](int) {
		std::uint64_t value = 9;
		fi_cq_tagged_entry entry;

		EXPECT_EQ(fi_inject_write(ep(), &value, 8, p.b_at_a, 0, 7), -FI_EPERM);
		EXPECT_EQ(fi_read(ep(), &value, 8, nullptr, p.b_at_a, 0, 7, nullptr), -FI_EPERM);
		EXPECT_LT(fi_cq_read(cq(), &entry, 1), 0);
		return 0;
	});
	EXPECT_EQ(child.wait(), 0);
	EXPECT_EQ(there.word(), 1u);
	w.write(5);
	EXPECT_EQ(there.word(), 5u);
}

TEST(WindowOff, TheVariableTurnsThemOff)
{
	Child child([](int) {
		setenv("FI_TREADLE_DIRECT", "0", 1);
		Memory there;
		Pair p(hints_for(caps));
		const auto mr = reg(p.node, there);
		fi_treadle_direct_stats stats{};

		stats.size = sizeof(stats);
		EXPECT_EQ(ops_of<fi_treadle_ops_direct>(p.node, FI_TREADLE_DIRECT_OPS_1)
				  .stats(p.a.ep.get(), &stats),
			  -FI_EOPNOTSUPP);
		for (std::uint64_t i = 0; i < 20; ++i) {
			EXPECT_EQ(fi_inject_write(p.a.ep.get(), &i, 8, p.b_at_a, 0, 7), 0);
			EXPECT_EQ(there.word(), i);
		}
		return 0;
	});
	EXPECT_EQ(child.wait(), 0);
}

} // namespace
