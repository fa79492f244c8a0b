/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * treadle: what the module can do (QUERY), and which other nodes it knows (NEXT_NODE)
 */
#ifndef UAPI_TREADLE_QUERY_H
#define UAPI_TREADLE_QUERY_H

#include <linux/types.h>
#include <treadle/types.h>

#define TREADLE_FEATURE_TRIGGER	   (1ULL << 0) /* F_COND_CNTR */
#define TREADLE_FEATURE_CELL	   (1ULL << 1) /* F_COND_CELL */
#define TREADLE_FEATURE_MR_PINNED  (1ULL << 2)
#define TREADLE_FEATURE_AUTH_KEY   (1ULL << 3)
#define TREADLE_FEATURE_MSG_EP	   (1ULL << 4)
#define TREADLE_FEATURE_DGRAM_EP   (1ULL << 5)
#define TREADLE_FEATURE_REMOTE	   (1ULL << 6)	/* other nodes are reached: @node */
#define TREADLE_FEATURE_ATOMIC_FP  (1ULL << 7)	/* atomics of floating point types */
#define TREADLE_FEATURE_SHARED_AV  (1ULL << 8)	/* address vectors with names */
#define TREADLE_FEATURE_SCALABLE   (1ULL << 9)	/* scalable endpoints */
#define TREADLE_FEATURE_MR_IOV	   (1ULL << 10) /* TREADLE_MAX_MR_IOV ranges, MR_UNMAPPED */
#define TREADLE_FEATURE_AV_IDS	   (1ULL << 11) /* AV_IDS */
#define TREADLE_FEATURE_CNTR_BYTES (1ULL << 12) /* CNTR_BYTES */
#define TREADLE_FEATURE_AV_SET_ID  (1ULL << 13) /* AV_SET_ID */
#define TREADLE_FEATURE_NEXT_NODE  (1ULL << 14) /* NEXT_NODE */
#define TREADLE_FEATURE_WINDOW	   (1ULL << 15) /* WINDOW_OPEN, now: `direct` of the module */
#define TREADLE_FEATURE_TX_POLLED  (1ULL << 16) /* TX_POLLED */

/**
 * struct treadle_query - limits and capabilities; all fields but size are output
 * @size:         sizeof(struct treadle_query); not changed
 * @abi_version:  TREADLE_ABI_VERSION
 * @features:     TREADLE_FEATURE_*
 * @opcodes:      bit n: TREADLE_OP n works
 * @desc_flags:   TREADLE_F_* that some operation accepts
 * @max_msg_size: bytes of one message
 * @inject_size:  bytes of one injected message
 * @max_objects:  objects of one context
 * @max_ring:     entries of a descriptor ring
 * @max_cq:       entries of a completion ring
 * @max_av:       peers of an address vector
 * @max_armed:    commands armed in one context
 * @max_buffered: bytes of unexpected messages that one RX may hold
 * @max_auth_key: bytes of an authorization key
 * @node:         FEATURE_REMOTE: the address at which other nodes reach endpoints of this network
 *		  namespace, with port 0; else zero. It may come and go at any time
 */
struct treadle_query {
	__u32 size;
	__u32 abi_version;
	__u64 features;
	__u64 opcodes;
	__u64 desc_flags;
	__u64 max_msg_size;
	__u32 inject_size;
	__u32 max_objects;
	__u32 max_ring;
	__u32 max_cq;
	__u32 max_av;
	__u32 max_armed;
	__u32 max_buffered;
	__u32 max_auth_key;
	struct treadle_addr node;
};

/* The states of another node. IDLE: nothing is to be sent. LOST: it had been reached before. */
#define TREADLE_NODE_IDLE	0U
#define TREADLE_NODE_CONNECTING 1U
#define TREADLE_NODE_UP		2U
#define TREADLE_NODE_LOST	3U

#define TREADLE_NODE_COUNTED (1U << 0)

/**
 * struct treadle_next_node - another node that this network namespace knows
 * @number:    in: that of the node before, 0: there is none. out: the node with the next larger
 *	       number. Nodes are numbered from 1 on. Some time after a node has gone, its number is
 *	       that of another one
 * @addr:      out: of the node; its port is 0
 * @state:     out: TREADLE_NODE_*
 * @error:     out: why it was not reached, or not any more, since it was last UP: 0 or an errno
 * @flags:     out: TREADLE_NODE_COUNTED: @executing, and the fields below @state_ms, are known.
 *	       Else they are 0: the caller has no CAP_NET_ADMIN in the user namespace of the network
 *	       namespace
 * @executing: out: commands of the node that have not ended here
 * @state_ms:  out: for so long it has been UP, CONNECTING or LOST
 * @silent_ms: out: for so long nothing has arrived; ~0: nothing ever has
 * @round_trip_ns: out: smoothed; 0: not measured yet
 * @sent, @resent, @received: out: numbered frames, since the node has got its number. @resent:
 *	       after a connection was lost; not in @sent
 * @links:     out: connections that were recognized, one after the other
 * @sessions:  out: how often the session began anew; the other @links were reconnections
 * @unacknowledged: out: frames that the node has not acknowledged
 * @credits:   out: commands that the node would take at once
 * @under_way: out: commands that the node has, or that go there in pieces
 * @queued:    out: commands that wait until they can be sent
 *
 * ENOENT: no node has a larger number
 */
struct treadle_next_node {
	__u32 size;
	__u32 number;
	struct treadle_addr addr;
	__u32 state;
	__u32 error;
	__u32 flags;
	__u32 executing;
	__u64 state_ms;
	__u64 silent_ms;
	__u64 round_trip_ns;
	__u64 sent;
	__u64 resent;
	__u64 received;
	__u64 links;
	__u64 sessions;
	__u32 unacknowledged;
	__u32 credits;
	__u32 under_way;
	__u32 queued;
};

#endif
