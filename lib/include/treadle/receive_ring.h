// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_RECEIVE_RING_H
#define TREADLE_RECEIVE_RING_H

#include <mutex>
#include <span>

#include <treadle/detail/ring.h>
#include <treadle/object.h>
#include <treadle/threading.h>

namespace treadle
{

class Context;

/**
 * Where an endpoint's receive buffers are posted: fi_recv(3), fi_trecv(3).
 *
 * A post is a few stores. Only while the kernel holds messages that nothing
 * has matched does it ring the doorbell. It returns
 *
 *	0	 posted; what is wrong with the buffer is told by its completion
 *	-EAGAIN	 the ring is full: nothing has happened
 *	-errno	 the doorbell's: -ESHUTDOWN, -EPERM (after fork)
 *
 * Threads: as Lock says. The buffers belong to the kernel until the receive has
 * completed or was canceled; messages and vectors are free at return.
 */
template <class Lock> class TREADLE_API BasicReceiveRing : public Object<ReceiveRingId>
{
public:
	/*
	 * entries: 1 to limits().max_ring. buffered: bytes of unexpected messages to hold, up to
	 * limits().max_buffered, of which each takes some 300 besides its own; 0: a default (EINVAL). ENOSPC,
	 * ENOMEM. Connected
	 * endpoints share a ring only if it has the flag TREADLE_RX_SHARED; others any.
	 */
	static Result<BasicReceiveRing> create(const Context &context, std::uint32_t entries,
					       std::uint32_t buffered = 0,
					       std::uint32_t flags = 0) noexcept;

	/* Slots, a power of two; a receive takes one, or two if it has several buffers. */
	std::uint32_t entries() const noexcept { return ring_.entries(); }
	/* Slots that are free now. */
	std::uint32_t room() noexcept
	{
		const std::lock_guard guard(lock_);

		return ring_.room();
	}

	/* After close it is lost: there is nobody to take it. */
	int post(const Message &message) noexcept
	{
		const std::lock_guard guard(lock_);

		return finish(ring_.put(message));
	}

	/* With 0 to TREADLE_MAX_IOV buffers instead of the message's; -EINVAL if there are more. */
	int post(const Message &message, std::span<const treadle_iov> iov) noexcept
	{
		const std::lock_guard guard(lock_);

		return finish(ring_.put(message, iov));
	}

private:
	BasicReceiveRing(int fd, std::uint32_t id, detail::DescriptorRing ring) noexcept
		: Object(fd, id), ring_(std::move(ring))
	{
	}

	int finish(int rc) noexcept
	{
		if (rc || !ring_.doorbell_wanted()) [[likely]]
			return rc;
		rc = doorbell();
		if (rc == -EPERM) [[unlikely]]
			ring_.abandon();
		return rc;
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
