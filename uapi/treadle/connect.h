/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* treadle: connections and event queues; part of the control interface, ioctl.h */
#ifndef UAPI_TREADLE_CONNECT_H
#define UAPI_TREADLE_CONNECT_H

#include <linux/types.h>
#include <treadle/types.h>

/*
 * fi_cm(3). A server creates a PASSIVE endpoint, gives it an EQ (EP_EQ) and calls LISTEN. A client
 * creates a MSG endpoint, gives it an EQ, enables it, and calls CONNECT with the server's address.
 * The server reads CONNREQ from its EQ. It either calls REJECT, or creates a MSG endpoint for the
 * request (EP_CREATE, `request`), gives it an EQ, enables it, and calls ACCEPT. Then both sides
 * read CONNECTED. Messages of each endpoint go to the other one only.
 *
 * A request belongs to the passive endpoint, and fails with it, until the request has an endpoint
 * of its own; then it belongs to that one. If the client goes before the CONNREQ was read, the
 * request is dropped; later, ACCEPT says ECONNRESET.
 *
 * The connection ends when either side calls SHUTDOWN, destroys its endpoint, or dies. Then, on
 * each side that still exists:
 *
 * - Commands that wait at the peer or for their turn complete: with ECANCELED where SHUTDOWN was
 *   called, with ECONNRESET on the other side. So do commands that wait for a counter or a cell,
 *   unless they are deferred work. But if the peer has claimed its message, a command completes
 *   when the message is received, or when the endpoint of the peer goes.
 * - A transfer that a worker has begun moves no more bytes from its sender once SHUTDOWN has
 *   returned, or once the event has come. It completes with ECONNRESET when the worker resumes it.
 * - Deferred work that fires later completes with ECONNRESET.
 * - Receives that no message waits for, and armed receives, complete with ECANCELED, unless the RX
 *   is shared. So do receives that are posted later.
 * - Sends are refused with ESHUTDOWN.
 * - The EQ has one SHUTDOWN event, whichever side has ended the connection.
 *
 * Messages that had been copied, or injected, before can still be received. The buffer of a receive
 * is in use until the receive completes. That may be after the event, if its page is slow or if
 * another thread of the process is in a doorbell.
 *
 * An endpoint is connected once. Events of an endpoint that is destroyed are dropped from its EQ.
 * Nothing here waits for another process.
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
 * struct treadle_ep_eq - set the EQ for an endpoint's events; MSG and PASSIVE, once
 * @eq_fd:   file of the EQ (WAIT_FD). The EQ may belong to another context of this process; the
 *	     file may be closed afterwards. EBADF: it is not the file of an EQ
 * @flags:   0
 * @context: returned in the events of the endpoint
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
 * struct treadle_listen - let a PASSIVE endpoint take connection requests
 * @backlog: how many requests may be unanswered (0: 128; at most 65536); more are refused. A later
 *	     call changes it
 * @flags:   0
 *
 * EINVAL: the endpoint has no EQ.
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
 * @data, @data_size: pointer and bytes, up to TREADLE_CM_DATA, for the CONNREQ event
 * @flags: 0
 *
 * The answer is an event: CONNECTED, or CONNREFUSED with an error: EACCES, EHOSTUNREACH or
 * ECONNREFUSED (no endpoint listens there, too many requests, rejected, the passive endpoint was
 * closed).
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
 * struct treadle_accept - accept a request, with the endpoint that was created for it
 * @ep:    MSG, created with a `request` (else EINVAL), enabled (ENOTCONN), with an EQ (EINVAL)
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
 * @ep:      the PASSIVE endpoint that got the request
 * @request: of the CONNREQ event. ENOENT: there is no such request, or it has been answered
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

/* struct treadle_shutdown - end a connection; a second call does nothing. ENOTCONN: none is up */
struct treadle_shutdown {
	__u32 size;
	__u32 ep;
	__u32 flags;
	__u32 reserved;
};

enum treadle_event_kind {
	TREADLE_EVENT_CONNREQ = 1,     /* a PASSIVE endpoint has a connection request */
	TREADLE_EVENT_CONNECTED = 2,   /* a MSG endpoint is connected */
	TREADLE_EVENT_SHUTDOWN = 3,    /* the connection has ended */
	TREADLE_EVENT_CONNREFUSED = 4, /* the request has failed */
};

/**
 * struct treadle_event - what read(2) of an EQ's file (WAIT_FD) returns, one at a time
 * @size:      bytes of this event: up to the end of its data
 * @event:     enum treadle_event_kind
 * @context:   of EP_EQ
 * @addr:      of the peer
 * @request:   CONNREQ: number of the request, for EP_CREATE or REJECT
 * @error:     CONNREFUSED: a positive errno
 * @data_size: bytes in @data, sent by the peer
 *
 * The read never blocks. EAGAIN: there is no event. EINVAL: the buffer is too short;
 * sizeof(struct treadle_event) always suffices. EFAULT: the buffer is bad. After EINVAL or EFAULT
 * the event stays. EPERM: the process is not that of the EQ. ESHUTDOWN: the EQ was destroyed.
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
