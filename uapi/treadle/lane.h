/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* treadle: lanes: small messages in shared memory (Documentation/lanes.rst); part of ioctl.h */
#ifndef UAPI_TREADLE_LANE_H
#define UAPI_TREADLE_LANE_H

#include <linux/types.h>
#include <treadle/types.h>

/*
 * A lane is memory that the sender of messages and their receiver have mapped. The sender writes
 * messages, the receiver's process matches them with its receives: no system call on either side,
 * and no progress while the receiver's process makes none (FI_PROGRESS_MANUAL).
 *
 * The kernel makes the lane and says when an end has closed. It decides nothing by what it reads
 * there; netlink shows it. Each end may find anything there: the other one can write at any time.
 *
 * Messages lie in units of TREADLE_LANE_UNIT bytes, from TREADLE_LANE_BYTES on. A message has a
 * struct treadle_lane_msg and its bytes directly behind, and begins at a unit. It is never cut by
 * the end of the units: a message with TREADLE_LANE_PAD, which has no bytes and reaches to the end,
 * is skipped. `head` and `tail` count units, for ever.
 */

/* The receiver takes messages here. Without it: use the ring. */
#define TREADLE_LANE_OPEN 1U
/* The receiver's endpoint, or its process, has ended. Set by the kernel, for good. */
#define TREADLE_LANE_CLOSED 2U

/**
 * struct treadle_lane - the beginning of a lane
 * @tail:	units written; the sender's
 * @gone:	1: the sender has closed this lane. Set by the kernel
 * @state:	TREADLE_LANE_OPEN or 0, by the receiver; TREADLE_LANE_CLOSED by the kernel
 * @head:	units taken: changed by compare-and-swap only, by the receiver, which takes
 *		messages, and by the sender, which takes back what has not been taken
 */
struct treadle_lane {
	__u64 tail;
	__u32 gone;
	__u32 reserved0[13];
	__u32 state;
	__u32 reserved1[15];
	__u64 head;
	__u64 reserved2[7];
};

#define TREADLE_LANE_UNIT    64U
#define TREADLE_LANE_BYTES   4096U /* offset of the first unit */
#define TREADLE_LANE_UNITS   512U
#define TREADLE_LANE_LONGEST 4096U /* bytes of a message */

/* struct treadle_lane_msg.flags; the first two are those of its completion */
#define TREADLE_LANE_TAGGED (1U << 3)  /* TREADLE_CQ_TAGGED */
#define TREADLE_LANE_DATA   (1U << 17) /* TREADLE_CQ_REMOTE_CQ_DATA: @data counts */
#define TREADLE_LANE_PAD    (1U << 0)

/**
 * struct treadle_lane_msg - what is before the bytes of a message
 * @len:	bytes, at most TREADLE_LANE_LONGEST; of a pad: those behind it, up to the end
 * @flags:	TREADLE_LANE_*
 */
struct treadle_lane_msg {
	__u32 len;
	__u32 flags;
	__u64 tag;
	__u64 data;
};

/**
 * struct treadle_lane_make - LANE_MAKE: offer a lane to a peer
 * @ep:     id of the endpoint that sends; enabled, RDM, with a transmit ring. While it has lanes,
 *	    DESTROY of it is EBUSY
 * @flags:  0
 * @id:     out; DESTROY closes this end
 * @reserved: 0
 * @peer:   as in a descriptor
 * @rw:     out: map of the lane
 * @ro:     out: map of the struct treadle_ring_cons of the peer's receive ring. While
 *	    TREADLE_RING_DOORBELL is set there, messages wait in the kernel: use the ring, so that
 *	    none is overtaken
 *
 * The pair is checked as a message would be, with the errors of its completion. Others, which mean
 * "use the ring, and say nothing":
 *
 * EOPNOTSUPP	no lanes (`direct` of the module is 0), or none between these two: @ep is not
 *		RDM, one of them is a context of a scalable endpoint, the peer is on another node,
 *		or its ring was not created with TREADLE_RX_LANES
 * EXDEV	the peer's process is not open to the caller, as for windows
 * ENOSPC	`max_lanes` of the module: of the context, or of the peer's ring
 * EINVAL	@ep has no transmit ring
 * ENOTCONN	@ep is not enabled
 */
struct treadle_lane_make {
	__u32 size;
	__u32 ep;
	__u32 flags;
	__u32 id;
	__u64 reserved;
	__u64 peer;
	struct treadle_map rw;
	struct treadle_map ro;
};

/**
 * struct treadle_lane_take - LANE_TAKE: take the oldest lane that was offered to a receive ring
 * @rx:     id of the ring
 * @flags:  0
 * @id:     out; DESTROY closes this end, and sets TREADLE_LANE_CLOSED
 * @reserved: 0
 * @rw:     out: map of the lane
 *
 * `offers` of the ring's struct treadle_ring_cons changes with each offer. A lane that its sender
 * has closed can be taken as well.
 *
 * EAGAIN	there is none
 * EOPNOTSUPP	the ring was not created with TREADLE_RX_LANES
 */
struct treadle_lane_take {
	__u32 size;
	__u32 rx;
	__u32 flags;
	__u32 id;
	__u64 reserved;
	struct treadle_map rw;
};

/**
 * struct treadle_lane_source - LANE_SOURCE: the sender of a lane
 * @lane:   id at the receiver
 * @flags:  0
 * @src:    out: the sender in the address vector of the receiving endpoint, as treadle_cqe.src
 *	    would have it now (with TREADLE_EP_SOURCE); or TREADLE_ADDR_ANY: it is not there, or
 *	    the lane is closed
 *
 * EINVAL	@lane is the sender's end
 */
struct treadle_lane_source {
	__u32 size;
	__u32 lane;
	__u32 flags;
	__u32 reserved;
	__u64 src;
};

#endif
