// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: pages become known to a pagemap (pagemap.c)
 *
 * A fill may race with an invalidation. As in KVM, it notes `seq` before it asks for the pages. It
 * gives up if an invalidation of its range is in progress, or any has finished since.
 *
 * A page that is to be written was got with FOLL_WRITE: copy-on-write, write notification,
 * userfaultfd and soft-dirty have been handled. It is marked dirty when it is entered. To clean it
 * afterwards the kernel must write-protect it first, which calls the notifier again.
 */
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include "mm/base.h"
#include "mm/compat.h"
#include "mm/pagemap.h"

#define FILL_TRIES 8
/* Beyond 256 MiB of tables (128 GiB of addresses or more, by page size) the table is emptied. */
#define MAX_TABLES ((256ul << 20) >> PAGE_SHIFT)

/*
 * Get pages of another process, or in a worker, or without waiting. *seq is read before the pages
 * are looked for (pairs with pm_invalidate_end()), but after the mmap_lock is taken: the previous
 * holder has perhaps unmapped something, and the fill would fail for nothing. Returns the number of
 * pages, or an error.
 */
static long pm_gup_remote(struct treadle_pm *pm, u64 addr, unsigned int n, unsigned int flags,
			  struct page **pages, enum treadle_fill how, unsigned long *seq)
{
	struct mm_struct *mm = pm->mm;
	int locked = 1;
	long got;

	if (!mmget_not_zero(mm))
		return -ESHUTDOWN;
	if (how == TREADLE_FILL_FAULT) {
		mmap_read_lock(mm);
		*seq = smp_load_acquire(&pm->seq);
		got = treadle_gup_remote(mm, addr, n, flags, pages, &locked);
	} else if (mmap_read_trylock(mm)) {
		*seq = smp_load_acquire(&pm->seq);
		flags |= how == TREADLE_FILL_NOWAIT ? FOLL_NOWAIT : FOLL_NOFAULT;
		if (how == TREADLE_FILL_THERE && treadle_gup_faults(mm, addr, n))
			got = -EAGAIN;
		else
			got = treadle_gup_remote(mm, addr, n, flags, pages, NULL);
		if (got <= 0)
			got = -EAGAIN;
	} else {
		locked = 0;
		got = -EAGAIN;
	}
	if (locked)
		mmap_read_unlock(mm);
	/* if the process has exited meanwhile, its memory must not be torn down here */
	mmput_async(mm);
	return got;
}

/*
 * Enter the pages. -EAGAIN: an invalidation came in between; -ENOSPC: a table is missing in @spare;
 * -ESHUTDOWN.
 */
static int pm_enter(struct treadle_pm *pm, u64 addr, unsigned int n, struct page **pages,
		    bool write, unsigned long seq, void **spare)
{
	u64 end = addr + ((u64)n << PAGE_SHIFT);
	void ***slot = (void ***)&pm->root, **table;
	unsigned int i;
	int level;

	lockdep_assert_held_write(&pm->lock);
	/*
	 * Without a user there is soon no notifier, which would tell that pages were replaced or
	 * cleaned.
	 */
	if (pm->dead || list_empty(&pm->users))
		return -ESHUTDOWN;
	if (pm->seq != seq || (pm->active && addr < pm->end && end > pm->start))
		return -EAGAIN;
	for (level = PM_LEVELS - 1;; level--) {
		table = *slot;
		if (!table) {
			if (!spare[level])
				return -ENOSPC;
			table = *slot = spare[level];
			spare[level] = NULL;
			pm->tables++;
		}
		if (!level)
			break;
		slot = (void ***)&table[treadle_pm_index(addr, level)];
	}
	for (i = 0; i < n; i++) {
		unsigned long old = (unsigned long)table[treadle_pm_index(addr, 0) + i];

		if (write)
			set_page_dirty(pages[i]);
		else if (old & PM_WRITE)
			continue; /* keep PM_WRITE, this page is entered already */
		table[treadle_pm_index(addr, 0) + i] =
			(void *)((unsigned long)page_address(pages[i]) | (write ? PM_WRITE : 0));
	}
	return 0;
}

/*
 * Drop all entries, to free the memory of their tables. A small table stays: little would be freed,
 * and a copy needs the entries of both its sides at once.
 */
static void pm_forget(struct treadle_pm *pm)
{
	LIST_HEAD(cut);

	pm_write_lock(pm);
	if (pm->tables > 4 * PM_LEVELS)
		treadle_pm_reset(pm, &cut);
	pm_write_unlock(pm);
	treadle_pm_free_cut(&cut, true);
}

/*
 * Allocate a page for each level that has none in @spare, charged to the owner of the memory.
 *
 * @own: the caller is the owner or its worker; only these reclaim memory for that. Other callers
 * leave it to the worker, after -EAGAIN. The owner must be able to receive also at its cgroup's
 * limit, which the table itself may have filled: then the table is emptied, and these few pages are
 * charged beyond the limit. -ENOMEM: the machine has no memory. May sleep.
 */
static int pm_spares(struct treadle_pm *pm, void **spare, bool own)
{
	gfp_t gfp = (own ? TREADLE_GFP : TREADLE_GFP_OTHER) | __GFP_ZERO;
	struct mem_cgroup *old = set_active_memcg(pm->memcg);
	int level, ret = 0;

	for (level = 0; level < PM_LEVELS; level++) {
		if (!spare[level])
			spare[level] = (void *)__get_free_page(gfp);
		if (unlikely(!spare[level] && own)) {
			pm_forget(pm);
			spare[level] = (void *)__get_free_page(TREADLE_GFP_BEYOND | __GFP_ZERO);
		}
		if (!spare[level])
			ret = own ? -ENOMEM : -EAGAIN;
	}
	set_active_memcg(old);
	return ret;
}

/* The error for callers. They retry -EAGAIN without a bound, so it is only for what will pass. */
static int fill_error(long got)
{
	switch (got) {
	case -ESHUTDOWN:
	case -EAGAIN:
	case -ENOMEM:
		return got;
	case -EBUSY: /* FOLL_NOWAIT: the page has to be waited for */
	case -EINTR: /* the caller is killed; the worker goes on */
	case -ERESTARTSYS:
		return -EAGAIN;
	default: /* no memory mapped, a special mapping, or a hardware error */
		return -EFAULT;
	}
}

/**
 * treadle_pm_fill() - enter pages into a pagemap
 * @pm:		the pagemap
 * @addr:	first address that is needed
 * @len:	bytes that are needed; pages from @addr on are entered, perhaps not all
 * @write:	the pages will be written
 * @how:	what the caller may wait for; TREADLE_FILL_FAULT in the process and its workers only
 *
 * Context: process context, no spinlock held; may reschedule, and sleeps as @how says. Takes
 * pm->lock, and the mmap_lock for reading (only by trylock unless TREADLE_FILL_FAULT).
 * Return: 0; -EAGAIN: a page fault is needed, or the address space is busy: leave it to the owner's
 * worker; -EFAULT: no such memory; -ESHUTDOWN: the process has exited; -ENOMEM.
 */
int treadle_pm_fill(struct treadle_pm *pm, u64 addr, u64 len, bool write, enum treadle_fill how)
{
	unsigned int flags = write ? FOLL_WRITE : 0, n, i;
	struct page *pages[TREADLE_FILL];
	void *spare[PM_LEVELS] = {};
	int ret = -EAGAIN, tries;
	LIST_HEAD(cut);
	long got;

	if (addr >= PM_END)
		return -EFAULT;
	n = min_t(u64, DIV_ROUND_UP(offset_in_page(addr) + len, PAGE_SIZE),
		  treadle_pm_stride(addr));
	addr &= PAGE_MASK;

	for (tries = 0; tries < FILL_TRIES && ret == -EAGAIN; tries++) {
		unsigned long seq;

		if (how == TREADLE_FILL_FAULT && current->mm == pm->mm) {
			/* read seq before the pages; pairs with pm_invalidate_end() */
			seq = smp_load_acquire(&pm->seq);
			got = get_user_pages_fast(addr, n, flags, pages);
		} else {
			got = pm_gup_remote(pm, addr, n, flags, pages, how, &seq);
		}
		if (got <= 0) {
			ret = fill_error(got);
			break;
		}
		do {
			pm_write_lock(pm);
			if (pm->tables > MAX_TABLES)
				treadle_pm_reset(pm, &cut);
			ret = pm_enter(pm, addr, got, pages, write, seq, spare);
			pm_write_unlock(pm);
			treadle_pm_free_cut(&cut, true);
		} while (ret == -ENOSPC &&
			 !(ret = pm_spares(pm, spare, how == TREADLE_FILL_FAULT)));
		for (i = 0; i < got; i++)
			put_page(pages[i]);
	}
	for (i = 0; i < PM_LEVELS; i++)
		free_page((unsigned long)spare[i]);
	return ret;
}
