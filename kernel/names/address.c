// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: address vectors
 *
 * fi_av(3). A peer takes 28 bytes and a bit. A hash of 256 KiB at most finds the index of a
 * sender. All addresses of this machine with one port are one endpoint, so the hash is by
 * source, and has local peers only. Only one peer of a source is hashed: the others are its
 * twins, in a list off that one.
 *
 * The data path reads entries under RCU. A reader may meet an entry that is removed and used
 * again: it sees the old source or the new one. A search that such an entry has led into another
 * bucket is repeated (av->freed).
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/seqlock.h>
#include <linux/slab.h>
#include <linux/socket.h>

#include "core/limits.h"
#include "names/names.h"

#define NO_ENTRY    U32_MAX
#define MAX_BUCKETS 65536u
#define LOOKS	    16

enum entry_state { ENTRY_FREE, ENTRY_USED, ENTRY_LOCAL };

/*
 * @next: of a hashed entry, the next one in its bucket; of a twin, the next twin
 * @twins: of a hashed entry, its first twin; of a twin, the entry before it
 */
struct av_entry {
	u8 addr[16];
	__be16 port;
	u8 state; /* enum entry_state */
	bool v6 : 1, hashed : 1, scoped : 1;
	u32 next, twins;
};

struct treadle_av_table {
	struct rcu_head rcu;
	u32 capacity, buckets;
	u32 *heads;	     /* behind the entries */
	unsigned long *free; /* behind that, a bit for each entry that was removed */
	u64 *ids;	     /* AV_IDS: behind that, their identifiers in completions; or NULL */
	struct av_entry entries[];
};

static u32 source_of(const struct av_entry *e)
{
	return treadle_source(TREADLE_HERE, ntohs(READ_ONCE(e->port)));
}

static int look_again(struct treadle_av *av, u64 index, u32 context, u64 *name);

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
 * @name:	treadle_name() of the receiver, if there is such an entry
 *
 * An index with a context is larger than any index without one, so most indices skip the check for
 * a context.
 *
 * Context: any.
 * Return: 0, -EDESTADDRREQ: no such entry, or -EHOSTUNREACH: not on this machine.
 */
TREADLE_HOT int treadle_av_resolve(struct treadle_av *av, u64 index, u64 *name)
{
	u32 context = 0;
	struct treadle_av_table *t;
	int ret = -EDESTADDRREQ;

	rcu_read_lock_sched(); /* unlike rcu_read_lock(), no call */
	t = rcu_dereference_sched(av->table);
	if (unlikely(index >= t->capacity))
		context = split_context(av, &index);
	if (index < t->capacity) {
		struct av_entry *e = &t->entries[array_index_nospec(index, t->capacity)];
		u8 state = smp_load_acquire(&e->state); /* pairs with treadle_av_add() */

		*name = treadle_name(source_of(e), context);
		ret = state == ENTRY_LOCAL ? 0 : state == ENTRY_USED ? -EHOSTUNREACH : ret;
	}
	rcu_read_unlock_sched();
	return unlikely(ret == -EHOSTUNREACH) ? look_again(av, index, context, name) : ret;
}

static u32 *bucket_of(struct treadle_av_table *t, u32 source)
{
	return &t->heads[source & (t->buckets - 1)];
}

/* The index of the one hashed entry with @source, or NO_ENTRY. Under RCU or av->lock. */
static u32 find_source(struct treadle_av_table *t, u32 source)
{
	u32 i = READ_ONCE(*bucket_of(t, source)), steps = MAX_BUCKETS / t->buckets;

	/* bounded, as entries may move to other buckets meanwhile */
	while (i < t->capacity && steps--) {
		if (source_of(&t->entries[i]) == source &&
		    READ_ONCE(t->entries[i].state) == ENTRY_LOCAL)
			return i;
		i = READ_ONCE(t->entries[i].next);
	}
	return NO_ENTRY;
}

/**
 * treadle_av_name() - find the name of a peer for a completion
 * @av: vector of the receiver
 * @source: the peer
 * @name: the peer's identifier or index; TREADLE_ADDR_ANY if it has neither
 *
 * Context: any that may enter an RCU reader.
 * Return: whether @av has the peer.
 */
bool treadle_av_name(struct treadle_av *av, u32 source, u64 *name)
{
	struct treadle_av_table *t;
	unsigned int seq, looks = LOOKS;
	u32 i;

	rcu_read_lock();
	do { /* at most LOOKS times; an entry takes longer to be freed than a search */
		seq = read_seqcount_begin(&av->freed);
		t = rcu_dereference(av->table);
		i = find_source(t, source);
		*name = i == NO_ENTRY ? TREADLE_ADDR_ANY : i;
		if (unlikely(t->ids) && i != NO_ENTRY)
			*name = READ_ONCE(t->ids[i]); /* valid if no entry was freed */
	} while (unlikely(i == NO_ENTRY || t->ids) && read_seqcount_retry(&av->freed, seq) &&
		 --looks);
	rcu_read_unlock();
	if (likely(looks))
		return i != NO_ENTRY;
	*name = TREADLE_ADDR_ANY;
	return false;
}

/* --- changes, under av->lock ----------------------------------------------------------------- */

/* Mark an entry free, and make searches that may have met it repeat. */
static void free_entry(struct treadle_av *av, struct treadle_av_table *t, u32 i)
{
	lockdep_assert_held(&av->lock);
	preempt_disable(); /* readers spin meanwhile */
	write_seqcount_begin(&av->freed);
	WRITE_ONCE(t->entries[i].state, ENTRY_FREE);
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

/* Hash a local entry, or make it a twin of the hashed one with its source. */
static void hash_entry(struct treadle_av_table *t, u32 i)
{
	struct av_entry *e = &t->entries[i];
	u32 *head = bucket_of(t, source_of(e)), lead = find_source(t, source_of(e));

	e->hashed = lead == NO_ENTRY;
	if (e->hashed) {
		e->twins = NO_ENTRY;
		WRITE_ONCE(e->next, *head);
		smp_store_release(head, i);
	} else {
		u32 first = t->entries[lead].twins;

		e->twins = lead;
		WRITE_ONCE(e->next, first);
		if (first != NO_ENTRY)
			t->entries[first].twins = i;
		t->entries[lead].twins = i;
	}
}

/* Take a twin out of its list. */
static void unlink_twin(struct treadle_av_table *t, struct av_entry *e)
{
	struct av_entry *before = &t->entries[e->twins];

	if (before->hashed)
		before->twins = e->next;
	else
		WRITE_ONCE(before->next, e->next);
	if (e->next != NO_ENTRY)
		t->entries[e->next].twins = e->twins;
}

/* Take a hashed entry out of its bucket; its first twin, if any, takes its place. */
static void unhash_entry(struct treadle_av_table *t, u32 index)
{
	struct av_entry *e = &t->entries[index];
	u32 *link = bucket_of(t, source_of(e)), heir = e->twins;

	while (*link != index)
		link = &t->entries[*link].next;
	if (heir == NO_ENTRY) {
		WRITE_ONCE(*link, e->next);
		return;
	}
	t->entries[heir].twins = t->entries[heir].next;
	WRITE_ONCE(t->entries[heir].next, e->next);
	t->entries[heir].hashed = true;
	smp_store_release(link, heir);
}

/* An empty table, or NULL. */
static struct treadle_av_table *table_alloc(u32 capacity, bool ids)
{
	u32 buckets = clamp_t(u32, rounddown_pow_of_two(capacity), 16, MAX_BUCKETS);
	struct treadle_av_table *t;
	size_t free = ALIGN(struct_size(t, entries, capacity) + buckets * sizeof(u32), sizeof(u64));
	size_t size = free + ALIGN(BITS_TO_LONGS(capacity) * sizeof(long), sizeof(u64));

	t = treadle_table_alloc(1, size + (ids ? capacity * sizeof(u64) : 0), TREADLE_GFP);
	if (!t)
		return NULL;
	t->free = (void *)t + free;
	t->ids = ids ? (void *)t + size : NULL;
	t->capacity = capacity;
	t->buckets = buckets;
	t->heads = (u32 *)&t->entries[capacity];
	memset(t->heads, 0xff, buckets * sizeof(u32)); /* NO_ENTRY */
	return t;
}

/* Make room for @more entries behind those in use. Returns 0, -ENOSPC or -ENOMEM. */
static int grow(struct treadle_av *av, u32 more)
{
	struct treadle_av_table *old = rcu_dereference_protected(av->table, true), *t;
	u64 want = (u64)av->used + more;
	u32 i;

	lockdep_assert_held(&av->lock);
	if (want <= old->capacity)
		return 0;
	if (want > treadle_max_av)
		return -ENOSPC;
	t = table_alloc(clamp_t(u64, old->capacity + old->capacity / 4, want, treadle_max_av),
			old->ids);
	if (!t)
		return -ENOMEM;
	bitmap_copy(t->free, old->free, av->used);
	for (i = 0; i < av->used; i++) {
		u8 state = old->entries[i].state;

		t->entries[i] = old->entries[i];
		t->entries[i].state =
			ENTRY_FREE; /* find_source() must skip it until it is hashed */
		if (t->ids)
			t->ids[i] = old->ids[i];
		if (state == ENTRY_LOCAL)
			hash_entry(t, i);
		t->entries[i].state = state;
		if (!(i % 4096))
			cond_resched();
	}
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

/**
 * treadle_av_add() - add a peer, for which there is room
 * @av:		the vector
 * @addr:	of the peer, valid
 * @local:	it is of this machine
 * @id:		its identifier, or NULL; not used if the vector has none
 *
 * Context: av->lock held.
 * Return: its index.
 */
u32 treadle_av_add(struct treadle_av *av, const struct treadle_addr *addr, bool local,
		   const u64 *id)
{
	struct treadle_av_table *t = rcu_dereference_protected(av->table, true);
	u32 i = unused_entry(av, t);
	struct av_entry *e = &t->entries[i];

	memcpy(e->addr, addr->addr, sizeof(e->addr));
	e->v6 = addr->family == AF_INET6;
	e->hashed = false;
	e->scoped = e->v6 && has_scope(e->addr);
	if (e->scoped)
		*scope_in(e->addr) = addr->scope;
	WRITE_ONCE(e->port, addr->port);
	if (t->ids) /* before a reader can find the entry */
		WRITE_ONCE(t->ids[i], id ? *id : i);
	if (local)
		hash_entry(t, i);
	smp_store_release(&e->state, local ? ENTRY_LOCAL : ENTRY_USED);
	return i;
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
	return e->state == ENTRY_FREE ? NULL : e;
}

/**
 * treadle_av_remove() - remove the peer at an index
 * @av:		the vector
 * @index:	of the peer
 *
 * Context: av->lock held.
 * Return: 0 or -ENOENT.
 */
int treadle_av_remove(struct treadle_av *av, u64 index)
{
	struct treadle_av_table *t = rcu_dereference_protected(av->table, true);
	struct av_entry *e = used_entry(av, index);

	if (!e)
		return -ENOENT;
	index = e - t->entries;
	if (e->state == ENTRY_LOCAL && e->hashed)
		unhash_entry(t, index);
	else if (e->state == ENTRY_LOCAL)
		unlink_twin(t, e);
	free_entry(av, t, index);
	return 0;
}

static void entry_address(const struct av_entry *e, struct treadle_addr *addr)
{
	memset(addr, 0, sizeof(*addr));
	memcpy(addr->addr, e->addr, sizeof(e->addr));
	addr->family = e->v6 ? AF_INET6 : AF_INET;
	addr->port = e->port;
	if (e->scoped) {
		addr->scope = *scope_in(addr->addr);
		*scope_in(addr->addr) = 0;
	}
}

/**
 * treadle_av_address() - the address of the peer at an index
 * @av:		the vector
 * @index:	of the peer
 * @addr:	set to its address
 *
 * Context: av->lock held.
 * Return: 0 or -ENOENT.
 */
int treadle_av_address(struct treadle_av *av, u64 index, struct treadle_addr *addr)
{
	const struct av_entry *e = used_entry(av, index);

	if (!e)
		return -ENOENT;
	entry_address(e, addr);
	return 0;
}

/*
 * This machine has got the address of an entry since it was inserted: from now on the entry is
 * local. @seq: of av->freed when the address was read; if no entry was freed since, the entry is
 * the same. If another writer has av->lock, the next look does this.
 */
static void make_local(struct treadle_av *av, u64 index, unsigned int seq)
{
	struct treadle_av_table *t;
	struct av_entry *e;

	if (!mutex_trylock(&av->lock))
		return;
	t = rcu_dereference_protected(av->table, lockdep_is_held(&av->lock));
	e = &t->entries[index];
	if (e->state == ENTRY_USED && !read_seqcount_retry(&av->freed, seq)) {
		hash_entry(t, index);
		smp_store_release(&e->state, ENTRY_LOCAL);
	}
	mutex_unlock(&av->lock);
}

/*
 * The address of a peer was none of this machine's when it was inserted: look again. Does not
 * sleep. Returns 0 with its name, or -EHOSTUNREACH.
 */
static noinline int look_again(struct treadle_av *av, u64 index, u32 context, u64 *name)
{
	struct treadle_av_table *t;
	unsigned int seq, looks = LOOKS;
	struct treadle_addr addr;
	struct av_entry *e;
	bool used;

	do { /* at most LOOKS times, as in treadle_av_name() */
		rcu_read_lock();
		seq = read_seqcount_begin(&av->freed);
		t = rcu_dereference(av->table);
		index = array_index_nospec(index, t->capacity);
		e = &t->entries[index];
		used = smp_load_acquire(&e->state) != ENTRY_FREE; /* pairs with treadle_av_add() */
		*name = treadle_name(source_of(e), context);
		data_race((entry_address(e, &addr), 0)); /* valid if no entry was freed */
		rcu_read_unlock();
	} while (read_seqcount_retry(&av->freed, seq) && --looks);
	if (!used || !looks || !treadle_addr_local(av->net, &addr))
		return -EHOSTUNREACH;
	make_local(av, index, seq);
	return 0;
}

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
 * @net:	network namespace of its addresses; held by those that refer to the vector
 * @arg:	parameters of AV_CREATE, checked
 *
 * Context: may sleep.
 * Return: the vector, held by the caller, or -ENOMEM.
 */
struct treadle_av *treadle_av_alloc(struct net *net, const struct treadle_av_create *arg)
{
	struct treadle_av *av = kzalloc(sizeof(*av), TREADLE_GFP);
	/* @count is only a hint: don't use much memory before there are peers */
	struct treadle_av_table *t =
		table_alloc(clamp(arg->count, 16u, 4096u), arg->flags & TREADLE_AV_IDS);

	if (!av || !t) {
		kfree(av);
		kvfree(t);
		return ERR_PTR(-ENOMEM);
	}
	RCU_INIT_POINTER(av->table, t);
	av->net = net;
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

	kvfree(rcu_dereference_protected(av->table, true));
	kfree(av);
}
