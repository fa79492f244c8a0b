// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_GROUP_H
#define TREADLE_PROVIDER_GROUP_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <rdma/fi_collective.h>

#include <treadle/graph.h>

#include "avset.h"
#include "eq.h"

namespace treadle::fi
{

class Endpoint;
class Port;

/* What a member asks for: the arguments of all calls of fi_collective(3). */
struct Collective {
	fi_collective_op what;
	const void *buf = nullptr;
	void *result = nullptr;
	std::size_t count = 0;
	int datatype = FI_VOID;
	int op = FI_NOOP;
	fi_addr_t root = FI_ADDR_NOTAVAIL;
	std::uint64_t flags = 0; /* FI_*, then TREADLE_F_* */
	void *context = nullptr;
};

/* One call, as long as the kernel works on it. */
struct Operation {
	explicit Operation(Context &context) : graph(context) {}

	Graph graph;
	std::vector<std::byte> memory; /* for what is to be reduced, or the hellos */
	void *context = nullptr;
};

/*
 * Joining. With the same members one is after the other, as messages that look the same are matched in order. A group that
 * closes before it was told of the end leaves it behind, as the others have been told: the next one that has these members goes on with it.
 */
struct Join : Operation {
	/* owned: a group waits for it; left: that has closed before; over: the group knows. Changed by whose it is. */
	enum class State { owned, left, over };

	Join(Context &context, std::uint64_t who) : Operation(context), members(who) {}

	const std::uint64_t members; /* Member::Hello::group */
	std::atomic<State> state = State::owned;
};

/* The place of an endpoint in a group, and what messages to the other members are called. */
class Member
{
public:
	/* What members tell each other when they join. */
	struct Hello {
		std::uint64_t group; /* what all can compute: are we of one mind? */
		std::uint64_t id;    /* by which the others name the group to who says this */
	};

	std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(peers.size()); }

	/*
	 * A message is called by what its receiver calls the group, so that no two groups of it are
	 * confused; by the number of the call, and by the step in it (0 or 1). Joining has names of its own.
	 */
	std::uint64_t tag_for(std::uint32_t receiver, std::uint32_t call,
			      std::uint32_t step) const noexcept
	{
		return joining ? std::uint64_t{1} << 63 | hellos[rank].group >> 1 :
				 hellos[receiver].id << 32 | (call & 0x7fffffff) << 1 | step;
	}

	EndpointId endpoint{};
	std::vector<fi_addr_t> peers; /* by rank: indices of the address vector */
	std::vector<Hello> hellos;    /* by rank */
	std::uint32_t rank = 0;
	bool joining = true;
};

/*
 * fi_join_collective(3), fi_mc(3): an endpoint as a member of a group. Each call becomes a graph.
 *
 * Everything that changes is under lock_, which is taken after that of the event queue.
 */
class Group final : public Object<Group, fid_mc, FI_CLASS_MC, FI_LOG_EP_CTRL>, public Eq::Joining
{
public:
	static int join(fid_ep *ep, const void *addr, std::uint64_t flags, fid_mc **out,
			void *context) noexcept;
	~Group() override;

	ssize_t start(const Collective &call);
	/* The operations that have this context; whether there were any. */
	bool cancel(const void *context) noexcept;

	/* What is the same for all who join with the same members, and for nobody else. */
	std::uint64_t members() const noexcept { return member_.hellos[member_.rank].group; }
	/* after: null, or the last one with the same members that has not ended. */
	int begin(Join &join, const Join *after);
	/* It has begun; the event queue is to tell of its end. */
	int await(Join &join);

	bool joined(int &error) noexcept override;
	void told() noexcept override;
	::fid &owner() noexcept override { return fid; }

private:
	enum class State { joining, member, failed };

	Group(Port &port, Eq &eq, Member member, void *context);

	/* 0, or why not; len: bytes from one member to another. */
	int judge(const Collective &call, std::uint32_t root, std::size_t &len) const;
	void settle() noexcept;
	std::unique_ptr<Operation> take_operation();

	Endpoint &endpoint_;
	Eq &eq_;
	Use port_use_, eq_use_;
	std::mutex lock_;
	Member member_;
	State state_ = State::joining;
	std::uint32_t calls_ = 0;
	Join *join_ = nullptr; /* until the event queue has told; one of the endpoint's */
	std::vector<std::unique_ptr<Operation>> running_, idle_;
};

/* The groups of an endpoint. */
class Groups
{
public:
	void add(Group &group);
	void remove(Group &group) noexcept;
	Group *find(fi_addr_t address) noexcept;
	bool cancel(const void *context) noexcept;

	/* Begins to join, or goes on with what is left: there is never a message too many. */
	int begin(Group &group, Context &context);
	std::uint32_t new_id() noexcept;
	/* The endpoint closes: ends what is left. */
	void close() noexcept;

private:
	std::mutex lock_;
	std::map<fi_addr_t, Group *> groups_;
	std::vector<std::unique_ptr<Join>> joins_; /* in the order in which they have begun */
	std::uint32_t last_id_ = 0;
};

/* fi_pattern.cpp: what a member does for a call, or to join. */
void build(Operation &operation, const Member &member, std::uint32_t call, const Collective &what,
	   std::uint32_t root, std::size_t len);
/* The hellos are exchanged in the operation's memory, which stays as long as the kernel writes there. */
void build_join(Operation &operation, const Member &member);

/* Bytes that one member contributes to each other one, at most, if they are to be reduced. */
inline constexpr std::size_t most_reduced = std::size_t{1} << 20;

constexpr bool reduces(fi_collective_op what) noexcept
{
	return what == FI_ALLREDUCE || what == FI_REDUCE || what == FI_REDUCE_SCATTER;
}

constexpr bool has_root(fi_collective_op what) noexcept
{
	return what == FI_BROADCAST || what == FI_REDUCE || what == FI_SCATTER || what == FI_GATHER;
}

/* fi_coll.cpp */
int query_collective(fid_domain *domain, fi_collective_op what, fi_collective_attr *attr,
		     std::uint64_t flags) noexcept;
/* 0, or -errno: is such a collective possible? Sets what a fi_collective_attr tells. */
int judge_collective(const Domain &domain, fi_collective_op what,
		     fi_collective_attr &attr) noexcept;

} // namespace treadle::fi

#endif
