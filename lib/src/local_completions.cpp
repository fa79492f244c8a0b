// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/detail/local_completions.h>

#include <cerrno>
#include <mutex>
#include <new>

namespace treadle::detail
{

std::error_code LocalCompletions::allocate(std::uint32_t size) noexcept
{
	const std::lock_guard guard(lock_);

	if (!size_) {
		cqes_.reset(new (std::nothrow) treadle_cqe[size]{});
		places_.reset(new (std::nothrow) std::uint32_t[size]{});
		size_ = cqes_ && places_ ? size : 0;
		mask_ = size - 1;
		for (std::uint32_t i = 0; i < size_; ++i)
			cqes_[i].src = TREADLE_ADDR_ANY;
	}
	return from_errno(size_ ? 0 : ENOMEM);
}

} // namespace treadle::detail
