// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_PATTERN_H
#define TREADLE_PROVIDER_PATTERN_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>

#include <treadle/graph.h>

/* Collectives as graphs of commands. */
namespace treadle::fi
{

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

/* Builds the graph of a member for a call, or for a join: fi_pattern.cpp. */
void build(Operation &operation, const Member &member, std::uint32_t call, const Collective &what,
	   std::uint32_t root, std::size_t len);
/*
 * The hellos are exchanged in the operation's memory, which must live as long as the kernel writes
 * there.
 */
void build_join(Operation &operation, const Member &member);

} // namespace treadle::fi

#endif
