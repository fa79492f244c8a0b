// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_COMPLETION_QUEUE_H
#define TREADLE_COMPLETION_QUEUE_H

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <mutex>
#include <span>
#include <type_traits>

#include <treadle/completion.h>
#include <treadle/detail/local_completions.h>
#include <treadle/detail/ring.h>
#include <treadle/object.h>
#include <treadle/threading.h>

namespace treadle
{

class Context;

/**
 * A queue of completions: fi_cq(3). Reading it takes no system call, unless it is empty and the
 * kernel keeps completions that did not fit.
 *
 * next() waits for one completion, read() copies those that are there, and consume() visits them
 * where they lie.
 *
 * Threads: next, read and consume as Lock says; all others from any thread at any time.
 */
template <class Lock> class TREADLE_API BasicCompletionQueue : public Object<CompletionQueueId>
{
public:
	/* entries: 1 to limits().max_cq (EINVAL). ENOSPC, ENOMEM. */
	[[nodiscard]] static Result<BasicCompletionQueue> create(const Context &context,
								 std::uint32_t entries) noexcept;

	/* A power of two, at least the number that create was given. */
	std::uint32_t entries() const noexcept { return ring_.entries(); }

	/*
	 * Free entries. A lower bound while another thread consumes.
	 * From any thread, whatever Lock is.
	 */
	std::uint32_t room() noexcept
	{
		const std::lock_guard guard(lock_);

		if (ring_.overflows())
			return 0;
		const std::uint32_t head =
			ring_.head(); /* first: what is read meanwhile still counts */
		const std::uint32_t used = ring_.tail() - head + local_.count();
		return used < entries() ? entries() - used : 0;
	}

	/*
	 * Calls visit(const treadle_cqe &) -> bool for up to max completions where they lie, the
	 * oldest first, until it returns false: that completion stays. With TREADLE_CQ_ERR_DATA the
	 * next entry is data, not a completion: it is taken as well, not visited and not counted.
	 * visit must not keep the reference, nor call this queue, nor throw (the program ends).
	 *
	 * Returns how many were taken. EAGAIN: there were none; EPERM: after fork. Without a lock,
	 * EBUSY: another thread has consumed meanwhile, which is an error of the caller. Nothing
	 * was taken here, and that thread has some of the completions that were visited. Such an
	 * error is not always found.
	 */
	template <class Visit>
	[[nodiscard]] Result<std::uint32_t> consume(std::uint32_t max, Visit &&visit) noexcept
	{
		const int rc = has_local() ? try_consume_local(max, visit) :
					     try_consume(max, visit, [this] { return refill(); });

		if (rc < 0) [[unlikely]]
			return std::unexpected(from_errno(-rc));
		return static_cast<std::uint32_t>(rc);
	}
	/*
	 * The same if has_local() is false, inlined. -EAGAIN, -EBUSY; 0: none was taken, and
	 * consume says why.
	 */
	template <class Visit>
	[[nodiscard, gnu::always_inline]] int consume_here(std::uint32_t max,
							   Visit &&visit) noexcept
	{
		return try_consume(max, visit, [this] { return ring_.overflows() ? 0 : -EAGAIN; });
	}
	/*
	 * The same for those that the process has added itself. 0: none was taken, and consume says
	 * why.
	 */
	template <class Visit>
	[[nodiscard, gnu::always_inline]] std::uint32_t consume_local(std::size_t max,
								      Visit &&visit) noexcept
	{
		const std::lock_guard guard(lock_);

		return ring_.overflows() ? 0 : local_.consume(ring_.head(), max, visit);
	}
	/* Are there completions that the process has added itself? */
	bool has_local() const noexcept { return local_.count() != 0; }

	/* Is there something to read? Takes nothing. From any thread, whatever Lock is. */
	bool ready() noexcept
	{
		const std::lock_guard guard(lock_);
		return ring_.tail() != ring_.head() || local_.count() || refill() != -EAGAIN;
	}

	/* Copies completions to the beginning of out. Returns the same as consume. */
	[[nodiscard]] Result<std::uint32_t> read(std::span<Completion> out) noexcept
	{
		auto to = out.begin();
		const std::size_t most = std::min(out.size(), std::size_t{INT_MAX});

		return consume(static_cast<std::uint32_t>(most), [&](const treadle_cqe &cqe) {
			*to++ = Completion(cqe);
			return true;
		});
	}

	/*
	 * Takes the oldest completion, and waits for it. The errors of read and wait; that of the
	 * operation is in the completion.
	 */
	[[nodiscard]] Result<Completion> next(Timeout timeout = forever) noexcept
	{
		const detail::Deadline deadline(timeout);
		Completion out;

		for (;;) {
			const std::uint32_t before = signals();
			const auto n = read({&out, 1});

			if (n)
				return out;
			if (n.error() != std::errc::resource_unavailable_try_again)
				return std::unexpected(n.error());
			if (const auto failed = wait(deadline.left(), before))
				return std::unexpected(failed);
		}
	}

	/*
	 * Blocks until there is something to read. ETIMEDOUT (EAGAIN without timeout), EINTR,
	 * ECANCELED.
	 */
	[[nodiscard]] std::error_code wait(Timeout timeout = forever) const noexcept
	{
		const detail::Handoff::Sleeper sleeper(local_.handoff());

		return local_.count() ? from_errno(0) : Handle::wait(timeout);
	}

	/*
	 * For several threads that wait and read. signals: signals() from before the queue was
	 * found to be empty. A signal since then ends this wait, even if another thread has seen
	 * it.
	 */
	[[nodiscard]] std::error_code wait(Timeout timeout, std::uint32_t signals) const noexcept
	{
		treadle_wait args{};

		args.flags = TREADLE_WAIT_SIGNALS;
		args.signals = signals;
		const detail::Handoff::Sleeper sleeper(local_.handoff());
		return local_.count() ? from_errno(0) : Handle::wait(timeout, args);
	}

	/* How often signal() was called. */
	std::uint32_t signals() const noexcept { return ring_.signals(); }

	/*
	 * Ends every wait with ECANCELED. If there is none, ends the next one that would block;
	 * until then, or until it is read, fd() is readable.
	 */
	[[nodiscard]] std::error_code signal() const noexcept { return Handle::signal(); }

	/*
	 * For poll(2): readable while the kernel has written completions that were not read. The
	 * first call creates it; the queue owns it, and takes no local completions from then on.
	 * EMFILE, ENFILE, ENOMEM.
	 */
	[[nodiscard]] Result<int> fd() noexcept
	{
		local_.handoff().stop();
		return Handle::fd(fd_);
	}

	/*
	 * Makes room for completions of operations that the process executes itself (Window): as
	 * many as the kernel has room for. ENOMEM.
	 */
	[[nodiscard]] std::error_code allow_local() noexcept { return local_.allocate(entries()); }
	/* Adds them, as long as the queue stays where it is. */
	detail::LocalQueue local() noexcept { return {ring_, local_}; }

private:
	BasicCompletionQueue(int device, std::uint32_t id, detail::CompletionRing ring) noexcept
		: Object(device, id), ring_(std::move(ring))
	{
	}

	/*
	 * How many were taken, or -errno. more(): for an empty ring; that, or 1: it has some now.
	 */
	template <class Visit, class More>
	[[gnu::always_inline]] int try_consume(std::uint32_t max, Visit &visit, More more) noexcept
	{
		const std::lock_guard guard(lock_);
		const std::uint32_t head = ring_.head();
		std::uint32_t n = ring_.tail() - head;
		std::uint32_t i = 0, data = 0;

		if (!n) [[unlikely]] {
			const int rc = more();

			if (rc <= 0)
				return rc;
			n = ring_.tail() - head;
		}
		for (; i < max && i + data < n; ++i) {
			const treadle_cqe &cqe = ring_.at(head + i + data);

			if (!visit(cqe))
				break;
			/* Only errors have data; the kernel publishes both at once. */
			if (cqe.error && cqe.flags & TREADLE_CQ_ERR_DATA) [[unlikely]]
				++data;
		}
		if (std::is_same_v<Lock, NoLock> && ring_.head() != head) [[unlikely]]
			return -EBUSY;
		ring_.release(head + i + data);
		return static_cast<int>(i);
	}

	/* The same with local entries: a run of these, or the kernel's before the first of them. */
	template <class Visit> int try_consume_local(std::uint32_t max, Visit &visit) noexcept
	{
		std::uint32_t kernel = 0;

		{
			const std::lock_guard guard(lock_);
			const std::uint32_t head = ring_.head(), local = local_.count();

			/* also in a child after fork, which has nothing */
			if (ring_.overflows()) [[unlikely]] {
				if (const int rc = refill_by_doorbell(); rc < 0 && rc != -EAGAIN)
					return rc;
			}
			kernel = local ? local_.place() - head : max;
			if (local && static_cast<std::int32_t>(kernel) <= 0)
				return static_cast<int>(local_.consume(head, max, visit));
		}
		return try_consume(std::min(max, kernel), visit, [this] { return refill(); });
	}

	/* For an empty ring. 1: it is not empty any more. Else -errno. */
	int refill() noexcept { return ring_.overflows() ? refill_by_doorbell() : -EAGAIN; }
	int refill_by_doorbell() noexcept;

	[[no_unique_address]] Lock lock_;
	detail::CompletionRing ring_;
	mutable detail::LocalCompletions local_;
	detail::WaitFd fd_;
};

extern template class BasicCompletionQueue<NoLock>;
extern template class BasicCompletionQueue<Mutex>;

using CompletionQueue = BasicCompletionQueue<NoLock>;
using SharedCompletionQueue = BasicCompletionQueue<Mutex>;

} // namespace treadle

#endif
