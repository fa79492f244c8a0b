/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: who gets a message
 *
 * Pure logic: no lock, no allocation (but match_alloc, which the caller makes
 * without a lock), so that the same source is tested in user space. The caller
 * serializes (rx->lock).
 *
 * Posted receives and unexpected messages are kept in hash tables by what they
 * match, so an exact tag costs the same however many there are. A receive that
 * ignores bits of the tag belongs to the class of its ignore mask, and is hashed
 * by the bits that are left: a message is looked up once per class in use (one
 * or two, in practice) and the oldest of what is found wins. What ignores nothing has a
 * class of its own. Receives with more than TREADLE_CLASSES different masks at once go
 * to a list that is searched, and that may have TREADLE_LISTED entries. A receive with a
 * mask searches the messages that wait, of which there may be any number, so it does that
 * a piece at a time. What comes back to where it was, because what it had met has failed, goes to either end of those
 * of its key, or, if it is younger than the oldest and older than the youngest, to a tree beside
 * the table: so that costs its logarithm, whatever order peers choose.
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

/* What is no port. NOBODY: a source that is not on this machine; PEER: of a connection, which nobody names */
#define TREADLE_SRC_ANY	   0xffffffffu
#define TREADLE_SRC_NOBODY 0xfffffffeu
#define TREADLE_SRC_PEER   0xfffffffdu

#define TREADLE_CLASSES 8
#define TREADLE_EXACT	TREADLE_CLASSES /* the class of what ignores nothing */
#define TREADLE_NOCLASS (TREADLE_CLASSES + 1)
#define TREADLE_BACK	0x80000000u /* in cls: it is in the tree */
#define TREADLE_LISTED	4096u
#define TREADLE_SEGS	16 /* 2^21 buckets */
#define TREADLE_SEG0	64 /* buckets of the first segment */

/*
 * An entry of a hash table. Entries with the same key form a ring in order of
 * @seq; the oldest leads it and is the one in the bucket.
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
 * @back: entries that fit to neither end of their ring, by key and seq
 */
struct treadle_hash {
	struct treadle_hnode **seg[TREADLE_SEGS];
	struct rb_root_cached back;
	u32 buckets, keys;
	u64 seed;
};

/*
 * A posted receive. The caller sets node.tag (bits that it ignores do not count), node.src
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

static inline bool treadle_match_listed(const struct treadle_match_recv *r)
{
	return r->node.cls == TREADLE_NOCLASS;
}

/* A place among the messages: that of one, or a mark between them, where a search goes on. */
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
	u64 kept;   /* messages, ever */
	u32 listed; /* receives on wild */
	u32 used;   /* classes in use, a bit each */
	struct {
		u64 ignore;
		u32 any, named; /* receives by source; both 0: class is free */
	} cls[TREADLE_CLASSES + 1];
};

/* Is there a receive at all? */
static inline bool treadle_match_posted(const struct treadle_match *m)
{
	return m->used || !list_empty(&m->wild);
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

/* Give up a search that is under way. */
static inline void treadle_match_unmark(struct treadle_match_place *mark)
{
	list_del(&mark->all);
	INIT_LIST_HEAD(&mark->all);
}

/* Also one that could not be made (-ENOMEM) is taken down by treadle_match_exit(), once. */
int treadle_match_init(struct treadle_match *m, u64 seed);
void treadle_match_exit(struct treadle_match *m);

/* A message arrives: take the receive for it, or NULL. */
struct treadle_match_recv *treadle_match_arrive(struct treadle_match *m, u64 tag, u32 src);
/* Keep a message, to be found without a mask by @tag, whatever its own is. */
void treadle_match_keep_as(struct treadle_match *m, struct treadle_match_msg *msg, u64 tag);
/* No receive was there: keep the message. */
static inline void treadle_match_keep(struct treadle_match *m, struct treadle_match_msg *msg)
{
	treadle_match_keep_as(m, msg, msg->tag);
}
/* A receive is posted: the oldest message for it, or NULL. */
struct treadle_match_msg *treadle_match_find(struct treadle_match *m,
					     const struct treadle_match_recv *r);
/*
 * The same, but a search that has looked at *looks messages ends, with NULL, and leaves @mark
 * where it goes on when it is called again; in between others may come and go. *looks is
 * counted down. Without @r: the next message, whatever it is; the mark is left behind it.
 */
struct treadle_match_msg *treadle_match_seek(struct treadle_match *m,
					     const struct treadle_match_recv *r,
					     struct treadle_match_place *mark, u32 *looks);
/* May one more with this mask be posted? Else TREADLE_LISTED without a class are there. */
bool treadle_match_room(const struct treadle_match *m, u64 ignore);
/* No message was there: post it, at its place by seq. */
void treadle_match_post(struct treadle_match *m, struct treadle_match_recv *r);

void treadle_match_remove_recv(struct treadle_match *m, struct treadle_match_recv *r);
void treadle_match_remove_msg(struct treadle_match *m, struct treadle_match_msg *msg);

/* It leaves, but keeps its place among all: it is given back there, or gives it up (treadle_match_unmark). */
void treadle_match_lend_msg(struct treadle_match *m, struct treadle_match_msg *msg);
/* The place of a message that is kept in @mark while it is in another matcher; it has its seq there. */
static inline u64 treadle_match_keep_place(struct treadle_match_msg *msg,
					   struct treadle_match_place *mark)
{
	mark->mark = true;
	list_add(&mark->all, &msg->at.all);
	return msg->by_tag.seq;
}
/* It is in no matcher now: as if it had been lent from that place. */
void treadle_match_lend_at(struct treadle_match_msg *msg, struct treadle_match_place *place,
			   u64 seq);
/* As if it had never left. */
void treadle_match_return_msg(struct treadle_match *m, struct treadle_match_msg *msg);

/*
 * Growth in two halves, because memory is not allocated under a lock: what
 * segment is wanted (0: none), and give it; returns what was not used.
 */
struct treadle_hash *treadle_match_wants(struct treadle_match *m, u32 *buckets);
struct treadle_hnode **treadle_hash_give(struct treadle_hash *h, struct treadle_hnode **seg,
					 u32 buckets);

#endif
