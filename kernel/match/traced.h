/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: tracepoints of messages (traced.c)
 *
 * Each call is under trace_NAME_enabled(), so that a tracepoint that is off costs a nop.
 */
#ifndef TREADLE_MATCH_TRACED_H
#define TREADLE_MATCH_TRACED_H

#include "exec/traced.h"
#include "match/receive.h"

void treadle_trace_match(struct treadle_msg *msg, bool waited);
void treadle_trace_unexpected(struct treadle_msg *msg);
void treadle_trace_msg_begin(struct treadle_msg *msg, struct treadle_trace_msg *m, bool worker);
void treadle_trace_msg_end(const struct treadle_trace_msg *m, u8 space, u64 len, int error);
void treadle_trace_received(const struct treadle_recv *recv, const struct treadle_ep *ep,
			    const struct treadle_msg *msg, int error);

#endif
