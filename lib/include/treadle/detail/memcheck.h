// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_DETAIL_MEMCHECK_H
#define TREADLE_DETAIL_MEMCHECK_H

#include <span>

#include <treadle/result.h>
#include <treadle/ring.h>

/*
 * valgrind's memcheck does not see what the kernel writes into buffers that a ring names. So it is told when they are
 * posted (or registered, for peers): from then on they count as defined. A program that is built without valgrind's
 * header has nothing of this in its posts.
 */
namespace treadle::detail
{

/* Does memcheck run this process, and was the library built with its header? */
TREADLE_API extern const bool on_memcheck;

/* vectors: the slots behind the descriptor, if it has any */
TREADLE_API void tell_memcheck(const treadle_desc &desc, const treadle_slot *vectors) noexcept;
TREADLE_API void tell_memcheck(std::span<const treadle_iov> buffers) noexcept;

/*
 * The kernel may write to what this names from now on. A descriptor is looked at where it was written: the address
 * of a message would keep the message in memory, and so cost every post.
 */
template <class... What> void will_be_written([[maybe_unused]] What &&...what) noexcept
{
#if __has_include(<valgrind/memcheck.h>)
	if (on_memcheck) [[unlikely]]
		tell_memcheck(what...);
#endif
}

} // namespace treadle::detail

#endif
