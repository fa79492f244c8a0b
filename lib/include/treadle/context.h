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

/* Who calls what goes through the ring of a context: fi_domain(3), FI_THREAD_DOMAIN. */
enum class Threads { any, one_at_a_time };

/**
 * An open /dev/treadle: one owner of objects, of limits, and of a ring for
 * work that belongs to no endpoint. A libfabric domain is one: fi_domain(3).
 *
 * It belongs to the process that opened it. In a child after fork(2) all calls
 * on it and on its objects fail with EPERM and change nothing (what is read from memory alone finds nothing, what is
 * posted with TREADLE_F_MORE fails when it is flushed, a queue is always ready() so that its read() says it, and
 * close() lets go of the child's copy and returns 0); the child opens its own. But as POSIX has it for
 * any call: not if another thread was in one on the same object, which locks, while this one called fork(2).
 * It must outlive its objects, but may be moved meanwhile: what it was moved from may be assigned to and destroyed.
 *
 * Threads: everything but moves may be called from any thread at any time; if it was opened with
 * Threads::one_at_a_time, submit, changes to its counters and calls on its graphs do not lock, and only
 * one of them may run at a time.
 */
class TREADLE_API Context
{
public:
	/*
	 * ENOENT: the module is not loaded. EPROTO: it speaks another ABI. EACCES: the file is not for this user. EMFILE,
	 * ENFILE, ENOMEM, ENOSPC: no more of these.
	 */
	static Result<Context> open(const char *path = TREADLE_DEVICE,
				    Threads threads = Threads::any) noexcept;

	/* The limits alone, without a ring: opens the device and closes it. The same errors. */
	static Result<treadle_query> query(const char *path = TREADLE_DEVICE) noexcept;

	const treadle_query &limits() const noexcept { return limits_; }
	int fd() const noexcept { return fd_.get(); }

	/*
	 * The ring for deferred work (Command::work, with on and when) and for
	 * changes to counters. submit posts to it: fi_control(3), FI_QUEUE_WORK.
	 * 0, -EAGAIN or -errno as BasicTransmitRing::post.
	 */
	WorkRing &ring() noexcept { return *ring_; }
	int submit(const Command &command) noexcept { return ring_->post(command); }

	/*
	 * Cancels the deferred work, or what has no endpoint, that is armed on counter at threshold with this
	 * context; nothing reports it. 0, or -ENOENT: it runs, has run, or never was.
	 */
	int cancel(CounterId counter, std::uint64_t threshold, std::uint64_t context) noexcept;
	/* The same on a cell. */
	int cancel(TriggerCellsId cells, std::uint32_t index, std::uint64_t context) noexcept;

	/* Cancels all deferred work but graphs (TREADLE_F_STRICT, TREADLE_F_REPEAT); how many there were. */
	Result<std::uint64_t> flush() noexcept;
	/* That on a counter, and of graphs what waits for it; ENOENT: it is closed. */
	Result<std::uint64_t> flush(CounterId counter) noexcept;
	/* That on cells. */
	Result<std::uint64_t> flush(TriggerCellsId cells) noexcept;

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
