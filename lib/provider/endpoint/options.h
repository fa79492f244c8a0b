// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_OPTIONS_H
#define TREADLE_PROVIDER_OPTIONS_H

#include <cstddef>

#include <rdma/fabric.h>

namespace treadle::fi
{

/* For struct fi_ops_ep. */
int get_option(fid_t ep, int level, int option, void *value, std::size_t *size) noexcept;
int set_option(fid_t ep, int level, int option, const void *value, std::size_t size) noexcept;

} // namespace treadle::fi

#endif
