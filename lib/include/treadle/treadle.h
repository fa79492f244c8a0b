// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#ifndef TREADLE_TREADLE_H
#define TREADLE_TREADLE_H

/* All of libtreadle: treadle(7). */

#include <treadle/address.h>
#include <treadle/address_vector.h>
#include <treadle/command.h>
#include <treadle/completion_queue.h>
#include <treadle/context.h>
#include <treadle/counter.h>
#include <treadle/endpoint.h>
#include <treadle/event_queue.h>
#include <treadle/graph.h>
#include <treadle/memory_region.h>
#include <treadle/message.h>
#include <treadle/passive_endpoint.h>
#include <treadle/receive_ring.h>
#include <treadle/registrar.h>
#include <treadle/transmit_ring.h>
#include <treadle/trigger_cells.h>

#endif
