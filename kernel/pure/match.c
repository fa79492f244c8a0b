// SPDX-License-Identifier: GPL-2.0
/* treadle: the matcher; see match.h */
#ifdef __KERNEL__
#include <linux/bitops.h>
#include <linux/mm.h>

#include "mm/base.h"
#endif

#include "pure/hash.h"
#include "pure/match.h"

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
	struct treadle_hash *tables[] = { &m->posted, &m->by_tag, &m->by_src };
	unsigned int i;

	for (i = 0; i < 3; i++) {
		if (hash_wants(tables[i])) {
			*buckets = seg_size(seg_of(tables[i]->buckets));
			return tables[i];
		}
	}
	return NULL;
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
 * @src: of the message: an endpoint, or TREADLE_SRC_PEER
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
