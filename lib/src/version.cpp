// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/treadle.h>

namespace treadle
{

const char *version() noexcept
{
	return TREADLE_VERSION;
}

} // namespace treadle
