// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/command.h>

#include <algorithm>
#include <cstring>

namespace treadle
{

Command &Command::buffers(std::span<const treadle_iov> iov) noexcept
{
	/* One more than the most stands for all that is too many: the post refuses it. */
	desc_.iov_count =
		static_cast<std::uint8_t>(std::min<std::size_t>(iov.size(), TREADLE_MAX_IOV + 1));
	desc_.addr = 0;
	desc_.len = total(iov);
	iov_count_ = 0;
	if (iov.size() == 1) {
		desc_.addr = iov[0].addr;
	} else if (iov.size() <= TREADLE_MAX_IOV) {
		iov_count_ = iov.size();
		std::memcpy(iov_, iov.data(), iov.size_bytes());
	}
	return *this;
}

} // namespace treadle
