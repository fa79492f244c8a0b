// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: commands that wait off the stack, by context: for fi_cancel(3), and ends of endpoints
 *
 * ep->waiting has those that wait for their turn (flow.c), ep->parked those that wait at a peer.
 */
#include "exec/command.h"

static struct treadle_cmd *waiting_of(const struct rb_node *node)
{
	return rb_entry(node, struct treadle_cmd, by_context);
}

/*
 * fi_inject(3) and the like have no context by which they could be found; they come last. So do
 * commands about which another node was asked already.
 */
static bool has_name(const struct treadle_cmd *cmd)
{
	return !cmd->asked &&
	       (cmd->d.flags & (TREADLE_F_INJECT | TREADLE_F_COMPLETION)) != TREADLE_F_INJECT;
}

static int wait_cmp(const void *context, const struct rb_node *node)
{
	return has_name(waiting_of(node)) ?
		       treadle_order(*(const u64 *)context, waiting_of(node)->d.context) :
		       -1;
}

static bool wait_less(struct rb_node *node, const struct rb_node *other)
{
	return has_name(waiting_of(node)) && wait_cmp(&waiting_of(node)->d.context, other) < 0;
}

/**
 * treadle_wait_add() - add a command to a tree of waiting ones
 * @tree: ep->waiting or ep->parked of its endpoint
 * @cmd:  the command; comes after those with the same context
 *
 * Context: ep->lock of the command's endpoint is held.
 */
void treadle_wait_add(struct rb_root *tree, struct treadle_cmd *cmd)
{
	lockdep_assert_held(&cmd->ep->lock);
	rb_add(&cmd->by_context, tree, wait_less);
}

/**
 * treadle_wait_find() - find a waiting command
 * @tree:    ep->waiting or ep->parked
 * @context: of the command; NULL: any
 *
 * Context: ep->lock is held.
 * Return: the oldest one with @context, or, without, the first one in the tree; NULL: there is
 * none.
 */
struct treadle_cmd *treadle_wait_find(const struct rb_root *tree, const u64 *context)
{
	struct rb_node *node = context ? rb_find_first(context, tree, wait_cmp) : rb_first(tree);

	return node ? waiting_of(node) : NULL;
}

/**
 * treadle_ep_withdraw() - take back commands of an endpoint that wait at peers
 * @ep:      the endpoint
 * @context: NULL, or take back only commands with this context
 * @error:   with which they complete; 0: they are freed without a completion
 * @max:     how many to take back at most
 * @count:   counts them
 * @run:     of the caller; gets what the completions fire
 *
 * Context: may sleep. Takes ep->lock, and what ->withdraw of their paths takes.
 */
void treadle_ep_withdraw(struct treadle_ep *ep, const u64 *context, int error, u64 max, u64 *count,
			 struct treadle_run *run)
{
	enum treadle_withdrawn how = TREADLE_NOT_HERE;
	struct treadle_cmd *cmd;

	for (; *count < max; cond_resched()) {
		spin_lock(&ep->lock);
		cmd = treadle_wait_find(&ep->parked, context);
		if (cmd)
			how = treadle_paths[cmd->path]->withdraw(cmd);
		spin_unlock(&ep->lock);
		if (!cmd)
			return;
		if (how == TREADLE_NOT_HERE)
			continue;
		(*count)++;
		if (how == TREADLE_ASKED)
			continue;
		if (error)
			treadle_cmd_fail(cmd, error, run);
		else
			treadle_cmd_free(cmd);
	}
}
