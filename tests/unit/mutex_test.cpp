// SPDX-License-Identifier: GPL-2.0

/* Mutex: one thread at a time, and no thread sleeps while it is free. */

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <treadle/threading.h>

using treadle::Mutex;

namespace
{

/* Threads increment what no atomic instruction protects. hold: called now and then inside. */
template <class Hold> void count(unsigned threads, unsigned times, Hold hold)
{
	Mutex mutex;
	unsigned long counted = 0, inside = 0, most = 0;
	std::vector<std::jthread> all;

	all.reserve(threads);
	for (unsigned t = 0; t < threads; ++t)
		all.emplace_back([&, t] {
			for (unsigned i = 0; i < times; ++i) {
				const std::lock_guard guard(mutex);

				most = std::max(most, ++inside);
				++counted;
				if ((i + t) % 64 == 0)
					hold();
				--inside;
			}
		});
	all.clear(); /* joins: stands still if a wake was lost */
	EXPECT_EQ(counted, static_cast<unsigned long>(threads) * times);
	EXPECT_EQ(most, 1U);
}

} // namespace

TEST(Mutex, OneThreadAtATime)
{
	count(2, 200'000, [] {});
}

/* The others find it held, and sleep. */
TEST(Mutex, WakesASleepingThread)
{
	count(8, 2'000, [] { std::this_thread::sleep_for(std::chrono::microseconds(50)); });
}

TEST(Mutex, YieldsInside)
{
	count(5, 20'000, [] { std::this_thread::yield(); });
}

/* A move makes a new one. */
TEST(Mutex, MovedIsFree)
{
	Mutex one;
	const std::lock_guard guard(one);
	Mutex other = std::move(one);
	const std::lock_guard both(other);
}
