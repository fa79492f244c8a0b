// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: address vectors
 *
 * fi_av(3). A peer takes 28 bytes and a bit. A hash of 256 KiB at most finds the index of a
 * sender. All addresses of this machine with one port are one endpoint, so the hash is by
 * port, and has local peers only. Only one peer of a port is hashed: the others are its twins,
 * in a list off that one.
 *
 * The data path reads entries under RCU. A reader may meet an entry that is removed and used
 * again: it sees the old port or the new one. A search that such an entry has led into another
 * bucket is repeated (av->freed).
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/seqlock.h>
#include <linux/slab.h>
#include <linux/socket.h>
#include <linux/uaccess.h>

#include "core/limits.h"
#include "names/names.h"

#define NO_ENTRY    U32_MAX
#define MAX_BUCKETS 65536u
#define COPY_BATCH  32u
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
TREADLE_HOT int treadle_av_resolve(struct treadle_av *av, u64 index, u32 *name)
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
		u8 state = smp_load_acquire(&e->state); /* pairs with insert_one() */

		*name = treadle_name(ntohs(READ_ONCE(e->port)), context);
		ret = state == ENTRY_LOCAL ? 0 : state == ENTRY_USED ? -EHOSTUNREACH : ret;
	}
	rcu_read_unlock_sched();
	return ret;
}

static u32 *bucket_of(struct treadle_av_table *t, __be16 port)
{
	return &t->heads[ntohs(port) & (t->buckets - 1)];
}

/* The index of the one hashed entry with @port, or NO_ENTRY. Under RCU or av->lock. */
static u32 find_port(struct treadle_av_table *t, __be16 port)
{
	u32 i = READ_ONCE(*bucket_of(t, port)), steps = MAX_BUCKETS / t->buckets;

	/* bounded, as entries may move to other buckets meanwhile */
	while (i < t->capacity && steps--) {
		if (READ_ONCE(t->entries[i].port) == port &&
		    READ_ONCE(t->entries[i].state) == ENTRY_LOCAL)
			return i;
		i = READ_ONCE(t->entries[i].next);
	}
	return NO_ENTRY;
}

/**
 * treadle_av_name() - find the name of a peer for a completion
 * @av: vector of the receiver
 * @port: of the peer
 * @name: the peer's identifier or index; TREADLE_ADDR_ANY if it has neither
 *
 * Context: any that may enter an RCU reader.
 * Return: whether @av has the peer.
 */
bool treadle_av_name(struct treadle_av *av, u16 port, u64 *name)
{
	struct treadle_av_table *t;
	unsigned int seq, looks = LOOKS;
	u32 i;

	rcu_read_lock();
	do { /* at most LOOKS times; an entry takes longer to be freed than a search */
		seq = read_seqcount_begin(&av->freed);
		t = rcu_dereference(av->table);
		i = find_port(t, htons(port));
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

/* Hash a local entry, or make it a twin of the hashed one with its port. */
static void hash_entry(struct treadle_av_table *t, u32 i)
{
	struct av_entry *e = &t->entries[i];
	u32 *head = bucket_of(t, e->port), lead = find_port(t, e->port);

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
	u32 *link = bucket_of(t, e->port), heir = e->twins;

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
		t->entries[i].state = ENTRY_FREE; /* find_port() must skip it until it is hashed */
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

/* Add a peer; returns its index. There is room for it. */
static u32 insert_one(struct treadle_av *av, const struct treadle_addr *addr, bool local,
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

/* Remove the peer at @index. Returns 0 or -ENOENT. */
static int remove_one(struct treadle_av *av, u64 index)
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

/* --- ioctls ---------------------------------------------------------------------------------- */

/* Find and hold an address vector. */
static struct treadle_av_obj *av_get(struct treadle_ctx *ctx, u32 id)
{
	struct treadle_obj *obj = treadle_obj_get(ctx, id, TREADLE_AV);

	return IS_ERR(obj) ? ERR_CAST(obj) : container_of(obj, struct treadle_av_obj, obj);
}

/* The same, for a change: -EACCES if it is read-only for this context. */
static struct treadle_av_obj *av_get_writable(struct treadle_ctx *ctx, u32 id)
{
	struct treadle_av_obj *o = av_get(ctx, id);

	if (!IS_ERR(o) && o->read_only) {
		treadle_obj_put(&o->obj);
		return ERR_PTR(-EACCES);
	}
	return o;
}

/**
 * treadle_av_alloc() - make an empty address vector
 * @arg:	parameters of AV_CREATE, checked
 *
 * Context: may sleep.
 * Return: the vector, held by the caller, or -ENOMEM.
 */
struct treadle_av *treadle_av_alloc(const struct treadle_av_create *arg)
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

static void av_free(struct treadle_obj *obj)
{
	treadle_av_forget(container_of(obj, struct treadle_av_obj, obj)->av);
}

static const struct treadle_obj_ops av_ops = { .type = TREADLE_AV, .free = av_free };

/**
 * treadle_ioc_av_create() - AV_CREATE: make an address vector, or open one by its name
 * @u:	the call, with a struct treadle_av_create
 *
 * Context: may sleep.
 * Return: 0 or -errno.
 */
int treadle_ioc_av_create(struct treadle_ucmd *u)
{
	struct treadle_av_create *arg = u->arg;
	bool read_only = arg->flags & TREADLE_AV_READ, ids = arg->flags & TREADLE_AV_IDS;
	struct treadle_av_obj *o;
	int ret;

	if ((arg->flags & ~(TREADLE_AV_READ | TREADLE_AV_IDS)) ||
	    arg->rx_ctx_bits > TREADLE_RX_CTX_BITS || !arg->name != !arg->name_size ||
	    (read_only && !arg->name) || (ids && arg->name))
		return -EINVAL;
	if (arg->count > treadle_max_av)
		return -ENOSPC;
	o = kzalloc(sizeof(*o), TREADLE_GFP);
	if (!o)
		return -ENOMEM;
	o->read_only = read_only;
	o->av = arg->name ? treadle_av_open(u->ctx, arg) : treadle_av_alloc(arg);
	ret = PTR_ERR_OR_ZERO(o->av);
	if (!ret) {
		ret = treadle_obj_init(u->ctx, &o->obj, &av_ops);
		if (ret)
			treadle_av_forget(o->av);
	}
	if (ret) {
		kfree(o);
		return ret;
	}
	arg->id = o->obj.id;
	u->new = &o->obj;
	return 0;
}

/* Insert @n addresses. index[i] is TREADLE_ADDR_ANY for an invalid one. */
static void insert_batch(struct treadle_av *av, struct net *net, const struct treadle_addr *addrs,
			 const u64 *ids, u64 *index, u32 n, u32 *inserted)
{
	u32 i;

	for (i = 0; i < n; i++) {
		index[i] = TREADLE_ADDR_ANY;
		if (!treadle_addr_valid(&addrs[i]))
			continue;
		index[i] = insert_one(av, &addrs[i], treadle_addr_local(net, &addrs[i]),
				      ids ? &ids[i] : NULL);
		(*inserted)++;
	}
}

/*
 * Fault in @len bytes of the caller's, before room is made for them, and without av->lock. The copy
 * checks again. Bounded, as the caller passes treadle_max_av entries at most, and killable.
 * Returns 0, -EFAULT or -EINTR.
 */
static int readable(u64 addr, u64 len)
{
	u64 n;

	for (; len; addr += n, len -= n) {
		n = min_t(u64, len, SZ_1M);
		if (fault_in_readable(u64_to_user_ptr(addr), n))
			return -EFAULT;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/**
 * treadle_ioc_av_insert() - AV_INSERT: add peers
 * @u:	the call, with a struct treadle_av_insert; its @count becomes the number of those added
 *
 * Context: may sleep. Takes av->lock.
 * Return: 0 or -errno; some peers may have been added before an error.
 */
int treadle_ioc_av_insert(struct treadle_ucmd *u)
{
	struct treadle_av_insert *arg = u->arg;
	struct treadle_addr addrs[COPY_BATCH];
	u32 count = arg->count, done, n;
	u64 index[COPY_BATCH], ids[COPY_BATCH];
	struct treadle_av_obj *o;
	struct treadle_av *av;
	int ret = 0;

	arg->count = 0;
	if (arg->flags)
		return -EINVAL;
	o = av_get_writable(u->ctx, arg->av);
	if (IS_ERR(o))
		return PTR_ERR(o);
	av = o->av;
	ret = count > treadle_max_av ? -ENOSPC : readable(arg->addrs, count * sizeof(*addrs));
	if (!ret && arg->ids)
		ret = readable(arg->ids, count * sizeof(*ids));
	if (ret) {
		treadle_obj_put(&o->obj);
		return ret;
	}
	/* killable: another context that shares the vector may fault for long under av->lock */
	if (mutex_lock_killable(&av->lock)) {
		treadle_obj_put(&o->obj);
		return -EINTR;
	}
	if (arg->ids && !rcu_dereference_protected(av->table, true)->ids)
		ret = -EINVAL;
	else if (count > av->holes)
		ret = grow(av, count - av->holes);
	for (done = 0; done < count && !ret; done += n) {
		n = min(count - done, COPY_BATCH);
		if (copy_from_user(addrs, u64_to_user_ptr(arg->addrs) + done * sizeof(*addrs),
				   n * sizeof(*addrs)) ||
		    (arg->ids &&
		     copy_from_user(ids, u64_to_user_ptr(arg->ids) + done * sizeof(*ids),
				    n * sizeof(*ids)))) {
			ret = -EFAULT;
			break;
		}
		insert_batch(av, u->ctx->net, addrs, arg->ids ? ids : NULL, index, n, &arg->count);
		if (arg->out && copy_to_user(u64_to_user_ptr(arg->out) + done * sizeof(*index),
					     index, n * sizeof(*index)))
			ret = -EFAULT;
		if (fatal_signal_pending(current))
			ret = -EINTR;
		cond_resched();
	}
	mutex_unlock(&av->lock);
	treadle_obj_put(&o->obj);
	return ret;
}

/**
 * treadle_ioc_av_remove() - AV_REMOVE: remove peers
 * @u:	the call, with a struct treadle_av_remove
 *
 * Context: may sleep. Takes av->lock, for one peer at a time.
 * Return: 0 or -errno. -ENOENT: an index has no peer; the others are removed.
 */
int treadle_ioc_av_remove(struct treadle_ucmd *u)
{
	struct treadle_av_remove *arg = u->arg;
	struct treadle_av_obj *o;
	struct treadle_av *av;
	int ret = 0;
	u64 index;
	u32 i;

	if (arg->flags)
		return -EINVAL;
	o = av_get_writable(u->ctx, arg->av);
	if (IS_ERR(o))
		return PTR_ERR(o);
	av = o->av;
	for (i = 0; i < arg->count && !fatal_signal_pending(current); i++) {
		if (get_user(index, (u64 __user *)u64_to_user_ptr(arg->indices) + i)) {
			ret = -EFAULT;
			break;
		}
		if (mutex_lock_killable(&av->lock)) {
			ret = -EINTR;
			break;
		}
		ret = remove_one(av, index) ?: ret;
		mutex_unlock(&av->lock);
		cond_resched();
	}
	treadle_obj_put(&o->obj);
	return ret;
}

/**
 * treadle_ioc_av_lookup() - AV_LOOKUP: the address of a peer
 * @u:	the call, with a struct treadle_av_lookup
 *
 * Context: may sleep. Takes av->lock.
 * Return: 0 or -errno. -ENOENT: the index has no peer.
 */
int treadle_ioc_av_lookup(struct treadle_ucmd *u)
{
	struct treadle_av_lookup *arg = u->arg;
	const struct av_entry *e;
	struct treadle_av_obj *o;
	struct treadle_av *av;
	int ret = -ENOENT;

	o = av_get(u->ctx, arg->av);
	if (IS_ERR(o))
		return PTR_ERR(o);
	av = o->av;
	if (mutex_lock_killable(&av->lock)) {
		treadle_obj_put(&o->obj);
		return -EINTR;
	}
	e = used_entry(av, arg->index);
	if (e) {
		memset(&arg->addr, 0, sizeof(arg->addr));
		memcpy(arg->addr.addr, e->addr, sizeof(e->addr));
		arg->addr.family = e->v6 ? AF_INET6 : AF_INET;
		arg->addr.port = e->port;
		if (e->scoped) {
			arg->addr.scope = *scope_in(arg->addr.addr);
			*scope_in(arg->addr.addr) = 0;
		}
		ret = 0;
	}
	mutex_unlock(&av->lock);
	treadle_obj_put(&o->obj);
	return ret;
}

/**
 * treadle_ioc_av_set_id() - AV_SET_ID: change the identifier of a peer in completions
 * @u:	the call, with a struct treadle_av_set_id
 *
 * A completion has the old identifier or the new one: each is read and written whole.
 *
 * Context: may sleep. Takes av->lock.
 * Return: 0 or -errno. -EINVAL: no vector with identifiers; -ENOENT: the index has no peer.
 */
int treadle_ioc_av_set_id(struct treadle_ucmd *u)
{
	struct treadle_av_set_id *arg = u->arg;
	struct treadle_av_obj *o = av_get_writable(u->ctx, arg->av);
	const struct av_entry *e;
	struct treadle_av_table *t;
	int ret = 0;

	if (IS_ERR(o))
		return PTR_ERR(o);
	if (mutex_lock_killable(&o->av->lock)) {
		treadle_obj_put(&o->obj);
		return -EINTR;
	}
	t = rcu_dereference_protected(o->av->table, lockdep_is_held(&o->av->lock));
	e = used_entry(o->av, arg->index);
	if (!t->ids)
		ret = -EINVAL;
	else if (!e)
		ret = -ENOENT;
	else
		WRITE_ONCE(t->ids[e - t->entries], arg->id);
	mutex_unlock(&o->av->lock);
	treadle_obj_put(&o->obj);
	return ret;
}
