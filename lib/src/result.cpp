// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <treadle/result.h>

#include <cstring>

#include <treadle/ioctl.h>

namespace treadle
{

const char *Errno::message() const noexcept
{
	const char *text = strerrordesc_np(code_);

	if (text)
		return text;
	return code_ == TREADLE_ETRUNC ? "Message longer than the buffer" : "Unknown error";
}

} // namespace treadle
