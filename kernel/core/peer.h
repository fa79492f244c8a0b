/* SPDX-License-Identifier: GPL-2.0 */
/* treadle: the identity of an endpoint, and which peers it admits (peer.c) */
#ifndef TREADLE_PEER_H
#define TREADLE_PEER_H

#include <linux/compiler.h>
#include <linux/rcupdate.h>
#include <linux/types.h>
#include <linux/uidgid.h>

struct user_namespace;

#define TREADLE_MAX_AUTH_KEY 64u

/*
 * struct treadle_owner - a user in a user namespace; endpoints of one owner admit each other
 * @ns:		held by the context; NULL: the user is not known, and not the same as any other
 */
struct treadle_owner {
	struct user_namespace *ns;
	kuid_t uid;
};

/*
 * struct treadle_key - an authorization key; constant
 * @proves:	NULL: the key is @bytes. Else those are not known here: returns whether the peer
 *		has proven that it knows the key @known. Any context, under RCU, too
 */
struct treadle_key {
	struct rcu_head rcu;
	bool (*proves)(const struct treadle_key *key, const struct treadle_key *known);
	u32 size;
	u8 bytes[];
};

/*
 * struct treadle_peer - identity of an endpoint, as initiator and as target; constant once the
 * endpoint can be found
 * @owner:	of its process
 * @key:	its authorization key, or NULL
 * @source:	names it in messages: treadle_source(); 0: a region has none
 *
 * A region has the identity of its owner, with a key of its own.
 */
struct treadle_peer {
	struct treadle_owner owner;
	const struct treadle_key *key;
	u32 source;
};

struct treadle_key *treadle_key_copy(u64 ptr, u32 size);
void treadle_key_free(const struct treadle_key *key);
bool treadle_key_matches(const struct treadle_key *key, const struct treadle_key *other);

static inline bool treadle_same_owner(const struct treadle_owner *a, const struct treadle_owner *b)
{
	return a->ns == b->ns && uid_eq(a->uid, b->uid) && a->ns;
}

/**
 * treadle_admits() - may an initiator reach a target? The one place that decides it
 * @target:	identity of the endpoint or region that is reached
 * @from:	identity of the initiator
 *
 * Context: any.
 * Return: true if both have the same owner, or the same key.
 */
static inline bool treadle_admits(const struct treadle_peer *target,
				  const struct treadle_peer *from)
{
	return likely(treadle_same_owner(&target->owner, &from->owner)) ||
	       treadle_key_matches(target->key, from->key);
}

#endif
