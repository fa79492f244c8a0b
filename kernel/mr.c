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
#include <linux/nospec.h>
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
 * @revoked:     closed, or unmapped since (pm->lock)
 * @cntr:        counts what peers write, set once (ctx->lock), or NULL
 * @ep:          id of the only endpoint by which it is reached, set once, or 0
 */
struct treadle_mr {
	struct treadle_obj obj;
	u64 key;
	struct rhash_head node;
	bool hashed, revoked;
	u32 access, flags;
	struct treadle_iov iov;
	struct treadle_cntr *cntr;
	u32 ep;
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

/* Bind, once each: to a counter, to an endpoint; ids, or 0. */
static int mr_bind(struct treadle_mr *mr, u32 cntr, u32 ep)
{
	struct treadle_ctx *ctx = mr->obj.ctx;
	struct treadle_obj *counter = NULL, *endpoint = NULL;
	int ret = 0;

	if (cntr)
		counter = treadle_obj_bind(ctx, cntr, TREADLE_CNTR);
	if (IS_ERR(counter))
		return PTR_ERR(counter);
	if (ep)
		endpoint = treadle_obj_get(ctx, ep, TREADLE_EP);
	mutex_lock(&ctx->lock);
	if (IS_ERR(endpoint))
		ret = PTR_ERR(endpoint);
	else if ((counter && mr->cntr) || (endpoint && mr->ep))
		ret = -EBUSY;
	/* the data path reads them without the lock */
	if (!ret && counter)
		smp_store_release(&mr->cntr, container_of(counter, struct treadle_cntr, obj));
	if (!ret && endpoint)
		WRITE_ONCE(mr->ep, ep);
	mutex_unlock(&ctx->lock);
	if (!IS_ERR_OR_NULL(endpoint))
		treadle_obj_put(endpoint); /* ids are not used again */
	if (ret && counter)
		treadle_obj_unbind(counter);
	return ret;
}

int treadle_ioc_mr_bind(struct treadle_ucmd *u)
{
	struct treadle_mr_bind *arg = u->arg;
	struct treadle_obj *obj;
	int ret;

	if (arg->flags || arg->reserved)
		return -EINVAL;
	/* bound for the time of this call: it is not shut down meanwhile */
	obj = treadle_obj_bind(u->ctx, arg->mr, TREADLE_MR);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = mr_bind(container_of(obj, struct treadle_mr, obj), arg->cntr, arg->ep);
	treadle_obj_unbind(obj);
	return ret;
}

int treadle_ioc_mr_create(struct treadle_ucmd *u)
{
	struct treadle_mr_create *arg = u->arg;
	struct treadle_mr *mr;
	u64 end;
	int ret;

	if ((arg->flags & ~(TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY | TREADLE_MR_VIRT_ADDR)) ||
	    (arg->access & ~ACCESS_ALL) || !arg->iov_count ||
	    ((arg->flags & TREADLE_MR_KERNEL_KEY) && arg->key))
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
	if (arg->cntr || arg->ep)
		ret = mr_bind(mr, arg->cntr, arg->ep);
	if (!ret && (arg->flags & TREADLE_MR_PINNED))
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

/* Its key works no longer, and what has found it already stops: nothing is copied from here on. */
void treadle_mr_shutdown(struct treadle_obj *obj)
{
	struct treadle_mr *mr = container_of(obj, struct treadle_mr, obj);
	struct treadle_pm *pm = &obj->ctx->pm;

	if (mr->hashed) {
		rhashtable_remove_fast(&obj->ctx->mrs, &mr->node, treadle_mr_params);
		write_lock(&pm->lock);
		mr->revoked = true;
		write_unlock(&pm->lock);
	}
	mr->hashed = false;
	if (mr->cntr)
		atomic_dec(&mr->cntr->obj.users);
}

void treadle_mr_free(struct treadle_obj *obj)
{
	struct treadle_mr *mr = container_of(obj, struct treadle_mr, obj);

	if (mr->hashed)
		treadle_mr_shutdown(obj);
	if (mr->cntr)
		treadle_obj_put(&mr->cntr->obj);
	range_remove(mr);
	mr_unpin(mr);
}

/* --- what peers see of it ------------------------------------------------------------- */

void treadle_mr_put(struct treadle_mr *mr)
{
	treadle_obj_put(&mr->obj);
}

bool treadle_mr_revoked(const struct treadle_mr *mr)
{
	return mr->revoked;
}

struct treadle_cntr *treadle_mr_cntr(struct treadle_mr *mr)
{
	return smp_load_acquire(&mr->cntr); /* pairs with mr_bind */
}

/*
 * Everything that is checked on an access: key, endpoint, who, what for, where.
 * The region is held; that it is still alive is seen again with every copy.
 */
int treadle_mr_find(struct treadle_ep *to, const struct treadle_ep *from,
		    const struct treadle_rma_iov *range, u32 access, struct treadle_mr **found,
		    struct treadle_iov *at)
{
	struct treadle_ctx *ctx = to->obj.ctx;
	struct treadle_mr *mr;
	u64 off;
	u32 ep;
	int ret = 0;

	rcu_read_lock();
	mr = rhashtable_lookup(&ctx->mrs, &range->key, treadle_mr_params);
	if (mr && !kref_get_unless_zero(&mr->obj.ref))
		mr = NULL;
	rcu_read_unlock();
	if (!mr)
		return -EKEYREJECTED;
	ep = READ_ONCE(mr->ep);
	off = range->addr - (mr->flags & TREADLE_MR_VIRT_ADDR ? mr->iov.addr : 0);
	if (ep && ep != to->obj.id && !(to->parent && ep == to->parent->obj.id))
		ret = -EKEYREJECTED;
	else if ((access & ~mr->access) || !treadle_admits(ctx, mr->auth_key, mr->key_size, from))
		ret = -EACCES;
	else if (off > mr->iov.len || range->len > mr->iov.len - off)
		ret = -EREMOTEIO;
	if (ret) {
		treadle_mr_put(mr);
		return ret;
	}
	*found = mr;
	*at = (struct treadle_iov){ mr->iov.addr + array_index_nospec(off, mr->iov.len + 1),
				    range->len };
	return 0;
}
