/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the tests of RMA: a accesses the memory of b, and b is passive. */
#ifndef TREADLE_KSELFTEST_RMA_H
#define TREADLE_KSELFTEST_RMA_H

#include "treadle.h"

#define LARGE (4UL << 20) /* more than a doorbell copies */
#define BOTH  (TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE)

FIXTURE(rma)
{
	struct node a, b;
	__u64 to, key;
	__u32 region;
	char *here, *there;
	struct cntr reads, writes, remote_reads, remote_writes;
};

typedef FIXTURE_DATA(rma) rma;

FIXTURE_SETUP(rma)
{
	struct treadle_ep_enable e;

	node_create(&self->a, (struct options){});
	node_create(&self->b, (struct options){.rcq = 8, .flags = TREADLE_EP_SOURCE});
	cntr_open(&self->reads, self->a.fd);
	cntr_open(&self->writes, self->a.fd);
	cntr_open(&self->remote_reads, self->b.fd);
	cntr_open(&self->remote_writes, self->b.fd);
	e = node_bindings(&self->a);
	e.cntr_read = self->reads.id;
	e.cntr_write = self->writes.id;
	ASSERT_EQ(0, call(self->a.fd, TREADLE_IOC_EP_ENABLE, &e));
	e = node_bindings(&self->b);
	e.flags = TREADLE_EP_SOURCE;
	e.cntr_remote_read = self->remote_reads.id;
	e.cntr_remote_write = self->remote_writes.id;
	ASSERT_EQ(0, call(self->b.fd, TREADLE_IOC_EP_ENABLE, &e));
	self->to = peer(&self->a, self->b.addr);
	self->here = pages(LARGE);
	self->there = pages(LARGE);
	self->key = 77;
	ASSERT_EQ(0, mr(self->b.fd, self->there, LARGE, BOTH, 0, &self->key, &self->region));
}

FIXTURE_TEARDOWN(rma)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	EXPECT_TRUE(cq_empty(&self->b.cq));
	close(self->a.fd);
	close(self->b.fd);
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

static inline int writes(rma *self, const void *buf, __u64 len, __u64 at)
{
	return outcome(&self->a, write_of(buf, len, self->to, at, self->key, at));
}

static inline int reads(rma *self, void *buf, __u64 len, __u64 at)
{
	return outcome(&self->a, read_of(buf, len, self->to, at, self->key, at));
}

/* The command with remote ranges instead of one, and with several buffers if there is @iov. */
static inline int post_ranges(struct node *n, struct treadle_desc d, const struct treadle_iov *iov,
			      const struct treadle_rma_iov *range, int count)
{
	union treadle_slot slot = {0};

	d.flags |= TREADLE_F_EXT;
	d.rma_iov_count = count;
	d.remote_addr = d.remote_key = 0;
	ring_wait(&n->tx, 3);
	ring_put(&n->tx, &d);
	if (d.iov_count > 1) {
		memcpy(slot.iov, iov, d.iov_count * sizeof(*iov));
		ring_put(&n->tx, &slot);
	}
	memcpy(slot.rma, range, count * sizeof(*range));
	if (count > 1)
		ring_put(&n->tx, &slot);
	ring_publish(&n->tx);
	return ring_doorbell(&n->tx);
}

#endif
