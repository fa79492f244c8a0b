// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: address vectors
 *
 * fi_av(3). A peer takes 29 bytes and a bit, and a hash of 1 MiB at most finds the index of a
 * sender. All addresses of this machine with one port are one endpoint, so the hash is by source.
 * Only one peer of a source is hashed: the others are its twins, in a list off that one.
 *
 * A peer of another node holds the number of its host (node/host.c).
 *
 * The data path reads entries under RCU. A reader may meet an entry that is removed and used
 * again: it sees the old source or the new one. A search that such an entry has led into another
 * bucket is repeated (av->freed).
 */
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/seqlock.h>
#include <linux/slab.h>
#include <linux/socket.h>

#include "core/limits.h"
#include "names/names.h"
#include "names/table.h"
#include "node/node.h"

#define LOOKS 16

static int look_again(struct treadle_av *av, u64 index, u32 context, u64 *dest);

/* --- lookups of the data path --------------------------------------------------------- */

/* Take the receive context out of the high bits of *@index. Returns it. */
static u32 split_context(const struct treadle_av *av, u64 *index)
{
	u32 context;

	if (!av->ctx_bits)
		return 0;
	context = *index >> (64 - av->ctx_bits);
	*index &= U64_MAX >> av->ctx_bits;
	return context;
}

/**
 * treadle_av_resolve() - find the receiver that an index names
 * @av:		the sender's vector
 * @index:	of a peer, with a receive context in its high bits
 * @dest:	treadle_dest() of the receiver, if there is such an entry
 *
 * An index with a context is larger than any index without one, so most indices skip the check for
 * a context.
 *
 * Context: any.
 * Return: 0, -EDESTADDRREQ: no such entry, or -EHOSTUNREACH: not on this machine, nor on a host
 * that is known: treadle_av_reach() looks for one.
 */
TREADLE_HOT int treadle_av_resolve(struct treadle_av *av, u64 index, u64 *dest)
{
	u32 context = 0, source = treadle_source(UNREACHED, 0);
	struct treadle_av_table *t;

	rcu_read_lock_sched(); /* unlike rcu_read_lock(), no call */
	t = rcu_dereference_sched(av->table);
	if (unlikely(index >= t->capacity))
		context = split_context(av, &index);
	if (index < t->capacity)
		source = source_of(&t->entries[array_index_nospec(index, t->capacity)]);
	rcu_read_unlock_sched();
	*dest = treadle_dest(source, context);
	return likely(reached(source)) ? 0 : look_again(av, index, context, dest);
}

/**
 * treadle_av_peer() - find what a completion reports of a peer
 * @av: vector of the receiver
 * @source: the peer
 * @addr: its identifier or index; TREADLE_ADDR_ANY if it has neither
 *
 * Context: any that may enter an RCU reader.
 * Return: whether @av has the peer.
 */
bool treadle_av_peer(struct treadle_av *av, u32 source, u64 *addr)
{
	struct treadle_av_table *t;
	unsigned int seq, looks = LOOKS;
	u32 i;

	rcu_read_lock();
	do { /* at most LOOKS times; an entry takes longer to be freed than a search */
		seq = read_seqcount_begin(&av->freed);
		t = rcu_dereference(av->table);
		i = find_source(t, source);
		*addr = i == NO_ENTRY ? TREADLE_ADDR_ANY : i;
		if (unlikely(t->ids) && i != NO_ENTRY)
			*addr = READ_ONCE(t->ids[i]); /* valid if no entry was freed */
	} while (unlikely(i == NO_ENTRY || t->ids) && read_seqcount_retry(&av->freed, seq) &&
		 --looks);
	rcu_read_unlock();
	if (likely(looks))
		return i != NO_ENTRY;
	*addr = TREADLE_ADDR_ANY;
	return false;
}

/* --- changes, under av->lock ----------------------------------------------------------------- */

/* Mark an entry free, and make searches that may have met it repeat. */
static void free_entry(struct treadle_av *av, struct treadle_av_table *t, u32 i)
{
	lockdep_assert_held(&av->lock);
	preempt_disable(); /* readers spin meanwhile */
	write_seqcount_begin(&av->freed);
	WRITE_ONCE(t->entries[i].where, 0);
	WRITE_ONCE(t->flags[i], 0);
	write_seqcount_end(&av->freed);
	preempt_enable();
	__set_bit(i, t->free);
	av->lowest = min(av->lowest, i);
	av->holes++;
}

/* Take the lowest free index, for fi_av(3). The bits of a million entries are 16384 words. */
static u32 unused_entry(struct treadle_av *av, struct treadle_av_table *t)
{
	u32 i;

	lockdep_assert_held(&av->lock);
	if (!av->holes)
		return av->used++;
	i = find_next_bit(t->free, av->used, av->lowest);
	__clear_bit(i, t->free);
	av->lowest = i + 1;
	av->holes--;
	return i;
}

/* The peer of an entry is at @host, which the entry holds unless it is this machine. */
static void set_source(struct treadle_av_table *t, u32 i, u32 host, u16 port)
{
	WRITE_ONCE(t->entries[i].where, ~treadle_source(host, port));
	if (host != UNREACHED)
		treadle_av_hash(t, i);
}

/* Make room for @more entries behind those in use. Returns 0, -ENOSPC or -ENOMEM. */
static int grow(struct treadle_av *av, u32 more)
{
	struct treadle_av_table *old = rcu_dereference_protected(av->table, true), *t;
	u64 want = (u64)av->used + more;

	lockdep_assert_held(&av->lock);
	if (want <= old->capacity)
		return 0;
	if (want > treadle_max_av)
		return -ENOSPC;
	t = treadle_av_table_copy(old, av->used,
				  clamp_t(u64, old->capacity + old->capacity / 4, want,
					  treadle_max_av));
	if (!t)
		return -ENOMEM;
	rcu_assign_pointer(av->table, t);
	kvfree_rcu(old, rcu);
	return 0;
}

/*
 * A link-local address means nothing without its interface. The scope is kept in bytes of the
 * address that are zero in all link-local addresses in use; has_scope() checks that. The scope of
 * any other address means nothing.
 */
static u32 *scope_in(u8 *addr)
{
	return (u32 *)(addr + 4);
}

static bool has_scope(u8 *addr)
{
	return addr[0] == 0xfe && (addr[1] & 0xc0) == 0x80 && !*scope_in(addr);
}

/**
 * treadle_av_reserve() - make room for @count more peers
 * @av:		the vector
 * @count:	of them
 *
 * Context: may sleep. av->lock held.
 * Return: 0, -ENOSPC or -ENOMEM.
 */
int treadle_av_reserve(struct treadle_av *av, u32 count)
{
	return count > av->holes ? grow(av, count - av->holes) : 0;
}

/*
 * The host at an address. TREADLE_HERE, UNREACHED, or one that the caller holds now: put_host();
 * or -ENOMEM or -EDQUOT. May sleep.
 */
static int get_host(struct treadle_av *av, const struct treadle_addr *addr)
{
	struct net *net = av->net;
	struct treadle_addr node;

	if (treadle_addr_local(net, addr)) {
		u16 mirror = treadle_host_mirror(net);

		if (likely(mirror == TREADLE_HERE) || !treadle_host_address(net, mirror, &node))
			return TREADLE_HERE;
		return treadle_host_get(net, &node, av->user);
	}
	if (!treadle_node_address(net, &node))
		return UNREACHED;
	return treadle_host_get(net, addr, av->user);
}

static void put_host(struct treadle_av *av, u16 host)
{
	if (host != TREADLE_HERE && host != UNREACHED)
		treadle_host_put(av->net, host);
}

/**
 * treadle_av_add() - add a peer, for which there is room
 * @av:		the vector
 * @addr:	of the peer, valid
 * @id:		its identifier, or NULL; not used if the vector has none
 * @index:	set to its index
 *
 * Context: may sleep. av->lock held.
 * Return: 0, -ENOMEM, or -EDQUOT: the user of the vector has named too many nodes.
 */
int treadle_av_add(struct treadle_av *av, const struct treadle_addr *addr, const u64 *id,
		   u64 *index)
{
	struct treadle_av_table *t = rcu_dereference_protected(av->table, true);
	int host = get_host(av, addr);
	struct av_entry *e;
	u8 flags = ENTRY_USED;
	u32 i;

	if (host < 0)
		return host;
	i = unused_entry(av, t);
	e = &t->entries[i];
	memcpy(e->addr, addr->addr, sizeof(e->addr));
	if (addr->family == AF_INET6)
		flags |= ENTRY_V6 | (has_scope(e->addr) ? ENTRY_SCOPED : 0);
	if (flags & ENTRY_SCOPED)
		*scope_in(e->addr) = addr->scope;
	smp_store_release(&t->flags[i], flags); /* the address before it; pairs with look() */
	if (t->ids)				/* before a reader can find the entry */
		WRITE_ONCE(t->ids[i], id ? *id : i);
	set_source(t, i, host, ntohs(addr->port));
	*index = i;
	return 0;
}

/* The entry at @index if it is in use, or NULL. */
static struct av_entry *used_entry(struct treadle_av *av, u64 index)
{
	struct treadle_av_table *t =
		rcu_dereference_protected(av->table, lockdep_is_held(&av->lock));
	struct av_entry *e;

	if (index >= av->used)
		return NULL;
	e = &t->entries[array_index_nospec(index, av->used)];
	return t->flags[e - t->entries] & ENTRY_USED ? e : NULL;
}

/**
 * treadle_av_remove() - remove the peer at an index
 * @av:		the vector
 * @index:	of the peer
 *
 * Context: may sleep. av->lock held.
 * Return: 0 or -ENOENT.
 */
int treadle_av_remove(struct treadle_av *av, u64 index)
{
	struct treadle_av_table *t = rcu_dereference_protected(av->table, true);
	struct av_entry *e = used_entry(av, index);
	u32 source;

	if (!e)
		return -ENOENT;
	index = e - t->entries;
	source = source_of(e);
	if (reached(source))
		treadle_av_unhash(t, index);
	free_entry(av, t, index);
	put_host(av, treadle_source_host(source));
	return 0;
}

static void entry_address(const struct treadle_av_table *t, u32 i, struct treadle_addr *addr)
{
	const struct av_entry *e = &t->entries[i];
	u8 flags = t->flags[i];

	memset(addr, 0, sizeof(*addr));
	memcpy(addr->addr, e->addr, sizeof(e->addr));
	addr->family = flags & ENTRY_V6 ? AF_INET6 : AF_INET;
	addr->port = htons(treadle_source_port(source_of(e)));
	if (flags & ENTRY_SCOPED) {
		addr->scope = *scope_in(addr->addr);
		*scope_in(addr->addr) = 0;
	}
}

/**
 * treadle_av_address() - the address of the peer at an index
 * @av:		the vector
 * @index:	of the peer
 * @addr:	set to its address
 * @source:	set to what it is as a source; see treadle_addr_common()
 *
 * Context: av->lock held.
 * Return: 0 or -ENOENT.
 */
int treadle_av_address(struct treadle_av *av, u64 index, struct treadle_addr *addr, u32 *source)
{
	struct treadle_av_table *t = rcu_dereference_protected(av->table, true);
	const struct av_entry *e = used_entry(av, index);

	if (!e)
		return -ENOENT;
	entry_address(t, e - t->entries, addr);
	*source = source_of(e);
	return 0;
}

/* --- entries that were not reached when they were inserted ------------------------------------ */

/*
 * Read the address of the peer at an index. @seq: of av->freed: if no entry was freed since, the
 * entry is the same. Does not sleep. Returns 0, -EDESTADDRREQ: there is no such entry, or
 * -EHOSTUNREACH: entries are freed all the time.
 */
static int look(struct treadle_av *av, u64 index, struct treadle_addr *addr, unsigned int *seq)
{
	struct treadle_av_table *t;
	unsigned int looks = LOOKS;
	bool used;

	do { /* at most LOOKS times, as in treadle_av_peer() */
		rcu_read_lock();
		*seq = read_seqcount_begin(&av->freed);
		t = rcu_dereference(av->table);
		used = false;
		if (index < t->capacity) {
			u32 i = array_index_nospec(index, t->capacity);

			/* pairs with treadle_av_add() */
			used = smp_load_acquire(&t->flags[i]) & ENTRY_USED;
			data_race((entry_address(t, i, addr), 0)); /* valid if no entry was freed */
		}
		rcu_read_unlock();
	} while (read_seqcount_retry(&av->freed, *seq) && --looks);
	if (!looks)
		return -EHOSTUNREACH;
	return used ? 0 : -EDESTADDRREQ;
}

/*
 * The address of an entry is at @host now, which the entry holds from now on. @seq: when that was
 * read. False: the entry is another one, or was found by another call.
 */
static bool found(struct treadle_av *av, u64 index, unsigned int seq, u32 host)
{
	struct treadle_av_table *t =
		rcu_dereference_protected(av->table, lockdep_is_held(&av->lock));
	u32 source = source_of(&t->entries[index]);

	if (read_seqcount_retry(&av->freed, seq) || reached(source))
		return false;
	set_source(t, index, host, treadle_source_port(source));
	return true;
}

/*
 * The address of a peer was none of this machine's when it was inserted: look again. Does not
 * sleep. If another writer has av->lock, the next look changes the entry. Returns as
 * treadle_av_resolve().
 */
static noinline int look_again(struct treadle_av *av, u64 index, u32 context, u64 *dest)
{
	struct treadle_addr addr;
	unsigned int seq;
	int ret = look(av, index, &addr, &seq);

	if (ret)
		return ret;
	if (!treadle_addr_local(av->net, &addr))
		return -EHOSTUNREACH;
	*dest = treadle_dest(treadle_source(TREADLE_HERE, ntohs(addr.port)), context);
	if (mutex_trylock(&av->lock)) {
		found(av, index, seq, TREADLE_HERE);
		mutex_unlock(&av->lock);
	}
	return 0;
}

/**
 * treadle_av_reach() - look for the host of a peer that treadle_av_resolve() does not find
 * @av:		the sender's vector
 * @index:	of the peer, with a receive context in its high bits
 * @dest:	as for treadle_av_resolve()
 *
 * The entry was inserted when this machine had no address for other nodes.
 *
 * Context: may sleep. Takes av->lock.
 * Return: as treadle_av_resolve().
 */
int treadle_av_reach(struct treadle_av *av, u64 index, u64 *dest)
{
	struct treadle_addr addr;
	u64 plain = index;
	unsigned int seq;
	int ret, host;

	split_context(av, &plain);
	ret = look(av, plain, &addr, &seq);
	if (ret)
		return ret;
	host = get_host(av, &addr);
	if (host < 0 || host == UNREACHED)
		return -EHOSTUNREACH;
	/* killable: another context that shares the vector may fault for long under av->lock */
	ret = mutex_lock_killable(&av->lock);
	if (ret || !found(av, plain, seq, host))
		put_host(av, host);
	if (ret)
		return -EHOSTUNREACH;
	mutex_unlock(&av->lock);
	return treadle_av_resolve(av, index, dest);
}

/* --- identifiers ------------------------------------------------------------------------------ */

/**
 * treadle_av_has_ids() - do peers have identifiers?
 * @av:	the vector
 *
 * Context: av->lock held.
 */
bool treadle_av_has_ids(struct treadle_av *av)
{
	return rcu_dereference_protected(av->table, lockdep_is_held(&av->lock))->ids;
}

/**
 * treadle_av_set_id() - change the identifier of a peer
 * @av:		the vector
 * @index:	of the peer
 * @id:		its new identifier
 *
 * A completion has the old identifier or the new one: each is read and written whole.
 *
 * Context: av->lock held.
 * Return: 0. -EINVAL: no vector with identifiers; -ENOENT: the index has no peer.
 */
int treadle_av_set_id(struct treadle_av *av, u64 index, u64 id)
{
	struct treadle_av_table *t =
		rcu_dereference_protected(av->table, lockdep_is_held(&av->lock));
	const struct av_entry *e = used_entry(av, index);

	if (!t->ids)
		return -EINVAL;
	if (!e)
		return -ENOENT;
	WRITE_ONCE(t->ids[e - t->entries], id);
	return 0;
}

/* --- beginning and end ------------------------------------------------------------------------ */

/**
 * treadle_av_alloc() - make an empty address vector
 * @ctx:	its network namespace is that of the addresses; held by those that refer to the
 *		vector. Other nodes count for its user
 * @arg:	parameters of AV_CREATE, checked
 *
 * Context: may sleep.
 * Return: the vector, held by the caller, or -ENOMEM.
 */
struct treadle_av *treadle_av_alloc(struct treadle_ctx *ctx, const struct treadle_av_create *arg)
{
	struct treadle_av *av = kzalloc(sizeof(*av), TREADLE_GFP);
	/* @count is only a hint: don't use much memory before there are peers */
	struct treadle_av_table *t =
		treadle_av_table_alloc(clamp(arg->count, 16u, 4096u), arg->flags & TREADLE_AV_IDS);

	if (!av || !t) {
		kfree(av);
		kvfree(t);
		return ERR_PTR(-ENOMEM);
	}
	RCU_INIT_POINTER(av->table, t);
	av->net = ctx->net;
	av->user = treadle_user_hold(ctx->user);
	av->ctx_bits = arg->rx_ctx_bits;
	mutex_init(&av->lock);
	seqcount_init(&av->freed);
	kref_init(&av->ref);
	return av;
}

/**
 * treadle_av_release() - free an address vector: for kref_put()
 * @ref:	of the vector
 *
 * Its table is freed without a grace period: readers hold the vector, and memory that is freed
 * later could pile up beyond any limit.
 *
 * Context: may sleep.
 */
void treadle_av_release(struct kref *ref)
{
	struct treadle_av *av = container_of(ref, struct treadle_av, ref);
	struct treadle_av_table *t = rcu_dereference_protected(av->table, true);
	u32 i;

	for (i = 0; i < av->used; i++) {
		put_host(av, treadle_source_host(source_of(&t->entries[i])));
		if (!(i % 4096))
			cond_resched();
	}
	treadle_user_put(av->user);
	kvfree(t);
	kfree(av);
}
