// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: pagemaps: the pages of a process, on demand
 *
 * A table from address to page, filled by get_user_pages and emptied by an MMU notifier. It holds
 * no reference to a page. An entry is valid while pm->lock is held: to unmap, move, share or clean
 * the page, the kernel first calls the notifier, which takes the lock for writing. So the process's
 * memory stays swappable and movable, and a copy that holds the lock never touches a page that is
 * no longer mapped there.
 *
 * A fill may race with an invalidation. As in KVM, it notes `seq` before it asks for the pages. It
 * gives up if an invalidation of its range is in progress, or any has finished since.
 *
 * A page that is to be written was got with FOLL_WRITE: copy-on-write, write notification,
 * userfaultfd and soft-dirty have been handled. It is marked dirty when it is entered. To clean it
 * afterwards the kernel must write-protect it first, which calls the notifier again.
 *
 * A process has one pagemap for all its contexts, so that an invalidation is handled once. The
 * notifier is called as long as one of their files is open. A context that ends closes its
 * endpoints and regions before its file goes, and every copy checks these (span_error).
 */
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/wait_bit.h>

#include "mm/base.h"
#include "mm/compat.h"
#include "mm/pagemap.h"

#define FILL_TRIES   8
#define FREE_BATCH   64
#define REVOKE_BATCH 256u
/* Beyond 256 MiB of tables (128 GiB of addresses or more, by page size) the table is emptied. */
#define MAX_TABLES ((256ul << 20) >> PAGE_SHIFT)

/* Number of pagemaps with a notifier that may still be called, which needs the module's text. */
static atomic_t notifiers;

/* Runs pm->exit. Its works never wait. */
static struct workqueue_struct *pm_wq;

/* --- invalidation --------------------------------------------------------------- */

/* Add a table that was cut off to @cut, with its level; pm_free_cut() frees it without pm->lock. */
static void pm_cut(struct treadle_pm *pm, void **table, int level, struct list_head *cut)
{
	struct page *page = virt_to_page(table);

	page->private = level;
	list_add_tail(&page->lru, cut);
}

/*
 * Free the tables in @cut, and those below them. The children of a table are appended to the list
 * before it is freed: so the list grows instead of the stack. They are MAX_TABLES and a few at
 * most.
 * @block: may reschedule; false in a notifier that must not block. Returns how many were freed.
 */
static unsigned long pm_free_cut(struct list_head *cut, bool block)
{
	struct page *page;
	unsigned long n = 0;
	unsigned int i;

	while (!list_empty(cut)) {
		void **table;

		page = list_first_entry(cut, struct page, lru);
		table = page_address(page);
		for (i = 0; page->private && i < PM_FAN; i++) {
			if (!table[i])
				continue;
			virt_to_page(table[i])->private = page->private - 1;
			list_add_tail(&virt_to_page(table[i])->lru, cut);
		}
		list_del(&page->lru);
		page->private = 0;
		__free_page(page);
		if (!(++n % FREE_BATCH) && block)
			cond_resched();
	}
	return n;
}

/* Drop the entries of [start, last] below @table. Whole tables are cut off. Depth: PM_LEVELS. */
static void pm_zap(struct treadle_pm *pm, void **table, int level, u64 start, u64 last,
		   struct list_head *cut)
{
	u64 span = 1ULL << (PAGE_SHIFT + PM_BITS * level), addr;
	unsigned int i = treadle_pm_index(start, level), end = treadle_pm_index(last, level);

	lockdep_assert_held_write(&pm->lock);
	if (!level) {
		memset(&table[i], 0, (end - i + 1) * sizeof(*table));
		return;
	}
	for (; i <= end; i++) {
		u64 s, e;

		if (!table[i])
			continue;
		addr = (start & ~(span * PM_FAN - 1)) + i * span;
		s = max(start, addr);
		e = min(last, addr + span - 1);
		if (s == addr && e == addr + span - 1) {
			pm_cut(pm, table[i], level - 1, cut);
			table[i] = NULL;
		} else {
			pm_zap(pm, table[i], level - 1, s, e, cut);
		}
	}
}

/* Cut off the whole table. pm->lock held for writing, or the last reference is gone. */
static void pm_reset(struct treadle_pm *pm, struct list_head *cut)
{
	if (pm->root)
		pm_cut(pm, pm->root, PM_LEVELS - 1, cut);
	pm->root = NULL;
	pm->tables = 0;
}

/* Revoke up to REVOKE_BATCH pins of the range. True: drop pm->lock, take it, and call again. */
static bool pm_revoke(struct treadle_pm *pm, unsigned long start, unsigned long last)
{
	struct interval_tree_node *n;
	unsigned int i;

	lockdep_assert_held_write(&pm->lock);
	for (i = 0; i < REVOKE_BATCH; i++) {
		n = interval_tree_iter_first(&pm->pinned, start, last);
		if (!n)
			return false;
		WRITE_ONCE(*container_of(n, struct treadle_pin, range)->revoked, true);
		interval_tree_remove(n, &pm->pinned);
		n->last = 0; /* not in the tree */
	}
	return true;
}

static int pm_invalidate_start(struct mmu_notifier *mn, const struct mmu_notifier_range *range)
{
	struct treadle_pm *pm = container_of(mn, struct treadle_pm, notifier);
	u64 limit = (1ULL << PM_ADDR_BITS) - 1;
	LIST_HEAD(cut);

	/*
	 * No holder of the lock faults, reclaims memory or waits, so a range that must not block
	 * may take it. Only rescheduling below depends on the range.
	 */
	pm_write_lock(pm);
	if (!pm->active++) {
		pm->start = range->start;
		pm->end = range->end;
	} else {
		pm->start = min(pm->start, range->start);
		pm->end = max(pm->end, range->end);
	}
	if (pm->root && range->start <= limit)
		pm_zap(pm, pm->root, PM_LEVELS - 1, range->start, min_t(u64, range->end - 1, limit),
		       &cut);
	/*
	 * Once for each REVOKE_BATCH pins in the range. pm->active is raised already, so no page of
	 * the range is entered while the lock is dropped.
	 */
	while (range->event == MMU_NOTIFY_UNMAP && pm_revoke(pm, range->start, range->end - 1)) {
		pm_write_unlock(pm);
		if (mmu_notifier_range_blockable(range))
			cond_resched();
		pm_write_lock(pm);
	}
	pm_write_unlock(pm);
	if (!list_empty(&cut)) {
		unsigned long n = pm_free_cut(&cut, mmu_notifier_range_blockable(range));

		pm_write_lock(pm);
		pm->tables -= min(n, pm->tables);
		pm_write_unlock(pm);
	}
	return 0;
}

static void pm_invalidate_end(struct mmu_notifier *mn, const struct mmu_notifier_range *range)
{
	struct treadle_pm *pm = container_of(mn, struct treadle_pm, notifier);

	pm_write_lock(pm);
	/* pairs with the loads in treadle_pm_fill() and pm_gup_remote(), which have no lock */
	smp_store_release(&pm->seq, pm->seq + 1);
	pm->active--;
	pm_write_unlock(pm);
}

/* --- beginning and end ------------------------------------------------------------ */

/* Take one of the users that were not told of the exit, and hold it. NULL: there is none. */
static struct treadle_pm_user *pm_pop(struct treadle_pm *pm)
{
	struct treadle_pm_user *user;

	pm_write_lock(pm);
	user = list_first_entry_or_null(&pm->users, struct treadle_pm_user, link);
	if (user) {
		list_del_init(&user->link);
		user->get(user); /* still alive: treadle_pm_leave() would have unlinked it */
	}
	pm_write_unlock(pm);
	return user;
}

static void pm_exit_work(struct work_struct *work)
{
	struct treadle_pm *pm = container_of(work, struct treadle_pm, exit);
	struct treadle_pm_user *user;

	while ((user = pm_pop(pm))) {
		user->mm_gone(user);
		cond_resched();
	}
	treadle_pm_put(pm);
}

static void pm_mm_exit(struct mmu_notifier *mn, struct mm_struct *mm)
{
	struct treadle_pm *pm = container_of(mn, struct treadle_pm, notifier);
	LIST_HEAD(cut);
	bool open;

	pm_write_lock(pm);
	pm->dead = true;
	pm_reset(pm, &cut);
	open = !list_empty(&pm->users);
	pm_write_unlock(pm);
	pm_free_cut(&cut, true);
	/* a child may keep files of contexts open for long: end the contexts now, in a worker */
	if (open) {
		kref_get(&pm->ref);
		queue_work(pm_wq, &pm->exit);
	}
}

static struct mmu_notifier *pm_alloc(struct mm_struct *mm)
{
	struct treadle_pm *pm = kzalloc(sizeof(*pm), TREADLE_GFP);

	if (!pm)
		return ERR_PTR(-ENOMEM);
	kref_init(&pm->ref);
	pm_lock_init(pm);
	pm->pinned = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&pm->users);
	INIT_WORK(&pm->exit, pm_exit_work);
	pm->mm = mm; /* mmgrab'ed by contexts and by the notifier */
#ifdef CONFIG_MEMCG
	pm->memcg = get_mem_cgroup_from_mm(mm);
#endif
	atomic_inc(&notifiers);
	return &pm->notifier;
}

/* The notifier is not called any more, and mmu_notifier_get() does not find it. */
static void pm_free_notifier(struct mmu_notifier *mn)
{
	treadle_pm_put(container_of(mn, struct treadle_pm, notifier));
	if (atomic_dec_and_test(&notifiers))
		wake_up_var(&notifiers);
}

static const struct mmu_notifier_ops pm_notifier_ops = {
	.invalidate_range_start = pm_invalidate_start,
	.invalidate_range_end = pm_invalidate_end,
	.release = pm_mm_exit,
	.alloc_notifier = pm_alloc,
	.free_notifier = pm_free_notifier,
};

/**
 * treadle_pm_init() - set up what all pagemaps share
 *
 * Context: module load; may sleep.
 * Return: 0 or -ENOMEM.
 */
int treadle_pm_init(void)
{
	pm_wq = alloc_workqueue("treadle_mm", WQ_UNBOUND, 0);
	return pm_wq ? 0 : -ENOMEM;
}

/**
 * treadle_pm_exit() - wait until no notifier is left
 *
 * mmu_notifier_synchronize() waits for the last callback, which has woken this function and may not
 * have returned. Each module that uses mmu_notifier_put() has to call it.
 *
 * Context: module unload, after treadle_pm_leave() of all users; may sleep.
 */
void treadle_pm_exit(void)
{
	wait_var_event(&notifiers, !atomic_read(&notifiers));
	mmu_notifier_synchronize();
	destroy_workqueue(pm_wq);
}

/**
 * treadle_pm_join() - add a user to the pagemap of the caller's memory
 * @user:	with @get and @mm_gone set
 * @nowait:	don't wait for the mmap_lock if it is taken. Only a look, as 6.12 has no trylock
 *		for writing: a holder that comes just then is waited for
 *
 * Context: process context; may sleep. Takes the mmap_lock for writing.
 * Return: the pagemap, for treadle_pm_leave() and then treadle_pm_put(); or -EAGAIN: @nowait, and
 * the mmap_lock is taken; -EINTR: the mm has no notifier yet, and a signal is pending; -ENOMEM.
 */
struct treadle_pm *treadle_pm_join(struct treadle_pm_user *user, bool nowait)
{
	struct mmu_notifier *mn;
	struct treadle_pm *pm;

	if (nowait && rwsem_is_locked(&current->mm->mmap_lock))
		return ERR_PTR(-EAGAIN);
	mn = mmu_notifier_get(&pm_notifier_ops, current->mm);
	if (IS_ERR(mn))
		return ERR_CAST(mn);
	pm = container_of(mn, struct treadle_pm, notifier);
	kref_get(&pm->ref);
	pm_write_lock(pm);
	list_add_tail(&user->link, &pm->users);
	pm_write_unlock(pm);
	return pm;
}

/**
 * treadle_pm_leave() - remove a user from a pagemap
 * @pm:		result of treadle_pm_join(); stays held
 * @user:	argument of treadle_pm_join()
 *
 * With the last user the entries are dropped, and no more are entered: soon no notifier would
 * invalidate them.
 *
 * Context: may sleep; takes pm->lock.
 */
void treadle_pm_leave(struct treadle_pm *pm, struct treadle_pm_user *user)
{
	LIST_HEAD(cut);

	pm_write_lock(pm);
	list_del_init(&user->link);
	if (list_empty(&pm->users))
		pm_reset(pm, &cut);
	pm_write_unlock(pm);
	pm_free_cut(&cut, true);
	mmu_notifier_put(&pm->notifier);
}

/**
 * treadle_pm_pin() - let the unmapping of @pin->range set *@pin->revoked from now on
 * @pm:		the pagemap
 * @pin:	must not move until treadle_pm_unpin()
 *
 * Context: process context; never sleeps. Takes pm->lock.
 */
void treadle_pm_pin(struct treadle_pm *pm, struct treadle_pin *pin)
{
	pm_write_lock(pm);
	interval_tree_insert(&pin->range, &pm->pinned);
	pm_write_unlock(pm);
}

/**
 * treadle_pm_unpin() - undo treadle_pm_pin(), once
 * @pm:		the pagemap
 * @pin:	argument of treadle_pm_pin(); may have been revoked since
 *
 * Context: process context; never sleeps. Takes pm->lock.
 */
void treadle_pm_unpin(struct treadle_pm *pm, struct treadle_pin *pin)
{
	pm_write_lock(pm);
	if (pin->range.last)
		interval_tree_remove(&pin->range, &pm->pinned);
	pm_write_unlock(pm);
}

static void pm_release(struct kref *ref)
{
	struct treadle_pm *pm = container_of(ref, struct treadle_pm, ref);
	LIST_HEAD(cut);

	pm_reset(pm, &cut);
	pm_free_cut(&cut, false); /* few, if any: the last treadle_pm_leave() has emptied it */
#ifdef CONFIG_MEMCG
	mem_cgroup_put(pm->memcg);
#endif
	kfree(pm);
}

/**
 * treadle_pm_put() - drop a reference
 * @pm: held by the caller
 *
 * Context: any; never sleeps.
 */
void treadle_pm_put(struct treadle_pm *pm)
{
	kref_put(&pm->ref, pm_release);
}

/* --- filling ---------------------------------------------------------------------- */

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
		pm_reset(pm, &cut);
	pm_write_unlock(pm);
	pm_free_cut(&cut, true);
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
				pm_reset(pm, &cut);
			ret = pm_enter(pm, addr, got, pages, write, seq, spare);
			pm_write_unlock(pm);
			pm_free_cut(&cut, true);
		} while (ret == -ENOSPC &&
			 !(ret = pm_spares(pm, spare, how == TREADLE_FILL_FAULT)));
		for (i = 0; i < got; i++)
			put_page(pages[i]);
	}
	for (i = 0; i < PM_LEVELS; i++)
		free_page((unsigned long)spare[i]);
	return ret;
}
