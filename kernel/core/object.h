/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: contexts, and the common part of their objects (context.c, object.c) */
#ifndef TREADLE_OBJECT_H
#define TREADLE_OBJECT_H

#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/rhashtable.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <treadle/ioctl.h>

#include "core/area.h"
#include "core/job.h"
#include "core/peer.h"
#include "core/stats.h"
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
	TREADLE_WINDOW,
	TREADLE_LANE,
};

struct treadle_obj;
struct treadle_ports;
struct treadle_wait_ops;

/*
 * struct treadle_polls - the polled transmit rings of a context (exec/polled.c)
 * @lock:  @rings, and how many there are: @count
 * @work:  looks at them while it is not idle; holds the context
 */
struct treadle_polls {
	spinlock_t lock;
	struct list_head rings;
	unsigned int count;
	struct treadle_work work;
};

#define TREADLE_RECENT	   64
#define TREADLE_RECENT_MRS 16
#define TREADLE_CNTRS	   XA_MARK_0

/*
 * struct treadle_ctx - context: one open file; or peers on another host, without a process
 * @lock:	bindings, create, destroy
 * @number:	in the table of its network namespace (census.c); 0: it is not there
 * @sums:	statistics, and those of objects that have ended
 * @mm:		memory of the process, mmgrab'ed; NULL: there is no process, and no @opener, @memcg
 *		and @pm either
 * @opener:	the process; stays the same when it executes another program
 * @cred:	credentials of the opener, with which workers access its memory
 * @owner, @net: user in a user namespace, and network namespace, of the opener
 * @ports:	table of ports of @net
 * @user:	the user of @owner, or the user that is accountable for it
 * @pool:	threads that work for the context (under pool->lock); @in_pool: it counts there, as
 *		it has not ended (likewise)
 * @memcg:	memory cgroup that pays for messages that are kept for the context
 * @objs:	objects by id, counters marked TREADLE_CNTRS; written under @lock, read under RCU
 * @recent:	for each remainder of an id, the youngest object in @objs; same locking
 * @last_id:	id of the youngest object (under @lock)
 * @nr_objs:	objects that are not destroyed
 * @armed:	commands that are armed on its counters and cells
 * @poller:	looks at its cells; @polls: at its transmit rings
 * @pm, @pm_user: pagemap of @mm, and the callbacks for the exit of @mm
 * @mrs:	regions by key
 * @recent_mrs:	for each remainder of a key, the region in @mrs that came last, or NULL; under RCU
 * @mapping:	of the file: all its maps are found here (dev/file.c)
 * @scratch:	what a window's map has where the window has no page; NULL: no window was made yet
 *		(set once, under @lock)
 * @nr_windows:	windows that are not freed
 * @nr_lanes:	ends of lanes to peers that are not freed
 * @jobs, @jobs_lock, @work: jobs for its worker, and the worker
 * @failing, @fail_job: commands with a failure that peers wait for (under @jobs_lock), and the job
 *		that tells the peers
 * @watch:	runs of this context that have jobs of other contexts
 * @dead:	shutdown has begun (set once, under @lock); @over: it is finished
 * @closed:	shuts the context down if the thread that closes the file must not
 */
struct treadle_ctx {
	struct kref ref;
	struct mutex lock;
	u32 number;
	struct treadle_sums sums;
	struct mm_struct *mm;
	struct pid *opener;
	const struct cred *cred;
	struct treadle_owner owner;
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
	struct treadle_polls polls;
	struct treadle_pm *pm;
	struct treadle_pm_user pm_user;
	struct rhashtable mrs;
	struct treadle_mr __rcu *recent_mrs[TREADLE_RECENT_MRS];
	struct address_space mapping;
	struct page *scratch;
	atomic_t nr_windows, nr_lanes;
	spinlock_t jobs_lock;
	struct list_head jobs, failing;
	struct treadle_job fail_job;
	struct treadle_work work;
	struct treadle_watch watch;
	struct work_struct closed;
	bool in_pool;
};

/**
 * struct treadle_obj_ops - operations of a type of objects; each may be NULL
 * @type:	the type
 * @stats, @stats_end: the statistics that it counts: enum treadle_stat; 0, 0: none
 * @stats_own: offset of their words in the object; 0: they are words for each CPU
 * @hide:	make the object unfindable for peers: it is destroyed, or not published after all.
 *		May sleep
 * @stop:	end all activity in the object, waiting commands too: it is destroyed, or its
 *		context ends; it is hidden already. May sleep
 * @free:	the last reference is gone: release what the object has. The caller frees the memory
 *		of the object itself, after an RCU grace period. May sleep
 * @area:	the pages of a region for mmap(2), or NULL
 * @doorbell:	look at what the process has written. Returns 0 or more, or an error
 * @wait:	a process can wait for the object
 */
struct treadle_obj_ops {
	enum treadle_type type;
	u16 stats, stats_end, stats_own;
	void (*hide)(struct treadle_obj *obj, struct treadle_run *run);
	void (*stop)(struct treadle_obj *obj, struct treadle_run *run);
	void (*free)(struct treadle_obj *obj);
	const struct treadle_area *(*area)(struct treadle_obj *obj, enum treadle_region region);
	long (*doorbell)(struct treadle_obj *obj);
	const struct treadle_wait_ops *wait;
};

/*
 * struct treadle_obj - first member of each object
 * @id:    number in ctx->objs
 * @type:  copy of ops->type
 * @users: bindings; TREADLE_GONE once the object is destroyed
 * @stats: what it has counted
 * @ctx:   its context, held
 */
struct treadle_obj {
	struct kref ref;
	u32 id;
	enum treadle_type type;
	const struct treadle_obj_ops *ops;
	atomic_t users;
	struct treadle_ctx *ctx;
	struct treadle_stats stats;
	struct rcu_head rcu;
};

#define TREADLE_GONE INT_MIN

/* context.c */
struct treadle_ctx *treadle_ctx_create(const struct treadle_owner *owner, struct net *net,
				       struct mm_struct *mm);
void treadle_ctx_put(struct treadle_ctx *ctx);
int treadle_scratch_alloc(struct treadle_ctx *ctx);

/* object.c */
int treadle_obj_init(struct treadle_ctx *ctx, struct treadle_obj *obj,
		     const struct treadle_obj_ops *ops);
int treadle_obj_publish(struct treadle_obj *obj);
void treadle_obj_abort(struct treadle_obj *obj);
void treadle_obj_unlist(struct treadle_ctx *ctx, struct treadle_obj *obj);
int treadle_obj_destroy(struct treadle_ctx *ctx, u32 id);
void treadle_obj_release(struct kref *ref);

/*
 * The pagemap of a context; the one way from an endpoint to memory. NULL: the context has no
 * process. Then the bytes of each command came along with it (cmd->inject, set even for none), so
 * this is never asked for them.
 */
static __always_inline struct treadle_pm *treadle_pm_of(const struct treadle_ctx *ctx)
{
	return ctx->pm;
}

/* treadle_obj_get(), or with @bind treadle_obj_bind(), inline for hot paths. */
static __always_inline struct treadle_obj *treadle_obj_find(struct treadle_ctx *ctx, u32 id,
							    enum treadle_type type, bool bind)
{
	struct treadle_obj *obj;

	rcu_read_lock_sched(); /* costs no function call */
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

/* Drop a reference. The last one may sleep. */
static inline void treadle_obj_put(struct treadle_obj *obj)
{
	kref_put(&obj->ref, treadle_obj_release);
}

/*
 * struct treadle_ucmd - an ioctl that is being served
 * @ctx:  context of the file
 * @arg:  kernel's copy of the structure at @uarg; written back if the call succeeds
 * @new:  object that was created: published after the answer is written, else aborted
 * @file, @fd: file that was created: installed after the answer is written, else dropped
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
