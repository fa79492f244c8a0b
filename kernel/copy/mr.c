// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the life of memory regions; mr_access.c has the access by peers
 *
 * fi_mr(3). A region is a window on the pagemap: one range or several, rights, a key.
 * On demand: nothing is pinned. Pinned: pages are held (FOLL_LONGTERM) and charged to
 * RLIMIT_MEMLOCK, so they never fault. If any of it is unmapped, the region is revoked
 * for good, because the pinned pages are not the process's memory any more. A dma-buf is charged
 * likewise, and revoked if its exporter moves it (mm/dmabuf.c).
 */
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "copy/region.h"
#include "mm/compat.h"
#include "mm/window.h"
#include "notify/counter.h"

#define PIN_BATCH 512ul
#define ACCESS_ALL                                                                                \
	(TREADLE_ACCESS_SEND | TREADLE_ACCESS_RECV | TREADLE_ACCESS_READ | TREADLE_ACCESS_WRITE | \
	 TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE)
#define FLAGS_ALL                                                                                 \
	(TREADLE_MR_PINNED | TREADLE_MR_KERNEL_KEY | TREADLE_MR_VIRT_ADDR | TREADLE_MR_UNMAPPED | \
	 TREADLE_MR_DMABUF)
/* Rights with which the fabric writes to the region. */
#define ACCESS_WRITES (TREADLE_ACCESS_RECV | TREADLE_ACCESS_READ | TREADLE_ACCESS_REMOTE_WRITE)

/**
 * treadle_mrs_init() - initialize a context's table of regions
 * @mrs: the table; freed by rhashtable_destroy()
 *
 * Context: may sleep.
 * Return: 0 or a negative errno.
 */
int treadle_mrs_init(struct rhashtable *mrs)
{
	return rhashtable_init(mrs, &mr_params);
}

/*
 * Returns 0 if all of the range is mapped, ordinary memory, and writable if @write. With @unmapped
 * also if part of it is not mapped, or only reserved (no access): memory may come there later.
 *
 * Takes the mmap_lock; may sleep.
 */
static int check_range(struct mm_struct *mm, u64 addr, u64 len, bool write, bool unmapped)
{
	u64 end = addr + len;
	int ret = 0;

	if (!unmapped && end > PM_END)
		return -EFAULT;
	if (mmap_read_lock_killable(mm))
		return -EINTR;
	while (addr < end) {
		struct vm_area_struct *vma = find_vma(mm, addr);

		if (!vma || vma->vm_start > addr || !(vma->vm_flags & VM_ACCESS_FLAGS)) {
			ret = unmapped ? 0 : -EFAULT;
			break;
		}
		if ((vma->vm_flags & (VM_IO | VM_PFNMAP)) || !(vma->vm_flags & VM_READ) ||
		    (write && !(vma->vm_flags & VM_WRITE))) {
			ret = -EFAULT;
			if (!unmapped)
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

/*
 * Unpin. The pages that were written are marked dirty already, because copies go by the pagemap
 * (pm_enter()): so no page is locked here. May sleep.
 */
static void part_unpin(struct treadle_mr_part *part)
{
	unsigned long i, n;

	for (i = 0; i < part->pinned; i += n) {
		n = min(part->pinned - i, PIN_BATCH);
		unpin_user_pages(part->pages + i, n);
		cond_resched();
	}
	kvfree(part->pages);
}

/* Charge, then pin; after a failure mr_hide() undoes both. Takes the mmap_lock; may sleep. */
static int part_pin(struct treadle_mr *mr, struct treadle_mr_part *part)
{
	unsigned long start = part->iov.addr & PAGE_MASK;
	unsigned long n = DIV_ROUND_UP(part->iov.addr + part->iov.len - start, PAGE_SIZE);
	unsigned int flags = FOLL_LONGTERM | (mr->access & ACCESS_WRITES ? FOLL_WRITE : 0);
	bool write = flags & FOLL_WRITE;
	int ret, i;

	ret = account_locked_vm(mr->obj.ctx->mm, n, true);
	if (ret)
		return ret;
	mr->charged += n;
	part->pages = treadle_table_alloc(n, sizeof(*part->pages), TREADLE_GFP);
	if (!part->pages)
		return -ENOMEM;
	/*
	 * Let the notifier know the range before the first page is pinned. treadle_pin_pages()
	 * takes the mmap_lock, so it finds no page of which an unmapping began before. Pinning
	 * without that lock looks at page tables only, and could find one.
	 */
	part->pin.range.start = start;
	part->pin.range.last = PAGE_ALIGN(part->iov.addr + part->iov.len) - 1;
	part->pin.revoked = &mr->revoked;
	treadle_pm_pin(treadle_pm_of(mr->obj.ctx), &part->pin);
	while (part->pinned < n) {
		unsigned long addr = start + (part->pinned << PAGE_SHIFT);
		u64 left = min(n - part->pinned, PIN_BATCH);

		ret = treadle_pin_pages(addr, left, flags, part->pages + part->pinned);
		if (ret <= 0)
			return ret == -ENOMEM ? ret : -EFAULT;
		part->pinned += ret;
		/* tell the pagemap, so that copies do not have to ask */
		for (i = 0; i < ret; i += treadle_pm_stride(addr + ((u64)i << PAGE_SHIFT)))
			treadle_pm_fill(treadle_pm_of(mr->obj.ctx), addr + ((u64)i << PAGE_SHIFT),
					(u64)(ret - i) << PAGE_SHIFT, write, TREADLE_FILL_FAULT);
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* Pin all parts; after a failure mr_hide() undoes it. */
static int mr_pin(struct treadle_mr *mr)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < mr->count && !ret; i++)
		ret = part_pin(mr, &mr->parts[i]);
	return ret;
}

/*
 * Map the range of a dma-buf: @addr of its @iov is an offset there. After a failure mr_hide()
 * undoes it. May sleep.
 */
static int mr_dmabuf(struct treadle_mr *mr, struct treadle_mr_create *arg)
{
	struct treadle_mr_part *part = mr->parts;
	u64 offset, pages;
	int ret;

	part->mr = mr;
	if (copy_from_user(&part->iov, u64_to_user_ptr(arg->iov), sizeof(part->iov)))
		return -EFAULT;
	offset = part->iov.addr;
	if (mr->flags & TREADLE_MR_VIRT_ADDR &&
	    (check_add_overflow(arg->base, offset, &part->start) ||
	     part->iov.len > U64_MAX - part->start))
		return -EINVAL;
	part->buffer = treadle_buffer_open(treadle_pm_of(mr->obj.ctx), arg->fd,
					   mr->access & ACCESS_WRITES, &mr->revoked);
	if (IS_ERR(part->buffer)) {
		ret = PTR_ERR(part->buffer);
		part->buffer = NULL;
		return ret;
	}
	pages = PAGE_ALIGN(treadle_buffer_size(part->buffer)) >> PAGE_SHIFT;
	ret = account_locked_vm(mr->obj.ctx->mm, pages, true);
	if (ret)
		return ret;
	mr->charged = pages;
	ret = treadle_buffer_show(part->buffer, offset, part->iov.len, &part->iov.addr);
	arg->addr = part->iov.addr;
	return ret;
}

/* Give the region its key: from here on peers find it. -EEXIST: another region has that key. */
static int mr_key(struct treadle_mr *mr)
{
	int ret;

	do {
		if (mr->flags & TREADLE_MR_KERNEL_KEY)
			mr->key = get_random_u64();
		ret = rhashtable_lookup_insert_fast(&mr->obj.ctx->mrs, &mr->node, mr_params);
	} while (ret == -EEXIST && (mr->flags & TREADLE_MR_KERNEL_KEY));
	mr->hashed = !ret;
	if (!ret) /* the region is not published yet, so mr_hide() comes later, and takes it out */
		rcu_assign_pointer(*treadle_mr_recent(mr->obj.ctx, mr->key), mr);
	return ret;
}

/* Peers find the region by its key no more. */
static void mr_unhash(struct treadle_mr *mr)
{
	struct treadle_ctx *ctx = mr->obj.ctx;

	if (!mr->hashed)
		return;
	/* cmpxchg, as another thread may be storing a region there */
	cmpxchg((__force struct treadle_mr **)treadle_mr_recent(ctx, mr->key), mr, NULL);
	rhashtable_remove_fast(&ctx->mrs, &mr->node, mr_params);
}

/* Bind the region to a counter and an endpoint (ids, or 0), once each. Takes ctx->lock. */
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
		treadle_obj_put(endpoint); /* the id is enough: ids are not used again */
	if (ret && counter)
		treadle_obj_unbind(counter);
	if (!ret) /* windows are not counted, and know no endpoint that was bound later */
		treadle_pm_windows_end(treadle_pm_of(ctx), 0, ULONG_MAX, &mr->revoked, PM_WAIT);
	return ret;
}

/**
 * treadle_ioc_mr_bind() - MR_BIND: bind a region to a counter or an endpoint, once each
 * @u: the call, with a struct treadle_mr_bind
 *
 * Context: may sleep. Takes ctx->lock.
 * Return: 0 or -errno. -EBUSY: it is bound to one already.
 */
int treadle_ioc_mr_bind(struct treadle_ucmd *u)
{
	struct treadle_mr_bind *arg = u->arg;
	struct treadle_obj *obj;
	int ret;

	if (arg->flags || arg->reserved)
		return -EINVAL;
	/* bound during this call, so that it is not shut down meanwhile */
	obj = treadle_obj_bind(u->ctx, arg->mr, TREADLE_MR);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = mr_bind(container_of(obj, struct treadle_mr, obj), arg->cntr, arg->ep);
	treadle_obj_unbind(obj);
	return ret;
}

/*
 * Read the ranges, and set the addresses by which peers reach them: offsets that go on from one to
 * the next, or virtual addresses. May sleep.
 */
static int mr_ranges(struct treadle_mr *mr, const struct treadle_iov __user *iov)
{
	bool unmapped = mr->flags & TREADLE_MR_UNMAPPED;
	struct treadle_mr_part *part;
	u64 end, total = 0;
	int ret = 0;

	for (part = mr->parts; part < mr->parts + mr->count && !ret; part++, iov++) {
		part->mr = mr;
		if (copy_from_user(&part->iov, iov, sizeof(*iov)))
			return -EFAULT;
		part->start = mr->flags & TREADLE_MR_VIRT_ADDR ? part->iov.addr : total;
		if (!part->iov.len || check_add_overflow(part->iov.addr, part->iov.len, &end) ||
		    check_add_overflow(total, part->iov.len, &total))
			return -EINVAL;
		if (unmapped) /* no process ever has memory beyond */
			part->iov.len = min_t(u64, end, max_t(u64, part->iov.addr, PM_END)) -
					part->iov.addr;
		else if (check_add_overflow(end, (u64)PAGE_SIZE, &end))
			return -EINVAL;
		ret = check_range(current->mm, part->iov.addr, part->iov.len,
				  mr->access & ACCESS_WRITES, unmapped);
	}
	return ret;
}

/* Refund the charge. Waits for the owner's mmap_lock; puts the region. */
static void mr_refund(struct treadle_work *work, struct treadle_pool *pool)
{
	struct treadle_mr *mr = container_of(work, struct treadle_mr, refund);

	treadle_pool_sleeps(pool);
	account_locked_vm(mr->obj.ctx->mm, mr->charged, false);
	treadle_pool_awakes(pool);
	treadle_obj_put(&mr->obj);
}

/*
 * Unlist the key, and stop commands that have found the region already: nothing is copied from here
 * on. Copies go by the pagemap, so the pins are not needed any more. They are released here
 * (DESTROY, the end of the context, or a failed creation), and not with the last reference.
 *
 * The charge is refunded here, too. That waits for the owner's mmap_lock, so if another process
 * closes the file, a worker of the owner does it.
 */
static void mr_hide(struct treadle_obj *obj, struct treadle_run *run)
{
	struct treadle_mr *mr = container_of(obj, struct treadle_mr, obj);
	struct mm_struct *mm = obj->ctx->mm;
	struct treadle_pm *pm = treadle_pm_of(obj->ctx);
	unsigned int i;
	bool windows;

	if (mr->closed)
		return;
	mr->closed = true;
	mr_unhash(mr);
	pm_write_lock(pm);
	WRITE_ONCE(mr->revoked, true);
	windows = !RB_EMPTY_ROOT(&pm->windows.rb_root);
	pm_write_unlock(pm);
	if (windows)
		treadle_pm_windows_end(pm, 0, ULONG_MAX, NULL, PM_WAIT);
	if (mr->cntr)
		atomic_dec(&mr->cntr->obj.users);
	for (i = 0; i < mr->count; i++) {
		if (mr->parts[i].pages) /* else nothing was pinned */
			treadle_pm_unpin(pm, &mr->parts[i].pin);
		part_unpin(&mr->parts[i]);
		treadle_buffer_close(mr->parts[i].buffer);
	}
	/* an mm without users has no limit to refund any more */
	if (!mr->charged || !atomic_read(&mm->mm_users))
		return;
	kref_get(&obj->ref);
	treadle_work_init(&mr->refund, obj->ctx, mr_refund, true);
	if (current->mm == mm)
		mr_refund(&mr->refund, NULL);
	else
		treadle_queue_work(&mr->refund);
}

static void mr_free(struct treadle_obj *obj)
{
	struct treadle_mr *mr = container_of(obj, struct treadle_mr, obj);

	if (mr->cntr)
		treadle_obj_put(&mr->cntr->obj);
	treadle_key_free(mr->id.key);
}

static const struct treadle_obj_ops mr_ops = {
	.type = TREADLE_MR,
	.stats = TREADLE_STAT_MR,
	.stats_end = TREADLE_STAT_MR_END,
	.hide = mr_hide,
	.free = mr_free,
};

/**
 * treadle_mr_describe() - what a region is
 * @obj:	the region, published, held
 * @info:	set
 *
 * Context: any.
 */
void treadle_mr_describe(const struct treadle_obj *obj, struct treadle_mr_info *info)
{
	const struct treadle_mr *mr = container_of(obj, struct treadle_mr, obj);
	u32 i;

	*info = (struct treadle_mr_info){
		.pinned = READ_ONCE(mr->charged),
		.count = mr->count,
		.access = mr->access,
		.flags = mr->flags,
		.ep = READ_ONCE(mr->ep),
		.revoked = READ_ONCE(mr->revoked),
	};
	for (i = 0; i < mr->count; i++)
		info->length += mr->parts[i].iov.len;
}

/**
 * treadle_ioc_mr_create() - MR_CREATE: make a region
 * @u: the call, with a struct treadle_mr_create
 *
 * Context: may sleep, for as long as its pages are missing if it is pinned. Takes the mmap_lock.
 * Return: 0, with the region in u->new; or -errno.
 */
int treadle_ioc_mr_create(struct treadle_ucmd *u)
{
	struct treadle_mr_create *arg = u->arg;
	bool dmabuf = arg->flags & TREADLE_MR_DMABUF;
	struct treadle_key *key;
	struct treadle_mr *mr;
	int ret;

	if ((arg->flags & ~FLAGS_ALL) || (arg->access & ~ACCESS_ALL) || !arg->iov_count ||
	    arg->iov_count > TREADLE_MAX_MR_IOV ||
	    ((arg->flags & TREADLE_MR_KERNEL_KEY) && arg->key) ||
	    ((arg->flags & TREADLE_MR_PINNED) && (arg->flags & TREADLE_MR_UNMAPPED)) ||
	    (dmabuf ? arg->iov_count != 1 || arg->fd < 0 ||
			      (arg->flags & (TREADLE_MR_PINNED | TREADLE_MR_UNMAPPED)) ||
			      (arg->base && !(arg->flags & TREADLE_MR_VIRT_ADDR)) :
		      arg->fd || arg->base) ||
	    arg->reserved)
		return -EINVAL;
	mr = kzalloc(struct_size(mr, parts, arg->iov_count), TREADLE_GFP);
	if (!mr)
		return -ENOMEM;
	mr->access = arg->access | TREADLE_ACCESS_RMA;
	if (!dmabuf) /* the processor's are not atomic for a device */
		mr->access |= TREADLE_ACCESS_ATOMIC;
	mr->flags = arg->flags;
	mr->key = arg->key;
	mr->id.owner = u->ctx->owner;
	mr->count = arg->iov_count;
	key = treadle_key_copy(arg->auth_key, arg->auth_key_size);
	if (IS_ERR(key)) {
		kfree(mr);
		return PTR_ERR(key);
	}
	mr->id.key = key;
	ret = dmabuf ? 0 : mr_ranges(mr, u64_to_user_ptr(arg->iov));
	if (!ret)
		ret = treadle_obj_init(u->ctx, &mr->obj, &mr_ops);
	if (ret) {
		treadle_key_free(key);
		kfree(mr);
		return ret;
	}
	if (arg->cntr || arg->ep)
		ret = mr_bind(mr, arg->cntr, arg->ep);
	if (!ret && dmabuf)
		ret = mr_dmabuf(mr, arg);
	if (!ret && (arg->flags & TREADLE_MR_PINNED))
		ret = mr_pin(mr);
	if (!ret)
		ret = mr_key(mr);
	if (ret) {
		treadle_obj_abort(&mr->obj);
		return ret;
	}
	arg->key = mr->key;
	arg->id = mr->obj.id;
	u->new = &mr->obj;
	return 0;
}
