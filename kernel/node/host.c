// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: hosts: other nodes of a network namespace, by address and by number
 *
 * A host is a session, whether it has begun or not. It has a number as long as an entry of an
 * address vector names it, or the session has a link or needs one. Numbers are given out in turn,
 * so that one which is free is not soon another host's.
 *
 * A host counts for the user that has named it first, until its number is free. A user may have as
 * many as are free: so one user has half of all at most, and each further one half of the rest.
 */
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>

#include "core/pool.h"
#include "mm/base.h"
#include "node/session.h"

#define RECENT 16u

static unsigned int treadle_hosts_id;

/*
 * struct hosts - the hosts of a network namespace
 * @lock:	serializes changes, and the opening and closing of nodes
 * @all:	by number; read under RCU
 * @recent:	for each remainder of a number, the youngest of @all; the same locking
 * @next:	where the search for a free number begins; @nr: numbers that are not free
 * @by_addr:	by address
 * @shares:	how many count for a user, by treadle_user_id()
 * @node:	the node at which the namespace is reached, or NULL; read under RCU
 * @second, @mirror, @back: for tests, see struct treadle_node_listen: the second node, the number
 *		of its host, and its session with the first one; @back is read under RCU
 */
struct hosts {
	struct mutex lock;
	struct xarray all;
	struct treadle_session __rcu *recent[RECENT];
	u32 next, nr;
	struct rhashtable by_addr;
	struct xarray shares;
	struct treadle_node __rcu *node;
	struct treadle_node *second;
	u16 mirror;
	struct treadle_session *back;
};

/* Seeded, so that no process and no node can choose addresses that collide. */
static const struct rhashtable_params by_addr_params = {
	.key_len = sizeof(struct treadle_addr),
	.key_offset = offsetof(struct treadle_session_all, s.addr),
	.head_offset = offsetof(struct treadle_session_all, links.by_addr),
	.automatic_shrinking = true,
};

static struct hosts *hosts_of(struct net *net)
{
	return net_generic(net, treadle_hosts_id);
}

static int __net_init net_init_one(struct net *net)
{
	struct hosts *h = hosts_of(net);

	mutex_init(&h->lock);
	xa_init_flags(&h->all, XA_FLAGS_ALLOC1);
	xa_init(&h->shares);
	return rhashtable_init(&h->by_addr, &by_addr_params);
}

static void __net_exit net_exit_one(struct net *net)
{
	struct hosts *h = hosts_of(net);

	/* all are empty, as what names a host holds the namespace */
	xa_destroy(&h->all);
	xa_destroy(&h->shares);
	rhashtable_destroy(&h->by_addr);
}

static struct pernet_operations treadle_hosts_ops = {
	.init = net_init_one,
	.exit = net_exit_one,
	.id = &treadle_hosts_id,
	.size = sizeof(struct hosts),
};

/**
 * treadle_hosts_init() - at module load: make a table of hosts for each network namespace
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int treadle_hosts_init(void)
{
	return register_pernet_subsys(&treadle_hosts_ops);
}

/**
 * treadle_hosts_exit() - at module exit: free the tables, which are empty
 *
 * Context: may sleep.
 */
void treadle_hosts_exit(void)
{
	unregister_pernet_subsys(&treadle_hosts_ops);
}

/* --- sessions ----------------------------------------------------------------------------- */

/* The last reference is gone. In a work, as that may be anywhere. */
static void release(struct work_struct *work)
{
	struct treadle_session_links *l = container_of(work, struct treadle_session_links, release);
	struct treadle_session *s = treadle_session_of(l);

	treadle_node_ops.free(s);
	treadle_frames_put(s);
	kfree_rcu(container_of(s, struct treadle_session_all, s), links.rcu);
}

static void session_release(struct kref *ref)
{
	struct treadle_session *s = container_of(ref, struct treadle_session, ref);

	queue_work(treadle_node_wq, &s->links->release);
}

/**
 * treadle_session_put() - drop a reference of a session
 * @s: the session
 *
 * Context: any, under spinlocks, too.
 */
void treadle_session_put(struct treadle_session *s)
{
	kref_put(&s->ref, session_release);
}

/* @addr: as canonical() makes it */
static struct treadle_session *session_alloc(struct net *net, const struct treadle_addr *addr,
					     bool listed)
{
	struct treadle_session_all *all = kzalloc(sizeof(*all), GFP_KERNEL_ACCOUNT);
	struct treadle_session *s;

	if (!all)
		return NULL;
	s = &all->s;
	s->links = &all->links;
	kref_init(&s->ref);
	spin_lock_init(&s->lock);
	s->addr = *addr;
	refcount_set(&all->links.users, 1);
	all->links.net = net;
	all->links.listed = listed;
	INIT_WORK(&all->links.release, release);
	treadle_session_init(s);
	treadle_links_init(s);
	return s;
}

/* --- the table ---------------------------------------------------------------------------- */

/* The address of a host as it is compared: without a port; IPv4 within IPv6 is IPv4. */
static struct treadle_addr canonical(const struct treadle_addr *addr)
{
	const struct in6_addr *v6 = (const struct in6_addr *)addr->addr;
	struct treadle_addr to = *addr;

	to.port = 0;
	if (addr->family == AF_INET6 && ipv6_addr_v4mapped(v6)) {
		to = (struct treadle_addr){ .family = AF_INET };
		memcpy(to.addr, &v6->s6_addr32[3], 4);
	}
	return to;
}

static struct treadle_session *find(struct hosts *h, const struct treadle_addr *addr)
{
	struct treadle_session_all *all;

	lockdep_assert_held(&h->lock);
	all = rhashtable_lookup_fast(&h->by_addr, addr, by_addr_params);
	return all ? &all->s : NULL;
}

/* Let one more host count for @user; NULL: another node has named it. 0, -EDQUOT or -ENOMEM. */
static int charge(struct hosts *h, const struct treadle_user *user)
{
	unsigned long has;
	u32 id;

	lockdep_assert_held(&h->lock);
	if (!user)
		return 0;
	id = treadle_user_id(user);
	has = xa_to_value(xa_load(&h->shares, id));
	if (has >= TREADLE_MAX_HOST - h->nr)
		return -EDQUOT;
	return xa_err(xa_store(&h->shares, id, xa_mk_value(has + 1), GFP_KERNEL_ACCOUNT));
}

static void uncharge(struct hosts *h, u32 id)
{
	unsigned long has = xa_to_value(xa_load(&h->shares, id));

	lockdep_assert_held(&h->lock);
	if (has > 1)
		xa_store(&h->shares, id, xa_mk_value(has - 1), GFP_KERNEL); /* needs no memory */
	else
		xa_erase(&h->shares, id);
}

static void attach(struct treadle_session *s, struct treadle_node *node)
{
	spin_lock(&s->lock);
	s->node = node;
	spin_unlock(&s->lock);
	atomic_inc(&node->sessions);
}

/* Enter a new host. 0, -ENOSPC or -ENOMEM. */
static int enter(struct hosts *h, struct treadle_session *s)
{
	struct treadle_session_all *all = container_of(s, struct treadle_session_all, s);
	u32 number;
	int ret = xa_alloc_cyclic(&h->all, &number, NULL, XA_LIMIT(1, TREADLE_MAX_HOST), &h->next,
				  GFP_KERNEL_ACCOUNT);

	lockdep_assert_held(&h->lock);
	if (ret < 0)
		return ret == -EBUSY ? -ENOSPC : ret;
	if (rhashtable_insert_fast(&h->by_addr, &all->links.by_addr, by_addr_params)) {
		xa_release(&h->all, number);
		return -ENOMEM;
	}
	s->host = s->id = number;
	h->nr++;
	if (rcu_access_pointer(h->node))
		attach(s, rcu_dereference_protected(h->node, lockdep_is_held(&h->lock)));
	xa_store(&h->all, number, s, GFP_KERNEL); /* reserved: can't fail */
	rcu_assign_pointer(h->recent[number % RECENT], s);
	return 0;
}

/*
 * The session with a host, new or not, with a reference in its ->users; or an error. @user: for
 * which a new one counts, or NULL.
 */
static struct treadle_session *host_get(struct net *net, const struct treadle_addr *addr,
					const struct treadle_user *user)
{
	struct treadle_addr key = canonical(addr);
	struct hosts *h = hosts_of(net);
	struct treadle_session *s;
	int ret;

	lockdep_assert_held(&h->lock);
	s = find(h, &key);
	if (s) {
		refcount_inc(&s->links->users); /* not 0, as that changes under @lock */
		return s;
	}
	ret = charge(h, user);
	if (ret)
		return ERR_PTR(ret);
	s = session_alloc(net, &key, true);
	ret = s ? enter(h, s) : -ENOMEM;
	if (ret) {
		if (user)
			uncharge(h, treadle_user_id(user));
		if (s)
			treadle_session_put(s);
		return ERR_PTR(ret);
	}
	s->links->charged = user;
	s->links->user = user ? treadle_user_id(user) : 0;
	return s;
}

/**
 * treadle_host_get() - the number of the host at an address, for an entry of an address vector
 * @net:  network namespace; held
 * @addr: of the host; its port doesn't matter
 * @user: for which the host counts, if it is not known yet
 *
 * Context: may sleep.
 * Return: the number, to be dropped by treadle_host_put(); -ENOMEM; or -EDQUOT: the user has as
 * many as are free.
 */
int treadle_host_get(struct net *net, const struct treadle_addr *addr,
		     const struct treadle_user *user)
{
	struct hosts *h = hosts_of(net);
	struct treadle_session *s;

	mutex_lock(&h->lock);
	s = host_get(net, addr, user);
	mutex_unlock(&h->lock);
	return IS_ERR(s) ? PTR_ERR(s) : s->host;
}

/**
 * treadle_host_drop() - drop one of a session's users
 * @s: the session; held otherwise, too
 *
 * Context: may sleep.
 */
void treadle_host_drop(struct treadle_session *s)
{
	struct hosts *h;

	if (!s->links->listed) {
		if (refcount_dec_and_test(&s->links->users))
			treadle_session_put(s);
		return;
	}
	h = hosts_of(s->links->net);
	if (!refcount_dec_and_mutex_lock(&s->links->users, &h->lock))
		return;
	xa_erase(&h->all, s->host);
	if (rcu_access_pointer(h->recent[s->host % RECENT]) == s)
		RCU_INIT_POINTER(h->recent[s->host % RECENT], NULL);
	rhashtable_remove_fast(&h->by_addr, &s->links->by_addr, by_addr_params);
	h->nr--;
	if (s->links->charged)
		uncharge(h, s->links->user);
	treadle_session_detach(s);
	mutex_unlock(&h->lock);
	treadle_session_put(s);
}

/**
 * treadle_host_put() - drop what treadle_host_get() or treadle_host_hold() has got
 * @net:  network namespace
 * @host: the number
 *
 * Context: may sleep.
 */
void treadle_host_put(struct net *net, u16 host)
{
	struct treadle_session *s = treadle_session_get(net, host);

	if (WARN_ON_ONCE(!s))
		return;
	treadle_host_drop(s);
	treadle_session_put(s);
}

/**
 * treadle_host_hold() - get a host once more
 * @net:  network namespace
 * @host: of which the caller has got the number already
 *
 * Context: any.
 */
void treadle_host_hold(struct net *net, u16 host)
{
	struct treadle_session *s = treadle_session_get(net, host);

	if (WARN_ON_ONCE(!s))
		return;
	refcount_inc(&s->links->users);
	treadle_session_put(s);
}

/**
 * treadle_host_mirror() - the host by which a namespace reaches itself, in tests
 * @net: the network namespace
 *
 * Context: any.
 * Return: its number; TREADLE_HERE: there is none, as usual.
 */
u16 treadle_host_mirror(struct net *net)
{
	return READ_ONCE(hosts_of(net)->mirror);
}

/**
 * treadle_host_address() - the address of a host
 * @net:  network namespace
 * @host: the number
 * @addr: gets the address, with port 0
 *
 * Context: any.
 * Return: false: no host has the number any more.
 */
bool treadle_host_address(struct net *net, u16 host, struct treadle_addr *addr)
{
	struct treadle_session *s;

	rcu_read_lock();
	s = xa_load(&hosts_of(net)->all, host);
	if (s)
		*addr = s->addr; /* constant */
	rcu_read_unlock();
	return s;
}

/**
 * treadle_session_get() - the session with a host
 * @net:  network namespace
 * @host: the number
 *
 * Context: any.
 * Return: the session, held; NULL: no host has the number any more.
 */
TREADLE_HOT struct treadle_session *treadle_session_get(struct net *net, u16 host)
{
	struct hosts *h = hosts_of(net);
	struct treadle_session *s;

	rcu_read_lock_sched(); /* costs no function call */
	s = rcu_dereference_sched(h->recent[host % RECENT]);
	if (unlikely(!s || s->id != host))
		s = host == TREADLE_WAY_BACK ? READ_ONCE(h->back) : xa_load(&h->all, host);
	if (s && !kref_get_unless_zero(&s->ref))
		s = NULL;
	rcu_read_unlock_sched();
	return s;
}

/**
 * treadle_session_next() - the session with the host that has the next larger number
 * @net:    network namespace
 * @number: the number before
 *
 * Context: any.
 * Return: the session, held; NULL: no host has a larger number.
 */
struct treadle_session *treadle_session_next(struct net *net, u32 number)
{
	unsigned long index = number;
	struct treadle_session *s;

	rcu_read_lock();
	do { /* a host that is going is passed over */
		s = xa_find_after(&hosts_of(net)->all, &index, TREADLE_MAX_HOST, XA_PRESENT);
	} while (s && !kref_get_unless_zero(&s->ref));
	rcu_read_unlock();
	return s;
}

/* --- nodes -------------------------------------------------------------------------------- */

/**
 * treadle_host_of() - the session to which an offer of another node belongs
 * @node: that has got the offer
 * @from: address of the other node
 *
 * Context: may sleep.
 * Return: the session, with a reference in its ->users, or an error.
 */
struct treadle_session *treadle_host_of(struct treadle_node *node, const struct treadle_addr *from)
{
	struct hosts *h = hosts_of(node->listen.net);
	struct treadle_session *s = node->peer;

	mutex_lock(&h->lock);
	if (node->closing) {
		s = ERR_PTR(-ESHUTDOWN);
	} else if (node->listen.mirror) {
		refcount_inc(&s->links->users);
	} else {
		s = host_get(node->listen.net, from, NULL);
	}
	mutex_unlock(&h->lock);
	return s;
}

/* A second node of a namespace: the sessions of both with each other have one number. */
static int attach_second(struct hosts *h, struct treadle_node *node)
{
	struct treadle_node *first = rcu_dereference_protected(h->node, lockdep_is_held(&h->lock));
	struct treadle_session *there, *back;

	if (!first || h->second)
		return first ? -EEXIST : -ENOENT;
	back = session_alloc(node->listen.net, &first->listen.addr, false);
	if (!back)
		return -ENOMEM;
	there = host_get(node->listen.net, &node->listen.addr, NULL);
	if (IS_ERR(there)) {
		treadle_session_put(back);
		return PTR_ERR(there);
	}
	there->links->to = node->listen.addr;
	back->links->to = first->listen.addr;
	back->host = there->host;
	back->id = TREADLE_WAY_BACK;
	attach(back, node);
	node->peer = back;
	node->host = there->host;
	h->second = node;
	WRITE_ONCE(h->back, back);
	WRITE_ONCE(h->mirror, there->host);
	return 0;
}

/**
 * treadle_hosts_attach() - a namespace is reached at a node from now on
 * @node: the node
 *
 * Context: may sleep.
 * Return: 0; -EEXIST: it is reached at another one; -ENOENT: a second one needs a first one;
 * or -ENOMEM.
 */
int treadle_hosts_attach(struct treadle_node *node)
{
	struct hosts *h = hosts_of(node->listen.net);
	struct treadle_session *s;
	unsigned long number;
	int ret = 0;

	mutex_lock(&h->lock);
	if (node->listen.mirror) {
		ret = attach_second(h, node);
	} else if (rcu_access_pointer(h->node)) {
		ret = -EEXIST;
	} else {
		xa_for_each(&h->all, number, s)
			attach(s, node);
		rcu_assign_pointer(h->node, node);
	}
	mutex_unlock(&h->lock);
	return ret;
}

/* Let a session leave its node. */
static void close_session(struct treadle_session *s, struct treadle_node *node)
{
	spin_lock(&s->lock);
	if (s->node == node) {
		s->links->closing = true;
		treadle_session_kick(s);
	}
	spin_unlock(&s->lock);
}

/**
 * treadle_hosts_detach() - a namespace is not reached at a node any more
 * @node: the node; no session uses it when this function returns
 *
 * Context: may sleep.
 */
void treadle_hosts_detach(struct treadle_node *node)
{
	struct hosts *h = hosts_of(node->listen.net);
	struct treadle_session *s;
	unsigned long number;

	mutex_lock(&h->lock);
	node->closing = true;
	if (node->listen.mirror) {
		WRITE_ONCE(h->mirror, TREADLE_HERE);
		h->second = NULL;
		close_session(node->peer, node);
	} else {
		RCU_INIT_POINTER(h->node, NULL);
		xa_for_each(&h->all, number, s)
			close_session(s, node);
	}
	mutex_unlock(&h->lock);
	atomic_dec(&node->sessions);
	treadle_wait_var(&node->sessions, !atomic_read(&node->sessions));
	if (node->listen.mirror) {
		WRITE_ONCE(h->back, NULL);
		treadle_host_drop(node->peer);
		treadle_host_put(node->listen.net, node->host);
	}
}

/**
 * treadle_node_address() - the address at which a network namespace is reached
 * @net:  the network namespace
 * @addr: gets the address, with the port at which its transport listens
 *
 * Context: any.
 * Return: false: it isn't reached from other nodes.
 */
bool treadle_node_address(struct net *net, struct treadle_addr *addr)
{
	struct treadle_node *node;

	rcu_read_lock();
	node = rcu_dereference(hosts_of(net)->node);
	if (node)
		*addr = node->listen.addr;
	rcu_read_unlock();
	return node;
}
