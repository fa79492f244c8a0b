// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_LOCAL_COUNT_H
#define TREADLE_PROVIDER_LOCAL_COUNT_H

#include <atomic>
#include <cstdint>

#include <treadle/counter.h>
#include <treadle/detail/handoff.h>

#include "base/results.h"

namespace treadle::fi
{

/*
 * What a counter has counted of operations that this process has executed itself. The value of the
 * counter is the sum of this and of the kernel's. Before the kernel has to compare it with a
 * threshold, this is added there (move), and nothing is counted here until that is over.
 */
class LocalCount
{
public:
	/*
	 * Counts n more: reserve, then add or cancel. False: the kernel must count, as a thread may
	 * wait, something is armed, or another thread adds.
	 */
	[[gnu::always_inline]] bool reserve() noexcept { return handoff_.begin(); }
	void add(std::uint64_t n) noexcept
	{
		total_.store(total_.load(std::memory_order_relaxed) + n, std::memory_order_release);
		handoff_.end();
	}
	void cancel() noexcept { handoff_.end(); }

	detail::Handoff &handoff() noexcept { return handoff_; }

	/* All that was ever counted here. */
	std::uint64_t total() const noexcept { return total_.load(std::memory_order_acquire); }
	/* With what the kernel has counted. */
	std::uint64_t sum(const Counter &kernel) const noexcept
	{
		for (;;) {
			const std::uint32_t before = moves_.load(std::memory_order_acquire);
			const std::uint64_t value =
				kernel.value() + total() - moved_.load(std::memory_order_relaxed);

			std::atomic_thread_fence(std::memory_order_acquire);
			if (!(before & 1) && moves_.load(std::memory_order_relaxed) == before)
				[[likely]]
				return value;
			wait_for_move();
		}
	}

	/*
	 * change(n) -> error_code adds n to the kernel's count, or replaces it. The caller holds a
	 * Sleeper of handoff(), or has stopped it. The error of change: nothing was moved.
	 */
	template <class Change> std::error_code move(Change &&change) noexcept
	{
		const std::uint32_t before = begin_move();
		const std::uint64_t all = total();
		const auto error = change(all - moved_.load(std::memory_order_relaxed));

		if (!error)
			moved_.store(all, std::memory_order_release);
		moves_.store(before + 2, std::memory_order_release);
		return error;
	}
	/* Does the kernel have all? The caller as for move: so it stays so. */
	bool all_moved() const noexcept
	{
		return moved_.load(std::memory_order_acquire) == total();
	}

private:
	static void wait_for_move() noexcept;
	/* One move at a time. Returns moves_ as it was, which is even. */
	std::uint32_t begin_move() noexcept
	{
		for (;;) {
			std::uint32_t even =
				moves_.load(std::memory_order_relaxed) & ~std::uint32_t{1};

			if (moves_.compare_exchange_strong(even, even + 1)) [[likely]]
				return even;
			wait_for_move();
		}
	}

	detail::Handoff handoff_;
	std::atomic<std::uint64_t> total_ = 0, moved_ = 0;
	std::atomic<std::uint32_t> moves_ = 0; /* odd: during one */
};

} // namespace treadle::fi

#endif
