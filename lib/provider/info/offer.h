// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_OFFER_H
#define TREADLE_PROVIDER_OFFER_H

#include <treadle/ioctl.h>

#include "base/provider.h"

namespace treadle::fi
{

/* Has a kernel with these limits this type of endpoint? */
bool has_type(const treadle_query &kernel, fi_ep_type type) noexcept;

/*
 * FI_TREADLE_POLL: idle time of polled transmit rings in microseconds; 0: they are not polled, or
 * the module can't.
 */
std::uint32_t poll_idle(const treadle_query &kernel) noexcept;

/* FI_TREADLE_ONE_NODE: the user states that all peers are on this node. */
bool one_node() noexcept;

/*
 * All that this provider can do for this type of endpoint, on a kernel with these limits: every
 * capability, the largest of every size. Null: no memory.
 */
InfoPtr offer(const treadle_query &kernel, fi_ep_type type) noexcept;

} // namespace treadle::fi

#endif
