/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: addresses of endpoints, and vectors of them (ports.c, address.c, table.c, avname.c,
 * local.c)
 */
#ifndef TREADLE_NAMES_H
#define TREADLE_NAMES_H

#include <linux/mutex.h>
#include <linux/seqlock.h>

#include "core/endpoint.h"
#include "core/source.h"

/* ports.c */
int treadle_net_init(void);
void treadle_net_exit(void);
struct treadle_ports *treadle_ports(struct net *net);
struct treadle_ep *treadle_ep_find(struct treadle_ports *ports, u64 dest);
void treadle_source_address(const struct treadle_ctx *ctx, u32 source, struct treadle_addr *addr);
int treadle_ep_list(struct treadle_ep *ep);
void treadle_ep_unlist(struct treadle_ep *ep);
int treadle_conn_may_send(const struct treadle_ep *ep, bool armed);
struct treadle_ep *treadle_conn_peer(struct treadle_ep *from);

struct treadle_av_name;

/*
 * struct treadle_av - address vector, which several contexts may share by name
 * @ref:	one for each object
 * @name:	its name, or NULL; never changes once the vector is shared
 * @net:	network namespace of the addresses; held by @name, or by the only context
 * @user:	for which nodes count that it names first; held
 * @lock:	excludes other writers
 * @table:	entries and hash, replaced when it grows (written under @lock, read under RCU)
 * @freed:	counts entries that leave their bucket and may be used in another one: a search
 *		that has found nothing is repeated if it has changed (written under @lock)
 * @ctx_bits:	high bits of an index that name a receive context; never changes
 * @used:	entries ever used (under @lock)
 * @holes:	those of them that are free again (under @lock)
 * @lowest:	no free entry is below (under @lock)
 */
struct treadle_av {
	struct kref ref;
	struct treadle_av_name *name;
	struct net *net;
	struct treadle_user *user;
	struct mutex lock;
	seqcount_t freed;
	struct treadle_av_table __rcu *table;
	u32 used, holes, lowest;
	u8 ctx_bits;
};

/* struct treadle_av_obj - an address vector in a context. @read_only: not to be changed by it */
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
void treadle_addr_concrete(struct net *net, struct treadle_addr *addr);
bool treadle_addr_common(struct net *net, u32 source, struct treadle_addr *addr);

/* address.c */
int treadle_av_resolve(struct treadle_av *av, u64 index, u64 *dest);
int treadle_av_reach(struct treadle_av *av, u64 index, u64 *dest);
bool treadle_av_peer(struct treadle_av *av, u32 source, u64 *addr);
int treadle_av_reserve(struct treadle_av *av, u32 count);
int treadle_av_add(struct treadle_av *av, const struct treadle_addr *addr, const u64 *id,
		   u64 *index);
int treadle_av_remove(struct treadle_av *av, u64 index);
int treadle_av_address(struct treadle_av *av, u64 index, struct treadle_addr *addr, u32 *source);
bool treadle_av_has_ids(struct treadle_av *av);
int treadle_av_set_id(struct treadle_av *av, u64 index, u64 id);
struct treadle_av *treadle_av_alloc(struct treadle_ctx *ctx, const struct treadle_av_create *arg);
void treadle_av_release(struct kref *ref);

/* av.c */
int treadle_ioc_av_create(struct treadle_ucmd *u);
int treadle_ioc_av_insert(struct treadle_ucmd *u);
int treadle_ioc_av_remove(struct treadle_ucmd *u);
int treadle_ioc_av_lookup(struct treadle_ucmd *u);
int treadle_ioc_av_set_id(struct treadle_ucmd *u);

#endif
