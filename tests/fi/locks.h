// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_FI_LOCKS_H
#define TREADLE_TESTS_FI_LOCKS_H

#include <csignal>
#include <cstdint>

#include <dlfcn.h>
#include <pthread.h>
#include <ucontext.h>

/*
 * Counts the locks that a thread takes, as allocations.h counts memory. std::mutex calls the
 * program's own function, also in libraries. treadle::Mutex is inline: the thread steps through its
 * instructions, and looks for an atomic compare-and-exchange of an int. To be included in one
 * source of a program, for x86.
 */
namespace locks
{

inline volatile std::sig_atomic_t taken = 0;
/* A function of the C library that has such an instruction, and takes no lock. */
inline greg_t cancellation = 0;

/* lock cmpxchg of 32 bits: with its prefixes f0, perhaps 40 to 47, then 0f b1. */
inline bool takes_lock(const std::uint8_t *at) noexcept
{
	if (*at++ != 0xf0)
		return false;
	at += (*at & 0xf8) == 0x40;
	return at[0] == 0x0f && at[1] == 0xb1;
}

inline void stepped(int, siginfo_t *, void *context) noexcept
{
	const auto next = static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP];

	if (next < cancellation || next >= cancellation + 128)
		taken = taken + takes_lock(reinterpret_cast<const std::uint8_t *>(next));
}

/* Whether each instruction of this thread is followed by SIGTRAP. */
[[gnu::noinline]] inline void step(bool on) noexcept
{
	asm volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\torq %0, (%%rsp)\n\tpopfq"
		     :
		     : "r"(on ? 0x100UL : 0UL)
		     : "cc", "memory");
}

/* The number of locks that function takes. A step is a signal: function should be short. */
template <class F> int of(F &&function)
{
	struct sigaction action {
	}, before{};

	cancellation = reinterpret_cast<greg_t>(dlsym(RTLD_DEFAULT, "pthread_setcancelstate"));
	action.sa_sigaction = stepped;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGTRAP, &action, &before);
	taken = 0;
	step(true);
	function();
	step(false);
	sigaction(SIGTRAP, &before, nullptr);
	return taken;
}

} // namespace locks

extern "C" __attribute__((visibility("default"))) int
pthread_mutex_lock(pthread_mutex_t *mutex) noexcept
{
	using Lock = int(pthread_mutex_t *);
	static Lock *const next = reinterpret_cast<Lock *>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));

	locks::taken = locks::taken + 1;
	return next(mutex);
}

#endif
