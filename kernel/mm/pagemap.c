// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the pages of a process, on demand
 *
 * A table from address to page, filled by get_user_pages and emptied by an MMU
 * notifier. It holds no reference to a page: an entry is valid while pm->lock is
 * held, because whoever wants to unmap, move, share or clean that page must
 * first come through the notifier, which takes the lock for writing. So the
 * process's memory stays swappable and movable, and a copy that holds the lock
 * never touches a page that is no longer mapped there.
 *
 * A fill may race with an invalidation. As in KVM, it notes `seq` before it asks
 * for the pages; it gives up if an invalidation of its range is in progress, or
 * one has finished since.
 *
 * A page that is to be written was got with FOLL_WRITE, so copy-on-write, write
 * notification, userfaultfd and soft-dirty have had their say; it is marked dirty when
 * it is entered. Whoever cleans it afterwards must write-protect it first, which
 * comes through the notifier again.
 *
 * A process has one pagemap, however many contexts it opens: what is unmapped is told once. As long
 * as one of their files is open, the notifier is called; a context that ends has closed its endpoints
 * and regions, which every copy asks for (span_error), before its file goes.
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
/* More than 256 MiB of tables (128 GiB of addresses or more, by the page size) and the table starts afresh. */
#define MAX_TABLES ((256ul << 20) >> PAGE_SHIFT)

/* Pagemaps of which the notifier may still be called: the module's text stays for them. */
static atomic_t notifiers;

/* For the ends of pagemaps; what it runs waits for nothing. */
static struct workqueue_struct *pm_wq;

/* --- taking down ---------------------------------------------------------------- */

/* Table pages that were cut off, to be freed without the lock; level in page->private. */
static void pm_cut(struct treadle_pm *pm, void **table, int level, struct list_head *cut)
{
	struct page *page = virt_to_page(table);

	page->private = level;
	list_add_tail(&page->lru, cut);
}

/*
 * Each is freed when those below it are behind it on the list, which grows instead of the stack: MAX_TABLES, and a few,
 * at most. @block: the caller may be interrupted for others; a notifier that must not block may not.
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

/* Forget [start, last] below @table; what is covered whole is cut off. Depth: PM_LEVELS. */
static void pm_zap(struct treadle_pm *pm, void **table, int level, u64 start, u64 last,
		   struct list_head *cut)
{
	u64 span = 1ULL << (PAGE_SHIFT + PM_BITS * level), addr;
	unsigned int i = treadle_pm_index(start, level), end = treadle_pm_index(last, level);

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

static void pm_reset(struct treadle_pm *pm, struct list_head *cut)
{
	if (pm->root)
		pm_cut(pm, pm->root, PM_LEVELS - 1, cut);
	pm->root = NULL;
	pm->tables = 0;
}

/* What is pinned there is revoked. Under pm->lock. True: there is more; the caller lets go of the lock between. */
static bool pm_revoke(struct treadle_pm *pm, unsigned long start, unsigned long last)
{
	struct interval_tree_node *n;
	unsigned int i;

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

	/* waits for nobody: of a range that must not block only pm_free_cut() has to know */
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
	/* as many times as are pinned there / 256; pm->active is counted, so nothing is entered in the range meanwhile */
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
	smp_store_release(&pm->seq,
			  pm->seq + 1); /* pairs with treadle_pm_fill(), which has no lock */
	pm->active--;
	pm_write_unlock(pm);
}

/* --- beginning and end ------------------------------------------------------------ */

/* One of the users that have not been told, held; NULL: there is none. */
static struct treadle_pm_user *pm_pop(struct treadle_pm *pm)
{
	struct treadle_pm_user *user;

	pm_write_lock(pm);
	user = list_first_entry_or_null(&pm->users, struct treadle_pm_user, link);
	if (user) {
		list_del_init(&user->link);
		user->get(user); /* it is there: treadle_pm_leave() takes it off first */
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
	/* a child may keep the files of contexts open for long: they end now, though not here */
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
	pm->mm = mm; /* contexts hold it, and so does the notifier */
#ifdef CONFIG_MEMCG
	pm->memcg = get_mem_cgroup_from_mm(mm);
#endif
	atomic_inc(&notifiers);
	return &pm->notifier;
}

/* It is not called any more, nor is it found. */
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
 * treadle_pm_init - 0 or -ENOMEM; before the first pagemap
 */
int treadle_pm_init(void)
{
	pm_wq = alloc_workqueue("treadle_mm", WQ_UNBOUND, 0);
	return pm_wq ? 0 : -ENOMEM;
}

/**
 * treadle_pm_exit - wait until no notifier is left
 *
 * After the last pagemap was left. mmu_notifier_synchronize() is for the last callback, which has woken
 * this and may not have returned: each module that uses mmu_notifier_put() has to call it.
 */
void treadle_pm_exit(void)
{
	wait_var_event(&notifiers, !atomic_read(&notifiers));
	mmu_notifier_synchronize();
	destroy_workqueue(pm_wq);
}

/**
 * treadle_pm_join - the pagemap of the caller's memory, for @user
 * @user:	with @get and @mm_gone
 * @nowait:	don't wait for the mmap_lock if it is taken. Only a look, as 6.12 has no trylock of it
 *		for writing: a holder that comes just then is waited for
 *
 * May sleep. The pagemap, held until treadle_pm_put(); or -EAGAIN: @nowait, and the lock is taken;
 * -EINTR: it would be the first one, and a signal is pending; -ENOMEM.
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
 * treadle_pm_leave - @user needs the pages no more; the pagemap itself stays held
 * @pm:		what treadle_pm_join() has returned
 * @user:	for which it did
 *
 * What is left may do as much as fill: but of the last user, what is known then is of use to nothing, and soon
 * no notifier would take it back. May sleep.
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
 * treadle_pm_pin - from here on an unmapping of @pin->range sets *@pin->revoked
 * @pm:		the pagemap
 * @pin:	stays where it is until treadle_pm_unpin()
 */
void treadle_pm_pin(struct treadle_pm *pm, struct treadle_pin *pin)
{
	pm_write_lock(pm);
	interval_tree_insert(&pin->range, &pm->pinned);
	pm_write_unlock(pm);
}

/**
 * treadle_pm_unpin - undo treadle_pm_pin(), once
 * @pm:		the pagemap
 * @pin:	that was pinned
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
	pm_free_cut(&cut, false); /* few, if any: treadle_pm_leave() */
#ifdef CONFIG_MEMCG
	mem_cgroup_put(pm->memcg);
#endif
	kfree(pm);
}

/* From anywhere. */
void treadle_pm_put(struct treadle_pm *pm)
{
	kref_put(&pm->ref, pm_release);
}

/* --- filling ---------------------------------------------------------------------- */

/*
 * Pages of another process, or from a worker, or without waiting. *seq: from before they are looked for (pairs with
 * pm_invalidate_end()), but not from before the lock was waited for, as who had it has unmapped something.
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
	/* if the process has exited meanwhile, its memory is not torn down here */
	mmput_async(mm);
	return got;
}

/* Enter the pages; -EAGAIN: an invalidation came between; -ENOSPC: a table is missing. */
static int pm_enter(struct treadle_pm *pm, u64 addr, unsigned int n, struct page **pages,
		    bool write, unsigned long seq, void **spare)
{
	u64 end = addr + ((u64)n << PAGE_SHIFT);
	void ***slot = (void ***)&pm->root, **table;
	unsigned int i;
	int level;

	/* without a user there is soon no notifier: nothing would tell that the pages are others, or clean */
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
			continue; /* entered for writing already */
		table[treadle_pm_index(addr, 0) + i] =
			(void *)((unsigned long)page_address(pages[i]) | (write ? PM_WRITE : 0));
	}
	return 0;
}

/* Whatever is known is to be found again, unless that is not worth it: two sides of a copy must be known at once. */
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
 * A page for each level that has none, paid by the owner of the memory; only he, or his worker,
 * reclaims for that (@own). -EAGAIN: let him. What he is to be given must not be lost at his limit, which it may have filled:
 * then what he has gives way, and these few are beyond it.
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

/* Why there are no pages. Only what will pass is tried again: the rest would be tried for ever. */
static int fill_error(long got)
{
	switch (got) {
	case -ESHUTDOWN:
	case -EAGAIN:
	case -ENOMEM:
		return got;
	case -EBUSY: /* nobody was to wait */
	case -EINTR: /* the caller dies; the worker goes on */
	case -ERESTARTSYS:
		return -EAGAIN;
	default: /* nothing there, nothing ordinary, or hardware that fails */
		return -EFAULT;
	}
}

/*
 * treadle_pm_fill - make pages known
 * @addr, @len:	what is needed next; some of it, from @addr on, will be entered
 *
 * 0; -EAGAIN: needs a fault, or the address space is busy: ask the owner's worker;
 * -EFAULT: no such memory; -ESHUTDOWN: the process is gone; -ENOMEM.
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
			/* pairs with pm_invalidate_end(): seq first, then the pages */
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
