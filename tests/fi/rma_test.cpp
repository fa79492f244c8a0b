// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_rma(3), and other pages on reads and writes. */
// conformance: fi_mr(3): a region is accessible by peers starting at a base address of 0
// conformance: fi_arch(7): RMA, atomics

#include "node.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

namespace
{

constexpr std::size_t large = std::size_t{4} << 20;
constexpr std::uint64_t rma_caps = FI_MSG | FI_RMA | FI_TRIGGER | FI_RMA_EVENT | FI_SOURCE;

Owned<fid_mr> reg(const Node &node, void *buf, std::size_t len, std::uint64_t key,
		  std::uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE)
{
	fid_mr *mr = nullptr;

	EXPECT_EQ(fi_mr_reg(node.domain.get(), buf, len, access, 0, key, 0, &mr, nullptr), 0);
	return Owned<fid_mr>(mr);
}

class Rma : public testing::Test
{
protected:
	explicit Rma(const Side::Options &options = {}, int mr_mode = 0)
		: p(hints(mr_mode), options), here(pattern(large)), there(large),
		  mr(reg(p.node, there.data(), large, 7)), key(fi_mr_key(mr.get()))
	{
	}
	static Info hints(int mr_mode)
	{
		Info h = hints_for(rma_caps);
		h->domain_attr->mr_mode = mr_mode;
		return h;
	}

	fid_ep *ep() { return p.a.ep.get(); }
	fid_cq *cq() { return p.a.tx_cq.get(); }
	void expect_done(std::uint64_t flags, void *context)
	{
		const auto entry = next(cq());
		EXPECT_EQ(entry.flags, flags | FI_RMA);
		EXPECT_EQ(entry.op_context, context);
	}
	bool arrived(std::size_t at, std::size_t len, std::size_t from = 0) const
	{
		return !std::memcmp(there.data() + at, here.data() + from, len);
	}
	bool untouched(std::size_t at, std::size_t len) const
	{
		for (std::size_t i = at; i < at + len; ++i) {
			if (there[i])
				return false;
		}
		return true;
	}

	Pair p;
	std::vector<std::uint8_t> here, there;
	Owned<fid_mr> mr;
	std::uint64_t key;
};

/* --- the calls ------------------------------------------------------------------------ */

// conformance: fi_rma(3): fi_write, fi_read: 0 bytes to max_msg_size, byte granularity
// conformance: fi_rma(3): by default the remote endpoint is not notified
TEST_F(Rma, WriteTransfersTheLocalBufferToARemoteMemoryRegion)
{
	for (const std::size_t len : {0ul, 1ul, 4096ul, 100000ul, large - 5}) {
		std::fill(there.begin(), there.end(), 0);
		ASSERT_EQ(fi_write(ep(), here.data(), len, nullptr, p.b_at_a, 5, key, ctx(len)), 0);
		expect_done(FI_WRITE, ctx(len));
		EXPECT_TRUE(arrived(5, len));
		EXPECT_TRUE(untouched(0, 5));
		EXPECT_TRUE(untouched(5 + len, large - 5 - len));
	}
	/* "By default, the remote endpoint does not generate an event." */
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
}

// conformance: fi_rma(3): fi_write, fi_read: 0 bytes to max_msg_size, byte granularity
TEST_F(Rma, ReadTransfersARemoteMemoryRegionToTheLocalBuffer)
{
	for (const std::size_t len : {0ul, 1ul, 4096ul, 100000ul, large - 5}) {
		std::vector<std::uint8_t> to(large);
		there = pattern(large, static_cast<unsigned>(len));
		mr.reset();
		mr = reg(p.node, there.data(), large, key);
		ASSERT_EQ(fi_read(ep(), to.data() + 3, len, nullptr, p.b_at_a, 5, key, ctx(len)),
			  0);
		expect_done(FI_READ, ctx(len));
		EXPECT_EQ(std::memcmp(to.data() + 3, there.data() + 5, len), 0);
		EXPECT_EQ(to[2], 0);
		EXPECT_EQ(to[3 + len], 0);
	}
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
}

// conformance: fi_rma(3): fi_writev, fi_readv: a scatter-gather list
TEST_F(Rma, VectoredWritesAndReads)
{
	std::vector<std::uint8_t> to(300);
	const iovec out[3] = {{here.data(), 100}, {here.data() + 100, 1}, {here.data() + 101, 199}};
	const iovec in[2] = {{to.data(), 7}, {to.data() + 7, 293}};
	iovec many[9]{};

	ASSERT_EQ(fi_writev(ep(), out, nullptr, 3, p.b_at_a, 10, key, ctx(1)), 0);
	expect_done(FI_WRITE, ctx(1));
	EXPECT_TRUE(arrived(10, 300));
	ASSERT_EQ(fi_readv(ep(), in, nullptr, 2, p.b_at_a, 10, key, ctx(2)), 0);
	expect_done(FI_READ, ctx(2));
	EXPECT_TRUE(std::equal(to.begin(), to.end(), here.begin()));

	Log log;
	EXPECT_EQ(fi_writev(ep(), many, nullptr, 9, p.b_at_a, 0, key, nullptr), -FI_EINVAL);
	EXPECT_EQ(fi_readv(ep(), many, nullptr, 9, p.b_at_a, 0, key, nullptr), -FI_EINVAL);
	EXPECT_TRUE(log.has("more than 8 buffers")) << log.all();
}

// conformance: fi_rma(3): fi_writemsg, fi_readmsg: also of remote ranges
TEST_F(Rma, MessagesHaveRemoteVectorsToo)
{
	std::vector<std::uint8_t> more(1000), to(300);
	const auto other = reg(p.node, more.data(), more.size(), 8);
	const iovec out[2] = {{here.data(), 120}, {here.data() + 120, 180}};
	const iovec in{to.data(), 300};
	const fi_rma_iov target[3] = {{0, 100, key}, {50, 150, 8}, {500, 50, key}};
	fi_msg_rma msg{out, nullptr, 2, p.b_at_a, target, 3, ctx(1), 0};

	ASSERT_EQ(fi_writemsg(ep(), &msg, 0), 0);
	expect_done(FI_WRITE, ctx(1));
	EXPECT_TRUE(arrived(0, 100));
	EXPECT_EQ(std::memcmp(more.data() + 50, here.data() + 100, 150), 0);
	EXPECT_TRUE(arrived(500, 50, 250));
	msg.msg_iov = &in;
	msg.iov_count = 1;
	ASSERT_EQ(fi_readmsg(ep(), &msg, 0), 0);
	expect_done(FI_READ, ctx(1));
	EXPECT_TRUE(std::equal(to.begin(), to.end(), here.begin()));

	Log log;
	const fi_rma_iov six[6]{};
	msg.rma_iov = six;
	msg.rma_iov_count = 6;
	EXPECT_EQ(fi_writemsg(ep(), &msg, 0), -FI_EINVAL);
	EXPECT_TRUE(log.has("6 remote ranges")) << log.all();
	msg.rma_iov = target;
	msg.rma_iov_count = 2;
	EXPECT_EQ(fi_readmsg(ep(), &msg, 0), -FI_EINVAL);
	EXPECT_TRUE(log.has("300 bytes here, 250 there")) << log.all();
	msg.rma_iov_count = 3;
	EXPECT_EQ(fi_readmsg(ep(), &msg, FI_PEEK), -FI_EBADFLAGS);
}

// conformance: fi_rma(3): fi_inject_write, fi_inject_writedata: as fi_inject
TEST_F(Rma, InjectWriteReturnsTheBufferAtOnceAndReportsNothing)
{
	std::vector<std::uint8_t> buf(here.begin(), here.begin() + 4096);

	for (int i = 0; i < 8; ++i) {
		std::copy_n(here.begin() + i, 4096, buf.begin());
		ASSERT_EQ(fi_inject_write(ep(), buf.data(), 4096, p.b_at_a, i * 8192, key), 0);
		std::fill(buf.begin(), buf.end(), 0);
	}
	/* In order, so this one is the last. */
	ASSERT_EQ(fi_write(ep(), here.data(), 1, nullptr, p.b_at_a, 0, key, ctx(9)), 0);
	expect_done(FI_WRITE, ctx(9));
	EXPECT_TRUE(is_silent(cq()));
	for (int i = 0; i < 8; ++i)
		EXPECT_TRUE(arrived(i * 8192 + !i, 4096 - !i, i + !i)) << i;
	EXPECT_EQ(fi_inject_write(ep(), here.data(), 4097, p.b_at_a, 0, key), -FI_EMSGSIZE);
}

// conformance: fi_rma(3): fi_writedata, FI_REMOTE_CQ_DATA: a completion at the target
TEST_F(Rma, WriteDataIsSeenAtTheTarget)
{
	std::uint64_t data = 0x1234567890abcdef;
	const iovec iov{here.data(), 77};
	const fi_rma_iov target{300, 77, key};
	const fi_msg_rma msg{&iov, nullptr, 1, p.b_at_a, &target, 1, ctx(2), data + 1};
	fi_addr_t src;

	ASSERT_EQ(fi_writedata(ep(), here.data(), 77, nullptr, data, p.b_at_a, 100, key, ctx(1)),
		  0);
	ASSERT_EQ(fi_writemsg(ep(), &msg, FI_REMOTE_CQ_DATA), 0);
	ASSERT_EQ(fi_inject_writedata(ep(), here.data(), 77, data + 2, p.b_at_a, 500, key), 0);
	for (unsigned int i = 0; i < 3; ++i) {
		const auto entry = next(p.b.rx_cq.get(), &src);
		EXPECT_EQ(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
		EXPECT_EQ(entry.data, data + i);
		EXPECT_EQ(entry.len, 77u);
		EXPECT_EQ(src, p.a_at_b);
		EXPECT_TRUE(arrived(100 + i * 200, 77));
	}
	expect_done(FI_WRITE, ctx(1));
	expect_done(FI_WRITE, ctx(2));
	EXPECT_TRUE(is_silent(cq()));
	/* Without the flag the field is ignored. */
	ASSERT_EQ(fi_writemsg(ep(), &msg, 0), 0);
	expect_done(FI_WRITE, ctx(2));
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
}

/* --- flags ------------------------------------------------------------------------------ */

// conformance: fi_rma(3): FI_MORE; FI_INJECT, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, ...
// conformance: fi_rma(3): FI_COMMIT_COMPLETE: not yet, as there is no FI_PMEM
// conformance: fi_cq(3): FI_COMMIT_COMPLETE: only for persistent memory regions; there are none ...
TEST_F(Rma, EveryCompletionLevelAndTheOtherFlags)
{
	const iovec iov{here.data(), 1000};
	std::uint64_t at = 0;

	for (const unsigned long long flags :
	     {FI_COMPLETION, FI_INJECT, FI_FENCE, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
	      FI_DELIVERY_COMPLETE, FI_DELIVERY_COMPLETE | FI_FENCE | FI_INJECT}) {
		const fi_rma_iov target{at += 1000, 1000, key};
		const fi_msg_rma msg{&iov, nullptr, 1, p.b_at_a, &target, 1, ctx(at), 0};

		ASSERT_EQ(fi_writemsg(ep(), &msg, flags), 0);
		expect_done(FI_WRITE, ctx(at));
		EXPECT_TRUE(arrived(at, 1000));
		ASSERT_EQ(fi_readmsg(ep(), &msg, flags), 0);
		expect_done(FI_READ, ctx(at));
	}
	/* There is no persistent memory. */
	const fi_rma_iov target{0, 1000, key};
	const fi_msg_rma msg{&iov, nullptr, 1, p.b_at_a, &target, 1, nullptr, 0};
	EXPECT_EQ(fi_writemsg(ep(), &msg, FI_COMMIT_COMPLETE), -FI_EBADFLAGS);
}

// conformance: fi_rma(3): FI_MORE; FI_INJECT, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
//   FI_DELIVERY_COMPLETE: a write is delivered when it completes
TEST_F(Rma, MoreAnnouncesOthers)
{
	const iovec iov{here.data(), 8};

	for (unsigned int i = 0; i < 4; ++i) {
		const fi_rma_iov target{i * 8, 8, key};
		const fi_msg_rma msg{&iov, nullptr, 1, p.b_at_a, &target, 1, ctx(i), 0};
		ASSERT_EQ(fi_writemsg(ep(), &msg, i < 3 ? FI_MORE : 0), 0);
	}
	for (unsigned int i = 0; i < 4; ++i) {
		expect_done(FI_WRITE, ctx(i));
		EXPECT_TRUE(arrived(i * 8, 8));
	}
}

struct Selective : Rma {
	Selective() : Rma({.cq_flags = FI_SELECTIVE_COMPLETION}) {}
};

// conformance: fi_rma(3): FI_COMPLETION, with FI_SELECTIVE_COMPLETION
TEST_F(Selective, CompletionsAreReportedOnRequest)
{
	const iovec iov{here.data(), 8};
	const fi_rma_iov target{0, 8, key};
	const fi_msg_rma msg{&iov, nullptr, 1, p.b_at_a, &target, 1, ctx(1), 0};

	ASSERT_EQ(fi_write(ep(), here.data(), 8, nullptr, p.b_at_a, 0, key, ctx(2)), 0);
	ASSERT_EQ(fi_readmsg(ep(), &msg, 0), 0);
	EXPECT_TRUE(is_silent(cq()));
	ASSERT_EQ(fi_writemsg(ep(), &msg, FI_COMPLETION), 0);
	expect_done(FI_WRITE, ctx(1));
	/* Errors are always reported. */
	ASSERT_EQ(fi_write(ep(), here.data(), 8, nullptr, p.b_at_a, 0, 999, ctx(3)), 0);
	EXPECT_EQ(next_error(cq()).op_context, ctx(3));
}

// conformance: fi_rma(3): FI_FENCE: the operation and all behind it wait for all before it, to that
//   peer
TEST_F(Rma, AFenceWaitsForAllBefore)
{
	char received[8];
	const iovec iov{here.data(), 8};
	const fi_rma_iov target{0, 8, key};
	const fi_msg_rma fenced{&iov, nullptr, 1, p.b_at_a, &target, 1, ctx(2), 0};
	const fi_msg held{&iov, nullptr, 1, p.b_at_a, ctx(1), 0};

	ASSERT_EQ(fi_sendmsg(ep(), &held, FI_DELIVERY_COMPLETE), 0);
	ASSERT_EQ(fi_writemsg(ep(), &fenced, FI_FENCE), 0);
	ASSERT_EQ(fi_write(ep(), here.data() + 8, 8, nullptr, p.b_at_a, 8, key, ctx(3)), 0);
	ASSERT_EQ(fi_write(ep(), here.data() + 8, 8, nullptr, p.b_at_a, 16, key, ctx(4)), 0);
	EXPECT_TRUE(is_silent(cq()));
	EXPECT_TRUE(untouched(0, 24));
	EXPECT_EQ(fi_cancel(&ep()->fid, ctx(4)), 0);
	const auto canceled = next_error(cq());
	EXPECT_EQ(canceled.op_context, ctx(4));
	EXPECT_EQ(canceled.err, FI_ECANCELED);
	ASSERT_EQ(fi_recv(p.b.ep.get(), received, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	EXPECT_EQ(next(cq()).op_context, ctx(1));
	expect_done(FI_WRITE, ctx(2));
	expect_done(FI_WRITE, ctx(3));
	EXPECT_TRUE(arrived(0, 16));
	EXPECT_TRUE(untouched(16, 8));
}

/* fi_endpoint(3), msg_order: all orders. */
TEST_F(Rma, ReadsWritesAndSendsKeepTheirOrder)
{
	std::uint64_t value = 0, got = 0;
	char received[8];

	for (value = 1; value <= 10; ++value) {
		ASSERT_EQ(fi_recv(p.b.ep.get(), received, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
		ASSERT_EQ(fi_write(ep(), here.data(), large, nullptr, p.b_at_a, 0, key, ctx(1)), 0);
		ASSERT_EQ(fi_write(ep(), &value, 8, nullptr, p.b_at_a, 0, key, ctx(2)), 0);
		ASSERT_EQ(fi_read(ep(), &got, 8, nullptr, p.b_at_a, 0, key, ctx(3)), 0);
		ASSERT_EQ(fi_send(ep(), &value, 8, nullptr, p.b_at_a, ctx(4)), 0);
		next(p.b.rx_cq.get());
		EXPECT_EQ(std::memcmp(there.data(), &value, 8), 0);
		EXPECT_TRUE(arrived(8, large - 8, 8));
		for (std::uintptr_t i = 1; i <= 4; ++i)
			EXPECT_EQ(next(cq()).op_context, ctx(i));
		EXPECT_EQ(got, value);
	}
}

/* --- keys, addresses, errors ------------------------------------------------------------ */

struct Basic : Rma {
	Basic() : Rma({}, FI_MR_BASIC) {}
};

// conformance: fi_rma(3): addr: virtual with FI_MR_BASIC (FI_MR_VIRT_ADDR), else an offset
TEST_F(Basic, AddressesAreVirtual)
{
	const auto base = reinterpret_cast<std::uintptr_t>(there.data());

	ASSERT_EQ(fi_write(ep(), here.data(), 10, nullptr, p.b_at_a, base + 20, key, ctx(1)), 0);
	expect_done(FI_WRITE, ctx(1));
	EXPECT_TRUE(arrived(20, 10));
	ASSERT_EQ(fi_write(ep(), here.data(), 10, nullptr, p.b_at_a, 20, key, ctx(1)), 0);
	EXPECT_EQ(next_error(cq()).op_context, ctx(1));
}

/* Hints with these mode bits and no others. */
class Wanted : public Rma
{
protected:
	Wanted() : Rma({}, FI_MR_PROV_KEY | FI_MR_VIRT_ADDR) {}
};

TEST_F(Wanted, KeysAreTheProvidersAndAddressesVirtual)
{
	const auto base = reinterpret_cast<std::uintptr_t>(there.data());

	EXPECT_NE(key, 7u);
	ASSERT_EQ(fi_write(ep(), here.data(), 10, nullptr, p.b_at_a, base + 20, key, ctx(1)), 0);
	expect_done(FI_WRITE, ctx(1));
	EXPECT_TRUE(arrived(20, 10));
}

// conformance: fi_domain(3): resource management: unmatched RMA and RMA overrun are transmit
//   errors: FI_EKEYREJECTED, FI_EREMOTEIO
TEST_F(Rma, ErrorsAreReported)
{
	const auto ro = reg(p.node, there.data(), 100, 20, FI_REMOTE_READ);
	const auto wo = reg(p.node, there.data(), 100, 21, FI_REMOTE_WRITE);
	const struct {
		bool write;
		std::uint64_t at, key;
		int error;
	} cases[] = {
		{true, 0, 999, FI_EKEYREJECTED}, {false, 0, 999, FI_EKEYREJECTED},
		{true, 0, 20, FI_EACCES},	 {false, 0, 21, FI_EACCES},
		{true, 95, 21, FI_EREMOTEIO},	 {false, large, key, FI_EREMOTEIO},
	};

	for (const auto &c : cases) {
		const auto call = c.write ? fi_write(ep(), here.data(), 8, nullptr, p.b_at_a, c.at,
						     c.key, ctx(c.key)) :
					    fi_read(ep(), here.data(), 8, nullptr, p.b_at_a, c.at,
						    c.key, ctx(c.key));
		ASSERT_EQ(call, 0);
		const auto error = next_error(cq());
		EXPECT_EQ(error.err, c.error) << c.key;
		EXPECT_EQ(error.op_context, ctx(c.key));
		EXPECT_EQ(error.flags, FI_RMA | (c.write ? FI_WRITE : FI_READ));
	}
	EXPECT_TRUE(untouched(0, large));
	mr.reset();
	ASSERT_EQ(fi_write(ep(), here.data(), 8, nullptr, p.b_at_a, 0, key, ctx(1)), 0);
	EXPECT_EQ(next_error(cq()).err, FI_EKEYREJECTED);
}

// conformance: fi_getinfo(3): FI_READ and so on restrict the operations of an endpoint, as
//   initiator (calls are absent) and as target (FI_EACCES at the initiator; FI_ECONNREFUSED without
//   FI_MSG and FI_TAGGED)
TEST(RmaCaps, CallsWithoutTheirCapabilityAreAbsent)
{
	Pair writer(hints_for(FI_MSG | FI_RMA | FI_WRITE));
	Pair none(hints_for(FI_MSG));
	char buf[8]{};

	EXPECT_EQ(fi_read(writer.a.ep.get(), buf, 8, nullptr, writer.b_at_a, 0, 1, nullptr),
		  -FI_ENOSYS);
	EXPECT_EQ(fi_write(none.a.ep.get(), buf, 8, nullptr, none.b_at_a, 0, 1, nullptr),
		  -FI_ENOSYS);
	ASSERT_EQ(fi_write(writer.a.ep.get(), buf, 8, nullptr, writer.b_at_a, 0, 1, nullptr), 0);
	EXPECT_EQ(next_error(writer.a.tx_cq.get()).err, FI_EKEYREJECTED);
}

/* fi_getinfo(3): FI_RMA, FI_ATOMIC, and how FI_REMOTE_READ and FI_REMOTE_WRITE limit them. */
// conformance: fi_getinfo(3): FI_READ and so on restrict the operations of an endpoint, as ...
TEST(RmaCaps, PeersMayUseTheTargetsCapabilities)
{
	const struct {
		std::uint64_t caps;
		bool read, write, fetch, add;
	} targets[] = {
		{FI_MSG | FI_RMA | FI_ATOMIC, true, true, true, true},
		{FI_MSG, false, false, false, false},
		{FI_MSG | FI_RMA, true, true, false, false},
		{FI_ATOMIC, false, false, true, true},
		{FI_RMA | FI_REMOTE_READ, true, false, false, false},
		{FI_RMA | FI_REMOTE_WRITE, false, true, false, false},
		{FI_RMA | FI_READ | FI_WRITE, false, false, false, false},
		{FI_ATOMIC | FI_REMOTE_WRITE, false, false, false, true},
	};
	Node node(hints_for(FI_MSG | FI_RMA | FI_ATOMIC));
	Side initiator(node);
	fid_ep *ep = initiator.ep.get();
	const auto outcome = [&](ssize_t rc) {
		EXPECT_EQ(rc, 0);
		fi_cq_tagged_entry entry;
		const ssize_t n = fi_cq_sread(initiator.tx_cq.get(), &entry, 1, nullptr, patience);
		return n == 1 ? 0 : next_error(initiator.tx_cq.get()).err;
	};

	for (const auto &target : targets) {
		Node target_node(hints_for(target.caps));
		Side side(target_node);
		std::uint64_t there = 3, here = 0, one = 1;
		fid_mr *region = nullptr;

		SCOPED_TRACE(fi_tostr(&target.caps, FI_TYPE_CAPS));
		/* The region grants both to peers, whatever endpoints do. */
		ASSERT_EQ(fi_mr_reg(target_node.domain.get(), &there, sizeof(there),
				    FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &region, nullptr),
			  0);
		const Owned<fid_mr> mr(region);
		const std::uint64_t key = fi_mr_key(region);
		const fi_addr_t to = initiator.insert(side.ep.get());
		const auto denied = [](bool allowed) { return allowed ? 0 : FI_EACCES; };

		EXPECT_EQ(outcome(fi_read(ep, &here, 8, nullptr, to, 0, key, nullptr)),
			  denied(target.read));
		EXPECT_EQ(outcome(fi_write(ep, &one, 8, nullptr, to, 0, key, nullptr)),
			  denied(target.write));
		EXPECT_EQ(outcome(fi_fetch_atomic(ep, nullptr, 1, nullptr, &here, nullptr, to, 0,
						  key, FI_UINT64, FI_ATOMIC_READ, nullptr)),
			  denied(target.fetch));
		EXPECT_EQ(outcome(fi_atomic(ep, &one, 1, nullptr, to, 0, key, FI_UINT64, FI_SUM,
					    nullptr)),
			  denied(target.add));
		EXPECT_EQ(there, (target.write ? 1u : 3u) + target.add);
	}
}

/* The target could not receive a message. */
// conformance: fi_getinfo(3): FI_READ and so on restrict the operations of an endpoint, as ...
TEST(RmaCaps, ATargetWithoutMessagesIsSentNone)
{
	Node node(hints_for(FI_MSG | FI_TAGGED)), target_node(hints_for(FI_RMA));
	Side from(node), to(target_node);

	ASSERT_EQ(fi_send(from.ep.get(), "x", 1, nullptr, from.insert(to.ep.get()), ctx(1)), 0);
	EXPECT_EQ(next_error(from.tx_cq.get()).err, FI_ECONNREFUSED);
}

/* --- counters --------------------------------------------------------------------------- */

/* fi_cntr(3), fi_ep_bind: FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE; fi_mr_bind. */
TEST(RmaCounters, CountAtBothSides)
{
	Node node(hints_for(rma_caps));
	const auto av = node.av();
	const auto cq = node.cq();
	const auto reads = node.cntr(), writes = node.cntr(), remote_reads = node.cntr(),
		   remote_writes = node.cntr(), region = node.cntr();
	std::vector<std::uint8_t> there(100), here(100);
	const auto mr = reg(node, there.data(), 100, 1);
	const auto ep = node.ep();
	fi_addr_t self;

	ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &reads->fid, FI_READ), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &writes->fid, FI_WRITE), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &remote_reads->fid, FI_REMOTE_READ), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &remote_writes->fid, FI_REMOTE_WRITE), 0);
	ASSERT_EQ(fi_mr_bind(mr.get(), &region->fid, FI_REMOTE_WRITE), 0);
	ASSERT_EQ(fi_enable(ep.get()), 0);
	ASSERT_EQ(fi_av_insert(av.get(), address_of(ep.get()).data(), 1, &self, 0, nullptr), 1);
	for (int i = 0; i < 3; ++i)
		ASSERT_EQ(fi_write(ep.get(), here.data(), 8, nullptr, self, 0, 1, nullptr), 0);
	ASSERT_EQ(fi_read(ep.get(), here.data(), 8, nullptr, self, 0, 1, nullptr), 0);
	ASSERT_EQ(fi_read(ep.get(), here.data(), 8, nullptr, self, 100, 1, nullptr), 0);
	EXPECT_TRUE(reaches(writes.get(), 3));
	EXPECT_TRUE(reaches(remote_writes.get(), 3));
	EXPECT_TRUE(reaches(region.get(), 3));
	EXPECT_TRUE(reaches(remote_reads.get(), 1));
	EXPECT_EQ(fi_cntr_read(reads.get()), 1u);
	EXPECT_EQ(fi_cntr_readerr(reads.get()), 1u);
	EXPECT_EQ(fi_cntr_readerr(remote_reads.get()), 0u);
}

/* --- triggered -------------------------------------------------------------------------- */

TEST_F(Rma, TriggeredWritesAndReads)
{
	const auto cntr = p.node.cntr();
	std::vector<std::uint8_t> to(8);
	const iovec out{here.data(), 8}, in{to.data(), 8};
	const fi_rma_iov target{0, 8, key};
	fi_triggered_context first{}, second{};
	fi_msg_rma msg{&out, nullptr, 1, p.b_at_a, &target, 1, &first, 0};

	first.event_type = second.event_type = FI_TRIGGER_THRESHOLD;
	first.trigger.threshold = {cntr.get(), 1};
	second.trigger.threshold = {cntr.get(), 2};
	ASSERT_EQ(fi_writemsg(ep(), &msg, FI_TRIGGER), 0);
	msg.msg_iov = &in;
	msg.context = &second;
	ASSERT_EQ(fi_readmsg(ep(), &msg, FI_TRIGGER), 0);
	EXPECT_TRUE(is_silent(cq()));
	EXPECT_TRUE(untouched(0, 8));
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	expect_done(FI_WRITE, &first);
	EXPECT_TRUE(arrived(0, 8));
	EXPECT_TRUE(is_silent(cq()));
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	expect_done(FI_READ, &second);
	EXPECT_TRUE(std::equal(to.begin(), to.end(), here.begin()));
}

TEST_F(Rma, DeferredWritesAndReads)
{
	const auto cntr = p.node.cntr(), done = p.node.cntr();
	std::vector<std::uint8_t> to(8);
	const iovec out{here.data(), 8}, in{to.data(), 8};
	const fi_rma_iov target{0, 8, key}, wrong{0, 8, 999};
	fi_op_rma write{ep(),
			{&out, nullptr, 1, p.b_at_a, &target, 1, ctx(1), 42},
			FI_REMOTE_CQ_DATA | FI_COMPLETION};
	fi_op_rma read{ep(), {&in, nullptr, 1, p.b_at_a, &target, 1, ctx(2), 0}, 0};
	fi_op_rma fails{ep(), {&in, nullptr, 1, p.b_at_a, &wrong, 1, ctx(3), 0}, 0};
	fi_deferred_work work[4]{};

	for (auto &w : work) {
		w.triggering_cntr = &w == work ? cntr.get() : done.get();
		w.threshold = static_cast<std::uint64_t>(&w == work ? 1 : &w - work);
		w.completion_cntr = done.get();
		w.op_type = &w == work ? FI_OP_WRITE : FI_OP_READ;
	}
	work[0].op.rma = &write;
	work[1].op.rma = &read;
	work[2].op.rma = &fails;
	work[3].op.rma = &read;
	work[3].threshold = 1000;
	for (auto &w : work)
		ASSERT_EQ(fi_control(&p.node.domain->fid, FI_QUEUE_WORK, &w), 0);
	EXPECT_TRUE(untouched(0, 8));
	ASSERT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	const auto entry = next(p.b.rx_cq.get());
	EXPECT_EQ(entry.data, 42u);
	EXPECT_TRUE(arrived(0, 8));
	EXPECT_TRUE(reaches(done.get(), 2));
	EXPECT_TRUE(std::equal(to.begin(), to.end(), here.begin()));
	for (int i = 0; i < 1000 && !fi_cntr_readerr(done.get()); ++i)
		is_silent(p.b.rx_cq.get());
	EXPECT_EQ(fi_cntr_readerr(done.get()), 1u);
	expect_done(FI_WRITE, ctx(1));
	EXPECT_TRUE(is_silent(cq()));
	EXPECT_EQ(fi_control(&p.node.domain->fid, FI_CANCEL_WORK, &work[3]), 0);
	EXPECT_EQ(fi_control(&p.node.domain->fid, FI_FLUSH_WORK, nullptr), 0);
}

} // namespace
