// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TIME_H
#define TREADLE_TIME_H

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace treadle
{

/*
 * A timeout is a duration from now. Zero or less: don't wait; a call that is not ready then says
 * EAGAIN instead of ETIMEDOUT.
 */
using Timeout = std::chrono::nanoseconds;
/* No limit. */
inline constexpr Timeout forever = Timeout::max();

namespace detail
{

/* The timeout as the kernel has it: negative is no limit. */
constexpr std::int64_t kernel_timeout(Timeout timeout) noexcept
{
	return timeout == forever ? -1 : std::max<std::int64_t>(timeout.count(), 0);
}

/* The end of a timeout that several waits share. */
class Deadline
{
public:
	explicit Deadline(Timeout timeout) noexcept : timeout_(timeout) {}

	Timeout left() const noexcept
	{
		if (timeout_ == forever || timeout_ <= Timeout::zero())
			return timeout_;
		/* Not 0 at its end, because that is another error. */
		return std::max(timeout_ - (Clock::now() - begin_), Timeout(1));
	}

private:
	using Clock = std::chrono::steady_clock;

	Timeout timeout_;
	Clock::time_point begin_ = Clock::now();
};

} // namespace detail

} // namespace treadle

#endif
