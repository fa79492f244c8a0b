// SPDX-License-Identifier: GPL-2.0

/* The library's code for rings, unchanged, with device.h instead of the system. */

#include "descriptor.cpp"
#include "completion_queue.cpp"
#include "context.cpp"
#include "handoff.cpp"
#include "local_completions.cpp"
#include "memcheck.cpp"
#include "object.cpp"
#include "receive_ring.cpp"
#include "result.cpp"
#include "ring.cpp"
#include "sys/fd.cpp"
#include "threading.cpp"
#include "transmit_ring.cpp"
