/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A copy never accesses a page that is no longer mapped at that address in its owner. Messages go
 * into one range and out of another without a pause, while the maps of both are changed in every
 * way there is.
 *
 * Pages that were taken from a range and are visible elsewhere (moved, in a child, protected) must
 * not change, and bytes written to them must not arrive. Freed pages soon belong to another
 * process, which watches them. A message has the bytes that were sent, or zeroes from a range that
 * was emptied meanwhile, or an error.
 */
// conformance: fi_domain(3): mr_mode: FI_MR_LOCAL, RAW, ALLOCATED, MMU_NOTIFY, RMA_EVENT, ...
// conformance: fi_arch(7): registration: pages may be paged out or remapped behind the adapter's
//   back

#include "pagemap_stress.h"

/* --- taken away ------------------------------------------------------------------------------ */

TEST_F(stress, unmapped_and_mapped_again)
{
	__u64 state = 1, end;

	self->may_fail = self->may_vanish = true;
	end = begin(self, variant);
	while (stressing(self, end)) {
		struct part p = some_pages(&state, self->len);

		munmap(self->in + p.at, p.len);
		if (lottery(&state) % 2)
			wait_a_little(&state);
		fresh(self->in + p.at, p.len);
		p = some_pages(&state, self->len);
		/* At once, without a hole. */
		fresh(self->out + p.at, p.len);
		wait_a_little(&state);
		refill(self->out, p);
		wait_a_little(&state);
	}
}

TEST_F(stress, emptied)
{
	__u64 state = 2, end;

	self->may_vanish = true;
	end = begin(self, variant);
	while (stressing(self, end)) {
		struct part p = some_pages(&state, self->len);

		ASSERT_EQ(0, madvise(self->in + p.at, p.len, MADV_DONTNEED));
		p = some_pages(&state, self->len);
		ASSERT_EQ(0, madvise(self->out + p.at, p.len, MADV_DONTNEED));
		wait_a_little(&state);
		refill(self->out, p);
		wait_a_little(&state);
	}
}

/* The pages live on elsewhere: no message may reach them there, and none may leave from there. */
TEST_F(stress, moved)
{
	char *away = range(HUGE), *before = pages(HUGE);
	__u64 state = 3, end;

	self->may_fail = self->may_vanish = true;
	end = begin(self, variant);
	while (stressing(self, end)) {
		struct part p = some_pages(&state, self->len);

		/* Touch all pages, as a page that does not exist is not moved. */
		for (size_t i = 0; i < p.len; i += PAGE)
			__atomic_fetch_or(self->in + p.at + i, 0, __ATOMIC_RELAXED);
		ASSERT_EQ(away, mremap(self->in + p.at, p.len, p.len, MREMAP_MAYMOVE | MREMAP_FIXED,
				       away));
		memcpy(before, away, p.len);
		fresh(self->in + p.at, p.len);
		wait_a_little(&state);
		ASSERT_EQ(0, memcmp(before, away, p.len));

		p = some_pages(&state, self->len);
		ASSERT_EQ(away, mremap(self->out + p.at, p.len, p.len,
				       MREMAP_MAYMOVE | MREMAP_FIXED, away));
		memset(away, POISON, p.len);
		fresh(self->out + p.at, p.len);
		wait_a_little(&state);
		refill(self->out, p);
		wait_a_little(&state);
		EXPECT_TRUE(all_are(away, p.len, POISON));
	}
}

/* Moved, and recognizable by the bytes: nothing is lost on the way back. */
TEST_F(stress, protected)
{
	char *before = pages(HUGE);
	__u64 state = 4, end;

	self->may_fail = true;
	end = begin(self, variant);
	while (stressing(self, end)) {
		struct part p = some_pages(&state, self->len);

		ASSERT_EQ(0, mprotect(self->in + p.at, p.len, PROT_READ));
		memcpy(before, self->in + p.at, p.len);
		wait_a_little(&state);
		ASSERT_EQ(0, memcmp(before, self->in + p.at, p.len));
		ASSERT_EQ(0, mprotect(self->in + p.at, p.len, PROT_READ | PROT_WRITE));
		p = some_pages(&state, self->len);
		ASSERT_EQ(0, mprotect(self->out + p.at, p.len, PROT_NONE));
		wait_a_little(&state);
		ASSERT_EQ(0, mprotect(self->out + p.at, p.len, PROT_READ));
		wait_a_little(&state);
	}
}

/* Pages of a file, with holes punched into it. */
TEST_F(stress, of_a_file)
{
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
	__u64 state = 5, end;

	ASSERT_EQ(0, ftruncate(fd, 2 * RANGE));
	ASSERT_EQ(self->in,
		  mmap(self->in, RANGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0));
	ASSERT_EQ(self->out, mmap(self->out, RANGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
				  fd, RANGE));
	refill(self->out, (struct part){0, RANGE});
	self->may_fail = self->may_vanish = true;
	end = begin(self, variant);
	while (stressing(self, end)) {
		struct part p = some_pages(&state, RANGE);

		ASSERT_EQ(0,
			  fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, p.at, p.len));
		p = some_pages(&state, RANGE);
		ASSERT_EQ(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, RANGE + p.at,
				       p.len));
		wait_a_little(&state);
		/* The end of the file is cut off, and comes back. */
		if (lottery(&state) % 4 == 0) {
			ASSERT_EQ(0, ftruncate(fd, lottery(&state) % (2 * RANGE)));
			wait_a_little(&state);
			ASSERT_EQ(0, ftruncate(fd, 2 * RANGE));
			p = (struct part){0, RANGE};
		}
		refill(self->out, p);
		wait_a_little(&state);
	}
}

TEST_HARNESS_MAIN
