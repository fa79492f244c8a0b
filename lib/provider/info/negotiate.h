// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_NEGOTIATE_H
#define TREADLE_PROVIDER_NEGOTIATE_H

#include <optional>

#include <treadle/ioctl.h>

#include "info/address.h"
#include "base/provider.h"

/* What is asked for in a fi_info, against what is offered. */
namespace treadle::fi
{

/*
 * Sets agreed to what an endpoint opened from `asked` will have. The application may have changed
 * the fi_info since fi_getinfo. 0, -FI_EINVAL or -FI_ENOMEM. May throw.
 */
int negotiate(const treadle_query &kernel, const fi_info *asked, std::uint32_t api,
	      const char *call, InfoPtr &agreed);

/*
 * The same for an endpoint with this one context, all else being the usual. The other pointer is
 * null; this one may be, too.
 */
int negotiate_context(const treadle_query &kernel, fi_tx_attr *tx, fi_rx_attr *rx,
		      std::uint32_t api, const char *call, InfoPtr &agreed);

/* The address of such an endpoint; without a source, the unspecified one. */
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

/*
 * For an answer of fi_getinfo from which an object is opened now: other nodes come and go, so it
 * may have FI_REMOTE_COMM although none is reached any more, or reached already.
 */
void allow_others(fi_info &all) noexcept;

/* Copies an authorization key, if there is one, into an answer without. May throw. */
void copy_key(std::uint8_t *&to, std::size_t &to_size, const std::uint8_t *from, std::size_t size);

/*
 * Narrows a copy of the offer to what was asked for. All else gets its default. usual: the default
 * progress for data. May throw.
 */
void narrow(fi_info &info, const fi_info *asked, std::uint32_t api,
	    fi_progress usual = FI_PROGRESS_AUTO);

} // namespace treadle::fi

#endif
