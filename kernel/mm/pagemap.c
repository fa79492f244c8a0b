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
#include "mm/window.h"

#define FREE_BATCH   64
#define REVOKE_BATCH 256u

/* Number of pagemaps with a notifier that may still be called, which needs the module's text. */
static atomic_t notifiers;

/* Runs pm->exit, and works of windows. None of them waits for another process. */
static struct workqueue_struct *pm_wq;

/* --- invalidation --------------------------------------------------------------- */

/* Add a table that was cut off to @cut, with its level. It is freed without pm->lock. */
static void pm_cut(struct treadle_pm *pm, void **table, int level, struct list_head *cut)
{
	struct page *page = virt_to_page(table);

	page->private = level;
	list_add_tail(&page->lru, cut);
}

/**
 * treadle_pm_free_cut - free the tables that were cut off, and those below them
 * @cut:	the tables
 * @block:	may reschedule; false in a notifier that must not block
 *
 * The children of a table are appended to the list before it is freed: so the list grows instead of
 * the stack. They are MAX_TABLES (fill.c) and a few at most.
 *
 * Context: without pm->lock. May sleep if @block.
 * Return: how many were freed.
 */
unsigned long treadle_pm_free_cut(struct list_head *cut, bool block)
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

/**
 * treadle_pm_reset - cut off the whole table
 * @pm:		the pagemap
 * @cut:	gets it, for treadle_pm_free_cut()
 *
 * Context: pm->lock held for writing, or the last reference is gone.
 */
void treadle_pm_reset(struct treadle_pm *pm, struct list_head *cut)
{
	if (pm->root)
		pm_cut(pm, pm->root, PM_LEVELS - 1, cut);
	pm->root = NULL;
	pm->tables = 0;
}

/*
 * Revoke up to REVOKE_BATCH pins of the range: then *@any is set. True: drop pm->lock, take it, and
 * call again.
 */
static bool pm_revoke(struct treadle_pm *pm, unsigned long start, unsigned long last, bool *any)
{
	struct interval_tree_node *n;
	unsigned int i;

	lockdep_assert_held_write(&pm->lock);
	for (i = 0; i < REVOKE_BATCH; i++) {
		n = interval_tree_iter_first(&pm->pinned, start, last);
		if (!n)
			return false;
		*any = true;
		WRITE_ONCE(*container_of(n, struct treadle_pin, range)->revoked, true);
		interval_tree_remove(n, &pm->pinned);
		n->last = 0; /* not in the tree */
	}
	return true;
}

/*
 * The kernel is about to change the mapping of a range: drop its entries. An unmapping also revokes
 * the pins in it. Takes pm->lock; sleeps only if the range is blockable. Never fails.
 */
static int pm_invalidate_start(struct mmu_notifier *mn, const struct mmu_notifier_range *range)
{
	struct treadle_pm *pm = container_of(mn, struct treadle_pm, notifier);
	bool block = mmu_notifier_range_blockable(range), revoked = false, windows;
	enum treadle_pm_wait wait = block ? PM_WAIT_BRIEFLY : PM_NO_WAIT;
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
	while (range->event == MMU_NOTIFY_UNMAP &&
	       pm_revoke(pm, range->start, range->end - 1, &revoked)) {
		pm_write_unlock(pm);
		if (block)
			cond_resched();
		pm_write_lock(pm);
	}
	windows = interval_tree_iter_first(&pm->windows, range->start, range->end - 1);
	revoked = revoked && !RB_EMPTY_ROOT(&pm->windows.rb_root);
	pm_write_unlock(pm);
	if (unlikely(windows))
		treadle_pm_windows_take(pm, range->start, range->end - 1, wait);
	if (unlikely(revoked))
		treadle_pm_windows_end(pm, 0, ULONG_MAX, NULL, wait);
	if (!list_empty(&cut)) {
		unsigned long n = treadle_pm_free_cut(&cut, block);

		pm_write_lock(pm);
		pm->tables -= min(n, pm->tables);
		pm_write_unlock(pm);
	}
	return 0;
}

/* The range has changed: its pages may be entered again. Takes pm->lock; does not sleep. */
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

/* Tell the users of the exit of the mm, and put the reference of pm_mm_exit(). May sleep. */
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

/* The mm exits: no page is entered from here on. May sleep. */
static void pm_mm_exit(struct mmu_notifier *mn, struct mm_struct *mm)
{
	struct treadle_pm *pm = container_of(mn, struct treadle_pm, notifier);
	LIST_HEAD(cut);
	bool open;

	pm_write_lock(pm);
	pm->dead = true;
	treadle_pm_reset(pm, &cut);
	open = !list_empty(&pm->users);
	pm_write_unlock(pm);
	treadle_pm_free_cut(&cut, true);
	treadle_pm_windows_end(pm, 0, ULONG_MAX, NULL, PM_WAIT);
	/* a child may keep files of contexts open for long: end the contexts now, in a worker */
	if (open) {
		kref_get(&pm->ref);
		queue_work(pm_wq, &pm->exit);
	}
}

/* For mmu_notifier_get(), which holds the mmap_lock for writing: a pagemap, or -ENOMEM. */
static struct mmu_notifier *pm_alloc(struct mm_struct *mm)
{
	struct treadle_pm *pm = kzalloc(sizeof(*pm), TREADLE_GFP);

	if (!pm)
		return ERR_PTR(-ENOMEM);
	kref_init(&pm->ref);
	pm_lock_init(pm);
	pm->pinned = RB_ROOT_CACHED;
	pm->windows = RB_ROOT_CACHED;
	pm->buffers = RB_ROOT_CACHED;
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
		treadle_pm_reset(pm, &cut);
	pm_write_unlock(pm);
	treadle_pm_free_cut(&cut, true);
	treadle_pm_windows_end(pm, 0, ULONG_MAX, NULL, PM_WAIT);
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

/**
 * treadle_pm_queue() - let a worker run a work that waits for no other process
 * @work:	the work; its object holds the module until it is over
 *
 * Context: any; never sleeps.
 * Return: false: it is queued already.
 */
bool treadle_pm_queue(struct work_struct *work)
{
	return queue_work(pm_wq, work);
}

static void pm_release(struct kref *ref)
{
	struct treadle_pm *pm = container_of(ref, struct treadle_pm, ref);
	LIST_HEAD(cut);

	treadle_pm_reset(pm, &cut);
	treadle_pm_free_cut(&cut,
			    false); /* few, if any: the last treadle_pm_leave() has emptied it */
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
