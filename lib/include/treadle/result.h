// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_RESULT_H
#define TREADLE_RESULT_H

#include <expected>
#include <system_error>

/* Marks what the library exports; everything else in it is hidden. */
#define TREADLE_API __attribute__((visibility("default")))

namespace treadle
{

/*
 * Errors. Nothing throws, except std::bad_alloc where a declaration is not noexcept.
 *
 * A function that returns a value returns Result; any other that can fail returns
 * std::error_code, which is false on success. The value is an errno: a line of the dictionary in
 * <treadle/ioctl.h>, or one that a declaration names. It compares with std::errc:
 *
 *	if (tx.send(data, peer) == std::errc::message_size)
 *
 * The category is treadle's own, because the system's has no text for TREADLE_ETRUNC, and for
 * EPROTO one that does not say that module and library differ.
 */
template <class T> using Result = std::expected<T, std::error_code>;

/* "treadle". */
[[gnu::const]] TREADLE_API const std::error_category &category() noexcept;

/* The error code of an errno (positive, as in errno(3)); 0: no error. */
inline std::error_code from_errno(int code) noexcept
{
	return {code, category()};
}

/* A static English sentence about an errno; never null. Thread-safe. */
TREADLE_API const char *describe(int code) noexcept;

namespace detail
{

/* Of a call that returns 0 or more, or -errno. */
inline std::error_code status(int rc) noexcept
{
	return from_errno(rc < 0 ? -rc : 0);
}

} // namespace detail

} // namespace treadle

#endif
