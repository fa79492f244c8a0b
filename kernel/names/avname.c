// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: address vectors that have a name
 *
 * fi_av(3), "name". A name belongs to a user in a user namespace and a network
 * namespace, as endpoints of one user admit each other without a key. There is no file:
 * vector and name go with the last object that refers to them.
 */
#include <linux/hash.h>
#include <linux/jhash.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>
#include <net/net_namespace.h>

#include "names/names.h"

struct treadle_av_name {
	struct rhash_head node;
	struct treadle_av *av;
	struct net *net;
	struct treadle_owner owner; /* @owner.ns and @net are held: they are compared by address */
	u32 size;
	u8 text[];
};

/*
 * The names of all users. No user can make searches of others slow: the table grows with the names,
 * and its seed is secret. It is searched and changed under names_lock, so a name is freed as soon
 * as it is removed: the table's own worker accesses only names in it, under the lock of the bucket,
 * which removal takes, too.
 */
static struct rhashtable names;
static DEFINE_MUTEX(names_lock);

static u32 name_hash(const void *data, u32 len, u32 seed)
{
	const struct treadle_av_name *name = data;
	const u32 whose[] = { hash_ptr(name->net, 32), hash_ptr(name->owner.ns, 32),
			      __kuid_val(name->owner.uid) };

	return jhash(name->text, name->size, jhash2(whose, ARRAY_SIZE(whose), seed));
}

/* For rhashtable: 0 if both are the same name. The names don't change while they are compared. */
static int name_compare(struct rhashtable_compare_arg *arg, const void *other)
{
	const struct treadle_av_name *a = arg->key, *b = other;

	return a->net != b->net || !treadle_same_owner(&a->owner, &b->owner) ||
	       a->size != b->size || memcmp(a->text, b->text, a->size);
}

static const struct rhashtable_params name_params = {
	.head_offset = offsetof(struct treadle_av_name, node),
	.hashfn = name_hash,
	.obj_hashfn = name_hash, /* a name is its own key */
	.obj_cmpfn = name_compare,
	.automatic_shrinking = true,
};

/**
 * treadle_names_init() - set up the table of names, at module load
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int treadle_names_init(void)
{
	return rhashtable_init(&names, &name_params);
}

/**
 * treadle_names_exit() - free the table of names, at module exit: no name is left
 *
 * Context: may sleep.
 */
void treadle_names_exit(void)
{
	rhashtable_destroy(&names);
}

/* A name of @ctx, with the text at the caller's address @text; not in the table yet. */
static struct treadle_av_name *name_alloc(struct treadle_ctx *ctx, u64 text, u32 size)
{
	struct treadle_av_name *name;

	if (size > TREADLE_AV_NAME)
		return ERR_PTR(-EINVAL);
	name = kzalloc(struct_size(name, text, size), TREADLE_GFP);
	if (!name)
		return ERR_PTR(-ENOMEM);
	name->net = ctx->net;
	name->owner = ctx->owner;
	name->size = size;
	if (copy_from_user(name->text, u64_to_user_ptr(text), size)) {
		kfree(name);
		return ERR_PTR(-EFAULT);
	}
	return name;
}

/* The vector that is called @name, or NULL. names_lock keeps it. */
static struct treadle_av *find(const struct treadle_av_name *name)
{
	const struct treadle_av_name *other;

	lockdep_assert_held(&names_lock);
	other = rhashtable_lookup_fast(&names, name, name_params);
	return other ? other->av : NULL;
}

/* Call @av, which is new, @name. */
static int name_add(struct treadle_av_name *name, struct treadle_av *av)
{
	int ret;

	lockdep_assert_held(&names_lock);
	ret = rhashtable_insert_fast(&names, &name->node, name_params);
	if (ret)
		return ret;
	get_net(name->net);
	get_user_ns(name->owner.ns);
	name->av = av;
	av->name = name;
	return 0;
}

/**
 * treadle_av_open() - find the address vector with a name, or make it
 * @ctx:	the caller's context
 * @arg:	of AV_CREATE; with TREADLE_AV_READ the vector must exist
 *
 * Context: may sleep. Takes names_lock.
 * Return: the vector, held, until treadle_av_forget(); or -ENOENT, -EINVAL: it has other context
 * bits, -EFAULT, -ENOMEM, -EINTR: the caller is killed.
 */
struct treadle_av *treadle_av_open(struct treadle_ctx *ctx, const struct treadle_av_create *arg)
{
	struct treadle_av_name *name = name_alloc(ctx, arg->name, arg->name_size);
	struct treadle_av *av, *fresh = ERR_PTR(-ENOENT);

	if (IS_ERR(name))
		return ERR_CAST(name);
	/* before names_lock, which all users share: a user at its memory limit may wait here */
	if (!(arg->flags & TREADLE_AV_READ))
		fresh = treadle_av_alloc(ctx, arg);
	if (mutex_lock_killable(&names_lock)) {
		av = ERR_PTR(-EINTR);
		goto out;
	}
	av = find(name);
	if (av && av->ctx_bits != arg->rx_ctx_bits)
		av = ERR_PTR(-EINVAL);
	else if (av) /* not 0: the last reference is dropped under names_lock */
		kref_get(&av->ref);
	else
		av = fresh;
	if (!IS_ERR(av) && !av->name) {
		int ret = name_add(name, av);

		if (ret)
			av = ERR_PTR(ret);
		else
			name = NULL;
	}
	mutex_unlock(&names_lock);
out:
	kfree(name);
	if (av != fresh && !IS_ERR(fresh))
		kref_put(&fresh->ref, treadle_av_release);
	return av;
}

/* Remove the name, and drop names_lock: all users share it, so the vector is freed without it. */
static void name_gone(struct kref *ref)
{
	lockdep_assert_held(&names_lock);
	rhashtable_remove_fast(&names, &container_of(ref, struct treadle_av, ref)->name->node,
			       name_params);
	mutex_unlock(&names_lock);
}

/**
 * treadle_av_forget() - drop a reference to an address vector, with or without a name
 * @av:	held
 *
 * Context: may sleep. Takes names_lock for the last reference.
 */
void treadle_av_forget(struct treadle_av *av)
{
	struct treadle_av_name *name = av->name; /* never changes once the vector is shared */

	if (!name) {
		kref_put(&av->ref, treadle_av_release);
	} else if (kref_put_mutex(&av->ref, name_gone, &names_lock)) {
		treadle_av_release(&av->ref);
		put_net(name->net);
		put_user_ns(name->owner.ns);
		kfree(name);
	}
}
