/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: contexts, and what all their objects begin with (context.c, object.c, mmap.c) */
#ifndef TREADLE_OBJECT_H
#define TREADLE_OBJECT_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <linux/uidgid.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <treadle/ioctl.h>

#include "job.h"
#include "pagemap.h"
#include "pool.h"
#include "ring.h"
#include "trigger.h"

/* What user space can ask for without end: at the limit of its cgroup, ENOMEM and no OOM killer. */
#define TREADLE_GFP (GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)
/* Where another process's group pays: nobody reclaims for it; at its limit it fails at once. */
#define TREADLE_GFP_OTHER (TREADLE_GFP & ~__GFP_DIRECT_RECLAIM)
/*
 * The same for what has begun: at the limit it is charged beyond (__GFP_HIGH). Fails only if the
 * machine has no memory; then it is tried again with what may reclaim, and may fail, too.
 */
#define TREADLE_GFP_BEYOND (TREADLE_GFP_OTHER | __GFP_HIGH)

/*
 * @n zeroed elements of @size bytes, for kvfree(). Of single pages, if they are many: for huge
 * ones, which kvcalloc() would try hard to get, all of the machine's memory is compacted, and no
 * group pays for that.
 */
static inline void *treadle_table_alloc(size_t n, size_t size, gfp_t gfp)
{
	if (array_size(n, size) <= PAGE_SIZE << PAGE_ALLOC_COSTLY_ORDER)
		return kvcalloc(n, size, gfp);
	return __vmalloc(array_size(n, size), gfp | __GFP_ZERO);
}

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

#define TREADLE_RECENT 64
#define TREADLE_CNTRS  XA_MARK_0

/*
 * struct treadle_ctx - one open file
 * @lock:	bindings, create, destroy
 * @mm:		the process; mmgrab'ed; @opener: that one, also when it is another program
 * @pm, @mates:	its pages, and its place among the contexts of the process
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
	struct list_head mates;
	struct rhashtable mrs;
	spinlock_t jobs_lock;
	struct list_head jobs, failing;
	struct treadle_job fail_job;
	struct treadle_work work;
	struct treadle_watch watch;
	struct work_struct closed;
	bool in_pool;
};

/*
 * struct treadle_obj - what every object begins with
 * @users: bindings; TREADLE_GONE once it is destroyed
 */
struct treadle_obj {
	struct kref ref;
	u32 id;
	enum treadle_type type;
	atomic_t users;
	struct treadle_ctx *ctx;
	struct rcu_head rcu;
};

#define TREADLE_GONE INT_MIN

/* main.c: limits, module parameters */
extern unsigned int treadle_max_objects, treadle_max_ring, treadle_max_cq, treadle_max_av;
extern unsigned int treadle_max_armed, treadle_max_buffered;

/* context.c */
struct treadle_ctx *treadle_ctx_create(bool nowait);
void treadle_ctx_shutdown(struct treadle_ctx *ctx);
void treadle_ctx_put(struct treadle_ctx *ctx);
int treadle_copy_key(u64 ptr, u32 size, u8 *key);

/* object.c */
int treadle_obj_init(struct treadle_ctx *ctx, struct treadle_obj *obj, enum treadle_type type);
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

/* mmap.c */
enum treadle_region { TREADLE_RW, TREADLE_RO };
void treadle_map_cookie(struct treadle_obj *obj, const struct treadle_area *area,
			enum treadle_region region, struct treadle_map *map);
int treadle_mmap(struct treadle_ctx *ctx, struct vm_area_struct *vma);

/* poller.c */
const struct treadle_area *treadle_cell_area(struct treadle_obj *obj, enum treadle_region region);

#endif
