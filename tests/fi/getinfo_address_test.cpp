// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_getinfo(3): the addresses that come with an answer, of node, service and hints. */
#include <fstream>
#include <ostream>

#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "address_text.h"
#include "node.h"

namespace
{

struct Resolution {
	const char *node, *service;
	std::uint64_t flags;
	std::uint32_t format;
	const char *src, *dest; /* of the first answer; null src: the question is refused */
};

void PrintTo(const Resolution &line, std::ostream *out)
{
	*out << (line.node ? line.node : "-") << ' ' << (line.service ? line.service : "-");
}

const Resolution resolutions[] = {
	{nullptr, nullptr, 0, FI_FORMAT_UNSPEC, "127.0.0.1 0", ""},
	{nullptr, nullptr, 0, FI_SOCKADDR_IN6, "::1 0", ""},
	{nullptr, nullptr, 0, FI_ADDR_STR, "fi_sockaddr_in://127.0.0.1:0", ""},
	{nullptr, "7471", FI_SOURCE, FI_FORMAT_UNSPEC, "127.0.0.1 7471", ""},
	{"127.0.0.1", nullptr, FI_SOURCE, FI_FORMAT_UNSPEC, "127.0.0.1 0", ""},
	{"127.0.0.1", "7471", FI_SOURCE | FI_NUMERICHOST, FI_FORMAT_UNSPEC, "127.0.0.1 7471", ""},
	{"localhost", "7471", FI_SOURCE, FI_FORMAT_UNSPEC, "127.0.0.1 7471", ""},
	{"localhost", "7471", FI_SOURCE | FI_NUMERICHOST, FI_FORMAT_UNSPEC, nullptr, ""},
	{"0.0.0.0", "7471", FI_SOURCE, FI_FORMAT_UNSPEC, "127.0.0.1 7471", ""},
	{"127.3.2.1", "7471", FI_SOURCE, FI_FORMAT_UNSPEC, "127.3.2.1 7471", ""},
	{"127.0.0.1", "7471", 0, FI_FORMAT_UNSPEC, "127.0.0.1 0", "127.0.0.1 7471"},
	{nullptr, "7471", 0, FI_FORMAT_UNSPEC, "127.0.0.1 0", "127.0.0.1 7471"},
	{"::1", "7471", 0, FI_FORMAT_UNSPEC, "::1 0", "::1 7471"},
	{"::1", "7471", FI_SOURCE, FI_SOCKADDR_IN6, "::1 7471", ""},
	{"::1", "7471", 0, FI_SOCKADDR_IN, nullptr, ""},
	{"fi_sockaddr_in://127.0.0.1:5", nullptr, 0, FI_FORMAT_UNSPEC, "127.0.0.1 0",
	 "127.0.0.1 5"},
	{"fi_sockaddr://127.0.0.1:5", nullptr, FI_SOURCE, FI_ADDR_STR,
	 "fi_sockaddr_in://127.0.0.1:5", ""},
	{"fi_sockaddr_in6://[::1]:5", nullptr, 0, FI_FORMAT_UNSPEC, "::1 0", "::1 5"},
	{"fi_sockaddr_in6://[::1]:5", nullptr, 0, FI_ADDR_STR, "fi_sockaddr_in6://[::1]:0",
	 "fi_sockaddr_in6://[::1]:5"},
	{"fi_sockaddr_in://127.0.0.1:5?qos=3", nullptr, 0, FI_FORMAT_UNSPEC, "127.0.0.1 0",
	 "127.0.0.1 5"},
	{"fi_sockaddr_in://127.0.0.1:", nullptr, FI_SOURCE, FI_FORMAT_UNSPEC, "127.0.0.1 0", ""},
	{"127.255.255.255", "7471", FI_SOURCE, FI_FORMAT_UNSPEC, nullptr, ""},
	{"127.255.255.255", "7471", 0, FI_FORMAT_UNSPEC, nullptr, ""},
	{"fi_sockaddr_in://127.0.0.1:65536", nullptr, 0, FI_FORMAT_UNSPEC, nullptr, ""},
	/* No provider of this machine reaches TEST-NET-1. */
	{"192.0.2.1", "7471", 0, FI_FORMAT_UNSPEC, nullptr, ""},
	{"192.0.2.1", "7471", FI_SOURCE, FI_FORMAT_UNSPEC, nullptr, ""},
	{nullptr, nullptr, FI_SOURCE, FI_FORMAT_UNSPEC, nullptr, ""},
};

class Resolving : public testing::TestWithParam<Resolution>
{
};

TEST_P(Resolving, Line)
{
	const Resolution &line = GetParam();
	Info hints = no_hints();

	hints->addr_format = line.format;
	const Info info =
		get_info(hints.get(), nullptr, api_version, line.node, line.service, line.flags);
	if (!line.src) {
		EXPECT_FALSE(info);
		return;
	}
	ASSERT_TRUE(info);
	EXPECT_EQ(text_of(info->src_addr, info->addr_format), line.src);
	EXPECT_EQ(text_of(info->dest_addr, info->addr_format), line.dest);
}

INSTANTIATE_TEST_SUITE_P(GetInfoAddress, Resolving, testing::ValuesIn(resolutions));

TEST(GetInfoAddress, ATextMayEndWithItsLength)
{
	constexpr std::string_view text = "fi_sockaddr_in://127.0.0.1:4711";
	Info hints = no_hints();

	hints->addr_format = FI_ADDR_STR;
	hints->dest_addr = std::malloc(text.size()); /* fi_freeinfo frees it */
	hints->dest_addrlen = text.size();
	std::memcpy(hints->dest_addr, text.data(), text.size());
	const Info info = get_info(hints.get());
	ASSERT_TRUE(info);
	EXPECT_EQ(text_of(info->dest_addr, info->addr_format), text);
	EXPECT_EQ(info->dest_addrlen, text.size() + 1);
}

/* fi_getinfo(3) has such an address in its example, without the interface that bind(2) needs. */
TEST(GetInfoAddress, OneOfALinkIsLocalWithoutItsInterface)
{
	constexpr const char *text = "fi_sockaddr_in6://[fe80::6:12]:7471";
	struct {
		in6_addr addr;
		std::uint32_t prefixlen;
		int ifindex;
	} request{}; /* struct in6_ifreq */
	const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ASSERT_EQ(inet_pton(AF_INET6, "fe80::6:12", &request.addr), 1);
	request.prefixlen = 64;
	request.ifindex = static_cast<int>(if_nametoindex("lo"));
	EXPECT_FALSE(get_info(no_hints().get(), nullptr, api_version, text, nullptr, FI_SOURCE));
	ASSERT_EQ(ioctl(fd, SIOCSIFADDR, &request), 0);
	/* a worker of the kernel makes it usable */
	sockaddr_in6 usable{};
	usable.sin6_family = AF_INET6;
	usable.sin6_addr = request.addr;
	usable.sin6_scope_id = static_cast<unsigned>(request.ifindex);
	for (int tries = 0; tries < 1000; tries++) {
		if (bind(fd, reinterpret_cast<sockaddr *>(&usable), sizeof(usable)) == 0)
			break;
		usleep(10'000);
	}
	for (const std::uint32_t format :
	     {std::uint32_t{FI_ADDR_STR}, std::uint32_t{FI_SOCKADDR_IN6}}) {
		Info hints = no_hints();
		hints->addr_format = format;
		const Info info =
			get_info(hints.get(), nullptr, api_version, text, nullptr, FI_SOURCE);
		ASSERT_TRUE(info);
		EXPECT_EQ(text_of(info->src_addr, info->addr_format),
			  format == FI_ADDR_STR ? text : "fe80::6:12 7471");
	}
	EXPECT_EQ(ioctl(fd, SIOCDIFADDR, &request), 0);
	close(fd);
}

TEST(GetInfoAddress, AddressesInHintsAreTaken)
{
	Info hints = no_hints();
	sockaddr_in src{}, dest{};

	src.sin_family = dest.sin_family = AF_INET;
	src.sin_port = htons(7001);
	dest.sin_port = htons(7002);
	src.sin_addr.s_addr = dest.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	hints->addr_format = FI_SOCKADDR_IN;
	hints->src_addr = std::memcpy(std::malloc(sizeof(src)), &src, sizeof(src));
	hints->src_addrlen = sizeof(src);
	hints->dest_addr = std::memcpy(std::malloc(sizeof(dest)), &dest, sizeof(dest));
	hints->dest_addrlen = sizeof(dest);

	Info info = get_info(hints.get());
	ASSERT_TRUE(info);
	EXPECT_EQ(text_of(info->src_addr, info->addr_format), "127.0.0.1 7001");
	EXPECT_EQ(text_of(info->dest_addr, info->addr_format), "127.0.0.1 7002");

	/* Unless node and service give another one. */
	info = get_info(hints.get(), nullptr, api_version, "127.0.0.2", "7003");
	ASSERT_TRUE(info);
	EXPECT_EQ(text_of(info->src_addr, info->addr_format), "127.0.0.1 7001");
	EXPECT_EQ(text_of(info->dest_addr, info->addr_format), "127.0.0.2 7003");
	info = get_info(hints.get(), nullptr, api_version, "127.0.0.2", "7003", FI_SOURCE);
	ASSERT_TRUE(info);
	EXPECT_EQ(text_of(info->src_addr, info->addr_format), "127.0.0.2 7003");
	EXPECT_EQ(text_of(info->dest_addr, info->addr_format), "127.0.0.1 7002");

	Log log;
	hints->src_addrlen = 3;
	EXPECT_FALSE(get_info(hints.get()));
	EXPECT_TRUE(log.has("src_addr"));
}

TEST(GetInfoAddress, AnUnreachableAddressIsNamed)
{
	Log log;

	EXPECT_TRUE(get_info(no_hints().get(), nullptr, api_version, "localhost", "7471"));
	EXPECT_EQ(log.all(), "");
	EXPECT_FALSE(get_info(no_hints().get(), nullptr, api_version, "192.0.2.1", "7471"));
	EXPECT_TRUE(log.has("192.0.2.1")) << log.all();
	log.clear();
	EXPECT_FALSE(get_info(no_hints().get(), nullptr, api_version, "no.such.host.invalid", "1"));
	EXPECT_TRUE(log.has("no.such.host.invalid")) << log.all();
}

/* As on machines that addresses move to: such an address can be bound, but is not local. */
TEST(GetInfoAddress, AnAddressThatCanBeBoundNeedNotBeLocal)
{
	for (const char *family : {"ipv4", "ipv6"}) {
		const std::string path =
			std::string("/proc/sys/net/") + family + "/ip_nonlocal_bind";
		const bool old = family[3] == '4';
		int on = 0;
		std::ofstream(path) << 1;
		std::ifstream(path) >> on;
		EXPECT_EQ(on, 1) << path;
		EXPECT_FALSE(get_info(no_hints().get(), nullptr, api_version,
				      old ? "192.0.2.1" : "2001:db8::1", "7471"));
		EXPECT_TRUE(get_info(no_hints().get(), nullptr, api_version,
				     old ? "127.3.2.1" : "::1", "7471"));
		std::ofstream(path) << 0;
	}
}

TEST(GetInfoAddress, APortBeyondTheLastIsNoService)
{
	const Info hints = hints_for(0);

	for (const char *service : {"65536", "99999", "4294967297"}) {
		int error = 0;
		EXPECT_FALSE(get_info(hints.get(), &error, api_version, "127.0.0.1", service))
			<< service;
		EXPECT_EQ(error, -FI_ENODATA) << service;
	}
	EXPECT_TRUE(get_info(hints.get(), nullptr, api_version, "127.0.0.1", "65535"));
}

} // namespace
