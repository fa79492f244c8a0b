// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "info/caps.h"

namespace treadle::fi
{

std::uint64_t with_directions(std::uint64_t caps) noexcept
{
	if (caps & message_caps && !(caps & message_directions))
		caps |= message_directions;
	if (caps & memory_caps && !(caps & memory_directions))
		caps |= memory_directions;
	return caps;
}

std::uint64_t narrowed(std::uint64_t caps, std::uint64_t context) noexcept
{
	if (!context)
		return caps;
	if (context & message_directions && !(context & message_caps))
		context |= message_caps;
	if (context & memory_directions && !(context & memory_caps))
		context |= memory_caps;
	return caps & with_directions(context);
}

} // namespace treadle::fi
