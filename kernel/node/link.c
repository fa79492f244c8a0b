// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the manager of a session's links; event.c has what it is told
 *
 * One work for each session connects, accepts, leaves and ends. It looks at what is the case, and
 * not at what has happened: an event of a transport sets a flag, and queues the work. Only this
 * work sets and clears ->link; a link is left before another one is used, so no frame is processed
 * when the number of the last one is told. tests/model/connect.pml has the rules:
 *
 * An attempt has a number, larger than any that its node has seen. A node accepts only a larger one
 * than that of the last attempt that was accepted, so late requests end no connection. A node that
 * is refused learns the number of the other one. If both attempt at once, the attempt of the node
 * with the smaller id stays.
 *
 * A node that attempts has no link. So while one is used, what is offered waits until it is clear
 * that the other node does not use it any more: else any node that can connect could end it.
 */
#include <linux/random.h>
#include <net/net_namespace.h>

#include "core/trace.h"
#include "node/session.h"

#define ATTEMPT_MS  1000u /* until a link has to be live; longer if that fails often */
#define RETRY_MS    100u
#define MAX_SHIFT   3 /* RETRY_MS << MAX_SHIFT at most, and as much again */
#define MAX_ATTEMPT BIT_ULL(62)
#define LOOKS	    5u /* for a sign of life on a link, before an offer displaces it */
#define LOOK_MS	    100u

/**
 * treadle_session_kick() - let the manager look at a session
 * @s: the session, held
 *
 * Context: process context, under spinlocks, too.
 */
void treadle_session_kick(struct treadle_session *s)
{
	kref_get(&s->ref);
	if (mod_delayed_work(treadle_node_wq, &s->links->manage, 0))
		treadle_session_put(s); /* a queued work has a reference already */
}

/* Look again in @delay jiffies at the latest. */
static void look_again(struct treadle_session *s, unsigned long delay)
{
	kref_get(&s->ref);
	if (!queue_delayed_work(treadle_node_wq, &s->links->manage, delay))
		treadle_session_put(s);
}

/* --- ends --------------------------------------------------------------------------------- */

/* What this node says as it connects. */
static void make_hail(struct treadle_session *s, struct treadle_hail *hail, u64 attempt)
{
	*hail = (struct treadle_hail){
		.magic = cpu_to_le32(TREADLE_HAIL_MAGIC),
		.version = cpu_to_le32(TREADLE_HAIL_VERSION),
		.node = cpu_to_le64(s->node->id),
		.session = cpu_to_le64(s->links->anew ? s->links->next_id : s->links->id),
		.attempt = cpu_to_le64(attempt),
	};
}

/* The next identity of this side. */
static void draw(struct treadle_session_links *l)
{
	do {
		l->next_id = get_random_u64();
	} while (!l->next_id);
	get_random_bytes(l->next_nonce, sizeof(l->next_nonce));
}

/* Another identity for this side: the other one finds out that the session has ended. */
static void renew(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	l->id = l->next_id;
	memcpy(s->nonce[0], l->next_nonce, sizeof(s->nonce[0]));
	l->peer_id = 0;
	memset(s->nonce[1], 0, sizeof(s->nonce[1]));
	l->doubted = false;
	draw(l);
}

static void manage(struct work_struct *work);

/**
 * treadle_links_init() - set up the manager of a new session
 * @s: the session
 *
 * Context: any.
 */
void treadle_links_init(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	INIT_DELAYED_WORK(&l->manage, manage);
	INIT_LIST_HEAD(&l->offers);
	l->retry = jiffies;
	draw(l);
	renew(s);
}

/**
 * treadle_session_end() - end a session, begun or not: what waits for it ends
 * @s:	   the session; no frame of it is posted or processed
 * @error: -errno for what was not sent
 *
 * Context: the manager, without a link; or treadle_link_arrived() of a link for a new session. May
 * sleep.
 */
void treadle_session_end(struct treadle_session *s, int error)
{
	struct treadle_session_links *l = s->links;
	bool told;

	spin_lock(&s->lock);
	told = s->begun || l->wanted;
	s->up = false;
	l->wanted = false;
	treadle_session_reset(s);
	spin_unlock(&s->lock);
	if (!told)
		return;
	if (s->begun)
		trace_treadle_peer_down(s->host, treadle_session_traced(s), error);
	treadle_node_ops.end(s, error);
	spin_lock(&s->lock);
	s->begun = false;
	l->error = error;
	treadle_window_init(&s->window, TREADLE_ROOM, TREADLE_COMMANDS);
	renew(s);
	spin_unlock(&s->lock);
}

static void uncount(struct treadle_session *s)
{
	if (s->links->counted)
		atomic_dec(&s->node->handshakes);
	s->links->counted = false;
}

/* How long to wait before the next attempt: longer each time, and never the same. */
static unsigned long backoff(const struct treadle_session_links *l)
{
	u32 ms = RETRY_MS << min_t(u32, l->failures, MAX_SHIFT);

	return msecs_to_jiffies(ms + get_random_u32() % ms);
}

/* Leave the link, whatever its state is. Its end may be that of the session. */
static void leave(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	struct treadle_link *link = l->link;
	const struct treadle_transport *transport = link->transport;
	bool live, known, refused, other;
	int verdict;
	u64 attempt, node;

	spin_lock(&s->lock);
	live = l->live;
	known = l->got == TREADLE_PROOF;
	treadle_session_unlink(s);
	spin_unlock(&s->lock);
	hrtimer_cancel(&l->patience); /* not started again: !live */
	cancel_delayed_work_sync(&l->tick);
	l->ticking = false;
	transport->leave(link);
	if (l->mapped && transport->unmap)
		treadle_frames_unmap(link, l->memory, TREADLE_ROOM, TREADLE_BARE);
	l->mapped = false;
	uncount(s);

	refused = !link->offered && !link->up && link->hail.magic;
	attempt = le64_to_cpu(link->hail.attempt);
	node = le64_to_cpu(link->hail.node);
	other = link->hail.magic && link->hail.version != cpu_to_le32(TREADLE_HAIL_VERSION);
	if (refused && attempt < MAX_ATTEMPT)
		l->number = max(l->number, attempt);
	/* an attempt that was accepted from a node which is not known is not remembered */
	if (!live && link->offered)
		l->number = l->before;
	transport->free(link);

	spin_lock(&s->lock);
	verdict = other ? -EPROTONOSUPPORT : l->verdict;
	l->verdict = 0;
	l->broken = l->lingers = false;
	if (live) {
		l->lost = jiffies;
		trace_treadle_link_down(s->host, treadle_session_traced(s), l->error);
	}
	spin_unlock(&s->lock);
	l->failures = live ? 0 : l->failures + 1;
	/* the node with the smaller id begins, so that there is one attempt in most cases */
	l->retry = jiffies + (live && s->node->id < node ? 0 : backoff(l));
	/* a session that has begun ends by what a node says that has the secret, or by time */
	if (verdict && (known || !s->begun))
		treadle_session_end(s, verdict);
}

/* --- connections -------------------------------------------------------------------------- */

/* The link has this long to be live. */
static void set_deadline(struct treadle_session_links *l)
{
	l->deadline = jiffies + msecs_to_jiffies(ATTEMPT_MS << min(l->failures / 4, 2u));
}

/* Why the link ends, if nothing else says so. */
static int why_over(const struct treadle_session_links *l)
{
	if (!l->link->down)
		return -ETIMEDOUT;
	return l->live ? -ECONNRESET : -ECONNREFUSED;
}

/* How often a session with a link is looked at, and pings: thrice before silence ends the link. */
static unsigned long pace(const struct treadle_session *s)
{
	return max(1u, min(9u, s->node->listen.peer_timeout) * HZ / 9);
}

/* Has the link to be left? */
static bool is_over(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	unsigned long now = jiffies, silence = s->node->listen.peer_timeout * HZ / 3;
	bool over;

	if (!l->link)
		return false;
	spin_lock(&s->lock);
	over = ((l->link->down || l->broken) && !l->lingers) || l->closing;
	if (!l->live)
		over |= time_after_eq(now, l->deadline);
	else
		over |= !l->corked && time_after(now, l->heard + silence);
	if (over && !l->broken && !l->closing)
		l->error = why_over(l);
	spin_unlock(&s->lock);
	return over;
}

static void refuse(struct treadle_session *s, struct treadle_link *link)
{
	struct treadle_hail hail;

	make_hail(s, &hail, s->links->number);
	link->transport->refuse(link, &hail);
}

/* May an offer be accepted? */
static bool acceptable(struct treadle_session *s, const struct treadle_link *link)
{
	const struct treadle_session_links *l = s->links;
	u64 attempt = le64_to_cpu(link->hail.attempt);

	if (l->closing || link->down || attempt <= l->number || attempt >= 2 * MAX_ATTEMPT)
		return false;
	if (l->link && !l->link->offered && !l->mapped &&
	    s->node->id < le64_to_cpu(link->hail.node))
		return false; /* the own attempt stays */
	return true;
}

/*
 * Does the node at the other end have another session than this one has? That is believed when it
 * has proven that it knows the secret.
 */
static bool is_other(const struct treadle_session *s, const struct treadle_link *link)
{
	return s->begun && le64_to_cpu(link->hail.session) != s->links->peer_id;
}

static void accept(struct treadle_session *s, struct treadle_link *link)
{
	struct treadle_session_links *l = s->links;
	struct treadle_hail hail;

	if (l->link) {
		leave(s);
		if (!acceptable(s, link)) {
			refuse(s, link);
			return;
		}
	}
	if (atomic_inc_return(&s->node->handshakes) > TREADLE_HANDSHAKES || treadle_frames_get(s)) {
		atomic_dec(&s->node->handshakes);
		refuse(s, link);
		return;
	}
	l->counted = true;
	l->before = l->number;
	l->number = le64_to_cpu(link->hail.attempt);
	set_deadline(l);
	spin_lock(&s->lock);
	l->link = link;
	l->anew = is_other(s, link);
	spin_unlock(&s->lock);
	make_hail(s, &hail, l->number);
	if (link->transport->accept(link, &hail))
		leave(s);
}

/*
 * Does the other node use the link, so that what is offered is not of that node? It answers a PING
 * that is sent after the offer then. 1: yes; 0: no; -EAGAIN: that is not known yet.
 */
static int is_used(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	int ret = 0;

	spin_lock(&s->lock);
	if (!l->live || l->link->down || l->broken || list_empty(&l->offers)) {
		l->looks = 0;
	} else if (l->looks && l->answers >= l->probe) {
		l->looks = 0;
		ret = 1;
	} else if (!l->looks || l->corked || l->seen != l->heard) {
		l->probe = l->looks ? l->probe : l->pings + 1;
		l->seen = l->heard;
		l->looks = LOOKS;
		l->look_at = jiffies + msecs_to_jiffies(LOOK_MS);
		ret = -EAGAIN;
	} else {
		/* each look counts, and not the time: a busy host may not have run anything */
		if (time_after_eq(jiffies, l->look_at)) {
			l->looks--;
			l->look_at = jiffies + msecs_to_jiffies(LOOK_MS);
		}
		ret = l->looks ? -EAGAIN : 0;
	}
	if (ret == -EAGAIN)
		treadle_session_ping(s);
	spin_unlock(&s->lock);
	return ret;
}

/* Accept or refuse what was offered, as many as there can be at once. */
static void take_offers(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	int n, used = is_used(s);
	struct treadle_link *link;

	if (used < 0)
		return;
	/* offers that come meanwhile have queued this work again */
	for (n = 0; n < TREADLE_OFFERS; n++) {
		spin_lock(&s->lock);
		link = list_first_entry_or_null(&l->offers, struct treadle_link, offers);
		if (link) {
			list_del(&link->offers);
			l->nr_offers--;
		}
		spin_unlock(&s->lock);
		if (!link)
			return;
		if (link->hail.version != cpu_to_le32(TREADLE_HAIL_VERSION)) {
			refuse(s, link);
			if (!s->begun && !l->link)
				treadle_session_end(s, -EPROTONOSUPPORT);
		} else if (!used && acceptable(s, link)) {
			accept(s, link);
		} else {
			refuse(s, link);
		}
	}
}

/* The transport says that the link is up: recognize the other node. */
static void came_up(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	struct treadle_link *link = l->link;
	bool other;

	if (link->hail.version != cpu_to_le32(TREADLE_HAIL_VERSION)) {
		leave(s);
		return;
	}
	if (!link->offered) {
		l->number = max(l->number, l->attempt);
		other = is_other(s, link);
		if (other != l->anew) {
			leave(s);
			l->doubted = other; /* the next attempt has the right identity */
			return;
		}
	}
	if (treadle_frames_map(link, l->memory)) {
		leave(s);
		return;
	}
	spin_lock(&s->lock);
	l->mapped = l->ready = true;
	treadle_hello_go(s);
	spin_unlock(&s->lock);
}

static void attempt(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	struct treadle_addr to = l->to.family ? l->to : s->addr;
	struct treadle_link *link = ERR_PTR(-ENOMEM);
	struct treadle_hail hail;

	if (!to.port)
		to.port = s->node->listen.addr.port;
	/* larger than before a boot, if the clock is right */
	l->attempt = max_t(u64, l->number + 1, ktime_get_real() / NSEC_PER_MSEC);
	l->anew = s->begun && l->doubted;
	make_hail(s, &hail, l->attempt);
	set_deadline(l);
	if (!treadle_frames_get(s))
		link = s->node->transport->connect(s, &to, &hail);
	if (IS_ERR(link)) {
		spin_lock(&s->lock);
		l->error = PTR_ERR(link);
		spin_unlock(&s->lock);
		l->failures++;
		l->retry = jiffies + backoff(l);
		return;
	}
	spin_lock(&s->lock);
	l->link = link;
	spin_unlock(&s->lock);
}

/**
 * treadle_link_passed() - the other node was recognized; frames may be posted
 * @s: the session
 *
 * Context: treadle_link_arrived() of its link; s->lock held.
 */
void treadle_link_passed(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	lockdep_assert_held(&s->lock);
	uncount(s);
	l->wanted = false;
	l->heard = l->passed = jiffies;
	l->ping_at = jiffies - pace(s); /* now */
	l->nr_links++;
	l->error = 0;
	treadle_session_kick(s); /* it looks at the link from time to time */
}

/* --- the work ----------------------------------------------------------------------------- */

/* End what has waited for too long. */
static void expire(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	unsigned long timeout = s->node->listen.peer_timeout * HZ;
	bool late;

	spin_lock(&s->lock);
	if (l->live) /* the other node may say something, and not acknowledge anything */
		late = !l->corked && !list_empty(&l->kept) &&
		       time_after_eq(jiffies, l->progress + timeout);
	else
		late = (s->begun && time_after_eq(jiffies, l->lost + timeout)) ||
		       (!s->begun && l->wanted && time_after_eq(jiffies, l->asked + timeout));
	spin_unlock(&s->lock);
	if (!late)
		return;
	if (l->link)
		leave(s);
	treadle_session_end(s, -EHOSTUNREACH);
}

/* How long nothing has to be done. Without a node: what has begun to wait meanwhile is stranded. */
static unsigned long next_look(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	unsigned long at, now = jiffies;

	spin_lock(&s->lock); /* the last user takes the node away, and that may be free then */
	at = s->node ? now + pace(s) : now + 1;
	spin_unlock(&s->lock);
	if (l->link && !l->live && time_before(l->deadline, at))
		at = l->deadline;
	if (!l->link && time_before(l->retry, at))
		at = l->retry;
	if (l->looks && time_before(l->look_at, at))
		at = l->look_at;
	return time_after(at, now) ? at - now : 1;
}

/* A session that needs no link leaves the table, unless an address vector names it. */
static void rest(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;
	bool idle, active;

	spin_lock(&s->lock);
	idle = !l->link && list_empty(&l->offers) && !s->begun && !l->wanted;
	active = l->active;
	if (idle)
		l->active = false;
	spin_unlock(&s->lock);
	if (!idle) {
		look_again(s, next_look(s));
		return;
	}
	treadle_frames_put(s);
	if (active) {
		struct net *net = l->net;

		treadle_host_drop(s);
		put_net(net);
	}
}

/* The node of the session is being closed. */
static void close_down(struct treadle_session *s)
{
	if (s->links->link)
		leave(s);
	take_offers(s); /* refuses them */
	treadle_session_end(s, -EHOSTUNREACH);
}

static void look(struct treadle_session *s)
{
	struct treadle_session_links *l = s->links;

	if (is_over(s))
		leave(s);
	take_offers(s);
	if (l->link && l->link->up && !l->mapped)
		came_up(s);
	expire(s);
	if (!l->link && (s->begun || l->wanted) && time_after_eq(jiffies, l->retry))
		attempt(s);
	spin_lock(&s->lock);
	/* also while other frames come: it measures the round trip */
	if (time_after_eq(jiffies, l->ping_at + pace(s)))
		treadle_session_ping(s);
	spin_unlock(&s->lock);
}

static void manage(struct work_struct *work)
{
	struct treadle_session_links *l =
		container_of(to_delayed_work(work), struct treadle_session_links, manage);
	struct treadle_session *s = treadle_session_of(l);
	bool closing, active, stranded;

	spin_lock(&s->lock);
	active = l->active && s->node; /* then it has its node until rest() */
	closing = l->closing;
	stranded = l->wanted && !active;
	spin_unlock(&s->lock);
	if (stranded)
		treadle_session_end(s, -EHOSTUNREACH);
	else if (active && closing)
		close_down(s);
	else if (active)
		look(s);
	rest(s);
	if (closing)
		treadle_session_detach(s);
	treadle_session_put(s);
}
