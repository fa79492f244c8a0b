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
 * FI_WAIT_MUTEX_COND. The kernel can't signal a condition variable of user space. So a thread
 * sleeps on the object's file, and broadcasts under the mutex for each event there.
 *
 * A caller that finds no event while it holds the mutex, and then waits for the condition, is woken
 * by later events. Another thread may read the file before this one sees the event: that reader
 * calls taken().
 *
 * Each object has its own thread. A shared one would stop for all objects while an application
 * holds the mutex of one.
 */
class Signaller
{
public:
	/* Watches file, which must outlive it. 0 or -errno. May throw. */
	static int start(int file, std::unique_ptr<Signaller> &out);
	Signaller(const Signaller &) = delete;
	Signaller &operator=(const Signaller &) = delete;
	/* The caller must not hold the mutex. */
	~Signaller();

	struct fi_mutex_cond objects() noexcept { return {&mutex_, &cond_}; }

	/*
	 * The caller has taken an event, perhaps before the thread saw it. It may hold the mutex.
	 */
	void taken() noexcept;

private:
	Signaller(detail::UniqueFd epoll, detail::UniqueFd stop, detail::UniqueFd taken) noexcept;

	static void *run(void *self) noexcept;

	detail::UniqueFd epoll_, stop_, taken_;
	pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond_ = PTHREAD_COND_INITIALIZER;
	pthread_t thread_{};
	pid_t owner_ = 0; /* process of the thread, which a child does not have; 0: not started */
};

} // namespace treadle::fi

#endif
