// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_LOCKS_H
#define TREADLE_TESTS_FI_LOCKS_H

#include <dlfcn.h>
#include <pthread.h>

/*
 * Counts mutexes that are locked, as allocations.h counts memory: std::mutex calls the program's
 * own function, also in libraries. To be included in one source of a program.
 */
namespace locks
{

/* By this thread. */
inline thread_local int taken = 0;

/* The number of locks that function takes. */
template <class F> int of(F &&function)
{
	const int before = taken;

	function();
	return taken - before;
}

} // namespace locks

extern "C" __attribute__((visibility("default"))) int
pthread_mutex_lock(pthread_mutex_t *mutex) noexcept
{
	using Lock = int(pthread_mutex_t *);
	static Lock *const next = reinterpret_cast<Lock *>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));

	locks::taken++;
	return next(mutex);
}

#endif
