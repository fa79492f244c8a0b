/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of collective operations: messages in a space of their own, commands that fail instead
 * of going on after an error, atomics on the process's own memory, and one report at the end.
 */
#include "collective.h"

#include <treadle/atomic.h>

static struct treadle_desc end_of(__u32 ep, __u64 context)
{
	return (struct treadle_desc){.opcode = TREADLE_OP_NOP,
				     .flags = TREADLE_F_EXT | TREADLE_F_COMPLETION | COLLECTIVE,
				     .ep = ep,
				     .context = context};
}

static struct treadle_desc error_of(const struct cntr *c)
{
	return with(count_of(TREADLE_OP_CNTR_ADD, c, 1, 0), TREADLE_F_CNTR_ERROR);
}

/* A message that reports the failure replaces the failed one, and does not wait for its fence. */
TEST_F(collective, a_failure_behind_its_own_fence_is_reported)
{
	char *gone = pages(PAGE);
	struct treadle_desc d =
		with(silent(csend(gone, 64, self->to, TAG, 1)),
		     TREADLE_F_INJECT | TREADLE_F_DELIVERY_COMPLETE | TREADLE_F_FENCE);

	munmap(gone, PAGE);
	ASSERT_EQ(1, post(&self->a, then(d, &self->e)));
	EXPECT_TRUE(cntr_becomes(&self->e, 0, 1));
	ASSERT_EQ(1, post(&self->b, crecv(self->dst, 64, self->back, TAG, 2)));
	EXPECT_EQ(EFAULT, cq_next(&self->b.rcq).error);
	ASSERT_EQ(1, post(&self->b, crecv(self->dst, 64, self->back, TAG, 3)));
	ASSERT_EQ(1, post(&self->a, csend(self->src, 64, self->to, TAG, 4)));
	EXPECT_EQ(0, cq_next(&self->b.rcq).error);
	EXPECT_EQ(4, cq_next(&self->a.cq).context);
}

/* The same for an injected message behind another one's fence: its buffer is copied at once. */
TEST_F(collective, a_failure_behind_another_ones_fence_is_reported)
{
	struct treadle_desc d = with(silent(csend(pages(PAGE) + PAGE, 64, self->to, TAG, 1)),
				     TREADLE_F_INJECT | TREADLE_F_FENCE);

	ASSERT_EQ(1, post(&self->a, csend(self->src, 1 << 20, self->to, TAG + 1, 4)));
	ASSERT_EQ(1, post(&self->a, then(d, &self->e)));
	EXPECT_TRUE(cntr_becomes(&self->e, 0, 1));
	ASSERT_EQ(1, post(&self->b, crecv(self->dst, 64, self->back, TAG, 2)));
	ASSERT_EQ(1, post(&self->b, crecv(self->dst, 1 << 20, self->back, TAG + 1, 3)));
	EXPECT_EQ(3, cq_next(&self->b.rcq).context);
	EXPECT_EQ(4, cq_next(&self->a.cq).context);
	EXPECT_EQ(EFAULT, cq_next(&self->b.rcq).error);
}

/*
 * A send that waits for its receive, or for its turn, can be canceled once. The target gets an
 * error.
 */
TEST_F(collective, cancel_of_a_waiting_send_is_reported)
{
	const struct {
		__u64 len;
		__u32 flags;
		bool behind;
	} ways[] = {
		{8192, 0, false},
		{8, TREADLE_F_DELIVERY_COMPLETE, false},
		{8, TREADLE_F_DELIVERY_COMPLETE | TREADLE_F_FENCE, true},
		{8, TREADLE_F_INJECT | TREADLE_F_DELIVERY_COMPLETE | TREADLE_F_FENCE, true},
	};

	for (int i = 0; i < ARRAY_SIZE(ways); i++) {
		struct treadle_desc d =
			with(csend(self->src, ways[i].len, self->to, TAG, 5), ways[i].flags);

		about("way %d", i);
		if (ways[i].behind)
			ASSERT_EQ(1,
				  post(&self->a, csend(self->src, 1 << 20, self->to, TAG + 1, 4)));
		ASSERT_EQ(1, post(&self->a, then(silent(d), &self->e)));
		if (ways[i].flags & TREADLE_F_INJECT) {
			EXPECT_EQ(-ENOENT,
				  cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 5, 0, NULL));
			EXPECT_EQ(i, cntr_errors(&self->e));
		} else {
			EXPECT_EQ(0, cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 5, 0, NULL));
			EXPECT_EQ(-ENOENT,
				  cancel(self->a.fd, TREADLE_CANCEL_OP, self->a.ep, 5, 0, NULL));
			EXPECT_EQ(i + 1, cntr_errors(&self->e));
		}
		ASSERT_EQ(1, post(&self->b, crecv(self->dst, 8192, self->back, TAG, 6)));
		if (ways[i].behind) {
			EXPECT_TRUE(cq_empty(&self->b.rcq));
			ASSERT_EQ(1, post(&self->b,
					  crecv(self->dst, 1 << 20, self->back, TAG + 1, 3)));
			EXPECT_EQ(3, cq_next(&self->b.rcq).context);
			EXPECT_EQ(4, cq_next(&self->a.cq).context);
		}
		EXPECT_EQ(ways[i].flags & TREADLE_F_INJECT ? 0 : ECANCELED,
			  cq_next(&self->b.rcq).error);
	}
	EXPECT_TRUE(cntr_becomes(&self->e, 1, ARRAY_SIZE(ways) - 1));
	ring_wait(&self->a.tx, 64);
}

/* --- the space ------------------------------------------------------------------- */

TEST_F(collective, messages_meet_only_collective_receives)
{
	struct node *a = &self->a, *b = &self->b;
	struct treadle_cqe cqe;

	ASSERT_EQ(0, post_recv(b, trecv_of(self->dst, 64, ANY, 0, ~0ULL, 1)));
	ASSERT_EQ(0, post_recv(b, recv_of(self->dst + 64, 64, ANY, 2)));
	fill(self->src, 64, 1);
	ASSERT_EQ(1, post(a, csend(self->src, 64, self->to, TAG, 3)));
	cqe = cq_next(&a->cq); /* the message waits as a copy */
	EXPECT_EQ(3, cqe.context);
	EXPECT_EQ(TREADLE_CQ_SEND | TREADLE_CQ_COLLECTIVE, cqe.flags);
	EXPECT_TRUE(cq_empty(&b->rcq));
	/* A message of the collective space does not ask the owner of the ring for a doorbell. */
	EXPECT_FALSE(ring_needs_doorbell(&b->rx));
	ASSERT_EQ(1, post(b, crecv(self->dst + 128, 64, self->back, TAG, 4)));
	cqe = cq_next(&b->rcq);
	EXPECT_EQ(4, cqe.context);
	EXPECT_EQ(TREADLE_CQ_RECV | TREADLE_CQ_COLLECTIVE, cqe.flags);
	EXPECT_EQ(64, cqe.len);
	EXPECT_TRUE(same(self->dst + 128, 64, 1));
	/* The other messages still wait, and a collective receive does not take them. */
	ASSERT_EQ(1, post(b, crecv(self->dst + 192, 64, self->back, TAG, 5)));
	ASSERT_EQ(1, post(a, tsend_of(self->src, 64, self->to, TAG, 6)));
	EXPECT_EQ(1, cq_next(&b->rcq).context);
	ASSERT_EQ(1, post(a, send_of(self->src, 64, self->to, 7)));
	EXPECT_EQ(2, cq_next(&b->rcq).context);
	EXPECT_EQ(6, cq_next(&a->cq).context);
	EXPECT_EQ(7, cq_next(&a->cq).context);
	ASSERT_EQ(1, post(a, csend(self->src, 64, self->to, TAG, 8)));
	EXPECT_EQ(5, cq_next(&b->rcq).context);
	EXPECT_EQ(8, cq_next(&a->cq).context);
}

TEST_F(collective, tags_and_sources_are_exact)
{
	struct node third;
	__u64 there, its;

	node_open(&third, (struct options){});
	there = peer(&third, self->b.addr);
	its = peer(&self->b, third.addr);
	for (int i = 0; i < 4; i++) {
		struct node *from = i & 1 ? &third : &self->a;

		self->src[i] = i;
		ASSERT_EQ(1, post(from, csend(self->src + i, 1, i & 1 ? there : self->to,
					      TAG + (i >> 1), i)));
		EXPECT_EQ(i, cq_next(&from->cq).context);
	}
	for (int i = 3; i >= 0; i--) {
		ASSERT_EQ(1, post(&self->b, crecv(self->dst + i, 1, i & 1 ? its : self->back,
						  TAG + (i >> 1), i)));
		EXPECT_EQ(i, cq_next(&self->b.rcq).context);
		EXPECT_EQ(i, self->dst[i]);
	}
}

// conformance: ioctl.h: EOPNOTSUPP: not for endpoints of this type
TEST_F(collective, other_commands_are_refused)
{
	struct node *a = &self->a, datagrams;
	struct treadle_desc d = crecv(self->dst, 8, self->to, TAG, 1);
	__u64 there;

	d.ignore = 1;
	EXPECT_EQ(-EINVAL, post(a, d));
	EXPECT_EQ(-EINVAL, post(a, crecv(self->dst, 8, ANY, TAG, 1)));
	EXPECT_EQ(-EINVAL, post(a, with(crecv(self->dst, 8, self->to, TAG, 1), TREADLE_F_CLAIM)));
	EXPECT_EQ(-EINVAL, post(a, with(crecv(NULL, 0, self->to, TAG, 1), TREADLE_F_PEEK)));
	EXPECT_EQ(-EINVAL, post(a, with(send_of(self->src, 8, self->to, 1), COLLECTIVE)));
	EXPECT_EQ(-EINVAL, post(a, with(recv_of(self->dst, 8, self->to, 1), COLLECTIVE)));
	EXPECT_EQ(-EDESTADDRREQ, post(a, crecv(self->dst, 8, 77, TAG, 1)));
	/* A receive ring takes no collective receive. */
	ASSERT_EQ(0, post_recv(a, crecv(self->dst, 8, self->to, TAG, 1)));
	ASSERT_EQ(0, ring_doorbell(&a->rx));
	EXPECT_EQ(EINVAL, cq_next(&a->rcq).error);

	node_open(&datagrams, (struct options){.type = TREADLE_EP_DGRAM});
	there = peer(&datagrams, datagrams.addr);
	EXPECT_EQ(-EOPNOTSUPP, post(&datagrams, csend(self->src, 8, there, TAG, 1)));
	EXPECT_EQ(-EOPNOTSUPP, post(&datagrams, crecv(self->dst, 8, there, TAG, 1)));
}

/* --- errors ------------------------------------------------------------------------- */

TEST_F(collective, no_errors_are_not_an_error)
{
	struct treadle_desc nop = {.opcode = TREADLE_OP_NOP, .flags = TREADLE_F_WORK};
	struct treadle_desc none = error_of(&self->c);
	struct node *a = &self->a;

	none.data = 0;
	ASSERT_EQ(1, post(a, with(then(when(nop, &self->c, 1), &self->d), TREADLE_F_STRICT)));
	ASSERT_EQ(1, post(a, none));
	EXPECT_EQ(0, cntr_errors(&self->c));
	ASSERT_EQ(1, post(a, count_of(TREADLE_OP_CNTR_ADD, &self->c, 1, 0)));
	EXPECT_TRUE(cntr_becomes(&self->d, 1, 0));
}

TEST_F(collective, strict_commands_fail_after_an_error)
{
	struct treadle_desc nop = {.opcode = TREADLE_OP_NOP, .flags = TREADLE_F_WORK};
	struct node *a = &self->a;

	ASSERT_EQ(1, post(a, with(then(when(nop, &self->c, 2), &self->d), TREADLE_F_STRICT)));
	ASSERT_EQ(1, post(a, then(when(nop, &self->c, 2), &self->d)));
	ASSERT_EQ(1, post(a, with(when(end_of(a->ep, 7), &self->d, 2), TREADLE_F_STRICT)));
	ASSERT_EQ(1, post(a, error_of(&self->c)));
	EXPECT_EQ(0, cntr_errors(&self->d)); /* an error, too, waits for the threshold */
	ASSERT_EQ(1, post(a, count_of(TREADLE_OP_CNTR_ADD, &self->c, 1, 0)));
	EXPECT_TRUE(cntr_becomes(&self->d, 1, 1));
	EXPECT_EQ(ECANCELED, cq_next(&a->cq).error);
	EXPECT_TRUE(cntr_becomes(&a->sent, 0, 1));
	/* The flag needs a condition. */
	EXPECT_EQ(-EINVAL, post(a, with(nop, TREADLE_F_STRICT)));
	/* A counter with its errors reset fires a strict command. */
	struct treadle_desc none = error_of(&self->c);

	none.opcode = TREADLE_OP_CNTR_SET;
	none.data = 0;
	ASSERT_EQ(1, post(a, none));
	ASSERT_EQ(1, post(a, with(when(end_of(a->ep, 8), &self->c, 1), TREADLE_F_STRICT)));
	EXPECT_EQ(0, cq_next(&a->cq).error);
}

TEST_F(collective, an_error_that_is_set_is_not_the_first)
{
	struct treadle_desc more = error_of(&self->c);
	struct node *a = &self->a;

	fill(self->src, 8, 1);
	/* a send of a buffer that can't be read */
	ASSERT_EQ(1, post(a, then(send_of((void *)4096, 8, self->to, 1), &self->c)));
	EXPECT_EQ(EFAULT, cq_next(&a->cq).error);
	more.opcode = TREADLE_OP_CNTR_SET;
	more.data = 5;
	ASSERT_EQ(1, post(a, more));
	ASSERT_EQ(1, post(a, with(when(end_of(a->ep, 9), &self->c, 5), TREADLE_F_STRICT)));
	EXPECT_EQ(EFAULT, cq_next(&a->cq).error);
}

TEST_F(collective, the_first_error_is_passed_on_and_reported_to_the_peer)
{
	struct node *a = &self->a, *b = &self->b, third;
	struct treadle_desc d;
	struct treadle_cqe cqe;
	__u64 its;

	node_open(&third, (struct options){});
	its = peer(a, third.addr);
	fill(self->dst, 64, 5);
	for (int i = 0; i < 2; i++) { /* the peer's receive is posted first, then last */
		if (!i)
			ASSERT_EQ(1, post(b, crecv(self->dst, 64, self->back, TAG, 1)));
		d = then(silent(crecv(self->dst + 64, 8, its, TAG, 2)), &self->c);
		ASSERT_EQ(1, post(a, d));
		d = with(then(silent(csend(self->src, 64, self->to, TAG, 3)), &self->d),
			 TREADLE_F_STRICT);
		ASSERT_EQ(1, post(a, when(d, &self->c, 1 + i)));
		ASSERT_EQ(1,
			  post(a, with(when(end_of(a->ep, 4), &self->d, 1 + i), TREADLE_F_STRICT)));
		if (!i)
			ASSERT_EQ(0, destroy(third.fd, third.ep));
		cqe = cq_next(&a->cq);
		EXPECT_EQ(4, cqe.context);
		EXPECT_EQ(ECONNRESET, cqe.error);
		EXPECT_EQ(TREADLE_CQ_COLLECTIVE, cqe.flags);
		if (i)
			ASSERT_EQ(1, post(b, crecv(self->dst, 64, self->back, TAG, 1)));
		cqe = cq_next(&b->rcq);
		EXPECT_EQ(ECONNRESET, cqe.error);
		EXPECT_EQ(0, cqe.len);
		EXPECT_TRUE(same(self->dst, 64, 5));
	}
	EXPECT_TRUE(cq_empty(&a->cq)); /* one report of all errors */
}

TEST_F(collective, a_buffer_that_is_bad_fails_both_ends)
{
	char *hole = pages(PAGE) + PAGE;

	ASSERT_EQ(1, post(&self->b, crecv(self->dst, 8, self->back, TAG, 1)));
	ASSERT_EQ(1, post(&self->a, csend(hole, 8, self->to, TAG, 2)));
	EXPECT_EQ(EFAULT, cq_next(&self->a.cq).error);
	EXPECT_EQ(EIO, cq_next(&self->b.rcq).error);
	/* The same if the message comes first: the receive that is posted later gets the error. */
	ASSERT_EQ(1, post(&self->a, then(silent(csend(hole, 8, self->to, TAG, 2)), &self->d)));
	EXPECT_TRUE(cntr_becomes(&self->d, 0, 1));
	ASSERT_EQ(1, post(&self->b, crecv(self->dst, 8, self->back, TAG, 1)));
	EXPECT_EQ(EFAULT, cq_next(&self->b.rcq).error);
	ASSERT_EQ(1, post(&self->b, crecv(self->dst, 4, self->back, TAG, 3)));
	ASSERT_EQ(1, post(&self->a, csend(self->src, 8, self->to, TAG, 4)));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	EXPECT_EQ(TREADLE_ETRUNC, cq_next(&self->b.rcq).error);
}

TEST_F(collective, cancel_fails_commands_under_way_and_then_the_end)
{
	struct node *a = &self->a, *b = &self->b;
	struct treadle_desc d = silent(crecv(self->dst, 8, self->to, TAG, 9));

	ASSERT_EQ(1, post(a, then(d, &self->c)));
	d = with(silent(csend(self->src, 8, self->to, TAG, 9)), TREADLE_F_STRICT);
	ASSERT_EQ(1, post(a, then(when(d, &self->e, 1), &self->c)));
	ASSERT_EQ(1, post(a, with(when(end_of(a->ep, 9), &self->c, 2), TREADLE_F_STRICT)));
	/* FLUSH_WORK ends only deferred work of the application. */
	ASSERT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, 0, 0, 0, NULL));
	ASSERT_EQ(0, cancel(a->fd, TREADLE_CANCEL_OP, a->ep, 9, 0, NULL));
	EXPECT_EQ(1, cntr_errors(&self->c));
	EXPECT_TRUE(cq_empty(&a->cq));
	ASSERT_EQ(0, cancel(a->fd, TREADLE_CANCEL_OP, a->ep, 9, 0, NULL));
	EXPECT_EQ(ECANCELED, cq_next(&a->cq).error);
	EXPECT_EQ(-ENOENT, cancel(a->fd, TREADLE_CANCEL_OP, a->ep, 9, 0, NULL));
	/* The target of an armed send that is canceled gets an error. */
	ASSERT_EQ(1, post(b, crecv(self->dst, 8, self->back, TAG, 1)));
	EXPECT_EQ(ECANCELED, cq_next(&b->rcq).error);
}

TEST_F(collective, flushing_the_context_spares_graphs)
{
	struct node *a = &self->a;
	__u64 count;

	ASSERT_EQ(1, post(a, with(when(end_of(a->ep, 1), &self->c, 1),
				  TREADLE_F_STRICT | TREADLE_F_WORK)));
	ASSERT_EQ(1, post(a, with(when(end_of(a->ep, 2), &self->c, 1), TREADLE_F_WORK)));
	ASSERT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, 0, 0, 0, &count));
	EXPECT_EQ(1, count);
	ASSERT_EQ(1, post(a, count_of(TREADLE_OP_CNTR_ADD, &self->c, 1, 0)));
	EXPECT_EQ(1, cq_next(&a->cq).context);
	ASSERT_EQ(1, post(a, with(when(end_of(a->ep, 1), &self->c, 2),
				  TREADLE_F_STRICT | TREADLE_F_WORK)));
	ASSERT_EQ(0, cancel(a->fd, TREADLE_FLUSH_WORK, self->c.id, 0, 0, &count));
	EXPECT_EQ(1, count);
}

/* --- local atomics ------------------------------------------------------------------- */

static struct treadle_desc local(__u8 op, __u8 type, void *target, const void *operands, __u64 len)
{
	struct treadle_desc d = send_of(operands, len, 0, 1);

	d.opcode = TREADLE_OP_ATOMIC;
	d.flags |= TREADLE_F_EXT | TREADLE_F_LOCAL;
	d.atomic_op = op;
	d.datatype = type;
	d.remote_addr = (unsigned long)target;
	return d;
}

TEST_F(collective, local_atomics_change_the_process_itself)
{
	__u64 *target = (void *)self->dst, *operands = (void *)self->src;
	struct node *a = &self->a;
	struct treadle_desc d;
	struct treadle_cqe cqe;

	for (int n = 1; n <= 512; n *= 8) {
		for (int i = 0; i < n; i++) {
			target[i] = i;
			operands[i] = 1000 + i;
		}
		ASSERT_EQ(1, post(a, local(TREADLE_ATOMIC_SUM, TREADLE_UINT64, target, operands,
					   n * 8)));
		cqe = cq_next(&a->cq);
		EXPECT_EQ(0, cqe.error);
		EXPECT_EQ(TREADLE_CQ_WRITE | TREADLE_CQ_ATOMIC, cqe.flags);
		for (int i = 0; i < n; i++)
			ASSERT_EQ(1000 + 2 * i, target[i]);
	}
	d = local(TREADLE_ATOMIC_MAX, TREADLE_UINT64, target, operands, 8);
	d.opcode = TREADLE_OP_FETCH;
	d.result = (unsigned long)(target + 1000);
	ASSERT_EQ(1, post(a, d));
	EXPECT_EQ(0, cq_next(&a->cq).error);
	EXPECT_EQ(1000, target[1000]);
	EXPECT_TRUE(cntr_becomes(&a->sent, 0, 0));
}

TEST_F(collective, bad_local_atomics_are_refused)
{
	struct treadle_desc good =
		local(TREADLE_ATOMIC_SUM, TREADLE_UINT64, self->dst, self->src, 8);
	struct treadle_desc d = good;
	struct node *a = &self->a;
	char *hole = pages(PAGE) + PAGE, *fixed = pages(PAGE);

	d.peer = 1;
	EXPECT_EQ(-EINVAL, post(a, d));
	d = good;
	d.remote_key = 1;
	EXPECT_EQ(-EINVAL, post(a, d));
	d = good;
	d.remote_addr = -8ULL;
	EXPECT_EQ(-EINVAL, post(a, d));
	EXPECT_EQ(-EINVAL,
		  post(a, with(write_of(self->src, 8, self->to, 0, 0, 1), TREADLE_F_LOCAL)));
	d = good;
	d.remote_addr++;
	ASSERT_EQ(1, post(a, d));
	EXPECT_EQ(EINVAL, cq_next(&a->cq).error);
	d = good;
	d.remote_addr = (unsigned long)hole;
	ASSERT_EQ(1, post(a, d));
	EXPECT_EQ(EIO, cq_next(&a->cq).error);
	d.remote_addr = 1ULL << 63; /* the kernel's half */
	ASSERT_EQ(1, post(a, d));
	EXPECT_EQ(EIO, cq_next(&a->cq).error);
	fixed[0] = 5;
	need(mprotect(fixed, PAGE, PROT_READ) == 0);
	d.remote_addr = (unsigned long)fixed;
	ASSERT_EQ(1, post(a, d));
	EXPECT_EQ(EIO, cq_next(&a->cq).error);
	EXPECT_EQ(5, fixed[0]);
	d = good;
	d.addr = (unsigned long)hole;
	ASSERT_EQ(1, post(a, d));
	EXPECT_EQ(EFAULT, cq_next(&a->cq).error);
}

/* --- the end ------------------------------------------------------------------------- */

TEST_F(collective, the_end_reports_for_the_endpoint)
{
	struct treadle_desc d = end_of(self->a.ep, 5);
	struct treadle_cqe cqe;

	ASSERT_EQ(1, post(&self->a, d));
	cqe = cq_next(&self->a.cq);
	EXPECT_EQ(5, cqe.context);
	EXPECT_EQ(TREADLE_CQ_COLLECTIVE, cqe.flags);
	EXPECT_TRUE(cntr_becomes(&self->a.sent, 1, 0));
	/* A command that asks for no completion counts all the same. */
	d.flags &= ~TREADLE_F_COMPLETION;
	ASSERT_EQ(1, post(&self->a, d));
	EXPECT_TRUE(cntr_becomes(&self->a.sent, 2, 0));
	EXPECT_TRUE(cq_empty(&self->a.cq));
}

TEST_HARNESS_MAIN
