// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: address vectors that have a name
 *
 * fi_av(3), "name". A name belongs to a user in a user namespace and a network
 * namespace: those whom an endpoint admits without a key. There is no file; the
 * vector goes, and its name with it, when the last one who has it lets go.
 */
#include <linux/hashtable.h>
#include <linux/slab.h>
#include <linux/stringhash.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include <net/net_namespace.h>

#include "treadle.h"

struct treadle_av_name {
	struct hlist_node node; /* under names_lock */
	struct treadle_av *av;
	struct net *net;
	struct user_namespace *user_ns; /* both are held: they are compared by address */
	kuid_t uid;
	u32 size;
	u8 text[];
};

static DEFINE_HASHTABLE(names, 8);
static DEFINE_MUTEX(names_lock);

static u32 hash(const struct treadle_av_name *name)
{
	return full_name_hash(name->net, name->text, name->size);
}

static bool same(const struct treadle_av_name *a, const struct treadle_av_name *b)
{
	return a->net == b->net && a->user_ns == b->user_ns && uid_eq(a->uid, b->uid) &&
	       a->size == b->size && !memcmp(a->text, b->text, a->size);
}

static struct treadle_av_name *name_alloc(struct treadle_ctx *ctx, u64 text, u32 size)
{
	struct treadle_av_name *name;

	if (size > TREADLE_AV_NAME)
		return ERR_PTR(-EINVAL);
	name = kzalloc(struct_size(name, text, size), TREADLE_GFP);
	if (!name)
		return ERR_PTR(-ENOMEM);
	name->net = ctx->net;
	name->user_ns = ctx->user_ns;
	name->uid = ctx->uid;
	name->size = size;
	if (copy_from_user(name->text, u64_to_user_ptr(text), size)) {
		kfree(name);
		return ERR_PTR(-EFAULT);
	}
	return name;
}

/* With names_lock. */
static struct treadle_av *find(const struct treadle_av_name *name)
{
	struct treadle_av_name *other;

	hash_for_each_possible(names, other, node, hash(name))
		if (same(other, name))
			return other->av;
	return NULL;
}

/* The one with that name, or, unless it has to exist (TREADLE_AV_READ), a new one. */
struct treadle_av *treadle_av_open(struct treadle_ctx *ctx, const struct treadle_av_create *arg)
{
	struct treadle_av_name *name = name_alloc(ctx, arg->name, arg->name_size);
	struct treadle_av *av, *fresh = ERR_PTR(-ENOENT);

	if (IS_ERR(name))
		return ERR_CAST(name);
	/* before the lock, which is everybody's: who is at his limit may have to wait for memory */
	if (!(arg->flags & TREADLE_AV_READ))
		fresh = treadle_av_alloc(arg);
	if (mutex_lock_killable(&names_lock)) {
		av = ERR_PTR(-EINTR);
		goto out;
	}
	av = find(name);
	if (av && av->ctx_bits != arg->rx_ctx_bits)
		av = ERR_PTR(-EINVAL);
	else if (av) /* who drops the last reference holds names_lock */
		kref_get(&av->ref);
	else
		av = fresh;
	if (!IS_ERR(av) && !av->name) {
		get_net(name->net);
		get_user_ns(name->user_ns);
		name->av = av;
		av->name = name;
		hash_add(names, &name->node, hash(name));
		name = NULL;
	}
	mutex_unlock(&names_lock);
out:
	kfree(name);
	if (av != fresh && !IS_ERR(fresh))
		kref_put(&fresh->ref, treadle_av_release);
	return av;
}

/* Nobody finds it any more. It is freed without the lock, which is everybody's. */
static void name_gone(struct kref *ref)
{
	hash_del(&container_of(ref, struct treadle_av, ref)->name->node);
	mutex_unlock(&names_lock);
}

/* Let go of one, with a name or without. */
void treadle_av_forget(struct treadle_av *av)
{
	struct treadle_av_name *name = av->name; /* never changes once the vector is shared */

	if (!name) {
		kref_put(&av->ref, treadle_av_release);
	} else if (kref_put_mutex(&av->ref, name_gone, &names_lock)) {
		treadle_av_release(&av->ref);
		put_net(name->net);
		put_user_ns(name->user_ns);
		kfree(name);
	}
}
