// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_COMMAND_H
#define TREADLE_COMMAND_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <treadle/atomic.h>
#include <treadle/detail/descriptor.h>
#include <treadle/object.h>
#include <treadle/peer.h>

namespace treadle
{

/**
 * A command with all its parts: condition, operation, notification. See
 * treadle(7), and fi_trigger(3), "DEFERRED WORK QUEUES".
 *
 *	Command::send(data, peer).on(endpoint.id()).when(counter.id(), 3).notify(done.id())
 *
 * is a send that starts once a counter has reached 3 and is then counted in another one. Nothing is
 * checked here: the post says EINVAL. A Command is a value. It may be posted any number of times,
 * and is free when post returns. Setters of a temporary return a temporary. Buffers of the command
 * must live until it has completed.
 */
class TREADLE_API Command : public detail::Descriptor
{
public:
	/* --- what it does: a message, or an operation on memory of a peer, of a span --- */

	static Command send(std::span<const std::byte> data, Peer peer) noexcept
	{
		return Command(TREADLE_OP_SEND, data, peer);
	}
	static Command send_tagged(std::span<const std::byte> data, Peer peer,
				   std::uint64_t tag) noexcept
	{
		return Command(TREADLE_OP_TSEND, data, peer, {.addr = tag, .key = 0});
	}
	/* peer: the only sender */
	static Command receive(std::span<std::byte> buffer, Peer peer = Peer::any) noexcept
	{
		return Command(TREADLE_OP_RECV, buffer, peer);
	}
	/* ignore: bits of the tag that do not count */
	static Command receive_tagged(std::span<std::byte> buffer, std::uint64_t tag,
				      std::uint64_t ignore = 0, Peer peer = Peer::any) noexcept
	{
		return Command(TREADLE_OP_TRECV, buffer, peer, {.addr = tag, .key = ignore});
	}
	/* As many bytes as the buffer has room for. */
	static Command read(std::span<std::byte> buffer, Peer peer, Remote from) noexcept
	{
		return Command(TREADLE_OP_READ, buffer, peer, from);
	}
	static Command write(std::span<const std::byte> data, Peer peer, Remote to) noexcept
	{
		return Command(TREADLE_OP_WRITE, data, peer, to);
	}

	/* --- what it does: an atomic. op: TREADLE_ATOMIC_*; type: TREADLE_* --- */

	/* Any but READ and those that compare. */
	static Command atomic(treadle_atomic_op op, treadle_datatype type,
			      std::span<const std::byte> operands, Peer peer, Remote to) noexcept
	{
		Command command(TREADLE_OP_ATOMIC, operands, peer, to);

		command.operation(op, type);
		return command;
	}
	/* On this process's own memory. */
	static Command atomic(treadle_atomic_op op, treadle_datatype type,
			      std::span<const std::byte> operands, void *target) noexcept
	{
		return atomic(op, type, operands, Peer{0}, {.addr = address_of(target), .key = 0})
			.flags(TREADLE_F_LOCAL);
	}
	/*
	 * The same, and READ, which has no operands: result gets the values before. It has the size
	 * of the operands.
	 */
	static Command fetch(treadle_atomic_op op, treadle_datatype type,
			     std::span<const std::byte> operands, std::span<std::byte> result,
			     Peer peer, Remote from) noexcept
	{
		Command command(TREADLE_OP_FETCH, operands, peer, from);

		if (op == TREADLE_ATOMIC_READ) {
			command.desc_.iov_count = 0;
			command.desc_.addr = 0;
			command.desc_.len = result.size();
		}
		command.desc_.result = address_of(result.data());
		command.result_len_ = result.size();
		command.operation(op, type);
		return command;
	}
	/* CSWAP* and MSWAP. compare: the values to compare with. All are of one size. */
	static Command compare(treadle_atomic_op op, treadle_datatype type,
			       std::span<const std::byte> operands,
			       std::span<const std::byte> compare, std::span<std::byte> result,
			       Peer peer, Remote to) noexcept
	{
		Command command(TREADLE_OP_COMPARE, operands, peer, to);

		command.desc_.result = address_of(result.data());
		command.desc_.compare = address_of(compare.data());
		command.result_len_ = result.size();
		command.compare_len_ = compare.size();
		command.operation(op, type);
		return command;
	}

	/* --- what it does: nothing, or a change to a counter --- */

	/* No operation, but with condition and notification. */
	static Command nop() noexcept { return Command(TREADLE_OP_NOP, 0); }
	static Command set(CounterId counter, std::uint64_t value) noexcept
	{
		return Command(TREADLE_OP_CNTR_SET, counter, value);
	}
	static Command add(CounterId counter, std::uint64_t value) noexcept
	{
		return Command(TREADLE_OP_CNTR_ADD, counter, value);
	}

	/* --- operation --- */

	/* A tagged message or receive that matches only its like; or the end of a graph: ring.h. */
	Command &collective() &noexcept { return flags(TREADLE_F_COLLECTIVE); }
	Command &&collective() &&noexcept { return std::move(collective()); }
	/* Replaces the buffer by 0 to TREADLE_MAX_IOV ones; the post refuses more. */
	Command &buffers(std::span<const treadle_iov> iov) &noexcept
	{
		put_buffers(iov);
		return *this;
	}
	Command &&buffers(std::span<const treadle_iov> iov) &&noexcept
	{
		return std::move(buffers(iov));
	}
	/* Replaces the remote range by 1 to TREADLE_MAX_RMA_IOV ones. */
	Command &ranges(std::span<const treadle_rma_iov> iov) &noexcept
	{
		put_ranges(iov);
		return *this;
	}
	Command &&ranges(std::span<const treadle_rma_iov> iov) &&noexcept
	{
		return std::move(ranges(iov));
	}
	/*
	 * Replaces the buffer for results, and that to compare with, by 1 to TREADLE_MAX_IOV ones
	 * each; the shorter vector is filled up with empty ones.
	 */
	Command &results(std::span<const treadle_iov> results,
			 std::span<const treadle_iov> compares = {}) &noexcept
	{
		put_results(results, compares);
		return *this;
	}
	Command &&results(std::span<const treadle_iov> into,
			  std::span<const treadle_iov> compares = {}) &&noexcept
	{
		return std::move(results(into, compares));
	}
	/* Sets the endpoint of the command; needed on the ring of the context. */
	Command &on(EndpointId endpoint) &noexcept
	{
		desc_.ep = static_cast<std::uint32_t>(endpoint);
		return flags(TREADLE_F_EXT);
	}
	Command &&on(EndpointId endpoint) &&noexcept { return std::move(on(endpoint)); }
	/* Replaces the peer. */
	Command &peer(Peer peer) &noexcept
	{
		desc_.peer = std::to_underlying(peer);
		return *this;
	}
	Command &&peer(Peer other) &&noexcept { return std::move(peer(other)); }
	/* Sets the value that the completion has, and that names the command to cancel. */
	Command &context(std::uint64_t context) &noexcept
	{
		desc_.context = context;
		return *this;
	}
	Command &&context(std::uint64_t value) &&noexcept { return std::move(context(value)); }
	/* Remote CQ data. */
	Command &data(std::uint64_t data) &noexcept
	{
		desc_.data = data;
		return flags(TREADLE_F_REMOTE_CQ_DATA);
	}
	Command &&data(std::uint64_t value) &&noexcept { return std::move(data(value)); }
	/* A receive for several messages, until less than minimum bytes are left of its buffer. */
	Command &several(std::uint64_t minimum) &noexcept
	{
		desc_.data = minimum;
		return flags(TREADLE_F_MULTI_RECV);
	}
	Command &&several(std::uint64_t minimum) &&noexcept { return std::move(several(minimum)); }
	/* Clears TREADLE_F_MORE: the post rings the doorbell. */
	Command &at_once() &noexcept
	{
		desc_.flags &= ~TREADLE_F_MORE;
		return *this;
	}
	Command &&at_once() &&noexcept { return std::move(at_once()); }
	/* Any of TREADLE_F_*, in addition to those that are set. */
	Command &flags(std::uint32_t flags) &noexcept
	{
		desc_.flags |= flags;
		return *this;
	}
	Command &&flags(std::uint32_t more) &&noexcept { return std::move(flags(more)); }

	/* --- condition --- */

	/* Starts once success + error of the counter is at least threshold. */
	Command &when(CounterId counter, std::uint64_t threshold) &noexcept
	{
		desc_.cond = static_cast<std::uint32_t>(counter);
		desc_.threshold = threshold;
		return flags(TREADLE_F_EXT | TREADLE_F_COND_CNTR);
	}
	Command &&when(CounterId counter, std::uint64_t threshold) &&noexcept
	{
		return std::move(when(counter, threshold));
	}
	/* Starts once the cell has this value. */
	Command &when(TriggerCellsId cells, std::uint32_t index, std::uint64_t value) &noexcept
	{
		desc_.cond = static_cast<std::uint32_t>(cells);
		desc_.threshold = index * sizeof(value);
		desc_.value = value;
		return flags(TREADLE_F_EXT | TREADLE_F_COND_CELL);
	}
	Command &&when(TriggerCellsId cells, std::uint32_t index, std::uint64_t value) &&noexcept
	{
		return std::move(when(cells, index, value));
	}

	/*
	 * Starts again and again, each time for a threshold that is greater by step: see
	 * TREADLE_F_REPEAT in ring.h. With when() of a counter, and work().
	 */
	Command &repeat(std::uint64_t step) &noexcept
	{
		desc_.value = step;
		return flags(TREADLE_F_EXT | TREADLE_F_REPEAT);
	}
	Command &&repeat(std::uint64_t step) &&noexcept { return std::move(repeat(step)); }
	/* No repetition before this counter has reached threshold, which grows by step, too. */
	Command &rest(CounterId counter, std::uint64_t threshold) &noexcept
	{
		desc_.rest = static_cast<std::uint32_t>(counter);
		desc_.rest_threshold = threshold;
		return flags(TREADLE_F_EXT);
	}
	Command &&rest(CounterId counter, std::uint64_t threshold) &&noexcept
	{
		return std::move(rest(counter, threshold));
	}

	/* --- notification --- */

	/* The command is counted in this counter, as success or as error. */
	Command &notify(CounterId counter) &noexcept
	{
		desc_.notify = static_cast<std::uint32_t>(counter);
		return flags(TREADLE_F_EXT | TREADLE_F_NOTIFY);
	}
	Command &&notify(CounterId counter) &&noexcept { return std::move(notify(counter)); }
	/* Writes a completion on success. (An error completes in any case, except of work.) */
	Command &completion() &noexcept { return flags(TREADLE_F_COMPLETION); }
	Command &&completion() &&noexcept { return std::move(completion()); }
	/* Deferred work: reports to notify() and completion() only, never to the endpoint. */
	Command &work() &noexcept { return flags(TREADLE_F_WORK); }
	Command &&work() &&noexcept { return std::move(work()); }
	/*
	 * The same; on a counter, it is canceled by this name (not 0) instead of the context. Not
	 * with repeat(), nor on cells: the descriptor has their step, or value, in that place.
	 */
	Command &work(std::uint64_t name) &noexcept
	{
		desc_.value = name;
		return flags(TREADLE_F_EXT).work();
	}
	Command &&work(std::uint64_t name) &&noexcept { return std::move(work(name)); }

private:
	using Descriptor::Descriptor;

	/* place: the remote range; the tag and the bits to ignore are in the same fields */
	Command(std::uint8_t opcode, std::span<const std::byte> buffer, Peer peer,
		Remote place = {}) noexcept
		: Descriptor(opcode, std::to_underlying(peer))
	{
		desc_.iov_count = 1;
		desc_.addr = address_of(buffer.data());
		desc_.len = buffer.size();
		desc_.remote_addr = place.addr;
		desc_.remote_key = place.key;
	}
	Command(std::uint8_t opcode, CounterId counter, std::uint64_t value) noexcept
		: Descriptor(opcode, static_cast<std::uint32_t>(counter))
	{
		desc_.data = value;
	}

	void operation(treadle_atomic_op op, treadle_datatype type) noexcept
	{
		desc_.atomic_op = static_cast<std::uint8_t>(op);
		desc_.datatype = static_cast<std::uint8_t>(type);
		flags(TREADLE_F_EXT);
	}
};

} // namespace treadle

#endif
