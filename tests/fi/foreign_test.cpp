// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * An argument that is NULL, of another class, or of another provider: -FI_EINVAL, and a line in the
 * log.
 */
#include "node.h"

#include <functional>

#include <poll.h>
#include <sys/mman.h>

#include <rdma/fi_collective.h>
#include <rdma/fi_eq.h>

#include <treadle/fi_treadle.h>

namespace
{

/* A fid of another provider, at the end of a page: a read beyond it ends the program. */
template <class Fid> class Foreign
{
public:
	explicit Foreign(std::size_t fclass)
	{
		static fi_ops ops{};

		page_ = static_cast<char *>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE,
						 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		mprotect(page_ + 4096, 4096, PROT_NONE);
		get()->fid.fclass = fclass;
		get()->fid.ops = &ops;
	}
	~Foreign() { munmap(page_, 8192); }
	Fid *get() const { return reinterpret_cast<Fid *>(page_ + 4096 - sizeof(Fid)); }
	fid *f() const { return &get()->fid; }

private:
	char *page_;
};

struct Foreigners {
	Foreign<fid_domain> domain{FI_CLASS_DOMAIN};
	Foreign<fid_cntr> cntr{FI_CLASS_CNTR};
	Foreign<fid_cq> cq{FI_CLASS_CQ};
	Foreign<fid_eq> eq{FI_CLASS_EQ};
	Foreign<fid_av> av{FI_CLASS_AV};
	Foreign<fid_av_set> set{FI_CLASS_AV_SET};
	Foreign<fid_wait> wait{FI_CLASS_WAIT};
	Foreign<fid_ep> ep{FI_CLASS_EP}, srx{FI_CLASS_SRX_CTX};
	Foreign<fid_stx> stx{FI_CLASS_STX_CTX};
	Foreign<fid_treadle_graph> graph{FI_CLASS_UNSPEC};
};

class Foreigns : public testing::Test
{
protected:
	Foreigns() : node(hints_for(FI_MSG | FI_RMA | FI_TRIGGER | FI_COLLECTIVE)) {}

	void refused(const char *what, const std::function<int()> &call)
	{
		log.clear();
		EXPECT_EQ(call(), -FI_EINVAL) << what;
		EXPECT_NE(log.all(), "") << what;
	}

	Node node;
	Foreigners of;
	Log log;
};

TEST_F(Foreigns, AreNotBound)
{
	const auto ep = node.ep();
	const auto av = node.av(FI_EVENT);
	char memory[64];
	fid_mr *mr = nullptr;

	for (fid *f : {of.cntr.f(), of.cq.f(), of.eq.f(), of.av.f(), of.srx.f(), of.stx.f(),
		       of.ep.f(), of.domain.f(), &node.domain->fid})
		refused("endpoint", [&] { return fi_ep_bind(ep.get(), f, FI_TRANSMIT); });
	refused("domain", [&] { return fi_domain_bind(node.domain.get(), of.eq.f(), 0); });
	refused("domain", [&] { return fi_domain_bind(node.domain.get(), &ep->fid, 0); });
	refused("vector", [&] { return fi_av_bind(av.get(), of.eq.f(), 0); });
	ASSERT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof(memory), FI_REMOTE_WRITE, 0, 1, 0,
			    &mr, nullptr),
		  0);
	for (fid *f : {of.cntr.f(), of.ep.f(), of.srx.f(), &node.domain->fid})
		refused("region", [&] { return fi_mr_bind(mr, f, FI_REMOTE_WRITE); });
	EXPECT_EQ(fi_close(&mr->fid), 0);
}

TEST_F(Foreigns, AreNotWaitedForOrPolled)
{
	fid_poll *poll = nullptr;
	fid_cntr *cntr = nullptr;
	void *contexts[1];

	ASSERT_EQ(fi_poll_open(node.domain.get(), nullptr, &poll), 0);
	for (fid *f : {of.cntr.f(), of.cq.f(), &node.domain->fid, static_cast<fid *>(nullptr)})
		refused("poll_add", [&] { return fi_poll_add(poll, f, 0); });
	refused("poll", [&] { return fi_poll(poll, nullptr, 1); });
	EXPECT_EQ(fi_poll(poll, contexts, 1), 0);
	EXPECT_EQ(fi_close(&poll->fid), 0);
	for (fid *f : {of.cntr.f(), of.cq.f(), of.eq.f(), of.wait.f(), &node.domain->fid,
		       static_cast<fid *>(nullptr)})
		refused("trywait", [&] { return fi_trywait(node.fabric.get(), &f, 1); });
	refused("trywait", [&] { return fi_trywait(node.fabric.get(), nullptr, 1); });
	fi_cntr_attr attr{};
	attr.wait_obj = FI_WAIT_SET;
	attr.wait_set = of.wait.get();
	refused("wait set", [&] { return fi_cntr_open(node.domain.get(), &attr, &cntr, nullptr); });
	const auto polled = node.cntr(FI_WAIT_POLLFD);
	fi_wait_pollfd list{0, 1, nullptr};
	refused("GETWAIT", [&] { return fi_control(&polled->fid, FI_GETWAIT, &list); });
}

TEST_F(Foreigns, AreNotTransferredBy)
{
	Side side(node);
	const fi_addr_t self = side.insert(side.ep.get());
	const auto cntr = node.cntr();
	fi_triggered_context context{};
	char c = 0;
	iovec iov{&c, 1};
	fi_msg msg{&iov, nullptr, 1, self, &context, 0};
	fi_op_msg op{side.ep.get(), msg, 0};
	fi_op_cntr add{of.cntr.get(), 1};
	fi_deferred_work work{};

	context.event_type = FI_TRIGGER_THRESHOLD;
	context.trigger.threshold.cntr = of.cntr.get();
	refused("trigger", [&] { return int(fi_sendmsg(side.ep.get(), &msg, FI_TRIGGER)); });
	const auto queue = [&] { return fi_control(&node.domain->fid, FI_QUEUE_WORK, &work); };
	work.op_type = FI_OP_SEND;
	work.op.msg = &op;
	work.triggering_cntr = of.cntr.get();
	refused("triggering_cntr", queue);
	refused("cancel", [&] { return fi_control(&node.domain->fid, FI_CANCEL_WORK, &work); });
	refused("flush", [&] { return fi_control(&node.domain->fid, FI_FLUSH_WORK, of.cntr.f()); });
	work.triggering_cntr = cntr.get();
	work.completion_cntr = of.cntr.get();
	refused("completion_cntr", queue);
	work.completion_cntr = nullptr;
	op.ep = of.ep.get();
	refused("ep", queue);
	work.op_type = FI_OP_CNTR_ADD;
	work.op.cntr = &add;
	refused("op.cntr", queue);
}

TEST_F(Foreigns, AreNoSets)
{
	Side side(node);
	fi_av_set_attr attr{};
	fid_av_set *set = nullptr;
	fid_mc *mc = nullptr;
	fi_collective_addr addr{of.set.get(), FI_ADDR_NOTAVAIL};
	const auto eq = node.eq();

	attr.start_addr = attr.end_addr = FI_ADDR_NOTAVAIL;
	ASSERT_EQ(fi_av_set(side.av.get(), &attr, &set, nullptr), 0);
	for (fid_av_set *other : {of.set.get(), static_cast<fid_av_set *>(nullptr)}) {
		refused("union", [&] { return fi_av_set_union(set, other); });
		refused("intersect", [&] { return fi_av_set_intersect(set, other); });
		refused("diff", [&] { return fi_av_set_diff(set, other); });
	}
	ASSERT_EQ(fi_domain_bind(node.domain.get(), &eq->fid, 0), 0);
	refused("join", [&] { return fi_join(side.ep.get(), &addr, FI_COLLECTIVE, &mc, nullptr); });
	EXPECT_EQ(fi_close(&set->fid), 0);
	side.ep.reset();
	side.av.reset();
	side.tx_cq.reset();
	side.rx_cq.reset();
	node.domain.reset();
}

TEST_F(Foreigns, ReachNoCallOfThisProvidersOwn)
{
	void *opened = nullptr;
	fid_treadle_graph *graph = nullptr;
	fid_mr *mr = nullptr;
	treadle_query limits;
	int fd;
	fi_mr_attr attr{};
	fi_deferred_work work{};
	std::uint32_t number = 0;
	const auto cntr = node.cntr();
	fi_op_cntr add{cntr.get(), 1};

	ASSERT_EQ(fi_open_ops(&node.domain->fid, FI_TREADLE_DOMAIN_OPS_1, 0, &opened, nullptr), 0);
	auto *const ops = static_cast<fi_treadle_ops_domain *>(opened);
	ASSERT_EQ(fi_open_ops(&node.domain->fid, FI_TREADLE_GRAPH_OPS_1, 0, &opened, nullptr), 0);
	auto *const graphs = static_cast<fi_treadle_ops_graph *>(opened);
	for (fid_domain *domain : {of.domain.get(), static_cast<fid_domain *>(nullptr)}) {
		refused("query", [&] { return ops->query(domain, &limits); });
		refused("getfd", [&] { return ops->getfd(domain, &fd); });
		refused("regpinned", [&] { return ops->mr_regpinned(domain, &attr, 0, &mr); });
		refused("open", [&] { return graphs->graph_open(domain, &graph, nullptr); });
	}
	fid_domain *const own = node.domain.get();
	refused("query", [&] { return ops->query(own, nullptr); });
	refused("getfd", [&] { return ops->getfd(own, nullptr); });
	refused("regpinned", [&] { return ops->mr_regpinned(own, nullptr, 0, &mr); });
	refused("open", [&] { return graphs->graph_open(own, nullptr, nullptr); });

	auto *const wrong = reinterpret_cast<fid_treadle_graph *>(cntr.get());
	std::size_t size = 100;
	char text[100];
	for (fid_treadle_graph *g :
	     {of.graph.get(), wrong, static_cast<fid_treadle_graph *>(nullptr)}) {
		refused("add", [&] { return graphs->graph_add(g, &work, nullptr, 0, nullptr); });
		refused("order", [&] { return graphs->graph_order(g, 0, 0); });
		refused("install", [&] { return graphs->graph_install(g, nullptr, nullptr); });
		refused("launch", [&] { return graphs->graph_launch(g); });
		refused("wait", [&] { return graphs->graph_wait(g, 0); });
		refused("cancel", [&] { return graphs->graph_cancel(g); });
		refused("print",
			[&] { return graphs->graph_print(g, FI_TREADLE_GRAPH_TEXT, text, &size); });
	}
	ASSERT_EQ(graphs->graph_open(own, &graph, nullptr), 0);
	refused("add", [&] { return graphs->graph_add(graph, nullptr, nullptr, 0, nullptr); });
	work.op_type = FI_OP_CNTR_ADD;
	refused("add", [&] { return graphs->graph_add(graph, &work, nullptr, 0, nullptr); });
	work.op.cntr = &add;
	refused("add", [&] { return graphs->graph_add(graph, &work, nullptr, 1, nullptr); });
	add.cntr = of.cntr.get();
	refused("add", [&] { return graphs->graph_add(graph, &work, nullptr, 0, nullptr); });
	add.cntr = cntr.get();
	EXPECT_EQ(graphs->graph_add(graph, &work, nullptr, 0, &number), 0);
	refused("install", [&] { return graphs->graph_install(graph, of.cntr.get(), nullptr); });
	refused("install", [&] { return graphs->graph_install(graph, nullptr, of.cntr.get()); });
	auto *const no_cntr = reinterpret_cast<fid_cntr *>(own);
	refused("install", [&] { return graphs->graph_install(graph, no_cntr, nullptr); });
	refused("print",
		[&] { return graphs->graph_print(graph, FI_TREADLE_GRAPH_TEXT, text, nullptr); });
	refused("print",
		[&] { return graphs->graph_print(graph, FI_TREADLE_GRAPH_TEXT, nullptr, &size); });
	EXPECT_EQ(fi_close(&graph->fid), 0);
}

/* The place for the new object is missing. */
TEST_F(Foreigns, NothingIsOpenedIntoNothing)
{
	fid_domain *const domain = node.domain.get();
	fid_fabric *const fabric = node.fabric.get();
	const auto av = node.av();
	const auto ep = node.ep();
	fi_cq_attr cq{};
	fi_cntr_attr cntr{};
	fi_av_attr vector{};
	fi_av_set_attr set{};
	struct fi_alias alias {
		nullptr, FI_TRANSMIT
	};
	fi_info *const info = node.info.get();

	refused("domain", [&] { return fi_domain(fabric, info, nullptr, nullptr); });
	refused("pep", [&] { return fi_passive_ep(fabric, info, nullptr, nullptr); });
	refused("eq", [&] { return fi_eq_open(fabric, nullptr, nullptr, nullptr); });
	refused("wait", [&] { return fi_wait_open(fabric, nullptr, nullptr); });
	refused("av", [&] { return fi_av_open(domain, &vector, nullptr, nullptr); });
	refused("cq", [&] { return fi_cq_open(domain, &cq, nullptr, nullptr); });
	refused("cntr", [&] { return fi_cntr_open(domain, &cntr, nullptr, nullptr); });
	refused("poll", [&] { return fi_poll_open(domain, nullptr, nullptr); });
	refused("ep", [&] { return fi_endpoint(domain, info, nullptr, nullptr); });
	refused("sep", [&] { return fi_scalable_ep(domain, info, nullptr, nullptr); });
	refused("stx", [&] { return fi_stx_context(domain, nullptr, nullptr, nullptr); });
	refused("srx", [&] { return fi_srx_context(domain, nullptr, nullptr, nullptr); });
	refused("set", [&] { return fi_av_set(av.get(), &set, nullptr, nullptr); });
	refused("tx", [&] { return fi_tx_context(ep.get(), 0, nullptr, nullptr, nullptr); });
	refused("rx", [&] { return fi_rx_context(ep.get(), 0, nullptr, nullptr, nullptr); });
	refused("join", [&] { return fi_join(ep.get(), nullptr, 0, nullptr, nullptr); });
	refused("alias", [&] { return fi_control(&ep->fid, FI_ALIAS, &alias); });
	const auto queue = node.cq();
	const auto events = node.eq();
	refused("cq", [&] { return int(fi_cq_readerr(queue.get(), nullptr, 0)); });
	refused("eq", [&] { return int(fi_eq_readerr(events.get(), nullptr, 0)); });
}

} // namespace
