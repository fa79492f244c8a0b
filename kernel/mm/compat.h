/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: differences between kernels; no other file depends on them
 *
 * HAVE_* come from probe/: each is a small file that compiles or does not.
 */
#ifndef TREADLE_COMPAT_H
#define TREADLE_COMPAT_H

#include <linux/dma-buf.h>
#include <linux/hrtimer.h>
#include <linux/hugetlb_inline.h>
#include <linux/mm.h>
#if HAVE_IO_URING_CMD_H
#include <linux/io_uring/cmd.h>
#else
#include <linux/io_uring.h>
#endif

#if !HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags &= ~flags;
}
#endif

struct device;

/* The device argument of class.devnode. */
#if HAVE_CLASS_DEVNODE_CONST
typedef const struct device treadle_devnode_device;
#else
typedef struct device treadle_devnode_device;
#endif

/* get_user_pages_remote() of 6.5. @mm's mmap_lock is held for reading. */
static inline long treadle_gup_remote(struct mm_struct *mm, unsigned long addr, unsigned long n,
				      unsigned int flags, struct page **pages, int *locked)
{
#if HAVE_GUP_REMOTE_VMAS
	return get_user_pages_remote(mm, addr, n, flags, pages, NULL, locked);
#else
	return get_user_pages_remote(mm, addr, n, flags, pages, locked);
#endif
}

/* Pin pages of the caller. Takes the mmap_lock, and looks at no page without it. May sleep. */
static inline long treadle_pin_pages(unsigned long addr, unsigned long n, unsigned int flags,
				     struct page **pages)
{
#if HAVE_GUP_REMOTE_VMAS
	struct mm_struct *mm = current->mm;
	long got;

	if (mmap_read_lock_killable(mm))
		return -EINTR;
	got = pin_user_pages(addr, n, flags, pages, NULL);
	mmap_read_unlock(mm);
	return got;
#else
	return pin_user_pages_unlocked(addr, n, pages, flags);
#endif
}

/*
 * Does treadle_gup_remote() fault in spite of FOLL_NOFAULT? It does so in hugetlbfs, in kernels
 * that return VMAs on request. Then a sender would pay for a huge page of the receiver.
 */
static inline bool treadle_gup_faults(struct mm_struct *mm, unsigned long addr, unsigned long n)
{
#if HAVE_GUP_REMOTE_VMAS
	unsigned long end = addr + (n << PAGE_SHIFT);
	struct vm_area_struct *vma = find_vma(mm, addr); /* asserts the mmap_lock */

	for (; vma && vma->vm_start < end; vma = find_vma(mm, vma->vm_end))
		if (is_vm_hugetlb_page(vma))
			return true;
#endif
	return false;
}

/* The 16 bytes of payload. The process may change them at any time: read each word once. */
static inline const u64 *treadle_uring_words(struct io_uring_cmd *cmd)
{
#if HAVE_IO_URING_SQE_CMD
	return (const u64 *)cmd->sqe->cmd;
#else
	return cmd->cmd;
#endif
}

/* Complete @cmd with the result @ret. */
static inline void treadle_uring_done(struct io_uring_cmd *cmd, long ret, unsigned int issue_flags)
{
#if HAVE_IO_URING_CMD_DONE_RES2
	io_uring_cmd_done(cmd, ret, 0, issue_flags);
#else
	io_uring_cmd_done(cmd, ret, issue_flags);
#endif
}

/* Initialize a timer of CLOCK_MONOTONIC; @mode: HRTIMER_MODE_REL or HRTIMER_MODE_REL_HARD. */
static inline void treadle_timer_setup(struct hrtimer *timer,
				       enum hrtimer_restart (*function)(struct hrtimer *timer),
				       enum hrtimer_mode mode)
{
#if HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, mode);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, mode);
	timer->function = function;
#endif
}

/* Map all of a dma-buf, and undo it. They take its reservation, or the exporter does. */
static inline int treadle_dma_buf_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
#if HAVE_DMA_BUF_VMAP_UNLOCKED
	return dma_buf_vmap_unlocked(dmabuf, map);
#else
	return dma_buf_vmap(dmabuf, map);
#endif
}

static inline void treadle_dma_buf_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
#if HAVE_DMA_BUF_VMAP_UNLOCKED
	dma_buf_vunmap_unlocked(dmabuf, map);
#else
	dma_buf_vunmap(dmabuf, map);
#endif
}

/* cmpxchg() takes words of 1 and 2 bytes. */
#define TREADLE_CMPXCHG_SMALL HAVE_CMPXCHG_SMALL

#endif
