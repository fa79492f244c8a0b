/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: endpoints, address vectors, memory regions (endpoint.c, address.c, mr.c) */
#ifndef TREADLE_ENDPOINT_H
#define TREADLE_ENDPOINT_H

#include "queue.h"

#define TREADLE_MAX_AUTH_KEY 64u

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
void treadle_ep_address(struct treadle_ports *ports, u16 port, struct treadle_addr *addr);
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

struct treadle_av_name;

/*
 * struct treadle_av - address vector, which several contexts may share by name
 * @ref:	of the objects, and who works on it
 * @name:	under which others find it, or NULL
 * @lock:	writers
 * @table:	entries and hash, replaced when it grows; readers use RCU
 * @used:	entries ever used (under @lock)
 * @free:	first of those that are free again (under @lock)
 * @holes:	their number (under @lock)
 */
struct treadle_av {
	struct kref ref;
	struct treadle_av_name *name;
	struct mutex lock;
	struct treadle_av_table __rcu *table;
	u32 used, free, holes;
};

/* struct treadle_av_obj - an address vector as a context has it. @read_only: it may not change it */
struct treadle_av_obj {
	struct treadle_obj obj;
	struct treadle_av *av;
	bool read_only;
};

/* avname.c: address vectors with a name, for a user in a network namespace */
struct treadle_av *treadle_av_open(struct treadle_ctx *ctx, u64 name, u32 size, u32 count,
				   bool existing);
void treadle_av_forget(struct treadle_av *av);

/* address.c */
bool treadle_addr_valid(const struct treadle_addr *addr);
int treadle_av_resolve(struct treadle_av *av, u64 index, u16 *port);
u64 treadle_av_index(struct treadle_av *av, u16 port);
struct treadle_av *treadle_av_alloc(u32 count);
void treadle_av_release(struct kref *ref);
void treadle_av_free(struct treadle_obj *obj);
bool treadle_addr_local(struct net *net, const struct treadle_addr *addr);

/* mr.c */
extern const struct rhashtable_params treadle_mr_params;
void treadle_mr_shutdown(struct treadle_obj *obj);
void treadle_mr_free(struct treadle_obj *obj);
void treadle_mr_revoke(struct treadle_pm *pm, unsigned long start, unsigned long last);

#endif
