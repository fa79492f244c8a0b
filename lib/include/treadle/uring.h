// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_URING_H
#define TREADLE_URING_H

#include <cstdint>

#include <liburing.h>

#include <treadle/completion_queue.h>
#include <treadle/counter.h>
#include <treadle/event_queue.h>
#include <treadle/registration.h>
#include <treadle/transmit_ring.h>

/*
 * Calls of the module for an io_uring of the program's own, which needs IORING_OP_URING_CMD. This
 * header needs liburing, and so does <treadle/registrar.h>; the library and all other headers do
 * without.
 *
 *	prep_wait(io_uring_get_sqe(&uring), queue, args);
 *
 * Each fills in an entry, as io_uring_prep_*(3) do: io_uring_sqe_set_data(3) comes after it. res of
 * the io_uring_cqe is 0 or more, or -errno. All that is passed by reference must keep its place
 * until then. A worker of the kernel executes the call.
 */
namespace treadle
{

namespace detail
{

/* arg: an id, or the address of a structure, which belongs to the kernel until the ioctl ends. */
inline void prep_ioctl(io_uring_sqe *sqe, int device, unsigned long request,
		       std::uint64_t arg) noexcept
{
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, device, nullptr, 0, 0);
	sqe->cmd_op = static_cast<std::uint32_t>(request);
	sqe->addr3 = arg;
	sqe->__pad2[0] = 0;
	/* The kernel copies the entry: some (6.12) otherwise read it when it has been reused. */
	sqe->flags |= IOSQE_ASYNC;
}

/* args.id and args.timeout_ns are not yet filled in. */
inline void prep_wait(io_uring_sqe *sqe, int device, std::uint32_t id, treadle_wait &args,
		      Timeout timeout) noexcept
{
	args.size = sizeof(args);
	args.id = id;
	args.timeout_ns = kernel_timeout(timeout);
	prep_ioctl(sqe, device, TREADLE_IOC_WAIT, address_of(&args));
}

} // namespace detail

/*
 * Rings the doorbell for commands that were posted with TREADLE_F_MORE. Pass res to ring.rang().
 * Until then, post to the ring with TREADLE_F_MORE only.
 */
template <class Lock>
void prep_doorbell(io_uring_sqe *sqe, const BasicTransmitRing<Lock> &ring) noexcept
{
	detail::prep_ioctl(sqe, ring.device(), TREADLE_IOC_DOORBELL, std::to_underlying(ring.id()));
}

/* BasicCompletionQueue::wait. */
template <class Lock>
void prep_wait(io_uring_sqe *sqe, const BasicCompletionQueue<Lock> &queue, treadle_wait &args,
	       Timeout timeout = forever) noexcept
{
	args = {};
	detail::prep_wait(sqe, queue.device(), std::to_underlying(queue.id()), args, timeout);
}

/* EventQueue::wait. */
inline void prep_wait(io_uring_sqe *sqe, const EventQueue &queue, treadle_wait &args,
		      Timeout timeout = forever) noexcept
{
	args = {};
	detail::prep_wait(sqe, queue.device(), std::to_underlying(queue.id()), args, timeout);
}

/* Counter::wait. */
inline void prep_wait(io_uring_sqe *sqe, const Counter &counter, std::uint64_t threshold,
		      std::uint64_t errors, treadle_wait &args, Timeout timeout = forever) noexcept
{
	args = {};
	args.threshold = threshold;
	args.error = errors;
	detail::prep_wait(sqe, counter.device(), std::to_underlying(counter.id()), args, timeout);
}

/* Registration::run. Pass res to registration.done(); then it has a result(). */
inline void prep_register(io_uring_sqe *sqe, Registration &registration) noexcept
{
	detail::prep_ioctl(sqe, registration.device(), TREADLE_IOC_MR_CREATE,
			   address_of(&registration.args()));
}

} // namespace treadle

#endif
