// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: windows: how pages of the owner come into the map of the initiator
 *
 * The initiator's map of a window gets pages of its owner by page faults, under the lock of the
 * owner's pagemap, and only pages that WINDOW_FILL has found known there (@filled). A fault on any
 * other page enters the scratch page of the initiator: it never waits.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "mm/window.h"

/* The page of the owner that may be entered at @i, or NULL. Not held: valid under pm->lock. */
static struct page *page_for(struct treadle_pm_window *w, unsigned long i)
{
	struct page *page;
	void *known;

	lockdep_assert_held_write(&w->pm->lock);
	known = treadle_pm_known(w->pm, treadle_pm_address(w, i), w->write);
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
			set_bit(i, treadle_pm_present(w));
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
		unsigned long n = min_t(unsigned long, last - i + 1,
					treadle_pm_stride(treadle_pm_address(w, i)));
		unsigned long miss = fill_known(w, i, i + n, &all), end = i + n;

		if (READ_ONCE(w->ended))
			return -EKEYREJECTED;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
		i = end;
		if (miss == end)
			continue;
		if (!treadle_pm_fill(w->pm, treadle_pm_address(w, miss),
				     (u64)(end - miss) << PAGE_SHIFT, w->write, TREADLE_FILL_THERE))
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
	treadle_pm_window_unmap(w, 0, w->count - 1);
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
