// SPDX-License-Identifier: GPL-2.0
/*
 * treadle: commands from other nodes: how they are executed, and how they end
 *
 * They are executed as commands of this node are (op_msg.c, op_rma.c, op_atomic.c). A command is
 * on the stack of the arrival of its frame, and its bytes are in the frame: cmd->inject points
 * there. If it has to go on elsewhere, it leaves the stack, and its bytes are copied; those of a
 * message that is not injected are dropped, and fetched once there is a receive (pull.c).
 *
 * d.context is the reference, d.addr the offset of a piece, and cmd->slots the credit: 1 until it
 * is given back. A command ends with DONE; a piece of a READ with ANSWER_DATA, one of a WRITE, that
 * is not the last, with nothing.
 */
#include <linux/nospec.h>
#include <linux/slab.h>

#include "path/remote.h"

static bool is_message(const struct treadle_desc *d)
{
	return d->opcode == TREADLE_OP_SEND || d->opcode == TREADLE_OP_TSEND;
}

/* Bytes at cmd->inject. */
static u32 bytes_of(const struct treadle_cmd *cmd)
{
	const struct treadle_desc *d = &cmd->d;

	if (d->opcode == TREADLE_OP_READ || d->opcode == TREADLE_OP_WRITE)
		return treadle_cmd_end(cmd) - treadle_cmd_begin(cmd);
	return d->opcode == TREADLE_OP_COMPARE ? 2 * d->len : d->len;
}

/* A command leaves the arrival's stack, and its frame: see the top of the file. */
static int proxy_leave(struct treadle_cmd *cmd, struct treadle_run *run)
{
	u32 len = bytes_of(cmd);
	u8 *copy;

	if (cmd->d.flags & TREADLE_F_PULL)
		return 0;
	if (is_message(&cmd->d) && !(cmd->d.flags & TREADLE_F_INJECT) && len &&
	    cmd->ep->type != TREADLE_EP_DGRAM) {
		cmd->d.flags |= TREADLE_F_PULL | TREADLE_F_DELIVERY_COMPLETE;
		cmd->inject = NULL;
		return 0;
	}
	copy = treadle_cmd_alloc(cmd, len, TREADLE_GFP, run);
	if (!copy) {
		cmd->inject = NULL;
		return -ENOMEM;
	}
	memcpy(copy, cmd->inject, len);
	cmd->inject = copy;
	return 0;
}

/* What the other node is to be told; *needs: whether it is told anything. */
static struct treadle_answer answer_of(const struct treadle_cmd *cmd, int error, bool *needs)
{
	const struct treadle_desc *d = &cmd->d;
	bool last = !treadle_op_remote(d->opcode) || treadle_cmd_end(cmd) == d->len;
	struct treadle_answer a = { .reference = d->context, .error = error };
	bool read = d->opcode == TREADLE_OP_READ;

	if (!error && (read || d->opcode == TREADLE_OP_FETCH || d->opcode == TREADLE_OP_COMPARE)) {
		a.bytes = cmd->inject;
		a.len = read ? bytes_of(cmd) : d->len;
		a.piece = read && d->len > TREADLE_WIRE_PIECE;
		a.offset = treadle_cmd_begin(cmd);
	}
	*needs = a.reference && (error || last || a.piece);
	return a;
}

/* Write DONE with @len bytes, and give back the credit. NULL: there is no room. */
static struct treadle_wire_done *write_done(struct treadle_session *s, u32 reference, int error,
					    u32 len)
{
	struct treadle_wire_done *done;

	lockdep_assert_held(&s->lock);
	done = treadle_session_item(s, TREADLE_WIRE_DONE, sizeof(*done) + len, reference);
	if (!done)
		return NULL;
	done->status = cpu_to_le32(-error);
	done->zero = 0;
	treadle_window_offer(&s->window, 1);
	return done;
}

/* Write an answer, and give back the credit. False: there is no room. */
static bool write_answer(struct treadle_session *s, const struct treadle_answer *a)
{
	struct treadle_wire_data *data;
	struct treadle_wire_done *done;

	lockdep_assert_held(&s->lock);
	if (!a->piece) {
		done = write_done(s, a->reference, a->error, a->len);
		if (done)
			memcpy(done + 1, a->bytes, a->len);
		return done;
	}
	data = treadle_session_item(s, TREADLE_WIRE_ANSWER_DATA, sizeof(*data) + a->len,
				    a->reference);
	if (!data)
		return false;
	data->offset = cpu_to_le64(a->offset);
	memcpy(data + 1, a->bytes, a->len);
	treadle_window_offer(&s->window, 1);
	return true;
}

/* Keep an answer until there is room. Its bytes are its own. */
static void keep_answer(struct treadle_session *s, const struct treadle_answer *a)
{
	struct treadle_proxies *p = s->proxies;

	lockdep_assert_held(&s->lock);
	/* there are as many places as credits, and each answer has one */
	if (WARN_ON_ONCE(p->count == TREADLE_COMMANDS)) {
		kfree(a->bytes);
		return;
	}
	p->answers[(p->first + p->count++) % TREADLE_COMMANDS] = *a;
	treadle_session_starve(s);
}

/**
 * treadle_answer - answer a command that is not executed, and give back its credit
 * @s:		the session
 * @a:		without bytes; without a reference, only the credit is given back
 *
 * Context: arrivals of the session. Takes s->lock.
 */
void treadle_answer(struct treadle_session *s, const struct treadle_answer *a)
{
	spin_lock(&s->lock);
	if (!a->reference)
		treadle_window_offer(&s->window, 1);
	else if (s->proxies->count || !write_answer(s, a))
		keep_answer(s, a);
	spin_unlock(&s->lock);
}

/**
 * treadle_arrived_room - send the answers that had to wait
 * @s:		the session
 *
 * Context: takes s->lock.
 */
void treadle_arrived_room(struct treadle_session *s)
{
	struct treadle_proxies *p;

	spin_lock(&s->lock);
	p = s->proxies;
	while (p && p->count && write_answer(s, &p->answers[p->first])) {
		kfree(p->answers[p->first].bytes);
		p->first = (p->first + 1) % TREADLE_COMMANDS;
		p->count--;
	}
	if (p && p->count)
		treadle_session_starve(s);
	spin_unlock(&s->lock);
}

/*
 * Let @a have bytes of its own: those of @cmd, if that is on the heap. No memory: the command has
 * failed.
 */
static void own_bytes(struct treadle_answer *a, struct treadle_cmd *cmd)
{
	if (!a->bytes)
		return;
	if (cmd->heap) {
		cmd->inject = NULL;
		return;
	}
	a->bytes = kmemdup(a->bytes, a->len, TREADLE_GFP);
	if (a->bytes)
		return;
	*a = (struct treadle_answer){ .reference = a->reference, .error = -ENOMEM };
}

/* The place of a piece in proxies->cut; NULL: it is no piece. */
static u32 *cut_at(struct treadle_session *s, const struct treadle_desc *d)
{
	u32 i = ((u32)d->context & 0xffff) - 1;

	lockdep_assert_held(&s->lock);
	if (!treadle_op_remote(d->opcode) || d->len <= TREADLE_WIRE_PIECE || i >= TREADLE_COMMANDS)
		return NULL;
	return &s->proxies->cut[array_index_nospec(i, TREADLE_COMMANDS)];
}

/**
 * treadle_piece_is_cut - has an earlier piece of the READ or WRITE failed?
 * @cmd:	a command of another node; it is its turn
 *
 * The other node knows that already. The target must not hear of the last piece then.
 *
 * Context: takes s->lock.
 */
bool treadle_piece_is_cut(const struct treadle_cmd *cmd)
{
	struct treadle_proxy *proxy = treadle_proxy_of(cmd);
	struct treadle_session *s = proxy->session;
	bool is_cut = false;
	u32 *at;

	if (cmd->d.len <= TREADLE_WIRE_PIECE)
		return false;
	spin_lock(&s->lock);
	at = treadle_proxy_valid(proxy) ? cut_at(s, &cmd->d) : NULL;
	if (at && !cmd->d.addr)
		*at = 0; /* of an earlier command */
	else if (at)
		is_cut = *at == (u32)cmd->d.context;
	spin_unlock(&s->lock);
	return is_cut;
}

/* The same as answer() for a message that was received. False: nothing was done. */
static bool answer_message(const struct treadle_cmd *cmd)
{
	struct treadle_proxy *proxy = treadle_proxy_of(cmd);
	struct treadle_session *s = proxy->session;
	bool done = false;

	spin_lock(&s->lock);
	if (likely(treadle_proxy_valid(proxy) && cmd->d.context && !s->proxies->count)) {
		done = write_done(s, cmd->d.context, 0, 0);
		treadle_session_flush(s);
	}
	spin_unlock(&s->lock);
	return done;
}

/* Tell the other node what has become of @cmd, and give its credit back. */
static void answer(struct treadle_cmd *cmd, int error)
{
	struct treadle_proxy *proxy = treadle_proxy_of(cmd);
	struct treadle_session *s = proxy->session;
	bool needs, done = false, owned = false;
	struct treadle_answer a = answer_of(cmd, error, &needs);
	u32 *at;

	while (!done) {
		spin_lock(&s->lock);
		done = true;
		at = needs && error && treadle_proxy_valid(proxy) ? cut_at(s, &cmd->d) : NULL;
		if (at)
			*at = a.reference;
		if (!treadle_proxy_valid(proxy)) {
			if (owned)
				kfree(a.bytes);
		} else if (!needs) {
			treadle_window_offer(&s->window, 1);
		} else if (s->proxies->count || !write_answer(s, &a)) {
			done = owned || !a.bytes;
			if (done)
				keep_answer(s, &a);
		} else if (owned) {
			kfree(a.bytes);
		}
		treadle_session_flush(s);
		spin_unlock(&s->lock);
		if (!done)
			own_bytes(&a, cmd);
		owned = true;
	}
	cmd->slots = 0;
}

/* A command has ended. Consumes it. */
static void proxy_complete(struct treadle_cmd *cmd, int error, struct treadle_run *run)
{
	enum treadle_track tracked = cmd->tracked;
	struct treadle_ep *ep = cmd->ep;
	u64 dest = cmd->dest;

	if (tracked) {
		treadle_ep_get(ep);
		cmd->tracked = TREADLE_UNTRACKED;
		if (tracked == TREADLE_CROWDED)
			tracked = treadle_flow_relax(ep, dest);
	}
	/* before the other node uses the reference again */
	if (cmd->heap && cmd->d.flags & TREADLE_F_PULL) {
		treadle_pull_release(cmd);
		kfree(cmd->own);
		cmd->own = NULL;
	}
	if (likely(!error && is_message(&cmd->d) && answer_message(cmd)))
		cmd->slots = 0;
	else
		answer(cmd, error);
	if (cmd->heap)
		treadle_cmd_free(cmd);
	else
		cmd->own = NULL; /* its bytes are in a frame, and it holds nothing */
	if (tracked) {
		treadle_flow_done(ep, dest, tracked, run);
		treadle_ep_put(ep);
	}
}

/* A command is freed: its bytes may be in a frame, and its credit may not have been given back. */
static void proxy_release(struct treadle_cmd *cmd)
{
	struct treadle_proxy *proxy = treadle_proxy_of(cmd);
	struct treadle_session *s = proxy->session;

	if (!cmd->heap) { /* proxy/arrive.c gives back the credit */
		cmd->own = NULL;
		return;
	}
	if (cmd->d.flags & TREADLE_F_PULL)
		treadle_pull_release(cmd);
	if (!cmd->slots)
		return;
	cmd->slots = 0;
	spin_lock(&s->lock);
	if (treadle_proxy_valid(proxy)) {
		treadle_window_offer(&s->window, 1);
		treadle_session_flush(s);
	}
	spin_unlock(&s->lock);
}

/* The ->complete of messages: the same as treadle_cmd_complete(), in fewer instructions. */
static void proxy_msg_complete(struct treadle_msg *msg, int error, struct treadle_run *run)
{
	if (likely(!error) && !trace_treadle_complete_enabled())
		proxy_complete(msg->cmd, 0, run);
	else
		treadle_cmd_complete(msg->cmd, error, run);
}

const struct treadle_msg_ops treadle_proxy_msg = {
	.fetch = treadle_pull_fetch,
	.complete = proxy_msg_complete,
	.park = treadle_local_park,
	.unpark = treadle_local_unpark,
};

const struct treadle_path_ops treadle_proxy_path = {
	.issue = {
		[TREADLE_OP_SEND ... TREADLE_OP_TSEND] = treadle_proxy_send_issue,
		[TREADLE_OP_READ ... TREADLE_OP_WRITE] = treadle_rma_issue,
		[TREADLE_OP_ATOMIC ... TREADLE_OP_COMPARE] = treadle_atomic_issue,
	},
	.withdraw = treadle_local_withdraw,
	.complete = proxy_complete,
	.leave = proxy_leave,
	.release = proxy_release,
};
