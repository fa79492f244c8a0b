// SPDX-License-Identifier: GPL-2.0
/* Since 6.2 dma_buf_vmap() wants the reservation lock, and dma_buf_vmap_unlocked() takes it. */
#include <linux/dma-buf.h>
int probe(struct dma_buf *dmabuf, struct iosys_map *map);
int probe(struct dma_buf *dmabuf, struct iosys_map *map)
{
	return dma_buf_vmap_unlocked(dmabuf, map);
}
