/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: lanes (lane.c) */
#ifndef TREADLE_PATH_LANE_H
#define TREADLE_PATH_LANE_H

#include "core/object.h"

struct treadle_rx;

/*
 * struct treadle_lane_info - an end of a lane, as it is shown: see Documentation/treadle.yaml
 * @in: the end of the receiver, with the ring @id; else of the sender, with the endpoint @id
 */
struct treadle_lane_info {
	bool in, open, closed;
	u32 id, source, waiting;
};

void treadle_lane_describe(struct treadle_obj *obj, struct treadle_lane_info *info);
void treadle_lanes_end(struct treadle_rx *rx);

int treadle_ioc_lane_make(struct treadle_ucmd *u);
int treadle_ioc_lane_take(struct treadle_ucmd *u);
int treadle_ioc_lane_source(struct treadle_ucmd *u);

#endif
