/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * treadle: the control interface of /dev/treadle
 *
 * One open file is one context: one process (mm), one table of objects, one set of limits. A
 * libfabric domain is one context. An object is a number in that table. Numbers are not used again:
 * after two billion objects there are no more (ENOSPC).
 *
 *   CQ    completion queue            CNTR  two counts, and commands armed on them
 *   AV    address vector              MR    memory region
 *   TX    transmit ring               RX    receive ring and matcher
 *   EP    endpoint: an address, bound to the objects above
 *   EQ    event queue: events of connections
 *   CELL  words in memory that start commands when they are written (cell.h)
 *   WINDOW  a map of a peer's memory (window.h)
 *   LANE  memory for small messages between two processes (lane.h)
 *
 * Life of an endpoint: EP_CREATE gives it an address; EP_ENABLE binds everything at once and for
 * good; it then sends and receives; DESTROY removes it. When DESTROY returns:
 *
 * - The endpoint's buffers are not accessed any more.
 * - Its commands and receives write no completion. But a command that has just ended may still be
 *   counted. If a receive was armed on it and the message was for another endpoint of the same
 *   RX, it may complete in the queue of that endpoint.
 * - A peer gets ECONNRESET for a message that was cut short.
 * - Receives that no message has filled stay with their RX.
 *
 * An object can't be destroyed while another one is bound to it (EBUSY).
 *
 * How to move a message: map the rings of TX, RX and CQ (ring.h), write a descriptor, advance
 * `prod`, ring TREADLE_IOC_DOORBELL, read the completions.
 *
 * How to connect two endpoints of type MSG: see connect.h.
 *
 * How to have several rings at one address (a scalable endpoint): see treadle_ep_create.
 *
 * Every structure begins with `size`, the caller's sizeof. A shorter, older structure is read as if
 * the missing fields were zero. A longer, newer one is accepted if the fields that the kernel does
 * not know are zero. Fields named `reserved` are zero. Pointers travel as __u64. Unless a line says
 * otherwise, an ioctl returns 0, or -1 and errno. An ioctl that failed has changed nothing, except
 * CANCEL: if it can't write its answer, it has canceled. All ioctls may be called from any thread
 * at any time.
 *
 * Each ioctl can be submitted through io_uring as well (IORING_OP_URING_CMD). Its number is cmd_op,
 * its argument the first eight bytes of cmd; the other eight are zero. res is its return value, or
 * -errno. Until then the structure belongs to the kernel. SIGNAL is executed when it is submitted,
 * all others by a worker. Set IOSQE_ASYNC with those: without it some kernels (6.12) read the entry
 * when it may have been used again.
 *
 * errno        means, always
 * ------------ --------------------------------------------------------------
 * EINVAL       size too small, unknown flag, reserved field set, value out of
 *              its documented range, a malformed descriptor, an id of 2^32 or more
 * E2BIG        size larger than a page, or than the kernel's with an excess that is not zero
 * ENOTTY       no such ioctl
 * ENOENT       no object with this id in this context; nothing to cancel or end; no address
 *		vector with this name, or no entry with this index; no further node
 * EBADF        the object is of another kind
 * EFAULT       a pointer in the structure is bad; a buffer is not mapped, or is
 *              mapped read-only and would be written (in a completion, too)
 * EPERM        the caller is not the process that opened the context (fork), and maps no cells
 * EACCES       the owner of the peer, or of the region, does not admit this process;
 *              the region does not grant this access; mmap with more rights than
 *              the map has; an address vector for reading only
 * EBUSY        object is in use by another one, or by an armed command; the
 *              ring, or the connection request, has an endpoint already; the
 *              scalable endpoint has a receive context with this index; the counter has a copy
 * EEXIST       memory key in use
 * EADDRINUSE   port in use
 * EADDRNOTAVAIL address is not one of this machine's, or not of a known family; in a
 *		completion: see EP_SOURCE_ERR
 * EAGAIN       no free port; nothing to report (WAIT, read of an EQ); a completion queue
 *		overflows: the caller's, or, of a write with remote CQ data, the peer's; no lane was
 *		offered (LANE_TAKE); not all pages are there (WINDOW_FILL)
 * ENOSPC       a limit of the context (QUERY; `max_windows`, `max_lanes`) or of the peer's ring
 *		(LANE_MAKE) is reached; no number is free for a connection; in the completion of a
 *		receive: see @ignore of struct treadle_desc
 * EDQUOT       the caller's user has named as many other nodes as there are numbers left
 * ENOMEM       no memory, or the memory cgroup's or locked-memory limit is reached
 * EMFILE       no free file descriptor (WAIT_FD)
 * ENFILE       no free file in the system (WAIT_FD)
 * EOPNOTSUPP   known, but not supported: ask QUERY; not for endpoints of this type; on a
 *		transmit ring F_FENCE, F_MULTI_RECV, F_PEEK, F_CLAIM or F_DISCARD of another
 *		operation; an atomic operation and datatype that don't exist or don't go together,
 *		or not with this opcode
 * EISCONN      endpoint enabled already, has an event queue, or was connected once
 * ENOTCONN     endpoint not enabled, or not connected yet
 * ESHUTDOWN    endpoint, its ring or its connection is closed or broken
 * EXDEV        no window, as it would show more than the region (WINDOW_OPEN); no lane to a process
 *		that is not open to the caller (LANE_MAKE)
 * EMSGSIZE     message longer than `max_msg_size` (of a DGRAM endpoint: than
 *              TREADLE_MAX_DGRAM), or than `inject_size` with inject
 * EDESTADDRREQ no such entry in the address vector
 * ETIMEDOUT    wait timed out
 * EINTR        wait, or long call, interrupted by a signal
 * ECANCELED    wait ended by SIGNAL or DESTROY; completion of a command that was canceled
 * ESPIPE       lseek that is no DOORBELL
 * The errors of an access, as completions have them, are also those of WINDOW_OPEN and WINDOW_FILL.
 * In completions and events (a refused command with F_MORE completes with any of the above):
 * EINVAL       the target of an atomic is not aligned, or lies in two ranges of the region
 * ENOTCONN     an armed command of a MSG endpoint fired before its connection
 * EAGAIN       armed RMA with remote CQ data: the peer's completion queue overflows by more
 *              than it holds; nothing was written
 * ETRUNC       (FI_ETRUNC, 265) the message was longer than the receive buffer
 * ECONNREFUSED no endpoint has that address, or it has no such receive context; no endpoint
 *              listens there; the connection was rejected
 * EHOSTUNREACH the address is not on this machine, and no other node is reached at it
 * ECONNRESET   the peer died or closed its endpoint (also of ACCEPT)
 * EIO          the peer's memory is not mapped, or not for that access; the peer's buffer of a
 *		message could not be read, if the message was claimed or is for a collective receive
 * ENOMSG       no message that matches waits (F_PEEK), or none was claimed (F_CLAIM)
 * EKEYREJECTED the peer has no memory region with this key for this endpoint, or it was
 *              closed, or (pinned) its range was unmapped, or (dma-buf) its exporter has
 *              moved it, before or meanwhile
 * EREMOTEIO    a remote range is not within its region
 */
#ifndef UAPI_TREADLE_IOCTL_H
#define UAPI_TREADLE_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>
#include <treadle/cell.h>
#include <treadle/connect.h>
#include <treadle/lane.h>
#include <treadle/query.h>
#include <treadle/types.h>
#include <treadle/wait.h>
#include <treadle/window.h>

#define TREADLE_DEVICE	    "/dev/treadle"
#define TREADLE_ABI_VERSION 1
#define TREADLE_ETRUNC	    265 /* FI_ETRUNC */

/* --- objects ------------------------------------------------------------- */

/**
 * struct treadle_cq_create - fi_cq(3)
 * @flags:   0
 * @entries: in: at least so many; out: rounded up to a power of two
 * @id:      out
 *
 * Completions that do not fit into the ring are kept by the kernel. They are moved into the ring
 * when the doorbell of the CQ is rung, or by the next completion. While @entries or more are kept,
 * a command that would add a completion is refused (EAGAIN); a command with F_MORE, while @entries
 * and the slots of the TX together, or more, are kept.
 */
struct treadle_cq_create {
	__u32 size;
	__u32 flags;
	__u32 entries;
	__u32 id;
	struct treadle_map ro;
	struct treadle_map rw;
};

/*
 * The success value grows by the bytes that an operation has transferred, instead of by 1. An
 * operation that moves no data leaves it unchanged. The error value grows by 1 in any case.
 *
 * Counters of the initiator, and F_NOTIFY: @len of the descriptor. A receive: the length of the
 * message; PEEK and DISCARD: 0. Counters of a peer's operations: @len of the descriptor. The
 * counter of a region: the bytes of the ranges in that region.
 */
#define TREADLE_CNTR_BYTES 1

/* struct treadle_cntr_create - fi_cntr(3). @flags: TREADLE_CNTR_*. @id, @ro: out */
struct treadle_cntr_create {
	__u32 size;
	__u32 flags;
	__u32 id;
	__u32 reserved;
	struct treadle_map ro;
};

/**
 * struct treadle_av_create - fi_av(3)
 * @flags:  TREADLE_AV_READ: open the vector with @name, which must exist (else ENOENT). Its new id
 *	    can't be used to change it (EACCES). TREADLE_AV_IDS: peers can have identifiers; only
 *	    without a name
 * @count:  expected number of peers (a hint)
 * @id:     out
 * @name, @name_size: pointer and bytes, at most TREADLE_AV_NAME; or 0. All processes of
 *	    one user in one user and network namespace share a vector by its name, with its
 *	    indices. It exists as long as one of them has it
 * @rx_ctx_bits: upper bits of `peer` in a descriptor that name a receive context of the peer
 *	    and are not part of the index; at most TREADLE_RX_CTX_BITS. All that share a name
 *	    have the same number (EINVAL). These bits are zero in the index in a completion, and
 *	    in that of a source to receive from: all contexts of a peer are one source
 */
#define TREADLE_AV_READ	    (1U << 0)
#define TREADLE_AV_IDS	    (1U << 1)
#define TREADLE_AV_NAME	    255
#define TREADLE_RX_CTX_BITS 16
struct treadle_av_create {
	__u32 size;
	__u32 flags;
	__u32 count;
	__u32 id;
	__u64 name;
	__u32 name_size;
	__u32 rx_ctx_bits;
};

/**
 * struct treadle_av_insert - add peers
 * @av:    id
 * @flags: 0
 * @count: in: addresses; out: how many were inserted. An address that is malformed, or of
 *	   an unknown family, is skipped and its index set to TREADLE_ADDR_ANY
 * @addrs: pointer to struct treadle_addr[count]
 * @out:   pointer to __u64[count]: the indices; or 0
 * @ids:   pointer to __u64[count]: identifiers that completions name the peers by (AV_IDS, else
 *	   EINVAL); or 0: completions have the index. Commands name the index in any case.
 *	   TREADLE_ADDR_ANY: completions name no source, and EP_SOURCE_ERR reports no error
 *
 * Indices count from 0 in the order of insertion. The lowest index of a removed peer is used again
 * first. Returns ENOSPC, ENOMEM, EFAULT, EINTR: @count were inserted before the error, and stay. If
 * @addrs or @ids cannot be read to their ends, none are inserted.
 */
struct treadle_av_insert {
	__u32 size;
	__u32 av;
	__u32 flags;
	__u32 count;
	__u64 addrs;
	__u64 out;
	__u64 ids;
};

/*
 * struct treadle_av_remove - indices: pointer to __u64[count]. ENOENT: an entry did not exist; the
 * others are removed. EFAULT, EINTR: the entries before the error are removed
 */
struct treadle_av_remove {
	__u32 size;
	__u32 av;
	__u32 flags;
	__u32 count;
	__u64 indices;
};

/**
 * struct treadle_av_lookup - the address of a peer
 * @addr:   out: as it was inserted
 * @flags:  out: TREADLE_PEER_HERE: it is of this machine
 * @common: out: the address of the peer's node, with the peer's port. Processes of all nodes get
 *	    the same one, however they have named the peer. Of a peer of this machine, if other
 *	    nodes don't reach it: the loopback address
 *
 * ENOENT: no such entry
 */
#define TREADLE_PEER_HERE (1U << 0)
struct treadle_av_lookup {
	__u32 size;
	__u32 av;
	__u64 index;
	struct treadle_addr addr;
	__u32 flags;
	__u32 reserved;
	struct treadle_addr common;
};

/*
 * struct treadle_av_set_id - @id: the identifier that completions name the peer at @index by from
 * now on (AV_IDS, else EINVAL). ENOENT: no such entry
 */
struct treadle_av_set_id {
	__u32 size;
	__u32 av;
	__u64 index;
	__u64 id;
};

/**
 * struct treadle_ring_create - TX_CREATE and RX_CREATE
 * @flags:    TREADLE_TX_SHARED: descriptors name their endpoint.
 *	      TREADLE_TX_POLLED: a thread of the kernel looks at the ring. A post needs a doorbell
 *	      only while TREADLE_RING_DOORBELL is set (barrier C), as at the beginning. Every
 *	      command counts as one with TREADLE_F_MORE: if it is refused, it completes with the
 *	      error. With TREADLE_F_INJECT its buffer is free when the command was taken.
 *	      Needs TREADLE_FEATURE_TX_POLLED.
 *	      TREADLE_RX_SHARED: several endpoints of type MSG may receive here. A receive belongs
 *	      to no endpoint until a message comes, so it outlives a connection. Endpoints of the
 *	      other types can share any RX.
 *	      TREADLE_RX_LANES: peers may offer lanes to the endpoint that receives here (lane.h).
 *	      There is one at a time (EP_ENABLE: EBUSY). Not with RX_SHARED
 * @entries:  in: at least so many slots; out: rounded up to a power of two
 * @buffered: RX: bytes of unexpected messages to hold (0: a default); a message takes some 300
 *	      besides its data. out: the bytes that it holds. TX: 0
 * @id:       out
 * @idle:     TX_POLLED: when no command has come for so many microseconds, the thread leaves the
 *	      ring alone and DOORBELL is set; at most TREADLE_MAX_IDLE (EINVAL). in: 0: a default;
 *	      out: the time. Without TX_POLLED: 0
 */
#define TREADLE_TX_SHARED (1U << 0)
#define TREADLE_TX_POLLED (1U << 1)
#define TREADLE_MAX_IDLE  1000000U
#define TREADLE_RX_SHARED (1U << 0)
#define TREADLE_RX_LANES  (1U << 1)
struct treadle_ring_create {
	__u32 size;
	__u32 flags;
	__u32 entries;
	__u32 buffered;
	__u32 id;
	__u32 idle;
	struct treadle_map rw;
	struct treadle_map ro;
};

/*
 * RDM: any endpoint of this type may send to any other. MSG: an endpoint sends only to the one that
 * it is connected with. DGRAM: as RDM, but a message is dropped, and its sender sees success, in
 * two cases: no endpoint at its address admits it; or it finds no posted receive, and no room in
 * what its target buffers (`buffered` of the receive context).
 * PASSIVE: an address at which MSG endpoints ask for a connection; it moves no data and is not
 * enabled.
 */
enum treadle_ep_type {
	TREADLE_EP_RDM = 1,
	TREADLE_EP_MSG = 2,
	TREADLE_EP_DGRAM = 3,
	TREADLE_EP_PASSIVE = 4,
};

#define TREADLE_MAX_DGRAM 65536 /* bytes of one message of a DGRAM endpoint */

/**
 * struct treadle_ep_create - an address, fi_endpoint(3)
 * @type:  enum treadle_ep_type
 * @flags: 0, or one of TREADLE_EP_SCALABLE, _TX_CONTEXT, _RX_CONTEXT
 * @id:    out
 * @addr:  in: where to bind; port 0: any free one. out: the address. The unspecified address
 *	   becomes that at which other nodes reach this one (`node` of QUERY), if it is of the same
 *	   family, else the loopback address
 * @auth_key, @auth_key_size: pointer and bytes. A process may send to the endpoint, or ask it
 *	   for a connection, in two cases: it presents the same key; it is of the same user in the
 *	   same user namespace
 * @request: MSG: 0, or the number of a connection request that was made to a passive endpoint of
 *	   this process, in any context: the endpoint is for ACCEPT, and shares the address of the
 *	   passive one (@addr: out only). ENOENT: no such request; EBUSY: it has an endpoint
 * @parent: of a context: the scalable endpoint, which can't be destroyed before it
 * @index: of a receive context: its number, by which peers name it; else 0
 *
 * A scalable endpoint (RDM or DGRAM) is an address and is not enabled. Its contexts are endpoints
 * that share its type, address and keys (their own fields are zero, @addr: out only). Each is
 * enabled by itself, and they are independent of each other. A transmit context sends and has no RX
 * (EINVAL). A receive context receives, is the target of peers' RMA, and has no TX (EINVAL). A peer
 * that names no index sends to the context with index 0. An endpoint that is not scalable has index
 * 0 only.
 */
#define TREADLE_EP_SCALABLE   (1U << 0)
#define TREADLE_EP_TX_CONTEXT (1U << 1)
#define TREADLE_EP_RX_CONTEXT (1U << 2)
#define TREADLE_MAX_CONTEXTS  (1U << TREADLE_RX_CTX_BITS) /* indices */
struct treadle_ep_create {
	__u32 size;
	__u32 type;
	__u32 flags;
	__u32 id;
	struct treadle_addr addr;
	__u64 auth_key;
	__u32 auth_key_size;
	__u32 request;
	__u32 parent;
	__u32 index;
};

/**
 * struct treadle_ep_enable - bind an endpoint, once
 * @ep:		id
 * @flags:	TREADLE_EP_SOURCE, _SOURCE_ERR, _RECV_COMPLETION, TREADLE_EP_NO_*
 * @tx, @rx:	rings, or 0: does not send, or receive
 * @av:		address vector, or 0: can't send (EDESTADDRREQ), nor receive from
 *		named sources, nor name the sender. MSG: 0; `peer` of its sends is ignored
 * @tx_cq, @rx_cq: completion queues, or 0
 * @cntr_*:	counters, or 0. send, recv, read, write: operations of this endpoint. remote_read,
 *		remote_write: operations of its peers on its memory. Atomics that fetch are reads,
 *		others writes. The NOP that ends a graph (F_COLLECTIVE) is a send. Receives that
 *		only look at a message or drop it (PEEK, DISCARD), and other NOPs, are not counted
 *
 * @rx_cq gets completions of receives, wherever they were posted, results of PEEK, CLAIM and
 * DISCARD, and writes with data by peers. @tx_cq gets all others.
 */
#define TREADLE_EP_SOURCE     (1U << 0) /* completions name the sender: FI_SOURCE */
#define TREADLE_EP_SOURCE_ERR (1U << 1) /* with SOURCE: an error if they can't: FI_SOURCE_ERR */
/*
 * Receives complete in @rx_cq without TREADLE_F_COMPLETION, too, unless they are F_WORK. For rings
 * that several endpoints share: at the post it is not known which of them will get the receive.
 */
#define TREADLE_EP_RECV_COMPLETION (1U << 2)
/*
 * Operations that peers may not do here, whatever a region grants (EACCES, at the peer).
 * NO_REMOTE_READ: READ and atomics that read. NO_REMOTE_WRITE: WRITE and atomics that write. (These
 * bits are those of TREADLE_ACCESS_*.) NO_RMA: READ and WRITE. NO_ATOMIC: atomics.
 */
#define TREADLE_EP_NO_REMOTE_READ  (1U << 4)
#define TREADLE_EP_NO_REMOTE_WRITE (1U << 5)
#define TREADLE_EP_NO_RMA	   (1U << 6)
#define TREADLE_EP_NO_ATOMIC	   (1U << 7)
struct treadle_ep_enable {
	__u32 size;
	__u32 ep;
	__u32 flags;
	__u32 tx;
	__u32 rx;
	__u32 av;
	__u32 tx_cq;
	__u32 rx_cq;
	__u32 cntr_send;
	__u32 cntr_recv;
	__u32 cntr_read;
	__u32 cntr_write;
	__u32 cntr_remote_read;
	__u32 cntr_remote_write;
};

#define TREADLE_MR_PINNED     (1U << 0) /* pages stay where they are, charged to RLIMIT_MEMLOCK */
#define TREADLE_MR_KERNEL_KEY (1U << 1) /* the kernel picks a random key */
#define TREADLE_MR_VIRT_ADDR  (1U << 2) /* peers name addresses, not offsets */
#define TREADLE_MR_UNMAPPED   (1U << 3) /* not PINNED: ranges need not be mapped yet */
#define TREADLE_MR_DMABUF     (1U << 4) /* a range of a dma-buf */
#define TREADLE_MAX_MR_IOV    8		/* ranges of one region */

/*
 * REMOTE_READ lets peers READ; REMOTE_WRITE lets them WRITE and ATOMIC. FETCH and COMPARE need
 * both, but TREADLE_ATOMIC_READ only the first. The others grant nothing. With RECV, READ or
 * REMOTE_WRITE the memory must be writable.
 */
#define TREADLE_ACCESS_SEND	    (1U << 0)
#define TREADLE_ACCESS_RECV	    (1U << 1)
#define TREADLE_ACCESS_READ	    (1U << 2)
#define TREADLE_ACCESS_WRITE	    (1U << 3)
#define TREADLE_ACCESS_REMOTE_READ  (1U << 4)
#define TREADLE_ACCESS_REMOTE_WRITE (1U << 5)

/**
 * struct treadle_mr_create - a memory region, fi_mr(3)
 * @flags:     TREADLE_MR_*
 * @access:    TREADLE_ACCESS_*
 * @iov_count: 1 to TREADLE_MAX_MR_IOV
 * @iov:       pointer to struct treadle_iov[iov_count], none of them empty. They must be
 *	       mapped, and writable if @access has a right to write (EFAULT). With UNMAPPED
 *	       this holds only for a range that is mapped as a whole, none of it PROT_NONE.
 *	       To peers they are one range of offsets, in this order. With VIRT_ADDR peers
 *	       name addresses in any of them, or in several that adjoin
 * @key:       in: the key, 0 with KERNEL_KEY; out, with that: the key that was picked
 * @cntr:      counts operations of peers that have written to the region, or 0: none
 * @ep:        the only endpoint by which peers reach the region (a scalable one: by its contexts),
 *	       or 0: all of the context. If it goes first, peers can't reach the region any more
 * @auth_key, @auth_key_size: as in treadle_ep_create
 * @id:        out
 * @fd:        DMABUF: file descriptor of the dma-buf. It must be readable, and writable if @access
 *	       has a right to write (EACCES). @iov is one range: an offset, and a length. The
 *	       region grants no atomics. EOPNOTSUPP: the processor does not reach its memory;
 *	       EBUSY: its exporter moves it; or what the exporter says
 * @reserved:  0
 * @base:      DMABUF and VIRT_ADDR: address of the first byte of the dma-buf, for peers
 * @addr:      out, with DMABUF: address of the range, for commands of this process. No memory of
 *	       the process is ever there
 */
struct treadle_mr_create {
	__u32 size;
	__u32 flags;
	__u32 access;
	__u32 iov_count;
	__u64 iov;
	__u64 key;
	__u32 cntr;
	__u32 ep;
	__u64 auth_key;
	__u32 auth_key_size;
	__u32 id;
	__s32 fd;
	__u32 reserved;
	__u64 base;
	__u64 addr;
};

/**
 * struct treadle_mr_bind - fi_mr_bind: what treadle_mr_create left out
 * @mr:   id
 * @cntr, @ep: as there; 0: not changed. EBUSY: the region has one already
 */
struct treadle_mr_bind {
	__u32 size;
	__u32 mr;
	__u32 flags;
	__u32 cntr;
	__u32 ep;
	__u32 reserved;
};

/*
 * struct treadle_destroy - destroy any object. EBUSY: another object is bound to it. A WAIT on it
 * ends (on a CQ or CNTR with ECANCELED), and the file of WAIT_FD stays readable
 */
struct treadle_destroy {
	__u32 size;
	__u32 id;
};

#define TREADLE_IOC_MAGIC    0xF6
#define TREADLE_IO(nr, type) _IOWR(TREADLE_IOC_MAGIC, nr, struct type)

#define TREADLE_IOC_QUERY	TREADLE_IO(0x00, treadle_query)
#define TREADLE_IOC_CQ_CREATE	TREADLE_IO(0x01, treadle_cq_create)
#define TREADLE_IOC_CNTR_CREATE TREADLE_IO(0x02, treadle_cntr_create)
#define TREADLE_IOC_AV_CREATE	TREADLE_IO(0x03, treadle_av_create)
#define TREADLE_IOC_AV_INSERT	TREADLE_IO(0x04, treadle_av_insert)
#define TREADLE_IOC_AV_REMOVE	TREADLE_IO(0x05, treadle_av_remove)
#define TREADLE_IOC_AV_LOOKUP	TREADLE_IO(0x06, treadle_av_lookup)
#define TREADLE_IOC_TX_CREATE	TREADLE_IO(0x07, treadle_ring_create)
#define TREADLE_IOC_RX_CREATE	TREADLE_IO(0x08, treadle_ring_create)
#define TREADLE_IOC_EP_CREATE	TREADLE_IO(0x09, treadle_ep_create)
#define TREADLE_IOC_EP_ENABLE	TREADLE_IO(0x0a, treadle_ep_enable)
#define TREADLE_IOC_MR_CREATE	TREADLE_IO(0x0b, treadle_mr_create)
#define TREADLE_IOC_DESTROY	TREADLE_IO(0x0c, treadle_destroy)
#define TREADLE_IOC_CANCEL	TREADLE_IO(0x0d, treadle_cancel)
#define TREADLE_IOC_WAIT	TREADLE_IO(0x0e, treadle_wait)
#define TREADLE_IOC_WAIT_FD	TREADLE_IO(0x0f, treadle_wait_fd)
#define TREADLE_IOC_EQ_CREATE	TREADLE_IO(0x10, treadle_eq_create)
#define TREADLE_IOC_EP_EQ	TREADLE_IO(0x11, treadle_ep_eq)
#define TREADLE_IOC_LISTEN	TREADLE_IO(0x12, treadle_listen)
#define TREADLE_IOC_CONNECT	TREADLE_IO(0x13, treadle_connect)
#define TREADLE_IOC_ACCEPT	TREADLE_IO(0x14, treadle_accept)
#define TREADLE_IOC_REJECT	TREADLE_IO(0x15, treadle_reject)
#define TREADLE_IOC_SHUTDOWN	TREADLE_IO(0x16, treadle_shutdown)
#define TREADLE_IOC_MR_BIND	TREADLE_IO(0x18, treadle_mr_bind)
#define TREADLE_IOC_CELL_CREATE TREADLE_IO(0x1a, treadle_cell_create)
#define TREADLE_IOC_AV_SET_ID	TREADLE_IO(0x1b, treadle_av_set_id)
#define TREADLE_IOC_WINDOW_OPEN TREADLE_IO(0x1d, treadle_window_open)
#define TREADLE_IOC_WINDOW_FILL TREADLE_IO(0x1e, treadle_window_fill)
#define TREADLE_IOC_LANE_MAKE	TREADLE_IO(0x1f, treadle_lane_make)
#define TREADLE_IOC_LANE_TAKE	TREADLE_IO(0x22, treadle_lane_take)
#define TREADLE_IOC_LANE_SOURCE TREADLE_IO(0x23, treadle_lane_source)
#define TREADLE_IOC_CNTR_COPY	TREADLE_IO(0x24, treadle_cntr_copy)

/*
 * These two take the id itself as argument, so that the data path copies nothing.
 *
 * DOORBELL of a TX: run the commands in the ring up to `prod`. Returns how many were taken; less
 * than all: a signal arrived; ring again. If a command is refused, it is dropped, the ioctl returns
 * its errno, and the commands behind it stay: ring again. If commands before it were taken in this
 * call, the call returns their count, and the next call returns the errno. Only a command with
 * F_MORE stays if it is refused with EAGAIN (the completion queue overflows by more than a ring):
 * read completions, ring again.
 *
 * DOORBELL of an RX: match what was posted; returns 0. Of a CQ: move kept completions into the
 * ring; returns 0.
 *
 * lseek(fd, id, SEEK_SET) is DOORBELL, too: the same in every respect, but a shorter way through
 * the kernel. Any other whence is ESPIPE; the file has no position.
 *
 * SIGNAL: end every WAIT on a CQ, CNTR or EQ with ECANCELED. If there is none, the next WAIT that
 * would block ends so, also with a timeout of 0. Until then, or until they are read, the files of
 * WAIT_FD are readable.
 */
#define TREADLE_IOC_DOORBELL _IO(TREADLE_IOC_MAGIC, 0x20)
#define TREADLE_IOC_SIGNAL   _IO(TREADLE_IOC_MAGIC, 0x21)

#endif /* UAPI_TREADLE_IOCTL_H */
