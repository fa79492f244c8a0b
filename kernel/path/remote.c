// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: commands go to other nodes
 *
 * A command is sent to the node of its peer, which executes it, and answers with DONE (sent.c).
 * Order and fences are the other node's: it executes what one endpoint sends in the order of the
 * frames. So commands are only tracked here while they are sent in pieces (push.c).
 */
#include <linux/slab.h>

#include "path/remote.h"

#define INLINE 512u /* so many bytes are read before the session is locked */

/*
 * struct outgoing - a command on its way into a frame
 * @cmd:	the command
 * @frame:	of its own, with its item; or NULL
 * @here:	its bytes are in @frame, @bytes or cmd->inject, or there are none. Else they go
 *		in pieces, or the peer asks for them
 */
struct outgoing {
	struct treadle_cmd *cmd;
	struct treadle_frame *frame;
	bool here;
	u8 bytes[INLINE];
};

/* Bytes that go along with a command: the operands of an atomic, then the comparands. */
static u64 payload(const struct treadle_desc *d)
{
	if (d->opcode == TREADLE_OP_READ)
		return 0;
	if (d->opcode == TREADLE_OP_COMPARE)
		return 2 * d->len;
	return d->opcode < TREADLE_OP_ATOMIC || d->iov_count ? d->len : 0;
}

/* A datagram that fits a frame is sent or dropped at once, and has no answer. */
static bool one_way(const struct treadle_cmd *cmd)
{
	return cmd->ep->type == TREADLE_EP_DGRAM && cmd->d.len <= TREADLE_WIRE_PIECE;
}

/* --- sending ------------------------------------------------------------------------------ */

/* How the other node executes a command. */
static u32 wire_flags(const struct treadle_desc *d)
{
	return d->flags &
	       (TREADLE_F_INJECT | TREADLE_F_REMOTE_CQ_DATA | TREADLE_F_DELIVERY_COMPLETE |
		TREADLE_F_FENCE | TREADLE_F_COLLECTIVE | TREADLE_F_FAILURE);
}

/**
 * treadle_remote_cmd - write a command, or a piece of one
 * @s:		the session; if @frame is NULL, its lock is held
 * @frame:	a frame of its own, or NULL
 * @cmd:	the command
 * @offset:	of the piece
 * @bytes:	of it, or of the payload
 *
 * The caller sets ->from and the reference.
 *
 * Context: any.
 * Return: the item; the payload is to be written at its end. NULL: the session has no room.
 */
struct treadle_wire_cmd *treadle_remote_cmd(struct treadle_session *s, struct treadle_frame *frame,
					    const struct treadle_cmd *cmd, u64 offset, u32 bytes)
{
	const struct treadle_desc *d = &cmd->d;
	const struct treadle_rma_iov *range = NULL;
	struct treadle_wire_range *to;
	struct treadle_wire_cmd *w;
	struct treadle_rma_iov one;
	unsigned int count = 0, i;
	u32 size;

	if (treadle_op_remote(d->opcode))
		range = treadle_cmd_rma(cmd, &one, &count);
	size = sizeof(*w) + count * sizeof(*to) + bytes;
	w = frame ? treadle_frame_item(frame, TREADLE_WIRE_CMD, size, 0) :
		    treadle_session_item(s, TREADLE_WIRE_CMD, size, 0);
	if (!w)
		return NULL;
	w->to = cpu_to_le32(treadle_source_port(treadle_dest_source(cmd->dest)) |
			    treadle_dest_context(cmd->dest) << 16);
	w->opcode = d->opcode;
	w->ranges = count;
	w->atomic_op = treadle_opdefs[d->opcode].atomic ? d->atomic_op : 0;
	w->atomic_type = treadle_opdefs[d->opcode].atomic ? d->datatype : 0;
	w->flags = cpu_to_le32(wire_flags(d));
	w->length = cpu_to_le64(d->len);
	w->offset = cpu_to_le64(offset);
	w->tag = cpu_to_le64(d->opcode == TREADLE_OP_TSEND ? d->tag : 0);
	w->data = cpu_to_le64(d->data);
	to = (struct treadle_wire_range *)(w + 1);
	for (i = 0; i < count; i++) {
		to[i].address = cpu_to_le64(range[i].addr);
		to[i].length = cpu_to_le64(range[i].len);
		to[i].key = cpu_to_le64(range[i].key);
	}
	return w;
}

/* Where the payload of a command begins. */
static u8 *payload_at(struct treadle_wire_cmd *w)
{
	return (u8 *)((struct treadle_wire_range *)(w + 1) + w->ranges);
}

/* Is there a frame, a credit and a place for a command? */
static bool may_start(const struct treadle_session *s)
{
	lockdep_assert_held(&s->lock);
	return s->up && s->remote->free < TREADLE_COMMANDS && s->window.used != s->window.granted;
}

/*
 * Send a command. @out: NULL: it was queued. False: there is no room. One without an answer is not
 * entered in the table.
 */
static bool start(struct treadle_session *s, struct treadle_cmd *cmd, const struct outgoing *out)
{
	bool here = cmd->inject || (out && out->here) || !payload(&cmd->d);
	u32 bytes = here ? payload(&cmd->d) : 0, handle;
	struct treadle_frame *frame = out ? out->frame : NULL;
	struct treadle_wire_cmd *w;

	lockdep_assert_held(&s->lock);
	/* @frame may be of an earlier session */
	if (!may_start(s) || (frame && !treadle_session_owns(s, frame)) ||
	    !treadle_remote_known(s, cmd->ep, &handle))
		return false;
	if (cmd->in_pieces) {
		struct treadle_push *push = cmd->own;

		cmd->own = NULL;
		cmd->in_pieces = false;
		treadle_sent_take(s, cmd)->push = push;
		if (trace_treadle_remote_send_enabled())
			treadle_trace_sent(s, cmd);
		treadle_push_start(push, cmd->reference, handle);
		return true;
	}
	if (frame)
		w = (struct treadle_wire_cmd *)(frame->head + 1);
	else
		w = treadle_remote_cmd(s, NULL, cmd, 0, bytes);
	if (!w)
		return false;
	treadle_window_use_command(&s->window);
	if (!one_way(cmd))
		treadle_sent_take(s, cmd);
	if (trace_treadle_remote_send_enabled())
		treadle_trace_sent(s, cmd);
	w->item.reference = cmd->sent ? cpu_to_le32(cmd->reference) : 0;
	w->from = cpu_to_le32(handle);
	if (frame)
		treadle_session_post(s, frame);
	else if (bytes)
		memcpy(payload_at(w), cmd->inject ?: out->bytes, bytes);
	return true;
}

/* Read all bytes of a command. Returns as treadle_cmd_read(), or the error of its endpoint. */
static int read_bytes(const struct treadle_cmd *cmd, u8 *to, bool holds, struct treadle_run *run)
{
	u64 done = 0;
	int ret = treadle_cmd_read(cmd, to, 0, &done, cmd->d.len, holds, run);

	return ret == -ESHUTDOWN ? treadle_ep_error(cmd->ep) : ret;
}

/*
 * Read the bytes of a command into a frame of its own. Returns as read_bytes(), or -ENOBUFS: there
 * is none.
 */
static int read_frame(struct outgoing *out, struct treadle_session *s, struct treadle_run *run)
{
	struct treadle_cmd *cmd = out->cmd;
	struct treadle_frame *frame = NULL;
	struct treadle_wire_cmd *w;
	int ret;

	spin_lock(&s->lock);
	if (s->remote && list_empty(&s->remote->queued) && may_start(s))
		frame = treadle_session_frame(s, true);
	spin_unlock(&s->lock);
	if (!frame)
		return -ENOBUFS;
	w = treadle_remote_cmd(s, frame, cmd, 0, cmd->d.len);
	ret = read_bytes(cmd, payload_at(w), true, run);
	if (!ret) {
		out->frame = frame;
		return 0;
	}
	spin_lock(&s->lock);
	treadle_session_unframe(s, frame);
	spin_unlock(&s->lock);
	return ret;
}

/* In the worker of a command's context: wait for the pages of its bytes. Elsewhere nothing. */
static int know_pages(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct treadle_span src;
	int ret;

	if (!run->worker || run->ctx != cmd->ep->obj.ctx)
		return 0;
	treadle_cmd_span(cmd, &src, 0);
	ret = treadle_span_prepare(&src, cmd->d.len, false, run);
	return ret == -ESHUTDOWN ? treadle_ep_error(cmd->ep) : ret;
}

/* Let a command go in pieces. Later commands to its peer wait until the last one was sent. */
static int split(struct treadle_cmd *cmd, struct treadle_session *s, struct treadle_run *run)
{
	if (!treadle_flow_track(cmd, TREADLE_AWAITED, run))
		return -ENOMEM;
	cmd->own = treadle_push_alloc(s, cmd, run);
	if (!cmd->own)
		return -ENOMEM;
	cmd->in_pieces = true;
	return 0;
}

/*
 * Read the bytes of a command if they are few and known, and move it to the heap. 0,
 * TREADLE_KEPT: the worker of its context does this; or an error.
 */
static int prepare(struct outgoing *out, struct treadle_session *s, struct treadle_run *run)
{
	const struct treadle_desc *d = &out->cmd->d;
	bool atomic = treadle_opdefs[d->opcode].atomic, write = d->opcode == TREADLE_OP_WRITE;
	bool whole = d->len <= TREADLE_WIRE_PIECE;
	bool lossy = one_way(out->cmd);
	int ret = 0;

	out->frame = NULL;
	if (atomic)
		ret = treadle_take_inject(out->cmd, run);
	else if (out->cmd->inject || d->flags & TREADLE_F_INJECT || !payload(d))
		; /* taken when the command leaves the stack */
	else if (d->len <= INLINE)
		ret = read_bytes(out->cmd, out->bytes, false, run);
	else if (whole)
		ret = (lossy ? know_pages(out->cmd, run) : 0) ?: read_frame(out, s, run);
	else
		ret = -ENOBUFS;
	out->here = !ret;
	if (ret == -EAGAIN || ret == -EINPROGRESS) {
		if (atomic || lossy)
			return treadle_cmd_issue_later(&out->cmd, run);
		ret = 0;
	}
	if (ret == -ENOBUFS) /* a one-way command is dropped then */
		ret = 0;
	ret = ret ?: treadle_cmd_leave(&out->cmd, TREADLE_UNTRACKED, run);
	d = &out->cmd->d;
	if (!ret && ((write && !out->here) || (d->opcode == TREADLE_OP_READ && !whole)))
		ret = split(out->cmd, s, run);
	return ret;
}

/* Bring the bytes of a command that has to be queued to where they can stay. 0 or an error. */
static int prepare_queue(struct outgoing *out, struct treadle_session *s, struct treadle_run *run)
{
	struct treadle_cmd *cmd = out->cmd;
	u64 bytes = payload(&cmd->d);

	if (out->frame) {
		spin_lock(&s->lock);
		treadle_session_unframe(s, out->frame);
		spin_unlock(&s->lock);
		out->frame = NULL;
		out->here = false;
		return cmd->d.opcode == TREADLE_OP_WRITE ? split(cmd, s, run) : 0;
	}
	cmd->inject = treadle_cmd_alloc(cmd, bytes, TREADLE_GFP, run);
	if (!cmd->inject)
		return -ENOMEM;
	memcpy(cmd->inject, out->bytes, bytes);
	return 0;
}

/* Can a command wait in the queue as it is? Not with its bytes in a frame or on the stack. */
static bool may_queue(const struct outgoing *out)
{
	const struct treadle_cmd *cmd = out->cmd;

	return !out->frame && (!out->here || cmd->inject || !payload(&cmd->d));
}

/*
 * Reserve a place for the host in ->hosts of an endpoint. A host that knows the endpoint has one:
 * an entry stays until the endpoint ends. 0 or -ENOMEM. May sleep.
 */
static int reserve_host(struct treadle_session *s, struct treadle_ep *ep, struct treadle_run *run)
{
	struct treadle_own_ep *own = treadle_own_ep(ep);

	if (likely(treadle_entry_fits(s->remote, READ_ONCE(own->known))) ||
	    xa_load(&own->hosts, s->id))
		return 0;
	treadle_run_let_go(run); /* the allocation may sleep */
	return xa_reserve(&own->hosts, s->id, TREADLE_GFP) ? -ENOMEM : 0;
}

/* Send a one-way command, or drop it; it succeeds in any case. */
static void send_datagram(struct outgoing *out, struct treadle_session *s, struct treadle_run *run)
{
	struct treadle_remote *r = s->remote;
	bool sent;

	spin_lock(&s->lock);
	sent = out->here && list_empty(&r->queued) && start(s, out->cmd, out);
	if (sent)
		treadle_session_flush(s);
	else
		treadle_session_connect(s);
	if (!sent && out->frame)
		treadle_session_unframe(s, out->frame);
	spin_unlock(&s->lock);
	treadle_sent_complete(out->cmd, 0, run);
	treadle_session_put(s);
}

/*
 * Send a command, or queue it. TREADLE_KEPT: it, and the reference of the session, are no more the
 * caller's. Or an error.
 */
static int send(struct outgoing *out, struct treadle_session *s, struct treadle_run *run)
{
	struct treadle_ep *from = out->cmd->ep;
	struct treadle_share *share;
	bool sent, kept;
	int ret;

	if (unlikely(!s->remote)) {
		treadle_run_let_go(run);
		if (!treadle_remote_alloc(s))
			return -ENOMEM;
	}
	if (reserve_host(s, from, run))
		return -ENOMEM;
	if (one_way(out->cmd)) {
		send_datagram(out, s, run);
		return TREADLE_KEPT;
	}
	for (;;) {
		spin_lock(&from->lock);
		if (from->dead || from->severed) {
			spin_unlock(&from->lock);
			return treadle_ep_error(from);
		}
		spin_lock(&s->lock);
		if (s->remote->ending) {
			spin_unlock(&s->lock);
			spin_unlock(&from->lock);
			return -EHOSTUNREACH;
		}
		share = treadle_share_of(s, out->cmd);
		sent = share && list_empty(&s->remote->queued) && treadle_share_open(s, share) &&
		       start(s, out->cmd, out);
		kept = sent || (share && may_queue(out));
		if (kept)
			treadle_wait_add(&from->parked, out->cmd);
		if (sent) {
			treadle_share_enter(s, share);
			treadle_session_flush(s);
		} else if (kept) {
			treadle_share_queue(s, share, out->cmd);
			treadle_session_starve(s);
			treadle_session_connect(s);
		}
		spin_unlock(&s->lock);
		spin_unlock(&from->lock);
		if (kept)
			return TREADLE_KEPT;
		if (!share)
			treadle_run_let_go(run);
		ret = share ? prepare_queue(out, s, run) : treadle_share_add(s, out->cmd);
		if (ret)
			return ret;
	}
}

/* End a command that can't be sent. Consumes it. */
static void fail(struct treadle_cmd *cmd, int why, struct treadle_run *run)
{
	treadle_sent_whole(cmd);
	if (why == -ENOMEM && (cmd->d.flags & TREADLE_F_FAILURE))
		treadle_cmd_fail_later(cmd, run);
	else if (cmd->ep->type == TREADLE_EP_DGRAM && (why == -ENOMEM || why == -EHOSTUNREACH))
		treadle_sent_complete(cmd, 0, run); /* it is dropped */
	else if (why == -EHOSTUNREACH)
		treadle_cmd_complete(cmd, why, run);
	else
		treadle_cmd_fail(cmd, why, run);
}

/*
 * The session with the node of the target, held. The end of a connection says by its proxy where
 * that is. Returns an ERR_PTR() otherwise.
 */
static struct treadle_session *session_of(struct treadle_cmd *cmd)
{
	struct treadle_session *s;
	struct treadle_ep *to;

	if (cmd->ep->type == TREADLE_EP_MSG) {
		to = treadle_conn_peer(cmd->ep);
		if (IS_ERR(to))
			return ERR_CAST(to);
		s = container_of(to, struct treadle_proxy, ep)->session;
		kref_get(&s->ref);
		/* only for the flow, and to find the session again */
		cmd->dest =
			treadle_dest(treadle_source(s->id, treadle_source_port(to->id.source)), 0);
		treadle_ep_put(to);
		return s;
	}
	if (cmd->route)
		return ERR_PTR(cmd->route);
	s = treadle_session_get(cmd->ep->obj.ctx->net,
				treadle_source_host(treadle_dest_source(cmd->dest)));
	return s ?: ERR_PTR(-EHOSTUNREACH);
}

/* Start a command for another node. Consumes it. May sleep. */
static void remote_issue(struct treadle_cmd *cmd, struct treadle_run *run)
{
	struct outgoing out TREADLE_UNSET;
	struct treadle_session *s;
	int verdict;

	if (unlikely(READ_ONCE(cmd->ep->dead))) { /* closed while it was armed */
		treadle_cmd_free(cmd);
		return;
	}
	out.cmd = cmd;
	out.frame = NULL;
	s = session_of(cmd); /* says where it goes, by which its flow is found */
	if (IS_ERR(s)) {
		fail(cmd, PTR_ERR(s), run);
		return;
	}
	verdict = treadle_flow_admit(&out.cmd, run);
	if (verdict == TREADLE_GO_ON) {
		verdict = prepare(&out, s, run);
		if (!verdict) {
			verdict = send(&out, s, run);
			if (verdict == TREADLE_KEPT)
				return; /* with the session's reference */
		}
		if (out.frame) {
			spin_lock(&s->lock);
			treadle_session_unframe(s, out.frame);
			treadle_session_flush(s);
			spin_unlock(&s->lock);
		}
	}
	treadle_session_put(s);
	if (verdict != TREADLE_KEPT)
		fail(out.cmd, verdict, run);
}

/* --- the session has room again ------------------------------------------------------------ */

/**
 * treadle_remote_room - go on with what has waited for frames or credits
 * @s:		the session
 *
 * Context: takes s->lock.
 */
void treadle_remote_room(struct treadle_session *s)
{
	struct treadle_remote *r = s->remote;
	struct treadle_push *push;
	struct treadle_cmd *cmd;
	u32 i;

	if (!r)
		return;
	spin_lock(&s->lock);
	treadle_sent_tell(s);
	treadle_shares_go_on(s);
	while ((cmd = list_first_entry_or_null(&r->queued, struct treadle_cmd, wait))) {
		list_del(&cmd->wait); /* its place has the reference, once it is sent */
		if (start(s, cmd, NULL)) {
			s->queued--;
			continue;
		}
		list_add(&cmd->wait, &r->queued);
		break;
	}
	/* each of them takes a frame, or comes back */
	for (i = TREADLE_ROOM; i && !list_empty(&r->waiting); i--) {
		push = list_first_entry(&r->waiting, struct treadle_push, wait);
		treadle_push_go_on(push);
	}
	treadle_session_flush(s);
	if (cmd || !list_empty(&r->held) || r->nr_gone || r->asks || r->aborts ||
	    !list_empty(&r->waiting))
		treadle_session_starve(s);
	spin_unlock(&s->lock);
}

const struct treadle_path_ops treadle_remote_path = {
	.issue = {
		[TREADLE_OP_SEND ... TREADLE_OP_TSEND] = remote_issue,
		[TREADLE_OP_READ ... TREADLE_OP_COMPARE] = remote_issue,
	},
	.withdraw = treadle_sent_withdraw,
};
