// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/detail/handoff.h>

#include <chrono>
#include <thread>

namespace treadle::detail
{

/*
 * The producer copies a few pages at most. It may have no processor, so this thread gives up its
 * own, whatever its priority.
 */
void Handoff::wait_for_producer() noexcept
{
	while (busy_.load(std::memory_order_acquire))
		std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void Handoff::become_producer() noexcept
{
	do
		wait_for_producer();
	while (busy_.exchange(true, std::memory_order_seq_cst)); /* O */
}

} // namespace treadle::detail
