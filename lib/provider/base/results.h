// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_RESULTS_H
#define TREADLE_PROVIDER_RESULTS_H

#include <cstddef>
#include <cstdint>
#include <span>

#include <treadle/result.h>

/* Between what libtreadle takes and returns, and what libfabric does. */
namespace treadle::fi
{

/* 0 or -errno, as calls of libfabric return it. */
inline int negative(std::error_code error) noexcept
{
	return -error.value();
}

/* A count, or -errno. */
inline int result_of(const Result<std::uint32_t> &result) noexcept
{
	return result ? static_cast<int>(*result) : negative(result.error());
}

/* The bytes of a buffer. */
inline std::span<std::byte> bytes_of(void *buf, std::size_t len) noexcept
{
	return {static_cast<std::byte *>(buf), len};
}
inline std::span<const std::byte> bytes_of(const void *buf, std::size_t len) noexcept
{
	return {static_cast<const std::byte *>(buf), len};
}

} // namespace treadle::fi

#endif
