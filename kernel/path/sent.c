// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: commands that other nodes have, until their answers
 *
 * A command that was sent, or waits for the session, is in ep->parked, and holds the session. Both,
 * ep->parked and the table of references or the queue, change under ep->lock and s->lock, in this
 * order. The one that takes a command out of them owns it.
 */
#include <linux/slab.h>

#include "path/remote.h"

/* Counts beginnings of all sessions: handles of another one mean nothing (remote->begun). */
static atomic64_t begun;

/* Bytes that come back with the answer. */
static u64 result(const struct treadle_desc *d)
{
	return d->opcode == TREADLE_OP_READ || d->opcode == TREADLE_OP_FETCH ||
			       d->opcode == TREADLE_OP_COMPARE ?
		       d->len :
		       0;
}

/* --- references --------------------------------------------------------------------------- */

/**
 * treadle_sent_find - find a command that the other node has
 * @s:		the session
 * @reference:	what the other node says; maybe of a command that has ended
 *
 * Context: s->lock held.
 * Return: its place, or NULL.
 */
struct treadle_sent *treadle_sent_find(struct treadle_session *s, u32 reference)
{
	u32 i = (reference & 0xffff) - 1;
	struct treadle_sent *sent;

	lockdep_assert_held(&s->lock);
	if (!s->remote || i >= TREADLE_COMMANDS)
		return NULL;
	sent = &s->remote->sent[array_index_nospec(i, TREADLE_COMMANDS)];
	return sent->cmd && sent->generation == reference >> 16 ? sent : NULL;
}

/**
 * treadle_sent_take - give a command a reference, as it is sent
 * @s:		the session; it has a free place
 * @cmd:	the command
 *
 * Context: s->lock held.
 * Return: the place.
 */
struct treadle_sent *treadle_sent_take(struct treadle_session *s, struct treadle_cmd *cmd)
{
	struct treadle_remote *r = s->remote;
	struct treadle_sent *sent = &r->sent[r->free];

	lockdep_assert_held(&s->lock);
	cmd->sent = true;
	cmd->reference = sent->generation << 16 | (r->free + 1);
	r->free = sent->next;
	sent->cmd = cmd;
	sent->push = NULL;
	s->under_way++;
	return sent;
}

static void sent_free(struct treadle_session *s, struct treadle_sent *sent)
{
	struct treadle_remote *r = s->remote;

	lockdep_assert_held(&s->lock);
	r->asks -= sent->ask;
	sent->ask = false;
	sent->cmd = NULL;
	sent->generation++;
	sent->next = r->free;
	r->free = sent - r->sent;
	s->under_way--;
}

/*
 * Take a command out of both trees. True: it is the caller's. False: its push completes it with
 * @status, when it is not used any more.
 */
static bool detach(struct treadle_session *s, struct treadle_cmd *cmd, int status)
{
	struct treadle_sent *sent = cmd->sent ? treadle_sent_find(s, cmd->reference) : NULL;
	struct treadle_push *push = sent ? sent->push : NULL;

	lockdep_assert_held(&s->lock);
	lockdep_assert_held(&cmd->ep->lock);
	rb_erase(&cmd->by_context, &cmd->ep->parked);
	if (sent)
		sent_free(s, sent);
	treadle_share_leave(s, cmd);
	cmd->sent = cmd->asked = false;
	treadle_sent_whole(cmd);
	if (push && !treadle_push_stop(push, status))
		return false;
	if (push)
		treadle_push_free(push);
	return true;
}

/**
 * treadle_sent_whole - a command does not go in pieces after all, or has ended
 * @cmd:	the command; its push was not started
 *
 * Context: any.
 */
void treadle_sent_whole(struct treadle_cmd *cmd)
{
	if (!cmd->in_pieces)
		return;
	cmd->in_pieces = false;
	kfree(cmd->own);
	cmd->own = NULL;
}

/* The command with @reference; 0: the first one that waits. Or NULL. */
static struct treadle_cmd *find(struct treadle_session *s, u32 reference)
{
	struct treadle_sent *sent;

	lockdep_assert_held(&s->lock);
	if (!reference)
		return s->remote ? treadle_shares_first(s) : NULL;
	sent = treadle_sent_find(s, reference);
	return sent ? sent->cmd : NULL;
}

/*
 * Take a command out, as find() finds it. False: there is none. *@cmd: the command, which is the
 * caller's, with its reference of the session; or NULL: its push completes it.
 */
static bool take_out(struct treadle_session *s, u32 reference, int status, struct treadle_cmd **cmd)
{
	struct treadle_cmd *found;
	struct treadle_ep *ep;

	*cmd = NULL;
	spin_lock(&s->lock);
	found = find(s, reference);
	ep = found ? found->ep : NULL;
	if (ep && spin_trylock(&ep->lock)) { /* against the order of locks: only tried */
		if (detach(s, found, status))
			*cmd = found;
		/* in this order: a push ends under s->lock, and then the endpoint may be gone */
		spin_unlock(&ep->lock);
		spin_unlock(&s->lock);
		return true;
	}
	if (ep)
		treadle_ep_get(ep);
	spin_unlock(&s->lock);
	if (!ep)
		return false;
	spin_lock(&ep->lock);
	spin_lock(&s->lock);
	found = find(s, reference);
	if (found && found->ep == ep && detach(s, found, status))
		*cmd = found;
	spin_unlock(&s->lock);
	spin_unlock(&ep->lock);
	treadle_ep_put(ep);
	return true;
}

/* Complete and count a command that was sent. */
static void end_sent(struct treadle_cmd *cmd, int error, struct treadle_run *run)
{
	const struct treadle_stats *s = &cmd->ep->obj.stats;

	if (!error) {
		treadle_cmd_count(cmd);
		treadle_stat_add(s, TREADLE_STAT_REMOTE, 1);
		if (treadle_op_remote(cmd->d.opcode))
			treadle_stat_add(s, TREADLE_STAT_REMOTE_RMA, 1);
	}
	treadle_cmd_complete(cmd, error, run);
}

/**
 * treadle_sent_complete - complete a command that was sent
 * @cmd:	the command, in no table any more; consumed
 * @error:	0 or why it has failed. Of a datagram, only a fault of its own bytes counts
 * @run:	of the caller
 *
 * Context: May sleep.
 */
void treadle_sent_complete(struct treadle_cmd *cmd, int error, struct treadle_run *run)
{
	if (cmd->ep->type == TREADLE_EP_DGRAM && error != -EFAULT)
		error = 0;
	end_sent(cmd, error, run);
}

/**
 * treadle_remote_end_push - end a command that goes in pieces
 * @s:		the session
 * @reference:	of the command; nothing happens if it has ended
 * @status:	with which it completes, once its push is not used any more
 * @run:	of the caller
 *
 * Context: May sleep. Takes ep->lock and s->lock.
 */
void treadle_remote_end_push(struct treadle_session *s, u32 reference, int status,
			     struct treadle_run *run)
{
	struct treadle_cmd *cmd;

	take_out(s, reference, status, &cmd);
	if (!cmd)
		return;
	treadle_sent_complete(cmd, status, run);
	treadle_session_put(s);
}

/* The session ends: complete a command that was taken out, for the worker of its context. */
static void end(struct treadle_session *s, struct treadle_cmd *cmd, int error)
{
	struct treadle_ep *ep = treadle_ep_get(cmd->ep);
	TREADLE_RUN(run, ep->obj.ctx);

	treadle_sent_complete(cmd, error, &run);
	treadle_run_handoff(&run); /* it may wait for pages */
	treadle_session_put(s);
	treadle_ep_put(ep);
}

/* --- the end of commands ------------------------------------------------------------------ */

/**
 * treadle_sent_withdraw - take back a command: the ->withdraw of commands for other nodes
 * @cmd:	the command
 *
 * One that was sent is taken back when its endpoint ends, of which the other node is told (GONE).
 * To cancel it, the other node is asked.
 *
 * Context: ep->lock held. Takes s->lock.
 * Return: see enum treadle_withdrawn.
 */
enum treadle_withdrawn treadle_sent_withdraw(struct treadle_cmd *cmd)
{
	u16 host = treadle_source_host(treadle_dest_source(cmd->dest));
	struct treadle_session *s = treadle_session_get(cmd->ep->obj.ctx->net, host);
	enum treadle_withdrawn how = TREADLE_NOT_HERE;
	struct treadle_ep *ep = cmd->ep;

	lockdep_assert_held(&ep->lock);
	if (!s) /* it has no number any more, and is about to end */
		return how;
	spin_lock(&s->lock);
	if (cmd->sent && !ep->closed) {
		rb_erase(&cmd->by_context, &ep->parked);
		cmd->asked = true;
		treadle_wait_add(&ep->parked, cmd);
		treadle_sent_ask(s, treadle_sent_find(s, cmd->reference));
		how = TREADLE_ASKED;
	} else if (detach(s, cmd, treadle_ep_error(ep))) {
		how = TREADLE_OURS;
	}
	spin_unlock(&s->lock);
	if (how == TREADLE_OURS)
		treadle_session_put(s);
	treadle_session_put(s);
	return how;
}

/* Results that can't be delivered at once: the worker of the command's context does it. */
struct landing {
	struct treadle_job job;
	struct treadle_cmd *cmd;
	u64 done;
	u32 len;
	u8 bytes[];
};

/**
 * treadle_sent_place - copy bytes that have come back to where the command wants them
 * @cmd:	READ, FETCH or COMPARE
 * @bytes:	in the kernel
 * @done:	bytes that are in place; counts them
 * @len:	bytes in all
 * @offset:	of the first one, in the command's buffers
 * @run:	of the caller
 *
 * Context: May sleep.
 * Return: as treadle_copy().
 */
int treadle_sent_place(const struct treadle_cmd *cmd, const u8 *bytes, u64 *done, u64 len,
		       u64 offset, struct treadle_run *run)
{
	unsigned int count = cmd->d.iov_count;
	struct treadle_span src, dst;
	const struct treadle_iov *iov;
	enum treadle_side side;
	struct treadle_iov one;

	iov = cmd->d.opcode == TREADLE_OP_READ ? treadle_cmd_iov(cmd) :
						 treadle_cmd_fetch(cmd, 0, &one, &count);
	treadle_span_kernel(&src, (u8 *)bytes, *done);
	treadle_span_user(&dst, cmd->ep->obj.ctx, &cmd->ep->closed, iov, count, offset + *done);
	return treadle_copy(&dst, &src, done, len, run, &side);
}

static int land_error(const struct treadle_cmd *cmd, int ret)
{
	return ret == -ESHUTDOWN ? treadle_ep_error(cmd->ep) : ret;
}

static void land_job(struct treadle_job *job, struct treadle_run *run)
{
	struct landing *l = container_of(job, struct landing, job);
	struct treadle_cmd *cmd = l->cmd;
	int ret = treadle_sent_place(cmd, l->bytes, &l->done, l->len, 0, run);

	if (ret == -EAGAIN || ret == -EINPROGRESS) {
		treadle_queue_job(job);
		return;
	}
	kfree(l);
	end_sent(cmd, land_error(cmd, ret), run);
}

/* Deliver results, and complete the command. Consumes it; may sleep. */
static void deliver(struct treadle_cmd *cmd, const u8 *bytes, u32 len, struct treadle_run *run)
{
	struct landing *l;
	u64 done = 0;
	int ret = treadle_sent_place(cmd, bytes, &done, len, 0, run);

	if (ret != -EAGAIN && ret != -EINPROGRESS) {
		end_sent(cmd, land_error(cmd, ret), run);
		return;
	}
	l = treadle_cmd_alloc(cmd, struct_size(l, bytes, len), TREADLE_GFP, run);
	if (!l) {
		treadle_cmd_complete(cmd, -ENOMEM, run);
		return;
	}
	l->cmd = cmd;
	l->done = done;
	l->len = len;
	memcpy(l->bytes, bytes, len);
	INIT_LIST_HEAD(&l->job.link);
	l->job.ctx = cmd->ep->obj.ctx;
	l->job.fn = land_job;
	treadle_queue_job(&l->job);
}

/**
 * treadle_remote_done - the other node says what has become of a command
 * @s:		the session
 * @view:	DONE, and what the command has fetched
 * @run:	of the caller; takes what the completion fires
 *
 * Context: May sleep. Takes ep->lock and s->lock.
 */
void treadle_remote_done(struct treadle_session *s, const struct treadle_wire_view *view,
			 struct treadle_run *run)
{
	const struct treadle_wire_done *w = (const struct treadle_wire_done *)view->item;
	u32 status = le32_to_cpu(w->status);
	int error = status > MAX_ERRNO ? -EIO : -(int)status;
	u32 reference = le32_to_cpu(w->item.reference);
	struct treadle_cmd *cmd = NULL;

	if (reference)
		take_out(s, reference, error, &cmd);
	if (!cmd)
		return;
	if (!error && view->bytes != result(&cmd->d))
		error = -EIO; /* the other node breaks the rules */
	if (!error && view->bytes)
		deliver(cmd, view->payload, view->bytes, run);
	else if (cmd->ep->type != TREADLE_EP_DGRAM &&
		 (error == -ECANCELED || error == -ENOMEM)) /* it has not begun */
		treadle_cmd_fail(cmd, error, run);
	else
		treadle_sent_complete(cmd, error, run);
	treadle_session_put(s);
}

/**
 * treadle_remote_alloc - give a session what commands need to wait for it
 * @s:	the session
 *
 * Context: may sleep. Takes s->lock.
 * Return: s->remote; NULL: no memory.
 */
struct treadle_remote *treadle_remote_alloc(struct treadle_session *s)
{
	struct treadle_remote *r = kvzalloc(sizeof(*r), GFP_KERNEL_ACCOUNT);
	u32 i;

	if (!r)
		return NULL;
	INIT_LIST_HEAD(&r->queued);
	INIT_LIST_HEAD(&r->shares);
	INIT_LIST_HEAD(&r->held);
	INIT_LIST_HEAD(&r->waiting);
	INIT_LIST_HEAD(&r->connecting);
	for (i = 0; i < TREADLE_COMMANDS; i++)
		r->sent[i].next = i + 1;
	spin_lock(&s->lock);
	if (!s->remote) {
		s->remote = r;
		r = NULL;
	}
	spin_unlock(&s->lock);
	kvfree(r);
	return s->remote;
}

/**
 * treadle_remote_begin - a session begins: the other node knows no endpoint of this one
 * @s:		the session
 *
 * Context: May sleep. Takes s->lock.
 * Return: 0 or -ENOMEM.
 */
int treadle_remote_begin(struct treadle_session *s)
{
	struct treadle_remote *r = s->remote ?: treadle_remote_alloc(s);
	u32 i;

	if (!r)
		return -ENOMEM;
	spin_lock(&s->lock);
	WRITE_ONCE(r->begun, atomic64_inc_return(&begun));
	bitmap_zero(r->handles, TREADLE_HANDLES);
	bitmap_zero(r->gone, TREADLE_HANDLES);
	r->nr_gone = 0;
	bitmap_zero(r->unknown, TREADLE_HANDLES);
	r->nr_unknown = 0;
	bitmap_zero(r->watched, TREADLE_HANDLES);
	r->nr_watched = 0;
	r->aborts = 0;
	for (i = 0; i < TREADLE_COMMANDS; i++)
		r->sent[i].abort = 0;
	spin_unlock(&s->lock);
	return 0;
}

/**
 * treadle_remote_end - the other node is lost: end all commands
 * @s:		the session
 * @error:	for commands that were not sent
 *
 * Context: May sleep. Takes ep->lock and s->lock.
 */
void treadle_remote_end(struct treadle_session *s, int error)
{
	struct treadle_cmd *cmd;
	u32 i, reference;

	if (!s->remote)
		return;
	spin_lock(&s->lock);
	s->remote->ending = true; /* no more commands: the loops have an end */
	spin_unlock(&s->lock);
	for (i = 0; i < TREADLE_COMMANDS; i++) {
		spin_lock(&s->lock);
		cmd = s->remote->sent[i].cmd;
		reference = cmd ? cmd->reference : 0;
		spin_unlock(&s->lock);
		if (reference && take_out(s, reference, -ECONNRESET, &cmd) && cmd)
			end(s, cmd, -ECONNRESET);
		cond_resched();
	}
	while (take_out(s, 0, error, &cmd)) {
		if (cmd)
			end(s, cmd, error);
		cond_resched();
	}
	spin_lock(&s->lock);
	s->remote->ending = false;
	spin_unlock(&s->lock);
}

/**
 * treadle_remote_free - free what a session had to send: nothing is left
 * @s:		the session
 *
 * Context: any.
 */
void treadle_remote_free(struct treadle_session *s)
{
	if (s->remote)
		treadle_shares_free(s->remote);
	kvfree(s->remote);
}
