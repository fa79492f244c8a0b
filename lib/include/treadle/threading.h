// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_THREADING_H
#define TREADLE_THREADING_H

#include <mutex>

#include <treadle/result.h>

namespace treadle
{

/*
 * Who may call an object is settled when it is compiled, not asked on every
 * call: rings and completion queues take one of these as parameter. NoLock is
 * for callers that never enter one object from two threads at once; with Mutex
 * every member may be called from any thread.
 */
struct TREADLE_API NoLock {
	void lock() noexcept {}
	void unlock() noexcept {}
};

/* Moving an object while another thread is inside it is never right, so a moved lock is a new one. */
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
