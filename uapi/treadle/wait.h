/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* treadle: taking back what was started, and waiting for it; part of the control interface, ioctl.h */
#ifndef UAPI_TREADLE_WAIT_H
#define UAPI_TREADLE_WAIT_H

#include <linux/types.h>

/* --- cancel --------------------------------------------------------------- */

enum treadle_cancel_kind {
	/*
	 * A posted receive or a command that waits (armed, or at a peer without
	 * a receive buffer) of endpoint @id with @context: fi_cancel in
	 * fi_endpoint(3). It completes with ECANCELED. One at a time, the oldest
	 * receive first. Not what is TREADLE_F_REPEAT and armed; nor, at a peer or behind
	 * others, what is TREADLE_F_INJECT without F_COMPLETION: its context is the caller's
	 * affair only. With @flags only of one side.
	 */
	TREADLE_CANCEL_OP = 0,
	/*
	 * Deferred work, or what has no endpoint, armed on counter, or cells, @id at @threshold with
	 * @context (in the `value` of its descriptor, if that can be a name); silent, also to the peer
	 * that waits for a TREADLE_F_COLLECTIVE, as is the next.
	 */
	TREADLE_CANCEL_WORK = 1,
	/*
	 * All deferred work on counter, or cells, @id, with what is TREADLE_F_STRICT there; or with
	 * @id 0 that of the context, but not what is TREADLE_F_STRICT or TREADLE_F_REPEAT; silent.
	 */
	TREADLE_FLUSH_WORK = 2,
};

/* CANCEL_OP: only receives, or only what is no receive; both or none: whatever it is. */
#define TREADLE_CANCEL_RX (1U << 0)
#define TREADLE_CANCEL_TX (1U << 1)

/**
 * struct treadle_cancel - @count: out, how many were canceled
 * @flags: TREADLE_CANCEL_RX, TREADLE_CANCEL_TX
 *
 * Exact: a command has either run or was canceled. ENOENT: none was found: it
 * has run, is running, or never was (FLUSH_WORK returns 0 and @count 0).
 */
struct treadle_cancel {
	__u32 size;
	__u32 kind;
	__u32 id;
	__u32 flags;
	__u64 context;
	__u64 threshold;
	__u64 count;
};

/* --- wait ----------------------------------------------------------------- */

#define TREADLE_WAIT_SIGNALS 0x1u /* CQ: @signals is given */

/**
 * struct treadle_wait - block until there is something to read
 * @id:		CQ: until the ring is not empty. CNTR: until success >= @threshold
 *		or error != @error, or was for a moment. EQ: until there is an event
 * @flags:	TREADLE_WAIT_*
 * @signals:	of struct treadle_cq_prod, read before the ring was found to be empty: what is
 *		another number now ends the wait, too. For who waits again, since another thread
 *		has read what woke him
 * @timeout_ns:	from now; negative: for ever; 0: look and return EAGAIN. May be less
 *		after the call
 *
 * ETIMEDOUT, EINTR, ECANCELED (somebody called SIGNAL, or DESTROY, but of an EQ: then 0, as read(2) says ESHUTDOWN).
 */
struct treadle_wait {
	__u32 size;
	__u32 id;
	__u32 flags;
	__u32 signals;
	__s64 timeout_ns;
	__u64 threshold;
	__u64 error;
};

/*
 * struct treadle_wait_fd - a file to poll(2): readable while the CQ or EQ is not
 * empty, or after the CNTR changed (CNTR: read(2) 8 bytes from it, success + error, to re-arm; EQ:
 * read(2) takes an event). The file may outlive the object. @fd: out, close-on-exec
 */
struct treadle_wait_fd {
	__u32 size;
	__u32 id;
	__u32 flags;
	__s32 fd;
};

#endif
