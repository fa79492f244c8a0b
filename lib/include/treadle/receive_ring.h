// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_RECEIVE_RING_H
#define TREADLE_RECEIVE_RING_H

#include <mutex>
#include <span>

#include <treadle/detail/ring.h>
#include <treadle/object.h>
#include <treadle/peer.h>
#include <treadle/threading.h>

namespace treadle
{

class Context;

/* What is common to all receives. */
struct ReceiveOptions {
	std::uint64_t context = 0; /* returned in the completion; names the receive for cancel */
	Peer from = Peer::any;	   /* the only sender */
	std::uint32_t flags = TREADLE_F_COMPLETION; /* TREADLE_F_*, but TREADLE_F_EXT */
};

/**
 * A ring for receives of endpoints: fi_recv(3), fi_trecv(3).
 *
 *	rx.receive(buffer, {.context = 7})
 *
 * receives into a span. receive and receive_tagged are each a post of one Message.
 *
 * A post is a few stores. It rings the doorbell only while the kernel holds messages that nothing
 * has matched. It returns
 *
 *	no error   posted; an error of the buffer is reported by its completion
 *	EAGAIN	   the ring is full: nothing has happened
 *	ESHUTDOWN  the ring is closed or broken
 *	EPERM	   this is a child after fork(2)
 *
 * Threads: as Lock says. The buffers belong to the kernel until the receive has completed or was
 * canceled. Messages and vectors are free when post returns.
 */
template <class Lock> class TREADLE_API BasicReceiveRing : public Object<ReceiveRingId>
{
public:
	/*
	 * entries: 1 to limits().max_ring (EINVAL). buffered: bytes of unexpected messages to hold,
	 * up to limits().max_buffered (EINVAL); a message takes some 300 besides its data; 0: a
	 * default. Connected endpoints share a ring only if it has the flag TREADLE_RX_SHARED;
	 * others share any. ENOSPC, ENOMEM.
	 */
	[[nodiscard]] static Result<BasicReceiveRing> create(const Context &context,
							     std::uint32_t entries,
							     std::uint32_t buffered = 0,
							     std::uint32_t flags = 0) noexcept;

	/* Slots, a power of two. A receive takes one, or two if it has several buffers. */
	std::uint32_t entries() const noexcept { return ring_.entries(); }
	/* Slots that are free now. */
	std::uint32_t room() noexcept
	{
		const std::lock_guard guard(lock_);

		return ring_.room();
	}

	/* After close a receive is lost: the kernel takes it no more. */
	[[nodiscard]] std::error_code receive(std::span<std::byte> buffer,
					      const ReceiveOptions &options = {}) noexcept
	{
		return post(options, TREADLE_OP_RECV, buffer, 0, 0);
	}
	/* ignore: bits of the tag that do not count */
	[[nodiscard]] std::error_code receive_tagged(std::span<std::byte> buffer, std::uint64_t tag,
						     std::uint64_t ignore = 0,
						     const ReceiveOptions &options = {}) noexcept
	{
		return post(options, TREADLE_OP_TRECV, buffer, tag, ignore);
	}

	[[nodiscard]] std::error_code post(const Message &message) noexcept
	{
		const std::lock_guard guard(lock_);

		return finish(ring_.put(message));
	}

	/* With 0 to TREADLE_MAX_IOV buffers instead of the message's; EINVAL if there are more. */
	[[nodiscard]] std::error_code post(const Message &message,
					   std::span<const treadle_iov> iov) noexcept
	{
		const std::lock_guard guard(lock_);

		return finish(ring_.put(message, iov));
	}

	/*
	 * For callers that match some messages themselves (Lane). idle: the kernel has no receive
	 * of this ring. holds_messages: it has messages that no receive has matched. offers: how
	 * many lanes were offered. is_quiet: it has no such messages, and so many were offered.
	 */
	bool idle() const noexcept { return ring_.idle(); }
	bool holds_messages() const noexcept { return ring_.wants_doorbell(); }
	std::uint32_t offers() const noexcept { return ring_.offers(); }
	bool is_quiet(std::uint32_t offers) const noexcept { return ring_.is_quiet(offers); }

private:
	BasicReceiveRing(int device, std::uint32_t id, detail::DescriptorRing ring) noexcept
		: Object(device, id), ring_(std::move(ring))
	{
	}

	std::error_code post(const ReceiveOptions &options, std::uint8_t opcode,
			     std::span<std::byte> buffer, std::uint64_t tag,
			     std::uint64_t ignore) noexcept
	{
		return post(Message{.opcode = opcode,
				    .flags = options.flags,
				    .context = options.context,
				    .addr = address_of(buffer.data()),
				    .len = buffer.size(),
				    .peer = std::to_underlying(options.from),
				    .tag = tag,
				    .ignore = ignore});
	}

	std::error_code finish(int rc) noexcept
	{
		if (rc || !ring_.doorbell_wanted()) [[likely]]
			return detail::status(rc);
		rc = doorbell();
		if (rc == -EPERM) [[unlikely]]
			ring_.abandon();
		return detail::status(rc);
	}

	[[no_unique_address]] Lock lock_;
	detail::DescriptorRing ring_;
};

extern template class BasicReceiveRing<NoLock>;
extern template class BasicReceiveRing<Mutex>;

using ReceiveRing = BasicReceiveRing<NoLock>;
using SharedReceiveRing = BasicReceiveRing<Mutex>;

} // namespace treadle

#endif
