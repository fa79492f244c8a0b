// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_PEER_H
#define TREADLE_PEER_H

#include <cstdint>

#include <treadle/ring.h>

namespace treadle
{

/*
 * Another endpoint, by its index in the address vector. any: a receive from all peers, or a send of
 * a connected endpoint, which has one peer only.
 */
enum class Peer : std::uint64_t { any = TREADLE_ADDR_ANY };

/* A place in the memory of a peer. */
struct Remote {
	std::uint64_t addr; /* offset into the region; its address with TREADLE_MR_VIRT_ADDR */
	std::uint64_t key;  /* MemoryRegion::key() at the peer */
};

} // namespace treadle

#endif
