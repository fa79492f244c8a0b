// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: what is counted for a user, in whatever control groups
 *
 * The timers of cells, and what looks again later, run in interrupts and in threads that no group
 * is charged for. So each user has a number of them, and so have all users together.
 *
 * Users that a process may make up, in user namespaces of its own, count as the user that it is.
 */
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "core/object.h"

#define USERS_POLLERS 4u /* for each CPU, that look as often as they like */
#define ALL_POLLERS   32u
#define MOST_PAUSE    (HZ / 4UL)
#define LATER_LOOKS   1000 /* of a user, in a second */

/*
 * struct treadle_user - a user, and those for whom it is accountable
 * @ref:     contexts, pools; the last one goes with users_lock
 * @node:    in users (under users_lock)
 * @pollers: contexts with commands armed on cells; up to @most they count among those of all users
 * @later:   works that try again, see treadle_later_again()
 */
struct treadle_user {
	struct kref ref;
	struct hlist_node node;
	kuid_t uid;
	atomic_t pollers, later;
	int most;
};

static atomic_t pollers;
static DEFINE_HASHTABLE(users, 6);
static DEFINE_SPINLOCK(users_lock);

static struct treadle_user *user_alloc(kuid_t uid)
{
	/* of a user, not of one of its groups */
	struct treadle_user *user = kzalloc(sizeof(*user), GFP_KERNEL);

	if (!user)
		return NULL;
	kref_init(&user->ref);
	user->most = USERS_POLLERS * num_online_cpus();
	user->uid = uid;
	return user;
}

/*
 * The caller's user, or the owner of the user namespace that it is in, as that has all users of it.
 * The outermost one counts. But namespaces that the machine's root has made are for others: in them
 * each user is accountable.
 */
static kuid_t accountable(void)
{
	const struct user_namespace *ns;
	kuid_t uid = current_euid();

	for (ns = current_user_ns(); ns->parent; ns = ns->parent)
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			uid = ns->owner;
	return uid;
}

/* That of @uid, held; if there is none, @new, unless that is NULL. */
static struct treadle_user *user_find(kuid_t uid, struct treadle_user *new)
{
	struct treadle_user *user;

	spin_lock(&users_lock);
	hash_for_each_possible(users, user, node, __kuid_val(uid))
		if (uid_eq(user->uid, uid))
			break;
	if (user) { /* the last reference goes with users_lock */
		kref_get(&user->ref);
	} else if (new) {
		hash_add(users, &new->node, __kuid_val(uid));
		user = new;
	}
	spin_unlock(&users_lock);
	return user;
}

/**
 * treadle_user_get - the caller's user
 *
 * May sleep. Return: the user, held; NULL: no memory.
 */
struct treadle_user *treadle_user_get(void)
{
	kuid_t uid = accountable();
	struct treadle_user *user = user_find(uid, NULL), *new;

	if (user)
		return user;
	new = user_alloc(uid);
	if (!new)
		return NULL;
	user = user_find(uid, new);
	if (user != new) /* made by another process meanwhile */
		kfree(new);
	return user;
}

/**
 * treadle_user_hold - one reference more
 * @user: held
 */
struct treadle_user *treadle_user_hold(struct treadle_user *user)
{
	kref_get(&user->ref);
	return user;
}

/**
 * treadle_user_id - for the names of threads
 * @user: held
 */
unsigned int treadle_user_id(const struct treadle_user *user)
{
	return __kuid_val(user->uid);
}

static void user_release(struct kref *ref) __releases(&users_lock)
{
	struct treadle_user *user = container_of(ref, struct treadle_user, ref);

	hash_del(&user->node);
	spin_unlock(&users_lock);
	kfree(user);
}

/**
 * treadle_user_put - drop a reference
 * @user: held
 */
void treadle_user_put(struct treadle_user *user)
{
	kref_put_lock(&user->ref, user_release, &users_lock);
}

/**
 * treadle_user_polls - a context begins to poll its cells, or ends it
 * @user: of it
 * @more: it begins
 *
 * Where a user has many they look seldom, and cost other users no more than a few that look often.
 */
void treadle_user_polls(struct treadle_user *user, bool more)
{
	if (more && atomic_inc_return(&user->pollers) <= user->most)
		atomic_inc(&pollers);
	else if (!more && atomic_dec_return(&user->pollers) < user->most)
		atomic_dec(&pollers);
}

/**
 * treadle_user_share - how many pollers share the time of one
 * @user: whose pollers
 *
 * Return: of this user's, or, if that is more, of all.
 */
unsigned int treadle_user_share(const struct treadle_user *user)
{
	unsigned int cpus = num_online_cpus();

	return 1 + max(atomic_read(&user->pollers) / (USERS_POLLERS * cpus),
		       atomic_read(&pollers) / (ALL_POLLERS * cpus));
}

static void later_again(struct work_struct *work)
{
	treadle_queue_work(&container_of(to_delayed_work(work), struct treadle_later, again)->work);
}

/**
 * treadle_later_begin - queue a work that may have to try again
 * @later: not queued
 * @ctx:   as of treadle_work_init()
 * @fn:    likewise; calls treadle_later_again() or treadle_later_end()
 */
void treadle_later_begin(struct treadle_later *later, struct treadle_ctx *ctx,
			 void (*fn)(struct treadle_work *, struct treadle_pool *))
{
	treadle_work_init(&later->work, ctx, fn, true);
	INIT_DELAYED_WORK(&later->again, later_again);
	later->pause = 0;
	treadle_queue_work(&later->work);
}

/**
 * treadle_later_again - something is in the way that the work does not wait for
 * @later: which runs; the caller is done with it
 *
 * Each time it waits longer, and of many of a user's each tries as seldom as all of them together
 * may.
 */
void treadle_later_again(struct treadle_later *later)
{
	struct treadle_user *user = later->work.ctx->user;
	unsigned long pause = later->pause;
	unsigned long n = pause ? atomic_read(&user->later) : atomic_inc_return(&user->later);

	later->pause = min_t(unsigned long, 2 * pause + 1, MOST_PAUSE);
	/* one that merely crosses a doorbell does not wait for many that have long been in vain */
	treadle_queue_later(&later->again, pause < MOST_PAUSE ?
						   later->pause :
						   max(later->pause, n * HZ / LATER_LOOKS));
}

/**
 * treadle_later_end - the work does not try again
 * @later: which runs
 */
void treadle_later_end(struct treadle_later *later)
{
	if (later->pause)
		atomic_dec(&later->work.ctx->user->later);
}
