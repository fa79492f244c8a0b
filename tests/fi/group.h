// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_GROUP_H
#define TREADLE_TESTS_FI_GROUP_H

#include <functional>

#include <rdma/fi_collective.h>

#include "child.h"
#include "node.h"

/* An endpoint that becomes a member of a group. */
class Member
{
public:
	struct Options {
		std::uint64_t cq_flags = 0;
		std::size_t cq_size = 0;
		bool counter = false;
	};
	explicit Member(Node &node) : Member(node, Options()) {}
	Member(Node &node, const Options &options)
		: eq(node.eq(FI_WAIT_FD)), av(node.av(0, FI_AV_TABLE)),
		  cq(node.cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC, options.cq_size)), ep(node.ep())
	{
		EXPECT_EQ(fi_ep_bind(ep.get(), &eq->fid, 0), 0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
		EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV | options.cq_flags),
			  0);
		if (options.counter) {
			sent = node.cntr();
			EXPECT_EQ(fi_ep_bind(ep.get(), &sent->fid, FI_SEND), 0);
		}
		EXPECT_EQ(fi_enable(ep.get()), 0);
	}

	/* Inserts all addresses, in the order of their ranks. */
	void know(const std::vector<std::vector<std::byte>> &addresses)
	{
		for (const auto &address : addresses) {
			fi_addr_t index = FI_ADDR_NOTAVAIL;
			EXPECT_EQ(fi_av_insert(av.get(), address.data(), 1, &index, 0, nullptr), 1);
			peers.push_back(index);
		}
	}
	/* A set of some members. */
	Owned<fid_av_set> make_set(const std::vector<std::size_t> &ranks)
	{
		fi_av_set_attr attr{};
		fid_av_set *made = nullptr;

		attr.start_addr = attr.end_addr = FI_ADDR_NOTAVAIL;
		EXPECT_EQ(fi_av_set(av.get(), &attr, &made, nullptr), 0);
		for (const std::size_t rank : ranks)
			EXPECT_EQ(fi_av_set_insert(made, peers[rank]), 0);
		return Owned<fid_av_set>(made);
	}
	/* Joins the group of a set; the last member's call completes it. */
	Owned<fid_mc> join(fid_av_set *of, void *context = nullptr)
	{
		fi_addr_t address = FI_ADDR_NOTAVAIL;
		fid_mc *joined = nullptr;

		EXPECT_EQ(fi_av_set_addr(of, &address), 0);
		EXPECT_EQ(fi_join_collective(ep.get(), address, of, 0, &joined, context), 0);
		return Owned<fid_mc>(joined);
	}
	void join_all()
	{
		std::vector<std::size_t> ranks(peers.size());
		for (std::size_t i = 0; i < ranks.size(); ++i)
			ranks[i] = i;
		set = make_set(ranks);
		mc = join(set.get());
	}
	/* Waits for the event of the join. */
	void expect_joined(const fid_mc *which, void *context = nullptr)
	{
		std::uint32_t event = 0;
		fi_eq_entry entry{};

		ASSERT_EQ(fi_eq_sread(eq.get(), &event, &entry, sizeof(entry), patience, 0),
			  static_cast<ssize_t>(sizeof(entry)));
		EXPECT_EQ(event, std::uint32_t{FI_JOIN_COMPLETE});
		EXPECT_EQ(entry.fid, &which->fid);
		EXPECT_EQ(entry.context, context);
	}
	fi_addr_t group() const { return fi_mc_addr(mc.get()); }

	Owned<fid_eq> eq;
	Owned<fid_av> av;
	Owned<fid_cq> cq;
	Owned<fid_cntr> sent;
	Owned<fid_ep> ep;
	std::vector<fi_addr_t> peers;
	Owned<fid_av_set> set;
	Owned<fid_mc> mc;
};

/* So many members in this process, which have joined. */
class Crowd
{
public:
	explicit Crowd(std::size_t size) : Crowd(size, Member::Options()) {}
	Crowd(std::size_t size, const Member::Options &options)
		: Crowd(size, options, hints_for(FI_MSG | FI_TAGGED | FI_COLLECTIVE))
	{
	}
	Crowd(std::size_t size, const Member::Options &options, Info hints) : node(std::move(hints))
	{
		std::vector<std::vector<std::byte>> addresses;

		for (std::size_t i = 0; i < size; ++i) {
			members.push_back(std::make_unique<Member>(node, options));
			addresses.push_back(address_of(members.back()->ep.get()));
		}
		for (auto &member : members)
			member->know(addresses);
		for (auto &member : members)
			member->join_all();
		for (auto &member : members)
			member->expect_joined(member->mc.get());
	}

	std::size_t size() const { return members.size(); }
	Member &operator[](std::size_t rank) { return *members[rank]; }

	/* Each member has the one completion of a collective. */
	void expect_done(void *context = nullptr)
	{
		for (auto &member : members) {
			const auto entry = next(member->cq.get());
			EXPECT_EQ(entry.op_context, context);
			EXPECT_EQ(entry.flags, FI_COLLECTIVE);
		}
	}

	Node node;
	std::vector<std::unique_ptr<Member>> members;
};

/* --- members in separate processes ------------------------------------------------------- */

/* Each process gets the addresses of all, joins, and calls run. */
class Processes
{
public:
	using Run = std::function<void(Member &, std::size_t rank, int line)>;

	Processes(std::size_t size, const Run &run)
	{
		for (std::size_t rank = 0; rank < size; ++rank)
			children_.push_back(std::make_unique<Child>([=](int line) {
				be(size, rank, line, run);
				return 0;
			}));
		std::vector<std::vector<std::byte>> addresses;
		for (auto &child : children_)
			addresses.push_back(get(child->line()));
		for (auto &child : children_) {
			for (const auto &address : addresses)
				put(child->line(), address);
		}
	}

	Child &operator[](std::size_t rank) { return *children_[rank]; }
	/* Waits until the processes have written a byte each, and lets them go on. */
	void await(std::size_t rank)
	{
		char byte;
		read_all(children_[rank]->line(), &byte, 1);
	}
	void go(std::size_t rank) { write_all(children_[rank]->line(), "", 1); }

private:
	static void be(std::size_t size, std::size_t rank, int line, const Run &run)
	{
		Node node(hints_for(FI_MSG | FI_COLLECTIVE));
		Member member(node);
		std::vector<std::vector<std::byte>> addresses;

		put(line, address_of(member.ep.get()));
		while (addresses.size() < size)
			addresses.push_back(get(line));
		member.know(addresses);
		member.join_all();
		member.expect_joined(member.mc.get());
		run(member, rank, line);
	}

	std::vector<std::unique_ptr<Child>> children_;
};

#endif
