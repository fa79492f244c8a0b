// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_cm(3), and connections in fi_endpoint(3) and fi_eq(3). */
// conformance: fi_arch(7): connection-oriented setup: passive endpoints, listen, connect, accept
// conformance: fi_arch(7): endpoint types: FI_EP_MSG

#include <algorithm>

#include "child.h"
#include "cm.h"

namespace
{

/* --- connecting ---------------------------------------------------------------------- */

// conformance: fi_cm(3): fi_listen: requests are reported through a bound EQ as FI_CONNREQ
TEST_F(Cm, AConnectionCarriesMessagesBothWays)
{
	establish();
	send(client, *server);
	send(*server, client);
}

// conformance: fi_eq(3): user data with FI_CONNECTED only on the active side
TEST_F(Cm, UserDataIsExchangedAsPartOfTheConnection)
{
	ASSERT_EQ(connect("question"), 0);
	CmEvent request = listener.request();
	EXPECT_EQ(request.data, "question");
	accept(request, "answer");
	EXPECT_EQ(expect_connected(), "answer");
}

// conformance: fi_cm(3): FI_OPT_CM_DATA_SIZE: 256; data that cannot fit is silently truncated
TEST_F(Cm, CmDataSizeIsTheLimitOfData)
{
	for (fid *object : {&client.ep->fid, &listener.pep->fid}) {
		std::size_t value = 0, size = sizeof(value);
		ASSERT_EQ(fi_getopt(object, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, &size),
			  0);
		EXPECT_EQ(value, 256u);
		EXPECT_EQ(size, sizeof(value));
		size = 1;
		EXPECT_EQ(fi_getopt(object, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, &size),
			  -FI_ETOOSMALL);
	}
}

// conformance: fi_cm(3): FI_OPT_CM_DATA_SIZE: 256; data that cannot fit is silently truncated
TEST_F(Cm, DataThatCannotFitIsSilentlyTruncated)
{
	const std::string data(300, 'x');

	ASSERT_EQ(connect(data), 0);
	CmEvent request = listener.request();
	EXPECT_EQ(request.data, data.substr(0, 256));
	accept(request, data);
	EXPECT_EQ(expect_connected(), data.substr(0, 256));
}

// conformance: fi_eq(3): data behind the fi_eq_cm_entry, as much as the buffer has room for
TEST_F(Cm, ReturnedDataIsLimitedToTheReadersBuffer)
{
	ASSERT_EQ(connect("question"), 0);
	fi_eq_cm_entry entry;
	std::uint32_t event;
	EXPECT_EQ(fi_eq_sread(listener.eq.get(), &event, &entry, sizeof(entry) - 1, patience, 0),
		  -FI_ETOOSMALL);
	EXPECT_EQ(next_event(listener.eq.get(), 4).data, "ques");
}

// conformance: fi_cm(3): the accepting endpoint is allocated from the fi_info of the FI_CONNREQ
//   event
// conformance: fi_eq(3): FI_CONNREQ: fi_info with the handle of the request, freed by the
//   application
TEST_F(Cm, ARequestDescribesTheEndpointThatIsAskedFor)
{
	ASSERT_EQ(connect(), 0);
	CmEvent request = listener.request();
	ASSERT_TRUE(request.info);
	EXPECT_EQ(request.info->ep_attr->type, FI_EP_MSG);
	EXPECT_EQ(request.info->caps, node.info->caps);
	ASSERT_NE(request.info->handle, nullptr);
	EXPECT_EQ(request.info->handle->fclass, std::size_t{FI_CLASS_CONNREQ});
	EXPECT_STREQ(request.info->fabric_attr->prov_name, node.info->fabric_attr->prov_name);
	EXPECT_EQ(request.info->fabric_attr->api_version, node.info->fabric_attr->api_version);
	const auto there = address_of(client.ep.get()), here = listener.address();
	ASSERT_EQ(request.info->dest_addrlen, there.size());
	EXPECT_EQ(std::memcmp(request.info->dest_addr, there.data(), there.size()), 0);
	ASSERT_EQ(request.info->src_addrlen, here.size());
	EXPECT_EQ(std::memcmp(request.info->src_addr, here.data(), here.size()), 0);
}

/* Its fi_info, which is needed for the answer, would be lost. */
// conformance: fi_eq(3): no buffer: only the number of the event is returned, and the event is ...
TEST_F(Cm, ARequestIsNotReadWithoutABuffer)
{
	std::uint32_t event = 0;

	ASSERT_EQ(connect(), 0);
	EXPECT_EQ(fi_eq_sread(listener.eq.get(), &event, nullptr, 0, patience, 0), -FI_ETOOSMALL);
	Log log;
	EXPECT_EQ(fi_eq_read(listener.eq.get(), &event, nullptr, 512, 0), -FI_ETOOSMALL);
	EXPECT_TRUE(log.has("no buffer for it")) << log.all();
	EXPECT_EQ(fi_eq_read(listener.eq.get(), &event, nullptr, 0, FI_PEEK), 0);
	EXPECT_EQ(event, std::uint32_t{FI_CONNREQ});
	accept(listener.request());
	expect_connected();
}

// conformance: fi_eq(3): FI_PEEK: read without being consumed
TEST_F(Cm, PeekingLeavesTheRequest)
{
	fi_eq_cm_entry entry{};
	std::uint32_t event;

	ASSERT_EQ(connect(), 0);
	ASSERT_EQ(fi_eq_sread(listener.eq.get(), &event, &entry, sizeof(entry), patience, FI_PEEK),
		  ssize_t{sizeof(entry)});
	EXPECT_EQ(event, std::uint32_t{FI_CONNREQ});
	CmEvent request = listener.request();
	EXPECT_EQ(request.info.get(), entry.info);
	accept(request);
	expect_connected();
}

// conformance: fi_endpoint(3): fi_connect and fi_accept enable
TEST_F(Cm, ConnectAndAcceptEnable)
{
	std::uint64_t in;

	EXPECT_EQ(fi_recv(client.ep.get(), &in, sizeof(in), nullptr, 0, nullptr), -FI_EOPBADSTATE);
	ASSERT_EQ(connect(), 0);
	EXPECT_EQ(fi_recv(client.ep.get(), &in, sizeof(in), nullptr, 0, nullptr), 0);
}

// conformance: fi_cm(3): outbound transfers not before FI_CONNECTED (-FI_ENOTCONN); receive buffers
//   anytime
TEST_F(Cm, ReceiveBuffersMayBePostedAnytimeSendsNotBeforeConnected)
{
	std::uint64_t in = 0, out = 7;

	ASSERT_EQ(fi_enable(client.ep.get()), 0);
	EXPECT_EQ(fi_recv(client.ep.get(), &in, sizeof(in), nullptr, 0, ctx(9)), 0);
	EXPECT_EQ(sendmsg(client.ep.get(), &out, sizeof(out), ctx(9), FI_MORE), 0);
	EXPECT_EQ(fi_send(client.ep.get(), &out, sizeof(out), nullptr, 0, nullptr), -FI_ENOTCONN);
	EXPECT_EQ(next_error(client.cq.get()).err, FI_ENOTCONN);
	establish();
	ASSERT_EQ(fi_send(server->ep.get(), &out, sizeof(out), nullptr, 0, nullptr), 0);
	EXPECT_EQ(next(client.cq.get()).op_context, ctx(9));
	EXPECT_EQ(in, out);
}

// conformance: fi_cm(3): fi_connect may only be called once in an endpoint's lifetime: -FI_EISCONN
TEST_F(Cm, ConnectMayBeCalledOnlyOnce)
{
	ASSERT_EQ(connect(), 0);
	EXPECT_EQ(connect(), -FI_EISCONN);
	accept(listener.request());
	expect_connected();
	EXPECT_EQ(connect(), -FI_EISCONN);
	EXPECT_EQ(fi_accept(client.ep.get(), nullptr, 0), -FI_EINVAL);
	EXPECT_EQ(fi_accept(server->ep.get(), nullptr, 0), -FI_EINVAL);
}

TEST_F(Cm, WithoutAListenerTheConnectionIsRefused)
{
	const auto address = listener.address();

	listener.pep.reset();
	ASSERT_EQ(fi_connect(client.ep.get(), address.data(), nullptr, 0), 0);
	const auto error = next_eq_error(client.eq.get());
	EXPECT_EQ(error.err, FI_ECONNREFUSED);
	EXPECT_EQ(error.fid, &client.ep->fid);
	EXPECT_EQ(error.context, &client);
	EXPECT_EQ(error.err_data_size, 0u);
}

/* As much data as max_err_data says. */
// conformance: fi_domain(3): max_err_data: 256, the data of a rejected connection; an address
//   (FI_SOURCE_ERR) takes 80
// conformance: fi_cm(3): fi_reject refuses a request; the peer has an error event with details
// conformance: fi_eq(3): fi_eq_readerr: err_data is lent, or copied to the caller's buffer
TEST_F(Cm, ARejectedRequestCarriesDataInItsError)
{
	const std::vector<std::uint8_t> out = pattern(256);
	std::string data;

	ASSERT_EQ(connect(), 0);
	CmEvent request = listener.request();
	EXPECT_EQ(fi_reject(listener.pep.get(), request.info->handle, out.data(), out.size()), 0);
	EXPECT_EQ(next_eq_error(client.eq.get(), &data).err, FI_ECONNREFUSED);
	EXPECT_EQ(data, std::string(out.begin(), out.end()));
	EXPECT_LE(data.size(), node.info->domain_attr->max_err_data);
	/* The request is answered, and its handle is no longer valid. */
	EXPECT_EQ(fi_reject(listener.pep.get(), request.info->handle, nullptr, 0), -FI_EINVAL);
	fid_ep *ep = nullptr;
	EXPECT_EQ(fi_endpoint(node.domain.get(), request.info.get(), &ep, nullptr), -FI_EINVAL);
}

// conformance: fi_eq(3): fi_eq_readerr: err_data is lent, or copied to the caller's buffer
TEST_F(Cm, ErrorDataGoesWhereTheReaderSays)
{
	char room[2] = {};
	fi_eq_err_entry error{};
	fi_eq_cm_entry entry;
	std::uint32_t event;

	ASSERT_EQ(connect(), 0);
	CmEvent request = listener.request();
	EXPECT_EQ(fi_reject(listener.pep.get(), request.info->handle, "never", 5), 0);
	EXPECT_EQ(fi_eq_sread(client.eq.get(), &event, &entry, sizeof(entry), patience, 0),
		  -FI_EAVAIL);
	error.err_data = room;
	error.err_data_size = sizeof(room);
	ASSERT_EQ(fi_eq_readerr(client.eq.get(), &error, 0), ssize_t{sizeof(error)});
	EXPECT_EQ(error.err_data, room);
	EXPECT_EQ(error.err_data_size, sizeof(room));
	EXPECT_EQ(std::string(room, 2), "ne");
}

TEST_F(Cm, ASizeWithoutABufferIsLentOne)
{
	fi_eq_cm_entry entry;
	fi_eq_err_entry error{};
	std::uint32_t event;

	ASSERT_EQ(connect(), 0);
	CmEvent request = listener.request();
	EXPECT_EQ(fi_reject(listener.pep.get(), request.info->handle, "never", 5), 0);
	EXPECT_EQ(fi_eq_sread(client.eq.get(), &event, &entry, sizeof(entry), patience, 0),
		  -FI_EAVAIL);
	error.err_data_size = 64;
	ASSERT_EQ(fi_eq_readerr(client.eq.get(), &error, 0), ssize_t{sizeof(error)});
	EXPECT_EQ(std::string(static_cast<char *>(error.err_data), error.err_data_size), "never");
}

// conformance: fi_cm(3): the number of outstanding requests is limited by the backlog, adjusted
//   through fi_control (FI_BACKLOG)
TEST_F(Cm, TheBacklogLimitsUnansweredRequests)
{
	int backlog = 1, none = 0;

	EXPECT_EQ(fi_control(&listener.pep->fid, FI_BACKLOG, &backlog), 0);
	EXPECT_EQ(fi_control(&listener.pep->fid, FI_BACKLOG, &none), -FI_EINVAL);
	ASSERT_EQ(connect(), 0);
	Active second(node);
	ASSERT_EQ(fi_connect(second.ep.get(), listener.address().data(), nullptr, 0), 0);
	EXPECT_EQ(next_eq_error(second.eq.get()).err, FI_ECONNREFUSED);
	accept(listener.request());
	expect_connected();
}

// conformance: fi_arch(7): a passive endpoint serves many connections
TEST_F(Cm, ManyConnectionsAtOneAddress)
{
	std::vector<std::unique_ptr<Active>> clients, servers;

	for (int i = 0; i < 50; ++i) {
		auto &c = clients.emplace_back(std::make_unique<Active>(node));
		ASSERT_EQ(fi_connect(c->ep.get(), listener.address().data(), &i, sizeof(i)), 0);
	}
	for (int i = 0; i < 50; ++i) {
		CmEvent request = listener.request();
		int number = -1;
		std::memcpy(&number, request.data.data(), sizeof(number));
		EXPECT_EQ(number, i) << "requests come in the order in which they were made";
		auto &s = servers.emplace_back(std::make_unique<Active>(node, request.info.get()));
		ASSERT_EQ(fi_accept(s->ep.get(), nullptr, 0), 0);
		EXPECT_EQ(next_event(s->eq.get()).event, std::uint32_t{FI_CONNECTED});
		EXPECT_EQ(next_event(clients[i]->eq.get()).event, std::uint32_t{FI_CONNECTED});
	}
	for (int i = 0; i < 50; ++i)
		send(*clients[i], *servers[i]);
}

/* --- addresses ----------------------------------------------------------------------- */

// conformance: fi_cm(3): fi_getname, fi_getpeer: in the format of the domain, of FI_EP_MSG in that
//   of the endpoint; -FI_ETOOSMALL, and the size needed
TEST_F(Cm, NamesOfBothSides)
{
	std::byte peer[64];
	std::size_t size = sizeof(peer);

	EXPECT_EQ(fi_getpeer(client.ep.get(), peer, &size), -FI_ENOTCONN);
	establish();
	const auto here = address_of(server->ep.get()), there = address_of(client.ep.get());
	EXPECT_EQ(here, listener.address());
	size = sizeof(peer);
	ASSERT_EQ(fi_getpeer(client.ep.get(), peer, &size), 0);
	EXPECT_EQ(std::vector(peer, peer + size), here);
	size = sizeof(peer);
	ASSERT_EQ(fi_getpeer(server->ep.get(), peer, &size), 0);
	EXPECT_EQ(std::vector(peer, peer + size), there);
	size = 3;
	EXPECT_EQ(fi_getpeer(server->ep.get(), peer, &size), -FI_ETOOSMALL);
	EXPECT_EQ(size, there.size());
}

// conformance: fi_cm(3): fi_setname assigns an address; the port may be kept
// conformance: fi_endpoint(3): passive endpoints must be bound with an EQ; connected ones, too:
//   -FI_ENOEQ
TEST_F(Cm, APassiveEndpointHasTheAddressThatItIsAssigned)
{
	fid_pep *p = nullptr;

	ASSERT_EQ(fi_passive_ep(node.fabric.get(), node.info.get(), &p, nullptr), 0);
	Owned<fid_pep> pep(p);
	auto taken = listener.address();
	EXPECT_EQ(fi_setname(&p->fid, taken.data(), taken.size()), -FI_EADDRINUSE);
	listener.pep.reset();
	EXPECT_EQ(fi_setname(&p->fid, taken.data(), taken.size()), 0);
	std::vector<std::byte> name(taken.size());
	std::size_t size = name.size();
	EXPECT_EQ(fi_getname(&p->fid, name.data(), &size), 0);
	EXPECT_EQ(name, taken);
	EXPECT_EQ(fi_listen(p), -FI_ENOEQ) << "must be bound with an EQ";
	EXPECT_EQ(fi_pep_bind(p, &listener.eq->fid, 0), 0);
	EXPECT_EQ(fi_listen(p), 0);
	EXPECT_EQ(fi_setname(&p->fid, taken.data(), taken.size()), -FI_EOPBADSTATE);
}

// conformance: fi_endpoint(3): an active endpoint may acquire the properties of a passive one
//   (fi_info::handle)
TEST_F(Cm, AnActiveEndpointAcquiresTheAddressOfAPassiveOne)
{
	fid_pep *p = nullptr;
	Info hints = msg_hints();

	ASSERT_EQ(fi_passive_ep(node.fabric.get(), node.info.get(), &p, nullptr), 0);
	Owned<fid_pep> pep(p);
	std::byte name[64];
	std::size_t size = sizeof(name);
	ASSERT_EQ(fi_getname(&p->fid, name, &size), 0);

	hints->handle = &p->fid;
	Info info = get_info(hints.get());
	ASSERT_TRUE(info);
	EXPECT_EQ(info->handle, &p->fid);
	Active taker(node, info.get());
	EXPECT_EQ(address_of(taker.ep.get()), std::vector(name, name + size));
	pep.reset();
	EXPECT_EQ(address_of(taker.ep.get()), std::vector(name, name + size));
	ASSERT_EQ(fi_connect(taker.ep.get(), listener.address().data(), nullptr, 0), 0);
	CmEvent request = listener.request();
	ASSERT_EQ(request.info->dest_addrlen, size);
	EXPECT_EQ(std::memcmp(request.info->dest_addr, name, size), 0);
	hints->handle = nullptr;
}

/* A shared context names no source. */
TEST_F(Cm, ReceivesOfASharedContextComeFromThePeer)
{
	Info hints = msg_hints();
	hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	Node other(std::move(hints));
	fid_ep *context = nullptr;
	std::uint64_t out = 0x5eed, in = 0;

	ASSERT_EQ(fi_srx_context(other.domain.get(), nullptr, &context, nullptr), 0);
	const Owned<fid_ep> srx(context);
	Listener there(other);
	Active asker(other);
	ASSERT_EQ(fi_ep_bind(asker.ep.get(), &srx->fid, 0), 0);
	ASSERT_EQ(fi_connect(asker.ep.get(), there.address().data(), nullptr, 0), 0);
	CmEvent request = there.request();
	Active answerer(other, request.info.get());
	ASSERT_EQ(fi_ep_bind(answerer.ep.get(), &srx->fid, 0), 0);
	ASSERT_EQ(fi_accept(answerer.ep.get(), nullptr, 0), 0);
	EXPECT_EQ(next_event(asker.eq.get()).event, std::uint32_t{FI_CONNECTED});
	ASSERT_EQ(fi_recv(srx.get(), &in, sizeof(in), nullptr, 0, ctx(1)), 0);
	ASSERT_EQ(fi_send(asker.ep.get(), &out, sizeof(out), nullptr, 0, ctx(2)), 0);
	EXPECT_EQ(next(answerer.cq.get()).op_context, ctx(1));
	EXPECT_EQ(in, out);
}

TEST_F(Cm, AKeyOfNoBytesIsNone)
{
	std::uint8_t nothing = 0;
	fid_pep *pep = nullptr;

	node.info->domain_attr->auth_key = &nothing;
	EXPECT_EQ(fi_passive_ep(node.fabric.get(), node.info.get(), &pep, nullptr), 0);
	node.info->domain_attr->auth_key = nullptr;
	Owned<fid_pep> own(pep);
}

/* --- what is refused ----------------------------------------------------------------- */

// conformance: fi_eq(3): fi_close: -FI_EBUSY while it is bound
TEST_F(Cm, ObjectsInUseAreNotClosed)
{
	EXPECT_EQ(fi_close(&listener.eq->fid), -FI_EBUSY);
	EXPECT_EQ(fi_close(&client.eq->fid), -FI_EBUSY);
	EXPECT_EQ(fi_close(&node.fabric->fid), -FI_EBUSY);
}

// conformance: fi_cm(3): fi_shutdown: flags must be 0: -FI_EBADFLAGS
// conformance: fi_endpoint(3): passive endpoints must be bound with an EQ; connected ones, too: ...
TEST_F(Cm, AConnectedEndpointNeedsAnEventQueueAndNoAddresses)
{
	const auto cq = node.cq();
	const auto av = node.av();
	fid_ep *e = nullptr;

	ASSERT_EQ(fi_endpoint(node.domain.get(), node.info.get(), &e, nullptr), 0);
	Owned<fid_ep> ep(e);
	EXPECT_EQ(fi_ep_bind(e, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EXPECT_EQ(fi_ep_bind(e, &av->fid, 0), -FI_EINVAL);
	EXPECT_EQ(fi_ep_bind(e, &listener.eq->fid, FI_TRANSMIT), -FI_EBADFLAGS);
	EXPECT_EQ(fi_enable(e), -FI_ENOEQ); /* nor does its domain have one */
	EXPECT_EQ(fi_connect(e, listener.address().data(), nullptr, 0), -FI_ENOEQ);
	EXPECT_EQ(fi_shutdown(client.ep.get(), 1), -FI_EBADFLAGS);
	EXPECT_EQ(fi_shutdown(client.ep.get(), 0), -FI_ENOTCONN);
}

TEST_F(Cm, AnUnconnectedEndpointHasNoConnection)
{
	Node rdm;
	const auto ep = rdm.ep();
	Log log;

	EXPECT_EQ(fi_connect(ep.get(), listener.address().data(), nullptr, 0), -FI_ENOSYS);
	EXPECT_TRUE(log.has("FI_EP_MSG"));
	EXPECT_EQ(fi_accept(ep.get(), nullptr, 0), -FI_ENOSYS);
	EXPECT_EQ(fi_shutdown(ep.get(), 0), -FI_ENOSYS);
	fid_pep *pep = nullptr;
	EXPECT_EQ(fi_passive_ep(rdm.fabric.get(), rdm.info.get(), &pep, nullptr), -FI_EINVAL);
	fid outsider{};
	Info info(fi_dupinfo(node.info.get()));
	fid_ep *e = nullptr;
	info->handle = &outsider;
	EXPECT_EQ(fi_endpoint(node.domain.get(), info.get(), &e, nullptr), -FI_EINVAL);
	EXPECT_EQ(fi_reject(listener.pep.get(), &outsider, nullptr, 0), -FI_EINVAL);
	EXPECT_EQ(fi_reject(listener.pep.get(), &listener.pep->fid, nullptr, 0), -FI_EINVAL);
}

} // namespace
