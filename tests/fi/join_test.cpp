// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* fi_collective(3): the right to join, events, and refusals. */
// conformance: fi_arch(7): collectives

#include "group.h"

#include <poll.h>

namespace
{

constexpr std::uint64_t caps = FI_MSG | FI_TAGGED | FI_COLLECTIVE;

/* --- fi_getinfo, fi_query_collective ------------------------------------------------------ */

// conformance: fi_collective(3): FI_COLLECTIVE, requested: endpoints support collectives:
//   FI_EP_RDM, both directions, no shared or several contexts
// conformance: fi_collective(3): FI_MR_COLLECTIVE: buffers have to be registered with
//   FI_COLLECTIVE: never asked for; the flag is accepted
TEST(Collective, CapabilityIsGrantedOnRequest)
{
	EXPECT_FALSE(get_info(no_hints().get())->caps & FI_COLLECTIVE);
	const Info info = get_info(hints_for(FI_COLLECTIVE).get());
	ASSERT_TRUE(info);
	EXPECT_EQ(info->ep_attr->type, FI_EP_RDM);
	EXPECT_TRUE(info->caps & FI_COLLECTIVE);
	EXPECT_TRUE(info->tx_attr->caps & FI_COLLECTIVE);
	EXPECT_EQ(info->caps & (FI_SEND | FI_RECV), std::uint64_t{FI_SEND | FI_RECV});
	EXPECT_FALSE(info->domain_attr->mr_mode & FI_MR_COLLECTIVE);
}

// conformance: fi_collective(3): FI_COLLECTIVE, requested: endpoints support collectives: ...
TEST(Collective, NeedsAWholeEndpointThatNeedsNoConnection)
{
	const auto refused = [](auto &&change) {
		Info hints = hints_for(FI_COLLECTIVE);
		change(*hints);
		int error = 0;
		EXPECT_FALSE(get_info(hints.get(), &error));
		EXPECT_EQ(error, -FI_ENODATA);
	};

	refused([](fi_info &h) { h.ep_attr->type = FI_EP_MSG; });
	refused([](fi_info &h) { h.ep_attr->type = FI_EP_DGRAM; });
	refused([](fi_info &h) { h.caps |= FI_SEND; });
	refused([](fi_info &h) { h.caps |= FI_RECV; });
	refused([](fi_info &h) { h.ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT; });
	refused([](fi_info &h) { h.ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; });
	refused([](fi_info &h) { h.ep_attr->tx_ctx_cnt = 2; });
	refused([](fi_info &h) {
		h.caps = 0;
		h.tx_attr->caps = FI_COLLECTIVE;
		h.ep_attr->tx_ctx_cnt = 2;
	});

	Node node(hints_for(FI_COLLECTIVE));
	fid_ep *ep;
	EXPECT_EQ(fi_scalable_ep(node.domain.get(), node.info.get(), &ep, nullptr), -FI_EINVAL);
}

// conformance: fi_collective(3): fi_query_collective: which operations, if applicable, types and
//   limits (-FI_EOPNOTSUPP); mode is 0
TEST(Query, ReportsWhichCollectivesAreSupported)
{
	Node node(hints_for(caps));
	int supported = 0;

	for (int coll = FI_BARRIER; coll <= FI_GATHER; ++coll) {
		const bool reduces =
			coll == FI_ALLREDUCE || coll == FI_REDUCE || coll == FI_REDUCE_SCATTER;
		for (int op = FI_MIN; op <= FI_NOOP; op = op == FI_MSWAP ? FI_NOOP : op + 1) {
			for (int type = FI_INT8; type <= FI_VOID;
			     type = type == FI_UINT128 ? FI_VOID : type + 1) {
				fi_collective_attr attr{};
				fi_atomic_attr atomic{};
				attr.op = static_cast<fi_op>(op);
				attr.datatype = static_cast<fi_datatype>(type);
				const int rc =
					fi_query_collective(node.domain.get(),
							    static_cast<fi_collective_op>(coll),
							    &attr, 0);
				bool can = coll == FI_BARRIER || type != FI_VOID;
				if (reduces)
					can = op <= FI_BXOR &&
					      !fi_query_atomic(node.domain.get(), attr.datatype,
							       attr.op, &atomic, 0);
				EXPECT_EQ(rc, can ? 0 : -FI_EOPNOTSUPP)
					<< coll << ' ' << op << ' ' << type;
				supported += can;
				if (!can)
					continue;
				EXPECT_GE(attr.max_members, 64u);
				if (reduces) {
					EXPECT_EQ(attr.datatype_attr.size, atomic.size);
					EXPECT_GE(attr.datatype_attr.count, 65536u / 2);
				}
			}
		}
	}
	EXPECT_GT(supported, 400);
}

// conformance: fi_collective(3): fi_query_collective: which operations, if applicable, types ...
// conformance: fi_collective(3): FI_SCATTER asks about reduce-scatter: with FI_REDUCE or
//   FI_REDUCE_SCATTER
TEST(Query, ModeIsReservedAndShouldBeZero)
{
	Node node(hints_for(caps));
	fi_collective_attr attr{};
	const auto query = [&](fi_collective_op coll, std::uint64_t flags) {
		return fi_query_collective(node.domain.get(), coll, &attr, flags);
	};

	EXPECT_EQ(fi_query_collective(node.domain.get(), FI_BARRIER, nullptr, 0), -FI_EINVAL);
	attr.op = FI_SUM;
	attr.datatype = FI_INT32;
	EXPECT_EQ(query(FI_REDUCE, 0), 0);
	EXPECT_EQ(query(FI_REDUCE, FI_SCATTER), 0);
	EXPECT_EQ(query(FI_REDUCE, FI_MORE), -FI_EBADFLAGS);
	EXPECT_EQ(query(static_cast<fi_collective_op>(FI_GATHER + 1), 0), -FI_EOPNOTSUPP);
	attr.mode = 1;
	EXPECT_EQ(query(FI_REDUCE, 0), -FI_EINVAL);
}

/* --- joining ------------------------------------------------------------------------------ */

/* Members that know each other and have not joined a group. */
class Joins : public testing::Test
{
protected:
	explicit Joins(std::size_t n = 3)
	{
		std::vector<std::vector<std::byte>> addresses;

		for (std::size_t i = 0; i < n; ++i) {
			m.push_back(std::make_unique<Member>(node));
			addresses.push_back(address_of(m[i]->ep.get()));
		}
		for (auto &member : m)
			member->know(addresses);
	}
	int try_join(std::size_t i, fi_addr_t address, const fid_av_set *set,
		     std::uint64_t flags = 0)
	{
		fid_mc *mc = nullptr;
		return fi_join_collective(m[i]->ep.get(), address, set, flags, &mc, nullptr);
	}
	bool has_event(std::size_t i)
	{
		std::uint32_t event;
		fi_eq_entry entry;
		const ssize_t rc =
			fi_eq_read(m[i]->eq.get(), &event, &entry, sizeof(entry), FI_PEEK);
		EXPECT_TRUE(rc == -FI_EAGAIN || rc == sizeof(entry)) << rc;
		return rc > 0;
	}
	fi_addr_t address_of_set(const Owned<fid_av_set> &set)
	{
		fi_addr_t address = FI_ADDR_NOTAVAIL;
		EXPECT_EQ(fi_av_set_addr(set.get(), &address), 0);
		return address;
	}

	/* The first two have joined the same group, the first one with context 1. */
	void expect_one_group(fid_mc *first, fid_mc *second)
	{
		m[0]->expect_joined(first, ctx(1));
		m[1]->expect_joined(second);
		ASSERT_EQ(fi_barrier(m[0]->ep.get(), fi_mc_addr(first), nullptr), 0);
		ASSERT_EQ(fi_barrier(m[1]->ep.get(), fi_mc_addr(second), nullptr), 0);
		next(m[0]->cq.get());
		next(m[1]->cq.get());
	}

	Node node{hints_for(caps)};
	std::vector<std::unique_ptr<Member>> m;
};

// conformance: fi_collective(3): the result is reported to the EQ as FI_JOIN_COMPLETE
// conformance: fi_collective(3): all peers must call before any reports that the join has completed
TEST_F(Joins, AllPeersMustJoinBeforeAnyGetsItsEvent)
{
	std::vector<Owned<fid_av_set>> sets;
	std::vector<Owned<fid_mc>> groups;

	for (std::size_t i = 0; i < 3; ++i) {
		for (std::size_t k = 0; k < i; ++k)
			EXPECT_FALSE(has_event(k));
		sets.push_back(m[i]->make_set({0, 1, 2}));
		groups.push_back(m[i]->join(sets[i].get(), ctx(i + 1)));
	}
	for (std::size_t i = 0; i < 3; ++i)
		m[i]->expect_joined(groups[i].get(), ctx(i + 1));
	for (std::size_t i = 0; i < 3; ++i)
		EXPECT_FALSE(has_event(i)) << "once";
}

// conformance: fi_collective(3): the result is reported to the EQ as FI_JOIN_COMPLETE
// conformance: fi_eq(3): no buffer: only the number of the event is returned, and the event is
//   consumed; a request for a connection is not: -FI_ETOOSMALL
TEST_F(Joins, TheQueuesFileBecomesReadable)
{
	std::vector<Owned<fid_av_set>> sets;
	std::vector<Owned<fid_mc>> groups;
	int fd = -1;

	ASSERT_EQ(fi_control(&m[0]->eq->fid, FI_GETWAIT, &fd), 0);
	pollfd file{fd, POLLIN, 0};
	for (std::size_t i = 0; i < 3; ++i) {
		EXPECT_EQ(poll(&file, 1, 20), 0);
		sets.push_back(m[i]->make_set({0, 1, 2}));
		groups.push_back(m[i]->join(sets[i].get()));
	}
	EXPECT_EQ(poll(&file, 1, patience), 1);
	std::uint32_t event = 0;
	EXPECT_EQ(fi_eq_read(m[0]->eq.get(), &event, nullptr, 0, 0), 0) << "what it is will do";
	EXPECT_EQ(event, std::uint32_t{FI_JOIN_COMPLETE});
	EXPECT_EQ(poll(&file, 1, 20), 0);
	for (std::size_t i = 1; i < 3; ++i)
		m[i]->expect_joined(groups[i].get());
}

// conformance: fi_collective(3): no transfers before the join has completed: -FI_EOPBADSTATE
TEST_F(Joins, AGroupIsUsedOnceItIsJoined)
{
	const auto set0 = m[0]->make_set({0, 1}), set1 = m[1]->make_set({0, 1});
	const auto group0 = m[0]->join(set0.get());

	EXPECT_EQ(fi_barrier(m[0]->ep.get(), fi_mc_addr(group0.get()), nullptr), -FI_EOPBADSTATE);
	const auto group1 = m[1]->join(set1.get());
	/* No event was read. */
	EXPECT_EQ(fi_barrier(m[1]->ep.get(), fi_mc_addr(group1.get()), nullptr), 0);
	m[0]->expect_joined(group0.get());
	EXPECT_EQ(fi_barrier(m[0]->ep.get(), fi_mc_addr(group0.get()), nullptr), 0);
	next(m[0]->cq.get());
	next(m[1]->cq.get());
	m[1]->expect_joined(group1.get());
}

// conformance: fi_cm(3): fi_join, fi_mc_addr: of collective groups; no multicast: -FI_ENOSYS
// conformance: fi_collective(3): coll_addr: of an AV set or of an existing group, or ...
// conformance: fi_collective(3): flags may restrict the access: a member has both directions:
//   -FI_EBADFLAGS
TEST_F(Joins, BadJoinsAreRefused)
{
	const auto set = m[0]->make_set({0, 1}), others = m[0]->make_set({1, 2}),
		   foreign = m[1]->make_set({0, 1});
	const fi_addr_t address = address_of_set(set);

	EXPECT_EQ(try_join(0, address, nullptr), -FI_EINVAL);
	EXPECT_EQ(try_join(0, 4711, set.get()), -FI_EINVAL) << "neither a set nor a group";
	EXPECT_EQ(try_join(0, address, set.get(), FI_SEND), -FI_EBADFLAGS);
	EXPECT_EQ(try_join(0, address, set.get(), FI_MORE), -FI_EBADFLAGS);
	EXPECT_EQ(try_join(0, address_of_set(others), others.get()), -FI_EINVAL) << "no member";
	EXPECT_EQ(try_join(0, address_of_set(foreign), foreign.get()), -FI_EINVAL);
	EXPECT_EQ(fi_av_remove(m[0]->av.get(), &m[0]->peers[1], 1, 0), 0);
	EXPECT_EQ(try_join(0, address, set.get()), -FI_EINVAL) << "of what was removed";
	fid_mc *mc;
	EXPECT_EQ(fi_join(m[0]->ep.get(), nullptr, 0, &mc, nullptr), -FI_ENOSYS);
}

// conformance: fi_collective(3): an endpoint must be bound to an event queue prior to
//   fi_join_collective: -FI_ENOEQ
TEST(Join, NeedsAnEventQueueAndTheCapability)
{
	for (const std::uint64_t more : {std::uint64_t{0}, std::uint64_t{FI_COLLECTIVE}}) {
		Node node(hints_for(FI_MSG | more));
		Side side(node);
		fi_av_set_attr attr{};
		fid_av_set *set = nullptr;
		fid_mc *mc = nullptr;
		const fi_addr_t own = side.insert(side.ep.get());

		attr.start_addr = attr.end_addr = FI_ADDR_NOTAVAIL;
		ASSERT_EQ(fi_av_set(side.av.get(), &attr, &set, nullptr), 0);
		ASSERT_EQ(fi_av_set_insert(set, own), 0);
		EXPECT_EQ(fi_join_collective(side.ep.get(), FI_ADDR_NOTAVAIL, set, 0, &mc, nullptr),
			  more ? -FI_ENOEQ : -FI_ENOSYS);
		EXPECT_EQ(fi_barrier(side.ep.get(), 0, nullptr), more ? -FI_EINVAL : -FI_ENOSYS);
		EXPECT_EQ(fi_close(&set->fid), 0);
	}
}

// conformance: fi_av_set(3): operations that are active when a set is closed are aborted, with
//   undefined results: they go on
TEST_F(Joins, ObjectsInUseAreNotClosed)
{
	auto set = m[0]->make_set({0});
	auto group = m[0]->join(set.get());

	EXPECT_EQ(fi_close(&m[0]->ep->fid), -FI_EBUSY);
	EXPECT_EQ(fi_close(&m[0]->eq->fid), -FI_EBUSY);
	EXPECT_EQ(fi_close(&m[0]->av->fid), -FI_EBUSY);
	set.reset(); /* the group does not need it any more */
	m[0]->expect_joined(group.get());
	EXPECT_EQ(fi_barrier(m[0]->ep.get(), fi_mc_addr(group.get()), nullptr), 0);
	next(m[0]->cq.get());
}

// conformance: fi_collective(3): coll_addr: of an AV set or of an existing group, or
//   FI_ADDR_NOTAVAIL; the set alone determines the members
TEST_F(Joins, ASubgroupOfAGroup)
{
	std::vector<Owned<fid_av_set>> sets;
	std::vector<Owned<fid_mc>> all, some;

	for (std::size_t i = 0; i < 3; ++i) {
		sets.push_back(m[i]->make_set({0, 1, 2}));
		all.push_back(m[i]->join(sets[i].get()));
	}
	for (std::size_t i = 0; i < 3; ++i)
		m[i]->expect_joined(all[i].get());
	for (std::size_t i = 0; i < 2; ++i) {
		fid_mc *mc = nullptr;
		ASSERT_EQ(fi_av_set_remove(sets[i].get(), m[i]->peers[2]), 0);
		ASSERT_EQ(fi_join_collective(m[i]->ep.get(), fi_mc_addr(all[i].get()),
					     sets[i].get(), 0, &mc, nullptr),
			  0);
		some.emplace_back(mc);
	}
	for (std::size_t i = 0; i < 2; ++i)
		m[i]->expect_joined(some[i].get());
}

/* Messages of two groups have the same source and target, and come in any order. */
TEST_F(Joins, GroupsOfTheSameMembersAreNotConfused)
{
	constexpr std::size_t groups = 5;
	std::vector<Owned<fid_av_set>> sets;
	std::vector<Owned<fid_mc>> joined;
	std::vector<std::uint64_t> results(3 * groups);

	for (std::size_t g = 0; g < groups; ++g) {
		for (std::size_t i = 0; i < 3; ++i) {
			sets.push_back(m[i]->make_set({0, 1, 2}));
			joined.push_back(m[i]->join(sets.back().get()));
		}
	}
	for (std::size_t g = 0; g < groups; ++g) {
		for (std::size_t i = 0; i < 3; ++i)
			m[i]->expect_joined(joined[g * 3 + i].get());
	}
	std::vector<std::uint64_t> bufs(3 * groups);
	for (std::size_t i = 0; i < 3; ++i) {
		for (std::size_t k = 0; k < groups; ++k) {
			const std::size_t g = i == 1 ? groups - 1 - k : k; /* in another order */
			bufs[g * 3 + i] = (g + 1) * 100 + i;
			ASSERT_EQ(fi_allreduce(m[i]->ep.get(), &bufs[g * 3 + i], 1, nullptr,
					       &results[g * 3 + i], nullptr,
					       fi_mc_addr(joined[g * 3 + i].get()), FI_UINT64,
					       FI_SUM, 0, nullptr),
				  0);
		}
	}
	for (std::size_t k = 0; k < groups; ++k) {
		for (std::size_t i = 0; i < 3; ++i)
			next(m[i]->cq.get());
	}
	for (std::size_t g = 0; g < groups; ++g) {
		for (std::size_t i = 0; i < 3; ++i)
			EXPECT_EQ(results[g * 3 + i], (g + 1) * 300 + 3);
	}
}

/* The second waits for the first; other members have yet to join that. */
// conformance: fi_trigger(3): FI_FLUSH_WORK: of the domain, or of one counter (arg is the ...
TEST_F(Joins, FlushingAllDeferredWorkIsNotForThem)
{
	std::vector<Owned<fid_av_set>> sets;
	std::vector<Owned<fid_mc>> joined;

	for (std::size_t i = 0; i < 3; ++i) {
		for (int g = 0; g < 2; ++g) {
			sets.push_back(m[i]->make_set({0, 1, 2}));
			joined.push_back(m[i]->join(sets.back().get()));
		}
		ASSERT_EQ(fi_control(&node.domain->fid, FI_FLUSH_WORK, nullptr), 0);
	}
	for (std::size_t i = 0; i < 3; ++i) {
		m[i]->expect_joined(joined[2 * i].get());
		m[i]->expect_joined(joined[2 * i + 1].get());
	}
}

TEST_F(Joins, AMemberThatVanishesFailsTheJoin)
{
	const auto set = m[0]->make_set({0, 1, 2});
	const auto group = m[0]->join(set.get());
	std::uint32_t event;
	fi_eq_entry entry;
	fi_eq_err_entry error{};

	EXPECT_FALSE(has_event(0));
	m.pop_back();
	m.pop_back();
	EXPECT_EQ(fi_eq_sread(m[0]->eq.get(), &event, &entry, sizeof(entry), patience, 0),
		  -FI_EAVAIL);
	EXPECT_EQ(fi_eq_readerr(m[0]->eq.get(), &error, 0), static_cast<ssize_t>(sizeof(error)));
	EXPECT_EQ(error.fid, &group->fid);
	EXPECT_EQ(error.err, FI_ECONNABORTED);
	EXPECT_EQ(fi_barrier(m[0]->ep.get(), fi_mc_addr(group.get()), nullptr), -FI_EOPBADSTATE);
}

// conformance: fi_collective(3): fi_close disconnects from the group; fi_mc_addr
TEST_F(Joins, ClosingAGroupEndsJoining)
{
	const auto set = m[0]->make_set({0, 1});
	auto group = m[0]->join(set.get());

	group.reset();
	/* The other member has the event of a new set already. */
	const auto same = m[1]->make_set({0, 1});
	const auto late = m[1]->join(same.get());
	m[1]->expect_joined(late.get());
	EXPECT_FALSE(has_event(0));
}

/* A member that gave up and tries again joins the waiting ones, and its new group is theirs. */
TEST_F(Joins, JoiningAgainIsOneJoinForTheOthers)
{
	const auto set = m[0]->make_set({0, 1}), same = m[1]->make_set({0, 1});

	for (int closed = 0; closed < 4; ++closed) {
		for (int i = 0; i < closed; ++i)
			m[0]->join(set.get()).reset();
		Owned<fid_mc> other;
		if (closed % 2)
			other = m[1]->join(same.get());
		const auto again = m[0]->join(set.get(), ctx(1));
		if (!other)
			other = m[1]->join(same.get());
		expect_one_group(again.get(), other.get());
		EXPECT_FALSE(has_event(0) || has_event(1));
	}
}

/* No member has got an event that the join ended, so it goes on: the others need not join again. */
TEST_F(Joins, AJoinWithoutAnEventGoesOn)
{
	const auto set = m[0]->make_set({0, 1}), same = m[1]->make_set({0, 1});

	for (int both = 0; both < 2; ++both) {
		auto other = m[1]->join(same.get());
		m[0]->join(set.get()).reset(); /* the join has ended by then */
		if (both) {
			other.reset();
			other = m[1]->join(same.get());
		}
		const auto again = m[0]->join(set.get(), ctx(1));
		expect_one_group(again.get(), other.get());
	}
}

} // namespace
