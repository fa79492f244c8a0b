// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_LIMITS_H
#define TREADLE_PROVIDER_LIMITS_H

#include <treadle/ioctl.h>
#include <treadle/result.h>

namespace treadle::fi
{

/*
 * The limits of the module, for fi_getinfo(3), of a device that this process may open. They are
 * cached for 0.1 s, but not in another network namespace, and not after the module was loaded anew.
 * Errors are those of Context::open.
 */
Result<treadle_query> kernel_limits() noexcept;

} // namespace treadle::fi

#endif
