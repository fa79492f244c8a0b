/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: windows: pages of a pagemap that are mapped into another process */
#ifndef TREADLE_MM_WINDOW_H
#define TREADLE_MM_WINDOW_H

#include <linux/fs.h>
#include <linux/refcount.h>

#include <treadle/window.h>

#include "mm/pagemap.h"

/*
 * struct treadle_pm_window - a window
 * @range:	whole pages of the owner, in pm->windows if @listed
 * @pm:		the owner's pagemap, held by the creator
 * @ref:	of @listed, of notifiers that unmap pages, and of @late_work
 * @mapping, @pgoff: where the initiator's maps are found: page n is at @pgoff + n
 * @count:	pages
 * @write:	the map may be written; constant
 * @revoked, @closed: of the region and of the endpoint by which it is reached: once one of them is
 *		set (under pm->lock), treadle_pm_windows_end() takes the window away
 * @pinned:	pages of a pinned region, by their index in the window; valid as long as @revoked is
 *		not set. NULL: not pinned
 * @pages:	page n, if @mapped has bit n: no reference is held, except of a LATE page
 * @filled:	bit n: page n may be entered into the initiator's page table
 * @mapped:	bit n: it may be there; @filled is part of it
 * @status:	what the initiator sees
 * @listed, @unwanted, @ended: in pm->windows; its creator wants it ended; it is ended
 * @scratched:	the scratch page may be in the initiator's page table
 * @late:	number of LATE pages; @round: the mark of those that come now
 * @late_work:	unmaps them, as a notifier must not wait for ever
 * @end_work:	calls @release
 * @release:	the last reference is gone. May sleep
 *
 * All but constants are under pm->lock.
 */
struct treadle_pm_window {
	struct interval_tree_node range;
	struct treadle_pm *pm;
	refcount_t ref;
	struct address_space *mapping;
	pgoff_t pgoff;
	unsigned long count;
	bool write;
	const bool *revoked, *closed;
	struct page *const *pinned;
	struct page **pages;
	unsigned long *filled, *mapped;
	struct treadle_window_status *status;
	bool listed, unwanted, ended, scratched;
	unsigned long late, round;
	struct work_struct late_work, end_work;
	void (*release)(struct treadle_pm_window *w);
};

static inline u64 treadle_pm_address(const struct treadle_pm_window *w, unsigned long i)
{
	return w->range.start + ((u64)i << PAGE_SHIFT);
}

/* The bits that the initiator sees. (The module is for little-endian kernels of 64 bits.) */
static inline unsigned long *treadle_pm_present(const struct treadle_pm_window *w)
{
	return (unsigned long *)w->status->present;
}

/* window.c */
int treadle_pm_window_alloc(struct treadle_pm_window *w);
void treadle_pm_window_free(struct treadle_pm_window *w);
int treadle_pm_window_list(struct treadle_pm_window *w);
void treadle_pm_window_end(struct treadle_pm_window *w);
void treadle_pm_window_unmap(struct treadle_pm_window *w, unsigned long lo, unsigned long hi);
/*
 * How long to wait for pages to be unmapped. If that is too short, a work unmaps them, and they get
 * references until then.
 *
 * PM_WAIT is for callers without locks of the memory management. PM_WAIT_BRIEFLY is for notifiers:
 * their callers may have locks that a holder of an initiator's i_mmap_rwsem waits for.
 */
enum treadle_pm_wait { PM_NO_WAIT, PM_WAIT_BRIEFLY, PM_WAIT };

void treadle_pm_windows_take(struct treadle_pm *pm, u64 start, u64 last, enum treadle_pm_wait wait);
void treadle_pm_windows_end(struct treadle_pm *pm, u64 start, u64 last, const bool *revoked,
			    enum treadle_pm_wait wait);

/* window_fill.c */
int treadle_pm_window_fill(struct treadle_pm_window *w, unsigned long first, unsigned long last);
vm_fault_t treadle_pm_window_fault(struct treadle_pm_window *w, struct vm_fault *vmf,
				   struct page *scratch);

#endif
