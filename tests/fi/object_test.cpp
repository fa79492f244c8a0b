// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Fabrics, domains, endpoints: their states, what keeps them open, and what can't be bound. */
// conformance: fi_domain(3): fi_domain opens an access domain with the properties of info
// conformance: fi_arch(7): calls are routed into the provider through function pointers of objects
// conformance: fi_arch(7): endpoint types: FI_EP_RDM

#include "child.h"
#include "node.h"

#include <functional>
#include <thread>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace
{

struct AtExit {
	~AtExit()
	{
		if (call)
			call();
	}
	std::function<void()> call;
} at_exit;

/* The objects to bind; not all are bound yet. */
struct Parts {
	explicit Parts(Node &node) : av(node.av()), cq(node.cq()), cntr(node.cntr()), ep(node.ep())
	{
	}

	Owned<fid_av> av;
	Owned<fid_cq> cq;
	Owned<fid_cntr> cntr;
	Owned<fid_ep> ep;
};

// conformance: fi_domain(3): fi_close: -FI_EBUSY while objects are open
TEST(Object, ObjectsInUseAreBusy)
{
	Node node;
	Log log;
	{
		const auto eq = node.eq();
		Parts parts(node);

		ASSERT_EQ(fi_ep_bind(parts.ep.get(), &eq->fid, 0), 0);
		ASSERT_EQ(fi_ep_bind(parts.ep.get(), &parts.av->fid, 0), 0);
		ASSERT_EQ(fi_ep_bind(parts.ep.get(), &parts.cq->fid, FI_TRANSMIT | FI_RECV), 0);
		ASSERT_EQ(fi_ep_bind(parts.ep.get(), &parts.cntr->fid, FI_SEND), 0);
		for (const bool enabled : {false, true}) {
			if (enabled) {
				ASSERT_EQ(fi_enable(parts.ep.get()), 0);
			}
			EXPECT_EQ(fi_close(&eq->fid), -FI_EBUSY);
			EXPECT_EQ(fi_close(&parts.av->fid), -FI_EBUSY);
			EXPECT_EQ(fi_close(&parts.cq->fid), -FI_EBUSY);
			EXPECT_EQ(fi_close(&parts.cntr->fid), -FI_EBUSY);
			EXPECT_EQ(fi_close(&node.domain->fid), -FI_EBUSY);
			EXPECT_EQ(fi_close(&node.fabric->fid), -FI_EBUSY);
		}
		EXPECT_TRUE(log.has("still in use"));
	}
	EXPECT_EQ(fi_close(&node.fabric->fid), -FI_EBUSY) << "the domain is open";
}

/* A program's own static is destroyed after those of libraries that were loaded later. */
// conformance: fi_domain(3): fi_close: -FI_EBUSY while objects are open
TEST(Object, OpenObjectsMayBeClosedWhenTheProgramEnds)
{
	Child child([](int) {
		fid_fabric *fabric = nullptr;
		fi_fabric_attr *const attr = get_info(no_hints().get()).release()->fabric_attr;

		if (fi_fabric(attr, &fabric, nullptr))
			return 1;
		at_exit.call = [fabric, attr] {
			std::vector<fid_fabric *> more(20);
			for (fid_fabric *&one : more) {
				if (fi_fabric(attr, &one, nullptr))
					_exit(2);
			}
			more.push_back(fabric);
			for (fid_fabric *one : more) {
				if (fi_close(&one->fid))
					_exit(3);
			}
		};
		std::exit(0);
	});

	EXPECT_EQ(child.wait(), 0);
}

// conformance: fi_domain(3): fi_close: -FI_EBUSY while objects are open
TEST(Object, EachOfADomainsChildrenKeepsItOpen)
{
	Node node;
	char memory[4096];
	fid_mr *mr = nullptr;

	const auto keeps_open = [&](const auto &) {
		EXPECT_EQ(fi_close(&node.domain->fid), -FI_EBUSY);
	};
	keeps_open(node.av());
	keeps_open(node.cq());
	keeps_open(node.cntr());
	keeps_open(node.ep());
	ASSERT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof(memory), FI_SEND, 0, 1, 0, &mr,
			    nullptr),
		  0);
	keeps_open(Owned<fid_mr>(mr));
}

/*
 * fi_endpoint(3): a target of RMA needs no queue. Without one its messages could not be reported.
 */
TEST(Object, WithoutAQueueATargetOfRmaReceivesNoMessages)
{
	Node node;
	Parts parts(node);
	fid_ep *ep = parts.ep.get();
	char c = 0;
	Log log;

	ASSERT_EQ(fi_ep_bind(ep, &parts.av->fid, 0), 0);
	ASSERT_EQ(fi_ep_bind(ep, &parts.cq->fid, FI_TRANSMIT), 0);
	ASSERT_EQ(fi_enable(ep), 0);
	EXPECT_EQ(fi_recv(ep, &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), -FI_ENOCQ);
	EXPECT_TRUE(log.has("no queue or counter")) << log.all();
	EXPECT_EQ(fi_trecv(ep, &c, 1, nullptr, FI_ADDR_UNSPEC, 0, 0, nullptr), -FI_ENOCQ);
}

// conformance: fi_endpoint(3): an endpoint's objects are of its domain (-FI_EDOMAIN); a ...
TEST(Object, AnEndpointIsEnabledOnlyWithAllItNeeds)
{
	Node node(hints_for(FI_MSG | FI_TAGGED));
	Parts parts(node);
	fid_ep *ep = parts.ep.get();
	char c = 0;
	Log log;

	const std::function<ssize_t()> calls[] = {
		[&] { return fi_send(ep, &c, 1, nullptr, 0, nullptr); },
		[&] { return fi_trecv(ep, &c, 1, nullptr, 0, 0, 0, nullptr); },
		[&] { return fi_inject(ep, &c, 1, 0); },
		[&] { return fi_cancel(&ep->fid, nullptr); },
	};
	for (const auto &call : calls) {
		log.clear();
		EXPECT_EQ(call(), -FI_EOPBADSTATE);
		EXPECT_TRUE(log.has("not enabled")) << &call - calls;
	}
	EXPECT_EQ(fi_enable(ep), -FI_ENOAV);
	ASSERT_EQ(fi_ep_bind(ep, &parts.av->fid, 0), 0);
	EXPECT_EQ(fi_enable(ep), -FI_ENOCQ);
	ASSERT_EQ(fi_ep_bind(ep, &parts.cq->fid, FI_TRANSMIT), 0);
	EXPECT_EQ(fi_enable(ep), -FI_ENOCQ);
	EXPECT_TRUE(log.has("FI_RECV"));
	ASSERT_EQ(fi_ep_bind(ep, &parts.cq->fid, FI_RECV), 0);
	EXPECT_EQ(fi_enable(ep), 0);
	EXPECT_EQ(fi_enable(ep), 0) << "again is nothing new";
	EXPECT_EQ(fi_recv(ep, &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	EXPECT_EQ(fi_ep_bind(ep, &parts.cntr->fid, FI_SEND), -FI_EOPBADSTATE);
}

// conformance: fi_arch(7): an endpoint may only send, or only receive
TEST(Object, OneDirectionNeedsOneQueueAndHasItsCalls)
{
	Node node(hints_for(FI_MSG | FI_RECV));
	Parts parts(node);
	fid_ep *ep = parts.ep.get();
	char c = 0;

	ASSERT_EQ(fi_ep_bind(ep, &parts.av->fid, 0), 0);
	ASSERT_EQ(fi_ep_bind(ep, &parts.cq->fid, FI_RECV), 0);
	ASSERT_EQ(fi_enable(ep), 0);
	EXPECT_EQ(fi_recv(ep, &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	EXPECT_EQ(fi_send(ep, &c, 1, nullptr, 0, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_trecv(ep, &c, 1, nullptr, 0, 0, 0, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_write(ep, &c, 1, nullptr, 0, 0, 0, nullptr), -FI_ENOSYS);
	EXPECT_EQ(fi_inject_atomic(ep, &c, 1, 0, 0, 0, FI_UINT8, FI_SUM), -FI_ENOSYS);
}

// conformance: fi_domain(3): fi_domain_bind: the default EQ of the domain serves active ...
// conformance: fi_domain(3): objects that are bound together are of one domain: -FI_EDOMAIN
// conformance: fi_endpoint(3): an endpoint's objects are of its domain (-FI_EDOMAIN); a
//   connectionless endpoint has an address vector (-FI_ENOAV)
TEST(Object, BindingIsChecked)
{
	Node node, other;
	const auto another = node.cq();
	Parts parts(node), foreign(other);
	fid_ep *ep = parts.ep.get();

	EXPECT_EQ(fi_ep_bind(ep, &parts.cq->fid, 0), -FI_EBADFLAGS);
	EXPECT_EQ(fi_ep_bind(ep, &parts.cq->fid, FI_SELECTIVE_COMPLETION), -FI_EBADFLAGS);
	EXPECT_EQ(fi_ep_bind(ep, &parts.cq->fid, FI_RECV | FI_PEEK), -FI_EBADFLAGS);
	ASSERT_EQ(fi_ep_bind(ep, &parts.cq->fid, FI_RECV), 0);
	EXPECT_EQ(fi_ep_bind(ep, &another->fid, FI_RECV), -FI_EINVAL);
	EXPECT_EQ(fi_ep_bind(ep, &another->fid, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
	ASSERT_EQ(fi_ep_bind(ep, &another->fid, FI_TRANSMIT), 0);

	EXPECT_EQ(fi_ep_bind(ep, &parts.av->fid, FI_SEND), -FI_EBADFLAGS);
	ASSERT_EQ(fi_ep_bind(ep, &parts.av->fid, 0), 0);
	EXPECT_EQ(fi_ep_bind(ep, &parts.av->fid, 0), -FI_EINVAL);

	EXPECT_EQ(fi_ep_bind(ep, &parts.cntr->fid, 0), 0);		 /* counts nothing */
	ASSERT_EQ(fi_ep_bind(ep, &parts.cntr->fid, FI_REMOTE_WRITE), 0); /* has FI_RMA_EVENT */
	EXPECT_EQ(fi_ep_bind(ep, &parts.cntr->fid, FI_REMOTE_WRITE), -FI_EINVAL);
	ASSERT_EQ(fi_ep_bind(ep, &parts.cntr->fid, FI_SEND | FI_RECV), 0);
	EXPECT_EQ(fi_ep_bind(ep, &parts.cntr->fid, FI_RECV), -FI_EINVAL);

	EXPECT_EQ(fi_ep_bind(ep, &foreign.cntr->fid, FI_READ), -FI_EDOMAIN);
	EXPECT_EQ(fi_ep_bind(ep, &node.domain->fid, 0), -FI_EINVAL);
	EXPECT_EQ(fi_ep_bind(foreign.ep.get(), &parts.av->fid, 0), -FI_EDOMAIN);
	EXPECT_EQ(fi_ep_bind(foreign.ep.get(), &parts.cq->fid, FI_RECV), -FI_EDOMAIN);
	EXPECT_EQ(fi_domain_bind(node.domain.get(), &parts.cq->fid, 0), -FI_EINVAL);
}

/*
 * So does the name of an endpoint of the other family, which the same answer of fi_getinfo offers.
 */
// conformance: fi_cm(3): fi_getname, fi_getpeer: in the format of the domain, of FI_EP_MSG in ...
TEST(Object, ANameHasTheFormatOfTheDomain)
{
	Node node;
	const fi_info *other = node.info.get();
	while (other && other->addr_format != FI_SOCKADDR_IN6)
		other = other->next;
	ASSERT_NE(other, nullptr);
	fid_ep *opened = nullptr;
	ASSERT_EQ(fi_endpoint(node.domain.get(), const_cast<fi_info *>(other), &opened, nullptr),
		  0);
	const Owned<fid_ep> ep(opened);
	sockaddr_in name{};
	std::size_t size = sizeof(name);
	fi_addr_t index = FI_ADDR_NOTAVAIL;

	ASSERT_EQ(fi_getname(&ep->fid, &name, &size), 0);
	EXPECT_EQ(size, sizeof(name));
	EXPECT_EQ(name.sin_family, AF_INET);
	EXPECT_EQ(fi_av_insert(node.av().get(), &name, 1, &index, 0, nullptr), 1);
}

// conformance: fi_cm(3): fi_setname assigns an address; the port may be kept
TEST(Object, NamesCanBeTakenOnce)
{
	Node node;
	auto first = node.ep();
	auto second = node.ep();
	sockaddr_in name{}, other{};
	std::size_t size = sizeof(name);

	ASSERT_EQ(fi_getname(&first->fid, &name, &size), 0);
	EXPECT_EQ(size, sizeof(name));
	EXPECT_NE(name.sin_port, 0);
	EXPECT_EQ(name.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	Log log;
	size = 4;
	EXPECT_EQ(fi_getname(&first->fid, &other, &size), -FI_ETOOSMALL);
	EXPECT_EQ(size, sizeof(name));
	EXPECT_TRUE(log.has("getname: room for 4, not for 16")) << log.all();
	log.clear();
	size = 0;
	EXPECT_EQ(fi_getname(&first->fid, nullptr, &size), -FI_ETOOSMALL);
	EXPECT_EQ(size, sizeof(name));
	EXPECT_EQ(log.all(), "") << "a question";

	EXPECT_EQ(fi_setname(&second->fid, &name, sizeof(name)), -FI_EADDRINUSE);
	EXPECT_NE(log.all(), "");
	EXPECT_EQ(fi_setname(&second->fid, &name, 3), -FI_EINVAL);
	first.reset();
	EXPECT_EQ(fi_setname(&second->fid, &name, sizeof(name)), 0);
	size = sizeof(other);
	ASSERT_EQ(fi_getname(&second->fid, &other, &size), 0);
	EXPECT_EQ(other.sin_port, name.sin_port);

	/*
	 * An endpoint's own name may be set again, or changed in part; without a port it keeps its
	 * port.
	 */
	EXPECT_EQ(fi_setname(&second->fid, &name, sizeof(name)), 0);
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	EXPECT_EQ(fi_setname(&second->fid, &name, sizeof(name)), 0);
	name.sin_addr.s_addr = htonl(0xcb007101); /* not an address of this machine */
	EXPECT_EQ(fi_setname(&second->fid, &name, sizeof(name)), -FI_EADDRNOTAVAIL);
	ASSERT_EQ(fi_getname(&second->fid, &other, &size), 0);
	EXPECT_EQ(other.sin_addr.s_addr, htonl(INADDR_LOOPBACK + 1));
	EXPECT_EQ(other.sin_port, name.sin_port);
	other.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	other.sin_port = 0;
	EXPECT_EQ(fi_setname(&second->fid, &other, sizeof(other)), 0);
	ASSERT_EQ(fi_getname(&second->fid, &other, &size), 0);
	EXPECT_EQ(other.sin_port, name.sin_port);

	/* Likewise the source given to fi_getinfo. */
	const std::string port = std::to_string(ntohs(name.sin_port));
	node.info = get_info(no_hints().get(), nullptr, api_version, "127.0.0.1", port.c_str(),
			     FI_SOURCE);
	fid_ep *ep = nullptr;
	EXPECT_EQ(fi_endpoint(node.domain.get(), node.info.get(), &ep, nullptr), -FI_EADDRINUSE);
	second.reset();
	ASSERT_EQ(fi_endpoint(node.domain.get(), node.info.get(), &ep, nullptr), 0);
	EXPECT_EQ(fi_close(&ep->fid), 0);
}

TEST(Object, AliasesShareAllButTheirFlags)
{
	Info hints = hints_for(FI_MSG);
	hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
	Pair p(std::move(hints));
	fid_ep *ep = p.a.ep.get(), *alias = nullptr;
	std::uint64_t flags = FI_TRANSMIT;
	Log log;

	EXPECT_EQ(fi_ep_alias(ep, &alias, FI_TRANSMIT | FI_RECV), -FI_EINVAL);
	EXPECT_EQ(fi_ep_alias(ep, &alias, FI_COMPLETION), -FI_EINVAL);
	EXPECT_EQ(fi_ep_alias(ep, &alias, FI_TRANSMIT | FI_MORE), -FI_EBADFLAGS);
	EXPECT_TRUE(log.has("FI_MORE"));
	ASSERT_EQ(fi_ep_alias(ep, &alias, FI_TRANSMIT | FI_INJECT), 0);
	ASSERT_EQ(fi_control(&alias->fid, FI_GETOPSFLAG, &flags), 0);
	EXPECT_EQ(flags, std::uint64_t{FI_INJECT});
	flags = FI_TRANSMIT;
	ASSERT_EQ(fi_control(&ep->fid, FI_GETOPSFLAG, &flags), 0);
	EXPECT_EQ(flags, std::uint64_t{FI_DELIVERY_COMPLETE});
	EXPECT_EQ(address_of(alias), address_of(ep));

	/* The buffer is free at once. */
	char in = 0, out = 'a';
	ASSERT_EQ(fi_send(alias, &out, 1, nullptr, p.b_at_a, ctx(1)), 0);
	out = 'b';
	ASSERT_EQ(fi_recv(p.b.ep.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	next(p.b.rx_cq.get());
	EXPECT_EQ(in, 'a');
	EXPECT_EQ(next(p.a.tx_cq.get()).op_context, ctx(1));

	EXPECT_EQ(fi_close(&ep->fid), -FI_EBUSY);
	EXPECT_TRUE(log.has("aliases"));
	flags = FI_TRANSMIT | FI_COMPLETION;
	EXPECT_EQ(fi_control(&alias->fid, FI_SETOPSFLAG, &flags), 0);
	flags = FI_RECV | FI_INJECT;
	EXPECT_EQ(fi_control(&alias->fid, FI_SETOPSFLAG, &flags), -FI_EBADFLAGS);
	EXPECT_EQ(fi_close(&alias->fid), 0);
}

/* Control calls may come from any thread: closing the last handle closes the endpoint. */
TEST(Object, AnAliasAndItsEndpointMayBeClosedByTwoThreads)
{
	Node node(hints_for(FI_MSG));

	for (int i = 0; i < 300; ++i) {
		auto cq = node.cq();
		fid_ep *ep = node.ep().release(), *alias = nullptr;

		ASSERT_EQ(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
		ASSERT_EQ(fi_ep_alias(ep, &alias, FI_TRANSMIT | FI_INJECT), 0);
		std::thread other([&] { EXPECT_EQ(fi_close(&alias->fid), 0); });
		int rc;
		while ((rc = fi_close(&ep->fid)) == -FI_EBUSY)
			;
		ASSERT_EQ(rc, 0);
		cq.reset(); /* is not in use */
		other.join();
	}
}

TEST(Object, AnAliasOfADisabledEndpointIsEnabledWithIt)
{
	Node node(hints_for(FI_MSG));
	Parts parts(node);
	fid_ep *alias = nullptr;
	char c = 0;

	ASSERT_EQ(fi_ep_alias(parts.ep.get(), &alias, FI_RECV), 0);
	const Owned<fid_ep> owner(alias);
	EXPECT_EQ(fi_recv(alias, &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), -FI_EOPBADSTATE);
	ASSERT_EQ(fi_ep_bind(parts.ep.get(), &parts.av->fid, 0), 0);
	ASSERT_EQ(fi_ep_bind(parts.ep.get(), &parts.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	ASSERT_EQ(fi_enable(parts.ep.get()), 0);
	EXPECT_EQ(fi_recv(alias, &c, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
}

// conformance: fi_domain(3): fi_open_ops opens provider specific interfaces: those of ...
TEST(Object, UnknownRequestsAreRefused)
{
	Node node;
	fid_ep *ep = nullptr;
	fid_pep *pep = nullptr;
	void *operations = nullptr;
	Log log;

	EXPECT_EQ(fi_passive_ep(node.fabric.get(), node.info.get(), &pep, nullptr), -FI_EINVAL);
	EXPECT_EQ(fi_open_ops(&node.domain->fid, "magic", 0, &operations, nullptr), -FI_ENOSYS);
	EXPECT_TRUE(log.has("magic"));
	EXPECT_EQ(fi_query_atomic(node.domain.get(), FI_VOID, FI_SUM, nullptr, 0), -FI_EOPNOTSUPP);
	EXPECT_EQ(fi_control(&node.domain->fid, 4711, nullptr), -FI_ENOSYS);

	node.info->ep_attr->type = FI_EP_MSG;
	EXPECT_EQ(fi_endpoint(node.domain.get(), node.info.get(), &ep, nullptr), -FI_EINVAL);
	node.info->ep_attr->type = FI_EP_RDM;
	node.info->caps |= FI_MULTICAST;
	EXPECT_EQ(fi_endpoint(node.domain.get(), node.info.get(), &ep, nullptr), -FI_EINVAL);
	EXPECT_TRUE(log.has("FI_MULTICAST"));
}

// conformance: fi_domain(3): cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt, cntr_cnt, mr_cnt: from the ...
TEST(Object, ThousandsOfEndpoints)
{
	Info hints = hints_for(FI_MSG);
	hints->tx_attr->size = 32;
	hints->rx_attr->size = 32;
	Node node(std::move(hints));
	const auto av = node.av();
	const auto cq = node.cq();
	std::vector<Owned<fid_ep>> eps;
	constexpr int n = 1000;
	std::vector<std::byte> addresses;

	for (int i = 0; i < n; ++i) {
		eps.push_back(node.ep());
		ASSERT_EQ(fi_ep_bind(eps.back().get(), &av->fid, 0), 0);
		ASSERT_EQ(fi_ep_bind(eps.back().get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
		ASSERT_EQ(fi_enable(eps.back().get()), 0);
		const auto address = address_of(eps.back().get());
		addresses.insert(addresses.end(), address.begin(), address.end());
	}
	ASSERT_EQ(fi_av_insert(av.get(), addresses.data(), n, nullptr, 0, nullptr), n);
	int value = 0;
	for (int i = 0; i < n; i += 99) {
		const int next_one = (i + 99) % n;
		ASSERT_EQ(fi_recv(eps[next_one].get(), &value, sizeof(value), nullptr,
				  FI_ADDR_UNSPEC, ctx(1)),
			  0);
		ASSERT_EQ(fi_inject(eps[i].get(), &i, sizeof(i), next_one), 0);
		EXPECT_EQ(next(cq.get()).op_context, ctx(1));
		EXPECT_EQ(value, i);
	}
}

} // namespace
