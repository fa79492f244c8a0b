/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: dma-bufs: memory of devices that the processor reaches (dmabuf.c) */
#ifndef TREADLE_DMABUF_H
#define TREADLE_DMABUF_H

#include "mm/pagemap.h"

/*
 * A pagemap knows dma-bufs at addresses from here on. No process ever has memory there: bit 55 is
 * set, too, as arm64 ignores the bits above it. An address is not used again.
 */
#define TREADLE_BUFFERS	    0xff80000000000000ULL
#define TREADLE_BUFFERS_END 0xffc0000000000000ULL

struct device;
struct treadle_buffer;

#if IS_ENABLED(CONFIG_DMA_SHARED_BUFFER)
void treadle_buffers_init(struct device *dev);
struct treadle_buffer *treadle_buffer_open(struct treadle_pm *pm, int fd, bool write,
					   bool *revoked);
int treadle_buffer_show(struct treadle_buffer *b, u64 offset, u64 len, u64 *addr);
void treadle_buffer_close(struct treadle_buffer *b);
u64 treadle_buffer_size(const struct treadle_buffer *b);
void *treadle_buffer_at(struct treadle_pm *pm, u64 addr, bool write, u64 *len)
	__must_hold(&pm->lock);
#else
static inline void treadle_buffers_init(struct device *dev) {}
static inline struct treadle_buffer *treadle_buffer_open(struct treadle_pm *pm, int fd, bool write,
							 bool *revoked)
{
	return ERR_PTR(-EOPNOTSUPP);
}
static inline int treadle_buffer_show(struct treadle_buffer *b, u64 offset, u64 len, u64 *addr)
{
	return -EOPNOTSUPP;
}
static inline void treadle_buffer_close(struct treadle_buffer *b) {}
static inline u64 treadle_buffer_size(const struct treadle_buffer *b)
{
	return 0;
}
static inline void *treadle_buffer_at(struct treadle_pm *pm, u64 addr, bool write, u64 *len)
{
	return NULL;
}
#endif

#endif
