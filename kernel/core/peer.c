// SPDX-License-Identifier: GPL-2.0
/* treadle: authorization keys */
#include <linux/err.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "core/peer.h"
#include "mm/base.h"

/**
 * treadle_key_copy() - copy an authorization key from user space
 * @ptr:  address in the calling process; 0 if @size is 0
 * @size: bytes; 0: no key
 *
 * Context: may sleep (page faults).
 * Return: the key, for treadle_key_free(); NULL: no key; -EINVAL: @size is too large, or 0 with a
 * @ptr; -EFAULT; -ENOMEM.
 */
struct treadle_key *treadle_key_copy(u64 ptr, u32 size)
{
	struct treadle_key *key;

	if (size > TREADLE_MAX_AUTH_KEY || (!size && ptr))
		return ERR_PTR(-EINVAL);
	if (!size)
		return NULL;
	key = kmalloc(struct_size(key, bytes, size), TREADLE_GFP);
	if (!key)
		return ERR_PTR(-ENOMEM);
	key->proves = NULL;
	key->size = size;
	if (copy_from_user(key->bytes, u64_to_user_ptr(ptr), size)) {
		kfree(key);
		return ERR_PTR(-EFAULT);
	}
	return key;
}

/**
 * treadle_key_free() - free a key after an RCU grace period
 * @key: of treadle_key_copy(), or NULL
 *
 * A region is found, and its key compared, under RCU alone.
 *
 * Context: any.
 */
void treadle_key_free(const struct treadle_key *key)
{
	struct treadle_key *mine = (struct treadle_key *)key;

	kfree_rcu(mine, rcu);
}

/* The time does not depend on the bytes, so that a key cannot be guessed byte by byte. */
static bool key_differs(const u8 *a, const u8 *b, u32 size)
{
	u8 diff = 0;

	while (size--)
		diff |= a[size] ^ b[size];
	return diff;
}

/**
 * treadle_key_matches() - compare two authorization keys
 * @key:   of the one peer, or NULL
 * @other: of the other peer, or NULL
 *
 * Context: any. The time depends on the lengths only.
 * Return: true if both keys exist and are equal, or the peer of the one has proven that it knows
 * the other.
 */
bool treadle_key_matches(const struct treadle_key *key, const struct treadle_key *other)
{
	if (!key || !other)
		return false;
	if (unlikely(key->proves))
		return !other->proves && key->proves(key, other);
	if (unlikely(other->proves))
		return other->proves(other, key);
	return key->size == other->size && !key_differs(key->bytes, other->bytes, key->size);
}
