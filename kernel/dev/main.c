// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: module, device, ioctl table
 */
#include <linux/cdev.h>
#include <linux/compat.h>
#include <linux/device.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <treadle/layout.h>
#include <treadle/version.h>

#include "core/limits.h"
#include "dev/dev.h"
#include "ep/connect.h"
#include "mm/compat.h"
#include "mm/dmabuf.h"
#include "node/node.h"
#include "path/lane.h"
#include "path/window.h"

/**
 * treadle_features() - what the module can do in a network namespace
 * @net:	the namespace
 * @node:	set to the address at which other nodes reach it; zero: at none
 *
 * Context: any.
 * Return: TREADLE_FEATURE_*
 */
u64 treadle_features(struct net *net, struct treadle_addr *node)
{
	u64 features =
		TREADLE_FEATURE_TRIGGER | TREADLE_FEATURE_MR_PINNED | TREADLE_FEATURE_AUTH_KEY |
		TREADLE_FEATURE_MSG_EP | TREADLE_FEATURE_DGRAM_EP | TREADLE_FEATURE_SHARED_AV |
		TREADLE_FEATURE_SCALABLE | TREADLE_FEATURE_MR_IOV | TREADLE_FEATURE_AV_IDS |
		TREADLE_FEATURE_CELL | TREADLE_FEATURE_CNTR_BYTES | TREADLE_FEATURE_AV_SET_ID |
		TREADLE_FEATURE_TX_POLLED | TREADLE_FEATURE_CNTR_CELL;

	if (IS_ENABLED(CONFIG_DMA_SHARED_BUFFER))
		features |= TREADLE_FEATURE_MR_DMABUF;
	if (READ_ONCE(treadle_direct))
		features |= TREADLE_FEATURE_WINDOW | TREADLE_FEATURE_LANE;
	if (treadle_has_fp)
		features |= TREADLE_FEATURE_ATOMIC_FP;
	memset(node, 0, sizeof(*node));
	if (treadle_node_address(net, node)) {
		features |= TREADLE_FEATURE_REMOTE;
		node->port = 0; /* the transport's */
	}
	return features;
}

static int ioc_query(struct treadle_ucmd *u)
{
	struct treadle_query *q = u->arg;

	*q = (struct treadle_query){
		.size = q->size,
		.abi_version = TREADLE_ABI_VERSION,
		.opcodes = treadle_opcodes(),
		.desc_flags = treadle_op_flags(),
		.max_msg_size = TREADLE_MAX_MSG,
		.inject_size = TREADLE_EAGER,
		.max_objects = treadle_max_objects,
		.max_ring = treadle_max_ring,
		.max_cq = treadle_max_cq,
		.max_av = treadle_max_av,
		.max_armed = treadle_max_armed,
		.max_buffered = treadle_max_buffered,
		.max_auth_key = TREADLE_MAX_AUTH_KEY,
	};
	q->features = treadle_features(u->ctx->net, &q->node);
	return 0;
}

static int ioc_destroy(struct treadle_ucmd *u)
{
	struct treadle_destroy *arg = u->arg;

	return treadle_obj_destroy(u->ctx, arg->id);
}

/*
 * When is the structure written back? SILENT: never, as the call has no output, and a failed write
 * could not undo it. ANSWERS: on success. PARTIAL: also after a failure half-way, to say how far it
 * came.
 */
enum answer { SILENT, ANSWERS, PARTIAL };

/* Room for the structure of any call; the longest ones are enough, as IOC() checks. */
union ioc_arg {
	struct treadle_query query;
	struct treadle_cq_create cq_create;
	struct treadle_cell_create cell_create;
	struct treadle_ring_create ring_create;
	struct treadle_av_lookup av_lookup;
	struct treadle_ep_create ep_create;
	struct treadle_ep_enable ep_enable;
	struct treadle_mr_create mr_create;
	struct treadle_cancel cancel;
	struct treadle_wait wait;
	struct treadle_connect connect;
	struct treadle_accept accept;
	struct treadle_reject reject;
	struct treadle_window_open window_open;
	struct treadle_lane_make lane_make;
};

/*
 * struct ioc - a row of the table
 * @size:	of the structure in this kernel; @min_size: in the first release
 * @answer:	when it is written back
 * @fn:		0, with what it has made in u->new or u->file; or -errno, with neither of them set
 */
struct ioc {
	unsigned int cmd, size, min_size;
	enum answer answer;
	int (*fn)(struct treadle_ucmd *u);
};

#define IOC_SIZE(type) \
	(sizeof(struct type) + BUILD_BUG_ON_ZERO(sizeof(struct type) > sizeof(union ioc_arg)))
#define IOC(name, type, last, answer, fn)                                     \
	[_IOC_NR(TREADLE_IOC_##name)] = { TREADLE_IOC_##name, IOC_SIZE(type), \
					  offsetofend(struct type, last), answer, fn }

/* @last: the last field of the first release, which never changes */
static const struct ioc iocs[] = {
	IOC(QUERY, treadle_query, max_auth_key, ANSWERS, ioc_query),
	IOC(CQ_CREATE, treadle_cq_create, rw, ANSWERS, treadle_ioc_cq_create),
	IOC(CNTR_CREATE, treadle_cntr_create, ro, ANSWERS, treadle_ioc_cntr_create),
	IOC(AV_CREATE, treadle_av_create, id, ANSWERS, treadle_ioc_av_create), /* name came later */
	IOC(AV_INSERT, treadle_av_insert, out, PARTIAL, treadle_ioc_av_insert),
	IOC(AV_REMOVE, treadle_av_remove, indices, SILENT, treadle_ioc_av_remove),
	IOC(AV_LOOKUP, treadle_av_lookup, addr, ANSWERS, treadle_ioc_av_lookup),
	IOC(TX_CREATE, treadle_ring_create, ro, ANSWERS, treadle_ioc_tx_create),
	IOC(RX_CREATE, treadle_ring_create, ro, ANSWERS, treadle_ioc_rx_create),
	IOC(EP_CREATE, treadle_ep_create, request, ANSWERS, treadle_ioc_ep_create),
	IOC(EP_ENABLE, treadle_ep_enable, cntr_remote_write, SILENT, treadle_ioc_ep_enable),
	IOC(MR_CREATE, treadle_mr_create, id, ANSWERS, treadle_ioc_mr_create),
	IOC(DESTROY, treadle_destroy, id, SILENT, ioc_destroy),
	IOC(CANCEL, treadle_cancel, count, ANSWERS, treadle_ioc_cancel),
	IOC(WAIT, treadle_wait, error, SILENT, treadle_ioc_wait),
	IOC(WAIT_FD, treadle_wait_fd, fd, ANSWERS, treadle_ioc_wait_fd),
	IOC(MR_BIND, treadle_mr_bind, reserved, SILENT, treadle_ioc_mr_bind),
	IOC(EQ_CREATE, treadle_eq_create, reserved, ANSWERS, treadle_ioc_eq_create),
	IOC(EP_EQ, treadle_ep_eq, context, SILENT, treadle_ioc_ep_eq),
	IOC(LISTEN, treadle_listen, flags, SILENT, treadle_ioc_listen),
	IOC(CONNECT, treadle_connect, flags, SILENT, treadle_ioc_connect),
	IOC(ACCEPT, treadle_accept, flags, SILENT, treadle_ioc_accept),
	IOC(REJECT, treadle_reject, reserved, SILENT, treadle_ioc_reject),
	IOC(SHUTDOWN, treadle_shutdown, reserved, SILENT, treadle_ioc_shutdown),
	IOC(CELL_CREATE, treadle_cell_create, ro, ANSWERS, treadle_ioc_cell_create),
	IOC(AV_SET_ID, treadle_av_set_id, id, SILENT, treadle_ioc_av_set_id),
	IOC(WINDOW_OPEN, treadle_window_open, reserved, ANSWERS, treadle_ioc_window_open),
	IOC(WINDOW_FILL, treadle_window_fill, len, SILENT, treadle_ioc_window_fill),
	IOC(LANE_MAKE, treadle_lane_make, ro, ANSWERS, treadle_ioc_lane_make),
	IOC(LANE_TAKE, treadle_lane_take, rw, ANSWERS, treadle_ioc_lane_take),
	IOC(LANE_SOURCE, treadle_lane_source, src, ANSWERS, treadle_ioc_lane_source),
	IOC(CNTR_COPY, treadle_cntr_copy, offset, SILENT, treadle_ioc_cntr_copy),
};

/*
 * Serve a call with a structure: copy it in, call its function, write it back. Only then publish
 * the object or file that was created; after any failure, drop it. The caller is of the context's
 * process (treadle_call()). May sleep. Returns 0 or -errno.
 */
static long ioc_table(struct treadle_ctx *ctx, unsigned int cmd, void __user *uarg)
{
	unsigned int nr = _IOC_NR(cmd);
	struct treadle_ucmd u = { .ctx = ctx, .uarg = uarg };
	const struct ioc *ioc;
	union ioc_arg arg;
	u32 size;
	int ret;

	if (_IOC_TYPE(cmd) != TREADLE_IOC_MAGIC || nr >= ARRAY_SIZE(iocs))
		return -ENOTTY;
	ioc = &iocs[array_index_nospec(nr, ARRAY_SIZE(iocs))];
	/* the size within cmd is that of the header which the caller was built with: ignore it */
	if (!ioc->fn || (cmd & ~IOCSIZE_MASK) != (ioc->cmd & ~IOCSIZE_MASK))
		return -ENOTTY;
	if (get_user(size, (u32 __user *)uarg))
		return -EFAULT;
	if (size < ioc->min_size)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	ret = copy_struct_from_user(&arg, ioc->size, uarg, size);
	if (ret)
		return ret;
	u.arg = &arg;
	ret = ioc->fn(&u);
	if (ret && ioc->answer != PARTIAL)
		goto abort;
	if (ioc->answer != SILENT && copy_to_user(uarg, &arg, min(size, ioc->size))) {
		ret = -EFAULT;
		goto abort;
	}
	if (u.new && !ret)
		ret = treadle_obj_publish(u.new);
	if (!ret) {
		if (u.file)
			fd_install(u.fd, u.file);
		return 0;
	}
abort:
	if (u.new)
		treadle_obj_abort(u.new);
	if (u.file) {
		put_unused_fd(u.fd);
		fput(u.file);
	}
	return ret;
}

/**
 * treadle_call() - serve one ioctl, from ioctl(2), lseek(2) or io_uring
 * @ctx:	the context of the file
 * @cmd:	TREADLE_IOC_*
 * @arg:	address of the structure; an id for DOORBELL and SIGNAL
 *
 * Context: may sleep, but for SIGNAL.
 * Return: 0 or more, or -errno (uapi/treadle/ioctl.h). -EPERM: not the context's process.
 */
TREADLE_HOT long treadle_call(struct treadle_ctx *ctx, unsigned int cmd, unsigned long arg)
{
	/* a child, and a process that was passed the file, have another address space */
	if (current->mm != ctx->mm)
		return -EPERM;
	if (cmd == TREADLE_IOC_DOORBELL)
		return arg > U32_MAX ? -EINVAL : treadle_doorbell(ctx, arg);
	if (cmd == TREADLE_IOC_SIGNAL)
		return arg > U32_MAX ? -EINVAL : treadle_signal(ctx, arg);
	return ioc_table(ctx, cmd, (void __user *)arg);
}

TREADLE_HOT static long treadle_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return treadle_call(file->private_data, cmd, arg);
}

#ifdef CONFIG_COMPAT
/* 32-bit callers use the same structures. DOORBELL and SIGNAL take a number, not a pointer. */
static long treadle_compat_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	if (cmd == TREADLE_IOC_DOORBELL || cmd == TREADLE_IOC_SIGNAL)
		return treadle_ioctl(file, cmd, arg);
	return treadle_ioctl(file, cmd, (unsigned long)compat_ptr(arg));
}
#endif

/* lseek(2) is DOORBELL, too: no system call has a shorter way to a driver (design.rst). */
TREADLE_HOT static loff_t treadle_llseek(struct file *file, loff_t id, int whence)
{
	if (whence != SEEK_SET)
		return -ESPIPE;
	if (id != (u32)id)
		return -EINVAL;
	return treadle_call(file->private_data, TREADLE_IOC_DOORBELL, id);
}

static int treadle_file_mmap(struct file *file, struct vm_area_struct *vma)
{
	return treadle_mmap(file->private_data, vma);
}

static const struct file_operations treadle_fops = {
	.owner = THIS_MODULE,
	.open = treadle_open,
	.flush = treadle_flush,
	.release = treadle_release,
	.llseek = treadle_llseek,
	.unlocked_ioctl = treadle_ioctl,
#ifdef CONFIG_COMPAT
	.compat_ioctl = treadle_compat_ioctl,
#endif
	.mmap = treadle_file_mmap,
	.uring_cmd = treadle_uring_cmd,
	.show_fdinfo = treadle_show_fdinfo,
};

static char *treadle_devnode(treadle_devnode_device *dev, umode_t *mode)
{
	if (mode)
		*mode = 0666;
	return NULL;
}

/*
 * Not a miscellaneous device: those are opened under one lock for all of them. The open of this one
 * waits for the mmap_lock, which a page fault may hold for long (userfaultfd, FUSE).
 */
static dev_t treadle_number;
static struct cdev treadle_cdev;
static struct class treadle_class = { .name = "treadle", .devnode = treadle_devnode };

static int treadle_device_init(void)
{
	struct device *dev;
	int ret = class_register(&treadle_class);

	if (ret)
		return ret;
	ret = alloc_chrdev_region(&treadle_number, 0, 1, "treadle");
	if (ret)
		goto fail_class;
	dev = device_create(&treadle_class, NULL, treadle_number, NULL, "treadle");
	ret = PTR_ERR_OR_ZERO(dev);
	if (ret)
		goto fail_number;
	treadle_buffers_init(dev);
	/* last: once the device can be opened, nothing may fail any more */
	cdev_init(&treadle_cdev, &treadle_fops);
	treadle_cdev.owner = THIS_MODULE;
	ret = cdev_add(&treadle_cdev, treadle_number, 1);
	if (!ret)
		return 0;
	device_destroy(&treadle_class, treadle_number);
fail_number:
	unregister_chrdev_region(treadle_number, 1);
fail_class:
	class_unregister(&treadle_class);
	return ret;
}

static void treadle_device_exit(void)
{
	cdev_del(&treadle_cdev);
	device_destroy(&treadle_class, treadle_number);
	unregister_chrdev_region(treadle_number, 1);
	class_unregister(&treadle_class);
}

/* A million armed commands must fit into a quarter of a gigabyte. */
static_assert(sizeof(struct treadle_cmd) + sizeof(struct obj_cgroup *) <= 256);

static int __init treadle_init(void)
{
	int ret = treadle_limits_init();

	if (ret)
		return ret;
	ret = -ENOMEM;
	treadle_cmd_cache = KMEM_CACHE(treadle_cmd, SLAB_ACCOUNT);
	if (!treadle_cmd_cache)
		return ret;
	ret = treadle_pm_init();
	if (ret)
		goto fail_cache;
	ret = treadle_worker_init();
	if (ret)
		goto fail_pm;
	ret = treadle_pool_init();
	if (ret)
		goto fail_worker;
	ret = treadle_census_init();
	if (ret)
		goto fail_pool;
	ret = treadle_net_init();
	if (ret)
		goto fail_census;
	ret = treadle_names_init();
	if (ret)
		goto fail_net;
	ret = treadle_nodes_init();
	if (ret)
		goto fail_names;
	ret = treadle_netlink_init();
	if (ret)
		goto fail_nodes;
	ret = treadle_device_init();
	if (ret)
		goto fail_netlink;
	return 0;
fail_netlink:
	treadle_netlink_exit();
fail_nodes:
	treadle_nodes_exit();
fail_names:
	treadle_names_exit();
fail_net:
	treadle_net_exit();
fail_census:
	treadle_census_exit();
fail_pool:
	treadle_pool_exit();
fail_worker:
	treadle_worker_exit();
fail_pm:
	treadle_pm_exit();
fail_cache:
	kmem_cache_destroy(treadle_cmd_cache);
	return ret;
}

static void __exit treadle_exit(void)
{
	/* No context is left, as each holds the module; but its last work may not be over. */
	treadle_device_exit();
	treadle_netlink_exit();
	treadle_pm_exit();
	treadle_pool_exit();
	treadle_worker_exit();
	treadle_names_exit();
	treadle_nodes_exit();
	treadle_net_exit();
	treadle_conn_exit();
	rcu_barrier();
	treadle_census_exit();
	kmem_cache_destroy(treadle_cmd_cache);
}

module_init(treadle_init);
module_exit(treadle_exit);
MODULE_DESCRIPTION("Software fabric adapter with triggered operations");
MODULE_LICENSE("GPL");
MODULE_VERSION(TREADLE_VERSION);
