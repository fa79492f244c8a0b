// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_SRC_WORK_H
#define TREADLE_SRC_WORK_H

#include <cstdint>

#include <treadle/result.h>

namespace treadle
{

/*
 * Cancel deferred work of the context fd: one command that is armed on the object id.
 * Flush it: all commands on the object id, or with 0 on any. Returns how many.
 */
std::error_code cancel_work(int fd, std::uint32_t id, std::uint64_t threshold,
			    std::uint64_t context) noexcept;
Result<std::uint64_t> flush_work(int fd, std::uint32_t id) noexcept;

} // namespace treadle

#endif
