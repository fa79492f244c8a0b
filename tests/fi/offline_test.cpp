// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* No network is needed: neither an interface that is up nor a socket. */
#include "child.h"
#include "node.h"

#include <cstddef>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace
{

int forbid_sockets(std::uint32_t error)
{
	sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const sock_fprog program{std::size(code), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ||
	       socket(AF_INET, SOCK_DGRAM, 0) != -1;
}

Info hints(std::uint32_t format)
{
	Info all = hints_for(FI_MSG);

	all->addr_format = format;
	return all;
}

/* One of two sides. They exchange addresses through `line`, then a word. */
int exchange_words(int line, std::uint32_t format)
{
	Node node(hints(format));
	Side side(node);
	auto name = address_of(side.ep.get());
	const std::size_t size = name.size();
	std::uint64_t out = 7, in = 0;

	EXPECT_EQ(fi_recv(side.ep.get(), &in, sizeof(in), nullptr, FI_ADDR_UNSPEC, nullptr), 0);
	EXPECT_EQ(write(line, name.data(), size), ssize_t(size));
	EXPECT_EQ(recv(line, name.data(), size, MSG_WAITALL), ssize_t(size));
	const fi_addr_t peer = side.insert(name);
	EXPECT_EQ(fi_send(side.ep.get(), &out, sizeof(out), nullptr, peer, nullptr), 0);
	next(side.rx_cq.get());
	next(side.tx_cq.get());
	EXPECT_EQ(in, 7u);
	/* The peer stays until its message was read. */
	EXPECT_EQ(write(line, "x", 1), 1);
	char c;
	EXPECT_EQ(recv(line, &c, 1, 0), 1);
	return testing::Test::HasFailure();
}

int exchange_by_two(int (*isolate)())
{
	if (isolate())
		return 2;
	for (const std::uint32_t format : {FI_SOCKADDR_IN, FI_SOCKADDR_IN6}) {
		Child peer([=](int line) { return exchange_words(line, format); });
		if (exchange_words(peer.line(), format) || peer.wait())
			return 3;
	}
	int error = 0;
	/* An address that is not here can't be reached there. */
	if (get_info(hints_for(FI_MSG).get(), &error, api_version, "192.0.2.1", "7000") ||
	    error != -FI_ENODATA)
		return 4;
	return !get_info(hints_for(FI_MSG).get(), nullptr, api_version, "127.0.0.1", "7000",
			 FI_SOURCE);
}

void expect_exchange(int (*isolate)())
{
	Child child([=](int) { return exchange_by_two(isolate); });

	EXPECT_EQ(child.wait(), 0);
}

TEST(Offline, ANamespaceWithNothingUpWillDo)
{
	expect_exchange([] { return unshare(CLONE_NEWNET); });
}

TEST(Offline, NoSocketIsNeeded)
{
	expect_exchange([] { return forbid_sockets(EPERM); });
	expect_exchange([] { return forbid_sockets(ENOSYS); });
}

TEST(Offline, NeitherIsNeeded)
{
	expect_exchange([] { return unshare(CLONE_NEWNET) ?: forbid_sockets(EPERM); });
}

} // namespace
