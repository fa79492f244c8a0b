// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_RESULT_H
#define TREADLE_RESULT_H

#include <expected>

/* Marks what the library exports; everything else in it is hidden. */
#define TREADLE_API __attribute__((visibility("default")))

namespace treadle
{

/**
 * An error number: one line of the dictionary in <treadle/ioctl.h>, or one that a declaration names
 * (EPROTO, ENOSYS, ELOOP).
 *
 * Functions that create something return Result. Functions of the data path return an int: 0 or
 * more on success, else -errno, as that costs less.
 */
class TREADLE_API Errno
{
public:
	/* code: positive, as in errno(3) */
	constexpr explicit Errno(int code) noexcept : code_(code) {}

	constexpr int code() const noexcept { return code_; }
	constexpr int negative() const noexcept { return -code_; }
	/* A static English sentence; never null. Thread-safe. */
	const char *message() const noexcept;

	friend constexpr bool operator==(Errno, Errno) = default;

private:
	int code_;
};

template <class T> using Result = std::expected<T, Errno>;

} // namespace treadle

#endif
