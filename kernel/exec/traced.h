/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: tracepoints of commands (traced.c)
 *
 * Each call is under trace_NAME_enabled(), so that a tracepoint that is off costs a nop.
 */
#ifndef TREADLE_TRACED_H
#define TREADLE_TRACED_H

#include "core/trace.h"
#include "exec/command.h"

u32 treadle_cmd_id(struct treadle_cmd *cmd);
void treadle_trace_cmd(struct treadle_trace_msg *m, struct treadle_cmd *cmd);
void treadle_trace_post(struct treadle_cmd *cmd, int error);
void treadle_trace_arm(struct treadle_cmd *cmd);
void treadle_trace_fire(struct treadle_cmd *cmd, u32 cond, int error);
void treadle_trace_complete(struct treadle_cmd *cmd, int error);
void treadle_trace_copy_begin(struct treadle_cmd *cmd, const struct treadle_ep *to, u64 done,
			      bool worker);
void treadle_trace_copy_end(struct treadle_cmd *cmd, const struct treadle_ep *to, int error);

#endif
