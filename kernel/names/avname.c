// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: address vectors that have a name
 *
 * fi_av(3), "name". A name belongs to a user in a user namespace and a network
 * namespace: those whom an endpoint admits without a key. There is no file; the
 * vector goes, and its name with it, when the last one who has it lets go.
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
	struct user_namespace *user_ns; /* both are held: they are compared by address */
	kuid_t uid;
	u32 size;
	u8 text[];
};

/*
 * Of all users. Nobody makes others search for long: it grows with what is in it, and its seed is secret.
 * It is changed and searched under names_lock, so a name that was taken out is freed at once: the table's own worker only
 * touches what is in it, with the lock of the bucket, which taking out needs as well.
 */
static struct rhashtable names;
static DEFINE_MUTEX(names_lock);

static u32 name_hash(const void *data, u32 len, u32 seed)
{
	const struct treadle_av_name *name = data;
	const u32 whose[] = { hash_ptr(name->net, 32), hash_ptr(name->user_ns, 32),
			      __kuid_val(name->uid) };

	return jhash(name->text, name->size, jhash2(whose, ARRAY_SIZE(whose), seed));
}

static int name_compare(struct rhashtable_compare_arg *arg, const void *other)
{
	const struct treadle_av_name *a = arg->key, *b = other;

	return a->net != b->net || a->user_ns != b->user_ns || !uid_eq(a->uid, b->uid) ||
	       a->size != b->size || memcmp(a->text, b->text, a->size);
}

static const struct rhashtable_params name_params = {
	.head_offset = offsetof(struct treadle_av_name, node),
	.hashfn = name_hash,
	.obj_hashfn = name_hash, /* a name is its own key */
	.obj_cmpfn = name_compare,
	.automatic_shrinking = true,
};

int treadle_names_init(void)
{
	return rhashtable_init(&names, &name_params);
}

void treadle_names_exit(void)
{
	rhashtable_destroy(&names);
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
	const struct treadle_av_name *other = rhashtable_lookup_fast(&names, name, name_params);

	return other ? other->av : NULL;
}

/* With names_lock: @av, which is new, is called @name. */
static int name_add(struct treadle_av_name *name, struct treadle_av *av)
{
	int ret = rhashtable_insert_fast(&names, &name->node, name_params);

	if (ret)
		return ret;
	get_net(name->net);
	get_user_ns(name->user_ns);
	name->av = av;
	av->name = name;
	return 0;
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

/* Nobody finds it any more. It is freed without the lock, which is everybody's. */
static void name_gone(struct kref *ref)
{
	rhashtable_remove_fast(&names, &container_of(ref, struct treadle_av, ref)->name->node,
			       name_params);
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
