// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: what is counted for each user, in all of its control groups
 *
 * The timers of cells, and works that are tried again later, run in interrupts and in threads that
 * no group is charged for. So their number is limited for each user, and for all users together.
 *
 * Users that a process can create, in user namespaces of its own, count as the user of the process.
 */
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "core/object.h"

#define USERS_POLLERS 4u /* so many for each CPU look as often as they like */
#define ALL_POLLERS   32u
#define MOST_PAUSE    (HZ / 4UL)
#define LATER_LOOKS   1000 /* of one user, each second */

/*
 * struct treadle_user - a user, and the users for which it is accountable
 * @ref:     held by contexts and pools; the last one is dropped under users_lock
 * @node:    in users (under users_lock)
 * @uid:     the user
 * @pollers: contexts with commands armed on cells; the first @most of them count in the sum of all
 *	     users, too
 * @later:   works that are tried again, see treadle_later_again()
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
	/* not charged: it belongs to a user, not to one of its control groups */
	struct treadle_user *user = kzalloc(sizeof(*user), GFP_KERNEL);

	if (!user)
		return NULL;
	kref_init(&user->ref);
	user->most = USERS_POLLERS * num_online_cpus();
	user->uid = uid;
	return user;
}

/*
 * The user that is accountable for the caller. Of the user namespaces that the caller is in, take
 * the outermost one that the machine's root has not created: its owner has all users in it. In
 * namespaces created by root each user is accountable.
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

/*
 * Find the user @uid and hold it. If there is none, add @new, which may be NULL. Takes users_lock;
 * does not sleep.
 */
static struct treadle_user *user_find(kuid_t uid, struct treadle_user *new)
{
	struct treadle_user *user;

	spin_lock(&users_lock);
	hash_for_each_possible(users, user, node, __kuid_val(uid))
		if (uid_eq(user->uid, uid))
			break;
	if (user) { /* not released: the last reference is dropped under users_lock */
		kref_get(&user->ref);
	} else if (new) {
		hash_add(users, &new->node, __kuid_val(uid));
		user = new;
	}
	spin_unlock(&users_lock);
	return user;
}

/**
 * treadle_user_get() - find or create the user that is accountable for the caller
 *
 * Context: process context; may sleep. Takes users_lock.
 * Return: the user, with a reference for treadle_user_put(); NULL: no memory.
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
	if (user != new) /* another process has added it meanwhile */
		kfree(new);
	return user;
}

/**
 * treadle_user_hold() - take one more reference
 * @user: held by the caller
 *
 * Context: any.
 * Return: @user.
 */
struct treadle_user *treadle_user_hold(struct treadle_user *user)
{
	kref_get(&user->ref);
	return user;
}

/**
 * treadle_user_id() - the user's number, for the names of threads
 * @user: held by the caller
 *
 * Context: any.
 * Return: the number, in the initial user namespace.
 */
unsigned int treadle_user_id(const struct treadle_user *user)
{
	return __kuid_val(user->uid);
}

static void user_release(struct kref *ref) __releases(&users_lock)
{
	struct treadle_user *user = container_of(ref, struct treadle_user, ref);

	lockdep_assert_held(&users_lock);
	hash_del(&user->node);
	spin_unlock(&users_lock);
	kfree(user);
}

/**
 * treadle_user_put() - drop a reference
 * @user: held by the caller
 *
 * Context: not in interrupts; never sleeps. Takes users_lock.
 */
void treadle_user_put(struct treadle_user *user)
{
	kref_put_lock(&user->ref, user_release, &users_lock);
}

/**
 * treadle_user_polls() - a context begins or ends to poll its cells
 * @user: of the context
 * @more: true: it begins
 *
 * Of a user's pollers, @user->most at most count in the sum of all users. The many pollers of one
 * user look seldom, so they cost other users no more than a few that look often.
 *
 * Context: any.
 */
void treadle_user_polls(struct treadle_user *user, bool more)
{
	if (more && atomic_inc_return(&user->pollers) <= user->most)
		atomic_inc(&pollers);
	else if (!more && atomic_dec_return(&user->pollers) < user->most)
		atomic_dec(&pollers);
}

/**
 * treadle_user_share() - how many pollers share the time of one
 * @user: owner of the pollers
 *
 * Context: any.
 * Return: the number among the pollers of @user, or among those of all users if that is more; 1 at
 * least.
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
 * treadle_later_begin() - queue a work that may have to be tried again
 * @later: not queued
 * @ctx:   as for treadle_work_init(); held until the work is done
 * @fn:    as for treadle_work_init(); ends with treadle_later_again(), or calls treadle_later_end()
 *
 * Context: any. Takes pool->lock.
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
 * treadle_later_again() - try the running work again after a pause, instead of waiting in it
 * @later: of the calling work, which must not use it afterwards
 *
 * The pause grows each time, up to MOST_PAUSE. If a user has many such works, it grows further: all
 * of them together are tried LATER_LOOKS times a second.
 *
 * Context: the work's function.
 */
void treadle_later_again(struct treadle_later *later)
{
	struct treadle_user *user = later->work.ctx->user;
	unsigned long pause = later->pause;
	unsigned long n = pause ? atomic_read(&user->later) : atomic_inc_return(&user->later);

	later->pause = min_t(unsigned long, 2 * pause + 1, MOST_PAUSE);
	/* a work that merely meets a doorbell does not wait for the many that fail for long */
	treadle_queue_later(&later->again, pause < MOST_PAUSE ?
						   later->pause :
						   max(later->pause, n * HZ / LATER_LOOKS));
}

/**
 * treadle_later_end() - the running work will not be tried again
 * @later: of the calling work
 *
 * Context: the work's function.
 */
void treadle_later_end(struct treadle_later *later)
{
	if (later->pause)
		atomic_dec(&later->work.ctx->user->later);
}
