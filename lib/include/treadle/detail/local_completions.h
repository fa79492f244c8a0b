// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_DETAIL_LOCAL_COMPLETIONS_H
#define TREADLE_DETAIL_LOCAL_COMPLETIONS_H

/*
 * Completions of operations that the process has executed itself (peer_window.h). They lie in
 * memory of the process, beside the ring that the kernel writes. Barriers, in pairs:
 *
 *  producer                             reader
 *    write entry tail
 *    write tail     (M, release)          read tail         (M, acquire)
 *                                         read entries
 *    read head      (N, acquire)          write head        (N, release)
 */

#include <atomic>
#include <cstdint>
#include <memory>

#include <treadle/detail/handoff.h>
#include <treadle/detail/ring.h>
#include <treadle/result.h>
#include <treadle/threading.h>

namespace treadle::detail
{

/* One producer at a time (reserve), one reader at a time (the lock of the queue). */
class LocalCompletions
{
public:
	LocalCompletions() = default;
	/* A queue is moved only before it is used. */
	LocalCompletions(LocalCompletions &&other) noexcept
		: cqes_(std::move(other.cqes_)), places_(std::move(other.places_)),
		  size_(std::exchange(other.size_, 0)), mask_(other.mask_)
	{
	}
	LocalCompletions &operator=(LocalCompletions &&other) noexcept
	{
		cqes_ = std::move(other.cqes_);
		places_ = std::move(other.places_);
		size_ = std::exchange(other.size_, 0);
		mask_ = other.mask_;
		return *this;
	}

	/* Makes room for so many entries, a power of two, unless there is room. ENOMEM. */
	TREADLE_API std::error_code allocate(std::uint32_t size) noexcept;

	/*
	 * Reserves an entry: add or cancel follow. False: there is no room, or another thread adds,
	 * or one may sleep, which only the kernel wakes.
	 */
	bool reserve() noexcept
	{
		if (!handoff_.begin())
			return false;
		if (tail_.load(std::memory_order_relaxed) -
			    head_.load(std::memory_order_acquire) < /* N */
		    size_) [[likely]]
			return true;
		cancel();
		return false;
	}
	/* place: the index of the kernel's ring before which the entry is read */
	void add(std::uint32_t place, std::uint64_t context, std::uint32_t flags,
		 std::uint32_t error) noexcept
	{
		const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
		const std::uint32_t i = tail & mask_;
		treadle_cqe &cqe = cqes_[i];

		cqe.context = context;
		cqe.flags = flags;
		cqe.error = error;
		places_[i] = place;
		tail_.store(tail + 1, std::memory_order_release); /* M */
		cancel();
	}
	void cancel() noexcept { handoff_.end(); }

	/* Entries that can be read. */
	std::uint32_t count() const noexcept
	{
		return tail_.load(std::memory_order_acquire) - /* M */
		       head_.load(std::memory_order_relaxed);
	}
	/* Entry i from the oldest on; is it to be read before the kernel's at index? */
	const treadle_cqe &at(std::uint32_t i) const noexcept { return cqes_[index_of(i)]; }
	std::uint32_t place(std::uint32_t i) const noexcept { return places_[index_of(i)]; }
	bool precedes(std::uint32_t i, std::uint32_t index) const noexcept
	{
		return static_cast<std::int32_t>(place(i) - index) <= 0;
	}
	void release(std::uint32_t n) noexcept
	{
		head_.store(head_.load(std::memory_order_relaxed) + n,
			    std::memory_order_release); /* N */
	}

	Handoff &handoff() noexcept { return handoff_; }

private:
	std::uint32_t index_of(std::uint32_t i) const noexcept
	{
		return (head_.load(std::memory_order_relaxed) + i) & mask_;
	}

	Mutex lock_; /* allocate */
	/* Only context, flags and error of a completion change. */
	std::unique_ptr<treadle_cqe[]> cqes_;
	std::unique_ptr<std::uint32_t[]> places_;
	std::uint32_t size_ = 0, mask_ = 0;
	std::atomic<std::uint32_t> tail_ = 0, head_ = 0;
	Handoff handoff_;
};

/*
 * Adds completions to a queue, from any thread. They are read behind those that are in the ring
 * when they are added, and before all later ones.
 */
class LocalQueue
{
public:
	/* Holds nothing. */
	LocalQueue() = default;
	LocalQueue(const CompletionRing &ring, LocalCompletions &local) noexcept
		: ring_(&ring), local_(&local)
	{
	}

	explicit operator bool() const noexcept { return ring_; }

	/*
	 * Reserves an entry: add or cancel follows at once. False: the kernel must complete the
	 * operation, as there is no room, another thread adds an entry, or one may sleep until the
	 * kernel wakes it.
	 */
	bool reserve() noexcept { return !ring_->overflows() && local_->reserve(); }
	void add(std::uint64_t context, std::uint32_t flags, std::uint32_t error = 0) noexcept
	{
		local_->add(ring_->tail(), context, flags, error);
	}
	void cancel() noexcept { local_->cancel(); }

private:
	const CompletionRing *ring_ = nullptr;
	LocalCompletions *local_ = nullptr;
};

} // namespace treadle::detail

#endif
