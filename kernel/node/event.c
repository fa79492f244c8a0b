// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: what is told to the manager of a session's links: by transports, and by what waits
 *
 * Each sets a flag under s->lock, and queues the manager's work (link.c), which does the rest.
 */
#include <linux/module.h>
#include <net/net_namespace.h>

#include "node/session.h"

/*
 * From now on the session is in the table of its namespace. It may have left that for ever, if no
 * entry of an address vector names it any more: then the manager ends what waits.
 */
static void activate(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	if (l->active || !refcount_inc_not_zero(&l->users))
		return;
	l->active = true;
	get_net(l->net);
}

/**
 * treadle_session_connect() - let a session begin, as something waits for it
 * @s: the session; ->room is called when it is up, or else ->end
 *
 * Context: s->lock held.
 */
void treadle_session_connect(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	if (s->up || l->wanted)
		return;
	l->wanted = true;
	l->asked = jiffies;
	activate(s);
	treadle_session_kick(s);
}

/* What the other node has said as it connects. 0 or -EPROTO: it is no node. */
static int take_hail(struct treadle_link *link, const void *hail, size_t bytes)
{
	struct treadle_hail its;

	if (bytes < sizeof(its))
		return -EPROTO;
	memcpy(&its, hail, sizeof(its));
	if (its.magic != cpu_to_le32(TREADLE_HAIL_MAGIC))
		return -EPROTO;
	link->hail = its;
	return 0;
}

/**
 * treadle_link_offer() - another node connects to this one
 * @node:  that is reached
 * @link:  ->transport is set, and the rest is 0
 * @from:  address of the other node; its port doesn't matter
 * @hail:  what it has said
 * @bytes: so many
 *
 * Context: may sleep.
 * Return: 0: ->accept or ->refuse follows. An error: the transport refuses the link itself, without
 * a hail. -EPROTO: it is no node; -ELOOP: it is this one; -ESHUTDOWN; -EBUSY; -ENOMEM; -ENOSPC.
 */
int treadle_link_offer(struct treadle_node *node, struct treadle_link *link,
		       const struct treadle_addr *from, const void *hail, size_t bytes)
{
	struct treadle_session_links *l;
	struct treadle_session *s;
	int ret = take_hail(link, hail, bytes);

	if (ret)
		return ret;
	if (link->hail.node == cpu_to_le64(node->id))
		return -ELOOP;
	s = treadle_host_of(node, from);
	if (IS_ERR(s))
		return PTR_ERR(s);
	l = s->links;
	spin_lock(&s->lock);
	if (s->node != node || l->closing)
		ret = -ESHUTDOWN;
	else if (l->nr_offers == TREADLE_OFFERS)
		ret = -EBUSY;
	if (!ret) {
		activate(s); /* succeeds, as the caller has one of the users */
		link->session = s;
		link->from = *from;
		link->offered = true;
		l->nr_offers++;
		list_add_tail(&link->offers, &l->offers);
		treadle_session_kick(s);
	}
	spin_unlock(&s->lock);
	treadle_host_drop(s);
	return ret;
}
EXPORT_SYMBOL_GPL(treadle_link_offer);

/**
 * treadle_link_up() - frames may be sent on a link
 * @link:  the link
 * @hail:  what the other node has said as it accepted; NULL for a link that was offered
 * @bytes: so many
 *
 * Context: process context; takes s->lock.
 */
void treadle_link_up(struct treadle_link *link, const void *hail, size_t bytes)
{
	struct treadle_session *s = link->session;

	spin_lock(&s->lock);
	if (link->offered || !take_hail(link, hail, bytes))
		link->up = true;
	else
		link->down = true;
	treadle_session_kick(s);
	spin_unlock(&s->lock);
}
EXPORT_SYMBOL_GPL(treadle_link_up);

/**
 * treadle_link_down() - a link has ended, or an attempt was refused
 * @link:  the link; ->leave follows
 * @hail:  what the other node has said as it refused, or NULL
 * @bytes: so many
 *
 * Context: process context; takes s->lock.
 */
void treadle_link_down(struct treadle_link *link, const void *hail, size_t bytes)
{
	struct treadle_session *s = link->session;

	spin_lock(&s->lock);
	if (!link->offered && !link->up && hail)
		take_hail(link, hail, bytes);
	link->down = true;
	treadle_session_kick(s);
	spin_unlock(&s->lock);
}
EXPORT_SYMBOL_GPL(treadle_link_down);

/**
 * treadle_link_fail() - a link has to be left
 * @s:	   the session
 * @link:  the link
 * @error: -EPROTO, -EACCES, -ENOBUFS: the session ends with it, unless another link is used
 *	   already. Else it goes on with another link
 *
 * Context: process context; takes s->lock.
 */
void treadle_link_fail(struct treadle_session *s, struct treadle_link *link, int error)
{
	struct treadle_session_links *l = s->links;

	spin_lock(&s->lock);
	if (l->link == link) {
		l->broken = true;
		l->error = error;
		if (!l->verdict && (error == -EPROTO || error == -EACCES || error == -ENOBUFS))
			l->verdict = error;
		treadle_session_kick(s);
	}
	spin_unlock(&s->lock);
}
