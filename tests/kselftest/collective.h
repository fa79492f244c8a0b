/* SPDX-License-Identifier: GPL-2.0 */
/* Two endpoints, and commands of the space of collective messages. */
#ifndef TREADLE_KSELFTEST_COLLECTIVE_H
#define TREADLE_KSELFTEST_COLLECTIVE_H

#include "treadle.h"

#define COLLECTIVE TREADLE_F_COLLECTIVE
#define TAG	   0x1234567890abcdefULL

FIXTURE(collective)
{
	struct node a, b; /* in separate contexts */
	__u64 to, back;
	struct cntr c, d, e; /* of a */
	struct cntr f;	     /* of b */
	char *src, *dst;
};

FIXTURE_SETUP(collective)
{
	node_open(&self->a, (struct options){});
	node_open(&self->b, (struct options){});
	self->to = peer(&self->a, self->b.addr);
	self->back = peer(&self->b, self->a.addr);
	cntr_open(&self->c, self->a.fd);
	cntr_open(&self->d, self->a.fd);
	cntr_open(&self->e, self->a.fd);
	cntr_open(&self->f, self->b.fd);
	self->src = pages(1 << 20);
	self->dst = pages(1 << 20);
}

FIXTURE_TEARDOWN(collective)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->a.rcq));
	EXPECT_TRUE(cq_empty(&self->b.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
}

static inline struct treadle_desc with(struct treadle_desc d, __u32 flags)
{
	d.flags |= flags;
	return d;
}

static inline struct treadle_desc csend(const void *buf, __u64 len, __u64 to, __u64 tag,
					__u64 context)
{
	return with(tsend_of(buf, len, to, tag, context), COLLECTIVE);
}

static inline struct treadle_desc crecv(void *buf, __u64 len, __u64 from, __u64 tag, __u64 context)
{
	return with(trecv_of(buf, len, from, tag, 0, context), COLLECTIVE);
}

/* Its end is counted, and reported in no completion. */
static inline struct treadle_desc silent(struct treadle_desc d)
{
	d.flags |= TREADLE_F_WORK;
	d.flags &= ~TREADLE_F_COMPLETION;
	return d;
}

#endif
