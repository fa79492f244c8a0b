/* SPDX-License-Identifier: GPL-2.0 */
/* Regions of several ranges, and of memory that is not mapped yet. */
// conformance: fi_domain(3): mr_iov_limit: 8

#include "rma.h"

#include <treadle/atomic.h>

#define HALF (LARGE / 2)

static struct treadle_iov range(const void *at, __u64 len)
{
	return (struct treadle_iov){(unsigned long)at, len};
}

/* Registers ranges of b's memory as the region that the test works on. */
static int registers(rma *self, const struct treadle_iov *iov, int count, __u32 flags)
{
	self->key = 0;
	return mr_ranges(self->b.fd, iov, count, BOTH, flags | TREADLE_MR_KERNEL_KEY, &self->key,
			 &self->region);
}

/* --- one after the other ------------------------------------------------------------------ */

// conformance: fi_mr(3): a region is accessible by peers starting at a base address of 0
TEST_F(rma, offsets_go_on_from_one_range_to_the_next)
{
	const struct treadle_iov iov[] = {range(self->there + 20000, 100),
					  range(self->there + 50, 5000),
					  range(self->there + 9000, 1)};

	ASSERT_EQ(0, registers(self, iov, 3, 0));
	memset(self->there, 0x55, LARGE);
	fill(self->here, 5101, 7);
	EXPECT_EQ(0, writes(self, self->here, 5101, 0));
	EXPECT_EQ(0, memcmp(self->there + 20000, self->here, 100));
	EXPECT_EQ(0, memcmp(self->there + 50, self->here + 100, 5000));
	EXPECT_EQ(0, memcmp(self->there + 9000, self->here + 5100, 1));
	/* No other byte has changed. */
	EXPECT_TRUE(all_are(self->there, 50, 0x55));
	EXPECT_TRUE(all_are(self->there + 5050, 9000 - 5050, 0x55));
	EXPECT_TRUE(all_are(self->there + 9001, 20000 - 9001, 0x55));
	EXPECT_TRUE(all_are(self->there + 20100, LARGE - 20100, 0x55));

	memset(self->here, 0, 5101);
	EXPECT_EQ(0, reads(self, self->here, 5101, 0));
	EXPECT_TRUE(same(self->here, 5101, 7));
	/* From within one range to within another, and inside of each. */
	EXPECT_EQ(0, reads(self, self->here, 20, 90));
	EXPECT_EQ(0, memcmp(self->here, self->there + 20090, 10));
	EXPECT_EQ(0, memcmp(self->here + 10, self->there + 50, 10));
	EXPECT_EQ(0, reads(self, self->here, 5, 100));
	EXPECT_EQ(0, memcmp(self->here, self->there + 50, 5));
	EXPECT_EQ(0, reads(self, self->here, 1, 5100));
	EXPECT_EQ(0, memcmp(self->here, self->there + 9000, 1));
	EXPECT_EQ(0, reads(self, self->here, 0, 5101));
}

// conformance: ioctl.h: EREMOTEIO: a range is not within its region
TEST_F(rma, one_byte_too_long_moves_nothing)
{
	const struct treadle_iov iov[] = {range(self->there, 100), range(self->there + 200, 100)};

	ASSERT_EQ(0, registers(self, iov, 2, 0));
	fill(self->here, 300, 7);
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 201, 0));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 101, 100));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 1, 200));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 0, 201));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 1, ~0ULL >> 1));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 101, -1ULL));
	EXPECT_TRUE(all_are(self->there, LARGE, 0));
	EXPECT_EQ(0, writes(self, self->here, 200, 0));
}

TEST_F(rma, long_ranges_in_any_order)
{
	const struct treadle_iov iov[] = {range(self->there + HALF + 1, HALF - 1),
					  range(self->there + 5, HALF - 5)};
	const __u64 len = LARGE - 6;

	ASSERT_EQ(0, registers(self, iov, 2, 0));
	fill(self->here, len, 3);
	EXPECT_EQ(0, writes(self, self->here, len, 0)); /* by a worker */
	EXPECT_EQ(0, memcmp(self->there + HALF + 1, self->here, HALF - 1));
	EXPECT_EQ(0, memcmp(self->there + 5, self->here + HALF - 1, HALF - 5));
	EXPECT_EQ(0, self->there[HALF] | self->there[4]);
}

/* Bytes in two ranges are written twice, in the order of the ranges. */
TEST_F(rma, ranges_may_overlap)
{
	const struct treadle_iov iov[] = {range(self->there, 100), range(self->there + 50, 100),
					  range(self->there, 100)};

	ASSERT_EQ(0, registers(self, iov, 3, 0));
	fill(self->here, 300, 11);
	EXPECT_EQ(0, writes(self, self->here, 300, 0));
	EXPECT_EQ(0, memcmp(self->there, self->here + 200, 100));
	EXPECT_EQ(0, memcmp(self->there + 100, self->here + 150, 50));
	memset(self->here, 0, 300);
	EXPECT_EQ(0, reads(self, self->here, 300, 0));
	EXPECT_EQ(0, memcmp(self->here, self->there, 100));
	EXPECT_EQ(0, memcmp(self->here + 100, self->there + 50, 100));
	EXPECT_EQ(0, memcmp(self->here + 200, self->there, 100));
}

TEST_F(rma, as_many_ranges_as_there_may_be)
{
	struct treadle_iov iov[TREADLE_MAX_MR_IOV + 1];
	struct treadle_rma_iov remote[TREADLE_MAX_RMA_IOV];
	__u64 keys[TREADLE_MAX_RMA_IOV];
	char *at = self->there;
	__u32 id;

	for (int r = 0; r < TREADLE_MAX_RMA_IOV; r++) {
		for (int i = 0; i <= TREADLE_MAX_MR_IOV; i++, at += 30)
			iov[i] = range(at, 20);
		ASSERT_EQ(-EINVAL, mr_ranges(self->b.fd, iov, TREADLE_MAX_MR_IOV + 1, BOTH,
					     TREADLE_MR_KERNEL_KEY, NULL, &id));
		ASSERT_EQ(0, registers(self, iov, TREADLE_MAX_MR_IOV, 0));
		keys[r] = self->key;
		remote[r] = (struct treadle_rma_iov){0, 20 * TREADLE_MAX_MR_IOV, keys[r]};
	}
	fill(self->here, 20 * TREADLE_MAX_MR_IOV * TREADLE_MAX_RMA_IOV, 4);
	ASSERT_EQ(1, post_ranges(&self->a,
				 write_of(self->here, 20 * TREADLE_MAX_MR_IOV * TREADLE_MAX_RMA_IOV,
					  self->to, 0, 0, 1),
				 iov, remote, TREADLE_MAX_RMA_IOV));
	EXPECT_EQ(0, cq_next(&self->a.cq).error);
	at = self->there;
	for (int r = 0, n = 0; r < TREADLE_MAX_RMA_IOV; r++, at += 30) {
		for (int i = 0; i < TREADLE_MAX_MR_IOV; i++, n++, at += 30) {
			EXPECT_EQ(0, memcmp(at, self->here + 20 * n, 20));
			EXPECT_TRUE(all_are(at + 20, 10, 0));
		}
		EXPECT_TRUE(all_are(at, 30, 0));
	}
}

/* --- by address --------------------------------------------------------------------------- */

// conformance: fi_mr(3): FI_MR_VIRT_ADDR: the target's virtual address
TEST_F(rma, addresses_instead_of_offsets)
{
	const __u64 base = (unsigned long)self->there;
	const struct treadle_iov iov[] = {
		range(self->there + 1000, 100), /* goes on in the third */
		range(self->there + 200, 100), range(self->there + 1100, 100),
		range(self->there + 250, 100), /* goes over the end of the second */
	};

	ASSERT_EQ(0, registers(self, iov, 4, TREADLE_MR_VIRT_ADDR));
	fill(self->here, 300, 5);
	EXPECT_EQ(0, writes(self, self->here, 200, base + 1000));
	EXPECT_TRUE(same(self->there + 1000, 200, 5));
	EXPECT_EQ(0, writes(self, self->here, 150, base + 200));
	EXPECT_TRUE(same(self->there + 200, 150, 5));
	EXPECT_EQ(0, writes(self, self->here, 1, base + 299));
	memset(self->there, 0, LARGE);
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 201, base + 1000));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 101, base + 1100));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 151, base + 200));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 1, base + 199));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 1, base + 350));
	EXPECT_EQ(EREMOTEIO, writes(self, self->here, 1, 0));
	EXPECT_TRUE(all_are(self->there, LARGE, 0));
}

/* --- atomics ------------------------------------------------------------------------------ */

TEST_F(rma, an_element_is_in_one_range)
{
	const struct treadle_iov iov[] = {range(self->there, 24), range(self->there + 64, 4),
					  range(self->there + 72, 12)};
	__u64 ones[5] = {1, 1, 1, 1, 1};
	struct treadle_desc d;

	ASSERT_EQ(0, registers(self, iov, 3, 0));
	d = write_of(ones, 24, self->to, 0, self->key, 1);
	d.opcode = TREADLE_OP_ATOMIC;
	d.flags |= TREADLE_F_EXT;
	d.atomic_op = TREADLE_ATOMIC_SUM;
	d.datatype = TREADLE_UINT64;
	EXPECT_EQ(0, outcome(&self->a, d));
	EXPECT_EQ(0, memcmp(self->there, ones, 24));
	/* The fourth element would cross from the second range to the third. */
	d.len = 32;
	EXPECT_EQ(EINVAL, outcome(&self->a, d));
	EXPECT_EQ(0, memcmp(self->there, ones, 24));
	/* Elements of four bytes don't. */
	d.datatype = TREADLE_UINT32;
	d.len = 40;
	memset(self->there, 0, 100);
	EXPECT_EQ(0, outcome(&self->a, d));
	EXPECT_EQ(0, memcmp(self->there, ones, 24));
	EXPECT_EQ(0, memcmp(self->there + 64, ones + 3, 4));
	EXPECT_EQ(0, memcmp(self->there + 72, (char *)ones + 28, 12));
}

/* --- pinned ------------------------------------------------------------------------------- */

TEST_F(rma, a_pinned_region_is_revoked_with_any_of_its_ranges)
{
	const struct treadle_iov iov[] = {range(self->there + 100, PAGE),
					  range(self->there + 8 * PAGE, PAGE),
					  range(self->there + 4 * PAGE, 1)};
	const char *status = "/proc/self/status";
	long long locked = number_in(status, "VmLck:");

	for (int i = 0; i < 3; i++) {
		char *page = (char *)((unsigned long)iov[i].addr & ~(PAGE - 1UL));

		about("range %d", i);
		ASSERT_EQ(0, registers(self, iov, 3, TREADLE_MR_PINNED));
		EXPECT_EQ(locked + 4 * PAGE / 1024, number_in(status, "VmLck:"));
		fill(self->here, 2 * PAGE + 1, i);
		EXPECT_EQ(0, writes(self, self->here, 2 * PAGE + 1, 0));
		EXPECT_EQ(0, memcmp(self->there + 100, self->here, PAGE));
		EXPECT_EQ(0, memcmp(self->there + 8 * PAGE, self->here + PAGE, PAGE));
		EXPECT_EQ(0, memcmp(self->there + 4 * PAGE, self->here + 2 * PAGE, 1));
		/* Memory between the ranges is not part of the region. */
		ASSERT_EQ(0, munmap(self->there + 6 * PAGE, PAGE));
		EXPECT_EQ(0, writes(self, self->here, 2 * PAGE + 1, 0));
		ASSERT_EQ(0, munmap(page, PAGE));
		EXPECT_EQ(EKEYREJECTED, writes(self, self->here, 1, 0));
		EXPECT_EQ(EKEYREJECTED, writes(self, self->here, 1, PAGE));
		EXPECT_EQ(EKEYREJECTED, reads(self, self->here, 1, 2 * PAGE));
		EXPECT_EQ(0, destroy(self->b.fd, self->region));
		EXPECT_EQ(locked, number_in(status, "VmLck:"));
		ASSERT_EQ(page, mmap(page, PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	}
}

TEST_F(rma, all_ranges_are_validated)
{
	char *ro = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long long locked = number_in("/proc/self/status", "VmLck:");
	struct treadle_iov good = range(self->there, PAGE);
	const struct {
		struct treadle_iov iov;
		int result;
	} bad[] = {
		{range(self->there, 0), -EINVAL},
		{range(NULL, PAGE), -EFAULT},
		{range(ro, PAGE), -EFAULT},
		{range((void *)~0UL, 1), -EINVAL},
		{range((void *)8, ~0UL - 7), -EINVAL},
	};

	for (int i = 0; i < ARRAY_SIZE(bad); i++) {
		for (int pinned = 0; pinned < 2; pinned++) {
			const struct treadle_iov iov[] = {good, bad[i].iov, good};

			about("case %d, pinned %d", i, pinned);
			EXPECT_EQ(bad[i].result,
				  registers(self, iov, 3, pinned ? TREADLE_MR_PINNED : 0));
			EXPECT_EQ(bad[i].result,
				  registers(self, iov + 1, 2, pinned ? TREADLE_MR_PINNED : 0));
		}
	}
	/* A range that is mapped without the rights that are needed is refused at once. */
	EXPECT_EQ(-EFAULT, registers(self, (struct treadle_iov[]){good, range(ro, PAGE)}, 2,
				     TREADLE_MR_UNMAPPED));
	/* Lengths with a sum beyond 64 bits. */
	good = range(NULL, ~0ULL);
	EXPECT_EQ(0, registers(self, &good, 1, TREADLE_MR_UNMAPPED));
	EXPECT_EQ(-EINVAL,
		  registers(self, (struct treadle_iov[]){good, {0, 1}}, 2, TREADLE_MR_UNMAPPED));
	EXPECT_EQ(-EFAULT, registers(self, (void *)8, 2, 0));
	EXPECT_EQ(locked, number_in("/proc/self/status", "VmLck:"));
}

/* --- not mapped yet ------------------------------------------------------------------------- */

TEST_F(rma, maps_count_at_the_time_of_access)
{
	struct treadle_iov iov = range(self->there, LARGE);
	char *page = self->there + 4 * PAGE;

	ASSERT_EQ(0, munmap(page, PAGE));
	ASSERT_EQ(-EFAULT, registers(self, &iov, 1, 0));
	ASSERT_EQ(0, registers(self, &iov, 1, TREADLE_MR_UNMAPPED));
	fill(self->here, 2 * PAGE, 6);
	EXPECT_EQ(0, writes(self, self->here, 2 * PAGE, 0));
	EXPECT_TRUE(same(self->there, 2 * PAGE, 6));
	EXPECT_EQ(EIO, writes(self, self->here, 1, 4 * PAGE));
	EXPECT_EQ(EIO, reads(self, self->here, 2, 5 * PAGE - 1));
	ASSERT_EQ(page,
		  mmap(page, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	EXPECT_EQ(0, reads(self, self->here, PAGE, 4 * PAGE));
	EXPECT_TRUE(all_are(self->here, PAGE, 0));
	EXPECT_EQ(EIO, writes(self, self->here, 1, 4 * PAGE)); /* read-only */
	ASSERT_EQ(0, mprotect(page, PAGE, PROT_READ | PROT_WRITE));
	fill(self->here, PAGE, 8);
	EXPECT_EQ(0, writes(self, self->here, PAGE, 4 * PAGE));
	EXPECT_TRUE(same(page, PAGE, 8));
}

TEST_F(rma, all_that_a_process_may_have)
{
	const struct treadle_iov all = range(NULL, ~0ULL);
	const __u64 kernel = 0xffff888000000000;

	for (int virt = 0; virt < 2; virt++) {
		ASSERT_EQ(0, registers(self, &all, 1,
				       TREADLE_MR_UNMAPPED | (virt ? TREADLE_MR_VIRT_ADDR : 0)));
		fill(self->here, PAGE, virt);
		EXPECT_EQ(0, writes(self, self->here, PAGE, (unsigned long)self->there));
		EXPECT_TRUE(same(self->there, PAGE, virt));
		EXPECT_EQ(EIO, reads(self, self->here, 8, 0));
		EXPECT_EQ(EREMOTEIO, reads(self, self->here, 8, kernel));
		EXPECT_EQ(EREMOTEIO, reads(self, self->here, 8, ~0ULL - 8));
	}
}

TEST_HARNESS_MAIN
