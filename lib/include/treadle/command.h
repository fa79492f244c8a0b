// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_COMMAND_H
#define TREADLE_COMMAND_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <treadle/atomic.h>
#include <treadle/message.h>
#include <treadle/object.h>

namespace treadle
{

/**
 * A command with all its parts: condition, operation, notification. See
 * treadle(7), and fi_trigger(3), "DEFERRED WORK QUEUES".
 *
 *	Command::send(buf, len, peer).on(endpoint.id()).when(counter.id(), 3).notify(done.id())
 *
 * is a send that starts once a counter has reached 3 and is then counted in another one. Nothing is
 * checked here: the post says EINVAL. A Command is a value. It may be posted any number of times,
 * and is free when post returns. Its members return a reference to it, so write auto command = ...,
 * not auto &. Buffers of the command must live until it has completed.
 */
class TREADLE_API Command
{
public:
	/* Copies only the vectors that exist: most commands have none, and room for 512 bytes. */
	Command(const Command &other) noexcept
		: desc_(other.desc_), range_len_(other.range_len_), result_len_(other.result_len_),
		  compare_len_(other.compare_len_), vector_count_(other.vector_count_)
	{
		std::copy_n(other.vectors_, vector_count_, vectors_);
	}
	Command &operator=(const Command &other) noexcept
	{
		if (this == &other)
			return *this;
		desc_ = other.desc_;
		range_len_ = other.range_len_;
		result_len_ = other.result_len_;
		compare_len_ = other.compare_len_;
		vector_count_ = other.vector_count_;
		std::copy_n(other.vectors_, vector_count_, vectors_);
		return *this;
	}

	static Command send(const void *buf, std::size_t len, std::uint64_t peer) noexcept
	{
		return Command(TREADLE_OP_SEND, buf, len, peer);
	}
	static Command send_tagged(const void *buf, std::size_t len, std::uint64_t peer,
				   std::uint64_t tag) noexcept
	{
		return Command(TREADLE_OP_TSEND, buf, len, peer).tag(tag);
	}
	/* peer: the only sender, or TREADLE_ADDR_ANY */
	static Command receive(void *buf, std::size_t len,
			       std::uint64_t peer = TREADLE_ADDR_ANY) noexcept
	{
		return Command(TREADLE_OP_RECV, buf, len, peer);
	}
	/* ignore: bits of the tag that do not count */
	static Command receive_tagged(void *buf, std::size_t len, std::uint64_t tag,
				      std::uint64_t ignore = 0,
				      std::uint64_t peer = TREADLE_ADDR_ANY) noexcept
	{
		return Command(TREADLE_OP_TRECV, buf, len, peer).tag(tag, ignore);
	}
	/* remote, key: place in the peer's memory; as many bytes as the buffer */
	static Command read(void *buf, std::size_t len, std::uint64_t peer, std::uint64_t remote,
			    std::uint64_t key) noexcept
	{
		return Command(TREADLE_OP_READ, buf, len, peer).remote(remote, key);
	}
	static Command write(const void *buf, std::size_t len, std::uint64_t peer,
			     std::uint64_t remote, std::uint64_t key) noexcept
	{
		return Command(TREADLE_OP_WRITE, buf, len, peer).remote(remote, key);
	}
	/* len: bytes. op: TREADLE_ATOMIC_*, but not READ and those that compare. type: TREADLE_* */
	static Command atomic(treadle_atomic_op op, treadle_datatype type, const void *operands,
			      std::size_t len, std::uint64_t peer, std::uint64_t remote,
			      std::uint64_t key) noexcept
	{
		Command command(TREADLE_OP_ATOMIC, operands, len, peer);

		command.remote(remote, key).operation(op, type);
		return command;
	}
	/* On this process's own memory. */
	static Command atomic(treadle_atomic_op op, treadle_datatype type, const void *operands,
			      std::size_t len, void *target) noexcept
	{
		return atomic(op, type, operands, len, 0, address_of(target), 0)
			.flags(TREADLE_F_LOCAL);
	}
	/* The same, and READ, which ignores operands: result gets the values before. */
	static Command fetch(treadle_atomic_op op, treadle_datatype type, const void *operands,
			     void *result, std::size_t len, std::uint64_t peer,
			     std::uint64_t remote, std::uint64_t key) noexcept
	{
		Command command(TREADLE_OP_FETCH, operands, len, peer);

		if (op == TREADLE_ATOMIC_READ)
			command.no_operands();
		command.desc_.result = address_of(result);
		command.remote(remote, key).operation(op, type);
		return command;
	}
	/* TREADLE_ATOMIC_CSWAP* and MSWAP. compare: the values to compare with. */
	static Command compare(treadle_atomic_op op, treadle_datatype type, const void *operands,
			       const void *compare, void *result, std::size_t len,
			       std::uint64_t peer, std::uint64_t remote, std::uint64_t key) noexcept
	{
		Command command(TREADLE_OP_COMPARE, operands, len, peer);

		command.desc_.result = address_of(result);
		command.desc_.compare = address_of(compare);
		command.remote(remote, key).operation(op, type);
		return command;
	}
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
	Command &collective() noexcept { return flags(TREADLE_F_COLLECTIVE); }
	/* Replaces the buffer by 0 to TREADLE_MAX_IOV ones; the post refuses more. */
	Command &buffers(std::span<const treadle_iov> iov) noexcept;
	/* Replaces the remote range by 1 to TREADLE_MAX_RMA_IOV ones. */
	Command &ranges(std::span<const treadle_rma_iov> iov) noexcept;
	/*
	 * Replaces the buffer for results, and that to compare with, by 1 to TREADLE_MAX_IOV ones
	 * each; the shorter vector is filled up with empty ones.
	 */
	Command &results(std::span<const treadle_iov> results,
			 std::span<const treadle_iov> compares = {}) noexcept;
	/* Sets the endpoint of the command; needed on the ring of the context. */
	Command &on(EndpointId endpoint) noexcept
	{
		desc_.ep = static_cast<std::uint32_t>(endpoint);
		return flags(TREADLE_F_EXT);
	}
	/* Replaces the peer. */
	Command &peer(std::uint64_t peer) noexcept
	{
		desc_.peer = peer;
		return *this;
	}
	/* Sets the value that the completion has, and that names the command to cancel. */
	Command &context(std::uint64_t context) noexcept
	{
		desc_.context = context;
		return *this;
	}
	/* Remote CQ data. */
	Command &data(std::uint64_t data) noexcept
	{
		desc_.data = data;
		return flags(TREADLE_F_REMOTE_CQ_DATA);
	}
	/* A receive for several messages, until less than minimum bytes are left of its buffer. */
	Command &several(std::uint64_t minimum) noexcept
	{
		desc_.data = minimum;
		return flags(TREADLE_F_MULTI_RECV);
	}
	/* Clears TREADLE_F_MORE: the post rings the doorbell. */
	Command &at_once() noexcept
	{
		desc_.flags &= ~TREADLE_F_MORE;
		return *this;
	}
	/* Any of TREADLE_F_*, in addition to those that are set. */
	Command &flags(std::uint32_t flags) noexcept
	{
		desc_.flags |= flags;
		return *this;
	}

	/* --- condition --- */

	/* Starts once success + error of the counter is at least threshold. */
	Command &when(CounterId counter, std::uint64_t threshold) noexcept
	{
		desc_.cond = static_cast<std::uint32_t>(counter);
		desc_.threshold = threshold;
		return flags(TREADLE_F_EXT | TREADLE_F_COND_CNTR);
	}
	/* Starts once the cell has this value. */
	Command &when(TriggerCellsId cells, std::uint32_t index, std::uint64_t value) noexcept
	{
		desc_.cond = static_cast<std::uint32_t>(cells);
		desc_.threshold = index * sizeof(value);
		desc_.value = value;
		return flags(TREADLE_F_EXT | TREADLE_F_COND_CELL);
	}

	/*
	 * Starts again and again, each time for a threshold that is greater by step: see
	 * TREADLE_F_REPEAT in ring.h. With when() of a counter, and work().
	 */
	Command &repeat(std::uint64_t step) noexcept
	{
		desc_.value = step;
		return flags(TREADLE_F_EXT | TREADLE_F_REPEAT);
	}
	/* No repetition before this counter has reached threshold, which grows by step, too. */
	Command &rest(CounterId counter, std::uint64_t threshold) noexcept
	{
		desc_.rest = static_cast<std::uint32_t>(counter);
		desc_.rest_threshold = threshold;
		return flags(TREADLE_F_EXT);
	}

	/* --- notification --- */

	/* The command is counted in this counter, as success or as error. */
	Command &notify(CounterId counter) noexcept
	{
		desc_.notify = static_cast<std::uint32_t>(counter);
		return flags(TREADLE_F_EXT | TREADLE_F_NOTIFY);
	}
	/* Writes a completion on success. (An error completes in any case, except of work.) */
	Command &completion() noexcept { return flags(TREADLE_F_COMPLETION); }
	/* Deferred work: reports to notify() and completion() only, never to the endpoint. */
	Command &work() noexcept { return flags(TREADLE_F_WORK); }
	/*
	 * The same; on a counter, it is canceled by this name (not 0) instead of the context. Not
	 * with repeat(), nor on cells: the descriptor has their step, or value, in that place.
	 */
	Command &work(std::uint64_t name) noexcept
	{
		desc_.value = name;
		return flags(TREADLE_F_EXT).work();
	}

	const treadle_desc &desc() const noexcept { return desc_; }
	/* The slots behind the descriptor, in order. */
	std::span<const treadle_slot> vectors() const noexcept { return {vectors_, vector_count_}; }
	std::uint32_t slots() const noexcept { return 1 + vector_count_; }
	/*
	 * False: a single buffer or range does not have the length of the data, or a vector is too
	 * long. The kernel can't see that, so the post says EINVAL.
	 */
	bool whole() const noexcept
	{
		const auto fits = [&](std::uint64_t len) {
			return len == as_data || len == desc_.len;
		};

		return desc_.iov_count <= TREADLE_MAX_IOV &&
		       desc_.rma_iov_count <= TREADLE_MAX_RMA_IOV &&
		       desc_.fetch_iov_count <= TREADLE_MAX_IOV && fits(range_len_) &&
		       fits(result_len_) && fits(compare_len_);
	}

private:
	static constexpr std::uint64_t as_data = UINT64_MAX;
	static constexpr __u64 too_long = UINT64_MAX - 1;

	Command(std::uint8_t opcode, const void *buf, std::size_t len, std::uint64_t peer) noexcept
		: Command(opcode, peer)
	{
		desc_.iov_count = 1;
		desc_.addr = address_of(buf);
		desc_.len = len;
	}
	Command(std::uint8_t opcode, CounterId counter, std::uint64_t value) noexcept
		: Command(opcode, static_cast<std::uint32_t>(counter))
	{
		desc_.data = value;
	}
	Command(std::uint8_t opcode, std::uint64_t peer) noexcept
	{
		desc_.opcode = opcode;
		desc_.peer = peer;
	}
	Command &tag(std::uint64_t tag, std::uint64_t ignore = 0) noexcept
	{
		desc_.tag = tag;
		desc_.ignore = ignore;
		return *this;
	}

	Command &remote(std::uint64_t addr, std::uint64_t key) noexcept
	{
		desc_.remote_addr = addr;
		desc_.remote_key = key;
		return *this;
	}
	Command &operation(treadle_atomic_op op, treadle_datatype type) noexcept
	{
		desc_.atomic_op = static_cast<std::uint8_t>(op);
		desc_.datatype = static_cast<std::uint8_t>(type);
		return flags(TREADLE_F_EXT);
	}
	void no_operands() noexcept
	{
		desc_.iov_count = 0;
		desc_.addr = 0;
	}

	/* Puts a vector into its place among the slots, or removes its slot. */
	template <class Iov>
	void put(std::uint32_t place, bool had, std::span<const Iov> iov, bool has) noexcept;

	treadle_desc desc_{};
	/* Lengths of single ranges, results and comparands, if they were given. */
	std::uint64_t range_len_ = as_data, result_len_ = as_data, compare_len_ = as_data;
	std::uint32_t vector_count_ = 0;
	treadle_slot vectors_[4]; /* buffers, remote ranges, results, comparands */
};

} // namespace treadle

#endif
