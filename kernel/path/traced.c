// SPDX-License-Identifier: GPL-2.0
/* treadle: what tracepoints say of commands that go to other nodes, and come from there */
#include "path/remote.h"

/* The same number on both nodes. */
static u64 session_id(const struct treadle_session *s)
{
	return le64_to_cpu(s->ids[0] ^ s->ids[1]);
}

/**
 * treadle_trace_sent() - treadle_remote_send
 * @s:   the session
 * @cmd: the command, with its reference if it has an answer
 *
 * Context: s->lock held.
 */
void treadle_trace_sent(const struct treadle_session *s, struct treadle_cmd *cmd)
{
	struct treadle_trace_msg m;

	lockdep_assert_held(&s->lock);
	treadle_trace_cmd(&m, cmd);
	trace_treadle_remote_send(&m, cmd->d.opcode, cmd->d.len, treadle_dest_source(cmd->dest),
				  session_id(s), cmd->sent ? cmd->reference : 0);
}

/**
 * treadle_trace_arrived() - treadle_remote_arrive
 * @s:   the session
 * @cmd: the command of a proxy, before it is executed
 *
 * Context: arrivals of the session.
 */
void treadle_trace_arrived(const struct treadle_session *s, struct treadle_cmd *cmd)
{
	struct treadle_trace_msg m;

	treadle_trace_cmd(&m, cmd);
	trace_treadle_remote_arrive(&m, cmd->d.opcode, cmd->d.len, treadle_dest_source(cmd->dest),
				    session_id(s), cmd->d.context);
}
