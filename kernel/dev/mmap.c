// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: pages that kernel and process share
 *
 * The map holds its own reference to each page (vm_insert_pages), so that object
 * and map may go in either order. The offset names object and region, and ids
 * are not used again, so a stale offset maps nothing.
 *
 * Only the context's process maps its objects, except cells: a child inherits the maps of
 * cells, and a process that was passed the file may map cells.
 */
#include <linux/mm.h>
#include <linux/shm.h>
#include <linux/vmalloc.h>

#include "dev/dev.h"
#include "mm/compat.h"
#include "path/window.h"

/* A page's addresses in kernel and process are unrelated: an aliasing data cache breaks rings. */
static_assert(SHMLBA == PAGE_SIZE, "data caches alias here");

/*
 * Find an object that has pages, and hold it. Returns it, -ENOENT or -EINVAL: it has no pages.
 *
 * The caller holds the mmap_lock, and its reference may turn out to be the last. An object with
 * pages can be freed under that lock; others cannot, so they are refused without being held.
 */
static struct treadle_obj *mappable(struct treadle_ctx *ctx, u32 id)
{
	struct treadle_obj *obj;

	rcu_read_lock();
	obj = xa_load(&ctx->objs, id);
	if (!obj)
		obj = ERR_PTR(-ENOENT);
	else if (!obj->ops->area)
		obj = ERR_PTR(-EINVAL);
	else if (!kref_get_unless_zero(&obj->ref))
		obj = ERR_PTR(-ENOENT);
	rcu_read_unlock();
	return obj;
}

/* --- windows: their pages come by page faults ------------------------------------------------ */

static struct treadle_win *window_of_vma(struct vm_area_struct *vma)
{
	return vma->vm_private_data;
}

/* The map was split or moved. */
static void window_vma_open(struct vm_area_struct *vma)
{
	kref_get(&window_of_vma(vma)->obj.ref);
}

static void window_vma_close(struct vm_area_struct *vma)
{
	treadle_obj_put(&window_of_vma(vma)->obj);
}

static vm_fault_t window_fault(struct vm_fault *vmf)
{
	struct treadle_win *win = window_of_vma(vmf->vma);

	return treadle_pm_window_fault(&win->w, vmf, win->obj.ctx->scratch);
}

static const struct vm_operations_struct window_vm_ops = {
	.open = window_vma_open,
	.close = window_vma_close,
	.fault = window_fault,
};

/* Map a window, as a whole. The errors are those of treadle_mmap(). */
static int window_mmap(struct treadle_ctx *ctx, struct vm_area_struct *vma)
{
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	struct treadle_win *win;
	struct treadle_obj *obj;
	int ret = -EINVAL;

	if (current->mm != ctx->mm)
		return -EPERM;
	obj = mappable(ctx, (offset - TREADLE_WINDOW_OFFSET) >> TREADLE_WINDOW_BITS);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (obj->type != TREADLE_WINDOW)
		goto out;
	win = container_of(obj, struct treadle_win, obj);
	if (vma->vm_pgoff != win->w.pgoff || !(vma->vm_flags & VM_SHARED) ||
	    vma_pages(vma) != win->w.count)
		goto out;
	ret = -EACCES;
	if ((vma->vm_flags & VM_EXEC) || (!win->w.write && (vma->vm_flags & VM_WRITE)))
		goto out;
	vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	vm_flags_clear(vma, VM_MAYEXEC | (win->w.write ? 0 : VM_MAYWRITE));
	vma->vm_private_data = win; /* holds it */
	vma->vm_ops = &window_vm_ops;
	return 0;
out:
	treadle_obj_put(obj);
	return ret;
}

/**
 * treadle_mmap() - mmap(2): map the pages of an object
 * @ctx:	the context of the file
 * @vma:	its offset names object and region; its length must match exactly
 *
 * Context: may sleep. The caller holds the mmap_lock for writing.
 * Return: 0, -ENOENT, -EINVAL: no such map, -EACCES: more rights than the map has, -EPERM: another
 * process than the context's, and no cell; or what vm_insert_pages() returns.
 */
int treadle_mmap(struct treadle_ctx *ctx, struct vm_area_struct *vma)
{
	unsigned long region = vma->vm_pgoff >> TREADLE_REGION_SHIFT;
	bool foreign = current->mm != ctx->mm;
	const struct treadle_area *area;
	struct treadle_obj *obj;
	unsigned long n;
	int ret = -EPERM;

	if (vma->vm_pgoff >= TREADLE_WINDOW_OFFSET >> PAGE_SHIFT)
		return window_mmap(ctx, vma);
	obj = mappable(ctx, vma->vm_pgoff & (BIT(TREADLE_REGION_SHIFT) - 1));
	if (IS_ERR(obj))
		return foreign ? -EPERM : PTR_ERR(obj);
	if (foreign && obj->type != TREADLE_CELL)
		goto out;
	ret = -EINVAL;
	area = region <= TREADLE_RO ? obj->ops->area(obj, region) : NULL;
	if (!area || !(vma->vm_flags & VM_SHARED) ||
	    vma->vm_end - vma->vm_start != (unsigned long)area->count << PAGE_SHIFT)
		goto out;
	ret = -EACCES;
	if ((vma->vm_flags & VM_EXEC) || (region == TREADLE_RO && (vma->vm_flags & VM_WRITE)))
		goto out;
	vm_flags_set(vma, VM_DONTEXPAND | (obj->type == TREADLE_CELL ? 0 : VM_DONTCOPY));
	vm_flags_clear(vma, VM_MAYEXEC | (region == TREADLE_RO ? VM_MAYWRITE : 0));
	n = area->count;
	ret = vm_insert_pages(vma, vma->vm_start, area->pages, &n);
out:
	treadle_obj_put(obj);
	return ret;
}
