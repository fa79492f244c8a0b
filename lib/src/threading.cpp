// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/threading.h>

namespace treadle
{

/* Other threads may still sleep when this one gets the lock, so it leaves it as waited for. */
void Mutex::wait() noexcept
{
	while (state_.exchange(State::waited_for, std::memory_order_acquire) != State::free)
		state_.wait(State::waited_for, std::memory_order_relaxed);
}

/* Another thread may have taken and freed the lock already: only its address is used. */
void Mutex::wake() noexcept
{
	state_.notify_one();
}

} // namespace treadle
