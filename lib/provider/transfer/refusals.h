// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_REFUSALS_H
#define TREADLE_PROVIDER_REFUSALS_H

#include <cstdint>
#include <span>

#include <sys/types.h>

#include <treadle/ring.h>

/* What the calls that transfer refuse, and log. */
namespace treadle::fi
{

/*
 * Does the range wrap around? The kernel looks at a receive only when a message matches it, so an
 * impossible one is refused when it is posted.
 */
constexpr bool wraps(std::uint64_t addr, std::uint64_t len) noexcept
{
	return addr + len < addr;
}
bool wraps(std::span<const treadle_iov> buffers) noexcept;
ssize_t length_refused(const char *what) noexcept;

/* Converts the error of a post and logs it, unless the caller only has to try again later. */
ssize_t posting_failed(int error, const char *what) noexcept;
ssize_t flags_refused(std::uint64_t flags, const char *what) noexcept;
/* Refuses an armed receive or a peek at a shared context to which no endpoint is bound. */
int no_receiver(const char *what) noexcept;
const char *name_of(std::uint8_t opcode) noexcept;

} // namespace treadle::fi

#endif
