// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: commands for other nodes that go in pieces
 *
 * A long message: the other node asks for its bytes once they can be placed (GRANT), and gets them
 * (DATA). A long WRITE is sent as commands, each of which has a piece. A long READ, too; each is
 * answered by ANSWER_DATA.
 *
 * The worker of the command's context does it, as it can wait for pages. A frame is never taken
 * before the pages are known: so no process holds up a session.
 */
#include <linux/slab.h>

#include "path/remote.h"

#define BATCH	     8	/* pieces before other jobs of the context get a turn */
#define READ_AT_ONCE 16 /* pieces of a READ that may be under way */

/* A piece of a READ for which a page is missing. */
struct late {
	struct list_head link;
	u64 offset, done;
	u32 len;
	u8 bytes[];
};

static void push_job(struct treadle_job *job, struct treadle_run *run);

static void push_init(struct treadle_push *push, struct treadle_session *s, struct treadle_cmd *cmd)
{
	push->s = s;
	push->cmd = cmd;
	INIT_LIST_HEAD(&push->late);
	INIT_LIST_HEAD(&push->job.link);
	push->job.ctx = cmd->ep->obj.ctx;
	push->job.fn = push_job;
}

/**
 * treadle_push_alloc - prepare a WRITE or READ for going in pieces
 * @s:		the session
 * @cmd:	the command, on the heap
 * @run:	of the caller
 *
 * Context: May sleep.
 * Return: the push, for treadle_push_start(), or for kfree() before that; NULL: no memory.
 */
struct treadle_push *treadle_push_alloc(struct treadle_session *s, struct treadle_cmd *cmd,
					struct treadle_run *run)
{
	struct treadle_push *push =
		treadle_cmd_alloc(cmd, sizeof(*push), TREADLE_GFP | __GFP_ZERO, run);

	if (push)
		push_init(push, s, cmd);
	return push;
}

/* Let the worker go on with @push. */
static void activate(struct treadle_push *push)
{
	lockdep_assert_held(&push->s->lock);
	if (push->active || push->waits || push->ended)
		return;
	push->active = true;
	push->users++;
	treadle_queue_job(&push->job);
}

/**
 * treadle_push_start - the command has its reference: send its pieces
 * @push:	holds the session from here on
 * @reference:	of the command
 * @from:	handle of its endpoint
 *
 * Context: s->lock held.
 */
void treadle_push_start(struct treadle_push *push, u32 reference, u32 from)
{
	u64 len = push->cmd->d.len;

	lockdep_assert_held(&push->s->lock);
	kref_get(&push->s->ref);
	push->reference = reference;
	push->from = from;
	push->end = len;
	if (push->cmd->d.opcode == TREADLE_OP_READ)
		push->end = min_t(u64, len, READ_AT_ONCE * TREADLE_WIRE_PIECE);
	activate(push);
}

/**
 * treadle_push_go_on - a push that waited may find a frame and a credit now
 * @push:	in remote->waiting
 *
 * Context: s->lock held.
 */
void treadle_push_go_on(struct treadle_push *push)
{
	lockdep_assert_held(&push->s->lock);
	list_del(&push->wait);
	push->waits = false;
	activate(push);
}

/**
 * treadle_push_stop - the command is out of the table: stop
 * @push:	in no table any more
 * @status:	with which the last user completes the command
 *
 * Context: s->lock held.
 * Return: true: there is no user: the push and the command are the caller's.
 */
bool treadle_push_stop(struct treadle_push *push, int status)
{
	const struct treadle_desc *d = &push->cmd->d;

	lockdep_assert_held(&push->s->lock);
	if (push->waits)
		list_del(&push->wait);
	push->waits = false;
	push->ended = true;
	if (!status && d->opcode == TREADLE_OP_READ && push->landed != d->len)
		status = -EIO; /* the other node breaks the rules */
	push->status = status;
	return !push->users;
}

/**
 * treadle_push_free - free a push that has been started
 * @push:	without users; its reference of the session is dropped
 *
 * Context: any.
 */
void treadle_push_free(struct treadle_push *push)
{
	struct late *late, *next;

	list_for_each_entry_safe(late, next, &push->late, link)
		kfree(late);
	treadle_session_put(push->s);
	kfree(push);
}

/* A user has done. The last one of a push that has ended completes the command. May sleep. */
static void drop_user(struct treadle_push *push, struct treadle_run *run)
{
	struct treadle_session *s = push->s;
	struct treadle_cmd *cmd = push->cmd;
	int status;
	bool last;

	spin_lock(&s->lock);
	last = !--push->users && push->ended;
	status = push->status;
	spin_unlock(&s->lock);
	if (!last)
		return;
	kref_get(&s->ref);
	treadle_push_free(push);
	treadle_sent_complete(cmd, status, run);
	treadle_session_put(s); /* of the command */
	treadle_session_put(s);
}

/* @push has to wait for a frame or a credit; or, not @waits, for what the other node says. */
static void idle(struct treadle_push *push, bool waits)
{
	struct treadle_session *s = push->s;

	lockdep_assert_held(&s->lock);
	push->active = false;
	if (!waits || push->ended)
		return;
	push->waits = true;
	list_add_tail(&push->wait, &s->remote->waiting);
	treadle_session_starve(s);
}

/* Tell the other node that the bytes can't be read. False: there is no room for that yet. */
static bool abort_at_peer(struct treadle_push *push)
{
	struct treadle_wire_abort *w;

	lockdep_assert_held(&push->s->lock);
	w = treadle_session_item(push->s, TREADLE_WIRE_ABORT, sizeof(*w), push->reference);
	if (!w)
		return false;
	w->status = cpu_to_le32(-push->failed);
	w->zero = 0;
	treadle_session_flush(push->s);
	return true;
}

/* Write the piece at @at into @frame. Returns as treadle_copy(). */
static int write_piece(struct treadle_push *push, struct treadle_frame *frame, u64 at, u32 bytes,
		       struct treadle_run *run)
{
	struct treadle_wire_data *data;
	struct treadle_wire_cmd *w;
	u64 done = 0;
	u8 *to;

	if (push->cmd->d.opcode == TREADLE_OP_WRITE) {
		w = treadle_remote_cmd(push->s, frame, push->cmd, at, bytes);
		w->item.reference = cpu_to_le32(push->reference);
		w->from = cpu_to_le32(push->from);
		to = (u8 *)((struct treadle_wire_range *)(w + 1) + w->ranges);
	} else {
		data = treadle_frame_item(frame, TREADLE_WIRE_DATA, sizeof(*data) + bytes,
					  push->reference);
		data->offset = cpu_to_le64(at);
		to = (u8 *)(data + 1);
	}
	/* a frame is held: no page is waited for */
	return treadle_cmd_read(push->cmd, to, at, &done, bytes, true, run);
}

/* Has the session room for the next piece? Takes what it needs. */
static bool take_room(struct treadle_push *push, struct treadle_frame **frame)
{
	struct treadle_session *s = push->s;
	bool credit = treadle_opdefs[push->cmd->d.opcode].remote;

	lockdep_assert_held(&s->lock);
	if (!s->up || (credit && s->window.used == s->window.granted))
		return false;
	*frame = treadle_session_frame(s, true);
	return *frame;
}

/*
 * Send the next piece, if @end allows one. May sleep; takes s->lock. TREADLE_GO_ON: sent, or there
 * was none; TREADLE_KEPT: there is no room, and @push waits; or why it can't be read.
 */
static int send_piece(struct treadle_push *push, struct treadle_run *run)
{
	const struct treadle_desc *d = &push->cmd->d;
	struct treadle_session *s = push->s;
	struct treadle_frame *frame;
	struct treadle_span src;
	u32 bytes;
	u64 at;
	int ret;

	spin_lock(&s->lock);
	at = push->next; /* a GRANT may change it meanwhile */
	bytes = min_t(u64, push->end - at, treadle_piece(d->len, at));
	spin_unlock(&s->lock);
	if (!bytes)
		return TREADLE_GO_ON;
	treadle_cmd_span(push->cmd, &src, at);
	ret = treadle_span_prepare(&src, bytes, false, run);
	if (ret)
		return ret;
	spin_lock(&s->lock);
	if (!take_room(push, &frame)) {
		idle(push, true);
		spin_unlock(&s->lock);
		return TREADLE_KEPT;
	}
	spin_unlock(&s->lock);
	ret = write_piece(push, frame, at, bytes, run);
	spin_lock(&s->lock);
	if (!ret && !push->ended) {
		if (d->opcode == TREADLE_OP_WRITE)
			ret = treadle_window_use_command(&s->window) ? 0 : -EAGAIN;
	} else if (!ret) {
		ret = -EAGAIN;
	}
	if (ret) {
		treadle_session_unframe(s, frame);
	} else {
		treadle_session_post(s, frame);
		treadle_session_flush(s);
		if (push->next == at)
			push->next += bytes;
	}
	spin_unlock(&s->lock);
	return ret;
}

/* Ask for the next piece of a READ. Returns as send_piece(). */
static int ask_piece(struct treadle_push *push)
{
	struct treadle_session *s = push->s;
	struct treadle_wire_cmd *w = NULL;

	spin_lock(&s->lock);
	if (!push->ended && s->up && s->window.used != s->window.granted)
		w = treadle_remote_cmd(s, NULL, push->cmd, push->next, 0);
	if (w) {
		treadle_window_use_command(&s->window);
		w->item.reference = cpu_to_le32(push->reference);
		w->from = cpu_to_le32(push->from);
		push->next += treadle_piece(push->cmd->d.len, push->next);
		treadle_session_flush(s);
	} else {
		idle(push, true);
	}
	spin_unlock(&s->lock);
	return w ? TREADLE_GO_ON : TREADLE_KEPT;
}

/* Bytes are in place. Returns true if these were the last. */
static bool landed(struct treadle_push *push, u32 bytes)
{
	u64 len = push->cmd->d.len;

	lockdep_assert_held(&push->s->lock);
	push->landed += bytes;
	push->end = min_t(u64, len, push->landed + READ_AT_ONCE * TREADLE_WIRE_PIECE);
	if (push->next < push->end)
		activate(push);
	return push->landed == len;
}

/* Place the first late piece. 1: there is none; 0; or an error, as treadle_copy(). */
static int place_late(struct treadle_push *push, bool *last, struct treadle_run *run)
{
	struct treadle_session *s = push->s;
	struct late *late;
	int ret;

	spin_lock(&s->lock);
	late = list_first_entry_or_null(&push->late, struct late, link);
	spin_unlock(&s->lock);
	if (!late)
		return 1;
	ret = treadle_sent_place(push->cmd, late->bytes, &late->done, late->len, late->offset, run);
	if (ret)
		return ret;
	spin_lock(&s->lock);
	list_del(&late->link);
	*last = landed(push, late->len);
	spin_unlock(&s->lock);
	kfree(late);
	return 0;
}

/* The last piece was sent: later commands to the same peer may be. */
static void release_flow(struct treadle_push *push, struct treadle_run *run)
{
	struct treadle_cmd *cmd = push->cmd;
	enum treadle_track tracked = cmd->tracked;

	if (!tracked)
		return;
	cmd->tracked = TREADLE_UNTRACKED;
	treadle_flow_done(cmd->ep, cmd->dest, tracked, run);
}

/*
 * One step. TREADLE_GO_ON; TREADLE_KEPT: nothing more is to be done now; TREADLE_DEFER_HERE: try
 * again later; or the error with which the command ends.
 */
static int step(struct treadle_push *push, struct treadle_run *run)
{
	struct treadle_session *s = push->s;
	bool read = push->cmd->d.opcode == TREADLE_OP_READ, last = false;
	int ret;

	spin_lock(&s->lock);
	if (push->ended || (push->next >= push->end && list_empty(&push->late))) {
		bool sent = push->next == push->cmd->d.len;

		spin_unlock(&s->lock);
		if (sent) /* before this user is gone, and with it, maybe, the command */
			release_flow(push, run);
		spin_lock(&s->lock);
		if (push->ended || (push->next >= push->end && list_empty(&push->late))) {
			idle(push, false);
			spin_unlock(&s->lock);
			return TREADLE_KEPT;
		}
	}
	spin_unlock(&s->lock);
	ret = read ? place_late(push, &last, run) : 1;
	if (last) {
		treadle_remote_end_push(s, push->reference, 0, run);
		return TREADLE_GO_ON;
	}
	/* a GRANT may change both: send_piece() looks again, under the lock */
	if (ret == 1 && READ_ONCE(push->next) < READ_ONCE(push->end))
		ret = read ? ask_piece(push) : send_piece(push, run);
	else if (ret == 1)
		ret = TREADLE_GO_ON;
	if (ret == -EAGAIN || ret == -EINPROGRESS)
		return TREADLE_DEFER_HERE;
	return ret == -ESHUTDOWN ? treadle_ep_error(push->cmd->ep) : ret;
}

/* The bytes can't be read or written: tell the other node, then end the command. */
static void push_fail(struct treadle_push *push, struct treadle_run *run)
{
	struct treadle_session *s = push->s;
	u32 reference = push->reference;
	bool told = true;

	spin_lock(&s->lock);
	if (!push->ended && s->begun)
		told = abort_at_peer(push);
	idle(push, !told);
	spin_unlock(&s->lock);
	if (told)
		treadle_remote_end_push(s, reference, push->failed, run);
}

static void push_job(struct treadle_job *job, struct treadle_run *run)
{
	struct treadle_push *push = container_of(job, struct treadle_push, job);
	int i, ret = TREADLE_GO_ON;

	for (i = 0; i < BATCH && ret == TREADLE_GO_ON && !push->failed; i++)
		ret = step(push, run);
	if (ret < 0)
		push->failed = ret;
	if (push->failed)
		push_fail(push, run);
	else if (ret != TREADLE_KEPT) {
		treadle_queue_job(job);
		return;
	}
	drop_user(push, run);
}

/* --- what arrives ------------------------------------------------------------------------- */

/* A push for the message with @reference, which has none yet. May sleep. */
static void make_push(struct treadle_session *s, u32 reference)
{
	struct treadle_push *push;
	struct treadle_sent *sent;
	struct mem_cgroup *old;
	struct treadle_ep *ep;

	spin_lock(&s->lock);
	sent = treadle_sent_find(s, reference);
	ep = sent ? treadle_ep_get(sent->cmd->ep) : NULL;
	spin_unlock(&s->lock);
	if (!ep)
		return;
	old = set_active_memcg(ep->obj.ctx->memcg);
	push = kzalloc(sizeof(*push), TREADLE_GFP_BEYOND);
	set_active_memcg(old);
	spin_lock(&s->lock);
	sent = treadle_sent_find(s, reference);
	if (push && sent && !sent->push) {
		push_init(push, s, sent->cmd);
		kref_get(&s->ref);
		push->reference = reference;
		sent->push = push;
		push = NULL;
	}
	spin_unlock(&s->lock);
	kfree(push);
	treadle_ep_put(ep);
}

/**
 * treadle_push_grant - the other node can take bytes of a message
 * @s:		the session
 * @view:	GRANT; of a command that has ended, it means nothing
 * @run:	of the caller
 *
 * Context: May sleep. Takes s->lock.
 * Return: 0, or an error: the session has to end.
 */
int treadle_push_grant(struct treadle_session *s, const struct treadle_wire_view *view,
		       struct treadle_run *run)
{
	const struct treadle_wire_grant *w = (const struct treadle_wire_grant *)view->item;
	u64 from = le64_to_cpu(w->offset), end = le64_to_cpu(w->end);
	u32 reference = le32_to_cpu(w->item.reference);
	struct treadle_sent *sent;
	bool made = true;
	int ret = 0;

	spin_lock(&s->lock);
	sent = treadle_sent_find(s, reference);
	if (sent && !sent->push) {
		spin_unlock(&s->lock);
		make_push(s, reference);
		spin_lock(&s->lock);
		sent = treadle_sent_find(s, reference);
		made = !sent || sent->push;
	}
	if (sent && sent->push && sent->cmd->d.opcode <= TREADLE_OP_TSEND && from <= end &&
	    end <= sent->cmd->d.len) {
		WRITE_ONCE(sent->push->next, from); /* step() reads them without the lock */
		WRITE_ONCE(sent->push->end, end);
		activate(sent->push);
	}
	if (!sent || !made) /* the other node must not wait for bytes */
		ret = treadle_sent_abort(s, reference, made ? ECONNRESET : ENOMEM);
	spin_unlock(&s->lock);
	if (!made)
		treadle_remote_end_push(s, reference, -ENOMEM, run);
	return ret;
}

/* Keep a piece until its page is there. False: no memory. May sleep. */
static bool keep_late(struct treadle_push *push, const struct treadle_wire_view *view, u64 offset,
		      u64 done)
{
	struct mem_cgroup *old = set_active_memcg(push->cmd->ep->obj.ctx->memcg);
	struct late *late = kmalloc(struct_size(late, bytes, view->bytes), TREADLE_GFP_OTHER);

	set_active_memcg(old);
	if (!late)
		return false;
	late->offset = offset;
	late->done = done;
	late->len = view->bytes;
	memcpy(late->bytes, view->payload, view->bytes);
	spin_lock(&push->s->lock);
	list_add_tail(&late->link, &push->late);
	activate(push);
	spin_unlock(&push->s->lock);
	return true;
}

/**
 * treadle_push_data - a piece of a READ has arrived
 * @s:		the session
 * @view:	ANSWER_DATA; of a command that has ended, it means nothing
 * @run:	of the caller
 *
 * Context: May sleep. Takes s->lock.
 */
void treadle_push_data(struct treadle_session *s, const struct treadle_wire_view *view,
		       struct treadle_run *run)
{
	const struct treadle_wire_data *w = (const struct treadle_wire_data *)view->item;
	u32 reference = le32_to_cpu(w->item.reference);
	struct treadle_push *push = NULL;
	struct treadle_sent *sent;
	u64 offset = le64_to_cpu(w->offset), done = 0;
	bool late, last = false;
	int ret = -EAGAIN;

	spin_lock(&s->lock);
	sent = treadle_sent_find(s, reference);
	if (sent && sent->push && sent->cmd->d.opcode == TREADLE_OP_READ &&
	    sent->push->arrived == offset && offset < sent->push->next &&
	    view->bytes == treadle_piece(sent->cmd->d.len, offset)) {
		push = sent->push;
		push->users++;
		push->arrived += view->bytes;
		late = !list_empty(&push->late);
	}
	spin_unlock(&s->lock);
	if (!push)
		return;
	if (!late)
		ret = treadle_sent_place(push->cmd, view->payload, &done, view->bytes, offset, run);
	if (ret == -EAGAIN || ret == -EINPROGRESS) {
		ret = keep_late(push, view, offset, done) ? 0 : -ENOMEM;
	} else if (!ret) {
		spin_lock(&s->lock);
		last = landed(push, view->bytes);
		spin_unlock(&s->lock);
	}
	if (ret || last)
		treadle_remote_end_push(s, reference,
					ret == -ESHUTDOWN ? treadle_ep_error(push->cmd->ep) : ret,
					run);
	drop_user(push, run);
}
