// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Collectives as graphs: what one member sends, receives and reduces, and in which order.
 *
 * Data with one source or one target goes along a binomial tree, unless members get different data,
 * which is sent directly. An allreduce is computed once, at the first member and always in the same
 * order, so that all members have the same bits.
 *
 * All receives that need no memory of their own are posted at once, so that a message never waits
 * for its receive.
 */
#include <algorithm>
#include <bit>
#include <cstring>
#include <ranges>

#include "base/results.h"
#include "collective/pattern.h"

namespace treadle::fi
{

namespace
{

using Node = Graph::Node;
using Nodes = std::vector<Node>;

enum : std::uint32_t { up, down }; /* steps: towards the root, and from the root */

const std::byte *at(const void *buf, std::size_t offset) noexcept
{
	return static_cast<const std::byte *>(buf) + offset;
}
std::byte *at(void *buf, std::size_t offset) noexcept
{
	return static_cast<std::byte *>(buf) + offset;
}

class Part
{
public:
	Part(Operation &operation, const Member &member, std::uint32_t call, std::uint32_t root,
	     std::uint32_t desc_flags)
		: operation_(operation), graph_(operation.graph), me_(member), call_(call),
		  root_(root), flags_(desc_flags)
	{
		graph_.clear();
	}

	void barrier() { spread(nullptr, 0, collect(nullptr, nullptr, 0)); }
	void broadcast(void *buf, std::size_t len) { spread(buf, len, {}); }
	void scatter(const void *buf, void *result, std::size_t len)
	{
		if (me_.rank != root_) {
			receive(root_, result, len, down);
			return;
		}
		std::memmove(result, at(buf, me_.rank * len), len);
		for_others([&](std::uint32_t rank) { send(rank, at(buf, rank * len), len, down); });
	}
	void gather(const void *buf, void *result, std::size_t len)
	{
		if (me_.rank != root_) {
			send(root_, buf, len, up);
			return;
		}
		std::memmove(at(result, me_.rank * len), buf, len);
		for_others([&](std::uint32_t rank) {
			receive(rank, at(result, rank * len), len, up);
		});
	}
	/*
	 * stride: distance in buf between the data for two members; 0: all get the same data, and
	 * buf may be in result
	 */
	void exchange(const void *buf, std::size_t stride, void *result, std::size_t len)
	{
		std::memmove(at(result, me_.rank * len), at(buf, me_.rank * stride), len);
		if (!stride)
			buf = at(result, me_.rank * len);
		for_others([&](std::uint32_t rank) {
			receive(rank, at(result, rank * len), len, up);
		});
		for_others(
			[&](std::uint32_t rank) { send(rank, at(buf, rank * stride), len, up); });
	}
	void reduce(const Collective &what, std::size_t len)
	{
		const bool is_root = me_.rank == root_;
		const std::size_t own = is_root || leaf() ? 0 : len;
		std::byte *const memory = reserve(own, len);
		void *sum = is_root ? what.result : memory;

		if (own || is_root)
			std::memmove(sum, what.buf, len);
		collect(&what, own || is_root ? sum : const_cast<void *>(what.buf), len, own);
	}
	void allreduce(const Collective &what, std::size_t len)
	{
		std::memmove(what.result, what.buf, len);
		reserve(0, len);
		spread(what.result, len, collect(&what, what.result, len));
	}
	/* Each member reduces its slice. There is memory for two operands, used in turn. */
	void reduce_scatter(const Collective &what, std::size_t len)
	{
		const std::size_t room = rounded(len);
		Nodes done[2];
		std::size_t turn = 0;

		operation_.memory.resize(2 * room);
		std::memmove(what.result, at(what.buf, me_.rank * len), len);
		for_others(
			[&](std::uint32_t rank) { send(rank, at(what.buf, rank * len), len, up); });
		for (std::uint32_t rank = 0; rank < me_.size(); ++rank) {
			if (rank == me_.rank)
				continue;
			std::byte *from = operation_.memory.data() + turn * room;
			Nodes before = done[turn ^ 1];
			before.push_back(receive(rank, from, len, up, done[turn]));
			done[turn] = apply(what, what.result, from, len, before);
			turn ^= 1;
		}
	}

	/* Reports the end of the whole graph, with the flags of the call. */
	void finish(void *context, std::uint32_t desc_flags)
	{
		graph_.add_last(Command::nop()
					.on(me_.endpoint)
					.collective()
					.context(address_of(context))
					.flags(desc_flags));
	}

private:
	static std::size_t rounded(std::size_t len) noexcept
	{
		return (len + 15) & ~std::size_t{15}; /* every type is aligned at 16 bytes */
	}
	Command named(Command command) const noexcept
	{
		return command.on(me_.endpoint).work().context(address_of(&operation_));
	}
	Node send(std::uint32_t rank, const void *buf, std::size_t len, std::uint32_t step,
		  const Nodes &after = {})
	{
		const auto tag = me_.tag_for(rank, call_, step);

		return graph_.add(
			named(Command::send_tagged(bytes_of(buf, len), Peer{me_.peers[rank]}, tag)
				      .collective()
				      .flags(flags_)),
			after);
	}
	Node receive(std::uint32_t rank, void *buf, std::size_t len, std::uint32_t step,
		     const Nodes &after = {})
	{
		const auto tag = me_.tag_for(me_.rank, call_, step);

		return graph_.add(named(Command::receive_tagged(bytes_of(buf, len), tag, 0,
								Peer{me_.peers[rank]})
						.collective()),
				  after);
	}
	/*
	 * target = target op operands, in pieces of at most TREADLE_MAX_ATOMIC. Returns one node
	 * for the following ones to wait for, even if there are several pieces.
	 */
	Nodes apply(const Collective &what, void *target, const void *operands, std::size_t len,
		    const Nodes &after)
	{
		const auto op = static_cast<treadle_atomic_op>(what.op);
		const auto type = static_cast<treadle_datatype>(what.datatype);
		const std::size_t size = treadle_type_size(type);
		const std::size_t most = TREADLE_MAX_ATOMIC / size * size;
		Nodes nodes;

		for (std::size_t done = 0; done < len; done += most)
			nodes.push_back(graph_.add(
				named(Command::atomic(op, type,
						      bytes_of(at(operands, done),
							       std::min(len - done, most)),
						      at(target, done))),
				after));
		return nodes.size() > 1 ? Nodes{graph_.add(Command::nop().work(), nodes)} : nodes;
	}

	/* Starts with the next rank, so that members don't all send to the first one at once. */
	template <class F> void for_others(F &&function) const
	{
		for (std::uint32_t i = 1; i < me_.size(); ++i)
			function((me_.rank + i) % me_.size());
	}

	/*
	 * The tree. A place is a rank counted from the root. Place p has the children p + 1, p + 2,
	 * p + 4 and so on.
	 */
	std::uint32_t place() const noexcept
	{
		return (me_.rank + me_.size() - root_) % me_.size();
	}
	std::uint32_t rank_at(std::uint32_t place) const noexcept
	{
		return (place + root_) % me_.size();
	}
	std::uint32_t parent() const noexcept { return rank_at(place() & (place() - 1)); }
	std::vector<std::uint32_t> children() const
	{
		const std::uint32_t end = place() ? place() & -place() : std::bit_ceil(me_.size());
		std::vector<std::uint32_t> ranks;

		for (std::uint32_t i = 1; i < end && place() + i < me_.size(); i <<= 1)
			ranks.push_back(rank_at(place() + i));
		return ranks;
	}
	bool leaf() const { return children().empty(); }

	/*
	 * Allocates `own` bytes, followed by room for the data of the children. Returns the
	 * beginning.
	 */
	std::byte *reserve(std::size_t own, std::size_t len)
	{
		operation_.memory.resize(rounded(own) + children().size() * rounded(len));
		return operation_.memory.data();
	}

	/* Reduces the children's data into sum and sends it to the parent. */
	Nodes collect(const Collective *what, void *sum, std::size_t len, std::size_t own = 0)
	{
		std::byte *from = operation_.memory.data() + rounded(own);
		Nodes last;

		for (const std::uint32_t child : children()) {
			const Node got = receive(child, len ? from : nullptr, len, up);

			last.push_back(got);
			if (len)
				last = apply(*what, sum, from, len, last);
			from += rounded(len);
		}
		if (place())
			last = {send(parent(), sum, len, up, last)};
		return last;
	}
	/* Sends the parent's data to the children. The root waits for `after` instead. */
	void spread(void *buf, std::size_t len, Nodes after)
	{
		if (place())
			after = {receive(parent(), buf, len, down)};
		const auto ranks = children();
		for (const std::uint32_t rank : std::views::reverse(ranks))
			send(rank, buf, len, down, after);
	}

	Operation &operation_;
	Graph &graph_;
	const Member &me_;
	std::uint32_t call_, root_, flags_;
};

} // namespace

void build(Operation &operation, const Member &member, std::uint32_t call, const Collective &what,
	   std::uint32_t root, std::size_t len)
{
	Part part(operation, member, call, root, what.flags & TREADLE_F_DELIVERY_COMPLETE);

	switch (what.what) {
	case FI_BARRIER:
		part.barrier();
		break;
	case FI_BROADCAST:
		part.broadcast(what.result, len);
		break;
	case FI_ALLTOALL:
		part.exchange(what.buf, len, what.result, len);
		break;
	case FI_ALLGATHER:
		part.exchange(what.buf, 0, what.result, len);
		break;
	case FI_ALLREDUCE:
		part.allreduce(what, len);
		break;
	case FI_REDUCE_SCATTER:
		part.reduce_scatter(what, len);
		break;
	case FI_REDUCE:
		part.reduce(what, len);
		break;
	case FI_SCATTER:
		part.scatter(what.buf, what.result, len);
		break;
	case FI_GATHER:
		part.gather(what.buf, what.result, len);
		break;
	}
	part.finish(what.context, what.flags & TREADLE_F_COMPLETION);
}

void build_join(Operation &operation, const Member &member)
{
	constexpr std::size_t len = sizeof(Member::Hello);
	Part part(operation, member, 0, 0, 0);

	operation.memory.resize(member.size() * len);
	std::byte *const own = &operation.memory[member.rank * len];
	std::memcpy(own, &member.hellos[member.rank], len);
	part.exchange(own, 0, operation.memory.data(), len);
	part.finish(nullptr, TREADLE_F_WORK);
}

} // namespace treadle::fi
