/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* treadle: cancel commands, and wait for objects; part of the control interface, ioctl.h */
#ifndef UAPI_TREADLE_WAIT_H
#define UAPI_TREADLE_WAIT_H

#include <linux/types.h>

/* --- cancel --------------------------------------------------------------- */

enum treadle_cancel_kind {
	/*
	 * fi_cancel in fi_endpoint(3): a posted receive, or a command that waits, of endpoint @id
	 * with @context. A command waits while it is armed, or while its peer has no receive for
	 * it. The command completes with ECANCELED. One call cancels one, the oldest receive
	 * first. With a flag in @flags, only commands of that side.
	 *
	 * Two kinds can't be canceled: an armed command with TREADLE_F_REPEAT, and, while it waits
	 * at a peer or behind others, a command with TREADLE_F_INJECT and without F_COMPLETION: its
	 * context means something to the caller only.
	 */
	TREADLE_CANCEL_OP = 0,
	/*
	 * Deferred work, or a command without endpoint, that is armed on counter or cells @id at
	 * @threshold with @context. If the descriptor has a name in `value`, @context is compared
	 * with that name. Silent, as is FLUSH_WORK: nothing is reported, not even to a peer that
	 * waits for a TREADLE_F_COLLECTIVE.
	 */
	TREADLE_CANCEL_WORK = 1,
	/*
	 * All deferred work on counter or cells @id, commands with TREADLE_F_STRICT included. With
	 * @id 0: all deferred work of the context, except commands with TREADLE_F_STRICT or
	 * TREADLE_F_REPEAT. Silent.
	 */
	TREADLE_FLUSH_WORK = 2,
};

/* CANCEL_OP: only receives, or only commands that are no receives; both or none: all. */
#define TREADLE_CANCEL_RX (1U << 0)
#define TREADLE_CANCEL_TX (1U << 1)

/**
 * struct treadle_cancel - @count: out, how many commands were canceled
 * @flags: TREADLE_CANCEL_RX, TREADLE_CANCEL_TX
 *
 * Exact: a command has either run or was canceled. ENOENT: none was found, as it has run, is
 * running, or never was. FLUSH_WORK then returns 0, with @count 0.
 *
 * A command that another node has is counted in @count, too, but that node is only asked to cancel
 * it: it may have run. Its completion says so: ECANCELED, or what else has become of it. Each
 * command is asked for once; later calls with the same @context do not find it.
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
 * struct treadle_wait - block until an object is ready
 * @id:		CQ: until the ring is not empty. CNTR: until success >= @threshold or
 *		error != @error, even if that was so for a moment only. EQ: until there is an event
 * @flags:	TREADLE_WAIT_*
 * @signals:	`signals` of struct treadle_cq_prod, read before the ring was found to be empty. If
 *		it is another number now, the wait ends, too. For a thread that waits again after
 *		another thread has read the completions
 * @timeout_ns:	from now; negative: no limit; 0: return EAGAIN if the object is not ready. May be
 *		less after the call
 *
 * ETIMEDOUT, EINTR. ECANCELED: SIGNAL was called, or DESTROY; after DESTROY of an EQ the call
 * returns 0, as read(2) says ESHUTDOWN.
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
 * struct treadle_wait_fd - make a file for poll(2)
 *
 * The file is readable while the CQ or EQ is not empty, or after the CNTR has changed. read(2) of 8
 * bytes from the file of a CNTR returns success + error, and re-arms it. read(2) from the file of
 * an EQ takes an event. The file may outlive the object. @fd: out, close-on-exec
 */
struct treadle_wait_fd {
	__u32 size;
	__u32 id;
	__u32 flags;
	__s32 fd;
};

#endif
