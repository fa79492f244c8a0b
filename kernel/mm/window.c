// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: windows: pages of a pagemap that are mapped into another process
 *
 * The initiator's map of a window gets pages of its owner by page faults, under the lock of the
 * owner's pagemap, and only pages that WINDOW_FILL has found known there (@filled). A fault on any
 * other page enters the scratch page of the initiator: it never waits.
 *
 * A notifier takes pages away in three steps. Under pm->lock it changes the generation and takes
 * them out of @filled, so that no fault enters them any more. Without the lock it unmaps them. Then
 * it takes them out of @mapped. A second notifier for the same pages sees them in @mapped, and
 * unmaps them, too: so none returns while they are mapped. They can't be filled meanwhile.
 *
 * Where a notifier must not wait (the OOM reaper's), the pages get references until a work has
 * unmapped them: then they are not given to others.
 *
 * Pages of a pinned region stay mapped until it ends, as their process keeps them, too: for them,
 * each notifier only clears the bits that the initiator looks at. An access that is under way still
 * reaches the page. So an atomic need not ask whether it has been executed.
 */
#include <linux/bitmap.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "mm/base.h"
#include "mm/window.h"

#define BATCH	   16u
#define LATE_BATCH 64u
#define LATE	   3ul /* in an entry of @pages: one of two marks, and a reference is held */

static unsigned long mark_of(const struct page *page)
{
	return (unsigned long)page & LATE;
}

static u64 address(const struct treadle_pm_window *w, unsigned long i)
{
	return w->range.start + ((u64)i << PAGE_SHIFT);
}

/* The bits that the initiator sees. (The module is for little-endian kernels of 64 bits.) */
static unsigned long *present(const struct treadle_pm_window *w)
{
	return (unsigned long *)w->status->present;
}

/**
 * treadle_pm_window_alloc() - allocate what a window needs for each page
 * @w:	zeroed, with the constant fields set
 *
 * Context: may sleep. Charged to the caller.
 * Return: 0 or -ENOMEM; treadle_pm_window_free() follows in any case.
 */
int treadle_pm_window_alloc(struct treadle_pm_window *w)
{
	w->pages = treadle_table_alloc(w->count, sizeof(*w->pages), TREADLE_GFP);
	w->filled = treadle_table_alloc(BITS_TO_LONGS(w->count), sizeof(long), TREADLE_GFP);
	w->mapped = treadle_table_alloc(BITS_TO_LONGS(w->count), sizeof(long), TREADLE_GFP);
	w->round = 1;
	return w->pages && w->filled && w->mapped ? 0 : -ENOMEM;
}

/**
 * treadle_pm_window_free() - free what treadle_pm_window_alloc() has allocated
 * @w:	not listed, and no reference is left
 *
 * Context: may sleep.
 */
void treadle_pm_window_free(struct treadle_pm_window *w)
{
	kvfree(w->pages);
	kvfree(w->filled);
	kvfree(w->mapped);
}

static void window_end_work(struct work_struct *work)
{
	struct treadle_pm_window *w = container_of(work, struct treadle_pm_window, end_work);

	w->release(w);
}

/* Never sleeps. */
static void window_put(struct treadle_pm_window *w)
{
	if (refcount_dec_and_test(&w->ref))
		treadle_pm_queue(&w->end_work);
}

/*
 * Unmap pages from the initiator. Takes the i_mmap_rwsem of its file for reading; may sleep.
 *
 * unmap_mapping_pages() calls the notifiers of the initiator, within a notifier of the owner. They
 * are of one class for lockdep, which would take that for a deadlock. But they nest no further: no
 * pagemap knows pages of a window, so a notifier for these has no window to unmap. All other locks
 * are below i_mmap_rwsem, which lockdep is told of.
 */
static void window_unmap(struct treadle_pm_window *w, unsigned long lo, unsigned long hi)
{
	might_sleep();
	might_lock_read(&w->mapping->i_mmap_rwsem);
	lockdep_off();
	unmap_mapping_pages(w->mapping, w->pgoff + lo, hi - lo + 1, true);
	lockdep_on();
}

/*
 * Let the initiator see that pages are not there any more, before they go. The bits are cleared
 * first: an access that begins with the new generation must not find them set, as nothing would
 * tell it that the page goes.
 */
static void window_change(struct treadle_pm_window *w, unsigned long lo, unsigned long hi)
{
	lockdep_assert_held_write(&w->pm->lock);
	bitmap_clear(present(w), lo, hi - lo + 1);
	smp_wmb(); /* pairs with the acquire of the initiator, before it looks at the bits */
	WRITE_ONCE(w->status->generation, w->status->generation + 1);
}

static bool any(const unsigned long *bits, unsigned long lo, unsigned long hi)
{
	return find_next_bit(bits, hi + 1, lo) <= hi;
}

/* Hold pages that are still mapped, and leave their unmapping to a work. */
static void window_later(struct treadle_pm_window *w, unsigned long lo, unsigned long hi)
{
	unsigned long i = lo;

	lockdep_assert_held_write(&w->pm->lock);
	for_each_set_bit_from(i, w->mapped, hi + 1) {
		if (mark_of(w->pages[i]))
			continue;
		get_page(w->pages[i]);
		w->pages[i] = (void *)((unsigned long)w->pages[i] | w->round);
		w->late++;
	}
	refcount_inc(&w->ref);
	if (!treadle_pm_queue(&w->late_work))
		refcount_dec(&w->ref); /* it is queued already, with a reference */
}

/* Pages have been unmapped. */
static void window_unmapped(struct treadle_pm_window *w, unsigned long lo, unsigned long hi)
{
	unsigned long i = lo, word;

	lockdep_assert_held_write(&w->pm->lock);
	if (w->late) {
		for_each_set_bit_from(i, w->mapped, hi + 1)
			if (!test_bit(i, w->filled) && !mark_of(w->pages[i]))
				__clear_bit(i, w->mapped);
		return;
	}
	for (word = BIT_WORD(lo); word <= BIT_WORD(hi); word++) {
		unsigned long mask = ~0ul;

		if (word == BIT_WORD(lo))
			mask &= BITMAP_FIRST_WORD_MASK(lo);
		if (word == BIT_WORD(hi))
			mask &= BITMAP_LAST_WORD_MASK(hi + 1);
		w->mapped[word] &= w->filled[word] | ~mask;
	}
}

/* Unmap the pages that window_later() has left. */
static void window_late(struct work_struct *work)
{
	struct treadle_pm_window *w = container_of(work, struct treadle_pm_window, late_work);
	struct page *put[LATE_BATCH];
	unsigned long i = 0, mark;
	unsigned int n;

	pm_write_lock(w->pm);
	mark = w->round;
	w->round ^= LATE; /* what comes from here on is left to the next call */
	pm_write_unlock(w->pm);
	window_unmap(w, 0, w->count - 1);
	while (i < w->count) {
		unsigned long end = min(w->count, i + PAGE_SIZE);

		n = 0;
		pm_write_lock(w->pm);
		for_each_set_bit_from(i, w->mapped, end) {
			if (mark_of(w->pages[i]) != mark)
				continue;
			if (n == LATE_BATCH)
				break;
			put[n++] = (void *)((unsigned long)w->pages[i] & ~LATE);
			w->pages[i] = NULL;
			w->late--;
			__clear_bit(i, w->mapped);
		}
		pm_write_unlock(w->pm);
		while (n--)
			put_page(put[n]);
		cond_resched();
	}
	window_put(w);
}

/* --- pages go ------------------------------------------------------------------------------ */

/* Windows of which a caller unmaps pages without the lock. */
struct batch {
	unsigned int n;
	struct {
		struct treadle_pm_window *w;
		unsigned long lo, hi;
	} of[BATCH];
};

/* Hold @w, a window of pm->windows, for batch_unmap(). There is room for it. */
static void batch_add(struct batch *b, struct treadle_pm_window *w, unsigned long lo,
		      unsigned long hi)
{
	lockdep_assert_held_write(&w->pm->lock);
	refcount_inc(&w->ref);
	b->of[b->n].w = w;
	b->of[b->n].lo = lo;
	b->of[b->n++].hi = hi;
}

/* Unmap all of the batch, which becomes empty. Takes pm->lock; may sleep. */
static void batch_unmap(struct treadle_pm *pm, struct batch *b)
{
	unsigned int i;

	for (i = 0; i < b->n; i++)
		window_unmap(b->of[i].w, b->of[i].lo, b->of[i].hi);
	pm_write_lock(pm);
	for (i = 0; i < b->n; i++) {
		struct treadle_pm_window *w = b->of[i].w;

		window_unmapped(w, b->of[i].lo, b->of[i].hi);
		if (w->ended && w->listed) {
			interval_tree_remove(&w->range, &pm->windows);
			w->listed = false;
			window_put(w);
		}
	}
	pm_write_unlock(pm);
	while (b->n)
		window_put(b->of[--b->n].w);
	cond_resched();
}

/* The first window of @start to @last. */
static struct treadle_pm_window *first_window(struct treadle_pm *pm, u64 start, u64 last)
{
	struct interval_tree_node *n;

	lockdep_assert_held_write(&pm->lock);
	n = interval_tree_iter_first(&pm->windows, start, last);
	return n ? container_of(n, struct treadle_pm_window, range) : NULL;
}

/* The one behind @w. */
static struct treadle_pm_window *next_window(struct treadle_pm_window *w, u64 start, u64 last)
{
	struct interval_tree_node *n;

	lockdep_assert_held_write(&w->pm->lock);
	n = interval_tree_iter_next(&w->range, start, last);
	return n ? container_of(n, struct treadle_pm_window, range) : NULL;
}

/* Take pages out of a window. True: they have to be unmapped, without the lock. */
static bool window_take(struct treadle_pm_window *w, unsigned long lo, unsigned long hi, bool block)
{
	lockdep_assert_held_write(&w->pm->lock);
	if (w->pinned) {
		if (any(present(w), lo, hi))
			window_change(w, lo, hi);
		return false;
	}
	if (!any(w->mapped, lo, hi))
		return false;
	if (any(w->filled, lo, hi)) {
		window_change(w, lo, hi);
		bitmap_clear(w->filled, lo, hi - lo + 1);
	}
	if (!block)
		window_later(w, lo, hi);
	return block;
}

/**
 * treadle_pm_windows_take() - take pages out of all windows
 * @pm:		the owner's pagemap
 * @start:	first address that is about to change; pm->active says so
 * @last:	last one
 * @block:	may sleep; false in a notifier that must not block
 *
 * Once this has returned, no store of an initiator reaches these pages, except of a pinned region
 * (see above), or if not @block.
 *
 * Context: may sleep if @block. Takes pm->lock, and i_mmap_rwsem of initiators' files.
 */
void treadle_pm_windows_take(struct treadle_pm *pm, u64 start, u64 last, bool block)
{
	struct treadle_pm_window *w;
	struct batch b;

	do {
		b.n = 0;
		pm_write_lock(pm);
		for (w = first_window(pm, start, last); w && b.n < BATCH;
		     w = next_window(w, start, last)) {
			u64 from = max_t(u64, start, w->range.start);
			u64 to = min_t(u64, last, w->range.last);
			unsigned long lo = (from - w->range.start) >> PAGE_SHIFT;
			unsigned long hi = (to - w->range.start) >> PAGE_SHIFT;

			if (window_take(w, lo, hi, block))
				batch_add(&b, w, lo, hi);
		}
		pm_write_unlock(pm);
		if (b.n)
			batch_unmap(pm, &b);
	} while (w); /* the batch was full */
}

/* Has the window to end? */
static bool is_over(const struct treadle_pm_window *w, const bool *revoked)
{
	struct treadle_pm *pm = w->pm;

	lockdep_assert_held_write(&pm->lock);
	return w->unwanted || w->revoked == revoked || READ_ONCE(*w->revoked) ||
	       READ_ONCE(*w->closed) || pm->dead || list_empty(&pm->users);
}

/* The window never has pages again. They may still be mapped. */
static void window_over(struct treadle_pm_window *w)
{
	lockdep_assert_held_write(&w->pm->lock);
	if (w->ended)
		return;
	w->ended = true;
	WRITE_ONCE(w->status->flags, TREADLE_WINDOW_CLOSED);
	smp_wmb(); /* an initiator that sees the generation change finds out why */
	window_change(w, 0, w->count - 1);
	bitmap_zero(w->filled, w->count);
}

/**
 * treadle_pm_windows_end() - end the windows of which region, endpoint or process is closed
 * @pm:		the owner's pagemap
 * @start:	first of their addresses
 * @last:	last one
 * @revoked:	of a region: its windows end in any case; or NULL
 * @block:	may sleep
 *
 * A window stays listed until its pages are unmapped: so a second caller waits for that, too.
 *
 * Context: may sleep if @block. Takes pm->lock, and i_mmap_rwsem of initiators' files.
 */
void treadle_pm_windows_end(struct treadle_pm *pm, u64 start, u64 last, const bool *revoked,
			    bool block)
{
	struct treadle_pm_window *w, *next;
	struct batch b;

	do {
		b.n = 0;
		pm_write_lock(pm);
		for (w = first_window(pm, start, last); w && b.n < BATCH; w = next) {
			next = next_window(w, start, last);
			if (!is_over(w, revoked))
				continue;
			window_over(w);
			if (block) {
				batch_add(&b, w, 0, w->count - 1);
				continue;
			}
			window_later(w, 0, w->count - 1);
			interval_tree_remove(&w->range, &pm->windows);
			w->listed = false;
			window_put(w);
		}
		pm_write_unlock(pm);
		if (b.n)
			batch_unmap(pm, &b);
	} while (w);
}

/* --- pages come ---------------------------------------------------------------------------- */

/**
 * treadle_pm_window_list() - let a window have pages from now on
 * @w:	allocated, with all other fields set
 *
 * Context: takes pm->lock; does not sleep.
 * Return: 0: treadle_pm_window_end() must follow some time, and @release will be called after it.
 * -EKEYREJECTED: the region, the endpoint or the process is closed.
 */
int treadle_pm_window_list(struct treadle_pm_window *w)
{
	int ret = -EKEYREJECTED;

	refcount_set(&w->ref, 1);
	INIT_WORK(&w->late_work, window_late);
	INIT_WORK(&w->end_work, window_end_work);
	pm_write_lock(w->pm);
	if (!is_over(w, NULL)) {
		interval_tree_insert(&w->range, &w->pm->windows);
		w->listed = true;
		ret = 0;
	}
	pm_write_unlock(w->pm);
	return ret;
}

/**
 * treadle_pm_window_end() - end a window for its creator
 * @w:	was listed; it may have ended
 *
 * Context: may sleep; see treadle_pm_windows_end().
 */
void treadle_pm_window_end(struct treadle_pm_window *w)
{
	pm_write_lock(w->pm);
	w->unwanted = true;
	pm_write_unlock(w->pm);
	treadle_pm_windows_end(w->pm, w->range.start, w->range.last, NULL, true);
}

/* The page of the owner that may be entered at @i, or NULL. Not held: valid under pm->lock. */
static struct page *page_for(struct treadle_pm_window *w, unsigned long i)
{
	struct page *page;
	void *known;

	lockdep_assert_held_write(&w->pm->lock);
	known = treadle_pm_known(w->pm, address(w, i), w->write);
	page = known ? virt_to_page(known) : NULL;
	if (!page || is_zone_device_page(page) || (w->pinned && page != w->pinned[i]))
		return NULL;
	return page;
}

/*
 * Enter the pages from @i on that the pagemap knows. None is @present while the scratch page may be
 * mapped, as a store would be lost there: *@all is cleared then. Returns the first page before @end
 * that is not entered, or @end. Takes pm->lock.
 */
static unsigned long fill_known(struct treadle_pm_window *w, unsigned long i, unsigned long end,
				bool *all)
{
	unsigned long miss = end;

	pm_write_lock(w->pm);
	if (w->ended)
		miss = i;
	for (; !w->ended && i < end; i++) {
		struct page *page = page_for(w, i);

		/* if it is mapped, it was not yet unmapped since it was taken away */
		if (page && !test_bit(i, w->filled) && !test_bit(i, w->mapped)) {
			w->pages[i] = page;
			__set_bit(i, w->mapped);
			__set_bit(i, w->filled);
		}
		if (!page || !test_bit(i, w->filled))
			miss = min(miss, i);
		else if (w->scratched)
			*all = false;
		else
			set_bit(i, present(w));
	}
	pm_write_unlock(w->pm);
	return miss;
}

/*
 * Enter pages. May sleep; takes pm->lock. 0; -EAGAIN: not all are present; -EKEYREJECTED: the
 * window has ended; -EINTR.
 */
static int fill_all(struct treadle_pm_window *w, unsigned long first, unsigned long last)
{
	unsigned long i = first;
	bool all = true;

	while (i <= last) {
		unsigned long n =
			min_t(unsigned long, last - i + 1, treadle_pm_stride(address(w, i)));
		unsigned long miss = fill_known(w, i, i + n, &all), end = i + n;

		if (READ_ONCE(w->ended))
			return -EKEYREJECTED;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
		i = end;
		if (miss == end)
			continue;
		if (!treadle_pm_fill(w->pm, address(w, miss), (u64)(end - miss) << PAGE_SHIFT,
				     w->write, TREADLE_FILL_THERE))
			i = fill_known(w, miss, end, &all);
		else
			i = miss;
		/* each page once: one that does not come is passed over */
		if (i == miss) {
			all = false;
			i++;
		}
	}
	return all ? 0 : -EAGAIN;
}

/**
 * treadle_pm_window_fill() - enter the pages that the owner has in memory
 * @w:		the window
 * @first:	first page
 * @last:	last page
 *
 * Waits for no page, and for no process.
 *
 * Context: process context; may sleep. One call at a time for each window. Takes pm->lock; the
 * owner's mmap_lock by trylock; and i_mmap_rwsem of the caller's file.
 * Return: 0; -EAGAIN: not all are there; -EKEYREJECTED: the window has ended; -EINTR: the caller is
 * killed.
 */
int treadle_pm_window_fill(struct treadle_pm_window *w, unsigned long first, unsigned long last)
{
	int ret = fill_all(w, first, last);
	bool scratched;

	pm_write_lock(w->pm);
	scratched = w->scratched;
	w->scratched = false;
	pm_write_unlock(w->pm);
	if (!scratched)
		return ret;
	/* where the scratch page was mapped, accesses would not notice that a page has come */
	window_unmap(w, 0, w->count - 1);
	return ret == -EAGAIN ? fill_all(w, first, last) : ret;
}

static int no_change(pte_t *pte, unsigned long addr, void *data)
{
	return 0;
}

/**
 * treadle_pm_window_fault() - a page fault in the map of a window
 * @w:		the window
 * @vmf:	the fault
 * @scratch:	page of the initiator that is entered where the window has none
 *
 * The page table is allocated first, so that vmf_insert_pfn() doesn't do that under the lock.
 *
 * Context: as vm_ops.fault. Takes pm->lock, and the lock of the page table under it.
 * Return: VM_FAULT_NOPAGE; VM_FAULT_OOM; VM_FAULT_SIGBUS: beyond the window.
 */
vm_fault_t treadle_pm_window_fault(struct treadle_pm_window *w, struct vm_fault *vmf,
				   struct page *scratch)
{
	unsigned long i = vmf->pgoff - w->pgoff;
	struct page *page = scratch;
	vm_fault_t ret;

	if (i >= w->count)
		return VM_FAULT_SIGBUS; /* maps are whole, and don't grow */
	if (apply_to_page_range(vmf->vma->vm_mm, vmf->address & PAGE_MASK, PAGE_SIZE, no_change,
				NULL))
		return VM_FAULT_OOM;
	pm_lock(w->pm);
	if (test_bit(i, w->filled))
		page = w->pages[i];
	else
		WRITE_ONCE(w->scratched, true); /* once: other faults have the lock for reading */
	ret = vmf_insert_pfn(vmf->vma, vmf->address & PAGE_MASK, page_to_pfn(page));
	pm_unlock(w->pm);
	return ret;
}
