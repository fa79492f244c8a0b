// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: shares of the users in the places of a session
 *
 * A command keeps its place until it has ended on the other node, which may wait for a receive for
 * ever. So a user may have as many places as are free: the first one half of all at most, each
 * further one half of the rest. Commands beyond that are held in the lane of their user. The queue
 * of the session has only commands with a place, so none of them stops those of another user.
 *
 * All under s->lock.
 */
#include <linux/slab.h>

#include "core/pool.h"
#include "path/remote.h"

/*
 * struct treadle_lane - a user with commands for a session
 * @link:	in remote->lanes
 * @wait:	in remote->held as long as @held has commands
 * @user:	held
 * @held:	commands without a place, in order
 * @places:	commands in the table and in the queue
 */
struct treadle_lane {
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
 * treadle_lane_of - the lane of a command's user
 * @s:		the session
 * @cmd:	the command
 *
 * The number of lanes is that of users which have had commands when the last one was added.
 *
 * Context: s->lock held.
 * Return: the lane, or NULL: treadle_lane_add() makes one.
 */
struct treadle_lane *treadle_lane_of(struct treadle_session *s, const struct treadle_cmd *cmd)
{
	struct treadle_remote *r = s->remote;
	struct treadle_lane *lane;

	lockdep_assert_held(&s->lock);
	list_for_each_entry(lane, &r->lanes, link)
		if (lane->user == user_of(cmd)) {
			if (unlikely(r->lanes.next !=
				     &lane->link)) /* it is likely to be next, too */
				list_move(&lane->link, &r->lanes);
			return lane;
		}
	return NULL;
}

static void lane_free(struct treadle_lane *lane)
{
	list_del(&lane->link);
	treadle_user_put(lane->user);
	kfree(lane);
}

/**
 * treadle_lane_add - make a lane for a command's user
 * @s:		the session, with ->remote
 * @cmd:	the command
 *
 * Context: may sleep. Takes s->lock.
 * Return: 0 or -ENOMEM.
 */
int treadle_lane_add(struct treadle_session *s, const struct treadle_cmd *cmd)
{
	struct treadle_lane *new = kzalloc(sizeof(*new), TREADLE_GFP), *lane, *next;

	if (!new)
		return -ENOMEM;
	INIT_LIST_HEAD(&new->wait);
	INIT_LIST_HEAD(&new->held);
	new->user = treadle_user_hold(user_of(cmd));
	spin_lock(&s->lock);
	if (treadle_lane_of(s, cmd)) { /* another thread has added it */
		list_add(&new->link, &s->remote->lanes);
		lane_free(new);
	} else {
		list_for_each_entry_safe(lane, next, &s->remote->lanes, link)
			if (!lane->places && list_empty(&lane->held))
				lane_free(lane);
		list_add(&new->link, &s->remote->lanes);
	}
	spin_unlock(&s->lock);
	return 0;
}

/**
 * treadle_lane_open - may a new command of a lane have a place?
 * @s:		the session
 * @lane:	the lane
 *
 * Context: s->lock held.
 * Return: false: commands of the lane wait for one, or it has its share.
 */
bool treadle_lane_open(const struct treadle_session *s, const struct treadle_lane *lane)
{
	lockdep_assert_held(&s->lock);
	return list_empty(&lane->held) && lane->places < TREADLE_COMMANDS - s->remote->places;
}

/**
 * treadle_lane_enter - a command gets a place
 * @s:		the session
 * @lane:	of its user; open
 *
 * Context: s->lock held.
 */
void treadle_lane_enter(struct treadle_session *s, struct treadle_lane *lane)
{
	lockdep_assert_held(&s->lock);
	lane->places++;
	s->remote->places++;
}

/**
 * treadle_lane_queue - let a command wait for the session, or in its lane for a place
 * @s:		the session
 * @lane:	of its user
 * @cmd:	the command
 *
 * Context: s->lock held.
 */
void treadle_lane_queue(struct treadle_session *s, struct treadle_lane *lane,
			struct treadle_cmd *cmd)
{
	struct treadle_remote *r = s->remote;

	lockdep_assert_held(&s->lock);
	s->queued++;
	if (treadle_lane_open(s, lane)) {
		treadle_lane_enter(s, lane);
		list_add_tail(&cmd->wait, &r->queued);
		return;
	}
	cmd->held = true;
	list_add_tail(&cmd->wait, &lane->held);
	if (list_empty(&lane->wait))
		list_add_tail(&lane->wait, &r->held);
}

/**
 * treadle_lane_leave - a command of the table, of the queue or of a lane has ended
 * @s:		the session
 * @cmd:	the command; its place in the table is free already
 *
 * Context: s->lock held.
 */
void treadle_lane_leave(struct treadle_session *s, struct treadle_cmd *cmd)
{
	struct treadle_lane *lane = treadle_lane_of(s, cmd);
	struct treadle_remote *r = s->remote;

	lockdep_assert_held(&s->lock);
	if (!cmd->sent) {
		list_del(&cmd->wait);
		s->queued--;
	}
	if (WARN_ON_ONCE(!lane))
		return;
	if (cmd->held) {
		cmd->held = false;
		if (list_empty(&lane->held))
			list_del_init(&lane->wait);
		return;
	}
	lane->places--;
	r->places--;
	/* treadle_lanes_go_on() follows, with the answer if nothing else comes */
	if (unlikely(!list_empty(&r->held))) {
		treadle_session_starve(s);
		treadle_session_ping(s);
	}
}

/**
 * treadle_lanes_go_on - give free places to commands that are held
 * @s:		the session, with ->remote
 *
 * Each lane in @held has a place, so there are TREADLE_COMMANDS of them at most.
 *
 * Context: s->lock held.
 */
void treadle_lanes_go_on(struct treadle_session *s)
{
	struct treadle_remote *r = s->remote;
	struct treadle_lane *lane, *next;
	struct treadle_cmd *cmd;

	lockdep_assert_held(&s->lock);
	list_for_each_entry_safe(lane, next, &r->held, wait) {
		while (!list_empty(&lane->held) && lane->places < TREADLE_COMMANDS - r->places) {
			cmd = list_first_entry(&lane->held, struct treadle_cmd, wait);
			cmd->held = false;
			list_move_tail(&cmd->wait, &r->queued);
			treadle_lane_enter(s, lane);
		}
		if (list_empty(&lane->held))
			list_del_init(&lane->wait);
	}
}

/**
 * treadle_lanes_first - the first command that waits, in the queue or in a lane
 * @s:		the session, with ->remote
 *
 * Context: s->lock held.
 * Return: the command, or NULL.
 */
struct treadle_cmd *treadle_lanes_first(struct treadle_session *s)
{
	struct treadle_remote *r = s->remote;
	struct treadle_lane *lane;

	lockdep_assert_held(&s->lock);
	if (!list_empty(&r->queued))
		return list_first_entry(&r->queued, struct treadle_cmd, wait);
	lane = list_first_entry_or_null(&r->held, struct treadle_lane, wait);
	return lane ? list_first_entry(&lane->held, struct treadle_cmd, wait) : NULL;
}

/**
 * treadle_lanes_free - free all lanes, which have no commands
 * @r:		of a session that nothing uses any more
 *
 * Context: any.
 */
void treadle_lanes_free(struct treadle_remote *r)
{
	struct treadle_lane *lane, *next;

	list_for_each_entry_safe(lane, next, &r->lanes, link)
		lane_free(lane);
}
