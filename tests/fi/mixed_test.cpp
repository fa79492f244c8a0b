// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Features that work alone work together: memory through connections and shared contexts. */
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "connection.h"

namespace
{

constexpr std::uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;

/* A word that peers access. */
struct Target {
	explicit Target(const Node &node)
	{
		fid_mr *m = nullptr;

		EXPECT_EQ(fi_mr_reg(node.domain.get(), &word, sizeof(word),
				    FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &m, nullptr),
			  0);
		mr.reset(m);
		key = fi_mr_key(m);
	}

	std::uint64_t word = 0;
	std::uint64_t key;
	Owned<fid_mr> mr;
};

/* Writes, adds and reads through @ep, with completions in @cq. */
void work_on(Target &target, fid_ep *ep, fid_cq *cq, fi_addr_t to)
{
	std::uint64_t out = 40, two = 2, in = 0, before = 0;
	const std::uint64_t was = target.word;

	ASSERT_EQ(fi_write(ep, &out, sizeof(out), nullptr, to, 0, target.key, ctx(1)), 0);
	EXPECT_EQ(next(cq).flags, std::uint64_t{FI_RMA | FI_WRITE});
	EXPECT_EQ(target.word, 40u) << was;
	ASSERT_EQ(fi_fetch_atomic(ep, &two, 1, nullptr, &before, nullptr, to, 0, target.key,
				  FI_UINT64, FI_SUM, ctx(2)),
		  0);
	EXPECT_EQ(next(cq).op_context, ctx(2));
	EXPECT_EQ(before, 40u);
	ASSERT_EQ(fi_read(ep, &in, sizeof(in), nullptr, to, 0, target.key, ctx(3)), 0);
	EXPECT_EQ(next(cq).flags, std::uint64_t{FI_RMA | FI_READ});
	EXPECT_EQ(in, 42u);
	ASSERT_EQ(fi_inject_write(ep, &two, sizeof(two), to, 0, target.key), 0);
	ASSERT_EQ(fi_inject_atomic(ep, &two, 1, to, 0, target.key, FI_UINT64, FI_PROD), 0);
	EXPECT_EQ(target.word, 4u);

	fi_rma_iov range{0, sizeof(out), target.key};
	iovec iov{&out, sizeof(out)};
	fi_msg_rma msg{};
	msg.msg_iov = &iov;
	msg.iov_count = 1;
	msg.addr = to;
	msg.rma_iov = &range;
	msg.rma_iov_count = 1;
	ASSERT_EQ(fi_writemsg(ep, &msg, FI_FENCE | FI_DELIVERY_COMPLETE), 0);
	next(cq);
	EXPECT_EQ(target.word, 40u);
}

struct Shares {
	explicit Shares(Node &node)
	{
		fid_stx *tx = nullptr;
		fid_ep *rx = nullptr;

		EXPECT_EQ(fi_stx_context(node.domain.get(), node.info->tx_attr, &tx, nullptr), 0);
		stx.reset(tx);
		EXPECT_EQ(fi_srx_context(node.domain.get(), node.info->rx_attr, &rx, nullptr), 0);
		srx.reset(rx);
	}

	Owned<fid_stx> stx;
	Owned<fid_ep> srx;
};

Info shared_hints(fi_ep_type type)
{
	Info hints = hints_for(caps);

	hints->ep_attr->type = type;
	hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	return hints;
}

// conformance: fi_arch(7): connection-oriented setup: passive endpoints, listen, connect, accept
TEST(Mixed, MemoryThroughAConnection)
{
	Info hints = hints_for(caps);
	hints->ep_attr->type = FI_EP_MSG;
	Node node(std::move(hints));
	Listener listener(node);
	Active client(node);
	Target target(node);

	ASSERT_EQ(fi_connect(client.ep.get(), listener.address().data(), nullptr, 0), 0);
	CmEvent request = listener.request();
	Active server(node, request.info.get());
	ASSERT_EQ(fi_accept(server.ep.get(), nullptr, 0), 0);
	EXPECT_EQ(next_event(client.eq.get()).event, std::uint32_t{FI_CONNECTED});
	EXPECT_EQ(next_event(server.eq.get()).event, std::uint32_t{FI_CONNECTED});
	work_on(target, client.ep.get(), client.cq.get(), 0);
	work_on(target, server.ep.get(), server.cq.get(), FI_ADDR_UNSPEC);

	/* The end of the connection ends this access, too. */
	ASSERT_EQ(fi_shutdown(server.ep.get(), 0), 0);
	EXPECT_EQ(next_event(client.eq.get()).event, std::uint32_t{FI_SHUTDOWN});
	EXPECT_EQ(fi_write(client.ep.get(), &target, 1, nullptr, 0, 0, target.key, nullptr),
		  -FI_ESHUTDOWN);
}

TEST(Mixed, MemoryThroughSharedContexts)
{
	Node node(shared_hints(FI_EP_RDM)), peer_node(hints_for(caps));
	Side peer(peer_node);
	Shares shares(node);
	Target target(peer_node);
	auto av = node.av();
	const auto name = address_of(peer.ep.get());
	fi_addr_t to;

	ASSERT_EQ(fi_av_insert(av.get(), name.data(), 1, &to, 0, nullptr), 1);
	for (int i = 0; i < 2; ++i) {
		auto cq = node.cq();
		auto ep = node.ep();

		for (fid *object : {&shares.stx->fid, &shares.srx->fid, &av->fid})
			ASSERT_EQ(fi_ep_bind(ep.get(), object, 0), 0);
		ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
		ASSERT_EQ(fi_enable(ep.get()), 0);
		work_on(target, ep.get(), cq.get(), to);
	}
}

/* A receive context that both kinds of endpoints share. Those without a connection name sources. */
struct BothKinds {
	explicit BothKinds(bool asked)
		: node(rdm_hints()), peer_node(hints_for(caps)), first(peer_node),
		  second(peer_node), av(node.av()), cq(node.cq()), ep(node.ep()),
		  msg(get_info(shared_hints(FI_EP_MSG).get()))
	{
		fid_ep *rx = nullptr;

		EXPECT_EQ(fi_srx_context(node.domain.get(), asked ? node.info->rx_attr : nullptr,
					 &rx, nullptr),
			  0);
		srx.reset(rx);
		msg->ep_attr->tx_ctx_cnt = 1;
		EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
		EXPECT_EQ(fi_av_insert(av.get(), address_of(first.ep.get()).data(), 1, &from, 0,
				       nullptr),
			  1);
	}
	static Info rdm_hints()
	{
		Info hints = hints_for(caps | FI_DIRECTED_RECV);

		hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
		return hints;
	}
	int bind(fid_ep *receiver) { return fi_ep_bind(receiver, &srx->fid, 0); }
	/* A receive from the first peer does not take a message of the second. */
	void expect_directed()
	{
		char in = 0;

		ASSERT_EQ(fi_recv(srx.get(), &in, 1, nullptr, from, ctx(1)), 0);
		ASSERT_EQ(fi_inject(second.ep.get(), "2", 1, second.insert(ep.get())), 0);
		EXPECT_TRUE(is_silent(cq.get()));
		ASSERT_EQ(fi_inject(first.ep.get(), "1", 1, first.insert(ep.get())), 0);
		EXPECT_EQ(next(cq.get()).op_context, ctx(1));
		EXPECT_EQ(in, '1');
		ASSERT_EQ(fi_recv(srx.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, ctx(2)), 0);
		EXPECT_EQ(next(cq.get()).op_context, ctx(2));
	}

	Node node, peer_node;
	Side first, second;
	Owned<fid_ep> srx;
	Owned<fid_av> av;
	Owned<fid_cq> cq;
	Owned<fid_ep> ep;
	Info msg;
	fi_addr_t from = FI_ADDR_NOTAVAIL;
};

// conformance: fi_endpoint(3): shared receive contexts: buffers are posted there, and usable by any
//   endpoint
TEST(Mixed, AConnectionLeavesSourcesToOtherEndpoints)
{
	for (int i = 0; i < 4; ++i) {
		BothKinds p(i & 1);
		Active server(p.node, p.msg.get());
		fid_ep *const order[2] = {i & 2 ? server.ep.get() : p.ep.get(),
					  i & 2 ? p.ep.get() : server.ep.get()};

		SCOPED_TRACE(i);
		for (fid_ep *receiver : order)
			ASSERT_EQ(p.bind(receiver), 0);
		ASSERT_EQ(fi_enable(p.ep.get()), 0);
		p.expect_directed();
	}
}

/*
 * Only one of them has an address vector, which names sources, whichever endpoint was bound first.
 */
// conformance: fi_endpoint(3): all connectionless endpoints of a shared receive context share ...
TEST(Mixed, BothKindsShareAReceiveContext)
{
	for (const bool later : {false, true}) {
		BothKinds p(false);
		Info hints = hints_for(caps);
		hints->ep_attr->type = FI_EP_MSG;
		Node client_node(std::move(hints));
		Listener listener(p.node, p.msg.get());
		Active client(client_node);
		char in = 0;

		SCOPED_TRACE(later);
		if (!later) {
			ASSERT_EQ(p.bind(p.ep.get()), 0);
			ASSERT_EQ(fi_enable(p.ep.get()), 0);
		}
		ASSERT_EQ(fi_connect(client.ep.get(), listener.address().data(), nullptr, 0), 0);
		CmEvent request = listener.request();
		Active server(p.node, request.info.get());
		ASSERT_EQ(p.bind(server.ep.get()), 0);
		ASSERT_EQ(fi_accept(server.ep.get(), nullptr, 0), 0);
		EXPECT_EQ(next_event(client.eq.get()).event, std::uint32_t{FI_CONNECTED});
		if (later) {
			ASSERT_EQ(p.bind(p.ep.get()), 0);
			ASSERT_EQ(fi_enable(p.ep.get()), 0);
		}
		p.expect_directed();
		ASSERT_EQ(fi_recv(p.srx.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, ctx(2)), 0);
		ASSERT_EQ(fi_inject(p.first.ep.get(), "1", 1, p.first.insert(p.ep.get())), 0);
		EXPECT_EQ(next(p.cq.get()).op_context, ctx(2));
		EXPECT_EQ(in, '1');
		ASSERT_EQ(fi_recv(p.srx.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, ctx(3)), 0);
		ASSERT_EQ(fi_inject(client.ep.get(), "3", 1, FI_ADDR_UNSPEC), 0);
		EXPECT_EQ(next(server.cq.get()).op_context, ctx(3));
		EXPECT_EQ(in, '3');
	}
}

TEST(Mixed, ConnectedEndpointsShareContexts)
{
	Node node(shared_hints(FI_EP_MSG)), client_node([] {
		Info hints = hints_for(caps);
		hints->ep_attr->type = FI_EP_MSG;
		return hints;
	}());
	Shares shares(node);
	Listener listener(node);
	Target target(client_node);
	std::uint64_t in = 0, out = 5;
	Active first(client_node), second(client_node);
	Active *const clients[2] = {&first, &second};
	std::vector<std::unique_ptr<Active>> servers;

	for (Active *client : clients) {
		ASSERT_EQ(fi_connect(client->ep.get(), listener.address().data(), nullptr, 0), 0);
		CmEvent request = listener.request();
		servers.push_back(std::make_unique<Active>(node, request.info.get()));
		fid_ep *ep = servers.back()->ep.get();
		ASSERT_EQ(fi_ep_bind(ep, &shares.stx->fid, 0), 0);
		ASSERT_EQ(fi_ep_bind(ep, &shares.srx->fid, 0), 0);
		ASSERT_EQ(fi_accept(ep, nullptr, 0), 0);
		EXPECT_EQ(next_event(client->eq.get()).event, std::uint32_t{FI_CONNECTED});
		EXPECT_EQ(next_event(servers.back()->eq.get()).event, std::uint32_t{FI_CONNECTED});
	}
	for (int i = 0; i < 2; ++i) {
		fid_ep *ep = servers[i]->ep.get();

		work_on(target, ep, servers[i]->cq.get(), 0);
		/* Any peer's message may match, as the receive was posted to the shared context. */
		ASSERT_EQ(fi_recv(shares.srx.get(), &in, sizeof(in), nullptr, 0, ctx(4)), 0);
		ASSERT_EQ(fi_send(clients[i]->ep.get(), &out, sizeof(out), nullptr, 0, nullptr), 0);
		EXPECT_EQ(next(servers[i]->cq.get()).op_context, ctx(4));
		EXPECT_EQ(std::exchange(in, 0), 5u);
		ASSERT_EQ(fi_recv(clients[i]->ep.get(), &in, sizeof(in), nullptr, 0, ctx(6)), 0);
		ASSERT_EQ(fi_tsend(ep, &out, sizeof(out), nullptr, 0, 9, ctx(7)), 0);
		ASSERT_EQ(fi_send(ep, &out, sizeof(out), nullptr, 0, ctx(8)), 0);
		next(clients[i]->cq.get()); /* the completion of its send */
		EXPECT_EQ(next(clients[i]->cq.get()).op_context, ctx(6));
		EXPECT_EQ(std::exchange(in, 0), 5u);
	}

	/* One connection ends: the other one still receives what was posted for both. */
	ASSERT_EQ(fi_recv(shares.srx.get(), &in, sizeof(in), nullptr, 0, ctx(10)), 0);
	ASSERT_EQ(fi_shutdown(first.ep.get(), 0), 0);
	EXPECT_EQ(next_event(servers[0]->eq.get()).event, std::uint32_t{FI_SHUTDOWN});
	ASSERT_EQ(fi_send(second.ep.get(), &out, sizeof(out), nullptr, 0, nullptr), 0);
	for (;;) {
		const auto entry = next(servers[1]->cq.get());
		if (entry.flags & FI_RECV) {
			EXPECT_EQ(entry.op_context, ctx(10));
			break;
		}
	}
	EXPECT_EQ(in, 5u);
}

} // namespace
