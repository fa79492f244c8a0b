// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_DETAIL_MEMCHECK_H
#define TREADLE_DETAIL_MEMCHECK_H

#include <span>

#include <treadle/result.h>
#include <treadle/ring.h>

/*
 * valgrind's memcheck does not see that the kernel writes into buffers that a ring names. So posts
 * (and registrations, for peers) mark them: from then on the buffers count as defined. A program
 * that is built without valgrind's header has no such code in its posts.
 */
namespace treadle::detail
{

/* Does memcheck run this process, and was the library built with its header? */
TREADLE_API extern const bool on_memcheck;

/* vectors: the slots behind the descriptor, if there are any */
TREADLE_API void mark_defined(const treadle_desc &desc, const treadle_slot *vectors) noexcept;
TREADLE_API void mark_defined(std::span<const treadle_iov> buffers) noexcept;

/*
 * The kernel may write to these buffers from now on. A descriptor is passed where it was written,
 * in the ring: the address of a message would force the message into memory, a cost for every post.
 */
template <class... What> void will_be_written([[maybe_unused]] What &&...what) noexcept
{
#if __has_include(<valgrind/memcheck.h>)
	if (on_memcheck) [[unlikely]]
		mark_defined(what...);
#endif
}

} // namespace treadle::detail

#endif
