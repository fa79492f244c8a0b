/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A copy goes to the page that is there, although that changes under it and the bytes do not: shared with children, merged
 * and parted, moved about, swapped, made part of a huge page and taken out of it (pagemap_stress.c has what takes
 * bytes away).
 */
#include "pagemap_stress.h"

/* A child has the pages as they were: forever, whatever the parent receives. */
static void child(stress *s)
{
	char *before = pages(HUGE);

	memcpy(before, s->in, s->len);
	/* What it writes is its own, too. */
	memset(s->out, POISON, s->len);
	usleep(5000);
	need(memcmp(before, s->in, s->len) == 0);
	need(all_are(s->out, s->len, POISON));
	_exit(0);
}

TEST_F(stress, shared_with_children)
{
	__u64 state = 6, end;

	/* In the child they would be copies, and the first one there is dead. */
	end = begin(self, variant);
	while (stressing(self, end)) {
		pid_t pid[2];

		for (int i = 0; i < 2; i++) {
			pid[i] = fork();
			ASSERT_LE(0, pid[i]);
			if (pid[i] == 0)
				child(self);
			wait_a_little(&state);
		}
		for (int i = 0; i < 2; i++) {
			EXPECT_EQ(0, reap(pid[i]));
		}
	}
}

/* Somewhere to swap to; the machine has nothing of the kind. */
static void swap_on(void)
{
	need(system("modprobe zram && echo 64M >/sys/block/zram0/disksize &&"
		    "mkswap -q /dev/zram0 && swapon /dev/zram0") == 0);
}

/* Huge pages are made of small ones and taken apart again, swapped, and moved about. */
TEST_F(stress, collapsed_split_and_swapped)
{
	__u64 state = 7, end, swapped = 0;
	int collapsed = 0;

	swap_on();
	self->len = HUGE;
	refill(self->out, (struct part){0, HUGE});
	write_to("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
	ASSERT_EQ(0, madvise(self->in, HUGE, MADV_HUGEPAGE));
	ASSERT_EQ(0, madvise(self->out, HUGE, MADV_HUGEPAGE));
	end = begin(self, variant);
	while (stressing(self, end)) {
		struct part p = some_pages(&state, HUGE);

		/* Another protection for a part of it takes it apart. */
		ASSERT_EQ(0, mprotect(self->out + p.at, p.len, PROT_READ));
		wait_a_little(&state);
		ASSERT_EQ(0, mprotect(self->out + p.at, p.len, PROT_READ | PROT_WRITE));
		collapsed += madvise(self->in, HUGE, MADV_COLLAPSE) == 0;
		collapsed += madvise(self->out, HUGE, MADV_COLLAPSE) == 0;
		madvise(self->in + p.at, p.len, MADV_PAGEOUT);
		madvise(self->out + p.at, p.len, MADV_PAGEOUT);
		swapped += number_in("/proc/self/status", "VmSwap:");
		write_to("/proc/sys/vm/compact_memory", "1");
		wait_a_little(&state);
	}
	EXPECT_EQ(0, system("swapoff /dev/zram0 && echo 1 >/sys/block/zram0/reset"));
	note("collapsed %d times; KiB swapped, summed up: %llu", collapsed, swapped);
	EXPECT_TRUE(collapsed && (swapped || variant->pinned));
}

TEST_HARNESS_MAIN
