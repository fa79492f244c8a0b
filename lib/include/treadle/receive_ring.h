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
 * A ring for receives of endpoints: fi_recv(3), fi_trecv(3).
 *
 * A post is a few stores. It rings the doorbell only while the kernel holds messages that nothing
 * has matched. It returns
 *
 *	0	 posted; an error of the buffer is reported by its completion
 *	-EAGAIN	 the ring is full: nothing has happened
 *	-errno	 that of the doorbell: -ESHUTDOWN, -EPERM (after fork)
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
	static Result<BasicReceiveRing> create(const Context &context, std::uint32_t entries,
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
