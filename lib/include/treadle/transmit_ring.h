// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TRANSMIT_RING_H
#define TREADLE_TRANSMIT_RING_H

#include <atomic>
#include <mutex>
#include <span>

#include <treadle/command.h>
#include <treadle/detail/ring.h>
#include <treadle/object.h>
#include <treadle/threading.h>

namespace treadle
{

class Context;

/* What became of several commands. */
struct Posted {
	std::size_t count; /* that many, the first ones, were taken */
	int error; /* 0, or -errno as of post: of the one behind them; the rest was not posted */
};

/**
 * Where an endpoint's commands go out: fi_msg(3), fi_tagged(3), fi_rma(3), fi_atomic(3),
 * fi_trigger(3).
 *
 * A post either rings the doorbell, which runs the command before it returns
 * unless that is slow, or, with TREADLE_F_MORE among its flags, leaves that to the
 * next post without it (or to flush). Without TREADLE_F_MORE it returns
 *
 *	0	 the command was taken; its completion tells the rest
 *	-EAGAIN	 no room, in the ring or for completions: it was not posted, read
 *		 completions and try again (what was posted with TREADLE_F_MORE
 *		 before waits for that)
 *	-errno	 this command was refused and has not happened: see <treadle/ioctl.h>
 *
 * With TREADLE_F_MORE it returns 0 or, for a full ring, -EAGAIN, or -EINVAL for too long a vector; any other
 * refusal is then an error completion of the endpoint (and lost if the command names none, or is TREADLE_F_WORK
 * without TREADLE_F_COMPLETION).
 *
 * Threads: as Lock says; a lock is held while the doorbell is rung, so that every
 * caller gets the result of its own command. Buffers belong to the kernel until
 * the command has completed, or with TREADLE_F_INJECT until the doorbell has taken them (not with -EAGAIN);
 * messages, commands and vectors are free at return.
 */
template <class Lock> class TREADLE_API BasicTransmitRing : public Object<TransmitRingId>
{
public:
	/*
	 * Each endpoint has a ring of its own, except for TREADLE_TX_SHARED: commands name theirs.
	 * entries: 1 to limits().max_ring (EINVAL). ENOSPC, ENOMEM.
	 */
	static Result<BasicTransmitRing> create(const Context &context, std::uint32_t entries,
						std::uint32_t flags = 0) noexcept;

	/* Slots, a power of two; a command takes one, and one more for each vector. */
	std::uint32_t entries() const noexcept { return ring_.entries(); }
	/* Slots that are free now. */
	std::uint32_t room() noexcept
	{
		const std::lock_guard guard(lock_);

		return ring_.room();
	}

	int post(const Message &message) noexcept { return put(message.flags, 1, message); }

	/* An atomic with one buffer of each kind, and one remote range; a Command can have several. */
	int post(const Message &message, const Atomic &atomic) noexcept
	{
		return put(message.flags, 1, message, atomic);
	}

	/* With 0 to TREADLE_MAX_IOV buffers instead of the message's; -EINVAL if there are more. */
	int post(const Message &message, std::span<const treadle_iov> iov) noexcept
	{
		return put(message.flags, iov.size() > 1 ? 2 : 1, message, iov);
	}

	int post(const Command &command) noexcept
	{
		return put(command.desc().flags, command.slots(), command);
	}

	/* All of these, none with TREADLE_F_MORE, in order, with one doorbell for as many as fit. */
	Posted post_all(std::span<const Command> commands) noexcept;

	/*
	 * Rings the doorbell for what was posted with TREADLE_F_MORE. 0, -EAGAIN or -errno. If nothing ever was,
	 * that is found out without a look at what another thread may be posting.
	 */
	int flush() noexcept
	{
		if (!std::atomic_ref(batches_).load(std::memory_order_relaxed))
			return 0;
		const std::lock_guard guard(lock_);

		return pending_ ? ring(0) : 0;
	}

private:
	friend Context; /* which needs one before it is complete */

	static Result<BasicTransmitRing> create(int fd, std::uint32_t entries,
						std::uint32_t flags) noexcept;

	BasicTransmitRing(int fd, std::uint32_t id, detail::DescriptorRing ring) noexcept
		: Object(fd, id), ring_(std::move(ring))
	{
	}

	/* what: a message, also with an atomic or a vector, or a command; it takes so many slots. */
	template <class... What>
	[[gnu::always_inline]] int put(std::uint32_t flags, std::uint32_t slots,
				       const What &...what) noexcept
	{
		const std::lock_guard guard(lock_);
		int rc = ring_.put(what...);

		if (rc == -EAGAIN && pending_) [[unlikely]] {
			/* A batch that fills the ring starts before its end. */
			ring(0);
			rc = ring_.put(what...);
		}
		if (rc) [[unlikely]]
			return rc;
		++pending_;
		if (!(flags & TREADLE_F_MORE))
			return ring(slots);
		std::atomic_ref(batches_).store(true, std::memory_order_relaxed);
		return 0;
	}

	/* slots: of the last command if it is without TREADLE_F_MORE, else 0 */
	int ring(std::uint32_t slots) noexcept
	{
		const int rc = doorbell();

		if (rc != pending_) [[unlikely]]
			return ring_on(rc, slots);
		pending_ = 0;
		return 0;
	}

	/* For post_all: until nothing is pending, or nothing but what is taken back then. */
	Posted drain(std::span<const Command> posted) noexcept;
	void take_back(std::span<const Command> posted) noexcept;

	/* Goes on after a doorbell that did not take all, whatever the reason. */
	int ring_on(int rc, std::uint32_t slots) noexcept;

	[[no_unique_address]] Lock lock_;
	int pending_ = 0;      /* commands that no doorbell has taken */
	bool batches_ = false; /* some were posted with TREADLE_F_MORE */
	detail::DescriptorRing ring_;
};

extern template class BasicTransmitRing<NoLock>;
extern template class BasicTransmitRing<Mutex>;

using TransmitRing = BasicTransmitRing<NoLock>;
using SharedTransmitRing = BasicTransmitRing<Mutex>;

} // namespace treadle

#endif
