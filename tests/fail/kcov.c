// SPDX-License-Identifier: GPL-2.0
/*
 * For tests only: coverage of the module on kernels without KCOV. The compiler puts a call at the
 * start of each block (Kbuild). The interface is that of dev-tools/kcov.rst, at the same place,
 * /sys/kernel/debug/kcov, with two differences. One process at a time is traced, with all its
 * threads, until another one is. Code of workers is reported as well, with the highest bit clear.
 */
#include <linux/debugfs.h>
#include <linux/kcov.h>
#include <linux/module.h>
#include <linux/vmalloc.h>

#if IS_ENABLED(CONFIG_KCOV)
void treadle_kcov_begin(void) {}
void treadle_kcov_end(void) {}
#else

/*
 * The area exists before a process is traced, and as long as the module: code of the module may be
 * about to write to it.
 */
static struct dentry *file;
static pid_t traced;
static atomic_long_t *area; /* the first word is the number of entries that follow */
static unsigned long words;

void __sanitizer_cov_trace_pc(void);
void notrace __sanitizer_cov_trace_pc(void)
{
	pid_t tgid = smp_load_acquire(&traced); /* pairs with KCOV_ENABLE */
	bool worker = current->flags & PF_WQ_WORKER;
	unsigned long n;

	if (!tgid || !in_task() || (current->tgid != tgid && !worker) ||
	    atomic_long_read(area) >= words - 1)
		return;
	n = atomic_long_inc_return(area);
	if (n < words)
		atomic_long_set(&area[n], worker ? _RET_IP_ & LONG_MAX : _RET_IP_);
}

static int init_trace(unsigned long n)
{
	if (area)
		return -EBUSY;
	if (n < 2 || n > INT_MAX / sizeof(*area))
		return -EINVAL;
	area = vmalloc_user(n * sizeof(*area));
	if (!area)
		return -ENOMEM;
	words = n;
	return 0;
}

static long kcov_ioctl(struct file *f, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case KCOV_INIT_TRACE:
		return init_trace(arg);
	case KCOV_ENABLE:
		if (!area || arg != KCOV_TRACE_PC)
			return -EINVAL;
		smp_store_release(&traced, current->tgid);
		return 0;
	case KCOV_DISABLE:
		WRITE_ONCE(traced, 0);
		return 0;
	}
	return -ENOTTY;
}

static int kcov_mmap(struct file *f, struct vm_area_struct *vma)
{
	return area ? remap_vmalloc_range(vma, area, vma->vm_pgoff) : -EINVAL;
}

static const struct file_operations kcov_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = kcov_ioctl,
	.mmap = kcov_mmap,
};

/* Both are called for each table of namespaces, of which the module has several. */
void treadle_kcov_begin(void)
{
	if (file)
		return;
	/*
	 * debugfs does not guard mmap against removal, but the module stays while the file is open
	 * or mapped.
	 */
	file = debugfs_create_file_unsafe("kcov", 0600, NULL, NULL, &kcov_fops);
}

void treadle_kcov_end(void)
{
	debugfs_remove(file);
	file = NULL;
	WRITE_ONCE(traced, 0); /* workers have ended before */
	vfree(area);
	area = NULL;
}
#endif
