/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * treadle: what the module can do (QUERY)
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
#define TREADLE_FEATURE_WINDOW	   (1ULL << 15) /* WINDOW_OPEN, now: `direct` of the module */
#define TREADLE_FEATURE_TX_POLLED  (1ULL << 16) /* TX_POLLED */
#define TREADLE_FEATURE_MR_DMABUF  (1ULL << 17) /* MR_DMABUF */
#define TREADLE_FEATURE_LANE	   (1ULL << 18) /* LANE_MAKE, now: `direct` of the module */
#define TREADLE_FEATURE_CNTR_CELL  (1ULL << 19) /* F_REPEAT with F_COND_CELL; CNTR_COPY */

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

#endif
