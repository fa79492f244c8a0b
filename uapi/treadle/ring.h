/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * treadle: the rings that a process and the kernel share
 *
 * Five things are mapped, each at the offset and with the length that the creating ioctl returned
 * (see ioctl.h):
 *
 *   transmit ring   process writes descriptors, kernel reads    (TX object)
 *   receive ring    process writes descriptors, kernel reads    (RX object)
 *   completion ring kernel writes completions, process reads    (CQ object)
 *   counter page    kernel writes three words, process reads    (CNTR object)
 *   trigger cells   process or device writes, kernel reads      (CELL object); or, as copies of
 *                   counters, the other way round
 *
 * Everything that the process must not write is mapped read-only, so each ring comes as two maps:
 * `rw` is written by the process, `ro` by the kernel.
 *
 *   descriptor ring   rw:  struct treadle_ring_prod    offset 0
 *                          union treadle_slot[entries] offset TREADLE_SLOTS_OFFSET
 *                     ro:  struct treadle_ring_cons    offset 0
 *   completion ring   rw:  struct treadle_cq_cons      offset 0
 *                     ro:  struct treadle_cq_prod      offset 0
 *                          struct treadle_cqe[entries] offset TREADLE_SLOTS_OFFSET
 *   counter           ro:  struct treadle_cntr_page    offset 0
 *   trigger cells     rw:  __u64 cell[count]           offset 0
 *                     ro:  __u64 done[count]           offset 0
 *
 * Indices are free-running 32-bit numbers; slot = index & (entries - 1), where entries is a power
 * of two.
 *
 * Descriptor rings: credits
 * -------------------------
 * `released` counts the slots of commands that have finished (in any order), not the slots that
 * were read. A process may write a slot while
 *
 *	prod - released + slots_needed <= entries
 *
 * Otherwise it must report EAGAIN before anything has happened. Therefore the kernel always has
 * room for the commands that it finds in a ring. Slots are released after the completion is
 * written: a process that has read the completion may find the ring full for a moment. A command
 * that is armed on a counter has left the ring, and its slots are released at once.
 *
 * Barriers
 * --------
 * They pair by letter: a comment at each side has it.
 *
 *  process (post)                       kernel (doorbell, or a peer's send)
 *    read released  (A, acquire)          read slot
 *    write slot                           write released    (A, release)
 *    write prod     (B, release)          read prod         (B, acquire)
 *                                         read slot
 *
 *  process (receive ring only)          kernel (holds an unmatched message)
 *    write prod                           set TREADLE_RING_DOORBELL
 *    full barrier   (C)                   full barrier      (C)
 *    read flags: DOORBELL? ring it        read prod again, match what is there
 *
 *  process (polled transmit ring)       kernel (leaves the ring alone)
 *    write prod                           set TREADLE_RING_DOORBELL
 *    full barrier   (C)                   full barrier      (C)
 *    read flags: DOORBELL? ring it        read prod again; not empty: clear the flag, go on
 *
 *  process (read completions)           kernel (complete)
 *    read prod      (D, acquire)          write cqe
 *    read cqe                             write prod        (D, release)
 *    write cons     (E, release)          read cons         (E, acquire)
 *
 *  process (wait)                       kernel (complete)
 *    ioctl: enqueue as waiter             lock, write prod
 *    lock, unlock   (F)                   read waiters
 *    look again                           unlock            (F), wake these waiters
 *
 * Both sides of F are in the kernel: the process only polls or calls TREADLE_IOC_WAIT.
 *
 *  writer of a cell                     kernel (poller)
 *    write the data to transfer
 *    write cell     (G, release)          read cell         (G, acquire)
 *                                         take the command off
 *    read done      (H, acquire)          write done        (H, release)
 *    use the cell for another command
 *
 *  device that polls a copy             kernel (counts)
 *    read the copy  (I, acquire)          write the data
 *    read the data                        write the copy    (I, release)
 */
#ifndef UAPI_TREADLE_RING_H
#define UAPI_TREADLE_RING_H

#include <linux/types.h>

#define TREADLE_SLOT_SIZE    128
#define TREADLE_SLOTS_OFFSET 4096 /* of slots or completions in their map */
#define TREADLE_MAX_IOV	     8	  /* local buffers of one command */
#define TREADLE_MAX_RMA_IOV  5	  /* remote ranges of one command */
#define TREADLE_MAX_ATOMIC   4096 /* bytes that one atomic command changes */

/* An index that stands for every peer (receive) or for none. */
#define TREADLE_ADDR_ANY 0xffffffffffffffffULL

/*
 * Operations. A command is a condition, an operation and a notification: fi_trigger(3), "DEFERRED
 * WORK QUEUES". An opcode that QUERY does not list in `opcodes` is refused with EOPNOTSUPP.
 */
enum treadle_opcode {
	TREADLE_OP_NOP = 0,   /* notification only */
	TREADLE_OP_SEND = 1,  /* fi_msg(3) */
	TREADLE_OP_TSEND = 2, /* fi_tagged(3) */
	TREADLE_OP_RECV = 3,
	TREADLE_OP_TRECV = 4,
	TREADLE_OP_READ = 5, /* fi_rma(3) */
	TREADLE_OP_WRITE = 6,
	TREADLE_OP_ATOMIC = 7, /* fi_atomic(3) */
	TREADLE_OP_FETCH = 8,
	TREADLE_OP_COMPARE = 9,
	TREADLE_OP_CNTR_SET = 10, /* fi_cntr(3): peer = counter id, data = value */
	TREADLE_OP_CNTR_ADD = 11, /* the same */
	TREADLE_OP_LAST
};

/*
 * Descriptor flags. An unknown flag, or one of another operation, is refused with EINVAL; on a
 * transmit ring FENCE, MULTI_RECV, PEEK, CLAIM and DISCARD are refused with EOPNOTSUPP. Fields that
 * neither operation nor flags use must be zero. CNTR_* have no COMPLETION. INJECT is for sends,
 * WRITE and atomics; REMOTE_CQ_DATA for sends and WRITE; DELIVERY_COMPLETE and FENCE for operations
 * that go to a peer.
 */
#define TREADLE_F_EXT		    (1U << 0) /* the second cache line counts */
#define TREADLE_F_COMPLETION	    (1U << 1) /* write a completion on success */
#define TREADLE_F_INJECT	    (1U << 2) /* buffer is free when its doorbell returns */
#define TREADLE_F_REMOTE_CQ_DATA    (1U << 3) /* `data` goes to the peer's completion */
#define TREADLE_F_DELIVERY_COMPLETE (1U << 4) /* complete when placed at the peer */
/*
 * Start after all commands before it to that peer have completed, and before all commands after it.
 * (A command that is still armed is not before it.)
 */
#define TREADLE_F_FENCE (1U << 5)
/*
 * RECV with one buffer: it takes several messages, one behind the other. It ends when less than
 * `data` bytes are left (or none), or when as many completions are kept as their ring has entries.
 * Each message completes. The last completion has TREADLE_CQ_MULTI_RECV: that of the last message,
 * or one more that has no other flag.
 */
#define TREADLE_F_MULTI_RECV (1U << 6)
/*
 * TRECV on a transmit ring, fi_tagged(3). PEEK completes with what is known of the first waiting
 * message that matches, or with ENOMSG. With CLAIM, too, the message is set aside for the TRECV
 * that has CLAIM alone and the same `context`; with DISCARD, too, it is dropped. CLAIM and DISCARD
 * without PEEK drop the message that was claimed. Only CLAIM alone has buffers. DISCARD alone and
 * all three together are invalid.
 */
#define TREADLE_F_PEEK	  (1U << 7)
#define TREADLE_F_CLAIM	  (1U << 8)
#define TREADLE_F_DISCARD (1U << 9)
/*
 * More commands follow before the doorbell. If this one is refused, the kernel reports it by an
 * error completion (and the endpoint's counter) and goes on. The reason: its caller was told
 * "queued" already. Without this flag, the doorbell returns the errno. It also does if no report is
 * possible: the command names no enabled endpoint, or is F_WORK without F_COMPLETION.
 */
#define TREADLE_F_MORE	    (1U << 10)
#define TREADLE_F_COND_CNTR (1U << 11) /* EXT: wait for counter `cond` >= threshold */
#define TREADLE_F_COND_CELL (1U << 12) /* EXT: wait until a cell is `value` */
#define TREADLE_F_NOTIFY    (1U << 13) /* EXT: count into counter `notify` */
/*
 * Deferred work: whether it succeeds or fails, this command is not reported to the endpoint's
 * counters, nor, unless F_COMPLETION is set, to its completion queue.
 */
#define TREADLE_F_WORK	     (1U << 14)
#define TREADLE_F_CNTR_ERROR (1U << 15) /* CNTR_*: the error value */
/*
 * TSEND and TRECV: a message of a space of its own, which neither plain nor tagged receives see.
 * Both ends are of type RDM. The receive names its source, ignores no bits, does not PEEK or CLAIM,
 * and goes through a transmit ring. It fails with these errors. ECONNRESET: the source endpoint was
 * closed. ECONNREFUSED: it does not exist. EHOSTUNREACH: it is not on this machine, nor on a node
 * that is reached.
 * EACCES: one of the two does not admit the other. EIO: the sender's buffer is bad (EFAULT
 * if that send is silent: ring-abi.rst).
 *
 * NOP: the end of a graph, which reports for the endpoint as a collective operation; CANCEL does
 * not find it.
 */
#define TREADLE_F_COLLECTIVE (1U << 16)
/*
 * With COND_CNTR: if the counter has counted errors when the command fires, the command is not
 * executed. It fails, with the first errno that the counter has seen. A silent TSEND with
 * F_COLLECTIVE (F_WORK without F_COMPLETION) passes that errno to its peer, and the receive there
 * fails with it. A TRECV with F_COLLECTIVE is executed all the same, as its peer sends to it.
 */
#define TREADLE_F_STRICT (1U << 17)
/*
 * ATOMIC, FETCH, COMPARE: @remote_addr is an address of this process (EIO: not mapped); no peer,
 * key or fence.
 */
#define TREADLE_F_LOCAL (1U << 18)
/*
 * With COND_CNTR and F_WORK: when the command has ended, with or without error, it is armed again,
 * for a threshold that is greater by @value. With @rest, it is not armed before that counter has
 * reached @rest_threshold, which grows by the same.
 *
 * CANCEL_WORK and FLUSH_WORK remove the command while it is armed; CANCEL_OP does while it is under
 * way. It is also removed when its endpoint is closed, and when it fails and its connection is
 * over. A failure with ECANCELED removes it, too, unless that is the errno of its counter
 * (F_STRICT). Not with F_COMPLETION, F_INJECT, F_COLLECTIVE, F_MULTI_RECV, F_PEEK and F_CLAIM.
 *
 * With COND_CELL and F_WORK, only CNTR_ADD: the counter follows the cell, which is a total that its
 * writer counts up. Each time the kernel finds the total changed, it adds the difference, modulo
 * 2^64; the first one is the difference to @value. @data, @rest and @notify are 0. CANCEL_WORK and
 * FLUSH_WORK of the cells remove the command, once they have added what was written before.
 */
#define TREADLE_F_REPEAT (1U << 19)
#define TREADLE_F_ALL	 0xfffffU

/**
 * struct treadle_iov - one local buffer
 * @addr: address in the calling process
 * @len:  bytes
 */
struct treadle_iov {
	__u64 addr;
	__u64 len;
};

/**
 * struct treadle_rma_iov - one remote range
 * @addr: offset into the region, or an address, as the region was created
 * @len:  bytes
 * @key:  the region's key
 */
struct treadle_rma_iov {
	__u64 addr;
	__u64 len;
	__u64 key;
};

/**
 * struct treadle_desc - a command: condition, operation, notification
 *
 * The first cache line is all that an ordinary send, receive or RMA needs. The second is read only
 * with TREADLE_F_EXT.
 *
 * A receive ring takes RECV and TRECV with F_COMPLETION and F_MORE, and RECV with
 * F_MULTI_RECV; other descriptors complete with EINVAL. Armed receives, and TRECV with
 * PEEK or CLAIM, go through a transmit ring.
 *
 * @opcode:	enum treadle_opcode
 * @iov_count:	local buffers, 0 to TREADLE_MAX_IOV. 0: no data. 1: @addr, @len.
 *		More: the slot of the next index holds a struct treadle_iov
 *		array, @addr is zero and @len the sum of the lengths.
 * @reserved0:	zero
 * @flags:	TREADLE_F_*
 * @context:	returned in the completion; names the command for cancel
 * @addr:	local buffer
 * @len:	bytes; at most `max_msg_size` (EMSGSIZE), except of receives
 * @peer:	index in the endpoint's address vector (its upper `rx_ctx_bits`: a receive context
 *		of that peer). It is looked up when the command is submitted, even if it is armed.
 *		For a receive: the source; TREADLE_ADDR_ANY: any source. In a receive ring it is
 *		looked up when the kernel takes the receive: at the latest when a message comes for
 *		which it may be. The vector is that of one of the endpoints that receive there: they
 *		share one
 * @tag:	tagged messages: the tag
 * @ignore:	tagged receives: bits of the tag that do not count. While receives with eight other
 *		masks are posted, at most 4096 with further masks can be; more complete with ENOSPC
 * @remote_addr: RMA, atomics: the remote range (one), see treadle_rma_iov
 * @remote_key:	RMA, atomics: its key. One range is as long as the local buffers
 * @data:	remote CQ data; CNTR_*: the value; F_MULTI_RECV: the minimum
 * @ep:		endpoint id; 0: the endpoint of the ring
 * @cond:	F_COND_CNTR: counter id. F_COND_CELL: id of the cell page
 * @threshold:	F_COND_CNTR: fire once success + error >= threshold (64-bit,
 *		unsigned). F_COND_CELL: byte offset of the cell, a multiple of 8
 * @notify:	F_NOTIFY: id of the counter that gets success + 1 (CNTR_BYTES: + the bytes), or
 *		error + 1
 * @atomic_op:	enum treadle_atomic_op, see atomic.h
 * @datatype:	enum treadle_datatype
 * @rma_iov_count: 0 or 1: @remote_addr, @remote_key. More: a slot of struct
 *		treadle_rma_iov follows the slot of local buffers, both fields are
 *		zero, and the sum of the lengths is @len
 * @fetch_iov_count: 0 or 1: @result, @compare. More: a slot for each follows (results first), both
 *		fields are zero, and the sum of each is @len
 * @result:	fetch, compare: buffer for the values before, @len bytes
 * @compare:	compare: buffer with the values to compare with, @len bytes
 * @value:	F_COND_CELL: fire once the cell has this value; with F_REPEAT: the total that was
 *		counted. F_REPEAT with F_COND_CNTR: the step of the thresholds, at least 1. Other
 *		F_WORK with F_COND_CNTR: the name by which TREADLE_CANCEL_WORK finds the command; 0:
 *		it is found by @context
 * @rest:	F_REPEAT: 0, or the id of a counter
 * @reserved1:	zero
 * @rest_threshold: F_REPEAT, with @rest: threshold of that counter before the second time
 */
struct treadle_desc {
	__u8 opcode;
	__u8 iov_count;
	__u16 reserved0;
	__u32 flags;
	__u64 context;
	__u64 addr;
	__u64 len;
	__u64 peer;
	union {
		__u64 tag;
		__u64 remote_addr;
	};
	union {
		__u64 ignore;
		__u64 remote_key;
	};
	__u64 data;
	/* second cache line: TREADLE_F_EXT */
	__u32 ep;
	__u32 cond;
	__u64 threshold;
	__u32 notify;
	__u8 atomic_op;
	__u8 datatype;
	__u8 rma_iov_count;
	__u8 fetch_iov_count;
	__u64 result;
	__u64 compare;
	__u64 value;
	__u32 rest;
	__u32 reserved1;
	__u64 rest_threshold;
};

union treadle_slot {
	struct treadle_desc desc;
	struct treadle_iov iov[TREADLE_MAX_IOV];
	struct treadle_rma_iov rma[TREADLE_MAX_RMA_IOV];
	__u8 bytes[TREADLE_SLOT_SIZE];
};

/*
 * A post needs a doorbell. Set by the kernel while it holds unmatched messages (receive ring), or
 * while no thread looks at the ring (TREADLE_TX_POLLED).
 */
#define TREADLE_RING_DOORBELL (1U << 0)
/* The ring's indices were out of range once. The ring does not work any more. */
#define TREADLE_RING_BROKEN (1U << 1)

struct treadle_ring_prod {
	__u32 prod;
	__u32 reserved[15];
};

struct treadle_ring_cons {
	__u32 released;
	__u32 flags;  /* TREADLE_RING_* */
	__u32 offers; /* RX_LANES: lanes that were ever offered to this ring; see LANE_TAKE */
	__u32 reserved[13];
};

/*
 * Completion flags: the bits of libfabric (fi_cq(3), "COMPLETION FLAGS"), so no table is needed to
 * translate them.
 */
#define TREADLE_CQ_MSG		  (1U << 1)
#define TREADLE_CQ_RMA		  (1U << 2)
#define TREADLE_CQ_TAGGED	  (1U << 3)
#define TREADLE_CQ_ATOMIC	  (1U << 4)
#define TREADLE_CQ_COLLECTIVE	  (1U << 6)
#define TREADLE_CQ_READ		  (1U << 8)
#define TREADLE_CQ_WRITE	  (1U << 9)
#define TREADLE_CQ_RECV		  (1U << 10)
#define TREADLE_CQ_SEND		  (1U << 11)
#define TREADLE_CQ_REMOTE_READ	  (1U << 12)
#define TREADLE_CQ_REMOTE_WRITE	  (1U << 13)
#define TREADLE_CQ_MULTI_RECV	  (1U << 16)
#define TREADLE_CQ_REMOTE_CQ_DATA (1U << 17)
/*
 * Not in libfabric: this entry is an error, and the next entry of the ring is its error data. Both
 * are published at once. Never set in this version.
 */
#define TREADLE_CQ_ERR_DATA (1U << 31)

/**
 * struct treadle_cqe - a completion
 * @context: of the descriptor
 * @len:     bytes placed (receive, ETRUNC included); PEEK: bytes of the message; 0 of a
 *	     send or another error
 * @data:    remote CQ data, with TREADLE_CQ_REMOTE_CQ_DATA
 * @tag:     of the message received
 * @buf:     where the data was placed (receive)
 * @src:     address-vector index of the sender, or TREADLE_ADDR_ANY
 * @flags:   TREADLE_CQ_*
 * @error:   0, or a positive errno
 * @olen:    ETRUNC: bytes that did not fit
 *
 * EADDRNOTAVAIL (with TREADLE_EP_SOURCE_ERR): a message was received, or a peer has written with
 * data, but the sender is not in the address vector. @src, @olen and @tag, or @buf instead of @tag
 * if the message is tagged, are the three words of the sender's struct treadle_addr.
 */
struct treadle_cqe {
	__u64 context;
	__u64 len;
	__u64 data;
	__u64 tag;
	__u64 buf;
	__u64 src;
	__u32 flags;
	__u32 error;
	__u64 olen;
};

/* The kernel keeps completions that did not fit: ring the doorbell of the CQ. */
#define TREADLE_CQ_OVERFLOW (1U << 0)

struct treadle_cq_prod {
	__u32 prod;
	__u32 flags;   /* TREADLE_CQ_OVERFLOW */
	__u32 signals; /* how often SIGNAL was called; see struct treadle_wait */
	__u32 reserved[13];
};

struct treadle_cq_cons {
	__u32 cons;
	__u32 reserved[15];
};

/*
 * Written by the kernel only; read each word with one 64-bit load. @changes: how often the other
 * words were added to or set, also if they did not change by it; written after them.
 */
struct treadle_cntr_page {
	__u64 success;
	__u64 error;
	__u64 changes;
	__u64 reserved[5];
};

#endif /* UAPI_TREADLE_RING_H */
