// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_COUNTER_H
#define TREADLE_COUNTER_H

#include <treadle/detail/ring.h>
#include <treadle/object.h>
#include <treadle/work_ring.h>

namespace treadle
{

class Graph;

/**
 * Two 64-bit counts, of successes and of errors, and a place to arm commands on (Command::when):
 * fi_cntr(3).
 *
 * Threads: everything may be called from any thread at any time, except calls that change the
 * counter: for these see Context.
 */
class TREADLE_API Counter : public Object<CounterId>
{
public:
	/* The step of value() when an operation succeeds: 1, or the bytes that it transferred. */
	enum class Unit : std::uint32_t { operations = 0, bytes = TREADLE_CNTR_BYTES };

	/*
	 * Changes to the counter go through the ring of the context, which must outlive the
	 * counter. ENOSPC, ENOMEM; EINVAL: bytes, but the kernel has no TREADLE_FEATURE_CNTR_BYTES.
	 */
	[[nodiscard]] static Result<Counter> create(Context &context,
						    Unit unit = Unit::operations) noexcept;

	/* One load each, no system call. An operation that was counted is over, its data there. */
	std::uint64_t value() const noexcept { return detail::load_acquire(page_->success); }
	std::uint64_t error() const noexcept { return detail::load_acquire(page_->error); }

	/*
	 * How often the counts were added to or set, even without change. A value() that is read
	 * after this is not older.
	 */
	std::uint64_t changes() const noexcept { return detail::load_acquire(page_->changes); }

	/*
	 * A change has happened when the call returns 0. Commands that it fires start in order:
	 * within the call, as far as that has the turn and the budget ("Chains" in triggers.rst),
	 * else soon after. A count wraps at 2^64. Errors as of BasicTransmitRing::post.
	 */
	[[nodiscard]] std::error_code add(std::uint64_t value) noexcept;
	[[nodiscard]] std::error_code set(std::uint64_t value) noexcept;
	[[nodiscard]] std::error_code add_error(std::uint64_t value) noexcept;
	[[nodiscard]] std::error_code set_error(std::uint64_t value) noexcept;

	/*
	 * Blocks until value() >= threshold or error() != errors, even if that is so for a moment
	 * only. ETIMEDOUT (EAGAIN without timeout), EINTR, ECANCELED.
	 */
	[[nodiscard]] std::error_code wait(std::uint64_t threshold, std::uint64_t errors,
					   Timeout timeout = forever) const noexcept
	{
		if (value() >= threshold || error() != errors)
			return from_errno(0);
		treadle_wait args{};

		args.threshold = threshold;
		args.error = errors;
		return Handle::wait(timeout, args);
	}

	/*
	 * The counter follows a cell, which is a total that its writer counts up (a thread, a
	 * device): value() grows by what is added to the cell, from total on. So one store fires
	 * every command that it makes due, within about a millisecond. Differences are modulo 2^64,
	 * and set() changes no total. TriggerCells::done is the total that was counted. A counter
	 * may follow several cells. Neither can be closed meanwhile (EBUSY). Errors as of add();
	 * EINVAL: no such cell, or the kernel has no TREADLE_FEATURE_CNTR_CELL.
	 */
	[[nodiscard]] std::error_code follow(TriggerCellsId cells, std::uint32_t index,
					     std::uint64_t total = 0) noexcept;
	/* What was stored before is counted when this returns. ENOENT: it does not follow it. */
	[[nodiscard]] std::error_code unfollow(TriggerCellsId cells, std::uint32_t index) noexcept;

	/*
	 * Keeps a copy of value() and error() in two cells, for a device that polls them. index: of
	 * the first, even. Each change is followed by a store of the newest value. The copy ends
	 * with the counter, and the cells can't be closed before (EBUSY). EBUSY: there is a copy;
	 * EINVAL: no such cells; ENOTTY: the kernel has no TREADLE_FEATURE_CNTR_CELL.
	 */
	[[nodiscard]] std::error_code copy_to(TriggerCellsId cells, std::uint32_t index) noexcept;
	/* ENOENT: there is no copy. */
	[[nodiscard]] std::error_code end_copy() noexcept;

	/*
	 * Ends every wait with ECANCELED. If there is none, ends the next one that would block;
	 * until then, or until it is read, fd() is readable.
	 */
	[[nodiscard]] std::error_code signal() const noexcept { return Handle::signal(); }

	/*
	 * For poll(2): readable after the counter has changed, until 8 bytes are read from it. The
	 * first call creates it; the counter owns it. EMFILE, ENFILE, ENOMEM.
	 */
	[[nodiscard]] Result<int> fd() noexcept { return Handle::fd(fd_); }

private:
	friend Graph; /* creates counters from the file and ring of a context */

	static Result<Counter> create(int device, WorkRing &ring, Unit unit) noexcept;
	Counter(int device, std::uint32_t id, detail::Mapping page, WorkRing &ring) noexcept;

	std::error_code copy(std::uint32_t cells, std::uint64_t offset) noexcept;
	std::error_code change(std::uint8_t opcode, std::uint32_t flags,
			       std::uint64_t value) noexcept;

	const treadle_cntr_page *page_;
	WorkRing *ring_;
	detail::Mapping map_;
	detail::WaitFd fd_;
};

} // namespace treadle

#endif
