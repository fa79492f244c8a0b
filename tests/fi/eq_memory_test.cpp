// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Event queues without memory: no event is lost, fi_eq(3), fi_mr(3). */
#include <netinet/in.h>
#include <poll.h>

#include "connection.h"

#include "../lib/allocations.h"

namespace
{

/* Reads an event once there is one, with no memory left. */
ssize_t read_without_memory(fid_eq *eq, std::uint32_t &event, fi_eq_entry &entry)
{
	pollfd file{-1, POLLIN, 0};

	EXPECT_EQ(fi_control(&eq->fid, FI_GETWAIT, &file.fd), 0);
	EXPECT_EQ(poll(&file, 1, patience), 1);
	return allocations::without(
		[&] { return fi_eq_read(eq, &event, &entry, sizeof(entry), 0); });
}

TEST(EqMemory, ARegistrationIsReportedWithoutMemory)
{
	Node node(hints_for(0));
	const auto eq = node.eq(FI_WAIT_FD);
	static char memory[4096];
	fi_eq_err_entry failed{};
	fi_eq_entry entry{};
	std::uint32_t event = 0;
	fid_mr *first = nullptr, *second = nullptr;

	ASSERT_EQ(fi_domain_bind(node.domain.get(), &eq->fid, FI_REG_MR), 0);
	ASSERT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof(memory), FI_REMOTE_READ, 0, 5, 0,
			    &first, nullptr),
		  0);
	EXPECT_EQ(read_without_memory(eq.get(), event, entry), ssize_t{sizeof(entry)});
	EXPECT_EQ(event, std::uint32_t{FI_MR_COMPLETE});
	EXPECT_EQ(entry.fid, &first->fid);
	/* Nor is an error lost: this key is taken. */
	ASSERT_EQ(fi_mr_reg(node.domain.get(), memory, sizeof(memory), FI_REMOTE_READ, 0, 5, 0,
			    &second, nullptr),
		  0);
	EXPECT_EQ(read_without_memory(eq.get(), event, entry), -FI_EAVAIL);
	EXPECT_EQ(fi_eq_readerr(eq.get(), &failed, 0), ssize_t{sizeof(failed)});
	EXPECT_EQ(failed.fid, &second->fid);
	EXPECT_EQ(failed.err, FI_ENOKEY);
	EXPECT_EQ(fi_close(&second->fid), 0);
	EXPECT_EQ(fi_close(&first->fid), 0);
	node.domain.reset(); /* which uses the queue */
}

/* A call that fails leaves no region behind. */
// conformance: fi_domain(3): fi_domain_bind with FI_REG_MR: registration reports through the EQ
TEST(EqMemory, ARegistrationFailsAsAWhole)
{
	Node node(hints_for(0));
	const auto eq = node.eq(FI_WAIT_UNSPEC);
	static char memory[4096];
	fi_eq_entry entry{};
	std::uint32_t event = 0;
	int rc = -FI_ENOMEM;

	ASSERT_EQ(fi_domain_bind(node.domain.get(), &eq->fid, FI_REG_MR), 0);
	for (int spared = 0; rc == -FI_ENOMEM; ++spared) {
		fid_mr *mr = nullptr;

		SCOPED_TRACE(spared);
		rc = allocations::without(
			[&] {
				return fi_mr_reg(node.domain.get(), memory, sizeof(memory),
						 FI_REMOTE_READ, 0, 5, 0, &mr, nullptr);
			},
			spared);
		ASSERT_EQ(mr == nullptr, rc != 0);
		if (rc) {
			EXPECT_TRUE(is_silent(eq.get()));
			continue;
		}
		EXPECT_EQ(fi_eq_sread(eq.get(), &event, &entry, sizeof(entry), patience, 0),
			  ssize_t{sizeof(entry)});
		EXPECT_EQ(event, std::uint32_t{FI_MR_COMPLETE});
		EXPECT_EQ(entry.fid, &mr->fid);
		EXPECT_EQ(fi_close(&mr->fid), 0);
	}
	EXPECT_EQ(rc, 0);
	node.domain.reset(); /* which uses the queue */
}

/* Either nothing was inserted, or events say what was: fi_av(3). */
// conformance: fi_av(3): FI_EVENT: an event for each address that fails, then FI_AV_COMPLETE; ...
TEST(EqMemory, AnInsertionIsReportedOrHasNotHappened)
{
	Node node;
	const auto eq = node.eq(FI_WAIT_UNSPEC);
	const auto av = node.av(FI_EVENT);
	sockaddr_in addresses[3]{};
	fi_eq_err_entry failed{};
	fi_eq_entry entry{};
	std::uint32_t event = 0;
	int rc = -FI_ENOMEM;

	ASSERT_EQ(fi_av_bind(av.get(), &eq->fid, 0), 0);
	for (in_port_t i = 0; i < 2; ++i) {
		addresses[i].sin_family = AF_INET;
		addresses[i].sin_port = htons(i + 1);
		addresses[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	}
	for (int spared = 0; rc == -FI_ENOMEM; ++spared) {
		sockaddr_in in;
		std::size_t size = sizeof(in);

		rc = allocations::without(
			[&] { return fi_av_insert(av.get(), addresses, 3, nullptr, 0, ctx(5)); },
			spared);
		ASSERT_EQ(fi_av_lookup(av.get(), 0, &in, &size), rc ? -FI_EINVAL : 0)
			<< "with " << spared << " allocations";
	}
	ASSERT_EQ(rc, 0);
	EXPECT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0), -FI_EAVAIL);
	EXPECT_EQ(fi_eq_readerr(eq.get(), &failed, 0), ssize_t{sizeof(failed)});
	EXPECT_EQ(failed.data, 2u);
	EXPECT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0), ssize_t{sizeof(entry)});
	EXPECT_EQ(event, std::uint32_t{FI_AV_COMPLETE});
	EXPECT_EQ(entry.context, ctx(5));
	EXPECT_EQ(entry.data, 2u);
	EXPECT_TRUE(is_silent(eq.get()));
}

TEST(EqMemory, ARequestIsThereWhenThereIsMemoryAgain)
{
	Node node(msg_hints());
	Listener listener(node, node.info.get(), FI_WAIT_FD);
	Active client(node);
	const std::string greeting = "hello";
	pollfd file{-1, POLLIN, 0};
	fi_eq_cm_entry entry{};
	std::uint32_t kind = 0;

	/* There is room for the kernel's event, but not for the entry made of it. */
	EXPECT_EQ(fi_eq_read(listener.eq.get(), &kind, &entry, sizeof(entry), 0), -FI_EAGAIN);
	ASSERT_EQ(fi_connect(client.ep.get(), listener.address().data(), greeting.data(),
			     greeting.size()),
		  0);
	ASSERT_EQ(fi_control(&listener.eq->fid, FI_GETWAIT, &file.fd), 0);
	for (int i = 0; i < 3; ++i) {
		EXPECT_EQ(poll(&file, 1, patience), 1) << "the waiter is woken";
		EXPECT_EQ(allocations::without([&] {
				  return fi_eq_read(listener.eq.get(), &kind, &entry, sizeof(entry),
						    0);
			  }),
			  -FI_ENOMEM);
	}
	const CmEvent event = listener.request();
	EXPECT_EQ(event.data, greeting);
	EXPECT_TRUE(event.info);
	EXPECT_TRUE(is_silent(listener.eq.get()));
	/* The client has not been refused meanwhile. */
	Active server(node, event.info.get());
	ASSERT_EQ(fi_accept(server.ep.get(), nullptr, 0), 0);
	EXPECT_EQ(next_event(client.eq.get()).event, std::uint32_t{FI_CONNECTED});
}

} // namespace
