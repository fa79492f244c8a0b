// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: moving kernel threads into a control group (version 2)
 *
 * A kernel thread is moved as a process is: by a write to cgroup.procs. The group is found by its
 * number, which is never used again, in the file system where the machine's init has mounted it.
 */
#include <linux/cgroup.h>
#include <linux/exportfs.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/namei.h>
#include <linux/pid.h>
#include <linux/sched.h>

#include "core/group.h"

#if IS_ENABLED(CONFIG_CGROUPS) && IS_ENABLED(CONFIG_EXPORTFS)

/**
 * treadle_group_of() - find the control group of a process
 * @pid:  of the process
 * @none: result if the process has ended
 *
 * Context: any; never sleeps.
 * Return: the group's number; for a threaded group that of its domain, as a thread of another
 * process can't be in a threaded group.
 */
u64 treadle_group_of(struct pid *pid, u64 none)
{
	struct task_struct *task;

	rcu_read_lock();
	task = pid_task(pid, PIDTYPE_TGID);
	if (task)
		none = cgroup_id(task_dfl_cgroup(task)->dom_cgrp);
	rcu_read_unlock();
	return none;
}

static bool is_in(struct task_struct *task, u64 group)
{
	bool is;

	rcu_read_lock();
	is = cgroup_id(task_dfl_cgroup(task)) == group;
	rcu_read_unlock();
	return is;
}

/* For exportfs_decode_fh(): each dentry of the group is acceptable. */
static int any_dentry(void *context, struct dentry *dentry)
{
	return 1;
}

/* Find the root of the hierarchy. 0 and *path held, or -ENOENT. */
static int group_root(struct path *path)
{
	static const char *const names[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (kern_path(names[i], LOOKUP_FOLLOW | LOOKUP_DIRECTORY, path))
			continue;
		if (path->mnt->mnt_sb->s_magic == CGROUP2_SUPER_MAGIC)
			return 0;
		path_put(path);
	}
	return -ENOENT;
}

/**
 * treadle_group_enter() - move a kernel thread into a control group
 * @task:  has begun to run, and does not end during the call
 * @group: result of treadle_group_of()
 *
 * @task must not call this for itself: in a group that has used up its CPU time it would be
 * throttled while it holds locks that fork(2) waits for.
 *
 * Context: may sleep, for as long as moving a process takes.
 * Return: 0; or an error, and @task stays in its group.
 */
int treadle_group_enter(struct task_struct *task, u64 group)
{
	char text[16];
	int len = scnprintf(text, sizeof(text), "%d", task_pid_nr(task));
	struct path root, path;
	struct file *file;
	loff_t pos = 0;
	ssize_t ret;

	if (is_in(task, group))
		return 0;
	ret = group_root(&root);
	if (ret)
		return ret;
	path.mnt = root.mnt;
	path.dentry =
		exportfs_decode_fh(root.mnt, (struct fid *)&group, sizeof(group) / sizeof(u32),
				   FILEID_KERNFS, any_dentry, NULL);
	if (IS_ERR_OR_NULL(path.dentry)) {
		ret = path.dentry ? PTR_ERR(path.dentry) : -ESTALE;
		goto out;
	}
	file = file_open_root(&path, "cgroup.procs", O_WRONLY, 0);
	dput(path.dentry);
	ret = PTR_ERR_OR_ZERO(file);
	if (ret)
		goto out;
	ret = kernel_write(file, text, len, &pos);
	fput(file);
out:
	path_put(&root);
	return min_t(ssize_t, ret, 0);
}

#else

u64 treadle_group_of(struct pid *pid, u64 none)
{
	return none;
}

int treadle_group_enter(struct task_struct *task, u64 group)
{
	return -EOPNOTSUPP;
}

#endif
