/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters of bytes: fi_cntr(3), FI_CNTR_EVENTS_BYTES. a exchanges messages with b and accesses its
 * memory.
 */
// conformance: fi_cntr(3): FI_CNTR_EVENTS_BYTES (2.x): the bytes of operations that succeed, 1 ...

#include "treadle.h"

#include <treadle/atomic.h>

#define LARGE (4UL << 20) /* more than a doorbell copies */
#define BOTH  (TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE)

FIXTURE(bytes)
{
	struct node a, b;
	__u64 to, key;
	char *here, *there;
	struct cntr sent, reads, writes;		   /* of a */
	struct cntr received, remote_reads, remote_writes; /* of b */
};

typedef FIXTURE_DATA(bytes) bytes;

FIXTURE_SETUP(bytes)
{
	struct treadle_ep_enable e;
	__u32 region;

	node_create(&self->a, (struct options){});
	node_create(&self->b, (struct options){});
	cntr_open_as(&self->sent, self->a.fd, TREADLE_CNTR_BYTES);
	cntr_open_as(&self->reads, self->a.fd, TREADLE_CNTR_BYTES);
	cntr_open_as(&self->writes, self->a.fd, TREADLE_CNTR_BYTES);
	cntr_open_as(&self->received, self->b.fd, TREADLE_CNTR_BYTES);
	cntr_open_as(&self->remote_reads, self->b.fd, TREADLE_CNTR_BYTES);
	cntr_open_as(&self->remote_writes, self->b.fd, TREADLE_CNTR_BYTES);
	e = node_bindings(&self->a);
	e.cntr_send = self->sent.id;
	e.cntr_read = self->reads.id;
	e.cntr_write = self->writes.id;
	ASSERT_EQ(0, call(self->a.fd, TREADLE_IOC_EP_ENABLE, &e));
	e = node_bindings(&self->b);
	e.cntr_recv = self->received.id;
	e.cntr_remote_read = self->remote_reads.id;
	e.cntr_remote_write = self->remote_writes.id;
	ASSERT_EQ(0, call(self->b.fd, TREADLE_IOC_EP_ENABLE, &e));
	self->to = peer(&self->a, self->b.addr);
	self->here = pages(LARGE);
	self->there = pages(LARGE);
	self->key = 7;
	ASSERT_EQ(0, mr(self->b.fd, self->there, LARGE, BOTH, 0, &self->key, &region));
}

FIXTURE_TEARDOWN(bytes)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	close(self->a.fd);
	close(self->b.fd);
}

/* The error in the completion of a command. */
static int outcome(bytes *self, struct treadle_desc d)
{
	need(post(&self->a, d) == 1);
	return cq_next(&self->a.cq).error;
}

static int sends(bytes *self, __u64 len)
{
	return outcome(self, send_of(self->here, len, self->to, 0));
}

static int writes(bytes *self, __u64 len)
{
	return outcome(self, write_of(self->here, len, self->to, 0, self->key, 0));
}

static int reads(bytes *self, __u64 len)
{
	return outcome(self, read_of(self->here, len, self->to, 0, self->key, 0));
}

static struct treadle_desc atomic_of(bytes *self, __u8 opcode, __u8 op, __u64 len)
{
	struct treadle_desc d = write_of(self->here, len, self->to, 0, self->key, 0);

	d.opcode = opcode;
	d.flags |= TREADLE_F_EXT;
	d.atomic_op = op;
	d.datatype = TREADLE_UINT64;
	if (opcode != TREADLE_OP_ATOMIC)
		d.result = (unsigned long)self->here + PAGE;
	if (opcode == TREADLE_OP_COMPARE)
		d.compare = (unsigned long)self->here + 2 * PAGE;
	if (op == TREADLE_ATOMIC_READ) {
		d.iov_count = 0;
		d.addr = 0;
	}
	return d;
}

/*
 * Each way of delivery: the message meets its receive, or waits as a copy, or waits at its sender.
 */
TEST_F(bytes, of_messages_both_sides_count_the_length)
{
	static const __u64 lengths[] = {8, 0, 1, 5000, LARGE};
	struct treadle_desc d;
	__u64 sum = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(lengths); i++) {
		for (int way = 0; way < 3; way++) {
			about("%llu bytes, way %d", lengths[i], way);
			d = send_of(self->here, lengths[i], self->to, 0);
			if (way == 2)
				d.flags |= TREADLE_F_DELIVERY_COMPLETE;
			if (way)
				ASSERT_EQ(1, post(&self->a, d));
			post_recv(&self->b, recv_of(self->there, LARGE, ANY, 0));
			if (!way)
				ASSERT_EQ(1, post(&self->a, d));
			EXPECT_EQ(0, cq_next(&self->a.cq).error);
			EXPECT_EQ(0, cq_next(&self->b.rcq).error);
			sum += lengths[i];
			EXPECT_TRUE(cntr_becomes(&self->sent, sum, 0));
			EXPECT_TRUE(cntr_becomes(&self->received, sum, 0));
		}
	}
}

TEST_F(bytes, an_error_counts_one)
{
	/* a message longer than its buffer counts as sent, not as received */
	post_recv(&self->b, recv_of(self->there, 10, ANY, 0));
	EXPECT_EQ(0, sends(self, 100));
	EXPECT_EQ(TREADLE_ETRUNC, cq_next(&self->b.rcq).error);
	EXPECT_TRUE(cntr_becomes(&self->received, 0, 1));
	EXPECT_TRUE(cntr_becomes(&self->sent, 100, 0));
	self->key++;
	EXPECT_EQ(EKEYREJECTED, writes(self, 1000));
	EXPECT_EQ(EKEYREJECTED, reads(self, 1000));
	EXPECT_TRUE(cntr_becomes(&self->writes, 0, 1));
	EXPECT_TRUE(cntr_becomes(&self->reads, 0, 1));
	EXPECT_TRUE(cntr_becomes(&self->remote_writes, 0, 0));
	EXPECT_TRUE(cntr_becomes(&self->remote_reads, 0, 0));
}

TEST_F(bytes, a_receive_of_several_messages_counts_each)
{
	struct treadle_desc d = recv_of(self->there, 3000, ANY, 9);
	struct cntr own;

	cntr_open_as(&own, self->b.fd, TREADLE_CNTR_BYTES);
	d.flags |= TREADLE_F_MULTI_RECV | TREADLE_F_WORK;
	d.data = 1000;
	/* through the transmit ring, with a counter of its own; only that one counts */
	ASSERT_EQ(1, post(&self->b, then(d, &own)));
	EXPECT_EQ(0, sends(self, 1000));
	EXPECT_TRUE(cntr_becomes(&own, 1000, 0));
	EXPECT_EQ(0, sends(self, 0));
	EXPECT_EQ(0, sends(self, 1500));
	EXPECT_TRUE(cntr_becomes(&own, 2500, 0));
	EXPECT_EQ(0, cntr_value(&self->received));
	d.flags &= ~TREADLE_F_WORK;
	post_recv(&self->b, d);
	EXPECT_EQ(0, sends(self, 900));
	EXPECT_EQ(0, sends(self, 1200));
	EXPECT_TRUE(cntr_becomes(&self->received, 2100, 0));
	EXPECT_TRUE(cntr_becomes(&own, 2500, 0));
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(0, cq_next(&self->b.rcq).error);
}

TEST_F(bytes, peeked_and_discarded_messages_do_not_count)
{
	struct treadle_desc d = trecv_of(NULL, 0, ANY, 1, 0, 0);
	struct cntr own;

	cntr_open_as(&own, self->b.fd, TREADLE_CNTR_BYTES);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(1, post(&self->a, tsend_of(self->here, 100, self->to, 1, 0)));
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	d.flags |= TREADLE_F_PEEK;
	ASSERT_EQ(1, post(&self->b, then(d, &own)));
	EXPECT_EQ(100, cq_next(&self->b.rcq).len);
	d.flags |= TREADLE_F_DISCARD;
	ASSERT_EQ(1, post(&self->b, then(d, &own)));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_EQ(0, cntr_value(&self->received) + cntr_value(&own));
	d = trecv_of(NULL, 0, ANY, 1, 0, 0);
	d.flags |= TREADLE_F_PEEK | TREADLE_F_CLAIM;
	ASSERT_EQ(1, post(&self->b, then(d, &own)));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_EQ(0, cntr_value(&self->received) + cntr_value(&own));
	d = trecv_of(self->there, 200, ANY, 1, 0, 0);
	d.flags |= TREADLE_F_CLAIM;
	ASSERT_EQ(1, post(&self->b, then(d, &own)));
	EXPECT_EQ(100, cq_next(&self->b.rcq).len);
	EXPECT_TRUE(cntr_becomes(&self->received, 100, 0));
	EXPECT_TRUE(cntr_becomes(&own, 100, 0));
	EXPECT_TRUE(cntr_becomes(&self->sent, 200, 0));
}

TEST_F(bytes, of_reads_and_writes_both_sides_count_the_length)
{
	static const __u64 lengths[] = {8, 0, 5000, LARGE};
	__u64 sum = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(lengths); i++) {
		about("%llu bytes", lengths[i]);
		EXPECT_EQ(0, writes(self, lengths[i]));
		EXPECT_EQ(0, reads(self, lengths[i]));
		sum += lengths[i];
		EXPECT_TRUE(cntr_becomes(&self->writes, sum, 0));
		EXPECT_TRUE(cntr_becomes(&self->reads, sum, 0));
		EXPECT_TRUE(cntr_becomes(&self->remote_writes, sum, 0));
		EXPECT_TRUE(cntr_becomes(&self->remote_reads, sum, 0));
	}
	EXPECT_EQ(0, cntr_value(&self->sent) + cntr_value(&self->received));
}

TEST_F(bytes, atomics_count_their_elements_once)
{
	const __u8 fetch = TREADLE_OP_FETCH, compare = TREADLE_OP_COMPARE;
	__u64 sum;

	EXPECT_EQ(0, outcome(self, atomic_of(self, TREADLE_OP_ATOMIC, TREADLE_ATOMIC_SUM, 8)));
	EXPECT_EQ(0, outcome(self, atomic_of(self, TREADLE_OP_ATOMIC, TREADLE_ATOMIC_SUM, 800)));
	EXPECT_TRUE(cntr_becomes(&self->writes, 808, 0));
	EXPECT_TRUE(cntr_becomes(&self->remote_writes, 808, 0));
	EXPECT_EQ(0, outcome(self, atomic_of(self, fetch, TREADLE_ATOMIC_SUM, sum = 8)));
	EXPECT_EQ(0, outcome(self, atomic_of(self, fetch, TREADLE_ATOMIC_SUM, 800)));
	EXPECT_EQ(0, outcome(self, atomic_of(self, fetch, TREADLE_ATOMIC_READ, 80)));
	EXPECT_EQ(0, outcome(self, atomic_of(self, compare, TREADLE_ATOMIC_CSWAP, 16)));
	sum += 800 + 80 + 16;
	EXPECT_TRUE(cntr_becomes(&self->reads, sum, 0));
	EXPECT_TRUE(cntr_becomes(&self->remote_reads, sum, 0));
}

TEST_F(bytes, a_region_counts_the_ranges_there)
{
	__u64 keys[2] = {20, 21};
	struct cntr counters[2];
	union treadle_slot slot = {0};
	struct treadle_desc d;

	for (int i = 0; i < 2; i++) {
		struct treadle_mr_bind bind = {.size = sizeof(bind)};

		cntr_open_as(&counters[i], self->b.fd, TREADLE_CNTR_BYTES);
		ASSERT_EQ(0, mr(self->b.fd, self->there + i * PAGE, PAGE, BOTH, 0, &keys[i],
				&bind.mr));
		bind.cntr = counters[i].id;
		ASSERT_EQ(0, call(self->b.fd, TREADLE_IOC_MR_BIND, &bind));
	}
	d = write_of(self->here, 160, self->to, 0, 0, 0);
	d.flags |= TREADLE_F_EXT;
	d.rma_iov_count = 3;
	slot.rma[0] = (struct treadle_rma_iov){0, 100, keys[0]};
	slot.rma[1] = (struct treadle_rma_iov){0, 20, keys[1]};
	slot.rma[2] = (struct treadle_rma_iov){200, 40, keys[0]};
	ring_wait(&self->a.tx, 2);
	ring_put(&self->a.tx, &d);
	ring_put(&self->a.tx, &slot);
	ring_publish(&self->a.tx);
	ASSERT_EQ(1, ring_doorbell(&self->a.tx));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	EXPECT_TRUE(cntr_becomes(&counters[0], 140, 0));
	EXPECT_TRUE(cntr_becomes(&counters[1], 20, 0));
	EXPECT_TRUE(cntr_becomes(&self->remote_writes, 160, 0));
	self->key = keys[1];
	EXPECT_EQ(0, writes(self, 30));
	EXPECT_EQ(0, reads(self, 30));
	EXPECT_TRUE(cntr_becomes(&counters[1], 50, 0));
}

/*
 * Adding bytes may step over a threshold, and a repeating command may be armed for a value that has
 * passed.
 */
TEST_F(bytes, thresholds_are_of_bytes)
{
	struct cntr fired, own;
	struct treadle_desc d;

	cntr_open(&fired, self->a.fd);
	cntr_open_as(&own, self->a.fd, TREADLE_CNTR_BYTES);
	ASSERT_EQ(1, post(&self->a,
			  when(count_of(TREADLE_OP_CNTR_ADD, &fired, 1, 0), &self->writes, 1000)));
	d = write_of(self->here, 64, self->to, 0, self->key, 0);
	d.flags = TREADLE_F_WORK | TREADLE_F_REPEAT;
	d = then(when(d, &self->writes, 1000), &own);
	d.value = 1000;
	ASSERT_EQ(1, post(&self->a, d));
	EXPECT_EQ(0, writes(self, 999));
	EXPECT_EQ(0, writes(self, 0));
	EXPECT_EQ(0, cntr_value(&fired) + cntr_value(&own));
	EXPECT_EQ(0, writes(self, 2500));
	EXPECT_TRUE(cntr_becomes(&fired, 1, 0));
	EXPECT_TRUE(cntr_becomes(&own, 3 * 64, 0));
	EXPECT_TRUE(cntr_becomes(&self->writes, 3499, 0));
	/* commands change the counter by their operand */
	ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_SET, &own, 1ULL << 40, 0)));
	ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_ADD, &own, 5, 0)));
	EXPECT_EQ((1ULL << 40) + 5, cntr_value(&own));
	EXPECT_EQ(0, cntr_wait(&own, 1ULL << 40, 0, 0));
	EXPECT_EQ(-EAGAIN, cntr_wait(&own, 1ULL << 41, 0, 0));
	cancel(self->a.fd, TREADLE_CANCEL_WORK, self->writes.id, 0, 1000, NULL);
}

/* The length is kept although a kept completion overlays the field that it was read from. */
TEST_F(bytes, a_completion_that_is_kept_leaves_the_length)
{
	struct cntr own;
	__u64 sum = 0;

	cntr_open_as(&own, self->a.fd, TREADLE_CNTR_BYTES);
	for (unsigned int i = 1; i <= self->a.cq.entries + 8; i++) {
		struct treadle_desc d = write_of(self->here, i, self->to, 0, self->key, 0);

		ASSERT_EQ(1, post(&self->a, then(when(d, &self->sent, 0), &own)));
		sum += i;
	}
	EXPECT_TRUE(cntr_becomes(&own, sum, 0));
	EXPECT_TRUE(cntr_becomes(&self->writes, sum, 0));
	for (unsigned int i = 1; i <= self->a.cq.entries + 8; i++)
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
}

TEST_HARNESS_MAIN
