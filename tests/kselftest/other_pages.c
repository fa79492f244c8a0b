/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A copy uses the current page while pages change and their bytes do not: shared with children,
 * merged and unmerged, moved, swapped, collapsed into a huge page and split. (pagemap_stress.c
 * changes the bytes.)
 *
 * test-timeout: 600
 */
#include "pagemap_stress.h"

/* --- where pages are ------------------------------------------------------------------------- */

#define PAGES (RANGE / PAGE)

/* The frame of each page of a range; 0: none. */
static void frames_of(const char *at, __u64 frame[PAGES])
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	need(fd >= 0);
	need(pread(fd, frame, PAGES * 8, (unsigned long)at / PAGE * 8) == PAGES * 8);
	close(fd);
	for (int i = 0; i < PAGES; i++)
		frame[i] = frame[i] >> 63 ? frame[i] & ((1ULL << 55) - 1) : 0;
}

/* PREEMPT_RT has no huge pages, and refuses this advice. */
static void small_pages(char *at, size_t len)
{
	need(madvise(at, len, MADV_NOHUGEPAGE) == 0 || errno == EINVAL);
}

/* The number of pages that are in another frame now. */
static int have_moved(const char *at, const __u64 before[PAGES])
{
	__u64 now[PAGES];
	int n = 0;

	frames_of(at, now);
	for (int i = 0; i < PAGES; i++)
		n += before[i] && now[i] && before[i] != now[i];
	return n;
}

/*
 * The number of pages that share a frame with the twin's page. (KPF_KSM is set for all anonymous
 * pages on 6.12.)
 */
static int are_merged(const char *at, const char *twin)
{
	__u64 frame[PAGES], other[PAGES];
	int n = 0;

	frames_of(at, frame);
	frames_of(twin, other);
	for (int i = 0; i < PAGES; i++)
		n += frame[i] && frame[i] == other[i];
	return n;
}

static long long events(const char *key)
{
	return number_in("/proc/vmstat", key);
}

/* More time for something that has not happened yet, within a limit. */
static bool stressing_until(const stress *s, __u64 end, bool seen)
{
	return stressing(s, end) || (!seen && now_ns() < end + 3 * PATIENCE_NS);
}

/* A child keeps the pages as they were, whatever the parent receives. */
static void child(stress *s)
{
	char *before = pages(HUGE);

	memcpy(before, s->in, s->len);
	/* The child's own writes stay, too. */
	memset(s->out, POISON, s->len);
	usleep(5000);
	need(memcmp(before, s->in, s->len) == 0);
	need(all_are(s->out, s->len, POISON));
	_exit(0);
}

TEST_F(stress, shared_with_children)
{
	__u64 state = 6, end;

	/* A child would have copies of pinned pages. */
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

/* Somewhere to swap to; the machine has no swap of its own. */
static void swap_on(void)
{
	need(system("modprobe zram && echo 64M >/sys/block/zram0/disksize &&"
		    "mkswap -q /dev/zram0 && swapon /dev/zram0") == 0);
}

/* Huge pages are collapsed and split again, swapped, and moved. */
TEST_F(stress, collapsed_split_and_swapped)
{
	__u64 state = 7, end, swapped = 0;
	long long split = events("thp_split_page ");
	int collapsed = 0;

	if (split < 0)
		SKIP(return, "this kernel has no huge pages");
	swap_on();
	self->len = HUGE;
	refill(self->out, (struct part){0, HUGE});
	write_to("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
	ASSERT_EQ(0, madvise(self->in, HUGE, MADV_HUGEPAGE));
	ASSERT_EQ(0, madvise(self->out, HUGE, MADV_HUGEPAGE));
	end = begin(self, variant);
	while (stressing_until(self, end, variant->pinned || events("thp_split_page ") > split)) {
		struct part p = some_pages(&state, HUGE);

		/* Protecting a part of a huge page splits it. */
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
	split = events("thp_split_page ") - split;
	note("collapsed %d times, %lld split; KiB swapped, summed up: %llu", collapsed, split,
	     swapped);
	EXPECT_LT(0, collapsed);
	if (!variant->pinned) {
		EXPECT_LT(0, split);
		EXPECT_LT(0, swapped);
	}
}

/*
 * Swapped pages come back to any free frame, and compaction moves them from there. Soft offlining
 * moves a page in any case. Pinned pages stay.
 */
TEST_F(stress, moved_about)
{
	__u64 state = 8, end, in[PAGES], out[PAGES];
	long long migrated = events("pgmigrate_success ");
	int moved = 0, moved_out = 0;

	if (migrated < 0 || access("/proc/sys/vm/compact_memory", W_OK))
		SKIP(return, "this kernel moves no pages");
	swap_on();
	small_pages(self->in, HUGE);
	small_pages(self->out, HUGE);
	end = begin(self, variant);
	while (stressing_until(self, end, variant->pinned || (moved && moved_out))) {
		struct part p = some_pages(&state, RANGE);

		madvise(self->in + p.at, p.len, MADV_PAGEOUT);
		madvise(self->out + p.at, p.len, MADV_PAGEOUT);
		wait_a_little(&state);
		for (size_t i = 0; i < RANGE; i += PAGE) {
			__atomic_fetch_or(self->in + i, 0, __ATOMIC_RELAXED);
			__atomic_fetch_or(self->out + i, 0, __ATOMIC_RELAXED);
		}
		frames_of(self->in, in);
		frames_of(self->out, out);
		write_to("/proc/sys/vm/compact_memory", "1");
		madvise(self->in + p.at, PAGE, MADV_SOFT_OFFLINE);
		madvise(self->out + p.at, PAGE, MADV_SOFT_OFFLINE);
		moved += have_moved(self->in, in);
		moved_out += have_moved(self->out, out);
	}
	EXPECT_EQ(0, system("swapoff /dev/zram0 && echo 1 >/sys/block/zram0/reset"));
	migrated = events("pgmigrate_success ") - migrated;
	note("%d pages moved where messages came, %d where they left, %lld in all", moved,
	     moved_out, migrated);
	EXPECT_EQ(!variant->pinned, moved > 0);
	EXPECT_EQ(!variant->pinned, moved_out > 0);
	EXPECT_TRUE(variant->pinned || migrated >= moved + moved_out);
}

static void merge(char *at)
{
	small_pages(at, RANGE);
	need(madvise(at, RANGE, MADV_MERGEABLE) == 0);
}

/*
 * Pages with the same contents are merged, and unmerged by a write. No message goes to the twins,
 * so they must not change. Pinned pages are not merged.
 */
TEST_F(stress, merged_and_parted)
{
	char *twin = range(HUGE), *twin_out = range(HUGE), *before = pages(RANGE);
	const struct part all = {0, RANGE};
	long long sharing = 0, now;
	__u64 state = 9, end;
	int in = 0, out = 0;

	if (access("/sys/kernel/mm/ksm/run", W_OK))
		SKIP(return, "this kernel merges no pages");
	write_to("/sys/kernel/mm/ksm/pages_to_scan", "5000");
	write_to("/sys/kernel/mm/ksm/sleep_millisecs", "1");
	/* Newer kernels skip pages that were not merged the last times. */
	if (access("/sys/kernel/mm/ksm/smart_scan", W_OK) == 0)
		write_to("/sys/kernel/mm/ksm/smart_scan", "0");
	end = begin(self, variant);
	merge(self->in);
	merge(self->out);
	merge(twin);
	merge(twin_out);
	refill(twin_out, all);
	write_to("/sys/kernel/mm/ksm/run", "1");
	while (stressing_until(self, end, variant->pinned || (in && out && sharing))) {
		struct part p = some_pages(&state, RANGE);

		/* The same contents, until the next message comes. */
		memcpy(twin + p.at, self->in + p.at, p.len);
		memcpy(before, twin + p.at, p.len);
		for (int i = 0; i < 20; i++)
			wait_a_little(&state);
		in += are_merged(self->in, twin);
		out += are_merged(self->out, twin_out);
		now = number_in("/sys/kernel/mm/ksm/pages_sharing", NULL);
		if (now > sharing)
			sharing = now;
		ASSERT_EQ(0, memcmp(before, twin + p.at, p.len));
		/* The same contents again, in new pages. */
		refill(self->out, some_pages(&state, RANGE));
		wait_a_little(&state);
	}
	for (size_t i = 0; i < RANGE; i += 8)
		ASSERT_EQ(pattern(OUT_SEED, i), *(__u64 *)(twin_out + i));
	write_to("/sys/kernel/mm/ksm/run", "2");
	write_to("/sys/kernel/mm/ksm/run", "0");
	note("merged pages, summed up: %d where messages came, %d where they left; "
	     "at most %lld at a time",
	     in, out, sharing);
	EXPECT_EQ(!variant->pinned, in > 0);
	EXPECT_EQ(!variant->pinned, out > 0);
	EXPECT_TRUE(variant->pinned || sharing > 0);
}

TEST_HARNESS_MAIN
