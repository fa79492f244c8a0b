/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: tracepoints, treadle:* (trace.c); Documentation/tracing.rst
 *
 * This file is read several times, see trace/define_trace.h. Exec/ and match/ fill in what commands
 * and messages are, out of line: a tracepoint that is off costs a nop.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM treadle

#ifndef TREADLE_TRACE_H
#define TREADLE_TRACE_H

#include <linux/jump_label.h>
#include <linux/types.h>

#include <treadle/ring.h>

struct treadle_ep;

/*
 * struct treadle_trace_msg - a message, or another command with a peer, as events name it
 * @msg:	its number on this node (treadle_trace_id()), which all of its events have; 0: not
 *		known, as it was sent before anything was traced
 * @ctx, @ep:	of the initiator: the number of its context, and its id there; 0, 0: another node's
 * @host, @port: of the initiator; host 0: this node
 * @peer_ctx, @peer_ep: of the target; 0, 0: not known yet, or on another node
 */
struct treadle_trace_msg {
	u32 msg;
	u32 ctx, ep;
	u16 host, port;
	u32 peer_ctx, peer_ep;
};

/* What has happened to a connection: treadle_connect. */
enum treadle_trace_conn {
	TREADLE_TRACE_ASKED,
	TREADLE_TRACE_CONNECTED,
	TREADLE_TRACE_CONN_REFUSED,
	TREADLE_TRACE_CONN_OVER,
};

u32 treadle_trace_id(void);
void treadle_trace_from(struct treadle_trace_msg *m, const struct treadle_ep *ep);
void treadle_trace_to(struct treadle_trace_msg *m, const struct treadle_ep *ep);

#ifdef CONFIG_TRACEPOINTS
int treadle_trace_copies_on(void);
void treadle_trace_copies_off(void);
DECLARE_STATIC_KEY_FALSE(treadle_traced_copies);

/* Is a copy's begin or end traced? One nop for both. */
static __always_inline bool treadle_trace_copies(void)
{
	return static_branch_unlikely(&treadle_traced_copies);
}
#else
static __always_inline bool treadle_trace_copies(void)
{
	return false;
}
#endif

#endif /* TREADLE_TRACE_H */

#if !defined(TREADLE_TRACE_EVENTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define TREADLE_TRACE_EVENTS_H

#include <linux/tracepoint.h>

#ifndef TREADLE_TRACE_OPS
#define TREADLE_TRACE_OPS                                                                          \
	{ 0, "nop" }, { 1, "send" }, { 2, "tsend" }, { 3, "recv" }, { 4, "trecv" }, { 5, "read" }, \
		{ 6, "write" }, { 7, "atomic" }, { 8, "fetch" }, { 9, "compare" },                 \
		{ 10, "cntr_set" },                                                                \
	{                                                                                          \
		11, "cntr_add"                                                                     \
	}
#endif

/* clang-format off */

#define TREADLE_MSG_FIELDS                                                                \
	__field(u32, msg)                                                                 \
	__field(u32, ctx)                                                                 \
	__field(u32, ep)                                                                  \
	__field(u16, host)                                                                \
	__field(u16, port)                                                                \
	__field(u32, peer_ctx)                                                            \
	__field(u32, peer_ep)
#define TREADLE_MSG_ASSIGN                                                                \
	__entry->msg = m->msg;                                                            \
	__entry->ctx = m->ctx;                                                            \
	__entry->ep = m->ep;                                                              \
	__entry->host = m->host;                                                          \
	__entry->port = m->port;                                                          \
	__entry->peer_ctx = m->peer_ctx;                                                  \
	__entry->peer_ep = m->peer_ep;
#define TREADLE_MSG_FORMAT "msg=%u ctx=%u ep=%u host=%u port=%u peer_ctx=%u peer_ep=%u "
#define TREADLE_MSG_VALUES                                                                \
	__entry->msg, __entry->ctx, __entry->ep, __entry->host, __entry->port,            \
		__entry->peer_ctx, __entry->peer_ep

/*
 * A command was taken from its ring. @to_host, @to_port: of its peer, if that has an address; @tag:
 * of tagged messages. @error: 0, or why it was refused
 */
TRACE_EVENT(treadle_post,
	TP_PROTO(const struct treadle_trace_msg *m, const struct treadle_desc *d, u32 to,
		 int error),
	TP_ARGS(m, d, to, error),
	TP_STRUCT__entry(
		TREADLE_MSG_FIELDS
		__field(u8, op)
		__field(u32, flags)
		__field(u64, len)
		__field(u64, tag)
		__field(u64, context)
		__field(u16, to_host)
		__field(u16, to_port)
		__field(int, error)
	),
	TP_fast_assign(
		TREADLE_MSG_ASSIGN
		__entry->op = d->opcode;
		__entry->flags = d->flags;
		__entry->len = d->len;
		__entry->tag = d->opcode == TREADLE_OP_TSEND || d->opcode == TREADLE_OP_TRECV ?
				       d->tag : 0;
		__entry->context = d->context;
		__entry->to_host = to >> 16;
		__entry->to_port = to;
		__entry->error = error;
	),
	TP_printk(TREADLE_MSG_FORMAT
		  "op=%s flags=0x%x len=%llu tag=0x%llx context=0x%llx to_host=%u "
		  "to_port=%u error=%d",
		  TREADLE_MSG_VALUES, __print_symbolic(__entry->op, TREADLE_TRACE_OPS),
		  __entry->flags, __entry->len, __entry->tag, __entry->context, __entry->to_host,
		  __entry->to_port, __entry->error)
);

/*
 * A command is armed, or was taken off its condition as that is due. @cond: the counter, or the
 * page of cells; @threshold: as in its descriptor. @error: 0, or why it is not executed
 */
DECLARE_EVENT_CLASS(treadle_armed,
	TP_PROTO(const struct treadle_trace_msg *m, const struct treadle_desc *d, u32 cond,
		 int error),
	TP_ARGS(m, d, cond, error),
	TP_STRUCT__entry(
		TREADLE_MSG_FIELDS
		__field(u8, op)
		__field(u32, cond)
		__field(u64, threshold)
		__field(int, error)
	),
	TP_fast_assign(
		TREADLE_MSG_ASSIGN
		__entry->op = d->opcode;
		__entry->cond = cond;
		__entry->threshold = d->threshold;
		__entry->error = error;
	),
	TP_printk(TREADLE_MSG_FORMAT "op=%s cond=%u threshold=%llu error=%d",
		  TREADLE_MSG_VALUES, __print_symbolic(__entry->op, TREADLE_TRACE_OPS),
		  __entry->cond, __entry->threshold, __entry->error)
);

DEFINE_EVENT(treadle_armed, treadle_arm,
	TP_PROTO(const struct treadle_trace_msg *m, const struct treadle_desc *d, u32 cond,
		 int error),
	TP_ARGS(m, d, cond, error)
);

DEFINE_EVENT(treadle_armed, treadle_fire,
	TP_PROTO(const struct treadle_trace_msg *m, const struct treadle_desc *d, u32 cond,
		 int error),
	TP_ARGS(m, d, cond, error)
);

/*
 * A message and a receive have met. @context: of the receive; @recv_len: room of its buffer.
 * @waited: the message was first
 */
TRACE_EVENT(treadle_match,
	TP_PROTO(const struct treadle_trace_msg *m, u64 len, u64 tag, u64 context,
		 u64 recv_len, bool waited),
	TP_ARGS(m, len, tag, context, recv_len, waited),
	TP_STRUCT__entry(
		TREADLE_MSG_FIELDS
		__field(u64, len)
		__field(u64, tag)
		__field(u64, context)
		__field(u64, recv_len)
		__field(u8, waited)
	),
	TP_fast_assign(
		TREADLE_MSG_ASSIGN
		__entry->len = len;
		__entry->tag = tag;
		__entry->context = context;
		__entry->recv_len = recv_len;
		__entry->waited = waited;
	),
	TP_printk(TREADLE_MSG_FORMAT
		  "len=%llu tag=0x%llx context=0x%llx recv_len=%llu waited=%u",
		  TREADLE_MSG_VALUES, __entry->len, __entry->tag, __entry->context,
		  __entry->recv_len, __entry->waited)
);

/* A message has found no receive: a copy of it waits (keep), or its command does (park). */
DECLARE_EVENT_CLASS(treadle_unexpected,
	TP_PROTO(const struct treadle_trace_msg *m, u64 len, u64 tag),
	TP_ARGS(m, len, tag),
	TP_STRUCT__entry(
		TREADLE_MSG_FIELDS
		__field(u64, len)
		__field(u64, tag)
	),
	TP_fast_assign(
		TREADLE_MSG_ASSIGN
		__entry->len = len;
		__entry->tag = tag;
	),
	TP_printk(TREADLE_MSG_FORMAT "len=%llu tag=0x%llx", TREADLE_MSG_VALUES, __entry->len,
		  __entry->tag)
);

DEFINE_EVENT(treadle_unexpected, treadle_keep,
	TP_PROTO(const struct treadle_trace_msg *m, u64 len, u64 tag),
	TP_ARGS(m, len, tag)
);

DEFINE_EVENT(treadle_unexpected, treadle_park,
	TP_PROTO(const struct treadle_trace_msg *m, u64 len, u64 tag),
	TP_ARGS(m, len, tag)
);

/*
 * A thread begins to copy a message, or to work on a target's memory. @done: bytes of @len that are
 * done. @worker: it is a worker's thread
 */
TRACE_EVENT_FN(treadle_copy_begin,
	TP_PROTO(const struct treadle_trace_msg *m, u8 op, u64 len, u64 done, bool worker),
	TP_ARGS(m, op, len, done, worker),
	TP_STRUCT__entry(
		TREADLE_MSG_FIELDS
		__field(u8, op)
		__field(u64, len)
		__field(u64, done)
		__field(u8, worker)
	),
	TP_fast_assign(
		TREADLE_MSG_ASSIGN
		__entry->op = op;
		__entry->len = len;
		__entry->done = done;
		__entry->worker = worker;
	),
	TP_printk(TREADLE_MSG_FORMAT "op=%s len=%llu done=%llu worker=%u", TREADLE_MSG_VALUES,
		  __print_symbolic(__entry->op, TREADLE_TRACE_OPS), __entry->len, __entry->done,
		  __entry->worker),
	treadle_trace_copies_on, treadle_trace_copies_off
);

/* It has ended. @error: 0: all is done; -EAGAIN: a worker goes on; else why it has failed */
TRACE_EVENT_FN(treadle_copy_end,
	TP_PROTO(const struct treadle_trace_msg *m, u8 op, u64 len, int error),
	TP_ARGS(m, op, len, error),
	TP_STRUCT__entry(
		TREADLE_MSG_FIELDS
		__field(u8, op)
		__field(u64, len)
		__field(int, error)
	),
	TP_fast_assign(
		TREADLE_MSG_ASSIGN
		__entry->op = op;
		__entry->len = len;
		__entry->error = error;
	),
	TP_printk(TREADLE_MSG_FORMAT "op=%s len=%llu error=%d", TREADLE_MSG_VALUES,
		  __print_symbolic(__entry->op, TREADLE_TRACE_OPS), __entry->len, __entry->error),
	treadle_trace_copies_on, treadle_trace_copies_off
);

/*
 * A page is not in memory, or may not be used without its owner. @ctx: of the memory. @msg: for
 * which it is needed, or 0
 */
TRACE_EVENT(treadle_page_wait,
	TP_PROTO(u32 msg, u32 ctx, u64 addr, bool write),
	TP_ARGS(msg, ctx, addr, write),
	TP_STRUCT__entry(
		__field(u32, msg)
		__field(u32, ctx)
		__field(u64, addr)
		__field(u8, write)
	),
	TP_fast_assign(
		__entry->msg = msg;
		__entry->ctx = ctx;
		__entry->addr = addr;
		__entry->write = write;
	),
	TP_printk("msg=%u ctx=%u addr=0x%llx write=%u", __entry->msg, __entry->ctx, __entry->addr,
		  __entry->write)
);

/*
 * A command has ended, or a receive (@op: recv or trecv). Of a receive, peer_ctx and peer_ep are
 * its own endpoint, the rest is the message's. @error: 0 or -errno
 */
TRACE_EVENT(treadle_complete,
	TP_PROTO(const struct treadle_trace_msg *m, u8 op, u64 len, u64 context, int error),
	TP_ARGS(m, op, len, context, error),
	TP_STRUCT__entry(
		TREADLE_MSG_FIELDS
		__field(u8, op)
		__field(u64, len)
		__field(u64, context)
		__field(int, error)
	),
	TP_fast_assign(
		TREADLE_MSG_ASSIGN
		__entry->op = op;
		__entry->len = len;
		__entry->context = context;
		__entry->error = error;
	),
	TP_printk(TREADLE_MSG_FORMAT "op=%s len=%llu context=0x%llx error=%d",
		  TREADLE_MSG_VALUES, __print_symbolic(__entry->op, TREADLE_TRACE_OPS),
		  __entry->len, __entry->context, __entry->error)
);

/*
 * A command goes to another node, or has come from one. @session and @reference are the same on
 * both nodes, while the command is under way; reference 0: a datagram
 */
DECLARE_EVENT_CLASS(treadle_remote,
	TP_PROTO(const struct treadle_trace_msg *m, u8 op, u64 len, u32 to, u64 session,
		 u32 reference),
	TP_ARGS(m, op, len, to, session, reference),
	TP_STRUCT__entry(
		TREADLE_MSG_FIELDS
		__field(u8, op)
		__field(u64, len)
		__field(u16, to_host)
		__field(u16, to_port)
		__field(u64, session)
		__field(u32, reference)
	),
	TP_fast_assign(
		TREADLE_MSG_ASSIGN
		__entry->op = op;
		__entry->len = len;
		__entry->to_host = to >> 16;
		__entry->to_port = to;
		__entry->session = session;
		__entry->reference = reference;
	),
	TP_printk(TREADLE_MSG_FORMAT
		  "op=%s len=%llu to_host=%u to_port=%u session=0x%llx reference=0x%x",
		  TREADLE_MSG_VALUES, __print_symbolic(__entry->op, TREADLE_TRACE_OPS),
		  __entry->len, __entry->to_host, __entry->to_port, __entry->session,
		  __entry->reference)
);

DEFINE_EVENT(treadle_remote, treadle_remote_send,
	TP_PROTO(const struct treadle_trace_msg *m, u8 op, u64 len, u32 to, u64 session,
		 u32 reference),
	TP_ARGS(m, op, len, to, session, reference)
);

DEFINE_EVENT(treadle_remote, treadle_remote_arrive,
	TP_PROTO(const struct treadle_trace_msg *m, u8 op, u64 len, u32 to, u64 session,
		 u32 reference),
	TP_ARGS(m, op, len, to, session, reference)
);

/*
 * A connection. @ctx, @ep: the asker; @peer_ctx, @peer_ep: the accepter; 0, 0: on another node, or
 * there is none. @host: the other node, or 0. @error: why it is refused
 */
TRACE_EVENT(treadle_connect,
	TP_PROTO(const struct treadle_trace_msg *m, u16 host, u32 what, int error),
	TP_ARGS(m, host, what, error),
	TP_STRUCT__entry(
		__field(u32, ctx)
		__field(u32, ep)
		__field(u32, peer_ctx)
		__field(u32, peer_ep)
		__field(u16, host)
		__field(u8, what)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->ctx = m->ctx;
		__entry->ep = m->ep;
		__entry->peer_ctx = m->peer_ctx;
		__entry->peer_ep = m->peer_ep;
		__entry->host = host;
		__entry->what = what;
		__entry->error = error;
	),
	TP_printk("ctx=%u ep=%u peer_ctx=%u peer_ep=%u host=%u what=%s error=%d", __entry->ctx,
		  __entry->ep, __entry->peer_ctx, __entry->peer_ep, __entry->host,
		  __print_symbolic(__entry->what, { 0, "asked" }, { 1, "connected" },
				   { 2, "refused" }, { 3, "over" }),
		  __entry->error)
);

/*
 * Another node. peer_up: a session with it begins; peer_down: it has ended, with @error; link_down:
 * its link is lost, and the session goes on if there is another one in time: then reconnect follows
 */
DECLARE_EVENT_CLASS(treadle_peer,
	TP_PROTO(u16 host, u64 session, int error),
	TP_ARGS(host, session, error),
	TP_STRUCT__entry(
		__field(u16, host)
		__field(u64, session)
		__field(int, error)
	),
	TP_fast_assign(
		__entry->host = host;
		__entry->session = session;
		__entry->error = error;
	),
	TP_printk("host=%u session=0x%llx error=%d", __entry->host, __entry->session,
		  __entry->error)
);

DEFINE_EVENT(treadle_peer, treadle_peer_up,
	TP_PROTO(u16 host, u64 session, int error), TP_ARGS(host, session, error));
DEFINE_EVENT(treadle_peer, treadle_peer_down,
	TP_PROTO(u16 host, u64 session, int error), TP_ARGS(host, session, error));
DEFINE_EVENT(treadle_peer, treadle_link_down,
	TP_PROTO(u16 host, u64 session, int error), TP_ARGS(host, session, error));
DEFINE_EVENT(treadle_peer, treadle_reconnect,
	TP_PROTO(u16 host, u64 session, int error), TP_ARGS(host, session, error));

/* clang-format on */

#endif /* TREADLE_TRACE_EVENTS_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH core
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
