// SPDX-License-Identifier: GPL-2.0

/* The rest of shim.h: memory that runs out on demand, and search trees. */

#include <limits.h>
#include <stdlib.h>

#include "shim.h"

unsigned long shim_allocations_left = ULONG_MAX;
unsigned long shim_list_steps;

void *kvcalloc(size_t n, size_t size, gfp_t flags)
{
	if (!shim_allocations_left)
		return NULL;
	shim_allocations_left--;
	return calloc(n, size);
}

void kvfree(const void *p)
{
	free((void *)p);
}

/*
 * The trees are treaps: every node gets a random weight, and parents are no
 * heavier than their children, which keeps the tree flat whatever the order of
 * insertion is.
 */

static u32 random_weight(void)
{
	static u32 state = 1;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

/* The link that points to @node. */
static struct rb_node **link_of(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *parent = node->parent;

	if (!parent)
		return &root->rb_node;
	return parent->rb_left == node ? &parent->rb_left : &parent->rb_right;
}

/* @node takes the place of its parent, which becomes its child. */
static void raise_node(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *parent = node->parent, *between;

	*link_of(parent, root) = node;
	if (parent->rb_left == node) {
		between = node->rb_right;
		parent->rb_left = between;
		node->rb_right = parent;
	} else {
		between = node->rb_left;
		parent->rb_right = between;
		node->rb_left = parent;
	}
	if (between)
		between->parent = parent;
	node->parent = parent->parent;
	parent->parent = node;
}

void rb_insert_color_cached(struct rb_node *node, struct rb_root_cached *root, bool leftmost)
{
	if (leftmost)
		root->rb_leftmost = node;
	node->weight = random_weight();
	while (node->parent && node->parent->weight > node->weight)
		raise_node(node, &root->rb_root);
}

void rb_erase_cached(struct rb_node *node, struct rb_root_cached *root)
{
	struct rb_node *child;

	if (root->rb_leftmost == node)
		root->rb_leftmost = rb_next(node);
	while (node->rb_left && node->rb_right)
		raise_node(node->rb_left->weight < node->rb_right->weight ? node->rb_left :
									    node->rb_right,
			   &root->rb_root);
	child = node->rb_left ? node->rb_left : node->rb_right;
	*link_of(node, &root->rb_root) = child;
	if (child)
		child->parent = node->parent;
	/* an erased node leads nowhere */
	memset(node, 0, sizeof(*node));
}

struct rb_node *rb_next(const struct rb_node *node)
{
	struct rb_node *next = node->rb_right;

	if (next) {
		while (next->rb_left)
			next = next->rb_left;
		return next;
	}
	while (node->parent && node->parent->rb_right == node)
		node = node->parent;
	return node->parent;
}
