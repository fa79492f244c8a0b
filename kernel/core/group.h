/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: moving kernel threads into a control group (group.c) */
#ifndef TREADLE_GROUP_H
#define TREADLE_GROUP_H

#include <linux/types.h>

struct pid;
struct task_struct;

u64 treadle_group_of(struct pid *pid, u64 none);
int treadle_group_enter(struct task_struct *task, u64 group);

#endif
