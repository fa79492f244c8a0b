// SPDX-License-Identifier: GPL-2.0
/* treadle: what tracepoints say of messages and receives */
#include "match/traced.h"

/* Name a message. Without its sender's command, it has kept that one's name. */
static void name(struct treadle_trace_msg *m, const struct treadle_msg *msg)
{
	if (msg->cmd) {
		treadle_trace_cmd(m, msg->cmd);
	} else {
		m->msg = msg->from.id;
		m->ctx = msg->from.ctx;
		m->ep = msg->from.ep;
		m->host = treadle_source_host(msg->source);
		m->port = treadle_source_port(msg->source);
	}
	treadle_trace_to(m, msg->to);
}

static u8 opcode(u8 space)
{
	return space == TREADLE_PLAIN ? TREADLE_OP_SEND : TREADLE_OP_TSEND;
}

/**
 * treadle_trace_match() - treadle_match
 * @msg:    the message, with its receive
 * @waited: the message has waited for the receive
 *
 * Context: any.
 */
void treadle_trace_match(struct treadle_msg *msg, bool waited)
{
	const struct treadle_recv *recv = msg->recv;
	struct treadle_trace_msg m;

	name(&m, msg);
	trace_treadle_match(&m, msg->len, msg->m.tag, recv->context, recv->one.len, waited);
}

/**
 * treadle_trace_unexpected() - treadle_keep or treadle_park
 * @msg: the message; with a command, it is parked
 *
 * Context: any.
 */
void treadle_trace_unexpected(struct treadle_msg *msg)
{
	struct treadle_trace_msg m;

	name(&m, msg);
	if (msg->cmd)
		trace_treadle_park(&m, msg->len, msg->m.tag);
	else
		trace_treadle_keep(&m, msg->len, msg->m.tag);
}

/**
 * treadle_trace_msg_begin() - treadle_copy_begin, of a message
 * @msg:    the message
 * @m:      set, for treadle_trace_msg_end(): @msg may be gone then
 * @worker: a worker copies
 *
 * Context: any.
 */
void treadle_trace_msg_begin(struct treadle_msg *msg, struct treadle_trace_msg *m, bool worker)
{
	name(m, msg);
	trace_treadle_copy_begin(m, opcode(msg->space), msg->len, msg->done, worker);
}

/**
 * treadle_trace_msg_end() - treadle_copy_end, of a message
 * @m:     as treadle_trace_msg_begin() has set it
 * @space: of the message
 * @len:   of the message
 * @error: 0, or what treadle_copy_end has
 *
 * Context: any.
 */
void treadle_trace_msg_end(const struct treadle_trace_msg *m, u8 space, u64 len, int error)
{
	trace_treadle_copy_end(m, opcode(space), len, error);
}

/**
 * treadle_trace_received() - treadle_complete, of a receive
 * @recv:  the receive
 * @ep:    its endpoint
 * @msg:   the message, or NULL
 * @error: 0, or why it has failed
 *
 * Context: any.
 */
void treadle_trace_received(const struct treadle_recv *recv, const struct treadle_ep *ep,
			    const struct treadle_msg *msg, int error)
{
	u8 op = recv->space == TREADLE_PLAIN ? TREADLE_OP_RECV : TREADLE_OP_TRECV;
	struct treadle_trace_msg m = {};

	if (msg)
		name(&m, msg);
	treadle_trace_to(&m, ep);
	trace_treadle_complete(&m, op, msg ? msg->len : 0, recv->context, error);
}
