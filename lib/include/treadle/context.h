// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_CONTEXT_H
#define TREADLE_CONTEXT_H

#include <cstdint>
#include <memory>

#include <treadle/detail/fd.h>
#include <treadle/ioctl.h>
#include <treadle/work_ring.h>

namespace treadle
{

/* The threads that use the ring of a context: fi_domain(3), FI_THREAD_DOMAIN. */
enum class Threads { any, one_at_a_time };

/**
 * An open /dev/treadle: one owner of objects, of limits, and of a ring for work that belongs to no
 * endpoint. A libfabric domain is one context: fi_domain(3).
 *
 * A context belongs to the process that opened it; a child opens its own. In a child after fork(2)
 * all calls on it and on its objects fail with EPERM and change nothing, with four exceptions.
 * A call that only reads memory finds nothing. A post with TREADLE_F_MORE fails when it is flushed.
 * A queue is always ready(), so that its read() says EPERM. close() closes the child's copy and
 * returns 0. As with any call in POSIX, this does not hold if another thread was in a call that
 * locks the same object during fork(2).
 *
 * A context must outlive its objects. It may be moved meanwhile; a context that was moved from may
 * be assigned to and destroyed.
 *
 * Threads: everything but moves may be called from any thread at any time. An exception is
 * Threads::one_at_a_time: then submit, changes to counters of the context, and calls on its graphs
 * do not lock. Only one of these may run at a time.
 */
class TREADLE_API Context
{
public:
	/*
	 * ENOENT: the module is not loaded. EPROTO: module and library have different ABIs. EACCES:
	 * this user may not open the file. EMFILE, ENFILE, ENOMEM, ENOSPC: a limit is reached.
	 */
	[[nodiscard]] static Result<Context> open(const char *path = TREADLE_DEVICE,
						  Threads threads = Threads::any) noexcept;

	/* The limits alone, without a ring: opens and closes the device. The same errors. */
	[[nodiscard]] static Result<treadle_query>
	query(const char *path = TREADLE_DEVICE) noexcept;

	const treadle_query &limits() const noexcept { return limits_; }
	/* The open file, for ioctl(2); the context owns it. There is nothing in it to poll(2). */
	int device() const noexcept { return fd_.get(); }

	/*
	 * The ring for deferred work (Command::work, with on and when) and for changes to counters.
	 * submit posts to it: fi_control(3), FI_QUEUE_WORK. Errors as of BasicTransmitRing::post.
	 */
	WorkRing &ring() noexcept { return *ring_; }
	[[nodiscard]] std::error_code submit(const Command &command) noexcept
	{
		return ring_->post(command);
	}

	/*
	 * Cancels deferred work, or a command without endpoint, that is armed on counter at
	 * threshold with this context (or name: Command::work). It is not reported. ENOENT: it
	 * runs, has run, or never was.
	 */
	[[nodiscard]] std::error_code cancel(CounterId counter, std::uint64_t threshold,
					     std::uint64_t context) noexcept;
	/* The same on a cell. */
	[[nodiscard]] std::error_code cancel(TriggerCellsId cells, std::uint32_t index,
					     std::uint64_t context) noexcept;

	/* Cancels all deferred work but graphs (TREADLE_F_STRICT, _REPEAT); returns how many. */
	[[nodiscard]] Result<std::uint64_t> flush() noexcept;
	/* Only that on a counter, graphs included; ENOENT: the counter is closed. */
	[[nodiscard]] Result<std::uint64_t> flush(CounterId counter) noexcept;
	/* Only that on cells. */
	[[nodiscard]] Result<std::uint64_t> flush(TriggerCellsId cells) noexcept;

private:
	template <class Lock> class Ring;

	Context(detail::UniqueFd fd, const treadle_query &limits,
		std::unique_ptr<WorkRing> ring) noexcept;

	detail::UniqueFd fd_;
	treadle_query limits_;
	std::unique_ptr<WorkRing> ring_; /* counters refer to it: its place is fixed */
};

} // namespace treadle

#endif
