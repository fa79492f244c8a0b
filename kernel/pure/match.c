// SPDX-License-Identifier: GPL-2.0
/* treadle: the matcher; see match.h */
#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/mm.h>

#include "mm/base.h"
#endif

#include "pure/match.h"

/* --- hash table ------------------------------------------------------------- */

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

/**
 * treadle_hash_give() - give a hash table the segment that it wants
 * @h:       result of treadle_match_wants()
 * @seg:     zeroed segment of @buckets buckets, from kvcalloc() or the like
 * @buckets: from treadle_match_wants()
 *
 * Context: under rx->lock.
 * Return: NULL; or @seg, which the caller frees, if the table does not want it any more.
 */
struct treadle_hnode **treadle_hash_give(struct treadle_hash *h, struct treadle_hnode **seg,
					 u32 buckets)
{
	if (!hash_wants(h) || seg_size(seg_of(h->buckets)) != buckets)
		return seg;
	h->seg[seg_of(h->buckets)] = seg;
	return NULL;
}

/**
 * treadle_match_wants() - which hash table needs a segment to grow?
 * @m:       the matcher
 * @buckets: set to the size of the segment, if a table is returned
 *
 * The caller allocates the segment without rx->lock, and calls treadle_hash_give().
 *
 * Context: any; without rx->lock the answer is a hint.
 * Return: the table, or NULL: none needs one.
 */
struct treadle_hash *treadle_match_wants(struct treadle_match *m, u32 *buckets)
{
	struct treadle_hash *h = hash_wants(&m->posted) ? &m->posted :
				 hash_wants(&m->by_tag) ? &m->by_tag :
				 hash_wants(&m->by_src) ? &m->by_src :
							  NULL;

	if (h)
		*buckets = seg_size(seg_of(h->buckets));
	return h;
}

/* --- matcher --------------------------------------------------------------------- */

/**
 * treadle_match_init() - initialize a matcher
 * @m:    the matcher
 * @seed: random number; keeps peers from choosing tags that collide
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM. Also after an error the caller calls treadle_match_exit(), once.
 */
int treadle_match_init(struct treadle_match *m, u64 seed)
{
	memset(m, 0, sizeof(*m));
	INIT_LIST_HEAD(&m->wild);
	INIT_LIST_HEAD(&m->all);
	if (hash_init(&m->posted, seed) || hash_init(&m->by_tag, seed) ||
	    hash_init(&m->by_src, seed))
		return -ENOMEM;
	return 0;
}

/**
 * treadle_match_exit() - free the tables of a matcher
 * @m: the matcher, unused from now on; its receives and messages belong to the caller
 *
 * Context: may sleep.
 */
void treadle_match_exit(struct treadle_match *m)
{
	hash_exit(&m->posted);
	hash_exit(&m->by_tag);
	hash_exit(&m->by_src);
}

/* The older one of two receives; both may be NULL. */
static struct treadle_match_recv *older(struct treadle_match_recv *best, struct treadle_hnode *n)
{
	struct treadle_match_recv *r;

	if (!n)
		return best;
	r = container_of(n, struct treadle_match_recv, node);
	return !best || n->seq < best->node.seq ? r : best;
}

/**
 * treadle_match_arrive() - a message arrives: find the oldest receive that matches, and remove it
 * @m:   the matcher
 * @tag: of the message
 * @src: of the message: a port, or TREADLE_SRC_PEER
 *
 * Context: under rx->lock.
 * Return: the receive; NULL: the message is unexpected.
 */
struct treadle_match_recv *treadle_match_arrive(struct treadle_match *m, u64 tag, u32 src)
{
	struct treadle_match_recv *best = NULL, *r;
	u32 i, used;

	for (used = m->used; used; used &= ~(1u << i)) {
		u64 bits;

		i = fls(used) - 1;
		bits = tag & ~m->cls[i].ignore;

		if (m->cls[i].any)
			best = older(best, hash_first(&m->posted, bits, TREADLE_SRC_ANY, i));
		if (m->cls[i].named)
			best = older(best, hash_first(&m->posted, bits, src, i));
	}
	list_for_each_entry(r, &m->wild, wild) {
		if (best && best->node.seq < r->node.seq)
			break;
		if (((tag ^ r->node.tag) & ~r->ignore) == 0 &&
		    (r->node.src == TREADLE_SRC_ANY || r->node.src == src)) {
			best = r;
			break;
		}
	}
	if (best)
		treadle_match_remove_recv(m, best);
	return best;
}

/* Set the keys of an unexpected message. */
static void msg_nodes(struct treadle_match_msg *msg, u64 tag, u64 seq)
{
	msg->by_tag.seq = msg->by_src.seq = seq;
	msg->by_tag.tag = msg->by_src.tag = tag;
	msg->by_tag.src = TREADLE_SRC_ANY;
	msg->by_src.src = msg->src;
	msg->by_tag.cls = msg->by_src.cls = 0;
}

/**
 * treadle_match_keep_as() - keep a message under another tag
 * @m:   the matcher
 * @msg: in no matcher; becomes the youngest message
 * @tag: receives without a mask find the message by this tag; with a mask, by its own
 *
 * Context: under rx->lock.
 */
void treadle_match_keep_as(struct treadle_match *m, struct treadle_match_msg *msg, u64 tag)
{
	msg_nodes(msg, tag, m->kept++);
	hash_add(&m->by_tag, &msg->by_tag);
	hash_add(&m->by_src, &msg->by_src);
	msg->at.mark = false;
	list_add_tail(&msg->at.all, &m->all);
	m->messages++;
}

/* Find the oldest message for a receive without a mask, by hash. */
static struct treadle_match_msg *find_exact(struct treadle_match *m,
					    const struct treadle_match_recv *r)
{
	struct treadle_hnode *n;

	if (!m->messages)
		return NULL;
	if (r->node.src == TREADLE_SRC_ANY) {
		n = hash_first(&m->by_tag, r->node.tag, TREADLE_SRC_ANY, 0);
		return n ? container_of(n, struct treadle_match_msg, by_tag) : NULL;
	}
	n = hash_first(&m->by_src, r->node.tag, r->node.src, 0);
	return n ? container_of(n, struct treadle_match_msg, by_src) : NULL;
}

/**
 * treadle_match_seek() - search for the oldest message for a receive, a piece at a time
 * @m:     the matcher
 * @r:     receive; NULL: any message will do
 * @mark:  place of the search; initialized by treadle_match_mark_init()
 * @looks: how many places the search may look at; counted down
 *
 * When *looks is used up, @mark stays in the list, and the next call goes on there. In between,
 * messages may come and go. Without @r, @mark stays behind the message that is returned. A receive
 * without a mask needs neither @mark nor @looks.
 *
 * Context: under rx->lock.
 * Return: the message, which stays in the matcher; or NULL: there is none, or *looks is used up
 * (treadle_match_marked() is true).
 */
struct treadle_match_msg *treadle_match_seek(struct treadle_match *m,
					     const struct treadle_match_recv *r,
					     struct treadle_match_place *mark, u32 *looks)
{
	struct treadle_match_place *place;
	struct treadle_match_msg *msg;
	struct list_head *at;

	if (r && r->ignore == 0)
		return find_exact(m, r);
	at = treadle_match_marked(mark) ? mark->all.next : m->all.next;
	treadle_match_unmark(mark);
	for (; at != &m->all; at = at->next) {
		if (!*looks) {
			list_add_tail(&mark->all, at);
			return NULL;
		}
		--*looks;
		place = list_entry(at, struct treadle_match_place, all);
		if (place->mark) /* of another search, or a kept place */
			continue;
		msg = container_of(place, struct treadle_match_msg, at);
		if (!r)
			list_add(&mark->all, at);
		if (!r || treadle_match_suits(r, msg))
			return msg;
	}
	return NULL;
}

/**
 * treadle_match_find() - find the oldest message for a receive
 * @m: the matcher
 * @r: receive; with a mask, the search looks at all messages
 *
 * Context: under rx->lock.
 * Return: the message, which stays in the matcher; or NULL.
 */
struct treadle_match_msg *treadle_match_find(struct treadle_match *m,
					     const struct treadle_match_recv *r)
{
	struct treadle_match_place mark;
	u32 looks = ~0u; /* more than there are */

	treadle_match_mark_init(&mark);
	return treadle_match_seek(m, r, &mark, &looks);
}

/**
 * treadle_match_room() - is there room for one more receive with this mask?
 * @m:      the matcher
 * @ignore: the mask
 *
 * Context: under rx->lock.
 * Return: false if it would have no class, and TREADLE_LISTED such receives are posted already.
 */
bool treadle_match_room(const struct treadle_match *m, u64 ignore)
{
	u32 i;

	if (likely(!ignore || m->listed < TREADLE_LISTED))
		return true;
	for (i = 0; i < TREADLE_CLASSES; i++)
		if (!(m->used & (1u << i)) || m->cls[i].ignore == ignore)
			return true;
	return false;
}

/* The class of a mask, perhaps a free one that is taken now; or TREADLE_NOCLASS. */
static u32 find_class(struct treadle_match *m, u64 ignore)
{
	u32 i, free = TREADLE_NOCLASS;

	if (likely(!ignore)) {
		m->used |= 1u << TREADLE_EXACT;
		return TREADLE_EXACT;
	}
	for (i = 0; i < TREADLE_CLASSES; i++) {
		if (!(m->used & (1u << i)))
			free = i;
		else if (m->cls[i].ignore == ignore)
			return i;
	}
	if (free != TREADLE_NOCLASS) {
		m->cls[free].ignore = ignore;
		m->used |= 1u << free;
	}
	return free;
}

/**
 * treadle_match_post() - post a receive, at its place by seq
 * @m: the matcher; the caller has looked there for a message first
 * @r: with tag, src, seq and ignore set; treadle_match_room() is true for it
 *
 * Context: under rx->lock.
 */
void treadle_match_post(struct treadle_match *m, struct treadle_match_recv *r)
{
	struct treadle_match_recv *other;
	struct treadle_hnode *n = &r->node;
	u32 cls = find_class(m, r->ignore);

	n->cls = cls;
	if (treadle_match_listed(r)) {
		/* almost always it is the youngest; one that is put back may be older */
		list_for_each_entry_reverse(other, &m->wild, wild)
			if (other->node.seq < n->seq)
				break;
		list_add(&r->wild, &other->wild);
		m->listed++;
		return;
	}
	if (n->src == TREADLE_SRC_ANY)
		m->cls[cls].any++;
	else
		m->cls[cls].named++;
	n->tag &= ~r->ignore;
	hash_add(&m->posted, n);
}

/**
 * treadle_match_remove_recv() - remove a posted receive
 * @m: the matcher
 * @r: posted
 *
 * Context: under rx->lock.
 */
void treadle_match_remove_recv(struct treadle_match *m, struct treadle_match_recv *r)
{
	if (treadle_match_listed(r)) {
		list_del(&r->wild);
		m->listed--;
		return;
	}
	hash_del(&m->posted, &r->node);
	if (r->node.src == TREADLE_SRC_ANY)
		m->cls[r->node.cls].any--;
	else
		m->cls[r->node.cls].named--;
	if (!m->cls[r->node.cls].any && !m->cls[r->node.cls].named)
		m->used &= ~(1u << r->node.cls);
}

/**
 * treadle_match_remove_msg() - remove a message
 * @m:   the matcher
 * @msg: kept
 *
 * Context: under rx->lock.
 */
void treadle_match_remove_msg(struct treadle_match *m, struct treadle_match_msg *msg)
{
	hash_del(&m->by_tag, &msg->by_tag);
	hash_del(&m->by_src, &msg->by_src);
	list_del(&msg->at.all);
	m->messages--;
}

/**
 * treadle_match_lend_msg() - remove a message, but keep its place in the order of messages
 * @m:   the matcher
 * @msg: kept; later given back by treadle_match_return_msg(), or its place is given up by
 *       treadle_match_unmark(&msg->at)
 *
 * Context: under rx->lock.
 */
void treadle_match_lend_msg(struct treadle_match *m, struct treadle_match_msg *msg)
{
	hash_del(&m->by_tag, &msg->by_tag);
	hash_del(&m->by_src, &msg->by_src);
	msg->at.mark = true;
	m->messages--;
}

/**
 * treadle_match_lend_at() - put a message into the state of treadle_match_lend_msg()
 * @msg:   in no matcher
 * @place: from treadle_match_keep_place(); the message takes its place
 * @seq:   result of treadle_match_keep_place()
 *
 * Context: under rx->lock.
 */
void treadle_match_lend_at(struct treadle_match_msg *msg, struct treadle_match_place *place,
			   u64 seq)
{
	msg_nodes(msg, msg->tag, seq);
	msg->at.mark = true;
	list_add(&msg->at.all, &place->all);
	list_del(&place->all);
}

/**
 * treadle_match_return_msg() - give a message back, as if it had never left
 * @m:   the matcher that it was lent from
 * @msg: in the state of treadle_match_lend_msg()
 *
 * Context: under rx->lock.
 */
void treadle_match_return_msg(struct treadle_match *m, struct treadle_match_msg *msg)
{
	hash_add(&m->by_tag, &msg->by_tag);
	hash_add(&m->by_src, &msg->by_src);
	msg->at.mark = false;
	m->messages++;
}
