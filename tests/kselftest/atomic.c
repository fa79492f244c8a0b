/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Atomics on a peer's memory. What each operation computes is proven by tests/unit/arith_test.cpp;
 * this is about how it gets there, and that nothing comes between.
 */
#include <complex.h>

#include "treadle.h"

#include <treadle/atomic.h>

#define PAGE 4096
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
static struct treadle_desc op_of(atomic *self, __u8 opcode, __u8 op, __u8 type, const void *operand,
				 __u64 len, __u64 at)
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

static struct treadle_desc atomic_of(atomic *self, __u8 op, __u8 type, const void *operand,
				     __u64 len, __u64 at)
{
	return op_of(self, TREADLE_OP_ATOMIC, op, type, operand, len, at);
}

static struct treadle_desc fetch_of(atomic *self, __u8 op, __u8 type, const void *operand,
				    void *result, __u64 len, __u64 at)
{
	struct treadle_desc d = op_of(self, TREADLE_OP_FETCH, op, type, operand, len, at);

	d.result = (unsigned long)result;
	return d;
}

static struct treadle_desc compare_of(atomic *self, __u8 op, __u8 type, const void *operand,
				      const void *compare, void *result, __u64 len, __u64 at)
{
	struct treadle_desc d = op_of(self, TREADLE_OP_COMPARE, op, type, operand, len, at);

	d.result = (unsigned long)result;
	d.compare = (unsigned long)compare;
	return d;
}

/* What the doorbell says, or the error of the completion as a positive number. */
static int outcome(struct node *n, struct treadle_desc d)
{
	int result = post(n, d);

	return result == 1 ? cq_next(&n->cq).error : result;
}

/* --- what is computed ---------------------------------------------------------------------- */

#define CHECK(T, type)                                                                             \
	do {                                                                                       \
		T a = 6, b = 7, got = 0, *at = (T *)self->there;                                   \
                                                                                                   \
		about(#T);                                                                         \
		*at = a;                                                                           \
		EXPECT_EQ(0, outcome(&self->a, atomic_of(self, TREADLE_ATOMIC_SUM, type, &b,       \
							 sizeof(T), 0)));                          \
		EXPECT_TRUE(*at == a + b);                                                         \
		EXPECT_EQ(0, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_PROD, type, &b, &got, \
							sizeof(T), 0)));                           \
		EXPECT_TRUE(got == a + b && *at == (a + b) * b);                                   \
		EXPECT_EQ(0, outcome(&self->a, compare_of(self, TREADLE_ATOMIC_CSWAP, type, &a,    \
							  &b, &got, sizeof(T), 0)));               \
		EXPECT_TRUE(got == (a + b) * b && *at == got);                                     \
		EXPECT_EQ(0, outcome(&self->a, compare_of(self, TREADLE_ATOMIC_CSWAP, type, &a,    \
							  at, &got, sizeof(T), 0)));               \
		EXPECT_TRUE(*at == a);                                                             \
		EXPECT_EQ(0, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_WRITE, type, &b,      \
							&got, sizeof(T), 0)));                     \
		EXPECT_TRUE(got == a && *at == b);                                                 \
		EXPECT_EQ(0, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_READ, type, NULL,     \
							&got, sizeof(T), 0)));                     \
		EXPECT_TRUE(got == b && *at == b);                                                 \
	} while (0)

TEST_F(atomic, of_every_type)
{
	CHECK(__s8, TREADLE_INT8);
	CHECK(__u8, TREADLE_UINT8);
	CHECK(__s16, TREADLE_INT16);
	CHECK(__u16, TREADLE_UINT16);
	CHECK(__s32, TREADLE_INT32);
	CHECK(__u32, TREADLE_UINT32);
	CHECK(__s64, TREADLE_INT64);
	CHECK(__u64, TREADLE_UINT64);
	CHECK(float, TREADLE_FLOAT);
	CHECK(double, TREADLE_DOUBLE);
	CHECK(long double, TREADLE_LONG_DOUBLE);
	CHECK(float complex, TREADLE_FLOAT_COMPLEX);
	CHECK(double complex, TREADLE_DOUBLE_COMPLEX);
	CHECK(long double complex, TREADLE_LONG_DOUBLE_COMPLEX);
	CHECK(__int128, TREADLE_INT128);
	CHECK(unsigned __int128, TREADLE_UINT128);
}

/* What fi_query_atomic says is what the kernel takes. */
TEST_F(atomic, operations_and_types_that_go_together)
{
	char buf[32] = {0}, result[32], compare[32] = {0};
	static const __u8 opcodes[] = {TREADLE_OP_ATOMIC, TREADLE_OP_FETCH, TREADLE_OP_COMPARE};

	for (int o = 0; o < 3; o++) {
		for (int op = 0; op <= TREADLE_ATOMIC_OPS; op++) {
			for (int type = 0; type <= TREADLE_DATATYPES; type++) {
				bool compares = op >= TREADLE_ATOMIC_CSWAP;
				bool good = treadle_atomic_types(op) >> type & 1 &&
					    compares == (o == 2) &&
					    (op != TREADLE_ATOMIC_READ || o == 1);
				struct treadle_desc d = op_of(self, opcodes[o], op, type, buf,
							      treadle_type_size(type), 0);

				if (o > 0)
					d.result = (unsigned long)result;
				if (o > 1)
					d.compare = (unsigned long)compare;
				about("opcode %d, operation %d, type %d", opcodes[o], op, type);
				EXPECT_EQ(good	? 0 :
					  d.len ? -EOPNOTSUPP :
						  -EINVAL,
					  outcome(&self->a, d));
			}
		}
	}
}

TEST_F(atomic, the_processor_rounds_as_it_does_elsewhere)
{
	double *at = (double *)self->there, x = 0.1, sum = 0;
	float *f = (float *)(self->there + 64), y = 1e-45f, z = 0;

	/* Neither the rounding nor the registers of this thread are the kernel's concern. */
	for (int i = 0; i < 100; i++) {
		sum += x;
		z += y;
		ASSERT_EQ(0, outcome(&self->a, atomic_of(self, TREADLE_ATOMIC_SUM, TREADLE_DOUBLE,
							 &x, 8, 0)));
		ASSERT_EQ(0, outcome(&self->a, atomic_of(self, TREADLE_ATOMIC_SUM, TREADLE_FLOAT,
							 &y, 4, 64)));
	}
	EXPECT_EQ(sum, *at);
	EXPECT_EQ(z, *f);
	EXPECT_LT(0, z);
}

TEST_F(atomic, arrays)
{
	__u32 n = query(self->a.fd).max_msg_size ? TREADLE_MAX_ATOMIC / 8 : 0;
	__u64 *one = (__u64 *)pages(PAGE), *got = (__u64 *)pages(PAGE);
	__u64 *at = (__u64 *)(self->there + PAGE - 800);

	for (__u32 i = 0; i < n; i++) {
		one[i] = i + 1;
		at[i] = 1000 * i;
	}
	/* Across pages, some of which were never touched. */
	EXPECT_EQ(0, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64, one, got,
						n * 8, PAGE - 800)));
	for (__u32 i = 0; i < n; i++) {
		ASSERT_EQ(1000 * i, got[i]);
		ASSERT_EQ(1001 * i + 1, at[i]);
	}
	EXPECT_EQ(0, at[-1]);
	EXPECT_EQ(0, at[n]);
	EXPECT_EQ(-EMSGSIZE, outcome(&self->a, atomic_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64,
							 one, n * 8 + 8, 0)));
}

TEST_F(atomic, vectors_of_everything)
{
	__u32 operand[8] = {1, 2, 3, 4, 5, 6, 7, 8}, result[8] = {0};
	__u32 compare[8] = {0, 0, 9, 0, 0, 0, 9, 0};
	union treadle_slot iov = {0}, rma = {0}, results = {0}, compares = {0};
	struct treadle_desc d =
		compare_of(self, TREADLE_ATOMIC_CSWAP, TREADLE_UINT32, NULL, NULL, NULL, 32, 0);

	iov.iov[0] = (struct treadle_iov){(unsigned long)operand, 6};
	iov.iov[1] = (struct treadle_iov){(unsigned long)operand + 6, 26};
	rma.rma[0] = (struct treadle_rma_iov){100, 12, self->key};
	rma.rma[1] = (struct treadle_rma_iov){PAGE - 4, 20, self->key};
	results.iov[0] = (struct treadle_iov){(unsigned long)result, 31};
	results.iov[1] = (struct treadle_iov){(unsigned long)result + 31, 1};
	compares.iov[0] = (struct treadle_iov){(unsigned long)compare, 1};
	compares.iov[1] = (struct treadle_iov){(unsigned long)compare + 1, 31};
	d.iov_count = d.rma_iov_count = d.fetch_iov_count = 2;
	d.addr = d.remote_addr = d.remote_key = 0;
	for (int i = 0; i < 2; i++) {
		ring_put(&self->a.tx, &d);
		ring_put(&self->a.tx, &iov);
		ring_put(&self->a.tx, &rma);
		ring_put(&self->a.tx, &results);
		ring_put(&self->a.tx, &compares);
		ring_publish(&self->a.tx);
		ASSERT_EQ(1, ring_doorbell(&self->a.tx));
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
		for (int k = 0; k < 8; k++) {
			__u32 *at = (__u32 *)(self->there + (k < 3 ? 100 : PAGE - 16)) + k;

			EXPECT_EQ(compare[k] ? 0 : operand[k], *at);
			EXPECT_EQ(i && !compare[k] ? operand[k] : 0, result[k]);
		}
		memset(compare, 0, sizeof(compare));
		compare[2] = compare[6] = 9;
		for (int k = 0; k < 8; k++)
			if (!compare[k])
				compare[k] = 0;
	}
	/* Half an element at the end of a range. */
	rma.rma[0].len = 10;
	rma.rma[1].len = 22;
	ring_put(&self->a.tx, &d);
	ring_put(&self->a.tx, &iov);
	ring_put(&self->a.tx, &rma);
	ring_put(&self->a.tx, &results);
	ring_put(&self->a.tx, &compares);
	ring_publish(&self->a.tx);
	EXPECT_EQ(-EINVAL, ring_doorbell(&self->a.tx));
}

/* --- where ------------------------------------------------------------------------------------ */

TEST_F(atomic, an_element_over_the_end_of_a_page)
{
	double complex *at, one = 1 + 2 * I, got;
	char *raw = self->there + 8 * PAGE - 8;

	at = (double complex *)raw;
	EXPECT_EQ(0, outcome(&self->a, atomic_of(self, TREADLE_ATOMIC_SUM, TREADLE_DOUBLE_COMPLEX,
						 &one, 16, raw - self->there)));
	EXPECT_EQ(0, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_SUM, TREADLE_DOUBLE_COMPLEX,
						&one, &got, 16, raw - self->there)));
	EXPECT_TRUE(got == one);
	memcpy(&got, at, 16);
	EXPECT_TRUE(got == 2 * one);
	/* Of which the second is not mapped. */
	ASSERT_EQ(0, munmap(self->there + 8 * PAGE, PAGE));
	EXPECT_EQ(EIO, outcome(&self->a, atomic_of(self, TREADLE_ATOMIC_SUM, TREADLE_DOUBLE_COMPLEX,
						   &one, 16, raw - self->there)));
	EXPECT_EQ(0, memcmp(raw, &got, 8));
}

TEST_F(atomic, elements_are_aligned_as_C_aligns_them)
{
	char buf[32] = {0};

	for (int type = 0; type < TREADLE_DATATYPES; type++) {
		__u32 align = treadle_type_align(type);

		for (int at = 0; at < 32; at++) {
			about("type %d at %d", type, at);
			EXPECT_EQ(at % align ? EINVAL : 0,
				  outcome(&self->a, atomic_of(self, TREADLE_ATOMIC_SUM, type, buf,
							      treadle_type_size(type), at)));
		}
	}
}

TEST_F(atomic, rights)
{
	__u64 key[2] = {10, 11}, one = 1, got, zero = 0;
	__u32 id;

	ASSERT_EQ(0,
		  mr(self->b.fd, self->there, PAGE, TREADLE_ACCESS_REMOTE_READ, 0, &key[0], &id));
	ASSERT_EQ(0,
		  mr(self->b.fd, self->there, PAGE, TREADLE_ACCESS_REMOTE_WRITE, 0, &key[1], &id));
	for (int w = 0; w < 2; w++) {
		int read = w ? EACCES : 0, write = w ? 0 : EACCES;

		self->key = key[w];
		EXPECT_EQ(write, outcome(&self->a, atomic_of(self, TREADLE_ATOMIC_SUM,
							     TREADLE_UINT64, &one, 8, 0)));
		EXPECT_EQ(read, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_READ,
							   TREADLE_UINT64, NULL, &got, 8, 0)));
		EXPECT_EQ(EACCES, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_SUM,
							     TREADLE_UINT64, &one, &got, 8, 0)));
		EXPECT_EQ(EACCES,
			  outcome(&self->a, compare_of(self, TREADLE_ATOMIC_CSWAP, TREADLE_UINT64,
						       &one, &zero, &got, 8, 0)));
	}
	EXPECT_EQ(1, *(__u64 *)self->there);
	self->key = 99;
	EXPECT_EQ(EKEYREJECTED, outcome(&self->a, atomic_of(self, TREADLE_ATOMIC_SUM,
							    TREADLE_UINT64, &one, 8, 0)));
	self->key = 1;
	EXPECT_EQ(EREMOTEIO, outcome(&self->a, atomic_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64,
							 &one, 8, LEN)));
}

TEST_F(atomic, what_is_only_read_may_be_read_only)
{
	char *ro = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned __int128 wide = 1;
	__u64 one = 1, got = 1;
	__u32 id;

	self->key = 5;
	ASSERT_EQ(0, mr(self->b.fd, ro, PAGE, TREADLE_ACCESS_REMOTE_READ, 0, &self->key, &id));
	EXPECT_EQ(0, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_READ, TREADLE_UINT64, NULL,
						&got, 8, 0)));
	EXPECT_EQ(0, got);
	EXPECT_EQ(0, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_READ, TREADLE_UINT128, NULL,
						&wide, 16, 0)));
	EXPECT_TRUE(wide == 0);
	self->key = 1;
	ASSERT_EQ(0, mprotect(self->there, PAGE, PROT_READ));
	EXPECT_EQ(EIO, outcome(&self->a,
			       atomic_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64, &one, 8, 0)));
}

TEST_F(atomic, bad_buffers_and_descriptors)
{
	__u64 one = 1, got;
	struct treadle_desc d = atomic_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64, &one, 8, 0);
	char *bad = pages(PAGE) + PAGE;

	EXPECT_EQ(EFAULT, outcome(&self->a,
				  atomic_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64, bad, 8, 0)));
	EXPECT_EQ(EFAULT, outcome(&self->a, compare_of(self, TREADLE_ATOMIC_CSWAP, TREADLE_UINT64,
						       &one, bad, &got, 8, 0)));
	EXPECT_EQ(0, *(__u64 *)self->there);
	/* What happened there happened, though nobody can be told what was there before. */
	EXPECT_EQ(EFAULT, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64, &one,
						     bad, 8, 0)));
	EXPECT_EQ(1, *(__u64 *)self->there);
	d.len = 7;
	EXPECT_EQ(-EINVAL, outcome(&self->a, d));
	d.len = 0;
	EXPECT_EQ(-EINVAL, outcome(&self->a, d));
	d.len = 8;
	d.result = 8;
	EXPECT_EQ(-EINVAL, outcome(&self->a, d));
	d.result = 0;
	d.compare = 8;
	EXPECT_EQ(-EINVAL, outcome(&self->a, d));
	d.compare = 0;
	d.fetch_iov_count = 1;
	EXPECT_EQ(-EINVAL, outcome(&self->a, d));
	d.fetch_iov_count = 0;
	d.data = 1;
	EXPECT_EQ(-EINVAL, outcome(&self->a, d));
	d.data = 0;
	d.flags |= TREADLE_F_REMOTE_CQ_DATA;
	EXPECT_EQ(-EINVAL, outcome(&self->a, d));
	d = fetch_of(self, TREADLE_ATOMIC_READ, TREADLE_UINT64, NULL, &got, 8, 0);
	d.iov_count = 1;
	d.addr = (unsigned long)&one;
	EXPECT_EQ(-EINVAL, outcome(&self->a, d));
	d = fetch_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64, &one, &got, 8, 0);
	d.iov_count = 0;
	d.addr = 0;
	EXPECT_EQ(-EINVAL, outcome(&self->a, d));
	d = fetch_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64, &one, NULL, 8, 0);
	d.result = ~0ULL;
	EXPECT_EQ(-EINVAL, outcome(&self->a, d));
}

/* --- when ------------------------------------------------------------------------------------- */

TEST_F(atomic, what_is_injected_is_taken_at_once)
{
	__u64 operand, compare, got[16];

	for (int i = 0; i < 16; i++) {
		struct treadle_desc d = compare_of(self, TREADLE_ATOMIC_CSWAP, TREADLE_UINT64,
						   &operand, &compare, &got[i], 8, i * 3 * PAGE);

		d.flags |= TREADLE_F_INJECT;
		operand = i + 1;
		compare = 0;
		ASSERT_EQ(1, post(&self->a, d));
		operand = compare = 12345;
	}
	for (int i = 0; i < 16; i++) {
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	for (int i = 0; i < 16; i++) {
		EXPECT_EQ(i + 1, *(__u64 *)(self->there + i * 3 * PAGE));
	}
}

/* Behind something slow, fenced, injected: the operands are those of the doorbell. */
TEST_F(atomic, in_order_with_all_else)
{
	char *large = pages(LEN), buf[8];
	__u64 one = 1, got = 99, operand = 5, compare = 0, swapped = 77;
	struct treadle_desc d = send_of("held up", 8, self->to, 1);

	d.flags |= TREADLE_F_DELIVERY_COMPLETE;
	ASSERT_EQ(1, post(&self->a, d));
	d = compare_of(self, TREADLE_ATOMIC_CSWAP, TREADLE_UINT64, &operand, &compare, &swapped, 8,
		       0);
	d.flags |= TREADLE_F_FENCE | TREADLE_F_INJECT;
	ASSERT_EQ(1, post(&self->a, d));
	operand = compare = 1000;
	ASSERT_EQ(1, post(&self->a,
			  fetch_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64, &one, &got, 8, 0)));
	EXPECT_TRUE(cq_empty(&self->a.cq));
	EXPECT_EQ(0, *(__u64 *)self->there);
	ASSERT_LE(0, post_recv(&self->b, recv_of(buf, 8, ANY, 1)));
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, cq_next(&self->a.cq).error);
	}
	EXPECT_EQ(0, swapped);
	EXPECT_EQ(5, got);
	EXPECT_EQ(6, *(__u64 *)self->there);
	munmap(large, LEN);
}

TEST_F(atomic, armed_and_counted)
{
	struct treadle_ep_enable e;
	struct cntr go, done, read, wrote;
	__u64 one = 1, got[3] = {9, 9, 9}, three = 3;
	struct node n;

	node_create(&n, (struct options){.context = self->b.fd});
	cntr_open(&read, n.fd);
	cntr_open(&wrote, n.fd);
	e = node_bindings(&n);
	e.cntr_remote_read = read.id;
	e.cntr_remote_write = wrote.id;
	ASSERT_EQ(0, call(n.fd, TREADLE_IOC_EP_ENABLE, &e));
	self->to = peer(&self->a, n.addr);
	cntr_open(&go, self->a.fd);
	cntr_open(&done, self->a.fd);
	ASSERT_EQ(1, post(&self->a, then(when(fetch_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64,
						       &one, &got[0], 8, 0),
					      &go, 1),
					 &done)));
	ASSERT_EQ(1, post(&self->a, then(when(compare_of(self, TREADLE_ATOMIC_CSWAP, TREADLE_UINT64,
							 &three, &one, &got[1], 8, 0),
					      &done, 1),
					 &done)));
	ASSERT_EQ(1, post(&self->a, then(when(fetch_of(self, TREADLE_ATOMIC_READ, TREADLE_UINT64,
						       NULL, &got[2], 8, 0),
					      &done, 2),
					 &done)));
	ASSERT_EQ(1, post(&self->a,
			  when(atomic_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64, &one, 8, 8),
			       &done, 3)));
	EXPECT_EQ(0, *(__u64 *)self->there);
	ASSERT_EQ(1, post(&self->a, count_of(TREADLE_OP_CNTR_ADD, &go, 1, 0)));
	for (int i = 0; i < 4; i++) {
		struct treadle_cqe c = cq_next(&self->a.cq);

		EXPECT_EQ(0, c.error);
		EXPECT_EQ((i < 3 ? TREADLE_CQ_READ : TREADLE_CQ_WRITE) | TREADLE_CQ_ATOMIC,
			  c.flags);
	}
	EXPECT_EQ(0, got[0]);
	EXPECT_EQ(1, got[1]);
	EXPECT_EQ(3, got[2]);
	EXPECT_EQ(1, *(__u64 *)(self->there + 8));
	EXPECT_TRUE(cntr_becomes(&done, 3, 0));
	EXPECT_TRUE(cntr_becomes(&read, 3, 0));
	EXPECT_TRUE(cntr_becomes(&wrote, 1, 0));
}

/* --- nothing comes between ----------------------------------------------------------------------- */

struct crowd {
	struct treadle_addr addr;
	int ready, go, stop;
	char *there; /* shared by all */
};

#define ROUNDS 2000

/* One that adds one to every type of number. */
static const struct {
	__u8 type;
	__u16 at;
} sums[] = {
	{TREADLE_UINT16, 2},
	{TREADLE_UINT32, 4},
	{TREADLE_UINT64, 8},
	{TREADLE_UINT128, 16},
	{TREADLE_FLOAT, 32},
	{TREADLE_DOUBLE, 40},
	{TREADLE_LONG_DOUBLE, 48},
	{TREADLE_FLOAT_COMPLEX, 68},
	{TREADLE_DOUBLE_COMPLEX, 88},
	{TREADLE_DOUBLE_COMPLEX, 112},
	{TREADLE_LONG_DOUBLE_COMPLEX, 128},
	{TREADLE_DOUBLE_COMPLEX, PAGE - 8},
};

static void one_of(__u8 type, char buf[32])
{
	memset(buf, 0, 32);
	switch (type) {
	case TREADLE_FLOAT:
	case TREADLE_FLOAT_COMPLEX:
		*(float *)buf = 1;
		break;
	case TREADLE_DOUBLE:
	case TREADLE_DOUBLE_COMPLEX:
		*(double *)buf = 1;
		break;
	case TREADLE_LONG_DOUBLE:
	case TREADLE_LONG_DOUBLE_COMPLEX:
		*(long double *)buf = 1;
		break;
	default:
		buf[0] = 1;
	}
}

static __u64 sum_at(const char *at, __u8 type)
{
	float f;
	double d;
	long double l;
	__u64 u = 0;

	switch (type) {
	case TREADLE_FLOAT:
	case TREADLE_FLOAT_COMPLEX:
		memcpy(&f, at, sizeof(f));
		return f;
	case TREADLE_DOUBLE:
	case TREADLE_DOUBLE_COMPLEX:
		memcpy(&d, at, sizeof(d));
		return d;
	case TREADLE_LONG_DOUBLE:
	case TREADLE_LONG_DOUBLE_COMPLEX:
		memcpy(&l, at, sizeof(l));
		return l;
	default:
		memcpy(&u, at, treadle_type_size(type) < 8 ? treadle_type_size(type) : 8);
		return u;
	}
}

static void adds(void *arg)
{
	struct crowd *c = arg;
	_Alignas(16) char one[32];
	atomic self = {.key = 1};

	node_open(&self.a, (struct options){});
	self.to = peer(&self.a, c->addr);
	await(&c->go, 1);
	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < ARRAY_SIZE(sums); k++) {
			struct treadle_desc d;

			one_of(sums[k].type, one);
			d = atomic_of(&self, TREADLE_ATOMIC_SUM, sums[k].type, one,
				      treadle_type_size(sums[k].type), sums[k].at);
			d.flags &= ~TREADLE_F_COMPLETION;
			d.flags |= TREADLE_F_INJECT;
			need(post(&self.a, d) == 1);
		}
	}
	/* One that is told of, behind all others. */
	need(outcome(&self.a,
		     fetch_of(&self, TREADLE_ATOMIC_READ, TREADLE_UINT64, NULL, one, 8, 0)) == 0);
	need(cq_empty(&self.a.cq));
}

TEST(no_update_is_lost)
{
	struct crowd *c = shared(sizeof(*c));
	__u64 key = 1;
	struct node n;
	pid_t pid[3];
	__u32 id;

	node_open(&n, (struct options){});
	c->there = shared(2 * PAGE);
	ASSERT_EQ(0, mr(n.fd, c->there, 2 * PAGE, BOTH, 0, &key, &id));
	c->addr = n.addr;
	for (int i = 0; i < 3; i++)
		pid[i] = spawn(adds, c);
	raise_to(&c->go, 1);
	/* And the processor does the same, to what it can. */
	for (int i = 0; i < ROUNDS; i++) {
		__atomic_fetch_add((__u16 *)(c->there + 2), 1, __ATOMIC_RELAXED);
		__atomic_fetch_add((__u32 *)(c->there + 4), 1, __ATOMIC_RELAXED);
		__atomic_fetch_add((__u64 *)(c->there + 8), 1, __ATOMIC_RELAXED);
		if (i % 8 == 0)
			sched_yield();
	}
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, reap(pid[i]));
	}
	for (int k = 0; k < ARRAY_SIZE(sums); k++) {
		about("type %d at %d", sums[k].type, sums[k].at);
		EXPECT_EQ(ROUNDS * (k < 3 ? 4 : 3), sum_at(c->there + sums[k].at, sums[k].type));
	}
	close(n.fd);
}

/* A lock of the peers': nobody is in it with another. */
static void locks(void *arg)
{
	struct crowd *c = arg;
	__u64 mine = getpid(), zero = 0, was;
	atomic self = {.key = 1};

	node_open(&self.a, (struct options){});
	self.to = peer(&self.a, c->addr);
	for (int i = 0; i < 300; i++) {
		do {
			need(outcome(&self.a,
				     compare_of(&self, TREADLE_ATOMIC_CSWAP, TREADLE_UINT64, &mine,
						&zero, &was, 8, 0)) == 0);
		} while (was);
		*(volatile __u64 *)(c->there + 64) += 1;
		need(outcome(&self.a, fetch_of(&self, TREADLE_ATOMIC_WRITE, TREADLE_UINT64, &zero,
					       &was, 8, 0)) == 0);
		need(was == mine);
	}
}

TEST(a_lock_of_compare_and_swap)
{
	struct crowd *c = shared(sizeof(*c));
	__u64 key = 1;
	struct node n;
	pid_t pid[3];
	__u32 id;

	node_open(&n, (struct options){});
	c->there = shared(PAGE);
	ASSERT_EQ(0, mr(n.fd, c->there, PAGE, BOTH, 0, &key, &id));
	c->addr = n.addr;
	for (int i = 0; i < 3; i++)
		pid[i] = spawn(locks, c);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, reap(pid[i]));
	}
	EXPECT_EQ(900, *(__u64 *)(c->there + 64));
	close(n.fd);
}

static void offers(void *arg)
{
	struct crowd *c = arg;
	__u64 key = 1;
	struct node n;
	__u32 id;

	node_open(&n, (struct options){});
	need(mr(n.fd, pages(LEN), LEN, BOTH, 0, &key, &id) == 0);
	c->addr = n.addr;
	raise_to(&c->ready, 1);
	pause();
}

TEST(a_peer_that_is_killed)
{
	for (int round = 0; round < 4; round++) {
		struct crowd *c = shared(sizeof(*c));
		atomic self = {.key = 1};
		__u64 one = 1, got;
		int killed = 0, error;
		pid_t pid = spawn(offers, c);

		await(&c->ready, 1);
		node_open(&self.a, (struct options){});
		self.to = peer(&self.a, c->addr);
		for (int i = 0;; i++) {
			error = outcome(&self.a, fetch_of(&self, TREADLE_ATOMIC_SUM, TREADLE_UINT64,
							  &one, &got, 8, i % 64 * PAGE));
			if (i == 20 * round && !killed++)
				kill(pid, SIGKILL);
			if (error)
				break;
			EXPECT_EQ(i / 64, got);
		}
		about("error %d", error);
		EXPECT_TRUE(error == ECONNREFUSED || error == ECONNRESET);
		EXPECT_EQ(-SIGKILL, reap(pid));
		close(self.a.fd);
	}
}

TEST_HARNESS_MAIN
