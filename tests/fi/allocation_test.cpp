// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Nothing on the data path allocates memory, nor locks anything where the threading level makes
 * that needless (fi_domain(3)): neither calls that post, nor calls that look for completions.
 */
#include "node.h"

#include <functional>
#include <mutex>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <treadle/threading.h>

#include "../lib/allocations.h"
#include "locks.h"

namespace
{

constexpr std::uint64_t key = 5, tag = 3;

class Allocation : public testing::TestWithParam<fi_threading>
{
protected:
	Allocation() : p(hints(), options()), cntr(p.node.cntr())
	{
		fid_mr *opened = nullptr;

		EXPECT_EQ(fi_mr_reg(p.node.domain.get(), there, sizeof(there),
				    FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &opened, nullptr),
			  0);
		mr.reset(opened);
		trigger.event_type = FI_TRIGGER_THRESHOLD;
		trigger.trigger.threshold = {cntr.get(), 0};
	}
	static Info hints()
	{
		Info out =
			hints_for(FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER | FI_SOURCE);

		out->domain_attr->threading = GetParam();
		return out;
	}
	static Side::Options options()
	{
		Side::Options out;

		out.counters = true;
		return out;
	}

	/*
	 * Expects no allocation in any call, including the first. A failure prints its own message,
	 * as printing allocates.
	 */
	void expect_none(const char *name, const std::function<ssize_t()> &post, bool received,
			 bool sent = true)
	{
		for (int i = 0; i < 100; ++i) {
			fi_cq_tagged_entry entries[2]{};
			fi_addr_t src = FI_ADDR_NOTAVAIL;
			ssize_t posted = -1, n[2] = {1, 1};
			const auto transfer = [&] {
				posted = post();
				if (sent)
					while ((n[0] = fi_cq_read(p.a.tx_cq.get(), &entries[0],
								  1)) == -FI_EAGAIN)
						;
				if (received)
					n[1] = fi_cq_sreadfrom(p.b.rx_cq.get(), &entries[1], 1,
							       &src, nullptr, patience);
			};

			if (i == 99) {
				const int locked = locks::of(transfer);
				ASSERT_EQ(locked > 0, GetParam() == FI_THREAD_SAFE)
					<< name << ": " << locked << " locks";
			} else {
				ASSERT_EQ(allocations::of(transfer), 0) << name << ", number " << i;
			}
			ASSERT_EQ(posted, 0) << name;
			ASSERT_EQ(n[0], 1) << name;
			ASSERT_EQ(n[1], 1) << name;
		}
	}
	void expect_none(const char *name, const std::function<ssize_t()> &post)
	{
		expect_none(name, post, false);
	}

	Pair p;
	Owned<fid_cntr> cntr;
	Owned<fid_mr> mr;
	fi_triggered_context trigger{};
	std::uint64_t here[8]{}, there[8]{}, in[8]{}, old = 0, compare = 0;
};

// conformance: fi_domain(3): FI_THREAD_FID, ENDPOINT, COMPLETION, DOMAIN: rings and queues take ...
TEST_P(Allocation, MessagesNeedNone)
{
	fid_ep *const a = p.a.ep.get(), *const b = p.b.ep.get();
	const fi_addr_t to = p.b_at_a;
	const iovec from[2] = {{here, 8}, {here + 1, 8}}, at[2] = {{in, 8}, {in + 1, 8}};
	const auto after = [](ssize_t rc, ssize_t then) { return rc ?: then; };

	expect_none(
		"send",
		[&] {
			return after(fi_recv(b, in, 64, nullptr, FI_ADDR_UNSPEC, ctx(1)),
				     fi_send(a, here, 64, nullptr, to, ctx(2)));
		},
		true);
	expect_none(
		"sendv",
		[&] {
			return after(fi_recvv(b, at, nullptr, 2, FI_ADDR_UNSPEC, ctx(1)),
				     fi_sendv(a, from, nullptr, 2, to, ctx(2)));
		},
		true);
	expect_none(
		"sendmsg",
		[&] {
			const fi_msg recv{at, nullptr, 2, FI_ADDR_UNSPEC, ctx(1), 0};
			const fi_msg send{from, nullptr, 2, to, ctx(2), 9};
			return after(fi_recvmsg(b, &recv, 0),
				     fi_sendmsg(a, &send, FI_REMOTE_CQ_DATA));
		},
		true);
	expect_none(
		"inject, before it is received",
		[&] {
			return after(fi_inject(a, here, 64, to),
				     fi_recv(b, in, 64, nullptr, FI_ADDR_UNSPEC, ctx(1)));
		},
		true, false);
	expect_none(
		"FI_TRIGGER",
		[&] {
			const fi_msg send{from, nullptr, 1, to, &trigger, 0};
			return after(fi_recv(b, in, 64, nullptr, FI_ADDR_UNSPEC, ctx(1)),
				     fi_sendmsg(a, &send, FI_TRIGGER));
		},
		true);
	expect_none(
		"tsend",
		[&] {
			return after(fi_trecv(b, in, 64, nullptr, FI_ADDR_UNSPEC, tag, 0, ctx(1)),
				     fi_tsend(a, here, 64, nullptr, to, tag, ctx(2)));
		},
		true);
	expect_none(
		"tsenddata",
		[&] {
			return after(fi_trecv(b, in, 64, nullptr, FI_ADDR_UNSPEC, tag, 0, ctx(1)),
				     fi_tsenddata(a, here, 64, nullptr, 9, to, tag, ctx(2)));
		},
		true);
	expect_none(
		"tinject",
		[&] {
			return after(fi_trecv(b, in, 64, nullptr, FI_ADDR_UNSPEC, tag, 0, ctx(1)),
				     fi_tinject(a, here, 64, to, tag));
		},
		true, false);
}

// conformance: fi_domain(3): FI_THREAD_FID, ENDPOINT, COMPLETION, DOMAIN: rings and queues take ...
TEST_P(Allocation, RmaAndAtomicsNeedNone)
{
	fid_ep *const a = p.a.ep.get();
	const fi_addr_t to = p.b_at_a;
	const iovec iov[2] = {{here, 8}, {here + 1, 8}};
	const fi_rma_iov ranges[2] = {{0, 8, key}, {32, 8, key}};
	const fi_msg_rma msg{iov, nullptr, 2, to, ranges, 2, ctx(1), 0};

	/* The first few operations on a region open a window, which allocates. */
	for (int i = 0; i < 8; ++i) {
		fi_cq_tagged_entry done;
		ASSERT_EQ(fi_write(a, here, 64, nullptr, to, 0, key, ctx(1)), 0);
		ASSERT_EQ(fi_cq_sread(p.a.tx_cq.get(), &done, 1, nullptr, patience), 1);
	}
	expect_none("write", [&] { return fi_write(a, here, 64, nullptr, to, 0, key, ctx(1)); });
	expect_none("writev", [&] { return fi_writev(a, iov, nullptr, 2, to, 0, key, ctx(1)); });
	expect_none("writemsg", [&] { return fi_writemsg(a, &msg, 0); });
	expect_none(
		"inject_write", [&] { return fi_inject_write(a, here, 64, to, 0, key); }, false,
		false);
	expect_none("read", [&] { return fi_read(a, here, 64, nullptr, to, 0, key, ctx(1)); });
	expect_none("readmsg", [&] { return fi_readmsg(a, &msg, 0); });
	expect_none("atomic", [&] {
		return fi_atomic(a, here, 1, nullptr, to, 0, key, FI_UINT64, FI_SUM, ctx(1));
	});
	expect_none("fetch_atomic", [&] {
		return fi_fetch_atomic(a, here, 1, nullptr, &old, nullptr, to, 0, key, FI_UINT64,
				       FI_SUM, ctx(1));
	});
	expect_none("compare_atomic", [&] {
		return fi_compare_atomic(a, here, 1, nullptr, &compare, nullptr, &old, nullptr, to,
					 0, key, FI_UINT64, FI_CSWAP, ctx(1));
	});
}

// conformance: fi_domain(3): FI_THREAD_FID, ENDPOINT, COMPLETION, DOMAIN: rings and queues take ...
TEST_P(Allocation, LookingNeedsNone)
{
	fi_cq_tagged_entry entry;
	ssize_t came = 0;
	const auto look = [&] {
		for (int i = 0; i < 100; ++i) {
			came += fi_cq_read(p.b.rx_cq.get(), &entry, 1) != -FI_EAGAIN;
			came += fi_cq_sread(p.b.rx_cq.get(), &entry, 1, nullptr, 0) != -FI_EAGAIN;
			came += fi_cntr_read(p.b.received.get());
			came += fi_cntr_readerr(p.b.received.get());
			came += fi_cntr_wait(p.b.received.get(), 1, 0) != -FI_ETIMEDOUT;
		}
	};

	EXPECT_EQ(allocations::of(look), 0);
	EXPECT_EQ(locks::of(look) > 0, GetParam() == FI_THREAD_SAFE);
	EXPECT_EQ(came, 0);
}

/* Any thread's calls on the counters of a domain use its one ring. */
// conformance: fi_domain(3): FI_THREAD_FID, ENDPOINT, COMPLETION, DOMAIN: rings and queues take ...
TEST_P(Allocation, CountersAndDeferredWorkNeedNone)
{
	fid_domain *const domain = p.node.domain.get();
	fi_op_cntr add{cntr.get(), 2};
	fi_deferred_work work{};
	int rc = 0;
	const auto change = [&] {
		rc |= fi_cntr_add(cntr.get(), 1);
		rc |= fi_cntr_adderr(cntr.get(), 1);
		rc |= fi_cntr_seterr(cntr.get(), 0);
		rc |= fi_control(&domain->fid, FI_QUEUE_WORK, &work);
		rc |= fi_control(&domain->fid, FI_FLUSH_WORK, nullptr);
	};
	/* this has such an instruction that takes no lock: not for locks.h */
	const auto set = [&] { rc |= fi_cntr_set(cntr.get(), 3); };

	work.threshold = 3;
	work.triggering_cntr = cntr.get();
	work.op_type = FI_OP_CNTR_ADD;
	work.op.cntr = &add;
	for (int i = 0; i < 100; ++i) {
		ASSERT_EQ(allocations::of(set), 0);
		ASSERT_EQ(allocations::of(change), 0);
		ASSERT_EQ(rc, 0);
		ASSERT_EQ(fi_cntr_read(cntr.get()), 6u);
	}
	EXPECT_EQ(locks::of(change) > 0, GetParam() != FI_THREAD_DOMAIN);
}

/* Checks the check: an allocation in the provider, to open an object, is noticed. */
TEST_P(Allocation, AnAllocationIsNoticed)
{
	fid_cntr *opened = nullptr;

	EXPECT_GT(allocations::of([&] {
			  (void)fi_cntr_open(p.node.domain.get(), nullptr, &opened, nullptr);
		  }),
		  0);
	ASSERT_NE(opened, nullptr);
	EXPECT_EQ(fi_close(&opened->fid), 0);
}

/* Checks the check: both kinds of locks are noticed. */
TEST(Locks, AreNoticed)
{
	std::mutex theirs;
	treadle::Mutex ours;

	EXPECT_GT(locks::of([&] { const std::lock_guard guard(theirs); }), 0);
	EXPECT_GT(locks::of([&] { const std::lock_guard guard(ours); }), 0);
	EXPECT_EQ(locks::of([] {}), 0);
}

/* Shared contexts need no lock only if one thread uses the whole domain. */
// conformance: fi_domain(3): FI_THREAD_FID, ENDPOINT, COMPLETION, DOMAIN: rings and queues take ...
TEST_P(Allocation, SharedContextsNeedNone)
{
	Info asked = hints_for(FI_MSG);
	asked->domain_attr->threading = GetParam();
	asked->ep_attr->tx_ctx_cnt = asked->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	const Node node(std::move(asked));
	fid_stx *stx = nullptr;
	fid_ep *srx = nullptr;

	ASSERT_EQ(fi_stx_context(node.domain.get(), node.info->tx_attr, &stx, nullptr), 0);
	const Owned<fid_stx> tx(stx);
	ASSERT_EQ(fi_srx_context(node.domain.get(), node.info->rx_attr, &srx, nullptr), 0);
	const Owned<fid_ep> rx(srx);
	const auto av = node.av();
	const auto cq = node.cq();
	const auto ep = node.ep();
	const int caps = FI_TRANSMIT | FI_RECV;
	ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, caps), 0);
	for (fid *bound : {&av->fid, &tx->fid, &rx->fid})
		ASSERT_EQ(fi_ep_bind(ep.get(), bound, 0), 0);
	ASSERT_EQ(fi_enable(ep.get()), 0);
	fi_addr_t self = FI_ADDR_NOTAVAIL;
	ASSERT_EQ(fi_av_insert(av.get(), address_of(ep.get()).data(), 1, &self, 0, nullptr), 1);
	for (int i = 0; i < 100; ++i) {
		fi_cq_tagged_entry entries[2]{};
		ssize_t posted = -1, n = 0;
		const auto transfer = [&] {
			posted = fi_recv(rx.get(), in, 64, nullptr, FI_ADDR_UNSPEC, ctx(1)) ?:
					 fi_send(ep.get(), here, 64, nullptr, self, ctx(2));
			while (n < 2) {
				const ssize_t got = fi_cq_read(cq.get(), &entries[n], 2 - n);
				if (got > 0)
					n += got;
				else if (got != -FI_EAGAIN)
					break;
			}
		};

		if (i == 99)
			ASSERT_EQ(locks::of(transfer) > 0, GetParam() != FI_THREAD_DOMAIN);
		else
			ASSERT_EQ(allocations::of(transfer), 0) << "number " << i;
		ASSERT_EQ(posted, 0);
		ASSERT_EQ(n, 2);
	}
}

INSTANTIATE_TEST_SUITE_P(Threading, Allocation,
			 testing::Values(FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_ENDPOINT,
					 FI_THREAD_COMPLETION, FI_THREAD_DOMAIN));

} // namespace
