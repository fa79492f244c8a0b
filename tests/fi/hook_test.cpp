// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_hook(7): the application's fids are those of a hooking provider, in structures as well. */
#include "work.h"

#include <treadle/fi_treadle.h>

namespace
{

/* Set before libfabric looks for it. */
const bool hooked = setenv("FI_HOOK", "noop", 1) == 0;

class Hook : public testing::Test
{
protected:
	Hook() : p(hints_for(FI_MSG | FI_TRIGGER), options()), cntr(p.node.cntr()) {}
	static Side::Options options()
	{
		Side::Options o;
		o.counters = true;
		return o;
	}

	Pair p;
	Owned<fid_cntr> cntr;
};

TEST_F(Hook, ATriggeredSendStartsByAHookedCounter)
{
	fi_triggered_context context{};
	char out = 'x', in = 0;
	iovec iov{&out, 1};
	const fi_msg msg{&iov, nullptr, 1, p.b_at_a, &context, 0};

	ASSERT_TRUE(hooked);
	context.event_type = FI_TRIGGER_THRESHOLD;
	context.trigger.threshold.cntr = cntr.get();
	context.trigger.threshold.threshold = 1;
	ASSERT_EQ(fi_recv(p.b.ep.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_sendmsg(p.a.ep.get(), &msg, FI_TRIGGER), 0);
	EXPECT_TRUE(is_silent(p.b.rx_cq.get()));
	EXPECT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	next(p.b.rx_cq.get());
	EXPECT_EQ(in, 'x');
}

TEST_F(Hook, DeferredWorkNamesHookedObjects)
{
	char out = 'y', in = 0;
	Work work(FI_OP_SEND, cntr.get(), 1, p.a.sent.get());

	ASSERT_EQ(fi_recv(p.b.ep.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(work.message(p.a.ep.get(), &out, 1, p.b_at_a).queue(p.node), 0);
	EXPECT_EQ(work.cancel(p.node), 0);
	ASSERT_EQ(work.queue(p.node), 0);
	EXPECT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	next(p.b.rx_cq.get());
	EXPECT_EQ(in, 'y');
	EXPECT_TRUE(reaches(p.a.sent.get(), 1));
	EXPECT_EQ(fi_control(&p.node.domain->fid, FI_FLUSH_WORK, cntr.get()), 0);
}

TEST_F(Hook, OperationsOfThisProvidersOwnTakeHookedObjects)
{
	void *opened = nullptr;
	treadle_query limits{};
	fid_treadle_graph *graph = nullptr;
	char out = 'z', in = 0;

	ASSERT_EQ(fi_open_ops(&p.node.domain->fid, FI_TREADLE_DOMAIN_OPS_1, 0, &opened, nullptr),
		  0);
	EXPECT_EQ(static_cast<fi_treadle_ops_domain *>(opened)->query(p.node.domain.get(), &limits),
		  0);
	EXPECT_EQ(limits.abi_version, std::uint32_t{TREADLE_ABI_VERSION});
	ASSERT_EQ(fi_open_ops(&p.node.domain->fid, FI_TREADLE_GRAPH_OPS_1, 0, &opened, nullptr), 0);
	auto *const ops = static_cast<fi_treadle_ops_graph *>(opened);
	ASSERT_EQ(ops->graph_open(p.node.domain.get(), &graph, nullptr), 0);
	Work send(FI_OP_SEND);
	send.message(p.a.ep.get(), &out, 1, p.b_at_a);
	ASSERT_EQ(ops->graph_add(graph, &send.work, nullptr, 0, nullptr), 0);
	ASSERT_EQ(ops->graph_install(graph, cntr.get(), nullptr), 0);
	ASSERT_EQ(fi_recv(p.b.ep.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	EXPECT_EQ(fi_cntr_add(cntr.get(), 1), 0);
	next(p.b.rx_cq.get());
	EXPECT_EQ(in, 'z');
	EXPECT_EQ(ops->graph_wait(graph, patience), 0);
	EXPECT_EQ(fi_close(&graph->fid), 0);
}

} // namespace
