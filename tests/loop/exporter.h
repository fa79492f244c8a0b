/* SPDX-License-Identifier: GPL-2.0 */
/* treadle_loop: dma-bufs for tests (exporter.c); also for programs of user space */
#ifndef TREADLE_LOOP_EXPORTER_H
#define TREADLE_LOOP_EXPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define EXPORTER "/dev/treadle_exporter"

/*
 * STAYS: memory that never moves; it can't be attached. MOVES: its exporter may move it, see
 * EXPORT_MOVE. IO: the memory of a device that is no memory for a processor. UNREACHED: a processor
 * can't map it.
 */
enum export_kind { EXPORT_STAYS, EXPORT_MOVES, EXPORT_IO, EXPORT_UNREACHED };
#define EXPORT_MOST (16U << 20)

struct export_new {
	__u32 kind, bytes, readonly;
};

/* Returns a file descriptor. */
#define EXPORT_NEW _IOW('x', 0, struct export_new)
/* Moves the buffer of the file descriptor that is the argument, and fills it with 0xee. */
#define EXPORT_MOVE _IO('x', 1)

#endif
