// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TREADLE_H
#define TREADLE_TREADLE_H

/* All of libtreadle, but <treadle/uring.h> and <treadle/registrar.h>: treadle(7). */

#include <treadle/address.h>
#include <treadle/address_vector.h>
#include <treadle/command.h>
#include <treadle/completion.h>
#include <treadle/completion_queue.h>
#include <treadle/context.h>
#include <treadle/counter.h>
#include <treadle/endpoint.h>
#include <treadle/event_queue.h>
#include <treadle/graph.h>
#include <treadle/memory_region.h>
#include <treadle/message.h>
#include <treadle/passive_endpoint.h>
#include <treadle/peer_lane.h>
#include <treadle/peer_window.h>
#include <treadle/receive_ring.h>
#include <treadle/registration.h>
#include <treadle/station.h>
#include <treadle/transmit_ring.h>
#include <treadle/trigger_cells.h>
#include <treadle/version.h>

namespace treadle
{

/*
 * The version of the library that the program runs with, "0.1"; TREADLE_VERSION is that of the
 * headers that it was compiled with. Static.
 */
TREADLE_API const char *version() noexcept;

} // namespace treadle

#endif
