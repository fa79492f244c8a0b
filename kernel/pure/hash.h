/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: the hash tables of a matcher (match.h); part of match.c, which alone includes it
 *
 * A table grows a bucket at a time, into segments that the caller has allocated.
 */
#ifndef TREADLE_HASH_H
#define TREADLE_HASH_H

#ifdef __KERNEL__
#include <linux/bitops.h>

#include "mm/base.h"
#endif

#include "pure/match.h"

static u32 seg_size(u32 seg)
{
	return seg ? TREADLE_SEG0 << (seg - 1) : TREADLE_SEG0;
}

static u32 seg_of(u32 bucket)
{
	return bucket < TREADLE_SEG0 ? 0 : fls(bucket / TREADLE_SEG0);
}

static struct treadle_hnode **bucket_head(struct treadle_hash *h, u32 bucket)
{
	u32 seg = seg_of(bucket);

	return &h->seg[seg][seg ? bucket - seg_size(seg) : bucket];
}

/* The seed keeps peers from choosing tags that collide. */
static u32 hash_bucket(const struct treadle_hash *h, u64 tag, u32 src, u32 cls)
{
	u64 x = (tag ^ h->seed) * 0x9e3779b97f4a7c15ULL;
	u32 mask = (1u << (fls(h->buckets) - 1)) - 1;
	u32 hash;

	x ^= (x >> 29) ^ (((u64)src << 8 | cls) * (h->seed | 1));
	x *= 0xbf58476d1ce4e5b9ULL;
	hash = x >> 32;
	/* between two powers of two, buckets that are split already use one more bit of the hash */
	if ((hash & (2 * mask + 1)) < h->buckets)
		return hash & (2 * mask + 1);
	return hash & mask;
}

static int hash_init(struct treadle_hash *h, u64 seed)
{
	h->seg[0] = kvcalloc(TREADLE_SEG0, sizeof(*h->seg[0]), TREADLE_GFP);
	h->buckets = TREADLE_SEG0;
	h->seed = seed;
	return h->seg[0] ? 0 : -ENOMEM;
}

static void hash_exit(struct treadle_hash *h)
{
	u32 i;

	for (i = 0; i < TREADLE_SEGS; i++)
		kvfree(h->seg[i]);
}

static void bucket_add(struct treadle_hnode **head, struct treadle_hnode *n)
{
	n->next = *head;
	n->pprev = head;
	if (n->next)
		n->next->pprev = &n->next;
	*head = n;
}

static void bucket_del(struct treadle_hnode *n)
{
	*n->pprev = n->next;
	if (n->next)
		n->next->pprev = n->pprev;
}

static bool has_key(const struct treadle_hnode *n, u64 tag, u32 src, u32 cls)
{
	return n->tag == tag && n->src == src && n->cls == cls;
}

static struct treadle_hnode *hash_find(struct treadle_hash *h, u64 tag, u32 src, u32 cls)
{
	struct treadle_hnode *n = *bucket_head(h, hash_bucket(h, tag, src, cls));

	while (n && !has_key(n, tag, src, cls))
		n = n->next;
	return n;
}

/* Add a bucket, and move its entries there from the bucket that is split. */
static void hash_split(struct treadle_hash *h)
{
	u32 old = h->buckets - (1u << (fls(h->buckets) - 1));
	struct treadle_hnode *n = *bucket_head(h, old), *next;

	h->buckets++;
	for (; n; n = next) {
		u32 b = hash_bucket(h, n->tag, n->src, n->cls);

		next = n->next;
		if (b != old) {
			bucket_del(n);
			bucket_add(bucket_head(h, b), n);
		}
	}
}

/* Does the next split need a segment that is not allocated? */
static bool hash_wants(const struct treadle_hash *h)
{
	u32 buckets = READ_ONCE(h->buckets); /* read once: perhaps without rx->lock */
	u32 seg = seg_of(buckets);

	return h->keys >= buckets && seg < TREADLE_SEGS && !h->seg[seg];
}

/* Is @n before the key and @seq, in the order of treadle_hash.back? */
static bool is_before(const struct treadle_hnode *n, u64 tag, u32 src, u32 cls, u64 seq)
{
	if (n->tag != tag)
		return n->tag < tag;
	if (n->src != src)
		return n->src < src;
	if (n->cls != cls)
		return n->cls < cls;
	return n->seq < seq;
}

static void back_add(struct treadle_hash *h, struct treadle_hnode *n)
{
	struct rb_node **link = &h->back.rb_root.rb_node, *parent = NULL;
	bool leftmost = true;

	n->cls |= TREADLE_BACK;
	while (*link) {
		parent = *link;
		if (is_before(rb_entry(parent, struct treadle_hnode, back), n->tag, n->src, n->cls,
			      n->seq)) {
			link = &parent->rb_right;
			leftmost = false;
		} else {
			link = &parent->rb_left;
		}
	}
	rb_link_node(&n->back, parent, link);
	rb_insert_color_cached(&n->back, &h->back, leftmost);
}

/* The oldest entry with this key in treadle_hash.back, or NULL. */
static struct treadle_hnode *back_first(const struct treadle_hash *h, u64 tag, u32 src, u32 cls)
{
	struct rb_node *at = h->back.rb_root.rb_node;
	struct treadle_hnode *found = NULL;

	cls |= TREADLE_BACK;
	while (at) {
		struct treadle_hnode *n = rb_entry(at, struct treadle_hnode, back);

		if (is_before(n, tag, src, cls, 0)) {
			at = at->rb_right;
		} else {
			found = n;
			at = at->rb_left;
		}
	}
	return found && has_key(found, tag, src, cls) ? found : NULL;
}

/* The oldest entry with this key, or NULL. */
static struct treadle_hnode *hash_first(struct treadle_hash *h, u64 tag, u32 src, u32 cls)
{
	struct treadle_hnode *n = hash_find(h, tag, src, cls), *back;

	if (likely(!h->back.rb_root.rb_node))
		return n;
	back = back_first(h, tag, src, cls);
	return !n || (back && back->seq < n->seq) ? back : n;
}

/* Let @n lead its ring in the bucket instead of @lead. */
static void hash_lead(struct treadle_hnode *lead, struct treadle_hnode *n)
{
	n->next = lead->next;
	n->pprev = lead->pprev;
	*n->pprev = n;
	if (n->next)
		n->next->pprev = &n->next;
	lead->pprev = NULL;
}

/*
 * Add an entry; the caller has set tag, seq, src and cls. Almost always it is the youngest with its
 * key; if not, mostly the oldest.
 */
static void hash_add(struct treadle_hash *h, struct treadle_hnode *n)
{
	struct treadle_hnode *lead = hash_find(h, n->tag, n->src, n->cls);

	if (!lead) {
		INIT_LIST_HEAD(&n->same);
		bucket_add(bucket_head(h, hash_bucket(h, n->tag, n->src, n->cls)), n);
		h->keys++;
		if (h->keys > h->buckets && seg_of(h->buckets) < TREADLE_SEGS &&
		    h->seg[seg_of(h->buckets)])
			hash_split(h);
	} else if (likely(list_prev_entry(lead, same)->seq < n->seq)) {
		n->pprev = NULL;
		list_add_tail(&n->same, &lead->same);
	} else if (n->seq < lead->seq) {
		list_add_tail(&n->same, &lead->same);
		hash_lead(lead, n);
	} else {
		back_add(h, n);
	}
}

static void hash_del(struct treadle_hash *h, struct treadle_hnode *n)
{
	if (unlikely(n->cls & TREADLE_BACK)) {
		rb_erase_cached(&n->back, &h->back);
		n->cls &= ~TREADLE_BACK;
		return;
	}
	if (n->pprev) {
		if (list_empty(&n->same)) {
			bucket_del(n);
			h->keys--;
		} else {
			hash_lead(n, list_first_entry(&n->same, struct treadle_hnode, same));
		}
	}
	list_del(&n->same);
}

#endif
