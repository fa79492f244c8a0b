/* SPDX-License-Identifier: GPL-2.0 */
/* The fixture of tests with commands armed on counters. */
#ifndef TREADLE_KSELFTEST_TRIGGER_H
#define TREADLE_KSELFTEST_TRIGGER_H

#include "triggers.h"

FIXTURE(trigger)
{
	struct node a, b; /* in separate contexts */
	__u64 to, back;
	struct cntr c, d, e; /* of a */
	char *src, *dst;
};

FIXTURE_SETUP(trigger)
{
	node_open(&self->a, (struct options){.tx = 1024, .cq = 1024});
	node_open(&self->b, (struct options){.tx = 256, .rx = 256, .rcq = 1024});
	self->to = peer(&self->a, self->b.addr);
	self->back = peer(&self->b, self->a.addr);
	cntr_open(&self->c, self->a.fd);
	cntr_open(&self->d, self->a.fd);
	cntr_open(&self->e, self->a.fd);
	self->src = pages(1 << 20);
	self->dst = pages(1 << 20);
}

FIXTURE_TEARDOWN(trigger)
{
	EXPECT_TRUE(nothing_is_left(&self->a, &self->b));
}

static inline int add(struct node *n, const struct cntr *c, __u64 value)
{
	return post(n, count_of(TREADLE_OP_CNTR_ADD, c, value, 0));
}

static inline int set(struct node *n, const struct cntr *c, __u64 value)
{
	return post(n, count_of(TREADLE_OP_CNTR_SET, c, value, 0));
}

#endif
