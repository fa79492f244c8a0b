/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: lanes (lane.c) */
#ifndef TREADLE_PATH_LANE_H
#define TREADLE_PATH_LANE_H

#include "core/object.h"

struct treadle_rx;

void treadle_lanes_end(struct treadle_rx *rx);

int treadle_ioc_lane_make(struct treadle_ucmd *u);
int treadle_ioc_lane_take(struct treadle_ucmd *u);
int treadle_ioc_lane_source(struct treadle_ucmd *u);

#endif
