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

#include "names/avset.h"
#include "notify/eq.h"

namespace treadle::fi
{

class Endpoint;
class Port;

/* The arguments of a call of fi_collective(3). */
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

/* One call, while the kernel works on it. */
struct Operation {
	explicit Operation(Context &context) : graph(context) {}

	Graph graph;
	std::vector<std::byte> memory; /* for operands of reductions, or the hellos */
	void *context = nullptr;
};

/*
 * Joining a group. Joins with the same members run one after another, because their messages have
 * the same tags and are matched in order.
 *
 * A group that closes before its join is reported leaves the join behind, as the other members may
 * know of its end. The next group with these members continues it.
 */
struct Join : Operation {
	/*
	 * owned: a group waits for it; left: that group has closed before; over: the group knows
	 * the end. Only the owner changes it.
	 */
	enum class State { owned, left, over };

	Join(Context &context, std::uint64_t who) : Operation(context), members(who) {}

	const std::uint64_t members; /* Member::Hello::group */
	std::atomic<State> state = State::owned;
};

/* The place of an endpoint in a group, and the tags of messages to other members. */
class Member
{
public:
	/* What members exchange when they join. */
	struct Hello {
		std::uint64_t group; /* hash of what all members know; equal if they agree */
		std::uint64_t id;    /* by which other members name the group to the sender */
	};

	std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(peers.size()); }

	/*
	 * The tag of a message holds the receiver's identifier of the group, so that no two groups
	 * of the receiver are confused. It also holds the number of the call and the step in it (0
	 * or 1). Joining has tags of its own.
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
 * lock_ protects everything that changes. It is taken after the lock of the event queue.
 */
class Group final : public Object<Group, fid_mc, FI_CLASS_MC, FI_LOG_EP_CTRL>, public Eq::Joining
{
public:
	static int join(fid_ep *ep, const void *addr, std::uint64_t flags, fid_mc **out,
			void *context) noexcept;
	~Group() override;

	ssize_t start(const Collective &call);
	/* Cancels the operations with this context. Returns whether there were any. */
	bool cancel(const void *context) noexcept;

	/* The same for every join with the same members, and different for any other. */
	std::uint64_t members() const noexcept { return member_.hellos[member_.rank].group; }
	/* Begins the join. after: null, or the last unfinished join with the same members. */
	int begin(Join &join, const Join *after);
	/* Makes the event queue report the end of a join that has begun. */
	int await(Join &join);

	bool joined(int &error) noexcept override;
	void told() noexcept override;
	::fid &owner() noexcept override { return fid; }

private:
	enum class State { joining, member, failed };

	Group(Port &port, Eq &eq, Member member, void *context);

	/*
	 * Returns 0, or -errno if the call is not possible. Sets len to the bytes between two
	 * members.
	 */
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
	Join *join_ = nullptr; /* owned by the endpoint; null once the event queue has reported */
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

	/*
	 * Begins to join, or continues a join that was left, so that no member sends a hello twice.
	 */
	int begin(Group &group, Context &context);
	std::uint32_t new_id() noexcept;
	/* Ends the joins that were left. The endpoint is closing. */
	void close() noexcept;

private:
	std::mutex lock_;
	std::map<fi_addr_t, Group *> groups_;
	std::vector<std::unique_ptr<Join>> joins_; /* in the order in which they began */
	std::uint32_t last_id_ = 0;
};

/* Builds the graph of a member for a call, or for a join: fi_pattern.cpp. */
void build(Operation &operation, const Member &member, std::uint32_t call, const Collective &what,
	   std::uint32_t root, std::size_t len);
/*
 * The hellos are exchanged in the operation's memory, which must live as long as the kernel writes
 * there.
 */
void build_join(Operation &operation, const Member &member);

/* The most bytes of a reduction that a member contributes to each other member. */
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
/* Is such a collective possible? 0, or -errno. Fills in a fi_collective_attr. */
int judge_collective(const Domain &domain, fi_collective_op what,
		     fi_collective_attr &attr) noexcept;

} // namespace treadle::fi

#endif
