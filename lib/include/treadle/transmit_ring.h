// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TRANSMIT_RING_H
#define TREADLE_TRANSMIT_RING_H

#include <atomic>
#include <mutex>
#include <span>

#include <treadle/command.h>
#include <treadle/detail/ring.h>
#include <treadle/object.h>
#include <treadle/peer.h>
#include <treadle/threading.h>

namespace treadle
{

class Context;

/* The result of posting several commands. */
struct Posted {
	std::size_t count;     /* so many, the first ones, were taken */
	std::error_code error; /* as of post, of the next command; the rest was not posted */
};

/* What is common to all commands that a ring takes as a call. */
struct SendOptions {
	std::uint64_t context = 0; /* returned in the completion; names the command for cancel */
	std::uint32_t flags = TREADLE_F_COMPLETION; /* TREADLE_F_*, but TREADLE_F_EXT */
};

/**
 * A ring for commands of endpoints: fi_msg(3), fi_tagged(3), fi_rma(3), fi_atomic(3),
 * fi_trigger(3).
 *
 *	tx.send(data, peer, {.context = 7})
 *
 * sends a span. send, send_tagged, read and write are each a post of one Message. post takes what
 * they don't have: vectors, atomics, conditions (Command). Receives are posted to a ReceiveRing.
 *
 * A post rings the doorbell, which runs the command before it returns, unless that is slow. With
 * TREADLE_F_MORE among its flags, it leaves the doorbell to the next post without that flag (or to
 * flush). Without TREADLE_F_MORE a post returns
 *
 *	no error  the command was taken; its completion has the result
 *	EAGAIN	  no room, in the ring or for completions: the command was not posted. Read
 *		  completions and try again (commands that were posted with TREADLE_F_MORE
 *		  before wait for that)
 *	other	  this command was refused and has not happened: see <treadle/ioctl.h>
 *
 * With TREADLE_F_MORE its only errors are EAGAIN: the ring is full; and EINVAL: a vector is too
 * long. Any other refusal is an error completion of the endpoint. It is lost if the command names
 * no endpoint, or is TREADLE_F_WORK without TREADLE_F_COMPLETION.
 *
 * Polled rings (TREADLE_TX_POLLED, if limits().features has TREADLE_FEATURE_TX_POLLED): a thread of
 * the kernel looks at the ring, so a post makes no system call, except the first one after some
 * time without commands. Every post is as one with TREADLE_F_MORE: its errors come as completions.
 * flush takes all commands that were posted before. Bytes of TREADLE_F_INJECT are copied by the
 * post, which accesses them itself.
 *
 * Threads: as Lock says. The lock is held while the doorbell is rung, so each caller gets the
 * result of its own command. Buffers belong to the kernel until the command has completed; with
 * TREADLE_F_INJECT until the doorbell has taken it (not with EAGAIN). Messages, commands and
 * vectors are free when post returns.
 */
template <class Lock> class TREADLE_API BasicTransmitRing : public Object<TransmitRingId>
{
public:
	/*
	 * Each endpoint has a ring of its own. With flag TREADLE_TX_SHARED endpoints share it, and
	 * commands name theirs. With TREADLE_TX_POLLED see "Polled rings" above; idle: microseconds
	 * until the thread leaves the ring alone, 0: a default. entries: 1 to limits().max_ring
	 * (EINVAL). ENOSPC, ENOMEM.
	 */
	[[nodiscard]] static Result<BasicTransmitRing> create(const Context &context,
							      std::uint32_t entries,
							      std::uint32_t flags = 0,
							      std::uint32_t idle = 0) noexcept;

	/* Slots, a power of two. A command takes one, and one more for each vector. */
	std::uint32_t entries() const noexcept { return ring_.entries(); }
	/* Slots that are free now. */
	std::uint32_t room() noexcept
	{
		const std::lock_guard guard(lock_);

		return ring_.room();
	}

	/* peer: Peer::any if the endpoint is connected. The peer posts a receive for it. */
	[[nodiscard]] std::error_code send(std::span<const std::byte> data, Peer peer,
					   const SendOptions &options = {}) noexcept
	{
		return post(options, TREADLE_OP_SEND, data, peer, 0, 0);
	}
	[[nodiscard]] std::error_code send_tagged(std::span<const std::byte> data, Peer peer,
						  std::uint64_t tag,
						  const SendOptions &options = {}) noexcept
	{
		return post(options, TREADLE_OP_TSEND, data, peer, tag, 0);
	}
	/* As many bytes as the buffer has room for. */
	[[nodiscard]] std::error_code read(std::span<std::byte> buffer, Peer peer, Remote from,
					   const SendOptions &options = {}) noexcept
	{
		return post(options, TREADLE_OP_READ, buffer, peer, from.addr, from.key);
	}
	[[nodiscard]] std::error_code write(std::span<const std::byte> data, Peer peer, Remote to,
					    const SendOptions &options = {}) noexcept
	{
		return post(options, TREADLE_OP_WRITE, data, peer, to.addr, to.key);
	}

	[[nodiscard, gnu::always_inline]] std::error_code post(const Message &message) noexcept
	{
		return put(message.flags, 1, message);
	}

	/* An atomic with one buffer of each kind and one remote range; for more use a Command. */
	[[nodiscard]] std::error_code post(const Message &message, const Atomic &atomic) noexcept
	{
		return put(message.flags, 1, message, atomic);
	}

	/* With 0 to TREADLE_MAX_IOV buffers instead of the message's; EINVAL if there are more. */
	[[nodiscard]] std::error_code post(const Message &message,
					   std::span<const treadle_iov> iov) noexcept
	{
		return put(message.flags, iov.size() > 1 ? 2 : 1, message, iov);
	}

	[[nodiscard]] std::error_code post(const Command &command) noexcept
	{
		return put(command.desc().flags, command.slots(), command);
	}

	/*
	 * For callers that execute some operations themselves (Window): under the lock of this ring
	 * (std::lock_guard guard(ring)), idle says that all commands that were posted have
	 * completed, so that such an operation overtakes none. post_locked is post.
	 */
	void lock() noexcept { lock_.lock(); }
	void unlock() noexcept { lock_.unlock(); }
	bool idle() const noexcept { return ring_.idle(); }
	std::uint32_t room_locked() noexcept { return ring_.room(); }
	template <class... What>
	[[nodiscard, gnu::always_inline]] std::error_code post_locked(const Message &message,
								      const What &...what) noexcept
	{
		return detail::status(put_locked(message.flags, 1, message, what...));
	}

	[[nodiscard]] std::error_code post_any_locked(const Message &message) noexcept
	{
		return detail::status(put_locked(message.flags, 1, message));
	}
	[[nodiscard]] std::error_code post_any_locked(const Message &message,
						      std::span<const treadle_iov> iov) noexcept
	{
		return detail::status(
			put_locked(message.flags, iov.size() > 1 ? 2 : 1, message, iov));
	}
	[[nodiscard]] std::error_code post_any_locked(const Command &command) noexcept
	{
		return detail::status(put_locked(command.desc().flags, command.slots(), command));
	}

	/* Posts all, in order, with one doorbell for as many as fit. None has TREADLE_F_MORE. */
	[[nodiscard]] Posted post_all(std::span<const Command> commands) noexcept;

	/*
	 * Rings the doorbell for commands that were posted with TREADLE_F_MORE. Errors as of post.
	 * Takes no lock if no command ever was posted so.
	 */
	[[nodiscard]] std::error_code flush() noexcept
	{
		if (!std::atomic_ref(batches_).load(std::memory_order_relaxed))
			return from_errno(0);
		const std::lock_guard guard(lock_);

		if (ring_.polled())
			return detail::status(ring_polled());
		return detail::status(pending_ ? ring(0) : 0);
	}

	/*
	 * The doorbell was rung for this ring by other means (prep_doorbell), with this result:
	 * 0 or more, or -errno. EAGAIN, or no error and pending(): ring again.
	 */
	[[nodiscard]] std::error_code rang(int result) noexcept;

	/* Does a thread of the kernel look at it? Then refusals are completions. */
	bool polled() const noexcept { return ring_.polled(); }

	/* Were commands posted with TREADLE_F_MORE that no doorbell has taken? */
	bool pending() noexcept
	{
		const std::lock_guard guard(lock_);

		return pending_ > 0;
	}

private:
	friend Context; /* creates a ring before it is complete itself */

	static Result<BasicTransmitRing> create(int device, std::uint32_t entries,
						std::uint32_t flags,
						std::uint32_t idle = 0) noexcept;

	BasicTransmitRing(int device, std::uint32_t id, detail::DescriptorRing ring) noexcept
		: Object(device, id), batches_(ring.polled()), ring_(std::move(ring))
	{
	}

	std::error_code post(const SendOptions &options, std::uint8_t opcode,
			     std::span<const std::byte> buffer, Peer peer, std::uint64_t tag,
			     std::uint64_t ignore) noexcept
	{
		return post(Message{.opcode = opcode,
				    .flags = options.flags,
				    .context = options.context,
				    .addr = address_of(buffer.data()),
				    .len = buffer.size(),
				    .peer = std::to_underlying(peer),
				    .tag = tag,
				    .ignore = ignore});
	}

	/* what: a message, also with an atomic or a vector, or a command; slots: that it takes. */
	template <class... What>
	[[gnu::always_inline]] std::error_code put(std::uint32_t flags, std::uint32_t slots,
						   const What &...what) noexcept
	{
		return detail::status(try_put(flags, slots, what...));
	}

	/* 0 or -errno. */
	template <class... What>
	[[gnu::always_inline]] int try_put(std::uint32_t flags, std::uint32_t slots,
					   const What &...what) noexcept
	{
		const std::lock_guard guard(lock_);

		return put_locked(flags, slots, what...);
	}
	template <class... What>
	[[gnu::always_inline]] int put_locked(std::uint32_t flags, std::uint32_t slots,
					      const What &...what) noexcept
	{
		int rc = ring_.put(what...);

		if (rc) [[unlikely]] {
			if (ring_.polled())
				return put_polled(what...);
			if (rc == -EAGAIN && pending_) {
				/* A batch that fills the ring starts before its end. */
				ring(0);
				rc = ring_.put(what...);
			}
			if (rc)
				return rc;
		}
		++pending_;
		if (!(flags & TREADLE_F_MORE))
			return ring(slots);
		std::atomic_ref(batches_).store(true, std::memory_order_relaxed);
		return 0;
	}

	/*
	 * Rings only if no thread of the kernel looks at the ring. 0 or -errno. Inlined, like put:
	 * a function that is passed the message would keep it in memory, for other rings, too.
	 */
	template <class... What> [[gnu::always_inline]] int put_polled(const What &...what) noexcept
	{
		const int rc = ring_.put_polled(what...);

		if ((!rc || rc == -EAGAIN) && ring_.doorbell_wanted()) [[unlikely]] { /* C */
			const int error = ring_polled();

			return error ? error : rc;
		}
		return rc;
	}

	/* 0, also if commands have to stay in the ring, or -errno: it does not work. */
	int ring_polled() noexcept;

	/* slots: of the last command if that has no TREADLE_F_MORE, else 0 */
	int ring(std::uint32_t slots) noexcept
	{
		const int rc = doorbell();

		if (rc != pending_) [[unlikely]]
			return ring_on(rc, slots);
		pending_ = 0;
		return 0;
	}

	/* For post_all: rings until nothing is pending, or takes the rest back. */
	Posted drain(std::span<const Command> posted) noexcept;
	void take_back(std::span<const Command> posted) noexcept;

	/* Goes on after a doorbell that did not take all commands, for whatever reason. */
	int ring_on(int rc, std::uint32_t slots) noexcept;

	[[no_unique_address]] Lock lock_;
	int pending_ = 0; /* commands that no doorbell has taken */
	bool batches_;	  /* some were posted with TREADLE_F_MORE; or the ring is polled */
	detail::DescriptorRing ring_;
};

extern template class BasicTransmitRing<NoLock>;
extern template class BasicTransmitRing<Mutex>;

using TransmitRing = BasicTransmitRing<NoLock>;
using SharedTransmitRing = BasicTransmitRing<Mutex>;

} // namespace treadle

#endif
