// SPDX-License-Identifier: GPL-2.0
/* treadle: calls on address vectors, fi_av(3); address.c has what a vector is */
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "core/limits.h"
#include "names/names.h"

#define COPY_BATCH 32u

/* Find and hold an address vector. Returns it, -ENOENT or -EBADF. */
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
	o->av = arg->name ? treadle_av_open(u->ctx, arg) : treadle_av_alloc(u->ctx, arg);
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

/*
 * Insert @n addresses. index[i] is TREADLE_ADDR_ANY for an invalid one, and behind an error.
 * Returns 0 or -ENOMEM.
 */
static int insert_batch(struct treadle_av *av, const struct treadle_addr *addrs, const u64 *ids,
			u64 *index, u32 n, u32 *inserted)
{
	int ret = 0;
	u32 i;

	for (i = 0; i < n; i++) {
		index[i] = TREADLE_ADDR_ANY;
		if (ret || !treadle_addr_valid(&addrs[i]))
			continue;
		ret = treadle_av_add(av, &addrs[i], ids ? &ids[i] : NULL, &index[i]);
		*inserted += !ret;
	}
	return ret;
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
	ret = arg->ids && !treadle_av_has_ids(av) ? -EINVAL : treadle_av_reserve(av, count);
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
		ret = insert_batch(av, addrs, arg->ids ? ids : NULL, index, n, &arg->count);
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
		ret = treadle_av_remove(av, index) ?: ret;
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
	struct treadle_av_obj *o;
	int ret = -EINTR;
	u32 source;
	u64 dest;

	if (arg->reserved)
		return -EINVAL;
	o = av_get(u->ctx, arg->av);
	if (IS_ERR(o))
		return PTR_ERR(o);
	if (treadle_av_resolve(o->av, arg->index, &dest) == -EHOSTUNREACH)
		treadle_av_reach(o->av, arg->index, &dest);
	if (!mutex_lock_killable(&o->av->lock)) {
		ret = treadle_av_address(o->av, arg->index, &arg->addr, &source);
		mutex_unlock(&o->av->lock);
	}
	if (!ret) {
		arg->common = arg->addr;
		arg->flags = treadle_addr_common(u->ctx->net, source, &arg->common) ?
				     TREADLE_PEER_HERE :
				     0;
	}
	treadle_obj_put(&o->obj);
	return ret;
}

/**
 * treadle_ioc_av_set_id() - AV_SET_ID: change the identifier of a peer in completions
 * @u:	the call, with a struct treadle_av_set_id
 *
 * Context: may sleep. Takes av->lock.
 * Return: 0 or -errno, as treadle_av_set_id().
 */
int treadle_ioc_av_set_id(struct treadle_ucmd *u)
{
	struct treadle_av_set_id *arg = u->arg;
	struct treadle_av_obj *o = av_get_writable(u->ctx, arg->av);
	int ret = -EINTR;

	if (IS_ERR(o))
		return PTR_ERR(o);
	if (!mutex_lock_killable(&o->av->lock)) {
		ret = treadle_av_set_id(o->av, arg->index, arg->id);
		mutex_unlock(&o->av->lock);
	}
	treadle_obj_put(&o->obj);
	return ret;
}
