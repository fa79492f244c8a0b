/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* treadle: trigger cells, and copies of counters in them; part of ioctl.h */
#ifndef UAPI_TREADLE_CELL_H
#define UAPI_TREADLE_CELL_H

#include <linux/types.h>
#include <treadle/types.h>

/**
 * struct treadle_cell_create - trigger cells, fi_trigger(3), "XPU TRIGGERS"
 * @flags: 0
 * @count: in: at least so many, 1 to TREADLE_MAX_CELLS; out: rounded up to whole pages
 * @id:    out
 * @rw:    out: the cells, __u64[count]. Ordinary pages, which drivers of devices can pin
 * @ro:    out: __u64[count]: `value` of the command that was the last to leave that cell, because
 *	   it has started or was canceled
 *
 * The context's poller reads a cell while a command with F_COND_CELL is armed on it. It starts the
 * command when the cell has the command's `value`; other values have no effect. With F_REPEAT the
 * cell is a total that a counter follows (ring.h); @ro has the total that was counted. The writer
 * is not checked: children inherit these maps, and a process that is passed the file may map them,
 * and nothing else.
 */
#define TREADLE_MAX_CELLS 65536
struct treadle_cell_create {
	__u32 size;
	__u32 flags;
	__u32 count;
	__u32 id;
	struct treadle_map rw;
	struct treadle_map ro;
};

/**
 * struct treadle_cntr_copy - keep a copy of a counter's values in cells, for a device that polls
 * @cntr:   id
 * @flags:  0
 * @cells:  id; 0: end the copy (ENOENT: there is none)
 * @offset: of the first of two cells, success and error, in bytes: a multiple of 16; 0 if @cells
 *	    is 0
 *
 * When this call returns, the copy has the counter's values. From then on each change is followed
 * by stores of the newest ones: each value by one store, success first. Of two changes that come
 * close together, the first one may not be seen. The kernel only writes there: what others store
 * there stays until the next change.
 *
 * A counter has one copy (EBUSY), which ends with the counter. DESTROY of the cells fails with
 * EBUSY until then.
 */
struct treadle_cntr_copy {
	__u32 size;
	__u32 flags;
	__u32 cntr;
	__u32 cells;
	__u64 offset;
};

#endif
