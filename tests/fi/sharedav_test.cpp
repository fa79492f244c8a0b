// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_av(3): address vectors that processes share by name */
// conformance: fi_domain(3): caps: FI_SHARED_AV

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node.h"

namespace
{

Owned<fid_av> open_named(const Node &node, fi_av_attr &attr, int error = 0)
{
	fid_av *av = nullptr;

	EXPECT_EQ(fi_av_open(node.domain.get(), &attr, &av, nullptr), error);
	return Owned<fid_av>(av);
}

fi_av_attr attr_of(const std::string &name, std::uint64_t flags = 0)
{
	fi_av_attr attr{};

	attr.name = name.c_str();
	attr.count = 4;
	attr.flags = flags;
	return attr;
}

/* Names that are unique to a test run. */
std::string name_of(const char *what)
{
	return std::string(what) + std::to_string(getpid());
}

} // namespace

/* An address inserted in one domain is usable in the other, with the same fi_addr_t. */
// conformance: fi_av(3): map_addr: fi_addr_t of one process are usable in another, as the indices
//   are the same; it is returned if it was 0
TEST(SharedAv, AddressesOfOneAreThoseOfTheOther)
{
	const std::string name = name_of("peers");
	Node target_node(hints_for(FI_MSG));
	Side target(target_node);
	Node first(hints_for(FI_MSG | FI_SHARED_AV)), second(hints_for(FI_MSG | FI_SHARED_AV));
	fi_av_attr attr = attr_of(name), read_only = attr_of(name, FI_READ);
	const auto av = open_named(first, attr), same = open_named(second, read_only);
	const auto address = address_of(target.ep.get());
	fi_addr_t indices[2];
	char in[8] = {};

	ASSERT_TRUE(av && same);
	EXPECT_NE(attr.map_addr, nullptr);
	ASSERT_EQ(fi_av_insert(av.get(), address.data(), 1, indices, 0, nullptr), 1);
	const auto cq = second.cq();
	const auto ep = second.ep();
	ASSERT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	ASSERT_EQ(fi_ep_bind(ep.get(), &same->fid, 0), 0);
	ASSERT_EQ(fi_enable(ep.get()), 0);
	ASSERT_EQ(fi_recv(target.ep.get(), in, 8, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	ASSERT_EQ(fi_inject(ep.get(), "shared", 7, indices[0]), 0);
	next(target.rx_cq.get());
	EXPECT_STREQ(in, "shared");
}

/* Each looks addresses up in the format of its own domain. */
// conformance: fi_av(3): map_addr: fi_addr_t of one process are usable in another, as the ...
TEST(SharedAv, DomainsOfSeveralFormats)
{
	const std::string name = name_of("formats");
	Info hints = hints_for(FI_MSG | FI_SHARED_AV);
	hints->addr_format = FI_SOCKADDR_IN6;
	Node six(std::move(hints)), four(hints_for(FI_MSG | FI_SHARED_AV));
	Side target(six);
	fi_av_attr attr = attr_of(name), read_only = attr_of(name, FI_READ);
	const auto av = open_named(six, attr), same = open_named(four, read_only);
	sockaddr_in6 address{}, far{};
	sockaddr_in seen{};
	std::size_t size = sizeof(address);
	fi_addr_t indices[2];

	ASSERT_TRUE(av && same);
	ASSERT_EQ(fi_getname(&target.ep->fid, &address, &size), 0);
	far = address;
	ASSERT_EQ(inet_pton(AF_INET6, "2001:db8::1", &far.sin6_addr), 1);
	const sockaddr_in6 both[] = {address, far};
	ASSERT_EQ(fi_av_insert(av.get(), both, 2, indices, 0, nullptr), 2);
	size = sizeof(seen);
	ASSERT_EQ(fi_av_lookup(same.get(), indices[0], &seen, &size), 0);
	EXPECT_EQ(size, sizeof(seen));
	EXPECT_EQ(seen.sin_family, AF_INET);
	EXPECT_EQ(seen.sin_port, address.sin6_port);
	EXPECT_EQ(ntohl(seen.sin_addr.s_addr), INADDR_LOOPBACK);
	/* the format can't represent a remote address */
	EXPECT_EQ(fi_av_lookup(same.get(), indices[1], &seen, &size), -FI_EINVAL);
}

// conformance: fi_av(3): FI_READ: the vector must be named, and exist
TEST(SharedAv, ReadOnlyMeansThat)
{
	const std::string name = name_of("readonly");
	Node node(hints_for(FI_MSG));
	Side side(node);
	fi_av_attr attr = attr_of(name), read_only = attr_of(name, FI_READ);
	const auto av = open_named(node, attr), same = open_named(node, read_only);
	auto address = address_of(side.ep.get());
	fi_addr_t index = 7;
	int error = 0;

	ASSERT_TRUE(av && same);
	EXPECT_EQ(fi_av_insert(same.get(), address.data(), 1, &index, FI_SYNC_ERR, &error), 0);
	EXPECT_EQ(index, FI_ADDR_NOTAVAIL);
	EXPECT_EQ(error, FI_EACCES);
	ASSERT_EQ(fi_av_insert(av.get(), address.data(), 1, &index, 0, nullptr), 1);
	EXPECT_EQ(fi_av_remove(same.get(), &index, 1, 0), -FI_EACCES);
	std::vector<std::byte> found(address.size());
	std::size_t size = found.size();
	EXPECT_EQ(fi_av_lookup(same.get(), index, found.data(), &size), 0);
	EXPECT_EQ(found, address);
}

// conformance: fi_av(3): FI_READ: the vector must be named, and exist
TEST(SharedAv, ItMustExistToBeRead)
{
	const std::string name = name_of("transient");
	Node node(hints_for(FI_MSG));
	fi_av_attr attr = attr_of(name), read_only = attr_of(name, FI_READ);

	open_named(node, read_only, -FI_ENOENT);
	{
		const auto av = open_named(node, attr);
		EXPECT_TRUE(open_named(node, read_only));
	}
	open_named(node, read_only, -FI_ENOENT);
}

/* Another process, which ends without closing anything: nothing is left behind. */
// conformance: fi_av(3): a named address vector is created if it does not exist, and shared by
//   processes
TEST(SharedAv, AcrossProcesses)
{
	const std::string name = name_of("family");
	Node node(hints_for(FI_MSG));
	fi_av_attr read_only = attr_of(name, FI_READ);
	int ready[2], done[2];
	char c;

	ASSERT_EQ(pipe(ready) | pipe(done), 0);
	const pid_t child = fork();
	if (child == 0) {
		Node own(hints_for(FI_MSG));
		Side side(own);
		fi_av_attr attr = attr_of(name);
		auto av = open_named(own, attr);
		const auto address = address_of(side.ep.get());
		const bool ok = fi_av_insert(av.get(), address.data(), 1, nullptr, 0, nullptr) == 1;
		(void)!write(ready[1], ok ? "y" : "n", 1);
		(void)!read(done[0], &c, 1);
		_exit(0);
	}
	ASSERT_EQ(read(ready[0], &c, 1), 1);
	ASSERT_EQ(c, 'y');
	{
		const auto av = open_named(node, read_only);
		char address[64];
		std::size_t size = sizeof(address);
		EXPECT_EQ(fi_av_lookup(av.get(), 0, address, &size), 0);
		(void)!write(done[1], "x", 1);
		EXPECT_EQ(waitpid(child, nullptr, 0), child);
		EXPECT_EQ(fi_av_lookup(av.get(), 0, address, &size), 0) << "as long as one has it";
	}
	open_named(node, read_only, -FI_ENOENT);
}
