// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_cm(3): connections and the event queues that report them, fi_eq(3) and fi_domain(3). */
#include <poll.h>

#include "connection.h"

namespace
{

class CmEvents : public testing::Test
{
protected:
	Node node{msg_hints()};
	Active client{node};
};

class CmWait : public CmEvents, public testing::WithParamInterface<fi_wait_obj>
{
};

// conformance: fi_eq(3): wait objects
TEST_P(CmWait, EventsAreWaitedForWithEveryObject)
{
	const auto eq = node.eq(GetParam());
	fid_pep *p = nullptr;
	fid *objects[] = {&eq->fid};

	ASSERT_EQ(fi_passive_ep(node.fabric.get(), node.info.get(), &p, nullptr), 0);
	Owned<fid_pep> pep(p);
	ASSERT_EQ(fi_pep_bind(p, &eq->fid, 0), 0);
	ASSERT_EQ(fi_listen(p), 0);
	EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), 0);
	std::byte name[64];
	std::size_t size = sizeof(name);
	ASSERT_EQ(fi_getname(&p->fid, name, &size), 0);
	ASSERT_EQ(fi_connect(client.ep.get(), name, nullptr, 0), 0);
	if (GetParam() == FI_WAIT_FD) {
		pollfd file{-1, POLLIN, 0};
		ASSERT_EQ(fi_control(&eq->fid, FI_GETWAIT, &file.fd), 0);
		EXPECT_EQ(poll(&file, 1, patience), 1);
	}
	EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), -FI_EAGAIN);
	EXPECT_EQ(next_event(eq.get()).event, std::uint32_t{FI_CONNREQ});
	EXPECT_EQ(fi_trywait(node.fabric.get(), objects, 1), 0);
}

INSTANTIATE_TEST_SUITE_P(Objects, CmWait,
			 testing::Values(FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_POLLFD,
					 FI_WAIT_YIELD));

// conformance: fi_eq(3): wait objects
TEST_F(CmEvents, AnEventQueueInAWaitSet)
{
	fi_wait_attr wait_attr{};
	fid_wait *w = nullptr;
	wait_attr.wait_obj = FI_WAIT_UNSPEC;
	ASSERT_EQ(fi_wait_open(node.fabric.get(), &wait_attr, &w), 0);
	Owned<fid_wait> set(w);
	fi_eq_attr attr{};
	attr.wait_obj = FI_WAIT_SET;
	attr.wait_set = w;
	fid_eq *e = nullptr;
	ASSERT_EQ(fi_eq_open(node.fabric.get(), &attr, &e, nullptr), 0);
	Owned<fid_eq> eq(e);
	fid_pep *p = nullptr;
	ASSERT_EQ(fi_passive_ep(node.fabric.get(), node.info.get(), &p, nullptr), 0);
	Owned<fid_pep> pep(p);
	ASSERT_EQ(fi_pep_bind(p, &eq->fid, 0), 0);
	ASSERT_EQ(fi_listen(p), 0);
	EXPECT_EQ(fi_wait(w, 20), -FI_ETIMEDOUT);
	std::byte name[64];
	std::size_t size = sizeof(name);
	ASSERT_EQ(fi_getname(&p->fid, name, &size), 0);
	ASSERT_EQ(fi_connect(client.ep.get(), name, nullptr, 0), 0);
	EXPECT_EQ(fi_wait(w, patience), 0);
}

// conformance: fi_eq(3): FI_WRITE: user events
TEST_F(CmEvents, UserEventsAndConnectionsShareAQueue)
{
	const auto eq = node.eq(FI_WAIT_UNSPEC, FI_WRITE);
	fid_pep *p = nullptr;
	fi_eq_entry note{};
	std::uint32_t event = 0;

	ASSERT_EQ(fi_passive_ep(node.fabric.get(), node.info.get(), &p, nullptr), 0);
	Owned<fid_pep> pep(p);
	ASSERT_EQ(fi_pep_bind(p, &eq->fid, 0), 0);
	ASSERT_EQ(fi_listen(p), 0);
	std::byte name[64];
	std::size_t size = sizeof(name);
	ASSERT_EQ(fi_getname(&p->fid, name, &size), 0);
	ASSERT_EQ(fi_eq_write(eq.get(), FI_NOTIFY, &note, sizeof(note), 0), ssize_t{sizeof(note)});
	ASSERT_EQ(fi_connect(client.ep.get(), name, nullptr, 0), 0);
	EXPECT_EQ(fi_eq_sread(eq.get(), &event, &note, sizeof(note), patience, 0),
		  ssize_t{sizeof(note)});
	EXPECT_EQ(event, std::uint32_t{FI_NOTIFY});
	EXPECT_EQ(next_event(eq.get()).event, std::uint32_t{FI_CONNREQ});
	EXPECT_TRUE(is_silent(eq.get()));
}

class CmOfADomain : public testing::TestWithParam<std::uint64_t>
{
};

/* fi_domain(3): the default event queue of active endpoints, which may have one of their own. */
// conformance: fi_domain(3): fi_domain_bind: the default EQ of the domain serves active endpoints
//   that have none, also if bound with FI_REG_MR, unless another was bound without; address vectors
//   need their own
TEST_P(CmOfADomain, ItsEventQueueServesEndpointsThatHaveNone)
{
	Node node{msg_hints()};
	Listener listener{node};
	const auto shared = node.eq(FI_WAIT_UNSPEC);
	const auto other = node.eq(FI_WAIT_UNSPEC);

	ASSERT_EQ(fi_domain_bind(node.domain.get(), &shared->fid, GetParam()), 0);
	EXPECT_EQ(fi_domain_bind(node.domain.get(), &other->fid, GetParam()), -FI_EINVAL);
	{
		Active client{node, node.info.get(), false};
		ASSERT_EQ(fi_enable(client.ep.get()), 0);
		ASSERT_EQ(fi_connect(client.ep.get(), listener.address().data(), nullptr, 0), 0);
		Active server{node, listener.request().info.get()};
		ASSERT_EQ(fi_accept(server.ep.get(), nullptr, 0), 0);
		const CmEvent there = next_event(shared.get());
		EXPECT_EQ(there.event, std::uint32_t{FI_CONNECTED});
		EXPECT_EQ(there.object, &client.ep->fid);
		EXPECT_EQ(next_event(server.eq.get()).event, std::uint32_t{FI_CONNECTED});
		EXPECT_TRUE(is_silent(shared.get()));
		EXPECT_EQ(fi_close(&shared->fid), -FI_EBUSY);
	}
	node.domain.reset(); /* before its queue */
}

INSTANTIATE_TEST_SUITE_P(AlsoOfRegistrations, CmOfADomain,
			 testing::Values(std::uint64_t{0}, FI_REG_MR));

// conformance: fi_domain(3): fi_domain_bind: the default EQ of the domain serves active ...
TEST(CmOfADomains, AQueueForRegistrationsGivesWayToOneForTheRest)
{
	Node node{msg_hints()};
	Listener listener{node};
	const auto registrations = node.eq(FI_WAIT_UNSPEC);
	const auto rest = node.eq(FI_WAIT_UNSPEC);

	ASSERT_EQ(fi_domain_bind(node.domain.get(), &registrations->fid, FI_REG_MR), 0);
	ASSERT_EQ(fi_domain_bind(node.domain.get(), &rest->fid, 0), 0);
	{
		Active client{node, node.info.get(), false};
		ASSERT_EQ(fi_connect(client.ep.get(), listener.address().data(), nullptr, 0), 0);
		Active server{node, listener.request().info.get()};
		ASSERT_EQ(fi_accept(server.ep.get(), nullptr, 0), 0);
		EXPECT_EQ(next_event(rest.get()).object, &client.ep->fid);
		EXPECT_TRUE(is_silent(registrations.get()));
	}
	node.domain.reset(); /* before its queues */
}

/* A second call of fi_enable continues with what the first has done. */
TEST(CmOfADomains, ItsEventQueueStaysThatOfAnEndpointThatCouldNotBeEnabled)
{
	Node node{msg_hints()};
	Listener listener{node};
	const auto shared = node.eq(FI_WAIT_UNSPEC), other = node.eq(FI_WAIT_UNSPEC);

	ASSERT_EQ(fi_domain_bind(node.domain.get(), &shared->fid, 0), 0);
	{
		Active client{node, node.info.get(), false};
		{
			const Exhausted all(node);
			ASSERT_EQ(fi_enable(client.ep.get()), -FI_ENOSPC);
		}
		EXPECT_EQ(fi_ep_bind(client.ep.get(), &other->fid, 0), -FI_EINVAL);
		ASSERT_EQ(fi_connect(client.ep.get(), listener.address().data(), nullptr, 0), 0);
		Active server{node, listener.request().info.get()};
		ASSERT_EQ(fi_accept(server.ep.get(), nullptr, 0), 0);
		EXPECT_EQ(next_event(shared.get()).object, &client.ep->fid);
	}
	node.domain.reset(); /* before its queue */
}

} // namespace
