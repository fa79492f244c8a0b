// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: windows: pages of a pagemap that are mapped into another process
 *
 * How pages come is told in window_fill.c. They go in a notifier of the owner, or as the window
 * ends.
 *
 * A notifier takes pages away in three steps. Under pm->lock it changes the generation and takes
 * them out of @filled, so that no fault enters them any more. Without the lock it unmaps them. Then
 * it takes them out of @mapped. A second notifier for the same pages sees them in @mapped, and
 * unmaps them, too: so none returns while they are mapped. They can't be filled meanwhile.
 *
 * A notifier is called with locks that the initiator may wait for while it holds the i_mmap_rwsem
 * of its file (in mm_take_all_locks()). So it only tries that lock. If it is taken, the pages get
 * references, a work unmaps them, and the notifier waits for that, but not for ever. The OOM
 * reaper's does not wait at all. With the references the pages are not given to others.
 *
 * Pages of a pinned region stay mapped until it ends, as their process keeps them, too: for them,
 * each notifier only clears the bits that the initiator looks at. An access that is under way still
 * reaches the page. So an atomic need not ask whether it has been executed.
 */
#include <linux/bitmap.h>
#include <linux/interval_tree_generic.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "mm/base.h"
#include "mm/window.h"

#define BATCH	   16u
#define LATE_BATCH 64u
#define LATE	   3ul /* in an entry of @pages: one of two marks, and a reference is held */
#define LATE_WAIT  HZ

static unsigned long mark_of(const struct page *page)
{
	return (unsigned long)page & LATE;
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

/**
 * treadle_pm_window_unmap() - unmap pages from the initiator
 * @w:	the window
 * @lo:	first page
 * @hi:	last page
 *
 * Context: may sleep; not in a notifier. Takes the i_mmap_rwsem of the initiator's file for
 * reading.
 */
void treadle_pm_window_unmap(struct treadle_pm_window *w, unsigned long lo, unsigned long hi)
{
	unmap_mapping_pages(w->mapping, w->pgoff + lo, hi - lo + 1, true);
}

static unsigned long vma_first(struct vm_area_struct *vma)
{
	return vma->vm_pgoff;
}

static unsigned long vma_last(struct vm_area_struct *vma)
{
	return vma->vm_pgoff + vma_pages(vma) - 1;
}

/* The tree of mappings in an address_space. The kernel exports its functions to no module. */
INTERVAL_TREE_DEFINE(struct vm_area_struct, shared.rb, unsigned long, shared.rb_subtree_last,
		     vma_first, vma_last, static __maybe_unused, maps)

/*
 * As treadle_pm_window_unmap(), but it does not wait for the lock: false then. May sleep.
 *
 * zap_vma_ptes() calls the notifiers of the initiator, within a notifier of the owner. They are of
 * one class for lockdep, which would take that for a deadlock. But they nest no further: no pagemap
 * knows pages of a window, so a notifier for these has no window to unmap.
 */
static bool window_try_unmap(struct treadle_pm_window *w, unsigned long lo, unsigned long hi)
{
	pgoff_t first = w->pgoff + lo, last = w->pgoff + hi;
	struct vm_area_struct *vma;

	might_sleep();
	if (!i_mmap_trylock_read(w->mapping))
		return false;
	lockdep_off();
	for (vma = maps_iter_first(&w->mapping->i_mmap, first, last); vma;
	     vma = maps_iter_next(vma, first, last)) {
		pgoff_t from = max(first, vma_first(vma)), to = min(last, vma_last(vma));

		zap_vma_ptes(vma, vma->vm_start + ((from - vma_first(vma)) << PAGE_SHIFT),
			     (to - from + 1) << PAGE_SHIFT);
	}
	lockdep_on();
	i_mmap_unlock_read(w->mapping);
	return true;
}

/*
 * Let the initiator see that pages are not there any more, before they go. The bits are cleared
 * first: an access that begins with the new generation must not find them set, as nothing would
 * tell it that the page goes.
 */
static void window_change(struct treadle_pm_window *w, unsigned long lo, unsigned long hi)
{
	lockdep_assert_held_write(&w->pm->lock);
	bitmap_clear(treadle_pm_present(w), lo, hi - lo + 1);
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
	treadle_pm_window_unmap(w, 0, w->count - 1);
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
	wake_up_var(w); /* pm->lock orders it: see window_await() */
	window_put(w);
}

static bool is_unmapped(struct treadle_pm_window *w, unsigned long lo, unsigned long hi)
{
	bool ret;

	pm_lock(w->pm);
	ret = !any(w->mapped, lo, hi);
	pm_unlock(w->pm);
	return ret;
}

/*
 * Wait until pages that window_later() has left are unmapped, for so many jiffies at most. Returns
 * how many are left; 0: in vain. A waiter that finds them mapped, under pm->lock, has queued itself
 * before window_late() takes that lock for them.
 */
static long window_await(struct treadle_pm_window *w, unsigned long lo, unsigned long hi,
			 long patience)
{
	return wait_var_event_timeout(w, is_unmapped(w, lo, hi), patience);
}

/* --- pages go ------------------------------------------------------------------------------ */

/*
 * Windows of which a caller unmaps pages without the lock.
 * @wait:	for locks that are taken
 * @patience:	PM_WAIT_BRIEFLY: jiffies of waiting that are left; each batch costs one. Once there
 *		are none, what window_later() has is left to it: so the caller comes to an end
 */
struct batch {
	enum treadle_pm_wait wait;
	long patience;
	unsigned int n;
	struct {
		struct treadle_pm_window *w;
		unsigned long lo, hi;
	} of[BATCH];
};

/* @w is listed, and has ended. */
static void window_unlist(struct treadle_pm_window *w)
{
	lockdep_assert_held_write(&w->pm->lock);
	interval_tree_remove(&w->range, &w->pm->windows);
	w->listed = false;
	window_put(w);
}

/* Has window_later() been called for all pages that are mapped? */
static bool is_left(const struct treadle_pm_window *w, unsigned long lo, unsigned long hi)
{
	unsigned long i = lo;

	lockdep_assert_held_write(&w->pm->lock);
	for_each_set_bit_from(i, w->mapped, hi + 1)
		if (!mark_of(w->pages[i]))
			return false;
	return true;
}

/* Hold @w, a window of pm->windows, for batch_unmap(). There is room for it. */
static void batch_add(struct batch *b, struct treadle_pm_window *w, unsigned long lo,
		      unsigned long hi)
{
	lockdep_assert_held_write(&w->pm->lock);
	if (b->wait == PM_WAIT_BRIEFLY && !b->patience && is_left(w, lo, hi))
		return;
	refcount_inc(&w->ref);
	b->of[b->n].w = w;
	b->of[b->n].lo = lo;
	b->of[b->n++].hi = hi;
}

/*
 * Unmap all of the batch, which becomes empty. Takes pm->lock; may sleep. @over: these are whole
 * windows that have ended: they are listed no more, once they are unmapped.
 */
static void batch_unmap(struct treadle_pm *pm, struct batch *b, bool over)
{
	unsigned int i, later = 0;

	for (i = 0; i < b->n; i++)
		if (b->wait == PM_WAIT)
			treadle_pm_window_unmap(b->of[i].w, b->of[i].lo, b->of[i].hi);
		else if (!window_try_unmap(b->of[i].w, b->of[i].lo, b->of[i].hi))
			later |= BIT(i);
	pm_write_lock(pm);
	for (i = 0; i < b->n; i++) {
		struct treadle_pm_window *w = b->of[i].w;

		if (later & BIT(i)) {
			window_later(w, b->of[i].lo, b->of[i].hi);
			continue;
		}
		window_unmapped(w, b->of[i].lo, b->of[i].hi);
		if (over && w->listed)
			window_unlist(w);
	}
	pm_write_unlock(pm);
	for (i = 0; i < b->n; i++) {
		if (later & BIT(i) && b->patience)
			b->patience =
				window_await(b->of[i].w, b->of[i].lo, b->of[i].hi, b->patience);
		window_put(b->of[i].w);
	}
	b->n = 0;
	if (b->patience)
		b->patience--;
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
static bool window_take(struct treadle_pm_window *w, unsigned long lo, unsigned long hi,
			enum treadle_pm_wait wait)
{
	lockdep_assert_held_write(&w->pm->lock);
	if (w->pinned) {
		if (any(treadle_pm_present(w), lo, hi))
			window_change(w, lo, hi);
		return false;
	}
	if (!any(w->mapped, lo, hi))
		return false;
	if (any(w->filled, lo, hi)) {
		window_change(w, lo, hi);
		bitmap_clear(w->filled, lo, hi - lo + 1);
	}
	if (wait == PM_NO_WAIT)
		window_later(w, lo, hi);
	return wait != PM_NO_WAIT;
}

/**
 * treadle_pm_windows_take() - take pages out of all windows
 * @pm:		the owner's pagemap
 * @start:	first address that is about to change; pm->active says so
 * @last:	last one
 * @wait:	for the pages to be unmapped
 *
 * Once this has returned, no store of an initiator reaches these pages, except of a pinned region
 * (see above), or if @wait was too short.
 *
 * Context: takes pm->lock, and tries the i_mmap_rwsem of initiators' files. Sleeps but with
 * PM_NO_WAIT.
 */
void treadle_pm_windows_take(struct treadle_pm *pm, u64 start, u64 last, enum treadle_pm_wait wait)
{
	struct batch b = { .wait = wait, .patience = LATE_WAIT };
	struct treadle_pm_window *w;

	do {
		pm_write_lock(pm);
		for (w = first_window(pm, start, last); w && b.n < BATCH;
		     w = next_window(w, start, last)) {
			u64 from = max_t(u64, start, w->range.start);
			u64 to = min_t(u64, last, w->range.last);
			unsigned long lo = (from - w->range.start) >> PAGE_SHIFT;
			unsigned long hi = (to - w->range.start) >> PAGE_SHIFT;

			if (window_take(w, lo, hi, wait))
				batch_add(&b, w, lo, hi);
		}
		pm_write_unlock(pm);
		if (b.n)
			batch_unmap(pm, &b, false);
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
 * @wait:	for their pages to be unmapped
 *
 * A window stays listed until its pages are unmapped: so a second caller waits for that, too.
 *
 * Context: takes pm->lock, and the i_mmap_rwsem of initiators' files, which only PM_WAIT waits for.
 * Sleeps but with PM_NO_WAIT.
 */
void treadle_pm_windows_end(struct treadle_pm *pm, u64 start, u64 last, const bool *revoked,
			    enum treadle_pm_wait wait)
{
	struct batch b = { .wait = wait, .patience = LATE_WAIT };
	struct treadle_pm_window *w, *next;

	do {
		pm_write_lock(pm);
		for (w = first_window(pm, start, last); w && b.n < BATCH; w = next) {
			next = next_window(w, start, last);
			if (!is_over(w, revoked))
				continue;
			window_over(w);
			if (wait != PM_NO_WAIT) {
				batch_add(&b, w, 0, w->count - 1);
				continue;
			}
			window_later(w, 0, w->count - 1);
			window_unlist(w);
		}
		pm_write_unlock(pm);
		if (b.n)
			batch_unmap(pm, &b, true);
	} while (w);
}

/* --- beginning and end ---------------------------------------------------------------------- */

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
	treadle_pm_windows_end(w->pm, w->range.start, w->range.last, NULL, PM_WAIT);
}
