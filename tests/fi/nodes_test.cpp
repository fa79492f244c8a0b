// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What the provider offers where other nodes reach this one. treadle_loop (tests/loop) gives this
 * network namespace the address 10.0.0.1, which no interface has, and another one 10.0.0.2.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "address_text.h"
#include "connection.h"
#include "group.h"
#include "node.h"

namespace
{

/* Puts a command to treadle_loop. */
bool loop(const std::string &command)
{
	const int fd = open("/dev/treadle_loop", O_WRONLY | O_CLOEXEC);
	const bool done = write(fd, command.data(), command.size()) >= 0;

	close(fd);
	return done;
}

void unload()
{
	syscall(SYS_delete_module, "treadle_loop", O_NONBLOCK);
}

struct Family {
	const char *here, *there;
	std::uint32_t format;
};
constexpr Family families[] = {
	{"10.0.0.1", "10.0.0.2", FI_SOCKADDR_IN},
	{"fd00::1", "fd00::2", FI_SOCKADDR_IN6},
};

constexpr char trusting[] = " insecure trust_uids peer_timeout=4";

/* The test runs in a network namespace of its own, without a node in it, and a node elsewhere. */
class Nodes : public testing::Test
{
protected:
	void SetUp() override
	{
		const char *module = std::getenv("MODULE");
		ASSERT_TRUE(module);
		std::string path = module;
		path.replace(path.rfind('/'), std::string::npos, "-loop/treadle_loop.ko");
		const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);

		unload(); /* a test that failed has left it */
		ASSERT_EQ(syscall(SYS_finit_module, fd, "", 0), 0);
		close(fd);
		first_ = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		ASSERT_EQ(unshare(CLONE_NEWNET), 0);
		other_ = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		ASSERT_TRUE(loop("listen 10.0.0.2" + std::string(trusting)));
		ASSERT_EQ(unshare(CLONE_NEWNET), 0);
		here_ = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		forget(); /* the node of the test before */
	}
	void TearDown() override
	{
		EXPECT_EQ(setns(first_, CLONE_NEWNET), 0);
		close(first_);
		close(other_);
		close(here_);
		unload();
		EXPECT_NE(access("/dev/treadle_loop", F_OK), 0);
	}

	static void listen(const std::string &address = "10.0.0.1")
	{
		ASSERT_TRUE(loop("listen " + address + trusting));
		forget();
	}
	/* Both nodes get addresses of this family. */
	void be(const Family &family) const
	{
		enter_other();
		ASSERT_TRUE(loop("close 10.0.0.2") || loop("close fd00::2"));
		listen(family.there);
		enter_here();
		std::ignore = loop("close 10.0.0.1") || loop("close fd00::1");
		listen(family.here);
	}
	/* The provider may know limits for 0.1 s. */
	static void forget() { usleep(110'000); }
	void enter_other() const { ASSERT_EQ(setns(other_, CLONE_NEWNET), 0); }
	void enter_here() const { ASSERT_EQ(setns(here_, CLONE_NEWNET), 0); }

private:
	int first_ = -1, other_ = -1, here_ = -1;
};

/* "SOURCE > DESTINATION" of each answer of FI_EP_RDM */
std::vector<std::string> answers(const fi_info *hints, const char *node = nullptr,
				 const char *service = nullptr, std::uint64_t flags = 0)
{
	const Info list = get_info(hints, nullptr, api_version, node, service, flags);
	std::vector<std::string> texts;

	for (const fi_info *info = list.get(); info; info = info->next) {
		if (info->ep_attr->type == FI_EP_RDM)
			texts.push_back(text_of(info->src_addr, info->addr_format) + " > " +
					text_of(info->dest_addr, info->addr_format));
	}
	return texts;
}

using Texts = std::vector<std::string>;

/* Other nodes come and go between fi_getinfo and the call that opens an object. */
TEST_F(Nodes, AnAnswerFitsObjectsThatWereOpenedBefore)
{
	Node node(hints_for(FI_MSG));
	Info hints = hints_for(FI_MSG);
	fid_ep *ep = nullptr;
	fid_domain *domain = nullptr;

	listen();
	hints->domain_attr->domain = node.domain.get();
	const Info info = get_info(hints.get());
	ASSERT_TRUE(info && info->caps & FI_REMOTE_COMM);
	ASSERT_EQ(fi_endpoint(node.domain.get(), info.get(), &ep, nullptr), 0);
	EXPECT_EQ(fi_close(&ep->fid), 0);
	ASSERT_TRUE(loop("close 10.0.0.1"));
	forget();
	ASSERT_EQ(fi_domain(node.fabric.get(), info.get(), &domain, nullptr), 0);
	EXPECT_EQ(fi_close(&domain->fid), 0);
}

// conformance: fi_domain(3): caps: FI_REMOTE_COMM is offered while other nodes reach this one
TEST_F(Nodes, RemoteCommIsOfferedWhileThereIsANode)
{
	for (int round = 0; round < 3; ++round) {
		const bool there = round % 2;
		const Info all = get_info(no_hints().get());
		const Info remote = get_info(hints_for(FI_REMOTE_COMM).get());
		const Info both = get_info(hints_for(FI_REMOTE_COMM | FI_LOCAL_COMM).get());

		ASSERT_TRUE(all);
		EXPECT_TRUE(all->caps & FI_LOCAL_COMM);
		EXPECT_EQ(!!(all->caps & FI_REMOTE_COMM), there);
		EXPECT_EQ(!!(all->domain_attr->caps & FI_REMOTE_COMM), there);
		EXPECT_EQ(!!remote, there);
		EXPECT_EQ(!!both, there);
		if (round == 0)
			listen();
		if (round == 1) {
			ASSERT_TRUE(loop("close 10.0.0.1"));
			forget();
		}
	}
}

TEST_F(Nodes, AnswersOfTheNodesFamilyComeFirstAndAloneReachOthers)
{
	listen();
	const Info all = get_info(no_hints().get());
	ASSERT_TRUE(all);
	for (const fi_info *info = all.get(); info; info = info->next)
		EXPECT_EQ(!!(info->caps & FI_REMOTE_COMM), info->addr_format == FI_SOCKADDR_IN);
	EXPECT_EQ(answers(no_hints().get()), (Texts{"10.0.0.1 0 > ", "::1 0 > "}));
	EXPECT_EQ(answers(hints_for(FI_REMOTE_COMM).get()), (Texts{"10.0.0.1 0 > "}));

	ASSERT_TRUE(loop("close 10.0.0.1"));
	listen("fd00::1");
	EXPECT_EQ(answers(no_hints().get()), (Texts{"fd00::1 0 > ", "127.0.0.1 0 > "}));
	EXPECT_EQ(answers(hints_for(FI_REMOTE_COMM).get()), (Texts{"fd00::1 0 > "}));
}

TEST_F(Nodes, NamesAndServicesResolveToOtherMachines)
{
	const Info hints = no_hints();

	/* without a node: as ever */
	EXPECT_EQ(answers(hints.get(), "10.0.0.2", "7471"), Texts{});
	EXPECT_EQ(answers(hints.get(), nullptr, "7471", FI_SOURCE),
		  (Texts{"127.0.0.1 7471 > ", "::1 7471 > "}));
	listen();
	EXPECT_EQ(answers(hints.get(), "10.0.0.2", "7471"), Texts{"10.0.0.1 0 > 10.0.0.2 7471"});
	EXPECT_EQ(answers(hints.get(), "10.0.0.2", nullptr), Texts{"10.0.0.1 0 > 10.0.0.2 0"});
	EXPECT_EQ(answers(hints.get(), "fi_sockaddr_in://10.0.0.2:80"),
		  Texts{"10.0.0.1 0 > 10.0.0.2 80"});
	EXPECT_EQ(answers(hints.get(), "localhost", "80"), Texts{"10.0.0.1 0 > 127.0.0.1 80"});
	EXPECT_EQ(answers(hints.get(), nullptr, "7471", FI_SOURCE),
		  (Texts{"10.0.0.1 7471 > ", "::1 7471 > "}));
	EXPECT_EQ(answers(hints.get(), "0.0.0.0", "80", FI_SOURCE), Texts{"10.0.0.1 80 > "});
	EXPECT_EQ(answers(hints.get(), "10.0.0.1", "80", FI_SOURCE), Texts{"10.0.0.1 80 > "});
	EXPECT_EQ(answers(hints.get(), "127.0.0.1", "80", FI_SOURCE), Texts{"127.0.0.1 80 > "});
	EXPECT_EQ(answers(hints.get(), "10.0.0.2", "80", FI_SOURCE), Texts{});
	EXPECT_EQ(answers(hints.get(), "fd00::2", "80"), Texts{}); /* the node is of IPv4 */
}

std::string name_of(fid_ep *ep, std::uint32_t format = FI_SOCKADDR_IN)
{
	return text_of(address_of(ep).data(), format);
}

bool is_at(const std::string &name, const std::string &host)
{
	return name.starts_with(host + " ") && !name.ends_with(" 0");
}

/* Hints with a source: a sockaddr_in */
Info hints_at(const char *host, std::uint16_t port, std::uint64_t caps)
{
	Info hints = hints_for(caps);
	auto *source = static_cast<sockaddr_in *>(std::calloc(1, sizeof(sockaddr_in)));

	source->sin_family = AF_INET;
	source->sin_port = htons(port);
	inet_pton(AF_INET, host, &source->sin_addr);
	hints->addr_format = FI_SOCKADDR_IN;
	hints->src_addr = source; /* fi_freeinfo frees it */
	hints->src_addrlen = sizeof(*source);
	return hints;
}

constexpr std::uint64_t caps = FI_MSG | FI_SOURCE | FI_DIRECTED_RECV | FI_REMOTE_COMM;

Info in_family(Info hints, const Family &family)
{
	hints->addr_format = family.format;
	return hints;
}

TEST_F(Nodes, AnEndpointGivesAnAddressThatOthersUse)
{
	for (const Family &family : families) {
		be(family);
		Node here(in_family(hints_for(caps), family));
		Side a(here);
		enter_other();
		Node there(in_family(hints_for(caps), family));
		Side b(there);
		enter_here();
		EXPECT_TRUE(is_at(name_of(a.ep.get(), family.format), family.here));
		EXPECT_TRUE(is_at(name_of(b.ep.get(), family.format), family.there));
		const fi_addr_t to_b = a.insert(b.ep.get()), to_a = b.insert(a.ep.get());
		for (int round = 0; round < 2; ++round) {
			Side &from = round ? b : a, &to = round ? a : b;
			const fi_addr_t target = round ? to_a : to_b, known = round ? to_b : to_a;
			fi_addr_t source = FI_ADDR_NOTAVAIL;
			std::uint64_t word = 5, got = 0;

			EXPECT_EQ(fi_recv(to.ep.get(), &got, sizeof(got), nullptr, known, nullptr),
				  0);
			EXPECT_EQ(fi_send(from.ep.get(), &word, sizeof(word), nullptr, target,
					  nullptr),
				  0);
			next(from.tx_cq.get());
			next(to.rx_cq.get(), &source);
			EXPECT_EQ(source, known);
			EXPECT_EQ(got, 5U);
		}
	}
}

std::string peer_name_of(fid_ep *ep, std::uint32_t format)
{
	sockaddr_storage address{};
	std::size_t size = sizeof(address);

	EXPECT_EQ(fi_getpeer(ep, &address, &size), 0);
	return text_of(&address, format);
}

/* fi_getname and fi_getpeer agree across nodes, and a listener's name leads to it. */
TEST_F(Nodes, BothEndsOfAConnectionHaveNamesThatOthersUse)
{
	for (const Family &family : families) {
		const auto hints = [&] {
			Info info = in_family(msg_hints(), family);
			info->caps |= FI_REMOTE_COMM;
			return info;
		};
		be(family);
		enter_other();
		Node there(hints());
		Listener listener(there);
		enter_here();
		Node here(hints());
		Active client(here);
		EXPECT_TRUE(is_at(text_of(listener.address().data(), family.format), family.there));
		ASSERT_EQ(fi_connect(client.ep.get(), listener.address().data(), nullptr, 0), 0);
		enter_other();
		const CmEvent request = listener.request();
		ASSERT_TRUE(request.info);
		Active server(there, request.info.get());
		ASSERT_EQ(fi_accept(server.ep.get(), nullptr, 0), 0);
		enter_here();
		EXPECT_EQ(next_event(client.eq.get()).event, std::uint32_t{FI_CONNECTED});
		EXPECT_EQ(next_event(server.eq.get()).event, std::uint32_t{FI_CONNECTED});

		const std::string name = name_of(client.ep.get(), family.format);
		EXPECT_TRUE(is_at(name, family.here));
		EXPECT_EQ(text_of(request.info->dest_addr, family.format), name);
		EXPECT_EQ(peer_name_of(server.ep.get(), family.format), name);
		EXPECT_TRUE(is_at(name_of(server.ep.get(), family.format), family.there));
		EXPECT_EQ(peer_name_of(client.ep.get(), family.format),
			  name_of(server.ep.get(), family.format));
	}
}

/* The port alone says nothing, and the error has the address of the other node. */
TEST_F(Nodes, AnUnknownSourceIsReportedInTheDomainsFormat)
{
	listen();
	Node here(hints_at("10.0.0.1", 7471, caps));
	Side a(here);
	enter_other();
	for (const std::uint32_t format : {FI_SOCKADDR_IN, FI_SOCKADDR_IN6}) {
		Info hints = hints_for((caps | FI_SOURCE_ERR) & ~FI_REMOTE_COMM);
		hints->addr_format = format;
		Node there(std::move(hints));
		Side b(there);
		std::uint64_t word = 5, got = 0;
		/* a peer here with the port of the other one */
		sockaddr_in near{};
		near.sin_family = AF_INET;
		near.sin_port = htons(7471);
		near.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		if (format == FI_SOCKADDR_IN)
			b.insert({reinterpret_cast<std::byte *>(&near),
				  reinterpret_cast<std::byte *>(&near + 1)});

		sockaddr_in to{};
		to.sin_family = AF_INET;
		to.sin_port =
			format == FI_SOCKADDR_IN ?
				reinterpret_cast<const sockaddr_in *>(address_of(b.ep.get()).data())
					->sin_port :
				reinterpret_cast<const sockaddr_in6 *>(
					address_of(b.ep.get()).data())
					->sin6_port;
		inet_pton(AF_INET, "10.0.0.2", &to.sin_addr);
		const fi_addr_t to_b = a.insert({reinterpret_cast<std::byte *>(&to),
						 reinterpret_cast<std::byte *>(&to + 1)});
		EXPECT_EQ(fi_recv(b.ep.get(), &got, sizeof(got), nullptr, FI_ADDR_UNSPEC, nullptr),
			  0);
		EXPECT_EQ(fi_send(a.ep.get(), &word, sizeof(word), nullptr, to_b, nullptr), 0);
		next(a.tx_cq.get());
		const fi_cq_err_entry error = next_error(b.rx_cq.get());
		EXPECT_EQ(error.err, FI_EADDRNOTAVAIL);
		ASSERT_TRUE(error.err_data);
		EXPECT_EQ(text_of(error.err_data, format),
			  format == FI_SOCKADDR_IN ? "10.0.0.1 7471" : "::ffff:10.0.0.1 7471");
		const auto *data = static_cast<const std::byte *>(error.err_data);
		const fi_addr_t back = b.insert({data, data + error.err_data_size});
		EXPECT_EQ(fi_recv(a.ep.get(), &got, sizeof(got), nullptr, FI_ADDR_UNSPEC, nullptr),
			  0);
		EXPECT_EQ(fi_send(b.ep.get(), &word, sizeof(word), nullptr, back, nullptr), 0);
		next(a.rx_cq.get());
		next(b.tx_cq.get());
	}
	enter_here();
}

TEST_F(Nodes, AddressVectorsTakeNamesAndServices)
{
	listen();
	Node here(hints_for(caps));
	const auto av = here.av();
	fi_addr_t index[4];
	char text[64];
	std::size_t size;

	EXPECT_EQ(fi_av_insertsvc(av.get(), "10.0.0.2", "7471", index, 0, nullptr), 1);
	EXPECT_EQ(fi_av_insertsym(av.get(), "10.0.0.2", 2, "7471", 2, index, 0, nullptr), 4);
	for (int i = 0; i < 4; ++i) {
		sockaddr_in in{};
		size = sizeof(in);
		EXPECT_EQ(fi_av_lookup(av.get(), index[i], &in, &size), 0);
		EXPECT_EQ(text_of(&in, FI_SOCKADDR_IN), "10.0.0." + std::to_string(2 + i / 2) +
								" " + std::to_string(7471 + i % 2));
		size = sizeof(text);
		EXPECT_EQ(std::string(fi_av_straddr(av.get(), &in, text, &size)),
			  "fi_sockaddr_in://10.0.0." + std::to_string(2 + i / 2) + ":" +
				  std::to_string(7471 + i % 2));
	}
}

/*
 * Members of a group on different nodes may have the same port, and a member may be known by
 * different addresses of its machine.
 */
TEST_F(Nodes, MembersOfAGroupAreNamedByAddressAndPort)
{
	constexpr std::uint64_t group_caps = FI_MSG | FI_TAGGED | FI_ATOMIC | FI_COLLECTIVE;

	listen();
	Node here(hints_at("10.0.0.1", 7471, group_caps));
	Member a(here);
	enter_other();
	Node there(hints_at("10.0.0.2", 7471, group_caps));
	Member b(there);
	enter_here();
	const auto bytes = [](const char *host) {
		const Info info = hints_at(host, 7471, 0);
		const auto *from = static_cast<const std::byte *>(info->src_addr);
		return std::vector<std::byte>(from, from + info->src_addrlen);
	};
	a.know({bytes("127.0.0.1"), bytes("10.0.0.2")});
	b.know({bytes("10.0.0.1"), bytes("127.0.0.2")});
	a.join_all();
	b.join_all();
	a.expect_joined(a.mc.get());
	b.expect_joined(b.mc.get());

	std::uint64_t one[2] = {1, 10}, sum[2] = {};
	Member *const members[] = {&a, &b};
	for (int i = 0; i < 2; ++i)
		EXPECT_EQ(fi_allreduce(members[i]->ep.get(), &one[i], 1, nullptr, &sum[i], nullptr,
				       fi_mc_addr(members[i]->mc.get()), FI_UINT64, FI_SUM, 0,
				       nullptr),
			  0);
	for (int i = 0; i < 2; ++i) {
		next(members[i]->cq.get());
		EXPECT_EQ(sum[i], 11U);
	}
}

} // namespace
