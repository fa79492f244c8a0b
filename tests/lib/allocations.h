// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TESTS_LIB_ALLOCATIONS_H
#define TREADLE_TESTS_LIB_ALLOCATIONS_H

#include <cerrno>
#include <cstddef>
#include <cstdlib>

/*
 * Counts allocations of memory, or makes them fail. The program's own functions replace those of
 * glibc, in all libraries, and operator new calls malloc. For one source of a program.
 */

extern "C" {
void *__libc_malloc(std::size_t size);
void *__libc_calloc(std::size_t count, std::size_t size);
void *__libc_realloc(void *old, std::size_t size);
void *__libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void *memory);
}

namespace allocations
{

/* Of this thread, while it is counting. */
inline thread_local bool counting = false;
inline thread_local int counted = 0;
inline thread_local bool failing = false;
/* So many succeed first. */
inline thread_local int spared = 0;

template <class T> T *note(T *memory)
{
	counted += counting;
	if (!failing || spared-- > 0)
		return memory;
	__libc_free(memory);
	errno = ENOMEM;
	return nullptr;
}

/* How many allocations does the function make? */
template <class F> int of(F &&function)
{
	counted = 0;
	counting = true;
	function();
	counting = false;
	return counted;
}

/* Calls the function; all allocations fail but the first ones. */
template <class F> auto without(F &&function, int first = 0)
{
	spared = first;
	failing = true;
	const auto result = function();
	failing = false;
	return result;
}

} // namespace allocations

extern "C" {
__attribute__((visibility("default"))) void *malloc(std::size_t size) noexcept
{
	return allocations::note(__libc_malloc(size));
}
__attribute__((visibility("default"))) void *calloc(std::size_t count, std::size_t size) noexcept
{
	return allocations::note(__libc_calloc(count, size));
}
__attribute__((visibility("default"))) void *realloc(void *old, std::size_t size) noexcept
{
	return allocations::note(allocations::failing && allocations::spared <= 0 ?
					 nullptr :
					 __libc_realloc(old, size));
}
__attribute__((visibility("default"))) void *aligned_alloc(std::size_t alignment,
							   std::size_t size) noexcept
{
	return allocations::note(__libc_memalign(alignment, size));
}
__attribute__((visibility("default"))) int posix_memalign(void **to, std::size_t alignment,
							  std::size_t size) noexcept
{
	*to = allocations::note(__libc_memalign(alignment, size));
	return *to ? 0 : ENOMEM;
}
}

#endif
