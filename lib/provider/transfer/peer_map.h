// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PROVIDER_PEER_MAP_H
#define TREADLE_PROVIDER_PEER_MAP_H

#include <cstddef>
#include <cstdint>

#include <treadle/fi_treadle.h>

/* Memory of peers, mapped for applications: FI_TREADLE_DIRECT_OPS_1. */
namespace treadle::fi
{

int map_peer(fid_ep *ep, fi_addr_t peer, std::uint64_t addr, std::size_t len, std::uint64_t key,
	     std::uint64_t access, fi_treadle_map **out) noexcept;
int fill_map(fi_treadle_map *map, std::uint64_t addr, std::size_t len) noexcept;
int unmap_peer(fi_treadle_map *map) noexcept;

} // namespace treadle::fi

#endif
