/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: pagemaps: the pages of a process, by address (pagemap.c) */
#ifndef TREADLE_PAGEMAP_H
#define TREADLE_PAGEMAP_H

#include <linux/cacheflush.h>
#include <linux/interval_tree.h>
#include <linux/kref.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include <treadle/ring.h>

/*
 * Covers all that a process can map, except what it asks for beyond 2^48 with pages of 4 KiB; less
 * than 64 bits.
 */
#define PM_LEVELS     (PAGE_SHIFT < 16 ? 4 : 3)
#define PM_BITS	      (PAGE_SHIFT - 3)
#define PM_FAN	      (1u << PM_BITS)
#define PM_LEAF_SHIFT (PAGE_SHIFT + PM_BITS)
#define PM_ADDR_BITS  (PAGE_SHIFT + PM_LEVELS * PM_BITS)
static_assert(PM_ADDR_BITS >= 48 && PM_ADDR_BITS < 64);
#define PM_END	      min_t(u64, TASK_SIZE_MAX, 1ULL << PM_ADDR_BITS)
#define PM_WRITE      1ul	  /* entry: the page may be written */
#define TREADLE_CHUNK (64u << 10) /* bytes copied under one hold of a pagemap */
#define TREADLE_FILL  16u	  /* pages entered at once */

/*
 * Readers of a pagemap run in parallel, but one at a time on PREEMPT_RT. There a reader may be
 * preempted, and readers of an rwlock don't inherit the priority of a waiting writer: an munmap()
 * or an exit.
 */
#ifdef CONFIG_PREEMPT_RT
#define PM_LOCK_T	    spinlock_t
#define pm_lock_init(pm)    spin_lock_init(&(pm)->lock)
#define pm_write_lock(pm)   spin_lock(&(pm)->lock)
#define pm_write_unlock(pm) spin_unlock(&(pm)->lock)
#else
#define PM_LOCK_T	    rwlock_t
#define pm_lock_init(pm)    rwlock_init(&(pm)->lock)
#define pm_write_lock(pm)   write_lock(&(pm)->lock)
#define pm_write_unlock(pm) write_unlock(&(pm)->lock)
#endif

/*
 * struct treadle_pm - pagemap: the pages of one process, by address; one for all its contexts
 * @ref:	held by contexts, and by @notifier as long as it may be called
 * @lock:	read: entries are valid, and their pages stay mapped where they are;
 *		write: MMU notifier, fill
 * @dead:	the mm has exited (under @lock)
 * @root:	table of PM_LEVELS levels; an entry is the kernel address of a page with PM_* bits
 *		(under @lock)
 * @tables:	number of pages of the table (under @lock)
 * @active, @start, @end: number of invalidations in progress, and their union (under @lock)
 * @seq:	number of invalidations finished (written under @lock)
 * @pinned:	struct treadle_pin by address, which an unmapping revokes (under @lock)
 * @windows:	struct treadle_pm_window by address (under @lock)
 * @buffers:	struct treadle_buffer by address (under @lock)
 * @buffers_used: how much of their addresses was given away (under @lock)
 * @users:	users that were not told of the end of the mm (under @lock)
 * @exit:	tells @users after the mm has exited
 * @mm:		the memory of the process
 * @memcg:	memory cgroup that pays for the table
 * @notifier:	the MMU notifier
 */
struct treadle_pm {
	struct kref ref;
	PM_LOCK_T lock;
	bool dead;
	void **root;
	unsigned long tables;
	unsigned long active, start, end;
	unsigned long seq;
	struct rb_root_cached pinned, windows, buffers;
	u64 buffers_used;
	struct list_head users;
	struct work_struct exit;
	struct mm_struct *mm;
	struct mem_cgroup *memcg;
	struct mmu_notifier notifier;
};

/**
 * struct treadle_pm_user - part of an object that ends with a process's memory, at the latest
 * @link:	in pm->users
 * @get:	hold the object. Called under pm->lock
 * @mm_gone:	the mm has exited; drop the reference of @get. Called once, in a worker; may sleep
 */
struct treadle_pm_user {
	struct list_head link;
	void (*get)(struct treadle_pm_user *user);
	void (*mm_gone)(struct treadle_pm_user *user);
};

/**
 * struct treadle_pin - whole pages that are pinned
 * @range:	their addresses; @range.last is 0 after they were unmapped (under pm->lock)
 * @revoked:	set when they are unmapped (under pm->lock)
 */
struct treadle_pin {
	struct interval_tree_node range;
	bool *revoked;
};

/*
 * How treadle_pm_fill() gets pages:
 * _THERE: pages that are present; waits for nothing
 * _NOWAIT: also pages that need no lock, device or userfaultfd handler; may reclaim memory, and
 * wait until a page of a file may be written. For the process itself only
 * _FAULT: by page faults. For the process itself and its workers only
 */
enum treadle_fill { TREADLE_FILL_THERE, TREADLE_FILL_NOWAIT, TREADLE_FILL_FAULT };

int treadle_pm_init(void);
void treadle_pm_exit(void);
struct treadle_pm *treadle_pm_join(struct treadle_pm_user *user, bool nowait);
void treadle_pm_leave(struct treadle_pm *pm, struct treadle_pm_user *user);
void treadle_pm_put(struct treadle_pm *pm);
void treadle_pm_pin(struct treadle_pm *pm, struct treadle_pin *pin);
void treadle_pm_unpin(struct treadle_pm *pm, struct treadle_pin *pin);
void treadle_pm_reset(struct treadle_pm *pm, struct list_head *cut);
unsigned long treadle_pm_free_cut(struct list_head *cut, bool block);
bool treadle_pm_queue(struct work_struct *work);

/* fill.c */
int treadle_pm_fill(struct treadle_pm *pm, u64 addr, u64 len, bool write, enum treadle_fill how);

static inline unsigned int treadle_pm_index(u64 addr, int level)
{
	return (addr >> (PAGE_SHIFT + PM_BITS * level)) & (PM_FAN - 1);
}

/* How many pages from @addr on can be entered at once: they are in one leaf. */
static inline unsigned int treadle_pm_stride(u64 addr)
{
	return min(TREADLE_FILL, PM_FAN - treadle_pm_index(addr, 0));
}

/* The lowest table for @addr, or NULL. It is valid until pm->lock is dropped. */
static __always_inline void **treadle_pm_leaf(struct treadle_pm *pm, u64 addr)
{
	void **table = pm->root;

	static_assert(PM_LEVELS == 3 || PM_LEVELS == 4);
	lockdep_assert_held(&pm->lock);
	if (likely(table) && PM_LEVELS == 4)
		table = table[treadle_pm_index(addr, 3)];
	if (likely(table))
		table = table[treadle_pm_index(addr, 2)];
	if (likely(table))
		table = table[treadle_pm_index(addr, 1)];
	return table;
}

/* The kernel address of @addr; @page is its entry. NULL: none, or read-only. pm->lock held. */
static __always_inline void *treadle_pm_page(void *page, u64 addr, bool write)
{
	unsigned long entry = (unsigned long)page;

	if (unlikely(!entry || (write && !(entry & PM_WRITE))))
		return NULL;
	return (void *)(entry & ~PM_WRITE) + offset_in_page(addr);
}

/*
 * Flush the data cache after @len bytes were written at @at: the process may have these pages
 * mapped as code. Does nothing on x86. pm->lock held.
 */
static __always_inline void treadle_pm_wrote(void *at, u64 len)
{
#if ARCH_IMPLEMENTS_FLUSH_DCACHE_PAGE
	void *page = PTR_ALIGN_DOWN(at, PAGE_SIZE);

	/* else a dma-buf, which no process has as code */
	for (; page < at + len && virt_addr_valid(page); page += PAGE_SIZE)
		flush_dcache_page(virt_to_page(page));
#endif
}

/* pm_lock(): for reading. sparse cannot follow locks that are taken on a condition. */
#ifdef __CHECKER__
#define pm_lock(pm)    ((void)(pm))
#define pm_trylock(pm) ((pm) != NULL)
#define pm_unlock(pm)  ((void)(pm))
#elif defined(CONFIG_PREEMPT_RT)
#define pm_lock(pm)   pm_write_lock(pm)
#define pm_unlock(pm) pm_write_unlock(pm)
#else
#define pm_lock(pm)    read_lock(&(pm)->lock)
#define pm_trylock(pm) read_trylock(&(pm)->lock)
#define pm_unlock(pm)  read_unlock(&(pm)->lock)
#endif

/*
 * Few bytes, which are most of the work: small copies hold both pagemaps at once, and need no loop.
 * If that fails, callers use treadle_copy().
 */

/* Do the bytes lie in one page, at an address that the table covers? */
static __always_inline bool treadle_pm_small(u64 addr, u64 len)
{
	return offset_in_page(addr) + len <= PAGE_SIZE && !(addr >> PM_ADDR_BITS);
}

/*
 * Lock two pagemaps (perhaps the same one) for reading. False: neither is locked.
 *
 * The second one is only tried: with a writer waiting for each lock, two copies in opposite
 * directions would wait for each other. On PREEMPT_RT, where copies exclude each other, the locks
 * are taken in the order of their addresses: waiting passes on priority, trying does not.
 */
#if defined(CONFIG_PREEMPT_RT) && !defined(__CHECKER__)
static inline bool treadle_pm_lock2(struct treadle_pm *a, struct treadle_pm *b)
{
	if (a > b)
		swap(a, b);
	pm_lock(a);
	if (a != b)
		spin_lock_nested(&b->lock, SINGLE_DEPTH_NESTING);
	return true;
}
#else
static __always_inline bool treadle_pm_lock2(struct treadle_pm *a, struct treadle_pm *b)
{
	pm_lock(a);
	if (likely(a == b || pm_trylock(b)))
		return true;
	pm_unlock(a);
	return false;
}
#endif

static __always_inline void treadle_pm_unlock2(struct treadle_pm *a, struct treadle_pm *b)
{
	if (b != a)
		pm_unlock(b);
	pm_unlock(a);
}

/* The kernel address of @addr, of treadle_pm_small() bytes. NULL: no entry. pm->lock held. */
static __always_inline void *treadle_pm_known(struct treadle_pm *pm, u64 addr, bool write)
{
	void **leaf = treadle_pm_leaf(pm, addr);

	return likely(leaf) ? treadle_pm_page(leaf[treadle_pm_index(addr, 0)], addr, write) : NULL;
}

#endif
