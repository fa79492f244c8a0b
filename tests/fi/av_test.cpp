// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_av(3) */
// conformance: fi_domain(3): av_type: UNSPEC, MAP, TABLE

#include "node.h"

#include <arpa/inet.h>
#include <netinet/in.h>

namespace
{

sockaddr_in in(const char *host, std::uint16_t port)
{
	sockaddr_in address{};

	address.sin_family = AF_INET;
	address.sin_port = htons(port);
	inet_pton(AF_INET, host, &address.sin_addr);
	return address;
}

std::string describe(fid_av *av, const void *address)
{
	char text[128];
	std::size_t size = sizeof(text);

	EXPECT_EQ(fi_av_straddr(av, address, text, &size), text);
	EXPECT_EQ(size, std::strlen(text) + 1);
	return text;
}

/* The entry at an index as text; empty if there is none. */
std::string at(fid_av *av, fi_addr_t index)
{
	char address[128];
	std::size_t size = sizeof(address);

	return fi_av_lookup(av, index, address, &size) ? "" : describe(av, address);
}

TEST(Av, IndicesCountInTheOrderOfInsertion)
{
	Node node;
	const auto av = node.av(0, FI_AV_TABLE);
	sockaddr_in addresses[3] = {in("127.0.0.1", 1), in("127.0.0.1", 2), in("127.0.0.2", 3)};
	fi_addr_t indices[3];

	EXPECT_EQ(fi_av_insert(av.get(), addresses, 3, indices, 0, nullptr), 3);
	for (fi_addr_t i = 0; i < 3; ++i)
		EXPECT_EQ(indices[i], i);
	EXPECT_EQ(at(av.get(), 2), "fi_sockaddr_in://127.0.0.2:3");
	EXPECT_EQ(at(av.get(), 3), "");
	/* Without an array for indices they advance all the same. */
	EXPECT_EQ(fi_av_insert(av.get(), addresses, 1, nullptr, FI_MORE, nullptr), 1);
	EXPECT_EQ(at(av.get(), 3), "fi_sockaddr_in://127.0.0.1:1");
	EXPECT_EQ(fi_av_insert(av.get(), addresses, 0, nullptr, 0, nullptr), 0);
}

// conformance: fi_av(3): FI_AV_TABLE: indices from 0 on, in the order of insertion (the lowest
//   unused index); fi_addr may be NULL
TEST(Av, RemovedEntriesAreGoneAndUsedAgain)
{
	Node node;
	const auto av = node.av();
	sockaddr_in addresses[3] = {in("127.0.0.1", 1), in("127.0.0.1", 2), in("127.0.0.1", 3)};
	fi_addr_t indices[3], again;

	ASSERT_EQ(fi_av_insert(av.get(), addresses, 3, indices, 0, nullptr), 3);
	EXPECT_EQ(fi_av_remove(av.get(), &indices[1], 1, 0), 0);
	EXPECT_EQ(at(av.get(), indices[1]), "");
	EXPECT_NE(fi_av_remove(av.get(), &indices[1], 1, 0), 0);
	EXPECT_EQ(fi_av_remove(av.get(), &indices[0], 1, 1), -FI_EBADFLAGS);
	ASSERT_EQ(fi_av_insert(av.get(), &addresses[1], 1, &again, 0, nullptr), 1);
	EXPECT_EQ(again, indices[1]);
	EXPECT_EQ(at(av.get(), again), "fi_sockaddr_in://127.0.0.1:2");

	/*
	 * The lowest index first: a program that removes all and inserts them again needs no array
	 * of indices.
	 */
	ASSERT_EQ(fi_av_remove(av.get(), indices, 3, 0), 0);
	ASSERT_EQ(fi_av_insert(av.get(), addresses, 3, nullptr, 0, nullptr), 3);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(at(av.get(), i), "fi_sockaddr_in://127.0.0.1:" + std::to_string(i + 1));
}

TEST(Av, LookupReportsTheSizeAndTruncates)
{
	Node node;
	const auto av = node.av();
	const sockaddr_in address = in("127.0.0.1", 0x1234);
	unsigned char part[20];
	std::size_t size = 4;
	fi_addr_t index;

	ASSERT_EQ(fi_av_insert(av.get(), &address, 1, &index, 0, nullptr), 1);
	std::memset(part, 0xee, sizeof(part));
	EXPECT_EQ(fi_av_lookup(av.get(), index, part, &size), 0);
	EXPECT_EQ(size, sizeof(address));
	EXPECT_EQ(std::memcmp(part, &address, 4), 0);
	EXPECT_EQ(part[4], 0xee);
	char text[10] = "";
	size = sizeof(text);
	fi_av_straddr(av.get(), &address, text, &size);
	EXPECT_STREQ(text, "fi_sockad");
	EXPECT_EQ(size, std::strlen("fi_sockaddr_in://127.0.0.1:4660") + 1);
}

TEST(Av, BadAddressesAreSkippedAndReported)
{
	Node node;
	const auto av = node.av();
	sockaddr_in addresses[3] = {in("127.0.0.1", 1), in("127.0.0.1", 2), in("127.0.0.1", 3)};
	fi_addr_t indices[3];
	int errors[3] = {-1, -1, -1};
	Log log;

	addresses[1].sin_family = AF_UNIX;
	EXPECT_EQ(fi_av_insert(av.get(), addresses, 3, indices, FI_SYNC_ERR, errors), 2);
	EXPECT_EQ(indices[0], 0u);
	EXPECT_EQ(indices[1], FI_ADDR_NOTAVAIL);
	EXPECT_EQ(indices[2], 1u);
	EXPECT_EQ(errors[0], 0);
	EXPECT_EQ(errors[1], FI_EINVAL);
	EXPECT_EQ(errors[2], 0);
	EXPECT_TRUE(log.has("2 of 3"));
	EXPECT_EQ(fi_av_insert(av.get(), addresses, 1, indices, FI_AV_USER_ID, nullptr),
		  -FI_EBADFLAGS);
}

// conformance: fi_arch(7): vectors map IP addresses and host names to fabric addresses
TEST(Av, ServicesAreResolved)
{
	Node node;
	const auto av = node.av();
	fi_addr_t index;

	ASSERT_EQ(fi_av_insertsvc(av.get(), "127.0.0.1", "7471", &index, 0, nullptr), 1);
	EXPECT_EQ(at(av.get(), index), "fi_sockaddr_in://127.0.0.1:7471");
	ASSERT_EQ(fi_av_insertsvc(av.get(), "localhost", "7472", &index, 0, nullptr), 1);
	EXPECT_EQ(at(av.get(), index), "fi_sockaddr_in://127.0.0.1:7472");
	ASSERT_EQ(fi_av_insertsvc(av.get(), "fi_sockaddr_in://127.0.0.3:5", nullptr, &index, 0,
				  nullptr),
		  1);
	EXPECT_EQ(at(av.get(), index), "fi_sockaddr_in://127.0.0.3:5");
	EXPECT_EQ(fi_av_insertsvc(av.get(), "::1", "7471", &index, 0, nullptr), 0)
		<< "not of the domain's family";
	EXPECT_EQ(index, FI_ADDR_NOTAVAIL);
}

// conformance: fi_arch(7): vectors map IP addresses and host names to fabric addresses
TEST(Av, SymmetricInsertionsCountNodesAndServices)
{
	Node node;
	const auto av = node.av();
	fi_addr_t indices[6];
	const char *expected[] = {"127.0.1.255:5000", "127.0.1.255:5001", "127.0.2.0:5000",
				  "127.0.2.0:5001",   "127.0.2.1:5000",	  "127.0.2.1:5001"};

	ASSERT_EQ(fi_av_insertsym(av.get(), "127.0.1.255", 3, "5000", 2, indices, 0, nullptr), 6);
	for (int i = 0; i < 6; ++i)
		EXPECT_EQ(at(av.get(), indices[i]), std::string("fi_sockaddr_in://") + expected[i]);
	/* The number at the end of a name counts up; this name has none for a second node. */
	EXPECT_EQ(fi_av_insertsym(av.get(), "localhost", 1, "5000", 2, indices, 0, nullptr), 2);
	EXPECT_EQ(fi_av_insertsym(av.get(), "localhost", 2, "5000", 1, indices, 0, nullptr), 1);
	EXPECT_EQ(indices[1], FI_ADDR_NOTAVAIL);
	/* Ports are limited. */
	EXPECT_EQ(fi_av_insertsym(av.get(), "127.0.0.1", 1, "65535", 2, indices, 0, nullptr), 1);
	EXPECT_EQ(fi_av_insertsym(av.get(), nullptr, 1, "5000", 1, indices, 0, nullptr),
		  -FI_EINVAL);
}

TEST(Av, MoreThanThereCanBeIsRefused)
{
	Node node;
	const auto av = node.av();
	const sockaddr_in address = in("127.0.0.1", 1);
	constexpr std::size_t most = SIZE_MAX;

	for (const std::size_t count : {most, most / 2, most / sizeof(address) + 2})
		EXPECT_EQ(fi_av_insert(av.get(), &address, count, nullptr, 0, nullptr), -FI_EINVAL);
	for (const auto &[nodes, services] : {std::pair{most, most},
					      {most / 2, 1},
					      {2, most / 2},
					      {std::size_t{1} << 32, std::size_t{1} << 32}})
		EXPECT_EQ(fi_av_insertsym(av.get(), "127.0.0.1", nodes, "5000", services, nullptr,
					  0, nullptr),
			  -FI_EINVAL);
	/* Any number of nodes with no services makes no entries. */
	EXPECT_EQ(fi_av_insertsym(av.get(), "127.0.0.1", most, "5000", 0, nullptr, 0, nullptr), 0);
	EXPECT_EQ(fi_av_insertsym(av.get(), "localhost", most, "5000", 0, nullptr, 0, nullptr), 0);
}

// conformance: fi_arch(7): address vectors: insert, then send to the index; up to millions of peers
TEST(Av, AMillionPeersInOneCall)
{
	Node node;
	const auto av = node.av();
	constexpr std::size_t n = 1'000'000;
	std::vector<sockaddr_in> addresses(n);
	std::vector<fi_addr_t> indices(n);

	for (std::size_t i = 0; i < n; ++i) {
		addresses[i] = in("127.0.0.1", static_cast<std::uint16_t>(i));
		addresses[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK + (i >> 16));
	}
	ASSERT_EQ(fi_av_insert(av.get(), addresses.data(), n, indices.data(), 0, nullptr), int{n});
	EXPECT_EQ(indices[n - 1], n - 1);
	EXPECT_EQ(at(av.get(), n - 1), "fi_sockaddr_in://127.0.0.16:16959");
}

/* --- other formats ------------------------------------------------------------------- */

TEST(Av, TextAddresses)
{
	Info hints = hints_for(FI_MSG);
	hints->addr_format = FI_ADDR_STR;
	Node node(std::move(hints));
	Side a(node), b(node);
	const auto name = address_of(b.ep.get());
	const char *texts[] = {reinterpret_cast<const char *>(name.data()), "no address",
			       "fi_sockaddr_in://:7"};
	fi_addr_t indices[3];

	EXPECT_EQ(std::string(texts[0]).rfind("fi_sockaddr_in://127.0.0.1:", 0), 0u) << texts[0];
	ASSERT_EQ(fi_av_insert(a.av.get(), texts, 3, indices, 0, nullptr), 2);
	EXPECT_EQ(at(a.av.get(), indices[0]), texts[0]);
	EXPECT_EQ(indices[1], FI_ADDR_NOTAVAIL);
	EXPECT_EQ(at(a.av.get(), indices[2]), "fi_sockaddr_in://127.0.0.1:7");
	char c = 0;
	ASSERT_EQ(fi_recv(b.ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_inject(a.ep.get(), "x", 1, indices[0]), 0);
	EXPECT_EQ(next(b.rx_cq.get()).op_context, ctx(1));
}

TEST(Av, Ipv6Addresses)
{
	Info hints = hints_for(FI_MSG);
	hints->addr_format = FI_SOCKADDR_IN6;
	Pair p(std::move(hints));
	char c = 0;

	EXPECT_EQ(address_of(p.b.ep.get()).size(), sizeof(sockaddr_in6));
	EXPECT_EQ(at(p.a.av.get(), p.b_at_a).rfind("fi_sockaddr_in6://[::1]:", 0), 0u);
	ASSERT_EQ(fi_recv(p.b.ep.get(), &c, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)), 0);
	ASSERT_EQ(fi_inject(p.a.ep.get(), "x", 1, p.b_at_a), 0);
	EXPECT_EQ(next(p.b.rx_cq.get()).op_context, ctx(1));
}

/* --- asynchronous -------------------------------------------------------------------- */

// conformance: fi_av(3): FI_EVENT: an event for each address that fails, then FI_AV_COMPLETE;
//   without memory for them nothing is inserted: -FI_ENOMEM
TEST(Av, AsynchronousInsertionReportsToItsQueue)
{
	Node node;
	const auto eq = node.eq();
	const auto av = node.av(FI_EVENT);
	sockaddr_in addresses[3] = {in("127.0.0.1", 1), in("127.0.0.1", 2), in("127.0.0.1", 3)};
	fi_addr_t indices[3];
	fi_eq_entry entry;
	fi_eq_err_entry error{};
	std::uint32_t event;

	EXPECT_EQ(fi_av_insert(av.get(), addresses, 3, indices, 0, ctx(5)), -FI_ENOEQ);
	EXPECT_EQ(fi_av_bind(av.get(), &eq->fid, 1), -FI_EBADFLAGS);
	ASSERT_EQ(fi_av_bind(av.get(), &eq->fid, 0), 0);
	EXPECT_EQ(fi_close(&eq->fid), -FI_EBUSY);
	addresses[1].sin_family = AF_UNSPEC;
	ASSERT_EQ(fi_av_insert(av.get(), addresses, 3, indices, 0, ctx(5)), 0);
	EXPECT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0), -FI_EAVAIL);
	ASSERT_EQ(fi_eq_readerr(eq.get(), &error, 0), ssize_t{sizeof(error)});
	EXPECT_EQ(error.fid, &av->fid);
	EXPECT_EQ(error.context, ctx(5));
	EXPECT_EQ(error.data, 1u);
	EXPECT_EQ(error.err, FI_EINVAL);
	ASSERT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0), ssize_t{sizeof(entry)});
	EXPECT_EQ(event, std::uint32_t{FI_AV_COMPLETE});
	EXPECT_EQ(entry.fid, &av->fid);
	EXPECT_EQ(entry.context, ctx(5));
	EXPECT_EQ(entry.data, 2u);
	EXPECT_EQ(indices[2], 1u);
}

/* --- opening ------------------------------------------------------------------------- */

TEST(Av, OpeningRefusesUnknownAttributes)
{
	Info hints = hints_for(FI_MSG);
	hints->domain_attr->av_type = FI_AV_MAP;
	Node node(std::move(hints));
	fid_av *av = nullptr;
	Log log;
	const auto open = [&](auto change) {
		fi_av_attr attr{};
		change(attr);
		return fi_av_open(node.domain.get(), &attr, &av, nullptr);
	};

	EXPECT_EQ(open([](fi_av_attr &attr) { attr.flags = FI_READ; }), -FI_EINVAL);
	EXPECT_EQ(open([](fi_av_attr &attr) { attr.name = ""; }), -FI_EINVAL);
	EXPECT_EQ(open([](fi_av_attr &attr) {
			  attr.name = "no-such-vector";
			  attr.flags = FI_READ;
		  }),
		  -FI_ENOENT);
	EXPECT_TRUE(log.has("no-such-vector"));
	EXPECT_EQ(open([](fi_av_attr &attr) { attr.type = FI_AV_TABLE; }), -FI_EINVAL);
	EXPECT_EQ(open([](fi_av_attr &attr) { attr.rx_ctx_bits = 17; }), -FI_EINVAL);
	EXPECT_EQ(open([](fi_av_attr &attr) { attr.flags = FI_PEEK; }), -FI_EBADFLAGS);
	fi_av_attr attr{};
	ASSERT_EQ(fi_av_open(node.domain.get(), &attr, &av, nullptr), 0);
	EXPECT_EQ(attr.type, FI_AV_MAP);
	EXPECT_EQ(fi_close(&av->fid), 0);
}

} // namespace
