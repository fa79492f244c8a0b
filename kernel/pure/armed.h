/* SPDX-License-Identifier: GPL-2.0 */
/*
 * treadle: the order of armed commands
 *
 * By threshold (for commands on cells: by endpoint), then by submission. Insertion and removal take
 * O(log n). Pure logic over the kernel's red-black tree; callers of all functions here hold
 * trigger->lock.
 */
#ifndef TREADLE_ARMED_H
#define TREADLE_ARMED_H

#ifdef __KERNEL__
#include <linux/rbtree.h>
#else
#include "shim.h"
#endif

struct treadle_armed {
	struct rb_node node;
	u64 threshold;
	u64 seq; /* order of submission to this trigger */
};

static inline struct treadle_armed *treadle_armed_entry(struct rb_node *node)
{
	return rb_entry(node, struct treadle_armed, node);
}

/* Is @a before (threshold, seq)? */
static inline bool treadle_armed_before(const struct treadle_armed *a, u64 threshold, u64 seq)
{
	return a->threshold < threshold || (a->threshold == threshold && a->seq < seq);
}

static inline void treadle_armed_insert(struct rb_root_cached *root, struct treadle_armed *a)
{
	struct rb_node **link = &root->rb_root.rb_node, *parent = NULL;
	bool leftmost = true;

	while (*link) {
		parent = *link;
		if (treadle_armed_before(treadle_armed_entry(parent), a->threshold, a->seq)) {
			link = &parent->rb_right;
			leftmost = false;
		} else {
			link = &parent->rb_left;
		}
	}
	rb_link_node(&a->node, parent, link);
	rb_insert_color_cached(&a->node, root, leftmost);
}

/* Remove and return the first command, if @value has reached its threshold; else NULL. */
static inline struct treadle_armed *treadle_armed_pop(struct rb_root_cached *root, u64 value)
{
	struct rb_node *node = rb_first_cached(root);
	struct treadle_armed *a;

	if (!node)
		return NULL;
	a = treadle_armed_entry(node);
	if (a->threshold > value)
		return NULL;
	rb_erase_cached(node, root);
	return a;
}

/* The first command that is not before (threshold, seq), or NULL. */
static inline struct treadle_armed *treadle_armed_from(struct rb_root_cached *root, u64 threshold,
						       u64 seq)
{
	struct rb_node *node = root->rb_root.rb_node;
	struct treadle_armed *found = NULL;

	while (node) {
		struct treadle_armed *a = treadle_armed_entry(node);

		if (treadle_armed_before(a, threshold, seq)) {
			node = node->rb_right;
		} else {
			found = a;
			node = node->rb_left;
		}
	}
	return found;
}

/* The command after @a, or NULL. */
static inline struct treadle_armed *treadle_armed_next(struct treadle_armed *a)
{
	struct rb_node *node = rb_next(&a->node);

	return node ? treadle_armed_entry(node) : NULL;
}

#endif
