/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: counters as netlink attributes (counters.c) */
#ifndef TREADLE_COUNTERS_H
#define TREADLE_COUNTERS_H

#include "core/endpoint.h"

struct net;
struct sk_buff;

/*
 * struct treadle_counted - what was counted for an object, a context or the module
 * @n:			the words, by enum treadle_stat
 * @parked_now, @parked_most: of endpoints; of several ones the sum, and the largest
 * @armed_now:		commands that are armed
 * @endpoints:		of a context
 */
struct treadle_counted {
	u64 n[TREADLE_STATS];
	u64 parked_now, parked_most, armed_now;
	u32 endpoints;
};

void treadle_count_endpoint(struct treadle_ep *ep, struct treadle_counted *counted);
void treadle_count_region(struct treadle_obj *mr, struct treadle_counted *counted);
void treadle_count_context(struct treadle_ctx *ctx, struct treadle_counted *counted);
u32 treadle_count_net(struct net *net, bool all,
		      bool (*sees)(const void *reader, struct treadle_ctx *), const void *reader,
		      struct treadle_counted *counted);
int treadle_put_counters(struct sk_buff *skb, int attr, const struct treadle_counted *counted);

#endif
