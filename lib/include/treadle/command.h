// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_COMMAND_H
#define TREADLE_COMMAND_H

#include <cstddef>
#include <cstdint>
#include <span>

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
 * is a send that starts once the counter has reached 3 and is then counted in
 * another one. Nothing is checked here; the post says EINVAL. A Command is a
 * value: it may be posted any number of times, and is free when post returns.
 * The buffers that it names must live until it has completed.
 */
class TREADLE_API Command
{
public:
	static Command send(const void *buf, std::size_t len, std::uint64_t peer) noexcept
	{
		return Command(TREADLE_OP_SEND, buf, len, peer);
	}
	static Command send_tagged(const void *buf, std::size_t len, std::uint64_t peer,
				   std::uint64_t tag) noexcept
	{
		return Command(TREADLE_OP_TSEND, buf, len, peer).tag(tag);
	}
	/* peer: who may send, or TREADLE_ADDR_ANY */
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
	static Command set(CounterId counter, std::uint64_t value) noexcept
	{
		return Command(TREADLE_OP_CNTR_SET, counter, value);
	}
	static Command add(CounterId counter, std::uint64_t value) noexcept
	{
		return Command(TREADLE_OP_CNTR_ADD, counter, value);
	}

	/* --- operation --- */

	/* Replaces the buffer by 0 to TREADLE_MAX_IOV ones; more are refused by the post. */
	Command &buffers(std::span<const treadle_iov> iov) noexcept;
	/* Which endpoint's command it is; needed on the ring of the context. */
	Command &on(EndpointId endpoint) noexcept
	{
		desc_.ep = static_cast<std::uint32_t>(endpoint);
		return flags(TREADLE_F_EXT);
	}
	/* Goes into the completion, and names the command to cancel. */
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
	/* A receive for several messages, until less than so many bytes are left of its buffer. */
	Command &several(std::uint64_t minimum) noexcept
	{
		desc_.data = minimum;
		return flags(TREADLE_F_MULTI_RECV);
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

	/* --- notification --- */

	/* Counted in this counter, as success or as error. */
	Command &notify(CounterId counter) noexcept
	{
		desc_.notify = static_cast<std::uint32_t>(counter);
		return flags(TREADLE_F_EXT | TREADLE_F_NOTIFY);
	}
	/* Writes a completion on success. (On failure there is one anyhow, except for work.) */
	Command &completion() noexcept { return flags(TREADLE_F_COMPLETION); }
	/* Deferred work: reports to notify() and completion() only, never to the endpoint. */
	Command &work() noexcept { return flags(TREADLE_F_WORK); }

	const treadle_desc &desc() const noexcept { return desc_; }
	std::span<const treadle_iov> iov() const noexcept { return {iov_, iov_count_}; }

private:
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

	treadle_desc desc_{};
	std::size_t iov_count_ = 0; /* of iov_: 0, or 2 and more */
	treadle_iov iov_[TREADLE_MAX_IOV];
};

} // namespace treadle

#endif
