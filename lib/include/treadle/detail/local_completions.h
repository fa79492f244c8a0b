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
#include <utility>

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
	[[gnu::always_inline]] bool reserve() noexcept { return handoff_.begin() && has_room(); }
	/*
	 * The same also if a thread may sleep: wakes says whether the caller has to wake it, after
	 * add. False: there is no room.
	 */
	[[gnu::always_inline]] bool reserve_always(bool &wakes) noexcept
	{
		wakes = handoff_.begin_always();
		return has_room();
	}
	/* place: the index of the kernel's ring before which the entry is read */
	[[gnu::always_inline]] void add(std::uint32_t place, const treadle_cqe &cqe) noexcept
	{
		const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
		const std::uint32_t i = tail & mask_;

		whole_ = true;
		cqes_[i] = cqe;
		places_[i] = place;
		tail_.store(tail + 1, std::memory_order_release); /* M */
		cancel();
	}
	/* The same; all other fields are 0, and there is no source. */
	[[gnu::always_inline]] void add(std::uint32_t place, std::uint64_t context,
					std::uint32_t flags, std::uint32_t error) noexcept
	{
		const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
		const std::uint32_t i = tail & mask_;
		treadle_cqe &cqe = cqes_[i];

		if (whole_) [[unlikely]] { /* what was here may have had other fields */
			cqe = treadle_cqe{};
			cqe.src = TREADLE_ADDR_ANY;
		}
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
	/* The index of the kernel's ring before which the oldest entry is read; there is one. */
	std::uint32_t place() const noexcept
	{
		return places_[head_.load(std::memory_order_relaxed) & mask_];
	}
	/*
	 * Calls visit for up to max entries that are read before the kernel's at index, until it
	 * returns false: see BasicCompletionQueue::consume. Returns how many were taken.
	 */
	template <class Visit>
	[[gnu::always_inline]] std::uint32_t consume(std::uint32_t index, std::size_t max,
						     Visit &visit) noexcept
	{
		const std::uint32_t tail = tail_.load(std::memory_order_acquire); /* M */
		std::uint32_t i = head_.load(std::memory_order_relaxed);
		std::size_t left = max;

		for (; left && i != tail; ++i, --left) {
			if (static_cast<std::int32_t>(index - places_[i & mask_]) < 0 ||
			    !visit(std::as_const(cqes_[i & mask_]))) [[unlikely]]
				break;
		}
		head_.store(i, std::memory_order_release); /* N */
		return static_cast<std::uint32_t>(max - left);
	}

	Handoff &handoff() noexcept { return handoff_; }

private:
	/* After a begin of the handoff, which ends if there is none. */
	[[gnu::always_inline]] bool has_room() noexcept
	{
		if (tail_.load(std::memory_order_relaxed) -
			    head_.load(std::memory_order_acquire) < /* N */
		    size_) [[likely]]
			return true;
		cancel();
		return false;
	}

	Mutex lock_; /* allocate */
	/* Only context, flags and error of a completion change, until a whole one is added. */
	std::unique_ptr<treadle_cqe[]> cqes_;
	std::unique_ptr<std::uint32_t[]> places_;
	std::uint32_t size_ = 0, mask_ = 0;
	bool whole_ = false; /* a whole one was added */
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
		: kernel_(ring.prod()), local_(&local)
	{
	}

	explicit operator bool() const noexcept { return local_; }

	/*
	 * Reserves an entry: add or cancel follows at once. False: the kernel must complete the
	 * operation, as there is no room, another thread adds an entry, or one may sleep until the
	 * kernel wakes it.
	 */
	[[gnu::always_inline]] bool reserve() const noexcept
	{
		return !CompletionRing::overflows(*kernel_) && local_->reserve();
	}
	[[gnu::always_inline]] void add(std::uint64_t context, std::uint32_t flags,
					std::uint32_t error = 0) const noexcept
	{
		local_->add(CompletionRing::tail(*kernel_), context, flags, error);
	}
	void cancel() const noexcept { local_->cancel(); }

	/*
	 * The same for whole completions, also if a thread sleeps: wakes says whether one has to be
	 * woken by a signal after add. False: there is no room.
	 */
	[[gnu::always_inline]] bool reserve_always(bool &wakes) const noexcept
	{
		return !CompletionRing::overflows(*kernel_) && local_->reserve_always(wakes);
	}
	[[gnu::always_inline]] void add(const treadle_cqe &cqe) const noexcept
	{
		local_->add(CompletionRing::tail(*kernel_), cqe);
	}

private:
	const treadle_cq_prod *kernel_ = nullptr;
	LocalCompletions *local_ = nullptr;
};

} // namespace treadle::detail

#endif
