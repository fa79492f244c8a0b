/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* treadle: connections and event queues; part of the control interface, ioctl.h */
#ifndef UAPI_TREADLE_CONNECT_H
#define UAPI_TREADLE_CONNECT_H

#include <linux/types.h>
#include <treadle/types.h>

/*
 * fi_cm(3). A server makes a PASSIVE endpoint, gives it an EQ (EP_EQ) and calls
 * LISTEN. A client makes a MSG endpoint, gives it an EQ, enables it, and calls
 * CONNECT with the server's address. The server reads CONNREQ from its EQ and
 * either calls REJECT, or makes a MSG endpoint for the request (EP_CREATE,
 * `request`), gives it an EQ, enables it, and calls ACCEPT. Now both read
 * CONNECTED, and each one's messages go to the other one, and to nobody else.
 *
 * A request belongs to the passive endpoint, and fails with it, until it has an
 * endpoint of its own; then to that one. A client that goes takes its request
 * along if the CONNREQ was not read yet; else ACCEPT says ECONNRESET.
 *
 * The connection ends when either side calls SHUTDOWN, destroys its endpoint, or
 * dies. Then, on each side that is still there: commands that wait at the peer,
 * for their turn or, if they are no deferred work, for a counter or a cell, complete
 * with ECANCELED where SHUTDOWN was called and ECONNRESET on the other side (one whose
 * message the peer has claimed: when that is received, or its endpoint goes); what a
 * worker is in the midst of moves no more bytes from its sender when SHUTDOWN returns, or the
 * event has come, and completes with ECONNRESET when the worker comes to it, as does deferred work that
 * fires later; receives
 * that no message waits for, and armed ones, complete with ECANCELED (unless the RX is
 * shared), and so do those posted later; sends are refused with ESHUTDOWN;
 * and the EQ has one SHUTDOWN event, whoever began. Messages that had been
 * copied, or injected, before can still be received: the buffer of a receive is in use
 * until that completes, which may be after the event if its page is slow, or if another
 * thread of the process is in a doorbell.
 *
 * An endpoint is connected once. Events of an endpoint that is destroyed are
 * dropped from its EQ. Nothing here waits for another process.
 */
#define TREADLE_CM_DATA 256 /* bytes that may go with a request or its answer */

/* struct treadle_eq_create - fi_eq(3). @flags: 0. @id: out */
struct treadle_eq_create {
	__u32 size;
	__u32 flags;
	__u32 id;
	__u32 reserved;
};

/**
 * struct treadle_ep_eq - where an endpoint's events go; MSG and PASSIVE, once
 * @eq_fd:   file of the EQ (WAIT_FD), which may belong to another context of this
 *	     process; it may be closed afterwards. EBADF: it is no such file
 * @flags:   0
 * @context: returned in its events
 *
 * The EQ can't be destroyed before the endpoint.
 */
struct treadle_ep_eq {
	__u32 size;
	__u32 ep;
	__s32 eq_fd;
	__u32 flags;
	__u64 context;
};

/**
 * struct treadle_listen - let a PASSIVE endpoint be asked for connections
 * @backlog: how many requests may be unanswered (0: 128; at most 65536); more are
 *	     refused. May be called again to change it
 * @flags:   0
 *
 * EINVAL: it has no EQ.
 */
struct treadle_listen {
	__u32 size;
	__u32 ep;
	__u32 backlog;
	__u32 flags;
};

/**
 * struct treadle_connect - ask for a connection, once
 * @ep:    MSG, enabled (ENOTCONN), with an EQ (EINVAL)
 * @addr:  of a passive endpoint
 * @data, @data_size: pointer and bytes, up to TREADLE_CM_DATA, for its CONNREQ
 * @flags: 0
 *
 * The answer is an event: CONNECTED, or CONNREFUSED with an error: ECONNREFUSED
 * (nobody listens there, too many requests, rejected, the passive endpoint was
 * closed), EACCES, EHOSTUNREACH.
 */
struct treadle_connect {
	__u32 size;
	__u32 ep;
	struct treadle_addr addr;
	__u64 data;
	__u32 data_size;
	__u32 flags;
};

/**
 * struct treadle_accept - answer a request with the endpoint that is for it
 * @ep:    MSG, created with a `request` (else EINVAL), enabled (ENOTCONN), with an
 *	   EQ (EINVAL)
 * @data, @data_size: for the client's CONNECTED event
 * @flags: 0
 *
 * ECONNRESET: the client has gone, or the request was rejected meanwhile.
 */
struct treadle_accept {
	__u32 size;
	__u32 ep;
	__u64 data;
	__u32 data_size;
	__u32 flags;
};

/**
 * struct treadle_reject - refuse a request
 * @ep:      the PASSIVE endpoint that was asked
 * @request: of the CONNREQ event. ENOENT: no such one, or it has been answered
 * @data, @data_size: for the client's CONNREFUSED event
 * @flags:   0
 */
struct treadle_reject {
	__u32 size;
	__u32 ep;
	__u32 request;
	__u32 data_size;
	__u64 data;
	__u32 flags;
	__u32 reserved;
};

/* struct treadle_shutdown - end a connection; again: nothing. ENOTCONN: it is not connected */
struct treadle_shutdown {
	__u32 size;
	__u32 ep;
	__u32 flags;
	__u32 reserved;
};

enum treadle_event_kind {
	TREADLE_EVENT_CONNREQ = 1,     /* a PASSIVE endpoint is asked */
	TREADLE_EVENT_CONNECTED = 2,   /* a MSG endpoint is connected */
	TREADLE_EVENT_SHUTDOWN = 3,    /* it is no more */
	TREADLE_EVENT_CONNREFUSED = 4, /* it will not be */
};

/**
 * struct treadle_event - what read(2) of an EQ's file (WAIT_FD) returns, one at a time
 * @size:      bytes of this event: up to the end of its data
 * @event:     enum treadle_event_kind
 * @context:   of EP_EQ
 * @addr:      of the peer
 * @request:   CONNREQ: number of the request, for EP_CREATE or REJECT
 * @error:     CONNREFUSED: a positive errno
 * @data_size: bytes in @data, that the peer sent along
 *
 * The read never blocks: EAGAIN: there is no event; EINVAL: the buffer is too
 * short (one of sizeof(struct treadle_event) never is), EFAULT: in both cases the
 * event stays. EPERM: another process than that of the EQ. ESHUTDOWN: the EQ was
 * destroyed.
 */
struct treadle_event {
	__u32 size;
	__u32 event;
	__u64 context;
	struct treadle_addr addr;
	__u32 request;
	__u32 error;
	__u32 data_size;
	__u32 reserved0;
	__u64 reserved1[2];
	__u8 data[TREADLE_CM_DATA];
};

#endif /* UAPI_TREADLE_CONNECT_H */
