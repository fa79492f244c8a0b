// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: pages that kernel and process share
 *
 * The map holds its own reference to each page (vm_insert_pages), so that object
 * and map may go in either order. The offset names object and region, and ids
 * are not used again, so a stale offset maps nothing.
 *
 * Cells are for whoever gets hold of them: a child inherits their maps, and who was
 * passed the file may map them, and nothing else.
 */
#include <linux/mm.h>
#include <linux/shm.h>
#include <linux/vmalloc.h>

#include "dev/dev.h"
#include "mm/compat.h"

/* The two addresses of a page have nothing in common: a cache of data that tells them apart would break rings. */
static_assert(SHMLBA == PAGE_SIZE, "data caches alias here");

/*
 * An object that has pages, held. Whoever maps has the mmap_lock: if he is the last to let go, only
 * what can be freed under that may be in his hands.
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

int treadle_mmap(struct treadle_ctx *ctx, struct vm_area_struct *vma)
{
	unsigned long region = vma->vm_pgoff >> TREADLE_REGION_SHIFT;
	bool foreign = current->mm != ctx->mm;
	const struct treadle_area *area;
	struct treadle_obj *obj;
	unsigned long n;
	int ret = -EPERM;

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
