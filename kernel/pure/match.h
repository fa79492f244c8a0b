/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: the matcher: which posted receive gets which message
 *
 * Pure logic, so that the same source is tested in user space. It takes no lock and allocates
 * nothing, except in treadle_match_init(). Callers of all other functions hold rx->lock, unless the
 * function says otherwise.
 *
 * Posted receives and unexpected messages are kept in hash tables, by what they match: so an exact
 * tag costs the same however many there are. A receive that ignores bits of the tag belongs to the
 * class of its ignore mask, and is hashed by the other bits. A message is looked up once for each
 * class in use (one or two, in practice), and the oldest receive found wins. Receives that ignore
 * nothing have a class of their own. Receives with further masks, while TREADLE_CLASSES masks are
 * in use, go to a list that is searched and has TREADLE_LISTED entries at most.
 *
 * A receive with a mask searches the unexpected messages. There may be any number, so it does that
 * a piece at a time.
 *
 * A receive or message returns to its former place if what it was matched with has failed. It goes
 * to either end of the entries with its key; or, if it is neither older nor younger than all of
 * them, to a tree beside the table. So that costs the logarithm of their number, whatever order
 * peers choose.
 */
#ifndef TREADLE_MATCH_H
#define TREADLE_MATCH_H

#ifdef __KERNEL__
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/types.h>
#else
#include "shim.h"
#endif

/* Sources of messages that are not endpoints. */
#define TREADLE_SRC_ANY	   0xffffffffu /* of a receive: any source */
#define TREADLE_SRC_NOBODY 0xfffffffeu /* of a receive: a source on another machine */
#define TREADLE_SRC_PEER   0xfffffffdu /* of a message: a connection, which no receive can name */

#define TREADLE_CLASSES 8
#define TREADLE_EXACT	TREADLE_CLASSES /* the class of receives that ignore nothing */
#define TREADLE_NOCLASS (TREADLE_CLASSES + 1)
#define TREADLE_BACK	0x80000000u /* bit of treadle_hnode.cls: in treadle_hash.back */
#define TREADLE_LISTED	4096u
#define TREADLE_SEGS	16 /* 2^21 buckets */
#define TREADLE_SEG0	64 /* buckets of the first segment */

/*
 * An entry of a hash table. Entries with the same key form a ring by @same, in order of @seq. The
 * oldest one leads the ring and is in the bucket.
 */
struct treadle_hnode {
	union {
		struct {
			struct treadle_hnode *next, **pprev; /* bucket; pprev NULL: a follower */
			struct list_head same;
		};
		struct rb_node back;
	};
	u64 tag, seq; /* older is smaller */
	u32 src, cls;
};

/*
 * Linear hashing: the table grows by one bucket per entry, never all at once.
 * Segment 0 has SEG0 buckets, segment i SEG0 << (i - 1).
 * @back: entries that belong to neither end of their ring, by key and seq
 */
struct treadle_hash {
	struct treadle_hnode **seg[TREADLE_SEGS];
	struct rb_root_cached back;
	u32 buckets, keys;
	u64 seed;
};

/*
 * A posted receive. The caller sets node.tag (ignored bits may have any value), node.src
 * (TREADLE_SRC_ANY, or the only source), node.seq and ignore.
 */
struct treadle_match_recv {
	union {
		struct treadle_hnode node;
		struct list_head
			wild; /* on treadle_match.wild instead: node.cls is TREADLE_NOCLASS */
	};
	u64 ignore;
};
static_assert(offsetof(struct treadle_hnode, tag) >= sizeof(struct list_head),
	      "lists keep the key");

/* Is the receive on treadle_match.wild? */
static inline bool treadle_match_listed(const struct treadle_match_recv *r)
{
	return r->node.cls == TREADLE_NOCLASS;
}

/* A place in treadle_match.all: that of a message, or a mark (of a search, or a kept place). */
struct treadle_match_place {
	struct list_head all;
	bool mark;
};

/* An unexpected message. The caller sets tag and src. */
struct treadle_match_msg {
	struct treadle_match_place at;
	struct treadle_hnode by_tag, by_src;
	u64 tag;
	u32 src;
};

/* Does the receive match the message? */
static inline bool treadle_match_suits(const struct treadle_match_recv *r,
				       const struct treadle_match_msg *msg)
{
	return ((msg->tag ^ r->node.tag) & ~r->ignore) == 0 &&
	       (r->node.src == TREADLE_SRC_ANY || r->node.src == msg->src);
}

struct treadle_match {
	struct treadle_hash posted, by_tag, by_src;
	struct list_head wild; /* receives without a class, oldest first */
	struct list_head all;  /* messages, oldest first, and marks */
	u32 messages;
	u64 kept;   /* messages that were ever kept */
	u32 listed; /* receives on wild */
	u32 used;   /* classes in use, a bit each */
	struct {
		u64 ignore;
		u32 any, named; /* receives from any, and from one source; both 0: class is free */
	} cls[TREADLE_CLASSES + 1];
};

/* Is any receive posted? */
static inline bool treadle_match_posted(const struct treadle_match *m)
{
	return m->used || m->listed;
}

/* How many receives are posted. */
static inline u32 treadle_match_receives(const struct treadle_match *m)
{
	u32 i, n = m->listed;

	for (i = 0; i <= TREADLE_CLASSES; i++)
		n += m->cls[i].any + m->cls[i].named;
	return n;
}

static inline void treadle_match_mark_init(struct treadle_match_place *mark)
{
	INIT_LIST_HEAD(&mark->all);
	mark->mark = true;
}

/* Is a search with this mark under way? */
static inline bool treadle_match_marked(const struct treadle_match_place *mark)
{
	return !list_empty(&mark->all);
}

/* Give up a search that is under way, or a kept place. */
static inline void treadle_match_unmark(struct treadle_match_place *mark)
{
	list_del(&mark->all);
	INIT_LIST_HEAD(&mark->all);
}

int treadle_match_init(struct treadle_match *m, u64 seed);
void treadle_match_exit(struct treadle_match *m);
struct treadle_match_recv *treadle_match_arrive(struct treadle_match *m, u64 tag, u32 src);
void treadle_match_keep_as(struct treadle_match *m, struct treadle_match_msg *msg, u64 tag);

/* Keep an unexpected message. */
static inline void treadle_match_keep(struct treadle_match *m, struct treadle_match_msg *msg)
{
	treadle_match_keep_as(m, msg, msg->tag);
}

struct treadle_match_msg *treadle_match_find(struct treadle_match *m,
					     const struct treadle_match_recv *r);
struct treadle_match_msg *treadle_match_seek(struct treadle_match *m,
					     const struct treadle_match_recv *r,
					     struct treadle_match_place *mark, u32 *looks);
bool treadle_match_room(const struct treadle_match *m, u64 ignore);
void treadle_match_post(struct treadle_match *m, struct treadle_match_recv *r);

void treadle_match_remove_recv(struct treadle_match *m, struct treadle_match_recv *r);
void treadle_match_remove_msg(struct treadle_match *m, struct treadle_match_msg *msg);

void treadle_match_lend_msg(struct treadle_match *m, struct treadle_match_msg *msg);

/*
 * Keep the place of @msg in @mark while the message is in another matcher. Returns the seq that
 * belongs to the place, for treadle_match_lend_at().
 */
static inline u64 treadle_match_keep_place(struct treadle_match_msg *msg,
					   struct treadle_match_place *mark)
{
	mark->mark = true;
	list_add(&mark->all, &msg->at.all);
	return msg->by_tag.seq;
}

void treadle_match_lend_at(struct treadle_match_msg *msg, struct treadle_match_place *place,
			   u64 seq);
void treadle_match_return_msg(struct treadle_match *m, struct treadle_match_msg *msg);

struct treadle_hash *treadle_match_wants(struct treadle_match *m, u32 *buckets);
struct treadle_hnode **treadle_hash_give(struct treadle_hash *h, struct treadle_hnode **seg,
					 u32 buckets);

#endif
