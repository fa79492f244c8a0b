// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: dma-bufs: memory of devices that the processor reaches
 *
 * A buffer is mapped by its exporter (vmap), and copies use that mapping: no page is looked at. It
 * lies in the pagemap of its process at an address that no process can have, so that commands,
 * regions and spans name it as any memory. pm->lock protects the place: a copy finds the buffer
 * there each time, and what ends the buffer takes the lock for writing first.
 *
 * A buffer that its exporter can move is attached, without a DMA mapping: move_notify comes before
 * the move, takes the buffer out of the pagemap, and revokes its region for good. Buffers of other
 * exporters stay where they are.
 *
 * The processor's access begins with the region and ends with it (begin_cpu_access), so the device
 * has to be coherent with the processor's caches. Fences are waited for once, at the beginning.
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/file.h>
#include <linux/module.h>

#include "mm/base.h"
#include "mm/compat.h"
#include "mm/dmabuf.h"

#if IS_ENABLED(CONFIG_DMA_SHARED_BUFFER)

#if HAVE_IMPORT_NS_BARE
MODULE_IMPORT_NS(DMA_BUF);
#else
MODULE_IMPORT_NS("DMA_BUF");
#endif

/*
 * struct treadle_buffer - a dma-buf that is mapped
 * @range:	its addresses in the pagemap, if @shown (under pm->lock)
 * @shown:	it is in pm->buffers (under pm->lock)
 * @moved:	the exporter has moved it, or is about to (under pm->lock)
 * @write:	it may be written (constant)
 * @revoked:	set when it moves (under pm->lock)
 * @at:		kernel address of the first byte of @range
 * @pm:		pagemap, held
 * @dmabuf:	held
 * @attach:	tells of moves; NULL: the exporter never moves it
 * @map:	the exporter's mapping of all of it
 */
struct treadle_buffer {
	struct interval_tree_node range;
	bool shown, moved, write;
	bool *revoked;
	void *at;
	struct treadle_pm *pm;
	struct dma_buf *dmabuf;
	struct dma_buf_attachment *attach;
	struct iosys_map map;
};

/* Stands for the importer. No DMA is mapped for it. */
static struct device *importer;

/**
 * treadle_buffers_init() - at module load: name the importer
 * @dev: lives as long as the module
 *
 * Context: before any buffer is opened.
 */
void treadle_buffers_init(struct device *dev)
{
	importer = dev;
}

/* Take the buffer out of the pagemap. */
static void buffer_hide(struct treadle_buffer *b)
{
	lockdep_assert_held_write(&b->pm->lock);
	if (b->shown)
		interval_tree_remove(&b->range, &b->pm->buffers);
	b->shown = false;
}

/* The exporter is about to move the buffer, and holds its reservation. Takes pm->lock. */
static void buffer_moves(struct dma_buf_attachment *attach)
{
	struct treadle_buffer *b = attach->importer_priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	pm_write_lock(b->pm);
	buffer_hide(b);
	b->moved = true;
	WRITE_ONCE(*b->revoked, true);
	pm_write_unlock(b->pm);
}

static const struct dma_buf_attach_ops attach_ops = {
	.move_notify = buffer_moves,
};

/* What the processor does with the buffer. */
static enum dma_data_direction buffer_access(const struct treadle_buffer *b)
{
	return b->write ? DMA_BIDIRECTIONAL : DMA_FROM_DEVICE;
}

/*
 * Map the buffer. 0; -EOPNOTSUPP: the exporter can't, or the processor does not reach its memory;
 * or an error of the exporter. treadle_buffer_close() has to follow in any case.
 */
static int buffer_map(struct treadle_buffer *b)
{
	int ret;

	if (!b->dmabuf->ops->vmap)
		return -EOPNOTSUPP;
	if (dma_buf_is_dynamic(b->dmabuf)) {
		struct dma_buf_attachment *attach =
			dma_buf_dynamic_attach(b->dmabuf, importer, &attach_ops, b);

		if (IS_ERR(attach))
			return PTR_ERR(attach);
		b->attach = attach;
	}
	ret = dma_buf_begin_cpu_access(b->dmabuf, buffer_access(b));
	if (ret)
		return ret;
	ret = treadle_dma_buf_vmap(b->dmabuf, &b->map);
	if (!ret && !b->map.is_iomem)
		return 0;
	if (!ret)
		treadle_dma_buf_vunmap(b->dmabuf, &b->map);
	iosys_map_clear(&b->map);
	dma_buf_end_cpu_access(b->dmabuf, buffer_access(b));
	return ret ?: -EOPNOTSUPP;
}

/**
 * treadle_buffer_open() - map a dma-buf of the caller
 * @pm:		pagemap of the caller
 * @fd:		its file descriptor
 * @write:	it will be written
 * @revoked:	set under pm->lock if the exporter moves the buffer; valid until
 *		treadle_buffer_close()
 *
 * Context: process context of the caller; sleeps. Takes the buffer's reservation.
 * Return: the buffer, for treadle_buffer_close(); or -EBADF: no such file; -EINVAL: it is no
 * dma-buf; -EACCES: it is not open for that; -ENOMEM; -EOPNOTSUPP: the processor does not reach
 * its memory; or an error of the exporter.
 */
struct treadle_buffer *treadle_buffer_open(struct treadle_pm *pm, int fd, bool write, bool *revoked)
{
	fmode_t mode = FMODE_READ | (write ? FMODE_WRITE : 0);
	struct treadle_buffer *b;
	int ret;

	b = kzalloc(sizeof(*b), TREADLE_GFP);
	if (!b)
		return ERR_PTR(-ENOMEM);
	b->pm = pm;
	b->revoked = revoked;
	b->dmabuf = dma_buf_get(fd);
	if (IS_ERR(b->dmabuf)) {
		ret = PTR_ERR(b->dmabuf);
		kfree(b);
		return ERR_PTR(ret);
	}
	kref_get(&pm->ref);
	b->write = b->dmabuf->file->f_mode & FMODE_WRITE;
	ret = (b->dmabuf->file->f_mode & mode) == mode ? buffer_map(b) : -EACCES;
	if (!ret)
		return b;
	treadle_buffer_close(b);
	return ERR_PTR(ret);
}

/**
 * treadle_buffer_show() - give a range of a buffer its address in the pagemap, once
 * @b:		the buffer
 * @offset:	where the range begins in the buffer
 * @len:	its bytes
 * @addr:	the address
 *
 * Context: takes pm->lock; does not sleep.
 * Return: 0, -EINVAL: it is not in the buffer; -EBUSY: the exporter has moved the buffer
 * meanwhile; -ENOSPC: no address is left.
 */
int treadle_buffer_show(struct treadle_buffer *b, u64 offset, u64 len, u64 *addr)
{
	struct treadle_pm *pm = b->pm;
	u64 space;
	int ret = 0;

	if (!len || offset > b->dmabuf->size || len > b->dmabuf->size - offset)
		return -EINVAL;
	b->at = b->map.vaddr + offset;
	/* behind each one a page stays free */
	space = PAGE_ALIGN(offset_in_page(b->at) + len) + PAGE_SIZE;
	pm_write_lock(pm);
	if (b->moved) {
		ret = -EBUSY;
	} else if (space > TREADLE_BUFFERS_END - TREADLE_BUFFERS - pm->buffers_used) {
		ret = -ENOSPC;
	} else {
		b->range.start = TREADLE_BUFFERS + pm->buffers_used + offset_in_page(b->at);
		b->range.last = b->range.start + len - 1;
		pm->buffers_used += space;
		interval_tree_insert(&b->range, &pm->buffers);
		b->shown = true;
		*addr = b->range.start;
	}
	pm_write_unlock(pm);
	return ret;
}

/**
 * treadle_buffer_close() - unmap a buffer
 * @b:	the buffer; NULL: nothing. Copies have ended when this returns
 *
 * Context: sleeps. Takes pm->lock and the buffer's reservation.
 */
void treadle_buffer_close(struct treadle_buffer *b)
{
	if (!b)
		return;
	pm_write_lock(b->pm);
	buffer_hide(b);
	pm_write_unlock(b->pm);
	if (!iosys_map_is_null(&b->map)) {
		treadle_dma_buf_vunmap(b->dmabuf, &b->map);
		dma_buf_end_cpu_access(b->dmabuf, buffer_access(b));
	}
	if (b->attach) /* waits for buffer_moves() */
		dma_buf_detach(b->dmabuf, b->attach);
	dma_buf_put(b->dmabuf);
	treadle_pm_put(b->pm);
	kfree(b);
}

/**
 * treadle_buffer_size() - the memory that a buffer keeps
 * @b:	the buffer
 *
 * Context: any.
 * Return: bytes.
 */
u64 treadle_buffer_size(const struct treadle_buffer *b)
{
	return b->dmabuf->size;
}

/**
 * treadle_buffer_at() - where the processor reaches a byte of a buffer
 * @pm:		the pagemap
 * @addr:	address there, from TREADLE_BUFFERS on
 * @write:	it will be written
 * @len:	in: bytes that are needed; out: of these, how many lie together
 *
 * Context: pm->lock held, until the bytes are not used any more.
 * Return: the kernel address; NULL: there is no buffer, or it may not be written.
 */
void *treadle_buffer_at(struct treadle_pm *pm, u64 addr, bool write, u64 *len)
{
	struct interval_tree_node *n;
	struct treadle_buffer *b;

	lockdep_assert_held(&pm->lock);
	n = interval_tree_iter_first(&pm->buffers, addr, addr);
	if (!n)
		return NULL;
	b = container_of(n, struct treadle_buffer, range);
	if (write && !b->write)
		return NULL;
	*len = min_t(u64, *len, n->last - addr + 1);
	return b->at + (addr - n->start);
}

#endif
