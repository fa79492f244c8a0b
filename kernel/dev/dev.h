/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: the character device (main.c, file.c, mmap.c, uring.c, fdinfo.c) */
#ifndef TREADLE_DEV_H
#define TREADLE_DEV_H

#include "ep/endpoint.h"
#include "path/path.h"

struct file;
struct inode;
struct io_uring_cmd;
struct net;
struct seq_file;
struct vm_area_struct;

/* main.c */
u64 treadle_features(struct net *net, struct treadle_addr *node);
long treadle_call(struct treadle_ctx *ctx, unsigned int cmd, unsigned long arg);

/* file.c */
int treadle_open(struct inode *inode, struct file *file);
int treadle_flush(struct file *file, fl_owner_t id);
int treadle_release(struct inode *inode, struct file *file);

int treadle_mmap(struct treadle_ctx *ctx, struct vm_area_struct *vma);	   /* mmap.c */
int treadle_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags); /* uring.c */
void treadle_show_fdinfo(struct seq_file *m, struct file *file);	   /* fdinfo.c */

/* netlink.c */
int treadle_netlink_init(void);
void treadle_netlink_exit(void);

#endif
