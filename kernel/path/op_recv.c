// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: receives that come through a transmit ring: armed ones, collective ones, peeks
 *
 * fi_msg(3), fi_tagged(3), fi_trigger(3). match/ takes those of a receive ring.
 */
#include <linux/slab.h>

#include "path/path.h"

/**
 * treadle_recv_validate - check a receive of a transmit ring
 * @cmd:	the command
 *
 * Context: any.
 * Return: 0, or an error of the submission.
 */
int treadle_recv_validate(struct treadle_cmd *cmd)
{
	const struct treadle_desc *d = &cmd->d;

	if ((!treadle_is_tagged(d) && (d->tag || d->ignore)) || !cmd->ep->rx ||
	    (d->flags & TREADLE_F_MULTI_RECV ? d->iov_count != 1 : d->data) ||
	    treadle_peek_validate(d))
		return -EINVAL;
	if (d->flags & TREADLE_F_COLLECTIVE) {
		if (!treadle_is_member(cmd->ep))
			return -EOPNOTSUPP;
		if (d->peer == TREADLE_ADDR_ANY || d->ignore || d->flags & TREADLE_F_CLAIM ||
		    d->flags & TREADLE_F_PEEK)
			return -EINVAL;
	}
	return 0;
}

/**
 * treadle_recv_bind - resolve the source of a receive, and allocate what it needs to repeat
 * @cmd:	the command
 *
 * A command without REPEAT becomes its receive. For one with it, the receive is allocated now, so
 * that firing can't fail for want of memory.
 *
 * Context: May sleep.
 * Return: 0, -EDESTADDRREQ or -ENOMEM.
 */
int treadle_recv_bind(struct treadle_cmd *cmd)
{
	const struct treadle_desc *d = &cmd->d;

	if (d->peer != TREADLE_ADDR_ANY) {
		cmd->route = cmd->ep->av ? treadle_av_resolve(cmd->ep->av, d->peer, &cmd->dest) :
					   -EDESTADDRREQ;
		if (cmd->route == -EHOSTUNREACH)
			cmd->route = treadle_av_reach(cmd->ep->av, d->peer, &cmd->dest);
		if (cmd->route == -EDESTADDRREQ)
			return cmd->route;
	}
	if (!(d->flags & TREADLE_F_REPEAT))
		return 0;
	cmd->recv = kzalloc(sizeof(*cmd->recv), TREADLE_GFP);
	return cmd->recv ? 0 : -ENOMEM;
}

/**
 * treadle_recv_issue - post a receive that came through a transmit ring, mostly an armed one
 * @cmd:	the command; consumed
 * @run:	of the caller
 *
 * Context: May sleep. Takes rx->lock.
 */
void treadle_recv_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_ep *ep = treadle_ep_get(cmd->ep);
	struct treadle_rx *rx = ep->rx;
	struct treadle_recv *recv;
	bool dead, shut;
	u64 seq;
	u32 source;
	u8 space;
	int ret = treadle_cmd_leave(&cmd, TREADLE_UNTRACKED, run);

	if (ret) {
		treadle_cmd_complete(cmd, ret, run);
		goto out;
	}
	recv = treadle_cmd_recv(cmd, &ret);
	space = recv->space;
	source = recv->m.node.src;
	if (ret) {
		treadle_recv_complete(recv, ep, NULL, ret, run);
		goto out;
	}
	if (recv->flags & (TREADLE_F_PEEK | TREADLE_F_CLAIM)) {
		treadle_peek_issue(recv, ep, run);
		goto out;
	}
	spin_lock(&rx->lock);
	if (space != TREADLE_COLLECTIVE)
		treadle_rx_take(rx, NULL, run); /* older receives match first */
	/* closing sets dead, then takes out what is posted under this lock */
	dead = READ_ONCE(ep->dead);
	seq = rx->seq; /* the number that @recv gets */
	if (!dead)
		treadle_rx_place(rx, recv, run);
	treadle_rx_feed(rx, run);
	shut = treadle_rx_shut(rx, run);
	spin_unlock(&rx->lock);
	if (dead)
		treadle_recv_free(recv);
	else
		treadle_rx_grow(rx, space, run);
	if (space == TREADLE_COLLECTIVE && !dead)
		treadle_rx_await(rx, source, seq, run);
	if (shut)
		treadle_rx_flush(rx, ep, rx->ring.entries, run);
out:
	treadle_ep_put(ep);
}
