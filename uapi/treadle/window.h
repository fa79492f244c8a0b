/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* treadle: windows on the memory of a peer (Documentation/windows.rst); part of ioctl.h */
#ifndef UAPI_TREADLE_WINDOW_H
#define UAPI_TREADLE_WINDOW_H

#include <linux/types.h>
#include <treadle/types.h>

/*
 * A window maps part of a peer's region, so that READ, WRITE and some atomics are loads and stores.
 * Pages come into it only by WINDOW_FILL. They are taken away at any time, before the owner's
 * address space changes. Where a window has no page, loads return anything and stores have no
 * effect; no access ever ends in a signal, or waits for the owner.
 *
 * An access, to pages first to last:
 *
 *   1. before = load `generation`, acquire
 *   2. unless all bits first to last of `present` are set (relaxed loads): take the ring
 *   3. the loads and stores
 *   4. a fence: seq_cst if there were stores, acquire if there were only loads
 *   5. if `generation` (relaxed load) is not `before`: the access may have had no effect, or have
 *      read anything. Do all of it again by the ring, which says what is true
 *
 * Between 1 and 5 a page may be taken away and come back: then `generation` has changed, too.
 * A window may miss pages for no reason, and for ever. `present` is only a hint without 1 and 5.
 */

/*
 * Atomics may be direct (answer). The pages of the region are pinned: a locked instruction
 * after step 2 has been executed, exactly once, on memory of the region. Step 5 is not needed for
 * its effect. If TREADLE_WINDOW_CLOSED is set after the fence, the region has ended
 * meanwhile: its result means nothing, and the ring says why.
 */
#define TREADLE_WINDOW_ATOMIC (1U << 0)

/**
 * struct treadle_window_open - WINDOW_OPEN: make a window on the region that an access goes to
 * @ep:     id of the endpoint that would send the command; enabled, RDM or MSG. While it has
 *	    windows, DESTROY of it is EBUSY
 * @flags:  out: TREADLE_WINDOW_ATOMIC; in: 0
 * @access: TREADLE_ACCESS_REMOTE_READ, _WRITE or both: what the window is to grant
 * @id:     out; DESTROY closes the window
 * @peer:   as in a descriptor
 * @key:    remote_key of the access
 * @addr:   in: remote_addr of the access; out: that of the first byte of the window
 * @len:    in: bytes of the access, at least 1; out: of the window. It has the region as far as it
 *	    is within the same naturally aligned TREADLE_WINDOW_MAX bytes of the owner's memory as
 *	    @addr. An access that goes beyond takes the ring
 * @data:   out: map of whole pages; PROT_WRITE only with REMOTE_WRITE. It takes an offset of 64
 *	    bits, and can be mapped as a whole only
 * @ro:     out: map of a struct treadle_window_status, PROT_READ
 * @skip:   out: the byte at @addr is the one with this index in @data; less than a page
 * @reserved: 0
 *
 * The access is checked as the command would be. The errors that its completion would have are
 * those of this call (ECONNREFUSED, EKEYREJECTED, EACCES, EREMOTEIO, EHOSTUNREACH, ECONNRESET,
 * ENOTCONN, EDESTADDRREQ); use the ring, and ask again later. Others:
 *
 * EOPNOTSUPP   no windows (`direct` of the module is 0), or none on this region by this endpoint:
 *		it is on another node, has several ranges, or operations of peers on it are counted
 *		(by a counter of the region, or of the endpoint by which it is reached)
 * EXDEV        the map would show more than the region grants (its pages have other bytes, too, or
 *		it grants WRITE and not READ), and the owner's process is not open to the caller:
 *		another user, another user namespace, or one of both is not dumpable
 * ENOSPC       the context has as many windows as it may (`max_windows` of the module)
 * EINVAL       @len, @access or the type of @ep
 * ENOTCONN     @ep is not enabled, or not connected
 */
#define TREADLE_WINDOW_MAX (1ULL << 30)
struct treadle_window_open {
	__u32 size;
	__u32 ep;
	__u32 flags;
	__u32 access;
	__u64 peer;
	__u64 key;
	__u64 addr;
	__u64 len;
	struct treadle_map data;
	struct treadle_map ro;
	__u32 id;
	__u32 skip;
	__u64 reserved;
};

/**
 * struct treadle_window_fill - WINDOW_FILL: enter the pages that the owner has in memory
 * @window: id
 * @flags:  0
 * @addr, @len: peers' addresses that are needed, within the window; whole pages are entered
 *
 * Waits for no process, and does not fault pages in: that is done by commands. So after a
 * command to these addresses has completed, the pages are likely to be there.
 *
 * EAGAIN       not all of these pages are there now, perhaps some; ask again after the next command
 * EKEYREJECTED the window is closed (TREADLE_WINDOW_CLOSED)
 * EREMOTEIO    not within the window
 * EINTR        a signal ends the process
 */
struct treadle_window_fill {
	__u32 size;
	__u32 window;
	__u32 flags;
	__u32 reserved;
	__u64 addr;
	__u64 len;
};

/*
 * The window has no pages and never gets any: the region, one of the endpoints, or the connection
 * was closed, the owner has died, a counter or endpoint was bound to the region, or a pinned page
 * was unmapped. Destroy it; perhaps another one can be opened.
 */
#define TREADLE_WINDOW_CLOSED (1ULL << 0)

/**
 * struct treadle_window_status - written by the kernel only
 * @generation: changes before a page is taken away
 * @flags:      TREADLE_WINDOW_CLOSED; set before @generation changes for the last time
 * @present:    bit n % 64 of word n / 64: page n of the data map is there
 */
struct treadle_window_status {
	__u64 generation;
	__u64 flags;
	__u64 reserved[6];
	__u64 present[];
};

#endif
