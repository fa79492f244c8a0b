/* SPDX-License-Identifier: GPL-2.0 */
/* The random walk of fuzz.c: steps with windows and lanes. */
#ifndef TREADLE_KSELFTEST_FUZZ_DIRECT_H
#define TREADLE_KSELFTEST_FUZZ_DIRECT_H

#include "fuzz_maps.h"

/*
 * Remembers a new window or lane, and maps it as a whole. What had its place is forgotten, but not
 * unmapped: others may use it.
 */
static void remember_view(struct walker *w, struct file *f, enum kind kind, __u32 id,
			  struct treadle_map m, bool writable, enum bend bend)
{
	char *at = mmap(NULL, m.length, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, f->fd,
			m.offset);

	remember(w, f, kind, id);
	count_bend(bend);
	if (at != MAP_FAILED)
		f->view[id % KNOWN] = (struct view){at, m.length, writable};
}

/* Loads and stores in a window or a lane, perhaps after its map was moved or changed. */
static void uses_view(struct walker *w, struct file *f)
{
	struct view *place = &PICK(w, f->view), v = *place;
	volatile __u64 *word;

	if (!v.length)
		return;
	switch (roll(w, 8)) {
	case 0:
		madvise(v.at, v.length, MADV_DONTNEED);
		break;
	case 1:
		place->writable = v.writable = false;
		mprotect(v.at, v.length, PROT_READ);
		break;
	case 2:
	case 3: /* where commands read and write */
		if (v.length > ARENA / 4)
			return;
		place->length = 0;
		if (lay(w, v.at, v.length))
			count_bend(VIEWED);
		return;
	}
	for (int n = roll(w, 32); n; n--) {
		word = (__u64 *)(v.at + (roll(w, v.length) & ~7U));
		if (v.writable)
			*word = one_in(w, 2) ? some_number(w) : *word + 1;
		else
			(void)*word;
	}
}

static void opens_window(struct walker *w, struct file *f, __u32 ep, __u64 key, __u64 at)
{
	struct treadle_window_open c = {
		.size = sizeof(c),
		.ep = ep,
		.access =
			one_in(w, 8) ? roll(w, 64) : (1 + roll(w, 3)) * TREADLE_ACCESS_REMOTE_READ,
		.peer = one_in(w, 4) ? roll(w, 4) : 0,
		.key = key,
		.addr = at + (one_in(w, 4) ? some_length(w) : 0),
		.len = 1 + some_length(w),
	};
	struct treadle_window_fill fill = {.size = sizeof(fill)};

	if (TRY(w, f, TREADLE_IOC_WINDOW_OPEN, &c))
		return;
	remember_view(w, f, WINDOW, c.id, c.data, c.access & TREADLE_ACCESS_REMOTE_WRITE, OPENED);
	fill.window = c.id;
	fill.addr = c.addr;
	fill.len = c.len;
	TRY(w, f, TREADLE_IOC_WINDOW_FILL, &fill);
}

static void uses_windows(struct walker *w, struct file *f)
{
	struct treadle_iov range = {(unsigned long)some_pages(w, ARENA / 16), ARENA / 16};
	struct treadle_mr_create region = {
		.size = sizeof(region),
		.flags = TREADLE_MR_KERNEL_KEY | (one_in(w, 2) ? TREADLE_MR_PINNED : 0),
		.access = TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE,
		.iov_count = 1,
		.iov = (unsigned long)&w->desk->iov[0]};
	struct treadle_window_fill fill = {.size = sizeof(fill),
					   .window = some_id(w, f, WINDOW),
					   .addr = some_number(w),
					   .len = some_length(w)};
	__u32 key = roll(w, PUBLIC);
	struct treadle_ep_enable end;

	switch (roll(w, 8)) {
	case 0:
	case 1:
	case 2:
		end = settle(w, f, 0); /* its peer 0 is itself */
		w->desk->iov[0] = range;
		if (TRY(w, f, TREADLE_IOC_MR_CREATE, &region))
			return;
		remember(w, f, MR, region.id);
		opens_window(w, f, end.ep, region.key, 0);
		break;
	case 3:
		opens_window(w, f, some_id(w, f, EP), town->key[key], town->at[key]);
		break;
	case 4:
		TRY(w, f, TREADLE_IOC_WINDOW_FILL, &fill);
		break;
	case 5:
		try_destroy(w, f, some_id(w, f, WINDOW));
		break;
	default:
		uses_view(w, f);
	}
}

static void offers_lane(struct walker *w, struct file *f, __u32 ep)
{
	struct treadle_lane_make c = {.size = sizeof(c), .ep = ep, .peer = roll(w, 4)};

	if (TRY(w, f, TREADLE_IOC_LANE_MAKE, &c) == 0)
		remember_view(w, f, LANE, c.id, c.rw, true, OFFERED);
}

static void takes_lane(struct walker *w, struct file *f, __u32 rx)
{
	struct treadle_lane_take c = {.size = sizeof(c), .rx = rx};

	if (TRY(w, f, TREADLE_IOC_LANE_TAKE, &c) == 0)
		remember_view(w, f, LANE, c.id, c.rw, true, TAKEN);
}

static void uses_lanes(struct walker *w, struct file *f)
{
	struct treadle_lane_source source = {.size = sizeof(source), .lane = some_id(w, f, LANE)};
	struct treadle_ep_enable end;

	switch (roll(w, 10)) {
	case 0:
	case 1:
		end = settle(w, f, TREADLE_RX_LANES); /* its peer 0 is itself */
		offers_lane(w, f, end.ep);
		takes_lane(w, f, end.rx);
		break;
	case 2:
	case 3:
		offers_lane(w, f, some_id(w, f, EP));
		break;
	case 4:
	case 5:
		takes_lane(w, f, some_id(w, f, RX));
		break;
	case 6:
		TRY(w, f, TREADLE_IOC_LANE_SOURCE, &source);
		break;
	case 7:
		try_destroy(w, f, some_id(w, f, LANE));
		break;
	default:
		uses_view(w, f);
	}
}

#endif
