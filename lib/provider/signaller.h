// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_SIGNALLER_H
#define TREADLE_PROVIDER_SIGNALLER_H

#include <memory>

#include <pthread.h>
#include <sys/types.h>

#include <rdma/fi_eq.h>

#include <treadle/detail/fd.h>

namespace treadle::fi
{

/*
 * FI_WAIT_MUTEX_COND. The kernel can't signal a condition variable of user space: a
 * thread sleeps on the object's file, and for everything that comes there broadcasts
 * under the mutex. So whoever finds nothing with the mutex held, and then waits for the
 * condition, is woken by what comes after he has looked. The file may have been read by another
 * thread before this one has looked at it; who reads it says so (taken).
 *
 * One thread for each object: one for several would stop for all of them as long as an
 * application holds the mutex of one.
 */
class Signaller
{
public:
	/* Watches file, which outlives it. 0 or -errno. May throw. */
	static int start(int file, std::unique_ptr<Signaller> &out);
	Signaller(const Signaller &) = delete;
	Signaller &operator=(const Signaller &) = delete;
	/* The mutex is not held by the caller. */
	~Signaller();

	struct fi_mutex_cond objects() noexcept { return {&mutex_, &cond_}; }

	/* The caller, who may hold the mutex, has taken what came, perhaps before the thread has seen it. */
	void taken() noexcept;

private:
	Signaller(detail::UniqueFd epoll, detail::UniqueFd stop, detail::UniqueFd taken) noexcept;

	static void *run(void *self) noexcept;

	detail::UniqueFd epoll_, stop_, taken_;
	pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond_ = PTHREAD_COND_INITIALIZER;
	pthread_t thread_{};
	pid_t owner_ = 0; /* of the thread, which no child has; 0: it was not started */
};

} // namespace treadle::fi

#endif
