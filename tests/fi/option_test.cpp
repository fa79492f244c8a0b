// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_endpoint(3): options of endpoints, and the room that is left in their contexts. */
#include "node.h"

#include <functional>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

namespace
{

/* fi_endpoint(3) of 2.x: FI_OPT_MAX_MSG_SIZE is 12 there, and the others follow in this order. */
// conformance: fi_endpoint(3): FI_OPT_MAX_MSG_SIZE, MAX_TAGGED_SIZE, MAX_RMA_SIZE, MAX_ATOMIC_SIZE,
//   INJECT_MSG_SIZE and so on (2.0): the endpoint's; -FI_ENOPROTOOPT without the capability; only
//   fi_getopt
TEST(Option, SizesOfTransfers)
{
	enum {
		max_msg = 12,
		max_tagged,
		max_rma,
		max_atomic,
		inject_msg,
		inject_tagged,
		inject_rma,
		inject_atomic,
		firewall
	};
	Info hints = hints_for(FI_MSG | FI_RMA | FI_ATOMIC);
	hints->tx_attr->inject_size = 100;
	Pair p(std::move(hints));
	fid *ep = &p.a.ep->fid;
	std::size_t value = 0, size = sizeof(value), count = 0;
	const auto is = [&](int option, std::size_t expected) {
		EXPECT_EQ(fi_getopt(ep, FI_OPT_ENDPOINT, option, &value, &size), 0) << option;
		EXPECT_EQ(value, expected) << option;
		EXPECT_EQ(size, sizeof(value));
	};

	for (const int option : {max_msg, max_rma})
		is(option, p.node.info->ep_attr->max_msg_size);
	for (const int option : {inject_msg, inject_rma, inject_atomic})
		is(option, 100);
	ASSERT_EQ(fi_atomicvalid(p.a.ep.get(), FI_UINT8, FI_SUM, &count), 0);
	is(max_atomic, count);
	for (const int option : {max_tagged, inject_tagged, firewall})
		EXPECT_EQ(fi_getopt(ep, FI_OPT_ENDPOINT, option, &value, &size), -FI_ENOPROTOOPT);
	size = 4;
	EXPECT_EQ(fi_getopt(ep, FI_OPT_ENDPOINT, max_msg, &value, &size), -FI_ETOOSMALL);
}

// conformance: fi_endpoint(3): fi_tx_size_left, fi_rx_size_left: a lower bound of the operations
//   that may be posted: each with all vectors that it can have, and no more than the completion
//   queue has room for
TEST(Option, OptionsAndRoom)
{
	Info hints = hints_for(FI_MSG);
	hints->tx_attr->size = 64;
	hints->rx_attr->size = 128;
	Pair p(std::move(hints));
	fid *ep = &p.a.ep->fid;
	std::size_t value = 0, size = sizeof(value);

	EXPECT_EQ(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, &value, &size), 0);
	EXPECT_EQ(value, 64u);
	size = 2;
	Log log;
	EXPECT_EQ(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_RX_SIZE, &value, &size), -FI_ETOOSMALL);
	EXPECT_TRUE(log.has("getopt: room for 2, not for 8")) << log.all();
	size = sizeof(value);
	for (const int option : {FI_OPT_CM_DATA_SIZE, FI_OPT_BUFFERED_MIN}) {
		EXPECT_EQ(fi_getopt(ep, FI_OPT_ENDPOINT, option, &value, &size), -FI_ENOPROTOOPT);
		EXPECT_EQ(fi_setopt(ep, FI_OPT_ENDPOINT, option, &value, size), -FI_ENOPROTOOPT);
	}
	/*
	 * There are no transfers between devices, so any setting that leaves them to the provider
	 * is met.
	 */
	for (int how : {FI_HMEM_P2P_ENABLED, FI_HMEM_P2P_PREFERRED, FI_HMEM_P2P_DISABLED}) {
		int set = -1;
		std::size_t room = sizeof(set);
		EXPECT_EQ(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &how, sizeof(how)), 0);
		EXPECT_EQ(fi_getopt(ep, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &set, &room), 0);
		EXPECT_EQ(room, sizeof(set));
		EXPECT_EQ(set, how);
	}
	int how = FI_HMEM_P2P_REQUIRED;
	EXPECT_EQ(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &how, sizeof(how)),
		  -FI_EOPNOTSUPP);
	how = 77;
	EXPECT_EQ(fi_setopt(ep, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &how, sizeof(how)),
		  -FI_EINVAL);
	/* Deprecated calls, through the table, to avoid warnings. */
	char c;
	const auto rx_left = [&] { return p.a.ep->ops->rx_size_left(p.a.ep.get()); };
	EXPECT_EQ(rx_left(), 64);
	ASSERT_EQ(fi_recv(p.a.ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	EXPECT_EQ(rx_left(), 63);
	EXPECT_EQ(p.a.ep->ops->tx_size_left(p.a.ep.get()), 32);
	/* A lower bound: so many operations of any kind. */
	const iovec two[] = {{&c, 1}, {&c, 1}};
	for (ssize_t left = rx_left(); left; --left)
		ASSERT_EQ(fi_recvv(p.a.ep.get(), two, nullptr, 2, FI_ADDR_UNSPEC, nullptr), 0);
	EXPECT_EQ(rx_left(), 0);
}

// conformance: fi_endpoint(3): fi_tx_size_left, fi_rx_size_left: a lower bound of the ...
TEST(Option, RoomIsForTheLongestOperations)
{
	const auto left = [](std::uint64_t caps) {
		Info hints = hints_for(caps);
		hints->tx_attr->size = 64;
		const Pair p(std::move(hints));
		return p.a.ep->ops->tx_size_left(p.a.ep.get());
	};

	EXPECT_EQ(left(FI_TAGGED), 32);
	EXPECT_EQ(left(FI_MSG | FI_RMA), 21);
	EXPECT_EQ(left(FI_ATOMIC | FI_WRITE), 21);
	EXPECT_EQ(left(FI_ATOMIC), 12);
	/* None for an endpoint without the direction. */
	const Pair sends(hints_for(FI_MSG | FI_SEND));
	EXPECT_GT(sends.a.ep->ops->tx_size_left(sends.a.ep.get()), 0);
	EXPECT_EQ(sends.a.ep->ops->rx_size_left(sends.a.ep.get()), 0);
	const Pair receives(hints_for(FI_MSG | FI_RECV));
	EXPECT_EQ(receives.a.ep->ops->tx_size_left(receives.a.ep.get()), 0);
	EXPECT_GT(receives.a.ep->ops->rx_size_left(receives.a.ep.get()), 0);
	Node node;
	const auto disabled = node.ep();
	EXPECT_EQ(disabled->ops->tx_size_left(disabled.get()), -FI_EOPBADSTATE);
}

/* Nothing is posted while unread completions fill the queue. */
// conformance: fi_endpoint(3): fi_tx_size_left, fi_rx_size_left: a lower bound of the ...
TEST(Option, ThereIsNoRoomWhileCompletionsAreUnread)
{
	Node node(hints_for(FI_MSG));
	fi_cq_attr attr{};
	fid_cq *cq = nullptr;
	attr.size = 32;
	attr.format = FI_CQ_FORMAT_TAGGED;
	attr.wait_obj = FI_WAIT_UNSPEC;
	ASSERT_EQ(fi_cq_open(node.domain.get(), &attr, &cq, nullptr), 0);
	const Owned<fid_cq> few(cq);
	const Owned<fid_cq> many = node.cq();
	const Owned<fid_av> av = node.av();
	const Owned<fid_ep> ep = node.ep();
	fi_addr_t self = FI_ADDR_UNSPEC;
	char name[64], out = 'x', in[64];
	std::size_t size = sizeof(name);
	ssize_t posted = 0;

	ASSERT_EQ(fi_ep_bind(ep.get(), &few->fid, FI_TRANSMIT), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &many->fid, FI_RECV), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
	ASSERT_EQ(fi_enable(ep.get()), 0);
	ASSERT_EQ(fi_getname(&ep->fid, name, &size), 0);
	ASSERT_EQ(fi_av_insert(av.get(), name, 1, &self, 0, nullptr), 1);
	const auto left = [&] { return ep->ops->tx_size_left(ep.get()); };
	const auto send = [&] { return fi_send(ep.get(), &out, 1, nullptr, self, nullptr); };
	for (char &c : in)
		ASSERT_EQ(fi_recv(ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	for (ssize_t n; (n = left()) > 0;) {
		ASSERT_LT(posted + n, ssize_t{sizeof(in)});
		for (; n; --n, ++posted)
			ASSERT_EQ(send(), 0);
	}
	EXPECT_GT(posted, 0);
	while (send() == 0)
		++posted;
	EXPECT_EQ(left(), 0);
	for (; posted; --posted)
		next(few.get());
	EXPECT_GT(left(), 0);
	EXPECT_EQ(send(), 0);
}

} // namespace
