/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Commands armed on counters that never fire: canceled, flushed, refused, or gone with their
 * endpoint.
 */
#include "trigger.h"

TEST_F(trigger, work_is_canceled_by_counter_threshold_and_context)
{
	struct node *a = &self->a;
	__u64 count;

	for (int i = 0; i < 12; i++) {
		struct treadle_desc d = count_of(TREADLE_OP_CNTR_ADD, &self->d, 1 << i, i % 3);

		ASSERT_EQ(1, post(a, when(d, &self->c, 1 + i / 6)));
	}
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 3, 1, &count));
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 1, 3, &count));
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_WORK, self->d.id, 1, 1, &count));
	EXPECT_EQ(0, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 1, 2, &count));
	EXPECT_LT(0, count);
	while (cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 1, 2, NULL) == 0)
		;
	/* Commands with context 1 and threshold 2 have the numbers 7 and 10. */
	ASSERT_EQ(1, add(a, &self->c, 2));
	EXPECT_TRUE(cntr_becomes(&self->d, 0xfff & ~(1 << 7 | 1 << 10), 0));
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 0, 1, &count));
}

/*
 * Commands may have the same counter, threshold and context. A name of their own identifies them.
 */
TEST_F(trigger, work_is_canceled_by_its_name)
{
	struct node *a = &self->a;

	for (int i = 0; i < 3; i++) {
		struct treadle_desc d =
			when(count_of(TREADLE_OP_CNTR_ADD, &self->d, 1 << i, 7), &self->c, 1);

		d.value = i < 2 ? 100 + i : 0;
		ASSERT_EQ(1, post(a, d));
	}
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 102, 1, NULL));
	EXPECT_EQ(0, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 101, 1, NULL));
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 101, 1, NULL));
	EXPECT_EQ(0, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 7, 1, NULL));
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 7, 1, NULL));
	ASSERT_EQ(1, add(a, &self->c, 1));
	EXPECT_TRUE(cntr_becomes(&self->d, 1, 0));
}

/* No completion and no counter could report the error. */
TEST_F(trigger, silent_work_is_refused_by_the_doorbell)
{
	struct treadle_desc d = send_of(self->src, 8, 77, 1);

	d.flags = TREADLE_F_WORK | TREADLE_F_MORE;
	EXPECT_EQ(-EDESTADDRREQ, post(&self->a, then(when(d, &self->c, 1), &self->d)));
	EXPECT_EQ(0, cntr_errors(&self->d));
	EXPECT_EQ(self->a.tx.entries, ring_room(&self->a.tx));
}

/*
 * Nor can an error be reported for a command that names no endpoint, or one without a queue and
 * counter.
 */
TEST_F(trigger, a_command_without_a_report_is_refused_by_the_doorbell)
{
	struct treadle_desc d = send_of(self->src, 8, 77, 1);
	struct node *a = &self->a, deaf;
	struct treadle_ep_enable e;

	d.flags |= TREADLE_F_MORE | TREADLE_F_EXT;
	d.ep = 12345;
	EXPECT_EQ(-ENOENT, post(a, d));
	d.ep = self->c.id;
	EXPECT_EQ(-EBADF, post(a, d));
	node_create(&deaf, (struct options){});
	e = node_bindings(&deaf);
	e.tx_cq = e.cntr_send = 0;
	ASSERT_EQ(0, call(deaf.fd, TREADLE_IOC_EP_ENABLE, &e));
	d.ep = 0;
	EXPECT_EQ(-EDESTADDRREQ, post(&deaf, d));
	EXPECT_TRUE(cq_empty(&a->cq));
	EXPECT_EQ(0, cntr_errors(&a->sent));
	EXPECT_EQ(a->tx.entries, ring_room(&a->tx));
}

/* Nor by name: CANCEL_OP is for commands with a completion. */
TEST_F(trigger, other_commands_are_not_canceled_as_work)
{
	struct node *a = &self->a;
	struct treadle_desc d = when(nop(5), &self->c, 1);
	__u64 count;

	d.flags |= TREADLE_F_STRICT;
	ASSERT_EQ(1, post(a, d));
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 5, 1, NULL));
	d.flags |= TREADLE_F_WORK;
	ASSERT_EQ(1, post(a, d));
	EXPECT_EQ(0, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 5, 1, NULL));
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_WORK, self->c.id, 5, 1, NULL));
	EXPECT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, self->c.id, 0, 0, &count));
	EXPECT_EQ(1, count);
	EXPECT_TRUE(cq_empty(&a->cq));
}

TEST_F(trigger, flush_takes_work_only)
{
	struct node *a = &self->a;
	__u64 count;

	EXPECT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, self->c.id, 0, 0, &count));
	EXPECT_EQ(0, count);
	for (int i = 0; i < 100; i++) {
		struct treadle_desc d = count_of(TREADLE_OP_CNTR_ADD, &self->d, 1, 0);

		ASSERT_EQ(1, post(a, when(d, i < 30 ? &self->c : &self->d, 1000 + i)));
	}
	ASSERT_EQ(1, post(a, when(nop(5), &self->c, 1010)));
	EXPECT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, self->c.id, 0, 0, &count));
	EXPECT_EQ(30, count);
	EXPECT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, 0, 0, 0, &count));
	EXPECT_EQ(70, count);
	EXPECT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, 0, 0, 0, &count));
	EXPECT_EQ(0, count);
	ASSERT_EQ(1, add(a, &self->d, 5000));
	ASSERT_EQ(1, add(a, &self->c, 5000));
	EXPECT_EQ(5, cq_next(&a->cq).context);
	EXPECT_EQ(5000, cntr_value(&self->d));
}

// conformance: ioctl.h: EBUSY: in use by an armed command
// conformance: triggers.rst: bad input: a counter is closed under armed work
TEST_F(trigger, a_counter_with_armed_commands_is_busy)
{
	struct node *a = &self->a;
	struct treadle_desc d = count_of(TREADLE_OP_CNTR_ADD, &self->d, 1, 0);
	struct treadle_desc nothing = {.opcode = TREADLE_OP_NOP, .flags = TREADLE_F_WORK};
	struct cntr e;

	cntr_open(&e, a->fd);
	/* They wait for one counter, add to the second, and report to the third. */
	ASSERT_EQ(1, post(a, when(d, &self->c, 1)));
	ASSERT_EQ(1, post(a, then(when(nothing, &self->c, 1), &e)));
	EXPECT_EQ(-EBUSY, destroy(a->fd, self->c.id));
	EXPECT_EQ(-EBUSY, destroy(a->fd, self->d.id));
	EXPECT_EQ(-EBUSY, destroy(a->fd, e.id));
	ASSERT_EQ(1, add(a, &self->c, 1));
	EXPECT_TRUE(cntr_becomes(&self->d, 1, 0));
	EXPECT_TRUE(cntr_becomes(&e, 1, 0));
	EXPECT_EQ(0, destroy(a->fd, self->c.id));
	EXPECT_EQ(0, destroy(a->fd, self->d.id));
	EXPECT_EQ(0, destroy(a->fd, e.id));
}

/* Commands armed for an endpoint go with it, and leave the counters free. */
// conformance: triggers.rst: bad input: an endpoint is closed
TEST_F(trigger, an_endpoint_closes_under_armed_commands)
{
	struct node *a = &self->a, n;

	node_open(&n, (struct options){.context = a->fd, .cq = 1024});
	peer(&n, self->b.addr);
	for (int i = 0; i < 100; i++) {
		struct treadle_desc d = send_of(self->src, 8, 0, i);

		if (i & 1)
			d.flags = TREADLE_F_WORK;
		ASSERT_EQ(1, post(&n, then(when(d, &self->c, 1 + i % 7), &self->d)));
		ASSERT_EQ(1, post(&n, when(recv_of(self->dst, 8, ANY, i), &self->c, 1 + i % 7)));
	}
	EXPECT_EQ(0, destroy(a->fd, n.ep));
	ASSERT_EQ(1, add(a, &self->c, 100));
	EXPECT_TRUE(cq_empty(&self->b.rcq));
	EXPECT_FALSE(ring_needs_doorbell(&self->b.rx));
	EXPECT_EQ(0, cntr_value(&self->d));
	EXPECT_EQ(0, destroy(a->fd, self->c.id));
	EXPECT_EQ(0, destroy(a->fd, self->d.id));
	EXPECT_EQ(0, destroy(a->fd, n.tx.id));
	EXPECT_EQ(0, destroy(a->fd, n.rx.id));
}

TEST_HARNESS_MAIN
