// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_endpoint(3), "SHARED CONTEXTS" */
// conformance: fi_domain(3): max_ep_stx_ctx, max_ep_srx_ctx: as many as endpoints
// conformance: fi_arch(7): shared contexts

#include <algorithm>
#include <atomic>
#include <thread>

#include "node.h"
#include "work.h"

namespace
{

Info hints(std::size_t tx_cnt, std::size_t rx_cnt, std::uint64_t caps = FI_MSG | FI_TAGGED)
{
	Info hints = hints_for(caps);

	hints->ep_attr->tx_ctx_cnt = tx_cnt;
	hints->ep_attr->rx_ctx_cnt = rx_cnt;
	return hints;
}

/* A sender of its own, and two endpoints that share contexts. */
struct Fixture {
	explicit Fixture(std::size_t tx_cnt = FI_SHARED_CONTEXT,
			 std::size_t rx_cnt = FI_SHARED_CONTEXT,
			 std::uint64_t caps = FI_MSG | FI_TAGGED | FI_SOURCE,
			 bool usual_srx = false)
		: peer_node(hints_for(caps)), peer(peer_node), node(hints(tx_cnt, rx_cnt, caps)),
		  av(node.av())
	{
		fid_stx *tx = nullptr;
		fid_ep *rx = nullptr;

		EXPECT_EQ(fi_stx_context(node.domain.get(), node.info->tx_attr, &tx, nullptr), 0);
		stx.reset(tx);
		EXPECT_EQ(fi_srx_context(node.domain.get(),
					 usual_srx ? nullptr : node.info->rx_attr, &rx, nullptr),
			  0);
		srx.reset(rx);
		for (int i = 0; i < 2; ++i) {
			cq[i] = node.cq();
			ep[i] = node.ep();
			bind(i, av.get());
			EXPECT_EQ(fi_enable(ep[i].get()), 0);
			to[i] = peer.insert(ep[i].get());
		}
		const auto name = address_of(peer.ep.get());
		EXPECT_EQ(fi_av_insert(av.get(), name.data(), 1, &from, 0, nullptr), 1);
	}
	void bind(int i, fid_av *vector)
	{
		const fi_ep_attr &attr = *node.info->ep_attr;

		EXPECT_EQ(fi_ep_bind(ep[i].get(), &cq[i]->fid, FI_TRANSMIT | FI_RECV), 0);
		EXPECT_EQ(fi_ep_bind(ep[i].get(), &vector->fid, 0), 0);
		if (attr.tx_ctx_cnt == FI_SHARED_CONTEXT) {
			EXPECT_EQ(fi_ep_bind(ep[i].get(), &stx->fid, 0), 0);
		}
		if (attr.rx_ctx_cnt == FI_SHARED_CONTEXT) {
			EXPECT_EQ(fi_ep_bind(ep[i].get(), &srx->fid, 0), 0);
		}
	}

	Node peer_node;
	Side peer;
	Node node;
	Owned<fid_av> av;
	Owned<fid_stx> stx;
	Owned<fid_ep> srx;
	Owned<fid_cq> cq[2];
	Owned<fid_ep> ep[2];
	fi_addr_t to[2], from;
};

} // namespace

// conformance: fi_endpoint(3): shared transmit contexts: operations are posted to the endpoint, and
//   complete in its queues
TEST(Shared, OperationsArePostedToTheEndpointAndCompleteThere)
{
	Fixture p;
	char in[2][8] = {};

	for (int i = 0; i < 2; ++i) {
		ASSERT_EQ(fi_recv(p.peer.ep.get(), in[i], 8, nullptr, FI_ADDR_UNSPEC, ctx(i)), 0);
		ASSERT_EQ(fi_send(p.ep[i].get(), i ? "second" : "first", 7, nullptr, p.from,
				  ctx(10 + i)),
			  0);
		fi_addr_t src;
		next(p.peer.rx_cq.get(), &src);
		EXPECT_EQ(src, p.to[i]) << "each has its own address";
		EXPECT_EQ(next(p.cq[i].get()).op_context, ctx(10 + i));
		EXPECT_TRUE(is_silent(p.cq[!i].get()));
	}
	EXPECT_STREQ(in[0], "first");
	EXPECT_STREQ(in[1], "second");
}

TEST(Shared, EveryKindOfSendGoesThroughASharedContext)
{
	Fixture p;
	char out[8] = "message", in[16] = {};
	const iovec iov[2] = {{out, 4}, {out + 4, 4}};
	fi_msg msg{};

	const auto arrives = [&](ssize_t rc, bool silent = false) {
		EXPECT_EQ(rc, 0);
		EXPECT_EQ(next(p.peer.rx_cq.get()).len, 8u);
		EXPECT_STREQ(in, out);
		if (!silent)
			next(p.cq[1].get());
		std::memset(in, 0, sizeof(in));
	};
	const auto expect = [&] {
		ASSERT_EQ(fi_recv(p.peer.ep.get(), in, 16, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	};
	fid_ep *ep = p.ep[1].get();
	msg.msg_iov = iov;
	msg.iov_count = 2;
	msg.addr = p.from;
	expect();
	arrives(fi_sendv(ep, iov, nullptr, 2, p.from, nullptr));
	expect();
	arrives(fi_sendmsg(ep, &msg, FI_COMPLETION));
	expect();
	arrives(fi_inject(ep, out, 8, p.from), true);
	expect();
	arrives(fi_senddata(ep, out, 8, nullptr, 1, p.from, nullptr));
	ASSERT_EQ(fi_trecv(p.peer.ep.get(), in, 16, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr), 0);
	arrives(fi_tsend(ep, out, 8, nullptr, p.from, 1, nullptr));
}

// conformance: fi_endpoint(3): shared receive contexts: buffers are posted there, and usable by ...
TEST(Shared, BuffersAreUsableByAnyEndpoint)
{
	Fixture p;
	char in[4][8] = {};

	for (int i = 0; i < 4; ++i)
		ASSERT_EQ(fi_recv(p.srx.get(), in[i], 8, nullptr, FI_ADDR_UNSPEC, ctx(i)), 0);
	for (const int i : {1, 0, 0, 1}) {
		static int n = 0;
		ASSERT_EQ(fi_inject(p.peer.ep.get(), i ? "second" : "first", 7, p.to[i]), 0);
		fi_addr_t src;
		EXPECT_EQ(next(p.cq[i].get(), &src).op_context, ctx(n))
			<< "in the order of posting";
		EXPECT_EQ(src, p.from);
		EXPECT_STREQ(in[n], i ? "second" : "first");
		EXPECT_TRUE(is_silent(p.cq[!i].get()));
		++n;
	}
}

TEST(Shared, TaggedMessagesPeeksAndCancel)
{
	Fixture p;
	char in[8] = {};
	fi_msg_tagged msg{};

	ASSERT_EQ(fi_tinject(p.peer.ep.get(), "tagged", 7, p.to[1], 5), 0);
	msg.addr = FI_ADDR_UNSPEC;
	msg.tag = 5;
	ASSERT_EQ(fi_trecvmsg(p.srx.get(), &msg, FI_PEEK), 0);
	EXPECT_EQ(next(p.cq[0].get()).len, 7u);
	ASSERT_EQ(fi_trecv(p.srx.get(), in, 8, nullptr, FI_ADDR_UNSPEC, 5, 0, nullptr), 0);
	next(p.cq[1].get());
	EXPECT_STREQ(in, "tagged");
	ASSERT_EQ(fi_trecv(p.srx.get(), in, 8, nullptr, FI_ADDR_UNSPEC, 6, 0, ctx(6)), 0);
	ASSERT_EQ(fi_cancel(&p.srx->fid, ctx(6)), 0);
	EXPECT_EQ(next_error(p.cq[0].get()).op_context, ctx(6));
}

/*
 * Receives of the shared context are not the endpoint's, and sends of the endpoint are not the
 * context's.
 */
// conformance: fi_endpoint(3): fi_cancel: one operation, by its context; operations without a ...
TEST(Shared, EachCancelsWhatWasPostedToIt)
{
	Fixture p;
	const auto out = pattern(64 << 10); /* stays with the sender until it is received */
	char in[8] = {};
	const auto post = [&] {
		ASSERT_EQ(fi_recv(p.srx.get(), in, 8, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
		ASSERT_EQ(fi_send(p.ep[0].get(), out.data(), out.size(), nullptr, p.from, ctx(1)),
			  0);
	};

	post();
	EXPECT_EQ(fi_cancel(&p.ep[1]->fid, ctx(1)), -FI_ENOENT);
	ASSERT_EQ(fi_cancel(&p.ep[0]->fid, ctx(1)), 0);
	EXPECT_TRUE(next_error(p.cq[0].get()).flags & FI_SEND);
	EXPECT_EQ(fi_cancel(&p.ep[0]->fid, ctx(1)), -FI_ENOENT);
	ASSERT_EQ(fi_cancel(&p.srx->fid, ctx(1)), 0);
	EXPECT_TRUE(next_error(p.cq[0].get()).flags & FI_RECV);
	post();
	ASSERT_EQ(fi_cancel(&p.srx->fid, ctx(1)), 0);
	EXPECT_TRUE(next_error(p.cq[0].get()).flags & FI_RECV);
	EXPECT_EQ(fi_cancel(&p.srx->fid, ctx(1)), -FI_ENOENT);
	ASSERT_EQ(fi_cancel(&p.ep[0]->fid, ctx(1)), 0);
	EXPECT_TRUE(next_error(p.cq[0].get()).flags & FI_SEND);
}

// conformance: fi_endpoint(3): one kind of context may be shared and the other not
TEST(Shared, OneKindMayBeSharedAndTheOtherNot)
{
	for (const bool tx : {false, true}) {
		SCOPED_TRACE(tx);
		Fixture p(tx ? FI_SHARED_CONTEXT : 1, tx ? 1 : FI_SHARED_CONTEXT);
		char in[8] = {};
		fid_ep *receiver = tx ? p.ep[1].get() : p.srx.get();

		ASSERT_EQ(fi_recv(receiver, in, 8, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
		ASSERT_EQ(fi_inject(p.peer.ep.get(), "to", 3, p.to[1]), 0);
		EXPECT_EQ(next(p.cq[1].get()).op_context, ctx(1));
		ASSERT_EQ(fi_recv(p.peer.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
		ASSERT_EQ(fi_inject(p.ep[0].get(), "fro", 4, p.from), 0);
		next(p.peer.rx_cq.get());
		EXPECT_STREQ(in, "fro");
	}
}

// conformance: fi_endpoint(3): shared receive contexts: buffers are posted there, and usable by ...
TEST(Shared, ReceivesArePostedToTheContextOnly)
{
	Fixture p;
	char c;

	EXPECT_EQ(fi_recv(p.ep[0].get(), &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), -FI_ENOSYS);
}

/* Without FI_DIRECTED_RECV the source of a receive is ignored: fi_msg(3). */
// conformance: fi_endpoint(3): shared receive contexts: buffers are posted there, and usable by ...
TEST(Shared, SourcesCountWithTheCapability)
{
	for (int i = 0; i < 4; ++i) {
		const std::uint64_t more = i & 1 ? FI_DIRECTED_RECV : 0;
		const bool early = i & 2; /* the receive is posted before its endpoint opens */
		Node peer_node(hints_for(FI_MSG)), node(hints(1, FI_SHARED_CONTEXT, FI_MSG | more));
		Side first(peer_node), second(peer_node);
		const auto av = node.av();
		const auto cq = node.cq();
		fi_addr_t sources[2];
		fid_ep *context = nullptr;
		char in[8] = {};

		ASSERT_EQ(fi_srx_context(node.domain.get(), nullptr, &context, nullptr), 0);
		const Owned<fid_ep> srx(context);
		const auto ep = node.ep();
		ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
		ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
		for (int k = 0; k < 2; ++k) {
			const auto name = address_of((k ? second : first).ep.get());
			ASSERT_EQ(fi_av_insert(av.get(), name.data(), 1, &sources[k], 0, nullptr),
				  1);
		}
		if (early) {
			ASSERT_EQ(fi_recv(srx.get(), in, 8, nullptr, sources[0], ctx(1)), 0);
		}
		ASSERT_EQ(fi_ep_bind(ep.get(), &srx->fid, 0), 0);
		ASSERT_EQ(fi_enable(ep.get()), 0);
		if (!early) {
			ASSERT_EQ(fi_recv(srx.get(), in, 8, nullptr, sources[0], ctx(1)), 0);
		}
		ASSERT_EQ(fi_inject(second.ep.get(), "second", 7, second.insert(ep.get())), 0);
		if (more)
			EXPECT_TRUE(is_silent(cq.get()));
		else
			EXPECT_EQ(next(cq.get()).op_context, ctx(1));
		EXPECT_STREQ(in, more ? "" : "second");
	}
}

/* The same for queued receives: fi_trigger(3). */
TEST(Shared, SourcesOfDeferredReceivesCountWithTheCapability)
{
	for (const bool directed : {false, true}) {
		Fixture p(1, FI_SHARED_CONTEXT,
			  FI_MSG | FI_TRIGGER | (directed ? FI_DIRECTED_RECV : 0), true);
		Side other(p.peer_node);
		const auto cntr = p.node.cntr();
		const auto name = address_of(other.ep.get());
		fi_addr_t from_other;
		char in[8] = {};
		Work work(FI_OP_RECV, cntr.get());

		ASSERT_EQ(fi_av_insert(p.av.get(), name.data(), 1, &from_other, 0, nullptr), 1);
		EXPECT_EQ(work.message(p.ep[0].get(), in, sizeof(in), from_other).queue(p.node),
			  -FI_ENOSYS)
			<< "receives are the context's";
		ASSERT_EQ(work.message(p.srx.get(), in, sizeof(in), from_other, FI_COMPLETION)
				  .queue(p.node),
			  0);
		ASSERT_EQ(fi_inject(p.peer.ep.get(), "another", 8, p.to[0]), 0);
		if (directed)
			EXPECT_TRUE(is_silent(p.cq[0].get()));
		else
			EXPECT_EQ(next(p.cq[0].get()).op_context, &work.work.context);
		EXPECT_STREQ(in, directed ? "" : "another");
	}
}

/* A plain receive may be posted before: it belongs to the ring, and takes any message. */
// conformance: fi_endpoint(3): shared receive contexts: buffers are posted there, and usable by ...
TEST(Shared, ArmedReceivesAndPeeksNeedAnEndpoint)
{
	const Node node(hints(1, FI_SHARED_CONTEXT, FI_MSG | FI_TAGGED | FI_TRIGGER));
	const auto cntr = node.cntr();
	fid_ep *opened = nullptr;
	char in[8];
	const iovec iov{in, sizeof(in)};
	fi_triggered_context trigger{};
	const fi_msg msg{&iov, nullptr, 1, FI_ADDR_UNSPEC, &trigger, 0};
	const fi_msg_tagged tagged{&iov, nullptr, 1, FI_ADDR_UNSPEC, 1, 0, &trigger, 0};
	Work work(FI_OP_RECV, cntr.get());
	Log log;
	const auto explained = [&] {
		const bool is = log.has("no enabled endpoint receives");
		log.clear();
		return is;
	};

	ASSERT_EQ(fi_srx_context(node.domain.get(), node.info->rx_attr, &opened, nullptr), 0);
	const Owned<fid_ep> srx(opened);
	trigger.trigger.threshold = {cntr.get(), 1};
	EXPECT_EQ(fi_recvmsg(srx.get(), &msg, FI_TRIGGER), -FI_EOPBADSTATE);
	EXPECT_TRUE(explained());
	EXPECT_EQ(fi_trecvmsg(srx.get(), &tagged, FI_PEEK), -FI_EOPBADSTATE);
	EXPECT_TRUE(explained());
	EXPECT_EQ(work.message(srx.get(), in, sizeof(in), FI_ADDR_UNSPEC).queue(node),
		  -FI_EOPBADSTATE);
	EXPECT_TRUE(explained());
	EXPECT_EQ(fi_recv(srx.get(), in, sizeof(in), nullptr, FI_ADDR_UNSPEC, nullptr), 0);
}

// conformance: fi_endpoint(3): all connectionless endpoints of a shared receive context share an
//   address vector
TEST(Shared, BindingIsChecked)
{
	Fixture p;
	Node other(hints(FI_SHARED_CONTEXT, FI_SHARED_CONTEXT));
	const auto cq = p.node.cq();
	const auto av = p.node.av();
	const auto outsider = other.ep();
	const auto ep = p.node.ep();
	const Node plain(hints_for(FI_MSG));
	const auto alone = plain.ep();
	fid_stx *stx = nullptr;

	EXPECT_EQ(fi_ep_bind(outsider.get(), &p.stx->fid, 0), -FI_EDOMAIN);
	EXPECT_EQ(fi_ep_bind(outsider.get(), &p.srx->fid, 0), -FI_EDOMAIN);
	ASSERT_EQ(fi_stx_context(plain.domain.get(), nullptr, &stx, nullptr), 0);
	EXPECT_EQ(fi_ep_bind(alone.get(), &stx->fid, 0), -FI_EINVAL) << "tx_ctx_cnt is 1";
	EXPECT_EQ(fi_close(&stx->fid), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	EXPECT_EQ(fi_enable(ep.get()), -FI_EOPBADSTATE) << "without its shared contexts";
	EXPECT_EQ(fi_ep_bind(ep.get(), &p.stx->fid, 0), 0);
	EXPECT_EQ(fi_ep_bind(ep.get(), &p.stx->fid, 0), -FI_EINVAL) << "a single one";
	EXPECT_EQ(fi_ep_bind(ep.get(), &p.srx->fid, 0), 0);
	EXPECT_EQ(fi_enable(ep.get()), -FI_EINVAL) << "with another address vector";
	EXPECT_EQ(fi_close(&p.stx->fid), -FI_EBUSY);
	EXPECT_EQ(fi_close(&p.srx->fid), -FI_EBUSY);
}

/*
 * FI_SELECTIVE_COMPLETION is a property of an endpoint's binding, whenever the receive was posted.
 */
TEST(Shared, EachEndpointSelectsItsCompletions)
{
	Node peer_node(hints_for(FI_MSG)), node(hints(1, FI_SHARED_CONTEXT, FI_MSG));
	Side peer(peer_node);
	const auto av = node.av();
	const Owned<fid_cq> cq[] = {node.cq(), node.cq()};
	fi_addr_t to[2];
	fid_ep *context = nullptr;
	char in[8];
	const iovec iov{in, sizeof(in)};
	const fi_msg asked{&iov, nullptr, 1, FI_ADDR_UNSPEC, ctx(9), 0};

	ASSERT_EQ(fi_srx_context(node.domain.get(), nullptr, &context, nullptr), 0);
	const Owned<fid_ep> srx(context);
	Owned<fid_ep> ep[] = {node.ep(), node.ep()};
	const auto post = [&](std::uintptr_t name) {
		ASSERT_EQ(fi_recv(srx.get(), in, 8, nullptr, FI_ADDR_UNSPEC, ctx(name)), 0);
	};
	const auto expect_completion = [&](int i) {
		const auto text = std::to_string(i);
		ASSERT_EQ(fi_send(peer.ep.get(), text.data(), 1, nullptr, to[i], nullptr), 0);
		next(peer.tx_cq.get());
		EXPECT_TRUE(is_silent(cq[!i].get()));
	};
	post(1);
	post(2);
	for (int i = 0; i < 2; ++i) {
		ASSERT_EQ(fi_ep_bind(ep[i].get(), &cq[i]->fid, FI_TRANSMIT), 0);
		ASSERT_EQ(fi_ep_bind(ep[i].get(), &cq[i]->fid,
				     FI_RECV | (i ? 0 : FI_SELECTIVE_COMPLETION)),
			  0);
		ASSERT_EQ(fi_ep_bind(ep[i].get(), &av->fid, 0), 0);
		ASSERT_EQ(fi_ep_bind(ep[i].get(), &srx->fid, 0), 0);
		ASSERT_EQ(fi_enable(ep[i].get()), 0);
		to[i] = peer.insert(ep[i].get());
	}
	expect_completion(0);
	EXPECT_TRUE(is_silent(cq[0].get())) << "posted before, but selective";
	expect_completion(1);
	EXPECT_EQ(next(cq[1].get()).op_context, ctx(2)) << "posted before";
	post(3);
	expect_completion(1);
	EXPECT_EQ(next(cq[1].get()).op_context, ctx(3)) << "posted while the other is selective";
	ASSERT_EQ(fi_recvmsg(srx.get(), &asked, FI_COMPLETION), 0);
	expect_completion(0);
	EXPECT_EQ(next(cq[0].get()).op_context, ctx(9)) << "asked for";
	ep[0].reset();
	post(4);
	expect_completion(1);
	EXPECT_EQ(next(cq[1].get()).op_context, ctx(4)) << "posted after the other";
}

TEST(Shared, ABadReceiveIsReportedByAnEndpointWithAQueue)
{
	Node node(hints(1, FI_SHARED_CONTEXT));
	const auto av = node.av();
	const auto tx_cq = node.cq(), cq = node.cq();
	const auto cntr = node.cntr();
	char in[8];
	fi_msg_tagged msg{};
	fid_ep *context = nullptr;

	ASSERT_EQ(fi_srx_context(node.domain.get(), node.info->rx_attr, &context, nullptr), 0);
	const Owned<fid_ep> srx(context);
	const Owned<fid_ep> ep[] = {node.ep(), node.ep()};
	for (int i = 0; i < 2; ++i) {
		ASSERT_EQ(fi_ep_bind(ep[i].get(), &tx_cq->fid, FI_TRANSMIT), 0);
		ASSERT_EQ(fi_ep_bind(ep[i].get(), i ? &cq->fid : &cntr->fid, FI_RECV), 0);
		ASSERT_EQ(fi_ep_bind(ep[i].get(), &av->fid, 0), 0);
		ASSERT_EQ(fi_ep_bind(ep[i].get(), &srx->fid, 0), 0);
		ASSERT_EQ(fi_enable(ep[i].get()), 0);
	}
	ASSERT_EQ(fi_recv(srx.get(), in, 8, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_cancel(&srx->fid, ctx(1)), 0);
	EXPECT_EQ(next_error(cq.get()).err, FI_ECANCELED);
	msg.addr = FI_ADDR_UNSPEC;
	msg.context = ctx(2);
	ASSERT_EQ(fi_trecvmsg(srx.get(), &msg, FI_PEEK), 0);
	EXPECT_EQ(next_error(cq.get()).err, FI_ENOMSG);
	EXPECT_EQ(fi_cntr_readerr(cntr.get()), 0u);
}

TEST(Shared, AnEndpointThatClosesLeavesTheOthers)
{
	Fixture p;
	char in[8] = {};

	ASSERT_EQ(fi_recv(p.srx.get(), in, 8, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	p.ep[0].reset();
	ASSERT_EQ(fi_inject(p.peer.ep.get(), "to", 3, p.to[1]), 0);
	EXPECT_EQ(next(p.cq[1].get()).op_context, ctx(1));
	ASSERT_EQ(fi_recv(p.peer.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_inject(p.ep[1].get(), "fro", 4, p.from), 0);
	next(p.peer.rx_cq.get());
	EXPECT_STREQ(in, "fro");
}

// conformance: fi_endpoint(3): shared receive contexts: buffers are posted there, and usable by ...
TEST(Shared, ArmedReceivesAreCanceledForAnyEndpoint)
{
	Node node(hints(1, FI_SHARED_CONTEXT));
	const auto av = node.av();
	const auto cq = node.cq();
	const auto cntr = node.cntr();
	char in[8] = {};
	const iovec iov{in, sizeof(in)};
	fi_triggered_context trigger{};
	const fi_msg msg{&iov, nullptr, 1, FI_ADDR_UNSPEC, &trigger, 0};
	fid_ep *rx = nullptr;

	trigger.event_type = FI_TRIGGER_THRESHOLD;
	trigger.trigger.threshold = {cntr.get(), 1};
	ASSERT_EQ(fi_srx_context(node.domain.get(), node.info->rx_attr, &rx, nullptr), 0);
	const Owned<fid_ep> srx(rx);
	const Owned<fid_ep> ep[] = {node.ep(), node.ep()};
	for (const auto &e : ep) {
		ASSERT_EQ(fi_ep_bind(e.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
		ASSERT_EQ(fi_ep_bind(e.get(), &av->fid, 0), 0);
		ASSERT_EQ(fi_ep_bind(e.get(), &srx->fid, 0), 0);
	}
	EXPECT_EQ(fi_cancel(&srx->fid, &trigger), -FI_EOPBADSTATE) << "no endpoint receives yet";
	ASSERT_EQ(fi_enable(ep[1].get()), 0);
	ASSERT_EQ(fi_recvmsg(srx.get(), &msg, FI_TRIGGER), 0);
	ASSERT_EQ(fi_enable(ep[0].get()), 0);
	EXPECT_EQ(fi_cancel(&srx->fid, &trigger), 0) << "it is not the first one's";
	EXPECT_EQ(next_error(cq.get()).op_context, &trigger);
	EXPECT_EQ(fi_cancel(&srx->fid, &trigger), -FI_ENOENT);
}

// conformance: fi_endpoint(3): shared receive contexts: buffers are posted there, and usable by ...
TEST(Shared, PostedReceivesAreCanceledWhileAnEndpointCloses)
{
	for (int round = 0; round < 100; ++round) {
		Fixture p;
		std::atomic<bool> closed = false;
		char in[8] = {};
		std::thread closer([&] {
			p.ep[0].reset();
			closed = true;
		});
		do {
			EXPECT_EQ(fi_recv(p.srx.get(), in, 8, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
			EXPECT_EQ(fi_cancel(&p.srx->fid, ctx(1)), 0);
			fi_cq_err_entry error{};
			for (const auto &cq : p.cq)
				fi_cq_readerr(cq.get(), &error, 0);
		} while (!closed);
		closer.join();
	}
}

/*
 * Other threads may be posting there: binding one more endpoint does not write a table of calls
 * again.
 */
TEST(Shared, BindingLeavesTheCallsOfOthersAlone)
{
	static constexpr auto own = [](fid_ep *, const iovec *, void **, std::size_t, fi_addr_t,
				       void *) -> ssize_t { return 42; };
	Node node(hints(1, FI_SHARED_CONTEXT, FI_MSG | FI_DIRECTED_RECV));
	fid_ep *raw = nullptr;
	char c;

	ASSERT_EQ(fi_srx_context(node.domain.get(), nullptr, &raw, nullptr), 0);
	const Owned<fid_ep> srx(raw);
	srx->msg->recvv = own;
	for (const std::uint64_t directed : {std::uint64_t{0}, std::uint64_t{FI_DIRECTED_RECV}}) {
		const Info info(fi_dupinfo(node.info.get()));
		for (std::uint64_t *caps : {&info->caps, &info->rx_attr->caps})
			*caps = (*caps & ~FI_DIRECTED_RECV) | directed;
		ASSERT_EQ(fi_endpoint(node.domain.get(), info.get(), &raw, nullptr), 0);
		const Owned<fid_ep> ep(raw);
		ASSERT_EQ(fi_ep_bind(ep.get(), &srx->fid, 0), 0);
		EXPECT_EQ(fi_recvv(srx.get(), nullptr, nullptr, 0, FI_ADDR_UNSPEC, nullptr), 42);
		EXPECT_EQ(fi_recv(srx.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	}
}

/* At any threading level two endpoints may be used by two threads. */
TEST(Shared, ThreadsOfEndpointsThatShare)
{
	constexpr int count = 500;
	Fixture p;
	std::vector<char> in(2 * count);

	for (char &c : in)
		ASSERT_EQ(fi_recv(p.peer.ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	const auto send = [&](int i) {
		for (int n = 0; n < count; ++n) {
			while (fi_inject(p.ep[i].get(), i ? "b" : "a", 1, p.from) == -FI_EAGAIN)
				std::this_thread::yield();
		}
	};
	std::thread other(send, 1);
	send(0);
	other.join();
	for (int n = 0; n < 2 * count; ++n)
		next(p.peer.rx_cq.get());
	EXPECT_EQ(std::count(in.begin(), in.end(), 'a'), count);
}
