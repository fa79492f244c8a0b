// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: memory regions
 *
 * fi_mr(3). A region is a window on the pagemap: a range, rights, a key. On
 * demand: nothing is pinned. Pinned: pages are held (FOLL_LONGTERM) and charged to
 * RLIMIT_MEMLOCK, so they never fault; if the range is unmapped, the
 * region is revoked for good, because what is pinned is not the process's any more.
 */
#include <linux/interval_tree.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "treadle.h"

#define PIN_BATCH 512ul
#define ACCESS_ALL                                                                                \
	(TREADLE_ACCESS_SEND | TREADLE_ACCESS_RECV | TREADLE_ACCESS_READ | TREADLE_ACCESS_WRITE | \
	 TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE)
/* Rights by which the fabric writes to the region. */
#define ACCESS_WRITES (TREADLE_ACCESS_RECV | TREADLE_ACCESS_READ | TREADLE_ACCESS_REMOTE_WRITE)

/*
 * struct treadle_mr - memory region
 * @key, @node:  key and its place in ctx->mrs
 * @range:       pinned: its place in pm->pinned (pm->lock); page-aligned
 * @revoked:     unmapped since (pm->lock)
 */
struct treadle_mr {
	struct treadle_obj obj;
	u64 key;
	struct rhash_head node;
	bool hashed, revoked;
	u32 access, flags;
	struct treadle_iov iov;
	struct interval_tree_node range;
	unsigned long charged, pinned;
	struct page **pages;
	u32 key_size;
	u8 auth_key[TREADLE_MAX_AUTH_KEY];
};

const struct rhashtable_params treadle_mr_params = {
	.key_len = sizeof(u64),
	.key_offset = offsetof(struct treadle_mr, key),
	.head_offset = offsetof(struct treadle_mr, node),
	.automatic_shrinking = true,
};

/* From the MMU notifier, under pm->lock. */
void treadle_mr_revoke(struct treadle_pm *pm, unsigned long start, unsigned long last)
{
	struct interval_tree_node *n;

	for (n = interval_tree_iter_first(&pm->pinned, start, last); n;
	     n = interval_tree_iter_next(n, start, last))
		container_of(n, struct treadle_mr, range)->revoked = true;
}

/* Is all of it mapped, ordinary memory, and writable if it has to be? */
static int check_range(struct mm_struct *mm, u64 addr, u64 len, bool write)
{
	u64 end = addr + len;
	int ret = 0;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	while (addr < end) {
		struct vm_area_struct *vma = find_vma(mm, addr);

		if (!vma || vma->vm_start > addr || (vma->vm_flags & (VM_IO | VM_PFNMAP)) ||
		    !(vma->vm_flags & VM_READ) || (write && !(vma->vm_flags & VM_WRITE))) {
			ret = -EFAULT;
			break;
		}
		addr = vma->vm_end;
		if (fatal_signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		cond_resched();
	}
	mmap_read_unlock(mm);
	return ret;
}

static void mr_unpin(struct treadle_mr *mr)
{
	unsigned long i, n;
	bool dirty = mr->access & ACCESS_WRITES;

	for (i = 0; i < mr->pinned; i += n) {
		n = min(mr->pinned - i, PIN_BATCH);
		unpin_user_pages_dirty_lock(mr->pages + i, n, dirty);
		cond_resched();
	}
	kvfree(mr->pages);
	if (mr->charged)
		account_locked_vm(mr->obj.ctx->mm, mr->charged, false);
	mr->pinned = mr->charged = 0;
}

static void range_insert(struct treadle_mr *mr)
{
	struct treadle_pm *pm = &mr->obj.ctx->pm;

	mr->range.start = mr->iov.addr & PAGE_MASK;
	mr->range.last = PAGE_ALIGN(mr->iov.addr + mr->iov.len) - 1;
	write_lock(&pm->lock);
	interval_tree_insert(&mr->range, &pm->pinned);
	write_unlock(&pm->lock);
}

static void range_remove(struct treadle_mr *mr)
{
	struct treadle_pm *pm = &mr->obj.ctx->pm;

	if (!mr->range.last)
		return;
	write_lock(&pm->lock);
	interval_tree_remove(&mr->range, &pm->pinned);
	write_unlock(&pm->lock);
	mr->range.last = 0;
}

/* Charge first, pin then; what fails is refunded by treadle_mr_free. */
static int mr_pin(struct treadle_mr *mr)
{
	unsigned long start = mr->iov.addr & PAGE_MASK;
	unsigned long n = DIV_ROUND_UP(mr->iov.addr + mr->iov.len - start, PAGE_SIZE);
	unsigned int flags = FOLL_LONGTERM | (mr->access & ACCESS_WRITES ? FOLL_WRITE : 0);
	bool write = flags & FOLL_WRITE;
	int ret;

	ret = account_locked_vm(mr->obj.ctx->mm, n, true);
	if (ret)
		return ret;
	mr->charged = n;
	mr->pages = kvcalloc(n, sizeof(*mr->pages), TREADLE_GFP);
	if (!mr->pages)
		return -ENOMEM;
	/* seen by the notifier before the first page is pinned */
	range_insert(mr);
	while (mr->pinned < n) {
		unsigned long addr = start + (mr->pinned << PAGE_SHIFT);
		u64 left = min(n - mr->pinned, PIN_BATCH);

		ret = pin_user_pages_fast(addr, left, flags, mr->pages + mr->pinned);
		if (ret <= 0)
			return ret == -ENOMEM ? ret : -EFAULT;
		mr->pinned += ret;
		/* and known to the pagemap: copies will not have to ask */
		treadle_pm_fill(&mr->obj.ctx->pm, addr, (u64)ret << PAGE_SHIFT, write, true);
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

static int mr_key(struct treadle_mr *mr)
{
	int ret;

	do {
		if (mr->flags & TREADLE_MR_KERNEL_KEY)
			mr->key = get_random_u64();
		ret = rhashtable_lookup_insert_fast(&mr->obj.ctx->mrs, &mr->node,
						    treadle_mr_params);
	} while (ret == -EEXIST && (mr->flags & TREADLE_MR_KERNEL_KEY));
	mr->hashed = !ret;
	return ret;
}

int treadle_ioc_mr_create(struct treadle_ucmd *u)
{
	struct treadle_mr_create *arg = u->arg;
	struct treadle_mr *mr;
	u64 end;
	int ret;

	if ((arg->flags & ~(TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY | TREADLE_MR_VIRT_ADDR)) ||
	    !arg->access || (arg->access & ~ACCESS_ALL) || !arg->iov_count || arg->cntr ||
	    arg->ep || ((arg->flags & TREADLE_MR_KERNEL_KEY) && arg->key))
		return -EINVAL;
	if (arg->iov_count > 1)
		return -EOPNOTSUPP;
	mr = kzalloc(sizeof(*mr), TREADLE_GFP);
	if (!mr)
		return -ENOMEM;
	mr->access = arg->access;
	mr->flags = arg->flags;
	mr->key = arg->key;
	mr->key_size = arg->auth_key_size;
	ret = treadle_copy_key(arg->auth_key, arg->auth_key_size, mr->auth_key);
	if (!ret && copy_from_user(&mr->iov, u64_to_user_ptr(arg->iov), sizeof(mr->iov)))
		ret = -EFAULT;
	if (!ret && (!mr->iov.len || check_add_overflow(mr->iov.addr, mr->iov.len, &end) ||
		     check_add_overflow(end, (u64)PAGE_SIZE, &end)))
		ret = -EINVAL;
	if (!ret)
		ret = check_range(u->ctx->mm, mr->iov.addr, mr->iov.len,
				  arg->access & ACCESS_WRITES);
	if (!ret)
		ret = treadle_obj_init(u->ctx, &mr->obj, TREADLE_MR);
	if (ret) {
		kfree(mr);
		return ret;
	}
	if (arg->flags & TREADLE_MR_PINNED)
		ret = mr_pin(mr);
	if (!ret)
		ret = mr_key(mr);
	if (ret) {
		treadle_obj_put(&mr->obj);
		return ret;
	}
	arg->key = mr->key;
	arg->id = mr->obj.id;
	u->new = &mr->obj;
	return 0;
}

/* Its key works no longer. */
void treadle_mr_shutdown(struct treadle_obj *obj)
{
	struct treadle_mr *mr = container_of(obj, struct treadle_mr, obj);

	if (mr->hashed)
		rhashtable_remove_fast(&obj->ctx->mrs, &mr->node, treadle_mr_params);
	mr->hashed = false;
}

void treadle_mr_free(struct treadle_obj *obj)
{
	struct treadle_mr *mr = container_of(obj, struct treadle_mr, obj);

	treadle_mr_shutdown(obj);
	range_remove(mr);
	mr_unpin(mr);
}
