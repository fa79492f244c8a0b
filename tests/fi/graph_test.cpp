// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_treadle(7): graphs of deferred work, FI_TREADLE_GRAPH_OPS_1. */
// conformance: fi_domain(3): fi_open_ops opens provider specific interfaces: those of ...

#include "work.h"

#include <cstring>

#include <treadle/fi_treadle.h>

namespace
{

class Graphs : public testing::Test
{
protected:
	Graphs() : p(hints_for(FI_MSG | FI_TAGGED | FI_TRIGGER), options()), launches(p.node.cntr())
	{
		void *opened = nullptr;
		EXPECT_EQ(fi_open_ops(&p.node.domain->fid, FI_TREADLE_GRAPH_OPS_1, 0, &opened,
				      nullptr),
			  0);
		ops = static_cast<fi_treadle_ops_graph *>(opened);
		EXPECT_GE(ops->size, sizeof(*ops));
		fid_treadle_graph *made = nullptr;
		EXPECT_EQ(ops->graph_open(p.node.domain.get(), &made, this), 0);
		EXPECT_EQ(made->fid.context, this);
		graph.reset(made);
	}
	static Side::Options options()
	{
		Side::Options o;
		o.counters = true;
		return o;
	}
	std::uint32_t add(const Work &work, std::vector<std::uint32_t> after = {})
	{
		std::uint32_t node = ~0u;
		EXPECT_EQ(ops->graph_add(graph.get(), &work.work, after.data(), after.size(),
					 &node),
			  0);
		return node;
	}
	int install(fid_cntr *ended = nullptr)
	{
		return ops->graph_install(graph.get(), launches.get(), ended);
	}

	Pair p;
	Owned<fid_cntr> launches;
	fi_treadle_ops_graph *ops = nullptr;
	Owned<fid_treadle_graph> graph;
};

/* b echoes what it gets without running, once for each launch. */
TEST_F(Graphs, AreLaunchedByOneCounterAdd)
{
	constexpr int rounds = 20;
	std::uint64_t word = 0, back = 0;
	fi_cq_tagged_entry none;
	auto ended = p.node.cntr(), echoes = p.node.cntr();

	{
		const std::uint32_t got =
			add(Work(FI_OP_RECV).message(p.b.ep.get(), &word, 8, FI_ADDR_UNSPEC));
		const std::uint32_t sent =
			add(Work(FI_OP_SEND).message(p.b.ep.get(), &word, 8, p.a_at_b), {got});
		add(Work(FI_OP_CNTR_ADD).counter(echoes.get(), 10), {got, sent});
	} /* the work is copied */
	ASSERT_EQ(install(ended.get()), 0);
	EXPECT_EQ(fi_cntr_add(launches.get(), rounds), 0);
	for (std::uint64_t i = 1; i <= rounds; ++i) {
		std::uint64_t out = i * i;
		ASSERT_EQ(fi_recv(p.a.ep.get(), &back, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
		ASSERT_EQ(fi_send(p.a.ep.get(), &out, 8, nullptr, p.b_at_a, nullptr), 0);
		next(p.a.rx_cq.get());
		next(p.a.tx_cq.get());
		EXPECT_EQ(back, out);
		EXPECT_EQ(fi_cntr_wait(ended.get(), i, patience), 0);
		EXPECT_EQ(fi_cntr_read(echoes.get()), 10 * i);
	}
	EXPECT_EQ(ops->graph_wait(graph.get(), patience), 0);
	EXPECT_EQ(fi_cq_read(p.b.rx_cq.get(), &none, 1), -FI_EAGAIN);
	EXPECT_EQ(fi_cq_read(p.b.tx_cq.get(), &none, 1), -FI_EAGAIN);
	/* Also without a counter. */
	ASSERT_EQ(ops->graph_launch(graph.get()), 0);
	EXPECT_EQ(ops->graph_wait(graph.get(), 50), -FI_ETIMEDOUT);
	EXPECT_EQ(fi_cntr_read(launches.get()), rounds + 1u);
	EXPECT_EQ(ops->graph_cancel(graph.get()), 0);
	EXPECT_EQ(ops->graph_wait(graph.get(), patience), -FI_EAVAIL);
	EXPECT_EQ(fi_cntr_readerr(ended.get()), 1u);
	graph.reset();
}

/* Work launches other work, and a flush does not remove a graph. */
TEST_F(Graphs, AreLaunchedByDeferredWork)
{
	auto trigger = p.node.cntr(), count = p.node.cntr();
	Work launch(FI_OP_CNTR_ADD, trigger.get(), 5);

	add(Work(FI_OP_CNTR_ADD).counter(count.get(), 1));
	ASSERT_EQ(install(), 0);
	ASSERT_EQ(launch.counter(launches.get(), 3).queue(p.node), 0);
	EXPECT_EQ(fi_cntr_read(count.get()), 0u);
	EXPECT_EQ(fi_cntr_add(trigger.get(), 5), 0);
	EXPECT_EQ(fi_cntr_wait(count.get(), 3, patience), 0);
	EXPECT_EQ(fi_control(&p.node.domain->fid, FI_FLUSH_WORK, nullptr), 0);
	EXPECT_EQ(fi_cntr_add(launches.get(), 1), 0);
	EXPECT_EQ(fi_cntr_wait(count.get(), 4, patience), 0);
	EXPECT_EQ(ops->graph_wait(graph.get(), patience), 0);
	graph.reset();
}

TEST_F(Graphs, KeepTheObjectsThatTheyName)
{
	std::uint64_t word = 0;
	auto count = p.node.cntr();

	add(Work(FI_OP_SEND).message(p.a.ep.get(), &word, 8, p.b_at_a));
	add(Work(FI_OP_CNTR_ADD).counter(count.get(), 1));
	EXPECT_EQ(fi_close(&p.a.ep->fid), -FI_EBUSY);
	EXPECT_EQ(fi_close(&count->fid), -FI_EBUSY);
	EXPECT_EQ(fi_close(&p.node.domain->fid), -FI_EBUSY);
	ASSERT_EQ(install(), 0);
	EXPECT_EQ(fi_close(&launches->fid), -FI_EBUSY);
	graph.reset();
}

TEST_F(Graphs, RefuseInvalidWork)
{
	std::uint64_t word = 0;
	std::uint32_t node = 0;
	auto count = p.node.cntr();
	Node elsewhere(hints_for(FI_MSG | FI_TRIGGER));
	auto foreign = elsewhere.cntr();
	Work with(FI_OP_CNTR_ADD, count.get(), 1);
	Work of_another(FI_OP_CNTR_ADD);

	EXPECT_EQ(ops->graph_launch(graph.get()), -FI_EOPBADSTATE);
	EXPECT_EQ(ops->graph_add(graph.get(), &with.counter(count.get(), 1).work, nullptr, 0,
				 &node),
		  -FI_EINVAL);
	EXPECT_EQ(ops->graph_add(graph.get(), &of_another.counter(foreign.get(), 1).work, nullptr,
				 0, &node),
		  -FI_EINVAL);
	EXPECT_EQ(ops->graph_install(graph.get(), foreign.get(), nullptr), -FI_EINVAL);
	const std::uint32_t first = add(Work(FI_OP_CNTR_ADD).counter(count.get(), 1));
	const std::uint32_t second = add(Work(FI_OP_CNTR_ADD).counter(count.get(), 1), {first});
	EXPECT_EQ(ops->graph_order(graph.get(), 0, 7), -FI_EINVAL);
	EXPECT_EQ(ops->graph_order(graph.get(), second, first), 0);
	EXPECT_EQ(install(), -FI_EINVAL) << "a cycle";
	graph.reset();
	fid_treadle_graph *made = nullptr;
	ASSERT_EQ(ops->graph_open(p.node.domain.get(), &made, nullptr), 0);
	graph.reset(made);
	add(Work(FI_OP_SEND).message(p.a.ep.get(), &word, 8, p.b_at_a, FI_COMPLETION));
	EXPECT_EQ(install(), -FI_EINVAL) << "it would report each time";
	EXPECT_EQ(fi_cntr_read(count.get()), 0u);
	graph.reset();
}

TEST_F(Graphs, ShowThemselves)
{
	std::uint64_t word = 0;
	char buf[256];
	std::size_t len = sizeof(buf);
	const std::uint32_t got =
		add(Work(FI_OP_RECV).message(p.b.ep.get(), &word, 8, FI_ADDR_UNSPEC));

	add(Work(FI_OP_TSEND).tagged_message(p.b.ep.get(), &word, 4, p.a_at_b, 1), {got});
	ASSERT_EQ(ops->graph_print(graph.get(), FI_TREADLE_GRAPH_TEXT, buf, &len), 0);
	EXPECT_EQ(len, strlen(buf) + 1);
	EXPECT_TRUE(strstr(buf, "0: recv 8 bytes from any\n1: tsend 4 bytes to ")) << buf;
	EXPECT_TRUE(strstr(buf, ", after 0\n")) << buf;
	const std::size_t needed = len;
	len = 5;
	EXPECT_EQ(ops->graph_print(graph.get(), FI_TREADLE_GRAPH_TEXT, buf, &len), -FI_ETOOSMALL);
	EXPECT_EQ(len, needed);
	EXPECT_STREQ(buf, "0: r");
	len = sizeof(buf);
	ASSERT_EQ(ops->graph_print(graph.get(), FI_TREADLE_GRAPH_DOT, buf, &len), 0);
	EXPECT_TRUE(strstr(buf, "0 -> 1")) << buf;
	graph.reset();
}

} // namespace
