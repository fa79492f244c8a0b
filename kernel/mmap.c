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

#include "compat.h"
#include "treadle.h"

/*
 * In pages an offset is an id, of 31 bits, and above it the region: 32 bits, which is what a
 * 32-bit process can say if they are of 4 KiB. With larger ones it cannot map
 * what is read-only.
 */
#define REGION_SHIFT 31

/* The two addresses of a page have nothing in common: a cache of data that tells them apart would break rings. */
static_assert(SHMLBA == PAGE_SIZE, "data caches alias here");

int treadle_area_alloc(struct treadle_area *area, size_t bytes)
{
	unsigned int i, n = DIV_ROUND_UP(bytes, PAGE_SIZE);

	area->pages = treadle_table_alloc(n, sizeof(*area->pages), TREADLE_GFP);
	if (!area->pages)
		return -ENOMEM;
	for (i = 0; i < n; i++) {
		area->pages[i] = alloc_page(TREADLE_GFP | __GFP_ZERO);
		if (!area->pages[i])
			goto fail;
		area->count++;
		if (fatal_signal_pending(current))
			goto fail;
		cond_resched();
	}
	area->addr = vmap(area->pages, n, VM_MAP, PAGE_KERNEL);
	if (area->addr)
		return 0;
fail:
	treadle_area_free(area);
	return -ENOMEM;
}

void treadle_area_free(struct treadle_area *area)
{
	unsigned int i;

	if (area->addr)
		vunmap(area->addr);
	for (i = 0; i < area->count; i++) {
		put_page(area->pages[i]);
		cond_resched();
	}
	kvfree(area->pages);
	memset(area, 0, sizeof(*area));
}

void treadle_map_cookie(struct treadle_obj *obj, const struct treadle_area *area,
			enum treadle_region region, struct treadle_map *map)
{
	map->offset = ((u64)region << REGION_SHIFT | obj->id) << PAGE_SHIFT;
	map->length = (u64)area->count << PAGE_SHIFT;
}

static const struct treadle_area *obj_area(struct treadle_obj *obj, unsigned long region)
{
	struct treadle_ring *ring;
	struct treadle_cq *cq;

	if (region != TREADLE_RW && region != TREADLE_RO)
		return NULL;
	switch (obj->type) {
	case TREADLE_CQ:
		cq = container_of(obj, struct treadle_cq, obj);
		return region == TREADLE_RO ? &cq->ro : &cq->rw;
	case TREADLE_CNTR:
		if (region == TREADLE_RW)
			return NULL;
		return &container_of(obj, struct treadle_cntr, obj)->ro;
	case TREADLE_TX:
		ring = &container_of(obj, struct treadle_tx, obj)->ring;
		return region == TREADLE_RO ? &ring->ro : &ring->rw;
	case TREADLE_RX:
		ring = &container_of(obj, struct treadle_rx, obj)->ring;
		return region == TREADLE_RO ? &ring->ro : &ring->rw;
	case TREADLE_CELL:
		return treadle_cell_area(obj, region);
	default:
		return NULL;
	}
}

/*
 * An object that has pages, held. Whoever maps has the mmap_lock: if he is the last to let go, only
 * what can be freed under that may be in his hands.
 */
static struct treadle_obj *mappable(struct treadle_ctx *ctx, u32 id)
{
	const u32 types = BIT(TREADLE_CQ) | BIT(TREADLE_CNTR) | BIT(TREADLE_TX) | BIT(TREADLE_RX) |
			  BIT(TREADLE_CELL);
	struct treadle_obj *obj;

	rcu_read_lock();
	obj = xa_load(&ctx->objs, id);
	if (!obj)
		obj = ERR_PTR(-ENOENT);
	else if (!(types & BIT(obj->type)))
		obj = ERR_PTR(-EINVAL);
	else if (!kref_get_unless_zero(&obj->ref))
		obj = ERR_PTR(-ENOENT);
	rcu_read_unlock();
	return obj;
}

int treadle_mmap(struct treadle_ctx *ctx, struct vm_area_struct *vma)
{
	unsigned long region = vma->vm_pgoff >> REGION_SHIFT;
	bool foreign = current->mm != ctx->mm;
	const struct treadle_area *area;
	struct treadle_obj *obj;
	unsigned long n;
	int ret = -EPERM;

	obj = mappable(ctx, vma->vm_pgoff & (BIT(REGION_SHIFT) - 1));
	if (IS_ERR(obj))
		return foreign ? -EPERM : PTR_ERR(obj);
	if (foreign && obj->type != TREADLE_CELL)
		goto out;
	ret = -EINVAL;
	area = obj_area(obj, region);
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
