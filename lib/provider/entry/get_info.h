// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_GET_INFO_H
#define TREADLE_PROVIDER_GET_INFO_H

#include <cstdint>

#include <rdma/fabric.h>

namespace treadle::fi
{

/* fi_getinfo(3) */
int get_info(std::uint32_t version, const char *node, const char *service, std::uint64_t flags,
	     const fi_info *hints, fi_info **info) noexcept;

} // namespace treadle::fi

#endif
