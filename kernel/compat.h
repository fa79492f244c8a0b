/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: differences between kernels, the only place where they show
 *
 * HAVE_* come from probe/: each is a small file that compiles or does not.
 */
#ifndef TREADLE_COMPAT_H
#define TREADLE_COMPAT_H

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

static inline long treadle_gup_remote(struct mm_struct *mm, unsigned long addr, unsigned long n,
				      unsigned int flags, struct page **pages, int *locked)
{
#if HAVE_GUP_REMOTE_VMAS
	return get_user_pages_remote(mm, addr, n, flags, pages, NULL, locked);
#else
	return get_user_pages_remote(mm, addr, n, flags, pages, locked);
#endif
}

/* The 16 bytes of payload, which may be shared with the process. */
static inline const u64 *treadle_uring_words(struct io_uring_cmd *cmd)
{
#if HAVE_IO_URING_CMD_H
	return io_uring_sqe_cmd(cmd->sqe);
#else
	return cmd->cmd;
#endif
}

#endif
