// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: shares of the users in the places of a session
 *
 * A command keeps its place until it has ended on the other node, which may wait for a receive for
 * ever. So a user may have as many places as are free: the first one half of all at most, each
 * further one half of the rest. Commands beyond that are held in the share of their user. The queue
 * of the session has only commands with a place, so none of them stops those of another user.
 *
 * All under s->lock.
 */
#include <linux/slab.h>

#include "core/pool.h"
#include "path/remote.h"

/*
 * struct treadle_share - a user with commands for a session
 * @link:	in remote->shares
 * @wait:	in remote->held as long as @held has commands
 * @user:	held
 * @held:	commands without a place, in order
 * @places:	commands in the table and in the queue
 */
struct treadle_share {
	struct list_head link, wait;
	struct treadle_user *user;
	struct list_head held;
	u32 places;
};

static struct treadle_user *user_of(const struct treadle_cmd *cmd)
{
	return cmd->ep->obj.ctx->user;
}

/**
 * treadle_share_of - the share of a command's user
 * @s:		the session
 * @cmd:	the command
 *
 * The number of shares is that of users which have had commands when the last one was added.
 *
 * Context: s->lock held.
 * Return: the share, or NULL: treadle_share_add() makes one.
 */
struct treadle_share *treadle_share_of(struct treadle_session *s, const struct treadle_cmd *cmd)
{
	struct treadle_remote *r = s->remote;
	struct treadle_share *share;

	lockdep_assert_held(&s->lock);
	list_for_each_entry(share, &r->shares, link)
		if (share->user == user_of(cmd)) {
			if (unlikely(r->shares.next !=
				     &share->link)) /* it is likely to be next, too */
				list_move(&share->link, &r->shares);
			return share;
		}
	return NULL;
}

static void share_free(struct treadle_share *share)
{
	list_del(&share->link);
	treadle_user_put(share->user);
	kfree(share);
}

/**
 * treadle_share_add - make a share for a command's user
 * @s:		the session, with ->remote
 * @cmd:	the command
 *
 * Context: may sleep. Takes s->lock.
 * Return: 0 or -ENOMEM.
 */
int treadle_share_add(struct treadle_session *s, const struct treadle_cmd *cmd)
{
	struct treadle_share *new = kzalloc(sizeof(*new), TREADLE_GFP), *share, *next;

	if (!new)
		return -ENOMEM;
	INIT_LIST_HEAD(&new->wait);
	INIT_LIST_HEAD(&new->held);
	new->user = treadle_user_hold(user_of(cmd));
	spin_lock(&s->lock);
	if (treadle_share_of(s, cmd)) { /* another thread has added it */
		list_add(&new->link, &s->remote->shares);
		share_free(new);
	} else {
		list_for_each_entry_safe(share, next, &s->remote->shares, link)
			if (!share->places && list_empty(&share->held))
				share_free(share);
		list_add(&new->link, &s->remote->shares);
	}
	spin_unlock(&s->lock);
	return 0;
}

/**
 * treadle_share_open - may a new command of a share have a place?
 * @s:		the session
 * @share:	the share
 *
 * Context: s->lock held.
 * Return: false: commands of the share wait for one, or it has all that are due to it.
 */
bool treadle_share_open(const struct treadle_session *s, const struct treadle_share *share)
{
	lockdep_assert_held(&s->lock);
	return list_empty(&share->held) && share->places < TREADLE_COMMANDS - s->remote->places;
}

/**
 * treadle_share_enter - a command gets a place
 * @s:		the session
 * @share:	of its user; open
 *
 * Context: s->lock held.
 */
void treadle_share_enter(struct treadle_session *s, struct treadle_share *share)
{
	lockdep_assert_held(&s->lock);
	share->places++;
	s->remote->places++;
}

/**
 * treadle_share_queue - let a command wait for the session, or in its share for a place
 * @s:		the session
 * @share:	of its user
 * @cmd:	the command
 *
 * Context: s->lock held.
 */
void treadle_share_queue(struct treadle_session *s, struct treadle_share *share,
			 struct treadle_cmd *cmd)
{
	struct treadle_remote *r = s->remote;

	lockdep_assert_held(&s->lock);
	s->queued++;
	if (treadle_share_open(s, share)) {
		treadle_share_enter(s, share);
		list_add_tail(&cmd->wait, &r->queued);
		return;
	}
	cmd->held = true;
	list_add_tail(&cmd->wait, &share->held);
	if (list_empty(&share->wait))
		list_add_tail(&share->wait, &r->held);
}

/**
 * treadle_share_leave - a command of the table, of the queue or of a share has ended
 * @s:		the session
 * @cmd:	the command; its place in the table is free already
 *
 * Context: s->lock held.
 */
void treadle_share_leave(struct treadle_session *s, struct treadle_cmd *cmd)
{
	struct treadle_share *share = treadle_share_of(s, cmd);
	struct treadle_remote *r = s->remote;

	lockdep_assert_held(&s->lock);
	if (!cmd->sent) {
		list_del(&cmd->wait);
		s->queued--;
	}
	if (WARN_ON_ONCE(!share))
		return;
	if (cmd->held) {
		cmd->held = false;
		if (list_empty(&share->held))
			list_del_init(&share->wait);
		return;
	}
	share->places--;
	r->places--;
	/* treadle_shares_go_on() follows, with the answer if nothing else comes */
	if (unlikely(!list_empty(&r->held))) {
		treadle_session_starve(s);
		treadle_session_ping(s);
	}
}

/**
 * treadle_shares_go_on - give free places to commands that are held
 * @s:		the session, with ->remote
 *
 * Each share in @held has a place, so there are TREADLE_COMMANDS of them at most.
 *
 * Context: s->lock held.
 */
void treadle_shares_go_on(struct treadle_session *s)
{
	struct treadle_remote *r = s->remote;
	struct treadle_share *share, *next;
	struct treadle_cmd *cmd;

	lockdep_assert_held(&s->lock);
	list_for_each_entry_safe(share, next, &r->held, wait) {
		while (!list_empty(&share->held) && share->places < TREADLE_COMMANDS - r->places) {
			cmd = list_first_entry(&share->held, struct treadle_cmd, wait);
			cmd->held = false;
			list_move_tail(&cmd->wait, &r->queued);
			treadle_share_enter(s, share);
		}
		if (list_empty(&share->held))
			list_del_init(&share->wait);
	}
}

/**
 * treadle_shares_first - the first command that waits, in the queue or in a share
 * @s:		the session, with ->remote
 *
 * Context: s->lock held.
 * Return: the command, or NULL.
 */
struct treadle_cmd *treadle_shares_first(struct treadle_session *s)
{
	struct treadle_remote *r = s->remote;
	struct treadle_share *share;

	lockdep_assert_held(&s->lock);
	if (!list_empty(&r->queued))
		return list_first_entry(&r->queued, struct treadle_cmd, wait);
	share = list_first_entry_or_null(&r->held, struct treadle_share, wait);
	return share ? list_first_entry(&share->held, struct treadle_cmd, wait) : NULL;
}

/**
 * treadle_shares_free - free all shares, which have no commands
 * @r:		of a session that nothing uses any more
 *
 * Context: any.
 */
void treadle_shares_free(struct treadle_remote *r)
{
	struct treadle_share *share, *next;

	list_for_each_entry_safe(share, next, &r->shares, link)
		share_free(share);
}
