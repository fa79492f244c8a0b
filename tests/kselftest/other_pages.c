/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A copy goes to the page that is there, although that changes under it and the bytes do not: shared with children, merged
 * and parted, moved about, swapped, made part of a huge page and taken out of it (pagemap_stress.c has what takes
 * bytes away).
 *
 * test-timeout: 600
 */
#include "pagemap_stress.h"

/* --- where pages are ------------------------------------------------------------------------- */

#define PAGES (RANGE / PAGE)

/* The frame that each page of a range is in; 0: in none. */
static void frames_of(const char *at, __u64 frame[PAGES])
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	need(fd >= 0);
	need(pread(fd, frame, PAGES * 8, (unsigned long)at / PAGE * 8) == PAGES * 8);
	close(fd);
	for (int i = 0; i < PAGES; i++)
		frame[i] = frame[i] >> 63 ? frame[i] & ((1ULL << 55) - 1) : 0;
}

/* A kernel without huge pages (PREEMPT_RT) knows no such advice. */
static void small_pages(char *at, size_t len)
{
	need(madvise(at, len, MADV_NOHUGEPAGE) == 0 || errno == EINVAL);
}

/* How many of its pages are now elsewhere. */
static int have_moved(const char *at, const __u64 before[PAGES])
{
	__u64 now[PAGES];
	int n = 0;

	frames_of(at, now);
	for (int i = 0; i < PAGES; i++)
		n += before[i] && now[i] && before[i] != now[i];
	return n;
}

/* How many of its pages are its twin's as well, because they hold the same. (KPF_KSM says so of all anonymous pages on 6.12.) */
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

/* What has not happened yet may do so a little later, but not never. */
static bool stressing_until(const stress *s, __u64 end, bool seen)
{
	return stressing(s, end) || (!seen && now_ns() < end + 3 * PATIENCE_NS);
}

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
 * Swapped pages come back to where there is room, and are moved from there to make a larger one; where that does not
 * happen by itself, what has the frame is to do without it. What is pinned stays.
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
 * Pages that hold the same become one, and two again when one of them is written. The twins are nobody's: nothing
 * arrives there. What is pinned stays as it is.
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
	/* Newer kernels leave pages alone that were not merged the last times. */
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

		/* As it is now, until the next message comes. */
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
		/* The same once more, on pages of its own. */
		refill(self->out, some_pages(&state, RANGE));
		wait_a_little(&state);
	}
	for (size_t i = 0; i < RANGE; i += 8)
		ASSERT_EQ(pattern(OUT_SEED, i), *(__u64 *)(twin_out + i));
	write_to("/sys/kernel/mm/ksm/run", "2");
	write_to("/sys/kernel/mm/ksm/run", "0");
	note("merged pages, summed up: %d where messages came, %d where they left; at most %lld at a time",
	     in, out, sharing);
	EXPECT_EQ(!variant->pinned, in > 0);
	EXPECT_EQ(!variant->pinned, out > 0);
	EXPECT_TRUE(variant->pinned || sharing > 0);
}

TEST_HARNESS_MAIN
