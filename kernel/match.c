// SPDX-License-Identifier: GPL-2.0
/* treadle: who gets a message; see match.h */
#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/mm.h>

#include "object.h"
#endif

#include "match.h"

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
	/* between two powers of two: buckets already split use one bit more */
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

static struct treadle_hnode *hash_find(struct treadle_hash *h, u64 tag, u32 src, u32 cls)
{
	struct treadle_hnode *n = *bucket_head(h, hash_bucket(h, tag, src, cls));

	while (n && (n->tag != tag || n->src != src || n->cls != cls))
		n = n->next;
	return n;
}

/* One more bucket: move what belongs there out of the bucket that it splits from. */
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

static bool hash_wants(const struct treadle_hash *h)
{
	u32 buckets = READ_ONCE(h->buckets); /* once: maybe without the lock */
	u32 seg = seg_of(buckets);

	return h->keys >= buckets && seg < TREADLE_SEGS && !h->seg[seg];
}

/* Append to the entries of the same key; the caller has set tag, src, cls. */
static struct treadle_hnode *hash_add(struct treadle_hash *h, struct treadle_hnode *n)
{
	struct treadle_hnode *lead = hash_find(h, n->tag, n->src, n->cls);

	if (lead) {
		n->pprev = NULL;
		list_add_tail(&n->same, &lead->same);
		return lead;
	}
	INIT_LIST_HEAD(&n->same);
	bucket_add(bucket_head(h, hash_bucket(h, n->tag, n->src, n->cls)), n);
	h->keys++;
	if (h->keys > h->buckets && seg_of(h->buckets) < TREADLE_SEGS && h->seg[seg_of(h->buckets)])
		hash_split(h);
	return n;
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

/* Into the ring of @next, which has the same key, before it. */
static void hash_add_before(struct treadle_hnode *n, struct treadle_hnode *next)
{
	list_add_tail(&n->same, &next->same);
	if (next->pprev)
		hash_lead(next, n);
	else
		n->pprev = NULL;
}

static void hash_del(struct treadle_hash *h, struct treadle_hnode *n)
{
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

struct treadle_hnode **treadle_hash_give(struct treadle_hash *h, struct treadle_hnode **seg,
					 u32 buckets)
{
	if (!hash_wants(h) || seg_size(seg_of(h->buckets)) != buckets)
		return seg;
	h->seg[seg_of(h->buckets)] = seg;
	return NULL;
}

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

void treadle_match_exit(struct treadle_match *m)
{
	hash_exit(&m->posted);
	hash_exit(&m->by_tag);
	hash_exit(&m->by_src);
}

static struct treadle_match_recv *older(struct treadle_match_recv *best, struct treadle_hnode *n)
{
	struct treadle_match_recv *r;

	if (!n)
		return best;
	r = container_of(n, struct treadle_match_recv, node);
	return !best || r->seq < best->seq ? r : best;
}

struct treadle_match_recv *treadle_match_arrive(struct treadle_match *m, u64 tag, u32 src)
{
	struct treadle_match_recv *best = NULL, *r;
	u32 i, used;

	for (used = m->used; used; used &= ~(1u << i)) {
		u64 bits;

		i = fls(used) - 1;
		bits = tag & ~m->cls[i].ignore;

		if (m->cls[i].any)
			best = older(best, hash_find(&m->posted, bits, TREADLE_SRC_ANY, i));
		if (m->cls[i].named)
			best = older(best, hash_find(&m->posted, bits, src, i));
	}
	list_for_each_entry(r, &m->wild, wild) {
		if (best && best->seq < r->seq)
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

void treadle_match_keep_as(struct treadle_match *m, struct treadle_match_msg *msg, u64 tag)
{
	msg->by_tag.tag = tag;
	msg->by_tag.src = TREADLE_SRC_ANY;
	msg->by_tag.cls = 0;
	hash_add(&m->by_tag, &msg->by_tag);
	msg->by_src.tag = tag;
	msg->by_src.src = msg->src;
	msg->by_src.cls = 0;
	hash_add(&m->by_src, &msg->by_src);
	msg->seq = m->kept++;
	msg->at.mark = false;
	list_add_tail(&msg->at.all, &m->all);
	m->messages++;
}

/* Without a mask: by hash. */
static struct treadle_match_msg *find_exact(struct treadle_match *m,
					    const struct treadle_match_recv *r)
{
	struct treadle_hnode *n;

	if (!m->messages)
		return NULL;
	if (r->node.src == TREADLE_SRC_ANY) {
		n = hash_find(&m->by_tag, r->node.tag, TREADLE_SRC_ANY, 0);
		return n ? container_of(n, struct treadle_match_msg, by_tag) : NULL;
	}
	n = hash_find(&m->by_src, r->node.tag, r->node.src, 0);
	return n ? container_of(n, struct treadle_match_msg, by_src) : NULL;
}

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
		if (place->mark) /* of another search */
			continue;
		msg = container_of(place, struct treadle_match_msg, at);
		if (!r)
			list_add(&mark->all, at);
		if (!r || treadle_match_suits(r, msg))
			return msg;
	}
	return NULL;
}

struct treadle_match_msg *treadle_match_find(struct treadle_match *m,
					     const struct treadle_match_recv *r)
{
	struct treadle_match_place mark;
	u32 looks = ~0u; /* more than there are */

	treadle_match_mark_init(&mark);
	return treadle_match_seek(m, r, &mark, &looks);
}

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

static u64 seq_of(const struct treadle_hnode *n)
{
	return container_of(n, struct treadle_match_recv, node)->seq;
}

void treadle_match_post(struct treadle_match *m, struct treadle_match_recv *r)
{
	struct treadle_hnode *lead, *at, *n = &r->node;
	struct treadle_match_recv *other;
	u32 cls = find_class(m, r->ignore);

	n->cls = cls;
	if (treadle_match_listed(r)) {
		/* almost always the youngest; one that is put back may be older */
		list_for_each_entry_reverse(other, &m->wild, wild)
			if (other->seq < r->seq)
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
	lead = hash_add(&m->posted, n);
	if (lead == n)
		return;
	/* one that is put back is mostly the oldest again: it leads */
	if (r->seq < seq_of(lead)) {
		list_move_tail(&n->same, &lead->same);
		hash_lead(lead, n);
		return;
	}
	/* in order of seq; what is put back is older than nearly all, and younger than the lead */
	at = list_prev_entry(n, same);
	if (likely(seq_of(at) < r->seq))
		return;
	at = lead;
	do
		at = list_next_entry(at, same);
	while (seq_of(at) < r->seq);
	list_move_tail(&n->same, &at->same);
}

void treadle_match_remove_recv(struct treadle_match *m, struct treadle_match_recv *r)
{
	if (treadle_match_listed(r)) {
		list_del(&r->wild);
		m->listed--;
		return;
	}
	if (r->node.src == TREADLE_SRC_ANY)
		m->cls[r->node.cls].any--;
	else
		m->cls[r->node.cls].named--;
	if (!m->cls[r->node.cls].any && !m->cls[r->node.cls].named)
		m->used &= ~(1u << r->node.cls);
	hash_del(&m->posted, &r->node);
}

void treadle_match_remove_msg(struct treadle_match *m, struct treadle_match_msg *msg)
{
	hash_del(&m->by_tag, &msg->by_tag);
	hash_del(&m->by_src, &msg->by_src);
	list_del(&msg->at.all);
	m->messages--;
}

void treadle_match_lend_msg(struct treadle_match *m, struct treadle_match_msg *msg)
{
	hash_del(&m->by_tag, &msg->by_tag);
	hash_del(&m->by_src, &msg->by_src);
	msg->at.mark = true;
	m->messages--;
}

/*
 * The first one of the same key and source that came after @msg, or NULL. None of them waited when @msg was lent
 * that was older: it looks at no more than were lent with it.
 */
static struct treadle_match_msg *after(struct treadle_match *m, const struct treadle_match_msg *msg)
{
	struct treadle_hnode *lead = hash_find(&m->by_src, msg->by_src.tag, msg->src, 0), *n = lead;

	while (n) {
		struct treadle_match_msg *other = container_of(n, struct treadle_match_msg, by_src);

		if (other->seq > msg->seq)
			return other;
		n = list_next_entry(n, same);
		if (n == lead)
			break;
	}
	return NULL;
}

void treadle_match_return_msg(struct treadle_match *m, struct treadle_match_msg *msg)
{
	struct treadle_match_msg *next = after(m, msg);

	if (next) {
		hash_add_before(&msg->by_tag, &next->by_tag);
		hash_add_before(&msg->by_src, &next->by_src);
	} else {
		hash_add(&m->by_tag, &msg->by_tag);
		hash_add(&m->by_src, &msg->by_src);
	}
	msg->at.mark = false;
	m->messages++;
}
