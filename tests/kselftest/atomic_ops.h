/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the tests of atomics: a works on the memory of b, and b is passive. */
#ifndef TREADLE_KSELFTEST_ATOMIC_OPS_H
#define TREADLE_KSELFTEST_ATOMIC_OPS_H

#include "treadle.h"

#include <treadle/atomic.h>

#define LEN  (64UL * PAGE)
#define BOTH (TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE)

FIXTURE(atomic)
{
	struct node a, b;
	__u64 to, key;
	__u32 region;
	char *there;
};

typedef FIXTURE_DATA(atomic) atomic;

FIXTURE_SETUP(atomic)
{
	node_open(&self->a, (struct options){});
	node_open(&self->b, (struct options){});
	self->to = peer(&self->a, self->b.addr);
	self->there = pages(LEN);
	self->key = 1;
	ASSERT_EQ(0, mr(self->b.fd, self->there, LEN, BOTH, 0, &self->key, &self->region));
}

FIXTURE_TEARDOWN(atomic)
{
	EXPECT_TRUE(cq_empty(&self->a.cq));
	close(self->a.fd);
	close(self->b.fd);
}

/* An operation on one or more elements at @at. */
static inline struct treadle_desc op_of(atomic *self, __u8 opcode, __u8 op, __u8 type,
					const void *operand, __u64 len, __u64 at)
{
	struct treadle_desc d = write_of(operand, len, self->to, at, self->key, at);

	d.opcode = opcode;
	d.flags |= TREADLE_F_EXT;
	d.atomic_op = op;
	d.datatype = type;
	if (op == TREADLE_ATOMIC_READ) {
		d.iov_count = 0;
		d.addr = 0;
	}
	return d;
}

static inline struct treadle_desc atomic_of(atomic *self, __u8 op, __u8 type, const void *operand,
					    __u64 len, __u64 at)
{
	return op_of(self, TREADLE_OP_ATOMIC, op, type, operand, len, at);
}

static inline struct treadle_desc fetch_of(atomic *self, __u8 op, __u8 type, const void *operand,
					   void *result, __u64 len, __u64 at)
{
	struct treadle_desc d = op_of(self, TREADLE_OP_FETCH, op, type, operand, len, at);

	d.result = (unsigned long)result;
	return d;
}

static inline struct treadle_desc compare_of(atomic *self, __u8 op, __u8 type, const void *operand,
					     const void *compare, void *result, __u64 len, __u64 at)
{
	struct treadle_desc d = op_of(self, TREADLE_OP_COMPARE, op, type, operand, len, at);

	d.result = (unsigned long)result;
	d.compare = (unsigned long)compare;
	return d;
}

/* The error of the doorbell, or the error of the completion as a positive number. */
static inline int outcome(struct node *n, struct treadle_desc d)
{
	int result = post(n, d);

	return result == 1 ? cq_next(&n->cq).error : result;
}

#endif
