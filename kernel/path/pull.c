// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: the bytes of a message that are at another node
 *
 * Once the message has a receive, the worker of the receiving context makes the pages of the next
 * window known, and asks for as much (GRANT). Arriving bytes are copied to these pages. If one is
 * missing again, the bytes are dropped, and the worker asks for them anew.
 *
 * Either the message's job has the message, or the arrival (pull->receiving); the one that has it
 * passes it to the other one.
 */
#include <linux/slab.h>

#include "path/remote.h"

#define WINDOW (16 * TREADLE_WIRE_PIECE) /* bytes under way for one message */

/* The first pull with the index of a reference; NULL: the other node has made it up. */
static struct treadle_pull **place_of(struct treadle_session *s, u32 reference)
{
	u32 i = (reference & 0xffff) - 1;

	lockdep_assert_held(&s->lock);
	if (!s->proxies || i >= TREADLE_COMMANDS)
		return NULL;
	return &s->proxies->pulls[array_index_nospec(i, TREADLE_COMMANDS)];
}

static struct treadle_pull *find(struct treadle_session *s, u32 reference)
{
	struct treadle_pull **place = place_of(s, reference);
	struct treadle_pull *pull = place ? *place : NULL;

	while (pull && pull->reference != reference) /* each has a credit: they are few */
		pull = pull->next;
	return pull;
}

/* The pull of a message that has begun to be delivered, in cmd->own. Returns NULL or an error. */
static int pull_begin(struct treadle_msg *msg, struct treadle_run *run)
{
	struct treadle_cmd *cmd = msg->cmd;
	struct treadle_proxy *proxy = treadle_proxy_of(cmd);
	struct treadle_session *s = proxy->session;
	struct treadle_pull *pull, **place;
	int ret = 0;

	pull = treadle_cmd_alloc(cmd, sizeof(*pull), TREADLE_GFP | __GFP_ZERO, run);
	if (!pull)
		return -ENOMEM;
	pull->msg = msg;
	pull->proxy = proxy;
	pull->reference = cmd->d.context;
	spin_lock(&s->lock);
	place = treadle_proxy_valid(proxy) ? place_of(s, pull->reference) : NULL;
	if (place && !find(s, pull->reference)) {
		pull->next = *place;
		*place = pull;
	} else {
		ret = -ESHUTDOWN; /* the session has ended; or a reference is used twice */
	}
	spin_unlock(&s->lock);
	if (ret)
		kfree(pull);
	else
		cmd->own = pull;
	return ret;
}

/**
 * treadle_pull_release - a message has ended: forget its pull
 * @cmd:	of the message; the caller frees cmd->own
 *
 * Context: takes s->lock.
 */
void treadle_pull_release(struct treadle_cmd *cmd)
{
	struct treadle_pull *pull = cmd->own;
	struct treadle_session *s = treadle_proxy_of(cmd)->session;
	struct treadle_pull **place;

	if (!pull)
		return;
	spin_lock(&s->lock);
	if (pull->due)
		list_del(&pull->wait);
	place = place_of(s, pull->reference);
	while (place && *place && *place != pull)
		place = &(*place)->next;
	if (place && *place)
		*place = pull->next;
	spin_unlock(&s->lock);
}

/* Ask for the next bytes. False: there is no room for that. */
static bool grant(struct treadle_session *s, struct treadle_pull *pull)
{
	struct treadle_wire_grant *w;

	lockdep_assert_held(&s->lock);
	w = treadle_session_item(s, TREADLE_WIRE_GRANT, sizeof(*w), pull->reference);
	if (!w)
		return false;
	w->offset = cpu_to_le64(pull->msg->done);
	w->end = cpu_to_le64(pull->granted);
	treadle_session_flush(s);
	return true;
}

/* Pass the message to the arrival of its bytes. Returns -EIOCBQUEUED, or why they won't come. */
static int receive(struct treadle_pull *pull, u64 granted)
{
	struct treadle_session *s = pull->proxy->session;
	int ret = -EIOCBQUEUED;

	spin_lock(&s->lock);
	if (pull->status) {
		ret = pull->status;
	} else if (!treadle_proxy_valid(pull->proxy) || READ_ONCE(pull->proxy->ep.closed)) {
		ret = -ESHUTDOWN;
	} else {
		pull->granted = granted;
		pull->receiving = true;
		if (!grant(s, pull)) {
			pull->due = true;
			list_add_tail(&pull->wait, &s->proxies->due);
			treadle_session_starve(s);
		}
	}
	spin_unlock(&s->lock);
	return ret;
}

/**
 * treadle_pull_fetch - get the bytes of a message: the ->fetch of messages from other nodes
 * @msg:	the message; see struct treadle_msg_ops for all
 * @to:		where they go, from msg->done on
 * @len:	up to which offset
 * @run:	of the caller
 * @side:	set to the side of an error
 *
 * Context: May sleep. Takes s->lock.
 * Return: as treadle_copy(); or -EIOCBQUEUED: the message is not the caller's any more.
 */
int treadle_pull_fetch(struct treadle_msg *msg, struct treadle_span *to, u64 len,
		       struct treadle_run *run, enum treadle_side *side)
{
	struct treadle_cmd *cmd = msg->cmd;
	struct treadle_pull *pull;
	u64 window;
	int ret;

	if (msg->payload || !(cmd->d.flags & TREADLE_F_PULL))
		return treadle_local_fetch(msg, to, len, run, side);
	*side = TREADLE_DST;
	pull = cmd->own;
	if (pull && pull->broken)
		return pull->broken;
	if (msg->done == len)
		return 0;
	if (!msg->heap || !run->worker || run->ctx != msg->to->obj.ctx)
		return -EINPROGRESS;
	window = min_t(u64, len - msg->done, WINDOW);
	ret = treadle_span_prepare(to, window, true, run);
	if (!ret && !pull) {
		ret = pull_begin(msg, run);
		*side = ret == -ESHUTDOWN ? TREADLE_SRC : TREADLE_DST;
		pull = cmd->own;
	}
	if (ret)
		return ret;
	*side = TREADLE_SRC;
	return receive(pull, msg->done + window);
}

/**
 * treadle_pull_room - ask for bytes, where that had to wait
 * @s:		the session
 *
 * Context: takes s->lock.
 */
void treadle_pull_room(struct treadle_session *s)
{
	struct treadle_pull *pull;

	spin_lock(&s->lock);
	while (s->proxies && !list_empty(&s->proxies->due)) {
		pull = list_first_entry(&s->proxies->due, struct treadle_pull, wait);
		if (!grant(s, pull)) {
			treadle_session_starve(s);
			break;
		}
		pull->due = false;
		list_del(&pull->wait);
	}
	spin_unlock(&s->lock);
}

/* Pass a message to its job: @broken: why its bytes can't be placed, or 0. */
static void to_job(struct treadle_pull *pull, int broken, struct treadle_run *run)
{
	struct treadle_msg *msg = pull->msg;

	pull->broken = broken;
	msg->job.ctx = msg->to->obj.ctx;
	if (run)
		treadle_run_add(run, &msg->job);
	else
		treadle_queue_job(&msg->job);
}

/* Take the message for the arrival of bytes at @offset. NULL: none waits for these. */
static struct treadle_pull *take(struct treadle_session *s, u32 reference, u64 offset, u32 bytes)
{
	struct treadle_pull *pull = find(s, reference);

	lockdep_assert_held(&s->lock);
	if (!pull || pull->due || !pull->receiving || pull->msg->done != offset ||
	    bytes > pull->granted - offset)
		return NULL;
	pull->receiving = false;
	return pull;
}

/**
 * treadle_pull_data - bytes of a message have come
 * @s:		the session
 * @view:	DATA; dropped if no message waits for it
 * @run:	of the caller; takes the delivery of a message that is complete
 *
 * Context: May sleep. Takes s->lock, and the lock of the receiver's pagemap.
 */
void treadle_pull_data(struct treadle_session *s, const struct treadle_wire_view *view,
		       struct treadle_run *run)
{
	const struct treadle_wire_data *w = (const struct treadle_wire_data *)view->item;
	struct treadle_span src, dst;
	enum treadle_side side;
	struct treadle_pull *pull;
	struct treadle_msg *msg;
	u64 done = 0, len;
	int ret;

	spin_lock(&s->lock);
	pull = take(s, le32_to_cpu(w->item.reference), le64_to_cpu(w->offset), view->bytes);
	spin_unlock(&s->lock);
	if (!pull)
		return;
	msg = pull->msg;
	len = min(msg->len, msg->recv->one.len);
	treadle_msg_span(msg, &dst);
	treadle_span_kernel(&src, (u8 *)view->payload, 0);
	ret = treadle_copy(&dst, &src, &done, view->bytes, run, &side);
	msg->done += done;
	if (ret == -EAGAIN || ret == -EINPROGRESS) {
		to_job(pull, 0, NULL); /* asks for the rest anew */
		return;
	}
	if (ret) {
		to_job(pull, ret, NULL);
		return;
	}
	if (msg->done == len) {
		to_job(pull, 0, run);
		return;
	}
	if (msg->done == pull->granted) {
		to_job(pull, 0, NULL);
		return;
	}
	spin_lock(&s->lock);
	if (pull->status)
		to_job(pull, 0, NULL);
	else
		pull->receiving = true;
	spin_unlock(&s->lock);
}

/* The bytes won't come. Its job finds out, unless it has the message already. */
static void pull_abort(struct treadle_session *s, struct treadle_pull *pull, int status)
{
	lockdep_assert_held(&s->lock);
	pull->status = status;
	if (!pull->receiving)
		return;
	pull->receiving = false;
	to_job(pull, 0, NULL);
}

/**
 * treadle_pull_abort - the other node can't read the bytes of a message
 * @s:		the session
 * @view:	ABORT
 *
 * Context: takes s->lock.
 */
void treadle_pull_abort(struct treadle_session *s, const struct treadle_wire_view *view)
{
	const struct treadle_wire_abort *w = (const struct treadle_wire_abort *)view->item;
	u32 status = le32_to_cpu(w->status);
	struct treadle_pull *pull;

	spin_lock(&s->lock);
	pull = find(s, le32_to_cpu(w->item.reference));
	if (pull) /* the receive is put back, or fails */
		pull_abort(s, pull,
			   status == EFAULT || status == ENOMEM ? -(int)status : -ESHUTDOWN);
	spin_unlock(&s->lock);
}

/**
 * treadle_pull_abort_all - a sender has ended
 * @s:		the session
 * @proxy:	of the sender; NULL: all
 *
 * Context: s->lock held.
 */
void treadle_pull_abort_all(struct treadle_session *s, const struct treadle_proxy *proxy)
{
	struct treadle_pull *pull;
	u32 i;

	lockdep_assert_held(&s->lock);
	for (i = 0; s->proxies && i < TREADLE_COMMANDS; i++) {
		for (pull = s->proxies->pulls[i]; pull; pull = pull->next) {
			if (proxy && pull->proxy != proxy)
				continue;
			if (pull->due)
				list_del(&pull->wait);
			pull->due = false;
			pull_abort(s, pull, -ESHUTDOWN);
		}
	}
}

/**
 * treadle_pull_end - the session ends: no bytes come any more
 * @s:		the session
 *
 * From here on commands of the other node end without answers.
 *
 * Context: takes s->lock.
 * Return: s->proxies, which is NULL from now on.
 */
struct treadle_proxies *treadle_pull_end(struct treadle_session *s)
{
	struct treadle_proxies *p;

	spin_lock(&s->lock);
	treadle_pull_abort_all(s, NULL);
	p = s->proxies;
	s->proxies = NULL;
	spin_unlock(&s->lock);
	return p;
}
