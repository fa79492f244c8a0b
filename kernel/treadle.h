/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: what the files of the module share
 *
 * A command walks submit.c -> opdef.c -> op_*.c -> receive.c (match.c) -> deliver.c
 * -> transfer.c -> complete.c -> counter.c; a fired trigger re-enters at opdef.c.
 *
 * Locks, outermost first; those on one line are never held together:
 *
 *	ctx->lock (mutex)	bindings of objects, create and destroy
 *	tx->lock (mutex)	one doorbell of a transmit ring at a time
 *	rx->lock		matcher and receive ring
 *	ep->lock		parked messages of an endpoint (under rx->lock)
 *	cntr->lock, cq->lock, ctx->jobs_lock: innermost
 *	pm->lock		a pagemap; the second of a pair only by trylock
 *
 * Two matchers, or two counters, are never held at once. Under a spinlock, or
 * a pagemap's lock, nothing faults, sleeps or enters reclaim; a pagemap's lock
 * is what an MMU notifier waits for.
 *
 * Lifetimes: the open file and every object hold the context; an object is
 * held by the table, by what is bound to it, and by commands, messages and
 * jobs that use it. `users` counts bindings: DESTROY refuses while there are
 * any. When the mm exits or the file is closed, whichever is first, the context
 * is shut down: its pagemap dies (copies fail from then on), endpoints vanish,
 * and everything that waits in them is completed or dropped. Memory goes with
 * the last reference.
 */
#ifndef TREADLE_H
#define TREADLE_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/nospec.h>
#include <linux/overflow.h>
#include <linux/rbtree.h>
#include <linux/rhashtable.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <treadle/ioctl.h>
#include <treadle/ring.h>

#include "armed.h"
#include "match.h"
#include "ring.h"

#define TREADLE_MAX_MSG (1ULL << 32)
#define TREADLE_EAGER	4096u /* longer unexpected messages stay with the sender */
/* Longer copies go to a worker, so that a post never holds its caller long. */
#define TREADLE_INLINE	     (1u << 20)
#define TREADLE_CHUNK	     (64u << 10) /* bytes copied under one hold of a pagemap */
#define TREADLE_MAX_AUTH_KEY 64u

/* What user space can ask for without end: at the limit of its cgroup, ENOMEM and no OOM killer. */
#define TREADLE_GFP (GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)

enum treadle_type {
	TREADLE_CQ = 1,
	TREADLE_CNTR,
	TREADLE_AV,
	TREADLE_TX,
	TREADLE_RX,
	TREADLE_EP,
	TREADLE_MR,
};

struct treadle_ctx;
struct treadle_run;
struct treadle_cmd;
struct treadle_msg;
struct treadle_ep;
struct treadle_rx;
struct treadle_av;
struct treadle_ports;

/* --- jobs (worker.c) -------------------------------------------------------- */

/*
 * Something that can go on: a message to copy, a counter with commands to fire.
 * It is on at most one list: that of a treadle_run (private to its runner) or
 * that of @ctx (under ctx->jobs_lock).
 */
struct treadle_job {
	struct list_head link;
	struct treadle_ctx *ctx; /* whose worker takes it, kept by the job's object */
	void (*fn)(struct treadle_job *job, struct treadle_run *run);
};

/*
 * One caller's run queue: completion -> counter -> trigger -> completion goes
 * round through @jobs instead of recursion.
 */
struct treadle_run {
	struct list_head jobs;
	struct treadle_ctx *ctx; /* whose pages the runner may fault in */
	int budget;		 /* commands, and 16 KiB copied each */
	bool worker;		 /* may copy much */
};

#define TREADLE_CALLER_BUDGET 256
#define TREADLE_RUN(name, context) \
	struct treadle_run name = { LIST_HEAD_INIT(name.jobs), context, TREADLE_CALLER_BUDGET }

void treadle_run_jobs(struct treadle_run *run);
void treadle_run_handoff(struct treadle_run *run);
void treadle_queue_job(struct treadle_job *job);
void treadle_ctx_worker(struct work_struct *work);
void treadle_queue_work(struct work_struct *work);
int treadle_worker_init(void);
void treadle_worker_exit(void);

static inline void treadle_run_add(struct treadle_run *run, struct treadle_job *job)
{
	list_add_tail(&job->link, &run->jobs);
}

/* --- pagemap (pagemap.c) ------------------------------------------------------ */

#define PM_LEVELS     4
#define PM_BITS	      (PAGE_SHIFT - 3)
#define PM_FAN	      (1u << PM_BITS)
#define PM_LEAF_SHIFT (PAGE_SHIFT + PM_BITS)
#define PM_ADDR_BITS  (PAGE_SHIFT + PM_LEVELS * PM_BITS)
#define PM_WRITE      1ul /* entry: the page may be written */

/*
 * struct treadle_pm - the pages of one process, by address
 * @lock:	read: entries are valid and their pages stay mapped where they are;
 *		write: MMU notifier, fill
 * @root:	table of PM_LEVELS levels; an entry is the kernel address of a page
 *		with PM_* bits (under @lock)
 * @dead:	the mm is gone (under @lock)
 * @tables:	pages of the table (under @lock)
 * @active, @start, @end: invalidations in progress and their union (under @lock)
 * @seq:	invalidations finished (written under @lock)
 * @pinned:	pinned regions by address, which an unmapping revokes (under @lock)
 */
struct treadle_pm {
	rwlock_t lock;
	bool dead;
	void **root;
	unsigned long tables;
	unsigned long active, start, end;
	unsigned long seq;
	struct rb_root_cached pinned;
	struct mm_struct *mm;
	struct mmu_notifier notifier;
};

/* What a copy may be waiting for. */
enum treadle_side { TREADLE_NONE, TREADLE_SRC, TREADLE_DST };

/* One side of a copy: buffers of a process, or one buffer of the kernel. */
struct treadle_span {
	struct treadle_pm *pm; /* NULL: @kbuf */
	const struct treadle_iov *iov;
	unsigned int i;
	u64 off; /* into iov[i], or into kbuf */
	u8 *kbuf;
	void **leaf;   /* while pm->lock is held: table of the pages at... */
	u64 leaf_addr; /* ...this address */
};

static __always_inline void treadle_span_user(struct treadle_span *s, struct treadle_pm *pm,
					      const struct treadle_iov *iov, unsigned int count,
					      u64 off)
{
	s->pm = pm;
	s->iov = iov;
	s->i = 0;
	while (off && s->i < count && off >= iov[s->i].len)
		off -= iov[s->i++].len;
	s->off = off;
}

static __always_inline void treadle_span_kernel(struct treadle_span *s, void *buf, u64 off)
{
	s->pm = NULL;
	s->kbuf = buf;
	s->off = off;
}

int treadle_pm_init(struct treadle_pm *pm, struct mm_struct *mm);
void treadle_pm_kill(struct treadle_pm *pm);
void treadle_pm_exit(struct treadle_pm *pm);
int treadle_pm_fill(struct treadle_pm *pm, u64 addr, u64 len, bool write, bool fault);

static inline unsigned int treadle_pm_index(u64 addr, int level)
{
	return (addr >> (PAGE_SHIFT + PM_BITS * level)) & (PM_FAN - 1);
}

/* The lowest table for @addr, or NULL. Under pm->lock. */
static __always_inline void **treadle_pm_leaf(struct treadle_pm *pm, u64 addr)
{
	void **table = pm->root;

	static_assert(PM_LEVELS == 4);
	if (likely(table))
		table = table[treadle_pm_index(addr, 3)];
	if (likely(table))
		table = table[treadle_pm_index(addr, 2)];
	if (likely(table))
		table = table[treadle_pm_index(addr, 1)];
	return table;
}

/* transfer.c */
int treadle_copy(struct treadle_span *dst, struct treadle_span *src, u64 *done, u64 len,
		 struct treadle_run *run, enum treadle_side *side);

/* --- contexts and objects ------------------------------------------------------ */

#define TREADLE_RECENT 64

/*
 * struct treadle_ctx - one open file
 * @lock:	bindings, create, destroy
 * @mm:		the process; mmgrab'ed
 * @uid, @user_ns, @net: who opened it
 * @memcg:	who pays for messages that are kept for it
 * @ports:	of @net
 * @objs:	id -> object; written under @lock, read under RCU
 * @recent:	the same, of the youngest object for each remainder of its id
 * @next_id:	xa_alloc_cyclic's state (under @lock)
 * @armed:	commands armed on its counters
 * @jobs, @jobs_lock, @work: what its worker has to do
 * @dead:	shut down (set once, under @lock)
 * @exit:	shuts down after the mm has exited
 */
struct treadle_ctx {
	struct kref ref;
	struct mutex lock;
	struct mm_struct *mm;
	kuid_t uid;
	struct user_namespace *user_ns;
	struct net *net;
	struct treadle_ports *ports;
	struct mem_cgroup *memcg;
	struct xarray objs;
	struct treadle_obj __rcu *recent[TREADLE_RECENT];
	u32 next_id;
	atomic_t nr_objs;
	bool dead;
	atomic_t armed;
	struct treadle_pm pm;
	struct rhashtable mrs;
	spinlock_t jobs_lock;
	struct list_head jobs;
	struct work_struct work;
	struct work_struct exit;
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
struct treadle_ctx *treadle_ctx_create(void);
void treadle_ctx_shutdown(struct treadle_ctx *ctx);
void treadle_ctx_exit(struct treadle_ctx *ctx);
void treadle_ctx_put(struct treadle_ctx *ctx);
int treadle_copy_key(u64 ptr, u32 size, u8 *key);

/* object.c */
int treadle_obj_init(struct treadle_ctx *ctx, struct treadle_obj *obj, enum treadle_type type);
int treadle_obj_publish(struct treadle_obj *obj);
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

/* --- completion queue and counter (complete.c, counter.c) ------------------------- */

/*
 * A completion that the kernel keeps. Whoever provides the memory says what to
 * do when it is kept (under cq->lock; may be NULL) and when it is not needed
 * any more (without).
 */
struct treadle_cq_node {
	struct list_head link;
	struct treadle_cqe cqe;
	void (*keep)(struct treadle_cq_node *node);
	void (*free)(struct treadle_cq_node *node);
};

/* Who waits for a queue or counter. @signals: SIGNAL calls; @unseen: one without a waiter */
struct treadle_waitq {
	wait_queue_head_t head;
	atomic_t signals, unseen;
};

static inline void treadle_waitq_init(struct treadle_waitq *w)
{
	init_waitqueue_head(&w->head);
}

/* F: after what is waited for was written. */
static inline void treadle_wake(struct treadle_waitq *w)
{
	if (wq_has_sleeper(&w->head)) /* a full barrier, then looks */
		wake_up_all(&w->head);
}

/*
 * struct treadle_cq - completion queue
 * @lock:     ring and overflow list
 * @prod:     the kernel's own index (under @lock)
 * @overflow: completions that did not fit, oldest first (under @lock)
 * @kept:     their number (written under @lock)
 * @dead:     destroyed: completions are dropped (under @lock)
 */
struct treadle_cq {
	struct treadle_obj obj;
	spinlock_t lock;
	struct treadle_area ro, rw;
	struct treadle_cqe *cqes;
	u32 mask, prod;
	struct list_head overflow;
	u32 kept;
	bool dead;
	struct treadle_waitq waitq;
};

void treadle_cq_flush(struct treadle_cq *cq);
void treadle_cq_shutdown(struct treadle_cq *cq);
bool treadle_cq_ready(struct treadle_cq *cq);
void treadle_cq_free(struct treadle_obj *obj);

/*
 * struct treadle_cntr - counter, and the commands armed on it
 * @lock:   values, @armed, @active
 * @page:   the two values, mapped read-only
 * @armed:  commands by (threshold, submission)
 * @seq:    submissions
 * @active: @job is queued or running: exactly one runner fires, in order
 */
struct treadle_cntr {
	struct treadle_obj obj;
	spinlock_t lock;
	struct treadle_area ro;
	struct treadle_cntr_page *page;
	struct rb_root_cached armed;
	u64 seq;
	bool active;
	struct treadle_job job;
	struct treadle_waitq waitq;
};

void treadle_cntr_add(struct treadle_cntr *cntr, u64 value, bool error, struct treadle_run *run);
void treadle_cntr_set(struct treadle_cntr *cntr, u64 value, bool error, struct treadle_run *run);
void treadle_cntr_arm(struct treadle_cntr *cntr, struct treadle_cmd *cmd, struct treadle_run *run);
void treadle_cntr_free(struct treadle_obj *obj);

/* What to take off a counter; a field that is NULL or not `exact` does not choose. */
struct treadle_cull {
	struct treadle_ep *ep;
	bool work;  /* deferred work only */
	bool exact; /* with @context */
	bool at;    /* at @threshold */
	u64 context, threshold;
	u64 max;   /* stop after so many */
	int error; /* complete them with it; 0: silently */
};
u64 treadle_cntr_cull(struct treadle_cntr *cntr, const struct treadle_cull *cull,
		      struct treadle_run *run);

/* --- rings ----------------------------------------------------------------------- */

/*
 * struct treadle_tx - transmit ring
 * @lock:	one doorbell at a time; ring.head
 * @ep:		endpoint of descriptors that name none (set under ctx->lock,
 *		cleared under @lock too)
 */
struct treadle_tx {
	struct treadle_obj obj;
	struct mutex lock;
	bool shared;
	struct treadle_ep *ep;
	struct treadle_ring ring;
};

/*
 * struct treadle_recv - a posted receive
 * @m:		while posted; @node: when its completion did not fit; @next: free
 * @cmd:	was armed: whom to notify; NULL: one of rx->slots
 * @posted:	in the matcher (rx->lock)
 * @ext:	the second slot of a vector, whose memory holds it
 * @link:	armed: on rx->armed while posted
 *
 * There is one for each slot of the ring, so that taking a receive off the ring
 * needs no memory; that of an armed receive is allocated when it is armed.
 */
struct treadle_recv {
	union {
		struct {
			union {
				struct treadle_match_recv m;
				struct treadle_cq_node node;
				struct treadle_recv *next;
			};
			struct treadle_rx *rx;
			struct treadle_cmd *cmd;
			struct treadle_recv *ext;
			u64 context;
			/* an ext slot's vector ends here */
			u64 len;
			struct list_head link;
			struct treadle_iov one;
			u32 flags;
			u8 iov_count;
			bool tagged, posted;
		};
		struct treadle_iov iov[TREADLE_MAX_IOV];
	};
};

/*
 * struct treadle_rx - receive ring and matcher
 * @lock:	everything here
 * @match:	plain and tagged
 * @slots:	one for each slot of the ring; @free: those not in use
 * @seq:	receives posted
 * @eps:	endpoints that receive here; the first one's queue gets the errors of
 *		receives that no message has reached
 * @armed:	posted receives that were armed, thus not of @slots
 * @buffered, @buffered_max: bytes of kept messages
 */
struct treadle_rx {
	struct treadle_obj obj;
	spinlock_t lock;
	struct treadle_ring ring;
	struct treadle_match match[2];
	struct treadle_recv *slots, *free;
	u64 seq;
	struct list_head eps;
	struct list_head armed;
	u32 buffered, buffered_max;
};

/* queue.c */
void treadle_tx_free(struct treadle_obj *obj);
void treadle_rx_free(struct treadle_obj *obj);

/* --- endpoints, addresses, regions --------------------------------------------------- */

#define TREADLE_BINDINGS 11

/*
 * struct treadle_ep - endpoint
 * @addr, @port: where it is; unique in the network namespace
 * @enabled:	everything below is set and never changes (release/acquire)
 * @bound:	all that it is bound to
 * @rx_link:	on rx->eps (rx->lock)
 * @lock:	@dead, @parked
 * @dead:	no longer reachable, accepts nothing
 * @parked:	messages of this endpoint that wait at a peer
 */
struct treadle_ep {
	struct treadle_obj obj;
	struct treadle_addr addr;
	u16 port;
	bool listed; /* in the table of ports */
	u32 key_size;
	u8 key[TREADLE_MAX_AUTH_KEY];
	bool enabled;
	u32 flags;
	struct treadle_tx *tx;
	struct treadle_rx *rx;
	struct treadle_av *av;
	struct treadle_cq *tx_cq, *rx_cq;
	struct treadle_cntr *cntr_send, *cntr_recv, *cntr_read, *cntr_write;
	struct treadle_cntr *cntr_remote_read, *cntr_remote_write;
	struct treadle_obj *bound[TREADLE_BINDINGS];
	struct list_head rx_link;
	spinlock_t lock;
	bool dead;
	struct list_head parked;
};

int treadle_net_init(void);
void treadle_net_exit(void);
struct treadle_ports *treadle_ports(struct net *net);
struct treadle_ep *treadle_ep_find(struct treadle_ports *ports, u16 port);
bool treadle_ep_has_key(const struct treadle_ep *ep, const struct treadle_ep *from);
void treadle_ep_shutdown(struct treadle_ep *ep, struct treadle_run *run);
void treadle_ep_free(struct treadle_obj *obj);

/* The same user in the same user namespace, or the same key. Default: nobody else. */
static inline bool treadle_ep_admits(const struct treadle_ep *ep, const struct treadle_ep *from)
{
	const struct treadle_ctx *a = ep->obj.ctx, *b = from->obj.ctx;

	return likely(uid_eq(a->uid, b->uid) && a->user_ns == b->user_ns) ||
	       treadle_ep_has_key(ep, from);
}

static inline struct treadle_ep *treadle_ep_get(struct treadle_ep *ep)
{
	kref_get(&ep->obj.ref);
	return ep;
}

static inline void treadle_ep_put(struct treadle_ep *ep)
{
	treadle_obj_put(&ep->obj);
}

/*
 * struct treadle_av - address vector
 * @lock:	writers
 * @table:	entries and hash, replaced when it grows; readers use RCU
 * @used:	entries ever used (under @lock)
 * @free:	first of those that are free again (under @lock)
 * @holes:	their number (under @lock)
 */
struct treadle_av {
	struct treadle_obj obj;
	struct mutex lock;
	struct treadle_av_table __rcu *table;
	u32 used, free, holes;
};

/* address.c */
bool treadle_addr_valid(const struct treadle_addr *addr);
int treadle_av_resolve(struct treadle_av *av, u64 index, u16 *port);
u64 treadle_av_index(struct treadle_av *av, u16 port);
void treadle_av_free(struct treadle_obj *obj);
bool treadle_addr_local(struct net *net, const struct treadle_addr *addr);

/* mr.c */
extern const struct rhashtable_params treadle_mr_params;
void treadle_mr_shutdown(struct treadle_obj *obj);
void treadle_mr_free(struct treadle_obj *obj);
void treadle_mr_revoke(struct treadle_pm *pm, unsigned long start, unsigned long last);

/* --- commands and messages ------------------------------------------------------------- */

/*
 * struct treadle_cmd - a command
 * @d:		the kernel's copy of the descriptor
 * @kept:	a completion that did not fit
 * @armed:	its place on @cond
 * @ep:		endpoint, or NULL (counter operations)
 * @iov:	vector of more than one buffer: on the caller's stack, or allocated
 * @recv:	armed receives: the receive that will be posted
 * @tx, @slots:	credits to give back at the end
 * @route, @port: sends: 0 and where to, or why not
 * @inject:	F_INJECT, armed or delayed: the bytes, taken within the doorbell
 * @heap:	allocated, and holds references; else on the stack of a doorbell
 */
struct treadle_cmd {
	union {
		struct treadle_desc d;
		struct treadle_cq_node kept;
	};
	struct treadle_armed armed;
	struct treadle_ep *ep;
	struct treadle_cntr *cond, *notify, *target;
	struct treadle_iov *iov;
	struct treadle_recv *recv;
	struct treadle_tx *tx;
	u8 *inject;
	int route;
	u16 port;
	u8 slots;
	bool heap;
};

/*
 * struct treadle_msg - a message on its way
 * @ref:	of an allocated one: the sender's path, or the queue, or the job
 * @job:	when a worker goes on with it
 * @m:		while unexpected
 * @parked:	on cmd->ep->parked (its lock) while queued with its command
 * @to:		target; held if @heap
 * @cmd:	whose buffers to copy and whom to tell at delivery; NULL: the sender
 *		has been told, @payload has it all
 * @recv:	what it was matched with
 * @done:	bytes copied, into @payload before and to @recv after the match
 * @port:	of the sender
 * @charge:	bytes of rx->buffered
 * @queued:	in to->rx's matcher (rx->lock)
 * @payload:	the kernel's copy (behind this structure), or NULL
 */
struct treadle_msg {
	struct kref ref;
	struct treadle_job job;
	struct treadle_match_msg m;
	struct list_head parked;
	struct treadle_ep *to;
	struct treadle_cmd *cmd;
	struct treadle_recv *recv;
	u64 len, done, data;
	u32 flags, charge;
	u16 port;
	bool tagged, queued, heap;
	u8 *payload;
};

static inline const struct treadle_iov *treadle_cmd_iov(const struct treadle_cmd *cmd)
{
	static_assert(offsetof(struct treadle_desc, len) ==
		      offsetof(struct treadle_desc, addr) + offsetof(struct treadle_iov, len));
	return cmd->iov ?: (const struct treadle_iov *)&cmd->d.addr;
}

/* Where a command's bytes come from, from offset @off on. */
static inline void treadle_cmd_span(const struct treadle_cmd *cmd, struct treadle_span *s, u64 off)
{
	if (cmd->inject)
		treadle_span_kernel(s, cmd->inject, off);
	else
		treadle_span_user(s, &cmd->ep->obj.ctx->pm, treadle_cmd_iov(cmd), cmd->d.iov_count,
				  off);
}

/* submit.c */
extern struct kmem_cache *treadle_cmd_cache;
struct treadle_cmd *treadle_cmd_persist(struct treadle_cmd *cmd, gfp_t gfp);
void treadle_cmd_free(struct treadle_cmd *cmd);
int treadle_take_inject(struct treadle_cmd *cmd, struct treadle_run *run);

/* opdef.c: an opcode is a row, a prep (judges, changes nothing) and an issue */
struct treadle_opdef {
	u32 flags; /* TREADLE_F_* that it takes */
	bool data; /* has local buffers */
	bool needs_ep;
	bool receives; /* its completions go to the receive side */
	int (*prep)(struct treadle_cmd *cmd);
	void (*issue)(struct treadle_cmd *cmd, struct treadle_run *run);
};
extern const struct treadle_opdef treadle_opdefs[TREADLE_OP_LAST];
u64 treadle_opcodes(void);
u64 treadle_op_flags(void);

/* op_msg.c, op_cntr.c */
int treadle_send_prep(struct treadle_cmd *cmd);
void treadle_send_issue(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_recv_prep(struct treadle_cmd *cmd);
void treadle_recv_issue(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_nop_prep(struct treadle_cmd *cmd);
void treadle_nop_issue(struct treadle_cmd *cmd, struct treadle_run *run);
int treadle_cntr_prep(struct treadle_cmd *cmd);
void treadle_cntr_issue(struct treadle_cmd *cmd, struct treadle_run *run);
void treadle_ep_withdraw(struct treadle_ep *ep, const u64 *context, int error, u64 max, u64 *count,
			 struct treadle_run *run);

static inline const struct treadle_iov *treadle_recv_iov(const struct treadle_recv *recv)
{
	if (likely(recv->iov_count <= 1))
		return &recv->one;
	return recv->cmd ? recv->cmd->iov : recv->ext->iov;
}

/* receive.c; take, place, match, put_back and dequeue under rx->lock */
int treadle_recv_set(struct treadle_recv *recv, struct treadle_ep *ep,
		     const struct treadle_desc *d);
struct treadle_recv *treadle_rx_take(struct treadle_rx *rx, struct treadle_msg *msg,
				     struct treadle_run *run) __must_hold(&rx->lock);
void treadle_rx_place(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run);
struct treadle_recv *treadle_rx_match(struct treadle_rx *rx, struct treadle_msg *msg);
void treadle_rx_dequeue(struct treadle_rx *rx, struct treadle_msg *msg);
void treadle_rx_put_back(struct treadle_rx *rx, struct treadle_recv *recv, struct treadle_run *run);
void treadle_rx_grow(struct treadle_rx *rx, bool tagged);
bool treadle_rx_cancel(struct treadle_rx *rx, struct treadle_ep *ep, u64 context,
		       struct treadle_run *run);
void treadle_rx_detach(struct treadle_rx *rx, struct treadle_ep *ep, struct treadle_run *run);
int treadle_rx_doorbell(struct treadle_rx *rx);
void treadle_recv_free(struct treadle_recv *recv);

/* deliver.c */
void treadle_deliver(struct treadle_msg *msg, struct treadle_run *run);
void treadle_deliver_job(struct treadle_job *job, struct treadle_run *run);
void treadle_msg_put(struct treadle_msg *msg);

/* complete.c */
void treadle_cmd_complete(struct treadle_cmd *cmd, int error, struct treadle_run *run);
void treadle_recv_complete(struct treadle_recv *recv, struct treadle_ep *ep,
			   const struct treadle_msg *msg, int error, struct treadle_run *run);

/* --- ioctls ------------------------------------------------------------------------------- */

/*
 * struct treadle_ucmd - an ioctl being served
 * @arg: kernel's copy of the structure; written back if the call succeeds
 * @new: object that was made: published after the answer was written, else aborted
 * @file, @fd: likewise a file
 */
struct treadle_ucmd {
	struct treadle_ctx *ctx;
	void *arg;
	struct treadle_obj *new;
	struct file *file;
	int fd;
};

int treadle_ioc_cq_create(struct treadle_ucmd *u);
int treadle_ioc_cntr_create(struct treadle_ucmd *u);
int treadle_ioc_av_create(struct treadle_ucmd *u);
int treadle_ioc_av_insert(struct treadle_ucmd *u);
int treadle_ioc_av_remove(struct treadle_ucmd *u);
int treadle_ioc_av_lookup(struct treadle_ucmd *u);
int treadle_ioc_tx_create(struct treadle_ucmd *u);
int treadle_ioc_rx_create(struct treadle_ucmd *u);
int treadle_ioc_ep_create(struct treadle_ucmd *u);
int treadle_ioc_ep_enable(struct treadle_ucmd *u);
int treadle_ioc_mr_create(struct treadle_ucmd *u);
int treadle_ioc_destroy(struct treadle_ucmd *u);
int treadle_ioc_cancel(struct treadle_ucmd *u);
int treadle_ioc_wait(struct treadle_ucmd *u);
int treadle_ioc_wait_fd(struct treadle_ucmd *u);
int treadle_doorbell(struct treadle_ctx *ctx, u32 id);
int treadle_signal(struct treadle_ctx *ctx, u32 id);

#endif
