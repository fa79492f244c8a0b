/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Atomics on a peer's memory: how they are transported, and that nothing comes between read and
 * write. tests/unit/arith_test.cpp proves what each operation computes.
 */
#include <sys/auxv.h>

#include <complex.h>

#include "atomic_ops.h"

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

// conformance: fi_atomic(3): what each operation computes, for every datatype
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
// conformance: ioctl.h: EOPNOTSUPP: an atomic operation and a datatype that do not go together
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
				int refusal = d.len ? -EOPNOTSUPP : -EINVAL;

				if (o > 0)
					d.result = (unsigned long)result;
				if (o > 1)
					d.compare = (unsigned long)compare;
				about("opcode %d, operation %d, type %d", opcodes[o], op, type);
				EXPECT_EQ(good ? 0 : refusal, outcome(&self->a, d));
			}
		}
	}
}

TEST_F(atomic, rounding_is_that_of_user_space)
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

/*
 * If its result page is missing, an operation waits for the page: the result is kept, and nothing
 * is done twice.
 */
TEST_F(atomic, a_result_goes_where_no_page_is_yet)
{
	char *fresh = pages(4 * PAGE);
	__u64 *at = (__u64 *)self->there, one = 1, *got;
	__u32 small = 2, *half = (__u32 *)(fresh + 3 * PAGE);

	for (int i = 0; i < 2; i++) {
		got = (__u64 *)(fresh + i * PAGE + 8);
		EXPECT_EQ(0, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64,
							&one, got, 8, 0)));
		EXPECT_EQ(i, *got);
		EXPECT_EQ(0, got[1]);
		EXPECT_EQ(i + 1, *at);
	}
	got = (__u64 *)(fresh + 2 * PAGE);
	EXPECT_EQ(0, outcome(&self->a, compare_of(self, TREADLE_ATOMIC_CSWAP, TREADLE_UINT64, &one,
						  at, got, 8, 0)));
	EXPECT_EQ(2, *got);
	EXPECT_EQ(1, *at);
	EXPECT_EQ(0, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_PROD, TREADLE_UINT32, &small,
						half, 4, 0)));
	EXPECT_EQ(1, *half);
	EXPECT_EQ(0, half[1]);
	EXPECT_EQ(2, *at);
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

// conformance: fi_atomic(3): fetch: the initial value; FI_ATOMIC_READ ignores its operands, and ...
// conformance: ioctl.h: EACCES: the region does not grant this access
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

TEST_F(atomic, a_range_that_is_only_read_may_be_read_only)
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

/* The vDSO's pages are the kernel's own: nor may a peer write them. */
TEST_F(atomic, the_vdso_is_read_only_for_the_kernel_too)
{
	char *vdso = (char *)getauxval(AT_SYSINFO_EHDR);
	unsigned __int128 wide = 0;
	__u32 id;

	self->key = 5;
	ASSERT_EQ(0, mr(self->b.fd, vdso, PAGE, TREADLE_ACCESS_REMOTE_READ, 0, &self->key, &id));
	EXPECT_EQ(0, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_READ, TREADLE_UINT128, NULL,
						&wide, 16, 0)));
	EXPECT_EQ(0, memcmp(&wide, vdso, 16));
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
	/* The operation was done, although the result can't be written. */
	EXPECT_EQ(EFAULT, outcome(&self->a, fetch_of(self, TREADLE_ATOMIC_SUM, TREADLE_UINT64, &one,
						     bad, 8, 0)));
	EXPECT_EQ(1, *(__u64 *)self->there);
	d.flags &= ~TREADLE_F_EXT;
	EXPECT_EQ(-EINVAL, outcome(&self->a, d));
	EXPECT_EQ(1, *(__u64 *)self->there);
	d.flags |= TREADLE_F_EXT;
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

// conformance: fi_atomic(3): FI_INJECT: all constant buffers are free at return
TEST_F(atomic, injected_operands_are_copied_at_once)
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
// conformance: fi_atomic(3): FI_INJECT: all constant buffers are free at return
TEST_F(atomic, in_order_with_other_commands)
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

TEST_HARNESS_MAIN
