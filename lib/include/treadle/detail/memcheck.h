// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_DETAIL_MEMCHECK_H
#define TREADLE_DETAIL_MEMCHECK_H

#include <span>

#include <treadle/command.h>
#include <treadle/message.h>
#include <treadle/result.h>

/*
 * valgrind's memcheck does not see what the kernel writes into buffers that a ring names. So it is told when they are
 * posted (or registered, for peers): from then on they count as defined. A program that is built without valgrind's
 * header has nothing of this in its posts.
 */
namespace treadle::detail
{

/* Does memcheck run this process, and was the library built with its header? */
TREADLE_API extern const bool on_memcheck;

TREADLE_API void tell_memcheck(const Message &message) noexcept;
TREADLE_API void tell_memcheck(const Message &message, const Atomic &atomic) noexcept;
TREADLE_API void tell_memcheck(const Message &message, std::span<const treadle_iov> iov) noexcept;
TREADLE_API void tell_memcheck(const Command &command) noexcept;
TREADLE_API void tell_memcheck(std::span<const treadle_iov> buffers) noexcept;

/* The kernel may write to what this names from now on. */
template <class... What> void will_be_written([[maybe_unused]] const What &...what) noexcept
{
#if __has_include(<valgrind/memcheck.h>)
	if (on_memcheck) [[unlikely]]
		tell_memcheck(what...);
#endif
}

} // namespace treadle::detail

#endif
