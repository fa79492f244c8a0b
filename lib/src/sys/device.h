// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_SRC_SYS_DEVICE_H
#define TREADLE_SRC_SYS_DEVICE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <treadle/message.h>
#include <treadle/result.h>

namespace treadle::sys
{

/* The return value of the kernel, 0 or more; or -errno. */
int ioctl(int fd, unsigned long request, void *arg) noexcept;
int ioctl(int fd, unsigned long request, std::uint32_t id) noexcept;

/* An ioctl with one of the structures of <treadle/ioctl.h>, which all begin with their size. */
template <class Args> int call(int fd, unsigned long request, Args &args) noexcept
{
	args.size = sizeof(args);
	return ioctl(fd, request, &args);
}

/* The same, for callers that pass the error on. */
template <class Args> std::error_code checked(int fd, unsigned long request, Args &args) noexcept
{
	return detail::status(call(fd, request, args));
}

/* Limits a size to 32 bits: one that is too large stays too large. */
inline __u32 clamped(std::size_t n) noexcept
{
	return static_cast<__u32>(std::min(n, std::size_t{UINT32_MAX}));
}

/* Fills in pointer and size for the kernel; no bytes have a null pointer. */
inline void give(std::span<const std::byte> bytes, __u64 &address, __u32 &size) noexcept
{
	address = bytes.empty() ? 0 : address_of(bytes.data());
	size = clamped(bytes.size());
}

/* An object of the file. */
std::error_code destroy(int fd, std::uint32_t id) noexcept;

} // namespace treadle::sys

#endif
