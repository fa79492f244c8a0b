// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_INFO_H
#define TREADLE_PROVIDER_INFO_H

#include <optional>

#include <treadle/ioctl.h>

#include "info/address.h"
#include "base/provider.h"

namespace treadle::fi
{

/* fi_getinfo(3) */
int get_info(std::uint32_t version, const char *node, const char *service, std::uint64_t flags,
	     const fi_info *hints, fi_info **info) noexcept;

/*
 * All that this provider can do for this type of endpoint, on a kernel with these limits: every
 * capability, the largest of every size. Null: no memory.
 */
InfoPtr offer(const treadle_query &kernel, fi_ep_type type) noexcept;

/*
 * What an endpoint opened from this fi_info will have. The application may have changed the
 * fi_info. 0, -FI_EINVAL or -FI_ENOMEM. May throw.
 */
int settle(const treadle_query &kernel, const fi_info *asked, std::uint32_t api, const char *call,
	   InfoPtr &settled);

/* The address of such an endpoint; without a source, any port of the loopback address. */
std::optional<Address> source_of(const fi_info &info) noexcept;

/* Writes src_addr or dest_addr. Returns false if there is no memory. May throw. */
bool set_address(std::uint32_t format, const std::optional<Address> &address, void *&to,
		 std::size_t &size);

/*
 * Is everything that is asked for within the offer? Logs the first difference at this level.
 * fi_getinfo calls it, and so do calls that open an object from a fi_info, which the application
 * may have changed.
 */
bool agrees(const fi_info &offer, const fi_info &asked, std::uint32_t api, const char *call,
	    fi_log_level level);

/* Narrows a copy of the offer to what was asked for. All else gets its default. May throw. */
void narrow(fi_info &info, const fi_info *asked, std::uint32_t api);

/* Adds both directions if none is named. */
std::uint64_t with_directions(std::uint64_t caps) noexcept;
/*
 * The part of caps that a context asks for; 0 asks for nothing. If it asks only for directions: all
 * transfers in them.
 */
std::uint64_t narrowed(std::uint64_t caps, std::uint64_t context) noexcept;

/* Kinds of transfers, and the side that starts them. */
inline constexpr std::uint64_t transfer_caps =
	FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_COLLECTIVE;
inline constexpr std::uint64_t tx_directions = FI_SEND | FI_READ | FI_WRITE;
inline constexpr std::uint64_t rx_directions = FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;

/* Capabilities for transmitting, and for receiving: fi_endpoint(3). */
inline constexpr std::uint64_t tx_caps =
	transfer_caps | tx_directions | FI_TRIGGER | FI_XPU_TRIGGER | FI_FENCE | FI_NAMED_RX_CTX;
inline constexpr std::uint64_t rx_caps = transfer_caps | rx_directions | FI_TRIGGER |
					 FI_XPU_TRIGGER | FI_DIRECTED_RECV | FI_SOURCE |
					 FI_SOURCE_ERR | FI_MULTI_RECV | FI_RMA_EVENT;

/*
 * Flags that may be defaults of an endpoint or alias. Not FI_MORE: no operation would ever start.
 */
inline constexpr std::uint64_t completion_levels =
	FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
inline constexpr std::uint64_t tx_op_flags =
	FI_COMPLETION | FI_INJECT | FI_TRIGGER | FI_FENCE | completion_levels;
inline constexpr std::uint64_t rx_op_flags =
	FI_COMPLETION | FI_TRIGGER | FI_MULTI_RECV | completion_levels;

} // namespace treadle::fi

#endif
