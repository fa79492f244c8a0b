/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: commands that wait for a condition (trigger.c, fire.c, poller.c) */
#ifndef TREADLE_EXEC_TRIGGER_H
#define TREADLE_EXEC_TRIGGER_H

#include "core/trigger.h"

struct treadle_cmd;
struct treadle_cntr;
struct treadle_ctx;
struct treadle_desc;
struct treadle_ep;
struct treadle_obj;
struct treadle_run;

/*
 * struct treadle_cull - which armed commands to take off; all fields have to match
 * @ep:		of this endpoint; NULL: any
 * @cond:	armed on this counter, or these cells; NULL: any
 * @work:	only deferred work and graphs
 * @lax:	no graphs (F_STRICT, F_REPEAT)
 * @over:	only what ends with the connection of @ep
 * @sides:	TREADLE_CANCEL_*: only these sides; 0: both
 * @exact:	only with @context
 * @at:		only with @threshold
 * @killable:	stop if the caller is killed
 * @context, @threshold: see @exact, @at
 * @max:	stop after so many
 * @error:	complete them with it; 0: drop them without completions
 */
struct treadle_cull {
	struct treadle_ep *ep;
	struct treadle_obj *cond;
	bool work;
	bool lax;
	bool over;
	u32 sides;
	bool exact;
	bool at;
	bool killable;
	u64 context, threshold;
	u64 max;
	int error;
};

/* trigger.c */
void treadle_arm(struct treadle_trigger *t, struct treadle_cmd *cmd, u64 key);
void treadle_cond_unbind(struct treadle_cmd *cmd);
void treadle_cond_put(struct treadle_cmd *cmd);
void treadle_cond_drop(struct treadle_cmd *cmd);
int treadle_arm_error(struct treadle_cmd *cmd);
void treadle_arm_refuse(struct treadle_cmd *cmd, int error, struct treadle_run *run);
u64 treadle_cull(struct treadle_obj *cond, const struct treadle_cull *cull,
		 struct treadle_run *run);
u64 treadle_cull_all(struct treadle_ctx *ctx, const struct treadle_cull *cull,
		     struct treadle_run *run);

/* poller.c */
void treadle_poller_init(struct treadle_ctx *ctx);
void treadle_cell_arm(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_cell_validate(const struct treadle_obj *obj, u64 offset);
void treadle_cell_disarmed(struct treadle_obj *obj, const struct treadle_desc *d);
bool treadle_cell_follow(struct treadle_cmd *cmd, struct treadle_run *run);
u64 treadle_cell_value(const struct treadle_obj *obj, const struct treadle_desc *d);

#endif
