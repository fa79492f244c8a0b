/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: endpoints, address vectors, memory regions (endpoint.c, address.c, mr.c) */
#ifndef TREADLE_ENDPOINT_H
#define TREADLE_ENDPOINT_H

#include "queue.h"

#define TREADLE_MAX_AUTH_KEY 64u

#define TREADLE_BINDINGS 11

struct treadle_conn;
struct treadle_eq;

/*
 * struct treadle_ep - endpoint
 * @addr, @port: where it is; unique in the network namespace, but for those that
 *		accept connections, which are where they were asked for, and for contexts
 * @role:	TREADLE_EP_SCALABLE, _TX_CONTEXT, _RX_CONTEXT, or 0
 * @contexts:	SCALABLE: receive contexts that are there, by index; read under RCU
 * @parent, @index: of a context; the parent is held, and bound until the context is shut
 *		down
 * @enabled:	everything below is set and never changes (release/acquire)
 * @bound:	all that it is bound to
 * @rx_link, @named_link: on rx->eps, and if it has an address vector on rx->named (rx->lock)
 * @feeding:	commands of receives that are on rx->feeding, by their @wait (rx->lock)
 * @lock:	@dead, @severed, @closed, @parked, flows
 * @dead:	no longer reachable, accepts nothing; none of its completions is written (also under the
 *		lock of the completion queue)
 * @closed:	dead or severed: its buffers are not touched (also under the lock of their pagemap)
 * @left:	it has left its receive ring (only who shuts it down)
 * @awaited:	somebody has posted a collective receive for what it sends
 * @parked:	commands whose messages wait at a peer, by context
 * @flows:	peers to whom something is under way (under @lock; flow.c)
 * @waiting:	commands that wait for their turn there, by context
 * @nr_flows, @nr_ordered: their number, and of those where what comes next waits
 *		(written under @lock)
 *
 * MSG and PASSIVE, under treadle_conn_lock (connect.h):
 * @eq, @eq_context: where its events go; held, set once
 * @conn:	its connection; held, set once
 * @severed:	that is over
 * @peer:	at the other end of it; read under RCU
 * @ending:	of who flushes what the end of the connection ends (before all others)
 * @pending, @nr_pending, @backlog, @listening: requests that are not answered
 *
 * @unbind: ends it where the caller of DESTROY was killed
 */
struct treadle_ep {
	struct treadle_obj obj;
	struct treadle_addr addr;
	u32 type; /* enum treadle_ep_type */
	u16 port;
	bool listed; /* in the table of ports; a context: with its parent */
	u32 role, index;
	struct xarray contexts;
	struct treadle_ep *parent;
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
	struct list_head rx_link, named_link, feeding;
	spinlock_t lock;
	bool dead, severed, closed, awaited, left;
	struct rb_root parked, flows, waiting;
	unsigned int nr_flows, nr_ordered;
	struct treadle_ep __rcu *peer;
	struct mutex ending;
	struct treadle_conn *conn;
	struct treadle_eq *eq;
	u64 eq_context;
	struct list_head pending;
	u32 nr_pending, backlog;
	bool listening;
	struct treadle_later unbind;
};

int treadle_net_init(void);
void treadle_net_exit(void);
struct treadle_ports *treadle_ports(struct net *net);
struct treadle_ep *treadle_ep_find(struct treadle_ports *ports, u32 name);
void treadle_ep_address(struct treadle_ports *ports, u16 port, struct treadle_addr *addr);
bool treadle_has_key(const u8 *key, u32 size, const struct treadle_ep *from);
bool treadle_ep_try_quiesce(struct treadle_ep *ep);
int treadle_ep_quiesce(struct treadle_ep *ep, struct treadle_run *run);
void treadle_ep_close(struct treadle_ep *ep);
void treadle_ctx_mourn(struct treadle_ctx *ctx, struct treadle_run *run);
void treadle_ep_die(struct treadle_ep *ep, struct treadle_run *run);
void treadle_ep_shutdown(struct treadle_ep *ep, struct treadle_run *run);
void treadle_ep_free(struct treadle_obj *obj);

static inline bool treadle_same_user(const struct treadle_ctx *a, const struct treadle_ctx *b)
{
	return uid_eq(a->uid, b->uid) && a->user_ns == b->user_ns;
}

/* The same user in the same user namespace, or the same key. Default: nobody else. */
static inline bool treadle_admits(const struct treadle_ctx *a, const u8 *key, u32 size,
				  const struct treadle_ep *from)
{
	return likely(treadle_same_user(a, from->obj.ctx)) || treadle_has_key(key, size, from);
}

static inline bool treadle_ep_admits(const struct treadle_ep *ep, const struct treadle_ep *from)
{
	return treadle_admits(ep->obj.ctx, ep->key, ep->key_size, from);
}

/* What becomes of a command of @ep, which is closed, or whose process is gone. */
static inline int treadle_ep_error(const struct treadle_ep *ep)
{
	return READ_ONCE(ep->severed) && !READ_ONCE(ep->dead) ? -ECONNRESET : -ECANCELED;
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

/* connect.c */
int treadle_conn_adopt(struct treadle_ep *ep, u32 request);
void treadle_conn_shutdown(struct treadle_ep *ep);
void treadle_conn_free(struct treadle_ep *ep);
int treadle_conn_judge(const struct treadle_ep *ep, bool armed);
struct treadle_ep *treadle_conn_peer(struct treadle_ep *from);

struct treadle_av_name;

/*
 * struct treadle_av - address vector, which several contexts may share by name
 * @ref:	of the objects, and who works on it
 * @name:	under which others find it, or NULL
 * @lock:	writers
 * @table:	entries and hash, replaced when it grows; readers use RCU
 * @freed:	counts entries that leave their bucket's list, and may be used in another: who was at one, and has
 *		found nothing, looks again (under @lock)
 * @ctx_bits:	of an index, that name a receive context; never changes
 * @used:	entries ever used (under @lock)
 * @holes:	those that are free again (under @lock)
 * @lowest:	there is none below (under @lock)
 */
struct treadle_av {
	struct kref ref;
	struct treadle_av_name *name;
	struct mutex lock;
	seqcount_t freed;
	struct treadle_av_table __rcu *table;
	u32 used, holes, lowest;
	u8 ctx_bits;
};

/* struct treadle_av_obj - an address vector as a context has it. @read_only: it may not change it */
struct treadle_av_obj {
	struct treadle_obj obj;
	struct treadle_av *av;
	bool read_only;
};

/* avname.c: address vectors with a name, for a user in a network namespace */
int treadle_names_init(void);
void treadle_names_exit(void);
struct treadle_av *treadle_av_open(struct treadle_ctx *ctx, const struct treadle_av_create *arg);
void treadle_av_forget(struct treadle_av *av);

/* local.c */
bool treadle_addr_valid(const struct treadle_addr *addr);
bool treadle_addr_local(struct net *net, const struct treadle_addr *addr);

/* address.c */
/* What names a receiver in one network namespace: its port, and which of its receive contexts. */
static inline u32 treadle_name(u16 port, u32 context)
{
	return port | context << 16;
}

int treadle_av_resolve(struct treadle_av *av, u64 index, u32 *name);
bool treadle_av_name(struct treadle_av *av, u16 port, u64 *name);
struct treadle_av *treadle_av_alloc(const struct treadle_av_create *arg);
void treadle_av_release(struct kref *ref);
void treadle_av_free(struct treadle_obj *obj);

/* mr.c */

/*
 * What an operation of a peer needs: TREADLE_ACCESS_REMOTE_*, and one of these, which every region grants. The same bits in
 * the flags of an endpoint deny it there.
 */
#define TREADLE_ACCESS_RMA    TREADLE_EP_NO_RMA
#define TREADLE_ACCESS_ATOMIC TREADLE_EP_NO_ATOMIC
#define TREADLE_ACCESS_PEER                                                              \
	(TREADLE_ACCESS_REMOTE_READ | TREADLE_ACCESS_REMOTE_WRITE | TREADLE_ACCESS_RMA | \
	 TREADLE_ACCESS_ATOMIC)
static_assert(TREADLE_ACCESS_REMOTE_READ == TREADLE_EP_NO_REMOTE_READ);
static_assert(TREADLE_ACCESS_REMOTE_WRITE == TREADLE_EP_NO_REMOTE_WRITE);

int treadle_mrs_init(struct rhashtable *mrs); /* by key */
int treadle_mr_find(struct treadle_ep *to, const struct treadle_ep *from,
		    const struct treadle_rma_iov *range, u32 access, struct treadle_mr **mr,
		    struct treadle_iov *at);

/* A region as it is seen while RCU keeps it, and where in its owner's memory a range of it is. */
struct treadle_mr_view {
	const struct treadle_mr *mr;
	u64 at;
};
struct treadle_mr_view treadle_mr_peek(const struct treadle_ep *to, const struct treadle_cmd *cmd,
				       u32 access) __must_hold(RCU);
void treadle_mr_put(struct treadle_mr *mr);
bool treadle_mr_revoked(const struct treadle_mr *mr) __must_hold(&pm->lock);
struct treadle_cntr *treadle_mr_cntr(struct treadle_mr *mr);
void treadle_mr_shutdown(struct treadle_obj *obj);
void treadle_mr_free(struct treadle_obj *obj);
bool treadle_mr_revoke(struct treadle_pm *pm, unsigned long start, unsigned long last);

#endif
