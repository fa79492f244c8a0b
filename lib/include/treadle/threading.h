// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_THREADING_H
#define TREADLE_THREADING_H

#include <atomic>

#include <treadle/result.h>

namespace treadle
{

/*
 * Thread safety is chosen at compile time, not checked on every call: rings and completion queues
 * have one of these as parameter. NoLock: an object is never used by two threads at once. Mutex:
 * every member may be called from any thread.
 */
struct TREADLE_API NoLock {
	void lock() noexcept {}
	void unlock() noexcept {}
};

/*
 * One word, so that taking a lock that is free, and giving it back, is two atomic instructions. A
 * moved lock is a new one: an object must not be moved while another thread uses it.
 */
class TREADLE_API Mutex
{
public:
	Mutex() = default;
	Mutex(Mutex &&) noexcept {}
	Mutex &operator=(Mutex &&) noexcept { return *this; }

	[[gnu::always_inline]] void lock() noexcept
	{
		State expected = State::free;

		if (!state_.compare_exchange_strong(expected, State::held,
						    std::memory_order_acquire)) [[unlikely]]
			wait();
	}
	[[gnu::always_inline]] void unlock() noexcept
	{
		/* seq_cst, before wake() looks for sleepers: pairs with the exchange in wait() */
		if (state_.exchange(State::free) == State::waited_for) [[unlikely]]
			wake();
	}

private:
	/* waited_for: held, and threads may sleep until it is free. */
	enum class State : int { free, held, waited_for };

	void wait() noexcept;
	void wake() noexcept;

	std::atomic<State> state_ = State::free;
};

} // namespace treadle

#endif
