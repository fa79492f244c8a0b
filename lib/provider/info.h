// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_INFO_H
#define TREADLE_PROVIDER_INFO_H

#include "provider.h"

#include <treadle/ioctl.h>

namespace treadle::fi
{

/* fi_getinfo(3) */
int get_info(std::uint32_t version, const char *node, const char *service, std::uint64_t flags,
	     const fi_info *hints, fi_info **info) noexcept;

/*
 * All that this provider can do on a kernel with these limits, as the fi_info
 * of an endpoint: every capability, the largest of every size. Null: no memory.
 */
InfoPtr offer(const treadle_query &kernel) noexcept;

/*
 * Is everything that is asked for within the offer? What isn't is named in a
 * log line of this level. Both fi_getinfo and the calls that open something
 * from a fi_info (which the application may have changed) ask this.
 */
bool agrees(const fi_info &offer, const fi_info &asked, std::uint32_t api, const char *call,
	    fi_log_level level);

/* Narrows a copy of the offer to what was asked for; the rest gets its default. May throw. */
void narrow(fi_info &info, const fi_info *asked, std::uint32_t api);

/* Adds the directions that a caller who names none means. */
std::uint64_t with_directions(std::uint64_t caps) noexcept;

/* Capabilities that have to do with transmitting, and with receiving: fi_endpoint(3). */
inline constexpr std::uint64_t tx_caps = FI_MSG | FI_TAGGED | FI_SEND | FI_TRIGGER | FI_FENCE;
inline constexpr std::uint64_t rx_caps = FI_MSG | FI_TAGGED | FI_RECV | FI_TRIGGER |
					 FI_DIRECTED_RECV | FI_SOURCE | FI_SOURCE_ERR |
					 FI_MULTI_RECV;

/* Flags that may be defaults of an endpoint or alias. FI_MORE may not: nothing would ever start. */
inline constexpr std::uint64_t completion_levels =
	FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
inline constexpr std::uint64_t tx_op_flags =
	FI_COMPLETION | FI_INJECT | FI_TRIGGER | FI_FENCE | completion_levels;
inline constexpr std::uint64_t rx_op_flags =
	FI_COMPLETION | FI_TRIGGER | FI_MULTI_RECV | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;

} // namespace treadle::fi

#endif
