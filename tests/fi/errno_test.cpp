// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The errors of calls that can't be done: fi_treadle(7), LIMITATIONS. */
#include "child.h"
#include "later.h"
#include "work.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

namespace
{

/* The errors must not be FI_EAGAIN: programs would repeat the call for ever, as the limit stays. */
int lock_all_memory()
{
	Node node;
	const auto cq = node.cq();
	const auto av = node.av();
	const auto ep = node.ep();
	const rlimit most{1 << 18, 1 << 18};
	fi_cq_attr attr{};
	fi_eq_attr events{};
	fid_cq *big = nullptr;

	EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	if (setrlimit(RLIMIT_MEMLOCK, &most) || setgid(65534) || setuid(65534) ||
	    mlockall(MCL_FUTURE))
		return 2;
	attr.size = 65536;
	EXPECT_EQ(fi_cq_open(node.domain.get(), &attr, &big, nullptr), -FI_ENOMEM);
	EXPECT_EQ(fi_enable(ep.get()), -FI_ENOMEM);
	/* The stack of the queue's thread. */
	attr.size = 1;
	attr.wait_obj = FI_WAIT_MUTEX_COND;
	EXPECT_EQ(fi_cq_open(node.domain.get(), &attr, &big, nullptr), -FI_ENOMEM);
	events.wait_obj = FI_WAIT_MUTEX_COND;
	fid_eq *eq = nullptr;
	EXPECT_EQ(fi_eq_open(node.fabric.get(), &events, &eq, nullptr), -FI_ENOMEM);
	EXPECT_EQ(munlockall(), 0);
	return 0;
}

TEST(Errno, MemoryThatCanNotBeLockedIsNone)
{
	Child child([](int) { return lock_all_memory(); });

	EXPECT_EQ(child.wait(), 0);
}

/* --- receives with impossible lengths --------------------------------------------------- */

struct Receives {
	explicit Receives(fid_ep *ep) : ep(ep) {}

	void all_are_refused()
	{
		char byte;
		const iovec sum[2] = {{&byte, SIZE_MAX - address()}, {&byte, address() + 1}};
		const iovec wraps[2] = {{&byte, 1}, {&byte, SIZE_MAX}};

		for (const iovec *iov : {sum, wraps}) {
			vectors(iov, 2);
			vectors(iov + 1, iov == wraps);
		}
		EXPECT_EQ(fi_recv(ep, &byte, SIZE_MAX, nullptr, FI_ADDR_UNSPEC, nullptr),
			  -FI_EINVAL);
		EXPECT_EQ(fi_trecv(ep, &byte, SIZE_MAX, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr),
			  -FI_EINVAL);
		const fi_msg several{wraps + 1, nullptr, 1, FI_ADDR_UNSPEC, nullptr, 0};
		EXPECT_EQ(fi_recvmsg(ep, &several, FI_MULTI_RECV), -FI_EINVAL);
	}
	std::size_t address() const { return SIZE_MAX / 2; }
	void vectors(const iovec *iov, std::size_t n)
	{
		const fi_msg msg{iov, nullptr, n, FI_ADDR_UNSPEC, nullptr, 0};
		const fi_msg_tagged tagged{iov, nullptr, n, FI_ADDR_UNSPEC, 1, 0, nullptr, 0};

		if (!n)
			return;
		EXPECT_EQ(fi_recvv(ep, iov, nullptr, n, FI_ADDR_UNSPEC, nullptr), -FI_EINVAL);
		EXPECT_EQ(fi_recvmsg(ep, &msg, 0), -FI_EINVAL);
		EXPECT_EQ(fi_trecvv(ep, iov, nullptr, n, FI_ADDR_UNSPEC, 1, 0, nullptr),
			  -FI_EINVAL);
		EXPECT_EQ(fi_trecvmsg(ep, &tagged, 0), -FI_EINVAL);
	}

	fid_ep *const ep;
};

TEST(Errno, AReceiveOfAWrappingLengthIsRefusedWhenItIsPosted)
{
	Pair p(hints_for(FI_MSG | FI_TAGGED | FI_TRIGGER | FI_MULTI_RECV));
	char in = 0;
	fid_ep *srx = nullptr;
	Log log;

	Receives(p.b.ep.get()).all_are_refused();
	EXPECT_TRUE(log.has("behind the last address")) << log.all();
	ASSERT_EQ(fi_srx_context(p.node.domain.get(), p.node.info->rx_attr, &srx, nullptr), 0);
	Receives(srx).all_are_refused();
	EXPECT_EQ(fi_close(&srx->fid), 0);
	/* Nothing of it was posted. */
	ASSERT_EQ(fi_recv(p.b.ep.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_send(p.a.ep.get(), "x", 1, nullptr, p.b_at_a, nullptr), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(1));
}

TEST(Errno, ADeferredReceiveOfAWrappingLengthIsRefusedWhenItIsQueued)
{
	Pair p(hints_for(FI_MSG | FI_TAGGED | FI_TRIGGER));
	const auto cntr = p.node.cntr();
	char byte;
	fi_triggered_context context{};
	iovec iov{&byte, SIZE_MAX};
	const fi_msg msg{&iov, nullptr, 1, FI_ADDR_UNSPEC, &context, 0};
	Work plain(FI_OP_RECV, cntr.get(), 1), tagged(FI_OP_TRECV, cntr.get(), 1);

	EXPECT_EQ(plain.message(p.b.ep.get(), &byte, SIZE_MAX, FI_ADDR_UNSPEC).queue(p.node),
		  -FI_EINVAL);
	EXPECT_EQ(tagged.tagged_message(p.b.ep.get(), &byte, SIZE_MAX, FI_ADDR_UNSPEC, 1)
			  .queue(p.node),
		  -FI_EINVAL);
	context.event_type = FI_TRIGGER_THRESHOLD;
	context.trigger.threshold.cntr = cntr.get();
	context.trigger.threshold.threshold = 1;
	EXPECT_EQ(fi_recvmsg(p.b.ep.get(), &msg, FI_TRIGGER), -FI_EINVAL);
}

/* --- tables ------------------------------------------------------------------------------ */

/* The table has a size, and apart from that only functions. */
template <class Ops> void expect_whole(const Ops *ops, const char *what)
{
	ASSERT_NE(ops, nullptr) << what;
	EXPECT_EQ(ops->size, sizeof(*ops)) << what;
	void *functions[sizeof(*ops) / sizeof(void *)];
	std::memcpy(functions, ops, sizeof(*ops));
	for (std::size_t i = 1; i < std::size(functions); ++i)
		EXPECT_NE(functions[i], nullptr) << what << ' ' << i;
}

void expect_whole(const fid_ep *ep, const char *what)
{
	expect_whole(ep->fid.ops, what);
	expect_whole(ep->ops, what);
	expect_whole(ep->cm, what);
	expect_whole(ep->msg, what);
	expect_whole(ep->tagged, what);
	expect_whole(ep->rma, what);
	expect_whole(ep->atomic, what);
	expect_whole(ep->collective, what);
}

/* Calls that a kind of object does not support all fail alike. */
void expect_no_others(fid &f)
{
	void *ops = nullptr;
	char text[64];
	fi_fid_var var{0, text};

	EXPECT_EQ(fi_control(&f, 4711, text), -FI_ENOSYS);
	EXPECT_EQ(fi_control(&f, FI_DUP, text), -FI_ENOSYS);
	EXPECT_EQ(fi_control(&f, FI_GET_VAL, &var), -FI_ENOSYS);
	EXPECT_EQ(fi_open_ops(&f, "magic", 0, &ops, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_set_ops(&f, "magic", 0, text, nullptr), -FI_ENOSYS);
	EXPECT_EQ(f.ops->tostr(&f, text, sizeof(text)), -FI_ENOSYS);
}

void expect_no_connection(fid_ep *ep)
{
	char name[64] = "";
	std::size_t size = sizeof(name);
	fid_mc *mc = nullptr;

	EXPECT_EQ(fi_connect(ep, name, nullptr, 0), -FI_ENOSYS);
	EXPECT_EQ(ep->cm->listen(reinterpret_cast<fid_pep *>(ep)), -FI_ENOSYS);
	EXPECT_EQ(fi_accept(ep, nullptr, 0), -FI_ENOSYS);
	EXPECT_EQ(ep->cm->reject(reinterpret_cast<fid_pep *>(ep), &ep->fid, nullptr, 0),
		  -FI_ENOSYS);
	EXPECT_EQ(fi_shutdown(ep, 0), -FI_ENOSYS);
	EXPECT_EQ(fi_getpeer(ep, name, &size), -FI_ENOSYS);
	EXPECT_EQ(fi_join(ep, nullptr, 0, &mc, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_join(ep, nullptr, FI_COLLECTIVE, &mc, nullptr), -FI_ENOSYS);
}

void expect_no_contexts(fid_ep *ep)
{
	fid_ep *context = nullptr;

	EXPECT_EQ(ep->ops->tx_ctx(ep, 0, nullptr, &context, nullptr), -FI_ENOSYS);
	EXPECT_EQ(ep->ops->rx_ctx(ep, 0, nullptr, &context, nullptr), -FI_ENOSYS);
}

void expect_no_transfers(fid_ep *ep)
{
	char c = 0;
	iovec iov{&c, 1};
	fi_rma_iov remote{0, 1, 0};
	const fi_msg msg{&iov, nullptr, 1, 0, nullptr, 0};
	const fi_msg_tagged tagged{&iov, nullptr, 1, 0, 0, 0, nullptr, 0};
	const fi_msg_rma rma{&iov, nullptr, 1, 0, &remote, 1, nullptr, 0};

	EXPECT_EQ(fi_sendmsg(ep, &msg, 0), -FI_ENOSYS);
	EXPECT_EQ(fi_inject(ep, &c, 1, 0), -FI_ENOSYS);
	EXPECT_EQ(fi_tsendmsg(ep, &tagged, 0), -FI_ENOSYS);
	EXPECT_EQ(fi_tinject(ep, &c, 1, 0, 0), -FI_ENOSYS);
	EXPECT_EQ(fi_readmsg(ep, &rma, 0), -FI_ENOSYS);
	EXPECT_EQ(fi_writemsg(ep, &rma, 0), -FI_ENOSYS);
	EXPECT_EQ(fi_inject_write(ep, &c, 1, 0, 0, 0), -FI_ENOSYS);
	EXPECT_EQ(fi_atomic(ep, &c, 1, nullptr, 0, 0, 0, FI_UINT8, FI_SUM, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_atomicvalid(ep, FI_UINT8, FI_SUM, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_barrier(ep, 0, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_barrier2(ep, 0, 0, nullptr), -FI_ENOSYS);
}

TEST(Errno, TheTablesOfAnEndpointAreWhole)
{
	Node node(hints_for(FI_MSG));
	const auto ep = node.ep();
	Side side(node);
	fid_ep *raw = nullptr;

	for (const fid_ep *each : {ep.get(), side.ep.get()})
		expect_whole(each, "ep");
	expect_no_others(ep->fid);
	expect_no_connection(ep.get());
	expect_no_contexts(ep.get());
	ASSERT_EQ(fi_srx_context(node.domain.get(), nullptr, &raw, nullptr), 0);
	const Owned<fid_ep> srx(raw);
	expect_whole(srx.get(), "srx");
	expect_no_others(srx->fid);
	expect_no_connection(srx.get());
	expect_no_contexts(srx.get());
	expect_no_transfers(srx.get());
	char name[64];
	std::size_t size = sizeof(name);
	EXPECT_EQ(fi_getname(&srx->fid, name, &size), -FI_ENOSYS);
	EXPECT_EQ(fi_setname(&srx->fid, name, size), -FI_ENOSYS);
}

TEST(Errno, TheTablesOfAScalableEndpointAreWhole)
{
	Info hints = hints_for(FI_MSG);
	fid_ep *raw = nullptr;

	hints->ep_attr->tx_ctx_cnt = hints->ep_attr->rx_ctx_cnt = 1;
	Node node(std::move(hints));
	ASSERT_EQ(fi_scalable_ep(node.domain.get(), node.info.get(), &raw, nullptr), 0);
	const Owned<fid_ep> sep(raw);
	ASSERT_EQ(fi_tx_context(sep.get(), 0, nullptr, &raw, nullptr), 0);
	const Owned<fid_ep> tx(raw);
	ASSERT_EQ(fi_rx_context(sep.get(), 0, nullptr, &raw, nullptr), 0);
	const Owned<fid_ep> rx(raw);
	for (fid_ep *ep : {sep.get(), tx.get(), rx.get()}) {
		expect_whole(ep, "scalable");
		expect_no_others(ep->fid);
		expect_no_connection(ep);
	}
	expect_no_contexts(tx.get());
	expect_no_contexts(rx.get());
	expect_no_transfers(sep.get());
	expect_no_transfers(rx.get());
}

TEST(Errno, TheTablesOfOtherObjectsAreWhole)
{
	Info hints = no_hints();
	hints->ep_attr->type = FI_EP_MSG;
	const Node connected(std::move(hints));
	Node node(hints_for(FI_MSG | FI_RMA));
	const auto av = node.av();
	const auto cq = node.cq();
	const auto cntr = node.cntr();
	const auto eq = node.eq();
	fid_poll *poll = nullptr;
	fid_wait *wait = nullptr;
	fid_stx *stx = nullptr;
	fid_pep *pep = nullptr;
	fid_mr *mr = nullptr;
	fid_av_set *set = nullptr;
	fi_av_set_attr attr{};
	char memory[8];

	attr.start_addr = attr.end_addr = FI_ADDR_NOTAVAIL;
	ASSERT_EQ(fi_poll_open(node.domain.get(), nullptr, &poll), 0);
	ASSERT_EQ(fi_wait_open(node.fabric.get(), nullptr, &wait), 0);
	ASSERT_EQ(fi_stx_context(node.domain.get(), nullptr, &stx, nullptr), 0);
	ASSERT_EQ(fi_passive_ep(connected.fabric.get(), connected.info.get(), &pep, nullptr), 0);
	ASSERT_EQ(fi_mr_reg(node.domain.get(), memory, 8, FI_REMOTE_READ, 0, 1, 0, &mr, nullptr),
		  0);
	ASSERT_EQ(fi_av_set(av.get(), &attr, &set, nullptr), 0);
	fid *const all[] = {&node.fabric->fid, &node.domain->fid, &av->fid,   &cq->fid,
			    &cntr->fid,	       &eq->fid,	  &poll->fid, &wait->fid,
			    &stx->fid,	       &pep->fid,	  &mr->fid,   &set->fid};
	for (fid *f : all) {
		SCOPED_TRACE(f->fclass);
		expect_whole(f->ops, "fid");
		expect_no_others(*f);
	}
	expect_whole(node.fabric->ops, "fabric");
	expect_whole(node.domain->ops, "domain");
	expect_whole(node.domain->mr, "mr");
	expect_whole(static_cast<const LaterAvOps *>(av->ops), "av");
	expect_whole(cq->ops, "cq");
	expect_whole(cntr->ops, "cntr");
	expect_whole(eq->ops, "eq");
	expect_whole(poll->ops, "poll");
	expect_whole(wait->ops, "wait");
	expect_whole(stx->ops, "stx");
	expect_whole(pep->ops, "pep ep");
	expect_whole(pep->cm, "pep cm");
	expect_whole(set->ops, "set");
	for (fid *f :
	     {&node.fabric->fid, &cq->fid, &cntr->fid, &eq->fid, &wait->fid, &stx->fid, &set->fid})
		EXPECT_EQ(f->ops->bind(f, &eq->fid, 0), -FI_ENOSYS) << f->fclass;
	fid_domain *domain = nullptr;
	fid_ep *ep = nullptr;
	EXPECT_EQ(fi_domain2(node.fabric.get(), node.info.get(), &domain, 1, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_endpoint2(node.domain.get(), node.info.get(), &ep, 1, nullptr), -FI_ENOSYS);
	auto *const as_ep = reinterpret_cast<fid_ep *>(pep);
	EXPECT_EQ(pep->cm->connect(as_ep, memory, nullptr, 0), -FI_ENOSYS);
	EXPECT_EQ(pep->cm->accept(as_ep, nullptr, 0), -FI_ENOSYS);
	EXPECT_EQ(pep->cm->shutdown(as_ep, 0), -FI_ENOSYS);
	for (fid *f : {&poll->fid, &wait->fid, &stx->fid, &pep->fid, &mr->fid, &set->fid})
		EXPECT_EQ(fi_close(f), 0);
}

// conformance: fi_peer(3): a provider without peer queues, counters or domains: -FI_EINVAL
TEST(Peer, IsRefusedAsInvalid)
{
	Node node;
	Log log;
	fi_cq_attr cq_attr{};
	fi_cntr_attr cntr_attr{};
	fi_eq_attr eq_attr{};
	fid_cq *cq = nullptr;
	fid_cntr *cntr = nullptr;
	fid_eq *eq = nullptr;
	fid_domain *domain = nullptr;

	cq_attr.flags = cntr_attr.flags = eq_attr.flags = FI_PEER;
	EXPECT_EQ(fi_cq_open(node.domain.get(), &cq_attr, &cq, nullptr), -FI_EINVAL);
	EXPECT_TRUE(log.has("cq_open: FI_PEER")) << log.all();
	EXPECT_EQ(fi_cntr_open(node.domain.get(), &cntr_attr, &cntr, nullptr), -FI_EINVAL);
	EXPECT_TRUE(log.has("cntr_open: FI_PEER")) << log.all();
	EXPECT_EQ(fi_eq_open(node.fabric.get(), &eq_attr, &eq, nullptr), -FI_EINVAL);
	EXPECT_TRUE(log.has("eq_open: FI_PEER")) << log.all();
	EXPECT_EQ(fi_domain2(node.fabric.get(), node.info.get(), &domain, FI_PEER, nullptr),
		  -FI_EINVAL);
	EXPECT_TRUE(log.has("fi_domain2: FI_PEER")) << log.all();
}

} // namespace
