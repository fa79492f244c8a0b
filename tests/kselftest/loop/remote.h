/* SPDX-License-Identifier: GPL-2.0 */
/* Two nodes with an endpoint each: a on the first one, b on the second one, with a region. */
#ifndef TREADLE_KSELFTEST_REMOTE_H
#define TREADLE_KSELFTEST_REMOTE_H

#include "loop.h"
#include "../cred.h"

#include <treadle/atomic.h>

#define LARGE	(4UL << 20)
#define TRUSTED "secret=of-tests trust_uids peer_timeout=4"

FIXTURE(remote)
{
	struct node a, b;
	__u64 to, back, key;
	char *src, *dst;
	struct cntr written; /* in b's region */
};

FIXTURE_SETUP(remote)
{
	struct treadle_ep_enable e;
	__u32 region;
	int fd;

	join(TRUSTED, TRUSTED);
	node_of(1, &self->a, (struct options){.tx = 256, .cq = 1024});
	fd = device_of(2);
	node_create(&self->b,
		    (struct options){.context = fd, .addr = at(2), .rx = 256, .rcq = 1024});
	cntr_open(&self->written, fd);
	e = node_bindings(&self->b);
	e.flags = TREADLE_EP_SOURCE;
	e.cntr_remote_write = self->written.id;
	ASSERT_EQ(0, call(fd, TREADLE_IOC_EP_ENABLE, &e));
	self->to = peer(&self->a, self->b.addr);
	self->back = peer(&self->b, self->a.addr);
	self->src = pages(LARGE);
	self->dst = pages(LARGE);
	ASSERT_EQ(0,
		  mr(fd, self->dst, LARGE, TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE,
		     TREADLE_MR_KERNEL_KEY, &self->key, &region));
}

FIXTURE_TEARDOWN(remote)
{
	EXPECT_EQ(0, loop("off"));
	EXPECT_TRUE(cq_empty(&self->a.cq) && cq_empty(&self->a.rcq));
	EXPECT_TRUE(cq_empty(&self->b.cq) && cq_empty(&self->b.rcq));
	close(self->a.fd);
	close(self->b.fd);
	part();
}

/* The error in the completion of a command. */
static inline int outcome(struct node *n, struct treadle_desc d)
{
	struct treadle_cqe c;

	need(post(n, d) == 1);
	c = cq_next(&n->cq);
	need(c.context == d.context);
	return c.error;
}

#endif
