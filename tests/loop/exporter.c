// SPDX-License-Identifier: GPL-2.0
/*
 * treadle_loop: dma-bufs for tests, by ioctl(2) of a device of its own: see exporter.h
 */
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "exporter.h"
#include "loop.h"

#if HAVE_IMPORT_NS_BARE
MODULE_IMPORT_NS(DMA_BUF);
#else
MODULE_IMPORT_NS("DMA_BUF");
#endif

static int no_attach(struct dma_buf *buf, struct dma_buf_attachment *attach)
{
	return -ENODEV;
}

static int give_pin(struct dma_buf_attachment *attach)
{
	return 0;
}

static void give_unpin(struct dma_buf_attachment *attach) {}

/* Importers of this memory map no DMA. */
static struct sg_table *no_map(struct dma_buf_attachment *attach, enum dma_data_direction dir)
{
	return ERR_PTR(-ENODEV);
}

static void no_unmap(struct dma_buf_attachment *attach, struct sg_table *sg,
		     enum dma_data_direction dir)
{
}

static void give_back(struct dma_buf *buf)
{
	vfree(buf->priv);
}

static int give_mmap(struct dma_buf *buf, struct vm_area_struct *vma)
{
	return remap_vmalloc_range(vma, buf->priv, vma->vm_pgoff);
}

static int give_vmap(struct dma_buf *buf, struct iosys_map *map)
{
	iosys_map_set_vaddr(map, buf->priv);
	return 0;
}

static int give_io(struct dma_buf *buf, struct iosys_map *map)
{
	iosys_map_set_vaddr_iomem(map, (void __iomem *)buf->priv);
	return 0;
}

static void no_vunmap(struct dma_buf *buf, struct iosys_map *map) {}

#define OPS \
	.map_dma_buf = no_map, .unmap_dma_buf = no_unmap, .release = give_back, .mmap = give_mmap
static const struct dma_buf_ops kinds[] = {
	[EXPORT_STAYS] = {OPS, .attach = no_attach, .vmap = give_vmap, .vunmap = no_vunmap},
	[EXPORT_MOVES] = {OPS, .pin = give_pin, .unpin = give_unpin, .vmap = give_vmap,
			  .vunmap = no_vunmap},
	[EXPORT_IO] = {OPS, .vmap = give_io, .vunmap = no_vunmap},
	[EXPORT_UNREACHED] = {OPS},
};

/* Returns a file descriptor of a new buffer. */
static int export(const struct export_new *new)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *buf;
	int fd;

	if (new->kind >= ARRAY_SIZE(kinds) || !new->bytes || new->bytes > EXPORT_MOST)
		return -EINVAL;
	info.ops = &kinds[new->kind];
	info.size = PAGE_ALIGN(new->bytes);
	info.flags = new->readonly ? O_RDONLY : O_RDWR;
	info.priv = vmalloc_user(info.size);
	if (!info.priv)
		return -ENOMEM;
	buf = dma_buf_export(&info);
	if (IS_ERR(buf)) {
		vfree(info.priv);
		return PTR_ERR(buf);
	}
	fd = dma_buf_fd(buf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(buf);
	return fd;
}

/* Says that the buffer is about to move, and overwrites the place that it leaves. */
static int move(int fd)
{
	struct dma_buf *buf = dma_buf_get(fd);
	int ret;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	ret = buf->ops == &kinds[EXPORT_MOVES] ? 0 : -EINVAL;
	if (!ret) {
		dma_resv_lock(buf->resv, NULL);
		dma_buf_move_notify(buf);
		memset(buf->priv, 0xee, buf->size);
		dma_resv_unlock(buf->resv);
	}
	dma_buf_put(buf);
	return ret;
}

static long exporter_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct export_new new;

	switch (cmd) {
	case EXPORT_NEW:
		if (copy_from_user(&new, (void __user *)arg, sizeof(new)))
			return -EFAULT;
		return export(&new);
	case EXPORT_MOVE:
		return move(arg);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations exporter_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = exporter_ioctl,
};

static struct miscdevice exporter = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "treadle_exporter",
	.fops = &exporter_fops,
	.mode = 0666,
};

int loop_exporter_init(void)
{
	return misc_register(&exporter);
}

void loop_exporter_exit(void)
{
	misc_deregister(&exporter);
}
