// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_DETAIL_HANDOFF_H
#define TREADLE_DETAIL_HANDOFF_H

/*
 * Does the process complete an operation itself, or does the kernel, which wakes sleeping threads?
 *
 *  producer                             thread that is about to sleep
 *    write busy     (O, full)             add to sleepers   (O, full)
 *    read sleepers                        wait until busy is 0
 *    not 0: the kernel completes it       look for completions again
 *    else complete it, clear busy         sleep
 */

#include <atomic>
#include <cstdint>

#include <treadle/result.h>

namespace treadle::detail
{

class Handoff
{
public:
	/* False: the kernel completes the operation. True: end() follows at once. */
	[[gnu::always_inline]] bool begin() noexcept
	{
		if (busy_.exchange(true, std::memory_order_seq_cst)) /* O */
			return false;
		if (!sleepers_.load(std::memory_order_seq_cst)) [[likely]] /* O */
			return true;
		end();
		return false;
	}
	/*
	 * The process completes it whether or not a thread sleeps: end() follows at once. True: one
	 * may sleep, and has to be woken after that.
	 */
	[[gnu::always_inline]] bool begin_always() noexcept
	{
		if (busy_.exchange(true, std::memory_order_seq_cst)) [[unlikely]] /* O */
			become_producer();
		return sleepers_.load(std::memory_order_seq_cst); /* O */
	}
	void end() noexcept { busy_.store(false, std::memory_order_release); }

	/* As long as one lives, the kernel completes all: a thread may sleep. */
	class Sleeper
	{
	public:
		explicit Sleeper(Handoff &of) noexcept : of_(of) { of.add_sleeper(); }
		Sleeper(const Sleeper &) = delete;
		Sleeper &operator=(const Sleeper &) = delete;
		~Sleeper() { of_.sleepers_.fetch_sub(1, std::memory_order_relaxed); }

	private:
		Handoff &of_;
	};
	/* The kernel completes all from now on. */
	void stop() noexcept
	{
		if (!stopped_.exchange(true, std::memory_order_relaxed))
			add_sleeper();
	}

private:
	void add_sleeper() noexcept
	{
		sleepers_.fetch_add(1, std::memory_order_seq_cst); /* O */
		if (busy_.load(std::memory_order_seq_cst)) [[unlikely]]
			wait_for_producer();
	}
	TREADLE_API void wait_for_producer() noexcept;
	TREADLE_API void become_producer() noexcept;

	std::atomic<std::uint32_t> sleepers_ = 0;
	std::atomic<bool> busy_ = false, stopped_ = false;
};

} // namespace treadle::detail

#endif
