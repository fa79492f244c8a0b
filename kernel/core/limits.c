// SPDX-License-Identifier: GPL-2.0
/* treadle: limits, as parameters of the module */
#include <linux/log2.h>
#include <linux/module.h>

#include "core/limits.h"

/*
 * Limits of one context; max_cq, max_av, max_ring and max_buffered are limits of one object.
 * Read-only after load, so that an answer to QUERY stays true.
 */
unsigned int treadle_max_objects = 65536;
module_param_named(max_objects, treadle_max_objects, uint, 0444);
MODULE_PARM_DESC(max_objects, "objects of one context");
unsigned int treadle_max_ring = 1 << 18;
module_param_named(max_ring, treadle_max_ring, uint, 0444);
MODULE_PARM_DESC(max_ring, "slots of one descriptor ring");
unsigned int treadle_max_cq = 1 << 20;
module_param_named(max_cq, treadle_max_cq, uint, 0444);
MODULE_PARM_DESC(max_cq, "entries of one completion ring");
unsigned int treadle_max_av = 1 << 24;
module_param_named(max_av, treadle_max_av, uint, 0444);
MODULE_PARM_DESC(max_av, "peers of one address vector");
unsigned int treadle_max_armed = 1 << 24;
module_param_named(max_armed, treadle_max_armed, uint, 0444);
MODULE_PARM_DESC(max_armed, "commands armed in one context");
unsigned int treadle_max_buffered = 64 << 20;
module_param_named(max_buffered, treadle_max_buffered, uint, 0444);
MODULE_PARM_DESC(max_buffered, "bytes of unexpected messages that one receive ring may keep");

unsigned int treadle_max_windows = 4096;
module_param_named(max_windows, treadle_max_windows, uint, 0444);
MODULE_PARM_DESC(max_windows, "windows of one context");

unsigned int treadle_max_lanes = 256;
module_param_named(max_lanes, treadle_max_lanes, uint, 0444);
MODULE_PARM_DESC(max_lanes, "lanes that a context sends by, and lanes of a receive ring");

bool treadle_direct = true;
module_param_named(direct, treadle_direct, bool, 0644);
MODULE_PARM_DESC(direct, "let processes open windows on the memory of peers, and lanes to peers");

/*
 * A ring has 32 entries or more, and a power of two of them. Round the limit down to such a number:
 * QUERY must not report a limit that no ring can have. 0 or -EINVAL.
 */
static int __init ring_limit(unsigned int *limit)
{
	if (*limit < 32)
		return -EINVAL;
	*limit = rounddown_pow_of_two(*limit);
	return 0;
}

/**
 * treadle_limits_init() - correct or refuse the limits that the administrator has set
 *
 * Context: module load, before the first context.
 * Return: 0 or -EINVAL.
 */
int __init treadle_limits_init(void)
{
	int ret = ring_limit(&treadle_max_ring) ?: ring_limit(&treadle_max_cq);

	if (ret)
		pr_err("treadle: max_ring and max_cq are 32 or more\n");
	return ret;
}
