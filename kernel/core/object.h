/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: contexts, and what all their objects begin with (context.c, object.c) */
#ifndef TREADLE_OBJECT_H
#define TREADLE_OBJECT_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/rhashtable.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <treadle/ioctl.h>

#include "core/area.h"
#include "core/job.h"
#include "core/trigger.h"
#include "mm/base.h"
#include "mm/pagemap.h"

enum treadle_type {
	TREADLE_CQ = 1,
	TREADLE_CNTR,
	TREADLE_AV,
	TREADLE_TX,
	TREADLE_RX,
	TREADLE_EP,
	TREADLE_MR,
	TREADLE_EQ,
	TREADLE_CELL,
};

struct treadle_obj;
struct treadle_ports;
struct treadle_wait_ops;

#define TREADLE_MAX_AUTH_KEY 64u
#define TREADLE_RECENT	     64
#define TREADLE_CNTRS	     XA_MARK_0

/*
 * struct treadle_ctx - one open file
 * @lock:	bindings, create, destroy
 * @mm:		the process; mmgrab'ed; @opener: that one, also when it is another program
 * @pm, @pm_user: its pages, and what is told when they go
 * @uid, @user_ns, @net: who opened it; @cred: with which rights his workers look at his memory
 * @user:	that of @uid, or the one that is accountable for it; @pool: whose threads work for it
 *		(under pool->lock); @in_pool: not ended (likewise)
 * @memcg:	who pays for messages that are kept for it
 * @ports:	of @net
 * @objs:	id -> object, those that are counters marked TREADLE_CNTRS; written under @lock, read under RCU
 * @recent:	the same, of the youngest object for each remainder of its id
 * @last_id:	the youngest object's (under @lock)
 * @armed:	commands armed on its counters and cells
 * @poller:	of its cells
 * @jobs, @jobs_lock, @work: what its worker has to do
 * @watch:	of those who run for it, and have jobs of others
 * @failing, @fail_job: commands whose failure peers wait for (under @jobs_lock), and the job that tells them
 * @dead:	shut down (set once, under @lock); @over: all of it
 * @closed:	ends it, where that is not for who closes the file
 */
struct treadle_ctx {
	struct kref ref;
	struct mutex lock;
	struct mm_struct *mm;
	struct pid *opener;
	const struct cred *cred;
	kuid_t uid;
	struct user_namespace *user_ns;
	struct net *net;
	struct treadle_ports *ports;
	struct treadle_user *user;
	struct treadle_pool *pool;
	struct mem_cgroup *memcg;
	struct xarray objs;
	struct treadle_obj __rcu *recent[TREADLE_RECENT];
	u32 last_id;
	atomic_t nr_objs;
	bool dead, over;
	atomic_t armed;
	struct treadle_poller poller;
	struct treadle_pm *pm;
	struct treadle_pm_user pm_user;
	struct rhashtable mrs;
	spinlock_t jobs_lock;
	struct list_head jobs, failing;
	struct treadle_job fail_job;
	struct treadle_work work;
	struct treadle_watch watch;
	struct work_struct closed;
	bool in_pool;
};

/**
 * struct treadle_obj_ops - what a type of objects does its own way; each may be NULL
 * @type:	the type
 * @hide:	no peer finds it any more: it was destroyed, or is not published after all. May sleep
 * @stop:	it was destroyed, or its context ends, and it is hidden: what goes on in it ends, waits
 *		too. May sleep
 * @free:	the last reference is gone: release what it has. The memory of the object itself is freed
 *		by the caller, after an RCU grace period
 * @area:	the pages of a region for mmap(2), or NULL
 * @doorbell:	look at what its process has written: 0 or more, or an error
 * @wait:	its process can wait for it
 */
struct treadle_obj_ops {
	enum treadle_type type;
	void (*hide)(struct treadle_obj *obj, struct treadle_run *run);
	void (*stop)(struct treadle_obj *obj, struct treadle_run *run);
	void (*free)(struct treadle_obj *obj);
	const struct treadle_area *(*area)(struct treadle_obj *obj, enum treadle_region region);
	long (*doorbell)(struct treadle_obj *obj);
	const struct treadle_wait_ops *wait;
};

/*
 * struct treadle_obj - what every object begins with
 * @type:  that of @ops, which is looked at often
 * @users: bindings; TREADLE_GONE once it is destroyed
 */
struct treadle_obj {
	struct kref ref;
	u32 id;
	enum treadle_type type;
	const struct treadle_obj_ops *ops;
	atomic_t users;
	struct treadle_ctx *ctx;
	struct rcu_head rcu;
};

#define TREADLE_GONE INT_MIN

/* context.c */
struct treadle_ctx *treadle_ctx_create(void);
void treadle_ctx_put(struct treadle_ctx *ctx);
int treadle_copy_key(u64 ptr, u32 size, u8 *key);
bool treadle_key_is(const u8 *key, u32 size, const u8 *other, u32 other_size);

/* object.c */
int treadle_obj_init(struct treadle_ctx *ctx, struct treadle_obj *obj,
		     const struct treadle_obj_ops *ops);
int treadle_obj_publish(struct treadle_obj *obj);
void treadle_obj_abort(struct treadle_obj *obj);
void treadle_obj_unlist(struct treadle_ctx *ctx, struct treadle_obj *obj);
int treadle_obj_destroy(struct treadle_ctx *ctx, u32 id);
void treadle_obj_release(struct kref *ref);
/* Find by id and hold; @type 0: any; @bind: and keep it from being destroyed. */
static __always_inline struct treadle_obj *treadle_obj_find(struct treadle_ctx *ctx, u32 id,
							    enum treadle_type type, bool bind)
{
	struct treadle_obj *obj;

	rcu_read_lock_sched(); /* which costs no call */
	obj = rcu_dereference_sched(ctx->recent[id % TREADLE_RECENT]);
	if (unlikely(!obj || obj->id != id))
		obj = xa_load(&ctx->objs, id);
	if (!obj)
		obj = ERR_PTR(-ENOENT);
	else if (type && obj->type != type)
		obj = ERR_PTR(-EBADF);
	else if (bind && !atomic_inc_unless_negative(&obj->users))
		obj = ERR_PTR(-ENOENT);
	else if (!kref_get_unless_zero(&obj->ref))
		obj = ERR_PTR(-ENOENT);
	rcu_read_unlock_sched();
	return obj;
}

struct treadle_obj *treadle_obj_get(struct treadle_ctx *ctx, u32 id, enum treadle_type type);
struct treadle_obj *treadle_obj_bind(struct treadle_ctx *ctx, u32 id, enum treadle_type type);
void treadle_obj_unbind(struct treadle_obj *obj);

static inline void treadle_obj_put(struct treadle_obj *obj)
{
	kref_put(&obj->ref, treadle_obj_release);
}

/*
 * struct treadle_ucmd - an ioctl being served
 * @arg: kernel's copy of the structure, which is at @uarg; written back if the call succeeds
 * @new: object that was made: published after the answer was written, else aborted
 * @file, @fd: likewise a file
 */
struct treadle_ucmd {
	struct treadle_ctx *ctx;
	void *arg;
	void __user *uarg;
	struct treadle_obj *new;
	struct file *file;
	int fd;
};

#endif
