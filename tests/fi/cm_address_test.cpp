// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_cm(3): addresses of every format. */
#include <algorithm>

#include <netinet/in.h>
#include <sys/socket.h>

#include "connection.h"

namespace
{

std::vector<std::byte> peer_of(fid_ep *ep)
{
	std::size_t size = 0;

	fi_getpeer(ep, nullptr, &size);
	std::vector<std::byte> out(size);
	EXPECT_EQ(fi_getpeer(ep, out.data(), &size), 0);
	return out;
}

} // namespace

TEST(CmAddress, Ipv6AndTextAddresses)
{
	for (const auto format : {FI_SOCKADDR_IN6, FI_ADDR_STR}) {
		Info hints = msg_hints();
		hints->addr_format = format;
		Node other(std::move(hints));
		Listener there(other);
		Active asker(other);
		ASSERT_EQ(fi_connect(asker.ep.get(), there.address().data(), nullptr, 0), 0);
		CmEvent request = there.request();
		EXPECT_EQ(request.info->addr_format, std::uint32_t{format});
		Active answerer(other, request.info.get());
		ASSERT_EQ(fi_accept(answerer.ep.get(), nullptr, 0), 0);
		EXPECT_EQ(next_event(asker.eq.get()).event, std::uint32_t{FI_CONNECTED});
		EXPECT_EQ(address_of(answerer.ep.get()), there.address());
	}
}

/*
 * An endpoint is found by its port: the client may use another family. Each side sees addresses in
 * its own family.
 */
// conformance: fi_cm(3): fi_getname, fi_getpeer: in the format of the domain, of FI_EP_MSG in ...
TEST(CmAddress, FamiliesMayDiffer)
{
	Node node(msg_hints());
	Listener listener(node);
	Info hints = msg_hints();
	hints->addr_format = FI_SOCKADDR_IN6;
	Node six(std::move(hints));
	Listener there(six);
	const auto from_memory = [](const auto &bytes, auto address) {
		EXPECT_EQ(bytes.size(), sizeof(address));
		std::memcpy(&address, bytes.data(), std::min(bytes.size(), sizeof(address)));
		return address;
	};
	const sockaddr_in server4 = from_memory(listener.address(), sockaddr_in{});
	const sockaddr_in6 server6 = from_memory(there.address(), sockaddr_in6{});
	sockaddr_in6 to4{};
	sockaddr_in to6{};
	to4.sin6_family = AF_INET6;
	to4.sin6_port = server4.sin_port;
	to4.sin6_addr = in6addr_loopback;
	to6.sin_family = AF_INET;
	to6.sin_port = server6.sin6_port;
	to6.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

	const auto try_out = [&](Listener &asked, Node &in, Active &asker, const void *to,
				 std::size_t length, int family) {
		ASSERT_EQ(fi_connect(asker.ep.get(), to, nullptr, 0), 0);
		CmEvent request = asked.request();
		ASSERT_EQ(request.info->dest_addrlen, length);
		EXPECT_EQ(static_cast<sockaddr *>(request.info->dest_addr)->sa_family, family);
		Active answerer(in, request.info.get());
		ASSERT_EQ(fi_accept(answerer.ep.get(), nullptr, 0), 0);
		EXPECT_EQ(next_event(asker.eq.get()).event, std::uint32_t{FI_CONNECTED});
		sockaddr_storage peer{};
		std::size_t size = length;
		EXPECT_EQ(fi_getpeer(answerer.ep.get(), &peer, &size), 0);
		EXPECT_EQ(size, length);
		EXPECT_EQ(peer.ss_family, family);
		EXPECT_EQ(std::memcmp(&peer, request.info->dest_addr, length), 0);
	};
	Active from6(six), from4(node);
	try_out(listener, node, from6, &to4, sizeof(sockaddr_in), AF_INET);
	try_out(there, six, from4, &to6, sizeof(sockaddr_in6), AF_INET6);
}

/* "The same format as that specified using fi_info: addr_format when the endpoint was created." */
// conformance: fi_cm(3): fi_getname, fi_getpeer: in the format of the domain, of FI_EP_MSG in ...
TEST(CmAddress, AnEndpointsNamesHaveItsFormat)
{
	Node node(msg_hints()); /* FI_SOCKADDR_IN */
	ASSERT_EQ(node.info->addr_format, std::uint32_t{FI_SOCKADDR_IN});
	for (const auto format : {FI_SOCKADDR_IN6, FI_ADDR_STR}) {
		Info hints = msg_hints();
		hints->addr_format = format;
		const Info info = get_info(hints.get());
		ASSERT_TRUE(info);
		Listener there(node, info.get());
		Active asker(node, info.get());
		ASSERT_EQ(fi_connect(asker.ep.get(), there.address().data(), nullptr, 0), 0);
		CmEvent request = there.request();
		Active answerer(node, request.info.get());
		EXPECT_EQ(address_of(answerer.ep.get()), there.address());
		ASSERT_EQ(fi_accept(answerer.ep.get(), nullptr, 0), 0);
		EXPECT_EQ(next_event(asker.eq.get()).event, std::uint32_t{FI_CONNECTED});
		EXPECT_EQ(peer_of(asker.ep.get()), there.address());
		EXPECT_EQ(peer_of(answerer.ep.get()), address_of(asker.ep.get()));
		EXPECT_EQ(address_of(asker.ep.get()).size(), request.info->dest_addrlen);
		Active named(node, info.get());
		const auto name = address_of(named.ep.get());
		EXPECT_EQ(fi_setname(&named.ep->fid, const_cast<std::byte *>(name.data()),
				     name.size()),
			  0);
	}
}

/*
 * Any address of this machine reaches the port. The peer's name is its own, not the one that was
 * asked for.
 */
// conformance: fi_cm(3): fi_getname, fi_getpeer: in the format of the domain, of FI_EP_MSG in ...
TEST(CmAddress, ThePeerIsWhereItIs)
{
	Node node(msg_hints());
	sockaddr_in name{}, asked{};
	name.sin_family = AF_INET;
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	const Info info(fi_dupinfo(node.info.get()));
	free(info->src_addr);
	info->src_addr = std::memcpy(malloc(sizeof(name)), &name, sizeof(name));
	info->src_addrlen = sizeof(name);
	Listener there(node, info.get());
	Active asker(node);
	std::memcpy(&asked, there.address().data(), sizeof(asked));
	EXPECT_EQ(asked.sin_addr.s_addr, name.sin_addr.s_addr);
	asked.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

	ASSERT_EQ(fi_connect(asker.ep.get(), &asked, nullptr, 0), 0);
	Active answerer(node, there.request().info.get());
	ASSERT_EQ(fi_accept(answerer.ep.get(), nullptr, 0), 0);
	EXPECT_EQ(next_event(asker.eq.get()).event, std::uint32_t{FI_CONNECTED});
	EXPECT_EQ(peer_of(asker.ep.get()), there.address());
	EXPECT_EQ(peer_of(asker.ep.get()), address_of(answerer.ep.get()));
}

/*
 * "The passive endpoint is no longer bound to any fabric resources"; unless no endpoint has them.
 */
TEST(CmAddress, APassiveEndpointLosesItsAddressToAnEndpointThatIsThere)
{
	Node node(msg_hints());
	Listener giver(node);
	const auto address = giver.address();
	const Info info(fi_dupinfo(node.info.get()));
	fid_ep *ep = nullptr;

	info->handle = &giver.pep->fid;
	{
		const Exhausted all(node);
		ASSERT_EQ(fi_endpoint(node.domain.get(), info.get(), &ep, nullptr), -FI_ENOSPC);
	}
	EXPECT_EQ(giver.address(), address);
	ASSERT_EQ(fi_listen(giver.pep.get()), 0);
	{
		Active asker(node);
		ASSERT_EQ(fi_connect(asker.ep.get(), address.data(), nullptr, 0), 0);
		giver.request();
	}
	Active asker(node);
	ASSERT_EQ(fi_connect(asker.ep.get(), address.data(), nullptr, 0), 0);
	const CmEvent request = giver.request();
	Active taker(node, info.get());
	EXPECT_EQ(address_of(taker.ep.get()), address);
	EXPECT_EQ(next_eq_error(asker.eq.get()).err, FI_ECONNREFUSED);
	EXPECT_EQ(fi_reject(giver.pep.get(), request.info->handle, nullptr, 0), -FI_EINVAL);
	EXPECT_EQ(fi_listen(giver.pep.get()), -FI_ENOEQ);
	giver.eq.reset(); /* is not in use */
}
