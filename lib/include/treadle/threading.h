// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_THREADING_H
#define TREADLE_THREADING_H

#include <mutex>

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

/* A moved lock is a new one: an object must not be moved while another thread uses it. */
class TREADLE_API Mutex
{
public:
	Mutex() = default;
	Mutex(Mutex &&) noexcept {}
	Mutex &operator=(Mutex &&) noexcept { return *this; }

	void lock() { mutex_.lock(); }
	void unlock() { mutex_.unlock(); }

private:
	std::mutex mutex_;
};

} // namespace treadle

#endif
