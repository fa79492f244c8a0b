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

#include "collective/pattern.h"
#include "endpoint/endpoint.h"
#include "notify/eq.h"

namespace treadle::fi
{

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

	Join(Context &context, std::uint64_t group) : Operation(context), members(group) {}

	const std::uint64_t members; /* Member::Hello::group */
	std::atomic<State> state = State::owned;
};

class Groups;

/*
 * fi_join_collective(3), fi_mc(3): an endpoint as a member of a group. Each call becomes a graph.
 *
 * lock_ protects everything that changes. It is taken after the lock of the event queue.
 */
class Group final : public Object<Group, fid_mc, FI_CLASS_MC, FI_LOG_EP_CTRL>, public Eq::Joining
{
public:
	Group(Groups &groups, Port &port, Eq &eq, Member member, void *context);
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
	void reported() noexcept override;
	::fid &owner() noexcept override { return fid; }

private:
	enum class State { joining, member, failed };

	/*
	 * Returns 0, or -errno if the call is not possible. Sets len to the bytes between two
	 * members.
	 */
	int check(const Collective &call, std::uint32_t root, std::size_t &len) const;
	void finish_joining() noexcept;
	std::unique_ptr<Operation> take_operation();

	Groups &groups_;
	Domain &domain_;
	Eq &eq_;
	Use port_use_, eq_use_;
	std::mutex lock_;
	Member member_;
	State state_ = State::joining;
	std::uint32_t calls_ = 0;
	Join *join_ = nullptr; /* owned by the endpoint; null once the event queue has reported */
	std::vector<std::unique_ptr<Operation>> running_, idle_;
};

class Groups final : public EndpointGroups
{
public:
	static Groups &of(Endpoint &endpoint) noexcept
	{
		return static_cast<Groups &>(endpoint.groups());
	}

	int join(Port &port, const void *addr, std::uint64_t flags, fid_mc **out,
		 void *context) noexcept override;
	bool cancel(const void *context) noexcept override;
	void close() noexcept override;
	void choose_calls(fi_ops_collective &ops, Calls calls) const noexcept override;

	void add(Group &group);
	void remove(Group &group) noexcept;
	Group *find(fi_addr_t address) noexcept;

	/*
	 * Begins to join, or continues a join that was left, so that no member sends a hello twice.
	 */
	int begin(Group &group, Context &context);
	std::uint32_t new_id() noexcept;

private:
	std::mutex lock_;
	std::map<fi_addr_t, Group *> groups_;
	std::vector<std::unique_ptr<Join>> joins_; /* in the order in which they began */
	std::uint32_t last_id_ = 0;
};

} // namespace treadle::fi

#endif
