/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A doorbell runs as many armed commands of its process as its budget allows, and leaves the rest
 * to a worker. Copied bytes, page faults and atomics are charged to the budget.
 *
 * Here the context's worker waits for a page, so the commands left over stay undone and can be
 * counted.
 */
#include "slow.h"
#include "treadle.h"

#include <treadle/atomic.h>

#define ARMED  400	    /* commands: more than a doorbell runs if they cost nothing else */
#define LONG   (2UL << 20)  /* longer than a doorbell copies: left to a worker */
#define COPIED (12UL << 10) /* less than a unit of the budget */

FIXTURE(budget)
{
	struct node n;	  /* writes to itself */
	struct node slow; /* of the same context, so it has the same worker; completes on its own */
	__u64 to, slow_to, key;
	char *from;
	__u32 commands; /* of a few bytes, to memory that is known: how many a doorbell runs */
};

/* How many of ARMED commands like @d, each @apart from the one before, a doorbell runs. */
static __u32 done_by_a_doorbell(FIXTURE_DATA(budget) * self, struct treadle_desc d, __u64 apart)
{
	struct node *n = &self->n;
	char *slow = pages(LONG);
	int faults = slow_pages(slow, LONG);
	struct cntr go;
	__u32 done;

	/* keeps the worker busy */
	need(post(&self->slow, write_of(slow, LONG, self->slow_to, 0, self->key, 0)) == 1);
	page_asked_for(faults);

	cntr_open(&go, n->fd);
	for (int i = 0; i < ARMED; i++) {
		need(post(n, when(d, &go, 1)) == 1);
		d.remote_addr += apart;
	}
	need(post(n, count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0)) == 1);
	done = __atomic_load_n(&n->cq.ro->prod, __ATOMIC_ACQUIRE) - n->cq.cons;

	need(close(faults) == 0); /* the page comes, and the worker does the rest */
	for (int i = 0; i <= ARMED; i++)
		need(cq_next(i ? &n->cq : &self->slow.cq).error == 0);
	need(munmap(slow, LONG) == 0);
	return done;
}

FIXTURE_SETUP(budget)
{
	char *there = pages(LONG);
	__u32 id;

	node_open(&self->n, (struct options){.tx = 1024, .cq = 1024});
	node_open(&self->slow, (struct options){.context = self->n.fd});
	self->to = peer(&self->n, self->n.addr);
	self->slow_to = peer(&self->slow, self->n.addr);
	self->from = pages(LONG);
	memset(self->from, 1, LONG);
	memset(there, 2, LONG);
	self->key = 1;
	ASSERT_EQ(0, mr(self->n.fd, there, LONG, TREADLE_ACCESS_REMOTE_WRITE, 0, &self->key, &id));
	self->commands =
		done_by_a_doorbell(self, write_of(self->from, 8, self->to, 0, self->key, 1), 0);
	note("a doorbell does %u commands", self->commands);
	ASSERT_LT(0, self->commands);
	ASSERT_GT(ARMED, self->commands);
}

FIXTURE_TEARDOWN(budget)
{
	close(self->n.fd);
}

/* Copies within one page are done while the command is looked at. */
TEST_F(budget, short_copies_are_charged)
{
	__u32 done = done_by_a_doorbell(
		self, write_of(self->from, COPIED, self->to, PAGE - 8, self->key, 1), 0);

	note("%u with %lu bytes each", done, COPIED);
	EXPECT_LT(done, self->commands * 3 / 4);
}

TEST_F(budget, pages_that_are_asked_for_are_charged)
{
	char *there = pages(ARMED * PAGE);
	__u64 key = 2;
	__u32 id, done;

	memset(there, 3, ARMED * PAGE);
	ASSERT_EQ(0,
		  mr(self->n.fd, there, ARMED * PAGE, TREADLE_ACCESS_REMOTE_WRITE, 0, &key, &id));
	done = done_by_a_doorbell(self, write_of(self->from, 8, self->to, 0, key, 1), PAGE);
	note("%u with a page each", done);
	EXPECT_LT(done, self->commands * 9 / 10);
}

/* A single word is not charged: it costs no more than any command. */
TEST_F(budget, atomics_are_charged)
{
	struct treadle_desc d = write_of(self->from, 2048, self->to, 0, self->key, 1);
	__u32 done;

	d.opcode = TREADLE_OP_ATOMIC;
	d.flags |= TREADLE_F_EXT;
	d.atomic_op = TREADLE_ATOMIC_SUM;
	d.datatype = TREADLE_UINT64;
	done = done_by_a_doorbell(self, d, 0);
	note("%u that are atomic", done);
	EXPECT_LT(done, self->commands * 9 / 10);
}

TEST_HARNESS_MAIN
