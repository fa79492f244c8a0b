// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_cm(3): addresses of every format. */
#include <algorithm>

#include <netinet/in.h>
#include <sys/socket.h>

#include "connection.h"

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

/* An endpoint is found by its port: who asks may use another family. Each side is told addresses of its own. */
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
